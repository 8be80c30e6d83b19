//! Convolutions on cores whose lanes multiply numbers as they are.
//!
//! The weights are copied once, a matrix for each tap, whose columns are the rows of the result: programs find a tile of them
//! side by side. A tile of the result has places along its other side: a run along the last dimension, and where that is
//! short, several of the dimension before. Taps along the dimensions before a tile's are summed with the channels, in one
//! product: what they meet is a box of the image, too. The others are walked one by one.
//!
//! Lanes hold neighbouring columns of a product. Where they are filled as well by rows of the result as by places, tiles are
//! turned: their columns are rows of the result, and places are taken one by one from where they lie in the box, so that nothing
//! need be brought side by side. The result is turned back in the end.

use std::collections::HashMap;

use super::geometry::{Geometry, Spatial};
use super::tiles::{ADDED, balanced};
use super::{LANES, Product, ceildiv, overhangs};
use crate::designer::device::Device;
use crate::designer::emit::{Emitter, Names, Var, Walk, Written};
use crate::designer::plan::Axis;
use crate::dtype::DType;
use crate::error::Result;
use crate::expr::Expr;

/// Lengths of tiles along the rows to choose from.
const ROWS: [i64; 2] = [128, 64];
/// Places of a tile.
const PLACES: i64 = 256;
/// Fewer places along the last dimension are not enough for a tile.
const NARROW: i64 = 32;
/// Multiply-adds that take as long as bringing an element of several rows of places side by side, as measured on AVX-512.
const BESIDE: i64 = 8;
/// Rows whose weights a program copies.
const COPIED: i64 = 16;
/// Channels of which it copies all taps before it goes on: what lies between those is read again from the nearest cache.
const COPIED_CHANNELS: i64 = 32;
/// So many channels, or all that there are, are summed in one step at least.
const CHANNELS: i64 = 16;
/// Where more than one in so many taps miss the image they are not summed with the channels.
const MISSED: i64 = 8;
/// So many are summed at each tap at least where tiles are turned: sums are added to those of the tile as often.
const TURNED: i64 = 32;
/// Rows of weights a multiple of this many elements apart compete for the same lines of a cache; a loop machine reads others
/// where they lie.
const CONFLICT: i64 = 128;

/// A convolution.
struct Windows<'a> {
    product: &'a Product<'a>,
    geometry: Geometry,
    number: usize,
    /// The axes of taps that are summed with the channels, and their numbers.
    folded: Vec<(Axis, i64)>,
    /// Those that are walked.
    walked: Vec<Axis>,
    /// The places of a tile along the dimensions that have several.
    runs: Vec<(Axis, i64)>,
    /// The channels of a step.
    step: i64,
    /// The rows of the result.
    rows: i64,
    /// Whether places are the rows of its products, and the rows of the result their columns.
    turned: bool,
}

/// Writes the kernels of `product`, if it is a convolution and the device's lanes work alone.
pub(super) fn emit(
    product: &Product<'_>,
    device: Device<'_>,
    names: &mut Names,
    number: usize,
) -> Result<Option<Vec<Written>>> {
    let Some(geometry) = Geometry::new(product).filter(|_| !device.shares_tiles()) else {
        return Ok(None);
    };
    let Some(windows) = Windows::new(product, geometry, number) else {
        return Ok(None);
    };
    let mut written = Vec::new();
    if windows.has_copy() {
        written.push(windows.write_weights(names)?);
    }
    written.push(windows.write_product(names)?);
    Ok(Some(written))
}

