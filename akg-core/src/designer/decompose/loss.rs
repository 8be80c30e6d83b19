//! Losses: element-wise work and one reduction, so that each input is read once.
//!
//! What is computed for a row after its sums is in double precision: there is little of it, and the distances or logarithms
//! that a loss subtracts from each other are much larger than what remains.

use super::Step;
use crate::designer::prim::{PrimId, Prims};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::expr::Expr;
use crate::sketch::ir::{BinaryOp, CompareOp, ReduceOp, UnaryOp};

pub(super) fn decompose(s: &mut Step<'_>, name: &str) -> Result<Option<Vec<PrimId>>> {
    let losses = match name {
        "mse_loss" => {
            let (x, y) = pair(s)?;
            let d = s.prims.sub(x, y)?;
            s.prims.mul(d, d)?
        }
        "l1_loss" => distance(s)?,
        "smooth_l1_loss" => {
            let (z, beta) = (distance(s)?, s.call.number("beta")?);
            if beta == 0.0 {
                z
            } else {
                let near = s.prims.mul(z, z)?;
                let near = s.prims.mul_number(near, 0.5 / beta)?;
                let far = s.prims.add_number(z, -0.5 * beta)?;
                near_or_far(s.prims, CompareOp::Lt, z, beta, near, far)?
            }
        }
        "huber_loss" => {
            let (z, delta) = (distance(s)?, s.call.number("delta")?);
            let near = s.prims.mul(z, z)?;
            let near = s.prims.mul_number(near, 0.5)?;
            let far = s.prims.add_number(z, -0.5 * delta)?;
            let far = s.prims.mul_number(far, delta)?;
            near_or_far(s.prims, CompareOp::Le, z, delta, near, far)?
        }
        "kl_div" => divergence(s)?,
        "binary_cross_entropy" => {
            let losses = binary_cross_entropy(s)?;
            weighted(s, losses)?
        }
        "binary_cross_entropy_with_logits" => {
            let losses = with_logits(s)?;
            weighted(s, losses)?
        }
        "triplet_margin_loss" => triplet_margin(s)?,
        "cosine_similarity" => return cosine_similarity(s).map(|y| Some(vec![y])),
        "nll_loss" => {
            let scores = s.tensor("self")?;
            return class_losses(s, scores, None, 0.0).map(|y| Some(vec![y]));
        }
        "cross_entropy_loss" => return cross_entropy(s).map(|y| Some(vec![y])),
        _ => return Ok(None),
    };
    reduce(s, losses).map(|y| Some(vec![y]))
}

/// What ATen's `reduction` leaves of losses: 0 all of them, 1 their mean, 2 their sum.
fn reduce(s: &mut Step<'_>, losses: PrimId) -> Result<PrimId> {
    let axes: Vec<usize> = (0..s.prims.rank(losses)).collect();
    let result = match s.call.int("reduction")? {
        0 => losses,
        1 => s.prims.mean(losses, &axes)?,
        _ => s.prims.reduce(ReduceOp::Sum, losses, &axes, false),
    };
    finish(s, result)
}

/// A value in the element type and shape of the result.
fn finish(s: &mut Step<'_>, value: PrimId) -> Result<PrimId> {
    let result = s.result(0)?.clone();
    let value = s.prims.cast(value, result.dtype);
    Ok(s.prims.reshape(value, result.shape))
}

/// Sums along a dimension in double precision.
fn wide_sum(p: &mut Prims, x: PrimId, dim: usize) -> PrimId {
    let x = p.cast(x, DType::F64);
    p.reduce(ReduceOp::Sum, x, &[dim], false)
}

/// `self` and `target` in the element type of the result.
fn pair(s: &mut Step<'_>) -> Result<(PrimId, PrimId)> {
    let dtype = s.dtype()?;
    let (x, y) = (s.tensor("self")?, s.tensor("target")?);
    Ok((s.prims.cast(x, dtype), s.prims.cast(y, dtype)))
}

fn distance(s: &mut Step<'_>) -> Result<PrimId> {
    let (x, y) = pair(s)?;
    let d = s.prims.sub(x, y)?;
    s.prims.unary(UnaryOp::Abs, d)
}

/// `near` where `z op edge`, else `far`.
fn near_or_far(
    p: &mut Prims,
    op: CompareOp,
    z: PrimId,
    edge: f64,
    near: PrimId,
    far: PrimId,
) -> Result<PrimId> {
    let edge = p.number(edge);
    let is_near = p.compare(op, z, edge)?;
    p.select(is_near, near, far)
}

