//! Rules about reductions, products, convolutions and what layers take into their weights.

use super::{Random, instances};
use crate::dtype::DType;
use crate::expr::Expr;
use crate::graph::{Arg, Conv, Graph, ValueId};

fn sum_or_mean(r: &mut Random, g: &mut Graph, x: ValueId, dims: &[i64]) -> crate::Result<ValueId> {
    let keep = r.coin();
    if r.coin() {
        g.sum(x, dims, keep)
    } else {
        g.mean(x, dims, keep)
    }
}

/// Some axes of a value, at least one.
fn some_dims(r: &mut Random, g: &Graph, x: ValueId) -> Vec<i64> {
    let rank = g.ty(x).rank() as i64;
    let first = r.below(rank);
    (first..rank).filter(|d| *d == first || r.coin()).collect()
}

fn extents(g: &Graph, x: ValueId) -> Vec<i64> {
    g.ty(x).shape.iter().filter_map(Expr::as_const).collect()
}

/// A product of two matrices, or of batches of them.
fn product(r: &mut Random, g: &mut Graph) -> crate::Result<ValueId> {
    let dtype = r.wide();
    let (m, k, n) = (r.long(), r.extent(), r.long());
    match r.below(3) {
        0 => {
            let (a, b) = (g.input("a", dtype, [m, k]), g.input("b", dtype, [k, n]));
            g.mm(a, b)
        }
        1 => {
            let (a, b) = (g.input("a", dtype, [3, m, k]), g.input("b", dtype, [3, k, n]));
            g.bmm(a, b)
        }
        _ => {
            let (a, b) = (g.input("a", dtype, [2, 1, m, k]), g.input("b", dtype, [3, k, n]));
            g.matmul(a, b)
        }
    }
}

fn linear(r: &mut Random, g: &mut Graph, biased: bool) -> crate::Result<ValueId> {
    let dtype = r.wide();
    let (rows, k, n) = (r.long(), r.extent(), r.long());
    let x = if r.coin() {
        g.input("x", dtype, [rows, k])
    } else {
        g.input("x", dtype, [2, rows, k])
    };
    let w = g.weight("w", dtype, [n, k]);
    let b = biased.then(|| g.weight("b", dtype, [n]));
    g.linear(x, w, b)
}

/// A convolution in one or two dimensions, of any stride, padding and dilation that fit.
fn convolution(r: &mut Random, g: &mut Graph, transposed: bool, biased: bool) -> crate::Result<ValueId> {
    let dtype = r.wide();
    let spatial = 1 + r.below(2) as usize;
    let groups = r.of(&[1, 1, 2]);
    let (inputs, outputs) = (2 * groups, 3 * groups);
    let mut of = |lo: i64, n: i64| -> Vec<i64> { (0..spatial).map(|_| lo + r.below(n)).collect() };
    let (sizes, window) = (of(7, 3), of(1, 3));
    let (stride, dilation) = (of(1, 2), of(1, 2));
    // Transposed padding cuts off, and must leave something.
    let padding: Vec<i64> = of(0, 2);
    let extra: Vec<i64> = stride.iter().map(|s| s - 1).collect();
    let shape = [vec![r.extent(), inputs], sizes].concat();
    let x = g.input("x", dtype, shape);
    let channels = if transposed {
        [inputs, outputs / groups]
    } else {
        [outputs, inputs / groups]
    };
    let w = g.weight("w", dtype, [channels.to_vec(), window].concat());
    let b = biased.then(|| g.weight("b", dtype, [outputs]));
    let conv = Conv {
        stride,
        padding,
        dilation,
        groups,
    };
    if transposed {
        g.conv_transpose(x, w, b, &conv, &extra)
    } else {
        g.conv(x, w, b, &conv)
    }
}

