//! How many bytes of tiles a program holds at once, and where.

use std::collections::BTreeSet;

use crate::lower::analysis::{Interval, liveness};
use crate::sketch::ir::{Kernel, Op, Stmt, Val};

/// The largest number of bytes of tiles that are alive at the same time, if an operator may overwrite a dying operand
/// where its result fits. Tiles loaded in a pipelined loop count once for each stage; the values of `combine` are not
/// counted.
pub(crate) fn peak_tile_bytes(kernel: &Kernel) -> u64 {
    let intervals = liveness(kernel).intervals;
    let mut stages = vec![1; kernel.values.len()];
    let mut definitions = Vec::new();
    collect(&kernel.body, 1, &mut stages, &mut definitions);
    let bytes = |value: usize| {
        let (info, stages) = (kernel.values.get(value), stages.get(value));
        info.zip(stages).map_or(0, |(info, stages)| {
            info.ty.dtype.size() as u64 * info.ty.extents.iter().product::<usize>() as u64 * stages
        })
    };
    let alive = |value: usize| intervals.get(value).copied().flatten();
    let held = |(value, op): &(Val, &Op)| {
        let Some(Interval { from: now, .. }) = alive(value.0 as usize) else {
            return 0;
        };
        let result = bytes(value.0 as usize);
        let around: u64 = (0..kernel.values.len())
            .filter(|other| alive(*other).is_some_and(|life| life.from < now && now <= life.to))
            .map(bytes)
            .sum();
        let replaced = replaceable(op)
            .into_iter()
            .map(|operand| operand.0 as usize)
            .any(|operand| alive(operand).is_some_and(|life| life.to == now) && bytes(operand) >= result);
        around + if replaced { 0 } else { result }
    };
    definitions.iter().map(held).max().unwrap_or(0)
}

/// Bytes of tiles that a program holds while it multiplies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Held {
    /// Tiles as loaded, one stage of each.
    pub(super) loaded: u64,
    /// Right operands as loaded before loops, which stay.
    pub(super) kept: u64,
    /// Computed tiles that are right operands, which are read from the same memory as what is loaded.
    pub(super) written: u64,
    /// Tiles on their way out while a pipelined loop goes on.
    pub(super) leaving: u64,
    /// Other computed tiles.
    pub(super) computed: u64,
}

