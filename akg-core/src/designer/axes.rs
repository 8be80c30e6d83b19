//! Axes: the identities of dimensions across the values of a kernel.
//!
//! Every dimension of every value is a list of axes, outermost first; a dimension of extent 1 is the empty list.
//! Element-wise operators make dimensions of their operands the same axis, and a reshape splits axes until both sides
//! have a common factorisation, after which it is a mere relabelling.

use std::collections::BTreeMap;

use super::window::{Outside, Window, visits_inside};
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

/// A dimension of a tensor that axes visit: its coordinate is `start` and, for each of them, the axis's times its step.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Windowed<A> {
    pub(super) start: Expr,
    /// Those of more than one coordinate, with their steps.
    pub(super) axes: Vec<(A, i64)>,
    pub(super) outside: Outside,
}

impl<A: Copy> Windowed<A> {
    /// Whether every coordinate that is visited is one of the `extent` of the dimension.
    pub(super) fn stays_inside(&self, extent: &Expr, extent_of: impl Fn(A) -> Expr) -> bool {
        let counts: Vec<(i64, Expr)> = self.axes.iter().map(|(a, step)| (*step, extent_of(*a))).collect();
        visits_inside(
            &self.start,
            counts.iter().map(|(step, count)| (step, count)),
            extent,
        )
    }

    /// The same with other names for the axes.
    pub(super) fn with<B>(&self, mut name: impl FnMut(A) -> B) -> Windowed<B> {
        Windowed {
            start: self.start.clone(),
            axes: self.axes.iter().map(|(a, step)| (name(*a), *step)).collect(),
            outside: self.outside,
        }
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

    /// Replaces a dimension of a tensor by new dimensions of these extents, which see it through a window.
    pub(super) fn window(
        &mut self,
        dimension: AxisId,
        window: &Window,
        counts: &[Expr],
    ) -> Result<Vec<Vec<AxisId>>, Conflict> {
        if self.windows.contains_key(&dimension) {
            return Err(Conflict);
        }
        let dims: Vec<Vec<AxisId>> = counts.iter().map(|count| self.fresh(count)).collect();
        let steps = dims.iter().zip(&window.steps);
        let windowed = Windowed {
            start: window.start.clone(),
            axes: steps
                .flat_map(|(axes, step)| axes.iter().map(|a| (*a, *step)))
                .collect(),
            outside: window.outside,
        };
        self.windows.insert(dimension, windowed);
        Ok(dims)
    }

    /// Returns true if a dimension is seen through a window.
    pub(super) fn has_windows(&self) -> bool {
        !self.windows.is_empty()
    }

    /// The window through which a dimension is seen; its axes are resolved.
    pub(super) fn windowed(&self, dimension: AxisId) -> Option<Windowed<AxisId>> {
        let window = self.windows.get(&dimension)?;
        let mut axes = Vec::new();
        for (axis, step) in &window.axes {
            let mut parts = self.resolve(&[*axis]);
            let at = axes.len();
            let mut step = *step;
            while let Some(part) = parts.pop() {
                axes.insert(at, (part, step));
                // What windows see is only split where this is known.
                step *= self.extent(part).as_const().unwrap_or(1);
            }
        }
        Some(Windowed {
            axes,
            ..window.clone()
        })
    }

    /// Whether a window that steps along this axis meets coordinates outside of what it sees.
    pub(super) fn leaves(&self, axis: AxisId) -> bool {
        let mut windows = self.windows.keys().filter_map(|d| Some((*d, self.windowed(*d)?)));
        windows.any(|(dimension, window)| {
            let is_along = window.axes.iter().any(|(a, _)| *a == axis);
            is_along && !window.stays_inside(self.extent(dimension), |a| self.extent(a).clone())
        })
    }

    /// Whether a window sees the dimension, or steps along it by an inner axis of an extent that is not known.
    fn is_whole(&self, axis: AxisId, inner: AxisId) -> bool {
        let steps = |w: &Windowed<AxisId>| w.axes.iter().any(|(a, _)| self.resolve(&[*a]).contains(&axis));
        let is_open = self.extent(inner).as_const().is_none();
        self.windows.contains_key(&axis) || is_open && self.windows.values().any(steps)
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
        if self.is_whole(axis, inner) {
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
