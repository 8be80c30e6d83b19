//! Dropout: ATen's, whose chance is its own, and akg's, whose chance is an operand.

use super::promotion::require_float;
use super::{Call, Inferred, Row};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::graph::TensorType;

pub(super) const ROWS: &[Row] = &[
    Row::new(
        "dropout.default(Tensor input, float p, bool train) -> Tensor",
        dropout,
    ),
    Row::new(
        "native_dropout.default(Tensor input, float p, bool? train) -> (Tensor, Tensor)",
        native_dropout,
    ),
    Row::new(
        "akg::seeded_dropout.default(Tensor input, Tensor seed, float p, int offset=0) -> Tensor",
        seeded_dropout,
    ),
];

fn dropout(call: &Call<'_>) -> Inferred {
    check_probability(call)?;
    Ok(vec![call.tensor("input")?.clone()])
}

fn native_dropout(call: &Call<'_>) -> Inferred {
    check_probability(call)?;
    let ty = call.tensor("input")?.clone();
    let mask = TensorType {
        dtype: DType::Bool,
        shape: ty.shape.clone(),
    };
    Ok(vec![ty, mask])
}

fn check_probability(call: &Call<'_>) -> Result<()> {
    let p = call.number("p")?;
    if (0.0..=1.0).contains(&p) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "the dropout probability is {p}, expected 0 to 1"
    )))
}

fn seeded_dropout(call: &Call<'_>) -> Inferred {
    let ty = call.tensor("input")?;
    require_float("input", ty.dtype)?;
    require_seed(call)?;
    let p = call.number("p")?;
    if !(0.0..1.0).contains(&p) {
        return Err(Error::invalid(format!(
            "the dropout probability is {p}, expected 0 to less than 1"
        )));
    }
    Ok(vec![ty.clone()])
}

/// An error unless the operand `seed` is one.
pub(super) fn require_seed(call: &Call<'_>) -> Result<()> {
    let seed = call.tensor("seed")?;
    if seed.dtype == DType::I64 && seed.rank() == 0 {
        return Ok(());
    }
    Err(Error::invalid(format!("the seed is {seed}, expected i64[]")))
}
