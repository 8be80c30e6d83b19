//! Graphs in half types: what is judged right, what is judged wrong, and what the rules make of them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

use akg_core::Target;
use akg_core::conformance::half::{HalfCase, cases};
use akg_core::conformance::random::{Finding, check};
use akg_core::reference::{Options, Precision, Semantics};

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
