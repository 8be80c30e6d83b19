//! Which tiles are written where they are used, and which share a variable.
//!
//! A sketch's tiles are values; a Python loop carries variables. Values take the same variable where a kernel engineer
//! would give them one: the accumulator before, in and after a loop. They may if no two of them are alive together,
//! which is decided on intervals over the numbered statements, as in linear scan register allocation.

use std::collections::{BTreeMap, BTreeSet};

use akg_core::lower::tiles::{Access, Coordinate, TileKernel, TileOp, TileStmt};
use akg_core::sketch::ir::{Op, ReduceOp, Val};

/// Operators at most that are written as one expression.
const MOST_INLINED: usize = 6;

/// The decisions about one kernel.
#[derive(Debug, Default)]
pub(crate) struct Flow<'a> {
    /// How each tile is computed, where an operator does.
    pub(crate) ops: BTreeMap<Val, &'a TileOp>,
    /// Tiles that are written where they are used.
    pub(crate) inlined: BTreeSet<Val>,
    /// Tiles of which nothing is read but sums along one axis, and that axis.
    pub(crate) summed: BTreeMap<Val, usize>,
    /// What an iteration begins with, by the tile that the one before leaves to it.
    pub(crate) carried: BTreeMap<Val, Val>,
    /// The tile whose variable a tile shares; itself if it is the first.
    shared: BTreeMap<Val, Val>,
}

impl Flow<'_> {
    /// The tile whose variable `value` shares.
    pub(crate) fn variable(&self, value: Val) -> Val {
        self.shared.get(&value).copied().unwrap_or(value)
    }
}

/// Decides for `kernel`.
pub(crate) fn flow(kernel: &TileKernel) -> Flow<'_> {
    let mut scan = Scan {
        kernel,
        flow: Flow::default(),
        position: 0,
        loops: Vec::new(),
        blocks: 0,
        defined: BTreeMap::new(),
        uses: BTreeMap::new(),
        joins: Vec::new(),
    };
    scan.block(&kernel.body);
    scan.find_summed();
    scan.inline();
    scan.share();
    scan.flow
}

/// Where a tile is defined.
#[derive(Debug, Clone)]
struct Definition {
    position: usize,
    block: usize,
    /// The loops around it, outermost first, by the positions of their heads.
    loops: Vec<usize>,
}

/// A place where a tile is read.
#[derive(Debug, Clone)]
struct Use {
    position: usize,
    block: usize,
    /// The loops around it with their heads and, once it is known, ends.
    loops: Vec<usize>,
    by: Reader,
}

/// What reads a tile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reader {
    /// The operator that computes a tile.
    Op(Val),
    Store,
    /// The end of a block or the start of a loop.
    Edge,
}

struct Scan<'a> {
    kernel: &'a TileKernel,
    flow: Flow<'a>,
    position: usize,
    /// Heads of the loops around the current statement.
    loops: Vec<usize>,
    /// Blocks so far; the last is not always the current one.
    blocks: usize,
    defined: BTreeMap<Val, Definition>,
    uses: BTreeMap<Val, Vec<Use>>,
    /// Pairs that should share a variable, and the ends of loops by their heads.
    joins: Vec<Join>,
}

enum Join {
    Pair(Val, Val),
    LoopEnd { head: usize, end: usize },
}

impl<'a> Scan<'a> {
    fn define(&mut self, value: Val, block: usize) {
        let definition = Definition {
            position: self.position,
            block,
            loops: self.loops.clone(),
        };
        self.defined.insert(value, definition);
    }

    fn read(&mut self, value: Val, block: usize, by: Reader) {
        let at = Use {
            position: self.position,
            block,
            loops: self.loops.clone(),
            by,
        };
        self.uses.entry(value).or_default().push(at);
    }

