//! Plans that cannot be executed on the tensors of a task.

use super::hidden;
use crate::expr::{Bindings, Expr};
use crate::source::{LaunchPlan, MAX_ALIGN, TensorRole};
use crate::task::Task;
use crate::verdict::{Failure, FailureKind};

/// The sizes need not be those that are checked, as long as they are possible.
const ANY_SECRET: u64 = 0;

/// The failure of a plan that takes other inputs than the task gives, or whose sizes have no values. Sizes are tried at the hints,
/// near them and over the ranges. Outputs are compared after a run.
pub(super) fn misfit(plan: &LaunchPlan, task: &Task) -> Option<Failure> {
    let failure = |kind, evidence: String| Some(Failure::new(kind, evidence));
    for tensor in &plan.tensors {
        if !tensor.align.max(1).is_power_of_two() || tensor.align > MAX_ALIGN {
            let evidence = format!(
                "tensor `{}` is to be aligned to {} bytes; powers of two up to {MAX_ALIGN} are possible",
                tensor.name, tensor.align
            );
            return failure(FailureKind::LoadFailed, evidence);
        }
    }
    if let Err(error) = plan.check_updates() {
        return failure(FailureKind::LoadFailed, error.message().to_owned());
    }
    if let Some(evidence) = plan.foreign_update(&task.graph) {
        return failure(FailureKind::WrongType, evidence);
    }
    let inputs: Vec<_> = plan.with_role(TensorRole::Input).collect();
    let given: Vec<_> = task.graph.given().map(|value| task.graph.ty(value)).collect();
    if inputs.len() != given.len() {
        let evidence = format!(
            "the plan takes {} inputs, and the task gives {}",
            inputs.len(),
            given.len()
        );
        return failure(FailureKind::WrongType, evidence);
    }
    for dims in sizes(task) {
        if let Err(evidence) = has_sizes(plan, &dims) {
            return failure(FailureKind::LoadFailed, evidence);
        }
        for ((_, tensor), ty) in inputs.iter().zip(&given) {
            if tensor.dtype != ty.dtype || !is_same(&tensor.shape, &ty.shape, &dims) {
                let shape: Vec<String> = tensor.shape.iter().map(ToString::to_string).collect();
                let evidence = format!(
                    "input `{}` of the plan is {}[{}], and the task gives {ty}",
                    tensor.name,
                    tensor.dtype,
                    shape.join(", ")
                );
                return failure(FailureKind::WrongType, evidence);
            }
        }
    }
    None
}

/// Values of the task's dims: the hints, and sizes like those that are checked.
fn sizes(task: &Task) -> Vec<Bindings> {
    let mut sizes = vec![task.contract.hints.clone()];
    sizes.extend(hidden::sizes(task, ANY_SECRET));
    sizes.extend(hidden::far_sizes(task, ANY_SECRET).sizes);
    sizes
}

/// Checks that every dim, extent and grid has a value, and that no extent is negative.
fn has_sizes(plan: &LaunchPlan, dims: &Bindings) -> Result<(), String> {
    if let Some(unknown) = plan.dims.iter().find(|dim| !dims.contains_key(*dim)) {
        return Err(format!("the task has no dim `{unknown}`, which the plan takes"));
    }
    for tensor in &plan.tensors {
        for extent in &tensor.shape {
            let value = extent
                .eval(dims)
                .map_err(|error| format!("tensor `{}`: {error}", tensor.name))?;
            if value < 0 {
                return Err(format!(
                    "extent `{extent}` of tensor `{}` is {value}",
                    tensor.name
                ));
            }
        }
    }
    for launch in &plan.launches {
        for extent in &launch.grid {
            extent
                .eval(dims)
                .map_err(|error| format!("the grid of kernel `{}`: {error}", launch.kernel))?;
        }
    }
    Ok(())
}

/// Returns true if two shapes are the same under these dims.
fn is_same(one: &[Expr], other: &[Expr], dims: &Bindings) -> bool {
    let value = |extent: &Expr| extent.eval(dims).ok();
    one == other || one.len() == other.len() && one.iter().zip(other).all(|(a, b)| value(a) == value(b))
}
