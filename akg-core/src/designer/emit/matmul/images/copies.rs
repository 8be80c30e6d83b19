//! The kernels that make factors of images and of weights.

use std::collections::HashMap;

use super::Images;
use crate::designer::emit::matmul::factors::{LEAST_SCALE, TOP};
use crate::designer::emit::matmul::geometry::{Fold, Phases, Spatial, number};
use crate::designer::emit::matmul::{ceildiv, next_power_of_two};
use crate::designer::emit::{Emitter, Names, Walk, Written};
use crate::dtype::DType;
use crate::error::Result;

/// Elements that a program takes at a time where it looks for the largest.
const TILE: i64 = 4096;
/// The most channels of a tile that is turned, and the most places.
const SIDE: i64 = 64;
const MOST_RUN: i64 = 256;
/// The most channels of a tile of weights.
const CHANNELS: i64 = 1024;

impl Images<'_> {
    /// The kernel that makes factors of the weights, a matrix for each tap.
    pub(super) fn write_weights(&self, names: &mut Names) -> Result<Written> {
        let (geometry, product) = (&self.geometry, self.product);
        let axes = geometry.kept(product.rows);
        let mut walks: HashMap<_, _> = axes.iter().map(|a| (*a, Walk::Index(format!("p{a}")))).collect();
        let grid: Vec<String> = axes
            .iter()
            .map(|a| format!("p{a} in {}", product.extent(*a)))
            .collect();
        let padded = self.padded();
        let len = match geometry.fold {
            Some(_) => geometry.channels,
            None => next_power_of_two(padded).min(CHANNELS),
        };
        let channel = geometry.channel;
        let is_whole = geometry.fold.is_some() || padded <= len;
        let start = if is_whole {
            "0".to_owned()
        } else {
            format!("c{channel}")
        };
        let mut loops: Vec<String> = Vec::new();
        for (axis, count) in geometry.taps() {
            loops.push(format!("r{axis} in 0..{count}"));
            walks.insert(axis, Walk::Index(format!("r{axis}")));
        }
        if let Some(fold) = geometry.fold {
            loops.push(format!("r{} in 0..{}", fold.tap, fold.wide));
            walks.insert(fold.tap, Walk::Index(format!("r{}", fold.tap)));
        }
        if !is_whole {
            loops.push(format!("c{channel} in 0..{padded} step {len}"));
        }
        let walk = Walk::Tile {
            start: start.clone(),
            len: len.to_string(),
            overhang: geometry.channels % len != 0,
        };
        walks.insert(channel, walk);
        self.declare_weights(names);

        let mut e = self.emitter(names);
        e.walks = walks;
        e.tile = vec![channel];
        // More taps than there are fill a row up.
        e.stray = geometry.fold.map(|fold| fold.tap);
        let head = format!("for {} {{", loops.join(", "));
        let weights = self.weights();
        let (rows, _) = e.place(&axes)?;
        if self.factors.is_scaled() {
            e.line(format!("tops = zeros f32[{len}]"));
            e.open(&head);
            let x = e.load(&product.operands[0])?.text;
            e.line(format!("tops = max(tops, abs({x}))"));
            e.close();
            e.line(format!(
                "scale = max(pow2_floor(reduce_max(tops, 0)), {LEAST_SCALE})"
            ));
            e.line(format!("store {weights}_SCALE[{}] = scale", rows.join(", ")));
            e.line(format!("inverse = {TOP} / scale"));
        }
        e.open(&head);
        let x = e.load(&product.operands[0])?.text;
        let (mut place, _) = e.place(&geometry.matrices())?;
        if geometry.count() > 1 {
            let numbers: Vec<String> = geometry.taps().map(|(axis, _)| format!("r{axis}")).collect();
            place.push(geometry.joined(&numbers));
        }
        place.extend(e.place(&[product.rows])?.0);
        place.push(match geometry.fold {
            Some(fold) => format!("r{}*{len} :+ {len}", fold.tap),
            None => format!("{start} :+ {len}"),
        });
        self.store_factors(&mut e, &weights, &place.join(", "), &x, "inverse", false);
        e.close();
        let name = format!("k{}_a", self.number);
        let text = e.finish(&format!("kernel {name} over ({})", grid.join(", ")));
        Ok(Written { name, text })
    }

    fn declare_weights(&self, names: &mut Names) {
        let geometry = &self.geometry;
        let extent = |axis: &usize| self.product.extent(*axis).to_string();
        let mut extents: Vec<String> = geometry.matrices().iter().map(extent).collect();
        let mut rows = extents.clone();
        rows.push(extent(&self.product.rows));
        if geometry.count() > 1 {
            extents.push(geometry.count().to_string());
        }
        extents.push(extent(&self.product.rows));
        extents.push(self.padded().to_string());
        self.declare(names, &self.weights(), &extents);
        if self.factors.is_scaled() {
            let rows = rows.join(", ");
            names
                .buffers
                .push(format!("buffer {}_SCALE: f32[{rows}]", self.weights()));
        }
    }

    /// The buffers for factors of these extents.
    fn declare(&self, names: &mut Names, name: &str, extents: &[String]) {
        let (dtype, extents) = (self.factors.dtype(), extents.join(", "));
        for half in ["HIGH", "LOW"]
            .into_iter()
            .take(1 + usize::from(self.factors.has_low()))
        {
            names
                .buffers
                .push(format!("buffer {name}_{half}: {dtype}[{extents}] align 16"));
        }
    }

    /// The kernels that copy the image with its channels last.
    pub(super) fn write_copy(&self, names: &mut Names) -> Result<Vec<Written>> {
        self.declare_image(names);
        let mut written = Vec::new();
        if self.factors.is_scaled() {
            written.push(self.write_tops(names)?);
        }
        written.push(self.write_factors(names)?);
        Ok(written)
    }

    fn declare_image(&self, names: &mut Names) {
        let geometry = &self.geometry;
        let outer: Vec<String> = geometry
            .outer
            .iter()
            .map(|a| self.product.extent(*a).to_string())
            .collect();
        let mut extents: Vec<String> = self.heads().iter().map(i64::to_string).collect();
        extents.extend(geometry.spatial.iter().map(|s| s.copied().to_string()));
        extents.push(self.padded().to_string());
        self.declare(names, &self.image, &extents);
        if self.factors.is_scaled() {
            let mut tops = outer;
            tops.push(self.tops().to_string());
            names
                .buffers
                .push(format!("buffer {}_TOPS: f32[{}]", self.image, tops.join(", ")));
        }
    }

    /// The extents of the dimensions before the channels, which are known.
    fn counts(&self) -> impl Iterator<Item = i64> {
        let outer = self.geometry.outer.iter();
        outer.map(|a| self.product.extent(*a).as_const().unwrap_or(1))
    }

    /// How many images the copy has, one dimension for all of them, as boxes have few; `None` if it is a single one.
    fn heads(&self) -> Option<i64> {
        let counts: Vec<i64> = self.counts().chain(self.phases()).collect();
        (!counts.is_empty()).then(|| counts.iter().product())
    }

    /// The number of an image of the copy, of the phases with these indices.
    pub(super) fn head(&self, phases: &[String]) -> Option<String> {
        let outer: Vec<String> = self.geometry.outer.iter().map(|a| format!("p{a}")).collect();
        let digits = outer.iter().chain(phases).map(String::as_str);
        let text = number(digits.zip(self.counts().chain(self.phases())));
        (!text.is_empty()).then_some(text)
    }

    /// How many phases of strides the copy has, of those of which it has several.
    fn phases(&self) -> impl Iterator<Item = i64> {
        let phases = self.geometry.spatial.iter().map(Spatial::phases);
        phases.filter_map(|p| match p {
            Phases::All(count) => Some(count),
            Phases::One(_) => None,
        })
    }

    /// The image's name, and the indices of one of those that are scaled as a whole, with what they are over.
    fn outer(&self, e: &Emitter<'_>) -> Result<(String, Vec<String>, Vec<String>)> {
        let name = e.name(&self.product.operands[1].tensor)?.to_owned();
        let outer = &self.geometry.outer;
        let over = outer
            .iter()
            .map(|a| format!("p{a} in {}", self.product.extent(*a)));
        Ok((
            name,
            outer.iter().map(|a| format!("p{a}")).collect(),
            over.collect(),
        ))
    }

    /// The parts of a channel whose largest magnitudes are found, and the length of a part along the first spatial dimension.
    fn parts(&self) -> (i64, i64) {
        let images: i64 = self.counts().product();
        let wanted = ceildiv(self.device.programs(), (images * self.geometry.channels).max(1));
        let extents = self.raw_extents();
        let first = extents.first().copied().unwrap_or(1);
        let step = self.reads().first().copied().unwrap_or(1);
        let part = ceildiv(ceildiv(first, wanted), step) * step;
        (ceildiv(first, part), part)
    }

    /// The numbers that say how large an image's elements are.
    fn tops(&self) -> i64 {
        self.geometry.channels * self.parts().0
    }

    /// The extents of the image's spatial dimensions.
    fn raw_extents(&self) -> Vec<i64> {
        let spatial = self.geometry.spatial.iter().enumerate();
        let fold = |i| self.geometry.fold.filter(|fold| fold.at == i);
        spatial
            .map(|(i, s)| fold(i).map_or(s.extent, |fold| fold.extent))
            .collect()
    }

    /// How many elements are read at a time along each of them.
    fn reads(&self) -> Vec<i64> {
        let extents = self.raw_extents();
        let mut room = TILE;
        let mut reads = Vec::new();
        for (i, extent) in extents.iter().enumerate().rev() {
            let is_tiled = extents.len() - i <= 2;
            let len = if is_tiled {
                next_power_of_two(*extent).min(room)
            } else {
                1
            };
            room /= len;
            reads.insert(0, len);
        }
        reads
    }

    /// The kernel that finds the largest magnitude of each part of a channel.
    fn write_tops(&self, names: &Names) -> Result<Written> {
        let geometry = &self.geometry;
        let mut e = self.emitter(names);
        let (image, mut place, mut grid) = self.outer(&e)?;
        let channel = format!("p{}", geometry.channel);
        grid.push(format!("{channel} in {}", geometry.channels));
        let (parts, part) = self.parts();
        let mut region = place.clone();
        region.push(channel.clone());
        place.push(match parts {
            1 => channel,
            _ => {
                grid.push(format!("part in {parts}"));
                format!("{channel}*{parts} + part")
            }
        });
        let (mut loops, mut extents) = (Vec::new(), Vec::new());
        let dimensions = self.raw_extents();
        for (i, (extent, len)) in dimensions.iter().zip(self.reads()).enumerate() {
            let (at, end) = match (i, parts) {
                (0, 2..) => (format!("part*{part} + h{i}"), part),
                _ => (format!("h{i}"), *extent),
            };
            loops.push(format!("h{i} in 0..{end} step {len}"));
            if dimensions.len() - i <= 2 {
                region.push(format!("{at} :+ {len}"));
                extents.push(len.to_string());
            } else {
                region.push(at);
            }
        }
        e.line(format!("tops = zeros f32[{}]", extents.join(", ")));
        e.open(format!("for {} {{", loops.join(", ")));
        let x = self.loaded(&image, &region.join(", "));
        e.line(format!("tops = max(tops, abs({x}))"));
        e.close();
        let mut top = "tops".to_owned();
        for axis in (0..extents.len()).rev() {
            top = format!("reduce_max({top}, {axis})");
        }
        e.line(format!("store {}_TOPS[{}] = {top}", self.image, place.join(", ")));
        let name = format!("k{}_b_tops", self.number);
        let text = e.finish(&format!("kernel {name} over ({})", grid.join(", ")));
        Ok(Written { name, text })
    }

    /// A part of the image in f32.
    fn loaded(&self, image: &str, region: &str) -> String {
        let text = format!("(load {image}[{region}] else 0.0)");
        match self.product.plan.dtype(&self.product.operands[1].tensor) {
            DType::F32 => text,
            _ => format!("f32{text}"),
        }
    }

    /// Binds `name` to the power of two that an image is divided by.
    pub(super) fn find_scale(&self, e: &mut Emitter<'_>, name: &str) -> Result<()> {
        let (mut place, _) = e.place(&self.geometry.outer)?;
        place.push(format!("0 :+ {}", self.tops()));
        e.line(format!(
            "{name} = max(pow2_floor(reduce_max(load {}_TOPS[{}], 0)), {LEAST_SCALE})",
            self.image,
            place.join(", ")
        ));
        Ok(())
    }

    /// The kernel that makes factors of the image.
    fn write_factors(&self, names: &Names) -> Result<Written> {
        let geometry = &self.geometry;
        let mut e = self.emitter(names);
        let (image, place, mut grid) = self.outer(&e)?;
        let heads = geometry.outer.iter().map(|a| (*a, Walk::Index(format!("p{a}"))));
        e.walks = heads.collect();
        let mut from = place;
        let mut to = Vec::new();
        let padded = self.padded();
        let (len, count, channels) = match geometry.fold {
            Some(fold) => {
                let len = geometry.channels;
                from.push(format!("0 :+ {len}"));
                (len, 1, format!("r{}*{len} :+ {len}", fold.tap))
            }
            None => {
                let len = next_power_of_two(padded).min(SIDE);
                let channels = format!("c0*{len} :+ {len}");
                from.push(channels.clone());
                (len, ceildiv(padded, len), channels)
            }
        };
        let (mut spaces, mut phases, mut over_phases) = (Vec::new(), Vec::new(), Vec::new());
        for (i, spatial) in geometry.spatial.iter().enumerate() {
            let is_last = i + 1 == geometry.spatial.len();
            let copied = spatial.copied();
            let run = next_power_of_two(copied).min((TILE / len).min(MOST_RUN));
            let phase = match spatial.phases() {
                Phases::One(phase) => phase.to_string(),
                Phases::All(count) => {
                    over_phases.push(format!("s{i} in {count}"));
                    phases.push(format!("s{i}"));
                    format!("s{i}")
                }
            };
            let at = if is_last {
                format!("h{i}*{run}")
            } else {
                format!("h{i}")
            };
            let fold = geometry.fold.filter(|fold| fold.at == i);
            let stride = fold.map_or(spatial.stride, |fold| fold.stride);
            let phase = fold.map_or(phase, Fold::seen);
            let begin = match (stride, phase.as_str()) {
                (1, phase) if fold.is_some() => format!("{at} + {phase}"),
                (1, _) => at.clone(),
                (stride, "0") => format!("{stride}*({at})"),
                (stride, phase) => format!("{stride}*({at}) + {phase}"),
            };
            from.push(match (is_last, stride) {
                (false, _) => begin,
                (true, 1) => format!("{begin} :+ {run}"),
                (true, stride) => format!("{begin} :+ {run} by {stride}"),
            });
            spaces.push(if is_last { format!("{at} :+ {run}") } else { at });
            let count = if is_last { ceildiv(copied, run) } else { copied };
            grid.push(format!("h{i} in {count}"));
        }
        to.extend(self.head(&phases));
        to.extend(spaces);
        to.push(channels);
        grid.push(format!("c0 in {count}"));
        // Phases are read from the same parts of memory.
        grid.extend(over_phases);
        if self.factors.is_scaled() {
            self.find_scale(&mut e, "scale")?;
        }
        if let Some(fold) = geometry.fold {
            e.open(format!("for r{} in 0..{} {{", fold.tap, fold.wide));
        }
        e.line(format!("x1 = {}", self.loaded(&image, &from.join(", "))));
        let inverse = format!("({TOP} / scale)");
        let image = self.image.clone();
        self.store_factors(&mut e, &image, &to.join(", "), "x1", &inverse, true);
        if geometry.fold.is_some() {
            e.close();
        }
        let name = format!("k{}_b", self.number);
        let text = e.finish(&format!("kernel {name} over ({})", grid.join(", ")));
        Ok(Written { name, text })
    }

    /// Stores the factors of `x`, maybe turned, in buffers of this name.
    fn store_factors(
        &self,
        e: &mut Emitter<'_>,
        name: &str,
        place: &str,
        x: &str,
        inverse: &str,
        turns: bool,
    ) {
        let dtype = self.factors.dtype();
        let whole = if self.factors.is_scaled() {
            format!("{x} * {inverse}")
        } else {
            x.to_owned()
        };
        e.line(format!("whole = {whole}"));
        e.line(format!("high = {dtype}(whole)"));
        let turned = |text: &str| {
            if turns {
                format!("trans({text})")
            } else {
                text.to_owned()
            }
        };
        e.line(format!("store {name}_HIGH[{place}] = {}", turned("high")));
        if self.factors.has_low() {
            e.line(format!(
                "store {name}_LOW[{place}] = {}",
                turned("f16(whole - f32(high))")
            ));
        }
    }
}
