//! The reference interpreter against PyTorch: golden files made by `make_reference_golden.py`.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::path::Path;

use akg_core::expr::Bindings;
use akg_core::graph::Operator;
use akg_core::reference::{Evaluation, Options, Outcome, Precision, Rounding, RowPlan, evaluate};
use akg_core::{DType, ErrorKind, Graph, Tensor};
use serde_json::Value;

/// A tensor as the golden files have it.
struct Golden {
    dtype: DType,
    shape: Vec<usize>,
    data: Vec<f64>,
    ints: Vec<i64>,
}

impl Golden {
    fn read(value: &Value) -> Self {
        let data = value["data"].as_array().unwrap();
        let number = |v: &Value| match v {
            Value::Bool(b) => f64::from(u8::from(*b)),
            Value::String(s) => s.parse().unwrap(),
            v => v.as_f64().unwrap(),
        };
        Self {
            dtype: value["dtype"].as_str().unwrap().parse().unwrap(),
            shape: value["shape"]
                .as_array()
                .unwrap()
                .iter()
                .map(|d| d.as_u64().unwrap() as usize)
                .collect(),
            data: data.iter().map(number).collect(),
            ints: data.iter().map(|v| v.as_i64().unwrap_or_default()).collect(),
        }
    }

    fn tensor(&self) -> Tensor {
        macro_rules! floats {
            ($f:expr) => {
                Tensor::from_slice(
                    self.shape.clone(),
                    &self.data.iter().map(|v| $f(*v)).collect::<Vec<_>>(),
                )
            };
        }
        macro_rules! ints {
            ($ty:ty) => {
                Tensor::from_slice(
                    self.shape.clone(),
                    &self.ints.iter().map(|v| *v as $ty).collect::<Vec<_>>(),
                )
            };
        }
        match self.dtype {
            DType::Bool => Tensor::from_bools(
                self.shape.clone(),
                &self.data.iter().map(|v| *v != 0.0).collect::<Vec<_>>(),
            ),
            DType::U8 => ints!(u8),
            DType::I8 => ints!(i8),
            DType::I16 => ints!(i16),
            DType::I32 => ints!(i32),
            DType::I64 => ints!(i64),
            DType::F16 => floats!(half::f16::from_f64),
            DType::BF16 => floats!(half::bf16::from_f64),
            DType::F32 => floats!(|v| v as f32),
            DType::F64 => floats!(|v| v),
            other => panic!("no golden file has {other} tensors"),
        }
        .unwrap()
    }
}

/// What of `outcome` differs from `golden`, allowing floating elements `relative` of themselves and of the largest.
fn difference(outcome: &Outcome, golden: &Golden, relative: f64) -> Option<String> {
    if outcome.dtype != golden.dtype || outcome.shape != golden.shape {
        let (dtype, shape) = (outcome.dtype, &outcome.shape);
        return Some(format!(
            "{dtype}{shape:?} instead of {}{:?}",
            golden.dtype, golden.shape
        ));
    }
    let finite = golden.data.iter().filter(|v| v.is_finite()).map(|v| v.abs());
    // Rounding a value of ordinary size to zero is no error; rounding a tiny one of a tiny tensor is.
    let largest = finite.filter(|v| *v < 1e6).fold(0.0, f64::max).min(1.0);
    let same = |have: f64, want: f64| {
        have == want
            || (have.is_nan() && want.is_nan())
            || (golden.dtype.is_float() && (have - want).abs() <= relative * (want.abs() + largest))
    };
    let have = outcome.to_f64();
    let wrong = have
        .iter()
        .zip(&golden.data)
        .position(|(have, want)| !same(*have, *want))?;
    Some(format!(
        "element {wrong} is {} instead of {}",
        have[wrong], golden.data[wrong]
    ))
}

