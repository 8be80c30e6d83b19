//! Element-wise operators.

use super::{Call, Row};
use crate::error::Result;
use crate::graph::TensorType;

pub(super) const ROWS: &[Row] = &[Row {
    schema: "relu.default(Tensor self) -> Tensor",
    infer: same,
}];

fn same(call: &Call<'_>) -> Result<Vec<TensorType>> {
    Ok(vec![call.tensor("self")?.clone()])
}
