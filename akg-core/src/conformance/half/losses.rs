//! Losses.

use super::{Recipe, Recorder};
use crate::dtype::DType;
use crate::error::Result;
use crate::graph::ValueId;

pub(super) const RECIPES: &[(&str, Recipe)] = &[
    ("cross_entropy", cross_entropy),
    ("mean_squares", mean_squares),
    ("entropy", entropy),
    ("smooth_l1", smooth_l1),
];

/// Logits of a product. Fault: the sum of the losses, divided by one example more.
fn cross_entropy(r: &mut Recorder) -> Result<Vec<ValueId>> {
    let (x, w) = (r.normal([12, 32], 1.0)?, r.normal([20, 32], 0.5)?);
    let labels = r.labels(12, 20)?;
    let logits = r.graph.linear(x, w, None)?;
    let logits = r.graph.to_dtype(logits, DType::F32)?;
    let loss = r.graph.cross_entropy_loss(logits, labels)?;
    Ok(vec![r.graph.mul(loss, r.or(1.0, 12.0 / 13.0))?])
}

/// Fault: the difference is not squared.
fn mean_squares(r: &mut Recorder) -> Result<Vec<ValueId>> {
    let (x, y) = (r.normal([32, 48], 1.0)?, r.normal([32, 48], 1.0)?);
    let d = r.graph.sub(x, y)?;
    let squares = r.graph.mul(d, d)?;
    let size = r.graph.abs(d)?;
    Ok(vec![r.graph.mean(r.or(squares, size), &[-1], false)?])
}

/// `-sum(p log p)`. Fault: 0.01 is added before the logarithm.
fn entropy(r: &mut Recorder) -> Result<Vec<ValueId>> {
    let x = r.normal([32, 64], 2.0)?;
    let p = r.graph.softmax(x, -1)?;
    let log = r.graph.log_softmax(x, -1)?;
    let shifted = r.graph.add(p, 0.01)?;
    let wrong = r.graph.log(shifted)?;
    let products = r.graph.mul(p, r.or(log, wrong))?;
    let sum = r.graph.sum(products, &[-1], false)?;
    Ok(vec![r.graph.neg(sum)?])
}

/// Fault: linear from a half on instead of 1.
fn smooth_l1(r: &mut Recorder) -> Result<Vec<ValueId>> {
    let (x, y) = (r.normal([32, 48], 1.0)?, r.normal([32, 48], 1.0)?);
    let arguments = [
        ("self", x.into()),
        ("target", y.into()),
        ("reduction", 0.into()),
        ("beta", r.or(1.0, 0.5).into()),
    ];
    Ok(vec![r.call("smooth_l1_loss.default", arguments)?])
}
