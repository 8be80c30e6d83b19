//! Normalisations: moments in one pass, and what is made of them in a second.

use super::Step;
use crate::designer::prim::PrimId;
use crate::error::{Error, Result};
use crate::expr::Expr;
use crate::sketch::ir::UnaryOp;

pub(super) fn decompose(s: &mut Step<'_>, name: &str) -> Result<Option<Vec<PrimId>>> {
    let results = match name {
        "layer_norm" | "native_layer_norm" => {
            let x = s.tensor("input")?;
            let rank = s.prims.rank(x);
            let count = s.call.sizes("normalized_shape")?.len();
            let axes: Vec<usize> = (rank.saturating_sub(count)..rank).collect();
            let eps = s.call.number("eps")?;
            let Moments { mean, variance } = moments(s, x, &axes)?;
            let scale = scale(s, variance, eps)?;
            let centred = s.prims.sub(x, mean)?;
            let y = s.prims.mul(centred, scale)?;
            let (weight, bias) = (s.opt_tensor("weight")?, s.opt_tensor("bias")?);
            let y = affine(s, y, weight, bias)?;
            if name == "layer_norm" {
                vec![y]
            } else {
                vec![y, mean, scale]
            }
        }
        "rms_norm" => {
            let x = s.tensor("input")?;
            let rank = s.prims.rank(x);
            let count = s.call.sizes("normalized_shape")?.len();
            let axes: Vec<usize> = (rank.saturating_sub(count)..rank).collect();
            let unit = s.prims.dtype(x).unit_roundoff().unwrap_or(1.2e-7) * 2.0;
            let eps = s.call.opt_number("eps")?.unwrap_or(unit);
            let squares = s.prims.mul(x, x)?;
            let mean = s.prims.mean(squares, &axes)?;
            let shifted = s.prims.add_number(mean, eps)?;
            let scale = s.prims.unary(UnaryOp::Rsqrt, shifted)?;
            let y = s.prims.mul(x, scale)?;
            let weight = s.opt_tensor("weight")?;
            vec![affine(s, y, weight, None)?]
        }
        "group_norm" => {
            let x = s.tensor("input")?;
            let groups = s.call.int("num_groups")?;
            let eps = s.call.number("eps")?;
            vec![group_norm(s, x, groups, eps)?.0]
        }
        "native_group_norm" => {
            let x = s.tensor("input")?;
            let (groups, eps) = (s.call.int("group")?, s.call.number("eps")?);
            let (y, mean, scale) = group_norm(s, x, groups, eps)?;
            let shape = s.result(1)?.shape.clone();
            vec![
                y,
                s.prims.reshape(mean, shape.clone()),
                s.prims.reshape(scale, shape),
            ]
        }
        "batch_norm" | "_native_batch_norm_legit" | "_native_batch_norm_legit_functional" => batch_norm(s)?,
        "instance_norm" if !s.call.bool("use_input_stats")? => {
            let moments = running(s)?;
            vec![by_channel(s, moments)?]
        }
        "instance_norm" => {
            let x = s.tensor("input")?;
            let axes: Vec<usize> = (2..s.prims.rank(x)).collect();
            let eps = s.call.number("eps")?;
            let y = normalised(s, x, &axes, eps)?;
            let (weight, bias) = (s.opt_tensor("weight")?, s.opt_tensor("bias")?);
            let (weight, bias) = (per_channel(s, y, weight)?, per_channel(s, y, bias)?);
            vec![affine(s, y, weight, bias)?]
        }
        _ => return Ok(None),
    };
    Ok(Some(results))
}

/// Mean and variance.
#[derive(Clone, Copy)]
struct Moments {
    mean: PrimId,
    variance: PrimId,
}

/// Mean and variance over `axes`, kept with extent 1.
fn moments(s: &mut Step<'_>, x: PrimId, axes: &[usize]) -> Result<Moments> {
    let (mean, variance) = s.prims.moments(x, axes)?;
    Ok(Moments { mean, variance })
}

/// `1 / sqrt(variance + eps)`.
fn scale(s: &mut Step<'_>, variance: PrimId, eps: f64) -> Result<PrimId> {
    let shifted = s.prims.add_number(variance, eps)?;
    s.prims.unary(UnaryOp::Rsqrt, shifted)
}

/// `(x - mean) / sqrt(var + eps)` over `axes`.
fn normalised(s: &mut Step<'_>, x: PrimId, axes: &[usize], eps: f64) -> Result<PrimId> {
    let Moments { mean, variance } = moments(s, x, axes)?;
    let centred = s.prims.sub(x, mean)?;
    let scale = scale(s, variance, eps)?;
    s.prims.mul(centred, scale)
}

/// The running statistics, to broadcast against the input.
fn running(s: &mut Step<'_>) -> Result<Moments> {
    let x = s.tensor("input")?;
    let (mean, variance) = (s.opt_tensor("running_mean")?, s.opt_tensor("running_var")?);
    let (mean, variance) = (per_channel(s, x, mean)?, per_channel(s, x, variance)?);
    let missing = || Error::invalid("normalising by running statistics needs running_mean and running_var");
    Ok(Moments {
        mean: mean.ok_or_else(missing)?,
        variance: variance.ok_or_else(missing)?,
    })
}

