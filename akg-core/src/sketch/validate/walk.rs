//! Visits the statements of a kernel with what is known where they stand.

use crate::expr::{Expr, Symbol};
use crate::sketch::ir::*;

/// A grid or loop index: `lo, lo + step, …` below `hi`.
#[derive(Debug, Clone)]
pub(super) struct Index {
    pub(super) symbol: Symbol,
    pub(super) lo: Expr,
    pub(super) hi: Expr,
    pub(super) step: i64,
}

impl Index {
    /// The largest value, or a bound on it: exact where the bounds are known or the range is a multiple of the step.
    pub(super) fn last(&self) -> Expr {
        let span = &self.hi - &self.lo;
        if let (Some(span), true) = (span.as_const(), self.step > 0) {
            return &self.lo + &Expr::constant((span - 1).div_euclid(self.step) * self.step);
        }
        if span.exact_div(&self.step.into()).is_some() {
            return &self.hi - &self.step.into();
        }
        &self.hi - &1.into()
    }

    /// How many values there are.
    pub(super) fn count(&self) -> Expr {
        (&self.hi - &self.lo).ceil_div(&self.step.into())
    }
}

/// Where a statement stands.
#[derive(Debug, Clone, Default)]
pub(super) struct Site {
    /// Grid indices, then those of the loops around, outermost first.
    pub(super) indices: Vec<Index>,
    /// Conditions of the branches around, and whether they hold.
    pub(super) conditions: Vec<(Condition, bool)>,
}

/// Calls `visit` for every statement, before those inside it.
pub(super) fn walk<'a>(kernel: &'a Kernel, visit: &mut dyn FnMut(&Site, &'a Stmt)) {
    let grid = kernel.grid.iter().map(|axis| Index {
        symbol: axis.symbol.clone(),
        lo: 0.into(),
        hi: axis.extent.clone(),
        step: 1,
    });
    let mut site = Site {
        indices: grid.collect(),
        conditions: Vec::new(),
    };
    block(&kernel.body, &mut site, visit);
}

fn block<'a>(body: &'a [Stmt], site: &mut Site, visit: &mut dyn FnMut(&Site, &'a Stmt)) {
    for statement in body {
        visit(site, statement);
        match statement {
            Stmt::For(l) => {
                let outside = site.indices.len();
                site.indices.extend(l.axes.iter().map(|axis| Index {
                    symbol: axis.symbol.clone(),
                    lo: axis.lo.clone(),
                    hi: axis.hi.clone(),
                    step: axis.step,
                }));
                block(&l.body, site, visit);
                site.indices.truncate(outside);
                if let Some(combine) = &l.combine {
                    block(&combine.body, site, visit);
                }
            }
            Stmt::If(branch) => {
                for (side, holds) in [(&branch.then, true), (&branch.otherwise, false)] {
                    site.conditions.push((branch.condition.clone(), holds));
                    block(side, site, visit);
                    site.conditions.pop();
                }
            }
            Stmt::Define { .. } | Stmt::Store { .. } | Stmt::Barrier => {}
        }
    }
}
