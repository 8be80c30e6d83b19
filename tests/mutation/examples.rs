//! The example sketches with the graphs that they compute.

use akg::graph::Conv;
use akg::source::KnobValue;
use akg::task::{Accuracy, Generator};
use akg::{DType, Graph, Result};

/// An example sketch at one shape.
#[derive(Debug)]
pub(crate) struct Example {
    pub(crate) name: &'static str,
    pub(crate) build: fn(&mut Graph) -> Result<()>,
    pub(crate) accuracy: Accuracy,
    pub(crate) generators: &'static [Generator],
    pub(crate) dims: &'static [(&'static str, i64)],
    /// The knobs that must have these values; the others take the first legal ones.
    pub(crate) knobs: &'static [(&'static str, KnobValue)],
}

const F32: DType = DType::F32;

const fn int(value: i64) -> KnobValue {
    KnobValue::Int(value)
}

const PLAIN: Example = Example {
    name: "",
    build: |_| Ok(()),
    accuracy: Accuracy::Fp32,
    generators: &[],
    dims: &[],
    knobs: &[],
};

pub(crate) const EXAMPLES: &[Example] = &[
    Example {
        name: "argmax",
        build: |g| {
            let x = g.input("x", F32, [7, 517]);
            let y = g.argmax(x, 1)?;
            g.output(y);
            Ok(())
        },
        dims: &[("R", 7), ("L", 517)],
        knobs: &[("BL", int(64))],
        ..PLAIN
    },
    Example {
        name: "attention",
        build: |g| {
            let [q, k, v] = ["q", "k", "v"].map(|n| g.input(n, DType::F16, [3, 70, 24]));
            let y = g.attention(q, k, v, true)?;
            g.output(y);
            Ok(())
        },
        accuracy: Accuracy::Half,
        dims: &[("G", 3), ("S", 70), ("D", 24)],
        knobs: &[("BM", int(16)), ("BN", int(16))],
        ..PLAIN
    },
    Example {
        name: "bincount",
        build: |g| {
            let x = g.input("x", DType::I32, [1000]);
            let bins = g.arange(37, DType::I32)?;
            let (x, bins) = (g.unsqueeze(x, 0)?, g.unsqueeze(bins, 1)?);
            let hits = g.eq(x, bins)?;
            let counts = g.sum(hits, &[1], false)?;
            let y = g.to_dtype(counts, DType::I32)?;
            g.output(y);
            Ok(())
        },
        generators: &[Generator::Integers { lo: -3, hi: 40 }],
        dims: &[("L", 1000), ("BINS", 37)],
        knobs: &[("BL", int(64)), ("BB", int(32))],
        ..PLAIN
    },
    Example {
        name: "conv2d",
        build: |g| {
            let x = g.input("x", F32, [2, 5, 13, 11]);
            let w = g.weight("w", F32, [7, 5, 3, 3]);
            let b = g.weight("b", F32, [7]);
            let window = Conv {
                stride: vec![2, 1],
                padding: vec![1, 1],
                ..Conv::default()
            };
            let y = g.conv(x, w, Some(b), &window)?;
            g.output(y);
            Ok(())
        },
        dims: &[
            ("N", 2),
            ("C", 5),
            ("H", 13),
            ("W", 11),
            ("O", 7),
            ("KH", 3),
            ("KW", 3),
            ("SH", 2),
            ("SW", 1),
            ("PH", 1),
            ("PW", 1),
            ("DH", 1),
            ("DW", 1),
        ],
        knobs: &[("CT", KnobValue::DType(F32)), ("TH", int(4)), ("TW", int(8))],
        ..PLAIN
    },
    Example {
        name: "cumsum",
        build: |g| {
            let x = g.input("x", F32, [3, 5003]);
            let y = g.cumsum(x, 1)?;
            g.output(y);
            Ok(())
        },
        dims: &[("R", 3), ("L", 5003)],
        knobs: &[("BL", int(64)), ("BS", int(16))],
        ..PLAIN
    },
    Example {
        name: "embedding",
        build: |g| {
            let ids = g.input("ids", DType::I64, [37]);
            let table = g.weight("table", F32, [50, 70]);
            let y = g.embedding(table, ids)?;
            g.output(y);
            Ok(())
        },
        generators: &[Generator::Integers { lo: 0, hi: 50 }],
        dims: &[("T", 37), ("V", 50), ("D", 70)],
        knobs: &[("BD", int(32))],
        ..PLAIN
    },
    Example {
        name: "gemm_split",
        build: |g| linear(g, 37, 130, 53, true),
        dims: &[("M", 37), ("K", 130), ("N", 53)],
        knobs: &[("BM", int(16)), ("BN", int(32)), ("SK", int(64))],
        ..PLAIN
    },
    Example {
        name: "gemm_splitk",
        build: |g| linear(g, 37, 530, 29, false),
        dims: &[("M", 37), ("K", 530), ("N", 29)],
        knobs: &[("BM", int(16)), ("BN", int(16))],
        ..PLAIN
    },
    Example {
        name: "gemm_tail",
        build: |g| {
            let x = g.input("x", F32, [67, 130]);
            let w = g.weight("w", F32, [53, 130]);
            let b = g.weight("b", F32, [53]);
            let y = g.linear(x, w, Some(b))?;
            let y = g.leaky_relu(y, 0.01)?;
            g.output(y);
            Ok(())
        },
        dims: &[("M", 67), ("K", 130), ("N", 53)],
        knobs: &[("BM", int(16)), ("BN", int(16))],
        ..PLAIN
    },
    Example {
        name: "layernorm",
        build: |g| {
            let x = g.input("x", F32, [9, 300]);
            let [w, b] = ["g", "b"].map(|n| g.weight(n, F32, [300]));
            let y = g.layer_norm(x, [300], Some(w), Some(b), 1e-5)?;
            g.output(y);
            Ok(())
        },
        dims: &[("R", 9), ("L", 300)],
        knobs: &[("RB", int(2)), ("BL", int(64))],
        ..PLAIN
    },
    Example {
        name: "maxpool2d",
        build: |g| {
            let x = g.input("x", F32, [1, 3, 23, 19]);
            let y = g.max_pool2d(x, [3, 3], [2, 2], [1, 1])?;
            g.output(y);
            Ok(())
        },
        dims: &[
            ("P", 3),
            ("H", 23),
            ("W", 19),
            ("KH", 3),
            ("KW", 3),
            ("SH", 2),
            ("SW", 2),
            ("PH", 1),
            ("PW", 1),
            ("DH", 1),
            ("DW", 1),
        ],
        knobs: &[("TH", int(4)), ("TW", int(8))],
        ..PLAIN
    },
    Example {
        name: "rnn",
        build: |g| {
            let x = g.input("x", F32, [5, 3, 40]);
            let mut h = g.input("h0", F32, [3, 40]);
            let w = g.weight("w", F32, [40, 40]);
            let mut steps = Vec::new();
            for t in 0..5 {
                let projected = g.linear(h, w, None)?;
                let now = g.select(x, 0, t)?;
                let sum = g.add(now, projected)?;
                h = g.tanh(sum)?;
                steps.push(h);
            }
            let y = g.stack(&steps, 0)?;
            g.output(y);
            Ok(())
        },
        dims: &[("T", 5), ("B", 3), ("H", 40)],
        knobs: &[("BH", int(16))],
        ..PLAIN
    },
    Example {
        name: "softmax_fits",
        build: |g| softmax(g, 9, 300),
        dims: &[("R", 9), ("L", 300)],
        knobs: &[("RB", int(2))],
        ..PLAIN
    },
    Example {
        name: "softmax_online",
        build: |g| softmax(g, 7, 1003),
        dims: &[("R", 7), ("L", 1003)],
        knobs: &[("RB", int(2)), ("BL", int(64))],
        ..PLAIN
    },
];

fn linear(g: &mut Graph, m: usize, k: usize, n: usize, bias: bool) -> Result<()> {
    let x = g.input("x", F32, [m, k]);
    let w = g.weight("w", F32, [n, k]);
    let b = bias.then(|| g.weight("b", F32, [n]));
    let y = g.linear(x, w, b)?;
    g.output(y);
    Ok(())
}

fn softmax(g: &mut Graph, rows: usize, length: usize) -> Result<()> {
    let x = g.input("x", F32, [rows, length]);
    let y = g.softmax(x, 1)?;
    g.output(y);
    Ok(())
}
