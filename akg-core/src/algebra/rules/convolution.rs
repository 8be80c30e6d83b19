//! Means and sums over the positions of a convolution.
//!
//! Each element of a window meets a stretch of the input, the same one for all positions of the other axes. So what is
//! summed over an axis of the result is, for each element of the window, the sum over its stretch: an input with as many
//! elements along that axis as the window has, or one if all stretches are the same.

use egg::Id;

use super::read::{CONVOLUTIONS, SUMS, count, layer, reduction};
use super::{Found, Kind, Rule};
use crate::algebra::site::{Site, arg};
use crate::algebra::term::Term;
use crate::graph::Arg;
use crate::task::Accuracy;

pub(super) const RULES: &[Rule] = &[
    Rule {
        name: "sum-through-convolution",
        kind: Kind::Reassociating(Accuracy::Fp32),
        statement: "the sum or mean over positions of a convolution is a convolution of sums of the input",
        roots: SUMS,
        inner: CONVOLUTIONS,
        apply: |site, at| (!at.inner.is_transposed()).then(|| through(site, at))?,
    },
    Rule {
        name: "sum-through-transposed-convolution",
        kind: Kind::Reassociating(Accuracy::Fp32),
        statement: "the sum or mean over positions of a transposed convolution is one of sums of the input",
        roots: SUMS,
        inner: CONVOLUTIONS,
        apply: |site, at| at.inner.is_transposed().then(|| through(site, at))?,
    },
];

/// Windows with more elements along an axis are left alone.
const MOST_TAPS: i64 = 16;

/// The window along one axis.
struct Axis {
    /// The axis of the input, the result and the weight.
    at: usize,
    input: i64,
    result: i64,
    taps: i64,
    stride: i64,
    padding: i64,
    dilation: i64,
}

/// Every `step`-th of `lo..hi`.
#[derive(Clone, Copy, PartialEq)]
struct Stretch {
    lo: i64,
    hi: i64,
    step: i64,
}

impl Axis {
    /// What the window's element `tap` meets of the input.
    fn stretch(&self, tap: i64, transposed: bool) -> Stretch {
        let ceil = |a: i64, b: i64| -(-a).div_euclid(b);
        let offset = tap * self.dilation - self.padding;
        if transposed {
            // Input i goes to result i * stride + offset.
            let lo = ceil(-offset, self.stride).max(0);
            let hi = (self.result - 1 - offset).div_euclid(self.stride) + 1;
            return Stretch {
                lo,
                hi: hi.min(self.input),
                step: 1,
            };
        }
        // Result o reads input o * stride + offset.
        let first = ceil(-offset, self.stride).max(0);
        let end = ((self.input - 1 - offset).div_euclid(self.stride) + 1).min(self.result);
        Stretch {
            lo: first * self.stride + offset,
            hi: (end - 1) * self.stride + offset + 1,
            step: self.stride,
        }
    }
}

fn through(site: &mut Site<'_>, at: &Found<'_>) -> Option<Id> {
    let read = reduction(site, at.node)?;
    let layer = layer(site, at.inner)?;
    let transposed = at.inner.is_transposed();
    let (mut x, mut weight) = (at.inner.operand("input")?, layer.weight);
    let spatial = site.rank(weight)?.checked_sub(2)?;
    if site.rank(x)? != spatial + 2 {
        return None;
    }
    let result = at.inner.ty()?.shape.clone();
    let long = |a: &usize| *a >= 2 && result.get(*a).is_some_and(|d| !d.is(1));
    let summed: Vec<usize> = read.axes.iter().copied().filter(long).collect();
    if summed.is_empty() {
        return None;
    }
    let positions = count(&result, &summed)?;
    let mut window = Window::of(at.inner, spatial, transposed)?;
    for axis in &summed {
        let axis = Axis {
            at: *axis,
            input: site.shape(x)?.get(*axis)?.as_const()?,
            result: result.get(*axis)?.as_const()?,
            taps: site.shape(weight)?.get(*axis)?.as_const()?,
            stride: *window.stride.get(axis - 2)?,
            padding: *window.padding.get(axis - 2)?,
            dilation: *window.dilation.get(axis - 2)?,
        };
        (x, weight) = summed_along(site, &axis, x, weight, transposed)?;
        // Without a step, the transposed window's last element meets the first of the input at this padding.
        let taps = site.shape(weight)?.get(axis.at)?.as_const()?;
        window.still(axis.at - 2, if transposed { taps - 1 } else { 0 })?;
    }
    let mut args = vec![("weight", arg(weight))];
    if read.is_mean {
        x = site.scale(x, 1.0 / positions)?;
    } else if let Some(bias) = layer.bias {
        args.push(("bias", arg(site.scale(bias, positions)?)));
    }
    args.push(("input", arg(x)));
    args.extend(window.args());
    let convolved = site.again(at.inner, args)?;
    site.again(at.node, [("self", arg(convolved))])
}

