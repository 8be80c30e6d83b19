//! The passes over an operand that find out about its rows, and make factors of it.

use std::collections::HashMap;

use super::lengths::parts_of;
use super::{GRAIN, Operand, Split, TOP, ceildiv};
use crate::designer::emit::{Emitter, Names, Walk, Written};
use crate::designer::plan::Axis;
use crate::dtype::DType;
use crate::error::Result;

/// Elements that a program takes at a time on its way along rows.
const TILE: i64 = 4096;
/// Elements of whole rows that the threads of a program keep, so that they are read once.
const KEPT: i64 = 32768;
/// The same of rows that are columns in memory: each row of the tile should be long enough to be read at full speed.
const KEPT_COLUMN: i64 = 1024;
/// Rows of a tile at most where they are columns in memory, and where they are not.
const MOST_COLUMNS: i64 = 64;
const MOST_ROWS: i64 = 16;
/// The least scale: [`TOP`] over it is a number of f32.
pub(in crate::designer::emit) const LEAST_SCALE: &str = "0x1p-112";

/// Something about every row: its name, how that of two parts combines, and the type of it all.
struct Fact {
    name: &'static str,
    combine: &'static str,
    dtype: DType,
    /// What it is of no elements.
    none: &'static str,
    /// Whether it is of their magnitudes.
    of_magnitudes: bool,
}

const TOTAL: Fact = Fact {
    name: "total",
    combine: "sum",
    dtype: DType::F64,
    none: "0.0",
    of_magnitudes: false,
};
const MOST: Fact = Fact {
    name: "most",
    combine: "max",
    dtype: DType::F32,
    none: "-inf",
    of_magnitudes: false,
};
const LEAST: Fact = Fact {
    name: "least",
    combine: "min",
    dtype: DType::F32,
    none: "inf",
    of_magnitudes: false,
};
const BOUND: Fact = Fact {
    name: "top",
    combine: "max",
    dtype: DType::F32,
    none: "0.0",
    of_magnitudes: true,
};

impl Fact {
    /// The buffer for the parts' values.
    fn parts(&self, operand: &Operand) -> String {
        operand.buffer(&format!("{}_PARTS", self.name.to_uppercase()))
    }
}

/// How the programs of a kernel walk over an operand.
struct Walks {
    by_axis: HashMap<Axis, Walk>,
    /// Program indices over the rows.
    grid: Vec<String>,
    /// The head of the loop along a row; `None` if one tile holds it.
    head: Option<String>,
    /// The parts of a row that have programs of their own.
    parts: Option<i64>,
    /// Whether tiles reach beyond the end of a row.
    overhang: bool,
}

/// The writer of one operand's passes.
struct RowPass<'a> {
    split: &'a Split<'a>,
    operand: &'a Operand,
    walks: Walks,
    /// The position of the sum's axis in a tile.
    along: usize,
}

