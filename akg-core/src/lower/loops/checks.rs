//! How the bounds of tensors are checked in a nest: by the ranges of its loops, once around it, or at each point.

use std::collections::HashMap;

use super::effect::{Effect, combination, identity};
use super::ir::{LoopKind, Stmt};
use super::mapper::Mapper;
use super::nest::{Nest, Plan};
use super::node::{Guard, NodeId, NodeKind};
use crate::expr::{Expr, Symbol};
use crate::sketch::ir::{CompareOp, Condition};

/// How a guard is checked.
#[derive(Debug, Clone)]
pub(super) enum Check {
    /// The tile index lies between the bounds that a [`Stmt::Clip`] computes.
    Range(Vec<Condition>),
    /// The same for all points.
    Once(Condition),
    /// For each point.
    Each(Condition),
    /// The loops go only where it holds.
    Holds,
}

impl Mapper<'_> {
    /// Turns the nest's clip into loop ranges, a condition around the nest, and conditions around its effects.
    pub(super) fn clip_checks(&mut self, nest: &Nest, plan: &mut Plan) -> Clipped {
        let mut clipped = Clipped::default();
        for guard in &nest.clip {
            match self.check(guard, nest, plan) {
                None | Some(Check::Holds) => {}
                Some(Check::Range(bounds)) => clipped.ranges.extend(bounds),
                Some(Check::Once(c)) => clipped.once.push(c),
                Some(Check::Each(c)) => clipped.each.push(c),
            }
            plan.checks.insert(guard.clone(), Check::Holds);
        }
        clipped
    }

    /// The same for points that [change nothing](Self::without_effect). Where each would have to be asked, they stay.
    pub(super) fn skip_checks(&mut self, nest: &Nest, plan: &mut Plan) -> Clipped {
        let mut skipped = Clipped::default();
        for guard in self.without_effect(nest) {
            let check = match self.check(&guard, nest, plan) {
                Some(Check::Range(bounds)) => {
                    skipped.ranges.extend(bounds);
                    Check::Holds
                }
                Some(Check::Once(c)) => {
                    skipped.once.push(c);
                    Check::Holds
                }
                other => other.unwrap_or(Check::Holds),
            };
            plan.checks.insert(guard, check);
        }
        skipped
    }

    /// The bounds outside of which the nest changes nothing, except the sign of a zero: a local takes up what is read there, and
    /// finds a neutral element.
    fn without_effect(&self, nest: &Nest) -> Vec<Guard> {
        let kind = |id: &NodeId| &self.nodes.get(*id).kind;
        let [Effect::Set { local, offset, value }] = nest.effects.as_slice() else {
            return Vec::new();
        };
        let is_local = |id: &NodeId| matches!(kind(id), NodeKind::Local(l, at) if l == local && at == offset);
        let (op, mut taken_up) = match kind(value) {
            NodeKind::Binary(op, a, b) if is_local(a) => (op, b),
            NodeKind::Binary(op, a, b) if is_local(b) => (op, a),
            _ => return Vec::new(),
        };
        let is_float = |id: &NodeId| self.nodes.get(*id).dtype.is_float();
        if let NodeKind::Cast(from) = kind(taken_up)
            && is_float(from)
            && is_float(taken_up)
        {
            taken_up = from;
        }
        let read = self.nodes.get(*taken_up);
        match (&read.kind, combination(*op)) {
            (NodeKind::Tensor { guards, fill, .. }, Some(op))
                if *fill == identity(op, read.dtype).into()
                    && nest.before.is_empty()
                    && nest.after.is_empty() =>
            {
                guards.clone()
            }
            _ => Vec::new(),
        }
    }

    pub(super) fn load_checks(&mut self, nest: &Nest, plan: &mut Plan) {
        let guards: Vec<Guard> = plan
            .levels
            .keys()
            .filter_map(|id| match &self.nodes.get(*id).kind {
                NodeKind::Tensor { guards, .. } => Some(guards.clone()),
                _ => None,
            })
            .flatten()
            .collect();
        for guard in guards {
            if !plan.checks.contains_key(&guard) {
                let check = self.check(&guard, nest, plan).unwrap_or(Check::Holds);
                plan.checks.insert(guard, check);
            }
        }
    }

    /// How `guard` is checked in `nest`, with the bounds it needs appended; `None` if it always holds.
    fn check(&mut self, guard: &Guard, nest: &Nest, plan: &Plan) -> Option<Check> {
        let Guard { coordinate, extent } = guard;
        let low_holds = self.bounds(coordinate).is_some_and(|b| b.0 >= 0);
        let high_holds = self.below(coordinate, extent);
        if low_holds && high_holds {
            return None;
        }
        let on: Vec<_> = nest.axes.iter().filter(|(s, _)| coordinate.mentions(s)).collect();
        let is_dynamic = coordinate.symbols().iter().any(|s| self.dynamic.contains_key(s));
        if let ([(symbol, len)], false) = (on.as_slice(), is_dynamic)
            && let Some([lo, hi]) = self.clip(guard, symbol, *len)
        {
            let index = Expr::symbol(symbol.clone());
            let bounds = [(CompareOp::Ge, lo), (CompareOp::Lt, hi)].into_iter();
            let bounds = bounds.filter_map(|(op, bound)| Some(Condition::Compare(op, index.clone(), bound?)));
            return Some(Check::Range(bounds.collect()));
        }
        let low = (!low_holds).then(|| Condition::Compare(CompareOp::Ge, coordinate.clone(), 0.into()));
        let high =
            (!high_holds).then(|| Condition::Compare(CompareOp::Lt, coordinate.clone(), extent.clone()));
        let condition = all(low.into_iter().chain(high).collect())?;
        let once = !is_dynamic && self.index_level(coordinate, nest, &plan.levels) == 0;
        Some(if once {
            Check::Once(condition)
        } else {
            Check::Each(condition)
        })
    }

    /// The first of the indices `symbol` in `0..len` for which the guard holds, and the end of them, where they are not the
    /// first and the end of all; `None` if the coordinate has no constant step along them.
    pub(super) fn clip(&mut self, guard: &Guard, symbol: &Symbol, len: usize) -> Option<[Option<Expr>; 2]> {
        let Guard { coordinate, extent } = guard;
        let (start, step) = affine(coordinate, symbol)?;
        let low_holds = |e: &Expr| self.bounds(e).is_some_and(|b| b.0 >= 0);
        let (need_lo, need_hi) = if step > 0 {
            (!low_holds(&start), !self.below(coordinate, extent))
        } else {
            (!self.below(&start, extent), !low_holds(coordinate))
        };
        if let (Some(start), Some(extent)) = (start.as_const(), extent.as_const()) {
            let (lo, hi) = clip(start, step, extent, len as i64);
            return Some([need_lo.then(|| lo.into()), need_hi.then(|| hi.into())]);
        }
        let mut bound = |needed: bool, suffix: &str| {
            needed.then(|| {
                let name = self.names.fresh(&format!("{symbol}_{suffix}"));
                self.ranges.insert(name.clone(), (0, len as i64));
                name
            })
        };
        let (lo, hi) = (bound(need_lo, "lo"), bound(need_hi, "hi"));
        self.out.push(Stmt::Clip {
            lo: lo.clone(),
            hi: hi.clone(),
            start,
            step,
            extent: extent.clone(),
            len,
        });
        Some([lo, hi].map(|bound| bound.map(Expr::symbol)))
    }
}

