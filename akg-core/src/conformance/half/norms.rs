//! Normalisation.

use super::{Recipe, Recorder};
use crate::dtype::DType;
use crate::error::Result;
use crate::graph::ValueId;

pub(super) const RECIPES: &[(&str, Recipe)] = &[
    ("rms_norm_written_out", rms_written_out),
    ("rms_norm_upcast", rms_upcast),
    ("layer_norm", layer),
    ("layer_norm_written_out", layer_written_out),
    ("group_norm", group),
    ("unit_length", unit_length),
];

/// `x` times the reciprocal root of the mean of its squares.
fn rms(r: &mut Recorder, x: ValueId, eps: f64) -> Result<ValueId> {
    let squares = r.graph.pow(x, 2)?;
    let mean = r.graph.mean(squares, &[-1], true)?;
    let mean = r.graph.add(mean, eps)?;
    let scale = r.graph.rsqrt(mean)?;
    r.graph.mul(x, scale)
}

/// Rows as small as the square root of eps. Fault: another eps.
fn rms_written_out(r: &mut Recorder) -> Result<Vec<ValueId>> {
    let (x, w) = (r.normal([48, 96], 0.04)?, r.uniform([96])?);
    let x = rms(r, x, r.or(1e-3, 1e-5))?;
    Ok(vec![r.graph.mul(x, w)?])
}

/// Fault: no weight.
fn rms_upcast(r: &mut Recorder) -> Result<Vec<ValueId>> {
    let (x, w) = (r.normal([48, 96], 1.0)?, r.uniform([96])?);
    let x = r.graph.to_dtype(x, DType::F32)?;
    let x = rms(r, x, 1e-6)?;
    let x = r.graph.to_dtype(x, r.dtype)?;
    let weighted = r.graph.mul(x, w)?;
    Ok(vec![r.or(weighted, x)])
}

/// Fault: another eps.
fn layer(r: &mut Recorder) -> Result<Vec<ValueId>> {
    let (x, w, b) = (r.normal([48, 96], 0.01)?, r.uniform([96])?, r.normal([96], 0.1)?);
    let eps = r.or(1e-5, 1e-6);
    Ok(vec![r.graph.layer_norm(x, [96], Some(w), Some(b), eps)?])
}

/// Fault: the variance is not about the mean.
fn layer_written_out(r: &mut Recorder) -> Result<Vec<ValueId>> {
    let x = r.normal([48, 96], 1.0)?;
    let x = r.graph.add(x, 0.5)?;
    let mean = r.graph.mean(x, &[-1], true)?;
    let centred = r.graph.sub(x, mean)?;
    let squares = r.graph.pow(r.or(centred, x), 2)?;
    let variance = r.graph.mean(squares, &[-1], true)?;
    let variance = r.graph.add(variance, 1e-3)?;
    let deviation = r.graph.sqrt(variance)?;
    Ok(vec![r.graph.div(centred, deviation)?])
}

/// Fault: other groups.
fn group(r: &mut Recorder) -> Result<Vec<ValueId>> {
    let (x, w, b) = (r.normal([3, 8, 5, 6], 1.0)?, r.uniform([8])?, r.normal([8], 0.1)?);
    let groups = r.or(2, 4);
    Ok(vec![r.graph.group_norm(x, groups, Some(w), Some(b), 1e-5)?])
}

/// Fault: one row is divided by the length of its neighbour.
fn unit_length(r: &mut Recorder) -> Result<Vec<ValueId>> {
    let x = r.normal([32, 80], 1.0)?;
    let squares = r.graph.mul(x, x)?;
    let sum = r.graph.sum(squares, &[-1], true)?;
    let length = r.graph.sqrt(sum)?;
    let length = r.graph.clamp(length, Some(1e-3), None)?;
    if !r.is_faulty {
        return Ok(vec![r.graph.div(x, length)?]);
    }
    let (first, rest) = (
        r.graph.slice(length, 0, 0, 1, 1)?,
        r.graph.slice(length, 0, 2, 32, 1)?,
    );
    let lengths = r.graph.cat(&[first, first, rest], 0)?;
    Ok(vec![r.graph.div(x, lengths)?])
}
