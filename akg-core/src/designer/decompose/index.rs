//! Elements that indices name.
//!
//! Of short tables, each is the sum of all elements but with zeros in the place of the others. Rows of longer ones are
//! gathered by their numbers. A tensor in which slices are replaced is computed as a whole, unless it is a state that a
//! call updates in place: each place finds its slice.

use std::ops::Range;

use super::{Step, places};
use crate::designer::prim::{Prim, PrimId, broadcast};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::expr::Expr;
use crate::graph::ValueId;
use crate::sketch::ir::{CompareOp, ReduceOp};

/// The longest dimension that is searched for each element.
const SHORT: i64 = 1024;

pub(super) fn decompose(s: &mut Step<'_>, name: &str) -> Result<Option<Vec<PrimId>>> {
    let result = match name {
        "index" => {
            let table = s.tensor("self")?;
            let given = s.call.values("indices")?.iter().enumerate();
            let given: Vec<(usize, ValueId)> =
                given.filter_map(|(dim, index)| Some((dim, (*index)?))).collect();
            at(s, table, &given)?
        }
        "index_select" => {
            let table = s.tensor("self")?;
            let dim = s.dim("dim", s.prims.rank(table))?;
            let index = s.call.value("index")?;
            at(s, table, &[(dim, index)])?
        }
        "index_copy" => {
            let [table, index, source] = [s.tensor("self")?, s.tensor("index")?, s.tensor("source")?];
            let dim = s.dim("dim", s.prims.rank(table))?;
            replaced(s, table, dim, index, source)?
        }
        "embedding" => {
            let (table, index) = (s.tensor("weight")?, s.call.value("indices")?);
            at(s, table, &[(0, index)])?
        }
        "gather" => {
            let (table, index) = (s.tensor("self")?, s.tensor("index")?);
            let dim = s.dim("dim", s.prims.rank(table))?;
            let shape = s.prims.shape(index).to_vec();
            if shape.iter().any(|extent| extent.is(0)) {
                s.prims.full(0.0, s.prims.dtype(table), shape)
            } else {
                along(s, table, dim, index)?
            }
        }
        _ => return Ok(None),
    };
    let shape = s.result(0)?.shape.clone();
    Ok(Some(vec![s.prims.reshape(result, shape)]))
}

/// The elements that indices name, each along a dimension.
fn at(s: &mut Step<'_>, table: PrimId, given: &[(usize, ValueId)]) -> Result<PrimId> {
    if let Some(named) = places::named(s, table, given)? {
        return Ok(named);
    }
    let indices = given.iter().map(|(dim, index)| Ok((*dim, s.value(*index)?)));
    let indices: Vec<(usize, PrimId)> = indices.collect::<Result<_>>()?;
    match indices[..] {
        [(dim, index)] => one(s, table, dim, index),
        _ => several(s, table, &indices),
    }
}

/// The elements that one index names along a dimension.
fn one(s: &mut Step<'_>, table: PrimId, dim: usize, index: PrimId) -> Result<PrimId> {
    if s.prims.rank(table) == 0 {
        let table = s.prims.reshape(table, vec![Expr::constant(1)]);
        return several(s, table, &[(0, index)]);
    }
    match s.prims.extent(table, dim).as_const() {
        Some(count) if count <= SHORT => search(s, table, dim, index, count),
        _ => several(s, table, &[(dim, index)]),
    }
}

fn search(s: &mut Step<'_>, table: PrimId, dim: usize, index: PrimId, count: i64) -> Result<PrimId> {
    let one = |n: usize| vec![Expr::constant(1); n];
    let (shape, places) = (s.prims.shape(table).to_vec(), s.prims.shape(index).to_vec());
    let after = shape.len() - dim;
    // The dimension of the table comes after those of the index, which take its place.
    let axis = dim + places.len();
    let mut wide = shape.clone();
    wide.splice(dim..dim, one(places.len()));
    let table = match s.prims.dtype(table) {
        // Sums are of numbers.
        DType::Bool => s.prims.cast(table, DType::I32),
        _ => table,
    };
    let table = s.prims.reshape(table, wide);
    let mut all = shape;
    all.splice(dim..dim, places.iter().cloned());
    let index = s.prims.reshape(index, [one(dim), places, one(after)].concat());
    let place = s.prims.coordinate(axis, all);
    let index = resolved(s, index, s.prims.dtype(place), &count.into())?;
    let is_named = s.prims.compare(CompareOp::Eq, place, index)?;
    let zero = s.prims.number(0.0);
    let named = s.prims.select(is_named, table, zero)?;
    Ok(s.prims.reduce(ReduceOp::Sum, named, &[axis], false))
}

