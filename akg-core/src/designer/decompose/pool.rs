//! Pooling whose windows lie side by side and cover everything: reductions over a dimension for the place in the window.

use super::Step;
use crate::designer::prim::PrimId;
use crate::error::Result;
use crate::expr::Expr;
use crate::sketch::ir::ReduceOp;

/// Windows that cut the last dimensions of a value into equal parts.
struct Windows {
    /// The extent of a window along each pooled dimension.
    lengths: Vec<i64>,
    /// How many there are.
    counts: Vec<i64>,
}

pub(super) fn decompose(s: &mut Step<'_>, name: &str) -> Result<Option<Vec<PrimId>>> {
    let op = match name {
        "max_pool1d" | "max_pool2d" | "max_pool3d" => ReduceOp::Max,
        "avg_pool1d"
        | "avg_pool2d"
        | "avg_pool3d"
        | "adaptive_avg_pool1d"
        | "adaptive_avg_pool2d"
        | "_adaptive_avg_pool2d"
        | "adaptive_avg_pool3d"
        | "_adaptive_avg_pool3d" => ReduceOp::Sum,
        _ => return Ok(None),
    };
    let x = s.tensor("self")?;
    let windows = if name.contains("adaptive") {
        equal(s, x)?
    } else {
        apart(s, x)?
    };
    let Some(windows) = windows else {
        return Ok(None);
    };
    let divisor = match s.call.opt_arg("divisor_override") {
        Some(_) => s.call.opt_int("divisor_override")?,
        None => None,
    };
    let elements: i64 = windows.lengths.iter().product();
    let mut pooled = reduce(s, op, x, &windows);
    if op == ReduceOp::Sum {
        let divisor = s.prims.number(divisor.unwrap_or(elements) as f64);
        pooled = s.prims.div(pooled, divisor)?;
    }
    Ok(Some(vec![pooled]))
}

/// The extents of the pooled dimensions of `x`; `None` if one is not known.
fn extents(s: &Step<'_>, x: PrimId, count: usize) -> Option<Vec<i64>> {
    let first = s.prims.rank(x).checked_sub(count)?;
    let shape = s.prims.shape(x).iter().skip(first);
    shape.map(Expr::as_const).collect()
}

/// The windows of an adaptive pool that are all equal.
fn equal(s: &Step<'_>, x: PrimId) -> Result<Option<Windows>> {
    let sizes: Option<Vec<i64>> = s.call.sizes("output_size")?.iter().map(Expr::as_const).collect();
    let Some((counts, extents)) = sizes.and_then(|c| extents(s, x, c.len()).map(|e| (c, e))) else {
        return Ok(None);
    };
    let divides = |(count, extent): (&i64, &i64)| *count > 0 && extent % count == 0;
    let is_equal = counts.iter().zip(&extents).all(divides);
    let lengths = counts
        .iter()
        .zip(&extents)
        .map(|(c, e)| e / (*c).max(1))
        .collect();
    Ok(is_equal.then_some(Windows { lengths, counts }))
}

/// The windows of a pool without overlap, gaps, padding or rests.
fn apart(s: &Step<'_>, x: PrimId) -> Result<Option<Windows>> {
    let digit = s.call.op().name().chars().find_map(|c| c.to_digit(10));
    let dims = digit.unwrap_or(2) as usize;
    let lengths = s.call.per_dimension("kernel_size", dims, 1)?;
    let strides = if s.call.sizes("stride")?.is_empty() {
        lengths.clone()
    } else {
        s.call.per_dimension("stride", dims, 1)?
    };
    let dilated = match s.call.opt_arg("dilation") {
        Some(_) => s.call.per_dimension("dilation", dims, 1)?.iter().any(|d| *d != 1),
        None => false,
    };
    let padded = s.call.per_dimension("padding", dims, 0)?.iter().any(|p| *p != 0);
    let Some(extents) = extents(s, x, dims) else {
        return Ok(None);
    };
    let counts: Option<Vec<i64>> = s
        .result(0)?
        .shape
        .iter()
        .rev()
        .take(dims)
        .rev()
        .map(Expr::as_const)
        .collect();
    let Some(counts) = counts.filter(|_| !dilated && !padded) else {
        return Ok(None);
    };
    let fits = (0..dims)
        .all(|i| (strides[i] == lengths[i] || counts[i] == 1) && counts[i] * lengths[i] == extents[i]);
    Ok(fits.then_some(Windows { lengths, counts }))
}

fn reduce(s: &mut Step<'_>, op: ReduceOp, x: PrimId, windows: &Windows) -> PrimId {
    let first = s.prims.rank(x) - windows.counts.len();
    let mut shape: Vec<Expr> = s.prims.shape(x)[..first].to_vec();
    let mut axes = Vec::new();
    for (count, length) in windows.counts.iter().zip(&windows.lengths) {
        shape.push((*count).into());
        axes.push(shape.len());
        shape.push((*length).into());
    }
    let split = s.prims.reshape(x, shape);
    s.prims.reduce(op, split, &axes, false)
}
