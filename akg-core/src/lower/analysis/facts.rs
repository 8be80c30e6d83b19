//! What is known of the symbols in a kernel's index arithmetic.

use std::collections::BTreeMap;

use crate::expr::{Expr, Symbol};
use crate::sketch::ir::{GridAxis, Kernel, LoopAxis, Program, Stmt};

/// No tensor extent is taken to be larger, so that products of an extent and a tile offset stay within 64 bits.
const LARGEST_EXTENT: i64 = 1 << 40;

/// Ranges and divisors of the symbols of one kernel: program indices, loop indices, and unbound extents.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Facts {
    ranges: BTreeMap<Symbol, (i64, i64)>,
    divisors: BTreeMap<Symbol, i64>,
}

impl Facts {
    /// The facts of `kernel`.
    pub fn of(program: &Program, kernel: &Kernel) -> Self {
        let mut facts = Self::default();
        for dim in &program.dims {
            facts.ranges.insert(dim.clone(), (0, LARGEST_EXTENT));
        }
        for dim in &program.dims {
            // A program that runs knows that there are programs.
            let least = i64::from(facts.no_programs_without(kernel, dim));
            facts.ranges.insert(dim.clone(), (least, LARGEST_EXTENT));
        }
        for axis in &kernel.grid {
            facts.add_counter(axis.symbol.clone(), &axis.extent);
        }
        facts.add_loops(&kernel.body);
        facts
    }

    /// Whether the grid is empty if `dim` is 0.
    fn no_programs_without(&self, kernel: &Kernel, dim: &str) -> bool {
        let range = |name: &str| {
            if name == dim {
                Some((0, 0))
            } else {
                self.ranges.get(name).copied()
            }
        };
        let most = |axis: &GridAxis| axis.extent.bounds(&range).map(|(_, hi)| hi);
        kernel.grid.iter().filter_map(most).any(|hi| hi <= 0)
    }

    /// Adds a symbol that counts from 0 to below `count`.
    pub fn add_counter(&mut self, symbol: Symbol, count: &Expr) {
        let last = self
            .range(count)
            .map_or(i64::MAX, |(_, hi)| hi.saturating_sub(1).max(0));
        self.ranges.insert(symbol, (0, last));
    }

    fn add_loops(&mut self, body: &[Stmt]) {
        for stmt in body {
            match stmt {
                Stmt::For(l) => {
                    for axis in &l.axes {
                        self.add_loop_index(axis);
                    }
                    self.add_loops(&l.body);
                }
                Stmt::If(branch) => {
                    self.add_loops(&branch.then);
                    self.add_loops(&branch.otherwise);
                }
                Stmt::Define { .. } | Stmt::Store { .. } | Stmt::Barrier => {}
            }
        }
    }

    fn add_loop_index(&mut self, axis: &LoopAxis) {
        if let (Some((first, lo)), Some((_, hi))) = (self.range(&axis.lo), self.range(&axis.hi)) {
            let end = hi.saturating_sub(1);
            let last = if first == lo && end > lo {
                lo + (end - lo) / axis.step * axis.step
            } else {
                end.max(lo)
            };
            self.ranges.insert(axis.symbol.clone(), (first, last));
        }
        let divisor = self.divisor(&axis.lo).min(self.divisor(&axis.step.into()));
        self.divisors.insert(axis.symbol.clone(), divisor);
    }

    /// The inclusive range of the values of `expr`, if it is known; see [`Expr::bounds`].
    pub fn range(&self, expr: &Expr) -> Option<(i64, i64)> {
        expr.bounds(&|name| self.ranges.get(name).copied())
    }

    /// Whether every value of `expr` is known to be at least 0.
    pub fn non_negative(&self, expr: &Expr) -> bool {
        self.range(expr).is_some_and(|(lo, _)| lo >= 0)
    }

    /// Whether every value of `expr` is known to fit 32-bit signed integers.
    pub fn fits_i32(&self, expr: &Expr) -> bool {
        self.range(expr)
            .is_some_and(|(lo, hi)| lo >= i64::from(i32::MIN) && hi <= i64::from(i32::MAX))
    }

    /// The largest power of two known to divide every value of `expr`; see [`Expr::divisibility`].
    pub fn divisor(&self, expr: &Expr) -> i64 {
        expr.divisibility(&|name| self.divisors.get(name).copied().unwrap_or(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lower::analysis::tests::matmul;

    #[test]
    fn loop_indices_know_their_last_value_and_step() {
        let program = matmul(100, 64, 96, 32);
        let facts = Facts::of(&program, &program.kernels[0]);
        assert_eq!(facts.range(&"m".into()), Some((0, 3)));
        assert_eq!(facts.range(&(Expr::from("k") + 31)), Some((31, 95)));
        assert_eq!(facts.divisor(&(Expr::from("k") * 2)), 64);
        assert_eq!(facts.divisor(&"m".into()), 1);
    }

    #[test]
    fn unbound_extents_are_not_negative_and_do_not_fit_32_bits() {
        let mut program = matmul(100, 64, 96, 32);
        program.dims = vec!["S".into()];
        let facts = Facts::of(&program, &program.kernels[0]);
        assert!(facts.non_negative(&(Expr::from("S") * 4)));
        assert!(!facts.non_negative(&(Expr::from("S") - 1)));
        assert!(!facts.fits_i32(&"S".into()) && facts.fits_i32(&"k".into()));
    }

    #[test]
    fn extents_that_empty_the_grid_are_positive_in_a_program() {
        let mut program = matmul(100, 64, 96, 32);
        program.dims = vec!["M".into(), "K".into()];
        program.kernels[0].grid[0].extent = Expr::from("M").ceil_div(&32.into());
        let facts = Facts::of(&program, &program.kernels[0]);
        assert!(facts.non_negative(&(Expr::from("M") - 1)));
        assert!(!facts.non_negative(&(Expr::from("K") - 1)));
        assert!(facts.non_negative(&"m".into()));
    }
}