impl<'a> Windows<'a> {
    fn new(product: &'a Product<'a>, geometry: Geometry, number: usize) -> Option<Self> {
        let extent = |axis: Axis| product.extent(axis).as_const();
        let is_seen = |s: &Spatial| s.tap.is_some() || s.stride > 1;
        let is_window = geometry.spatial.iter().any(is_seen) && product.dtype == DType::F32;
        is_window.then_some(())?;
        let places: Vec<Axis> = geometry.places().collect();
        let (last, others) = places.split_last()?;
        let width = extent(*last)?.max(1);
        let run = balanced(product.extent(*last), &[PLACES], 1)[0];
        let mut runs = vec![(*last, run)];
        let all_rows = extent(product.rows)?;
        let rows = all_rows.min(ROWS[0]);
        let lanes = |elements: i64| ceildiv(elements, LANES) * LANES;
        if let Some(before) = others.last().filter(|_| width < PLACES) {
            let run = balanced(product.extent(*before), &[PLACES / width], 1)[0];
            let several = rows * lanes(run * width) + BESIDE * run * width;
            if width < NARROW || several < run * rows * lanes(width) {
                runs.insert(0, (*before, run));
            }
        }
        let is_tiled = |s: &Spatial| s.place.is_some_and(|p| runs.iter().any(|(axis, _)| *axis == p));
        let first = geometry.spatial.iter().position(is_tiled)?;
        let (mut folded, mut walked) = (Vec::new(), Vec::new());
        let [most, _] = *product.lengths_of_steps();
        let mut depth = 1;
        for (i, spatial) in geometry.spatial.iter().enumerate().rev() {
            let Some((axis, count)) = spatial.tap else {
                continue;
            };
            let is_whole = product.end(axis) == product.extent(axis).to_string();
            // Of taps that are walked a program takes those that meet the image alone.
            let places = spatial.place.map_or(Some(1), extent)?;
            let misses = places * count - spatial.meetings(places);
            let is_met = misses * MISSED <= places * count || geometry.channels < TURNED;
            if i < first && is_whole && is_met && depth * count * geometry.channels.min(CHANNELS) <= most {
                folded.insert(0, (axis, count));
                depth *= count;
            } else {
                walked.insert(0, axis);
            }
        }
        let step = divided(geometry.channels, (most / depth).max(1));
        let places: i64 = runs.iter().map(|(_, run)| run).product();
        let beside = if runs.len() > 1 { BESIDE * places } else { 0 };
        let turned = !walked.is_empty()
            && step * depth >= TURNED
            && lanes(rows) * places <= rows * lanes(places) + beside;
        Some(Self {
            product,
            geometry,
            number,
            folded,
            walked,
            runs,
            step,
            rows: all_rows,
            turned,
        })
    }

    /// Lengths of tiles along the rows of the result to choose from.
    fn lengths(&self) -> Vec<i64> {
        if self.product.kernel.rows.is_some() {
            return vec![self.rows];
        }
        let grain = if self.turned { LANES } else { 1 };
        balanced(&self.rows.into(), &ROWS, grain)
    }

    /// How many rows of the result there are copied weights for: those that do not exist have weights of zero.
    fn copied_rows(&self) -> i64 {
        let lengths = self.lengths().into_iter();
        let covered = lengths.map(|len| ceildiv(self.rows, len) * len).max();
        match covered.filter(|_| self.turned) {
            Some(rows) if rows % CONFLICT == 0 => rows + LANES,
            Some(rows) => rows,
            None => self.rows,
        }
    }

    /// Whether there is a copy of the weights.
    fn has_copy(&self) -> bool {
        self.geometry.taps().next().is_some()
    }

    fn weights(&self) -> String {
        format!("A{}", self.number)
    }

    /// Taps that are summed with each channel.
    fn taps(&self) -> i64 {
        self.folded.iter().map(|(_, count)| count).product()
    }

    /// How the channels and the taps are walked, `step` channels from `start` on.
    fn walk_sum(&self, start: &str, step: i64, walks: &mut HashMap<Axis, Walk>) {
        let whole = |len: i64| Walk::Tile {
            start: "0".to_owned(),
            len: len.to_string(),
            overhang: false,
        };
        walks.extend(self.folded.iter().map(|(axis, count)| (*axis, whole(*count))));
        let index = |axis: &Axis| (*axis, Walk::Index(format!("r{axis}")));
        walks.extend(self.walked.iter().map(index));
        let channels = Walk::Tile {
            start: start.to_owned(),
            len: step.to_string(),
            overhang: self.geometry.channels % step != 0,
        };
        walks.insert(self.geometry.channel, channels);
    }

    /// The axes of the sum along which tiles have elements.
    fn summed(&self) -> impl Iterator<Item = Axis> {
        std::iter::once(self.geometry.channel).chain(self.folded.iter().map(|(axis, _)| *axis))
    }

    /// Loops along the sum, where taps are between these bounds, and where a step of so many channels starts.
    fn loops(&self, step: i64, bounds: impl Fn(Axis) -> [String; 2]) -> (Vec<String>, String) {
        let (channel, channels) = (self.geometry.channel, self.geometry.channels);
        let taps = self.walked.iter().map(|axis| {
            let [first, end] = bounds(*axis);
            format!("r{axis} in {first}..{end}")
        });
        if step >= channels {
            return (taps.collect(), "0".to_owned());
        }
        let steps = format!("r{channel} in 0..{channels} step {step}");
        (
            std::iter::once(steps).chain(taps).collect(),
            format!("r{channel}"),
        )
    }

