//! The passes over an operand that find out about its rows, and split it.

use std::collections::HashMap;

use super::{Operand, Split, ceildiv, parts_of};
use crate::designer::device::Halves;
use crate::designer::emit::{Emitter, Names, Walk, Written};
use crate::designer::plan::Axis;
use crate::dtype::DType;
use crate::error::Result;

/// Elements that halves are made of at a time, and the rows of them where the sum's axis is not the last.
const TILE: i64 = 4096;
const TILE_ROWS: i64 = 64;
/// Rows of a tile at most where the sum's axis is the last.
const MOST_ROWS: i64 = 16;
/// The scales' range: what they and their reciprocals can be without leaving f32's normal numbers.
const SCALES: [&str; 2] = ["0x1p-126", "0x1p126"];

/// Something about every row: its name, how that of two parts combines, its element type and its first value.
struct Fact {
    name: &'static str,
    combine: &'static str,
    dtype: DType,
    first: &'static str,
}

const TOTAL: Fact = Fact {
    name: "total",
    combine: "sum",
    dtype: DType::F64,
    first: "0.0",
};
const SIZE: Fact = Fact {
    name: "size",
    combine: "sum",
    dtype: DType::F64,
    first: "0.0",
};
const MOST: Fact = Fact {
    name: "most",
    combine: "max",
    dtype: DType::F32,
    first: "-inf",
};
const LEAST: Fact = Fact {
    name: "least",
    combine: "min",
    dtype: DType::F32,
    first: "inf",
};
const TOP: Fact = Fact {
    name: "top",
    combine: "max",
    dtype: DType::F32,
    first: "0.0",
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
    /// Rows of a tile.
    rows: i64,
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
    /// The kernels that split an operand.
    pub(super) fn write_halves(&self, operand: &Operand, names: &mut Names) -> Result<Vec<Written>> {
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
            walks: self.walk(operand),
            along,
        };
        names.buffers.extend(rows.declarations());
        let mut e = self.emitter(names);
        e.walks.clone_from(&rows.walks.by_axis);
        e.tile = tile;
        rows.write(&mut e)
    }

    fn walk(&self, operand: &Operand) -> Walks {
        let depth = self.depth();
        let length = self.length(depth).unwrap_or(TILE);
        let (rows, step) = if operand.axes.last() == Some(&depth) {
            let step = (length.max(1) as u64).next_power_of_two().min(TILE as u64 / 2) as i64;
            ((TILE / step).min(MOST_ROWS), step)
        } else {
            (TILE_ROWS, TILE / TILE_ROWS)
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
            rows,
            overhang,
        }
    }
}

