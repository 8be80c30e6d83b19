//! Copies that move, drop or add elements.

use super::extents::*;
use super::{Call, Inferred, Row};
use crate::error::Error;
use crate::expr::Expr;
use crate::graph::TensorType;

pub(super) const ROWS: &[Row] = &[
    Row::new("flip.default(Tensor self, int[] dims) -> Tensor", flip),
    Row::new(
        "roll.default(Tensor self, SymInt[1] shifts, int[1] dims=[]) -> Tensor",
        roll,
    ),
    Row::new("tril.default(Tensor self, SymInt diagonal=0) -> Tensor", triangle),
    Row::new("triu.default(Tensor self, SymInt diagonal=0) -> Tensor", triangle),
    Row::new(
        "constant_pad_nd.default(Tensor self, SymInt[] pad, Scalar value=0) -> Tensor",
        constant_pad,
    ),
    Row::new(
        "pad.default(Tensor self, SymInt[] pad, str mode='constant', float? value=None) -> Tensor",
        pad,
    ),
    Row::new("repeat.default(Tensor self, SymInt[] repeats) -> Tensor", repeat),
];

fn same(call: &Call<'_>) -> Inferred {
    Ok(vec![call.tensor("self")?.clone()])
}

fn flip(call: &Call<'_>) -> Inferred {
    axes(&call.ints("dims")?, call.tensor("self")?.rank())?;
    same(call)
}

fn roll(call: &Call<'_>) -> Inferred {
    let (shifts, dims) = (call.sizes("shifts")?, call.ints("dims")?);
    let flattened = dims.is_empty() && shifts.len() == 1;
    if !flattened && (dims.len() != shifts.len() || dims.is_empty()) {
        return Err(Error::invalid(format!(
            "{} shifts for {} dims",
            shifts.len(),
            dims.len()
        )));
    }
    for dim in dims {
        axis(dim, call.tensor("self")?.rank())?;
    }
    same(call)
}

fn triangle(call: &Call<'_>) -> Inferred {
    let ty = call.tensor("self")?;
    if ty.rank() < 2 {
        return Err(Error::invalid(format!(
            "a triangle needs at least two dimensions, not {ty}"
        )));
    }
    same(call)
}

fn constant_pad(call: &Call<'_>) -> Inferred {
    let ty = call.tensor("self")?;
    let pad = call.sizes("pad")?;
    if pad.len() % 2 != 0 || pad.len() / 2 > ty.rank() {
        return Err(Error::invalid(format!(
            "pad {} does not pair up with the dimensions of {ty}",
            list(pad)
        )));
    }
    let mut shape = ty.shape.clone();
    // The first pair is for the last dimension.
    for (dim, pair) in shape.iter_mut().rev().zip(pad.chunks_exact(2)) {
        *dim = pair.iter().fold(dim.clone(), |sum, p| &sum + p);
    }
    require_non_negative("the padded shape", &shape)?;
    Ok(vec![TensorType {
        dtype: ty.dtype,
        shape,
    }])
}

fn pad(call: &Call<'_>) -> Inferred {
    let mode = call.str("mode")?;
    if mode == "constant" {
        return constant_pad(call);
    }
    if call.has("value")? {
        return Err(Error::invalid(format!("padding mode `{mode}` takes no value")));
    }
    // The largest padding is the extent, or one less where the edge is not repeated.
    let spare = match mode {
        "reflect" => Some(1),
        "circular" => Some(0),
        "replicate" => None,
        _ => {
            return Err(Error::invalid(format!(
                "unknown padding mode `{mode}`; known are constant, reflect, replicate and circular"
            )));
        }
    };
    let ty = call.tensor("self")?;
    let pad = call.sizes("pad")?;
    let padded = pad.len() / 2;
    if pad.len() % 2 != 0 || !(1..=3).contains(&padded) {
        return Err(Error::invalid(format!(
            "pad {} must have 2, 4 or 6 entries",
            list(pad)
        )));
    }
    require_rank("self", &ty.shape, &[padded + 1, padded + 2])?;
    for (dim, pair) in ty.shape.iter().rev().zip(pad.chunks_exact(2)) {
        for p in pair {
            let room = spare.and_then(|s| (dim - p).as_const().map(|room| room - s));
            if room.is_some_and(|room| room < 0) {
                return Err(Error::invalid(format!(
                    "{mode} padding by {p} is too wide for an extent of {dim}"
                )));
            }
        }
    }
    let types = constant_pad(call)?;
    let empty = |ty: &TensorType| ty.shape.iter().rev().take(padded).any(|d| d.is(0));
    if mode != "circular" && types.iter().any(empty) {
        return Err(Error::invalid(format!(
            "{mode} padding of {ty} by {} leaves nothing",
            list(pad)
        )));
    }
    Ok(types)
}

fn repeat(call: &Call<'_>) -> Inferred {
    let ty = call.tensor("self")?;
    let repeats = call.sizes("repeats")?;
    require_non_negative("repeats", repeats)?;
    let new = repeats.len().checked_sub(ty.rank());
    let new = new.ok_or_else(|| Error::invalid(format!("{} repeats for {ty}", repeats.len())))?;
    let own = |at: usize| {
        at.checked_sub(new)
            .map_or(Expr::constant(1), |i| extent(&ty.shape, i))
    };
    let shape = repeats.iter().enumerate().map(|(at, r)| &own(at) * r);
    Ok(vec![TensorType::new(ty.dtype, shape)])
}
