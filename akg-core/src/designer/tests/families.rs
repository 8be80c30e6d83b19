//! Scans, losses, batch statistics, and views that move elements.

use proptest::prelude::{ProptestConfig, proptest};

use super::{F, check, check_all, check_within, design, many_threads, unary};
use crate::graph::{Arg, Graph, Layout, ValueId};
use crate::target::Target;
use crate::task::Task;
use crate::{DType, Result};

fn call(g: &mut Graph, op: &str, args: &[(&str, Arg)]) -> Result<ValueId> {
    Ok(g.call(op, args.iter().cloned())?[0])
}

/// `op(x, dim)`.
fn along(g: &mut Graph, op: &str, x: ValueId, dim: i64) -> Result<ValueId> {
    call(g, op, &[("self", x.into()), ("dim", dim.into())])
}

fn flip(g: &mut Graph, x: ValueId, dim: i64) -> Result<ValueId> {
    call(g, "flip.default", &[("self", x.into()), ("dims", [dim].into())])
}

fn narrow(g: &mut Graph, x: ValueId, dim: i64, start: i64, length: i64) -> Result<ValueId> {
    let (start, length) = (("start", start.into()), ("length", length.into()));
    call(
        g,
        "narrow.default",
        &[("self", x.into()), ("dim", dim.into()), start, length],
    )
}

#[test]
fn dropouts() {
    let seed = |g: &mut Graph| g.input("seed", DType::I64, [0i64; 0]);
    check("one_dimension", |g| {
        let (x, seed) = (g.input("x", F, [4099]), seed(g));
        g.seeded_dropout(x, seed, 0.2, 0)
    });
    check("one_element", |g| {
        let (x, seed) = (g.input("x", F, [1, 1]), seed(g));
        g.seeded_dropout(x, seed, 0.7, 3)
    });
    check("between_a_product_and_a_softmax", |g| {
        let (x, w, seed) = (g.input("x", F, [70, 40]), g.weight("w", F, [90, 40]), seed(g));
        let y = g.linear(x, w, None)?;
        let y = g.seeded_dropout(y, seed, 0.2, 0)?;
        g.softmax(y, 1)
    });
    check("before_a_softmax", |g| {
        let (x, seed) = (g.input("x", F, [3, 4099]), seed(g));
        let y = g.seeded_dropout(x, seed, 0.4, 1 << 33)?;
        g.softmax(y, 1)
    });
    check("two_and_a_transposition", |g| {
        let (x, seed) = (g.input("x", F, [6, 20, 31]), seed(g));
        let y = g.seeded_dropout(x, seed, 0.5, 0)?;
        let y = g.permute(y, &[2, 0, 1])?;
        let y = g.reshape(y, [31, 120])?;
        let y = g.seeded_dropout(y, seed, 0.3, 3720)?;
        g.sum(y, &[1], false)
    });
}

#[test]
fn random_numbers() {
    let seed = |g: &mut Graph| g.input("seed", DType::I64, [0i64; 0]);
    check("uniform", |g| {
        let seed = seed(g);
        g.seeded_rand([7, 1, 30], seed, 0)
    });
    check("normal_and_dropped", |g| {
        let seed = seed(g);
        let x = g.input("x", F, [3, 50]);
        let noise = g.seeded_randn([3, 50], seed, 1 << 33)?;
        let x = g.add(x, noise)?;
        g.seeded_dropout(x, seed, 0.5, 0)
    });
    check("a_normal_number", |g| {
        let seed = seed(g);
        g.seeded_randn([0i64; 0], seed, 5)
    });
}

