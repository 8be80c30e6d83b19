//! One product and the element-wise work on its result.

use std::collections::HashMap;

use tiles::{DEPTHS, balanced};

use super::{Emitter, Names, Var, Walk, Written, compute_type};
use crate::designer::device::Device;
use crate::designer::plan::{Access, Axis, KernelPlan, Operand, Plan};
use crate::designer::prim::{MapOp, Prim, PrimId, Prims};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::expr::Expr;
use crate::sketch::ir::CompareOp;

pub(super) mod factors;
mod geometry;
mod groups;
mod images;
mod tiles;
mod windows;

pub(in crate::designer) use geometry::Image;

/// The longest run of fused multiply-adds before the partial sum is added to those before it. Those of one `BK` are added
/// up in f32, then those of all: three levels keep the error of long products at that of pairwise summation.
const PROMOTE: u32 = 32;
/// Rows and columns that units for products take at once: where there are fewer along the innermost dimension, another one is
/// tiled.
pub(in crate::designer) const UNIT: i64 = 16;
/// Columns are tiled by multiples of the longest vector's lanes.
const LANES: i64 = 16;

/// Fewer programs than this share out a long sum.
const PROGRAMS: i64 = 32;
/// The shortest part of a sum that is worth a program.
const PART: i64 = 4096;
/// Rows of a tile where the parts are added up.
const PART_ROWS: i64 = 16;

/// A product and how it is tiled.
pub(super) struct Product<'a> {
    plan: &'a Plan,
    prims: &'a Prims,
    kernel: &'a KernelPlan,
    contract: PrimId,
    /// The left and the right operand.
    operands: [Access; 2],
    dtype: DType,
    /// Cores of the device.
    cores: i64,
    /// Whether threads share a tile, which must fit into their registers.
    shares_tiles: bool,
    /// Whether runs of multiply-adds and tiles along the sum are short, however long it is.
    has_short_runs: bool,
    /// The rows and the columns of the result, and the sum's innermost axis.
    pub(super) rows: Axis,
    pub(super) columns: Axis,
    pub(super) depth: Axis,
}

/// Writes kernel number `number`, which may become two.
pub(in crate::designer) fn emit(
    device: Device<'_>,
    plan: &Plan,
    prims: &Prims,
    kernel: &KernelPlan,
    names: &mut Names,
    number: usize,
    contract: PrimId,
) -> Result<Vec<Written>> {
    let product = Product::new(device, plan, prims, kernel, contract)?;
    if let Some(written) = factors::emit(&product, device, names, number)? {
        return Ok(written);
    }
    if kernel.columns.is_some() {
        return Err(Error::unsupported(
            "no design rule yet for a product whose columns are combined without factors",
        ));
    }
    if let Some(written) = images::emit(&product, device, names, number)? {
        return Ok(written);
    }
    if let Some(written) = windows::emit(&product, device, names, number)? {
        return Ok(written);
    }
    match product.parts() {
        Some(parts) => product.emit_parts(names, number, parts),
        None => Ok(vec![product.emit_whole(names, number)?]),
    }
}

impl<'a> Product<'a> {
    pub(super) fn new(
        device: Device<'_>,
        plan: &'a Plan,
        prims: &'a Prims,
        kernel: &'a KernelPlan,
        contract: PrimId,
    ) -> Result<Self> {
        let access = |i: usize| match kernel.operands.get(&(contract, i)) {
            Some(Operand::Load(access)) => Ok(access.clone()),
            _ => Err(Error::unsupported(
                "no design rule yet for a product of something computed in the same kernel",
            )),
        };
        let operands = [access(0)?, access(1)?];
        Self::of(device, plan, prims, kernel, contract, operands)
    }

