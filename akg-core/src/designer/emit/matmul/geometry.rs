//! What a convolution's windows see of an image, as coordinates of its copy.

use super::{Product, ceildiv};
use crate::designer::device::Factors;
use crate::designer::plan::{Axis, TensorKey};
use crate::expr::Expr;

/// Channels of a folded copy are multiples of this many, 16 bytes, as copy engines ask.
pub(super) const GRAIN: i64 = 8;

/// A spatial dimension of an image: at place `p`, tap `t` meets the element `start + stride * p + step * t`.
///
/// The copy has an image for each phase of the stride, in which elements that are a stride apart are neighbours. So tap `t`
/// meets neighbours in all neighbouring places, of the phase `(start + step * t) % stride`.
#[derive(Debug, Clone)]
pub(super) struct Spatial {
    pub(super) extent: i64,
    /// The axis of places in the result, if there are several.
    pub(super) place: Option<Axis>,
    /// The axis of taps and their number, if there are several.
    pub(super) tap: Option<(Axis, i64)>,
    pub(super) start: i64,
    pub(super) stride: i64,
    pub(super) step: i64,
}

impl Spatial {
    /// Dimension `dimension` of the image of `product`; `None` if it is seen otherwise.
    fn new(product: &Product<'_>, dimension: Axis) -> Option<Self> {
        let kernel = product.kernel;
        let extent = product.extent(dimension).as_const()?;
        let mut spatial = Self {
            extent,
            place: None,
            tap: None,
            start: 0,
            stride: 1,
            step: 1,
        };
        let Some(window) = kernel.windows.get(&dimension) else {
            spatial.place = Some(dimension);
            return (!kernel.reduced.contains(&dimension)).then_some(spatial);
        };
        // A sum of products takes nothing for zero.
        spatial.start = window.start.as_const()?;
        for (axis, step) in window.axes.iter().copied() {
            if kernel.reduced.contains(&axis) {
                let is_first = spatial
                    .tap
                    .replace((axis, product.extent(axis).as_const()?))
                    .is_none();
                spatial.step = step;
                is_first.then_some(())?;
            } else {
                let is_first = spatial.place.replace(axis).is_none();
                spatial.stride = step;
                (is_first && step > 0).then_some(())?;
            }
        }
        Some(spatial)
    }

    /// The images that the copy has for this dimension: all phases, or the only one that taps meet.
    pub(super) fn phases(&self) -> Phases {
        let (first, taps) = (self.start, self.tap.map_or(1, |(_, count)| count));
        let mut met = (0..taps).map(|t| (first + self.step * t).rem_euclid(self.stride));
        let one = met.next().unwrap_or_default();
        if met.all(|phase| phase == one) {
            Phases::One(one)
        } else {
            Phases::All(self.stride)
        }
    }

    pub(super) fn has_phases(&self) -> bool {
        matches!(self.phases(), Phases::All(_))
    }

    /// The extent of the copy.
    pub(super) fn copied(&self) -> i64 {
        ceildiv(self.extent, self.stride)
    }

    /// What tap `tap`, given as text, adds to a place's coordinate in the copy, and the phase in which that is.
    pub(super) fn seen(&self, tap: &str) -> (String, String) {
        let Some(_) = self.tap else {
            let (q, phase) = (
                self.start.div_euclid(self.stride),
                self.start.rem_euclid(self.stride),
            );
            return (q.to_string(), phase.to_string());
        };
        let lead = (-self.start).max(0) + (-self.step).max(0) * self.tap.map_or(0, |(_, count)| count);
        let lead = ceildiv(lead, self.stride);
        let step = match self.step {
            1 => tap.to_owned(),
            step => format!("{step}*({tap})"),
        };
        if self.stride == 1 {
            return (sum(&[&step], self.start), "0".to_owned());
        }
        let at = sum(&[&step], self.start + lead * self.stride);
        let q = sum(&[&format!("({at}) // {}", self.stride)], -lead);
        (q, format!("({at}) % {}", self.stride))
    }

