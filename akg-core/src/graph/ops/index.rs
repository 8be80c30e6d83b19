//! Indexing by tensors.

use super::extents::*;
use super::promotion::*;
use super::{Call, Inferred, Row, one};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::expr::Expr;
use crate::graph::TensorType;

pub(super) const ROWS: &[Row] = &[
    Row::new("index.Tensor(Tensor self, Tensor?[] indices) -> Tensor", index),
    Row::new(
        "index_select.default(Tensor self, int dim, Tensor index) -> Tensor",
        index_select,
    ),
    Row::new(
        "index_copy.default(Tensor self, int dim, Tensor index, Tensor source) -> Tensor",
        index_copy,
    ),
    Row::new(
        "gather.default(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor",
        gather,
    ),
    Row::new(
        "embedding.default(Tensor weight, Tensor indices, SymInt padding_idx=-1, \
         bool scale_grad_by_freq=False, bool sparse=False) -> Tensor",
        embedding,
    ),
    Row::new(
        "scatter.src(Tensor self, int dim, Tensor index, Tensor src) -> Tensor",
        scatter,
    ),
    Row::new(
        "scatter.value(Tensor self, int dim, Tensor index, Scalar value) -> Tensor",
        scatter_value,
    ),
];

fn index(call: &Call<'_>) -> Inferred {
    let ty = call.tensor("self")?;
    let indices = call.values("indices")?;
    if indices.len() > ty.rank() {
        return Err(Error::invalid(format!("{} indices for {ty}", indices.len())));
    }
    let mut shapes = Vec::new();
    let mut indexed = Vec::new();
    for (at, index) in indices.iter().enumerate() {
        let Some(index) = index else { continue };
        let index = call.ty(*index)?;
        if matches!(index.dtype, DType::Bool | DType::U8) {
            return Err(Error::unsupported(
                "the result shape of a mask depends on its elements; use where or masked_fill",
            ));
        }
        require_index("an index", index.dtype)?;
        shapes.push(index.shape.as_slice());
        indexed.push(at);
    }
    let picked = broadcast(shapes)?;
    let (Some(first), Some(last)) = (indexed.first(), indexed.last()) else {
        return Err(Error::invalid("at least one index must be given"));
    };
    // Indexed dimensions that are neighbours are replaced where they are; others move to the front.
    let place = if last - first + 1 == indexed.len() {
        *first
    } else {
        0
    };
    let rest = ty
        .shape
        .iter()
        .enumerate()
        .filter(|(at, _)| !indexed.contains(at));
    let mut shape: Vec<Expr> = rest.map(|(_, d)| d.clone()).collect();
    shape.splice(place..place, picked);
    one(ty.dtype, shape)
}

fn index_select(call: &Call<'_>) -> Inferred {
    let (ty, index) = (call.tensor("self")?, call.tensor("index")?);
    require_index("index", index.dtype)?;
    require_rank("index", &index.shape, &[0, 1])?;
    let at = axis(call.int("dim")?, ty.rank())?;
    let count = extent(&index.shape, 0);
    if ty.rank() == 0 {
        require_equal(
            "the number of indices",
            &count,
            "all that a 0-dimensional tensor has",
            &Expr::constant(1),
        )?;
    }
    one(ty.dtype, with_extent(&ty.shape, at, count))
}

/// `self` with the slices of `source` at the places along `dim` that `index` names.
///
/// Where the index has a number more than once, the last slice stays. Numbers must be in range. Negative ones count from
/// the end and an index may be `i32`, both of which PyTorch's `index_copy` refuses and its `index_put` takes. A tensor
/// without dimensions counts as one of a single element.
fn index_copy(call: &Call<'_>) -> Inferred {
    let (ty, index) = (call.tensor("self")?, call.tensor("index")?);
    let source = call.tensor("source")?;
    require_index("index", index.dtype)?;
    require_same("self", ty.dtype, "source", source.dtype)?;
    require_rank("index", &index.shape, &[0, 1])?;
    let at = axis(call.int("dim")?, ty.rank())?;
    let rank = ty.rank().max(1);
    if source.rank().max(1) != rank {
        return Err(Error::invalid(format!(
            "source {source} must have as many dimensions as self {ty}"
        )));
    }
    for dim in 0..rank {
        let what = format!("the extent of source in dimension {dim}");
        let own = extent(&source.shape, dim);
        if dim == at {
            require_equal(&what, &own, "the number of indices", &extent(&index.shape, 0))?;
        } else {
            require_equal(&what, &own, "that of self", &extent(&ty.shape, dim))?;
        }
    }
    Ok(vec![ty.clone()])
}

/// Checks an index with one entry for each element of the result; outside the indexed dimension it must not be larger
/// than `limit`.
fn check_pointwise_index(
    what: &str,
    limit: &TensorType,
    index: &TensorType,
    at: Option<usize>,
) -> Result<()> {
    if limit.rank().max(1) != index.rank().max(1) {
        return Err(Error::invalid(format!(
            "index {index} must have as many dimensions as {what} {limit}"
        )));
    }
    for (i, (dim, own)) in index.shape.iter().zip(&limit.shape).enumerate() {
        if Some(i) != at && (own - dim).as_const().is_some_and(|room| room < 0) {
            return Err(Error::invalid(format!(
                "index {index} is larger than {what} {limit} in dimension {i}"
            )));
        }
    }
    Ok(())
}

fn gather(call: &Call<'_>) -> Inferred {
    let (ty, index) = (call.tensor("self")?, call.tensor("index")?);
    require_integer("index", index.dtype)?;
    let at = axis(call.int("dim")?, ty.rank())?;
    // An index without elements may have any shape.
    if !index.shape.iter().any(|extent| extent.is(0)) {
        check_pointwise_index("self", ty, index, Some(at))?;
    }
    one(ty.dtype, index.shape.clone())
}

fn scatter_value(call: &Call<'_>) -> Inferred {
    let (ty, index) = (call.tensor("self")?, call.tensor("index")?);
    require_index("index", index.dtype)?;
    let at = axis(call.int("dim")?, ty.rank())?;
    check_pointwise_index("self", ty, index, Some(at))?;
    Ok(vec![ty.clone()])
}

fn scatter(call: &Call<'_>) -> Inferred {
    let (ty, src) = (call.tensor("self")?, call.tensor("src")?);
    require_same("self", ty.dtype, "src", src.dtype)?;
    check_pointwise_index("src", src, call.tensor("index")?, None)?;
    scatter_value(call)
}

fn embedding(call: &Call<'_>) -> Inferred {
    let (weight, indices) = (call.tensor("weight")?, call.tensor("indices")?);
    require_rank("weight", &weight.shape, &[2])?;
    require_index("indices", indices.dtype)?;
    let mut shape = indices.shape.clone();
    shape.push(extent(&weight.shape, 1));
    one(weight.dtype, shape)
}