impl Split<'_> {
    /// The kernels that make factors of an operand, or find out what is needed for that.
    pub(super) fn write_factors(&self, operand: &Operand, names: &mut Names) -> Result<Vec<Written>> {
        let pair = [operand.kept, self.depth()];
        let tile: Vec<Axis> = operand
            .axes
            .iter()
            .copied()
            .filter(|a| pair.contains(a))
            .collect();
        let along = tile.iter().position(|a| *a == self.depth()).unwrap_or(1);
        let rows = RowPass {
            split: self,
            operand,
            walks: if operand.is_scaled() {
                self.walk_rows(operand)
            } else {
                self.walk_tiles(operand)
            },
            along,
        };
        names.buffers.extend(rows.declarations());
        let mut e = self.emitter(names);
        e.walks.clone_from(&rows.walks.by_axis);
        e.tile = tile;
        rows.write(&mut e)
    }

    /// How programs take tiles of an operand whose rows nothing is asked about.
    fn walk_tiles(&self, operand: &Operand) -> Walks {
        let depth = self.depth();
        let length = self.length(depth).unwrap_or(TILE).clamp(GRAIN, TILE);
        let (rows, step) = if operand.axes.last() == Some(&depth) {
            let step = (length as u64).next_power_of_two() as i64;
            (TILE / step, step)
        } else {
            (MOST_COLUMNS, TILE / MOST_COLUMNS)
        };
        let mut by_axis = HashMap::new();
        let mut grid = Vec::new();
        for axis in operand.axes.iter().copied() {
            let (extent, index) = (self.padded(operand, axis), format!("p{axis}"));
            let tile = [(operand.kept, rows), (depth, step)]
                .into_iter()
                .find(|(a, _)| *a == axis);
            let Some((_, len)) = tile else {
                grid.push(format!("{index} in {extent}"));
                by_axis.insert(axis, Walk::Index(index));
                continue;
            };
            grid.push(format!("{index} in ceildiv({extent}, {len})"));
            let walk = Walk::Tile {
                start: format!("{index}*{len}"),
                len: len.to_string(),
                overhang: self.length(axis).is_none_or(|l| l % len != 0),
            };
            by_axis.insert(axis, walk);
        }
        Walks {
            by_axis,
            grid,
            head: None,
            parts: None,
            overhang: false,
        }
    }

    /// How programs take whole rows of an operand, or long parts of them.
    fn walk_rows(&self, operand: &Operand) -> Walks {
        let depth = self.depth();
        let length = self.length(depth).unwrap_or(TILE);
        let whole = (length.max(GRAIN) as u64).next_power_of_two() as i64;
        let is_last = operand.axes.last() == Some(&depth);
        let (most, kept) = if is_last {
            (MOST_ROWS, KEPT)
        } else {
            (MOST_COLUMNS, KEPT_COLUMN)
        };
        let (rows, step) = match (whole <= kept, is_last) {
            (true, true) => ((TILE / whole).clamp(1, most), whole),
            (true, false) => ((KEPT / whole).min(most), whole),
            (false, true) => (2, TILE / 2),
            (false, false) => (most, TILE / most),
        };
        let mut walks = HashMap::new();
        let mut grid = Vec::new();
        let mut programs = Some(1i64);
        for axis in self.rows_of(operand) {
            let extent = self.padded(operand, axis);
            let index = format!("p{axis}");
            let count = if axis == operand.kept {
                grid.push(format!("{index} in ceildiv({extent}, {rows})"));
                let walk = Walk::Tile {
                    start: format!("{index}*{rows}"),
                    len: rows.to_string(),
                    overhang: self.length(axis).is_none_or(|l| l % rows != 0),
                };
                walks.insert(axis, walk);
                self.length(axis).map(|l| ceildiv(l, rows))
            } else {
                grid.push(format!("{index} in {extent}"));
                walks.insert(axis, Walk::Index(index));
                self.length(axis)
            };
            programs = programs.zip(count).map(|(n, c)| n.saturating_mul(c));
        }
        // Too few programs share the rows out.
        let wanted = self.device.programs() / programs.unwrap_or(i64::MAX).max(1);
        let parts = parts_of(length, wanted.min(length / (4 * step)), step);
        let (start, end) = match parts {
            Some((_, part)) => (format!("(part*{part} + r{depth})"), part.to_string()),
            None if length <= step => ("0".to_owned(), String::new()),
            None => (format!("r{depth}"), self.padded(operand, depth)),
        };
        let overhang = length % parts.map_or(step, |(_, part)| part) != 0;
        let len = step.to_string();
        walks.insert(depth, Walk::Tile { start, len, overhang });
        Walks {
            by_axis: walks,
            grid,
            head: (!end.is_empty()).then(|| format!("for r{depth} in 0..{end} step {step} {{")),
            parts: parts.map(|(count, _)| count),
            overhang,
        }
    }
}

