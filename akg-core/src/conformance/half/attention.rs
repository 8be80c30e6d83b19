//! Attention, written out and as one operator.

use super::{Recipe, Recorder};
use crate::dtype::DType;
use crate::error::Result;
use crate::graph::ValueId;

pub(super) const RECIPES: &[(&str, Recipe)] = &[
    ("attention_written_out", written_out),
    ("attention_masked", masked),
    ("attention_causal", causal),
    ("attention_additive_mask", additive_mask),
    ("attention_capped", capped),
];

fn operands(r: &mut Recorder, scale: f64) -> Result<[ValueId; 3]> {
    Ok([
        r.normal([2, 3, 24, 16], scale)?,
        r.normal([2, 3, 24, 16], scale)?,
        r.normal([2, 3, 24, 16], 1.0)?,
    ])
}

fn scores(r: &mut Recorder, q: ValueId, k: ValueId) -> Result<ValueId> {
    let k = r.graph.transpose(k, -1, -2)?;
    r.graph.matmul(q, k)
}

/// Fault: no scale.
fn written_out(r: &mut Recorder) -> Result<Vec<ValueId>> {
    let [q, k, v] = operands(r, 1.0)?;
    let scores = scores(r, q, k)?;
    let scores = r.graph.mul(scores, r.or(0.25, 1.0))?;
    let weights = r.graph.softmax(scores, -1)?;
    Ok(vec![r.graph.matmul(weights, v)?])
}

/// Fault: each row sees one key more.
fn masked(r: &mut Recorder) -> Result<Vec<ValueId>> {
    let [q, k, v] = operands(r, 1.0)?;
    let scores = scores(r, q, k)?;
    let scores = r.graph.mul(scores, 0.25)?;
    let ones = r.graph.full([24, 24], 1.0, r.dtype)?;
    let later = r.graph.triu(ones, r.or(1, 2))?;
    let later = r.graph.ne(later, 0.0)?;
    let scores = r.graph.masked_fill(scores, later, f64::NEG_INFINITY)?;
    let weights = r.graph.softmax(scores, -1)?;
    Ok(vec![r.graph.matmul(weights, v)?])
}

/// Fault: not causal.
fn causal(r: &mut Recorder) -> Result<Vec<ValueId>> {
    let [q, k, v] = operands(r, 1.0)?;
    Ok(vec![r.graph.attention(q, k, v, r.or(true, false))?])
}

/// Fault: the mask is left out.
fn additive_mask(r: &mut Recorder) -> Result<Vec<ValueId>> {
    let [q, k, v] = operands(r, 1.0)?;
    let mask = r.normal([24, 24], 2.0)?;
    let scores = scores(r, q, k)?;
    let scaled = r.graph.div(scores, 4.0)?;
    let added = r.graph.add(scaled, mask)?;
    let weights = r.graph.softmax(r.or(added, scaled), -1)?;
    Ok(vec![r.graph.matmul(weights, v)?])
}

/// Softmax in f32 of scores under a soft cap. Fault: no cap.
fn capped(r: &mut Recorder) -> Result<Vec<ValueId>> {
    let [q, k, v] = operands(r, 1.5)?;
    let scores = scores(r, q, k)?;
    let capped = r.graph.div(scores, 8.0)?;
    let capped = r.graph.tanh(capped)?;
    let capped = r.graph.mul(capped, 8.0)?;
    let scores = r.graph.to_dtype(r.or(capped, scores), DType::F32)?;
    let weights = r.graph.softmax(scores, -1)?;
    let weights = r.graph.to_dtype(weights, r.dtype)?;
    Ok(vec![r.graph.matmul(weights, v)?])
}
