//! Short loops inside of the loops over elements.
//!
//! What a window meets at its taps is combined tap by tap in the sketch, a tile at a time. Here each element goes through all
//! iterations of such a loop at once: what is combined so far stays in a register instead of an array, and a vector of
//! elements is dear enough for the [ends](super::ends) of rows to be vectors, too.

use std::collections::{BTreeSet, HashSet};

use crate::error::Result;
use crate::expr::{Expr, Symbol};
use crate::sketch::ir::{Axis, Carried, Loop, Op, Stmt as SketchStmt, Val};

use super::mapper::{Mapper, Resource, State, Value};
use super::node::NodeId;

/// The most definitions that all iterations of such a loop make together.
const MOST: i64 = 128;
/// Tiles of fewer elements are no vectors.
const FEWEST: usize = 8;

impl<'a> Mapper<'a> {
    /// Has each element go through all iterations of `l` at once where it is used, if that is possible and short. Returns
    /// whether it is.
    pub(super) fn goes_inside(&mut self, l: &'a Loop) -> Result<bool> {
        let (&[carried], Some(count)) = (&l.carried[..], iterations(l)) else {
            return Ok(false);
        };
        let definitions = count.checked_mul(l.body.len() as i64);
        let elements: usize = self.kernel.ty(carried.result).extents.iter().product();
        if definitions.is_none_or(|all| all > MOST) || elements < FEWEST || !self.keeps_places(l) {
            return Ok(false);
        }
        let mut reads = self.reads(carried.initial);
        let mut own = HashSet::from([carried.inner]);
        let mut cost = 0u32;
        for stmt in &l.body {
            self.at += 1;
            if let SketchStmt::Define { value, op, .. } = stmt {
                for operand in op.operands() {
                    if !own.contains(&operand) {
                        reads.extend(self.reads(operand));
                    }
                }
                own.insert(*value);
                cost = cost.max(self.cost(op));
                self.set_inline(*value, Some(op), BTreeSet::new(), cost);
            }
        }
        self.at += 1;
        let cost = cost.saturating_mul(u32::try_from(count).unwrap_or(u32::MAX));
        self.set_inline(carried.result, None, reads, cost);
        self.inside.insert(carried.result, (l, carried));
        let used = self.uses[carried.result.0 as usize];
        if used.count > 1 || used.repeated {
            let local = self.local_for(carried.result);
            self.write(local, carried.result)?;
            self.define_stored(carried.result, local);
        }
        Ok(true)
    }

    fn set_inline(&mut self, v: Val, op: Option<&'a Op>, reads: BTreeSet<Resource>, cost: u32) {
        let block = self.block;
        *self.value_mut(v) = Value {
            op,
            state: State::Inline,
            reads,
            cost,
            block,
        };
    }

    /// Whether an iteration makes each element of what it carries of the same element and of nothing that changes.
    fn keeps_places(&self, l: &Loop) -> bool {
        let mut carrying: HashSet<Val> = l.carried.iter().map(|c| c.inner).collect();
        l.body.iter().all(|stmt| {
            let SketchStmt::Define { value, op, .. } = stmt else {
                return false;
            };
            let same_place = |v: &Val| self.kernel.ty(*v).extents == self.kernel.ty(*value).extents;
            let carried: Vec<Val> = op
                .operands()
                .into_iter()
                .filter(|v| carrying.contains(v))
                .collect();
            if !carried.is_empty() {
                carrying.insert(*value);
            }
            let is_plain = |axis: &Axis| matches!(axis, Axis::Range { .. } | Axis::At(_));
            let is_element = match op {
                Op::Load { tensor, region, .. } => {
                    region.iter().all(is_plain) && !self.written.contains(tensor)
                }
                Op::Full(_)
                | Op::Index(_)
                | Op::Unary(..)
                | Op::Binary(..)
                | Op::Compare(..)
                | Op::Select(..)
                | Op::Cast(_)
                | Op::Bits(_) => true,
                _ => false,
            };
            is_element && carried.iter().all(same_place)
        })
    }

    /// An element of what `l` carries, after all iterations.
    pub(super) fn after_iterations(
        &mut self,
        l: &'a Loop,
        carried: Carried,
        index: &[Expr],
    ) -> Result<NodeId> {
        let own: HashSet<Val> = l.body.iter().filter_map(defined).chain([carried.inner]).collect();
        let mut node = self.element(carried.initial, index)?;
        for values in points(l) {
            self.symbols.extend(values);
            self.frame.forget(&own);
            self.frame.remember(carried.inner, index, node);
            node = self.element(carried.next, index)?;
        }
        self.frame.forget(&own);
        Ok(node)
    }
}

/// How often a loop goes round, if that is known.
fn iterations(l: &Loop) -> Option<i64> {
    l.axes.iter().try_fold(1i64, |all, axis| {
        let (lo, hi) = (axis.lo.as_const()?, axis.hi.as_const()?);
        let count = hi.checked_sub(lo)?.max(0).checked_add(axis.step - 1)? / axis.step;
        all.checked_mul(count)
    })
}

/// The values of the indices in all iterations, in their order.
fn points(l: &Loop) -> Vec<Vec<(Symbol, Expr)>> {
    let mut points = vec![Vec::new()];
    for axis in &l.axes {
        let ends = (axis.lo.as_const().unwrap_or(0), axis.hi.as_const().unwrap_or(0));
        let step = usize::try_from(axis.step).unwrap_or(1);
        let values: Vec<i64> = (ends.0..ends.1).step_by(step).collect();
        let with = |point: &Vec<(Symbol, Expr)>, value: i64| {
            let mut point = point.clone();
            point.push((axis.symbol.clone(), Expr::constant(value)));
            point
        };
        points = points
            .iter()
            .flat_map(|point| values.iter().map(|value| with(point, *value)).collect::<Vec<_>>())
            .collect();
    }
    points
}

fn defined(stmt: &SketchStmt) -> Option<Val> {
    match stmt {
        SketchStmt::Define { value, .. } => Some(*value),
        _ => None,
    }
}
