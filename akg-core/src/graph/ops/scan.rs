//! Cumulative sums and products, and linear recurrences.

use super::extents::{axis, require_shape};
use super::promotion::accumulated;
use super::{Call, Inferred, Row};
use crate::dtype::DType;
use crate::error::Error;
use crate::graph::TensorType;

pub(super) const ROWS: &[Row] = &[
    Row::new(
        "cumsum.default(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor",
        scan,
    ),
    Row::new(
        "cumprod.default(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor",
        scan,
    ),
    Row::new(
        "akg::linear_recurrence.default(Tensor decay, Tensor input, Tensor hx) -> Tensor",
        linear_recurrence,
    ),
];

fn scan(call: &Call<'_>) -> Inferred {
    let ty = call.tensor("self")?;
    axis(call.int("dim")?, ty.rank())?;
    let dtype = call.opt_dtype("dtype")?.unwrap_or(accumulated(ty.dtype));
    Ok(vec![TensorType {
        dtype,
        shape: ty.shape.clone(),
    }])
}

/// `h[t] = decay[t] * h[t - 1] + input[t]` along the first dimension, from `hx` on.
fn linear_recurrence(call: &Call<'_>) -> Inferred {
    let (decay, input, first) = (call.tensor("decay")?, call.tensor("input")?, call.tensor("hx")?);
    if [decay, input, first].iter().any(|ty| ty.dtype != DType::F32) {
        return Err(Error::invalid("a linear recurrence is one of f32"));
    }
    require_shape("input", &input.shape, &decay.shape)?;
    require_shape("hx", &first.shape, decay.shape.get(1..).unwrap_or_default())?;
    Ok(vec![decay.clone()])
}
