//! Windows that slide along the last dimensions of a value, for pools and convolutions.

use crate::designer::prim::{PrimId, Prims};
use crate::designer::window::{Outside, Window};
use crate::error::{Error, Result};
use crate::expr::Expr;

/// The windows along one dimension: the element of tap `t` at place `p` has the coordinate `start + stride * p + step * t`.
#[derive(Debug, Clone)]
pub(super) struct Sliding {
    pub(super) start: i64,
    pub(super) stride: i64,
    pub(super) step: i64,
    /// How many places there are.
    pub(super) places: Expr,
    /// How many taps each has.
    pub(super) taps: i64,
}

/// What windows see.
pub(super) struct Seen {
    pub(super) value: PrimId,
    /// The dimension of the places along each of the dimensions that were slid along.
    pub(super) places: Vec<usize>,
    /// That of the taps of each of those where there is more than one.
    pub(super) taps: Vec<usize>,
}

impl Sliding {
    /// Whether every place sees the element of its own coordinate.
    fn is_plain(&self, extent: &Expr) -> bool {
        self.taps == 1 && self.start == 0 && self.stride == 1 && self.places == *extent
    }

    /// The only element of a dimension once for each place.
    fn repeated(&self, prims: &mut Prims, x: PrimId, dim: usize) -> Result<PrimId> {
        let sees_it = |p: i64| (0..self.taps).any(|t| self.start + self.stride * p + self.step * t == 0);
        let places = self.places.as_const().filter(|count| (0..*count).all(sees_it));
        let places = places.ok_or_else(|| {
            Error::unsupported(
                "no design rule yet for windows that see nothing of a dimension of one element",
            )
        })?;
        let mut shape = prims.shape(x).to_vec();
        shape[dim] = places.into();
        Ok(prims.expand(x, shape))
    }
}

/// Slides along the last dimensions of `x`; outside stands nothing. Along a dimension of one element, that is all there is
/// to see, from each of the places.
pub(super) fn slide(prims: &mut Prims, x: PrimId, along: &[Sliding]) -> Result<Seen> {
    let mut dim = prims.rank(x) - along.len();
    // Before windows see it: a copy would take nothing for zeros.
    let (mut x, mut lone) = (x, Vec::new());
    for (dim, sliding) in (dim..).zip(along) {
        let is_lone = prims.extent(x, dim).is(1);
        lone.push(is_lone);
        if is_lone && !sliding.places.is(1) {
            x = sliding.repeated(prims, x, dim)?;
        }
    }
    let mut seen = Seen {
        value: x,
        places: Vec::new(),
        taps: Vec::new(),
    };
    for (sliding, is_lone) in along.iter().zip(lone) {
        seen.places.push(dim);
        let extent = prims.extent(seen.value, dim);
        let steps = match sliding.taps {
            1 => vec![sliding.stride],
            _ => vec![sliding.stride, sliding.step],
        };
        let is_slid = !is_lone && !sliding.is_plain(&extent);
        if !is_slid {
            dim += 1;
            continue;
        }
        if steps.len() > 1 {
            seen.taps.push(dim + 1);
        }
        let counts = [sliding.places.clone(), sliding.taps.into()];
        let window = Window {
            dim,
            start: sliding.start.into(),
            outside: Outside::Nothing,
            steps,
        };
        dim += window.steps.len();
        let counts = &counts[..window.steps.len()];
        seen.value = prims.slide(seen.value, window, counts);
    }
    Ok(seen)
}
