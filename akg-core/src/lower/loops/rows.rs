//! Rows of a tile combined into one row of accumulators.
//!
//! Row by row, each element would cost a load and a store of its accumulator. A block of rows is therefore taken at a time,
//! column by column, so that accumulators stay in registers for a block. The order of the rows stays what it is.

use crate::expr::{Expr, Symbol};

use super::effect::Effect;
use super::ir::{LoopKind, Stmt};
use super::mapper::Mapper;
use super::nest::{Nest, Plan};

/// Rows of a block.
const ROWS: usize = 4;

impl Mapper<'_> {
    /// A name for the first row of a block, if the loops of `nest` combine whole blocks of rows.
    pub(super) fn block_of_rows(&mut self, nest: &Nest, plan: &Plan) -> Option<Symbol> {
        let (_, rows) = nest.axes.get(nest.level)?;
        let combines = |e: &Effect| matches!(e, Effect::Accumulate { .. } | Effect::Extreme { .. });
        // What depends on the row only is computed outside of the loop over columns.
        let by_row = |id| plan.levels.get(id) == Some(&(nest.level + 1));
        let fits = nest.axes.len() == nest.level + 2
            && rows % ROWS == 0
            && nest.effects.iter().all(combines)
            && !plan.named.keys().any(by_row);
        fits.then(|| {
            let block = self.names.fresh("block");
            self.ranges.insert(block.clone(), (0, (rows - ROWS) as i64));
            block
        })
    }
}

impl Plan {
    /// The loops over blocks of rows, columns, and the rows of a block around `body`.
    pub(super) fn blocks_of_rows(
        &self,
        nest: &Nest,
        row: &Symbol,
        rows: usize,
        body: Vec<Stmt>,
    ) -> Option<Stmt> {
        let (column, columns) = nest.axes.last()?;
        let block = self.block.clone()?;
        let start = Expr::symbol(block.clone());
        let rows_of_block = Stmt::For {
            symbol: row.clone(),
            lo: start.clone(),
            hi: start + Expr::from(ROWS),
            step: 1,
            kind: LoopKind::Unrolled,
            body,
        };
        let columns = Stmt::For {
            symbol: column.clone(),
            lo: 0.into(),
            hi: (*columns).into(),
            step: 1,
            kind: nest.innermost.clone(),
            body: vec![rows_of_block],
        };
        Some(Stmt::For {
            symbol: block,
            lo: 0.into(),
            hi: rows.into(),
            step: ROWS as i64,
            kind: LoopKind::Tile,
            body: vec![columns],
        })
    }
}