fn cases(family: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data/reference")
        .join(format!("{family}.json"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

const FAMILIES: [&str; 19] = [
    "attention",
    "binary",
    "conv",
    "conversion",
    "create",
    "index",
    "join",
    "loss",
    "matmul",
    "norm",
    "pool",
    "rearrange",
    "reduce",
    "rnn",
    "scan",
    "selection",
    "softmax",
    "unary",
    "views",
];

fn check(precision: Precision, relative: f64, applies: impl Fn(&[Golden], &[Golden]) -> bool) {
    let options = Options {
        precision,
        ..Options::default()
    };
    let mut failures = Vec::new();
    for family in FAMILIES {
        for case in cases(family) {
            let graph =
                Graph::from_json(&case["graph"].to_string()).unwrap_or_else(|e| panic!("{e:?}\n{case}"));
            let golden = |key: &str| {
                case[key]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(Golden::read)
                    .collect::<Vec<_>>()
            };
            let (inputs, wanted) = (golden("inputs"), golden("outputs"));
            if !applies(&inputs, &wanted) {
                continue;
            }
            let inputs: Vec<Tensor> = inputs.iter().map(Golden::tensor).collect();
            let wrong = match evaluate(&graph, &inputs, &options) {
                Err(error) => Some(error.to_string()),
                Ok(outcomes) => {
                    assert_eq!(outcomes.len(), wanted.len());
                    outcomes
                        .iter()
                        .zip(&wanted)
                        .find_map(|(have, want)| difference(have, want, relative))
                }
            };
            if let Some(wrong) = wrong {
                failures.push(format!("{wrong}: {}", case["graph"]["nodes"]));
            }
        }
    }
    assert!(
        failures.is_empty(),
        "{} cases fail:\n{}",
        failures.len(),
        failures.join("\n")
    );
}

/// The outcomes of all rows of a plan, `step` at a time, next to each other.
fn by_rows(plan: &RowPlan, graph: &Graph, inputs: &[Tensor], step: usize) -> Vec<Vec<f64>> {
    let mut all = vec![Vec::new(); graph.outputs().len()];
    let evaluation = Evaluation::new(graph, inputs, Some(plan), Options::default()).unwrap();
    for start in (0..plan.rows()).step_by(step) {
        let rows = start..(start + step).min(plan.rows());
        let outcomes = evaluation.rows(rows).unwrap();
        for (all, outcome) in all.iter_mut().zip(outcomes) {
            all.extend(outcome.to_f64());
        }
    }
    all
}

fn assert_rows_agree(graph: &Graph, inputs: &[Tensor], plan: &RowPlan) {
    let whole = evaluate(graph, inputs, &Options::default()).unwrap();
    for step in [1, 2] {
        for (rows, whole) in by_rows(plan, graph, inputs, step).iter().zip(&whole) {
            let whole = whole.to_f64();
            let same = |a: &f64, b: &f64| {
                a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= 1e-13 * (1.0 + b.abs())
            };
            assert!(
                rows.len() == whole.len() && rows.iter().zip(&whole).all(|(a, b)| same(a, b)),
                "{graph}"
            );
        }
    }
}

#[test]
fn rows_of_single_operators_make_up_the_whole() {
    let mut split = BTreeSet::new();
    for family in FAMILIES {
        for case in cases(family) {
            let graph = Graph::from_json(&case["graph"].to_string()).unwrap();
            let inputs: Vec<_> = case["inputs"]
                .as_array()
                .unwrap()
                .iter()
                .map(|v| Golden::read(v).tensor())
                .collect();
            if let Some(plan) = RowPlan::new(&graph, &Bindings::new()).unwrap() {
                assert_rows_agree(&graph, &inputs, &plan);
                split.insert(graph.nodes()[0].op.name().to_owned());
            }
        }
    }
    for name in [
        "add.Tensor",
        "mm.default",
        "bmm.default",
        "matmul.default",
        "linear.default",
        "addmm.default",
        "einsum.default",
        "sum.dim_IntList",
        "mean.dim",
        "max.dim",
        "logsumexp.default",
        "softmax.int",
        "cumsum.default",
        "layer_norm.default",
        "group_norm.default",
        "instance_norm.default",
        "conv2d.default",
        "conv_transpose2d.input",
        "max_pool2d.default",
        "adaptive_avg_pool2d.default",
        "view.default",
        "permute.default",
        "transpose.int",
        "cat.default",
        "split.Tensor",
        "scaled_dot_product_attention.default",
        "embedding.default",
        "index_copy.default",
        "where.self",
        "to.dtype",
        "tril.default",
        "pad.default",
    ] {
        assert!(split.contains(name), "{name} has no case that splits into rows");
    }
}

/// A graph over f32 inputs, with numbers for them.
fn graph(inputs: &[(&str, &[usize])], nodes: &str, output: &str) -> (Graph, Vec<Tensor>) {
    let described: Vec<_> = inputs
        .iter()
        .map(|(name, shape)| serde_json::json!({"name": name, "dtype": "f32", "shape": shape}))
        .collect();
    let nodes: Value = serde_json::from_str(nodes).unwrap();
    let json = serde_json::json!({
        "akg_graph": 1, "name": "test", "inputs": described, "nodes": nodes, "outputs": [{"value": output}]
    });
    let tensor = |shape: &[usize]| {
        let values: Vec<f32> = (0..shape.iter().product())
            .map(|i: usize| (i * 37 % 23) as f32 / 8.0 - 1.0)
            .collect();
        Tensor::from_slice(shape, &values).unwrap()
    };
    let tensors = inputs.iter().map(|(_, shape)| tensor(shape)).collect();
    (Graph::from_json(&json.to_string()).unwrap(), tensors)
}

#[test]
fn replaced_slices_may_be_counted_from_the_end() {
    let mut graph = Graph::new("test");
    let x = graph.input("x", DType::F32, [2, 3]);
    let (index, source) = (
        graph.input("index", DType::I32, [3]),
        graph.input("source", DType::F32, [2, 3]),
    );
    let y = graph.index_copy(x, 1, index, source).unwrap();
    graph.output(y);
    let of = |places: [i32; 3]| {
        let inputs = [
            Tensor::from_slice([2, 3], &[0.0f32, 1.0, 2.0, 3.0, 4.0, 5.0]).unwrap(),
            Tensor::from_slice([3], &places).unwrap(),
            Tensor::from_slice([2, 3], &[10.0f32, 11.0, 12.0, 13.0, 14.0, 15.0]).unwrap(),
        ];
        evaluate(&graph, &inputs, &Options::default()).map(|outputs| outputs[0].to_f64())
    };
    // The last one to a place stays.
    assert_eq!(of([2, -3, -1]).unwrap(), [11.0, 1.0, 12.0, 14.0, 4.0, 15.0]);
    for outside in [3, -4] {
        assert!(of([0, outside, 1]).is_err());
    }
}

#[test]
fn rows_pass_through_merged_and_moved_axes() {
    let (attention, inputs) = graph(
        &[("x", &[4, 3, 8]), ("w", &[8, 8])],
        r#"[{"op": "aten.view.default", "args": {"self": "x", "size": [12, 8]}, "outputs": ["flat"]},
            {"op": "aten.mm.default", "args": {"self": "flat", "mat2": "w"}, "outputs": ["p"]},
            {"op": "aten.view.default", "args": {"self": "p", "size": [4, 3, 2, 4]}, "outputs": ["heads"]},
            {"op": "aten.permute.default", "args": {"self": "heads", "dims": [2, 0, 1, 3]}, "outputs": ["q"]},
            {"op": "aten.scaled_dot_product_attention.default", "args": {"query": "q", "key": "q", "value": "q"}, "outputs": ["a"]},
            {"op": "aten.permute.default", "args": {"self": "a", "dims": [1, 2, 0, 3]}, "outputs": ["back"]},
            {"op": "aten.reshape.default", "args": {"self": "back", "shape": [12, 8]}, "outputs": ["y"]}]"#,
        "y",
    );
    let plan = RowPlan::new(&attention, &Bindings::new()).unwrap().unwrap();
    assert_eq!(
        (plan.rows(), plan.input_axis(0), plan.input_axis(1)),
        (4, Some(0), None)
    );
    assert_rows_agree(&attention, &inputs, &plan);

    let (lstm, inputs) = graph(
        &[
            ("x", &[3, 4, 2]),
            ("h", &[1, 3, 5]),
            ("c", &[1, 3, 5]),
            ("w", &[20, 2]),
            ("u", &[20, 5]),
        ],
        r#"[{"op": "aten.lstm.input", "args": {"input": "x", "hx": ["h", "c"], "params": ["w", "u"], "has_biases": false,
             "num_layers": 1, "dropout": 0.0, "train": false, "bidirectional": false, "batch_first": true},
             "outputs": ["y", "last_h", "last_c"]}]"#,
        "y",
    );
    let plan = RowPlan::new(&lstm, &Bindings::new()).unwrap().unwrap();
    let axes: Vec<_> = (0..5).map(|input| plan.input_axis(input)).collect();
    assert_eq!(
        (plan.rows(), axes),
        (3, vec![Some(0), Some(1), Some(1), None, None])
    );
    assert_rows_agree(&lstm, &inputs, &plan);

    let (transposed, inputs) = graph(
        &[("a", &[5, 6]), ("b", &[5, 2])],
        r#"[{"op": "aten.t.default", "args": {"self": "a"}, "outputs": ["at"]},
            {"op": "aten.matmul.default", "args": {"self": "at", "other": "b"}, "outputs": ["y"]}]"#,
        "y",
    );
    let plan = RowPlan::new(&transposed, &Bindings::new()).unwrap().unwrap();
    assert_eq!(
        (plan.rows(), plan.input_axis(0), plan.input_axis(1)),
        (6, Some(1), None)
    );
    assert_rows_agree(&transposed, &inputs, &plan);
}

