//! Graphs whose kernels the rules design.

use akg::{DType, Graph, Result};

pub(crate) type Build = fn(&mut Graph) -> Result<()>;

const F: DType = DType::F32;

pub(crate) const GRAPHS: &[(&str, Build)] = &[
    ("activations", |g| {
        let x = g.input("x", F, [67, 129]);
        let (a, b, c) = (g.gelu(x)?, g.silu(x)?, g.softplus(x)?);
        let y = g.sub(a, b)?;
        let y = g.mul(y, c)?;
        g.output(y);
        Ok(())
    }),
    ("polynomial", |g| {
        let x = g.input("x", F, [17, 15, 41]);
        let y = g.mul(x, 0.5)?;
        let y = g.sub(y, 1.25)?;
        let y = g.mul(y, x)?;
        let y = g.add(y, 3.0)?;
        let y = g.div(y, 1.5)?;
        g.output(y);
        Ok(())
    }),
    ("clamps", |g| {
        let x = g.input("x", F, [20011]);
        let a = g.hardtanh(x, -1.0, 1.0)?;
        let b = g.leaky_relu(x, 0.01)?;
        let y = g.sub(a, b)?;
        g.output(y);
        Ok(())
    }),
    ("half_precision", |g| {
        let x = g.input("x", DType::F16, [340, 61]);
        let y = g.mul(x, 0.5)?;
        let y = g.exp(y)?;
        g.output(y);
        Ok(())
    }),
    ("broadcast_transposed", |g| {
        let x = g.input("x", F, [7, 5, 40]);
        let b = g.input("b", F, [5, 1]);
        let y = g.div(x, b)?;
        let y = g.transpose(y, 0, 2)?;
        g.output(y);
        Ok(())
    }),
    ("outer_difference", |g| {
        let a = g.input("a", F, [37, 1]);
        let b = g.input("b", F, [1, 53]);
        let y = g.sub(a, b)?;
        let y = g.abs(y)?;
        g.output(y);
        Ok(())
    }),
    ("select_by_mask", |g| {
        let (x, y) = (g.input("x", F, [119, 77]), g.input("y", F, [119, 77]));
        let greater = g.gt(x, y)?;
        let (sum, product) = (g.add(x, y)?, g.mul(x, y)?);
        let z = g.where_(greater, sum, product)?;
        g.output(z);
        Ok(())
    }),
    ("integers", |g| {
        let (a, b) = (
            g.input("a", DType::I32, [259, 81]),
            g.input("b", DType::I32, [259, 81]),
        );
        let y = g.mul(a, b)?;
        let y = g.sub(y, 3i64)?;
        let y = g.maximum(y, a)?;
        g.output(y);
        Ok(())
    }),
    ("integer_sum", |g| {
        let x = g.input("x", DType::I32, [13, 277]);
        let y = g.sum(x, &[1], false)?;
        g.output(y);
        Ok(())
    }),
    ("between", |g| {
        let x = g.input("x", F, [161, 51]);
        let (above, below) = (g.gt(x, -0.5)?, g.lt(x, 1.5)?);
        let y = g.logical_and(above, below)?;
        g.output(y);
        Ok(())
    }),
    ("sum_inner", |g| {
        let x = g.input("x", F, [9, 1007]);
        let y = g.sum(x, &[1], false)?;
        g.output(y);
        Ok(())
    }),
    ("mean_middle", |g| {
        let x = g.input("x", F, [6, 130, 77]);
        let y = g.mean(x, &[1], true)?;
        g.output(y);
        Ok(())
    }),
    ("sum_outer_squares", |g| {
        let x = g.input("x", F, [130, 77]);
        let y = g.mul(x, x)?;
        let y = g.sum(y, &[0], false)?;
        g.output(y);
        Ok(())
    }),
    ("max_with_index", |g| {
        let x = g.input("x", F, [130, 77]);
        let (value, index) = g.max_dim(x, 0, false)?;
        g.output(value);
        g.output(index);
        Ok(())
    }),
    ("argmin_long", |g| {
        let x = g.input("x", F, [3, 5007]);
        let y = g.argmin(x, 1)?;
        g.output(y);
        Ok(())
    }),
    ("minimum_all", |g| {
        let x = g.input("x", F, [23, 57]);
        let y = g.amin(x, &[0, 1], false)?;
        g.output(y);
        Ok(())
    }),
    ("variance", |g| {
        let x = g.input("x", F, [230, 67]);
        let mean = g.mean(x, &[1], true)?;
        let d = g.sub(x, mean)?;
        let squares = g.mul(d, d)?;
        let y = g.mean(squares, &[1], false)?;
        g.output(y);
        Ok(())
    }),
    ("log_of_sum", |g| {
        let x = g.input("x", F, [203, 61]);
        let top = g.amax(x, &[1], true)?;
        let y = g.sub(x, top)?;
        let y = g.exp(y)?;
        let y = g.sum(y, &[1], true)?;
        let y = g.log(y)?;
        let y = g.add(y, top)?;
        g.output(y);
        Ok(())
    }),
    ("softmax_middle", |g| {
        let x = g.input("x", F, [5, 67, 23]);
        let y = g.softmax(x, 1)?;
        g.output(y);
        Ok(())
    }),
    ("log_softmax", |g| {
        let x = g.input("x", F, [7, 1003]);
        let y = g.log_softmax(x, 1)?;
        g.output(y);
        Ok(())
    }),
    ("rms_norm_residual", |g| {
        let x = g.input("x", F, [12, 300]);
        let w = g.weight("w", F, [300]);
        let y = g.rms_norm(x, [300], Some(w), 1e-5)?;
        let y = g.add(y, x)?;
        g.output(y);
        Ok(())
    }),
    ("group_norm", |g| {
        let x = g.input("x", F, [3, 8, 15, 6]);
        let w = g.weight("w", F, [8]);
        let b = g.weight("b", F, [8]);
        let y = g.group_norm(x, 4, Some(w), Some(b), 1e-5)?;
        g.output(y);
        Ok(())
    }),
    ("squared_error", |g| {
        let (x, t) = (g.input("x", F, [37, 29]), g.input("t", F, [37, 29]));
        let d = g.sub(x, t)?;
        let squares = g.mul(d, d)?;
        let y = g.mean(squares, &[], false)?;
        g.output(y);
        Ok(())
    }),
    ("linear_gelu", |g| {
        let x = g.input("x", F, [67, 130]);
        let w = g.weight("w", F, [101, 130]);
        let b = g.weight("b", F, [101]);
        let y = g.linear(x, w, Some(b))?;
        let y = g.gelu(y)?;
        g.output(y);
        Ok(())
    }),
    ("batched_product", |g| {
        let a = g.input("a", F, [3, 65, 70]);
        let b = g.input("b", F, [3, 70, 50]);
        let y = g.bmm(a, b)?;
        g.output(y);
        Ok(())
    }),
    ("transposed_product", |g| {
        let a = g.input("a", F, [130, 65]);
        let b = g.input("b", F, [70, 130]);
        let (a, b) = (g.transpose(a, 0, 1)?, g.transpose(b, 0, 1)?);
        let y = g.matmul(a, b)?;
        let y = g.tril(y, 0)?;
        g.output(y);
        Ok(())
    }),
    ("matrix_vector", |g| {
        let a = g.input("a", F, [65, 1007]);
        let b = g.input("b", F, [1007, 1]);
        let y = g.matmul(a, b)?;
        g.output(y);
        Ok(())
    }),
    ("several_kernels", |g| {
        let x = g.input("x", F, [33, 64]);
        let w = g.weight("w", F, [64, 64]);
        let h = g.linear(x, w, None)?;
        let h = g.softmax(h, -1)?;
        let y = g.linear(h, w, None)?;
        let y = g.add(y, x)?;
        g.output(y);
        Ok(())
    }),
    ("scores", |g| {
        let q = g.input("q", F, [2, 37, 24]);
        let k = g.input("k", F, [2, 41, 24]);
        let k = g.transpose(k, 1, 2)?;
        let s = g.bmm(q, k)?;
        let s = g.mul(s, 0.2)?;
        let y = g.softmax(s, 2)?;
        g.output(y);
        Ok(())
    }),
    ("normalised_by_column", |g| {
        let x = g.input("x", F, [71, 37]);
        let m = g.amax(x, &[0], true)?;
        let n = g.amin(x, &[0], true)?;
        let span = g.sub(m, n)?;
        let y = g.sub(x, n)?;
        let y = g.div(y, span)?;
        g.output(y);
        Ok(())
    }),
];
