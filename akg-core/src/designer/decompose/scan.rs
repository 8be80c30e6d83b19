//! Cumulative sums and products.

use super::{Step, recur};
use crate::designer::prim::{Prim, PrimId, Prims, Scan};
use crate::error::Result;
use crate::sketch::ir::ReduceOp;

pub(super) fn decompose(s: &mut Step<'_>, name: &str) -> Result<Option<Vec<PrimId>>> {
    let op = match name {
        "cumsum" => ReduceOp::Sum,
        "cumprod" => ReduceOp::Prod,
        "linear_recurrence" => return recur::linear(s).map(|hidden| Some(vec![hidden])),
        _ => return Ok(None),
    };
    let (x, result) = (s.tensor("self")?, s.result(0)?.clone());
    let x = s.prims.cast(x, result.dtype);
    if result.shape.is_empty() {
        return Ok(Some(vec![x]));
    }
    let scan = Scan {
        op,
        dim: s.dim("dim", result.shape.len())?,
        exclusive: false,
        reverse: false,
    };
    Ok(Some(vec![s.prims.scan(scan, x)]))
}

/// The exclusive scan that a concatenation along `dim` spells out: the identity, then the scan of all elements but the
/// last; or the same from the end.
pub(super) fn exclusive(prims: &mut Prims, parts: &[PrimId], dim: usize) -> Option<PrimId> {
    let &[first, second] = parts else { return None };
    let (edge, scanned, is_reverse) = match prims.constant(first) {
        Some(edge) => (edge, second, false),
        None => (prims.constant(second)?, first, true),
    };
    let Prim::Scan(scan, part) = prims.node(scanned).prim.clone() else {
        return None;
    };
    let Prim::Window(window, whole) = prims.node(part).prim.clone() else {
        return None;
    };
    let identity = match scan.op {
        ReduceOp::Sum => 0.0,
        ReduceOp::Prod => 1.0,
        ReduceOp::Max | ReduceOp::Min => return None,
    };
    let fits = scan.dim == dim
        && !scan.exclusive
        && scan.reverse == is_reverse
        && window.dim == dim
        && window.steps == [1]
        && window.start.is(i64::from(is_reverse))
        && edge == identity
        && (prims.extent(whole, dim) - prims.extent(part, dim)).is(1);
    fits.then(|| {
        prims.scan(
            Scan {
                exclusive: true,
                ..scan
            },
            whole,
        )
    })
}
