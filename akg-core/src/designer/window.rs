//! Coordinates that are visited along a dimension.

use crate::expr::Expr;

/// Stands for dimension `dim` of an operand by as many dimensions as there are steps: coordinates `i`, `j`, … along those
/// are the operand's coordinate `start + steps[0] * i + steps[1] * j + …`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Window {
    pub(super) dim: usize,
    pub(super) start: Expr,
    pub(super) steps: Vec<i64>,
    pub(super) outside: Outside,
}

/// What stands where a window leaves its operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outside {
    /// Zeros, elements like others.
    Zeros,
    /// No elements: combinations pass over them.
    Nothing,
}

impl Window {
    /// Every `step`th coordinate from `start` on, with zeros outside of the operand.
    pub(super) fn new(dim: usize, start: Expr, step: i64) -> Self {
        Self {
            dim,
            start,
            steps: vec![step],
            outside: Outside::Zeros,
        }
    }

    /// Whether every coordinate that is visited for so many results is one of the operand's `extent`.
    pub(super) fn stays_inside(&self, counts: &[Expr], extent: &Expr) -> bool {
        visits_inside(&self.start, self.steps.iter().zip(counts), extent)
    }

    /// The extents along the window's own dimensions, of those of its result.
    pub(super) fn counts<'a>(&self, shape: &'a [Expr]) -> &'a [Expr] {
        shape.get(self.dim..self.dim + self.steps.len()).unwrap_or(&[])
    }

    /// The operand's dimension that one of the result shows as it is; `None` for the window's own.
    pub(super) fn shown(&self, dim: usize) -> Option<usize> {
        match dim.checked_sub(self.dim + self.steps.len()) {
            Some(after) => Some(self.dim + 1 + after),
            None => (dim < self.dim).then_some(dim),
        }
    }
}

/// Whether all coordinates that are visited from `start` on, by so many of each of the steps, lie in `0..extent`.
pub(super) fn visits_inside<'a>(
    start: &Expr,
    steps: impl Iterator<Item = (&'a i64, &'a Expr)>,
    extent: &Expr,
) -> bool {
    let (mut first, mut last) = (start.clone(), start.clone());
    for (step, count) in steps {
        let edge = if *step < 0 { &mut first } else { &mut last };
        *edge = (count.clone() - 1) * *step + edge.clone();
    }
    let below_end = (extent - &last).as_const().is_some_and(|rest| rest > 0);
    below_end && first.as_const().is_some_and(|at| at >= 0)
}
