//! Graphs as users meet them: built, printed, written, read, bound and pruned.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use akg_core::graph::{Arg, InputKind, ValueId};
use akg_core::reference::{Options, evaluate};
use akg_core::{DType, ErrorKind, Expr, Graph, Result, Tensor};
use proptest::prelude::*;

fn mlp() -> Result<Graph> {
    let mut g = Graph::new("mlp");
    let x = g.input("x", DType::F32, ["N".into(), Expr::constant(64)]);
    let w = g.weight("w", DType::F32, [4, 64]);
    let b = g.weight("b", DType::F32, [4]);
    let y = g.linear(x, w, Some(b))?;
    let y = g.gelu(y)?;
    let y = g.mul(y, 0.5)?;
    g.output(y);
    Ok(g)
}

#[test]
fn prints_one_line_for_each_node() {
    let mut g = mlp().unwrap();
    let mean = g.state("mean", DType::F32, [4]);
    let y = g.outputs()[0].value;
    let new = g.mean(y, &[0], false).unwrap();
    g.update(mean, new).unwrap();
    insta::assert_snapshot!(g, @r"
    graph mlp
      input x: f32[N, 64]
      weight w: f32[4, 64]
      weight b: f32[4]
      state mean: f32[4]
      linear: f32[N, 4] = linear.default(input=x, weight=w, bias=b)
      gelu: f32[N, 4] = gelu.default(self=linear)
      mul: f32[N, 4] = mul.Scalar(self=gelu, other=0.5)
      mean_1: f32[4] = mean.dim(self=mul, dim=[0])
      return mul, mean_1 -> mean
    ");
}

#[test]
fn call_checks_arguments_against_the_schema() {
    let mut g = Graph::new("g");
    let x = g.input("x", DType::F32, [2, 3]);
    let mut message = |op: &str, args: &[(&str, Arg)]| g.call(op, args.to_vec()).unwrap_err().to_string();
    let mut check = |op: &str, args: &[(&str, Arg)], parts: &[&str]| {
        let message = message(op, args);
        for part in parts {
            assert!(message.contains(part), "`{message}` lacks `{part}`");
        }
    };
    check(
        "aten.softmx.int",
        &[],
        &["aten.softmx.int", "did you mean `softmax.int`"],
    );
    check(
        "softmax.int",
        &[("self", x.into())],
        &["softmax.int", "`dim`", "an integer"],
    );
    check(
        "softmax.int",
        &[("self", x.into()), ("dims", 1.into())],
        &["softmax.int", "`dims`", "did you mean `dim`"],
    );
    check(
        "softmax.int",
        &[("self", x.into()), ("dim", 1.5.into())],
        &["softmax.int", "`dim`", "an integer", "1.5"],
    );
    check(
        "softmax.int",
        &[("self", x.into()), ("dim", 2.into())],
        &["softmax.int", "dimension 2", "self=x: f32[2, 3]"],
    );
    check(
        "relu.default",
        &[("self", x.into()), ("self", x.into())],
        &["twice"],
    );
}

#[test]
fn values_of_other_graphs_are_refused() {
    let mut other = Graph::new("other");
    let foreign: Vec<ValueId> = (0..9).map(|_| other.input("x", DType::F32, [1])).collect();
    let mut g = Graph::new("g");
    let x = g.input("x", DType::F32, [1]);
    assert!(g.add(x, foreign[8]).is_err());
    assert!(g.update(foreign[8], x).is_err() && g.update(x, foreign[8]).is_err());
    assert!(g.rename(foreign[8], "y").is_err());
    assert!(g.value(foreign[8]).is_none() && g.producer(foreign[8]).is_none());
    g.output(foreign[8]);
    assert!(g.validate().is_err() && g.to_json().is_err() && g.bind(&Default::default()).is_err());
    assert_eq!(g.prune().outputs().len(), 1);
    assert!(g.to_string().contains("return ?"));
}

#[test]
fn updates_need_a_state_of_the_same_type() {
    let mut g = Graph::new("g");
    let x = g.input("x", DType::F32, [4]);
    let s = g.state("s", DType::F32, [4]);
    let wide = g.to_dtype(x, DType::F64).unwrap();
    assert!(g.update(x, s).is_err() && g.update(s, wide).is_err());
    assert!(g.outputs().is_empty());
    g.update(s, x).unwrap();
    assert!(g.update(s, x).unwrap_err().to_string().contains("twice"));
    g.validate().unwrap();
    assert!(Graph::new("empty").validate().is_err());
}

#[test]
fn binding_makes_a_graph_concrete() {
    let g = mlp().unwrap();
    assert_eq!(
        g.symbols().iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["N"]
    );
    let bound = g.bind(&[("N".into(), 16)].into()).unwrap();
    assert!(bound.symbols().is_empty());
    assert_eq!(bound.ty(bound.outputs()[0].value).to_string(), "f32[16, 4]");
    assert!(g.bind(&[("N".into(), -1)].into()).is_err());
}

#[test]
fn other_input_shapes_reach_every_node() {
    let mut g = Graph::new("g");
    let x = g.input("x", DType::F32, [8, 6]);
    let half = g.reshape(x, [-1, 3]).unwrap();
    let flat = g.reshape(half, [48]).unwrap();
    g.output(flat);
    assert!(g.with_input_shapes(&[vec![16.into(), 3.into()]]).is_ok());
    let error = g
        .with_input_shapes(&[vec![16.into(), 6.into()]])
        .unwrap_err()
        .to_string();
    for part in ["node: reshape_1", "[48]", "f32[32, 3]"] {
        assert!(error.contains(part), "{error}");
    }
    assert!(g.with_input_shapes(&[]).is_err());
}

#[test]
fn pruning_drops_what_no_output_needs() {
    let mut g = mlp().unwrap();
    let x = g.inputs()[0].value;
    let used = g.constant("used", Tensor::from_slice([1], &[2.0f32]).unwrap());
    let unused = g.constant("unused", Tensor::from_slice([1], &[2.0f32]).unwrap());
    let dead = g.add(x, unused).unwrap();
    g.exp(dead).unwrap();
    let live = g.add(x, used).unwrap();
    g.output(live);
    let pruned = g.prune();
    assert_eq!((pruned.nodes().len(), g.nodes().len()), (4, 6));
    assert_eq!((pruned.constants().len(), pruned.inputs().len()), (1, 3));
    assert!(pruned.find("unused").is_none() && pruned.find("exp").is_none());
    let names = |g: &Graph| -> Vec<String> {
        g.outputs()
            .iter()
            .map(|o| g.value_name(o.value).to_owned())
            .collect()
    };
    assert_eq!(names(&pruned), names(&g));
    assert_eq!(
        Graph::from_json(&pruned.to_json().unwrap()).unwrap().to_string(),
        pruned.to_string()
    );
}

#[test]
fn a_subgraph_computes_its_part() {
    let mut g = Graph::new("g");
    let x = g.input("x", DType::F32, [3, 4]);
    let w = g.weight("w", DType::F32, [4, 4]);
    let two = g.constant("two", Tensor::from_slice([1], &[2.0f32]).unwrap());
    let h = g.linear(x, w, None).unwrap();
    let h = g.mul(h, two).unwrap();
    let y = g.linear(h, w, None).unwrap();
    let y = g.mul(y, two).unwrap();
    g.output(y);
    let ramp = |n: usize| (0..n).map(|i| i as f32 - 3.0).collect::<Vec<_>>();
    let (xs, ws) = (
        Tensor::from_slice([3, 4], &ramp(12)).unwrap(),
        Tensor::from_slice([4, 4], &ramp(16)).unwrap(),
    );
    let run = |graph: &Graph, inputs: &[Tensor]| {
        graph.validate().unwrap();
        let outcome = evaluate(graph, inputs, &Options::default()).unwrap();
        let values: Vec<f32> = outcome[0].to_f64().iter().map(|v| *v as f32).collect();
        Tensor::from_slice([3, 4], &values).unwrap()
    };
    let (first, second) = (
        g.subgraph(&[x, w], &[h]).unwrap(),
        g.subgraph(&[h, w], &[y]).unwrap(),
    );
    assert_eq!(second.nodes().len(), 2);
    assert_eq!(second.inputs()[1].kind, InputKind::Weight);
    let middle = run(&first, &[xs.clone(), ws.clone()]);
    let whole = run(&g, &[xs, ws.clone()]);
    assert_eq!(run(&second, &[middle, ws]).bytes(), whole.bytes());
    let error = g.subgraph(&[h], &[y]).unwrap_err();
    assert!(error.message().contains("`w`"), "{error}");
}

#[test]
fn symbolic_shapes_are_carried_through() {
    let mut g = Graph::new("g");
    let x = g.input(
        "x",
        DType::F32,
        ["N".into(), Expr::constant(3), "H".into(), "W".into()],
    );
    let w = g.weight("w", DType::F32, [8, 3, 3, 3]);
    let shape = |g: &Graph, v: ValueId| g.ty(v).to_string();
    let window = akg_core::graph::Conv {
        stride: vec![2],
        padding: vec![1],
        ..Default::default()
    };
    let y = g.conv(x, w, None, &window).unwrap();
    assert_eq!(shape(&g, y), "f32[N, 8, (H - 1) // (2) + 1, (W - 1) // (2) + 1]");
    let flat = g.flatten(y, 2, 3).unwrap();
    let back = g.transpose(flat, 1, 2).unwrap();
    let sizes = g.ty(y).shape.clone();
    let again = g.transpose(back, 1, 2).unwrap();
    let again = g.reshape(again, &sizes).unwrap();
    assert_eq!(g.ty(again), g.ty(y));
    let head = g.slice(x, 0, 0, i64::MAX, 1).unwrap();
    let tail = g.slice(x, 0, -1, i64::MAX, 1).unwrap();
    let both = g.cat(&[head, tail], 0).unwrap();
    assert_eq!(shape(&g, head), shape(&g, x));
    assert!(g.ty(both).shape[0].eval(&[("N".into(), 5)].into()).unwrap() == 6);
    let clash = g.input(
        "z",
        DType::F32,
        ["M".into(), Expr::constant(3), "H".into(), "W".into()],
    );
    let error = g.add(x, clash).unwrap_err().to_string();
    assert!(
        error.contains("N against M") || error.contains("M against N"),
        "{error}"
    );
}

const GEMM: &str = r#"{"akg_graph": 1, "name": "gemm",
 "inputs": [{"name": "x", "dtype": "f32", "shape": [16, "2*N"]}, {"name": "w", "dtype": "f32", "shape": [4, "N + N"], "kind": "weight"},
            {"name": "s", "dtype": "f32", "shape": [2], "kind": "state"}],
 "constants": [{"name": "c", "dtype": "f32", "shape": [2], "data": "AAAAAAAAgD8="}],
 "nodes": [{"op": "aten.linear.default", "args": {"input": "x", "weight": "w", "bias": null}, "outputs": ["y"], "types": [{"dtype": "f32", "shape": [16, 4]}]},
           {"op": "aten.masked_fill.Scalar", "args": {"self": "y", "mask": "m", "value": "-inf"}, "outputs": ["z"]},
           {"op": "aten.sum.dim_IntList", "args": {"self": "z", "dim": -1, "dtype": "f64"}, "outputs": ["t"]}],
 "outputs": [{"value": "t"}, {"value": "c", "updates": "s"}]}"#;

