//! Views: the same elements under other extents.

use super::extents::*;
use super::{Call, Inferred, Row};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::expr::Expr;
use crate::graph::TensorType;

pub(super) const ROWS: &[Row] = &[
    Row::new("view.default(Tensor self, SymInt[] size) -> Tensor", view),
    Row::new("_unsafe_view.default(Tensor self, SymInt[] size) -> Tensor", view),
    Row::new("reshape.default(Tensor self, SymInt[] shape) -> Tensor", reshape),
    Row::new(
        "flatten.using_ints(Tensor self, int start_dim=0, int end_dim=-1) -> Tensor",
        flatten,
    ),
    Row::new(
        "unflatten.int(Tensor self, int dim, SymInt[] sizes) -> Tensor",
        unflatten,
    ),
    Row::new("permute.default(Tensor self, int[] dims) -> Tensor", permute),
    Row::new(
        "transpose.int(Tensor self, int dim0, int dim1) -> Tensor",
        transpose,
    ),
    Row::new("t.default(Tensor self) -> Tensor", t),
    Row::new("numpy_T.default(Tensor self) -> Tensor", reversed),
    Row::new("squeeze.default(Tensor self) -> Tensor", squeeze),
    Row::new("squeeze.dim(Tensor self, int dim) -> Tensor", squeeze_dim),
    Row::new("squeeze.dims(Tensor self, int[] dim) -> Tensor", squeeze_dims),
    Row::new("unsqueeze.default(Tensor self, int dim) -> Tensor", unsqueeze),
    Row::new(
        "expand.default(Tensor self, SymInt[] size, *, bool implicit=False) -> Tensor",
        expand,
    ),
    Row::new(
        "broadcast_to.default(Tensor self, SymInt[] size) -> Tensor",
        expand,
    ),
    Row::new(
        "expand_as.default(Tensor self, Tensor other) -> Tensor",
        expand_as,
    ),
    Row::new(
        "slice.Tensor(Tensor self, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor",
        slice,
    ),
    Row::new("select.int(Tensor self, int dim, SymInt index) -> Tensor", select),
    Row::new(
        "narrow.default(Tensor self, int dim, SymInt start, SymInt length) -> Tensor",
        narrow,
    ),
    Row::new(
        "unfold.default(Tensor self, int dimension, int size, int step) -> Tensor",
        unfold,
    ),
    Row::new(
        "as_strided.default(Tensor self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor",
        as_strided,
    ),
    Row::new("alias.default(Tensor self) -> Tensor", same),
    Row::new("detach.default(Tensor self) -> Tensor", same),
    Row::new(
        "clone.default(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor",
        same,
    ),
    Row::new(
        "contiguous.default(Tensor self, *, MemoryFormat memory_format=0) -> Tensor",
        same,
    ),
    Row::new("lift_fresh_copy.default(Tensor self) -> Tensor", same),
];

fn one(dtype: DType, shape: impl Into<Vec<Expr>>) -> Inferred {
    Ok(vec![TensorType {
        dtype,
        shape: shape.into(),
    }])
}

fn same(call: &Call<'_>) -> Inferred {
    Ok(vec![call.tensor("self")?.clone()])
}

fn view(call: &Call<'_>) -> Inferred {
    let ty = call.tensor("self")?;
    one(ty.dtype, regrouped(&ty.shape, call.sizes("size")?)?)
}

fn reshape(call: &Call<'_>) -> Inferred {
    let ty = call.tensor("self")?;
    one(ty.dtype, regrouped(&ty.shape, call.sizes("shape")?)?)
}

/// `wanted` with its -1, if any, replaced so that it has as many elements as `shape`.
fn regrouped(shape: &[Expr], wanted: &[Expr]) -> Result<Vec<Expr>> {
    let misfit = || {
        Error::invalid(format!(
            "the elements of {} cannot be viewed as {}",
            list(shape),
            list(wanted)
        ))
    };
    let (open, given): (Vec<_>, Vec<_>) = wanted.iter().partition(|d| d.is(-1));
    if open.len() > 1 || given.iter().any(|d| d.as_const().is_some_and(|v| v < 0)) {
        return Err(misfit());
    }
    if open.is_empty() {
        return if element_count(shape) == element_count(wanted) {
            Ok(wanted.to_vec())
        } else {
            Err(misfit())
        };
    }
    // Extents that occur on both sides cancel first: sums such as `N + 1` divide no expanded product.
    let mut rest = shape.to_vec();
    let mut divisor = Expr::constant(1);
    for dim in given {
        match rest.iter().position(|d| d == dim && !d.is(0)) {
            Some(at) => drop(rest.remove(at)),
            None => divisor = divisor * dim,
        }
    }
    let count = element_count(&rest);
    let inferred = if divisor.is(0) {
        None
    } else {
        count.exact_div(&divisor)
    };
    let inferred = inferred.ok_or_else(misfit)?;
    Ok(wanted
        .iter()
        .map(|d| if d.is(-1) { inferred.clone() } else { d.clone() })
        .collect())
}

