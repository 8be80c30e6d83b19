//! Which function evaluates which operator.

use super::invocation::Kernel;
use super::real::Real;
use super::{
    attention, conv, create, index, join, loss, matmul, norm, pointwise, pool, rearrange, reduce, rnn, scan,
    softmax, view,
};

/// The evaluation of the operator `name`, looked up family by family.
pub(super) fn find<T: Real>(name: &str) -> Option<Kernel<T>> {
    let families = [
        pointwise::kernel::<T>,
        view::kernel,
        join::kernel,
        matmul::kernel,
        reduce::kernel,
        softmax::kernel,
        norm::kernel,
        conv::kernel,
        pool::kernel,
        rearrange::kernel,
        index::kernel,
        create::kernel,
        scan::kernel,
        loss::kernel,
        attention::kernel,
        rnn::kernel,
    ];
    families.into_iter().find_map(|family| family(name))
}

/// Operators of elements, reductions, pools and scans whose results are exact, or the nearest to an exact sum of few numbers, in all
/// arithmetic of a precision.
const EXACT: &[&str] = &[
    "abs",
    "add",
    "all",
    "amax",
    "amin",
    "any",
    "argmax",
    "argmin",
    "bitwise_and",
    "bitwise_not",
    "bitwise_or",
    "bitwise_xor",
    "ceil",
    "clamp",
    "clamp_max",
    "clamp_min",
    "cumsum",
    "eq",
    "floor",
    "floor_divide",
    "fmod",
    "ge",
    "gt",
    "hardtanh",
    "isfinite",
    "isinf",
    "isnan",
    "le",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "lt",
    "masked_fill",
    "max",
    "maximum",
    "min",
    "minimum",
    "ne",
    "neg",
    "relu",
    "relu6",
    "remainder",
    "round",
    "rsub",
    "sign",
    "sub",
    "sum",
    "trunc",
    "where",
];

/// Whether an operator's floating results may be off by roundings of their own even where they are numbers of their type.
pub(super) fn approximates(name: &str) -> bool {
    let inexact = [
        matmul::kernel::<f64>,
        softmax::kernel,
        norm::kernel,
        conv::kernel,
        loss::kernel,
        attention::kernel,
        rnn::kernel,
    ];
    if inexact.into_iter().any(|family| family(name).is_some()) {
        return true;
    }
    let mixed = [
        pointwise::kernel::<f64>,
        reduce::kernel,
        pool::kernel,
        scan::kernel,
    ];
    let stem = name.split_once('.').map_or(name, |(stem, _)| stem);
    let is_exact = EXACT.contains(&stem) || stem.contains("max_pool");
    !is_exact && mixed.into_iter().any(|family| family(name).is_some())
}

#[cfg(test)]
mod tests {
    use crate::graph::Operator;

    #[test]
    fn every_operator_of_the_table_can_be_evaluated() {
        let missing: Vec<_> = Operator::all()
            .into_iter()
            .map(Operator::name)
            .filter(|name| super::find::<f64>(name).is_none())
            .collect();
        assert_eq!(missing, [""; 0]);
    }
}
