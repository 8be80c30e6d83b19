//! Two rows under way: in a loop over rows that asks for it, what precedes the barrier in one iteration is done before what
//! follows it in the iteration before.
//!
//! Programs that meet at a barrier wait for the last of them, and memory rests. With a row ahead, each has long arrived when
//! somebody asks. A program does not hold its part of a row meanwhile: it reads it again, from the cache of all cores, which
//! is asked to keep what will be read again and nothing else.

use std::collections::{BTreeMap, BTreeSet};

use akg_core::error::Result;
use akg_core::expr::Expr;
use akg_core::lower::tiles::{Access, Coordinate, TileKernel, TileLoop, TileOp, TileStmt};
use akg_core::sketch::ir::{Op, TensorId, Val};

use super::Printer;
use crate::flow::{indices, operands};
use crate::layout::statement;

/// Iterations that programs of a team can be apart: one that has begun a row and ended the one before begins the next, while
/// another, which has begun the first of them, ends the row before it.
const APART: i64 = 3;

/// Iterations at most that are looked at for whether neighbours write to different places.
const MOST_ITERATIONS: i64 = 1 << 16;

/// The parts of an iteration, each done beside the other of a neighbour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pass {
    Before,
    After,
}

/// The parts of an iteration.
pub(super) struct Overlap<'a> {
    /// What precedes the barrier.
    before: &'a [TileStmt],
    /// Those statements of it that what follows needs: they are done once more.
    again: Vec<&'a TileStmt>,
    /// What follows the barrier.
    after: &'a [TileStmt],
    /// The tiles that are loaded twice, but for single numbers.
    loads: BTreeSet<Val>,
}

/// The parts of an iteration of `l`, a loop of `kernel`, if two iterations can be under way.
pub(super) fn overlap<'a>(kernel: &TileKernel, l: &'a TileLoop) -> Option<Overlap<'a>> {
    let is_alone = kernel
        .body
        .iter()
        .any(|s| matches!(s, TileStmt::For(own) if own == l))
        && barriers(&kernel.body) == 1
        && l.carried.is_empty();
    let at = l.body.iter().position(|s| *s == TileStmt::Barrier)?;
    if l.pipeline.is_none_or(|stages| stages < 2) || !is_alone {
        return None;
    }
    let (before, after) = (l.body.get(..at)?, l.body.get(at + 1..)?);
    let mut accesses = Accesses::of(&l.body);
    accesses.loads.extend(&accesses.stores);
    let is_apart = |a: &&Access, b: &&Access| a.tensor != b.tensor || differs(kernel, l, before, a, b);
    let (stores, all) = (&accesses.stores, &accesses.loads);
    if !stores.iter().all(|a| all.iter().all(|b| is_apart(a, b))) {
        return None;
    }
    let again = again(before, after)?;
    let loaded = |s: &&TileStmt| match s {
        TileStmt::Define {
            value,
            op: TileOp::Load { access, .. },
        } => Some((*value, access.tensor)),
        _ => None,
    };
    let loads: Vec<(Val, TensorId)> = again.iter().filter_map(loaded).collect();
    let is_written = |tensor: TensorId| stores.iter().any(|access| access.tensor == tensor);
    if loads.iter().any(|(_, tensor)| is_written(*tensor)) {
        return None;
    }
    Some(Overlap {
        before,
        again,
        after,
        loads: loads
            .into_iter()
            .map(|(value, _)| value)
            .filter(|value| !kernel.value(*value).extents.is_empty())
            .collect(),
    })
}

/// The barriers in statements.
pub(super) fn barriers(body: &[TileStmt]) -> usize {
    let count = |stmt: &TileStmt| match stmt {
        TileStmt::Barrier => 1,
        TileStmt::For(l) => barriers(&l.body),
        TileStmt::If { then, otherwise, .. } => barriers(then) + barriers(otherwise),
        TileStmt::Let { .. } | TileStmt::Define { .. } | TileStmt::Store { .. } => 0,
    };
    body.iter().map(count).sum()
}