#[test]
fn dependent_rows_do_not_split() {
    let nodes = [
        r#"[{"op": "aten.mm.default", "args": {"self": "x", "mat2": "x"}, "outputs": ["y"]}]"#,
        r#"[{"op": "aten.softmax.int", "args": {"self": "x", "dim": 0}, "outputs": ["y"]}]"#,
        r#"[{"op": "aten.t.default", "args": {"self": "x"}, "outputs": ["xt"]},
            {"op": "aten.add.Tensor", "args": {"self": "x", "other": "xt"}, "outputs": ["y"]}]"#,
        r#"[{"op": "aten.flip.default", "args": {"self": "x", "dims": [0]}, "outputs": ["y"]}]"#,
        r#"[{"op": "aten.linear.default", "args": {"input": "x", "weight": "x"}, "outputs": ["y"]}]"#,
    ];
    for nodes in nodes {
        let (graph, _) = graph(&[("x", &[4, 4])], nodes, "y");
        assert!(
            RowPlan::new(&graph, &Bindings::new()).unwrap().is_none(),
            "{graph}"
        );
    }
}

#[test]
fn shared_and_in_place_values_stay_apart() {
    // `y` is computed in the memory of nothing: `x` and `a` are read again.
    let (graph, inputs) = graph(
        &[("x", &[3])],
        r#"[{"op": "aten.neg.default", "args": {"self": "x"}, "outputs": ["a"]},
            {"op": "aten.exp.default", "args": {"self": "a"}, "outputs": ["b"]},
            {"op": "aten.add.Tensor", "args": {"self": "a", "other": "a"}, "outputs": ["c"]},
            {"op": "aten.add.Tensor", "args": {"self": "b", "other": "c"}, "outputs": ["d"]},
            {"op": "aten.add.Tensor", "args": {"self": "d", "other": "x"}, "outputs": ["y"]}]"#,
        "y",
    );
    let want: Vec<f64> = inputs[0]
        .to_f64()
        .unwrap()
        .iter()
        .map(|x| (-x).exp() - 2.0 * x + x)
        .collect();
    assert_eq!(
        evaluate(&graph, &inputs, &Options::default()).unwrap()[0].to_f64(),
        want
    );
}