    /// The product of these operands.
    pub(super) fn of(
        device: Device<'_>,
        plan: &'a Plan,
        prims: &'a Prims,
        kernel: &'a KernelPlan,
        contract: PrimId,
        [a, b]: [Access; 2],
    ) -> Result<Self> {
        let dtype = compute_type(prims.dtype(contract));
        if !dtype.is_float() {
            return Err(Error::unsupported(format!(
                "no design rule yet for products of {dtype}"
            )));
        }
        let result = kernel.axes.get(&contract).cloned().unwrap_or_default();
        let fills = |x: &Axis| kernel.extents[*x].as_const().is_none_or(|extent| extent >= UNIT);
        let only = |mine: &[Axis], other: &[Axis]| -> Option<Axis> {
            let own = |x: &Axis| mine.contains(x) && !other.contains(x);
            let mut own = result.iter().rev().copied().filter(own);
            let innermost = own.next()?;
            let filled = own.find(|x| kernel.windows.is_empty() && fills(x));
            Some(filled.filter(|_| !fills(&innermost)).unwrap_or(innermost))
        };
        let walked = [&a, &b].map(|access| kernel.walked(access));
        let (Some(rows), Some(columns)) = (only(&walked[0], &walked[1]), only(&walked[1], &walked[0])) else {
            return Err(Error::unsupported(
                "no design rule yet for a product without rows or columns",
            ));
        };
        // Tiles have elements along one axis of a dimension.
        let beside = |x: &Axis, others: &dyn Fn(Axis) -> bool| {
            let seeing = kernel.windows.values().map(|w| &w.axes);
            let mut seeing = seeing.filter(|axes| axes.iter().any(|(a, _)| a == x));
            seeing.any(|axes| axes.iter().any(|(a, _)| others(*a)))
        };
        let is_tiled = |a: Axis| a == rows || a == columns;
        let summed = walked[0].iter().rev().copied();
        let mut summed = summed.filter(|x| kernel.reduced.contains(x) && !beside(x, &is_tiled));
        let is_kept = |a: Axis| !kernel.reduced.contains(&a);
        let apart = summed.clone().find(|x| !beside(x, &is_kept));
        let Some(depth) = apart.or_else(|| summed.next()) else {
            return Err(Error::unsupported(
                "no design rule yet for a product over a dimension of extent 1",
            ));
        };
        Ok(Self {
            plan,
            prims,
            kernel,
            contract,
            operands: [a, b],
            dtype,
            cores: device.cores().max(1),
            shares_tiles: device.shares_tiles(),
            has_short_runs: device.has_short_runs(),
            rows,
            columns,
            depth,
        })
    }

    fn extent(&self, axis: Axis) -> &Expr {
        &self.kernel.extents[axis]
    }

    /// Where a loop along a summed axis ends. Where windows show all of a dimension of weights at some phases of the result,
    /// which have the index `p` and the axis's number, they show less of it at others: at the end where they go up, and before
    /// the first element where they go down.
    fn end(&self, axis: Axis) -> String {
        let kernel = self.kernel;
        let end = |dimension: &Axis| {
            let window = kernel.windows.get(dimension)?;
            let (start, shown) = (window.start.as_const()?, self.extent(*dimension).as_const()?);
            let [(phase, 1), (tap, step)] = window.axes[..] else {
                return None;
            };
            let (phases, taps) = (self.extent(phase).as_const()?, self.extent(tap).as_const()?);
            let end = if step > 0 {
                let is_all = start == 0 && taps * step >= shown && phases < shown + step;
                (is_all && taps * step > shown)
                    .then(|| format!("({} - p{phase}) // {step}", shown + step - 1))
            } else {
                let count = |p: i64| (start + p) / -step + 1;
                let is_all = start >= 0 && start + phases <= shown && count(phases - 1) <= taps;
                (is_all && count(0) < taps).then(|| format!("({} + p{phase}) // {}", start - step, -step))
            };
            end.filter(|_| tap == axis && phase != self.rows && !kernel.reduced.contains(&phase))
        };
        let [weights, _] = &self.operands;
        let end = weights.axes.iter().find_map(end);
        end.unwrap_or_else(|| self.extent(axis).to_string())
    }