    /// How many of the taps that so many places have meet the image.
    pub(super) fn meetings(&self, places: i64) -> i64 {
        let taps = self.tap.map_or(1, |(_, count)| count);
        let seen =
            (0..places).flat_map(|p| (0..taps).map(move |t| self.start + self.stride * p + self.step * t));
        seen.filter(|at| (0..self.extent).contains(at)).count() as i64
    }

    /// The taps from one to before another, as text, that meet the image at a place, which has a name and is one of so many;
    /// `None` if all do everywhere.
    pub(super) fn inside(&self, place: &str, places: i64) -> Option<[String; 2]> {
        let (_, taps) = self.tap?;
        let (start, extent, step) = (self.start, self.extent, self.step.abs());
        // The first one, and the one behind the last, without what the place adds to their dividends.
        let (dividends, slope) = if self.step > 0 {
            ([step - 1 - start, extent - start + step - 1], -self.stride)
        } else {
            ([start - extent + step, start + step], self.stride)
        };
        let at = |dividend: i64| [0, places - 1].map(|p| (dividend + slope * p).div_euclid(step));
        let [firsts, ends] = dividends.map(at);
        let text = |dividend: i64| {
            let added = match slope {
                1 => place.to_owned(),
                slope => format!("{slope}*{place}"),
            };
            match step {
                1 => sum(&[&added], dividend),
                step => format!("({}) // {step}", sum(&[&added], dividend)),
            }
        };
        let [first, end] = dividends.map(text);
        let leaves = [
            firsts.iter().any(|first| *first > 0),
            ends.iter().any(|end| *end < taps),
        ];
        leaves.contains(&true).then(|| {
            [
                if leaves[0] {
                    format!("max(0, {first})")
                } else {
                    "0".to_owned()
                },
                if leaves[1] {
                    format!("min({taps}, {end})")
                } else {
                    taps.to_string()
                },
            ]
        })
    }
}

/// A spatial dimension of which the copy has all that a window sees beside each other, as channels: at each place the elements
/// `start + stride * p + step * t`, one channel after the other for each tap.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::designer) struct Fold {
    /// Which of the spatial dimensions it is.
    pub(super) at: usize,
    /// The axis of its taps.
    pub(super) tap: Axis,
    pub(super) taps: i64,
    /// Taps with those that only fill the copy up.
    pub(super) wide: i64,
    pub(super) extent: i64,
    pub(super) start: i64,
    pub(super) stride: i64,
    pub(super) step: i64,
}

impl Fold {
    /// What the tap of this loop adds to a place's coordinate. Taps that fill up are outside of the image.
    pub(super) fn seen(self) -> String {
        let tap = format!("r{}", self.tap);
        let step = match self.step {
            1 => tap.clone(),
            step => format!("{step}*{tap}"),
        };
        let stray = if self.wide > self.taps {
            let beyond = self.extent + self.start.abs() + self.step.abs() * self.wide;
            format!("{tap} // {} * {beyond}", self.taps)
        } else {
            "0".to_owned()
        };
        sum(&[&step, &stray], self.start)
    }
}

/// The phases of a stride that a copy has images of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::designer) enum Phases {
    One(i64),
    All(i64),
}

/// The copy of a tensor with its channels last.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::designer) struct Image {
    pub(super) tensor: TensorKey,
    /// The extents in which it is seen.
    pub(super) extents: Vec<Expr>,
    pub(super) factors: Factors,
    /// The number of dimensions before the channels.
    pub(super) outer: usize,
    /// The stride of each spatial dimension, and its phases.
    pub(super) spatial: Vec<(i64, Phases)>,
    pub(super) fold: Option<Fold>,
}