#[test]
fn inputs_are_rounded_on_request() {
    let (graph, _) = graph(
        &[("x", &[4])],
        r#"[{"op": "aten.alias.default", "args": {"self": "x"}, "outputs": ["y"]}]"#,
        "y",
    );
    let x = Tensor::from_slice(
        [4],
        &[
            1.0f32 + 2f32.powi(-11),
            1.0 + 3.0 * 2f32.powi(-11),
            70000.0,
            f32::NAN,
        ],
    )
    .unwrap();
    let rounded = |rounding| {
        let options = Options {
            round_inputs: Some(rounding),
            ..Options::default()
        };
        evaluate(&graph, std::slice::from_ref(&x), &options).unwrap()[0].to_f64()
    };
    let (even, up) = (1.0, 1.0 + 2f64.powi(-9));
    assert_eq!(rounded(Rounding::TF32)[..3], [even, up, 70016.0]);
    assert_eq!(rounded(Rounding::F16)[..3], [even, up, f64::INFINITY]);
    assert_eq!(rounded(Rounding::BF16)[..3], [1.0, 1.0, 70144.0]);
    assert!(rounded(Rounding::TF32)[3].is_nan());
}

#[test]
fn symbols_take_their_value_from_the_inputs() {
    let graph = Graph::from_json(
        r#"{"akg_graph": 1, "name": "flat", "inputs": [{"name": "x", "dtype": "f32", "shape": ["N", "M"]}],
            "nodes": [{"op": "aten.view.default", "args": {"self": "x", "size": ["N*M"]}, "outputs": ["y"]}],
            "outputs": [{"value": "y"}]}"#,
    )
    .unwrap();
    let x = Tensor::from_slice([2, 3], &[0.0f32, 1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
    let outcome = evaluate(&graph, &[x], &Options::default()).unwrap().remove(0);
    assert_eq!(
        (outcome.shape.clone(), outcome.to_f64()),
        (vec![6], vec![0.0, 1.0, 2.0, 3.0, 4.0, 5.0])
    );

    let wrong = Tensor::from_slice([6], &[0.0f32; 6]).unwrap();
    let error = evaluate(&graph, &[wrong], &Options::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains("input"), "{error}");
}

#[test]
fn errors_name_the_node() {
    let (graph, inputs) = graph(
        &[("x", &[3])],
        r#"[{"op": "aten.to.dtype", "args": {"self": "x", "dtype": "i32"}, "outputs": ["whole"]},
            {"op": "aten.floor_divide.default", "args": {"self": "whole", "other": "whole"}, "outputs": ["y"]}]"#,
        "y",
    );
    let error = evaluate(&graph, &inputs, &Options::default())
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("division by zero") && error.contains("node: y"),
        "{error}"
    );

    let (random, inputs) = self::graph(
        &[("x", &[3])],
        r#"[{"op": "aten.dropout.default", "args": {"input": "x", "p": 0.5, "train": true}, "outputs": ["y"]}]"#,
        "y",
    );
    assert_eq!(
        evaluate(&random, &inputs, &Options::default())
            .unwrap_err()
            .kind(),
        ErrorKind::Unsupported
    );
}