/// What statements load and store.
#[derive(Default)]
struct Accesses<'a> {
    loads: Vec<&'a Access>,
    stores: Vec<&'a Access>,
    /// The tiles that are read.
    read: BTreeSet<Val>,
}

impl<'a> Accesses<'a> {
    fn of(body: &'a [TileStmt]) -> Self {
        let mut all = Self::default();
        all.add(body);
        all
    }

    fn add(&mut self, body: &'a [TileStmt]) {
        for stmt in body {
            match stmt {
                TileStmt::Let { .. } | TileStmt::Barrier => {}
                TileStmt::Define { op, .. } => {
                    self.read.extend(operands(op));
                    if let TileOp::Load { access, .. } = op {
                        self.loads.push(access);
                    }
                }
                TileStmt::Store { access, value, .. } => {
                    self.read.extend(indices(access).chain([*value]));
                    self.stores.push(access);
                }
                TileStmt::For(l) => {
                    self.read
                        .extend(l.carried.iter().flat_map(|c| [c.initial, c.next]));
                    self.add(&l.body);
                }
                TileStmt::If {
                    then,
                    otherwise,
                    merges,
                    ..
                } => {
                    self.read
                        .extend(merges.iter().flat_map(|m| [m.then, m.otherwise]));
                    self.add(then);
                    self.add(otherwise);
                }
            }
        }
    }
}

/// The statements of `before` that `after` needs, if they are cheap: loads, and element-wise work on them.
fn again<'a>(before: &'a [TileStmt], after: &[TileStmt]) -> Option<Vec<&'a TileStmt>> {
    let mut needed = Accesses::of(after).read;
    let mut again = Vec::new();
    for stmt in before.iter().rev() {
        match stmt {
            TileStmt::Define { value, op } => {
                if needed.contains(value) {
                    if !is_cheap(op) {
                        return None;
                    }
                    needed.extend(operands(op));
                    again.push(stmt);
                }
            }
            TileStmt::Let { .. } => again.push(stmt),
            TileStmt::For(l) if l.carried.iter().any(|c| needed.contains(&c.result)) => return None,
            TileStmt::If { merges, .. } if merges.iter().any(|m| needed.contains(&m.result)) => return None,
            TileStmt::For(_) | TileStmt::If { .. } | TileStmt::Store { .. } | TileStmt::Barrier => {}
        }
    }
    again.reverse();
    Some(again)
}

fn is_cheap(op: &TileOp) -> bool {
    match op {
        TileOp::Load { .. } | TileOp::Mask { .. } => true,
        TileOp::Dot { .. } | TileOp::Regroup(_) => false,
        TileOp::Plain(op) => !matches!(op, Op::Reduce(..) | Op::ArgReduce(..) | Op::Scan { .. }),
    }
}

/// Whether `a` and `b` go to different places in iterations that are not far from each other, because coordinates differ
/// that both have.
fn differs(kernel: &TileKernel, l: &TileLoop, before: &[TileStmt], a: &Access, b: &Access) -> bool {
    let mut lets: BTreeMap<&str, Expr> = BTreeMap::new();
    for stmt in before {
        if let TileStmt::Let { symbol, value } = stmt {
            let value = value.substitute(&|s| lets.get(s).cloned());
            lets.insert(symbol, value);
        }
    }
    let row = Expr::symbol(l.symbol.clone());
    let common =
        a.dims
            .iter()
            .zip(&b.dims)
            .filter_map(|pair| match (&pair.0.coordinate, &pair.1.coordinate) {
                (Coordinate::At(a), Coordinate::At(b)) if a == b => {
                    Some(a.substitute(&|s| lets.get(s).cloned()))
                }
                _ => None,
            });
    let common: Vec<Expr> = common.collect();
    let Some((lo, hi)) = kernel
        .facts
        .range(&row)
        .filter(|(lo, hi)| hi - lo < MOST_ITERATIONS)
    else {
        return false;
    };
    (1..=APART).all(|apart| {
        let other = &row + &(apart * l.step).into();
        // How far coordinates move, where that depends on the row alone.
        let moved = common
            .iter()
            .map(|e| e.substitute(&|s| (*s == *l.symbol).then(|| other.clone())) - e);
        let moved: Vec<Expr> = moved
            .filter(|m| m.symbols().iter().all(|s| *s == l.symbol))
            .collect();
        let is_moved = |row: i64| {
            let mut by = moved.iter().filter_map(|m| m.eval_with(&|_| Some(row)).ok());
            by.any(|by| by != 0)
        };
        (lo..=hi).all(is_moved)
    })
}

