//! Calls that move elements: views, joins, shifts, elements by index, tensors from nothing.

use crate::dtype::DType;
use crate::error::Result;
use crate::graph::{Arg, ValueId};

use super::grow::{Grower, closed};

/// A shape of as many elements.
fn other_shape(g: &mut Grower, shape: &[i64]) -> Result<Vec<i64>> {
    let mut factors: Vec<i64> = Vec::new();
    for extent in shape {
        let mut rest = *extent;
        let mut divisor = 2;
        while divisor * divisor <= rest {
            while rest % divisor == 0 {
                factors.push(divisor);
                rest /= divisor;
            }
            divisor += 1;
        }
        if rest > 1 {
            factors.push(rest);
        }
    }
    let mut out = vec![1; 1 + g.below(4) as usize];
    let is_ordered = g.chance(0.7);
    let mut at = 0;
    for (i, factor) in factors.iter().enumerate() {
        let last = out.len() as i64 - 1;
        at = match is_ordered {
            true if i > 0 && g.chance(0.4) => (at + 1).min(last),
            true => at,
            false => g.below(last + 1),
        };
        if let Some(extent) = out.get_mut(at as usize) {
            *extent *= factor;
        }
    }
    Ok(out)
}

fn any(g: &mut Grower) -> Result<ValueId> {
    if g.chance(0.85) {
        g.float(1, 5)
    } else {
        g.value(|g, v| g.rank(v) > 0)
    }
}

pub(super) fn view(g: &mut Grower) -> Result<()> {
    let x = any(g)?;
    let (shape, rank) = (g.shape(x), g.rank(x));
    let dim = g.dim(x)?;
    let at = if dim < 0 { dim + rank } else { dim };
    let extent = shape.get(at as usize).copied().unwrap_or(1);
    match g.below(14) {
        0..2 => {
            let shape = other_shape(g, &shape)?;
            g.graph.reshape(x, shape).map(drop)
        }
        2 => {
            let end = at + g.below(rank - at);
            g.graph.flatten(x, at, end).map(drop)
        }
        3 | 4 => {
            let mut dims: Vec<i64> = (0..rank).collect();
            for i in (1..dims.len()).rev() {
                let j = g.below(i as i64 + 1) as usize;
                dims.swap(i, j);
            }
            g.graph.permute(x, &dims).map(drop)
        }
        5 => {
            let other = g.dim(x)?;
            g.graph.transpose(x, dim, other).map(drop)
        }
        6 => {
            let place = g.below(rank + 1);
            let x = g.graph.unsqueeze(x, place)?;
            let mut shape = g.shape(x);
            if let Some(extent) = shape.get_mut(place as usize)
                && g.chance(0.6)
            {
                *extent = g.small();
                return g.graph.expand(x, shape).map(drop);
            }
            Ok(())
        }
        7 => g.graph.squeeze(x, dim).map(drop),
        8..10 => {
            let (start, step) = (g.below(extent), g.pick(&[1, 1, 2, 3])?);
            let end = start + 1 + g.below(extent - start);
            g.graph.slice(x, dim, start, end, step).map(drop)
        }
        10 => {
            let index = g.below(extent);
            let index = if g.chance(0.3) { index - extent } else { index };
            g.graph.select(x, dim, index).map(drop)
        }
        11 => {
            let (start, length) = (g.below(extent), 1 + g.below(extent));
            let args = [
                ("self", x.into()),
                ("dim", dim.into()),
                ("start", start.into()),
                ("length", length.min(extent - start).into()),
            ];
            g.call("narrow.default", args).map(drop)
        }
        12 => {
            let size = (1 + g.below(4)).min(extent);
            let args = [
                ("self", x.into()),
                ("dimension", dim.into()),
                ("size", size.into()),
                ("step", (1 + g.below(3)).into()),
            ];
            g.call("unfold.default", args).map(drop)
        }
        _ => {
            let dims = g.dims(x)?;
            g.call("flip.default", [("self", x.into()), ("dims", dims.into())])
                .map(drop)
        }
    }
}

