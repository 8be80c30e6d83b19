//! Views: primitives that show elements of another in other places.

use super::{MapOp, Prim, PrimId, Prims};
use crate::designer::window::{Outside, Window};
use crate::expr::Expr;

impl Prims {
    /// Puts reduced dimensions back with extent 1.
    pub(in crate::designer) fn restore(&mut self, a: PrimId, shape: &[Expr], axes: &[usize]) -> PrimId {
        let kept = shape.iter().enumerate();
        let kept = kept
            .map(|(i, d)| {
                if axes.contains(&i) {
                    Expr::constant(1)
                } else {
                    d.clone()
                }
            })
            .collect();
        self.push(Prim::Reshape(a), self.dtype(a), kept)
    }

    pub(in crate::designer) fn reshape(&mut self, a: PrimId, shape: Vec<Expr>) -> PrimId {
        if self.shape(a) == shape {
            return a;
        }
        self.push(Prim::Reshape(a), self.dtype(a), shape)
    }

    /// All elements as one row.
    pub(in crate::designer) fn row(&mut self, a: PrimId) -> PrimId {
        let count = self.shape(a).iter().fold(Expr::constant(1), |n, d| &n * d);
        self.reshape(a, vec![count])
    }

    pub(in crate::designer) fn permute(&mut self, a: PrimId, perm: Vec<usize>) -> PrimId {
        if perm.iter().copied().eq(0..perm.len()) {
            return a;
        }
        let shape = perm
            .iter()
            .filter_map(|p| self.shape(a).get(*p).cloned())
            .collect();
        self.push(Prim::Permute(a, perm), self.dtype(a), shape)
    }

    pub(in crate::designer) fn expand(&mut self, a: PrimId, shape: Vec<Expr>) -> PrimId {
        if self.shape(a) == shape {
            return a;
        }
        self.push(Prim::Expand(a), self.dtype(a), shape)
    }

    /// `extent` coordinates of `a` along the window's dimension, of which `a` must have more than one.
    pub(in crate::designer) fn window(&mut self, a: PrimId, window: Window, extent: Expr) -> PrimId {
        let whole = window.start.is(0) && window.steps == [1] && self.extent(a, window.dim) == extent;
        if whole {
            a
        } else {
            self.slide(a, window, &[extent])
        }
    }

    /// Takes the elements at one coordinate along a dimension, which disappears.
    pub(in crate::designer) fn at(&mut self, a: PrimId, dim: usize, place: Expr) -> PrimId {
        let kept = self.shape(a).iter().enumerate().filter(|(i, _)| *i != dim);
        let kept = kept.map(|(_, extent)| extent.clone()).collect();
        let one = self.window(a, Window::new(dim, place, 1), Expr::constant(1));
        self.reshape(one, kept)
    }

    /// The dimensions of so many coordinates that stand for the window's, of which `a` must have more than one.
    pub(in crate::designer) fn slide(&mut self, a: PrimId, window: Window, counts: &[Expr]) -> PrimId {
        if let Prim::Window(first, original) = self.node(a).prim.clone()
            && let ([step], true) = (first.steps.as_slice(), first.dim == window.dim)
            && window.stays_inside(counts, &self.extent(a, window.dim))
        {
            let composed = Window {
                start: window.start * *step + first.start,
                steps: window.steps.iter().map(|s| s * step).collect(),
                ..first
            };
            return match counts {
                [extent] => self.window(original, composed, extent.clone()),
                _ => self.slide(original, composed, counts),
            };
        }
        let mut shape = self.shape(a).to_vec();
        if window.dim < shape.len() {
            shape.splice(window.dim..=window.dim, counts.iter().cloned());
        }
        let a = if self.shows_dimension(a, window.dim) {
            a
        } else {
            self.copy(a)
        };
        self.push(Prim::Window(window, a), self.dtype(a), shape)
    }

    /// Returns true if a dimension of a view is a whole dimension of the viewed value.
    fn shows_dimension(&self, a: PrimId, dim: usize) -> bool {
        match &self.node(a).prim {
            Prim::Permute(inner, perm) => perm.get(dim).is_some_and(|d| self.shows_dimension(*inner, *d)),
            Prim::Window(w, inner) => w.shown(dim).is_some_and(|d| self.shows_dimension(*inner, d)),
            Prim::Reshape(_) => self.reshaped(a).is_some(),
            Prim::Expand(_) => false,
            _ => true,
        }
    }

    /// Finds the value whose elements `a` has, all of them in order.
    pub(in crate::designer) fn reshaped(&self, a: PrimId) -> Option<PrimId> {
        match &self.node(a).prim {
            Prim::Reshape(inner) => self.reshaped(*inner),
            _ => self.viewed(a).is_none().then_some(a),
        }
    }

    /// The value itself, or a copy if it shows zeros beyond a tensor or elements more than once: combinations take what
    /// stands outside of tensors for nothing, and go through each element of memory once.
    pub(in crate::designer) fn as_elements(&mut self, a: PrimId) -> PrimId {
        let mut view = a;
        while let Some(inner) = self.viewed(view) {
            let is_other = match &self.node(view).prim {
                Prim::Window(w, _) => {
                    let reaches_out = !w.stays_inside(w.counts(self.shape(view)), &self.extent(inner, w.dim));
                    w.outside == Outside::Zeros && reaches_out
                }
                Prim::Expand(_) => self.repeats(view, inner),
                _ => false,
            };
            if is_other {
                return self.copy(a);
            }
            view = inner;
        }
        a
    }

    /// Returns true if an expansion has more elements than the expanded value.
    fn repeats(&self, expanded: PrimId, inner: PrimId) -> bool {
        let real = |id: PrimId| self.shape(id).iter().filter(|d| !d.is(1)).count();
        real(expanded) != real(inner)
    }

    /// Copies the elements to a value of their own.
    pub(in crate::designer) fn copy(&mut self, a: PrimId) -> PrimId {
        let (dtype, shape) = (self.dtype(a), self.shape(a).to_vec());
        self.push(Prim::Map(MapOp::Cast, vec![a]), dtype, shape)
    }

    /// The elements along a dimension in opposite order.
    pub(in crate::designer) fn flip(&mut self, a: PrimId, dim: usize) -> PrimId {
        let extent = self.extent(a, dim);
        if extent.is(1) {
            return a;
        }
        let start = extent.clone() - 1;
        self.window(a, Window::new(dim, start, -1), extent)
    }
}