    /// The taps along an axis that may meet the image: between these bounds.
    fn met(&self, axis: Axis) -> [String; 2] {
        let end = self.product.end(axis);
        let is_seen = |s: &&Spatial| s.tap.is_some_and(|(tap, _)| tap == axis);
        let spatial = self.geometry.spatial.iter().find(is_seen);
        let is_tiled = |place: Axis| self.runs.iter().any(|(tiled, _)| *tiled == place);
        let places = |place: Axis| self.product.extent(place).as_const().filter(|_| !is_tiled(place));
        let met = spatial.and_then(|s| match s.place {
            // Phases of the result have taps of their own.
            _ if end != self.product.extent(axis).to_string() => None,
            Some(place) => s.inside(&format!("p{place}"), places(place)?),
            None => s.inside("0", 1),
        });
        met.unwrap_or_else(|| ["0".to_owned(), end])
    }

    /// The region of the copied weights of `step` channels from `start` on, for rows as they are walked.
    fn region(&self, e: &Emitter<'_>, start: &str, step: i64) -> Result<String> {
        let mut place = e.place(&self.geometry.matrices())?.0;
        place.extend(e.place(&self.walked)?.0);
        let taps = self.taps();
        let start = match (start, taps) {
            ("0", _) | (_, 1) => start.to_owned(),
            _ => format!("{start}*{taps}"),
        };
        place.push(format!("{start} :+ {}", step * taps));
        place.extend(e.place(&[self.product.rows])?.0);
        Ok(place.join(", "))
    }

    /// The kernel that copies the weights, a matrix for each tap that is walked.
    fn write_weights(&self, names: &mut Names) -> Result<Written> {
        let (geometry, product) = (&self.geometry, self.product);
        let extent = |axis: Axis| product.extent(axis).to_string();
        let matrices = geometry.matrices();
        let index = |axis: &Axis| (*axis, Walk::Index(format!("p{axis}")));
        let mut walks: HashMap<Axis, Walk> = matrices.iter().map(index).collect();
        let mut over: Vec<String> = matrices
            .iter()
            .map(|a| format!("p{a} in {}", extent(*a)))
            .collect();
        let rows = self.copied_rows();
        over.push(format!("p{} in ceildiv({rows}, {COPIED})", product.rows));
        let copied = Walk::Tile {
            start: format!("p{}*{COPIED}", product.rows),
            len: COPIED.to_string(),
            overhang: rows != self.rows || rows % COPIED != 0,
        };
        walks.insert(product.rows, copied);
        let step = balanced(&geometry.channels.into(), &[COPIED_CHANNELS], 1)[0].min(self.step);
        let (loops, start) = self.loops(step, |axis| ["0".to_owned(), extent(axis)]);
        self.walk_sum(&start, step, &mut walks);
        let mut extents: Vec<String> = matrices.into_iter().map(extent).collect();
        extents.extend(self.walked.iter().map(|axis| extent(*axis)));
        extents.push((geometry.channels * self.taps()).to_string());
        extents.push(rows.to_string());
        let (weights, extents) = (self.weights(), extents.join(", "));
        names.buffers.push(format!("buffer {weights}: f32[{extents}]"));
        let mut e = Emitter::new(product.plan, product.prims, product.kernel, names);
        e.walks = walks;
        e.tile = self.summed().chain([product.rows]).collect();
        let is_loop = !loops.is_empty();
        if is_loop {
            e.open(format!("for {} {{", loops.join(", ")));
        }
        let x = e.load(&product.operands[0])?.text;
        let region = self.region(&e, &start, step)?;
        let matrix = match self.folded.len() {
            0 => x,
            _ => format!("reshape({x}, [{}, {COPIED}])", step * self.taps()),
        };
        e.line(format!("store {weights}[{region}] = {matrix}"));
        if is_loop {
            e.close();
        }
        let name = format!("k{}_a", self.number);
        let text = e.finish(&format!("kernel {name} over ({})", over.join(", ")));
        Ok(Written { name, text })
    }

