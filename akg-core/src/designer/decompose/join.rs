//! Operators that join tensors, take them apart, or surround them.

use super::{Step, normalise, scan};
use crate::designer::prim::PrimId;
use crate::designer::window::Window;
use crate::error::Result;
use crate::expr::Expr;
use crate::sketch::ir::{BinaryOp, CompareOp};

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
        "roll" => match roll(s)? {
            Some(rolled) => vec![rolled],
            None => return Ok(None),
        },
        "constant_pad_nd" => {
            let value = s.call.number("value")?;
            vec![pad(s, value)?]
        }
        "pad" if s.call.str("mode")? == "constant" => {
            let value = s.call.opt_number("value")?.unwrap_or(0.0);
            vec![pad(s, value)?]
        }
        "pad" => match mirrored(s)? {
            Some(padded) => vec![padded],
            None => return Ok(None),
        },
        _ => return Ok(None),
    };
    Ok(Some(results))
}

/// A tensor with its own elements beyond its ends: reflected at the last one, the last one again, or those of the other end.
/// `None` for extents that are not known.
fn mirrored(s: &mut Step<'_>) -> Result<Option<PrimId>> {
    let mut x = s.tensor("self")?;
    let (mode, amounts) = (s.call.str("mode")?.to_owned(), s.call.ints("pad")?);
    let rank = s.prims.rank(x);
    for (i, pair) in amounts.chunks_exact(2).enumerate() {
        let &[before, after] = pair else { continue };
        let dim = normalise(-1 - i as i64, rank)?;
        let Some(extent) = s.prims.extent(x, dim).as_const() else {
            return Ok(None);
        };
        // What is cut off is not repeated at the other end.
        let (low, high) = ((-before).max(0), extent - (-after).max(0));
        let place = |at: i64| match mode.as_str() {
            "reflect" if at < 0 => Some(-at),
            "reflect" if at >= extent => Some(2 * (extent - 1) - at),
            "replicate" => Some(at.clamp(0, extent - 1)),
            "circular" => Some(low + (at - low).rem_euclid((high - low).max(1))),
            "reflect" => Some(at),
            _ => None,
        };
        // Neighbouring places that are read in one direction are one part.
        let places: Option<Vec<i64>> = (-before..extent + after).map(place).collect();
        let Some(places) = places else {
            return Ok(None);
        };
        let mut parts: Vec<(i64, i64, i64)> = Vec::new();
        for at in places {
            match parts.last_mut() {
                Some((first, step, count)) if *count == 1 && (at - *first).abs() <= 1 => {
                    (*step, *count) = (at - *first, 2);
                }
                Some((first, step, count)) if *count > 1 && at == *first + *step * *count => *count += 1,
                _ => parts.push((at, 1, 1)),
            }
        }
        let parts: Vec<PrimId> = parts
            .into_iter()
            .map(|(first, step, count)| {
                if step == 0 {
                    let part = s.prims.window(x, Window::new(dim, first.into(), 1), 1.into());
                    let mut shape = s.prims.shape(part).to_vec();
                    shape[dim] = count.into();
                    return s.prims.expand(part, shape);
                }
                s.prims
                    .window(x, Window::new(dim, first.into(), step), count.into())
            })
            .collect();
        x = join(s, &parts, dim)?;
    }
    Ok(Some(x))
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

/// A tensor whose last elements along dimensions come first; without dimensions, all elements are one row. `None` for extents
/// that are not known.
fn roll(s: &mut Step<'_>) -> Result<Option<PrimId>> {
    let x = s.tensor("self")?;
    let (shifts, mut dims) = (s.call.ints("shifts")?, s.call.ints("dims")?);
    let mut rolled = x;
    if dims.is_empty() {
        rolled = s.prims.row(x);
        dims.push(0);
    }
    for (shift, dim) in shifts.into_iter().zip(dims) {
        let dim = normalise(dim, s.prims.rank(rolled))?;
        let Some(extent) = s.prims.extent(rolled, dim).as_const() else {
            return Ok(None);
        };
        let shift = shift.rem_euclid(extent.max(1));
        if shift > 0 {
            let part = |s: &mut Step<'_>, start: i64, count: i64| {
                let window = Window::new(dim, start.into(), 1);
                s.prims.window(rolled, window, count.into())
            };
            let parts = [part(s, extent - shift, shift), part(s, 0, extent - shift)];
            rolled = join(s, &parts, dim)?;
        }
    }
    let shape = s.result(0)?.shape.clone();
    Ok(Some(s.prims.reshape(rolled, shape)))
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
fn shifted(s: &mut Step<'_>, x: PrimId, dim: usize, start: &Expr, extent: &Expr) -> PrimId {
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

/// The last dimensions with `value` before and after, or without as many elements if negative.
fn pad(s: &mut Step<'_>, value: f64) -> Result<PrimId> {
    let mut x = s.tensor("self")?;
    let amounts = s.call.ints("pad")?;
    let rank = s.prims.rank(x);
    for (i, pair) in amounts.chunks_exact(2).enumerate() {
        let &[before, after] = pair else { continue };
        let dim = normalise(-1 - i as i64, rank)?;
        let own = s.prims.extent(x, dim);
        let extent = own.clone() + (before + after);
        x = shifted(s, x, dim, &before.into(), &extent);
        if (value != 0.0 || own.is(1)) && (before > 0 || after > 0) {
            let shape = s.prims.shape(x).to_vec();
            let place = s.prims.coordinate(dim, shape);
            let (first, end) = (s.prims.integer(&before.into()), s.prims.integer(&(own + before)));
            let low = s.prims.compare(CompareOp::Ge, place, first)?;
            let high = s.prims.compare(CompareOp::Lt, place, end)?;
            let inside = s.prims.binary(BinaryOp::And, low, high)?;
            let value = s.prims.number(value);
            x = s.prims.select(inside, x, value)?;
        }
    }
    Ok(x)
}
