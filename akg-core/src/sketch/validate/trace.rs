//! Runs a kernel's index arithmetic without its tiles: which program touches which box of which tensor, in which phase.

use std::ops::Range;

use crate::expr::{Bindings, Expr};
use crate::lower::grid;
use crate::sketch::ir::*;

/// One execution of a load or store.
pub(super) struct Access<'a> {
    /// The number of the program.
    pub(super) program: usize,
    /// The number of its team.
    pub(super) team: i64,
    /// How many barriers the program met before.
    pub(super) phase: usize,
    pub(super) tensor: TensorId,
    /// `None` for a load.
    pub(super) store: Option<StoreMode>,
    /// First coordinate, number and distance of coordinates by dimension; `None` if computed by the kernel.
    pub(super) region: Option<Vec<(i64, usize, i64)>>,
    pub(super) span: &'a Range<usize>,
}

/// Why a trace ended early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// Too much work.
    Limit,
    /// An extent without a value, or overflow.
    Unknown,
}

/// Rounds that [`Rounds::Few`] are: enough for what alternates by round.
const FEW: i64 = 4;

/// Programs and rounds of loops that one trace goes through, those without an access included.
const STEPS: usize = 1 << 23;

/// The rounds of a loop with a barrier that are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rounds {
    All,
    /// Those that show in what order programs meet.
    Few,
}

/// Calls `visit` for every access of every program, program after program, as long as it answers `true`.
pub(super) fn trace<'a>(
    kernel: &'a Kernel,
    bindings: &Bindings,
    rounds: Rounds,
    visit: &mut dyn FnMut(Access<'a>) -> bool,
) -> Result<(), Stop> {
    let mut tracer = Tracer {
        values: bindings.clone(),
        program: 0,
        team: 0,
        phase: 0,
        steps: STEPS,
        rounds,
        visit,
    };
    tracer.grid(kernel, &kernel.grid)
}

struct Tracer<'v, 'a> {
    values: Bindings,
    program: usize,
    team: i64,
    phase: usize,
    /// Steps that are left.
    steps: usize,
    rounds: Rounds,
    visit: &'v mut dyn FnMut(Access<'a>) -> bool,
}

impl<'a> Tracer<'_, 'a> {
    fn value(&self, expr: &Expr) -> Result<i64, Stop> {
        expr.eval(&self.values).map_err(|_| Stop::Unknown)
    }

    fn step(&mut self) -> Result<(), Stop> {
        self.steps = self.steps.checked_sub(1).ok_or(Stop::Limit)?;
        Ok(())
    }

    fn grid(&mut self, kernel: &'a Kernel, axes: &'a [GridAxis]) -> Result<(), Stop> {
        let Some((axis, inner)) = axes.split_first() else {
            self.phase = 0;
            self.team = match grid::teams(kernel) {
                Some(teams) => self.value(&teams.number)?,
                None => 0,
            };
            self.block(&kernel.body)?;
            self.program += 1;
            return Ok(());
        };
        for value in 0..self.value(&axis.extent)? {
            self.step()?;
            self.values.insert(axis.symbol.clone(), value);
            self.grid(kernel, inner)?;
        }
        Ok(())
    }

    fn block(&mut self, body: &'a [Stmt]) -> Result<(), Stop> {
        for statement in body {
            match statement {
                Stmt::Define {
                    op: Op::Load { tensor, region, .. },
                    span,
                    ..
                } => self.access(*tensor, region, None, span)?,
                Stmt::Define { .. } => {}
                Stmt::Store {
                    tensor,
                    region,
                    mode,
                    span,
                    ..
                } => self.access(*tensor, region, Some(*mode), span)?,
                Stmt::For(l) => {
                    let few = self.rounds == Rounds::Few && has_barrier(&l.body);
                    self.rounds(l, &l.axes, few)?;
                }
                Stmt::If(b) => {
                    let side = if self.holds(&b.condition)? {
                        &b.then
                    } else {
                        &b.otherwise
                    };
                    self.block(side)?;
                }
                Stmt::Barrier => self.phase += 1,
            }
        }
        Ok(())
    }

    fn rounds(&mut self, l: &'a Loop, axes: &'a [LoopAxis], few: bool) -> Result<(), Stop> {
        let Some((axis, inner)) = axes.split_first() else {
            return self.block(&l.body);
        };
        if axis.step <= 0 {
            return Err(Stop::Unknown);
        }
        let (mut value, mut hi) = (self.value(&axis.lo)?, self.value(&axis.hi)?);
        if few {
            hi = hi.min(value.saturating_add(axis.step.saturating_mul(FEW)));
        }
        while value < hi {
            self.step()?;
            self.values.insert(axis.symbol.clone(), value);
            self.rounds(l, inner, few)?;
            // The end of the loop may be the last integer.
            let Some(next) = value.checked_add(axis.step) else {
                break;
            };
            value = next;
        }
        Ok(())
    }

    fn holds(&self, condition: &Condition) -> Result<bool, Stop> {
        Ok(match condition {
            Condition::Compare(op, a, b) => {
                let (a, b) = (self.value(a)?, self.value(b)?);
                match op {
                    CompareOp::Lt => a < b,
                    CompareOp::Le => a <= b,
                    CompareOp::Gt => a > b,
                    CompareOp::Ge => a >= b,
                    CompareOp::Eq => a == b,
                    CompareOp::Ne => a != b,
                }
            }
            Condition::And(a, b) => self.holds(a)? && self.holds(b)?,
            Condition::Or(a, b) => self.holds(a)? || self.holds(b)?,
            Condition::Not(a) => !self.holds(a)?,
        })
    }

    fn access(
        &mut self,
        tensor: TensorId,
        region: &'a [Axis],
        store: Option<StoreMode>,
        span: &'a Range<usize>,
    ) -> Result<(), Stop> {
        let mut boxed = Some(Vec::new());
        for axis in region {
            let entry = match axis {
                Axis::Range { start, len, step } => Some((self.value(start)?, *len, *step)),
                Axis::At(at) => Some((self.value(at)?, 1, 1)),
                Axis::AtTile(_) | Axis::Gather(_) => None,
            };
            boxed = boxed.zip(entry).map(|(mut all, entry)| {
                all.push(entry);
                all
            });
        }
        let access = Access {
            program: self.program,
            team: self.team,
            phase: self.phase,
            tensor,
            store,
            region: boxed,
            span,
        };
        if (self.visit)(access) {
            Ok(())
        } else {
            Err(Stop::Limit)
        }
    }
}

