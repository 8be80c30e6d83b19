//! Code that looks at values where their type jumps.

use super::{Recipe, Recorder};
use crate::dtype::DType;
use crate::error::Result;
use crate::graph::ValueId;

pub(super) const RECIPES: &[(&str, Recipe)] = &[
    ("scrub_infinities", scrub_infinities),
    ("largest_logit", largest_logit),
    ("levels", levels),
];

/// Squares that a half type may not have. Fault: the predicate is about the square in f32.
fn scrub_infinities(r: &mut Recorder) -> Result<Vec<ValueId>> {
    // The square is infinite in f16 from 256 on, in bf16 from about 1.84e19 on.
    let scale = if r.dtype == DType::F16 { 200.0 } else { 1.5e19 };
    let x = r.normal([40, 50], scale)?;
    let y = r.graph.mul(x, x)?;
    let operand = if r.is_faulty {
        let wide = r.graph.to_dtype(x, DType::F32)?;
        let half = r.graph.mul(wide, 0.5)?;
        r.graph.mul(half, half)?
    } else {
        y
    };
    let infinite = r.unary("isinf", operand)?;
    let zero = r.graph.full([40, 50], 0.0, r.dtype)?;
    let clean = r.graph.where_(infinite, zero, y)?;
    Ok(vec![infinite, clean])
}

/// Logits of which many are equal once they are rounded. Fault: that of the smallest.
fn largest_logit(r: &mut Recorder) -> Result<Vec<ValueId>> {
    let (x, w) = (r.normal([64, 32], 1.0)?, r.normal([48, 32], 0.2)?);
    let logits = r.graph.linear(x, w, None)?;
    let at = if r.is_faulty {
        r.graph.argmin(logits, -1)?
    } else {
        r.graph.argmax(logits, -1)?
    };
    Ok(vec![at])
}

/// Numbers to integers. Fault: rounded down.
fn levels(r: &mut Recorder) -> Result<Vec<ValueId>> {
    let x = r.normal([32, 48], 1.0)?;
    let scaled = r.graph.mul(x, 12.7)?;
    let whole = r.unary(r.or("round", "floor"), scaled)?;
    let bounded = r.graph.clamp(whole, Some(-127.0), Some(127.0))?;
    Ok(vec![r.graph.to_dtype(bounded, DType::I32)?])
}
