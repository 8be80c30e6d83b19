//! Coordinates that are visited along a dimension.

use crate::expr::Expr;

/// Coordinate `i` along `dim` is the operand's coordinate `start + step * i`; outside the operand stand zeros.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Window {
    pub(super) dim: usize,
    pub(super) start: Expr,
    pub(super) step: i64,
}

impl Window {
    /// Whether every coordinate that is visited for `count` results is one of the operand's `extent`.
    pub(super) fn stays_inside(&self, count: &Expr, extent: &Expr) -> bool {
        visits_inside(&self.start, self.step, count, extent)
    }
}

/// Whether `start`, `start + step`, … of `count` coordinates all lie in `0..extent`.
pub(super) fn visits_inside(start: &Expr, step: i64, count: &Expr, extent: &Expr) -> bool {
    let last = (count.clone() - 1) * step + start.clone();
    [start, &last].into_iter().all(|at| {
        let above = (extent - at).as_const().is_some_and(|rest| rest > 0);
        let below = at
            .as_const()
            .map_or(step < 0 && (extent - at).is(1), |at| at >= 0);
        above && below
    })
}