/// `y (log y - x)`, and 0 where `y` is 0; `exp(y) (y - x)` for targets given as logarithms.
fn divergence(s: &mut Step<'_>) -> Result<PrimId> {
    let (x, y) = pair(s)?;
    if s.call.bool("log_target")? {
        let (e, d) = (s.prims.unary(UnaryOp::Exp, y)?, s.prims.sub(y, x)?);
        return s.prims.mul(e, d);
    }
    let log = s.prims.unary(UnaryOp::Log, y)?;
    let own = s.prims.mul(y, log)?;
    let zero = s.prims.number(0.0);
    let is_zero = s.prims.compare(CompareOp::Eq, y, zero)?;
    let own = s.prims.select(is_zero, zero, own)?;
    let cross = s.prims.mul(y, x)?;
    s.prims.sub(own, cross)
}

/// `(y - 1) log(1 - x) - y log x` with logarithms of at least -100.
fn binary_cross_entropy(s: &mut Step<'_>) -> Result<PrimId> {
    let (x, y) = pair(s)?;
    let least = s.prims.number(-100.0);
    let log = s.prims.unary(UnaryOp::Log, x)?;
    let log = s.prims.binary(BinaryOp::Max, log, least)?;
    let negative = s.prims.unary(UnaryOp::Neg, x)?;
    let other = s.prims.unary(UnaryOp::Log1p, negative)?;
    let other = s.prims.binary(BinaryOp::Max, other, least)?;
    let rest = s.prims.add_number(y, -1.0)?;
    let (a, b) = (s.prims.mul(rest, other)?, s.prims.mul(y, log)?);
    s.prims.sub(a, b)
}

/// `(1 - y) x - (1 + (p - 1) y) log_sigmoid(x)`.
fn with_logits(s: &mut Step<'_>) -> Result<PrimId> {
    let (x, y) = pair(s)?;
    let log = log_sigmoid(s.prims, x)?;
    let one = s.prims.number(1.0);
    let rest = s.prims.sub(one, y)?;
    let linear = s.prims.mul(rest, x)?;
    let scaled = match s.opt_tensor("pos_weight")? {
        None => log,
        Some(weight) => {
            let weight = s.prims.cast(weight, s.prims.dtype(y));
            let excess = s.prims.add_number(weight, -1.0)?;
            let factor = s.prims.mul(excess, y)?;
            let factor = s.prims.add_number(factor, 1.0)?;
            s.prims.mul(factor, log)?
        }
    };
    s.prims.sub(linear, scaled)
}

/// `min(x, 0) - log1p(exp(-|x|))`.
pub(super) fn log_sigmoid(p: &mut Prims, x: PrimId) -> Result<PrimId> {
    let zero = p.number(0.0);
    let low = p.binary(BinaryOp::Min, x, zero)?;
    let rest = softplus_rest(p, x)?;
    p.sub(low, rest)
}

/// `max(x, 0) + log1p(exp(-|x|))`.
pub(super) fn softplus(p: &mut Prims, x: PrimId) -> Result<PrimId> {
    let zero = p.number(0.0);
    let high = p.binary(BinaryOp::Max, x, zero)?;
    let rest = softplus_rest(p, x)?;
    p.binary(BinaryOp::Add, high, rest)
}

/// `log1p(exp(-|x|))`, whose logarithm is of numbers from 1 to 2 alone.
fn softplus_rest(p: &mut Prims, x: PrimId) -> Result<PrimId> {
    let magnitude = p.unary(UnaryOp::Abs, x)?;
    let magnitude = p.unary(UnaryOp::Neg, magnitude)?;
    let e = p.unary(UnaryOp::Exp, magnitude)?;
    p.unary(UnaryOp::Log1p, e)
}

fn weighted(s: &mut Step<'_>, losses: PrimId) -> Result<PrimId> {
    let Some(weight) = s.opt_tensor("weight")? else {
        return Ok(losses);
    };
    let weight = s.prims.cast(weight, s.prims.dtype(losses));
    s.prims.mul(losses, weight)
}

/// Norms of order `p` along the last axis, in double precision.
fn norms(s: &mut Step<'_>, x: PrimId, p: f64) -> Result<PrimId> {
    let last = s.prims.rank(x).saturating_sub(1);
    if p == 2.0 {
        let squares = s.prims.mul(x, x)?;
        let sum = wide_sum(s.prims, squares, last);
        return s.prims.unary(UnaryOp::Sqrt, sum);
    }
    let magnitude = s.prims.unary(UnaryOp::Abs, x)?;
    let order = s.prims.number(p);
    let powers = s.prims.binary(BinaryOp::Pow, magnitude, order)?;
    let sum = wide_sum(s.prims, powers, last);
    let root = s.prims.number(1.0 / p);
    s.prims.binary(BinaryOp::Pow, sum, root)
}

