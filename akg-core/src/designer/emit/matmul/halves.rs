//! Products of f32 operands on devices that multiply halves much faster.
//!
//! Each operand is scaled, row by row of the sum, by a power of two and split into a high half and, where the accuracy asks
//! for it, a low one times 2^11. Three of the four products of such pairs give what f32 would, and more: Ootomo and Yokota,
//! "Recovering single precision accuracy from Tensor Cores while surpassing the FP32 theoretical peak performance" (2022).
//! Partial sums of one step are added to the accumulator rounded to f32, because the units that sum products truncate.

use std::collections::HashMap;

use super::{Product, ceildiv};
use crate::designer::device::{Device, Halves};
use crate::designer::emit::{Emitter, Names, Var, Walk, Written};
use crate::designer::plan::{Access, Axis};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::expr::Expr;

/// Elements that halves of an operand are made of at a time, and the rows of them where the sum's axis is not the last.
const SPLIT: i64 = 4096;
const SPLIT_ROWS: i64 = 64;
/// The scales' range: what they and their reciprocals can be without leaving f32's normal numbers.
const SCALES: [&str; 2] = ["0x1p-126", "0x1p126"];
/// Halves lie in memory in rows of multiples of this many, 16 bytes, as copy engines ask.
const GRAIN: i64 = 8;
/// The shortest part of a sum that is worth a program.
const PART: i64 = 512;
/// Rows of a tile where the parts are added up.
const PART_ROWS: i64 = 4;

/// An operand that becomes halves.
struct Operand {
    access: Access,
    /// The dimensions of its halves, outermost first.
    axes: Vec<Axis>,
    /// Its own dimension of the result's tile.
    kept: Axis,
    high: String,
    low: Option<String>,
    scale: String,
}

/// A product of halves.
struct Split<'a> {
    product: &'a Product<'a>,
    device: Device<'a>,
    number: usize,
    operands: [Operand; 2],
}

/// Writes the kernels of `product`, if they should multiply halves.
pub(super) fn emit(
    product: &Product<'_>,
    device: Device<'_>,
    names: &mut Names,
    number: usize,
) -> Result<Option<Vec<Written>>> {
    let Some(halves) = device.halves() else {
        return Ok(None);
    };
    if product.dtype != DType::F32 || product.kernel.reduced.len() != 1 {
        return Ok(None);
    }
    let operand = |i: usize, letter: char, kept: Axis| {
        let access = product.operands[i].clone();
        Operand {
            axes: product.kernel.walked(&access),
            access,
            kept,
            high: format!("{letter}{number}_HIGH"),
            low: (halves == Halves::Two).then(|| format!("{letter}{number}_LOW")),
            scale: format!("{letter}{number}_SCALE"),
        }
    };
    let split = Split {
        product,
        device,
        number,
        operands: [operand(0, 'A', product.rows), operand(1, 'B', product.columns)],
    };
    let mut written = Vec::new();
    for operand in &split.operands {
        split.declare(operand, names);
        written.extend(split.write_halves(operand, names)?);
    }
    written.extend(split.write_product(names)?);
    Ok(Some(written))
}

