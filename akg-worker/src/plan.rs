//! What a launch plan comes to under given dims.

use akg_core::backend::Call;
use akg_core::error::{Error, Result};
use akg_core::expr::Bindings;
use akg_core::source::{LaunchPlan, PlanTensor, TensorRole};
use akg_core::tensor::{Tensor, byte_len};

/// The strictest alignment that memory maps have everywhere.
pub const MAX_ALIGN: usize = 4096;

/// The shape of each tensor of the plan.
///
/// # Errors
/// If a dim has no value or an extent is negative.
pub fn shapes(plan: &LaunchPlan, bindings: &Bindings) -> Result<Vec<Vec<usize>>> {
    let extents = |tensor: &akg_core::source::PlanTensor| {
        let extent = |e: &akg_core::Expr| {
            let value = e.eval(bindings)?;
            usize::try_from(value).map_err(|_| Error::invalid(format!("extent `{e}` is {value}")))
        };
        tensor
            .shape
            .iter()
            .map(extent)
            .collect::<Result<Vec<_>>>()
            .map_err(|e| e.with("tensor", &tensor.name))
    };
    plan.tensors.iter().map(extents).collect()
}

/// The values of the plan's dims, in order.
///
/// # Errors
/// If a dim has no value.
pub fn dims(plan: &LaunchPlan, bindings: &Bindings) -> Result<Vec<i64>> {
    let value = |name| {
        bindings
            .get(name)
            .copied()
            .ok_or_else(|| Error::invalid(format!("dim `{name}` of the plan has no value")))
    };
    plan.dims.iter().map(value).collect()
}

/// The number of threads of the largest cooperative launch.
///
/// # Errors
/// If a dim has no value or a grid has too many programs.
pub fn cooperative_threads(plan: &LaunchPlan, bindings: &Bindings) -> Result<u64> {
    let launches = plan.launches.iter().filter(|l| l.cooperative);
    launches
        .map(|l| LaunchPlan::programs(l, bindings))
        .try_fold(0, |most, programs| {
            Ok(most.max(u64::try_from(programs?).unwrap_or(0)))
        })
}

/// Checks what can be checked of a plan without dims.
///
/// # Errors
/// [`Unsupported`](akg_core::ErrorKind::Unsupported) for an alignment that memory cannot have.
pub fn check_tensors(plan: &LaunchPlan) -> Result<()> {
    for tensor in &plan.tensors {
        if !tensor.align.max(1).is_power_of_two() || tensor.align > MAX_ALIGN {
            return Err(Error::unsupported(format!(
                "tensor `{}` is to be aligned to {} bytes; powers of two up to {MAX_ALIGN} are possible",
                tensor.name, tensor.align
            )));
        }
    }
    Ok(())
}

/// Checks that a plan can be executed with these inputs; gives the shapes of its tensors.
///
/// # Errors
/// [`InvalidInput`](akg_core::ErrorKind::InvalidInput) if a dim has no value, or an input is missing, too many or of another
/// type or shape.
pub fn check(plan: &LaunchPlan, bindings: &Bindings, inputs: &[Tensor]) -> Result<Vec<Vec<usize>>> {
    dims(plan, bindings)?;
    let shapes = shapes(plan, bindings)?;
    for (tensor, shape) in plan.tensors.iter().zip(&shapes) {
        byte_len(tensor.dtype, shape).map_err(|e| e.with("tensor", &tensor.name))?;
    }
    let declared: Vec<_> = plan
        .with_role(TensorRole::Input)
        .zip(
            plan.tensors
                .iter()
                .zip(&shapes)
                .filter(|(t, _)| t.role == TensorRole::Input),
        )
        .map(|(_, pair)| pair)
        .collect();
    if declared.len() != inputs.len() {
        return Err(Error::invalid(format!(
            "the plan takes {} inputs, {} were given",
            declared.len(),
            inputs.len()
        )));
    }
    for ((tensor, shape), input) in declared.into_iter().zip(inputs) {
        if tensor.dtype != input.dtype() || shape != input.shape() {
            return Err(Error::invalid(format!(
                "input `{}` of the plan is {}{shape:?}, given was {input:?}",
                tensor.name, tensor.dtype
            )));
        }
    }
    Ok(shapes)
}

/// For each tensor of the plan, whether it is the same tensor in every call, so that the slots share it.
pub fn shared(plan: &LaunchPlan, calls: &[Call]) -> Vec<bool> {
    let mut inputs = 0..;
    let is_shared = |tensor: &PlanTensor| {
        let at = (tensor.role == TensorRole::Input)
            .then(|| inputs.next())
            .flatten();
        let of = |call: &Call| {
            at.and_then(|at: usize| call.inputs.get(at))
                .map(|t| t.bytes().as_ptr_range())
        };
        let mut places = calls.iter().map(of);
        let first = places.next().flatten();
        calls.len() > 1 && first.is_some() && places.all(|place| place == first)
    };
    plan.tensors.iter().map(is_shared).collect()
}