#[test]
fn f64_agrees_with_pytorch() {
    check(Precision::F64, 2e-14, |_, _| true);
}

#[test]
fn f32_is_close_to_f64() {
    // Values outside the range where f32 has its relative accuracy are f64's business.
    let ordinary = |v: &f64| !v.is_finite() || *v == 0.0 || (1e-30..1e9).contains(&v.abs());
    let exact = |v: &f64| v.is_nan() || f64::from(*v as f32) == *v;
    check(Precision::F32Pairwise, 1e-5, |inputs, outputs| {
        inputs.iter().all(|g| g.data.iter().all(exact))
            && inputs.iter().chain(outputs).all(|g| g.data.iter().all(ordinary))
    });
}

#[test]
fn every_operator_has_a_case() {
    let aten = Operator::all()
        .into_iter()
        .filter(|op| op.schema().namespace == "aten");
    let mut open: BTreeSet<&str> = aten.map(Operator::name).collect();
    for family in FAMILIES {
        for case in cases(family) {
            open.remove(
                case["graph"]["nodes"][0]["op"]
                    .as_str()
                    .unwrap()
                    .trim_start_matches("aten."),
            );
        }
    }
    // Random results, and a check without a result.
    let without = [
        "_assert_tensor_metadata",
        "rand",
        "rand_like",
        "randn",
        "randn_like",
    ];
    let open: Vec<_> = open
        .into_iter()
        .filter(|name| !without.contains(&name.trim_end_matches(".default")))
        .collect();
    assert_eq!(open, [""; 0]);
}
