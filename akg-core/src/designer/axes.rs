//! Axes: the identities of dimensions across the values of a kernel.
//!
//! Every dimension of every value is a list of axes, outermost first; a dimension of extent 1 is the empty list.
//! Element-wise operators make dimensions of their operands the same axis, and a reshape splits axes until both sides
//! have a common factorisation, after which it is a mere relabelling.

use std::collections::BTreeMap;

use super::window::visits_inside;
use crate::expr::Expr;

/// Names an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct AxisId(usize);

#[derive(Debug, Clone)]
enum State {
    /// A distinct axis.
    Root,
    /// Found to be the same as these, outermost first: one for an alias, several for a split.
    Same(Vec<AxisId>),
}

/// A dimension of a tensor of which an axis visits every `step`th coordinate from `start` on.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Windowed<A> {
    /// `None` if only `start` is visited.
    pub(super) axis: Option<A>,
    pub(super) start: Expr,
    pub(super) step: i64,
}

impl<A: Copy> Windowed<A> {
    /// Whether every coordinate that is visited is one of the `extent` of the dimension.
    pub(super) fn stays_inside(&self, extent: &Expr, extent_of: impl Fn(A) -> Expr) -> bool {
        let count = self.axis.map_or(Expr::constant(1), extent_of);
        visits_inside(&self.start, self.step, &count, extent)
    }
}

/// All axes of a design.
#[derive(Debug, Clone, Default)]
pub(super) struct Axes {
    states: Vec<(State, Expr)>,
    /// The dimensions that are seen through windows; none is part of a value's dimensions.
    windows: BTreeMap<AxisId, Windowed<AxisId>>,
}

/// Two dimensions that cannot be the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Conflict;

impl Axes {
    /// A new axis, or none for the extent 1.
    pub(super) fn fresh(&mut self, extent: &Expr) -> Vec<AxisId> {
        if extent.is(1) {
            return Vec::new();
        }
        self.states.push((State::Root, extent.clone()));
        vec![AxisId(self.states.len() - 1)]
    }

    pub(super) fn extent(&self, axis: AxisId) -> &Expr {
        &self.states[axis.0].1
    }

    /// Replaces a dimension of a tensor by a new axis of `extent` coordinates that sees it through a window.
    pub(super) fn window(
        &mut self,
        dimension: AxisId,
        start: Expr,
        step: i64,
        extent: &Expr,
    ) -> Result<Vec<AxisId>, Conflict> {
        if self.windows.contains_key(&dimension) {
            return Err(Conflict);
        }
        let axes = self.fresh(extent);
        let axis = axes.first().copied();
        self.windows.insert(dimension, Windowed { axis, start, step });
        Ok(axes)
    }

    /// The window through which a dimension is seen; its axis is resolved.
    pub(super) fn windowed(&self, dimension: AxisId) -> Option<Windowed<AxisId>> {
        let window = self.windows.get(&dimension)?;
        Some(Windowed {
            axis: window.axis.and_then(|a| self.resolve(&[a]).first().copied()),
            ..window.clone()
        })
    }

    /// Whether a window needs the axis in one piece.
    fn is_whole(&self, axis: AxisId) -> bool {
        let sees = |w: &Windowed<AxisId>| w.axis.is_some_and(|a| self.resolve(&[a]) == [axis]);
        self.windows.contains_key(&axis) || self.windows.values().any(sees)
    }

    /// The distinct axes that a list stands for.
    pub(super) fn resolve(&self, list: &[AxisId]) -> Vec<AxisId> {
        let mut out = Vec::with_capacity(list.len());
        for axis in list {
            match &self.states[axis.0].0 {
                State::Root => out.push(*axis),
                State::Same(others) => out.extend(self.resolve(others)),
            }
        }
        out
    }

    fn split(&mut self, axis: AxisId, inner: AxisId) -> Option<AxisId> {
        if self.is_whole(axis) {
            return None;
        }
        let outer = self.extent(axis).exact_div(self.extent(inner))?;
        let [outer] = self.fresh(&outer)[..] else {
            return None;
        };
        self.states[axis.0].0 = State::Same(vec![outer, inner]);
        Some(outer)
    }

    /// Makes two lists the same axes.
    pub(super) fn unify(&mut self, a: &[AxisId], b: &[AxisId]) -> Result<(), Conflict> {
        self.walk(a, b, true)
    }

    /// Gives two lists the same extents without making them the same axes: two accesses of one tensor.
    pub(super) fn align(&mut self, a: &[AxisId], b: &[AxisId]) -> Result<(), Conflict> {
        self.walk(a, b, false)
    }

    fn walk(&mut self, a: &[AxisId], b: &[AxisId], same: bool) -> Result<(), Conflict> {
        let (mut a, mut b) = (self.resolve(a), self.resolve(b));
        loop {
            let (p, q) = match (a.pop(), b.pop()) {
                (None, None) => return Ok(()),
                (Some(p), Some(q)) => (p, q),
                _ => return Err(Conflict),
            };
            // A split or alias made on the way may concern what is still on the lists.
            let (ps, qs) = (self.resolve(&[p]), self.resolve(&[q]));
            if ps != [p] || qs != [q] {
                a.extend(ps);
                b.extend(qs);
                continue;
            }
            if p == q {
                continue;
            }
            let (ep, eq) = (self.extent(p).clone(), self.extent(q).clone());
            if ep == eq {
                if same {
                    self.states[p.0].0 = State::Same(vec![q]);
                }
            } else if let Some(rest) = self.split_like(p, q, &ep, &eq, same) {
                a.push(rest);
            } else if let Some(rest) = self.split_like(q, p, &eq, &ep, same) {
                b.push(rest);
            } else {
                return Err(Conflict);
            }
        }
    }

    /// Splits `large` into an outer axis, which is returned, and an inner one of `small`'s extent.
    fn split_like(
        &mut self,
        large: AxisId,
        small: AxisId,
        el: &Expr,
        es: &Expr,
        same: bool,
    ) -> Option<AxisId> {
        el.exact_div(es)?;
        if same {
            return self.split(large, small);
        }
        let [inner] = self.fresh(es)[..] else { return None };
        self.split(large, inner)
    }

    /// Regroups the axes of a row-major list into dimensions of the given extents.
    pub(super) fn regroup(&mut self, list: &[AxisId], shape: &[Expr]) -> Result<Vec<Vec<AxisId>>, Conflict> {
        let fresh: Vec<Vec<AxisId>> = shape.iter().map(|d| self.fresh(d)).collect();
        self.unify(&fresh.concat(), list)?;
        Ok(fresh.iter().map(|d| self.resolve(d)).collect())
    }
}

/// Whether no axis occurs twice.
pub(super) fn distinct(list: &[AxisId]) -> bool {
    list.iter().enumerate().all(|(i, a)| !list[..i].contains(a))
}
