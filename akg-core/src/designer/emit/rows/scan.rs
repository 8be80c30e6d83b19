//! Scans: within a tile by the sketch's operator, across tiles by a running total.

use std::collections::{BTreeSet, HashMap};

use super::super::{Emitter, Var, Walk, compute_type};
use super::Passes;
use super::accumulate::{Accumulator, combined, identity};
use crate::designer::device::Device;
use crate::designer::plan::{Axis, KernelPlan, Operand};
use crate::designer::prim::{Prim, PrimId, Prims, Scan};
use crate::dtype::DType;
use crate::error::Result;
use crate::sketch::ir::ReduceOp;

/// Walks the scanned axes of a kernel whose scans run from the end in that order, so that what comes before an element
/// is known when its tile is reached.
pub(super) fn reverse(walks: &mut HashMap<Axis, Walk>, prims: &Prims, kernel: &KernelPlan, descends: bool) {
    if !is_reversed(prims, kernel) {
        return;
    }
    for axis in &kernel.reduced {
        let Some(extent) = kernel.extents.get(*axis) else {
            continue;
        };
        let last = extent.clone() - 1;
        match walks.get_mut(axis) {
            Some(Walk::Index(at)) => *at = format!("({last} - {at})"),
            Some(Walk::Tile { start, .. }) if descends && start == "0" => *start = last.to_string(),
            Some(Walk::Tile { start, .. }) if descends => *start = format!("({last} - {start})"),
            Some(Walk::Tile { start, len, .. }) if start != "0" => {
                *start = format!("({extent} - {len} - {start})")
            }
            _ => {}
        }
    }
}

/// Whether the tiles of a kernel whose scans run from the end hold the last element first: threads that share tiles scan
/// faster forward. The place of an extremum in such a tile is not its coordinate.
pub(super) fn descends(device: Device<'_>, prims: &Prims, kernel: &KernelPlan) -> bool {
    let has_place = |id: &PrimId| matches!(prims.node(*id).prim, Prim::ArgReduce(..));
    device.shares_tiles() && is_reversed(prims, kernel) && !kernel.nodes.iter().any(has_place)
}

pub(super) fn is_reversed(prims: &Prims, kernel: &KernelPlan) -> bool {
    let from_the_end =
        |id: &PrimId| matches!(prims.node(*id).prim, Prim::Scan(Scan { reverse: true, .. }, _));
    kernel.nodes.iter().any(from_the_end)
}

