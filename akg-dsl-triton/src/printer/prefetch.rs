//! Rows ahead: where programs of a team meet in every iteration of a loop, each asks for its part of the next row before it
//! waits.
//!
//! Memory would rest meanwhile. The lines are in the cache of all cores when they are loaded; that neither the row nor what
//! is stored of it will be needed again is said too, so that they stay there until then.

use std::collections::BTreeMap;

use akg_core::dtype::DType;
use akg_core::error::Result;
use akg_core::expr::{Expr, Symbol};
use akg_core::lower::tiles::{Access, Coordinate, TileLoop, TileOp, TileStmt};

use super::Printer;

/// Bytes of a line of the cache.
const LINE: usize = 128;

/// Said of what will not be needed again.
const ONCE: &str = ", eviction_policy=\"evict_first\"";

/// The first elements of the lines of a load, with index symbols as `symbols` says; `None` unless they follow each other.
fn lines_of(access: &Access, dtype: DType, symbols: &dyn Fn(&str) -> Option<Expr>) -> Option<Access> {
    let elements = LINE / dtype.size();
    let mut access = access.clone();
    let [lanes] = access.lanes.as_mut_slice() else {
        return None;
    };
    if lanes.all < 2 * elements {
        return None;
    }
    lanes.all /= elements;
    lanes.live = lanes.live.div_ceil(elements);
    for dim in &mut access.dims {
        match &mut dim.coordinate {
            Coordinate::At(at) => *at = at.substitute(symbols),
            Coordinate::Lanes {
                start,
                step: step @ 1,
                ..
            } if dim.stride.is(1) => {
                *start = start.substitute(symbols);
                *step = elements as i64;
            }
            _ => return None,
        }
    }
    Some(access)
}

/// Whether an access is another for each value of an index symbol.
fn depends_on(access: &Access, symbol: &Symbol) -> bool {
    access.dims.iter().any(|dim| match &dim.coordinate {
        Coordinate::At(at) | Coordinate::Lanes { start: at, .. } => at.symbols().contains(symbol),
        Coordinate::AtTile(_) | Coordinate::Index { .. } => false,
    })
}

impl Printer<'_> {
    /// The first elements of the lines that `l`, a loop of a cooperative kernel, loads before the barrier in the iteration
    /// after; none unless two iterations may be under way.
    pub(super) fn lines_ahead(&self, l: &TileLoop) -> Vec<Access> {
        let at = l.body.iter().position(|s| *s == TileStmt::Barrier);
        let (Some(2..), Some(at), true) = (l.pipeline, at, self.dialect.prefetches) else {
            return Vec::new();
        };
        let next = &Expr::symbol(l.symbol.clone()) + &l.step.into();
        let next = next.minimum(&(&l.hi - &1.into()));
        let mut symbols: BTreeMap<&str, Expr> = BTreeMap::from([(&*l.symbol, next)]);
        let mut ahead = Vec::new();
        for stmt in l.body.iter().take(at) {
            match stmt {
                TileStmt::Let { symbol, value } => {
                    let value = value.substitute(&|s| symbols.get(s).cloned());
                    symbols.insert(symbol, value);
                }
                TileStmt::Define {
                    value,
                    op: TileOp::Load { access, .. },
                } if !self.boxes.contains_key(&access.tensor) => {
                    let lines = lines_of(access, self.dtype(*value), &|s| symbols.get(s).cloned());
                    ahead.extend(lines.filter(|lines| depends_on(lines, &l.symbol)));
                }
                _ => {}
            }
        }
        ahead
    }

    /// What the cache of all cores is to do with a tile once it is loaded.
    pub(crate) fn keeping_of_load(&self, access: &Access) -> &'static str {
        let lines = self.ahead.iter().find(|lines| lines.tensor == access.tensor);
        lines.map_or("", |_| ONCE)
    }

    /// What it is to do with a tile that was stored.
    pub(crate) fn keeping_of_store(&self, access: &Access) -> &'static str {
        match access.lanes.as_slice() {
            [_, ..] if !self.ahead.is_empty() => ONCE,
            _ => "",
        }
    }

    /// Asks for what the iteration after this one loads; for a line that the tensor always has, in the place of what is beyond.
    pub(super) fn prefetch(&mut self) -> Result<()> {
        for access in self.ahead.clone() {
            let prefetch = self.call("akg_prefetch");
            let (mut lines, mask) = self.address(&access)?;
            if let Some(mask) = mask {
                let first = self.parameter(access.tensor);
                lines = format!("tl.where({mask}, {lines}, {first})");
            }
            self.line(format!("{prefetch}({lines})"));
        }
        Ok(())
    }
}
