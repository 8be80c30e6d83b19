//! Loops part by part, with something to do for each part once it is in the nearest cache.

use crate::expr::{Expr, Symbol};

use super::ir::{LoopKind, Stmt};
use super::mapper::Mapper;

/// The parts of an innermost loop.
#[derive(Debug, Clone)]
pub(super) struct Parts {
    /// The index of the first element of a part.
    pub(super) start: Symbol,
    /// The elements of a part; the last one may have fewer.
    pub(super) len: usize,
}

impl Mapper<'_> {
    /// Parts of `len` elements of a loop over `extent`.
    pub(super) fn parts(&mut self, len: usize, extent: usize) -> Parts {
        let start = self.names.fresh("part");
        self.ranges.insert(start.clone(), (0, extent as i64));
        Parts { start, len }
    }
}

impl Parts {
    /// Where the element at `index` is in its part.
    pub(super) fn place(&self, index: &Expr) -> Expr {
        index - &Expr::symbol(self.start.clone())
    }

    /// The loop over `lo..hi`, followed in each part by what `after` makes of the part's first index and its length.
    pub(super) fn split(
        &self,
        symbol: &Symbol,
        (lo, hi): (Expr, Expr),
        kind: LoopKind,
        body: Vec<Stmt>,
        after: impl FnOnce(&Expr, Expr) -> Vec<Stmt>,
    ) -> Stmt {
        let (start, len) = (Expr::symbol(self.start.clone()), Expr::from(self.len));
        let whole = (&hi - &lo)
            .as_const()
            .is_some_and(|len| len % self.len as i64 == 0);
        let end = if whole {
            &start + &len
        } else {
            (&start + &len).minimum(&hi)
        };
        let each = Stmt::For {
            symbol: symbol.clone(),
            lo: start.clone(),
            hi: end.clone(),
            step: 1,
            kind,
            body,
        };
        let after = after(&start, end - start.clone());
        Stmt::For {
            symbol: self.start.clone(),
            lo,
            hi,
            step: self.len as i64,
            kind: LoopKind::Tile,
            body: std::iter::once(each).chain(after).collect(),
        }
    }
}