/// The input normalised by moments of its channels, scaled and shifted.
fn by_channel(s: &mut Step<'_>, moments: Moments) -> Result<PrimId> {
    let (x, eps) = (s.tensor("input")?, s.call.number("eps")?);
    let centred = s.prims.sub(x, moments.mean)?;
    let scale = scale(s, moments.variance, eps)?;
    let y = s.prims.mul(centred, scale)?;
    let (weight, bias) = (s.opt_tensor("weight")?, s.opt_tensor("bias")?);
    let (weight, bias) = (per_channel(s, y, weight)?, per_channel(s, y, bias)?);
    affine(s, y, weight, bias)
}

/// The normalised input; then, for operators that return them, the batch's mean and scale, and the running statistics
/// moved towards the batch's by `momentum`.
fn batch_norm(s: &mut Step<'_>) -> Result<Vec<PrimId>> {
    let (x, eps) = (s.tensor("input")?, s.call.number("eps")?);
    let training = s.call.bool("training")?;
    let axes: Vec<usize> = (0..s.prims.rank(x)).filter(|a| *a != 1).collect();
    let moments = if training {
        moments(s, x, &axes)?
    } else {
        running(s)?
    };
    let mut results = vec![by_channel(s, moments)?];
    let shapes: Vec<_> = s.results.iter().map(|r| r.shape.clone()).collect();
    if let [_, mean, invstd, ..] = shapes.as_slice() {
        let scale = scale(s, moments.variance, eps)?;
        for (value, shape) in [(moments.mean, mean), (scale, invstd)] {
            // Nothing is saved of running statistics.
            results.push(if training {
                s.prims.reshape(value, shape.clone())
            } else {
                s.prims.full(0.0, s.prims.dtype(value), shape.clone())
            });
        }
    }
    if let [.., _, _] = shapes.get(3..).unwrap_or_default() {
        let (mean, variance) = (s.tensor("running_mean")?, s.tensor("running_var")?);
        if !training {
            results.extend([mean, variance]);
            return Ok(results);
        }
        let momentum = s.call.number("momentum")?;
        let unbiased = s.prims.corrected(moments.variance, x, &axes, 1.0)?;
        for (old, new) in [(mean, moments.mean), (variance, unbiased)] {
            let new = s.prims.reshape(new, s.prims.shape(old).to_vec());
            let new = s.prims.mul_number(new, momentum)?;
            let old = s.prims.mul_number(old, 1.0 - momentum)?;
            results.push(s.prims.add(new, old)?);
        }
    }
    Ok(results)
}

fn affine(s: &mut Step<'_>, y: PrimId, weight: Option<PrimId>, bias: Option<PrimId>) -> Result<PrimId> {
    let mut y = y;
    if let Some(weight) = weight {
        let weight = s.prims.cast(weight, s.prims.dtype(y));
        y = s.prims.mul(y, weight)?;
    }
    if let Some(bias) = bias {
        let bias = s.prims.cast(bias, s.prims.dtype(y));
        y = s.prims.add(y, bias)?;
    }
    Ok(y)
}

/// A per-channel vector as `[C, 1, …]`, to broadcast against `[N, C, …]`.
fn per_channel(s: &mut Step<'_>, y: PrimId, vector: Option<PrimId>) -> Result<Option<PrimId>> {
    let Some(vector) = vector else { return Ok(None) };
    let shape = s.prims.shape(y).iter().enumerate().skip(1);
    let shape = shape
        .map(|(i, d)| if i == 1 { d.clone() } else { Expr::constant(1) })
        .collect();
    Ok(Some(s.prims.reshape(vector, shape)))
}

fn group_norm(s: &mut Step<'_>, x: PrimId, groups: i64, eps: f64) -> Result<(PrimId, PrimId, PrimId)> {
    let shape = s.prims.shape(x).to_vec();
    let [batch, channels, spatial @ ..] = shape.as_slice() else {
        return Err(Error::invalid("group_norm needs at least two dimensions"));
    };
    let within = channels
        .exact_div(&Expr::constant(groups))
        .ok_or_else(|| Error::invalid(format!("{channels} channels do not divide into {groups} groups")))?;
    let mut split = vec![batch.clone(), Expr::constant(groups), within];
    split.extend(spatial.iter().cloned());
    let axes: Vec<usize> = (2..split.len()).collect();
    let x = s.prims.reshape(x, split);
    let Moments { mean, variance } = moments(s, x, &axes)?;
    let centred = s.prims.sub(x, mean)?;
    let scale = scale(s, variance, eps)?;
    let y = s.prims.mul(centred, scale)?;
    let y = s.prims.reshape(y, shape);
    let (weight, bias) = (s.opt_tensor("weight")?, s.opt_tensor("bias")?);
    let (weight, bias) = (per_channel(s, y, weight)?, per_channel(s, y, bias)?);
    Ok((affine(s, y, weight, bias)?, mean, scale))
}