/// `max(margin + |a - b| - |a - n|, 0)` with norms of order `p`.
fn triplet_margin(s: &mut Step<'_>) -> Result<PrimId> {
    let dtype = s.dtype()?;
    let (margin, p, eps) = (
        s.call.number("margin")?,
        s.call.number("p")?,
        s.call.number("eps")?,
    );
    let mut operand = |name: &str| s.tensor(name).map(|x| s.prims.cast(x, dtype));
    let (a, b, n) = (operand("anchor")?, operand("positive")?, operand("negative")?);
    let distance = |s: &mut Step<'_>, x: PrimId, y: PrimId| {
        let d = s.prims.sub(x, y)?;
        let d = s.prims.add_number(d, eps)?;
        norms(s, d, p)
    };
    let near = distance(s, a, b)?;
    let mut far = distance(s, a, n)?;
    if s.call.bool("swap")? {
        let other = distance(s, b, n)?;
        far = s.prims.binary(BinaryOp::Min, far, other)?;
    }
    let gap = s.prims.add_number(near, margin)?;
    let gap = s.prims.sub(gap, far)?;
    let zero = s.prims.number(0.0);
    s.prims.binary(BinaryOp::Max, gap, zero)
}

fn cosine_similarity(s: &mut Step<'_>) -> Result<PrimId> {
    let result = s.result(0)?.clone();
    let (a, b) = (s.tensor("x1")?, s.tensor("x2")?);
    let (a, b) = (s.prims.cast(a, result.dtype), s.prims.cast(b, result.dtype));
    let products = s.prims.mul(a, b)?;
    let shape = s.prims.shape(products).to_vec();
    let dim = s.dim("dim", shape.len())?;
    let (a, b) = (s.prims.expand(a, shape.clone()), s.prims.expand(b, shape));
    let dot = wide_sum(s.prims, products, dim);
    let eps = s.call.number("eps")?;
    let length = |p: &mut Prims, x: PrimId| {
        let squares = p.mul(x, x)?;
        let sum = wide_sum(p, squares, dim);
        let length = p.unary(UnaryOp::Sqrt, sum)?;
        let eps = p.number(eps);
        p.binary(BinaryOp::Max, length, eps)
    };
    let (la, lb) = (length(s.prims, a)?, length(s.prims, b)?);
    let lengths = s.prims.mul(la, lb)?;
    let cosine = s.prims.div(dot, lengths)?;
    finish(s, cosine)
}

/// Cross entropy of scores with class indices, or with distributions over the classes.
fn cross_entropy(s: &mut Step<'_>) -> Result<PrimId> {
    let scores = s.tensor("self")?;
    let axis = usize::from(s.prims.rank(scores) > 1);
    let smoothing = s.call.number("label_smoothing")?;
    let target = s.tensor("target")?;
    if !s.prims.dtype(target).is_float() {
        let (shifted, _, sum) = super::reduce::exponentials(s, scores, axis)?;
        let sum = s.prims.cast(sum, DType::F64);
        let log = s.prims.unary(UnaryOp::Log, sum)?;
        return class_losses(s, shifted, Some(log), smoothing);
    }
    let logs = super::reduce::log_softmax(s, scores, axis)?;
    let mut target = s.prims.cast(target, s.prims.dtype(logs));
    if smoothing != 0.0 {
        target = s.prims.mul_number(target, 1.0 - smoothing)?;
        let share = share(s, logs, smoothing)?;
        target = s.prims.add(target, share)?;
    }
    let mut terms = s.prims.mul(logs, target)?;
    if let Some(weight) = class_weights(s, logs)? {
        terms = s.prims.mul(terms, weight)?;
    }
    let sums = s.prims.reduce(ReduceOp::Sum, terms, &[axis], false);
    let losses = s.prims.unary(UnaryOp::Neg, sums)?;
    let axes: Vec<usize> = (0..s.prims.rank(losses)).collect();
    // The mean is over samples; of a single sample nothing is left to take it over.
    let result = match s.call.int("reduction")? {
        1 if !axes.is_empty() => s.prims.mean(losses, &axes)?,
        2 => s.prims.reduce(ReduceOp::Sum, losses, &axes, false),
        _ => losses,
    };
    finish(s, result)
}

