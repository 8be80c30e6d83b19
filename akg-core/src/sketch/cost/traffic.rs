//! Bytes that loads and stores move.

use std::collections::{BTreeMap, BTreeSet};

use super::space::Space;
use crate::error::Result;
use crate::expr::{Bindings, Expr, Symbol};
use crate::lower::grid;
use crate::sketch::ir::{Axis, Kernel, Program, TensorId};

/// What the accesses of a kernel to one tensor amount to, in elements.
#[derive(Debug, Clone, Default)]
pub(super) struct Accesses {
    /// All that programs ask for inside the tensor, every repetition counted.
    pub(super) requested: f64,
    /// What one program touches, on average, repetitions not counted.
    pub(super) by_program: f64,
    /// What all programs together touch.
    pub(super) distinct: f64,
    /// Grid indices that decide what is touched.
    pub(super) grid: BTreeSet<Symbol>,
}

impl Accesses {
    /// Adds one access to a tensor of `extents`, executed `executions` times.
    pub(super) fn add(
        &mut self,
        space: &Space,
        executions: f64,
        extents: &[i64],
        (kernel, region): (&Kernel, &[Axis]),
    ) -> Result<()> {
        let (mut mean, mut by_program, mut distinct) = (1.0, 1.0, 1.0);
        let grid: BTreeSet<&Symbol> = kernel.grid.iter().map(|axis| &axis.symbol).collect();
        for (axis, extent) in region.iter().zip(extents) {
            let whole = *extent as f64;
            let symbols = match axis {
                Axis::Range { start: at, .. } | Axis::At(at) => at.symbols(),
                // Which coordinates an index tile holds is not known: any, and different ones for each program.
                Axis::AtTile(_) | Axis::Gather(_) => grid.iter().map(|s| (*s).clone()).collect(),
            };
            let count = |values: &Bindings| -> Result<f64> {
                Ok(match axis {
                    Axis::Range { start, len, step } => {
                        inside(start.eval(values)?, *len as i64, *step, *extent) as f64
                    }
                    Axis::At(at) => inside(at.eval(values)?, 1, 1, *extent) as f64,
                    Axis::AtTile(_) => 1.0,
                    Axis::Gather(v) => kernel.ty(*v).extents.iter().product::<usize>() as f64,
                })
            };
            mean *= space.mean(symbols.clone(), &count)?;
            let touched = space.sum(symbols.clone(), false, &count)?;
            distinct *= touched.min(whole);
            by_program *= (touched / space.programs_among(&symbols)?.max(1.0)).min(whole);
            self.grid.extend(symbols.into_iter().filter(|s| grid.contains(s)));
        }
        let whole = extents.iter().map(|e| *e as f64).product();
        self.requested += executions * mean;
        self.by_program = (self.by_program + by_program).min(whole);
        self.distinct = (self.distinct + distinct).min(whole).min(self.requested);
        Ok(())
    }

    /// Elements read from memory when the programs of a wave share `cache` elements of a cache: what fits is read once.
    fn memory_elements(&self, wave: &mut Wave<'_>, programs: f64, cache: f64) -> Result<f64> {
        if self.distinct <= cache {
            return Ok(self.distinct);
        }
        let different = wave.distinct(&self.grid)?;
        let shared = different / wave.programs.max(1.0);
        let elements = if self.by_program * different <= cache {
            self.by_program * programs * shared
        } else {
            self.requested * shared
        };
        Ok(elements.clamp(self.distinct, self.requested.max(self.distinct)))
    }
}

/// What loads of a kernel amount to, in bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Loaded {
    /// All that programs ask for.
    pub(super) requested: f64,
    /// What is asked for at all.
    pub(super) distinct: f64,
    /// What is read from memory.
    pub(super) from_memory: f64,
}