#[test]
fn scans() {
    let sum = "cumsum.default";
    unary("whole", &[7, 100], |g, x| along(g, sum, x, 1));
    unary("tiles", &[3, 6144], |g, x| along(g, sum, x, 1));
    unary("no_divisor", &[3, 4099], |g, x| along(g, sum, x, 1));
    unary("middle", &[3, 150, 40], |g, x| along(g, sum, x, 1));
    unary("first", &[150, 40], |g, x| along(g, sum, x, 0));
    unary("products", &[4, 4099], |g, x| {
        let x = g.mul(x, 0.01)?;
        let x = g.add(x, 1.0)?;
        along(g, "cumprod.default", x, 1)
    });
    for (name, shape, dim) in [
        ("from_the_end", [3, 6144], 1),
        ("from_the_end_no_divisor", [3, 4099], 1),
        ("from_the_end_first", [150, 40], 0),
    ] {
        unary(name, &shape, |g, x| {
            let x = flip(g, x, dim)?;
            let y = along(g, sum, x, dim)?;
            flip(g, y, dim)
        });
    }
    for length in [50, 4098, 6143] {
        unary("exclusive", &[3, length + 1], |g, x| {
            let head = narrow(g, x, 1, 0, length)?;
            let sums = along(g, sum, head, 1)?;
            let zero = g.full([3, 1], 0.0, F)?;
            g.cat(&[zero, sums], 1)
        });
        unary("exclusive_from_the_end", &[3, length + 1], |g, x| {
            let tail = narrow(g, x, 1, 1, length)?;
            let tail = flip(g, tail, 1)?;
            let sums = along(g, sum, tail, 1)?;
            let sums = flip(g, sums, 1)?;
            let zero = g.full([3, 1], 0.0, F)?;
            g.cat(&[sums, zero], 1)
        });
    }
    check("masked", |g| {
        let (x, mask) = (
            g.input("x", F, [3, 4099]),
            g.input("mask", DType::Bool, [3, 4099]),
        );
        let x = g.mul(x, mask)?;
        let y = along(g, sum, x, 1)?;
        g.mul(y, 0.5)
    });
    check("integers", |g| {
        let x = g.input("x", DType::I64, [3, 70]);
        along(g, sum, x, -1)
    });
    unary("normalised", &[3, 4099], |g, x| {
        let x = g.abs(x)?;
        let total = g.sum(x, &[1], true)?;
        let y = along(g, sum, x, 1)?;
        g.div(y, total)
    });
}

#[test]
fn rows_of_slices_are_summed_as_exactly_as_dense_rows() {
    check_within("energy_of_rows", 1.5e-7, |g| {
        let pitched = Layout {
            shape: vec![64, 200],
            strides: vec![300, 1],
        };
        let x = g.strided_input("x", DType::F32, pitched)?;
        let y = g.mul(x, x)?;
        Ok(vec![g.sum(y, &[1], false)?])
    });
}

#[test]
fn moved_elements() {
    unary("reversed", &[5, 70], |g, x| flip(g, x, 1));
    unary("reversed_twice", &[5, 70], |g, x| {
        let y = flip(g, x, 0)?;
        flip(g, y, 1)
    });
    unary("every_third", &[5, 70], |g, x| g.slice(x, 1, 2, 60, 3));
    unary("slice_of_a_slice", &[50, 7], |g, x| {
        let y = narrow(g, x, 0, 5, 30)?;
        narrow(g, y, 0, 2, 20)
    });
    unary("slice_of_something", &[50, 7], |g, x| {
        let y = g.exp(x)?;
        let y = narrow(g, y, 0, 5, 30)?;
        g.relu(y)
    });
    unary("slice_of_a_view", &[5, 6, 7], |g, x| {
        let y = g.reshape(x, [30, 7])?;
        narrow(g, y, 0, 5, 20)
    });
    unary("one", &[5, 6, 7], |g, x| g.select(x, 1, -2));
    unary("sum_of_a_slice", &[5, 9001], |g, x| {
        let y = narrow(g, x, 1, 3, 8998)?;
        g.sum(y, &[1], false)
    });
    unary("max_of_padding", &[5, 60], |g, x| {
        let y = g.sub(x, 5.0)?;
        let y = g.pad(y, &[2, 3], 0.0)?;
        g.amax(y, &[1], false)
    });
    unary("padded", &[5, 60], |g, x| g.pad(x, &[2, 3, 1, 0], 0.0));
    unary("padded_with_ones", &[5, 60], |g, x| g.pad(x, &[2, 3, 1, -1], 1.0));
    unary("padded_row", &[1, 60], |g, x| g.pad(x, &[0, 0, 1, 2], 0.0));
    check("joined", |g| {
        let (a, b) = (g.input("a", F, [5, 30]), g.input("b", F, [5, 21]));
        let b = g.exp(b)?;
        g.cat(&[a, b, a], 1)
    });
    check("stacked", |g| {
        let (a, b) = (g.input("a", F, [5, 30]), g.input("b", F, [5, 30]));
        g.stack(&[a, b], 1)
    });
    check_all("taken_apart", |g| {
        let x = g.input("x", F, [10, 12]);
        g.split(x, 5, 1)
    });
    check_all("broadcast", |g| {
        let (a, b) = (g.input("a", F, [5, 1]), g.input("b", F, [30]));
        g.call("broadcast_tensors.default", [("tensors", [a, b].into())])
    });
}

