//! Views and copies.

use super::array::{Array, each};
use super::invocation::{Invocation, Kernel, Results, axis};
use super::real::Real;
use crate::error::{Error, Result};

pub(super) fn kernel<T: Real>(name: &str) -> Option<Kernel<T>> {
    let kernel: Kernel<T> = match name {
        "view.default"
        | "_unsafe_view.default"
        | "reshape.default"
        | "flatten.using_ints"
        | "unflatten.int"
        | "squeeze.default"
        | "squeeze.dim"
        | "squeeze.dims"
        | "unsqueeze.default" => |c| {
            let shape = c.shape(0)?;
            Ok(vec![c.array("self")?.reshape(&shape)?])
        },
        "expand.default" | "broadcast_to.default" | "expand_as.default" => |c| {
            let shape = c.shape(0)?;
            Ok(vec![c.array("self")?.expand(&shape)?])
        },
        "alias.default"
        | "detach.default"
        | "clone.default"
        | "contiguous.default"
        | "lift_fresh_copy.default" => |c| Ok(vec![c.array("self")?]),
        "permute.default" => |c| {
            let x = c.array("self")?;
            let order = c.axes("dims", x.rank())?;
            Ok(vec![each!(x, x => x.permute(&order))])
        },
        "t.default" | "numpy_T.default" => |c| {
            let x = c.array("self")?;
            let order: Vec<_> = (0..x.rank()).rev().collect();
            Ok(vec![each!(x, x => x.permute(&order))])
        },
        "transpose.int" => |c| {
            let x = c.array("self")?;
            let (a, b) = (c.axis("dim0", x.rank())?, c.axis("dim1", x.rank())?);
            Ok(vec![if x.rank() == 0 {
                x
            } else {
                each!(x, x => x.swap(a, b))
            }])
        },
        "slice.Tensor" => |c| {
            let x = c.array("self")?;
            let at = c.axis("dim", x.rank())?;
            let bound =
                |b: i64| if b < 0 { b + x.shape()[at] as i64 } else { b }.clamp(0, x.shape()[at] as i64);
            let start = bound(c.opt_int("start")?.unwrap_or(0)) as usize;
            cut(c, x, at, start, c.count("step")?)
        },
        "narrow.default" => |c| {
            let x = c.array("self")?;
            let at = c.axis("dim", x.rank())?;
            let start = c.int("start")?;
            let start = if start < 0 {
                start + x.shape()[at] as i64
            } else {
                start
            };
            cut(c, x, at, start as usize, 1)
        },
        "select.int" => |c| {
            let x = c.array("self")?;
            let at = c.axis("dim", x.rank())?;
            let index = position(c.int("index")?, x.shape()[at])?;
            Ok(vec![each!(x, x => x.select(at, index))])
        },
        "unfold.default" => |c| {
            let x = c.array("self")?;
            let at = c.axis("dimension", x.rank())?;
            let (size, step) = (c.count("size")?, c.count("step")?);
            if x.rank() == 0 {
                let x = x.reshape(&[1])?;
                return Ok(vec![each!(x, x => x.slice(0, 0, size, 1))]);
            }
            Ok(vec![each!(x, x => x.windows(at, size, step))])
        },
        "as_strided.default" => |c| {
            let x = c.array("self")?;
            let (shape, strides) = (c.counts("size")?, c.counts("stride")?);
            let offset = if c.has("storage_offset") {
                c.count("storage_offset")?
            } else {
                0
            };
            Ok(vec![each!(x, x => x.restride(&shape, &strides, offset)?)])
        },
        _ => return None,
    };
    Some(kernel)
}

/// As many elements of one axis as the result has, from `start` on.
fn cut<T: Real>(c: &Invocation<'_, T>, x: Array<T>, at: usize, start: usize, step: usize) -> Results<T> {
    let shape = c.shape(0)?;
    if shape[at] > 0 && start + (shape[at] - 1) * step >= x.shape()[at] {
        return Err(Error::invalid(format!(
            "elements from {start} on leave axis {at} of {:?}",
            x.shape()
        )));
    }
    Ok(vec![each!(x, x => x.slice(at, start, shape[at], step))])
}

/// Resolves an index that counts from the end if negative.
pub(super) fn position(index: i64, extent: usize) -> Result<usize> {
    if extent == 0 {
        return Err(Error::invalid(format!("index {index} into an empty axis")));
    }
    axis(index, extent)
        .map_err(|_| Error::invalid(format!("index {index} is out of range for {extent} elements")))
}
