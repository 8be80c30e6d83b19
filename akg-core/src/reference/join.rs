//! Operators that join tensors or take them apart.

use super::array::{Array, Data, each};
use super::invocation::{Invocation, Kernel, Results};
use super::memory::zeros;
use super::real::Real;
use super::strided::{Item, Strided};
use crate::error::{Error, Result};

pub(super) fn kernel<T: Real>(name: &str) -> Option<Kernel<T>> {
    let kernel: Kernel<T> = match name {
        "cat.default" => |c| {
            let shape = c.shape(0)?;
            let axis = c.axis("dim", shape.len())?;
            join(c, axis, &shape, |x| {
                // ATen's cat skips tensors of shape [0] whatever the rank of the others.
                if x.shape() == [0] { Ok(None) } else { Ok(Some(x)) }
            })
        },
        "stack.default" => |c| {
            let shape = c.shape(0)?;
            let axis = c.axis("dim", shape.len())?;
            join(c, axis, &shape, |x| Ok(Some(each!(x, x => x.unsqueeze(axis)))))
        },
        "broadcast_tensors.default" => |c| {
            let arrays = c.arrays("tensors")?;
            arrays
                .into_iter()
                .enumerate()
                .map(|(i, x)| x.expand(&c.shape(i)?))
                .collect()
        },
        "split.Tensor" | "split_with_sizes.default" | "chunk.default" => |c| {
            let x = c.array("self")?;
            let axis = c.axis("dim", x.rank())?;
            let mut start = 0;
            let mut parts = Vec::with_capacity(c.results());
            for index in 0..c.results() {
                let size = c.shape(index)?[axis];
                parts.push(each!(x.clone(), x => x.slice(axis, start, size, 1)));
                start += size;
            }
            Ok(parts)
        },
        "unbind.int" => |c| {
            let x = c.array("self")?;
            let axis = c.axis("dim", x.rank())?;
            Ok((0..c.results())
                .map(|i| each!(x.clone(), x => x.select(axis, i)))
                .collect())
        },
        _ => return None,
    };
    Some(kernel)
}

fn join<T: Real>(
    c: &mut Invocation<'_, T>,
    axis: usize,
    shape: &[usize],
    prepare: impl Fn(Array<T>) -> Result<Option<Array<T>>>,
) -> Results<T> {
    let dtype = c.dtype(0)?;
    let (mut floats, mut ints, mut bools) = (Vec::new(), Vec::new(), Vec::new());
    for x in c.arrays("tensors")? {
        let Some(x) = prepare(x)? else { continue };
        match x.promote(dtype).data {
            Data::Float(x) => floats.push(x),
            Data::Int(x) => ints.push(x),
            Data::Bool(x) => bools.push(x),
        }
    }
    Ok(vec![if dtype.is_float() {
        Array::float(dtype, concatenate(&floats, axis, shape)?)
    } else if bools.is_empty() {
        Array::int(dtype, concatenate(&ints, axis, shape)?)
    } else {
        Array::bool(concatenate(&bools, axis, shape)?)
    }])
}

/// The parts side by side along `axis`.
pub(super) fn concatenate<E: Item>(parts: &[Strided<E>], axis: usize, shape: &[usize]) -> Result<Strided<E>> {
    let inner: usize = shape[axis + 1..].iter().product();
    let outer: usize = shape[..axis].iter().product();
    let pitch = shape[axis] * inner;
    let mut out = zeros(outer * pitch);
    let mut start = 0;
    for part in parts {
        let run = part.shape()[axis] * inner;
        if start + run > pitch {
            return Err(Error::unexpected(
                "the parts of a concatenation exceed its result",
            ));
        }
        let reader = part.reader();
        for row in 0..outer {
            let at = row * pitch + start;
            reader.read(row * run, &mut out[at..at + run]);
        }
        start += run;
    }
    Ok(Strided::new(shape, out))
}
