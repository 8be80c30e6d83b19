//! Splitting and joining.

use super::extents::*;
use super::promotion::common_type;
use super::{Call, Inferred, Row};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::expr::Expr;
use crate::graph::TensorType;

pub(super) const ROWS: &[Row] = &[
    Row::new(
        "broadcast_tensors.default(Tensor[] tensors) -> Tensor[]",
        broadcast_tensors,
    ),
    Row::new(
        "split.Tensor(Tensor self, SymInt split_size, int dim=0) -> Tensor[]",
        split,
    ),
    Row::new(
        "split_with_sizes.default(Tensor self, SymInt[] split_sizes, int dim=0) -> Tensor[]",
        split_with_sizes,
    ),
    Row::new(
        "chunk.default(Tensor self, int chunks, int dim=0) -> Tensor[]",
        chunk,
    ),
    Row::new("unbind.int(Tensor self, int dim=0) -> Tensor[]", unbind),
    Row::new("cat.default(Tensor[] tensors, int dim=0) -> Tensor", cat),
    Row::new("stack.default(Tensor[] tensors, int dim=0) -> Tensor", stack),
];

fn broadcast_tensors(call: &Call<'_>) -> Inferred {
    let types = call.tensors("tensors")?;
    let shape = broadcast(types.iter().map(|t| t.shape.as_slice()))?;
    Ok(types
        .iter()
        .map(|t| TensorType {
            dtype: t.dtype,
            shape: shape.clone(),
        })
        .collect())
}

/// The dimension to cut and its extent.
fn cut<'a>(call: &Call<'a>) -> Result<(&'a TensorType, usize, Expr)> {
    let ty = call.tensor("self")?;
    if ty.rank() == 0 {
        return Err(Error::invalid("a 0-dimensional tensor cannot be split"));
    }
    let at = axis(call.int("dim")?, ty.rank())?;
    Ok((ty, at, extent(&ty.shape, at)))
}

/// Pieces of `size`, the last of which may be smaller.
fn pieces(ty: &TensorType, at: usize, dim: &Expr, size: &Expr) -> Inferred {
    let count = dim.ceil_div(size).as_const().ok_or_else(|| {
        Error::unsupported(format!(
            "how many pieces of {size} dimension {at} of {ty} has depends on its symbols"
        ))
    })?;
    let count = count.max(1);
    let last = dim - &(size * &Expr::constant(count - 1));
    let piece = |extent: &Expr| TensorType {
        dtype: ty.dtype,
        shape: with_extent(&ty.shape, at, extent.clone()),
    };
    Ok((1..=count)
        .map(|i| piece(if i < count { size } else { &last }))
        .collect())
}

fn split(call: &Call<'_>) -> Inferred {
    let (ty, at, dim) = cut(call)?;
    let size = call.size("split_size")?;
    match size.as_const() {
        Some(0) if dim.is(0) => Ok(vec![ty.clone()]),
        Some(v) if v <= 0 => Err(Error::invalid(format!("split_size must be positive, not {v}"))),
        _ => pieces(ty, at, &dim, size),
    }
}

fn chunk(call: &Call<'_>) -> Inferred {
    let (ty, at, dim) = cut(call)?;
    let chunks = call.int("chunks")?;
    if chunks <= 0 {
        return Err(Error::invalid(format!(
            "the number of chunks must be positive, not {chunks}"
        )));
    }
    if dim.is(0) {
        return Ok(vec![ty.clone(); chunks as usize]);
    }
    pieces(ty, at, &dim, &dim.ceil_div(&Expr::constant(chunks)))
}

fn split_with_sizes(call: &Call<'_>) -> Inferred {
    let (ty, at, dim) = cut(call)?;
    let sizes = call.sizes("split_sizes")?;
    require_non_negative("split_sizes", sizes)?;
    let sum = sizes.iter().fold(Expr::constant(0), |sum, size| &sum + size);
    require_equal("the sum of split_sizes", &sum, "the extent to split", &dim)?;
    let piece = |size: &Expr| TensorType {
        dtype: ty.dtype,
        shape: with_extent(&ty.shape, at, size.clone()),
    };
    Ok(sizes.iter().map(piece).collect())
}

fn unbind(call: &Call<'_>) -> Inferred {
    let (ty, at, dim) = cut(call)?;
    let count = dim.as_const().ok_or_else(|| {
        Error::unsupported(format!(
            "how many results dimension {at} of {ty} gives depends on its symbols"
        ))
    })?;
    let mut one = ty.clone();
    one.shape.remove(at);
    Ok(vec![one; count.max(0) as usize])
}

/// The types to join and the type in which they meet.
fn joined<'a>(call: &Call<'a>) -> Result<(Vec<&'a TensorType>, DType)> {
    let types = call.tensors("tensors")?;
    let dtype =
        common_type(&types).ok_or_else(|| Error::invalid("a list of at least one tensor is needed"))?;
    Ok((types, dtype))
}

fn cat(call: &Call<'_>) -> Inferred {
    let (types, dtype) = joined(call)?;
    // A one-dimensional tensor without elements joins anything.
    let counted: Vec<_> = types
        .iter()
        .filter(|t| !(t.rank() == 1 && extent(&t.shape, 0).is(0)))
        .collect();
    let Some(first) = counted.first() else {
        return Ok(vec![TensorType::new(dtype, [0])]);
    };
    if counted.iter().any(|t| t.rank() == 0) {
        return Err(Error::invalid(
            "0-dimensional tensors cannot be concatenated; use stack",
        ));
    }
    let at = axis(call.int("dim")?, first.rank())?;
    let mut sum = Expr::constant(0);
    for ty in &counted {
        let own = extent(&ty.shape, at);
        require_shape(
            "a tensor to join (but for the joined dimension)",
            &ty.shape,
            &with_extent(&first.shape, at, own.clone()),
        )?;
        sum = sum + own;
    }
    Ok(vec![TensorType {
        dtype,
        shape: with_extent(&first.shape, at, sum),
    }])
}

fn stack(call: &Call<'_>) -> Inferred {
    let (types, dtype) = joined(call)?;
    let mut shape = types.first().map(|t| t.shape.clone()).unwrap_or_default();
    for ty in &types {
        require_shape("a tensor to stack", &ty.shape, &shape)?;
    }
    let at = axis(call.int("dim")?, shape.len() + 1)?;
    shape.insert(at, Expr::from(types.len()));
    Ok(vec![TensorType { dtype, shape }])
}
