//! Element-wise work and reductions over one set of axes: element-wise chains, reductions, softmax, norms, scans.
//!
//! A program owns a tile of the kept axes and walks along the reduced ones, once for each level of dependent reductions:
//! variance-like reductions take two. Softmax takes maximum and sum in the first pass and stores in the second. Where the
//! reduced axis fits into one tile there is no loop and the data is read once. Where there are few programs with long walks, each
//! walk is split over many programs and every pass becomes a kernel. Where many rows are too long for the cache, programs
//! hold parts of them and meet.

mod accumulate;
mod fill;
mod held;
pub(super) mod online;
mod parts;
mod pick;
mod scan;
mod shape;

use std::collections::{BTreeSet, HashMap};

use self::held::Teams;
use self::parts::Parts;
use self::shape::{Lengths, Shape};
use super::{Emitter, Names, Var, Walk, Written, compute_type};
use crate::designer::device::Device;
use crate::designer::plan::{Axis, KernelPlan, Plan};
use crate::designer::prim::{Prim, PrimId, Prims};
use crate::error::Result;
use crate::expr::Expr;

/// Writes kernel number `number`, which may become several.
pub(in crate::designer) fn emit(
    device: Device<'_>,
    plan: &Plan,
    prims: &Prims,
    kernel: &KernelPlan,
    names: &mut Names,
    number: usize,
) -> Result<Vec<Written>> {
    let shape = Shape::choose(kernel);
    if let Some(teams) = Teams::choose(device, plan, prims, kernel, &shape) {
        return Ok(vec![teams.emit(plan, prims, kernel, names, number)?]);
    }
    let lengths = Lengths::of(device);
    let row = lengths.row(device, plan, prims, kernel);
    let blocks = shape.blocks(kernel, &lengths, row, device.programs());
    let parts = Parts::choose(device, prims, kernel, &shape.order, &blocks);
    let mut walks = HashMap::new();
    let mut grid = Vec::new();
    let mut loops = Vec::new();
    for axis in &shape.order {
        let extent = &kernel.extents[*axis];
        let reduced = kernel.reduced.contains(axis);
        let index = format!("{}{}", if reduced { "r" } else { "p" }, axis);
        // Where the axis is split, the loop counts from the start of the part.
        let part = parts.as_ref().and_then(|p| p.place(*axis, &index));
        let (place, end) = match part {
            Some((place, end)) => (place, Expr::constant(end)),
            None => (index.clone(), extent.clone()),
        };
        let is_shared = parts.as_ref().is_some_and(|p| p.single().any(|a| a == *axis));
        let Some((name, values)) = blocks.get(axis) else {
            walks.insert(*axis, Walk::Index(place));
            match (reduced, is_shared) {
                (false, _) => grid.push(format!("{index} in {extent}")),
                (true, false) => loops.push(Loop::new(*axis, format!("{index} in 0..{end}"))),
                (true, true) => {}
            }
            continue;
        };
        let whole = values.len() == 1 && extent.is(values[0]);
        let len = names.knob(name, number, values);
        let overhang = !values
            .iter()
            .all(|b| extent.as_const().is_some_and(|e| e % b == 0));
        let start = match (whole, reduced) {
            (true, _) => "0".to_owned(),
            (false, true) => {
                loops.push(Loop::new(*axis, format!("{index} in 0..{end} step {len}")));
                place
            }
            (false, false) => {
                grid.push(format!("{index} in ceildiv({extent}, {len})"));
                format!("{index}*{len}")
            }
        };
        walks.insert(*axis, Walk::Tile { start, len, overhang });
    }
    let descends = scan::descends(device, prims, kernel);
    scan::reverse(&mut walks, prims, kernel, descends);
    let mut emitter = Emitter::new(plan, prims, kernel, names);
    emitter.descends = descends;
    emitter.walks = walks;
    emitter.tile = shape
        .tile
        .into_iter()
        .filter(|a| blocks.contains_key(a))
        .collect();
    let mut passes = Passes {
        levels: HashMap::new(),
        scales: HashMap::new(),
        held: HashMap::new(),
        loops,
        spreads: device.shares_tiles(),
        busy: shape::is_busy(prims, kernel),
        shares_columns: device
            .keeps()
            .is_some_and(|kept| shape::column_bytes(plan, kernel) > kept),
        grid,
        number,
        emitter,
        written: Vec::new(),
    };
    passes.find_levels(passes.loops.is_empty());
    let buffers = match parts {
        Some(parts) => passes.write_parts(&parts)?,
        None => {
            passes.write()?;
            Vec::new()
        }
    };
    let written = passes.written;
    names.buffers.extend(buffers);
    Ok(written)
}