fn gemm() -> String {
    GEMM.replace(
        r#""constants": ["#,
        r#""constants": [{"name": "m", "dtype": "bool", "shape": [4], "data": "AAEAAQ=="},"#,
    )
}

#[test]
fn reads_json() {
    let g = Graph::from_json(&gemm()).unwrap();
    assert_eq!(g.inputs()[2].kind, InputKind::State);
    assert_eq!(g.constants()[1].tensor.as_slice::<f32>().unwrap(), [0.0, 1.0]);
    assert_eq!(g.nodes()[1].args[2], Arg::Float(f64::NEG_INFINITY));
    assert_eq!(g.ty(g.find("t").unwrap()).to_string(), "f64[16]");
    assert_eq!(g.outputs()[1].updates, g.find("s"));
}

#[test]
fn json_errors_name_the_node() {
    let kind_and_message = |text: &str| {
        let error = Graph::from_json(text).unwrap_err();
        (error.kind(), error.to_string())
    };
    let cases = [
        (
            r#""shape": [16, 4]}]"#,
            r#""shape": [16, 5]}]"#,
            &["node: y", "f32[16, 5]", "f32[16, 4]"][..],
        ),
        (r#""mask": "m""#, r#""mask": "q""#, &["node: z", "`q`"]),
        (
            r#""dim": -1"#,
            r#""dim": 2"#,
            &["node: t", "dimension 2", "self=z: f32[16, 4]"],
        ),
        (r#""dim": -1"#, r#""dim": "-""#, &["node: t", "argument: dim"]),
        (
            r#""dim": -1"#,
            r#""dims": -1"#,
            &["node: t", "did you mean `dim`"],
        ),
        (
            r#""dtype": "f64""#,
            r#""dtype": "float""#,
            &["node: t", "`float`"],
        ),
        (r#"["t"]"#, r#"["y"]"#, &["node: y", "twice"]),
        (
            r#"["t"]"#,
            r#"["t", "u"]"#,
            &["node: t", "1 results", "2 outputs"],
        ),
        (r#""AAAAAAAAgD8=""#, r#""AAAAAAA=""#, &["constant: c", "8 bytes"]),
        (r#""AAAAAAAAgD8=""#, r#""?""#, &["`c`", "base64"]),
        (r#"{"value": "t"}"#, r#"{"value": "q"}"#, &["`q`"]),
        (r#""updates": "s""#, r#""updates": "x""#, &["`x`", "state"]),
        (r#""inputs""#, r#""input""#, &["JSON"]),
    ];
    for (from, to, parts) in cases {
        let text = gemm().replacen(from, to, 1);
        let (kind, message) = kind_and_message(&text);
        assert_eq!(kind, ErrorKind::InvalidInput, "{message}");
        for part in parts {
            assert!(message.contains(part), "`{message}` lacks `{part}`");
        }
    }
    let (kind, message) = kind_and_message(&gemm().replace("\"akg_graph\": 1", "\"akg_graph\": 2"));
    assert!(
        kind == ErrorKind::Unsupported && message.contains("version 2"),
        "{message}"
    );
    let two = gemm()
        .replace("aten.linear", "aten.foo")
        .replace("aten.sum", "aten.foo");
    let (kind, message) = kind_and_message(&two);
    assert_eq!(kind, ErrorKind::Unsupported);
    assert!(
        message.contains("aten.foo.default (1 call), aten.foo.dim_IntList (1 call)"),
        "{message}"
    );
}

/// One random step of building a graph, applied to a random earlier value. Steps that do not type are left out.
fn step(g: &mut Graph, op: usize, a: ValueId, b: ValueId, n: i64) -> Result<ValueId> {
    match op {
        0 => g.add(a, b),
        1 => g.mul(a, n),
        2 => g.div(a, f64::from(n as i32) / 3.0),
        3 => g.sum(a, &[n.rem_euclid(2)], n > 0),
        4 => g.matmul(a, b),
        5 => g.transpose(a, 0, -1),
        6 => g.cat(&[a, b], n.rem_euclid(2)),
        7 => g.gt(a, b),
        8 => g.slice(a, 0, n, i64::MAX, 2),
        9 => g.to_dtype(a, DType::ALL[n.rem_euclid(10) as usize]),
        10 => g.clamp(
            a,
            None,
            Some([f64::INFINITY, 0.1, -0.0][n.rem_euclid(3) as usize]),
        ),
        11 => Ok(g.max_dim(a, n.rem_euclid(2), false)?.1),
        12 => g.full([Expr::symbol("N"), n.abs().into()], f64::NAN, DType::BF16),
        13 => Ok(g.split(a, 2, -1)?[0]),
        _ => Ok(g.constant("c", Tensor::from_slice([1, 3], &[n, 2, 3])?)),
    }
}

proptest! {
    #[test]
    fn json_round_trips(steps in prop::collection::vec((0..15usize, 0..99usize, 0..99usize, -4i64..5), 1..30)) {
        let mut g = Graph::new("random \"quoted\"");
        let mut values = vec![
            g.input("x", DType::F32, ["N".into(), Expr::constant(4)]),
            g.weight("w", DType::F16, [4, 4]),
            g.input("i", DType::I64, [3]),
        ];
        let state = g.state("s", DType::F32, ["N".into(), Expr::constant(4)]);
        for (op, a, b, n) in steps {
            let (a, b) = (values[a % values.len()], values[b % values.len()]);
            values.extend(step(&mut g, op, a, b, n));
        }
        g.update(state, values[0]).unwrap();
        for value in values {
            g.output(value);
        }
        let json = g.to_json().unwrap();
        let read = Graph::from_json(&json).unwrap();
        prop_assert_eq!(read.to_string(), g.to_string());
        prop_assert_eq!(read.to_json().unwrap(), json);
        for (a, b) in g.constants().iter().zip(read.constants()) {
            prop_assert_eq!(a.tensor.bytes(), b.tensor.bytes());
        }
        // Inference on symbols and then numbers agrees with inference on numbers.
        if let Ok(bound) = g.bind(&[("N".into(), 7)].into()) {
            for (symbolic, concrete) in g.values().iter().zip(bound.values()) {
                let shape: Vec<_> = symbolic.ty.shape.iter().map(|d| d.bind(&[("N".into(), 7)].into())).collect();
                prop_assert_eq!(&shape, &concrete.ty.shape, "{}", symbolic.name);
            }
        }
    }
}

/// A layer as one of several that may be alike.
fn layer(g: &mut Graph, x: ValueId, name: &str, columns: i64) -> ValueId {
    let weight = g.weight(&format!("{name}_weight"), DType::F32, [columns, 8]);
    let y = g.linear(x, weight, None).unwrap();
    g.relu(y).unwrap()
}

#[test]
fn layers_of_one_structure_differ_in_names_alone() {
    let mut g = Graph::new("layers");
    let x = g.input("x", DType::F32, [4, 8]);
    let first = layer(&mut g, x, "first", 8);
    let second = layer(&mut g, first, "second", 8);
    let wider = layer(&mut g, second, "wider", 9);
    g.output(wider);
    let part = |from: ValueId, name: &str, to: ValueId| {
        let weight = g.find(&format!("{name}_weight")).unwrap();
        g.subgraph(&[from, weight], &[to]).unwrap().structure()
    };
    assert_eq!(part(x, "first", first), part(first, "second", second));
    assert_ne!(part(first, "second", second), part(second, "wider", wider));
    let swapped = g
        .subgraph(&[g.find("first_weight").unwrap(), x], &[first])
        .unwrap();
    assert_ne!(
        part(x, "first", first),
        swapped.structure(),
        "the order of inputs counts"
    );
}

/// Each layer joins what all before it made: from many tensors on a join begins with the one before it, and no value changes.
#[test]
fn joins_that_grow_begin_with_each_other() {
    let mut g = Graph::new("grown");
    let x = g.input("x", DType::F32, [2, 3]);
    let (mut all, mut joined) = (vec![x], x);
    for _ in 0..8 {
        let sum = g.sum(joined, &[1], true).unwrap();
        let new = g.tanh(sum).unwrap();
        all.push(new);
        joined = g.cat(&all, 1).unwrap();
    }
    g.output(joined);
    let grown = g.with_growing_joins();
    grown.validate().unwrap();
    let parts = |g: &Graph| -> Vec<usize> {
        let joins = g.nodes().iter().filter(|n| n.op.name() == "cat.default");
        joins.map(|n| n.inputs().count()).collect()
    };
    assert_eq!(parts(&g), [2, 3, 4, 5, 6, 7, 8, 9]);
    assert_eq!(parts(&grown), [2, 3, 4, 5, 6, 2, 2, 2]);
    let x = Tensor::from_slice(vec![2, 3], &[0.5f32, -1.0, 2.0, 0.25, 3.0, -0.125]).unwrap();
    let of = |g: &Graph| evaluate(g, std::slice::from_ref(&x), &Options::default()).unwrap()[0].to_f64();
    assert_eq!(of(&g), of(&grown));
}
