//! Reductions and softmax.

use super::extents::*;
use super::promotion::*;
use super::{Call, Inferred, Row, one};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::expr::Expr;
use crate::graph::Arg;

pub(super) const ROWS: &[Row] = &[
    Row::new(
        "sum.default(Tensor self, *, ScalarType? dtype=None) -> Tensor",
        sum,
    ),
    Row::new(
        "sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
        sum,
    ),
    Row::new(
        "prod.default(Tensor self, *, ScalarType? dtype=None) -> Tensor",
        sum,
    ),
    Row::new(
        "prod.dim_int(Tensor self, int dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
        sum,
    ),
    Row::new(
        "mean.default(Tensor self, *, ScalarType? dtype=None) -> Tensor",
        mean,
    ),
    Row::new(
        "mean.dim(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
        mean,
    ),
    Row::new(
        "amax.default(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor",
        extremum,
    ),
    Row::new(
        "amin.default(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor",
        extremum,
    ),
    Row::new("max.default(Tensor self) -> Tensor", extremum),
    Row::new("min.default(Tensor self) -> Tensor", extremum),
    Row::new(
        "max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
        extremum_with_indices,
    ),
    Row::new(
        "min.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
        extremum_with_indices,
    ),
    Row::new(
        "argmax.default(Tensor self, int? dim=None, bool keepdim=False) -> Tensor",
        position,
    ),
    Row::new(
        "argmin.default(Tensor self, int? dim=None, bool keepdim=False) -> Tensor",
        position,
    ),
    Row::new("any.default(Tensor self) -> Tensor", truth),
    Row::new(
        "any.dim(Tensor self, int dim, bool keepdim=False) -> Tensor",
        truth,
    ),
    Row::new(
        "any.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor",
        truth_over,
    ),
    Row::new("all.default(Tensor self) -> Tensor", truth),
    Row::new(
        "all.dim(Tensor self, int dim, bool keepdim=False) -> Tensor",
        truth,
    ),
    Row::new(
        "all.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor",
        truth_over,
    ),
    Row::new("var.default(Tensor self, bool unbiased=True) -> Tensor", variance),
    Row::new(
        "var.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> Tensor",
        variance,
    ),
    Row::new(
        "var.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, \
         bool keepdim=False) -> Tensor",
        variance,
    ),
    Row::new("std.default(Tensor self, bool unbiased=True) -> Tensor", variance),
    Row::new(
        "std.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> Tensor",
        variance,
    ),
    Row::new(
        "std.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, \
         bool keepdim=False) -> Tensor",
        variance,
    ),
    Row::new(
        "var_mean.default(Tensor self, bool unbiased=True) -> (Tensor, Tensor)",
        variance_and_mean,
    ),
    Row::new(
        "var_mean.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> (Tensor, Tensor)",
        variance_and_mean,
    ),
    Row::new(
        "std_mean.default(Tensor self, bool unbiased=True) -> (Tensor, Tensor)",
        variance_and_mean,
    ),
    Row::new(
        "std_mean.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> (Tensor, Tensor)",
        variance_and_mean,
    ),
    Row::new(
        "var_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, \
         bool keepdim=False) -> (Tensor, Tensor)",
        variance_and_mean,
    ),
    Row::new(
        "std_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, \
         bool keepdim=False) -> (Tensor, Tensor)",
        variance_and_mean,
    ),
    Row::new(
        "logsumexp.default(Tensor self, int[1] dim, bool keepdim=False) -> Tensor",
        logsumexp,
    ),
    Row::new(
        "linalg_vector_norm.default(Tensor self, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, \
         ScalarType? dtype=None) -> Tensor",
        vector_norm,
    ),
    Row::new(
        "norm.ScalarOpt_dim(Tensor self, Scalar? p, int[1] dim, bool keepdim=False) -> Tensor",
        vector_norm,
    ),
    Row::new("norm.Scalar(Tensor self, Scalar p=2) -> Tensor", vector_norm),
    Row::new(
        "softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor",
        softmax,
    ),
    Row::new(
        "log_softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor",
        softmax,
    ),
    Row::new(
        "_softmax.default(Tensor self, int dim, bool half_to_float) -> Tensor",
        core_softmax,
    ),
    Row::new(
        "_log_softmax.default(Tensor self, int dim, bool half_to_float) -> Tensor",
        core_softmax,
    ),
];

/// The dimensions to reduce: the arguments `dim` (an integer or a list), every dimension when missing or empty.
fn reduced_axes(call: &Call<'_>, rank: usize) -> Result<Vec<usize>> {
    let dims = match call.opt_arg("dim") {
        Some(Arg::Int(_)) => vec![call.int("dim")?],
        Some(_) => call.ints("dim")?,
        None => Vec::new(),
    };
    if dims.is_empty() {
        return Ok((0..rank).collect());
    }
    axes(&dims, rank)
}

