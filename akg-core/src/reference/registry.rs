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