impl Passes<'_> {
    /// Whether the reduced axes are walked from the end.
    pub(super) fn is_reversed(&self) -> bool {
        is_reversed(self.emitter.prims, self.emitter.kernel)
    }

    pub(super) fn scan_of(&self, id: PrimId) -> Option<Scan> {
        match &self.emitter.prims.node(id).prim {
            Prim::Scan(scan, _) => Some(*scan),
            _ => None,
        }
    }

    /// The scans that a pass must run again for its results, in the order in which they depend on each other.
    pub(super) fn scans_for<'a>(&self, results: impl Iterator<Item = &'a PrimId>) -> Vec<(PrimId, Scan)> {
        let mut needed: BTreeSet<PrimId> = BTreeSet::new();
        let mut stack: Vec<PrimId> = results.copied().collect();
        while let Some(id) = stack.pop() {
            if needed.insert(id) {
                let inputs = self.operand_nodes(id).into_iter();
                // What does not vary along the axis is known from earlier passes.
                stack.extend(inputs.filter(|n| self.inner(*n)));
            }
        }
        let scans = needed.into_iter().filter_map(|id| Some((id, self.scan_of(id)?)));
        scans.collect()
    }

    /// A scan whose axis is in the tile as a whole.
    pub(super) fn scan_whole(&mut self, id: PrimId, scan: Scan) -> Result<()> {
        let (var, position, scan) = self.scanned(id, scan)?;
        let result = self.bind("s", self.call(scan, &var.text, position), var.axes);
        self.emitter.define(id, result);
        Ok(())
    }

    /// What a scan combines, the position of its axis, and how it does.
    ///
    /// Where threads share tiles, moving elements to their neighbours is slow. There an exclusive scan of what is in memory
    /// is an inclusive one of a tile that begins one element earlier.
    fn scanned(&mut self, id: PrimId, scan: Scan) -> Result<(Var, usize, Scan)> {
        let e = &mut self.emitter;
        let axis = e.tile.iter().copied().find(|a| e.kernel.reduced.contains(a));
        let neutral = match scan.op {
            ReduceOp::Sum => Some(0.0),
            ReduceOp::Prod if e.prims.dtype(id).is_float() => Some(1.0),
            _ => None,
        };
        if let (true, true, Some(axis), Some(neutral)) = (self.spreads, scan.exclusive, axis, neutral)
            && let Some(Operand::Load(access)) = e.kernel.operands.get(&(id, 0)).cloned()
            && let Some(Walk::Tile { start, len, overhang }) = e.walks.get(&axis).cloned()
        {
            let earlier = Walk::Tile {
                start: format!("{start} {} 1", if scan.reverse { '+' } else { '-' }),
                len: len.clone(),
                overhang: true,
            };
            let fill = std::mem::replace(&mut e.fill, neutral);
            e.walks.insert(axis, earlier);
            let var = e.load(&access)?;
            e.fill = fill;
            e.walks.insert(axis, Walk::Tile { start, len, overhang });
            let position = var.axes.iter().position(|a| *a == axis).unwrap_or(0);
            let inclusive = Scan {
                exclusive: false,
                ..scan
            };
            return Ok((var, position, inclusive));
        }
        let (var, position) = self.argument(id)?;
        Ok((var, position, scan))
    }

    /// A scan of one tile, with what `before` holds of the earlier ones.
    pub(super) fn scan_tile(
        &mut self,
        id: PrimId,
        scan: Scan,
        before: &Accumulator,
        masked: bool,
    ) -> Result<()> {
        let (mut var, mut position, scan) = self.scanned(id, scan)?;
        let element = compute_type(self.emitter.prims.dtype(id));
        let e = &self.emitter;
        if !e.tile.iter().any(|a| e.kernel.reduced.contains(a)) {
            return self.scan_elements(id, scan, &var, before);
        }
        // What is the same along some axes is scanned as often as there are elements along them.
        let has = |a: &Axis| before.axes.contains(a) || var.axes.contains(a);
        let axes: Vec<Axis> = e.tile.iter().copied().filter(has).collect();
        if axes != var.axes {
            let text = e.repeated(&var, &axes, element)?;
            var = self.bind("t", text, axes);
            let kernel = self.emitter.kernel;
            position = var
                .axes
                .iter()
                .position(|a| kernel.reduced.contains(a))
                .unwrap_or(0);
        }
        if masked {
            var = self.mask(var, position, &identity(scan.op, element))?;
        }
        let is_wide = before.dtype != element;
        let widened = |text: String| {
            if is_wide {
                format!("{}({text})", before.dtype)
            } else {
                text
            }
        };
        let total = &before.names()[0].to_owned();
        let earlier = Var {
            text: total.clone(),
            axes: before.axes.clone(),
        };
        let earlier = Emitter::expanded(&earlier, &var.axes);
        // Few warps scan a tile from the end: in f64 that would keep them from memory.
        let own = if self.emitter.descends && scan.op == ReduceOp::Sum {
            widened(self.call(scan, &var.text, position))
        } else {
            self.call(scan, &widened(var.text.clone()), position)
        };
        let scanned = combined(scan.op, &own, &earlier);
        let narrow = if is_wide {
            format!("{element}({scanned})")
        } else {
            scanned
        };
        let result = self.bind("s", narrow, var.axes.clone());
        self.emitter.define(id, result);
        // Elements may cancel: a tile's total is as exact as the running one.
        let own = format!("reduce_{}({}, {position})", scan.op.name(), widened(var.text));
        let line = format!("{total} = {}", combined(scan.op, total, &own));
        self.emitter.line(line);
        Ok(())
    }

    /// A scan of a tile with one element of each row, after those that `before` holds.
    fn scan_elements(&mut self, id: PrimId, scan: Scan, var: &Var, before: &Accumulator) -> Result<()> {
        let element = compute_type(self.emitter.prims.dtype(id));
        let convert = |to: DType, from: DType, text: &str| {
            if to == from {
                text.to_owned()
            } else {
                format!("{to}({text})")
            }
        };
        let total = before.names()[0].to_owned();
        let own = Emitter::expanded(var, &before.axes);
        let line = format!(
            "{total} = {}",
            combined(scan.op, &total, &convert(before.dtype, element, &own))
        );
        if !scan.exclusive {
            self.emitter.line(line.clone());
        }
        let so_far = convert(element, before.dtype, &total);
        let result = self.bind("s", so_far, before.axes.clone());
        if scan.exclusive {
            self.emitter.line(line);
        }
        self.emitter.define(id, result);
        Ok(())
    }

    fn call(&self, scan: Scan, operand: &str, position: usize) -> String {
        let exclusive = if scan.exclusive { ", exclusive" } else { "" };
        let reverse = if scan.reverse && !self.emitter.descends {
            ", reverse"
        } else {
            ""
        };
        format!(
            "scan_{}({operand}, {position}{exclusive}{reverse})",
            scan.op.name()
        )
    }
}
