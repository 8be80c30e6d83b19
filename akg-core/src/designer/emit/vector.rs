//! A matrix times a vector: long sums over the rows of a matrix.
//!
//! A program reads a few rows side by side, so that memory has several streams to fetch ahead, and keeps one running sum
//! for each of `BC` neighbours, so that nothing waits for the sum before it.

use std::collections::HashMap;

use super::{Emitter, Names, Var, Walk, Written, compute_type};
use crate::designer::device::Device;
use crate::designer::plan::{Access, Axis, KernelPlan, Operand, Plan};
use crate::designer::prim::{MapOp, Prim, PrimId, Prims};
use crate::dtype::DType;
use crate::error::Result;
use crate::sketch::ir::{BinaryOp, ReduceOp};

/// Products that are summed in f32 before their sum is added up in f64: at most 32 for each of the running sums.
const STEP: i64 = 2048;
/// Numbers of running sums to choose from.
const SUMS: [i64; 2] = [64, 128];
/// Fewer rows than this leave the work to rules that cut the sum.
const MANY: i64 = 128;
/// Numbers of rows to choose from.
const ROWS: [i64; 3] = [4, 2, 1];

/// A sum over products of a matrix's rows with a vector.
struct Product {
    sum: PrimId,
    terms: PrimId,
    /// The matrix's rows and columns.
    rows: Axis,
    columns: Axis,
}

/// Writes kernel number `number`, if it is one long matrix-vector product and work on its result, for cores that sum by
/// themselves.
pub(in crate::designer) fn emit(
    device: Device<'_>,
    plan: &Plan,
    prims: &Prims,
    kernel: &KernelPlan,
    names: &mut Names,
    number: usize,
) -> Result<Option<Written>> {
    if device.shares_tiles() {
        return Ok(None);
    }
    let Some(Product {
        sum,
        terms,
        rows,
        columns,
    }) = find(prims, kernel)
    else {
        return Ok(None);
    };
    let (mut walks, mut grid) = (HashMap::new(), Vec::new());
    let height = kernel.extents[rows].as_const();
    let heights: Vec<i64> = ROWS
        .into_iter()
        .filter(|r| height.is_none_or(|h| h >= *r))
        .collect();
    let lanes = names.knob("BC", number, &SUMS);
    let len = names.knob("BR", number, &heights);
    for axis in kernel.axes.get(&sum).into_iter().flatten() {
        let extent = &kernel.extents[*axis];
        if *axis == rows {
            let start = format!("p{axis}*{len}");
            let overhang = !heights.iter().all(|r| height.is_some_and(|h| h % r == 0));
            grid.push(format!("p{axis} in ceildiv({extent}, {len})"));
            let len = len.clone();
            walks.insert(*axis, Walk::Tile { start, len, overhang });
        } else {
            grid.push(format!("p{axis} in {extent}"));
            walks.insert(*axis, Walk::Index(format!("p{axis}")));
        }
    }
    let depth = &kernel.extents[columns];
    let walk = Walk::Tile {
        start: format!("r{columns} + c{columns}"),
        len: lanes.clone(),
        overhang: depth.as_const().is_none_or(|d| d % STEP != 0),
    };
    walks.insert(columns, walk);

    let mut e = Emitter::new(plan, prims, kernel, names);
    e.walks = walks;
    e.tile = vec![rows, columns];
    e.line(format!("acc0 = zeros f64[{len}]"));
    e.open(format!("for r{columns} in 0..{depth} step {STEP} {{"));
    e.line(format!("part0 = zeros f32[{len}, {lanes}]"));
    e.open(format!("for c{columns} in 0..{STEP} step {lanes} {{"));
    let terms = e.value(terms)?;
    e.line(format!("part0 = part0 + {}", terms.text));
    e.close();
    e.line("acc0 = acc0 + f64(reduce_sum(part0, 1))");
    e.close();
    e.line("y0 = f32(acc0)");
    let result = Var {
        text: "y0".to_owned(),
        axes: vec![rows],
    };
    e.define(sum, result);
    e.store_all(|_, _| true)?;
    let name = format!("k{number}");
    let text = e.finish(&format!("kernel {name} over ({})", grid.join(", ")));
    Ok(Some(Written { name, text }))
}

fn find(prims: &Prims, kernel: &KernelPlan) -> Option<Product> {
    let columns = *kernel.reduced.first().filter(|_| kernel.reduced.len() == 1)?;
    let varies = |id: &&PrimId| kernel.axes.get(*id).is_some_and(|axes| axes.contains(&columns));
    let mut inner = kernel.nodes.iter().filter(varies);
    let (Some(&terms), None) = (inner.next(), inner.next()) else {
        return None;
    };
    let mut sums = kernel.nodes.iter().filter(|id| {
        matches!(prims.node(**id).prim, Prim::Reduce(..) | Prim::ArgReduce(..))
            && kernel.operands.get(&(**id, 0)) == Some(&Operand::Node(terms))
    });
    let (Some(&sum), None) = (sums.next(), sums.next()) else {
        return None;
    };
    // Work on the result must not spread it along further axes.
    let result = kernel.axes.get(&sum)?;
    let others = kernel.nodes.iter().filter(|id| **id != terms);
    let is_narrow = others
        .filter_map(|id| kernel.axes.get(id))
        .flatten()
        .all(|axis| result.contains(axis));
    let count = result
        .iter()
        .map(|axis| kernel.extents[*axis].as_const().unwrap_or(MANY));
    let is_tall = count.fold(1, i64::saturating_mul) >= MANY;
    let is_product = matches!(prims.node(terms).prim, Prim::Map(MapOp::Binary(BinaryOp::Mul), _));
    let is_sum = matches!(prims.node(sum).prim, Prim::Reduce(ReduceOp::Sum, ..));
    let is_single = [terms, sum]
        .iter()
        .all(|id| compute_type(prims.dtype(*id)) == DType::F32);
    let is_long = kernel.extents[columns].as_const().is_none_or(|d| d >= 2 * STEP);
    let is_stored = kernel.stores.iter().any(|(id, _)| *id == terms);
    if !is_product || !is_sum || !is_single || !is_long || !is_narrow || !is_tall || is_stored {
        return None;
    }
    let load = |i| match kernel.operands.get(&(terms, i)) {
        Some(Operand::Load(Access { axes, .. })) => Some(axes),
        _ => None,
    };
    let (a, b) = (load(0)?, load(1)?);
    let (matrix, vector) = if a.len() > b.len() { (a, b) } else { (b, a) };
    let rows = match matrix.as_slice() {
        [.., rows, last] if *last == columns && !vector.contains(rows) => *rows,
        _ => return None,
    };
    (vector.last() == Some(&columns)).then_some(Product {
        sum,
        terms,
        rows,
        columns,
    })
}