/// The elements that indices name, each along a dimension; the indices have one shape together.
///
/// Its place is that of the dimensions if they are neighbours, else the front.
pub(super) fn several(s: &mut Step<'_>, table: PrimId, indices: &[(usize, PrimId)]) -> Result<PrimId> {
    let rank = s.prims.rank(table);
    let dims: Vec<usize> = indices.iter().map(|(dim, _)| *dim).collect();
    let (Some(first), Some(last)) = (dims.first().copied(), dims.last().copied()) else {
        return Err(Error::unexpected("an index without indices"));
    };
    let are_neighbours = last - first + 1 == dims.len();
    let others = (0..rank).filter(|dim| !dims.contains(dim));
    let (table, named) = if are_neighbours {
        (table, first..last + 1)
    } else {
        let order = dims.iter().copied().chain(others).collect();
        (s.prims.permute(table, order), 0..dims.len())
    };
    let mut picked = Vec::new();
    for (_, index) in indices {
        picked = broadcast(&picked, s.prims.shape(*index))?;
    }
    // Each number has a place in the dimensions before those that are named, and in those of the indices.
    let lead = s.prims.shape(table)[..named.start].to_vec();
    let all = [lead.as_slice(), &picked].concat();
    let mut terms = Vec::new();
    for dim in 0..named.start {
        terms.push((dim, s.prims.coordinate(dim, all.clone())));
    }
    for ((_, index), dim) in indices.iter().zip(named.clone()) {
        let index = resolved(s, *index, DType::I64, &s.prims.extent(table, dim))?;
        terms.push((dim, index));
    }
    gather(s, table, named, &terms, all)
}

/// The elements that an index names along a dimension, which has a number for each element of the result.
fn along(s: &mut Step<'_>, table: PrimId, dim: usize, index: PrimId) -> Result<PrimId> {
    let rank = s.prims.rank(table).max(1);
    let raised = |s: &mut Step<'_>, id: PrimId| match s.prims.rank(id) {
        0 => s.prims.reshape(id, vec![Expr::constant(1)]),
        _ => id,
    };
    let (table, index) = (raised(s, table), raised(s, index));
    let all = s.prims.shape(index).to_vec();
    let mut terms = Vec::new();
    for other in 0..rank {
        let place = if other == dim {
            resolved(s, index, DType::I64, &s.prims.extent(table, dim))?
        } else {
            s.prims.coordinate(other, all.clone())
        };
        terms.push((other, place));
    }
    gather(s, table, 0..rank, &terms, all)
}

