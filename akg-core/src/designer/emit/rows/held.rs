//! Long rows that are read once: each program of a team holds a part of the row in registers, leaves what the part reduces
//! to in a buffer, meets the others, combines what all left, and stores its part. The teams share the rows; each may ask for
//! its next row before it meets, so that memory does not rest.

use std::collections::{BTreeSet, HashMap};

use super::parts::Slots;
use super::shape::{Shape, column_bytes};
use super::{Passes, Written};
use crate::designer::device::{Device, Held};
use crate::designer::emit::{Emitter, Names, Walk};
use crate::designer::plan::{Axis, KernelPlan, Operand, Plan};
use crate::designer::prim::{Prim, PrimId, Prims};
use crate::error::Result;

/// Elements that a program holds, the default first: of rows that start where wide accesses can, and of others.
const ALIGNED: [i64; 2] = [8192, 16384];
const UNALIGNED: [i64; 2] = [4096, 8192];

/// Bytes of a wide access.
const WIDE: i64 = 16;

/// Teams at least: while some wait, others move data. One is enough if it asks for its next row ahead.
const TEAMS: i64 = 2;

/// Rows that a team has under way, the default first: of rows that start where wide accesses can, and of others.
const STAGES: [i64; 2] = [2, 1];
const UNALIGNED_STAGES: [i64; 2] = [1, 2];

/// Rows for each team at least.
const ROWS: i64 = 4;

/// How teams share the rows of a kernel.
pub(super) struct Teams {
    /// The axes of a row in order.
    reduced: Vec<Axis>,
    /// The last of them, of which a program holds a tile.
    inner: Axis,
    /// The legal lengths of the tile, the default first.
    lengths: Vec<i64>,
    /// The other axes in order.
    kept: Vec<Axis>,
    /// That of them whose coordinates the teams share.
    shared: Axis,
    held: Held,
    /// The choices of rows under way, if the cache holds a row beside what all rows read.
    stages: Option<[i64; 2]>,
}

impl Teams {
    /// Teams for a kernel that reads long rows and stores as long ones that depend on the whole; `None` if they would not
    /// pay.
    pub(super) fn choose(
        device: Device<'_>,
        plan: &Plan,
        prims: &Prims,
        kernel: &KernelPlan,
        shape: &Shape,
    ) -> Option<Self> {
        let held = device.held()?;
        let extent = |a: Axis| kernel.extents.get(a)?.as_const();
        let (reduced, kept): (Vec<Axis>, Vec<Axis>) = shape
            .order
            .iter()
            .copied()
            .partition(|a| kernel.reduced.contains(a));
        let inner = *reduced.last().filter(|a| shape.order.last() == Some(*a))?;
        let shared = kept.iter().copied().max_by_key(|a| extent(*a))?;
        let in_order = |id: &PrimId| matches!(prims.node(*id).prim, Prim::Scan(..) | Prim::ArgReduce(..));
        let is_row = |axes: &[Axis]| reduced.iter().all(|a| axes.contains(a)) && axes.last() == Some(&inner);
        let is_fact = |axes: &[Axis]| !reduced.iter().any(|a| axes.contains(a));
        if !kernel.windows.is_empty()
            || kernel.nodes.iter().any(in_order)
            || !kernel
                .stores
                .iter()
                .all(|(_, access)| is_row(&access.axes) || is_fact(&access.axes))
            || !kernel.stores.iter().any(|(_, access)| is_row(&access.axes))
        {
            return None;
        }
        // What differs by row and place: only one such tensor fits.
        let mut rows = BTreeSet::new();
        for operand in kernel.operands.values() {
            if let Operand::Load(access) = operand
                && access.axes.contains(&inner)
                && access.axes.iter().any(|a| kept.contains(a))
            {
                if !is_row(&access.axes) {
                    return None;
                }
                rows.insert(&access.tensor);
            }
        }
        let (dtype, _) = plan.tensors.get(*rows.first().filter(|_| rows.len() == 1)?)?;
        let length = extent(inner)?;
        let mut others = 1i64;
        for axis in reduced.iter().filter(|a| **a != inner) {
            others = others.checked_mul(extent(*axis)?)?;
        }
        let size = dtype.size() as i64;
        let bytes = others.checked_mul(length)?.checked_mul(size)?;
        let is_aligned = length * size % WIDE == 0;
        // A row that the cache holds is read from there the second time; that is slow only where accesses are narrow.
        let cached = device.second_read()? / if is_aligned { 1 } else { 2 };
        if bytes <= cached {
            return None;
        }
        // What all rows read must stay in the cache beside two rows.
        let looks_ahead = device
            .keeps()
            .is_some_and(|kept| column_bytes(plan, kernel) <= kept);
        let least = if looks_ahead && is_aligned { 1 } else { TEAMS };
        let stages = if is_aligned { STAGES } else { UNALIGNED_STAGES };
        let count = extent(shared)?;
        let fits = |tile: &i64| {
            let tiles = (length + tile - 1) / tile;
            let teams = held.programs(*tile) / (others * tiles);
            let rounds = (count + teams - 1) / teams.max(1);
            // Nearly all lanes and teams have something to do.
            let is_busy = tiles * tile <= length + length / 8 && rounds * teams <= count + count / 8;
            *tile <= length && teams >= least && count >= ROWS * teams && is_busy
        };
        let lengths = if is_aligned { ALIGNED } else { UNALIGNED };
        let lengths: Vec<i64> = lengths.into_iter().filter(fits).collect();
        (!lengths.is_empty()).then_some(Self {
            reduced,
            inner,
            lengths,
            kept,
            shared,
            held,
            stages: looks_ahead.then_some(stages),
        })
    }

