//! Operators whose chance follows from a seed: the numbers that they take, their statistics, and their parts.

#![allow(
    clippy::unwrap_used,
    reason = "the helper functions of tests fail by panicking"
)]

use akg_core::expr::Bindings;
use akg_core::graph::{Arg, ValueId};
use akg_core::reference::{Evaluation, Options, RowPlan, evaluate};
use akg_core::{DType, ErrorKind, Graph, Tensor};

/// A dropout of ones.
fn graph(shape: &[i64], p: f64, offset: i64) -> Graph {
    let mut graph = Graph::new("dropout");
    let x = graph.input("x", DType::F32, shape.to_vec());
    let seed = graph.input("seed", DType::I64, [0i64; 0]);
    let y = graph.seeded_dropout(x, seed, p, offset).unwrap();
    graph.output(y);
    graph
}

fn inputs(shape: &[i64], seed: i64) -> [Tensor; 2] {
    let shape: Vec<usize> = shape.iter().map(|n| *n as usize).collect();
    let ones = vec![1f32; shape.iter().product()];
    [
        Tensor::from_slice(shape, &ones).unwrap(),
        Tensor::from_slice([], &[seed]).unwrap(),
    ]
}

fn drop_ones(shape: &[i64], seed: i64, p: f64, offset: i64) -> Vec<f64> {
    let outcomes = evaluate(
        &graph(shape, p, offset),
        &inputs(shape, seed),
        &Options::default(),
    )
    .unwrap();
    outcomes[0].to_f64()
}

/// The first word for key 0 and counter 0 in the known-answer file of Random123, the generator's first implementation.
const FIRST_WORD: f64 = 0x6627_e8d5_u32 as f64;

#[test]
fn an_element_stays_if_its_number_is_not_below_the_probability() {
    let unit = 2f64.powi(-32);
    let p = FIRST_WORD * unit;
    assert_eq!(drop_ones(&[1], 0, p, 0), [1.0 / (1.0 - p)]);
    assert_eq!(drop_ones(&[1], 0, p + unit / 4.0, 0), [0.0]);
    assert_eq!(drop_ones(&[1, 1], 0, p - unit, 0), [1.0 / (1.0 - p + unit)]);
    assert_eq!(drop_ones(&[3], 7, 0.0, 5), [1.0; 3]);
    assert_eq!(drop_ones(&[0, 3], 7, 0.5, 0), [0.0; 0]);
}

#[test]
fn an_offset_shifts_the_sequence() {
    let whole = drop_ones(&[40, 25], 99, 0.3, 0);
    assert_eq!(drop_ones(&[15, 50], 99, 0.3, 250), whole[250..]);
    // Beyond 32 bits, too.
    let far = 1i64 << 40;
    assert_eq!(
        drop_ones(&[10], 99, 0.3, far + 7),
        drop_ones(&[17], 99, 0.3, far)[7..]
    );
}

/// Whether so many successes in independent attempts are within five standard deviations of what is expected.
fn plausible(successes: usize, attempts: usize, p: f64) -> bool {
    let (n, deviation) = (attempts as f64, (attempts as f64 * p * (1.0 - p)).sqrt());
    (successes as f64 - n * p).abs() < 5.0 * deviation
}

#[test]
fn the_share_that_goes_is_the_probability_and_neighbours_are_independent() {
    let (rows, columns) = (512usize, 512usize);
    let shape = [rows as i64, columns as i64];
    for (p, seed) in [(0.1, 0), (0.2, 1), (0.5, -1), (0.9, i64::MAX)] {
        let mask = |seed, offset| -> Vec<bool> {
            let kept = drop_ones(&shape, seed, p, offset);
            kept.into_iter().map(|v| v == 0.0).collect()
        };
        let gone = mask(seed, 0);
        let count = gone.iter().filter(|g| **g).count();
        assert!(
            plausible(count, gone.len(), p),
            "{count} of {} for {p}",
            gone.len()
        );
        // Elements side by side, one above the other, and at one place under near and far seeds and in the next dropout.
        let pairs = [
            ("right", gone[1..].to_vec()),
            ("below", gone[columns..].to_vec()),
            ("next seed", mask(seed ^ 1, 0)),
            ("high seed", mask(seed ^ (1 << 32), 0)),
            ("next dropout", mask(seed, (rows * columns) as i64)),
        ];
        for (name, other) in pairs {
            let both = gone.iter().zip(&other).filter(|(a, b)| **a && **b).count();
            assert!(
                plausible(both, other.len(), p * p),
                "{name}: {both} of {} for {p}",
                other.len()
            );
        }
    }
}