/// What the clip of a nest comes down to.
#[derive(Debug, Clone, Default)]
pub(super) struct Clipped {
    /// Bounds of loop indices.
    pub(super) ranges: Vec<Condition>,
    /// Conditions on the whole nest.
    pub(super) once: Vec<Condition>,
    /// Conditions on each point.
    pub(super) each: Vec<Condition>,
}

impl Clipped {
    pub(super) fn range(&self, symbol: &Symbol, len: usize) -> (Expr, Expr) {
        let (mut lo, mut hi) = (Expr::constant(0), Expr::from(len));
        for condition in &self.ranges {
            if let Condition::Compare(op, index, bound) = condition
                && index.as_symbol() == Some(symbol)
            {
                match op {
                    CompareOp::Ge => lo = lo.maximum(bound),
                    _ => hi = hi.minimum(bound),
                }
            }
        }
        // The bounds lie in `0..=len`, which the expressions cannot know.
        let simplify = |e: Expr, neutral: i64| match e.terms() {
            [t] if t.coefficient == 1 => match t.factors.as_slice() {
                [crate::expr::Atom::Max(a, b) | crate::expr::Atom::Min(a, b)] if a.is(neutral) => b.clone(),
                [crate::expr::Atom::Max(a, b) | crate::expr::Atom::Min(a, b)] if b.is(neutral) => a.clone(),
                _ => e,
            },
            _ => e,
        };
        (simplify(lo, 0), simplify(hi, len as i64))
    }
}

