//! Graphs in half types: what is judged right, what is judged wrong, and what the rules make of them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

use akg_core::conformance::half::{HalfCase, cases};
use akg_core::conformance::random::{Finding, check};
use akg_core::expr::Bindings;
use akg_core::reference::{Evaluation, Options, Outcome, Precision, RowPlan, Semantics, evaluate};
use akg_core::{Graph, Target, Tensor};
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
        let semantics = Semantics::Rounded { perturb: Some(seed) };
        try_all(|case| refusal(case, semantics, Precision::F32Pairwise));
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
        Semantics::Rounded { perturb: Some(7) },
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