impl Loaded {
    /// The sum of accesses to tensors whose elements have so many bytes, when the programs of a wave share a cache. Each
    /// tensor has room in it in proportion to what is read of it, and an equal part if that is more.
    pub(super) fn sum<'a>(
        accesses: impl Iterator<Item = (f64, &'a Accesses)> + Clone,
        wave: &mut Wave<'_>,
        programs: f64,
        cache: f64,
    ) -> Result<Self> {
        let distinct: f64 = accesses.clone().map(|(size, a)| size * a.distinct).sum();
        let share = if distinct > 0.0 { cache / distinct } else { 0.0 };
        let equal = cache / accesses.clone().count().max(1) as f64;
        let mut all = Self {
            distinct,
            ..Self::default()
        };
        for (size, accesses) in accesses {
            all.requested += size * accesses.requested;
            let room = (share * accesses.distinct).max(equal / size.max(1.0));
            all.from_memory += size * accesses.memory_elements(wave, programs, room)?;
        }
        Ok(all)
    }
}

/// How many of `start, start + step, …` (`len` of them) lie in `0..extent`.
fn inside(start: i64, len: i64, step: i64, extent: i64) -> i64 {
    if step == 0 || len <= 0 || extent <= 0 {
        return 0;
    }
    // The same coordinates in ascending order.
    let (start, step) = if step < 0 {
        (start + (len - 1) * step, -step)
    } else {
        (start, step)
    };
    let below = |bound: i64| ((bound - start).max(0) + step - 1) / step;
    below(extent).min(len) - below(0).min(len)
}

/// The extents in which a kernel sees a tensor.
pub(super) fn extents(
    program: &Program,
    kernel: &Kernel,
    tensor: TensorId,
    dims: &Bindings,
) -> Result<Vec<i64>> {
    let shape = program.shape(kernel, tensor).iter();
    shape.map(|e| e.eval(dims)).collect()
}

/// Programs that run at the same time: the first ones, as many as all cores hold.
#[derive(Debug)]
pub(super) struct Wave<'k> {
    kernel: &'k Kernel,
    dims: &'k Bindings,
    programs: f64,
    /// Program indices of each, once somebody asked.
    members: Vec<Vec<i64>>,
    /// The number of different combinations of some of these.
    distinct: BTreeMap<BTreeSet<Symbol>, f64>,
}

impl<'k> Wave<'k> {
    /// The first `held` programs, if there are so many.
    pub(super) fn new(kernel: &'k Kernel, held: i64, dims: &'k Bindings) -> Result<Self> {
        let programs = grid::program_count(kernel).eval(dims)?.min(held).max(0);
        Ok(Self {
            kernel,
            dims,
            programs: programs as f64,
            members: Vec::new(),
            distinct: BTreeMap::new(),
        })
    }

    /// The number of different combinations of the grid indices `symbols` in the wave.
    fn distinct(&mut self, symbols: &BTreeSet<Symbol>) -> Result<f64> {
        if let Some(known) = self.distinct.get(symbols) {
            return Ok(*known);
        }
        if self.members.is_empty() {
            self.members = self.indices()?;
        }
        let axes = self.kernel.grid.iter().map(|axis| symbols.contains(&axis.symbol));
        let axes: Vec<bool> = axes.collect();
        let project = |member: &Vec<i64>| -> Vec<i64> {
            let pairs = member.iter().zip(&axes);
            pairs.filter(|(_, keep)| **keep).map(|(i, _)| *i).collect()
        };
        let different: BTreeSet<Vec<i64>> = self.members.iter().map(project).collect();
        let different = different.len() as f64;
        self.distinct.insert(symbols.clone(), different);
        Ok(different)
    }

    fn indices(&self) -> Result<Vec<Vec<i64>>> {
        const NUMBER: &str = "program number";
        let indices = grid::program_indices(self.kernel, &Expr::symbol(NUMBER));
        let mut values = self.dims.clone();
        let members = (0..self.programs as i64).map(|program| {
            values.insert(NUMBER.into(), program);
            indices.iter().map(|e| e.eval(&values)).collect()
        });
        members.collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn inside_counts(start in -20i64..20, len in 0i64..12, step in -4i64..5, extent in 0i64..15) {
            prop_assume!(step != 0);
            let count = (0..len).filter(|i| (0..extent).contains(&(start + i * step))).count();
            prop_assert_eq!(inside(start, len, step, extent), count as i64);
        }
    }
}
