//! Random graphs through the designer, the validator and the interpreter.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

use std::collections::BTreeSet;

use akg_core::conformance::random::{Case, Finding, check, kept, shrink};
use akg_core::{DType, Target};

/// The first seed: a number, or `fresh` for another at every run.
const FIRST: &str = "AKG_RANDOM_SEED";

/// How many seeds are tried, if not 200.
const COUNT: &str = "AKG_RANDOM_COUNT";

/// A CPU, and a device whose cores share tiles between many threads and multiply halves fast.
fn targets() -> [Target; 2] {
    let mut threads = Target::new("threads", "t1");
    (threads.cores, threads.threads) = (16, 2048);
    threads.peak = [(DType::F32, 1.0), (DType::F16, 16.0), (DType::BF16, 16.0)].into();
    [Target::new("cpu", "x86_64"), threads]
}

#[track_caller]
fn try_seed(seed: u64) {
    let case = Case::new(seed).unwrap();
    for target in targets() {
        if let Finding::Wrong(_) = check(&case, &target).unwrap() {
            let fails = |case: &Case| matches!(check(case, &target), Ok(Finding::Wrong(_)));
            let small = shrink(&case, &fails);
            panic!(
                "{small}\n{:?}\n\nwhich is a part of\n{case}",
                check(&small, &target).unwrap()
            );
        }
    }
}

#[test]
fn kept_seeds_are_right() {
    for seed in kept() {
        eprintln!("{}: {}", seed.seed, seed.found);
        try_seed(seed.seed);
    }
}

#[test]
fn seeds_are_right() {
    let variable = |name: &str| std::env::var(name).ok();
    let first = match variable(FIRST).as_deref() {
        Some("fresh") => u64::from(rand::random::<u32>()),
        first => first.map_or(0, |first| first.parse().unwrap()),
    };
    let count = variable(COUNT).map_or(200, |count| count.parse().unwrap());
    println!("to try the same graphs again: {FIRST}={first}");
    for seed in first..first + count {
        try_seed(seed);
    }
}

/// What the operators of many seeds must include: at least one of each family that the rules design.
const FAMILIES: [&str; 25] = [
    "gelu",
    "add",
    "where",
    "gt",
    "to",
    "addcmul",
    "sum",
    "argmax",
    "var_mean",
    "softmax",
    "cumsum",
    "cumprod",
    "layer_norm",
    "native_batch_norm_legit_functional",
    "mse_loss",
    "seeded_dropout",
    "lstm",
    "linear",
    "einsum",
    "scaled_dot_product_attention",
    "convolution",
    "max_pool2d",
    "cat",
    "index_select",
    "index_copy",
];

#[test]
fn every_family_grows() {
    let mut operators = BTreeSet::new();
    for seed in 0..400 {
        let case = Case::new(seed).unwrap();
        assert_eq!(case.task.graph.inputs().len(), case.inputs.len());
        case.task.graph.validate().unwrap();
        let names = case.task.graph.nodes().iter().map(|n| n.op.name().to_owned());
        operators.extend(names);
    }
    for family in FAMILIES {
        let is_there = |op: &String| op.trim_start_matches('_').split('.').next() == Some(family);
        assert!(operators.iter().any(is_there), "no {family} among {operators:?}");
    }
}

#[test]
fn a_seed_grows_into_one_graph() {
    for seed in 0..20 {
        let [a, b] = [(), ()].map(|()| Case::new(seed).unwrap());
        assert_eq!(a.to_string(), b.to_string());
        assert!(
            a.inputs
                .iter()
                .zip(&b.inputs)
                .all(|(a, b)| a.bytes() == b.bytes())
        );
    }
}

#[test]
fn a_case_that_fails_becomes_small() {
    let has_softmax = |case: &Case| {
        case.task
            .graph
            .nodes()
            .iter()
            .any(|n| n.op.name() == "softmax.int")
    };
    let cases = (0..200).map(|seed| Case::new(seed).unwrap());
    let case = cases
        .into_iter()
        .find(|c| has_softmax(c) && c.task.graph.nodes().len() > 4)
        .unwrap();
    let small = shrink(&case, &has_softmax);
    assert_eq!(small.task.graph.nodes().len(), 1, "{small}");
}