impl RowPass<'_> {
    fn is_left(&self) -> bool {
        self.operand.kept == self.split.product.rows
    }

    /// What a first pass finds out.
    fn facts(&self) -> &'static [Fact] {
        if self.operand.is_centred() {
            &[TOTAL, MOST, LEAST]
        } else if self.operand.is_scaled() {
            &[BOUND]
        } else {
            &[]
        }
    }

    /// What the product is told about the rows: buffers and their values.
    fn results(&self) -> Vec<(String, &'static str)> {
        if !self.operand.is_scaled() {
            return Vec::new();
        }
        let scale = (self.operand.scale(), "scale");
        if !self.operand.is_centred() {
            return vec![scale];
        }
        let centre = (self.operand.centre(), "centre");
        // The left operand's centre meets the right one's sum, and its rest the right one's centre.
        let mut results = vec![scale, centre];
        if self.operand.meets_weights {
            return results;
        }
        if self.is_left() {
            results.push((self.operand.rest(), "rest"));
        } else {
            let [high, low] = self.operand.totals();
            results.extend([(high, "total_high"), (low, "total_low")]);
        }
        results
    }

    fn declarations(&self) -> Vec<String> {
        let (split, operand) = (self.split, self.operand);
        let padded: Vec<String> = operand.axes.iter().map(|a| split.padded(operand, *a)).collect();
        let padded = padded.join(", ");
        let rows: Vec<String> = split
            .rows_of(operand)
            .iter()
            .map(|a| split.extent(*a).to_string())
            .collect();
        let rows = rows.join(", ");
        let halves = [Some(operand.high()), operand.low()].into_iter().flatten();
        let halves = halves.filter(|_| !operand.is_inside);
        let mut lines: Vec<String> = halves
            .map(|half| format!("buffer {half}: {}[{padded}] align 16", operand.dtype()))
            .collect();
        for (buffer, _) in self.results() {
            lines.push(format!("buffer {buffer}: f32[{rows}]"));
        }
        if let Some(parts) = self.walks.parts {
            for fact in self.facts() {
                let buffer = fact.parts(operand);
                lines.push(format!("buffer {buffer}: {}[{parts}, {rows}]", fact.dtype));
            }
        }
        lines
    }

    fn write(&self, e: &mut Emitter<'_>) -> Result<Vec<Written>> {
        let split = self.split;
        let name = format!("k{}_{}", split.number, self.operand.letter());
        let (place, leaves) = e.place(&split.rows_of(self.operand))?;
        let place = place.join(", ");
        let grid = self.walks.grid.join(", ");
        if !self.operand.is_scaled() {
            self.divide(e)?;
            let text = e.finish(&format!("kernel {name} over ({grid})"));
            return Ok(vec![Written { name, text }]);
        }
        let mut written = Vec::new();
        self.survey(e)?;
        let Some(parts) = self.walks.parts else {
            self.conclude(e);
            self.keep(e, &place);
            if !self.operand.is_inside {
                self.divide(e)?;
            }
            let text = e.finish(&format!("kernel {name} over ({grid})"));
            return Ok(vec![Written { name, text }]);
        };
        for fact in self.facts() {
            let buffer = fact.parts(self.operand);
            e.line(format!("store {buffer}[part, {place}] = {}", fact.name));
        }
        let shared = format!("{grid}, part in {parts}");
        let survey = format!("{name}_rows");
        let text = e.finish(&format!("kernel {survey} over ({shared})"));
        written.push(Written { name: survey, text });

        let outside = if leaves { " else 0.0" } else { "" };
        for fact in self.facts() {
            let (what, combine, buffer) = (fact.name, fact.combine, fact.parts(self.operand));
            let text = format!("load {buffer}[0 :+ {parts}, {place}]{outside}");
            e.line(format!("{what} = reduce_{combine}({text}, 0)"));
        }
        self.conclude(e);
        let over = if self.operand.is_inside {
            self.keep(e, &place);
            grid
        } else {
            // Every program of a row finds the same; the first keeps it.
            e.open("if part == 0 {");
            self.keep(e, &place);
            e.close();
            self.divide(e)?;
            shared
        };
        let text = e.finish(&format!("kernel {name} over ({over})"));
        written.push(Written { name, text });
        Ok(written)
    }

    /// Opens the loop along the rows, if there is one.
    fn open(&self, e: &mut Emitter<'_>) {
        if let Some(head) = &self.walks.head {
            e.open(head);
        }
    }

    fn close(&self, e: &mut Emitter<'_>) {
        if self.walks.head.is_some() {
            e.close();
        }
    }

    /// The tile `x` with `other` beyond the ends of rows.
    fn within(&self, e: &mut Emitter<'_>, x: &str, other: &str) -> Result<String> {
        if !self.walks.overhang {
            return Ok(x.to_owned());
        }
        let depth = self.split.depth();
        let place = e.coordinate(&[depth], DType::I32)?.text;
        let marks = if self.along == 1 { "[None, :]" } else { "[:, None]" };
        let inside = format!("({place} < {}){marks}", self.split.extent(depth));
        Ok(format!("select({inside}, {x}, {other})"))
    }

    /// Reads the rows for the first time. On the way along them, each place in the tile has facts of its own.
    fn survey(&self, e: &mut Emitter<'_>) -> Result<()> {
        let along = self.along;
        if self.walks.head.is_some() {
            let extents = e.extents(&e.tile)?;
            for fact in self.facts() {
                e.line(format!(
                    "{}s = full {}{extents} {}",
                    fact.name, fact.dtype, fact.none
                ));
            }
        }
        self.open(e);
        let x = e.load(&self.operand.access)?.text;
        for fact in self.facts() {
            let (name, combine) = (fact.name, fact.combine);
            let of = if fact.of_magnitudes {
                format!("abs({x})")
            } else {
                x.clone()
            };
            // Loads make zeros beyond the ends.
            let of = if fact.none == "0.0" {
                of
            } else {
                self.within(e, &of, fact.none)?
            };
            // A total's error is common to all that is multiplied with the row's centre.
            let of = match fact.dtype {
                DType::F64 => format!("f64({of})"),
                _ => of,
            };
            e.line(match (&self.walks.head, combine) {
                (None, _) => format!("{name}s = {of}"),
                (_, "sum") => format!("{name}s = {name}s + {of}"),
                _ => format!("{name}s = {combine}({name}s, {of})"),
            });
        }
        self.close(e);
        for fact in self.facts() {
            let (name, combine) = (fact.name, fact.combine);
            e.line(format!("{name} = reduce_{combine}({name}s, {along})"));
        }
        Ok(())
    }

    /// Where rows are centred and how they are scaled.
    fn conclude(&self, e: &mut Emitter<'_>) {
        if self.operand.is_centred() {
            let count = format!("{}.0", self.split.extent(self.split.depth()));
            e.line(format!("mean = f32(bf16(f32(total / {count})))"));
            // Where a few values are far from the others, as in a softmax, most would get the error of a centre that they are far from.
            e.line("spread = max(most - mean, mean - least)");
            e.line("centre = select(spread * 8.0 <= max(abs(most), abs(least)) * 7.0, mean, 0.0)");
            if self.operand.meets_weights {
                // The sum of weights is known where they are.
            } else if self.is_left() {
                e.line(format!("rest = f32(total - f64(centre) * {count})"));
            } else {
                e.line("total_high = f32(bf16(f32(total)))");
                e.line("total_low = f32(total - f64(total_high))");
            }
            e.line("top = max(most - centre, centre - least)");
        }
        e.line(format!("scale = max(pow2_floor(top), {LEAST_SCALE})"));
    }

    fn keep(&self, e: &mut Emitter<'_>, place: &str) {
        for (buffer, value) in self.results() {
            e.line(format!("store {buffer}[{place}] = {value}"));
        }
    }

    /// Reads the rows, maybe again, and makes factors of them.
    fn divide(&self, e: &mut Emitter<'_>) -> Result<()> {
        let operand = self.operand;
        let marks = if self.along == 1 { "[:, None]" } else { "[None, :]" };
        if operand.is_scaled() {
            e.line(format!("inverse = {TOP} / scale"));
        }
        self.open(e);
        let x = e.load(&operand.access)?.text;
        let (place, _) = e.place(&operand.axes)?;
        let place = place.join(", ");
        if operand.is_centred() {
            let whole = self.within(e, &format!("({x} - centre{marks}) * inverse{marks}"), "0.0")?;
            e.line(format!("whole = {whole}"));
        } else if operand.is_scaled() {
            e.line(format!("whole = {x} * inverse{marks}"));
        } else {
            e.line(format!("whole = {x}"));
        }
        e.line(match operand.dtype() {
            DType::F32 => "high = f32(f16(whole))".to_owned(),
            dtype => format!("high = {dtype}(whole)"),
        });
        e.line(format!("store {}[{place}] = high", operand.high()));
        if let Some(low) = operand.low() {
            e.line(format!("store {low}[{place}] = f16(whole - f32(high))"));
        }
        self.close(e);
        Ok(())
    }
}
