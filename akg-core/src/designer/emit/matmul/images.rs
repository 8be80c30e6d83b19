//! Convolutions on devices that multiply numbers shorter than f32 much faster.
//!
//! An image is copied once for all that slides over it, with its channels last and as [factors](Factors), and so are the
//! weights, one matrix for each tap. A program of the product then makes a tile of places and results: in each step it
//! multiplies some channels of what one tap meets, which is a box of the copy, as copy engines move it. Their zeros outside
//! of a tensor are the padding. Places that are a stride apart are neighbours in the copy, which has an image for each phase
//! of the stride. Of few channels it has at each place what all taps along a dimension meet there, as so many more channels.
//!
//! Factors are scaled by powers of two, of the weights result by result and of the image as a whole: a window's elements
//! have all the same scale then, wherever it is. Sums are rounded as those of [other products](super::factors).

mod copies;

use std::collections::HashMap;

use super::factors::{self, LEVEL, TOPS_OFF, factors_of};
use super::geometry::{GRAIN, Geometry, sum};
use super::{Product, ceildiv, next_power_of_two, overhangs};
use crate::designer::device::{Device, Factors};
use crate::designer::emit::{Emitter, Names, Var, Walk, Written};
use crate::designer::plan::Axis;
use crate::dtype::DType;
use crate::error::Result;

/// So few channels are not multiplied tap by tap: steps would be short, and mostly padding.
const FEW_CHANNELS: i64 = 16;
/// The fewest channels that are multiplied in a step, and the most.
const LEAST_STEP: i64 = 16;
const MOST_STEP: i64 = 64;
/// Fewer results than this are on the right of a product, whose other side is long.
const FEW: i64 = 64;
/// The longest sum that takes little longer than storing its result: programs of small tiles share a core then.
const SHORT: i64 = 512;
/// Places of a tile along one dimension.
const RUNS: [i64; 6] = [8, 16, 32, 64, 128, 256];
/// What lanes reach of their peak in a convolution without factors.
const LANES: f64 = 0.25;
/// Kernels that factors take beside the product's.
const BESIDE: f64 = 3.0;

/// A convolution of factors.
struct Images<'a> {
    product: &'a Product<'a>,
    geometry: Geometry,
    factors: Factors,
    device: Device<'a>,
    number: usize,
    /// What the copy's buffers are called.
    image: String,
}

/// Writes the kernels of `product`, if it is a convolution that should multiply factors.
pub(super) fn emit(
    product: &Product<'_>,
    device: Device<'_>,
    names: &mut Names,
    number: usize,
) -> Result<Option<Vec<Written>>> {
    let Some(factors) = factors_of(product, device) else {
        return Ok(None);
    };
    let Some(mut geometry) = Geometry::new(product) else {
        return Ok(None);
    };
    if geometry.channels < FEW_CHANNELS {
        geometry.fold_last(product);
    }
    let lanes = product.products().zip(product.tiles(1, 1));
    let lanes = lanes.map(|(each, results)| device.multiply_seconds(each as f64 * results as f64) / LANES);
    let is_worth_it = lanes.is_some_and(|seconds| seconds > BESIDE * device.launch_seconds());
    let has_taps = geometry.taps().next().is_some() || geometry.fold.is_some();
    if product.dtype != DType::F32 || !has_taps || !is_worth_it {
        return Ok(None);
    }
    let image = geometry.image(product, factors);
    let known = names.images.iter().find(|(known, _)| *known == image);
    let known = known.map(|(_, name)| name.clone());
    let images = Images {
        product,
        factors,
        device,
        number,
        image: known.clone().unwrap_or_else(|| format!("B{number}")),
        geometry,
    };
    let mut written = vec![images.write_weights(names)?];
    if known.is_none() {
        written.extend(images.write_copy(names)?);
        names.images.push((image, images.image.clone()));
    }
    written.push(images.write_product(names)?);
    Ok(Some(written))
}

