//! Which function evaluates which operator.

use super::invocation::Kernel;
use super::real::Real;
use super::{
    attention, conv, create, dropout, index, join, loss, matmul, norm, pointwise, pool, rearrange, reduce,
    rnn, scan, softmax, view,
};
use crate::graph::{Family, Operator};

/// The evaluation of an operator, from the file of its family.
pub(super) fn find<T: Real>(operator: &Operator) -> Option<Kernel<T>> {
    let name = operator.name();
    match operator.family() {
        Family::Attention => attention::kernel(name),
        Family::Rnn => rnn::kernel(name),
        Family::Conv => conv::kernel(name),
        Family::Matmul => matmul::kernel(name),
        Family::Scan => scan::kernel(name),
        Family::Pool => pool::kernel(name),
        Family::Norm => norm::kernel(name),
        Family::Loss => loss::kernel(name),
        Family::Reduce => reduce::kernel(name).or_else(|| softmax::kernel(name)),
        Family::Index => index::kernel(name),
        Family::Join => join::kernel(name),
        Family::Rearrange => rearrange::kernel(name),
        Family::View => view::kernel(name),
        Family::Dropout => dropout::kernel(name),
        Family::Create => create::kernel(name),
        Family::Pointwise => pointwise::kernel(name),
    }
}

/// Operators of elements, reductions, pools and scans whose floating results are exact, or the nearest to an exact sum of two numbers,
/// in all arithmetic of a precision.
const EXACT: &str = "_to_copy abs add amax amin ceil clamp clamp_max clamp_min copy cumsum floor floor_divide fmod hardtanh \
                     masked_fill max maximum min minimum neg relu relu6 remainder round rsub sign sub sum to trunc type_as where";

/// Returns true if an operator's floating results may be off by roundings of their own even where they are numbers of their type.
pub(super) fn approximates(operator: &Operator) -> bool {
    match operator.family() {
        Family::Attention | Family::Rnn | Family::Conv | Family::Matmul | Family::Norm | Family::Loss => true,
        Family::Scan | Family::Pool | Family::Reduce | Family::Dropout | Family::Pointwise => {
            let name = operator.base_name();
            !name.contains("max_pool") && EXACT.split(' ').all(|exact| exact != name)
        }
        Family::Index | Family::Join | Family::Rearrange | Family::View | Family::Create => false,
    }
}

/// Returns true for operators that add up many terms, so that a result may be off by a part of the terms' magnitudes.
pub(super) fn adds_up(operator: &Operator) -> bool {
    let is_sum = ["sum", "cumsum"].contains(&operator.base_name());
    let is_element = matches!(operator.family(), Family::Pointwise | Family::Dropout);
    is_sum || approximates(operator) && !is_element
}

#[cfg(test)]
mod tests {
    use crate::graph::Operator;

    #[test]
    fn every_operator_of_the_table_can_be_evaluated() {
        let missing: Vec<_> = Operator::all()
            .into_iter()
            .filter(|operator| super::find::<f64>(operator).is_none())
            .map(Operator::name)
            .collect();
        assert_eq!(missing, [""; 0]);
    }
}