impl RowPass<'_> {
    fn is_centred(&self) -> bool {
        self.operand.halves == Halves::Two
    }

    fn is_left(&self) -> bool {
        self.operand.kept == self.split.product.rows
    }

    /// What a first pass finds out.
    fn facts(&self) -> &'static [Fact] {
        if self.is_centred() {
            &[TOTAL, SIZE, MOST, LEAST]
        } else {
            &[TOP]
        }
    }

    /// What the product is told about the rows: buffers, their types and their values.
    fn results(&self) -> Vec<(String, DType, &'static str)> {
        let scale = (self.operand.scale(), DType::F32, "scale");
        if !self.is_centred() {
            return vec![scale];
        }
        let centre = (self.operand.centre(), DType::F32, "centre");
        // The left operand's centre meets the right one's sum, and its rest the right one's centre.
        let sum = if self.is_left() {
            (self.operand.rest(), DType::F64, "rest")
        } else {
            (self.operand.total(), DType::F64, "total")
        };
        vec![scale, centre, sum]
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
        let mut lines: Vec<String> = halves
            .map(|half| format!("buffer {half}: f16[{padded}] align 16"))
            .collect();
        for (buffer, dtype, _) in self.results() {
            lines.push(format!("buffer {buffer}: {dtype}[{rows}]"));
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
        let letter = self
            .operand
            .name
            .chars()
            .next()
            .unwrap_or('A')
            .to_ascii_lowercase();
        let name = format!("k{}_{letter}", split.number);
        let (place, leaves) = e.place(&split.rows_of(self.operand))?;
        let place = place.join(", ");
        let grid = self.walks.grid.join(", ");
        let mut written = Vec::new();
        self.survey(e)?;
        let Some(parts) = self.walks.parts else {
            self.conclude(e);
            self.keep(e, &place);
            self.divide(e)?;
            let text = e.finish(&format!("kernel {name} over ({grid})"));
            return Ok(vec![Written { name, text }]);
        };
        for fact in self.facts() {
            let buffer = fact.parts(self.operand);
            e.line(format!("store {buffer}[part, {place}] = {}", fact.name));
        }
        let grid = format!("{grid}, part in {parts}");
        let survey = format!("{name}_rows");
        let text = e.finish(&format!("kernel {survey} over ({grid})"));
        written.push(Written { name: survey, text });

        let outside = if leaves { " else 0.0" } else { "" };
        for fact in self.facts() {
            let (what, combine, buffer) = (fact.name, fact.combine, fact.parts(self.operand));
            let text = format!("load {buffer}[0 :+ {parts}, {place}]{outside}");
            e.line(format!("{what} = reduce_{combine}({text}, 0)"));
        }
        self.conclude(e);
        // Every program of a row finds the same; the first keeps it.
        e.open("if part == 0 {");
        self.keep(e, &place);
        e.close();
        self.divide(e)?;
        let text = e.finish(&format!("kernel {name} over ({grid})"));
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

    /// Reads the rows for the first time.
    fn survey(&self, e: &mut Emitter<'_>) -> Result<()> {
        for fact in self.facts() {
            let (rows, dtype) = (self.walks.rows, fact.dtype);
            e.line(format!("{} = full {dtype}[{rows}] {}", fact.name, fact.first));
        }
        self.open(e);
        let x = e.load(&self.operand.access)?.text;
        let along = self.along;
        if self.is_centred() {
            e.line(format!("total = total + f64(reduce_sum({x}, {along}))"));
            e.line(format!("size = size + f64(reduce_sum(abs({x}), {along}))"));
            let (low, high) = (self.within(e, &x, "-inf")?, self.within(e, &x, "inf")?);
            e.line(format!("most = max(most, reduce_max({low}, {along}))"));
            e.line(format!("least = min(least, reduce_min({high}, {along}))"));
        } else {
            e.line(format!("top = max(top, reduce_max(abs({x}), {along}))"));
        }
        self.close(e);
        Ok(())
    }

    /// Where rows are centred and how they are scaled.
    fn conclude(&self, e: &mut Emitter<'_>) {
        if self.is_centred() {
            let count = format!("{}.0", self.split.extent(self.split.depth()));
            e.line(format!("mean = f32(total / {count})"));
            // Values of both signs have little in common with their mean, and small ones would lose by it.
            e.line("centre = select(abs(total) * 2.0 >= size, mean, 0.0)");
            if self.is_left() {
                e.line(format!("rest = total - f64(centre) * {count}"));
            }
            e.line("top = max(most - centre, centre - least)");
        }
        let [least, most] = SCALES;
        e.line(format!("scale = min(max(pow2_floor(top), {least}), {most})"));
    }

    fn keep(&self, e: &mut Emitter<'_>, place: &str) {
        for (buffer, _, value) in self.results() {
            e.line(format!("store {buffer}[{place}] = {value}"));
        }
    }

    /// Reads the rows again and splits them.
    fn divide(&self, e: &mut Emitter<'_>) -> Result<()> {
        let marks = if self.along == 1 { "[:, None]" } else { "[None, :]" };
        e.line("inverse = 1.0 / scale");
        self.open(e);
        let x = e.load(&self.operand.access)?.text;
        let (place, _) = e.place(&self.operand.axes)?;
        let place = place.join(", ");
        if self.is_centred() {
            let whole = self.within(e, &format!("({x} - centre{marks}) * inverse{marks}"), "0.0")?;
            e.line(format!("whole = {whole}"));
        } else {
            e.line(format!("whole = {x} * inverse{marks}"));
        }
        e.line("high = f16(whole)");
        e.line(format!("store {}[{place}] = high", self.operand.high()));
        if let Some(low) = self.operand.low() {
            e.line(format!(
                "store {low}[{place}] = f16((whole - f32(high)) * 2048.0)"
            ));
        }
        self.close(e);
        Ok(())
    }
}
