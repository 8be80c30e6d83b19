//! Operators that move elements without computing on them.

use super::array::{Array, Data, each};
use super::invocation::{Invocation, Kernel, Results, axis};
use super::parallel::lines;
use super::pointwise::pick;
use super::real::Real;
use super::strided::{Item, Strided};
use crate::error::{Error, Result};

pub(super) fn kernel<T: Real>(name: &str) -> Option<Kernel<T>> {
    let kernel: Kernel<T> = match name {
        "flip.default" => |c| {
            let x = c.array("self")?;
            let axes = c.axes("dims", x.rank())?;
            let rank = x.rank();
            let flip = |x: Array<T>, a: usize| if a < rank { each!(x, x => x.flip(a)) } else { x };
            Ok(vec![axes.into_iter().fold(x, flip)])
        },
        "roll.default" => roll,
        "tril.default" => |c| {
            let diagonal = c.int("diagonal")?;
            triangle(c, |row, col| col <= row + diagonal)
        },
        "triu.default" => |c| {
            let diagonal = c.int("diagonal")?;
            triangle(c, |row, col| col >= row + diagonal)
        },
        "constant_pad_nd.default" | "pad.default" => pad,
        "repeat.default" => |c| {
            let x = c.array("self")?;
            let repeats = c.counts("repeats")?;
            let lead = repeats.len() - x.rank();
            let extents: Vec<usize> = std::iter::repeat_n(&1, lead).chain(x.shape()).copied().collect();
            let apart: Vec<usize> = extents.iter().flat_map(|d| [1, *d]).collect();
            let beside: Vec<usize> = repeats.iter().zip(&extents).flat_map(|(r, d)| [*r, *d]).collect();
            Ok(vec![x.reshape(&apart)?.expand(&beside)?.reshape(&c.shape(0)?)?])
        },
        _ => return None,
    };
    Some(kernel)
}

/// The elements of `axis` at the given positions, `fill` where there is none.
pub(super) fn remap<E: Item>(
    x: &Strided<E>,
    axis: usize,
    positions: &[Option<usize>],
    fill: E,
) -> Strided<E> {
    let mut shape = x.shape().to_vec();
    let inner: usize = shape[axis + 1..].iter().product();
    let source = shape[axis];
    shape[axis] = positions.len();
    let mut out = vec![fill; shape.iter().product()];
    let reader = x.reader();
    lines(&mut out, positions.len() * inner, &|outer, out| {
        let mut rows = vec![E::default(); source * inner];
        reader.read(outer * source * inner, &mut rows);
        for (position, out) in positions.iter().zip(out.chunks_mut(inner.max(1))) {
            if let Some(at) = position {
                out.copy_from_slice(&rows[at * inner..(at + 1) * inner]);
            }
        }
    });
    Strided::new(shape, out)
}

fn roll<T: Real>(c: &mut Invocation<'_, T>) -> Results<T> {
    let x = c.array("self")?;
    let (shifts, dims, shape) = (c.ints("shifts")?, c.ints("dims")?, c.shape(0)?);
    if x.len() == 0 {
        return Ok(vec![x]);
    }
    // Without axes the elements roll through the flattened tensor.
    let (mut x, axes) = match dims.as_slice() {
        [] => (x.clone().reshape(&[x.len()])?, vec![0]),
        _ => {
            let axes = dims.iter().map(|d| axis(*d, x.rank())).collect::<Result<_>>()?;
            (if x.rank() == 0 { x.reshape(&[1])? } else { x }, axes)
        }
    };
    for (axis, shift) in axes.into_iter().zip(shifts) {
        let extent = x.shape()[axis] as i64;
        let positions: Vec<_> = (0..extent)
            .map(|i| Some((i - shift).rem_euclid(extent) as usize))
            .collect();
        x = each!(x, x => remap(&x, axis, &positions, Default::default()));
    }
    Ok(vec![x.reshape(&shape)?])
}

fn triangle<T: Real>(c: &mut Invocation<'_, T>, keep: impl Fn(i64, i64) -> bool + Sync) -> Results<T> {
    let x = c.array("self")?;
    let shape = x.shape().to_vec();
    let cols = shape[shape.len() - 1].max(1);
    let (row, col) = (c.start(shape.len() - 2)?, c.start(shape.len() - 1)?);
    let mask = Strided::generate(&shape[shape.len() - 2..], |at| {
        !keep((row + at / cols) as i64, (col + at % cols) as i64)
    });
    let zeros = Array::full(x.dtype, &shape, 0.0);
    Ok(vec![pick(mask, zeros, x, &shape)?])
}

fn pad<T: Real>(c: &mut Invocation<'_, T>) -> Results<T> {
    let mode = if c.has("mode") {
        c.opt_str("mode")?.unwrap_or("constant").to_owned()
    } else {
        "constant".to_owned()
    };
    let value = c.opt_operand("value")?;
    let mut x = c.array("self")?;
    let value = value.map_or_else(|| Array::full(x.dtype, &[], 0.0), |v| v.promote(x.dtype));
    for (pair, amounts) in c.ints("pad")?.chunks_exact(2).enumerate() {
        let axis = x.rank() - 1 - pair;
        let extent = x.shape()[axis] as i64;
        // What is cut off is not repeated at the other end.
        let (low, high) = ((-amounts[0]).max(0), extent - (-amounts[1]).max(0));
        let source = |at: i64| match mode.as_str() {
            "reflect" if at < 0 => -at,
            "reflect" if at >= extent => 2 * (extent - 1) - at,
            "replicate" => at.clamp(0, extent - 1),
            "circular" => low + (at - low).rem_euclid((high - low).max(1)),
            _ => at,
        };
        if mode != "constant" && extent == 0 {
            return Err(Error::invalid(format!("{mode} padding of an empty axis")));
        }
        let within = |at: i64| usize::try_from(at).ok().filter(|_| at < extent);
        let positions: Vec<_> = (-amounts[0]..extent + amounts[1])
            .map(|at| within(source(at)))
            .collect();
        if mode != "constant" && positions.contains(&None) {
            return Err(Error::invalid(format!(
                "{mode} padding by {amounts:?} of an extent of {extent}"
            )));
        }
        let data = match (x.data, &value.data) {
            (Data::Float(x), Data::Float(v)) => Data::Float(remap(&x, axis, &positions, v.first())),
            (Data::Int(x), Data::Int(v)) => Data::Int(remap(&x, axis, &positions, v.first())),
            (Data::Bool(x), Data::Bool(v)) => Data::Bool(remap(&x, axis, &positions, v.first())),
            (data, _) => data,
        };
        x = Array { dtype: x.dtype, data };
    }
    Ok(vec![x])
}
