//! Products that take as long as writing their result does.
//!
//! A sum of one step is over as soon as it has begun: a program of one tile waits for its operands, and again for its
//! stores. Where a device has very many such tiles, a program takes a strip of them, one below the other. It loads what
//! depends on the columns once, and the rows of the next tile arrive while the one before is still being written.

use std::collections::HashMap;

use super::{PRODUCT, Split, add_product, ceildiv};
use crate::designer::emit::matmul::overhangs;
use crate::designer::emit::{Names, Walk, Written};
use crate::designer::plan::{Access, Operand};
use crate::error::{Error, Result};

/// Lengths of tiles along the rows and the columns: of small ones, more programs share a core.
const LENGTHS: [i64; 2] = [64, 128];
/// Tiles of a strip. Few do not make up for what a program waits at its begin and its end.
const TILES: [i64; 3] = [32, 16, 8];
/// How often the strips fill the device, at least: in the end, some cores have no strip left.
const FILLS: i64 = 3;
/// The part of the rows that the last strip may be short of.
const WASTE: i64 = 8;

impl Split<'_> {
    /// The numbers of tiles that a strip may have, if the product should be made in strips.
    pub(super) fn tiles_of_strips(&self) -> Option<Vec<i64>> {
        let product = self.product;
        let is_prepared = self.operands.iter().all(|operand| !operand.is_inside);
        let is_plain = product.triangle().is_none() && product.kernel.columns.is_none();
        if !self.device.shares_tiles() || !self.is_short() || !is_prepared || !is_plain {
            return None;
        }
        // Reading as much as is written is another balance.
        let mut others = self.others().map(|access| product.kernel.walked(access));
        if others.any(|axes| axes.contains(&product.rows) && axes.contains(&product.columns)) {
            return None;
        }
        let [length, _] = LENGTHS;
        if self.length(product.columns)? < length {
            return None;
        }
        let rows = ceildiv(self.length(product.rows)?, length);
        let most = product.tiles(length, length)? / (FILLS * self.device.programs());
        let is_worth_it =
            |tiles: &i64| *tiles <= most && (ceildiv(rows, *tiles) * tiles - rows) * WASTE <= rows;
        let tiles: Vec<i64> = TILES.into_iter().filter(is_worth_it).collect();
        (!tiles.is_empty()).then_some(tiles)
    }

    /// What the work on the product reads.
    fn others(&self) -> impl Iterator<Item = &Access> {
        let product = self.product;
        let nodes = product.kernel.nodes.iter().filter(|id| **id != product.contract);
        let operands = nodes.flat_map(|id| (0..product.prims.operands(*id).len()).map(|i| (*id, i)));
        operands.filter_map(|key| match product.kernel.operands.get(&key) {
            Some(Operand::Load(access)) => Some(access),
            _ => None,
        })
    }

    /// The kernel that multiplies, in strips of so many tiles.
    pub(super) fn write_strips(&self, names: &mut Names, tiles: &[i64]) -> Result<Written> {
        let (number, depth) = (self.number, self.depth());
        let (rows, columns) = (self.product.rows, self.product.columns);
        // A thread holds what belongs to its columns from tile to tile: of centred ones, few fit its registers.
        let [left, right] = &self.operands;
        let of_columns = if right.is_centred() { 1 } else { LENGTHS.len() };
        let lengths = [
            self.lengths(rows, &LENGTHS),
            self.lengths(columns, &LENGTHS[..of_columns]),
        ];
        let mut walks = HashMap::new();
        let mut grid = self.product.walk_result(names, number, &lengths, &mut walks);
        let len = names.knob("BK", number, &self.lengths_of_steps());
        let walk = Walk::Tile {
            start: "0".to_owned(),
            len,
            overhang: true,
        };
        walks.insert(depth, walk);
        let count = names.knob("PART", number, tiles);
        let stages = names.hint("STAGES", number, &[2, 3]);
        let Some(Walk::Tile { start, len, overhang }) = walks.get_mut(&rows) else {
            return Err(Error::unexpected("a product is not tiled along its rows"));
        };
        *start = format!("(s{rows}*{count} + p{rows})*{len}");
        let [row_lengths, _] = &lengths;
        let strips = row_lengths
            .iter()
            .flat_map(|len| tiles.iter().map(move |n| len * n));
        *overhang = overhangs(self.extent(rows), &strips.collect::<Vec<_>>());
        for (axis, index) in self.product.result().into_iter().zip(&mut grid) {
            if axis == rows {
                *index = format!("s{rows} in ceildiv({}, {len}*{count})", self.extent(rows));
            }
        }

        let mut e = self.emitter(names);
        e.walks = walks;
        let extents = e.extents(&[rows, columns])?;
        let facts = self.facts();
        let facts_of = |kept| facts.iter().filter(move |(operand, _)| operand.kept == kept);
        for (operand, buffer) in facts_of(columns) {
            self.load(&mut e, operand, buffer)?;
        }
        let right = right.factor(&mut e, [depth, columns])?;
        e.tile = vec![rows, columns];
        let of_all_rows = |access: &&_| !self.product.kernel.walked(access).contains(&rows);
        for access in self.others().filter(of_all_rows) {
            e.load(access)?;
        }
        e.open(format!("for p{rows} in 0..{count} pipeline({stages}) {{"));
        for (operand, buffer) in facts_of(rows) {
            self.load(&mut e, operand, buffer)?;
        }
        let left = left.factor(&mut e, [rows, depth])?;
        e.line(format!("acc0 = zeros f32{extents}"));
        add_product(&mut e, self.factors(), self.device, "acc0", [left, right]);
        self.rescale(&mut e)?;
        self.restore(&mut e, PRODUCT)?;
        self.product.complete(&mut e, "y0")?;
        e.close();
        let name = format!("k{number}");
        let text = e.finish(&format!("kernel {name} over ({})", grid.join(", ")));
        Ok(Written { name, text })
    }
}