    /// The kernel that multiplies.
    fn write_product(&self, names: &mut Names) -> Result<Written> {
        let (geometry, product, number) = (&self.geometry, self.product, self.number);
        let extent = |axis: Axis| product.extent(axis);
        let mut walks = HashMap::new();
        let mut grid = Vec::new();
        for axis in geometry.outer.iter().copied().chain(geometry.places()) {
            let over = match self.runs.iter().find(|(tiled, _)| *tiled == axis) {
                Some((_, run)) => {
                    walks.insert(axis, tile(axis, extent(axis), &run.to_string(), &[*run]));
                    format!("p{axis} in ceildiv({}, {run})", extent(axis))
                }
                None => {
                    walks.insert(axis, Walk::Index(format!("p{axis}")));
                    format!("p{axis} in {}", extent(axis))
                }
            };
            grid.push(over);
        }
        // Programs that read the same places run together, and those that write what lies between each other's results.
        let lengths = self.lengths();
        let len = names.knob("BM", number, &lengths);
        grid.push(format!(
            "p{} in ceildiv({}, {len})",
            product.rows,
            extent(product.rows)
        ));
        walks.insert(
            product.rows,
            tile(product.rows, extent(product.rows), &len, &lengths),
        );
        for axis in &geometry.phases {
            walks.insert(*axis, Walk::Index(format!("p{axis}")));
            grid.push(format!("p{axis} in {}", extent(*axis)));
        }
        let (loops, start) = self.loops(self.step, |axis| self.met(axis));
        self.walk_sum(&start, self.step, &mut walks);

        let mut e = Emitter::new(product.plan, product.prims, product.kernel, names);
        e.walks = walks;
        let lens: Vec<String> = self.runs.iter().map(|(_, run)| run.to_string()).collect();
        let places = lens.join("*");
        let sums = self.sums();
        if !loops.is_empty() {
            let extents = if self.turned {
                [&places, &len]
            } else {
                [&len, &places]
            };
            e.line(format!("acc0 = zeros {sums}[{}, {}]", extents[0], extents[1]));
            e.open(format!("for {} {{", loops.join(", ")));
        }
        let dot = self.dot(&mut e, &start, &places)?;
        let sum = match (loops.is_empty(), sums) {
            (true, _) => dot,
            (false, sums) => {
                let dot = if sums == DType::F32 {
                    dot
                } else {
                    format!("{sums}({dot})")
                };
                e.line(format!("acc0 = acc0 + {dot}"));
                e.close();
                if sums == DType::F32 {
                    "acc0".to_owned()
                } else {
                    "f32(acc0)".to_owned()
                }
            }
        };
        let sum = if self.turned { format!("trans({sum})") } else { sum };
        e.line(match lens.len() {
            1 => format!("y0 = {sum}"),
            _ => format!("y0 = reshape({sum}, [{len}, {}])", lens.join(", ")),
        });
        let mut axes = vec![product.rows];
        axes.extend(self.runs.iter().map(|(axis, _)| *axis));
        e.tile.clone_from(&axes);
        let text = "y0".to_owned();
        e.define(product.contract, Var { text, axes });
        product.combine_rows(&mut e)?;
        e.store_all(|_, _| true)?;
        let name = format!("k{number}");
        let text = e.finish(&format!("kernel {name} over ({})", grid.join(", ")));
        Ok(Written { name, text })
    }

    /// Loads the operands of a step from channel `start` on and returns the text of their product.
    fn dot(&self, e: &mut Emitter<'_>, start: &str, places: &str) -> Result<String> {
        let [weights, image] = &self.product.operands;
        let of_rows = if self.has_copy() {
            let leaving = if self.turned {
                vec![self.geometry.channel]
            } else {
                vec![self.product.rows, self.geometry.channel]
            };
            let (_, leaves) = e.place(&leaving)?;
            let outside = if leaves { " else 0.0" } else { "" };
            let region = self.region(e, start, self.step)?;
            let copied = format!("load {}[{region}]{outside}", self.weights());
            if self.turned {
                copied
            } else {
                format!("trans({copied})")
            }
        } else {
            e.tile = vec![self.product.rows, self.geometry.channel];
            e.load(weights)?.text
        };
        e.tile = self
            .summed()
            .chain(self.runs.iter().map(|(axis, _)| *axis))
            .collect();
        let of_places = e.load(image)?.text;
        let of_places = match e.tile.len() {
            2 => of_places,
            _ => format!("reshape({of_places}, [{}, {places}])", self.step * self.taps()),
        };
        let operands = if self.turned {
            format!("trans({of_places}), {of_rows}")
        } else {
            format!("{of_rows}, {of_places}")
        };
        let run = self.product.longest_run();
        Ok(format!("dot({operands}) ieee promote({run})"))
    }

    /// The type that the products of the steps are added up in.
    fn sums(&self) -> DType {
        let most = ADDED * self.step * self.taps();
        let is_short = self.product.products().is_some_and(|products| products <= most);
        if is_short { DType::F32 } else { DType::F64 }
    }
}

/// Steps of so many at most that are equally long, if that does not make more than twice as many of them.
fn divided(extent: i64, most: i64) -> i64 {
    let steps = ceildiv(extent, most).max(1);
    let equal = (steps..=2 * steps).find(|steps| extent % steps == 0);
    ceildiv(extent, equal.unwrap_or(steps))
}

/// A walk along an axis by tiles of a length that has one of these values.
fn tile(axis: Axis, extent: &Expr, len: &str, values: &[i64]) -> Walk {
    Walk::Tile {
        start: format!("p{axis}*{len}"),
        len: len.to_owned(),
        overhang: overhangs(extent, values),
    }
}
