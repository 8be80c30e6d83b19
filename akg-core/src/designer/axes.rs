//! Axes: the identities of dimensions across the values of a kernel.
//!
//! Every dimension of every value is a list of axes, outermost first; a dimension of extent 1 is the empty list.
//! Element-wise operators make dimensions of their operands the same axis, and a reshape splits axes until both sides
//! have a common factorisation, after which it is a mere relabelling.

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

/// All axes of a design.
#[derive(Debug, Clone, Default)]
pub(super) struct Axes {
    states: Vec<(State, Expr)>,
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