/// A layer of any kind with channels that a vector of the second result goes with, in a shape that broadcasts.
fn layer(r: &mut Random, g: &mut Graph) -> crate::Result<(ValueId, ValueId)> {
    let biased = r.coin();
    let y = match r.below(3) {
        0 => linear(r, g, biased)?,
        1 => convolution(r, g, false, biased)?,
        // Groups of a transposed convolution do not share weights.
        _ => {
            let shape = [r.extent(), 2, 5];
            let x = g.input("x", DType::F32, shape);
            let w = g.weight("w", DType::F32, [2, 3, 3]);
            let b = biased.then(|| g.weight("b", DType::F32, [3]));
            g.conv_transpose(x, w, b, &Conv::default(), &[0])?
        }
    };
    let (dtype, shape) = (g.ty(y).dtype, extents(g, y));
    let linear = g.find("linear") == Some(y);
    let s = if linear {
        g.weight("s", dtype, [shape[shape.len() - 1]])
    } else {
        let mut over = vec![1; shape.len() - 1];
        over[0] = shape[1];
        g.weight("s", dtype, over)
    };
    Ok((y, s))
}

fn scale(r: &mut Random, g: &mut Graph, x: ValueId) -> crate::Result<ValueId> {
    let by = r.number();
    match r.below(3) {
        0 => g.mul(x, by),
        1 => g.div(x, by),
        _ => g.neg(x),
    }
}

fn shift(r: &mut Random, g: &mut Graph, x: ValueId) -> crate::Result<ValueId> {
    let by = r.number();
    if r.coin() { g.add(x, by) } else { g.sub(x, by) }
}

fn extremum(r: &mut Random, g: &mut Graph, x: ValueId) -> crate::Result<ValueId> {
    if g.ty(x).rank() == 4 {
        return g.max_pool2d(x, [2, 2], [1, 2], [1, 0]);
    }
    let dims = some_dims(r, g, x);
    let keep = r.coin();
    if r.coin() {
        g.amax(x, &dims, keep)
    } else {
        g.amin(x, &dims, keep)
    }
}

/// What an extremum is taken of.
fn observed(r: &mut Random, g: &mut Graph) -> ValueId {
    let dtype = r.wide();
    if r.coin() {
        return g.input("x", dtype, [2, 1, 4, 5]);
    }
    r.input(g, dtype)
}

fn permuted(r: &mut Random, g: &mut Graph) -> crate::Result<ValueId> {
    let (dtype, shape) = (r.wide(), r.shape(3));
    let x = g.input("x", dtype, shape);
    let order = r.of(&[[1, 0, 2], [2, 1, 0], [1, 2, 0], [2, 0, 1]]);
    g.permute(x, &order)
}

fn expanded(r: &mut Random, g: &mut Graph) -> crate::Result<ValueId> {
    let dtype = r.wide();
    let (rows, columns) = (r.long(), r.extent());
    let x = g.input("x", dtype, [1, columns]);
    g.expand(x, [rows, columns])
}

fn norm(r: &mut Random, g: &mut Graph, x: ValueId, instance: bool) -> crate::Result<ValueId> {
    let channels = extents(g, x)[1];
    let weight = r.coin().then(|| g.weight("gamma", g.ty(x).dtype, [channels]));
    if !instance {
        return g.group_norm(x, 1, weight, None, 1e-5);
    }
    let args: [(&str, Arg); 9] = [
        ("input", x.into()),
        ("weight", weight.into()),
        ("bias", Arg::None),
        ("running_mean", Arg::None),
        ("running_var", Arg::None),
        ("use_input_stats", true.into()),
        ("momentum", 0.1.into()),
        ("eps", 1e-5.into()),
        ("cudnn_enabled", false.into()),
    ];
    Ok(g.call("instance_norm.default", args)?[0])
}

