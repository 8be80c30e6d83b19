//! Elements at other positions, paddings and triangles.

use super::join::{join, shifted};
use super::view::coordinates;
use super::{Step, index, normalise};
use crate::designer::prim::PrimId;
use crate::designer::window::Window;
use crate::error::Result;
use crate::expr::Expr;
use crate::sketch::ir::{BinaryOp, CompareOp};

pub(super) fn decompose(s: &mut Step<'_>, name: &str) -> Result<Option<Vec<PrimId>>> {
    let result = match name {
        "flip" => {
            let mut x = s.tensor("self")?;
            for dim in s.call.ints("dims")? {
                let dim = normalise(dim, s.prims.rank(x))?;
                x = s.prims.flip(x, dim);
            }
            x
        }
        "repeat" => repeat(s)?,
        "triu" | "tril" => {
            let x = s.tensor("self")?;
            let diagonal = s.call.number("diagonal")?;
            let op = if name == "triu" {
                CompareOp::Ge
            } else {
                CompareOp::Le
            };
            let inside = triangle(s, x, op, diagonal)?;
            let zero = s.prims.number(0.0);
            s.prims.select(inside, x, zero)?
        }
        "roll" => roll(s)?,
        "constant_pad_nd" => {
            let value = s.call.number("value")?;
            pad(s, value)?
        }
        "pad" if s.call.str("mode")? == "constant" => {
            let value = s.call.opt_number("value")?.unwrap_or(0.0);
            pad(s, value)?
        }
        "pad" => match mirrored(s)? {
            Some(padded) => padded,
            None => return Ok(None),
        },
        _ => return Ok(None),
    };
    Ok(Some(vec![result]))
}

/// A tensor several times along each dimension.
fn repeat(s: &mut Step<'_>) -> Result<PrimId> {
    let (x, result) = (s.tensor("self")?, s.result(0)?.shape.clone());
    let repeats = s.call.sizes("repeats")?;
    let new = repeats.len().saturating_sub(s.prims.rank(x));
    let (mut apart, mut wide) = (Vec::new(), Vec::new());
    for (dim, count) in repeats.iter().enumerate() {
        let extent = match dim.checked_sub(new) {
            Some(own) => s.prims.extent(x, own),
            None => Expr::constant(1),
        };
        apart.extend([Expr::constant(1), extent.clone()]);
        wide.extend([count.clone(), extent]);
    }
    let apart = s.prims.reshape(x, apart);
    let wide = s.prims.expand(apart, wide);
    Ok(s.prims.reshape(wide, result))
}

/// A tensor whose last elements along dimensions come first; without dimensions, all elements are one row.
fn roll(s: &mut Step<'_>) -> Result<PrimId> {
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
            rolled = roll_open(s, rolled, dim, shift)?;
            continue;
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
    Ok(s.prims.reshape(rolled, shape))
}

/// Rolls along one dimension of an open extent. It may be less than the shift, so places are remainders.
fn roll_open(s: &mut Step<'_>, x: PrimId, dim: usize, shift: i64) -> Result<PrimId> {
    let extent = s.prims.extent(x, dim);
    let place = s.prims.coordinate(0, vec![extent.clone()]);
    let shift = s.prims.integer(&Expr::constant(shift));
    let from = s.prims.sub(place, shift)?;
    let count = s.prims.integer(&extent);
    let from = s.prims.binary(BinaryOp::Mod, from, count)?;
    index::several(s, x, &[(dim, from)])
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

/// The mask of `column op row + diagonal` in the matrices of `x`.
pub(super) fn triangle(s: &mut Step<'_>, x: PrimId, op: CompareOp, diagonal: f64) -> Result<PrimId> {
    let shape = s.prims.shape(x).to_vec();
    let rank = shape.len();
    let [row, column] = coordinates(s, shape, [rank - 2, rank - 1]);
    let edge = if diagonal == 0.0 {
        row
    } else {
        s.prims.add_number(row, diagonal)?
    };
    s.prims.compare(op, column, edge)
}
