//! Norms, losses, dropout, recurrent layers.

use crate::dtype::DType;
use crate::error::Result;
use crate::graph::{Arg, ValueId};

use super::grow::{Grower, closed};

const EPSILON: f64 = 1e-3;

/// A weight or bias for `shape`, or none.
fn optional(g: &mut Grower, dtype: DType, shape: &[i64]) -> Result<Option<ValueId>> {
    if g.chance(0.3) {
        return Ok(None);
    }
    g.weight(dtype, shape, 1).map(Some)
}

pub(super) fn norm(g: &mut Grower) -> Result<()> {
    let x = g.float(2, 5)?;
    let (shape, dtype) = (g.shape(x), g.dtype(x));
    match g.below(4) {
        0 | 1 => {
            let last = 1 + g.below(shape.len() as i64) as usize;
            let normalized: Vec<i64> = shape.iter().skip(shape.len() - last).copied().collect();
            let weight = optional(g, dtype, &normalized)?;
            if g.chance(0.5) {
                return g.graph.rms_norm(x, normalized, weight, EPSILON).map(drop);
            }
            let bias = optional(g, dtype, &normalized)?;
            g.graph.layer_norm(x, normalized, weight, bias, EPSILON).map(drop)
        }
        2 => {
            let channels = shape.get(1).copied().unwrap_or(1);
            let divisors: Vec<i64> = (1..=channels).filter(|d| channels % d == 0).collect();
            let groups = g.pick(&divisors)?;
            let (weight, bias) = (optional(g, dtype, &[channels])?, optional(g, dtype, &[channels])?);
            g.graph.group_norm(x, groups, weight, bias, EPSILON).map(drop)
        }
        _ => {
            let channels = shape.get(1).copied().unwrap_or(1);
            let (weight, bias) = (optional(g, dtype, &[channels])?, optional(g, dtype, &[channels])?);
            let args = [
                ("input", x.into()),
                ("weight", weight.into()),
                ("bias", bias.into()),
                ("running_mean", Arg::None),
                ("running_var", Arg::None),
                ("use_input_stats", true.into()),
                ("momentum", 0.1.into()),
                ("eps", EPSILON.into()),
                ("cudnn_enabled", false.into()),
            ];
            g.call("instance_norm.default", args).map(drop)
        }
    }
}

/// Batch norm, in training with what becomes of the statistics.
pub(super) fn statistics(g: &mut Grower) -> Result<()> {
    let x = g.float(2, 5)?;
    let (shape, training) = (g.shape(x), g.chance(0.5));
    let channels = shape.get(1).copied().unwrap_or(1);
    let dtype = g.dtype(x);
    let (weight, bias) = (optional(g, dtype, &[channels])?, optional(g, dtype, &[channels])?);
    let (mean, variance) = (g.state("mean", &[channels])?, g.state("variance", &[channels])?);
    let args = [
        ("input", x.into()),
        ("weight", weight.into()),
        ("bias", bias.into()),
        ("running_mean", mean.into()),
        ("running_var", variance.into()),
        ("training", training.into()),
        ("momentum", 0.1.into()),
        ("eps", EPSILON.into()),
    ];
    let results = g.call("_native_batch_norm_legit_functional.default", args)?;
    if let [_, _, _, new_mean, new_variance] = results.as_slice()
        && training
    {
        g.graph.update(mean, *new_mean)?;
        g.graph.update(variance, *new_variance)?;
    }
    Ok(())
}

pub(super) fn loss(g: &mut Grower) -> Result<()> {
    let x = g.float(1, 4)?;
    let (shape, dtype) = (g.shape(x), g.dtype(x));
    let reduction = g.below(3);
    let other = |g: &mut Grower| match g.value(|g, v| v != x && g.shape(v) == shape && g.dtype(v) == dtype) {
        Ok(y) => Ok(y),
        Err(_) => g.input("t", dtype, &shape),
    };
    let (op, extra): (_, Option<(&str, Arg)>) = match g.below(9) {
        0 => ("mse_loss.default", None),
        1 => ("l1_loss.default", None),
        2 => (
            "smooth_l1_loss.default",
            Some(("beta", g.pick(&[0.2, 1.0])?.into())),
        ),
        3 => ("huber_loss.default", Some(("delta", g.pick(&[0.3, 1.0])?.into()))),
        4 => ("kl_div.default", Some(("log_target", g.chance(0.5).into()))),
        5 => ("binary_cross_entropy_with_logits.default", None),
        6 => return triplet(g, x, other),
        7 if shape.len() > 1 => {
            let (y, dim) = (other(g)?, g.dim(x)?);
            let args = [("x1", x.into()), ("x2", y.into()), ("dim", dim.into())];
            return g.call("cosine_similarity.default", args).map(drop);
        }
        _ => return of_classes(g, x, reduction),
    };
    let mut y = other(g)?;
    if op.starts_with("kl") || op.starts_with("binary") {
        // A probability.
        y = g.graph.sigmoid(y)?;
    }
    let args = [
        ("self", x.into()),
        ("target", y.into()),
        ("reduction", reduction.into()),
    ];
    g.graph.call(op, args.into_iter().chain(extra)).map(drop)
}

