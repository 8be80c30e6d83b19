//! Two rows under way: in a loop over rows that asks for it, what precedes the barrier in one iteration is done before what
//! follows it in the iteration before.
//!
//! Programs that meet at a barrier wait for the last of them, and memory rests. With a row ahead, each has long arrived when
//! somebody asks. A program does not hold its part of a row meanwhile: it reads it again, from the cache of all cores, which
//! is asked to keep what will be read again and nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use akg_core::error::Result;
use akg_core::expr::Expr;
use akg_core::lower::tiles::{Access, Coordinate, TileKernel, TileLoop, TileOp, TileStmt};
use akg_core::sketch::ir::{Op, TensorId, Val};

use super::Printer;
use crate::access::each_access;
use crate::flow::{indices, operands};

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
    if l.pipeline.is_none_or(|stages| stages < 2) || !l.carried.is_empty() || barriers(&kernel.body) != 1 {
        return None;
    }
    let is_own = |s: &TileStmt| matches!(s, TileStmt::For(own) if own == l);
    kernel.body.iter().find(|s| is_own(s))?;
    let at = l.body.iter().position(|s| *s == TileStmt::Barrier)?;
    let (before, after) = (l.body.get(..at)?, l.body.get(at + 1..)?);
    let (mut all, mut stores) = (Vec::new(), Vec::new());
    each_access(&l.body, true, &mut |access, read, _| {
        all.push(access);
        if read.is_none() {
            stores.push(access);
        }
    });
    let rows = Rows::new(kernel, l, before)?;
    let is_apart = |a: &&Access, b: &&Access| a.tensor != b.tensor || rows.differ(a, b);
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

/// The tiles that statements read.
fn read(body: &[TileStmt]) -> BTreeSet<Val> {
    let own = |stmt: &TileStmt| match stmt {
        TileStmt::Let { .. } | TileStmt::Barrier => BTreeSet::new(),
        TileStmt::Define { op, .. } => operands(op).into_iter().collect(),
        TileStmt::Store { access, value, .. } => indices(access).chain([*value]).collect(),
        TileStmt::For(l) => {
            let carried = l.carried.iter().flat_map(|c| [c.initial, c.next]);
            carried.chain(read(&l.body)).collect()
        }
        TileStmt::If {
            then,
            otherwise,
            merges,
            ..
        } => {
            let merged = merges.iter().flat_map(|m| [m.then, m.otherwise]);
            merged.chain(read(then)).chain(read(otherwise)).collect()
        }
    };
    body.iter().flat_map(own).collect()
}

/// The statements of `before` that `after` needs, if they are cheap: loads, and element-wise work on them.
fn again<'a>(before: &'a [TileStmt], after: &[TileStmt]) -> Option<Vec<&'a TileStmt>> {
    let mut needed = read(after);
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

/// How coordinates change from row to row.
struct Rows<'a> {
    l: &'a TileLoop,
    /// The values of the loop's counter.
    range: RangeInclusive<i64>,
    /// What is named in an iteration, in terms of the counter and of what stays the same.
    lets: BTreeMap<&'a str, Expr>,
}

impl<'a> Rows<'a> {
    /// Those of a loop that begins with these statements; `None` if they are too many to look at.
    fn new(kernel: &TileKernel, l: &'a TileLoop, before: &'a [TileStmt]) -> Option<Self> {
        let (lo, hi) = kernel.facts.range(&Expr::symbol(l.symbol.clone()))?;
        let mut lets: BTreeMap<&str, Expr> = BTreeMap::new();
        for stmt in before {
            if let TileStmt::Let { symbol, value } = stmt {
                let value = value.substitute(&|s| lets.get(s).cloned());
                lets.insert(symbol, value);
            }
        }
        (hi - lo < MOST_ITERATIONS).then_some(Self {
            l,
            range: lo..=hi,
            lets,
        })
    }

    /// Whether `a` and `b` go to different places in iterations that are not far from each other, because coordinates
    /// differ that both have.
    fn differ(&self, a: &Access, b: &Access) -> bool {
        let dims = a.dims.iter().zip(&b.dims);
        let common = dims.filter_map(|(a, b)| match (&a.coordinate, &b.coordinate) {
            (Coordinate::At(a), Coordinate::At(b)) if a == b => {
                Some(a.substitute(&|s| self.lets.get(s).cloned()))
            }
            _ => None,
        });
        let common: Vec<Expr> = common.collect();
        let symbol = &self.l.symbol;
        (1..=APART).all(|apart| {
            let other = &Expr::symbol(symbol.clone()) + &Expr::constant(apart * self.l.step);
            // How far coordinates move, where that depends on the row alone.
            let moved = common
                .iter()
                .map(|e| e.substitute(&|s| (*s == **symbol).then(|| other.clone())) - e);
            let moved: Vec<Expr> = moved
                .filter(|m| m.symbols().iter().all(|s| s == symbol))
                .collect();
            let is_moved = |row: i64| {
                let mut by = moved.iter().filter_map(|m| m.eval_with(&|_| Some(row)).ok());
                by.any(|by| by != 0)
            };
            self.range.clone().all(is_moved)
        })
    }
}

impl Printer<'_> {
    /// What the cache of all cores is to do with a tile that is loaded now.
    pub(crate) fn keeping_of(&self, value: Val) -> &'static str {
        match self.pass {
            Some(Pass::Before) if self.twice.contains(&value) => ", eviction_policy=\"evict_last\"",
            Some(Pass::After) if self.twice.contains(&value) => ", eviction_policy=\"evict_first\"",
            _ => "",
        }
    }

    /// What it is to do with tiles that are stored now.
    pub(crate) fn keeping_of_stores(&self) -> &'static str {
        match self.pass {
            Some(Pass::After) => ", eviction_policy=\"evict_first\"",
            _ => "",
        }
    }

    /// A loop that does what precedes the barrier one iteration ahead.
    pub(super) fn overlapped(&mut self, l: &TileLoop, overlap: Overlap<'_>) -> Result<()> {
        let (lo, hi) = (self.index(&l.lo), self.index(&l.hi));
        let (end, second) = (
            self.index(&(&l.hi + &l.step.into())),
            self.index(&(&l.lo + &l.step.into())),
        );
        self.open(self.text.len());
        let ahead = self.names.fresh(&format!("{}_ahead", l.symbol));
        self.head(
            &ahead,
            &format!("range({}, {}, {})", lo.open(), end.open(), l.step),
        );
        let (counter, programs) = self.team();
        let outside = (self.symbols.clone(), self.constants.clone());

        let opened = self.text.len();
        self.line(format!("if {ahead} < {}:", hi.closed()));
        self.open(opened);
        self.symbols.insert(l.symbol.to_string(), ahead.clone());
        if let Some(scope) = self.scopes.last_mut() {
            scope.symbols.insert(l.symbol.to_string());
        }
        self.twice = overlap.loads;
        self.pass = Some(Pass::Before);
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
        self.pass = Some(Pass::After);
        for stmt in overlap.again {
            self.block(std::slice::from_ref(stmt))?;
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
