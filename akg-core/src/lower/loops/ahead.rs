//! Reading ahead.
//!
//! Where an iteration of a loop, or a program, reads a tile several times, memory rests after the first time. A later
//! pass over the tile therefore asks for the tile of the next iteration.

use crate::expr::{Expr, Symbol};
use crate::sketch::ir::TensorId;

use super::checks::affine;
use super::ir::Stmt;
use super::mapper::Mapper;
use super::nest::{Nest, Plan};
use super::node::NodeKind;

/// The row that the next iteration reads.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Ahead {
    pub(super) tensor: TensorId,
    /// The offset of its first element.
    pub(super) offset: Expr,
}

impl Ahead {
    /// The request for `len` elements from the one at index `start` of the row.
    pub(super) fn part(&self, start: &Expr, len: &Expr) -> Stmt {
        Stmt::Prefetch {
            tensor: self.tensor,
            offset: &self.offset + start,
            len: len.clone(),
        }
    }
}

impl Mapper<'_> {
    /// The rows that the innermost loop of `nest` reads element after element, from their first elements.
    fn rows_read(&self, nest: &Nest, plan: &Plan) -> Vec<(TensorId, Expr)> {
        let Some((symbol, _)) = nest.axes.last() else {
            return Vec::new();
        };
        let row = |kind: &NodeKind| match kind {
            NodeKind::Tensor { tensor, offset, .. } => match affine(offset, symbol) {
                Some((first, 1)) => Some((*tensor, first)),
                _ => None,
            },
            _ => None,
        };
        let nodes = plan.levels.keys();
        nodes.filter_map(|id| row(&self.nodes.get(*id).kind)).collect()
    }

    /// Notes what `nest` reads. Returns what it should read ahead: what follows rows that were read before.
    pub(super) fn read_ahead(&mut self, nest: &Nest, plan: &Plan) -> Vec<Ahead> {
        let rows = self.rows_read(nest, plan);
        let mut ahead = Vec::new();
        if nest.parts.is_some()
            && let Some((symbol, step)) = self.advances.last().cloned()
        {
            let next = Expr::symbol(symbol.clone()) + Expr::from(step);
            let again = rows.iter().filter(|row| self.rows_read.contains(row));
            for (tensor, first) in again.filter(|(_, first)| first.mentions(&symbol)) {
                let offset = first.substitute(&|s| (s == &*symbol).then(|| next.clone()));
                let row = Ahead {
                    tensor: *tensor,
                    offset,
                };
                if !ahead.contains(&row) {
                    ahead.push(row);
                }
            }
        }
        self.rows_read.extend(rows);
        ahead
    }

    /// Does something in a loop whose index advances by `step`.
    pub(super) fn advancing<T>(
        &mut self,
        index: Option<(Symbol, i64)>,
        inside: impl FnOnce(&mut Self) -> T,
    ) -> T {
        let outer = self.advances.len();
        self.advances.extend(index);
        let result = inside(self);
        self.advances.truncate(outer);
        result
    }
}