/// The most bytes of each kind that are alive at a dot; `None` if there is no dot.
pub(super) fn held_at_dots(kernel: &Kernel) -> Option<Held> {
    let intervals = liveness(kernel).intervals;
    let mut stages = vec![1; kernel.values.len()];
    let mut definitions = Vec::new();
    collect(&kernel.body, 1, &mut stages, &mut definitions);
    // What each tile is that was loaded, reordered or not.
    let mut origins: Vec<Option<usize>> = vec![None; kernel.values.len()];
    for (value, op) in &definitions {
        let origin = match op {
            Op::Load { .. } => Some(value.0 as usize),
            Op::Transpose(of, _) | Op::Reshape(of) => origins.get(of.0 as usize).copied().flatten(),
            _ => None,
        };
        if let Some(slot) = origins.get_mut(value.0 as usize) {
            *slot = origin;
        }
    }
    let right = |(_, op): &(Val, &Op)| match op {
        Op::Dot { b, .. } => Some(b.0 as usize),
        _ => None,
    };
    let rights: BTreeSet<usize> = definitions.iter().filter_map(right).collect();
    let bytes = |value: usize| {
        let elements = |extents: &[usize]| extents.iter().product::<usize>();
        let info = kernel.values.get(value);
        info.map_or(0, |i| (i.ty.dtype.size() * elements(&i.ty.extents)) as u64)
    };
    // What is copied ahead keeps its place.
    let ahead = stages.iter().enumerate().filter(|(_, stages)| **stages > 1);
    let ahead: BTreeSet<usize> = ahead.map(|(value, _)| value).collect();
    let (mut before, mut leaving) = (BTreeSet::new(), BTreeSet::new());
    around_loops(&kernel.body, false, &mut before, &mut leaving);
    let of_rights = rights.iter().filter_map(|b| origins.get(*b).copied().flatten());
    let stay: BTreeSet<usize> = of_rights.filter(|tile| before.contains(tile)).collect();
    let at = |(dot, op): &(Val, &Op)| {
        let now = intervals.get(dot.0 as usize).copied().flatten()?.from;
        let replaced = replaceable(op);
        let mut held = Held::default();
        let mut loaded = ahead.clone();
        for (value, (life, origin)) in intervals.iter().zip(&origins).enumerate() {
            let is_alive = life.is_some_and(|life| life.from <= now && now <= life.to);
            let is_replaced =
                life.is_some_and(|life| life.to == now) && replaced.iter().any(|r| r.0 as usize == value);
            match origin {
                _ if !is_alive || is_replaced => {}
                Some(origin) => {
                    loaded.insert(*origin);
                }
                None if rights.contains(&value) => held.written += bytes(value),
                None => held.computed += bytes(value),
            }
        }
        let (kept, loaded): (Vec<_>, Vec<_>) = loaded.into_iter().partition(|tile| stay.contains(tile));
        held.loaded = loaded.into_iter().map(bytes).sum();
        held.kept = kept.into_iter().map(bytes).sum();
        held.leaving = leaving.iter().copied().map(bytes).sum();
        Some(held)
    };
    let dots = definitions.iter().filter(|(_, op)| matches!(op, Op::Dot { .. }));
    dots.filter_map(at).reduce(|a, b| Held {
        loaded: a.loaded.max(b.loaded),
        kept: a.kept.max(b.kept),
        leaving: a.leaving.max(b.leaving),
        written: a.written.max(b.written),
        computed: a.computed.max(b.computed),
    })
}

/// Every definition outside `combine`, and how many stages of its tile a pipelined loop holds.
fn collect<'k>(body: &'k [Stmt], depth: u64, stages: &mut [u64], definitions: &mut Vec<(Val, &'k Op)>) {
    for stmt in body {
        match stmt {
            Stmt::Define { value, op, .. } => {
                if let (Op::Load { .. }, Some(stages)) = (op, stages.get_mut(value.0 as usize)) {
                    *stages = depth;
                }
                definitions.push((*value, op));
            }
            Stmt::For(l) => {
                let depth = l.pipeline.map_or(depth, |stages| stages.max(1) as u64);
                collect(&l.body, depth, stages, definitions);
            }
            Stmt::If(b) => {
                collect(&b.then, depth, stages, definitions);
                collect(&b.otherwise, depth, stages, definitions);
            }
            Stmt::Store { .. } | Stmt::Barrier => {}
        }
    }
}

/// What is defined outside of loops, and what is stored in pipelined ones.
fn around_loops(
    body: &[Stmt],
    is_pipelined: bool,
    before: &mut BTreeSet<usize>,
    leaving: &mut BTreeSet<usize>,
) {
    for stmt in body {
        match stmt {
            Stmt::Define { value, .. } => {
                before.insert(value.0 as usize);
            }
            Stmt::Store { value, .. } if is_pipelined => {
                leaving.insert(value.0 as usize);
            }
            Stmt::For(l) => around_loops(&l.body, l.pipeline.is_some(), &mut BTreeSet::new(), leaving),
            Stmt::If(b) => {
                around_loops(&b.then, is_pipelined, before, leaving);
                around_loops(&b.otherwise, is_pipelined, before, leaving);
            }
            Stmt::Store { .. } | Stmt::Barrier => {}
        }
    }
}

/// The operands whose memory the result may take element by element.
fn replaceable(op: &Op) -> Vec<Val> {
    match op {
        Op::Dot { init, .. } => init.iter().copied().collect(),
        Op::Load { .. } | Op::Reduce(..) | Op::ArgReduce(..) => Vec::new(),
        _ => op.operands(),
    }
}