    /// The types that the operands lie in memory in.
    pub(super) fn dtypes(&self) -> [DType; 2] {
        self.operands
            .each_ref()
            .map(|access| self.plan.dtype(&access.tensor))
    }

    /// The axes of the result, outermost first.
    fn result(&self) -> Vec<Axis> {
        self.kernel.axes.get(&self.contract).cloned().unwrap_or_default()
    }

    /// Lengths of tiles along the rows and the columns, nearly equal ones.
    fn balanced_lengths(&self) -> [Vec<i64>; 2] {
        let [rows, columns] = self.lengths();
        [
            balanced(self.extent(self.rows), &rows, 1),
            balanced(self.extent(self.columns), &columns, LANES),
        ]
    }

    /// Walks along the result by grid indices, in tiles along rows and columns of these lengths. Returns the grid.
    fn walk_result(
        &self,
        names: &mut Names,
        number: usize,
        [row_lengths, column_lengths]: &[Vec<i64>; 2],
        walks: &mut HashMap<Axis, Walk>,
    ) -> Vec<String> {
        let mut grid = Vec::new();
        for axis in self.result() {
            let extent = self.extent(axis);
            let (name, values) = match axis {
                _ if axis == self.rows => ("BM", row_lengths),
                _ if axis == self.columns => ("BN", column_lengths),
                _ => {
                    grid.push(format!("p{axis} in {extent}"));
                    walks.insert(axis, Walk::Index(format!("p{axis}")));
                    continue;
                }
            };
            let len = names.knob(name, number, values);
            grid.push(format!("p{axis} in ceildiv({extent}, {len})"));
            let start = format!("p{axis}*{len}");
            let overhang = overhangs(extent, values);
            walks.insert(axis, Walk::Tile { start, len, overhang });
        }
        grid
    }

    /// The number of tiles of so many rows and columns in the result.
    fn tiles(&self, rows: i64, columns: i64) -> Option<i64> {
        self.result().iter().try_fold(1i64, |tiles, axis| {
            let length = match *axis {
                axis if axis == self.rows => rows,
                axis if axis == self.columns => columns,
                _ => 1,
            };
            Some(tiles.saturating_mul(ceildiv(self.extent(*axis).as_const()?, length)))
        })
    }

    /// The number of parts that the sum is computed in, if the result alone has too few tiles to keep a machine busy.
    fn parts(&self) -> Option<i64> {
        let is_only =
            self.kernel.reduced.len() == 1 && self.kernel.rows.is_none() && self.dtype == DType::F32;
        let depth = self.extent(self.depth).as_const().filter(|_| is_only)?;
        let [rows, columns] = self.lengths();
        let programs = self.tiles(rows[0], columns[0])?;
        let parts = (PROGRAMS / programs.max(1)).min(depth / PART);
        (parts > 1).then_some(parts)
    }

    /// One kernel: each program computes a tile of the result.
    fn emit_whole(&self, names: &mut Names, number: usize) -> Result<Written> {
        let mut walks = HashMap::new();
        let grid = self.walk_result(names, number, &self.balanced_lengths(), &mut walks);
        let extent = self.extent(self.depth);
        let sums = self.sums(self.products());
        let values = balanced(extent, self.depths(sums, self.products()), 1);
        let len = names.knob("BK", number, &values);
        let is_short = extent.as_const().is_some_and(|e| values == [e]);
        let mut loops = Vec::new();
        let summed = self.kernel.walked(&self.operands[0]).into_iter();
        for axis in summed.filter(|x| self.kernel.reduced.contains(x)) {
            if axis != self.depth {
                loops.push(format!("r{axis} in 0..{}", self.end(axis)));
                walks.insert(axis, Walk::Index(format!("r{axis}")));
            } else if !is_short {
                loops.push(format!("r{axis} in 0..{extent} step {len}"));
            }
        }
        let start = if is_short {
            "0".to_owned()
        } else {
            format!("r{}", self.depth)
        };
        let overhang = overhangs(extent, &values);
        walks.insert(self.depth, Walk::Tile { start, len, overhang });
        let mut e = Emitter::new(self.plan, self.prims, self.kernel, names);
        e.walks = walks;
        let text = if loops.is_empty() {
            let product = self.dot(&mut e)?;
            e.line(format!("y0 = {product}"));
            "y0"
        } else {
            let condition = self.condition(&e)?;
            self.accumulate(&mut e, &loops, condition, sums)?;
            self.narrow(&mut e, sums)
        };
        self.finish(e, text, format!("k{number}"), &format!("({})", grid.join(", ")))
    }

