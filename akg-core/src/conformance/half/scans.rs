//! Sums along an axis, at once and step by step.

use super::{Recipe, Recorder};
use crate::error::Result;
use crate::graph::ValueId;

pub(super) const RECIPES: &[(&str, Recipe)] = &[
    ("running_sum", running_sum),
    ("steps", steps),
    ("decay", decay),
    ("long_sum", long_sum),
];

/// Fault: each sum leaves its own element out.
fn running_sum(r: &mut Recorder) -> Result<Vec<ValueId>> {
    let x = r.normal([24, 80], 1.0)?;
    let sum = r.graph.cumsum(x, -1)?;
    let before = r.graph.sub(sum, x)?;
    let sum = r.or(sum, before);
    Ok(vec![r.graph.tanh(sum)?])
}

/// `h = 0.9 h + x`, written out. Fault: one step is left out.
fn steps(r: &mut Recorder) -> Result<Vec<ValueId>> {
    let x = r.normal([24, 12, 40], 1.0)?;
    let mut h = r.graph.select(x, 1, 0)?;
    for step in 1..12 {
        if step == 9 && r.is_faulty {
            continue;
        }
        let fresh = r.graph.select(x, 1, step)?;
        let old = r.graph.mul(h, 0.9)?;
        h = r.graph.add(old, fresh)?;
    }
    Ok(vec![h])
}

/// `exp(c) * cumsum(x * exp(-c))` of falling `c`. Fault: `c` one step late.
fn decay(r: &mut Recorder) -> Result<Vec<ValueId>> {
    let (x, a) = (r.uniform([24, 32])?, r.uniform([24, 32])?);
    let a = r.graph.mul(a, -0.2)?;
    let c = r.graph.cumsum(a, -1)?;
    let late = r.graph.sub(c, a)?;
    let minus = r.graph.neg(r.or(c, late))?;
    let grown = r.graph.exp(minus)?;
    let grown = r.graph.mul(x, grown)?;
    let sum = r.graph.cumsum(grown, -1)?;
    let shrink = r.graph.exp(c)?;
    Ok(vec![r.graph.mul(shrink, sum)?])
}

/// Fault: the sum is rounded after every eighth element. It is none where nothing is rounded.
fn long_sum(r: &mut Recorder) -> Result<Vec<ValueId>> {
    let x = r.uniform([64, 4096])?;
    if !r.is_faulty {
        return Ok(vec![r.graph.sum(x, &[-1], false)?]);
    }
    let mut sum = None;
    for start in (0..4096).step_by(8) {
        let part = r.graph.slice(x, 1, start, start + 8, 1)?;
        let part = r.graph.sum(part, &[-1], false)?;
        sum = Some(match sum {
            Some(sum) => r.graph.add(sum, part)?,
            None => part,
        });
    }
    Ok(sum.into_iter().collect())
}
