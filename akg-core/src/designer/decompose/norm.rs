//! Normalisations, in two passes: mean, then the variance about it.

use super::Step;
use crate::designer::prim::PrimId;
use crate::error::{Error, Result};
use crate::expr::Expr;
use crate::sketch::ir::UnaryOp;

pub(super) fn decompose(s: &mut Step<'_>, name: &str) -> Result<Option<Vec<PrimId>>> {
    let results = match name {
        "layer_norm" => {
            let x = s.tensor("input")?;
            let rank = s.prims.rank(x);
            let count = s.call.sizes("normalized_shape")?.len();
            let axes: Vec<usize> = (rank.saturating_sub(count)..rank).collect();
            let eps = s.call.number("eps")?;
            let y = normalised(s, x, &axes, eps)?;
            let (weight, bias) = (s.opt_tensor("weight")?, s.opt_tensor("bias")?);
            vec![affine(s, y, weight, bias)?]
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
            vec![group_norm(s, x, groups, eps)?]
        }
        "instance_norm" => {
            if s.opt_tensor("running_mean")?.is_some() {
                return Ok(None);
            }
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

/// `(x - mean) / sqrt(var + eps)` over `axes`.
fn normalised(s: &mut Step<'_>, x: PrimId, axes: &[usize], eps: f64) -> Result<PrimId> {
    let mean = s.prims.mean(x, axes)?;
    let centred = s.prims.sub(x, mean)?;
    let squares = s.prims.mul(centred, centred)?;
    let variance = s.prims.mean(squares, axes)?;
    let shifted = s.prims.add_number(variance, eps)?;
    let scale = s.prims.unary(UnaryOp::Rsqrt, shifted)?;
    s.prims.mul(centred, scale)
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

fn group_norm(s: &mut Step<'_>, x: PrimId, groups: i64, eps: f64) -> Result<PrimId> {
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
    let y = normalised(s, x, &axes, eps)?;
    let y = s.prims.reshape(y, shape);
    let (weight, bias) = (s.opt_tensor("weight")?, s.opt_tensor("bias")?);
    let (weight, bias) = (per_channel(s, y, weight)?, per_channel(s, y, bias)?);
    affine(s, y, weight, bias)
}
