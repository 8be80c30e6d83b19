//! Long walks of few programs, split over many: each pass is a kernel whose programs take a part each and leave their
//! accumulators in a buffer, and whoever needs the results combines those.

use std::collections::HashMap;

use super::super::{Var, Walk, compute_type};
use super::accumulate::{Accumulator, Kind};
use super::{Passes, Work};
use crate::designer::device::Device;
use crate::designer::plan::{Axis, KernelPlan};
use crate::designer::prim::{Prim, PrimId, Prims};
use crate::error::{Error, Result};
use crate::expr::Expr;

/// Elements per program below which a split does not pay for the kernel that combines.
const WORTHWHILE: i64 = 1 << 14;

/// How many times more parts must be wanted for another axis to be split.
const MANY: i64 = 4;

/// Elements of a tile whose columns the same tiles of other rows share: so many loads that those are under way together.
const SHARED: i64 = 1 << 12;

/// How a walk is split: along its outermost axes coordinate by coordinate, and in pieces along the one after these.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Parts {
    /// Axes of which each part has one coordinate, with their extents.
    single: Vec<(Axis, i64)>,
    piece: Option<Piece>,
}

/// Several coordinates of an axis.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Piece {
    axis: Axis,
    /// How many; the last piece may have fewer.
    length: i64,
    count: i64,
}

