//! A sketch as an implementation of a task's graph.

use crate::designer::Design;
use crate::dtype::DType;
use crate::expr::Expr;
use crate::graph::{Graph, ValueId};
use crate::sketch::cost;
use crate::source::{Held, LaunchPlan, PlanTensor, TensorRole};
use crate::target::Target;
use crate::task::Task;
use crate::verdict::{Failure, FailureKind};

/// See [`Outcome::bound_seconds`](super::Outcome::bound_seconds).
pub(super) fn bound(task: &Task, design: &Design, target: &Target) -> Option<f64> {
    if target.bandwidth <= 0.0 {
        return None;
    }
    let hints = &task.contract.hints;
    let bytes = task.traffic().ok()?.saturating_sub(task.kept().ok()?);
    let program = design.sketch.elaborate(&design.knobs, hints).ok()?;
    let cost = cost(&program, hints, target).ok()?;
    let is_measured = target.peak.get(&DType::F32).is_some_and(|peak| *peak > 0.0);
    let products: f64 = cost.kernels.iter().map(|k| k.dot_seconds).sum();
    Some((bytes as f64 / target.bandwidth).max(if is_measured { products } else { 0.0 }))
}

/// Gives the plan's inputs and outputs the shapes of the task's graph, and its scratch tensors the names of what they
/// hold: sketches regroup extents, which changes neither the number nor the order of elements.
///
/// # Errors
/// A sketch that is not one of the task's inputs and outputs.
pub fn present(plan: &mut LaunchPlan, task: &Task, design: &Design) -> Result<(), Failure> {
    for tensor in plan.tensors.iter_mut().filter(|t| t.role == TensorRole::Scratch) {
        let name = design.intermediates.get(&tensor.name).cloned();
        tensor.holds = name.map(|name| match design.rules.as_slice() {
            [] => Held::Own(name),
            _ => Held::Rewritten { rewritten: name },
        });
    }
    shape(plan, task)
}

/// Gives the plan's inputs and outputs the shapes of the task's graph.
///
/// # Errors
/// As [`present`].
pub(super) fn shape(plan: &mut LaunchPlan, task: &Task) -> Result<(), Failure> {
    for (role, values) in roles(&task.graph) {
        let mut tensors: Vec<_> = plan.tensors.iter_mut().filter(|t| t.role == role).collect();
        if let Some(wrong) = mismatch(tensors.iter().map(|t| &**t), role, &values, &task.graph) {
            return Err(Failure::new(FailureKind::WrongType, wrong));
        }
        for (tensor, value) in tensors.iter_mut().zip(values) {
            tensor.shape.clone_from(&task.graph.ty(value).shape);
        }
    }
    Ok(())
}

/// What the tensors of a sketch hold that have a role, in order.
pub(crate) fn roles(graph: &Graph) -> [(TensorRole, Vec<ValueId>); 2] {
    let outputs = graph.outputs().iter().map(|o| o.value);
    [
        (TensorRole::Input, graph.given().collect()),
        (TensorRole::Output, outputs.collect()),
    ]
}

/// Why tensors of a role do not hold `values`, if they do not.
pub(crate) fn mismatch<'t>(
    tensors: impl Iterator<Item = &'t PlanTensor>,
    role: TensorRole,
    values: &[ValueId],
    graph: &Graph,
) -> Option<String> {
    let tensors: Vec<_> = tensors.collect();
    if tensors.len() != values.len() {
        return Some(format!(
            "there are {} {role:?} tensors but the graph has {}",
            tensors.len(),
            values.len()
        ));
    }
    let count = |shape: &[Expr]| shape.iter().fold(Expr::constant(1), |n, d| &n * d);
    tensors.iter().zip(values).find_map(|(tensor, value)| {
        let ty = graph.ty(*value);
        let differs = tensor.dtype != ty.dtype || count(&tensor.shape) != count(&ty.shape);
        differs.then(|| {
            format!(
                "the tensor `{}` does not hold the elements of `{}`: {ty}",
                tensor.name,
                graph.value_name(*value)
            )
        })
    })
}