    fn block(&mut self, body: &'a [TileStmt]) {
        self.blocks += 1;
        let block = self.blocks;
        for stmt in body {
            self.position += 1;
            match stmt {
                TileStmt::Let { .. } | TileStmt::Barrier => {}
                TileStmt::Define { value, op } => {
                    for operand in operands(op) {
                        self.read(operand, block, Reader::Op(*value));
                    }
                    self.define(*value, block);
                    self.flow.ops.insert(*value, op);
                }
                TileStmt::Store { access, value, .. } => {
                    for operand in indices(access).chain([*value]) {
                        self.read(operand, block, Reader::Store);
                    }
                }
                TileStmt::For(l) => {
                    let head = self.position;
                    for carried in &l.carried {
                        self.read(carried.initial, block, Reader::Edge);
                    }
                    self.loops.push(head);
                    for carried in &l.carried {
                        // In no block of statements: nothing is inlined across the head.
                        self.define(carried.inner, 0);
                    }
                    self.block(&l.body);
                    self.position += 1;
                    for carried in &l.carried {
                        self.read(carried.next, 0, Reader::Edge);
                        self.flow.carried.insert(carried.next, carried.inner);
                    }
                    self.loops.pop();
                    let end = self.position;
                    self.joins.push(Join::LoopEnd { head, end });
                    for carried in &l.carried {
                        self.define(carried.result, block);
                        self.joins.push(Join::Pair(carried.inner, carried.result));
                        self.joins.push(Join::Pair(carried.inner, carried.next));
                        self.joins.push(Join::Pair(carried.inner, carried.initial));
                    }
                }
                TileStmt::If {
                    then,
                    otherwise,
                    merges,
                    ..
                } => {
                    // What an empty branch leaves as it is can be overwritten in the other.
                    let unchanged = otherwise.is_empty();
                    if unchanged {
                        for merge in merges {
                            self.read(merge.otherwise, 0, Reader::Edge);
                        }
                    }
                    self.block(then);
                    self.position += 1;
                    for merge in merges {
                        self.read(merge.then, 0, Reader::Edge);
                    }
                    self.block(otherwise);
                    self.position += 1;
                    for merge in merges.iter().filter(|_| !unchanged) {
                        self.read(merge.otherwise, 0, Reader::Edge);
                    }
                    for merge in merges {
                        self.define(merge.result, block);
                        self.joins.push(Join::Pair(merge.result, merge.then));
                        self.joins.push(Join::Pair(merge.result, merge.otherwise));
                    }
                }
            }
        }
    }

    /// Finds what sums alone read.
    fn find_summed(&mut self) {
        let axis = |at: &Use| match at.by {
            Reader::Op(by) => match self.flow.ops.get(&by)? {
                TileOp::Plain(Op::Reduce(ReduceOp::Sum, _, axis)) => Some(*axis),
                _ => None,
            },
            Reader::Store | Reader::Edge => None,
        };
        let of_all = |uses: &[Use]| {
            let first = axis(uses.first()?)?;
            uses.iter().all(|at| axis(at) == Some(first)).then_some(first)
        };
        let summed = self
            .uses
            .iter()
            .filter_map(|(value, uses)| Some((*value, of_all(uses)?)));
        self.flow.summed = summed.collect();
    }

    /// Inlines what has no name in the sketch, is computed from registers alone and is used once in its block. What an
    /// inlined tile reads is then read where that tile is used.
    fn inline(&mut self) {
        let mut weight: BTreeMap<Val, usize> = BTreeMap::new();
        let mut order: Vec<(usize, Val)> = self.defined.iter().map(|(v, d)| (d.position, *v)).collect();
        order.sort_unstable();
        for (_, value) in &order {
            let Some(op) = self.flow.ops.get(value) else {
                continue;
            };
            if is_constant(self.kernel, *value, op) {
                self.flow.inlined.insert(*value);
                continue;
            }
            let inlined: usize = operands(op).iter().filter_map(|o| weight.get(o)).sum();
            let once = match self.uses.get(value).map(Vec::as_slice) {
                Some([only]) => {
                    only.by != Reader::Edge && self.defined.get(value).is_some_and(|d| d.block == only.block)
                }
                _ => false,
            };
            let unnamed = self.kernel.value(*value).name.is_empty();
            if once && unnamed && is_expression(op) && inlined < MOST_INLINED {
                weight.insert(*value, inlined + 1);
                self.flow.inlined.insert(*value);
            }
        }
        // Last definitions first: a tile's uses have moved before its operands' do.
        for (_, value) in order.iter().rev().filter(|(_, v)| self.flow.inlined.contains(v)) {
            let places = self.uses.get(value).cloned().unwrap_or_default();
            let Some(op) = self.flow.ops.get(value) else {
                continue;
            };
            for operand in operands(op) {
                let uses = self.uses.entry(operand).or_default();
                uses.retain(|u| u.by != Reader::Op(*value));
                uses.extend(places.iter().cloned());
            }
        }
    }