/// A loss of two tensors with each reduction.
fn loss(op: &str, extra: &[(&str, Arg)]) {
    for reduction in 0..3i64 {
        check(op, |g| {
            let (x, y) = (g.input("x", F, [7, 300]), g.input("y", F, [7, 300]));
            let (x, y) = (g.sigmoid(x)?, g.sigmoid(y)?);
            let mut args = vec![
                ("self", x.into()),
                ("target", y.into()),
                ("reduction", reduction.into()),
            ];
            args.extend(extra.iter().cloned());
            call(g, op, &args)
        });
    }
}

#[test]
fn losses() {
    loss("mse_loss.default", &[]);
    loss("l1_loss.default", &[]);
    loss("smooth_l1_loss.default", &[("beta", 0.2.into())]);
    loss("smooth_l1_loss.default", &[("beta", 0.0.into())]);
    loss("huber_loss.default", &[("delta", 0.3.into())]);
    loss("kl_div.default", &[]);
    loss("kl_div.default", &[("log_target", true.into())]);
    loss("binary_cross_entropy.default", &[]);
    loss("binary_cross_entropy_with_logits.default", &[]);
    for (p, swap) in [(2.0, false), (2.0, true), (3.0, false)] {
        check("triplet", |g| {
            let [a, b, n] = ["a", "b", "n"].map(|name| g.input(name, F, [9, 200]));
            let operands = [
                ("anchor", a.into()),
                ("positive", b.into()),
                ("negative", n.into()),
            ];
            let options = [("p", p.into()), ("swap", swap.into())];
            call(
                g,
                "triplet_margin_loss.default",
                &[&operands[..], &options].concat(),
            )
        });
    }
    check("cosine", |g| {
        let (a, b) = (g.input("a", F, [9, 200]), g.input("b", F, [9, 200]));
        call(
            g,
            "cosine_similarity.default",
            &[("x1", a.into()), ("x2", b.into())],
        )
    });
}

#[test]
fn losses_of_classes() {
    for (reduction, smoothing, weighted) in [
        (0i64, 0.0, false),
        (1, 0.0, false),
        (1, 0.1, true),
        (2, 0.1, false),
        (1, 0.0, true),
    ] {
        // Of rows as long as the last a program has one.
        for shape in [&[40i64, 5][..], &[6, 5, 9], &[7, 4100]] {
            check("cross_entropy", |g| {
                let x = g.input("x", F, shape.iter().copied());
                let mut samples = shape.to_vec();
                samples.remove(1);
                let y = g.input("y", DType::I64, samples);
                let weight = if weighted {
                    let w = g.weight("w", F, [shape[1]]);
                    g.exp(w)?.into()
                } else {
                    Arg::None
                };
                let target = [("self", x.into()), ("target", y.into()), ("weight", weight)];
                let options = [
                    ("reduction", reduction.into()),
                    ("label_smoothing", smoothing.into()),
                    ("ignore_index", 3.into()),
                ];
                call(g, "cross_entropy_loss.default", &[&target[..], &options].concat())
            });
        }
    }
    check("distributions", |g| {
        let (x, y) = (g.input("x", F, [40, 6]), g.input("y", F, [40, 6]));
        let y = g.softmax(y, 1)?;
        let smoothing = ("label_smoothing", 0.2.into());
        call(
            g,
            "cross_entropy_loss.default",
            &[("self", x.into()), ("target", y.into()), smoothing],
        )
    });
    check("likelihood", |g| {
        let (x, y) = (g.input("x", F, [40, 5]), g.input("y", DType::I64, [40]));
        call(g, "nll_loss.default", &[("self", x.into()), ("target", y.into())])
    });
    check("likelihood_of_many", |g| {
        let (x, y) = (g.input("x", F, [9, 3000]), g.input("y", DType::I64, [9]));
        call(g, "nll_loss.default", &[("self", x.into()), ("target", y.into())])
    });
}

