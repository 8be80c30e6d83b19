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

/// Operators of elements, reductions, pools and scans whose floating results are exact, or the nearest to an exact sum of two numbers,
/// in all arithmetic of a precision.
const EXACT: &str = "_to_copy abs add amax amin ceil clamp clamp_max clamp_min copy cumsum floor floor_divide fmod hardtanh \
                     masked_fill max maximum min minimum neg relu relu6 remainder round rsub sign sub sum to trunc type_as where";

/// Returns true if an operator's floating results may be off by roundings of their own even where they are numbers of their type.
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
    let is_exact = stem.contains("max_pool") || EXACT.split(' ').any(|exact| exact == stem);
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
