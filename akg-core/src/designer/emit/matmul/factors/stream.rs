//! Products whose last tiles would leave most of a device idle.
//!
//! Tiles take whole waves of all cores, and what is left over takes as long as one more. Where that is much of the time, the
//! steps of the tiles that are left over are shared out evenly instead, wherever one tile ends and another begins: Osama et
//! al., "Stream-K: Work-centric Parallel Decomposition for Dense Matrix-Matrix Multiplication on the GPU" (PPoPP 2023),
//! section 5.2, the hybrid of one wave. A program stores what it has of each tile that it meets, and another kernel adds
//! that up, always in the same order.

use std::collections::HashMap;

use super::{PART_ROWS, PRODUCT, Split, Steps, ceildiv};
use crate::designer::emit::{Names, Walk, Written};
use crate::error::Result;

/// The part of the time of all waves that the cores would be idle, at least: what it saves must make up for two more launches.
const IDLE: f64 = 0.2;
/// How much longer than what sharing costs the time is that it saves, at least.
const WORTH: f64 = 2.0;

/// How a product's tiles are shared out.
pub(super) struct Stream {
    /// Lengths of tiles along the rows and the columns, and of a step.
    lengths: [i64; 3],
    /// Rows of tiles that are computed tile by tile.
    whole: i64,
    /// Columns of tiles.
    columns: i64,
    /// Tiles whose steps are shared out.
    tiles: i64,
    /// Steps of a tile.
    steps: i64,
    /// Programs that share them.
    programs: i64,
}

impl Stream {
    /// Steps that are shared out.
    fn all(&self) -> i64 {
        self.tiles * self.steps
    }

    /// Tiles that a program meets at most.
    fn met(&self) -> i64 {
        ceildiv(self.tiles, self.programs) + 1
    }

    /// The first step of the program called `index`, as text.
    fn first_step(&self, index: &str) -> String {
        format!("{index}*{} // {}", self.all(), self.programs)
    }

    /// The first tile of the program called `index`, as text.
    fn first_tile(&self, index: &str) -> String {
        format!("({}) // {}", self.first_step(index), self.steps)
    }
}