/// A convolution: the product of weights on the left with what windows see of an image on the right.
#[derive(Debug)]
pub(super) struct Geometry {
    /// The dimensions before the channels, of which each coordinate is an image of its own.
    pub(super) outer: Vec<Axis>,
    pub(super) channel: Axis,
    pub(super) channels: i64,
    pub(super) fold: Option<Fold>,
    pub(super) spatial: Vec<Spatial>,
    /// The dimensions of the weights that are those of images.
    pub(super) groups: Vec<Axis>,
    /// Those that only the result has besides, beside its rows.
    pub(super) phases: Vec<Axis>,
}

impl Geometry {
    /// `None` if the product is something else.
    pub(super) fn new(product: &Product<'_>) -> Option<Self> {
        let kernel = product.kernel;
        let [weights, image] = &product.operands;
        let walked = kernel.walked(weights);
        let is_channel =
            |a: &Axis| kernel.reduced.contains(a) && walked.contains(a) && !kernel.windows.contains_key(a);
        let at = image.axes.iter().position(is_channel)?;
        let (outer, rest) = image.axes.split_at_checked(at)?;
        let (channel, spatial) = rest.split_first()?;
        let spatial: Option<Vec<_>> = spatial.iter().map(|d| Spatial::new(product, *d)).collect();
        let is_phase = |a: &Axis| !kernel.reduced.contains(a) && *a != product.rows && !outer.contains(a);
        let geometry = Self {
            phases: walked.iter().copied().filter(is_phase).collect(),
            outer: outer.to_vec(),
            channel: *channel,
            channels: product.extent(*channel).as_const()?,
            fold: None,
            spatial: spatial?,
            groups: outer.iter().copied().filter(|a| walked.contains(a)).collect(),
        };
        geometry.is_all_of(product, &walked).then_some(geometry)
    }

    /// Makes the last dimension that has taps and places, if there is one, one that is folded.
    pub(super) fn fold_last(&mut self, product: &Product<'_>) {
        self.fold = self.folded(product);
    }

    fn folded(&mut self, product: &Product<'_>) -> Option<Fold> {
        let is_seen = |s: &Spatial| s.tap.is_some() && s.place.is_some();
        let at = self.spatial.iter().rposition(is_seen)?;
        let spatial = self.spatial.get_mut(at)?;
        let (tap, taps) = spatial.tap?;
        let places = product.extent(spatial.place?).as_const()?;
        let mut wide = taps;
        while wide * self.channels % GRAIN != 0 {
            wide += 1;
        }
        let fold = Fold {
            at,
            tap,
            taps,
            wide,
            extent: spatial.extent,
            start: spatial.start,
            stride: spatial.stride,
            step: spatial.step,
        };
        *spatial = Spatial {
            extent: places,
            place: spatial.place,
            tap: None,
            start: 0,
            stride: 1,
            step: 1,
        };
        Some(fold)
    }

    /// The channels of the copy.
    pub(super) fn columns(&self) -> i64 {
        self.fold.map_or(self.channels, |fold| fold.wide * self.channels)
    }

    /// Whether every axis has its part, and the result has them in order.
    fn is_all_of(&self, product: &Product<'_>, weights: &[Axis]) -> bool {
        let kernel = product.kernel;
        let is_plain = |a: &Axis| !kernel.windows.contains_key(a) && !kernel.reduced.contains(a);
        let is_tap = |a: &Axis| self.taps().any(|(tap, _)| tap == *a);
        let is_summed = |a: &Axis| *a == self.channel || is_tap(a);
        let is_known = |a: &Axis| {
            *a == product.rows || self.groups.contains(a) || self.phases.contains(a) || is_summed(a)
        };
        let mut tile = vec![product.rows];
        tile.extend(self.places());
        let is_here = |a: &Axis| self.outer.contains(a) || self.phases.contains(a) || tile.contains(a);
        let result = product.result();
        let own: Vec<Axis> = result.iter().copied().filter(|a| tile.contains(a)).collect();
        self.places().next().is_some()
            && self.outer.iter().all(is_plain)
            && kernel.reduced.iter().all(is_summed)
            && weights.iter().all(is_known)
            && result.iter().all(is_here)
            && own == tile
    }

