//! Cumulative sums and products.

use super::extents::axis;
use super::promotion::accumulated;
use super::{Call, Inferred, Row};
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