impl Split<'_> {
    /// How the tiles of a product are shared out, if it is worth it.
    pub(super) fn stream(&self) -> Option<Stream> {
        let product = self.product;
        let is_plain = product.triangle().is_none() && product.kernel.columns.is_none();
        let is_prepared = self.operands.iter().all(|operand| !operand.is_inside);
        let is_matrix = product.result() == [product.rows, product.columns];
        let is_whole = self.parts().is_none() && !self.is_short();
        if !self.device.shares_tiles() || !is_plain || !is_prepared || !is_matrix || !is_whole {
            return None;
        }
        let [rows, columns] = self.lengths_of_tiles();
        let (rows, columns) = (*rows.first()?, *columns.first()?);
        let step = *self.lengths_of_steps().first()?;
        let depth = self.length(self.depth())?;
        let down = ceildiv(self.length(product.rows)?, rows);
        let across = ceildiv(self.length(product.columns)?, columns);
        let programs = self.device.cores();
        let waves = down * across / programs;
        let whole = (waves * programs / across).min(down);
        let stream = Stream {
            lengths: [rows, columns, step],
            whole,
            columns: across,
            tiles: (down - whole) * across,
            steps: ceildiv(depth, step),
            programs,
        };
        let needed = (down * across) as f64 / programs as f64;
        let idle = needed.ceil() - needed;
        // A tile's time, and that of writing and reading what is stored of tiles.
        let factors: f64 = if self.factors().has_low() { 3.0 } else { 1.0 };
        let products = (rows * columns * depth) as f64;
        let tile = self
            .device
            .multiply_factors_seconds(factors * products * programs as f64)?;
        let stored = 4.0 * (programs * stream.met() * rows * columns) as f64;
        let cost = 2.0 * (self.device.move_seconds(stored)? + self.device.launch_seconds());
        let is_worth_it = idle >= IDLE * needed.ceil() && idle * tile >= WORTH * cost;
        (waves > 0 && stream.tiles > 0 && is_worth_it).then_some(stream)
    }

    /// The kernels of a product whose last tiles are shared out: that of whole tiles, that of the shared ones, and the one
    /// that adds these up.
    pub(super) fn write_stream(&self, names: &mut Names, stream: &Stream) -> Result<Vec<Written>> {
        let (product, number) = (self.product, self.number);
        let [row_length, column_length, step] = stream.lengths;
        let lengths = [vec![row_length], vec![column_length]];
        let mut walks = HashMap::new();
        let mut grid = product.walk_result(names, number, &lengths, &mut walks);
        let len = names.knob("BK", number, &[step]);
        let stages = names.hint("STAGES", number, self.stages());
        let steps = Steps {
            len: len.clone(),
            stages: Some(stages),
            level: self.level(self.length(self.depth()).unwrap_or_default()),
        };
        walks.insert(self.depth(), steps.walk(self.depth(), ""));
        let mut written = Vec::new();

        let order = self.order(names, &steps);
        if stream.whole > 0 {
            if let Some(of_rows) = grid.first_mut() {
                *of_rows = format!("p{} in {}", product.rows, stream.whole);
            }
            let mut e = self.emitter(names);
            e.walks.clone_from(&walks);
            self.add_up(&mut e, &steps, ["0", &self.extent(self.depth()).to_string()])?;
            self.restore(&mut e, PRODUCT)?;
            let over = format!("({}){order}", grid.join(", "));
            written.push(product.finish(e, "y0", format!("k{number}_whole"), &over)?);
        }

        let (programs, met) = (stream.programs, stream.met());
        names.buffers.push(format!(
            "buffer part{number}: f32[{programs}, {met}, {row_length}, {column_length}]"
        ));
        let tile = format!("({} + s0)", stream.first_tile("q0"));
        let mut shared = walks.clone();
        let row = format!("({} + {tile} // {})*{row_length}", stream.whole, stream.columns);
        let row = Walk::Tile {
            start: row,
            len: row_length.to_string(),
            overhang: true,
        };
        shared.insert(product.rows, row);
        if let Some(Walk::Tile { start, .. }) = shared.get_mut(&product.columns) {
            *start = format!("({tile} % {})*{column_length}", stream.columns);
        }
        let mut e = self.emitter(names);
        e.walks = shared;
        e.open(format!("for s0 in 0..{met} {{"));
        let within = |index: &str| format!("{} - {tile}*{}", stream.first_step(index), stream.steps);
        let from = format!("max({}, 0)*{len}", within("q0"));
        let to = format!("min({}, {})*{len}", within("(q0 + 1)"), stream.steps);
        self.add_up(&mut e, &steps, [&from, &to])?;
        e.line(format!(
            "store part{number}[q0, s0, 0 :+ {row_length}, 0 :+ {column_length}] = {PRODUCT}"
        ));
        e.close();
        let name = format!("k{number}_shared");
        let text = e.finish(&format!("kernel {name} over (q0 in {programs})"));
        written.push(Written { name, text });

        let rows = self.length(product.rows).unwrap_or_default() - stream.whole * row_length;
        let index = format!("p{}", product.rows);
        let mut joined = walks;
        joined.insert(
            product.rows,
            Walk::Tile {
                start: format!("{} + {index}*{PART_ROWS}", stream.whole * row_length),
                len: PART_ROWS.to_string(),
                overhang: rows % PART_ROWS != 0,
            },
        );
        let tile = format!(
            "({index}*{PART_ROWS} // {row_length}*{} + p{})",
            stream.columns, product.columns
        );
        let (all, steps) = (stream.all(), stream.steps);
        let first = format!("ceildiv({programs}*({tile}*{steps} + 1), {all}) - 1");
        let last = format!("ceildiv({programs}*({tile} + 1)*{steps}, {all})");
        let place = format!("{tile} - {}", stream.first_tile("q0"));
        let mut e = self.emitter(names);
        e.walks = joined;
        e.tile = vec![product.rows, product.columns];
        e.line(format!("acc0 = zeros f64{}", e.extents(&e.tile)?));
        e.open(format!("for q0 in {first}..{last} {{"));
        e.line(format!(
            "acc0 = acc0 + f64(load part{number}[q0, {place}, {index}*{PART_ROWS} % {row_length} :+ {PART_ROWS}, 0 :+ {column_length}] \
             else 0.0)"
        ));
        e.close();
        if let Some(of_rows) = grid.first_mut() {
            *of_rows = format!("{index} in {}", ceildiv(rows, PART_ROWS));
        }
        written.push(self.finish(e, "f32(acc0)", &format!("({})", grid.join(", ")))?);
        Ok(written)
    }
}
