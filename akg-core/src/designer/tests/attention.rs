//! Attention and the products that networks spell out around it.

use super::classes::in_class;
use super::{F, check, check_all, check_task, design, ints, many_threads, roll, select};
use crate::Result;
use crate::dtype::DType;
use crate::graph::{Arg, Graph, ValueId};
use crate::task::{Accuracy, Task};

/// Attention over these shapes of queries, and of keys and values.
#[track_caller]
fn attention(query: &[i64], key: &[i64], mask: Option<(&[i64], DType)>, flags: &[(&'static str, bool)]) {
    check("attention", |g| {
        let query = g.input("query", F, query.to_vec());
        let (k, v) = (g.input("key", F, key.to_vec()), g.input("value", F, key.to_vec()));
        let mut all: Vec<(&str, Arg)> = vec![("query", query.into()), ("key", k.into()), ("value", v.into())];
        if let Some((shape, dtype)) = mask {
            all.push(("attn_mask", g.input("mask", dtype, shape.to_vec()).into()));
        }
        all.extend(flags.iter().map(|(name, flag)| (*name, (*flag).into())));
        g.call("scaled_dot_product_attention.default", all).map(|y| y[0])
    });
}

#[test]
fn attention_sees_what_it_may() {
    attention(&[2, 3, 10, 8], &[2, 3, 12, 8], None, &[]);
    attention(&[2, 3, 10, 8], &[2, 3, 10, 8], None, &[("is_causal", true)]);
    attention(&[2, 10, 8], &[2, 12, 8], Some((&[10, 12], F)), &[]);
    // With so few keys some rows see none.
    attention(
        &[2, 3, 10, 8],
        &[2, 3, 2, 8],
        Some((&[2, 1, 10, 2], DType::Bool)),
        &[],
    );
    attention(&[2, 6, 10, 8], &[2, 2, 12, 8], None, &[("enable_gqa", true)]);
}

#[test]
fn heads_are_cut_from_one_projection() {
    check("heads", |g| {
        let x = g.input("x", F, [2, 10, 12]);
        let w = g.input("w", F, [36, 12]);
        let y = g.call("linear.default", [("input", x.into()), ("weight", w.into())])?[0];
        let parts = g.split(y, 12, 2)?;
        let mut heads = Vec::new();
        for part in parts {
            let part = g.reshape(part, [2, 10, 3, 4])?;
            heads.push(g.transpose(part, 1, 2)?);
        }
        let keys = g.transpose(heads[1], 2, 3)?;
        let scores = g.matmul(heads[0], keys)?;
        let weights = g.softmax(scores, -1)?;
        let y = g.matmul(weights, heads[2])?;
        let y = g.transpose(y, 1, 2)?;
        g.reshape(y, [2, 10, 12])
    });
}

#[test]
fn sums_of_several_products() {
    check("sums_of_several_products", |g| {
        let (a, b) = (g.input("a", F, [2, 5, 3, 4]), g.input("b", F, [2, 6, 3, 4]));
        let (c, d) = (g.input("c", F, [2, 3, 5, 6]), g.input("d", F, [2, 6, 3, 7]));
        let operands: Vec<_> = [a, b, c, d].into_iter().map(Some).collect();
        let equation = Arg::Str("blhn,bshn,bhls,bshp->blhp".into());
        g.call(
            "einsum.default",
            [("equation", equation), ("tensors", Arg::Values(operands))],
        )
        .map(|y| y[0])
    });
}

#[test]
fn heads_of_windows_of_an_image_are_masked() {
    check("windows", |g| {
        let x = g.input("x", F, [2, 4, 4, 6]);
        let x = roll(g, x, &[-1, -1], &[1, 2])?;
        let w = g.input("w", F, [18, 6]);
        let mask = g.input("mask", F, [1, 4, 1, 4, 4]);
        let x = g.reshape(x, [2, 2, 2, 2, 2, 6])?;
        let x = g.permute(x, &[0, 1, 3, 2, 4, 5])?;
        let x = g.reshape(x, [8, 4, 6])?;
        let y = g.call("linear.default", [("input", x.into()), ("weight", w.into())])?[0];
        let y = g.reshape(y, [8, 4, 3, 2, 3])?;
        let y = g.permute(y, &[2, 0, 3, 1, 4])?;
        let (q, k) = (select(g, y, 0)?, select(g, y, 1)?);
        let squares = g.mul(q, q)?;
        let args: [(&str, Arg); 3] = [
            ("self", squares.into()),
            ("dim", ints(&[-1])),
            ("keepdim", true.into()),
        ];
        let length = g.call("sum.dim_IntList", args)?[0];
        let q = g.div(q, length)?;
        let k = g.transpose(k, -2, -1)?;
        let scores = g.matmul(q, k)?;
        let scores = g.reshape(scores, [2, 4, 2, 4, 4])?;
        let scores = g.add(scores, mask)?;
        let scores = g.reshape(scores, [8, 2, 4, 4])?;
        let weights = g.softmax(scores, -1)?;
        let v = select(g, y, 2)?;
        let y = g.matmul(weights, v)?;
        let y = g.transpose(y, 1, 2)?;
        let y = g.reshape(y, [8, 4, 6])?;
        let p = g.input("p", F, [6, 6]);
        let y = g.call("linear.default", [("input", y.into()), ("weight", p.into())])?[0];
        let y = g.reshape(y, [2, 2, 2, 2, 2, 6])?;
        let y = g.permute(y, &[0, 1, 3, 2, 4, 5])?;
        let y = g.reshape(y, [2, 4, 4, 6])?;
        roll(g, y, &[1, 1], &[1, 2])
    });
}

#[test]
fn heads_are_made_of_length_one() {
    check("lengths", |g| {
        let x = g.input("x", F, [2, 4, 12]);
        let w = g.input("w", F, [36, 12]);
        let y = g.call("linear.default", [("input", x.into()), ("weight", w.into())])?[0];
        let y = g.reshape(y, [2, 4, 3, 3, 4])?;
        let y = g.permute(y, &[2, 0, 3, 1, 4])?;
        let q = select(g, y, 0)?;
        let args: [(&str, Arg); 4] = [
            ("self", q.into()),
            ("ord", 2.0.into()),
            ("dim", ints(&[-1])),
            ("keepdim", true.into()),
        ];
        let length = g.call("linalg_vector_norm.default", args)?[0];
        let args: [(&str, Arg); 2] = [("self", length.into()), ("min", 1e-12.into())];
        let length = g.call("clamp_min.default", args)?[0];
        g.div(q, length)
    });
}

/// The scaled products of queries and keys.
fn scores(g: &mut Graph, q: ValueId, k: ValueId, scale: f64) -> Result<ValueId> {
    let k = g.transpose(k, -2, -1)?;
    let scores = g.matmul(q, k)?;
    g.mul(scores, scale)
}

/// The rules that wrote the kernels of a task's design, and its sketch.
fn rules(task: &Task) -> (Vec<String>, String) {
    let design = design(task, &many_threads()).unwrap();
    let rules = design.kernels.iter().map(|kernel| kernel.rule.clone());
    (rules.collect(), design.sketch.to_string())
}

/// Checks that an attention is one kernel in every class, and right.
#[track_caller]
fn check_fused(name: &str, build: impl Fn(&mut Graph) -> Result<ValueId>) {
    for (accuracy, error) in [
        (Accuracy::Fp32, 1e-5),
        (Accuracy::Tf32, 2e-3),
        (Accuracy::Half, 2e-3),
    ] {
        let mut g = Graph::new(name);
        let y = build(&mut g).unwrap();
        g.output(y);
        let task = in_class(g, accuracy);
        let (rules, text) = rules(&task);
        assert!(rules.iter().any(|rule| rule == "attention"), "{rules:?}\n{text}");
        check_task(&[many_threads()], &task, error);
    }
}

/// Attention by its operator over queries, keys and values of these shapes.
fn operator(
    g: &mut Graph,
    [q, k, v]: [&[i64]; 3],
    mask: Option<(&[i64], DType)>,
    flags: &[(&'static str, bool)],
) -> Result<ValueId> {
    let (q, k) = (g.input("query", F, q.to_vec()), g.input("key", F, k.to_vec()));
    let v = g.input("value", F, v.to_vec());
    let mut all: Vec<(&str, Arg)> = vec![("query", q.into()), ("key", k.into()), ("value", v.into())];
    if let Some((shape, dtype)) = mask {
        all.push(("attn_mask", g.input("mask", dtype, shape.to_vec()).into()));
    }
    all.extend(flags.iter().map(|(name, flag)| (*name, (*flag).into())));
    g.call("scaled_dot_product_attention.default", all).map(|y| y[0])
}

#[test]
fn attention_is_one_kernel() {
    // Neither rows, keys nor heads are multiples of tiles, and there is more than one tile of keys.
    let shapes: [&[i64]; 3] = [&[2, 150, 24], &[2, 200, 24], &[2, 200, 40]];
    check_fused("plain", |g| operator(g, shapes, None, &[]));
    check_fused("added", |g| operator(g, shapes, Some((&[150, 200], F)), &[]));
    check_fused("hidden", |g| {
        operator(g, shapes, Some((&[2, 150, 200], DType::Bool)), &[])
    });
    check_fused("causal", |g| operator(g, shapes, None, &[("is_causal", true)]));
    let whole: [&[i64]; 3] = [&[1, 128, 16]; 3];
    check_fused("whole", |g| operator(g, whole, None, &[("is_causal", true)]));
    let shared: [&[i64]; 3] = [&[1, 4, 70, 16], &[1, 2, 130, 16], &[1, 2, 130, 16]];
    check_fused("shared", |g| operator(g, shared, None, &[("enable_gqa", true)]));
}

/// What an attention results in are no scores of another one.
#[test]
fn attention_before_a_product_of_each_head() {
    check("headed", |g| {
        let shapes: [&[i64]; 3] = [&[3, 12, 16]; 3];
        let y = operator(g, shapes, None, &[])?;
        let other = g.input("other", F, [3, 16, 24]);
        g.matmul(y, other)
    });
}

/// Rows that see nothing attend to nothing.
#[test]
fn attention_in_one_kernel_of_blind_rows() {
    let shapes: [&[i64]; 3] = [&[3, 20, 16], &[3, 2, 16], &[3, 2, 16]];
    check_fused("blind", |g| {
        operator(g, shapes, Some((&[20, 2], DType::Bool)), &[])
    });
}

#[test]
fn tiles_of_keys_beyond_a_diagonal_are_skipped() {
    check_fused("band", |g| {
        let q = g.input("q", F, [2, 130, 16]);
        let (k, v) = (g.input("k", F, [2, 200, 16]), g.input("v", F, [2, 200, 16]));
        let scores = scores(g, q, k, 0.25)?;
        let (rows, columns) = (g.arange(130, DType::I64)?, g.arange(200, DType::I64)?);
        let rows = g.unsqueeze(rows, 1)?;
        let edge = g.add(rows, 7)?;
        let beyond = g.gt(columns, edge)?;
        let seen = g.masked_fill(scores, beyond, f64::NEG_INFINITY)?;
        let weights = g.softmax(seen, -1)?;
        g.matmul(weights, v)
    });
    let causal = |flag| {
        let mut g = Graph::new("causal");
        let shapes: [&[i64]; 3] = [&[2, 256, 16]; 3];
        let y = operator(&mut g, shapes, None, &[("is_causal", flag)]).unwrap();
        g.output(y);
        rules(&Task::new("causal", g)).1
    };
    assert!(
        causal(true).contains("in 0..min(ceildiv(256, BN), "),
        "{}",
        causal(true)
    );
    assert!(causal(false).contains("in 0..256 step"), "{}", causal(false));
}

/// Whatever its scores, a softmax is right after its largest has come late.
#[test]
fn attention_whose_maximum_grows() {
    check_fused("growing", |g| {
        let q = g.input("q", F, [2, 40, 16]);
        let (k, v) = (g.input("k", F, [2, 300, 16]), g.input("v", F, [2, 300, 16]));
        let scores = scores(g, q, k, 0.25)?;
        let slope = g.arange(300, DType::I64)?;
        let slope = g.to_dtype(slope, F)?;
        let slope = g.mul(slope, 0.125)?;
        let scores = g.add(scores, slope)?;
        let weights = g.softmax(scores, -1)?;
        g.matmul(weights, v)
    });
}

/// Weights need not be of a softmax: those of ReLU may be of any size, and have a scale that grows.
#[test]
fn attention_with_weights_made_one_by_one() {
    let operands = |g: &mut Graph| -> Result<[ValueId; 2]> {
        let q = g.input("q", F, [2, 70, 16]);
        let (k, v) = (g.input("k", F, [2, 150, 16]), g.input("v", F, [2, 150, 16]));
        Ok([scores(g, q, k, 0.02)?, v])
    };
    check_fused("relu", |g| {
        let [scores, v] = operands(g)?;
        let growth = g.arange(150, DType::I64)?;
        let growth = g.to_dtype(growth, F)?;
        let scores = g.mul(scores, growth)?;
        let weights = g.relu(scores)?;
        let y = g.matmul(weights, v)?;
        g.mul(y, 0.004)
    });
    check_fused("causal", |g| {
        let [scores, v] = operands(g)?;
        let weights = g.tril(scores, 3)?;
        g.matmul(weights, v)
    });
    // Layers that share their weights out to all rows are no heads.
    check_apart("layers", |g| {
        let x = g.input("x", F, [2, 40, 16]);
        let (a, b) = (g.weight("a", F, [24, 16]), g.weight("b", F, [16, 24]));
        let y = g.linear(x, a, None)?;
        let y = g.relu(y)?;
        Ok(vec![g.linear(y, b, None)?])
    });
}

/// As in minGPT: heads are cut from one projection, and a mask in memory says what they see.
fn block(g: &mut Graph) -> Result<ValueId> {
    let (x, w) = (g.input("x", F, [2, 70, 48]), g.weight("w", F, [144, 48]));
    let (seen, p) = (g.weight("seen", F, [1, 1, 96, 96]), g.weight("p", F, [48, 48]));
    let y = g.linear(x, w, None)?;
    let mut heads = Vec::new();
    for part in g.split(y, 48, 2)? {
        let part = g.reshape(part, [2, 70, 3, 16])?;
        heads.push(g.transpose(part, 1, 2)?);
    }
    let scores = scores(g, heads[0], heads[1], 0.01)?;
    let seen = g.slice(seen, 2, 0, 70, 1)?;
    let seen = g.slice(seen, 3, 0, 70, 1)?;
    let hidden = g.lt(seen, 0.0)?;
    let scores = g.masked_fill(scores, hidden, f64::NEG_INFINITY)?;
    let weights = g.softmax(scores, -1)?;
    let y = g.matmul(weights, heads[2])?;
    let y = g.transpose(y, 1, 2)?;
    let y = g.reshape(y, [2, 70, 48])?;
    let y = g.linear(y, p, None)?;
    g.add(x, y)
}

#[test]
fn scores_are_not_stored() {
    let mut g = Graph::new("block");
    let y = block(&mut g).unwrap();
    g.output(y);
    let task = Task::new("block", g);
    check_task(&[many_threads()], &task, 1e-5);
    let (_, text) = rules(&task);
    let buffers: Vec<&str> = text.lines().filter(|line| line.starts_with("buffer")).collect();
    assert!(
        !buffers.iter().any(|line| line.contains("70, 70]")),
        "{buffers:?}"
    );
}

#[test]
fn attention_in_sixteen_bits() {
    for dtype in [DType::F16, DType::BF16] {
        let mut g = Graph::new("short");
        let [q, k, v] = ["q", "k", "v"].map(|name| g.input(name, dtype, [2, 70, 16]));
        let scores = scores(&mut g, q, k, 0.25).unwrap();
        let weights = g.softmax(scores, -1).unwrap();
        let y = g.matmul(weights, v).unwrap();
        g.output(y);
        let task = in_class(g, Accuracy::Half);
        let (rules, text) = rules(&task);
        assert_eq!(rules, ["attention"], "{text}");
        check_task(&[many_threads()], &task, 1e-2);
    }
}

/// The values may be on the left of the product, whose weights are transposed then.
#[test]
fn attention_to_columns() {
    check_fused("columns", |g| {
        let (q, k) = (g.input("q", F, [2, 70, 16]), g.input("k", F, [2, 90, 16]));
        let v = g.input("v", F, [2, 24, 90]);
        let scores = scores(g, q, k, 0.25)?;
        let weights = g.softmax(scores, -1)?;
        let weights = g.transpose(weights, 1, 2)?;
        g.matmul(v, weights)
    });
}

/// Checks that no kernel is an attention, and that the results are right.
#[track_caller]
fn check_apart(name: &str, build: impl Fn(&mut Graph) -> Result<Vec<ValueId>>) {
    let mut g = Graph::new(name);
    for y in build(&mut g).unwrap() {
        g.output(y);
    }
    let (rules, text) = rules(&Task::new(name, g));
    assert!(!rules.iter().any(|rule| rule == "attention"), "{text}");
    check_all(name, build);
}

#[test]
fn what_only_resembles_attention_is_several_kernels() {
    let weights = |g: &mut Graph| -> Result<[ValueId; 2]> {
        let (q, k) = (g.input("q", F, [2, 40, 16]), g.input("k", F, [2, 50, 16]));
        let v = g.input("v", F, [2, 50, 16]);
        let scores = scores(g, q, k, 0.25)?;
        Ok([g.softmax(scores, -1)?, v])
    };
    check_apart("weights_are_wanted", |g| {
        let [weights, v] = weights(g)?;
        Ok(vec![g.matmul(weights, v)?, weights])
    });
    check_apart("weights_are_masked", |g| {
        let [weights, v] = weights(g)?;
        let mask = g.input("mask", F, [40, 50]);
        let weights = g.mul(weights, mask)?;
        Ok(vec![g.matmul(weights, v)?])
    });
    // The clusters that share an element out are not what is summed over.
    check_apart("clusters", |g| {
        let (x, c) = (g.input("x", F, [2, 50, 16]), g.input("c", F, [2, 16, 24]));
        let scores = g.matmul(x, c)?;
        let shares = g.softmax(scores, -1)?;
        let shares = g.transpose(shares, 1, 2)?;
        Ok(vec![g.matmul(shares, x)?])
    });
}

#[test]
fn heads_too_large_for_a_core_are_several_kernels() {
    for (head, is_one) in [(128, true), (1024, false)] {
        let mut g = Graph::new("heads");
        let shape: &[i64] = &[2, 128, head];
        let y = operator(&mut g, [shape; 3], None, &[]).unwrap();
        g.output(y);
        let (rules, _) = rules(&Task::new("heads", g));
        assert_eq!(rules.iter().any(|rule| rule == "attention"), is_one, "{head}");
    }
}
