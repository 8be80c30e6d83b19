//! Designs of graphs with a symbolic extent, at sizes that tiles fit, and at others.

use super::*;
use crate::expr::Expr;

/// Designs a graph once, in which `N` is an extent, and compares what the design computes with the reference for each of
/// the sizes.
#[track_caller]
fn check_sizes(name: &str, sizes: &[i64], build: impl FnOnce(&mut Graph, Expr) -> Result<ValueId>) {
    let mut g = Graph::new(name);
    let y = build(&mut g, Expr::symbol("N")).unwrap();
    g.output(y);
    let task = Task::new(name.to_owned(), g);
    for target in [Target::new("cpu", "x86_64"), many_threads()] {
        let design = design(&task, &target).unwrap_or_else(|e| panic!("{name}: {e:?}"));
        for size in sizes {
            let dims: Bindings = [("N".into(), *size)].into();
            let inputs = inputs(&task.graph, &dims);
            let expected = evaluate(&task.graph, &inputs, &Options::default()).unwrap();
            for (how, got) in runs(name, &design.sketch, &inputs, &dims, 2) {
                compare(name, &how, &got, &expected, 1e-5);
            }
        }
    }
}

/// Sizes below, at and above the lengths of tiles, odd ones and one.
const SIZES: [i64; 5] = [1, 31, 64, 65, 257];

#[test]
fn rows_and_columns() {
    check_sizes("gelu", &SIZES, |g, n| {
        let x = g.input("x", F, [n, 7.into()]);
        g.gelu(x)
    });
    check_sizes("softmax", &SIZES, |g, n| {
        let x = g.input("x", F, [3.into(), n]);
        g.softmax(x, 1)
    });
    check_sizes("transposed", &SIZES, |g, n| {
        let x = g.input("x", F, [n, 40.into()]);
        let y = g.transpose(x, 0, 1)?;
        g.relu(y)
    });
    check_sizes("cumsum", &SIZES, |g, n| {
        let x = g.input("x", F, [4.into(), n]);
        let args: [(&str, Arg); 2] = [("self", x.into()), ("dim", 1.into())];
        g.call("cumsum.default", args).map(|y| y[0])
    });
    check_sizes("argmax", &SIZES, |g, n| {
        let x = g.input("x", F, [5.into(), n]);
        g.argmax(x, 1)
    });
    check_sizes("outer", &SIZES, |g, n| {
        let (a, b) = (g.input("a", F, [n.clone()]), g.input("b", F, [n.clone(), n]));
        let a = g.unsqueeze(a, 1)?;
        g.mul(a, b)
    });
}

/// A kernel sees all elements in one dimension, whose extent does not say what the open ones are: the declared shape does.
#[test]
fn element_by_element_of_open_extents() {
    let mut g = Graph::new("relu");
    let x = g.input("x", F, [Expr::symbol("M"), 3.into(), Expr::symbol("N"), 2.into()]);
    let y = g.relu(x).unwrap();
    g.output(y);
    let task = Task::new("relu", g);
    let design = design(&task, &Target::new("cpu", "x86_64")).unwrap();
    design.sketch.elaborate(&design.knobs, &Bindings::new()).unwrap();
    for (m, n) in [(1, 1), (5, 16), (31, 2)] {
        let dims: Bindings = [("M".into(), m), ("N".into(), n)].into();
        let inputs = inputs(&task.graph, &dims);
        let expected = evaluate(&task.graph, &inputs, &Options::default()).unwrap();
        for (how, got) in runs("relu", &design.sketch, &inputs, &dims, 2) {
            compare("relu", &how, &got, &expected, 1e-5);
        }
    }
}

#[test]
fn elements_that_roll_along_open_extents() {
    for shift in [3, -40] {
        check_sizes("roll", &SIZES, |g, n| {
            let x = g.input("x", F, [5.into(), n]);
            roll(g, x, &[shift, 2], &[1, 0])
        });
    }
    check_sizes("roll_of_all", &[1, 33], |g, n| {
        let x = g.input("x", F, [n, 3.into()]);
        roll(g, x, &[2], &[])
    });
}

#[test]
fn slices_replaced_along_open_extents() {
    check_sizes("index_copy_into_open", &SIZES[1..], |g, n| {
        let table = g.input("table", F, [2.into(), n, 3.into()]);
        let (index, source) = (g.input("index", DType::I64, [6]), g.input("source", F, [2, 6, 3]));
        g.index_copy(table, 1, index, source)
    });
    check_sizes("index_copy_of_open", &SIZES[..4], |g, n| {
        let (table, index) = (
            g.input("table", F, [2, 7, 3]),
            g.input("index", DType::I64, [n.clone()]),
        );
        let source = g.input("source", F, [2.into(), n, 3.into()]);
        g.index_copy(table, 1, index, source)
    });
}