/// Batch norm of `x` with weights for its channels, and the statistics if it is `training`.
fn batch_norm(g: &mut Graph, x: ValueId, channels: i64, training: bool) -> Result<Vec<ValueId>> {
    let [w, b, mean, var] = ["w", "b", "mean", "var"].map(|name| g.weight(name, F, [channels]));
    let var = g.exp(var)?;
    let results = g.call(
        "_native_batch_norm_legit_functional.default",
        [
            ("input", x.into()),
            ("weight", w.into()),
            ("bias", b.into()),
            ("running_mean", mean.into()),
            ("running_var", var.into()),
            ("training", training.into()),
            ("momentum", 0.1.into()),
            ("eps", 1e-5.into()),
        ],
    )?;
    Ok(if training { results } else { vec![results[0]] })
}

/// Batch norm of a product's result.
fn normalised_product(g: &mut Graph) -> Result<Vec<ValueId>> {
    let (x, w) = (g.input("x", F, [2000, 8]), g.weight("factor", F, [40, 8]));
    let x = g.linear(x, w, None)?;
    batch_norm(g, x, 40, true)
}

#[test]
fn batch_statistics() {
    for training in [true, false] {
        check_all("batch_norm", |g| {
            let x = g.input("x", F, [6, 5, 7, 9]);
            batch_norm(g, x, 5, training)
        });
    }
    check_all("batch_norm_of_product", normalised_product);
    check("instance_norm", |g| {
        let x = g.input("x", F, [3, 4, 10, 12]);
        call(
            g,
            "instance_norm.default",
            &[
                ("input", x.into()),
                ("weight", Arg::None),
                ("bias", Arg::None),
                ("running_mean", Arg::None),
                ("running_var", Arg::None),
                ("use_input_stats", true.into()),
                ("momentum", 0.1.into()),
                ("eps", 1e-5.into()),
                ("cudnn_enabled", false.into()),
            ],
        )
    });
}

#[test]
fn conversions_to_f64_are_not_stored() {
    let mut g = Graph::new("normalised_product");
    for y in normalised_product(&mut g).unwrap() {
        g.output(y);
    }
    let design = design(&Task::new("normalised_product", g), &many_threads()).unwrap();
    let text = design.sketch.to_string();
    assert!(
        text.contains("f32[2000, 40]") && !text.contains("f64[2000, 40]"),
        "{text}"
    );
}

/// `sum(x) * sum(z) + sum(y)`, of which two are equally large.
fn totals(g: &mut Graph) -> Result<ValueId> {
    let (x, y, z) = (
        g.input("x", F, [30, 70]),
        g.input("y", F, [2100]),
        g.input("z", F, [50]),
    );
    let [x, z, y] = [x, z, y].map(|t| g.sum(t, &[], false));
    let product = g.mul(x?, z?)?;
    g.add(product, y?)
}

#[test]
fn totals_of_equally_large_tensors_are_taken_together() {
    check("totals", totals);
    let mut g = Graph::new("totals");
    let y = totals(&mut g).unwrap();
    g.output(y);
    let design = design(&Task::new("totals", g), &Target::new("cpu", "x86_64")).unwrap();
    let text = design.sketch.to_string();
    let together = text
        .split("kernel ")
        .filter(|k| k.contains("load x[") && k.contains("load y["));
    assert_eq!(together.count(), 1, "{text}");
}