/// What smoothing gives to each class of `[C]` or `[N, C, …]`.
fn share(s: &mut Step<'_>, logs: PrimId, smoothing: f64) -> Result<PrimId> {
    let axis = usize::from(s.prims.rank(logs) > 1);
    let classes = s.prims.count(logs, &[axis], s.prims.dtype(logs));
    if let Some(classes) = s.prims.constant(classes) {
        return Ok(s.prims.number(smoothing / classes));
    }
    let smoothing = s.prims.number(smoothing);
    s.prims.div(smoothing, classes)
}

/// The weights of the classes, to broadcast against `logs`.
fn class_weights(s: &mut Step<'_>, logs: PrimId) -> Result<Option<PrimId>> {
    let Some(weight) = s.opt_tensor("weight")? else {
        return Ok(None);
    };
    let axis = usize::from(s.prims.rank(logs) > 1);
    let shape = s.prims.shape(logs).iter().enumerate().skip(axis);
    let shape = shape
        .map(|(i, d)| if i == axis { d.clone() } else { Expr::constant(1) })
        .collect();
    let weight = s.prims.cast(weight, s.prims.dtype(logs));
    Ok(Some(s.prims.reshape(weight, shape)))
}

/// Negative log likelihood of class indices, mixed with the mean over all classes by `smoothing`. The logarithms of the
/// probabilities are `scores`, less each row's `log` (of extent 1 along the classes) if there is one. The class of a sample is picked by comparing it
/// with the coordinate, in the pass that reads the scores anyway. Means are weighted.
fn class_losses(s: &mut Step<'_>, scores: PrimId, log: Option<PrimId>, smoothing: f64) -> Result<PrimId> {
    let ignored = s.call.int("ignore_index")?;
    let shape = s.prims.shape(scores).to_vec();
    let axis = usize::from(shape.len() > 1);
    let place = s.prims.coordinate(axis, shape.clone());
    let target = s.tensor("target")?;
    let target = s.prims.cast(target, s.prims.dtype(place));
    let mut row = shape;
    if let Some(slot) = row.get_mut(axis) {
        *slot = Expr::constant(1);
    }
    let column = s.prims.reshape(target, row);
    let is_target = s.prims.compare(CompareOp::Eq, place, column)?;
    let zero = s.prims.number(0.0);
    let pick = |p: &mut Prims, from: PrimId| {
        let picked = p.select(is_target, from, zero)?;
        let sum = p.reduce(ReduceOp::Sum, picked, &[axis], false);
        Ok::<_, Error>(p.cast(sum, DType::F64))
    };
    let mut losses = pick(s.prims, scores)?;
    let sample = s.prims.shape(losses).to_vec();
    if let Some(log) = log {
        let log = s.prims.reshape(log, sample.clone());
        losses = s.prims.sub(losses, log)?;
    }
    let weight = class_weights(s, scores)?;
    let weight_of_target = match weight {
        Some(weight) => Some(pick(s.prims, weight)?),
        None => None,
    };
    if let Some(weight) = weight_of_target {
        losses = s.prims.mul(losses, weight)?;
    }
    if smoothing != 0.0 {
        let mut logs = s.prims.cast(scores, DType::F64);
        if let Some(log) = log {
            logs = s.prims.sub(logs, log)?;
        }
        if let Some(weight) = weight {
            let weight = s.prims.cast(weight, DType::F64);
            logs = s.prims.mul(logs, weight)?;
        }
        let all = wide_sum(s.prims, logs, axis);
        let share = share(s, logs, smoothing)?;
        let all = s.prims.mul(all, share)?;
        losses = s.prims.mul_number(losses, 1.0 - smoothing)?;
        losses = s.prims.add(losses, all)?;
    }
    let losses = s.prims.unary(UnaryOp::Neg, losses)?;
    let target = s.prims.reshape(target, sample);
    let ignored = s.prims.number(ignored as f64);
    let is_ignored = s.prims.compare(CompareOp::Eq, target, ignored)?;
    let losses = s.prims.select(is_ignored, zero, losses)?;
    let axes: Vec<usize> = (0..s.prims.rank(losses)).collect();
    let total = s.prims.reduce(ReduceOp::Sum, losses, &axes, false);
    let result = match s.call.int("reduction")? {
        0 => losses,
        1 => {
            let counts = s.prims.compare(CompareOp::Ne, target, ignored)?;
            let mut shares = s.prims.cast(counts, s.prims.dtype(losses));
            if let Some(weight) = weight_of_target {
                shares = s.prims.mul(shares, weight)?;
            }
            let count = s.prims.reduce(ReduceOp::Sum, shares, &axes, false);
            s.prims.div(total, count)?
        }
        _ => total,
    };
    finish(s, result)
}