/// `table` with the slices of `source` at the places along `dim` that an index names; the last one to a place stays.
///
/// Each place finds the last number of the index that is its own, and takes that slice if there is one.
fn replaced(s: &mut Step<'_>, table: PrimId, dim: usize, index: PrimId, source: PrimId) -> Result<PrimId> {
    let mut shape = s.prims.shape(table).to_vec();
    if shape.is_empty() {
        shape.push(Expr::constant(1));
    }
    let count = s.prims.extent(index, 0);
    let mut slices = shape.clone();
    let Some(extent) = slices.get_mut(dim) else {
        return Err(Error::unexpected("an index_copy along no dimension"));
    };
    let places = std::mem::replace(extent, count.clone());
    if shape.iter().chain(&slices).any(|extent| extent.is(0)) {
        return Ok(table);
    }
    let (table, source) = (
        s.prims.reshape(table, shape.clone()),
        s.prims.reshape(source, slices),
    );
    if let Some(output) = s.in_place()?.filter(|_| !places.is(1)) {
        return Ok(scatter(s, output, table, dim, [index, source]));
    }
    let along = |extent: Expr| {
        let mut shape = vec![Expr::constant(1); shape.len()];
        shape.splice(dim..=dim, [extent]);
        shape
    };
    if count.is(1) {
        let place = s.prims.coordinate(dim, shape.clone());
        let index = s.prims.reshape(index, along(count));
        let index = resolved(s, index, s.prims.dtype(place), &places)?;
        let is_named = s.prims.compare(CompareOp::Eq, place, index)?;
        return s.prims.select(is_named, source, table);
    }
    let pairs = vec![places.clone(), count.clone()];
    let (place, order) = (s.prims.coordinate(0, pairs.clone()), s.prims.coordinate(1, pairs));
    let index = s.prims.reshape(index, vec![Expr::constant(1), count]);
    let index = resolved(s, index, s.prims.dtype(place), &places)?;
    let is_named = s.prims.compare(CompareOp::Eq, place, index)?;
    let none = s.prims.number(-1.0);
    let own = s.prims.select(is_named, order, none)?;
    let last = s.prims.reduce(ReduceOp::Max, own, &[1], false);
    // A place without a number takes the last slice, which is in range, and drops it.
    let slice = one(s, source, dim, last)?;
    let slice = s.prims.cast(slice, s.prims.dtype(table));
    let zero = s.prims.number(0.0);
    let is_named = s.prims.compare(CompareOp::Ge, last, zero)?;
    let is_named = s.prims.reshape(is_named, along(places));
    s.prims.select(is_named, slice, table)
}

/// The same, as an output that stands in the place of `table`: only the slices are written.
fn scatter(s: &mut Step<'_>, output: usize, table: PrimId, dim: usize, operands: [PrimId; 2]) -> PrimId {
    let [index, source] = operands;
    let count = s.prims.extent(index, 0);
    let prim = Prim::Scatter {
        output,
        dim,
        operands: [s.prims.reshape(index, vec![count]), source],
    };
    let (dtype, shape) = (s.prims.dtype(table), s.prims.shape(table).to_vec());
    s.prims.push(prim, dtype, shape)
}

/// An index as numbers from 0 on, of type `dtype`: negative ones count from the end.
fn resolved(s: &mut Step<'_>, index: PrimId, dtype: DType, extent: &Expr) -> Result<PrimId> {
    let index = s.prims.cast(index, dtype);
    let (zero, count) = (s.prims.number(0.0), s.prims.integer(extent));
    let from_end = s.prims.compare(CompareOp::Lt, index, zero)?;
    let turned = s.prims.add(index, count)?;
    s.prims.select(from_end, turned, index)
}

/// Rows of a table, which has one for each place in the dimensions up to the end of `named`. Its number is the sum of
/// `terms`, each a coordinate along a dimension; there are `all` of them.
fn gather(
    s: &mut Step<'_>,
    table: PrimId,
    named: Range<usize>,
    terms: &[(usize, PrimId)],
    all: Vec<Expr>,
) -> Result<PrimId> {
    let shape = s.prims.shape(table).to_vec();
    let product = |extents: &[Expr]| extents.iter().fold(Expr::constant(1), |all, e| &all * e);
    let (rows, row) = shape.split_at(named.end);
    let mut number: Option<PrimId> = None;
    for (dim, place) in terms {
        let stride = product(&rows[dim + 1..]);
        let place = s.prims.cast(*place, DType::I64);
        let stride = s.prims.integer(&stride);
        let term = s.prims.mul(place, stride)?;
        number = Some(match number {
            Some(number) => s.prims.add(number, term)?,
            None => term,
        });
    }
    let number = number.ok_or_else(|| Error::unexpected("an index without indices"))?;
    let number = s.prims.expand(number, all.clone());
    let number = s.prims.copy(number);
    let number = s.prims.reshape(number, vec![product(&all)]);
    let flat = s.prims.reshape(table, vec![product(rows), product(row)]);
    if product(rows).is(1) {
        let only = s.prims.expand(flat, vec![product(&all), product(row)]);
        return Ok(s.prims.reshape(only, [all.as_slice(), row].concat()));
    }
    let gathered = Prim::Gather(flat, number);
    let dtype = s.prims.dtype(table);
    let gathered = s.prims.push(gathered, dtype, vec![product(&all), product(row)]);
    Ok(s.prims.reshape(gathered, [all.as_slice(), row].concat()))
}