impl Images<'_> {
    fn emitter<'b>(&'b self, names: &'b Names) -> Emitter<'b> {
        Emitter::new(self.product.plan, self.product.prims, self.product.kernel, names)
    }

    /// The extent of the copy's channels.
    fn padded(&self) -> i64 {
        ceildiv(self.geometry.columns(), GRAIN) * GRAIN
    }

    /// Lengths of the steps along the channels.
    fn steps(&self) -> Vec<i64> {
        let whole = next_power_of_two(self.geometry.columns()).max(LEAST_STEP);
        match whole {
            MOST_STEP.. => vec![MOST_STEP, MOST_STEP / 2],
            _ => vec![whole],
        }
    }

    /// Whether the places are on the left of dots, and the weights on the right.
    fn is_turned(&self) -> bool {
        let rows = self.product.extent(self.product.rows).as_const();
        rows.is_some_and(|rows| rows < FEW)
    }

    /// Lengths of tiles along the results.
    fn lengths(&self) -> Vec<i64> {
        let rows = self.product.extent(self.product.rows).as_const();
        let longest = rows.map_or(i64::MAX, |rows| next_power_of_two(rows).max(LEAST_STEP));
        if longest < 2 * FEW {
            vec![longest]
        } else {
            vec![2 * FEW, FEW]
        }
    }

    /// Lengths of tiles along the last two dimensions of places, of which the first is 1 if there is one.
    fn runs(&self) -> [Vec<i64>; 2] {
        let places: Vec<Axis> = self.geometry.places().collect();
        let extent = |axis: Option<&Axis>| axis.and_then(|a| self.product.extent(*a).as_const()).unwrap_or(1);
        let (last, before) = (extent(places.last()), extent(places.iter().rev().nth(1)));
        let fitting = |extent: i64| {
            let longest = next_power_of_two(extent).max(RUNS[0]);
            RUNS.into_iter().filter(move |run| *run <= longest)
        };
        let heights: Vec<i64> = if before == 1 {
            vec![1]
        } else {
            fitting(before).chain([1, 2, 4]).collect()
        };
        let most = self.most_places();
        let mut pairs: Vec<[i64; 2]> = fitting(last)
            .flat_map(|w| heights.iter().map(move |h| [*h, w]))
            .filter(|[h, w]| h * w <= most)
            .collect();
        // Of tiles with as many places, those that reach least beyond the end, and of these those with the longest rows.
        let cost = |[h, w]: &[i64; 2]| {
            let covered = ceildiv(before, *h) * h * ceildiv(last, *w) * w;
            (std::cmp::Reverse(h * w), covered, std::cmp::Reverse(*w))
        };
        pairs.sort_by_key(cost);
        let mut runs = [Vec::new(), Vec::new()];
        for pair in pairs.iter().take(3) {
            for (list, length) in runs.iter_mut().zip(pair) {
                if !list.contains(length) {
                    list.push(*length);
                }
            }
        }
        runs
    }

    /// The most places of a tile.
    fn most_places(&self) -> i64 {
        let products = self.geometry.count() * self.geometry.columns();
        if self.factors.has_low() || self.is_turned() || products <= SHORT {
            2 * FEW
        } else {
            4 * FEW
        }
    }

    /// The kernel that multiplies.
    fn write_product(&self, names: &mut Names) -> Result<Written> {
        let (number, geometry) = (self.number, &self.geometry);
        let (rows, channel) = (self.product.rows, geometry.channel);
        let heads = geometry.outer.iter().chain(&geometry.phases).copied();
        let mut walks: HashMap<Axis, Walk> = heads.map(|a| (a, Walk::Index(format!("p{a}")))).collect();
        let over = |axis: &Axis| format!("p{axis} in {}", self.product.extent(*axis));
        let mut grid: Vec<String> = geometry.outer.iter().map(over).collect();
        let places: Vec<Axis> = geometry.places().collect();
        let [heights, widths] = self.runs();
        let (mut tiled, mut lens) = (Vec::new(), Vec::new());
        for (i, axis) in places.iter().enumerate() {
            let extent = self.product.extent(*axis);
            let (name, values) = match places.len() - i {
                1 => ("TW", &widths),
                2 if heights != [1] => ("TH", &heights),
                _ => {
                    grid.push(over(axis));
                    walks.insert(*axis, Walk::Index(format!("p{axis}")));
                    continue;
                }
            };
            let len = names.knob(name, number, values);
            walks.insert(*axis, self.tile(*axis, &len, values));
            grid.push(format!("p{axis} in ceildiv({extent}, {len})"));
            tiled.push(*axis);
            lens.push(len);
        }
        let run = lens.join("*");
        if lens.len() > 1 {
            names
                .knobs
                .push(format!("require {run} <= {}", self.most_places()));
        }
        let values = self.lengths();
        let len = names.knob("BM", number, &values);
        walks.insert(rows, self.tile(rows, &len, &values));
        // Programs that read the same places run together, and those that write what lies between each other's results.
        grid.push(format!(
            "p{rows} in ceildiv({}, {len})",
            self.product.extent(rows)
        ));
        grid.extend(geometry.phases.iter().map(over));
        let step = names.knob("BK", number, &self.steps());
        let stages: &[i64] = if self.factors.has_low() {
            &[3, 4, 2]
        } else {
            &[4, 3, 2]
        };
        let stages = names.hint("STAGES", number, stages);

        let mut e = self.emitter(names);
        e.walks = walks;
        let extents = if self.is_turned() {
            format!("[{run}, {len}]")
        } else {
            format!("[{len}, {run}]")
        };
        e.line(format!("acc0 = zeros f32{extents}"));
        let parts = if geometry.columns() > LEAST_STEP {
            format!("ceildiv({}, {step})", geometry.columns())
        } else {
            "1".to_owned()
        };
        let all = format!("{}*{parts}", geometry.met(self.product));
        let has_levels = self.device.sums_in_full() && geometry.count() * geometry.columns() > LEVEL;
        let (sum, base) = if has_levels {
            ("sum0", format!("b{channel} + "))
        } else {
            ("acc0", String::new())
        };
        let end = if has_levels {
            let level = format!("({LEVEL} // {step})");
            e.open(format!("for b{channel} in 0..{all} step {level} {{"));
            e.line(format!("sum0 = zeros f32{extents}"));
            format!("min({level}, {all} - b{channel})")
        } else {
            all
        };
        e.open(format!("for r{channel} in 0..{end} pipeline({stages}) {{"));
        self.multiply(&mut e, &format!("{base}r{channel}"), &parts, (&step, &run), sum)?;
        e.close();
        if has_levels {
            e.line("acc0 = acc0 + sum0");
            e.close();
        }
        self.rescale(&mut e)?;
        let shape: Vec<&str> = std::iter::once(&len).chain(&lens).map(String::as_str).collect();
        let mut tile = vec![rows];
        tile.extend(tiled);
        e.line(match lens.len() {
            1 => "y0 = z0".to_owned(),
            _ => format!("y0 = reshape(z0, [{}])", shape.join(", ")),
        });
        e.tile.clone_from(&tile);
        let result = Var {
            text: "y0".to_owned(),
            axes: tile,
        };
        e.define(self.product.contract, result);
        e.store_all(|_, _| true)?;
        let name = format!("k{number}");
        let text = e.finish(&format!("kernel {name} over ({})", grid.join(", ")));
        Ok(Written { name, text })
    }

    fn tile(&self, axis: Axis, len: &str, values: &[i64]) -> Walk {
        Walk::Tile {
            start: format!("p{axis}*{len}"),
            len: len.to_owned(),
            overhang: overhangs(self.product.extent(axis), values),
        }
    }

    /// Step number `at` of the sum, of so many `parts` for each tap, of `step` channels and `run` places.
    fn multiply(
        &self,
        e: &mut Emitter<'_>,
        at: &str,
        parts: &str,
        (step, run): (&str, &str),
        sum: &str,
    ) -> Result<()> {
        let (tap, channel) = match parts {
            "1" => (at.to_owned(), "0".to_owned()),
            _ => (format!("({at}) // {parts}"), format!("({at}) % {parts}*{step}")),
        };
        let channels = format!("{channel} :+ {step}");
        let matrix = self.weights_at(e, &tap, &channels)?;
        let boxes = self.boxes_at(e, &tap, &channels)?;
        for (buffer, letter) in [("HIGH", 'h'), ("LOW", 'l')] {
            if buffer == "LOW" && !self.factors.has_low() {
                break;
            }
            let (a, b) = (format!("a{letter}"), format!("b{letter}"));
            let weights = format!("load {}_{buffer}[{matrix}] else 0.0", self.weights());
            let image = format!(
                "reshape(load {}_{buffer}[{boxes}] else 0.0, [{run}, {step}])",
                self.image
            );
            if self.is_turned() {
                e.line(format!("{b} = {image}"));
                e.line(format!("{a} = trans({weights})"));
            } else {
                e.line(format!("{a} = {weights}"));
                e.line(format!("{b} = trans({image})"));
            }
        }
        let [left, right] = if self.is_turned() { ['b', 'a'] } else { ['a', 'b'] };
        factors::add_product(
            e,
            self.factors,
            self.device,
            sum,
            [left, right].map(|side| [format!("{side}h"), format!("{side}l")]),
        );
        Ok(())
    }

    /// What the weights' buffers are called.
    fn weights(&self) -> String {
        format!("A{}", self.number)
    }

    /// The region of the weights of a tap.
    fn weights_at(&self, e: &Emitter<'_>, tap: &str, channels: &str) -> Result<String> {
        let geometry = &self.geometry;
        let (mut place, _) = e.place(&geometry.matrices())?;
        if geometry.count() > 1 {
            place.push(if geometry.phases.is_empty() {
                tap.to_owned()
            } else {
                let numbers = geometry
                    .split(self.product, tap)
                    .into_iter()
                    .zip(&geometry.spatial);
                let numbers: Vec<String> = numbers.filter(|(_, s)| s.tap.is_some()).map(|(n, _)| n).collect();
                geometry.joined(&numbers)
            });
        }
        place.extend(e.place(&[self.product.rows])?.0);
        place.push(channels.to_owned());
        Ok(place.join(", "))
    }

    /// The box of the copy that a tap meets.
    fn boxes_at(&self, e: &Emitter<'_>, tap: &str, channels: &str) -> Result<String> {
        let (mut spatial, mut phases) = (Vec::new(), Vec::new());
        for (dimension, tap) in self
            .geometry
            .spatial
            .iter()
            .zip(self.geometry.split(self.product, tap))
        {
            let (offset, phase) = dimension.seen(&tap);
            if dimension.has_phases() {
                phases.push(phase);
            }
            let Some(axis) = dimension.place else {
                spatial.push(offset);
                continue;
            };
            spatial.push(match e.walks.get(&axis) {
                Some(Walk::Tile { start, len, .. }) => format!("{} :+ {len}", sum(&[start, &offset], 0)),
                _ => sum(&[&format!("p{axis}"), &offset], 0),
            });
        }
        let mut place: Vec<String> = self.head(&phases).into_iter().collect();
        place.extend(spatial);
        place.push(channels.to_owned());
        Ok(place.join(", "))
    }

    /// Makes `z0`, of results and places, of `acc0`.
    fn rescale(&self, e: &mut Emitter<'_>) -> Result<()> {
        let sum = if self.is_turned() { "trans(acc0)" } else { "acc0" };
        if !self.factors.is_scaled() {
            e.line(format!("z0 = {sum}"));
            return Ok(());
        }
        let axes = self.geometry.kept(self.product.rows);
        let (place, leaves) = e.place(&axes)?;
        let outside = if leaves { " else 0.0" } else { "" };
        e.line(format!(
            "a_scale = load {}_SCALE[{}]{outside}",
            self.weights(),
            place.join(", ")
        ));
        self.find_scale(e, "b_scale")?;
        e.line(format!(
            "z0 = {sum} * {} * a_scale[:, None] * b_scale",
            TOPS_OFF[1]
        ));
        Ok(())
    }
}