/// The input and the weight with what is left of an axis that is summed over.
fn summed_along(site: &mut Site<'_>, axis: &Axis, x: Id, weight: Id, transposed: bool) -> Option<(Id, Id)> {
    if axis.taps > MOST_TAPS {
        return None;
    }
    let stretches: Vec<Stretch> = (0..axis.taps).map(|tap| axis.stretch(tap, transposed)).collect();
    let first = *stretches.first()?;
    if stretches.iter().any(|s| s.lo >= s.hi) {
        return None;
    }
    if stretches.iter().all(|s| *s == first) {
        return Some((part(site, x, axis, first)?, site.sum(weight, &[axis.at])?));
    }
    let mut sums = sums(site, x, axis, &stretches)?;
    if transposed {
        sums.reverse();
    }
    let joined = [
        (
            "tensors",
            Arg::Values(
                sums.into_iter()
                    .map(|s| Some(crate::algebra::term::value(s)))
                    .collect(),
            ),
        ),
        ("dim", axis.at.into()),
    ];
    Some((site.call("cat.default", joined)?, weight))
}

/// The sums over stretches. What all have in common is summed once.
fn sums(site: &mut Site<'_>, x: Id, axis: &Axis, stretches: &[Stretch]) -> Option<Vec<Id>> {
    let lo = stretches.iter().map(|s| s.lo).max()?;
    let hi = stretches.iter().map(|s| s.hi).min()?;
    let apart = lo >= hi || stretches.iter().any(|s| s.step != 1);
    let one = |lo, hi| Stretch { lo, hi, step: 1 };
    let mut out = Vec::new();
    for stretch in stretches {
        if apart {
            out.push(part(site, x, axis, *stretch)?);
            continue;
        }
        let mut sum = part(site, x, axis, one(lo, hi))?;
        for edge in [one(stretch.lo, lo), one(hi, stretch.hi)] {
            if edge.lo < edge.hi {
                let more = part(site, x, axis, edge)?;
                sum = site.plus(sum, more)?;
            }
        }
        out.push(sum);
    }
    Some(out)
}

/// The sum over a stretch.
fn part(site: &mut Site<'_>, x: Id, axis: &Axis, stretch: Stretch) -> Option<Id> {
    let mut seen = x;
    if stretch.lo > 0 || stretch.hi < axis.input || stretch.step != 1 {
        let args = [
            ("self", arg(x)),
            ("dim", axis.at.into()),
            ("start", stretch.lo.into()),
            ("end", stretch.hi.into()),
            ("step", stretch.step.into()),
        ];
        seen = site.call("slice.Tensor", args)?;
    }
    if stretch.hi - stretch.lo == 1 {
        return Some(seen);
    }
    site.sum(seen, &[axis.at])
}

/// How the window moves.
struct Window {
    stride: Vec<i64>,
    padding: Vec<i64>,
    dilation: Vec<i64>,
    /// Only of transposed convolutions.
    output_padding: Option<Vec<i64>>,
}

impl Window {
    fn of(term: &Term, spatial: usize, transposed: bool) -> Option<Self> {
        Some(Self {
            stride: term.per_axis("stride", spatial)?,
            padding: term.per_axis("padding", spatial)?,
            dilation: term.per_axis("dilation", spatial)?,
            output_padding: if transposed {
                Some(term.per_axis("output_padding", spatial)?)
            } else {
                None
            },
        })
    }

    /// One position along an axis.
    fn still(&mut self, at: usize, padding: i64) -> Option<()> {
        *self.stride.get_mut(at)? = 1;
        *self.dilation.get_mut(at)? = 1;
        *self.padding.get_mut(at)? = padding;
        if let Some(list) = &mut self.output_padding {
            *list.get_mut(at)? = 0;
        }
        Some(())
    }

    fn args(&self) -> Vec<(&'static str, Arg)> {
        let mut args = vec![
            ("stride", self.stride.as_slice().into()),
            ("padding", self.padding.as_slice().into()),
            ("dilation", self.dilation.as_slice().into()),
        ];
        if let Some(list) = &self.output_padding {
            args.push(("output_padding", list.as_slice().into()));
        }
        args
    }
}
