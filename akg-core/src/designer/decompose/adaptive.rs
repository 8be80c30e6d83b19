//! Windows of adaptive pools, which may overlap and differ in length: window `i` of `O` sees the elements from
//! `floor(i E / O)` to `ceil((i + 1) E / O)` of the `E` that there are.

use super::Step;
use crate::designer::prim::{PrimId, Prims};
use crate::dtype::DType;
use crate::error::Result;
use crate::expr::Expr;
use crate::sketch::ir::{BinaryOp, CompareOp, ReduceOp};

/// The numbers of windows and of elements along a dimension.
#[derive(Debug, Clone, Copy)]
pub(super) struct Size {
    pub(super) count: i64,
    pub(super) extent: i64,
}

/// Combines what each window sees, along one dimension after the other; sums are divided by the number of elements.
pub(super) fn pool(s: &mut Step<'_>, op: ReduceOp, x: PrimId, sizes: &[Size]) -> Result<PrimId> {
    let first = s.prims.rank(x) - sizes.len();
    let mut pooled = x;
    for (dim, size) in (first..).zip(sizes) {
        let seen = spread(s.prims, pooled, dim, size.count);
        let shape = s.prims.shape(seen).to_vec();
        let place = s.prims.coordinate(dim, shape.clone());
        let element = s.prims.coordinate(dim + 1, shape);
        let inside = inside(s.prims, place, element, *size)?;
        let neutral = s.prims.number(if op == ReduceOp::Sum {
            0.0
        } else {
            f64::NEG_INFINITY
        });
        let masked = s.prims.select(inside, seen, neutral)?;
        pooled = s.prims.reduce(op, masked, &[dim + 1], false);
        if op == ReduceOp::Sum {
            let shape = s.prims.shape(pooled).to_vec();
            let place = s.prims.coordinate(dim, shape);
            let (start, end) = bounds(s.prims, place, *size)?;
            let length = s.prims.sub(end, start)?;
            let dtype = s.prims.dtype(pooled);
            let length = s.prims.cast(length, dtype);
            pooled = s.prims.div(pooled, length)?;
        }
    }
    Ok(pooled)
}

/// The place of each window's maximum among all elements of the pooled dimensions.
pub(super) fn places(s: &mut Step<'_>, x: PrimId, maxima: PrimId, sizes: &[Size]) -> Result<PrimId> {
    let dims = sizes.len();
    let first = s.prims.rank(x) - dims;
    let mut shape: Vec<Expr> = s.prims.shape(maxima).to_vec();
    shape.extend(vec![Expr::constant(1); dims]);
    let maxima = s.prims.reshape(maxima, shape.clone());
    let mut full = s.prims.shape(x)[..first].to_vec();
    full.extend(vec![Expr::constant(1); dims]);
    full.extend(s.prims.shape(x)[first..].to_vec());
    let x = s.prims.reshape(x, full);
    let shape: Vec<Expr> = shape[..first + dims]
        .iter()
        .chain(&s.prims.shape(x)[first + dims..])
        .cloned()
        .collect();
    let (x, maxima) = (
        s.prims.expand(x, shape.clone()),
        s.prims.expand(maxima, shape.clone()),
    );
    let mut hit = is_maximum(s.prims, x, maxima)?;
    let mut flat = s.prims.full(0.0, DType::I64, shape.clone());
    for (i, size) in sizes.iter().enumerate() {
        let place = s.prims.coordinate(first + i, shape.clone());
        let element = s.prims.coordinate(first + dims + i, shape.clone());
        let inside = inside(s.prims, place, element, *size)?;
        hit = s.prims.binary(BinaryOp::And, hit, inside)?;
        let element = s.prims.cast(element, DType::I64);
        flat = numbered(s.prims, flat, element, size.extent)?;
    }
    let axes: Vec<usize> = (first + dims..first + 2 * dims).collect();
    first_place(s.prims, hit, flat, &axes)
}

/// The number of a row's element among the elements of `rows`, each of `extent` elements.
pub(super) fn numbered(p: &mut Prims, rows: PrimId, element: PrimId, extent: i64) -> Result<PrimId> {
    let before = p.mul_number(rows, extent as f64)?;
    p.add(before, element)
}

/// Tells whether an element is as large as the maximum, or no number, as the maximum is none then.
pub(super) fn is_maximum(p: &mut Prims, x: PrimId, maxima: PrimId) -> Result<PrimId> {
    let equal = p.compare(CompareOp::Eq, x, maxima)?;
    let differs = p.compare(CompareOp::Ne, x, x)?;
    p.binary(BinaryOp::Or, equal, differs)
}

/// The least place along `axes` at which `hit` holds.
pub(super) fn first_place(p: &mut Prims, hit: PrimId, place: PrimId, axes: &[usize]) -> Result<PrimId> {
    let beyond = p.number((1i64 << 53) as f64);
    let place = p.select(hit, place, beyond)?;
    Ok(p.reduce(ReduceOp::Min, place, axes, false))
}

/// `x` with a dimension of `count` windows before `dim`.
fn spread(p: &mut Prims, x: PrimId, dim: usize, count: i64) -> PrimId {
    let mut shape = p.shape(x).to_vec();
    shape.insert(dim, Expr::constant(1));
    let x = p.reshape(x, shape.clone());
    shape[dim] = count.into();
    p.expand(x, shape)
}

/// The start and the end of the window at `place`.
fn bounds(p: &mut Prims, place: PrimId, Size { count, extent }: Size) -> Result<(PrimId, PrimId)> {
    let place = p.cast(place, DType::I64);
    let start = p.mul_number(place, extent as f64)?;
    let end = p.add_number(start, (extent + count - 1) as f64)?;
    let count = p.number(count as f64);
    Ok((
        p.binary(BinaryOp::FloorDiv, start, count)?,
        p.binary(BinaryOp::FloorDiv, end, count)?,
    ))
}

fn inside(p: &mut Prims, place: PrimId, element: PrimId, size: Size) -> Result<PrimId> {
    let (start, end) = bounds(p, place, size)?;
    let element = p.cast(element, DType::I64);
    let after = p.compare(CompareOp::Ge, element, start)?;
    let before = p.compare(CompareOp::Lt, element, end)?;
    p.binary(BinaryOp::And, after, before)
}