fn flatten(call: &Call<'_>) -> Inferred {
    let ty = call.tensor("self")?;
    let (start, end) = (
        axis(call.int("start_dim")?, ty.rank())?,
        axis(call.int("end_dim")?, ty.rank())?,
    );
    if start > end {
        return Err(Error::invalid(format!(
            "start_dim {start} comes after end_dim {end}"
        )));
    }
    let merged = element_count(ty.shape.get(start..=end).unwrap_or_default());
    let before = ty.shape.iter().take(start).cloned();
    let after = ty.shape.iter().skip(end + 1).cloned();
    one(ty.dtype, before.chain([merged]).chain(after).collect::<Vec<_>>())
}

fn unflatten(call: &Call<'_>) -> Inferred {
    let ty = call.tensor("self")?;
    let at = axis(call.int("dim")?, ty.rank())?;
    let sizes = call.sizes("sizes")?;
    if sizes.is_empty() {
        return Err(Error::invalid("sizes must not be empty"));
    }
    let parts = regrouped(&[extent(&ty.shape, at)], sizes)?;
    let before = ty.shape.iter().take(at).cloned();
    let after = ty.shape.iter().skip(at + 1).cloned();
    one(ty.dtype, before.chain(parts).chain(after).collect::<Vec<_>>())
}

fn permute(call: &Call<'_>) -> Inferred {
    let ty = call.tensor("self")?;
    let order = axes(&call.ints("dims")?, ty.rank())?;
    if order.len() != ty.rank() {
        return Err(Error::invalid(format!("{} dims are given for {ty}", order.len())));
    }
    one(
        ty.dtype,
        order
            .into_iter()
            .map(|at| extent(&ty.shape, at))
            .collect::<Vec<_>>(),
    )
}

fn transpose(call: &Call<'_>) -> Inferred {
    let ty = call.tensor("self")?;
    let (a, b) = (
        axis(call.int("dim0")?, ty.rank())?,
        axis(call.int("dim1")?, ty.rank())?,
    );
    let mut shape = ty.shape.clone();
    if ty.rank() > 0 {
        shape.swap(a, b);
    }
    one(ty.dtype, shape)
}

fn t(call: &Call<'_>) -> Inferred {
    require_rank("self", &call.tensor("self")?.shape, &[0, 1, 2])?;
    reversed(call)
}

fn reversed(call: &Call<'_>) -> Inferred {
    let ty = call.tensor("self")?;
    one(ty.dtype, ty.shape.iter().rev().cloned().collect::<Vec<_>>())
}

/// Drops those of the dimensions `among` that are 1. As in `torch.export`, a symbolic extent is taken not to be 1.
fn squeezed(ty: &TensorType, among: &[usize]) -> Inferred {
    let dims = ty.shape.iter().enumerate();
    let kept = dims.filter(|(at, d)| !(d.is(1) && among.contains(at)));
    one(ty.dtype, kept.map(|(_, d)| d.clone()).collect::<Vec<_>>())
}

fn squeeze(call: &Call<'_>) -> Inferred {
    let ty = call.tensor("self")?;
    squeezed(ty, &(0..ty.rank()).collect::<Vec<_>>())
}

fn squeeze_dim(call: &Call<'_>) -> Inferred {
    let ty = call.tensor("self")?;
    squeezed(ty, &[axis(call.int("dim")?, ty.rank())?])
}

fn squeeze_dims(call: &Call<'_>) -> Inferred {
    let ty = call.tensor("self")?;
    squeezed(ty, &axes(&call.ints("dim")?, ty.rank())?)
}

fn unsqueeze(call: &Call<'_>) -> Inferred {
    let ty = call.tensor("self")?;
    let at = axis(call.int("dim")?, ty.rank() + 1)?;
    let mut shape = ty.shape.clone();
    shape.insert(at, Expr::constant(1));
    one(ty.dtype, shape)
}

fn expand(call: &Call<'_>) -> Inferred {
    let ty = call.tensor("self")?;
    let size = call.sizes("size")?;
    let misfit = || Error::invalid(format!("{ty} does not expand to {}", list(size)));
    let new = size.len().checked_sub(ty.rank()).ok_or_else(misfit)?;
    let mut shape = Vec::with_capacity(size.len());
    for (at, wanted) in size.iter().enumerate() {
        let own = at.checked_sub(new).map(|i| extent(&ty.shape, i));
        shape.push(match own {
            Some(own) if wanted.is(-1) || own == *wanted => own,
            Some(own) if !own.is(1) => return Err(misfit()),
            _ if wanted.as_const().is_some_and(|v| v < 0) => return Err(misfit()),
            _ => wanted.clone(),
        });
    }
    one(ty.dtype, shape)
}

