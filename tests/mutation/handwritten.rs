//! C++ that people wrote, with the graphs that it computes.

use akg::DType;
use akg::graph::Conv;

use crate::designed::Build;

const F: DType = DType::F32;

macro_rules! text {
    ($name:literal) => {
        include_str!(concat!("handwritten/", $name, ".cpp"))
    };
}

pub(crate) const KERNELS: &[(&str, Build, &str)] = &[
    (
        "relu_blocks",
        |g| {
            let x = g.input("x", F, [1003]);
            let y = g.mul(x, 2.0)?;
            let y = g.sub(y, 0.5)?;
            let y = g.relu(y)?;
            g.output(y);
            Ok(())
        },
        text!("relu_blocks"),
    ),
    (
        "matmul_blocked",
        |g| {
            let (a, b) = (g.input("a", F, [37, 53]), g.input("b", F, [53, 29]));
            let y = g.matmul(a, b)?;
            g.output(y);
            Ok(())
        },
        text!("matmul_blocked"),
    ),
    (
        "transpose_tiles",
        |g| {
            let x = g.input("x", F, [50, 37]);
            let y = g.transpose(x, 0, 1)?;
            g.output(y);
            Ok(())
        },
        text!("transpose_tiles"),
    ),
    (
        "histogram",
        |g| {
            let x = g.input("x", DType::I32, [20011]);
            let bins = g.arange(16, DType::I32)?;
            let bins = g.sub(bins, 8i64)?;
            let (x, bins) = (g.unsqueeze(x, 0)?, g.unsqueeze(bins, 1)?);
            let hits = g.eq(x, bins)?;
            let counts = g.sum(hits, &[1], false)?;
            let y = g.to_dtype(counts, DType::I32)?;
            g.output(y);
            Ok(())
        },
        text!("histogram"),
    ),
    (
        "softmax_together",
        |g| {
            let x = g.input("x", F, [4099]);
            let y = g.softmax(x, 0)?;
            g.output(y);
            Ok(())
        },
        text!("softmax_together"),
    ),
    (
        "relaxation",
        |g| {
            let x = g.input("x", F, [2050]);
            let mut y = x;
            for _ in 0..3 {
                let (left, right) = (g.slice(y, 0, 0, 2048, 1)?, g.slice(y, 0, 2, 2050, 1)?);
                let sum = g.add(left, right)?;
                let inner = g.mul(sum, 0.5)?;
                let (head, tail) = (g.slice(y, 0, 0, 1, 1)?, g.slice(y, 0, 2049, 2050, 1)?);
                y = g.cat(&[head, inner, tail], 0)?;
            }
            g.output(y);
            Ok(())
        },
        text!("relaxation"),
    ),
    (
        "chained_scan",
        |g| {
            let x = g.input("x", DType::I64, [3001]);
            let y = g.cumsum(x, 0)?;
            g.output(y);
            Ok(())
        },
        text!("chained_scan"),
    ),
    (
        "last_adds_up",
        |g| {
            let x = g.input("x", DType::I32, [9001]);
            let y = g.sum(x, &[], false)?;
            g.output(y);
            Ok(())
        },
        text!("last_adds_up"),
    ),
    (
        "layer_norm_lanes",
        |g| {
            let x = g.input("x", F, [11, 203]);
            let [w, b] = ["w", "b"].map(|n| g.weight(n, F, [203]));
            let y = g.layer_norm(x, [203], Some(w), Some(b), 1e-5)?;
            g.output(y);
            Ok(())
        },
        text!("layer_norm_lanes"),
    ),
    (
        "convolution",
        |g| {
            let x = g.input("x", F, [3, 4, 57]);
            let w = g.weight("w", F, [6, 4, 5]);
            let b = g.weight("b", F, [6]);
            let window = Conv {
                stride: vec![2],
                padding: vec![2],
                ..Conv::default()
            };
            let y = g.conv(x, w, Some(b), &window)?;
            g.output(y);
            Ok(())
        },
        text!("convolution"),
    ),
    (
        "smallest_by_column",
        |g| {
            let x = g.input("x", DType::I32, [43, 19]);
            let y = g.argmin(x, 0)?;
            g.output(y);
            Ok(())
        },
        text!("smallest_by_column"),
    ),
    (
        "attention_rows",
        |g| {
            let [q, k, v] = ["q", "k", "v"].map(|n| g.input(n, F, [2, 23, 8]));
            let y = g.attention(q, k, v, true)?;
            g.output(y);
            Ok(())
        },
        text!("attention_rows"),
    ),
    (
        "two_stage_mean",
        |g| {
            let x = g.input("x", F, [9, 1003]);
            let mean = g.mean(x, &[1], true)?;
            let y = g.sub(x, mean)?;
            g.output(y);
            Ok(())
        },
        text!("two_stage_mean"),
    ),
];