/// Whether it bounds this index.
fn is_on(condition: &Condition, symbol: &Symbol) -> bool {
    matches!(condition, Condition::Compare(_, index, _) if index.as_symbol() == Some(symbol))
}

/// The innermost loop, if it is one over the elements of vectors.
pub(super) struct Elements {
    index: Symbol,
    extent: usize,
    /// The number of loops, with this one.
    pub(super) depth: usize,
}

impl Elements {
    /// Those of a nest, if some of what they read is checked along them.
    pub(super) fn checked(nest: &Nest, checks: &HashMap<Guard, Check>) -> Option<Self> {
        let (index, extent) = nest.axes.last().cloned()?;
        let is_along = |check: &Check| match check {
            Check::Range(conditions) => conditions.iter().any(|c| is_on(c, &index)),
            _ => false,
        };
        let is_vector = matches!(nest.innermost, LoopKind::Vector(_));
        let depth = nest.axes.len();
        (is_vector && checks.values().any(is_along)).then_some(Self { index, extent, depth })
    }

    /// Bounds of other indices as bounds of this one: they hold for all elements or for none. Compilers make no vectors of reads
    /// that depend on nothing but what is the same for all elements of a vector.
    pub(super) fn bounds(&self, conditions: Vec<Condition>) -> Vec<Condition> {
        let bound = |condition: &Condition| match condition {
            Condition::Compare(op, index, bound)
                if index.as_symbol().is_some() && !is_on(condition, &self.index) =>
            {
                // Who is off by one is off by the whole extent.
                let bound = (bound - index) * Expr::from(self.extent);
                Some(Condition::Compare(*op, Expr::symbol(self.index.clone()), bound))
            }
            _ => None,
        };
        let bounds: Option<Vec<Condition>> = conditions.iter().map(bound).collect();
        bounds.unwrap_or(conditions)
    }
}

/// The condition that an index bound leaves out no index of the tile.
pub(super) fn full_range(condition: &Condition, nest: &Nest) -> Condition {
    match condition {
        Condition::Compare(CompareOp::Lt, index, bound) => {
            let len = nest
                .axes
                .iter()
                .find(|(s, _)| index.as_symbol() == Some(s))
                .map_or(0, |(_, len)| *len);
            Condition::Compare(CompareOp::Eq, bound.clone(), len.into())
        }
        Condition::Compare(_, _, bound) => Condition::Compare(CompareOp::Eq, bound.clone(), 0.into()),
        other => other.clone(),
    }
}

/// Whether a condition on constants fails.
pub(super) fn is_false(condition: &Condition) -> bool {
    matches!(condition, Condition::Compare(CompareOp::Eq, a, b)
        if a.as_const().is_some() && b.as_const().is_some() && a != b)
}

/// The bounds of a [`Stmt::Clip`].
fn clip(start: i64, step: i64, extent: i64, len: i64) -> (i64, i64) {
    let inside = |i: &i64| (0..extent).contains(&(start + step * i));
    let lo = (0..len).find(inside).unwrap_or(len);
    let hi = (0..len).rev().find(inside).map_or(0, |i| i + 1);
    (lo, hi)
}

/// The conjunction, if there is anything to check.
pub(super) fn all(conditions: Vec<Condition>) -> Option<Condition> {
    conditions
        .into_iter()
        .reduce(|a, b| Condition::And(Box::new(a), Box::new(b)))
}

/// `(start, step)` if `expr` is `start + step * symbol`.
pub(super) fn affine(expr: &Expr, symbol: &Symbol) -> Option<(Expr, i64)> {
    let start = expr.substitute(&|s| (s == &**symbol).then(|| 0.into()));
    let step = (expr - &start)
        .exact_div(&Expr::symbol(symbol.clone()))?
        .as_const()?;
    Some((start, step))
}