impl Split<'_> {
    fn depth(&self) -> Axis {
        self.product.depth
    }

    fn extent(&self, axis: Axis) -> &Expr {
        self.product.extent(axis)
    }

    fn length(&self, axis: Axis) -> Option<i64> {
        self.extent(axis).as_const()
    }

    fn emitter<'b>(&'b self, names: &'b Names) -> Emitter<'b> {
        Emitter::new(self.product.plan, self.product.prims, self.product.kernel, names)
    }

    /// The extent of a dimension of an operand's halves.
    fn padded(&self, operand: &Operand, axis: Axis) -> String {
        let extent = self.extent(axis);
        if operand.axes.last() != Some(&axis) {
            return extent.to_string();
        }
        match extent.as_const() {
            Some(length) => (ceildiv(length, GRAIN) * GRAIN).to_string(),
            None => format!("roundup({extent}, {GRAIN})"),
        }
    }

    fn declare(&self, operand: &Operand, names: &mut Names) {
        let padded: Vec<String> = operand.axes.iter().map(|a| self.padded(operand, *a)).collect();
        for half in [Some(&operand.high), operand.low.as_ref()].into_iter().flatten() {
            names
                .buffers
                .push(format!("buffer {half}: f16[{}] align 16", padded.join(", ")));
        }
        let rows = self.rows_of(operand);
        let rows: Vec<String> = rows.iter().map(|a| self.extent(*a).to_string()).collect();
        names
            .buffers
            .push(format!("buffer {}: f32[{}]", operand.scale, rows.join(", ")));
    }

    /// The dimensions of an operand without the sum's.
    fn rows_of(&self, operand: &Operand) -> Vec<Axis> {
        let others = operand.axes.iter().copied();
        others.filter(|a| *a != self.depth()).collect()
    }

    /// Kernels that scale and split an operand.
    fn write_halves(&self, operand: &Operand, names: &mut Names) -> Result<Vec<Written>> {
        let letter = if operand.kept == self.product.rows {
            "a"
        } else {
            "b"
        };
        let name = format!("k{}_{letter}", self.number);
        let depth = self.depth();
        let (rows, step) = if operand.axes.last() == Some(&depth) {
            let step = self.length(depth).map_or(SPLIT / 4, |k| {
                (k.max(1) as u64).next_power_of_two().min(SPLIT as u64 / 2) as i64
            });
            ((SPLIT / step).min(16), step)
        } else {
            (SPLIT_ROWS, SPLIT / SPLIT_ROWS)
        };
        let mut walks = HashMap::new();
        let mut grid = Vec::new();
        let mut programs = Some(1i64);
        for axis in self.rows_of(operand) {
            let extent = self.padded(operand, axis);
            let length = self.length(axis);
            let index = format!("p{axis}");
            if axis == operand.kept {
                grid.push(format!("{index} in ceildiv({extent}, {rows})"));
                let walk = Walk::Tile {
                    start: format!("{index}*{rows}"),
                    len: rows.to_string(),
                    overhang: length.is_none_or(|l| l % rows != 0),
                };
                walks.insert(axis, walk);
                programs = programs
                    .zip(length)
                    .map(|(n, l)| n.saturating_mul(ceildiv(l, rows)));
            } else {
                grid.push(format!("{index} in {extent}"));
                walks.insert(axis, Walk::Index(index));
                programs = programs.zip(length).map(|(n, l)| n.saturating_mul(l));
            }
        }
        let chunk = self.chunk(programs, step);
        let total = self.padded(operand, depth);
        let is_short = self.length(depth).is_some_and(|k| k <= step);
        let (start, end) = match (&chunk, is_short) {
            (Some(chunk), _) => (format!("(part*{chunk} + r{depth})"), chunk.to_string()),
            (None, true) => ("0".to_owned(), total),
            (None, false) => (format!("r{depth}"), total),
        };
        let walk = Walk::Tile {
            start,
            len: step.to_string(),
            overhang: self.length(depth).is_none_or(|k| k % chunk.unwrap_or(step) != 0),
        };
        walks.insert(depth, walk);
        let head = format!("for r{depth} in 0..{end} step {step} {{");
        let parts = chunk.zip(self.length(depth)).map(|(c, k)| ceildiv(k, c));

        let mut e = self.emitter(names);
        e.walks = walks;
        let pair = [operand.kept, depth];
        e.tile = operand
            .axes
            .iter()
            .copied()
            .filter(|a| pair.contains(a))
            .collect();
        let loops = !is_short || parts.is_some();
        let along = e.tile.iter().position(|a| *a == depth).unwrap_or(1);
        let scaled = self.rows_of(operand);
        let (place, leaves) = e.place(&scaled)?;
        let place = place.join(", ");
        let outside = if leaves { " else 0.0" } else { "" };

        let top = |e: &mut Emitter<'_>| -> Result<()> {
            e.line(format!("top = zeros f32[{rows}]"));
            if loops {
                e.open(&head);
            }
            let x = e.load(&operand.access)?;
            e.line(format!("top = max(top, reduce_max(abs({}), {along}))", x.text));
            if loops {
                e.close();
            }
            Ok(())
        };
        let mut written = Vec::new();
        top(&mut e)?;
        if let Some(parts) = parts {
            let buffer = format!("{}_PARTS", operand.scale);
            e.line(format!("store {buffer}[part, {place}] = top"));
            grid.push(format!("part in {parts}"));
            let parts_name = format!("{name}_top");
            let text = e.finish(&format!("kernel {parts_name} over ({})", grid.join(", ")));
            written.push(Written {
                name: parts_name,
                text,
            });
            // Every program of a row finds the same scale; the first keeps it.
            e.line(format!(
                "top = reduce_max(load {buffer}[0 :+ {parts}, {place}]{outside}, 0)"
            ));
        }
        let [least, most] = SCALES;
        e.line(format!("scale = min(max(pow2_floor(top), {least}), {most})"));
        match parts {
            Some(_) => {
                e.open("if part == 0 {");
                e.line(format!("store {}[{place}] = scale", operand.scale));
                e.close();
            }
            None => e.line(format!("store {}[{place}] = scale", operand.scale)),
        }
        let marks = if along == 1 { "[:, None]" } else { "[None, :]" };
        e.line("inverse = 1.0 / scale");
        if loops {
            e.open(&head);
        }
        let x = e.load(&operand.access)?;
        let (halves, _) = e.place(&operand.axes)?;
        let halves = halves.join(", ");
        e.line(format!("whole = {} * inverse{marks}", x.text));
        e.line("high = f16(whole)");
        e.line(format!("store {}[{halves}] = high", operand.high));
        if let Some(low) = &operand.low {
            e.line(format!(
                "store {low}[{halves}] = f16((whole - f32(high)) * 2048.0)"
            ));
        }
        if loops {
            e.close();
        }
        let text = e.finish(&format!("kernel {name} over ({})", grid.join(", ")));
        written.push(Written { name, text });
        if let Some(parts) = parts {
            let rows: Vec<String> = scaled.iter().map(|a| self.extent(*a).to_string()).collect();
            names.buffers.push(format!(
                "buffer {}_PARTS: f32[{parts}, {}]",
                operand.scale,
                rows.join(", ")
            ));
        }
        Ok(written)
    }

    /// The length of the parts of an operand's rows that are worth programs of their own, if `programs` are too few.
    fn chunk(&self, programs: Option<i64>, step: i64) -> Option<i64> {
        let wanted = self.device.programs() / programs?.max(1);
        let length = self.length(self.depth())?;
        parts_of(length, wanted.min(length / (4 * step)), step).map(|(_, part)| part)
    }

    /// The kernel that multiplies, and the one that adds up the parts of the sum if there are any.
    fn write_product(&self, names: &mut Names) -> Result<Vec<Written>> {
        let (number, depth) = (self.number, self.depth());
        let is_double = self.operands[0].low.is_some();
        let lengths = |axis: Axis, most: &[i64]| -> Vec<i64> {
            let longest = self
                .length(axis)
                .map_or(i64::MAX, |l| (l.max(16) as u64).next_power_of_two() as i64);
            let mut lengths: Vec<i64> = most.iter().map(|l| (*l).min(longest)).collect();
            let mut seen = Vec::new();
            lengths.retain(|l| {
                !seen.contains(l) && {
                    seen.push(*l);
                    true
                }
            });
            lengths
        };
        let columns: &[i64] = if is_double {
            &[128, 64, 256]
        } else {
            &[256, 128, 64]
        };
        let row_lengths = lengths(self.product.rows, &[128, 64]);
        let column_lengths = lengths(self.product.columns, columns);
        let depth_lengths = lengths(depth, &[64, 32]);
        let tiles = self.product.result().iter().try_fold(1i64, |tiles, axis| {
            let length = match axis {
                _ if *axis == self.product.rows => row_lengths[0],
                _ if *axis == self.product.columns => column_lengths[0],
                _ => 1,
            };
            Some(tiles.saturating_mul(ceildiv(self.length(*axis)?, length)))
        });
        let parts = tiles.zip(self.length(depth)).and_then(|(tiles, length)| {
            let wanted = (self.device.cores() / tiles.max(1)).min(length / PART);
            parts_of(length, wanted, depth_lengths.iter().copied().max().unwrap_or(1))
        });
        let mut walks = HashMap::new();
        let mut grid = Vec::new();
        for axis in self.product.result() {
            let extent = self.extent(axis);
            let (name, values) = match axis {
                _ if axis == self.product.rows => ("BM", &row_lengths),
                _ if axis == self.product.columns => ("BN", &column_lengths),
                _ => {
                    grid.push(format!("p{axis} in {extent}"));
                    walks.insert(axis, Walk::Index(format!("p{axis}")));
                    continue;
                }
            };
            let len = names.knob(name, number, values);
            grid.push(format!("p{axis} in ceildiv({extent}, {len})"));
            let overhang = !values
                .iter()
                .all(|v| self.length(axis).is_some_and(|l| l % v == 0));
            let start = format!("p{axis}*{len}");
            walks.insert(axis, Walk::Tile { start, len, overhang });
        }
        let len = names.knob("BK", number, &depth_lengths);
        let stages = names.hint("STAGES", number, &[3, 4, 2]);
        let (start, end) = match parts {
            Some((_, part)) => (format!("s0*{part} + r{depth}"), part.to_string()),
            None => (format!("r{depth}"), self.extent(depth).to_string()),
        };
        let walk = Walk::Tile {
            start,
            len: len.clone(),
            overhang: true,
        };
        walks.insert(depth, walk);
        let result = self.product.result();
        let order = match result.as_slice() {
            [.., a, b] if *a == self.product.rows && *b == self.product.columns => {
                let group = names.hint("GROUP", number, &[8, 4, 16, 1]);
                format!(" grouped p{a} by {group}")
            }
            _ => String::new(),
        };

        let mut e = self.emitter(names);
        e.walks.clone_from(&walks);
        let condition = match parts {
            Some(_) => None,
            None => self.product.condition(&e)?,
        };
        let tile = [self.product.rows, self.product.columns];
        e.line(format!("acc0 = zeros f32{}", e.extents(&tile)?));
        if let Some(condition) = &condition {
            e.open(format!("if {condition} {{"));
        }
        e.open(format!(
            "for r{depth} in 0..{end} step {len} pipeline({stages}) {{"
        ));
        self.multiply(&mut e)?;
        e.close();
        if condition.is_some() {
            e.close();
        }
        let scales = self.scales(&mut e)?;
        e.tile = tile.to_vec();
        e.line(format!("y0 = acc0 * {scales}"));
        let Some((count, _)) = parts else {
            let name = format!("k{number}");
            let head = format!("kernel {name} over ({}){order}", grid.join(", "));
            return Ok(vec![self.finish(e, name, &head)?]);
        };

        let name = format!("k{number}_parts");
        let region = self.product.region(&e)?;
        e.line(format!("store part{number}[s0, {region}] = y0"));
        let text = e.finish(&format!(
            "kernel {name} over (s0 in {count}, {}){order}",
            grid.join(", ")
        ));
        let mut written = vec![Written { name, text }];
        let extents: Vec<String> = result.iter().map(|a| self.extent(*a).to_string()).collect();
        names.buffers.push(format!(
            "buffer part{number}: f32[{count}, {}]",
            extents.join(", ")
        ));

        let rows = self.product.rows;
        let extent = self.extent(rows);
        let walk = Walk::Tile {
            start: format!("p{rows}*{PART_ROWS}"),
            len: PART_ROWS.to_string(),
            overhang: extent.as_const().is_none_or(|l| l % PART_ROWS != 0),
        };
        walks.insert(rows, walk);
        for (axis, index) in result.iter().zip(&mut grid) {
            if *axis == rows {
                *index = format!("p{axis} in ceildiv({extent}, {PART_ROWS})");
            }
        }
        let mut e = self.emitter(names);
        e.walks = walks;
        e.tile = tile.to_vec();
        let outside = if self.product.leaves(&e) { " else 0.0" } else { "" };
        let region = self.product.region(&e)?;
        e.line(format!("acc0 = zeros f64{}", e.extents(&tile)?));
        e.open(format!("for s0 in 0..{count} {{"));
        e.line(format!(
            "acc0 = acc0 + f64(load part{number}[s0, {region}]{outside})"
        ));
        e.close();
        e.line("y0 = f32(acc0)");
        let name = format!("k{number}");
        let head = format!("kernel {name} over ({})", grid.join(", "));
        written.push(self.finish(e, name, &head)?);
        Ok(written)
    }

    /// One step of the sum.
    fn multiply(&self, e: &mut Emitter<'_>) -> Result<()> {
        let [a, b] = &self.operands;
        let mut half = |name: &str, operand: &Operand, pair: [Axis; 2], variable: &str| -> Result<()> {
            let (place, _) = e.place(&operand.axes)?;
            let mut text = format!("load {name}[{}] else 0.0", place.join(", "));
            let order = operand.axes.iter().filter(|x| pair.contains(x));
            if !order.eq(pair.iter()) {
                text = format!("trans({text})");
            }
            e.line(format!("{variable} = {text}"));
            Ok(())
        };
        let left = [self.product.rows, self.depth()];
        let right = [self.depth(), self.product.columns];
        half(&a.high, a, left, "ah")?;
        half(&b.high, b, right, "bh")?;
        if let (Some(a_low), Some(b_low)) = (&a.low, &b.low) {
            half(a_low, a, left, "al")?;
            half(b_low, b, right, "bl")?;
            e.line("low = dot(al, bh) f16");
            e.line("low = dot(ah, bl, low) f16");
            e.line("acc0 = acc0 + dot(ah, bh, low * 0x1p-11) f16");
        } else {
            e.line("acc0 = dot(ah, bh, acc0) f16");
        }
        Ok(())
    }

    /// The text of the scales of the result's tile.
    fn scales(&self, e: &mut Emitter<'_>) -> Result<String> {
        let mut texts = Vec::new();
        for (operand, marks) in self.operands.iter().zip(["[:, None]", "[None, :]"]) {
            let (place, leaves) = e.place(&self.rows_of(operand))?;
            let outside = if leaves { " else 0.0" } else { "" };
            let name = operand.scale.to_lowercase();
            e.line(format!(
                "{name} = load {}[{}]{outside}",
                operand.scale,
                place.join(", ")
            ));
            texts.push(format!("{name}{marks}"));
        }
        match texts.as_slice() {
            [a, b] => Ok(format!("{a} * {b}")),
            _ => Err(Error::unexpected("a product has two operands")),
        }
    }

    /// The work on the product, which is called `y0`, and the end of the kernel.
    fn finish(&self, mut e: Emitter<'_>, name: String, head: &str) -> Result<Written> {
        let result = Var {
            text: "y0".to_owned(),
            axes: vec![self.product.rows, self.product.columns],
        };
        e.define(self.product.contract, result);
        e.store_all(|_, _| true)?;
        let text = e.finish(head);
        Ok(Written { name, text })
    }
}

/// The number and the length of about `wanted` parts of a sum, in multiples of `step`: equal ones, if not many fewer.
fn parts_of(length: i64, wanted: i64, step: i64) -> Option<(i64, i64)> {
    let equal = (wanted - wanted / 4..=wanted)
        .rev()
        .find(|n| length % (n * step).max(1) == 0);
    let part = ceildiv(ceildiv(length, equal.unwrap_or(wanted).max(1)), step) * step;
    let parts = ceildiv(length, part.max(1));
    (wanted > 1 && parts > 1).then_some((parts, part))
}
