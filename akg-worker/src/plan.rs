//! What a launch plan comes to under given dims.

use akg_core::backend::Call;
use akg_core::error::{Error, Result};
use akg_core::expr::Bindings;
use akg_core::source::{LaunchPlan, PlanTensor, TensorRole};
use akg_core::tensor::{Tensor, byte_len};
use akg_core::verdict::{Failure, FailureKind};

pub use akg_core::source::MAX_ALIGN;

/// Launches of a plan at most.
pub const MAX_LAUNCHES: usize = 1 << 16;

/// Tensors of a plan, and parameters of one of its kernels, at most.
pub const MAX_TENSORS: usize = 1 << 14;

/// Dims of a plan at most.
pub const MAX_DIMS: usize = 1 << 10;

/// Axes of a tensor or a grid at most.
pub const MAX_AXES: usize = 64;

/// Bytes of the name of a kernel or tensor at most.
pub const MAX_NAME: usize = 1 << 12;

/// Programs of all launches of a plan at most: a nanosecond for each is more than a quarter of an hour.
pub const MAX_PROGRAMS: u64 = 1 << 40;

/// Bytes of one scratch tensor at most, whatever the limit of memory.
pub const MAX_SCRATCH: u64 = 1 << 46;

/// The failure of a plan that has too much of something. Looks at the numbers first, so that it takes no longer for larger
/// plans.
pub fn too_large(plan: &LaunchPlan) -> Option<Failure> {
    let beyond = |what: &str, number: usize, limit: usize| {
        (number > limit).then(|| {
            let evidence = format!("the plan has {number} {what}; at most {limit} are possible");
            Failure::new(FailureKind::LoadFailed, evidence)
        })
    };
    let name = |name: &str| beyond("bytes in the name of a kernel or tensor", name.len(), MAX_NAME);
    beyond("launches", plan.launches.len(), MAX_LAUNCHES)
        .or_else(|| beyond("tensors", plan.tensors.len(), MAX_TENSORS))
        .or_else(|| beyond("dims", plan.dims.len(), MAX_DIMS))
        .or_else(|| {
            plan.tensors.iter().find_map(|tensor| {
                name(&tensor.name).or_else(|| beyond("axes of a tensor", tensor.shape.len(), MAX_AXES))
            })
        })
        .or_else(|| {
            plan.launches.iter().find_map(|launch| {
                let tensors = launch.tensors.len();
                name(&launch.kernel)
                    .or_else(|| beyond("axes of a grid", launch.grid.len(), MAX_AXES))
                    .or_else(|| beyond("tensors of a kernel", tensors, MAX_TENSORS))
            })
        })
}

/// The failure of a plan that has too much under given dims: programs, or scratch beyond any memory.
///
/// # Errors
/// If a dim has no value.
pub fn too_large_under(plan: &LaunchPlan, bindings: &Bindings) -> Result<Option<Failure>> {
    // The product of extents, or more than any limit.
    let product = |extents: &[akg_core::Expr]| {
        let mut product = 1u128;
        let mut is_empty = false;
        for extent in extents {
            let extent = extent.eval(bindings)?.max(0);
            is_empty |= extent == 0;
            product = product.saturating_mul(extent.unsigned_abs().into());
        }
        Ok::<_, Error>(if is_empty { 0 } else { product })
    };
    let mut programs = 0u128;
    for launch in &plan.launches {
        programs = programs.saturating_add(product(&launch.grid)?);
        if programs > MAX_PROGRAMS.into() {
            let evidence = format!(
                "the launches up to that of kernel `{}` have {programs} programs; at most {MAX_PROGRAMS} are possible",
                launch.kernel
            );
            return Ok(Some(Failure::new(FailureKind::LoadFailed, evidence)));
        }
    }
    for tensor in plan.tensors.iter().filter(|t| t.role == TensorRole::Scratch) {
        let bytes = product(&tensor.shape)?.saturating_mul(tensor.dtype.size() as u128);
        if bytes > MAX_SCRATCH.into() {
            let evidence = format!(
                "there is no room for the {bytes} bytes of scratch `{}`: at most {MAX_SCRATCH} are possible",
                tensor.name
            );
            return Ok(Some(Failure::new(FailureKind::OutOfMemory, evidence)));
        }
    }
    Ok(None)
}

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
/// [`Unsupported`](akg_core::ErrorKind::Unsupported) for an alignment that memory cannot have;
/// [`InvalidInput`](akg_core::ErrorKind::InvalidInput) for an output that cannot update what it says it does.
pub fn check_tensors(plan: &LaunchPlan) -> Result<()> {
    plan.check_updates()?;
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

/// For each tensor of a plan, the input as whose contents it begins, by its position among the inputs.
pub fn begins(plan: &LaunchPlan) -> Vec<Option<usize>> {
    let place = |input: usize| plan.with_role(TensorRole::Input).position(|(at, _)| at == input);
    plan.tensors.iter().map(|t| t.updates.and_then(place)).collect()
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

#[cfg(test)]
mod tests {
    use akg_core::Expr;
    use akg_core::dtype::DType;
    use akg_core::source::{Launch, PlanTensor};

    use super::*;

    fn plan(grid: &[i64], scratch: &[i64]) -> LaunchPlan {
        let extents = |values: &[i64]| values.iter().map(|n| Expr::constant(*n)).collect();
        LaunchPlan {
            dims: Vec::new(),
            tensors: vec![PlanTensor {
                name: "s".into(),
                dtype: DType::F32,
                shape: extents(scratch),
                role: TensorRole::Scratch,
                align: 64,
                holds: None,
                updates: None,
            }],
            launches: vec![Launch {
                kernel: "k".into(),
                grid: extents(grid),
                tensors: vec![0],
                cooperative: false,
                doc: String::new(),
            }],
        }
    }

    fn under(plan: &LaunchPlan) -> Option<Failure> {
        too_large_under(plan, &Bindings::new()).unwrap()
    }

    #[test]
    fn large_plans_fail_before_they_are_walked() {
        assert!(too_large(&plan(&[8], &[8])).is_none() && under(&plan(&[8], &[8])).is_none());
        for grid in [&[1_000_000_000_000_000_000][..], &[i64::MAX; 5]] {
            let failure = under(&plan(grid, &[8])).unwrap();
            assert_eq!(failure.kind, FailureKind::LoadFailed);
            assert!(failure.evidence.contains("programs"), "{}", failure.evidence);
        }
        assert!(under(&plan(&[i64::MAX, i64::MAX, 0], &[8])).is_none());
        for scratch in [&[1 << 60][..], &[i64::MAX; 9]] {
            let failure = under(&plan(&[8], scratch)).unwrap();
            assert_eq!(failure.kind, FailureKind::OutOfMemory);
            assert!(failure.evidence.contains("scratch `s`"), "{}", failure.evidence);
        }
        let mut many = plan(&[8], &[8]);
        many.launches = vec![many.launches[0].clone(); MAX_LAUNCHES + 1];
        assert!(too_large(&many).unwrap().evidence.contains("launches"));
        // Together they have too many programs, too.
        many.launches.truncate(1 << 10);
        for launch in &mut many.launches {
            launch.grid = vec![Expr::constant(1 << 31)];
        }
        assert!(under(&many).unwrap().evidence.contains("programs"));
        let mut wide = plan(&[1; MAX_AXES + 1], &[8]);
        assert!(too_large(&wide).unwrap().evidence.contains("axes of a grid"));
        wide.launches.clear();
        wide.tensors[0].name = "n".repeat(MAX_NAME + 1);
        assert!(too_large(&wide).unwrap().evidence.contains("name"));
    }
}