impl Parts {
    /// Splits the outermost loops of a kernel that has few programs for its work; `None` if it is best left whole.
    pub(super) fn choose(
        device: Device<'_>,
        prims: &Prims,
        kernel: &KernelPlan,
        order: &[Axis],
        blocks: &HashMap<Axis, (&'static str, Vec<i64>)>,
    ) -> Option<Self> {
        let extent = |a: Axis| kernel.extents.get(a)?.as_const();
        let (mut programs, mut walk) = (1i64, 1i64);
        // Elements that a program takes at each step of its walk.
        let mut width = 1i64;
        for axis in order {
            let length = extent(*axis)?;
            if kernel.reduced.contains(axis) {
                walk = walk.saturating_mul(length);
            } else {
                let block = blocks
                    .get(axis)
                    .and_then(|(_, b)| b.first().copied())
                    .unwrap_or(1);
                programs = programs.saturating_mul((length + block - 1) / block.max(1));
                if device.shares_tiles() {
                    width = width.saturating_mul(block);
                }
            }
        }
        let in_order = |id: &PrimId| matches!(prims.node(*id).prim, Prim::Scan(..) | Prim::ArgReduce(..));
        let enough = device.programs();
        let work = walk.saturating_mul(width);
        let is_walked_in_full = !kernel.taps().is_empty() || kernel.nodes.iter().any(in_order);
        if programs >= enough || work < 2 * WORTHWHILE || is_walked_in_full {
            return None;
        }
        let wanted = ((enough + programs - 1) / programs).min(work / WORTHWHILE);
        let mut parts = Self {
            single: Vec::new(),
            piece: None,
        };
        let is_whole = |a: Axis| {
            blocks
                .get(&a)
                .is_some_and(|(_, b)| b.len() == 1 && extent(a) == b.first().copied())
        };
        let reduced = order.iter().copied().filter(|a| kernel.reduced.contains(a));
        let mut looped = reduced.filter(|a| !is_whole(*a)).peekable();
        while let Some(axis) = looped.next() {
            let count = parts.count();
            let left = (wanted + count - 1) / count;
            if left < MANY && count > 1 {
                break;
            }
            let length = extent(axis)?;
            // A loop is left for every part.
            if !blocks.contains_key(&axis) && length <= left && looped.peek().is_some() {
                parts.single.push((axis, length));
                continue;
            }
            let steps = blocks.get(&axis).map_or(&[1][..], |(_, b)| b.as_slice());
            parts.piece = Piece::choose(axis, length, steps, left);
            break;
        }
        (parts.count() > 1).then_some(parts)
    }

    fn count(&self) -> i64 {
        let single = self.single.iter().map(|(_, extent)| extent);
        single.product::<i64>() * self.piece.as_ref().map_or(1, |piece| piece.count)
    }

    /// Where a program is along an axis at `index` of its own loop, and how far that goes, if it has a piece of the axis.
    pub(super) fn place(&self, axis: Axis, index: &str) -> Option<(String, i64)> {
        let piece = self.piece.as_ref().filter(|piece| piece.axis == axis)?;
        Some((format!("(part*{} + {index})", piece.length), piece.length))
    }

    /// The axes of which each part has one coordinate.
    pub(super) fn single(&self) -> impl Iterator<Item = Axis> {
        self.single.iter().map(|(axis, _)| *axis)
    }

    /// Program indices over the parts, with their extents.
    fn indices(&self) -> impl Iterator<Item = (String, i64)> {
        let single = self
            .single
            .iter()
            .map(|(axis, extent)| (format!("r{axis}"), *extent));
        let piece = self.piece.iter().map(|piece| ("part".to_owned(), piece.count));
        single.chain(piece)
    }

    fn slots(&self) -> Slots {
        let own = self
            .indices()
            .fold(String::new(), |own, (index, extent)| match own.as_str() {
                "" => index,
                _ => format!("({own})*{extent} + {index}"),
            });
        Slots {
            own,
            count: self.count().to_string(),
        }
    }
}

impl Piece {
    /// Equal numbers of whole steps, if there are any of a sensible size.
    fn choose(axis: Axis, length: i64, steps: &[i64], wanted: i64) -> Option<Self> {
        let step = steps.iter().copied().max()?;
        let tiles = (length + step - 1) / step;
        let exact = length % step == 0;
        let divisor = (wanted..=wanted * MANY).find(|p| exact && tiles % p == 0);
        let divisor = divisor.or_else(|| {
            (wanted / MANY + 1..wanted)
                .rev()
                .find(|p| exact && tiles % p == 0)
        });
        let count = match divisor {
            Some(count) => count,
            None if steps == [1] => return None,
            None => wanted.min(tiles),
        };
        let piece = (tiles + count - 1) / count * step;
        let count = (length + piece - 1) / piece;
        let aligned = steps.iter().all(|s| piece % s == 0);
        (count > 1 && aligned).then_some(Self {
            axis,
            length: piece,
            count,
        })
    }
}

/// The last dimension of the buffers, with an element for each part of a reduction.
pub(super) struct Slots {
    /// The place of a program's own part.
    pub(super) own: String,
    /// How many parts there are.
    pub(super) count: String,
}

/// Where the accumulators of a reduction's parts are.
pub(super) struct Partial {
    /// The buffers, in the order of [`Accumulator::names`].
    buffers: Vec<String>,
    accumulator: Accumulator,
}

impl Passes<'_> {
    /// Writes one kernel for each pass, and one for what is left. Returns the lines that declare the buffers.
    pub(super) fn write_parts(&mut self, parts: &Parts) -> Result<Vec<String>> {
        let nodes = self.emitter.kernel.nodes.clone();
        let slots = parts.slots();
        let mut partials: HashMap<PrimId, Partial> = HashMap::new();
        let mut declarations = Vec::new();
        let mut grid = self.grid.clone();
        grid.extend(
            parts
                .indices()
                .map(|(index, extent)| format!("{index} in {extent}")),
        );
        let last = self.last_level();
        for pass in 0..=last {
            let work = self.work(pass);
            if work.is_empty() {
                continue;
            }
            // Columns have long lists of parts to combine, which only several tiles are worth.
            if self.spreads && work.reductions.is_empty() && self.emitter.tile.len() == 1 {
                grid.truncate(self.grid.len());
                let tiles = self.spread(parts);
                // The last is what neighbouring programs differ in.
                let place = if self.shares_columns { 0 } else { grid.len() };
                grid.splice(place..place, tiles);
            }
            self.recall(work.results(), pass, &partials, &slots)?;
            for (id, accumulator) in self.pass(&work)? {
                let partial = self.keep(accumulator, partials.len(), &slots, &mut declarations)?;
                partials.insert(id, partial);
            }
            self.finish(format!("k{}_{pass}", self.number), &grid);
        }
        let left: Vec<PrimId> = self.emitter.kernel.stores.iter().map(|(id, _)| *id).collect();
        let left: Vec<PrimId> = left.into_iter().filter(|id| !self.inner(*id)).collect();
        if !left.is_empty() {
            self.recall(left.clone(), last, &partials, &slots)?;
            self.outer(&nodes, last)?;
            self.emitter.store_all(|_, id| left.contains(&id))?;
            let grid = self.grid.clone();
            self.finish(format!("k{}", self.number), &grid);
        }
        Ok(declarations)
    }

    /// Gives every tile a program of its own, from the last pass on, which only stores. Returns what the programs go over
    /// in place of the parts and the loops.
    fn spread(&mut self, parts: &Parts) -> Vec<String> {
        let loops = std::mem::take(&mut self.loops);
        let mut grid = Vec::new();
        for axis in parts.single().chain(loops.into_iter().map(|l| l.axis)) {
            let index = format!("r{axis}");
            let extent = self.emitter.extent(axis).clone();
            match self.emitter.walks.get_mut(&axis) {
                Some(Walk::Tile { start, len, overhang }) => {
                    if self.shares_columns && extent.as_const().is_some_and(|e| e % SHARED == 0) {
                        *len = SHARED.to_string();
                        *overhang = false;
                    }
                    *start = format!("{index}*{len}");
                    grid.push(format!("{index} in ceildiv({extent}, {len})"));
                }
                Some(Walk::Index(at)) => {
                    at.clone_from(&index);
                    grid.push(format!("{index} in {extent}"));
                }
                None => {}
            }
        }
        grid
    }

