//! Feed-forward layers and convolutions.

use super::{Recipe, Recorder};
use crate::dtype::DType;
use crate::error::Result;
use crate::graph::Conv;
use crate::graph::ValueId;

pub(super) const RECIPES: &[(&str, Recipe)] = &[
    ("mlp_gelu", gelu),
    ("mlp_swiglu", swiglu),
    ("mlp_residual", residual),
    ("mlp_deep", deep),
    ("conv_relu", conv_relu),
    ("conv_depthwise", depthwise),
    ("conv_batch_statistics", batch_statistics),
    ("conv_pool", pool),
];

/// Fault: the hidden bias is left out.
fn gelu(r: &mut Recorder) -> Result<Vec<ValueId>> {
    let x = r.normal([40, 48], 1.0)?;
    let (up, bias, down) = (
        r.normal([96, 48], 0.15)?,
        r.normal([96], 0.5)?,
        r.normal([32, 96], 0.1)?,
    );
    let bias = r.or(Some(bias), None);
    let hidden = r.graph.linear(x, up, bias)?;
    let hidden = r.graph.gelu(hidden)?;
    Ok(vec![r.graph.linear(hidden, down, None)?])
}

/// Fault: the gate is a sigmoid.
fn swiglu(r: &mut Recorder) -> Result<Vec<ValueId>> {
    let x = r.normal([40, 48], 1.0)?;
    let [gate, up] = [r.normal([96, 48], 0.15)?, r.normal([96, 48], 0.15)?];
    let down = r.normal([48, 96], 0.1)?;
    let gate = r.graph.linear(x, gate, None)?;
    let gate = r.unary(r.or("silu", "sigmoid"), gate)?;
    let up = r.graph.linear(x, up, None)?;
    let hidden = r.graph.mul(gate, up)?;
    Ok(vec![r.graph.linear(hidden, down, None)?])
}

/// A norm in f32, a product and a residual. Fault: no residual.
fn residual(r: &mut Recorder) -> Result<Vec<ValueId>> {
    let (x, w) = (r.normal([40, 64], 1.0)?, r.normal([64, 64], 0.1)?);
    let wide = r.graph.to_dtype(x, DType::F32)?;
    let squares = r.graph.mul(wide, wide)?;
    let mean = r.graph.mean(squares, &[-1], true)?;
    let mean = r.graph.add(mean, 1e-6)?;
    let scale = r.graph.rsqrt(mean)?;
    let normed = r.graph.mul(wide, scale)?;
    let normed = r.graph.to_dtype(normed, r.dtype)?;
    let y = r.graph.linear(normed, w, None)?;
    let sum = r.graph.add(x, y)?;
    Ok(vec![r.or(sum, y)])
}

/// Fault: one of four activations is left out.
fn deep(r: &mut Recorder) -> Result<Vec<ValueId>> {
    let mut x = r.normal([32, 48], 1.0)?;
    for layer in 0..4 {
        let w = r.normal([48, 48], 0.2)?;
        x = r.graph.linear(x, w, None)?;
        if layer != 2 || !r.is_faulty {
            x = r.graph.relu(x)?;
        }
    }
    Ok(vec![x])
}

/// Fault: no bias.
fn conv_relu(r: &mut Recorder) -> Result<Vec<ValueId>> {
    let (x, w, b) = (
        r.normal([2, 6, 9, 10], 1.0)?,
        r.normal([8, 6, 3, 3], 0.15)?,
        r.normal([8], 0.5)?,
    );
    let window = Conv {
        padding: vec![1, 1],
        ..Conv::default()
    };
    let bias = r.or(Some(b), None);
    let y = r.graph.conv(x, w, bias, &window)?;
    Ok(vec![r.graph.relu(y)?])
}

/// Fault: the weight is turned around.
fn depthwise(r: &mut Recorder) -> Result<Vec<ValueId>> {
    let (x, w) = (r.normal([2, 12, 40], 1.0)?, r.normal([12, 1, 4], 0.5)?);
    let turned = r.call(
        "flip.default",
        [("self", w.into()), ("dims", [-1i64].as_slice().into())],
    )?;
    let window = Conv {
        stride: vec![1],
        padding: vec![3],
        dilation: vec![1],
        groups: 12,
    };
    let y = r.graph.conv(x, r.or(w, turned), None, &window)?;
    Ok(vec![r.graph.silu(y)?])
}

/// Fault: the variance of a sample instead of that of the batch.
fn batch_statistics(r: &mut Recorder) -> Result<Vec<ValueId>> {
    let (x, w) = (r.normal([2, 5, 6, 7], 1.0)?, r.normal([6, 5, 1, 1], 0.4)?);
    let y = r.graph.conv(x, w, None, &Conv::default())?;
    let dims: &[i64] = r.or(&[0, 2, 3], &[2, 3]);
    let mean = r.graph.mean(y, &[0, 2, 3], true)?;
    let centred = r.graph.sub(y, mean)?;
    let squares = r.graph.mul(centred, centred)?;
    let variance = r.graph.mean(squares, dims, true)?;
    let variance = r.graph.add(variance, 1e-3)?;
    let scale = r.graph.rsqrt(variance)?;
    Ok(vec![r.graph.mul(centred, scale)?])
}

/// Fault: the mean of a window for its largest element.
fn pool(r: &mut Recorder) -> Result<Vec<ValueId>> {
    let (x, w) = (r.normal([2, 4, 8, 8], 1.0)?, r.normal([6, 4, 3, 3], 0.2)?);
    let window = Conv {
        padding: vec![1, 1],
        ..Conv::default()
    };
    let y = r.graph.conv(x, w, None, &window)?;
    Ok(vec![if r.is_faulty {
        r.graph.avg_pool2d(y, [2, 2], [2, 2], [0, 0])?
    } else {
        r.graph.max_pool2d(y, [2, 2], [2, 2], [0, 0])?
    }])
}