pub(super) fn arrangement(g: &mut Grower) -> Result<()> {
    let x = any(g)?;
    let (dtype, shape, dim) = (g.dtype(x), g.shape(x), g.dim(x)?);
    match g.below(8) {
        0..2 => {
            let mut pad = Vec::new();
            for extent in shape.iter().rev().take(1 + g.below(2) as usize) {
                let crop = -g.below((extent / 2).min(3));
                pad.push(if g.chance(0.2) { crop } else { g.below(4) });
                pad.push(if g.chance(0.2) { crop } else { g.below(4) });
            }
            let value = g.pick(&[0.0, 0.0, 1.0, -0.5])?;
            g.graph.pad(x, &pad, value).map(drop)
        }
        2 | 3 => {
            let mut parts = vec![x];
            for _ in 0..=g.below(2) {
                parts.push(neighbour(g, x, dim)?);
            }
            if g.chance(0.3) {
                parts.reverse();
            }
            g.graph.cat(&parts, dim).map(drop)
        }
        4 => {
            let same = g.value(|g, v| g.dtype(v) == dtype && g.shape(v) == shape)?;
            let place = g.below(g.rank(x) + 1);
            g.graph.stack(&[x, same], place).map(drop)
        }
        5 => {
            let dims = g.dims(x)?;
            let shifts: Vec<i64> = dims.iter().map(|_| g.below(9) - 4).collect();
            g.call(
                "roll.default",
                [
                    ("self", x.into()),
                    ("shifts", shifts.into()),
                    ("dims", dims.into()),
                ],
            )
            .map(drop)
        }
        6 => {
            let parts = 1 + g.below(4);
            if g.chance(0.5) {
                return g.graph.split(x, parts, dim).map(drop);
            }
            let args = [("self", x.into()), ("chunks", parts.into()), ("dim", dim.into())];
            g.call("chunk.default", args).map(drop)
        }
        _ => {
            let diagonal = g.below(7) - 3;
            if g.chance(0.5) {
                g.graph.tril(x, diagonal)
            } else {
                g.graph.triu(x, diagonal)
            }
            .map(drop)
        }
    }
}

/// What can stand beside `x` along `dim`.
fn neighbour(g: &mut Grower, x: ValueId, dim: i64) -> Result<ValueId> {
    let (dtype, mut shape) = (g.dtype(x), g.shape(x));
    let at = if dim < 0 { dim + shape.len() as i64 } else { dim } as usize;
    let old = g.value(|g, v| {
        let other = g.shape(v);
        let pairs = shape.iter().zip(&other).enumerate();
        let fits = pairs.into_iter().all(|(i, (a, b))| i == at || a == b);
        g.dtype(v) == dtype && other.len() == shape.len() && fits
    });
    if let Ok(old) = old
        && g.chance(0.6)
    {
        return Ok(old);
    }
    if let Some(extent) = shape.get_mut(at) {
        *extent = g.small();
    }
    g.input("x", dtype, &shape)
}

/// Elements that indices name, and tensors from nothing.
pub(super) fn indexed(g: &mut Grower) -> Result<()> {
    match g.below(5) {
        way @ (0 | 1) => {
            let x = g.float(1, 3)?;
            let (dim, count) = (g.dim(x)?, g.small());
            let mut shape = g.shape(x);
            let at = dim.rem_euclid(shape.len() as i64) as usize;
            let extent = shape.get(at).copied().unwrap_or(1);
            if way == 0 {
                let index = g.indices(&[count], extent, false)?;
                return g.graph.index_select(x, dim, index).map(drop);
            }
            let index = g.indices(&[count], extent, true)?;
            if let Some(extent) = shape.get_mut(at) {
                *extent = count;
            }
            let source = g.input("x", g.dtype(x), &shape)?;
            g.graph.index_copy(x, dim, index, source).map(drop)
        }
        2 => {
            let (rows, columns) = (g.extent(), g.small());
            let table = g.float_input(&[rows, columns])?;
            let rank = 1 + g.below(2);
            let places: Vec<i64> = (0..rank).map(|_| g.small()).collect();
            let index = g.indices(&places, rows, false)?;
            g.graph.embedding(table, index).map(drop)
        }
        3 => {
            let x = g.float(1, 3)?;
            let count = g.shape(x).first().copied().unwrap_or(1);
            let places = g.small();
            let index = g.indices(&[places], count, true)?;
            let indices = Arg::Values(vec![Some(index)]);
            g.call("index.Tensor", [("self", x.into()), ("indices", indices)])
                .map(drop)
        }
        _ => created(g),
    }
}

/// A value that nothing is read for, with another one.
fn created(g: &mut Grower) -> Result<()> {
    let x = g.float(1, 4)?;
    let shape = g.shape(x);
    let Some(last) = shape.last().copied() else {
        return closed();
    };
    let made = match g.below(3) {
        0 => g.graph.full(shape, 0.75, DType::F32)?,
        1 => {
            let numbers = g.graph.arange(last, DType::F32)?;
            g.graph.mul(numbers, 1.0 / last as f64)?
        }
        _ => g.call1("ones_like.default", [("self", x.into())])?,
    };
    if g.chance(0.5) {
        g.graph.mul(x, made)
    } else {
        g.graph.sub(made, x)
    }
    .map(drop)
}
