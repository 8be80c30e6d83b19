//! Graphs in half types: what is judged right, what is judged wrong, and what the rules make of them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

use akg_core::conformance::half::{HalfCase, cases};
use akg_core::conformance::random::{Case, Finding, check};
use akg_core::expr::Bindings;
use akg_core::reference::{Evaluation, Options, Outcome, Perturb, Precision, RowPlan, Semantics, evaluate};
use akg_core::sketch::{Sketch, examples, interpret};
use akg_core::source::{KnobValue, Knobs};
use akg_core::task::Accuracy;
use akg_core::{DType, Graph, Target, Task, Tensor};
use half::f16;

/// Everything that `find` has to say, by the names of cases.
#[track_caller]
fn try_all(find: impl Fn(&HalfCase) -> Option<String>) {
    let cases = cases().unwrap();
    assert_eq!(cases.len(), 60);
    let found: Vec<String> = cases
        .iter()
        .filter_map(|case| Some(format!("{}: {}", case.case.task.name, find(case)?)))
        .collect();
    assert!(found.is_empty(), "{} cases:\n{}", found.len(), found.join("\n"));
}

/// Why outputs of an evaluation of the right graph are refused, if they are.
fn refusal(case: &HalfCase, semantics: Semantics, precision: Precision) -> Option<String> {
    let options = Options {
        precision,
        semantics,
        ..Options::default()
    };
    let outputs = case.outputs(false, &options).unwrap();
    case.case.judge(&outputs).unwrap().map(|failure| failure.evidence)
}

#[test]
fn rounded_results_are_right_in_any_order_of_sums() {
    let semantics = Semantics::Rounded { perturb: None };
    try_all(|case| refusal(case, semantics, Precision::F64));
    try_all(|case| refusal(case, semantics, Precision::F32Pairwise));
}

#[test]
fn wide_results_are_right() {
    try_all(|case| refusal(case, Semantics::Wide, Precision::F32Pairwise));
}

#[test]
fn results_that_are_rounded_up_or_down_at_random_are_right() {
    for seed in 1000..1004 {
        for perturb in [Perturb::Alike(seed), Perturb::Apart(seed)] {
            let perturb = Some(perturb);
            try_all(|case| refusal(case, Semantics::Rounded { perturb }, Precision::F32Pairwise));
        }
    }
}

#[test]
fn faults_are_wrong_however_they_are_rounded() {
    for semantics in [Semantics::Rounded { perturb: None }, Semantics::Wide] {
        try_all(|case| {
            // The only fault of this one is that it rounds.
            if semantics == Semantics::Wide && case.case.task.name.starts_with("long_sum") {
                return None;
            }
            let options = Options {
                semantics,
                ..Options::default()
            };
            let outputs = case.outputs(true, &options).unwrap();
            let failure = case.case.judge(&outputs).unwrap();
            failure
                .is_none()
                .then(|| format!("the fault is accepted under {semantics:?}"))
        });
    }
}

#[test]
fn designs_of_the_rules_are_right() {
    let target = Target::new("cpu", "x86_64");
    try_all(|case| match check(&case.case, &target).unwrap() {
        Finding::Verified => None,
        finding => Some(format!("{finding:?}")),
    });
}

#[test]
fn rows_are_those_of_the_whole_under_every_semantics() {
    let all = [
        Semantics::Rounded { perturb: None },
        Semantics::Rounded {
            perturb: Some(Perturb::Alike(7)),
        },
        Semantics::Rounded {
            perturb: Some(Perturb::Apart(7)),
        },
        Semantics::Wide,
    ];
    for semantics in all {
        try_all(|HalfCase { case, .. }| {
            let options = Options {
                semantics,
                ..Options::default()
            };
            let graph = &case.task.graph;
            let whole = evaluate(graph, &case.inputs, &options).unwrap();
            let plan = RowPlan::new(graph, &Bindings::new()).unwrap()?;
            let evaluation = Evaluation::new(graph, &case.inputs, Some(&plan), options).unwrap();
            let mut parts = vec![Vec::new(); whole.len()];
            for row in 0..plan.rows() {
                let outcomes = evaluation.rows(row..row + 1).unwrap();
                parts
                    .iter_mut()
                    .zip(outcomes)
                    .for_each(|(all, part)| all.extend(part.to_f64()));
            }
            // Large products have sums of another order.
            let near = |a: f64, b: f64| {
                a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= 1e-12 * b.abs().max(1.0)
            };
            let same = |(part, whole): (&Vec<f64>, &Outcome)| {
                let whole = whole.to_f64();
                part.len() == whole.len() && part.iter().zip(whole).all(|(a, b)| near(*a, b))
            };
            let agree = parts.iter().zip(&whole).all(same);
            (!agree).then(|| format!("rows differ under {semantics:?}"))
        });
    }
}