fn expand_as(call: &Call<'_>) -> Inferred {
    let (ty, other) = (call.tensor("self")?, call.tensor("other")?);
    let shape = broadcast([other.shape.as_slice(), &ty.shape])?;
    require_shape("the common shape", &shape, &other.shape)?;
    one(ty.dtype, shape)
}

/// The position that a slice bound means: negative ones count from the end, all are clamped to the extent. A symbolic
/// bound counts from the start.
fn slice_bound(bound: &Expr, extent: &Expr) -> Expr {
    let zero = Expr::constant(0);
    match bound.as_const() {
        Some(0) => zero,
        Some(i64::MAX) => extent.clone(),
        Some(v) if v < 0 => (extent + bound).maximum(&zero),
        _ => bound.minimum(extent),
    }
}

fn slice(call: &Call<'_>) -> Inferred {
    let ty = call.tensor("self")?;
    let at = nonscalar_axis(ty, call.int("dim")?)?;
    let dim = extent(&ty.shape, at);
    let start = call
        .opt_size("start")?
        .map_or(Expr::constant(0), |s| slice_bound(s, &dim));
    let end = call
        .opt_size("end")?
        .map_or(dim.clone(), |e| slice_bound(e, &dim));
    let step = call.size("step")?;
    if step.as_const().is_some_and(|v| v <= 0) {
        return Err(Error::invalid(format!(
            "the slice step must be positive, not {step}"
        )));
    }
    let length = (end - start).maximum(&Expr::constant(0)).ceil_div(step);
    one(ty.dtype, with_extent(&ty.shape, at, length))
}

fn nonscalar_axis(ty: &TensorType, dim: i64) -> Result<usize> {
    if ty.rank() == 0 {
        return Err(Error::invalid("a 0-dimensional tensor has no dimension to cut"));
    }
    axis(dim, ty.rank())
}

fn select(call: &Call<'_>) -> Inferred {
    let ty = call.tensor("self")?;
    let at = nonscalar_axis(ty, call.int("dim")?)?;
    let (dim, index) = (extent(&ty.shape, at), call.size("index")?);
    if let (Some(dim), Some(index)) = (dim.as_const(), index.as_const())
        && !(-dim..dim).contains(&index)
    {
        return Err(Error::invalid(format!(
            "index {index} is out of range for dimension {at} of {ty}"
        )));
    }
    let mut shape = ty.shape.clone();
    shape.remove(at);
    one(ty.dtype, shape)
}

fn narrow(call: &Call<'_>) -> Inferred {
    let ty = call.tensor("self")?;
    let at = nonscalar_axis(ty, call.int("dim")?)?;
    let dim = extent(&ty.shape, at);
    let (start, length) = (call.size("start")?, call.size("length")?);
    let first = if start.as_const().is_some_and(|v| v < 0) {
        start + &dim
    } else {
        start.clone()
    };
    let left = (&(&dim - &first) - length).as_const();
    if [first.as_const(), length.as_const(), left]
        .iter()
        .any(|v| v.is_some_and(|v| v < 0))
    {
        return Err(Error::invalid(format!(
            "{length} elements from {start} leave dimension {at} of {ty}"
        )));
    }
    one(ty.dtype, with_extent(&ty.shape, at, length.clone()))
}

fn unfold(call: &Call<'_>) -> Inferred {
    let ty = call.tensor("self")?;
    let at = axis(call.int("dimension")?, ty.rank())?;
    let (size, step) = (call.int("size")?, call.int("step")?);
    let room = extent(&ty.shape, at) - size;
    if size < 0 || step <= 0 || room.as_const().is_some_and(|v| v < 0) {
        return Err(Error::invalid(format!(
            "windows of {size} every {step} do not fit dimension {at} of {ty}"
        )));
    }
    let mut shape = with_extent(&ty.shape, at, room.floor_div(&Expr::constant(step)) + 1);
    shape.push(Expr::constant(size));
    one(ty.dtype, shape)
}

/// Reads the elements of a dense, row-major `self`, whatever made it.
fn as_strided(call: &Call<'_>) -> Inferred {
    let ty = call.tensor("self")?;
    let (size, stride) = (call.sizes("size")?, call.sizes("stride")?);
    if size.len() != stride.len() {
        return Err(Error::invalid(format!(
            "size {} and stride {} differ in length",
            list(size),
            list(stride)
        )));
    }
    require_non_negative("size", size)?;
    require_non_negative("stride", stride)?;
    let mut last = call
        .opt_size("storage_offset")?
        .cloned()
        .unwrap_or(Expr::constant(0));
    for (size, stride) in size.iter().zip(stride) {
        last = last + &(size - &Expr::constant(1)) * stride;
    }
    let room = (element_count(&ty.shape) - &last).as_const();
    if !size.iter().any(|d| d.is(0)) && room.is_some_and(|v| v < 1) {
        return Err(Error::invalid(format!("element {last} lies outside {ty}")));
    }
    one(ty.dtype, size)
}
