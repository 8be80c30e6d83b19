//! Windows of adaptive pools, which may overlap and differ in length: window `i` of `O` sees the elements from
//! `floor(i E / O)` to `ceil((i + 1) E / O)` of the `E` that there are.

use super::Step;
use crate::designer::prim::{PrimId, Prims};
use crate::dtype::DType;
use crate::error::Result;
use crate::expr::Expr;
use crate::sketch::ir::{BinaryOp, CompareOp, ReduceOp};

/// Combines what each window sees, along one dimension after the other; sums are divided by the number of elements.
pub(super) fn pool(
    s: &mut Step<'_>,
    op: ReduceOp,
    x: PrimId,
    counts: &[i64],
    extents: &[i64],
) -> Result<PrimId> {
    let first = s.prims.rank(x) - counts.len();
    let mut pooled = x;
    for (dim, (count, extent)) in (first..).zip(counts.iter().zip(extents)) {
        let seen = spread(s.prims, pooled, dim, *count);
        let shape = s.prims.shape(seen).to_vec();
        let place = s.prims.coordinate(dim, shape.clone());
        let element = s.prims.coordinate(dim + 1, shape);
        let inside = inside(s.prims, place, element, *count, *extent)?;
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
            let (start, end) = bounds(s.prims, place, *count, *extent)?;
            let length = s.prims.sub(end, start)?;
            let dtype = s.prims.dtype(pooled);
            let length = s.prims.cast(length, dtype);
            pooled = s.prims.div(pooled, length)?;
        }
    }
    Ok(pooled)
}

/// The place of each window's maximum among all elements of the pooled dimensions.
pub(super) fn places(
    s: &mut Step<'_>,
    x: PrimId,
    maxima: PrimId,
    counts: &[i64],
    extents: &[i64],
) -> Result<PrimId> {
    let dims = counts.len();
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
    let mut hit = first_of(s.prims, x, maxima)?;
    let mut flat = None;
    for (i, (count, extent)) in counts.iter().zip(extents).enumerate() {
        let place = s.prims.coordinate(first + i, shape.clone());
        let element = s.prims.coordinate(first + dims + i, shape.clone());
        let inside = inside(s.prims, place, element, *count, *extent)?;
        hit = s.prims.binary(BinaryOp::And, hit, inside)?;
        let element = s.prims.cast(element, DType::I64);
        flat = Some(match flat {
            None => element,
            Some(flat) => {
                let rows = s.prims.mul_number(flat, *extent as f64)?;
                s.prims.add(rows, element)?
            }
        });
    }
    let axes: Vec<usize> = (first + dims..first + 2 * dims).collect();
    match flat {
        Some(flat) => first_place(s.prims, hit, flat, &axes),
        None => Ok(hit),
    }
}

/// Whether an element is what a maximum was taken from: as large, or not a number as the maximum is none.
pub(super) fn first_of(p: &mut Prims, x: PrimId, maxima: PrimId) -> Result<PrimId> {
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

/// Where the window at `place` starts and ends.
fn bounds(p: &mut Prims, place: PrimId, count: i64, extent: i64) -> Result<(PrimId, PrimId)> {
    let place = p.cast(place, DType::I64);
    let start = p.mul_number(place, extent as f64)?;
    let end = p.add_number(start, (extent + count - 1) as f64)?;
    let count = p.number(count as f64);
    Ok((
        p.binary(BinaryOp::FloorDiv, start, count)?,
        p.binary(BinaryOp::FloorDiv, end, count)?,
    ))
}

fn inside(p: &mut Prims, place: PrimId, element: PrimId, count: i64, extent: i64) -> Result<PrimId> {
    let (start, end) = bounds(p, place, count, extent)?;
    let element = p.cast(element, DType::I64);
    let after = p.compare(CompareOp::Ge, element, start)?;
    let before = p.compare(CompareOp::Lt, element, end)?;
    p.binary(BinaryOp::And, after, before)
}