impl Printer<'_> {
    /// What the cache of all cores is to do with a tile that is loaded now.
    pub(crate) fn keeping_of(&self, value: Val) -> &'static str {
        match &self.pass {
            Some((Pass::Before, loads)) if loads.contains(&value) => ", eviction_policy=\"evict_last\"",
            Some((Pass::After, loads)) if loads.contains(&value) => ", eviction_policy=\"evict_first\"",
            _ => "",
        }
    }

    /// What it is to do with tiles that are stored now.
    pub(crate) fn keeping_of_stores(&self) -> &'static str {
        match self.pass {
            Some((Pass::After, _)) => ", eviction_policy=\"evict_first\"",
            _ => "",
        }
    }

    /// A loop that does what precedes the barrier one iteration ahead.
    pub(super) fn overlapped(&mut self, l: &TileLoop, overlap: &Overlap<'_>) -> Result<()> {
        let (lo, hi) = (self.index(&l.lo), self.index(&l.hi));
        let (end, second) = (
            self.index(&(&l.hi + &l.step.into())),
            self.index(&(&l.lo + &l.step.into())),
        );
        self.open(self.text.len());
        let ahead = self.names.fresh(&format!("{}_ahead", l.symbol));
        let depth = self.scopes.len() - 1;
        self.text += &statement(
            depth,
            &format!("for {ahead} in range({}, {}, {}):", lo.open(), end.open(), l.step),
        );
        if self.kernel.wide {
            self.line(format!("{ahead} = tl.cast({ahead}, tl.int64)"));
        }
        let (counter, programs) = self.team();
        let outside = (self.symbols.clone(), self.constants.clone());

        let opened = self.text.len();
        self.line(format!("if {ahead} < {}:", hi.closed()));
        self.open(opened);
        self.symbols.insert(l.symbol.to_string(), ahead.clone());
        if let Some(scope) = self.scopes.last_mut() {
            scope.symbols.insert(l.symbol.to_string());
        }
        self.pass = Some((Pass::Before, overlap.loads.clone()));
        self.block(overlap.before)?;
        let arrive = self.call("akg_arrive");
        self.line(format!("{arrive}({counter})"));
        self.scopes.pop();
        (self.symbols, self.constants) = outside.clone();

        let opened = self.text.len();
        self.line(format!("if {ahead} >= {}:", second.closed()));
        self.open(opened);
        let symbol = self.define_symbol(&l.symbol);
        self.line(format!("{symbol} = {ahead} - {}", l.step));
        let wait = self.call("akg_wait");
        let rounds = match (l.step, l.lo.is(0)) {
            (1, true) => ahead,
            (1, false) => format!("({ahead} - {})", lo.closed()),
            (step, true) => format!("{ahead} // {step}"),
            (step, false) => format!("({ahead} - {}) // {step}", lo.closed()),
        };
        self.pass = Some((Pass::After, overlap.loads.clone()));
        for stmt in &overlap.again {
            self.block(std::slice::from_ref(*stmt))?;
        }
        self.line(format!("{wait}({counter}, {rounds} * {})", programs.closed()));
        self.block(overlap.after)?;
        self.pass = None;
        self.scopes.pop();
        (self.symbols, self.constants) = outside;
        self.scopes.pop();
        Ok(())
    }
}