    /// Two kernels: programs compute a tile of the result over a part of the sum, and others add the parts up.
    fn emit_parts(&self, names: &mut Names, number: usize, parts: i64) -> Result<Vec<Written>> {
        let mut walks = HashMap::new();
        let grid = self.walk_result(names, number, &self.balanced_lengths(), &mut walks);
        let extent = self.extent(self.depth);
        let total = extent.as_const().unwrap_or_default();
        let part = ceildiv(ceildiv(total, parts), DEPTHS[0]) * DEPTHS[0];
        let parts = ceildiv(total, part);
        let sums = self.sums(Some(part));
        let len = names.knob("BK", number, self.depths(sums, Some(part)));
        self.declare_parts(names, number, parts);
        let start = format!("s0*{part} + r{}", self.depth);
        let overhang = total % part != 0;
        let walk = Walk::Tile {
            start,
            len: len.clone(),
            overhang,
        };
        walks.insert(self.depth, walk);

        let mut e = Emitter::new(self.plan, self.prims, self.kernel, names);
        e.walks.clone_from(&walks);
        self.accumulate(
            &mut e,
            &[format!("r{} in 0..{part} step {len}", self.depth)],
            None,
            sums,
        )?;
        let text = self.narrow(&mut e, sums);
        e.line(format!("store part{number}[s0, {}] = {text}", self.region(&e)?));
        let parts_name = format!("k{number}_parts");
        let sums = e.finish(&format!(
            "kernel {parts_name} over (s0 in {parts}, {})",
            grid.join(", ")
        ));
        let sums = Written {
            name: parts_name,
            text: sums,
        };

        let (mut e, over) = self.add_parts(names, number, parts, PART_ROWS, walks, grid)?;
        let text = self.narrow(&mut e, DType::F64);
        let all = self.finish(e, text, format!("k{number}"), &over)?;
        Ok(vec![sums, all])
    }

    /// The buffer for the result of each part of the sum.
    fn declare_parts(&self, names: &mut Names, number: usize, parts: i64) {
        let extents: Vec<_> = self
            .result()
            .iter()
            .map(|x| self.extent(*x).to_string())
            .collect();
        names.buffers.push(format!(
            "buffer part{number}: f32[{parts}, {}]",
            extents.join(", ")
        ));
    }