/// The extents of a shape.
pub(super) fn extents(shape: &[Expr], bindings: &Bindings) -> Result<Vec<i64>, Stop> {
    let extents = shape.iter().map(|e| e.eval(bindings).map_err(|_| Stop::Unknown));
    extents.collect()
}

/// Calls `visit` with the row-major position of every element of a box that lies in the tensor, as long as it answers
/// `true`; whether it always did.
pub(super) fn elements(
    region: &[(i64, usize, i64)],
    shape: &[i64],
    visit: &mut dyn FnMut(usize) -> bool,
) -> bool {
    fn go(
        region: &[(i64, usize, i64)],
        shape: &[i64],
        at: i64,
        visit: &mut dyn FnMut(usize) -> bool,
    ) -> bool {
        let (Some(((start, len, step), region)), Some((extent, shape))) =
            (region.split_first(), shape.split_first())
        else {
            return visit(at as usize);
        };
        inside(*start, *len, *step, *extent).all(|x| go(region, shape, at * extent + x, visit))
    }
    go(region, shape, 0, visit)
}

/// The coordinates of one dimension of a box that lie in the tensor. A box may be far larger than any tensor.
fn inside(start: i64, len: usize, step: i64, extent: i64) -> impl Iterator<Item = i64> {
    let (start, step, extent) = (i128::from(start), i128::from(step), i128::from(extent));
    let len = i128::try_from(len).unwrap_or(i128::MAX);
    // The numbers of the first coordinate inside and of the first one behind it, going up.
    let ceil = |a: i128, b: i128| a.div_euclid(b) + i128::from(a.rem_euclid(b) != 0);
    let (first, end) = match step {
        1.. => (ceil(-start, step), ceil(extent - start, step)),
        0 => (0, if (0..extent).contains(&start) { len } else { 0 }),
        _ => (ceil(start - extent + 1, -step), ceil(start + 1, -step)),
    };
    (first.max(0)..end.min(len))
        .map(move |i| start + i * step)
        .filter_map(|x| i64::try_from(x).ok())
}

/// Values for the extents that have none: several small ones, so that tiles overhang, fit and repeat.
pub(super) fn samples(program: &Program) -> Vec<Bindings> {
    if program.dims.is_empty() {
        return vec![Bindings::new()];
    }
    let values = |first: i64, distance: i64| {
        let numbered = program.dims.iter().zip(0..);
        numbered
            .map(|(dim, i)| (dim.clone(), first + distance * i))
            .collect()
    };
    vec![values(1, 0), values(3, 2), values(37, 6)]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn clipping_a_box_is_filtering_it(start in -20i64..20, len in 0usize..12, step in -4i64..5, extent in 0i64..15) {
            let all = (0..len as i64).map(|i| start + i * step).filter(|x| (0..extent).contains(x));
            prop_assert_eq!(inside(start, len, step, extent).collect::<Vec<_>>(), all.collect::<Vec<_>>());
        }
    }

    #[test]
    fn huge_boxes_take_no_time() {
        for (start, step) in [(i64::MIN, 1), (5, i64::MAX), (i64::MAX, -1), (-9, 0)] {
            assert!(inside(start, usize::MAX, step, 4).count() <= 4);
        }
    }
}