#[test]
fn predicates_see_the_values_that_a_half_type_has() {
    let graph = Graph::from_json(
        r#"{"akg_graph": 1, "name": "squares", "inputs": [{"name": "x", "dtype": "f16", "shape": [3]}],
            "nodes": [{"op": "aten.mul.Tensor", "args": {"self": "x", "other": "x"}, "outputs": ["y"]},
                      {"op": "aten.isinf.default", "args": {"self": "y"}, "outputs": ["i"]},
                      {"op": "aten.div.Tensor", "args": {"self": "y", "other": "x"}, "outputs": ["z"]}],
            "outputs": [{"value": "y"}, {"value": "i"}, {"value": "z"}]}"#,
    )
    .unwrap();
    // The squares are 1.00195…, which rounds down, 65280.25, which has a neighbour 0.25 below, and 90000.
    let x = [1.0 + f16::EPSILON.to_f32(), 255.5, 300.0].map(f16::from_f32);
    let x = Tensor::from_slice([3], &x).unwrap();
    let evaluate = |semantics| {
        let options = Options {
            semantics,
            ..Options::default()
        };
        let outcomes = evaluate(&graph, std::slice::from_ref(&x), &options).unwrap();
        outcomes.iter().map(Outcome::to_f64).collect::<Vec<_>>()
    };
    let rounded = evaluate(Semantics::Rounded { perturb: None });
    let unit = f16::EPSILON.to_f64();
    assert_eq!(rounded[0], [1.0 + 2.0 * unit, 65280.0, f64::INFINITY]);
    assert_eq!(rounded[1], [0.0, 0.0, 1.0]);
    assert_eq!(rounded[2], [1.0 + unit, 255.5, f64::INFINITY]);
    let wide = evaluate(Semantics::Wide);
    assert_eq!(wide[0], [(1.0 + unit).powi(2), 65280.25, 90000.0]);
    assert_eq!(wide[1], [0.0, 0.0, 1.0]);
    assert_eq!(wide[2], [1.0 + unit, 255.5, 300.0]);
    assert_eq!(evaluate(Semantics::Exact)[1], [0.0, 0.0, 0.0]);
}

/// Two keys have the same score and opposite values. The kernel meets one as the largest so far and the other beside a larger one, so
/// that only the second is rounded, and what should cancel leaves a rest.
#[test]
fn equal_probabilities_that_cancel_may_leave_a_rest() {
    const LEN: usize = 32;
    const WIDTH: usize = 8;
    let mut graph = Graph::new("attention");
    let [q, k, v] = ["q", "k", "v"].map(|n| graph.input(n, DType::F16, [1, LEN as i64, WIDTH as i64]));
    let y = graph.attention(q, k, v, true).unwrap();
    graph.output(y);
    let mut task = Task::new("attention", graph);
    task.contract.accuracy = Accuracy::Half;
    let rows = |of: fn(usize) -> f32| -> Tensor {
        let values: Vec<f16> = (0..LEN * WIDTH).map(|i| f16::from_f32(of(i / WIDTH))).collect();
        Tensor::from_slice([1, LEN, WIDTH], &values).unwrap()
    };
    let keys = rows(|row| match row {
        3 | 20 => 1.0,
        21 => 1.5,
        _ => -4.0,
    });
    let values = rows(|row| match row {
        3 => 2.0,
        20 => -2.0,
        _ => 0.0,
    });
    let case = Case {
        seed: 1,
        task,
        inputs: vec![rows(|_| 1.0), keys, values],
    };
    let (_, text) = examples().iter().find(|(name, _)| *name == "attention").unwrap();
    let knobs = Knobs::from([
        ("BM".into(), KnobValue::Int(16)),
        ("BN".into(), KnobValue::Int(16)),
    ]);
    let dims = [("G", 1), ("S", LEN as i64), ("D", WIDTH as i64)].map(|(name, value)| (name.into(), value));
    let dims = Bindings::from(dims);
    let program = Sketch::parse(text).unwrap().elaborate(&knobs, &dims).unwrap();
    let outputs = interpret(&program, &case.inputs, &dims).unwrap();
    let mut values = outputs[0].as_slice::<f16>().unwrap().to_vec();
    let rest = values[LEN * WIDTH - 1];
    assert!(rest != f16::ZERO && rest.to_f32().abs() < 1e-3, "{rest}");
    let failure = case.judge(&outputs).unwrap();
    assert!(failure.is_none(), "{failure:?}");
    values[LEN * WIDTH - 1] = f16::from_f32(0.01);
    let wrong = Tensor::from_slice([1, LEN, WIDTH], &values).unwrap();
    assert!(case.judge(&[wrong]).unwrap().is_some());
}
