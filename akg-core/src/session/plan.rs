//! A sketch as an implementation of a task's graph.

use crate::designer::Design;
use crate::dtype::DType;
use crate::sketch::cost;
use crate::source::{Held, LaunchPlan, TensorRole};
use crate::target::Target;
use crate::task::Task;
use crate::verdict::{Failure, FailureKind};

/// See [`Outcome::bound_seconds`](super::Outcome::bound_seconds).
pub(super) fn bound(task: &Task, design: &Design, target: &Target) -> Option<f64> {
    if target.bandwidth <= 0.0 {
        return None;
    }
    let hints = &task.contract.hints;
    let bytes = task.traffic().ok()?;
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
    let wrong = |evidence| Err(Failure::new(FailureKind::WrongType, evidence));
    for tensor in plan.tensors.iter_mut().filter(|t| t.role == TensorRole::Scratch) {
        let name = design.intermediates.get(&tensor.name).cloned();
        tensor.holds = name.map(|name| match design.rules.as_slice() {
            [] => Held::Own(name),
            _ => Held::Rewritten { rewritten: name },
        });
    }
    let graph = &task.graph;
    let outputs = graph.outputs().iter().map(|o| o.value);
    for (role, values) in [
        (TensorRole::Input, graph.given().collect::<Vec<_>>()),
        (TensorRole::Output, outputs.collect()),
    ] {
        let mut tensors: Vec<_> = plan.tensors.iter_mut().filter(|t| t.role == role).collect();
        if tensors.len() != values.len() {
            return wrong(format!(
                "the sketch has {} {role:?} tensors but the graph has {}",
                tensors.len(),
                values.len()
            ));
        }
        for (tensor, value) in tensors.iter_mut().zip(values) {
            let ty = graph.ty(value);
            let count = |shape: &[crate::Expr]| shape.iter().fold(crate::Expr::constant(1), |n, d| &n * d);
            if tensor.dtype != ty.dtype || count(&tensor.shape) != count(&ty.shape) {
                return wrong(format!(
                    "the sketch's tensor `{}` does not hold the elements of `{}`: {ty}",
                    tensor.name,
                    graph.value_name(value)
                ));
            }
            tensor.shape.clone_from(&ty.shape);
        }
    }
    Ok(())
}