    /// Writes kernel number `number`.
    pub(super) fn emit(
        &self,
        plan: &Plan,
        prims: &Prims,
        kernel: &KernelPlan,
        names: &mut Names,
        number: usize,
    ) -> Result<Written> {
        let len = names.knob("BL", number, &self.lengths);
        let stages = self.stages.map(|stages| names.hint("STAGES", number, &stages));
        let mut walks = HashMap::new();
        let (mut grid, mut meets, mut loops) = (Vec::new(), Vec::new(), Vec::new());
        let mut slot: Option<String> = None;
        let mut count = Vec::new();
        for axis in &self.reduced {
            let index = format!("r{axis}");
            let extent = &kernel.extents[*axis];
            let (programs, walk) = if *axis == self.inner {
                let walk = Walk::Tile {
                    start: format!("{index}*{len}"),
                    len: len.clone(),
                    overhang: !self
                        .lengths
                        .iter()
                        .all(|b| extent.as_const().is_some_and(|e| e % b == 0)),
                };
                (format!("ceildiv({extent}, {len})"), walk)
            } else {
                (extent.to_string(), Walk::Index(index.clone()))
            };
            slot = Some(slot.map_or(index.clone(), |outer| format!("({outer})*{programs} + {index}")));
            grid.push(format!("{index} in {programs}"));
            meets.push(index);
            count.push(programs);
            walks.insert(*axis, walk);
        }
        let parts = names.define("PARTS", number, &count.join("*"));
        let teams = names.define("TEAMS", number, &format!("{} // {parts}", self.held.text(&len)));
        grid.insert(0, format!("team0 in {teams}"));
        for axis in &self.kept {
            let index = format!("p{axis}");
            let extent = &kernel.extents[*axis];
            loops.push(if *axis == self.shared {
                format!("{index} in team0..{extent} step {teams}")
            } else {
                format!("{index} in 0..{extent}")
            });
            walks.insert(*axis, Walk::Index(index));
        }
        let mut emitter = Emitter::new(plan, prims, kernel, names);
        emitter.walks = walks;
        emitter.tile = vec![self.inner];
        let mut passes = Passes {
            levels: HashMap::new(),
            scales: HashMap::new(),
            held: HashMap::new(),
            loops: Vec::new(),
            spreads: true,
            busy: false,
            shares_columns: false,
            grid,
            number,
            emitter,
            written: Vec::new(),
        };
        passes.find_levels(false);
        let slots = Slots {
            own: slot.unwrap_or_default(),
            count: parts,
        };
        let stages = stages.map_or(String::new(), |stages| format!(" pipeline({stages})"));
        let head = format!("for {}{stages} {{", loops.join(", "));
        let (text, buffers) = passes.write_held(&head, &slots, &meets)?;
        names.buffers.extend(buffers);
        Ok(Written {
            name: format!("k{number}"),
            text,
        })
    }
}

impl Passes<'_> {
    /// Writes one kernel, whose programs go over the rows of their team. Returns its text and the lines that declare the
    /// buffers.
    fn write_held(mut self, head: &str, slots: &Slots, meets: &[String]) -> Result<(String, Vec<String>)> {
        let nodes = self.emitter.kernel.nodes.clone();
        let reductions: Vec<PrimId> = nodes
            .iter()
            .copied()
            .filter(|id| self.is_reduction(*id))
            .collect();
        let mut declarations = Vec::new();
        self.emitter.open(head);
        let masked = self.choose_fill(&reductions)?;
        for pass in 0..=self.last_level() {
            let work = self.work(pass);
            self.outer(&nodes, pass)?;
            let accumulators = self.start_all(&work.reductions)?;
            self.accumulate_all(&accumulators, masked)?;
            let mut partials = HashMap::new();
            for (id, accumulator) in accumulators {
                let partial = self.keep(accumulator, declarations.len(), slots, &mut declarations)?;
                partials.insert(id, partial);
            }
            if !partials.is_empty() {
                self.emitter.line("barrier");
            }
            for id in &work.reductions {
                self.recombine(*id, &partials, slots)?;
            }
            self.rescale_held(&work.stores)?;
            self.emitter.store_all(|_, id| work.stores.contains(&id))?;
        }
        self.outer(&nodes, self.last_level())?;
        let facts: Vec<PrimId> = nodes.iter().copied().filter(|id| !self.inner(*id)).collect();
        if self
            .emitter
            .kernel
            .stores
            .iter()
            .any(|(id, _)| facts.contains(id))
        {
            // Every program of a team finds the same; the first stores it.
            self.emitter.open(format!("if {} == 0 {{", slots.own));
            self.emitter.store_all(|_, id| facts.contains(&id))?;
            self.emitter.close();
        }
        self.emitter.close();
        let head = format!(
            "kernel k{} over ({}) cooperative along {}",
            self.number,
            self.grid.join(", "),
            meets.join(", ")
        );
        Ok((self.emitter.finish(&head), declarations))
    }
}