#[test]
fn rows_take_the_numbers_that_they_have_in_the_whole() {
    let mut graph = Graph::new("rows");
    let x = graph.input("x", DType::F32, [3, 8, 5]);
    let seed = graph.input("seed", DType::I64, [0i64; 0]);
    let turned = graph.permute(x, &[1, 0, 2]).unwrap();
    let first = graph.seeded_dropout(turned, seed, 0.4, 0).unwrap();
    let back = graph.permute(first, &[1, 0, 2]).unwrap();
    let second = graph.seeded_dropout(back, seed, 0.4, 120).unwrap();
    let noise = graph.seeded_randn([3i64, 8, 5], seed, 240).unwrap();
    let noisy = graph.add(second, noise).unwrap();
    let y = graph.permute(noisy, &[1, 2, 0]).unwrap();
    graph.output(y);
    let inputs = inputs(&[3, 8, 5], 4);
    let whole = evaluate(&graph, &inputs, &Options::default()).unwrap()[0].to_f64();
    let plan = RowPlan::new(&graph, &Bindings::new()).unwrap().unwrap();
    assert_eq!(plan.rows(), 8);
    let rows = Evaluation::new(&graph, &inputs, Some(&plan), Options::default()).unwrap();
    let parts = [0..3, 3..4, 4..8].map(|part| rows.rows(part).unwrap()[0].to_f64());
    assert_eq!(parts.concat(), whole);
}

/// Random numbers made by `build` of a seed.
fn draw(seed: i64, build: impl FnOnce(&mut Graph, ValueId) -> akg_core::Result<ValueId>) -> Vec<f64> {
    let mut graph = Graph::new("random");
    let input = graph.input("seed", DType::I64, [0i64; 0]);
    let y = build(&mut graph, input).unwrap();
    graph.output(y);
    let seed = [Tensor::from_slice([], &[seed]).unwrap()];
    evaluate(&graph, &seed, &Options::default()).unwrap()[0].to_f64()
}

#[test]
fn a_random_number_is_the_beginning_of_a_word() {
    let first = FIRST_WORD * 2f64.powi(-32);
    let drawn = draw(0, |g, seed| g.seeded_rand([1], seed, 0));
    assert!(drawn[0] <= first && first - drawn[0] < 2f64.powi(-24));
    assert_eq!(drawn[0] * 2f64.powi(24), (drawn[0] * 2f64.powi(24)).floor());
    let whole = draw(5, |g, seed| g.seeded_rand([4, 6], seed, 10));
    assert_eq!(draw(5, |g, seed| g.seeded_rand([4], seed, 12)), whole[2..6]);
    // Every type has the same numbers, as far as it can hold them.
    let halves = draw(5, |g, seed| {
        let args = [
            ("size", Arg::Ints(vec![24.into()])),
            ("seed", seed.into()),
            ("offset", 10.into()),
        ];
        let args = args.into_iter().chain([("dtype", DType::F16.into())]);
        Ok(g.call("seeded_rand.default", args)?[0])
    });
    assert!(
        whole
            .iter()
            .zip(&halves)
            .all(|(a, b)| (a - b).abs() <= 2f64.powi(-12))
    );
}

#[test]
fn normal_numbers_are_made_of_two_uniform_ones_and_are_normal() {
    let count = 1 << 16;
    let normal = draw(-3, |g, seed| g.seeded_randn([256, count / 256], seed, 7));
    let uniform = draw(-3, |g, seed| g.seeded_rand([2 * count], seed, 7));
    for (x, pair) in normal.iter().zip(uniform.chunks(2)) {
        let expected = (-2.0 * (1.0 - pair[0]).ln()).sqrt() * (std::f64::consts::TAU * pair[1]).cos();
        assert!((x - expected).abs() < 1e-6, "{x} {expected}");
    }
    // The shares below some quantiles of the distribution.
    for (quantile, p) in [
        (-1.959_964, 0.025),
        (-0.674_49, 0.25),
        (0.0, 0.5),
        (1.281_552, 0.9),
        (3.090_232, 0.999),
    ] {
        let below = normal.iter().filter(|x| **x < quantile).count();
        assert!(plausible(below, normal.len(), p), "{below} below {quantile}");
    }
    // Neighbours have the same sign by chance alone.
    let alike = normal.windows(2).filter(|w| (w[0] < 0.0) == (w[1] < 0.0)).count();
    assert!(plausible(alike, normal.len() - 1, 0.5), "{alike}");
}

#[test]
fn json_has_the_operator_in_akgs_namespace() {
    let graph = graph(&[2, 3], 0.25, 12);
    let json = graph.to_json().unwrap();
    assert!(json.contains("\"akg.seeded_dropout.default\""), "{json}");
    let again = Graph::from_json(&json).unwrap();
    assert!(again.is_seeded());
    assert_eq!(again.to_json().unwrap(), json);
    let foreign = json.replace("akg.seeded", "aten.seeded");
    assert_eq!(
        Graph::from_json(&foreign).unwrap_err().kind(),
        ErrorKind::Unsupported
    );
}

#[test]
fn what_is_no_seed_or_no_probability_is_refused() {
    let mut graph = Graph::new("dropout");
    let x = graph.input("x", DType::F32, [4]);
    let seed = graph.input("seed", DType::I64, [0i64; 0]);
    for (seed, p, words) in [
        (x, 0.5, "i64[]"),
        (seed, 1.0, "less than 1"),
        (seed, -0.1, "0 to"),
    ] {
        let error = graph.seeded_dropout(x, seed, p, 0).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
    let error = graph.seeded_randn([4], x, 0).unwrap_err().to_string();
    assert!(error.contains("i64[]"), "{error}");
    let error = graph.seeded_dropout(seed, seed, 0.5, 0).unwrap_err().to_string();
    assert!(error.contains("input"), "{error}");
}
