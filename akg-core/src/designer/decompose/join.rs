//! Operators that join tensors or take them apart.

use super::{Step, scan};
use crate::designer::prim::PrimId;
use crate::designer::window::Window;
use crate::error::Result;
use crate::expr::Expr;
use crate::sketch::ir::CompareOp;

pub(super) fn decompose(s: &mut Step<'_>, name: &str) -> Result<Option<Vec<PrimId>>> {
    let results = match name {
        "broadcast_tensors" => {
            let tensors = s.tensors("tensors")?;
            let shapes: Vec<_> = s.results.iter().map(|r| r.shape.clone()).collect();
            let expanded = tensors.into_iter().zip(shapes);
            expanded.map(|(x, shape)| s.prims.expand(x, shape)).collect()
        }
        "split" | "split_with_sizes" | "chunk" | "unbind" => {
            let x = s.tensor("self")?;
            let dim = s.dim("dim", s.prims.rank(x))?;
            parts(s, x, dim, name == "unbind")
        }
        "cat" => {
            let dim = s.dim("dim", s.result(0)?.shape.len())?;
            let all = s.tensors("tensors")?;
            // Tensors of shape [0] are skipped whatever the rank of the others.
            let is_nothing = |x: &PrimId| matches!(s.prims.shape(*x), [only] if only.is(0));
            let tensors: Vec<PrimId> = all.iter().copied().filter(|x| !is_nothing(x)).collect();
            let tensors = if tensors.is_empty() { all } else { tensors };
            vec![join(s, &tensors, dim)?]
        }
        "stack" => {
            let dim = s.dim("dim", s.result(0)?.shape.len())?;
            let tensors = s.tensors("tensors")?;
            vec![stack(s, &tensors, dim)?]
        }
        _ => return Ok(None),
    };
    Ok(Some(results))
}

/// Neighbouring parts along a dimension, of the results' shapes; a dimension of extent 1 is dropped with `drops`.
fn parts(s: &mut Step<'_>, x: PrimId, dim: usize, drops: bool) -> Vec<PrimId> {
    let mut start = Expr::constant(0);
    let mut out = Vec::new();
    for result in s.results.clone() {
        let count = match result.shape.get(dim) {
            Some(extent) if !drops => extent.clone(),
            _ => Expr::constant(1),
        };
        let window = Window::new(dim, start.clone(), 1);
        let part = s.prims.window(x, window, count.clone());
        out.push(s.prims.reshape(part, result.shape));
        start = start + count;
    }
    out
}

/// Tensors of one shape side by side along a new dimension.
pub(super) fn stack(s: &mut Step<'_>, tensors: &[PrimId], dim: usize) -> Result<PrimId> {
    let slices = tensors.iter().map(|x| {
        let mut shape = s.prims.shape(*x).to_vec();
        shape.insert(dim.min(shape.len()), Expr::constant(1));
        s.prims.reshape(*x, shape)
    });
    let slices: Vec<_> = slices.collect();
    join(s, &slices, dim)
}

/// Tensors one after the other along a dimension: each is shifted to its place, and the coordinate selects among them.
pub(super) fn join(s: &mut Step<'_>, tensors: &[PrimId], dim: usize) -> Result<PrimId> {
    if let Some(scan) = scan::exclusive(s.prims, tensors, dim) {
        return Ok(scan);
    }
    let dtype = s.dtype()?;
    let extents = tensors.iter().map(|x| s.prims.extent(*x, dim));
    let extent = extents.fold(Expr::constant(0), |all, extent| all + extent);
    let mut shape = tensors.first().map_or(Vec::new(), |x| s.prims.shape(*x).to_vec());
    if let Some(slot) = shape.get_mut(dim) {
        *slot = extent.clone();
    }
    let values = tensors.iter().map(|x| s.prims.constant(*x));
    if let Some([value, others @ ..]) = values.collect::<Option<Vec<f64>>>().as_deref()
        && others.iter().all(|other| other == value)
    {
        return Ok(s.prims.full(*value, dtype, shape));
    }
    let place = s.prims.coordinate(dim, shape.clone());
    let mut joined: Option<PrimId> = None;
    let mut end = extent.clone();
    for x in tensors.iter().rev() {
        let start = end.clone() - s.prims.extent(*x, dim);
        let part = match s.prims.constant(*x) {
            Some(value) => s.prims.full(value, dtype, shape.clone()),
            None => {
                let x = s.prims.cast(*x, dtype);
                shifted(s, x, dim, &start, &extent)
            }
        };
        joined = Some(match joined {
            None => part,
            Some(later) => {
                let end = s.prims.integer(&end);
                let here = s.prims.compare(CompareOp::Lt, place, end)?;
                s.prims.select(here, part, later)?
            }
        });
        end = start;
    }
    Ok(joined.unwrap_or_else(|| s.prims.full(0.0, dtype, shape)))
}

/// `x` with its first element along `dim` at `start`. A single element is everywhere, for selections to pick.
pub(super) fn shifted(s: &mut Step<'_>, x: PrimId, dim: usize, start: &Expr, extent: &Expr) -> PrimId {
    let mut shape = s.prims.shape(x).to_vec();
    match shape.get_mut(dim) {
        Some(slot) if slot.is(1) => {
            *slot = extent.clone();
            s.prims.expand(x, shape)
        }
        _ => {
            let window = Window::new(dim, -start.clone(), 1);
            s.prims.window(x, window, extent.clone())
        }
    }
}