#[test]
fn walks_split_over_programs() {
    unary("sum_of_all", &[40, 1024], |g, x| g.sum(x, &[], false));
    unary("no_divisor", &[40_009], |g, x| {
        let y = g.add(x, 1.0)?;
        g.amax(y, &[0], false)
    });
    unary("rows", &[2, 33_000], |g, x| g.mean(x, &[1], false));
    unary("rows_of_products", &[1, 33_001], |g, x| {
        let y = g.mul(x, 1e-3)?;
        let y = g.add(y, 1.0)?;
        along(g, "prod.dim_int", y, 1)
    });
    unary("norm", &[40, 1024], |g, x| {
        let squares = g.mul(x, x)?;
        let sum = g.sum(squares, &[], false)?;
        let norm = g.sqrt(sum)?;
        g.div(x, norm)
    });
    unary("softmax", &[1, 33_001], |g, x| g.softmax(x, 1));
    check("layer_norm", |g| {
        let x = g.input("x", F, [1, 10, 4096]);
        let w = g.weight("w", F, [10, 4096]);
        let x = g.add(x, 100.0)?;
        g.layer_norm(x, [10, 4096], Some(w), None, 1e-5)
    });
    check("layer_norm_no_divisor", |g| {
        let x = g.input("x", F, [1, 33_001]);
        g.layer_norm(x, [33_001], None, None, 1e-5)
    });
    unary("group_norm", &[1, 8, 80, 105], |g, x| {
        g.group_norm(x, 2, None, None, 1e-5)
    });
}

#[test]
fn maxima_that_rise_on_the_way() {
    for length in [9000, 40_000] {
        unary("rising", &[2, length], |g, x| {
            let steps = g.abs(x)?;
            let x = along(g, "cumsum.default", steps, 1)?;
            g.log_softmax(x, 1)
        });
        unary("late", &[2, length], |g, x| {
            let nothing = g.full([2, 30_000], f64::NEG_INFINITY, F)?;
            let x = g.cat(&[nothing, x], 1)?;
            g.log_softmax(x, 1)
        });
    }
    unary("none", &[2, 9000], |g, x| {
        let nothing = g.mul(x, 0.0)?;
        let x = g.log(nothing)?;
        g.log_softmax(x, 1)
    });
}

/// The loss is a small difference of large distances.
#[test]
fn what_follows_the_sums_of_a_loss_is_exact() {
    check_within("far_apart", 1e-6, |g| {
        let operands = ["anchor", "positive", "negative"].map(|name| {
            let x = g.input(name, F, [3, 4096]);
            g.mul(x, 64.0).map(|x| (name, x.into()))
        });
        let operands = operands.into_iter().collect::<Result<Vec<_>>>()?;
        let margin = ("margin", 30.0.into());
        let y = call(
            g,
            "triplet_margin_loss.default",
            &[&operands[..], &[margin]].concat(),
        )?;
        Ok(vec![y])
    });
}

#[test]
fn remaining_reductions() {
    for op in ["any.dim", "all.dim"] {
        check(op, |g| {
            let x = g.input("x", DType::Bool, [9, 3]);
            along(g, op, x, 1)
        });
    }
    unary("any", &[9, 100], |g, x| {
        let above = g.gt(x, 1.99)?;
        g.any(above, &[1], true)
    });
    unary("var", &[9, 100], |g, x| g.var(x, &[1], 1, true));
    unary("std_of_all", &[4, 10_001], |g, x| g.std(x, &[0, 1], 0, false));
    unary("std_middle", &[3, 70, 40], |g, x| g.std(x, &[1], 1, false));
    for order in [0.0, 1.0, 3.0, f64::INFINITY, f64::NEG_INFINITY] {
        unary("norm", &[5, 60], |g, x| {
            let dim = ("dim", [1i64].into());
            call(
                g,
                "linalg_vector_norm.default",
                &[("self", x.into()), ("ord", order.into()), dim],
            )
        });
    }
    unary("logsumexp", &[5, 6, 60], |g, x| {
        call(
            g,
            "logsumexp.default",
            &[("self", x.into()), ("dim", [0i64, 2].into())],
        )
    });
}