#[test]
fn what_counts_elements() {
    check_sizes("mean", &SIZES, |g, n| {
        let x = g.input("x", F, [n.clone(), 6.into(), n]);
        g.mean(x, &[0, 2], false)
    });
    check_sizes("mean_of_halves", &[1, 3001], |g, n| {
        let x = g.input("x", DType::F16, [2.into(), n]);
        let y = g.mean(x, &[1], false)?;
        g.to_dtype(y, F)
    });
    check_sizes("var", &SIZES[1..], |g, n| {
        let x = g.input("x", F, [3.into(), n]);
        g.var(x, &[1], 1, false)
    });
    check_sizes("std", &SIZES, |g, n| {
        let x = g.input("x", F, [3.into(), n]);
        g.std(x, &[1], 0, false)
    });
    check_sizes("layer_norm", &SIZES, |g, n| {
        let x = g.input("x", F, [3.into(), n.clone()]);
        g.layer_norm(x, [n], None, None, 1e-5)
    });
    check_sizes("group_norm", &SIZES, |g, n| {
        let x = g.input("x", F, [2.into(), 6.into(), n]);
        g.group_norm(x, 3, None, None, 1e-5)
    });
    check_sizes("mse_loss", &SIZES, |g, n| {
        let (x, y) = (
            g.input("x", F, [n.clone(), 3.into()]),
            g.input("y", F, [n, 3.into()]),
        );
        g.mse_loss(x, y)
    });
    check_sizes("cross_entropy", &SIZES[1..], |g, n| {
        let (x, y) = (g.input("x", F, [6.into(), n]), g.input("y", DType::I64, [6]));
        let args: [(&str, Arg); 3] = [
            ("self", x.into()),
            ("target", y.into()),
            ("label_smoothing", 0.1.into()),
        ];
        g.call("cross_entropy_loss.default", args).map(|y| y[0])
    });
}

#[test]
fn batch_statistics_of_any_batch() {
    check_sizes("batch_norm", &SIZES[1..], |g, n| {
        let x = g.input("x", F, [n, 5.into(), 3.into()]);
        let (mean, variance) = (g.state("mean", F, [5]), g.state("variance", F, [5]));
        let args: [(&str, Arg); 8] = [
            ("input", x.into()),
            ("weight", Arg::None),
            ("bias", Arg::None),
            ("running_mean", mean.into()),
            ("running_var", variance.into()),
            ("training", true.into()),
            ("momentum", 0.1.into()),
            ("eps", 1e-5.into()),
        ];
        g.call("_native_batch_norm_legit_functional.default", args)
            .map(|y| y[4])
    });
}

#[test]
fn products() {
    check_sizes("linear", &SIZES, |g, n| {
        let (x, w, b) = (
            g.input("x", F, [n, 40.into()]),
            g.weight("w", F, [30, 40]),
            g.weight("b", F, [30]),
        );
        let y = g.linear(x, w, Some(b))?;
        g.relu(y)
    });
    check_sizes("long_sums", &SIZES, |g, n| {
        let (a, b) = (
            g.input("a", F, [20.into(), n.clone()]),
            g.input("b", F, [n, 24.into()]),
        );
        g.matmul(a, b)
    });
    check_sizes("batches", &SIZES, |g, n| {
        let (a, b) = (
            g.input("a", F, [n.clone(), 9.into(), 8.into()]),
            g.input("b", F, [n, 8.into(), 10.into()]),
        );
        g.bmm(a, b)
    });
    check_sizes("attention", &[1, 31, 65], |g, n| {
        let qkv = ["q", "k", "v"].map(|name| g.input(name, F, [1.into(), 2.into(), n.clone(), 8.into()]));
        g.attention(qkv[0], qkv[1], qkv[2], true)
    });
    check_sizes("heads_of_any_width", &[1, 16, 33], |g, n| {
        let qkv = ["q", "k", "v"].map(|name| g.input(name, F, [1.into(), 2.into(), 7.into(), n.clone()]));
        g.attention(qkv[0], qkv[1], qkv[2], false)
    });
}

#[test]
fn windows_and_joins() {
    check_sizes("conv", &[3, 31, 64], |g, n| {
        let (x, w) = (
            g.input("x", F, [2.into(), 3.into(), n, 9.into()]),
            g.weight("w", F, [4, 3, 3, 3]),
        );
        g.call("conv2d.default", [("input", x.into()), ("weight", w.into())])
            .map(|y| y[0])
    });
    check_sizes("pool", &[1, 31, 64], |g, n| {
        let x = g.input("x", F, [n, 3.into(), 6.into(), 8.into()]);
        let two = || ints(&[2, 2]);
        let args: [(&str, Arg); 3] = [("self", x.into()), ("kernel_size", two()), ("stride", two())];
        g.call("max_pool2d.default", args).map(|y| y[0])
    });
    check_sizes("cat", &SIZES, |g, n| {
        let (a, b) = (
            g.input("a", F, [n.clone(), 5.into()]),
            g.input("b", F, [(n + 3), 5.into()]),
        );
        g.cat(&[a, b], 0)
    });
    check_sizes("pad", &SIZES, |g, n| {
        let x = g.input("x", F, [3.into(), n]);
        g.pad(x, &[2, 1], 1.5)
    });
}