    /// Begins a kernel that adds the parts of the sum up, in tiles of so many rows, as `acc0` in f64. Returns what it is over,
    /// too.
    fn add_parts<'b>(
        &'b self,
        names: &'b Names,
        number: usize,
        parts: i64,
        tile_rows: i64,
        mut walks: HashMap<Axis, Walk>,
        mut grid: Vec<String>,
    ) -> Result<(Emitter<'b>, String)> {
        let rows = self.extent(self.rows);
        let start = format!("p{}*{tile_rows}", self.rows);
        let walk = Walk::Tile {
            start,
            len: tile_rows.to_string(),
            overhang: overhangs(rows, &[tile_rows]),
        };
        walks.insert(self.rows, walk);
        for (axis, index) in self.result().iter().zip(&mut grid) {
            if *axis == self.rows {
                *index = format!("p{axis} in ceildiv({rows}, {tile_rows})");
            }
        }
        let mut e = Emitter::new(self.plan, self.prims, self.kernel, names);
        e.walks = walks;
        e.tile = vec![self.rows, self.columns];
        let (region, leaves) = (self.region(&e)?, self.leaves(&e));
        e.line(format!(
            "acc0 = zeros f64{}",
            e.extents(&[self.rows, self.columns])?
        ));
        e.open(format!("for s0 in 0..{parts} {{"));
        let outside = if leaves { " else 0.0" } else { "" };
        e.line(format!(
            "acc0 = acc0 + f64(load part{number}[s0, {region}]{outside})"
        ));
        e.close();
        Ok((e, format!("({})", grid.join(", "))))
    }

    /// The tile of the result as a region of a tensor of the result's extents.
    fn region(&self, e: &Emitter<'_>) -> Result<String> {
        let parts = self.result().into_iter().map(|axis| {
            Ok(match e.walks.get(&axis) {
                Some(Walk::Index(name)) => name.clone(),
                Some(Walk::Tile { start, len, .. }) => format!("{start} :+ {len}"),
                None => return Err(Error::unexpected("an emitter forgot to walk along an axis")),
            })
        });
        Ok(parts.collect::<Result<Vec<_>>>()?.join(", "))
    }

    /// Whether the tile of the result may leave it.
    fn leaves(&self, e: &Emitter<'_>) -> bool {
        let overhangs = |axis| matches!(e.walks.get(&axis), Some(Walk::Tile { overhang: true, .. }));
        self.result().into_iter().any(overhangs)
    }

    /// Loads the operands and returns the text of their product.
    fn dot(&self, e: &mut Emitter<'_>) -> Result<String> {
        let [a, b] = &self.operands;
        e.tile = vec![self.rows, self.depth];
        let left = e.load(a)?;
        e.tile = vec![self.depth, self.columns];
        let right = e.load(b)?;
        e.tile = vec![self.rows, self.columns];
        let promote = match self.dtype {
            DType::F64 => String::new(),
            _ => format!(" promote({})", self.longest_run()),
        };
        Ok(format!("dot({}, {}) ieee{promote}", left.text, right.text))
    }

    /// Adds up the products of all iterations in `acc0`, of the type `sums`, if the condition holds.
    fn accumulate(
        &self,
        e: &mut Emitter<'_>,
        loops: &[String],
        condition: Option<String>,
        sums: DType,
    ) -> Result<()> {
        let extents = e.extents(&[self.rows, self.columns])?;
        e.line(format!("acc0 = zeros {sums}{extents}"));
        if let Some(condition) = &condition {
            e.open(format!("if {condition} {{"));
        }
        e.open(format!("for {} {{", loops.join(", ")));
        let product = self.dot(e)?;
        e.line(if sums == self.dtype {
            format!("acc0 = acc0 + {product}")
        } else {
            format!("acc0 = acc0 + {sums}({product})")
        });
        e.close();
        if condition.is_some() {
            e.close();
        }
        Ok(())
    }

    /// The name of `acc0`, of the type `sums`, in the type of the product.
    fn narrow(&self, e: &mut Emitter<'_>, sums: DType) -> &'static str {
        e.tile = vec![self.rows, self.columns];
        if sums == self.dtype {
            return "acc0";
        }
        e.line(format!("y0 = {}(acc0)", self.dtype));
        "y0"
    }

    /// The work on the product, which is called `text`, and the end of a kernel over programs in the order `over`.
    fn finish(&self, mut e: Emitter<'_>, text: &str, name: String, over: &str) -> Result<Written> {
        self.complete(&mut e, text)?;
        let text = e.finish(&format!("kernel {name} over {over}"));
        Ok(Written { name, text })
    }

    /// The work on the product, which is called `text`.
    fn complete(&self, e: &mut Emitter<'_>, text: &str) -> Result<()> {
        let mut var = Var {
            text: text.to_owned(),
            axes: vec![self.rows, self.columns],
        };
        if let Some(columns) = self.kernel.columns {
            var = self.in_groups(e, columns, text)?;
        }
        e.define(self.contract, var);
        match self.kernel.columns {
            Some(columns) => self.combine(e, columns)?,
            None => self.combine_rows(e)?,
        }
        e.store_all(|_, _| true)
    }

    /// When a tile of the product is needed: its only use may be `select(column >= row + diagonal, product, 0)` or the
    /// like, which leaves nothing of the tiles on the other side of the diagonal.
    fn condition(&self, e: &Emitter<'_>) -> Result<Option<String>> {
        let Some((op, diagonal)) = self.triangle() else {
            return Ok(None);
        };
        let tile = |axis| match e.walks.get(&axis) {
            Some(Walk::Tile { start, len, .. }) => Ok((start.clone(), format!("{start} + {len} - 1"))),
            _ => Err(Error::unexpected(
                "a product is not tiled along its rows and columns",
            )),
        };
        let ((first_row, last_row), (first_column, last_column)) = (tile(self.rows)?, tile(self.columns)?);
        let (column, row) = match op {
            CompareOp::Ge | CompareOp::Gt => (last_column, first_row),
            _ => (first_column, last_row),
        };
        let sign = op.name();
        let edge = match diagonal {
            0 => row,
            above @ 1.. => format!("{row} + {above}"),
            below => format!("{row} - {}", -below),
        };
        Ok(Some(format!("{column} {sign} {edge}")))
    }

    /// `(op, diagonal)` if all that is needed of the product is `select(column op row + diagonal, product, 0)`.
    fn triangle(&self) -> Option<(CompareOp, i64)> {
        let kernel = self.kernel;
        let operand = |id: PrimId, i: usize| kernel.operands.get(&(id, i));
        let mut users = kernel
            .operands
            .iter()
            .filter(|(_, o)| **o == Operand::Node(self.contract))
            .map(|((user, i), _)| (*user, *i));
        let (Some((select, 1)), None) = (users.next(), users.next()) else {
            return None;
        };
        let is_select = matches!(self.prims.node(select).prim, Prim::Map(MapOp::Select, _));
        let is_stored = kernel.stores.iter().any(|(id, _)| *id == self.contract);
        let is_zero = operand(select, 2) == Some(&Operand::Number(0.0));
        let Some(Operand::Node(condition)) =
            operand(select, 0).filter(|_| is_select && !is_stored && is_zero)
        else {
            return None;
        };
        let (op, diagonal) = kernel.triangle(self.prims, *condition, [self.rows, self.columns])?;
        let is_order = matches!(op, CompareOp::Ge | CompareOp::Gt | CompareOp::Le | CompareOp::Lt);
        is_order.then_some((op, diagonal))
    }
}

/// Whether tiles of some of these lengths reach beyond the extent.
pub(super) fn overhangs(extent: &Expr, lengths: &[i64]) -> bool {
    !lengths
        .iter()
        .all(|length| extent.as_const().is_some_and(|extent| extent % length == 0))
}

/// Of some lengths those that an extent fills. Units for products take powers of two.
pub(super) fn filled(extent: &Expr, lengths: &[i64]) -> Vec<i64> {
    let longest = extent
        .as_const()
        .map_or(i64::MAX, |extent| next_power_of_two(extent.max(UNIT)));
    let mut filled: Vec<i64> = Vec::new();
    for length in lengths.iter().map(|length| (*length).min(longest)) {
        if !filled.contains(&length) {
            filled.push(length);
        }
    }
    filled
}

pub(super) fn next_power_of_two(n: i64) -> i64 {
    (n.max(1) as u64).next_power_of_two() as i64
}

fn ceildiv(a: i64, b: i64) -> i64 {
    a / b + i64::from(a % b != 0)
}