#[test]
fn remaining_element_wise_operators() {
    for op in [
        "relu6.default",
        "celu.default",
        "log_sigmoid.default",
        "tan.default",
        "isinf.default",
        "isfinite.default",
        "sign.default",
    ] {
        unary(op, &[5, 60], |g, x| call(g, op, &[("self", x.into())]));
    }
    unary("log10", &[5, 60], |g, x| {
        let x = g.exp(x)?;
        call(g, "log10.default", &[("self", x.into())])
    });
    check("addcmul", |g| {
        let [a, b, c] = ["a", "b", "c"].map(|name| g.input(name, F, [5, 60]));
        let operands = [("self", a.into()), ("tensor1", b.into()), ("tensor2", c.into())];
        call(
            g,
            "addcmul.default",
            &[&operands[..], &[("value", 0.5.into())]].concat(),
        )
    });
    check("prelu", |g| {
        let (x, w) = (g.input("x", F, [5, 7, 9]), g.weight("w", F, [7]));
        call(g, "prelu.default", &[("self", x.into()), ("weight", w.into())])
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Walks along either dimension, whole or in tiles that divide the extent or not, of windows or of all.
    #[test]
    fn any_extents(rows in 1i64..6, length in 1i64..5000, which in 0usize..6, dim in 0i64..2, first in 0i64..3) {
        let shape = if dim == 1 { [rows, length + first] } else { [length + first, rows] };
        unary("any_extents", &shape, |g, x| {
            let x = narrow(g, x, dim, first, length)?;
            match which {
                0 => g.sum(x, &[dim], false),
                1 => g.amax(x, &[dim], true),
                2 => g.var(x, &[dim], 0, false),
                3 => g.softmax(x, dim),
                4 => along(g, "cumsum.default", x, dim),
                _ => {
                    let x = flip(g, x, dim)?;
                    let y = along(g, "cumsum.default", x, dim)?;
                    flip(g, y, dim)
                }
            }
        });
    }
}

#[test]
fn scans_of_one_element() {
    for (shape, dim) in [([1, 1], 0), ([5, 1], 1), ([1, 5], 0)] {
        unary("scans_of_one_element", &shape, |g, x| {
            along(g, "cumsum.default", x, dim)
        });
    }
}

#[test]
fn pools_of_windows_side_by_side() {
    let pool = |op: &'static str, kernel: Vec<i64>, shape: Vec<i64>| {
        check(op, move |g| {
            let x = g.input("x", F, shape);
            g.call(
                op,
                [("self", x.into()), ("kernel_size", kernel.as_slice().into())],
            )
            .map(|y| y[0])
        });
    };
    pool("max_pool1d.default", vec![2], vec![5, 3, 40]);
    pool("avg_pool1d.default", vec![16], vec![5, 3, 64]);
    pool("avg_pool2d.default", vec![2, 5], vec![2, 3, 8, 20]);
    pool("avg_pool3d.default", vec![2, 1, 3], vec![2, 3, 4, 5, 6]);
    check("adaptive", |g| {
        let x = g.input("x", F, [2, 3, 8, 12]);
        let size: &[i64] = &[4, 1];
        g.call(
            "adaptive_avg_pool2d.default",
            [("self", x.into()), ("output_size", size.into())],
        )
        .map(|y| y[0])
    });
}

#[test]
fn tensors_may_be_called_anything() {
    check("load", |g| {
        let names = [
            "full", "dot", "None", "barrier", "t", "acc1", "exp", "f32", "4", "BM", "x y", "f32",
        ];
        let mut sum = g.input("for", F, [4, 8]);
        for name in names {
            let x = g.input(name, F, [4, 8]);
            sum = g.add(sum, x)?;
        }
        Ok(sum)
    });
}