/// A loop over a reduced axis.
struct Loop {
    axis: Axis,
    /// Its index and range.
    head: String,
}

impl Loop {
    fn new(axis: Axis, head: String) -> Self {
        Self { axis, head }
    }
}

/// Levels of dependent reductions, and the loop over the reduced axes.
struct Passes<'a> {
    /// The number of passes that must be complete before a primitive is known.
    levels: HashMap<PrimId, usize>,
    /// Sums whose terms are scaled by a maximum that the same loop finds, with the maximum.
    scales: HashMap<PrimId, PrimId>,
    /// Terms of such sums that programs hold, by the primitive that they are.
    held: HashMap<PrimId, online::Held>,
    /// Loops over the reduced axes; empty if one tile holds them.
    loops: Vec<Loop>,
    /// Whether passes that only store have more programs than others.
    spreads: bool,
    /// Whether threads have more to compute than to wait for.
    busy: bool,
    /// Whether what all rows read is too much to stay in the cache until the next row.
    shares_columns: bool,
    /// Program indices over the kept axes.
    grid: Vec<String>,
    number: usize,
    emitter: Emitter<'a>,
    /// The complete kernels.
    written: Vec<Written>,
}

impl Passes<'_> {
    /// Whether a primitive varies along the reduced axes.
    fn inner(&self, id: PrimId) -> bool {
        let kernel = self.emitter.kernel;
        kernel
            .axes
            .get(&id)
            .is_some_and(|axes| axes.iter().any(|a| kernel.reduced.contains(a)))
    }

    fn is_reduction(&self, id: PrimId) -> bool {
        matches!(
            self.emitter.prims.node(id).prim,
            Prim::Reduce(..) | Prim::ArgReduce(..)
        )
    }

    fn operand_nodes(&self, id: PrimId) -> Vec<PrimId> {
        let count = self.emitter.prims.operands(id).len();
        (0..count)
            .filter_map(|i| self.emitter.kernel.node(id, i))
            .collect()
    }

    /// Finds the levels; `whole` says that one tile holds what is reduced.
    fn find_levels(&mut self, whole: bool) {
        for id in &self.emitter.kernel.nodes {
            let inputs = self.operand_nodes(*id);
            let level = inputs.iter().filter_map(|n| self.levels.get(n)).max();
            let mut level = level.copied().unwrap_or(0) + usize::from(self.is_reduction(*id));
            let scaled = online::scaled_sum(self.emitter.prims, self.emitter.kernel, *id);
            // Where windows are combined by one element of each after the other, there is no tile to find a maximum of.
            let is_tiled = self
                .emitter
                .tile
                .iter()
                .any(|a| self.emitter.kernel.reduced.contains(a));
            if let Some((max, _)) = scaled.filter(|_| !whole && is_tiled) {
                level = self.levels.get(&max).copied().unwrap_or(level);
                self.scales.insert(*id, max);
            }
            self.levels.insert(*id, level);
        }
    }

    fn last_level(&self) -> usize {
        self.levels.values().max().copied().unwrap_or(0)
    }

    /// Ends a kernel.
    fn finish(&mut self, name: String, grid: &[String]) {
        let one = ["p0 in 1".to_owned()];
        let grid = if grid.is_empty() { &one[..] } else { grid };
        let text = self
            .emitter
            .finish(&format!("kernel {name} over ({})", grid.join(", ")));
        self.written.push(Written { name, text });
    }

    /// Writes one kernel for all passes.
    fn write(&mut self) -> Result<()> {
        let nodes = self.emitter.kernel.nodes.clone();
        if self.loops.is_empty() {
            let combines = |id: &PrimId| self.is_reduction(*id) || self.scan_of(*id).is_some();
            let combined: Vec<PrimId> = nodes.iter().copied().filter(combines).collect();
            self.choose_fill(&combined)?;
            for id in &nodes {
                if self.is_reduction(*id) {
                    self.reduce_whole(*id)?;
                } else if let Some(scan) = self.scan_of(*id) {
                    self.scan_whole(*id, scan)?;
                } else if !self.inner(*id) {
                    // Others are computed for what reads them: elements that are picked leave some unread.
                    self.emitter.value(*id)?;
                }
            }
            self.emitter.store_all(|_, _| true)?;
        } else {
            for pass in 0..=self.last_level() {
                let work = self.work(pass);
                if work.is_empty() {
                    continue;
                }
                self.outer(&nodes, pass)?;
                for (id, accumulator) in self.pass(&work)? {
                    self.conclude(id, accumulator)?;
                }
            }
            self.outer(&nodes, self.last_level())?;
            let outer: Vec<PrimId> = nodes.iter().copied().filter(|id| !self.inner(*id)).collect();
            self.emitter.store_all(|_, id| outer.contains(&id))?;
        }
        let grid = self.grid.clone();
        self.finish(format!("k{}", self.number), &grid);
        Ok(())
    }

    /// Computes those of `nodes` that do not vary along the reduced axes and are known after `level` passes.
    fn outer(&mut self, nodes: &[PrimId], level: usize) -> Result<()> {
        for id in nodes {
            let known = self.levels.get(id).is_some_and(|l| *l <= level);
            if known && !self.inner(*id) && !self.is_reduction(*id) {
                self.emitter.value(*id)?;
            }
        }
        Ok(())
    }

    /// What the loop after `pass` complete passes has to do.
    fn work(&self, pass: usize) -> Work {
        let at = |id: &PrimId, level: usize| self.levels.get(id) == Some(&level);
        let kernel = self.emitter.kernel;
        let nodes = kernel.nodes.iter().copied();
        let reductions = nodes.filter(|id| self.is_reduction(*id) && at(id, pass + 1));
        let stored = kernel.stores.iter().map(|(id, _)| *id);
        Work {
            reductions: reductions.collect(),
            stores: stored.filter(|id| self.inner(*id) && at(id, pass)).collect(),
        }
    }

    /// What must be known for `results` that is not the result of a reduction, and the reductions that are read; in
    /// order.
    fn needed(&self, results: impl IntoIterator<Item = PrimId>) -> (Vec<PrimId>, Vec<PrimId>) {
        let mut needed: BTreeSet<PrimId> = BTreeSet::new();
        let mut reductions: BTreeSet<PrimId> = BTreeSet::new();
        let mut stack: Vec<PrimId> = results.into_iter().collect();
        while let Some(id) = stack.pop() {
            if needed.insert(id) {
                let operands = self.operand_nodes(id).into_iter();
                let (reduced, others): (Vec<_>, Vec<_>) = operands.partition(|n| self.is_reduction(*n));
                reductions.extend(reduced);
                stack.extend(others);
            }
        }
        (needed.into_iter().collect(), reductions.into_iter().collect())
    }

    /// Writes the loop of one pass. Returns its reductions with their accumulators.
    fn pass(&mut self, work: &Work) -> Result<Vec<(PrimId, accumulate::Accumulator)>> {
        let accumulators = self.start_all(&work.reductions)?;
        let scans = self.scans_for(work.reductions.iter().chain(&work.stores));
        let mut running = Vec::new();
        for (id, _) in &scans {
            running.push(self.start(*id, false)?);
        }
        let combined: Vec<PrimId> = work
            .reductions
            .iter()
            .copied()
            .chain(scans.iter().map(|s| s.0))
            .collect();
        let masked = self.choose_fill(&combined)?;
        let is_looped = !self.loops.is_empty();
        if is_looped {
            let heads: Vec<&str> = self.loops.iter().map(|l| l.head.as_str()).collect();
            self.emitter.open(format!("for {} {{", heads.join(", ")));
        }
        for ((id, scan), before) in scans.into_iter().zip(&running) {
            self.scan_tile(id, scan, before, masked)?;
        }
        self.accumulate_all(&accumulators, masked)?;
        self.emitter.store_all(|_, id| work.stores.contains(&id))?;
        if is_looped {
            self.emitter.close();
        }
        let joined = accumulators.into_iter().map(|(id, a)| (id, self.join_lanes(a)));
        Ok(joined.collect())
    }

    /// The operand of a reduction and the position of the tile axis to combine along.
    fn argument(&mut self, id: PrimId) -> Result<(Var, usize)> {
        let operand = self.emitter.prims.operands(id)[0];
        let dtype = compute_type(self.emitter.prims.dtype(operand));
        let mut var = self.emitter.operand(id, 0, dtype)?;
        let e = &self.emitter;
        let mut missing = e
            .tile
            .iter()
            .filter(|a| e.kernel.reduced.contains(a) && !var.axes.contains(a));
        if missing.next().is_some() {
            // The same element again and again.
            let along = |a: &Axis| e.kernel.reduced.contains(a) || var.axes.contains(a);
            let axes: Vec<Axis> = e.tile.iter().copied().filter(along).collect();
            let text = e.repeated(&var, &axes, dtype)?;
            var = self.bind("t", text, axes);
        }
        let position = var
            .axes
            .iter()
            .position(|a| self.emitter.kernel.reduced.contains(a))
            .unwrap_or(0);
        Ok((var, position))
    }
}

/// The results of one loop.
struct Work {
    reductions: Vec<PrimId>,
    stores: Vec<PrimId>,
}

impl Work {
    fn is_empty(&self) -> bool {
        self.reductions.is_empty() && self.stores.is_empty()
    }
}
