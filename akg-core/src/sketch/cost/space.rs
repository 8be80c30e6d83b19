//! Sums over the programs of a grid and the iterations of loops.

use std::collections::BTreeSet;

use crate::error::Result;
use crate::expr::{Bindings, Expr, Symbol};
use crate::sketch::ir::Condition;

/// Index values beyond this many on one axis are sampled; the first and the last are always among them, because those
/// differ from the rest where tiles leave the tensor.
const SAMPLES: i64 = 48;

/// An index and its bounds, which may mention the indices before it.
#[derive(Debug, Clone)]
pub(super) struct Index {
    pub(super) symbol: Symbol,
    pub(super) lo: Expr,
    pub(super) hi: Expr,
    pub(super) step: i64,
}

impl Index {
    fn trips(&self, values: &Bindings) -> Result<i64> {
        let length = self.hi.eval(values)?.saturating_sub(self.lo.eval(values)?);
        let step = self.step.max(1);
        Ok((length.max(0) + step - 1) / step)
    }

    /// Values with weights that add up to the number of trips.
    fn samples(&self, values: &Bindings) -> Result<Vec<(i64, f64)>> {
        let (lo, trips) = (self.lo.eval(values)?, self.trips(values)?);
        let value = |trip: i64| lo + trip * self.step;
        if trips <= SAMPLES {
            return Ok((0..trips).map(|trip| (value(trip), 1.0)).collect());
        }
        let (inner, points) = (trips - 2, SAMPLES - 2);
        let weight = inner as f64 / points as f64;
        let middle = (0..points).map(|i| (value(1 + i * inner / points), weight));
        let ends = [(value(0), 1.0), (value(trips - 1), 1.0)];
        Ok(ends.into_iter().chain(middle).collect())
    }
}

/// Indices from the outermost grid axis to the innermost loop, and how often control reaches a place inside.
#[derive(Debug, Clone)]
pub(super) struct Space {
    /// The first `grid` indices are those of the grid.
    pub(super) indices: Vec<Index>,
    pub(super) grid: usize,
    /// The part of the points for which the branches around are taken.
    pub(super) share: f64,
    pub(super) dims: Bindings,
}

impl Space {
    /// The number of times that a statement here is executed, over all programs.
    pub(super) fn executions(&self) -> Result<f64> {
        Ok(self.share * self.sum(BTreeSet::new(), true, &|_| Ok(1.0))?)
    }

    /// The mean of `f`, which mentions `symbols`, over all points.
    pub(super) fn mean(
        &self,
        symbols: BTreeSet<Symbol>,
        f: &dyn Fn(&Bindings) -> Result<f64>,
    ) -> Result<f64> {
        let total = self.sum(symbols, true, f)?;
        let points = self.sum(BTreeSet::new(), true, &|_| Ok(1.0))?;
        Ok(if points > 0.0 { total / points } else { 0.0 })
    }

    /// The part of the points where `condition` holds.
    pub(super) fn share_of(&self, condition: &Condition) -> Result<f64> {
        self.mean(condition.symbols(), &|values| {
            let holds = condition.eval_with(&|name| values.get(name).copied())?;
            Ok(f64::from(u8::from(holds)))
        })
    }

    /// The sum of `f` over the values of the indices that matter to it: those in `symbols` and those that their bounds
    /// mention. With `all`, the other indices repeat it.
    pub(super) fn sum(
        &self,
        mut symbols: BTreeSet<Symbol>,
        all: bool,
        f: &dyn Fn(&Bindings) -> Result<f64>,
    ) -> Result<f64> {
        for index in self.indices.iter().rev() {
            if all || symbols.contains(&index.symbol) {
                symbols.extend(index.lo.symbols());
                symbols.extend(index.hi.symbols());
            }
        }
        let mut values = self.dims.clone();
        sum(&self.indices, &symbols, all, &mut values, f)
    }

    /// The number of programs that `symbols` and the bounds of loops among them distinguish.
    pub(super) fn programs_among(&self, symbols: &BTreeSet<Symbol>) -> Result<f64> {
        let mut needed = symbols.clone();
        for index in self.indices.iter().rev().filter(|i| symbols.contains(&i.symbol)) {
            needed.extend(index.lo.symbols());
            needed.extend(index.hi.symbols());
        }
        let grid = Space {
            indices: self.indices.iter().take(self.grid).cloned().collect(),
            ..self.clone()
        };
        grid.sum(needed, false, &|_| Ok(1.0))
    }
}

fn sum(
    indices: &[Index],
    symbols: &BTreeSet<Symbol>,
    all: bool,
    values: &mut Bindings,
    f: &dyn Fn(&Bindings) -> Result<f64>,
) -> Result<f64> {
    let Some((index, rest)) = indices.split_first() else {
        return f(values);
    };
    if !symbols.contains(&index.symbol) {
        let times = if all { index.trips(values)? as f64 } else { 1.0 };
        return Ok(times * sum(rest, symbols, all, values, f)?);
    }
    let mut total = 0.0;
    for (value, weight) in index.samples(values)? {
        values.insert(index.symbol.clone(), value);
        total += weight * sum(rest, symbols, all, values, f)?;
    }
    Ok(total)
}