    /// The axes of taps and their numbers, outermost first, without those that are folded.
    pub(super) fn taps(&self) -> impl Iterator<Item = (Axis, i64)> {
        self.spatial.iter().filter_map(|s| s.tap)
    }

    /// The axes of places in the result, outermost first.
    pub(super) fn places(&self) -> impl Iterator<Item = Axis> {
        self.spatial.iter().filter_map(|s| s.place)
    }

    /// The taps of a window.
    pub(super) fn count(&self) -> i64 {
        self.taps().map(|(_, count)| count).product()
    }

    /// The number of a tap along each dimension, if `tap` is its number among all that there are where the result is made.
    pub(super) fn split(&self, product: &Product<'_>, tap: &str) -> Vec<String> {
        let mut rest = tap.to_owned();
        let mut texts = Vec::new();
        let outermost = self.spatial.iter().position(|s| s.tap.is_some());
        for (d, spatial) in self.spatial.iter().enumerate().rev() {
            texts.push(match spatial.tap {
                None => "0".to_owned(),
                Some(_) if Some(d) == outermost => rest.clone(),
                Some((axis, _)) => {
                    let count = product.end(axis);
                    let text = format!("({rest}) % ({count})");
                    rest = format!("({rest}) // ({count})");
                    text
                }
            });
        }
        texts.reverse();
        texts
    }

    /// How many taps there are where the result is made.
    pub(super) fn met(&self, product: &Product<'_>) -> String {
        let counts: Vec<String> = self
            .taps()
            .map(|(axis, _)| format!("({})", product.end(axis)))
            .collect();
        if counts.is_empty() {
            "1".to_owned()
        } else {
            counts.join("*")
        }
    }

    /// The number of a tap among all of them, from its numbers along the dimensions that have several.
    pub(super) fn joined(&self, numbers: &[String]) -> String {
        number(
            numbers
                .iter()
                .zip(self.taps())
                .map(|(text, (_, count))| (text.as_str(), count)),
        )
    }

    /// The dimensions of the weights that are not summed, outermost first.
    pub(super) fn kept(&self, rows: Axis) -> Vec<Axis> {
        self.matrices().into_iter().chain([rows]).collect()
    }

    /// Those of which each coordinate has matrices of its own.
    pub(super) fn matrices(&self) -> Vec<Axis> {
        self.groups.iter().chain(&self.phases).copied().collect()
    }

    /// What the copy of `image` is.
    pub(super) fn image(&self, product: &Product<'_>, factors: Factors) -> Image {
        let [_, image] = &product.operands;
        Image {
            tensor: image.tensor.clone(),
            extents: image.axes.iter().map(|a| product.extent(*a).clone()).collect(),
            factors,
            outer: self.outer.len(),
            spatial: self.spatial.iter().map(|s| (s.stride, s.phases())).collect(),
            fold: self.fold.map(|fold| Fold { tap: 0, ..fold }),
        }
    }
}

/// The number that has these digits, outermost first, each with how many values it may have.
pub(super) fn number<'a>(digits: impl Iterator<Item = (&'a str, i64)>) -> String {
    let digits: Vec<_> = digits.collect();
    let mut inner: i64 = digits.iter().map(|(_, count)| count).product();
    let terms = digits.iter().map(|(digit, count)| {
        inner /= count;
        match inner {
            1 => (*digit).to_owned(),
            _ => format!("({digit})*{inner}"),
        }
    });
    let terms: Vec<String> = terms.collect();
    terms.join(" + ")
}

/// The sum of terms and a number as text.
pub(super) fn sum(terms: &[&str], number: i64) -> String {
    let mut text: Vec<&str> = terms.iter().copied().filter(|t| *t != "0").collect();
    let number = number.to_string();
    if number != "0" || text.is_empty() {
        text.push(&number);
    }
    text.join(" + ")
}