    fn share(&mut self) {
        let ends: BTreeMap<usize, usize> = self
            .joins
            .iter()
            .filter_map(|join| match join {
                Join::LoopEnd { head, end } => Some((*head, *end)),
                Join::Pair(..) => None,
            })
            .collect();
        let mut classes: BTreeMap<Val, Vec<Val>> = BTreeMap::new();
        for join in std::mem::take(&mut self.joins) {
            let Join::Pair(a, b) = join else { continue };
            let (a, b) = (self.flow.variable(a), self.flow.variable(b));
            if a == b {
                continue;
            }
            let members = |v: Val| classes.get(&v).cloned().unwrap_or_else(|| vec![v]);
            let (mut ours, theirs) = (members(a), members(b));
            let apart = |x: &Val, y: &Val| match (self.alive(*x, &ends), self.alive(*y, &ends)) {
                (Some(x), Some(y)) => x.1 <= y.0 || y.1 <= x.0,
                _ => false,
            };
            if ours.iter().all(|x| theirs.iter().all(|y| apart(x, y))) {
                self.flow.shared.extend(theirs.iter().map(|v| (*v, a)));
                ours.extend(theirs);
                classes.remove(&b);
                classes.insert(a, ours);
            }
        }
    }

    /// The positions between which `value` must be kept; `None` for what has no variable.
    fn alive(&self, value: Val, ends: &BTreeMap<usize, usize>) -> Option<(usize, usize)> {
        let definition = self.defined.get(&value)?;
        if self.flow.inlined.contains(&value) {
            return None;
        }
        let uses = self.uses.get(&value).into_iter().flatten();
        let last = uses.map(|u| {
            // A loop that does not define it reads it again.
            let around = u.loops.iter().find(|head| !definition.loops.contains(head));
            around
                .and_then(|head| ends.get(head))
                .copied()
                .unwrap_or(u.position)
        });
        Some((definition.position, last.max().unwrap_or(definition.position)))
    }
}

/// Whether a tile is the same everywhere: cheaper to write than to name.
fn is_constant(kernel: &TileKernel, value: Val, op: &TileOp) -> bool {
    matches!(op, TileOp::Plain(Op::Full(_))) && kernel.value(value).extents.is_empty()
}

/// Whether an operator is an expression of its operands alone.
fn is_expression(op: &TileOp) -> bool {
    matches!(
        op,
        TileOp::Plain(
            Op::Index(_)
                | Op::Iota
                | Op::Unary(..)
                | Op::Binary(..)
                | Op::Compare(..)
                | Op::Select(..)
                | Op::Cast(_)
                | Op::Bits(_)
                | Op::Transpose(..)
                | Op::Reshape(_)
                | Op::Reduce(..)
        )
    )
}

/// The tiles that an operator reads.
pub(crate) fn operands(op: &TileOp) -> Vec<Val> {
    match op {
        TileOp::Load { access, .. } => indices(access).collect(),
        TileOp::Mask { value, .. } | TileOp::Regroup(value) => vec![*value],
        TileOp::Dot { a, b, init, .. } => [*a, *b].into_iter().chain(*init).collect(),
        TileOp::Plain(op) => op.operands(),
    }
}

/// The tiles that choose coordinates.
fn indices(access: &Access) -> impl Iterator<Item = Val> {
    access.dims.iter().filter_map(|dim| match dim.coordinate {
        Coordinate::AtTile(value) | Coordinate::Index { value, .. } => Some(value),
        Coordinate::At(_) | Coordinate::Lanes { .. } => None,
    })
}
