//! Elements of a product that are combined within the tiles that compute them: groups of neighbouring columns, as by norms of
//! groups, or all rows, as where the channels of a convolution are.

use super::Product;
use crate::designer::emit::{Emitter, Var, Walk, compute_type};
use crate::designer::plan::{Columns, Operand};
use crate::designer::prim::{MapOp, Prim, PrimId};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::sketch::ir::{BinaryOp, ReduceOp};

/// The position of a group's columns in a tile.
const COLUMNS: usize = 2;
/// The position of the rows in a tile.
const ROWS: usize = 0;

impl Product<'_> {
    /// The product's tile, called `text`, with a dimension for the columns of each group.
    pub(super) fn in_groups(&self, e: &mut Emitter<'_>, columns: Columns, text: &str) -> Result<Var> {
        let Columns {
            groups, own, count, ..
        } = columns;
        let Some(Walk::Tile { len, overhang, .. }) = e.walks.get(&self.columns).cloned() else {
            return Err(Error::unexpected("a product is not tiled along its columns"));
        };
        let len = format!("{len} // {count}");
        let start = format!("p{}*({len})", self.columns);
        e.walks.insert(groups, Walk::Tile { start, len, overhang });
        let walk = Walk::Tile {
            start: "0".to_owned(),
            len: count.to_string(),
            overhang: false,
        };
        e.walks.insert(own, walk);
        e.tile = vec![self.rows, groups, own];
        let name = e.fresh("y");
        let extents = e.extents(&e.tile)?;
        e.line(format!("{name} = reshape({text}, {extents})"));
        Ok(Var {
            text: name,
            axes: e.tile.clone(),
        })
    }

    /// Combines the columns of each group as often as the work on the product asks for it.
    pub(super) fn combine(&self, e: &mut Emitter<'_>, columns: Columns) -> Result<()> {
        for id in &self.kernel.nodes {
            let Prim::Reduce(op, ..) = self.prims.node(*id).prim else {
                continue;
            };
            let text = match self.sum_of_f32(e, columns, *id)? {
                Some(text) => text,
                None => {
                    let of = e.operand(*id, 0, compute_type(self.prims.dtype(*id)))?;
                    format!("reduce_{}({}, {COLUMNS})", op.name(), of.text)
                }
            };
            let name = e.fresh("s");
            e.line(format!("{name} = {text}"));
            let axes = vec![self.rows, columns.groups];
            e.define(*id, Var { text: name, axes });
        }
        Ok(())
    }

    /// Combines the rows of the product, all of which its tile holds, as often as the work on it asks for it.
    pub(super) fn combine_rows(&self, e: &mut Emitter<'_>) -> Result<()> {
        if self.kernel.rows.is_some_and(|rows| rows != self.rows) {
            return Err(Error::unexpected(
                "a product's tiles do not lie along the rows that are combined",
            ));
        }
        for id in &self.kernel.nodes {
            let Prim::Reduce(op, ..) = self.prims.node(*id).prim else {
                continue;
            };
            let narrow = self.kernel.node(*id, 0).filter(|of| self.widens(*of));
            // Of moments little is left where one is taken from the other.
            let (of, wide) = match narrow.filter(|_| self.sums_once()) {
                Some(cast) => (e.operand(cast, 0, DType::F32)?, true),
                None => (e.operand(*id, 0, compute_type(self.prims.dtype(*id)))?, false),
            };
            let text = format!("reduce_{}({}, {ROWS})", op.name(), of.text);
            let name = e.fresh("s");
            e.line(if wide {
                format!("{name} = f64({text})")
            } else {
                format!("{name} = {text}")
            });
            let axes = of.axes.into_iter().filter(|axis| *axis != self.rows).collect();
            e.define(*id, Var { text: name, axes });
        }
        Ok(())
    }

    /// Whether there is one sum of the product's elements.
    fn sums_once(&self) -> bool {
        let is_sum = |id: &&PrimId| matches!(self.prims.node(**id).prim, Prim::Reduce(ReduceOp::Sum, ..));
        self.kernel.nodes.iter().filter(is_sum).count() == 1
    }

    /// The text of a sum in f64 of a few elements of f32 or of their squares, in the registers that f32 needs: squares are
    /// taken of what is left of elements when their mean is taken off, and the mean is put back into their sum.
    fn sum_of_f32(&self, e: &mut Emitter<'_>, columns: Columns, id: PrimId) -> Result<Option<String>> {
        if !matches!(self.prims.node(id).prim, Prim::Reduce(ReduceOp::Sum, ..)) {
            return Ok(None);
        }
        if let Some(cast) = self.kernel.node(id, 0).filter(|of| self.widens(*of)) {
            let of = e.operand(cast, 0, DType::F32)?;
            return Ok(Some(format!("f64(reduce_sum({}, {COLUMNS}))", of.text)));
        }
        let Some((cast, sum)) = self
            .kernel
            .node(id, 0)
            .and_then(|square| self.summed_square(e, square))
        else {
            return Ok(None);
        };
        let of = e.operand(cast, 0, DType::F32)?.text;
        let (mean, rest, count) = (e.fresh("m"), e.fresh("d"), columns.count);
        e.line(format!("{mean} = f32({} / {count}.0)", sum.text));
        e.line(format!("{rest} = {of} - {mean}[:, :, None]"));
        Ok(Some(format!(
            "f64(reduce_sum({rest}*{rest}, {COLUMNS})) + f64({mean}) * ({}*2.0 - f64({mean})*{count}.0)",
            sum.text
        )))
    }

    /// Whether it is f32 as f64.
    fn widens(&self, id: PrimId) -> bool {
        let is_cast = matches!(self.prims.node(id).prim, Prim::Map(MapOp::Cast, _));
        let of = self.prims.operands(id);
        is_cast
            && self.prims.dtype(id) == DType::F64
            && of.iter().all(|of| self.prims.dtype(*of) == DType::F32)
    }

    /// The conversion to f64 that something is the square of, and the sum of what it gives, if that is known.
    fn summed_square(&self, e: &Emitter<'_>, square: PrimId) -> Option<(PrimId, Var)> {
        let is_product = matches!(
            self.prims.node(square).prim,
            Prim::Map(MapOp::Binary(BinaryOp::Mul), _)
        );
        let [a, b] = [0, 1].map(|i| self.kernel.node(square, i));
        let cast = a.filter(|cast| is_product && a == b && self.widens(*cast))?;
        let mut sums = self.kernel.nodes.iter().filter(|sum| {
            let is_sum = matches!(self.prims.node(**sum).prim, Prim::Reduce(ReduceOp::Sum, ..));
            is_sum && self.kernel.operands.get(&(**sum, 0)) == Some(&Operand::Node(cast))
        });
        Some((cast, sums.find_map(|sum| e.find(*sum))?))
    }
}