fn keepdim(call: &Call<'_>) -> Result<bool> {
    match call.opt_arg("keepdim") {
        Some(_) => call.bool("keepdim"),
        None => Ok(false),
    }
}

/// The shape after reduction over [`reduced_axes`].
fn reduced(call: &Call<'_>) -> Result<Vec<Expr>> {
    let ty = call.tensor("self")?;
    let axes = reduced_axes(call, ty.rank())?;
    let keep = keepdim(call)?;
    let one = Expr::constant(1);
    let dims = ty.shape.iter().enumerate();
    let reduced = dims.filter_map(|(at, dim)| {
        if axes.contains(&at) {
            keep.then_some(&one)
        } else {
            Some(dim)
        }
    });
    Ok(reduced.cloned().collect())
}

/// An error if the reduction would have nothing to choose from.
fn require_elements(call: &Call<'_>) -> Result<()> {
    let ty = call.tensor("self")?;
    for at in reduced_axes(call, ty.rank())? {
        if extent(&ty.shape, at).is(0) {
            return Err(Error::invalid(format!(
                "dimension {at} of {ty} is empty and has no extremum"
            )));
        }
    }
    Ok(())
}

fn sum(call: &Call<'_>) -> Inferred {
    let dtype = call.opt_dtype("dtype")?;
    one(
        dtype.unwrap_or(accumulated(call.tensor("self")?.dtype)),
        reduced(call)?,
    )
}

fn mean(call: &Call<'_>) -> Inferred {
    let dtype = call.opt_dtype("dtype")?.unwrap_or(call.tensor("self")?.dtype);
    one(require_float("the type of a mean", dtype)?, reduced(call)?)
}

fn extremum(call: &Call<'_>) -> Inferred {
    require_elements(call)?;
    one(call.tensor("self")?.dtype, reduced(call)?)
}

fn extremum_with_indices(call: &Call<'_>) -> Inferred {
    let mut results = extremum(call)?;
    results.extend(indices(call)?);
    Ok(results)
}

fn position(call: &Call<'_>) -> Inferred {
    reject_bool("self", call.tensor("self")?.dtype)?;
    indices(call)
}

fn indices(call: &Call<'_>) -> Inferred {
    require_elements(call)?;
    one(DType::I64, reduced(call)?)
}

fn truth(call: &Call<'_>) -> Inferred {
    // For compatibility with its early versions PyTorch answers u8 with u8.
    let dtype = match call.tensor("self")?.dtype {
        DType::U8 => DType::U8,
        _ => DType::Bool,
    };
    one(dtype, reduced(call)?)
}

/// Unlike other reductions these take an empty list at its word.
fn truth_over(call: &Call<'_>) -> Inferred {
    let ty = call.tensor("self")?;
    let mut types = truth(call)?;
    if call.has("dim")? && call.sizes("dim")?.is_empty() {
        for result in &mut types {
            result.shape.clone_from(&ty.shape);
        }
    }
    Ok(types)
}

fn variance(call: &Call<'_>) -> Inferred {
    one(require_float("self", call.tensor("self")?.dtype)?, reduced(call)?)
}

fn variance_and_mean(call: &Call<'_>) -> Inferred {
    let variance = variance(call)?;
    Ok([variance.clone(), variance].concat())
}

fn logsumexp(call: &Call<'_>) -> Inferred {
    one(to_float(call.tensor("self")?.dtype), reduced(call)?)
}

fn vector_norm(call: &Call<'_>) -> Inferred {
    let own = require_float("self", call.tensor("self")?.dtype)?;
    let dtype = match call.opt_arg("dtype") {
        Some(_) => call.opt_dtype("dtype")?.unwrap_or(own),
        None => own,
    };
    require_float("dtype", dtype)?;
    if own.promote(dtype) != dtype {
        return Err(Error::invalid(format!(
            "dtype {dtype} is narrower than the operand's {own}"
        )));
    }
    one(dtype, reduced(call)?)
}

fn softmax(call: &Call<'_>) -> Inferred {
    let ty = call.tensor("self")?;
    axis(call.int("dim")?, ty.rank())?;
    let dtype = call.opt_dtype("dtype")?.unwrap_or(ty.dtype);
    one(require_float("the type of a softmax", dtype)?, ty.shape.clone())
}

fn core_softmax(call: &Call<'_>) -> Inferred {
    let ty = call.tensor("self")?;
    axis(call.int("dim")?, ty.rank())?;
    require_float("self", ty.dtype)?;
    if !call.bool("half_to_float")? {
        return Ok(vec![ty.clone()]);
    }
    if ty.dtype != DType::F16 {
        return Err(Error::invalid(format!(
            "half_to_float takes f16, not {}",
            ty.dtype
        )));
    }
    one(DType::F32, ty.shape.clone())
}