fn triplet(g: &mut Grower, x: ValueId, other: impl Fn(&mut Grower) -> Result<ValueId>) -> Result<()> {
    let (positive, negative) = (other(g)?, other(g)?);
    let args = [
        ("anchor", x.into()),
        ("positive", positive.into()),
        ("negative", negative.into()),
        ("p", g.pick(&[2.0, 2.0, 1.0])?.into()),
        ("swap", g.chance(0.3).into()),
        ("reduction", g.below(3).into()),
    ];
    g.call("triplet_margin_loss.default", args).map(drop)
}

fn of_classes(g: &mut Grower, x: ValueId, reduction: i64) -> Result<()> {
    let mut shape = g.shape(x);
    let at = usize::from(shape.len() > 1);
    let classes = shape.remove(at);
    let target = g.indices(&shape, classes, false)?;
    let target = g.graph.to_dtype(target, DType::I64)?;
    let mut args = vec![
        ("self", x.into()),
        ("target", target.into()),
        ("reduction", reduction.into()),
    ];
    if g.chance(0.4) {
        let dtype = g.dtype(x);
        args.push(("weight", g.positive_input(dtype, &[classes])?.into()));
    }
    if g.chance(0.4) {
        return g.graph.call("nll_loss.default", args).map(drop);
    }
    if g.chance(0.3) {
        args.push(("label_smoothing", 0.1.into()));
    }
    g.graph.call("cross_entropy_loss.default", args).map(drop)
}

pub(super) fn dropout(g: &mut Grower) -> Result<()> {
    let x = g.float(0, 5)?;
    let seed = match g.value(|g, v| g.dtype(v) == DType::I64 && g.rank(v) == 0) {
        Ok(old) => old,
        Err(_) => {
            let seed = g.indices(&[], 1 << 20, true)?;
            g.graph.to_dtype(seed, DType::I64)?
        }
    };
    let (p, offset) = (g.pick(&[0.1, 0.5])?, g.pick(&[0, 0, 7, 5000])?);
    g.graph.seeded_dropout(x, seed, p, offset).map(drop)
}

pub(super) fn recurrent(g: &mut Grower) -> Result<()> {
    let (op, gates) = g.pick(&[
        ("lstm.input", 4),
        ("gru.input", 3),
        ("rnn_tanh.input", 1),
        ("rnn_relu.input", 1),
    ])?;
    let x = match g.value(|g, v| g.dtype(v) == DType::F32 && g.rank(v) == 3) {
        Ok(x) if g.chance(0.7) => x,
        _ => {
            let shape = [g.small(), g.small(), g.small()];
            g.input("x", DType::F32, &shape)?
        }
    };
    let (shape, batch_first) = (g.shape(x), g.chance(0.4));
    let [outer, inner, columns] = shape.as_slice() else {
        return closed();
    };
    let (steps, batch) = if batch_first {
        (inner, outer)
    } else {
        (outer, inner)
    };
    if *steps > 16 || *batch > 16 || *columns > 64 {
        return closed();
    }
    let (size, layers) = (g.small(), 1 + g.below(2));
    let directions = 1 + i64::from(g.chance(0.3));
    let count = layers * directions;
    let hidden = g.input("h", DType::F32, &[count, *batch, size])?;
    let states: Arg = if gates == 4 {
        let cell = g.input("c", DType::F32, &[count, *batch, size])?;
        [hidden, cell].into()
    } else {
        hidden.into()
    };
    let has_biases = g.chance(0.7);
    let mut params: Vec<ValueId> = Vec::new();
    for layer in 0..count {
        let read = if layer < directions {
            *columns
        } else {
            size * directions
        };
        params.push(g.weight(DType::F32, &[gates * size, read], read)?);
        params.push(g.weight(DType::F32, &[gates * size, size], size)?);
        if has_biases {
            params.push(g.weight(DType::F32, &[gates * size], 4)?);
            params.push(g.weight(DType::F32, &[gates * size], 4)?);
        }
    }
    let args = [
        ("input", x.into()),
        ("hx", states),
        ("params", params.into()),
        ("has_biases", has_biases.into()),
        ("num_layers", layers.into()),
        ("dropout", 0.0.into()),
        ("train", false.into()),
        ("bidirectional", (directions == 2).into()),
        ("batch_first", batch_first.into()),
    ];
    g.call(op, args).map(drop)
}
