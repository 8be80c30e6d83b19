//! Tensors from nothing.

use super::dropout::require_seed;
use super::extents::*;
use super::promotion::*;
use super::{Call, Inferred, Row, one};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::expr::Expr;
use crate::graph::Arg;

pub(super) const ROWS: &[Row] = &[
    Row::new(
        "full.default(SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None, Layout? layout=None, \
         Device? device=None, bool? pin_memory=None) -> Tensor",
        full,
    ),
    Row::new(
        "full_like.default(Tensor self, Scalar fill_value, *, ScalarType? dtype=None, \
         Layout? layout=None, Device? device=None, bool? pin_memory=None, \
         MemoryFormat? memory_format=None) -> Tensor",
        full_like,
    ),
    Row::new(
        "zeros_like.default(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, \
         Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
        full_like,
    ),
    Row::new(
        "ones_like.default(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, \
         Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
        full_like,
    ),
    Row::new(
        "zeros.default(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, \
         Device? device=None, bool? pin_memory=None) -> Tensor",
        constant_fill,
    ),
    Row::new(
        "ones.default(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, \
         bool? pin_memory=None) -> Tensor",
        constant_fill,
    ),
    Row::new(
        "arange.default(Scalar end, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, \
         bool? pin_memory=None) -> Tensor",
        arange,
    ),
    Row::new(
        "arange.start(Scalar start, Scalar end, *, ScalarType? dtype=None, Layout? layout=None, \
         Device? device=None, bool? pin_memory=None) -> Tensor",
        arange,
    ),
    Row::new(
        "arange.start_step(Scalar start, Scalar end, Scalar step=1, *, ScalarType? dtype=None, \
         Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
        arange,
    ),
    Row::new(
        "scalar_tensor.default(Scalar s, *, ScalarType? dtype=None, Layout? layout=None, \
         Device? device=None, bool? pin_memory=None) -> Tensor",
        scalar_tensor,
    ),
    Row::new(
        "randn.default(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, \
         Device? device=None, bool? pin_memory=None) -> Tensor",
        random,
    ),
    Row::new(
        "rand.default(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, \
         bool? pin_memory=None) -> Tensor",
        random,
    ),
    Row::new(
        "randn_like.default(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, \
         Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
        random_like,
    ),
    Row::new(
        "rand_like.default(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, \
         Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
        random_like,
    ),
    Row::new(
        "akg::seeded_rand.default(SymInt[] size, Tensor seed, int offset=0, *, ScalarType? dtype=None) -> Tensor",
        seeded_random,
    ),
    Row::new(
        "akg::seeded_randn.default(SymInt[] size, Tensor seed, int offset=0, *, ScalarType? dtype=None) -> Tensor",
        seeded_random,
    ),
    Row::new(
        "_assert_tensor_metadata.default(Tensor a, SymInt[]? size=None, SymInt[]? stride=None, \
         ScalarType? dtype=None, *, Device? device=None, Layout? layout=None) -> ()",
        assert_metadata,
    ),
];

fn sized(call: &Call<'_>, default: DType) -> Inferred {
    let size = call.sizes("size")?;
    require_non_negative("size", size)?;
    one(call.opt_dtype("dtype")?.unwrap_or(default), size)
}

fn full(call: &Call<'_>) -> Inferred {
    sized(
        call,
        scalar_dtype(call.arg("fill_value")?).unwrap_or(DEFAULT_FLOAT),
    )
}

fn constant_fill(call: &Call<'_>) -> Inferred {
    sized(call, DEFAULT_FLOAT)
}

fn full_like(call: &Call<'_>) -> Inferred {
    let ty = call.tensor("self")?;
    one(call.opt_dtype("dtype")?.unwrap_or(ty.dtype), ty.shape.clone())
}

fn random(call: &Call<'_>) -> Inferred {
    require_float("dtype", call.opt_dtype("dtype")?.unwrap_or(DEFAULT_FLOAT))?;
    constant_fill(call)
}

fn seeded_random(call: &Call<'_>) -> Inferred {
    require_seed(call)?;
    random(call)
}

fn random_like(call: &Call<'_>) -> Inferred {
    require_float(
        "dtype",
        call.opt_dtype("dtype")?.unwrap_or(call.tensor("self")?.dtype),
    )?;
    full_like(call)
}

fn scalar_tensor(call: &Call<'_>) -> Inferred {
    one(call.opt_dtype("dtype")?.unwrap_or(DEFAULT_FLOAT), [])
}

fn arange(call: &Call<'_>) -> Inferred {
    let given = |name: &str, default: i64| {
        let arg = call.opt_arg(name).cloned();
        arg.unwrap_or_else(|| Arg::Int(Expr::constant(default)))
    };
    let (start, end, step) = (given("start", 0), given("end", 0), given("step", 1));
    let floating = [&start, &end, &step]
        .into_iter()
        .any(|a| matches!(a, Arg::Float(_)));
    let dtype = call
        .opt_dtype("dtype")?
        .unwrap_or(if floating { DEFAULT_FLOAT } else { DType::I64 });
    reject_bool("dtype", dtype)?;
    one(dtype, [range_length(&start, &end, &step)?])
}

fn range_length(start: &Arg, end: &Arg, step: &Arg) -> Result<Expr> {
    let bad = |what: &str| Error::invalid(format!("the range from {start:?} to {end:?} by {step:?} {what}"));
    if let (Arg::Int(start), Arg::Int(end), Arg::Int(step)) = (start, end, step) {
        let step_sign = step
            .as_const()
            .map(i64::signum)
            .ok_or_else(|| bad("has a symbolic step"))?;
        let distance = (end - start) * step_sign;
        if step_sign == 0 || distance.as_const().is_some_and(|d| d < 0) {
            return Err(bad("does not end"));
        }
        return Ok(distance.ceil_div(&(step.clone() * step_sign)));
    }
    let [start_value, end_value, step_value] = [start, end, step].map(number);
    let (Some(a), Some(b), Some(s)) = (start_value, end_value, step_value) else {
        return Err(bad("mixes symbols and floating numbers"));
    };
    let length = ((b - a) / s).ceil();
    if !length.is_finite() || length < 0.0 {
        return Err(bad("does not end"));
    }
    Ok(Expr::constant(length as i64))
}

fn number(arg: &Arg) -> Option<f64> {
    match arg {
        Arg::Int(e) => e.as_const().map(|v| v as f64),
        Arg::Float(v) => Some(*v),
        Arg::Bool(b) => Some(f64::from(u8::from(*b))),
        _ => None,
    }
}

/// Passes when the operand is as described, and has no result. Strides are not compared: values are dense.
fn assert_metadata(call: &Call<'_>) -> Inferred {
    let ty = call.tensor("a")?;
    if call.has("size")? {
        require_shape("a", &ty.shape, call.sizes("size")?)?;
    }
    if let Some(dtype) = call.opt_dtype("dtype")? {
        require_same("a", ty.dtype, "the expected type", dtype)?;
    }
    Ok(Vec::new())
}