    /// Makes the results of earlier passes known that `results` depend on.
    fn recall(
        &mut self,
        results: Vec<PrimId>,
        pass: usize,
        partials: &HashMap<PrimId, Partial>,
        slots: &Slots,
    ) -> Result<()> {
        let (own, others): (Vec<_>, Vec<_>) = results.into_iter().partition(|id| partials.contains_key(id));
        let (needed, reductions) = self.needed(others);
        let known = own.into_iter().chain(reductions);
        for id in known {
            self.recombine(id, partials, slots)?;
        }
        self.outer(&needed, pass)
    }

    /// Makes the result of a reduction known, if its parts are.
    pub(super) fn recombine(
        &mut self,
        id: PrimId,
        partials: &HashMap<PrimId, Partial>,
        slots: &Slots,
    ) -> Result<()> {
        let Some(partial) = partials.get(&id) else {
            return Ok(());
        };
        let max = self.scales.get(&id).and_then(|max| partials.get(max));
        self.combine(id, partial, max, slots)
    }

    /// The indices of a buffer with an element for each part, and the axes and extents of its other dimensions.
    fn slot(&self) -> (Vec<Axis>, Vec<Expr>) {
        let e = &self.emitter;
        let mut kept: Vec<Axis> = e
            .walks
            .keys()
            .copied()
            .filter(|a| !e.kernel.reduced.contains(a))
            .collect();
        kept.sort_unstable();
        let extents = kept.iter().map(|a| e.extent(*a).clone()).collect();
        (kept, extents)
    }

    /// Stores accumulators in new buffers.
    pub(super) fn keep(
        &mut self,
        accumulator: Accumulator,
        number: usize,
        slots: &Slots,
        declarations: &mut Vec<String>,
    ) -> Result<Partial> {
        let (kept, extents) = self.slot();
        let mut buffers = Vec::new();
        for (i, name) in accumulator.names().into_iter().enumerate() {
            let buffer = format!("PART{}_{number}_{i}", self.number);
            let extents: Vec<String> = extents
                .iter()
                .map(ToString::to_string)
                .chain([slots.count.clone()])
                .collect();
            declarations.push(format!(
                "buffer {buffer}: {}[{}]",
                accumulator.dtype,
                extents.join(", ")
            ));
            let (region, _) = self.emitter.place(&kept)?;
            let region: Vec<String> = region.into_iter().chain([slots.own.clone()]).collect();
            self.emitter
                .line(format!("store {buffer}[{}] = {name}", region.join(", ")));
            buffers.push(buffer);
        }
        Ok(Partial { buffers, accumulator })
    }

    /// Combines the accumulators of all parts; `max` has the maxima that they are scaled by.
    fn combine(&mut self, id: PrimId, partial: &Partial, max: Option<&Partial>, slots: &Slots) -> Result<()> {
        let (kept, _) = self.slot();
        let (region, overhangs) = self.emitter.place(&kept)?;
        let region: Vec<String> = region
            .into_iter()
            .chain([format!("0 :+ {}", slots.count)])
            .collect();
        let rest = if overhangs { " else 0.0" } else { "" };
        let axes = partial.accumulator.axes.clone();
        let axis = axes.len();
        let mut loaded = Vec::new();
        for buffer in partial.buffers.iter().chain(max.iter().flat_map(|m| &m.buffers)) {
            let text = format!("load {buffer}[{}]{rest}", region.join(", "));
            loaded.push(self.bind("x", text, axes.clone()).text);
        }
        let own = compute_type(self.emitter.prims.dtype(id));
        let text = match (&partial.accumulator.kind, loaded.as_slice()) {
            (Kind::Fold { op, .. }, [parts]) => format!("reduce_{}({parts}, {axis})", op.name()),
            (Kind::Fold { .. }, [sums, maxima]) => {
                self.combine_scaled(&partial.accumulator, maxima, sums).text
            }
            _ => return Err(Error::unexpected("parts of a reduction that cannot be combined")),
        };
        let text = if partial.accumulator.dtype == own {
            text
        } else {
            format!("{own}({text})")
        };
        let result: Var = self.bind("s", text, axes);
        self.emitter.define(id, result);
        Ok(())
    }
}

impl Work {
    fn results(&self) -> Vec<PrimId> {
        self.reductions.iter().chain(&self.stores).copied().collect()
    }
}