instances! {
    scale_out_of_sum => |r, g| {
        let dtype = r.wide();
        let x = r.input(g, dtype);
        let scaled = scale(r, g, x)?;
        let dims = some_dims(r, g, x);
        sum_or_mean(r, g, scaled, &dims)
    };
    shift_out_of_sum => |r, g| {
        let x = if r.coin() { product(r, g)? } else { convolution(r, g, true, true)? };
        let shifted = shift(r, g, x)?;
        let dims = some_dims(r, g, x);
        sum_or_mean(r, g, shifted, &dims)
    };
    factor_out_of_sum => |r, g| {
        let (dtype, mut shape) = (r.wide(), r.shape(3));
        let x = g.input("x", dtype, shape.clone());
        let dims = some_dims(r, g, x);
        dims.iter().for_each(|d| shape[*d as usize] = 1);
        let s = g.input("s", dtype, shape);
        let product = match r.below(3) {
            0 => g.mul(x, s)?,
            1 => g.mul(s, x)?,
            _ => {
                let squares = g.mul(s, s)?;
                let positive = g.add(squares, 1.0)?;
                g.div(x, positive)?
            }
        };
        sum_or_mean(r, g, product, &dims)
    };
    term_out_of_sum => |r, g| {
        let x = product(r, g)?;
        let dims = some_dims(r, g, x);
        let mut shape = extents(g, x);
        dims.iter().for_each(|d| shape[*d as usize] = 1);
        let s = g.input("s", g.ty(x).dtype, shape);
        let sum = match r.below(3) {
            0 => g.add(x, s)?,
            1 => g.sub(x, s)?,
            _ => g.sub(s, x)?,
        };
        sum_or_mean(r, g, sum, &dims)
    };
    sum_of_sum => |r, g| {
        let (dtype, shape) = (r.wide(), r.shape(3));
        let x = g.input("x", dtype, shape);
        let (first, second, keep) = (r.below(3), r.below(2), r.coin());
        let is_mean = r.coin();
        let reduce = |g: &mut Graph, x, dims: &[i64], keep| {
            if is_mean { g.mean(x, dims, keep) } else { g.sum(x, dims, keep) }
        };
        let once = reduce(g, x, &[first], keep)?;
        let keep = r.coin();
        reduce(g, once, &[second], keep)
    };
    extremum_of_extremum => |r, g| {
        let (dtype, shape) = (r.wide(), r.shape(3));
        let x = g.input("x", dtype, shape);
        let (first, second, keep) = (r.below(3), r.below(2), r.coin());
        if r.coin() {
            let once = g.amax(x, &[first], keep)?;
            g.amax(once, &[second], false)
        } else {
            let once = g.amin(x, &[first], keep)?;
            g.amin(once, &[second], true)
        }
    };
    sum_before_permutation => |r, g| {
        let x = permuted(r, g)?;
        let dims = some_dims(r, g, x);
        sum_or_mean(r, g, x, &dims)
    };
    extremum_before_permutation => |r, g| {
        let x = permuted(r, g)?;
        extremum(r, g, x)
    };
    whole_sum_of_view => |r, g| {
        let (dtype, shape) = (r.wide(), r.shape(3));
        let x = g.input("x", dtype, shape);
        let flat = g.flatten(x, 0, r.of(&[1, 2, -1]))?;
        sum_or_mean(r, g, flat, &[])
    };
    sum_before_expansion => |r, g| {
        let x = expanded(r, g)?;
        let dims = r.of(&[&[0][..], &[0, 1]]);
        sum_or_mean(r, g, x, dims)
    };
    extremum_before_expansion => |r, g| {
        let x = expanded(r, g)?;
        let keep = r.coin();
        if r.coin() { g.amax(x, &[0], keep) } else { g.amin(x, &[0, 1], keep) }
    };
    scale_out_of_extremum => |r, g| {
        let x = observed(r, g);
        let by = r.number().abs();
        let scaled = if r.coin() { g.mul(x, by)? } else { g.div(x, by)? };
        extremum(r, g, scaled)
    };
    shift_out_of_extremum => |r, g| {
        let x = observed(r, g);
        let shifted = shift(r, g, x)?;
        extremum(r, g, shifted)
    };
    extremum_before_function => |r, g| {
        let x = observed(r, g);
        let y = match r.below(6) {
            0 => g.relu(x)?,
            1 => g.sigmoid(x)?,
            2 => g.tanh(x)?,
            3 => g.leaky_relu(x, 0.1)?,
            4 => g.clamp(x, Some(-0.5), Some(0.5))?,
            _ => g.exp(x)?,
        };
        extremum(r, g, y)
    };
    pooling_as_mean => |r, g| {
        let (dtype, shape) = (r.wide(), r.shape(4));
        let size = [shape[2], shape[3]];
        let x = g.input("x", dtype, shape);
        if r.coin() {
            return g.avg_pool2d(x, size, size, [0, 0]);
        }
        let args = [("self", x.into()), ("output_size", [1, 1].into())];
        Ok(g.call("adaptive_avg_pool2d.default", args)?[0])
    };
    sum_of_product_columns => |r, g| {
        let x = product(r, g)?;
        let last = g.ty(x).rank() as i64 - 1;
        let more = r.coin() && last > 0;
        let dims = if more { vec![0, last] } else { vec![last] };
        sum_or_mean(r, g, x, &dims)
    };
    sum_of_product_rows => |r, g| {
        let x = product(r, g)?;
        sum_or_mean(r, g, x, &[-2])
    };
    sum_of_linear_features => |r, g| {
        let biased = r.coin();
        let x = linear(r, g, biased)?;
        let dims = r.of(&[&[-1][..], &[0, -1], &[]]);
        sum_or_mean(r, g, x, dims)
    };
    sum_of_linear_rows => |r, g| {
        let biased = r.coin();
        let x = linear(r, g, biased)?;
        let dims = r.of(&[&[-2][..], &[-2, -1], &[]]);
        sum_or_mean(r, g, x, dims)
    };
    scale_out_of_product => |r, g| {
        let dtype = r.wide();
        let (a, b) = (g.input("a", dtype, [2, 3]), g.input("b", dtype, [3, 3]));
        let (left, right) = if r.coin() { (scale(r, g, a)?, b) } else { (a, scale(r, g, b)?) };
        if r.coin() { g.matmul(left, right) } else { g.linear(left, right, None) }
    };
    product_as_linear => |r, g| {
        let dtype = r.float();
        let (k, n) = (r.extent(), r.extent());
        let shape = if r.coin() { vec![2, k] } else { vec![2, 3, k] };
        let (x, w) = (g.input("x", dtype, shape), g.weight("w", dtype, [n, k]));
        let transposed = if r.coin() { g.transpose(w, 0, 1)? } else { g.permute(w, &[1, 0])? };
        g.matmul(x, transposed)
    };
    product_of_three => |r, g| {
        let dtype = r.wide();
        let n: Vec<i64> = (0..4).map(|_| r.extent()).collect();
        let a = g.input("a", dtype, [n[0], n[1]]);
        let b = g.input("b", dtype, [n[1], n[2]]);
        let c = g.input("c", dtype, [n[2], n[3]]);
        if r.coin() {
            let product = g.matmul(a, b)?;
            g.mm(product, c)
        } else {
            let product = g.mm(b, c)?;
            g.matmul(a, product)
        }
    };
    linear_of_linear => |r, g| {
        let dtype = r.wide();
        let (k, m, n) = (r.extent(), r.extent(), r.extent());
        let x = g.input("x", dtype, [2, 3, k]);
        let (v, w) = (g.weight("v", dtype, [m, k]), g.weight("w", dtype, [n, m]));
        let a = r.coin().then(|| g.weight("a", dtype, [m]));
        let b = r.coin().then(|| g.weight("b", dtype, [n]));
        let hidden = g.linear(x, v, a)?;
        g.linear(hidden, w, b)
    };
    sum_through_convolution => |r, g| {
        let biased = r.coin();
        let y = convolution(r, g, false, biased)?;
        let last = g.ty(y).rank() as i64 - 1;
        let dims = if r.coin() { (2..=last).collect() } else { vec![last] };
        sum_or_mean(r, g, y, &dims)
    };
    sum_through_transposed_convolution => |r, g| {
        let biased = r.coin();
        let y = convolution(r, g, true, biased)?;
        let last = g.ty(y).rank() as i64 - 1;
        let dims = if r.coin() { (2..=last).collect() } else { vec![0, last] };
        sum_or_mean(r, g, y, &dims)
    };
    scale_of_scale => |r, g| {
        let dtype = r.wide();
        let x = r.input(g, dtype);
        let (a, b) = (r.of(&[-2.5, 0.5, 3.0]), r.of(&[-0.5, 0.3, 1.7]));
        let once = if r.coin() { g.mul(x, a)? } else { g.div(x, a)? };
        if r.coin() { g.mul(once, b) } else { g.div(once, b) }
    };
    shift_of_shift => |r, g| {
        let dtype = r.wide();
        let x = r.input(g, dtype);
        let (a, b) = (r.number(), r.number().abs());
        let once = g.add(x, a.abs())?;
        if r.coin() { g.add(once, b) } else { g.sub(once, -b) }
    };
    scale_into_weights => |r, g| {
        let (y, _) = layer(r, g)?;
        scale(r, g, y)
    };
    channel_scale_into_weights => |r, g| {
        let (y, s) = layer(r, g)?;
        if r.coin() { g.mul(y, s) } else { g.mul(s, y) }
    };
    term_into_bias => |r, g| {
        let (y, s) = layer(r, g)?;
        match r.below(3) {
            0 => g.add(y, s),
            1 => g.add(s, y),
            _ => g.sub(y, s),
        }
    };
    shift_into_bias => |r, g| {
        let y = if r.coin() { linear(r, g, true)? } else { convolution(r, g, false, true)? };
        shift(r, g, y)
    };
    normalisation_into_weights => |r, g| {
        let biased = r.coin();
        let y = convolution(r, g, false, biased)?;
        let (dtype, channels) = (g.ty(y).dtype, extents(g, y)[1]);
        let mut vector = |name: &str| g.weight(name, dtype, [channels]);
        let (gamma, beta, mean, spread) = (vector("gamma"), vector("beta"), vector("mean"), vector("spread"));
        let variance = g.mul(spread, spread)?;
        let (gamma, beta) = (r.coin().then_some(gamma), r.coin().then_some(beta));
        let args: [(&str, Arg); 9] = [
            ("input", y.into()),
            ("weight", gamma.into()),
            ("bias", beta.into()),
            ("running_mean", mean.into()),
            ("running_var", variance.into()),
            ("training", false.into()),
            ("momentum", 0.1.into()),
            ("eps", 1e-2.into()),
            ("cudnn_enabled", false.into()),
        ];
        Ok(g.call("batch_norm.default", args)?[0])
    };
    bias_before_normalisation => |r, g| {
        let transposed = r.coin();
        let y = convolution(r, g, transposed, true)?;
        norm(r, g, y, true)
    };
    shift_before_normalisation => |r, g| {
        let dtype = r.wide();
        let x = g.input("x", dtype, [2, 3, 5]);
        let shifted = shift(r, g, x)?;
        match r.below(3) {
            0 => g.layer_norm(shifted, [5], None, None, 1e-5),
            1 => norm(r, g, shifted, true),
            _ => norm(r, g, shifted, false),
        }
    };
    shift_before_softmax => |r, g| {
        let dtype = r.wide();
        let x = r.input(g, dtype);
        let shifted = shift(r, g, x)?;
        if r.coin() { g.softmax(shifted, 0) } else { g.log_softmax(shifted, -1) }
    };
    product_with_own_sigmoid => |r, g| {
        let dtype = r.wide();
        let x = r.input(g, dtype);
        let gate = g.sigmoid(x)?;
        if r.coin() { g.mul(x, gate) } else { g.mul(gate, x) }
    };
}
