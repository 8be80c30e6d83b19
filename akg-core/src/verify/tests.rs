//! Errors are measured where they are: honest evaluations of several kinds pass, and faults that another part of the output would
//! hide do not.

use rand::{RngExt as _, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::comparison::Comparison;
use super::sample::Extent;
use super::work::Operations;
use crate::dtype::DType;
use crate::graph::{Graph, ValueId};
use crate::reference::{Options, Rounding, evaluate};
use crate::task::{Accuracy, Task};
use crate::tensor::Tensor;
use crate::verdict::Failure;

mod chaos;

const ROWS: usize = 48;
const DEPTH: usize = 256;
const COLUMNS: usize = 80;

fn judge(task: &Task, inputs: &[Tensor], output: Tensor, seed: u64) -> Option<Failure> {
    let outputs = [output];
    let comparison = Comparison::returned(task, inputs, &outputs, None, seed);
    let extent = Extent {
        work: None,
        yardstick: Operations::of_milliseconds(1000),
        first: None,
    };
    comparison.judge(&extent).unwrap().1
}

/// A task of one operator chain on inputs of a type.
fn task(dtype: DType, shapes: &[[usize; 2]], build: impl FnOnce(&mut Graph, &[ValueId]) -> ValueId) -> Task {
    let mut graph = Graph::new("g");
    let inputs: Vec<ValueId> = shapes
        .iter()
        .enumerate()
        .map(|(i, shape)| graph.input(&format!("x{i}"), dtype, *shape))
        .collect();
    let output = build(&mut graph, &inputs);
    graph.output(output);
    Task::new("t", graph)
}

fn product(dtype: DType) -> Task {
    task(dtype, &[[ROWS, DEPTH], [DEPTH, COLUMNS]], |graph, x| {
        graph.matmul(x[0], x[1]).unwrap()
    })
}

fn softmax(graph: &mut Graph, x: ValueId) -> ValueId {
    graph
        .call("softmax.int", [("self", x.into()), ("dim", (-1i64).into())])
        .unwrap()[0]
}

/// A score is masked if its column is above its row, so that about half are.
fn is_masked(row: usize, column: usize) -> bool {
    column > row + COLUMNS / 4
}

/// A product with -1e9 where it is masked; its softmax if asked for.
fn masked(with_softmax: bool) -> Task {
    task(DType::F32, &[[ROWS, DEPTH], [DEPTH, COLUMNS]], |graph, x| {
        let mask: Vec<bool> = (0..ROWS * COLUMNS)
            .map(|i| is_masked(i / COLUMNS, i % COLUMNS))
            .collect();
        let mask = Tensor::from_bools([ROWS, COLUMNS], &mask).unwrap();
        let mask = graph.constant("mask", mask);
        let scores = graph.matmul(x[0], x[1]).unwrap();
        let scores = graph.masked_fill(scores, mask, -1e9).unwrap();
        if with_softmax {
            softmax(graph, scores)
        } else {
            scores
        }
    })
}

/// Numbers of about the normal distribution.
fn normal(rng: &mut ChaCha8Rng, count: usize, scale: f64) -> Vec<f64> {
    let mut one = || (0..6).map(|_| rng.random_range(-1.0..1.0f64)).sum::<f64>() / 2f64.sqrt();
    (0..count).map(|_| one() * scale).collect()
}

/// A matrix of random numbers, some of whose columns and rows are smaller by orders of magnitude.
fn matrix(rng: &mut ChaCha8Rng, shape: [usize; 2], small_rows: f64, small_columns: f64) -> Vec<f64> {
    let mut values = normal(rng, shape[0] * shape[1], 1.0);
    for (i, value) in values.iter_mut().enumerate() {
        let (row, column) = (i / shape[1], i % shape[1]);
        *value *= if row % 16 == 5 { small_rows } else { 1.0 };
        *value *= if column % 16 == 7 { small_columns } else { 1.0 };
    }
    values
}

fn tensor(dtype: DType, shape: [usize; 2], values: &[f64]) -> Tensor {
    if dtype == DType::F64 {
        return Tensor::from_slice(shape, values).unwrap();
    }
    let single: Vec<f32> = values.iter().map(|v| *v as f32).collect();
    Tensor::from_slice(shape, &single).unwrap()
}

/// Operands of a product, with small rows and columns.
fn operands(dtype: DType, rng: &mut ChaCha8Rng, small: f64) -> [Tensor; 2] {
    let x = matrix(rng, [ROWS, DEPTH], small, 1.0);
    let w = matrix(rng, [DEPTH, COLUMNS], 1.0, small);
    [
        tensor(dtype, [ROWS, DEPTH], &x),
        tensor(dtype, [DEPTH, COLUMNS], &w),
    ]
}

/// The reference, rounded to the output's type at the end.
fn wide(task: &Task, inputs: &[Tensor]) -> Vec<f64> {
    rounded(task, inputs, None)
}

fn rounded(task: &Task, inputs: &[Tensor], round_inputs: Option<Rounding>) -> Vec<f64> {
    let options = Options {
        round_inputs,
        ..Options::default()
    };
    evaluate(&task.graph, inputs, &options).unwrap()[0].to_f64()
}

/// Ways to add products up in single precision.
#[derive(Debug, Clone, Copy)]
enum Order {
    /// In blocks of 16, one after the other.
    Blocks,
    /// The same backwards, with fused multiply-add.
    FusedBackwards,
    /// Eight sums side by side.
    Lanes,
    Kahan,
}

const ORDERS: [Order; 4] = [Order::Blocks, Order::FusedBackwards, Order::Lanes, Order::Kahan];

fn dot(x: &[f32], w: &[f32], order: Order) -> f32 {
    let pairs = || x.iter().copied().zip(w.iter().copied());
    match order {
        Order::Blocks => {
            let blocks = x.chunks(16).zip(w.chunks(16));
            blocks
                .map(|(x, w)| x.iter().zip(w).map(|(x, w)| x * w).sum::<f32>())
                .sum()
        }
        Order::FusedBackwards => {
            let blocks = x.rchunks(16).zip(w.rchunks(16));
            let block =
                |(x, w): (&[f32], &[f32])| x.iter().zip(w).rev().fold(0.0f32, |s, (x, w)| x.mul_add(*w, s));
            blocks.map(block).sum()
        }
        Order::Lanes => {
            let mut lanes = [0.0f32; 32];
            for (i, (x, w)) in pairs().enumerate() {
                lanes[i % 32] += x * w;
            }
            lanes.iter().sum()
        }
        Order::Kahan => {
            let (mut sum, mut rest) = (0.0f32, 0.0f32);
            for (x, w) in pairs() {
                let term = x * w - rest;
                let next = sum + term;
                rest = (next - sum) - term;
                sum = next;
            }
            sum
        }
    }
}

/// A product in single precision.
fn multiplied(inputs: &[Tensor], order: Order) -> Vec<f32> {
    let (x, w) = (
        inputs[0].as_slice::<f32>().unwrap(),
        inputs[1].as_slice::<f32>().unwrap(),
    );
    let columns: Vec<Vec<f32>> = (0..COLUMNS)
        .map(|c| w.iter().skip(c).step_by(COLUMNS).copied().collect())
        .collect();
    let rows = x.chunks(DEPTH);
    rows.flat_map(|row| {
        columns
            .iter()
            .map(|column| dot(row, column, order))
            .collect::<Vec<_>>()
    })
    .collect()
}

/// Softmax of rows in single precision, by powers of two as devices compute them.
fn softmax_of_powers(rows: &[f32]) -> Vec<f32> {
    let row = |row: &[f32]| {
        let largest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max) * std::f32::consts::LOG2_E;
        let powers: Vec<f32> = row
            .iter()
            .map(|x| (x * std::f32::consts::LOG2_E - largest).exp2())
            .collect();
        let sum: f32 = powers.iter().sum();
        powers
            .iter()
            .map(|power| power * (1.0 / sum))
            .collect::<Vec<f32>>()
    };
    rows.chunks(COLUMNS).flat_map(row).collect()
}

fn of_f32(values: &[f32]) -> Vec<f64> {
    values.iter().map(|v| f64::from(*v)).collect()
}

#[test]
fn products_in_any_order_pass_whatever_the_scale_of_rows_and_columns() {
    let task = product(DType::F32);
    for seed in 0..40 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let small = [1.0, 1e-3, 1e-6][seed as usize % 3];
        let inputs = operands(DType::F32, &mut rng, small);
        for order in ORDERS {
            let output = of_f32(&multiplied(&inputs, order));
            let failure = judge(&task, &inputs, tensor(DType::F32, [ROWS, COLUMNS], &output), seed);
            assert_eq!(failure, None, "{order:?}, seed {seed}");
        }
        let output = tensor(DType::F32, [ROWS, COLUMNS], &wide(&task, &inputs));
        assert_eq!(judge(&task, &inputs, output, seed), None);
    }
}

#[test]
fn masked_scores_and_their_softmax_pass_in_any_order() {
    for with_softmax in [false, true] {
        let task = masked(with_softmax);
        for seed in 0..20 {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let inputs = operands(DType::F32, &mut rng, 1.0);
            for order in ORDERS {
                let mut scores = multiplied(&inputs, order);
                for (i, score) in scores.iter_mut().enumerate() {
                    if is_masked(i / COLUMNS, i % COLUMNS) {
                        *score = -1e9;
                    }
                }
                let output = if with_softmax {
                    softmax_of_powers(&scores)
                } else {
                    scores
                };
                let output = tensor(DType::F32, [ROWS, COLUMNS], &of_f32(&output));
                assert_eq!(
                    judge(&task, &inputs, output, seed),
                    None,
                    "{order:?}, seed {seed}"
                );
            }
        }
    }
}

#[test]
fn functions_within_a_few_units_in_the_last_place_pass_at_every_magnitude() {
    type Function = fn(f64) -> f64;
    let functions: [(&str, Function); 6] = [
        ("exp.default", f64::exp),
        ("tanh.default", f64::tanh),
        ("sigmoid.default", |x| 1.0 / (1.0 + (-x).exp())),
        ("expm1.default", f64::exp_m1),
        ("log1p.default", f64::ln_1p),
        ("gelu.default", |x| {
            0.5 * x * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2)
        }),
    ];
    for (name, function) in functions {
        let task = task(DType::F32, &[[ROWS, COLUMNS]], |graph, x| {
            graph.call(name, [("self", x[0].into())]).unwrap()[0]
        });
        for seed in 0..12 {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let scale = [1e-4, 1.0, 8.0][seed as usize % 3];
            let values = normal(&mut rng, ROWS * COLUMNS, scale);
            let values = values
                .iter()
                .map(|x| if name == "log1p.default" { x.abs() } else { *x });
            let inputs = [tensor(DType::F32, [ROWS, COLUMNS], &values.collect::<Vec<_>>())];
            let exact: Vec<f64> = inputs[0].to_f64().unwrap().iter().map(|x| function(*x)).collect();
            // The whole has no more than a rounding; small results are off by some units.
            let largest = exact.iter().fold(0.0, |most: f64, y| most.max(y.abs()));
            let mut near = |y: &f64| {
                let units = if y.abs() < 1e-3 * largest { 3.4 } else { 0.4 };
                y * (1.0 + units * f64::from(f32::EPSILON) * rng.random_range(-1.0..1.0))
            };
            let near: Vec<f64> = exact.iter().map(&mut near).collect();
            let output = tensor(DType::F32, [ROWS, COLUMNS], &near);
            assert_eq!(judge(&task, &inputs, output, seed), None, "{name}, seed {seed}");
        }
    }
}

#[test]
fn exponentials_by_powers_of_two_pass() {
    let task = task(DType::F32, &[[ROWS, COLUMNS]], |graph, x| {
        graph.exp(x[0]).unwrap()
    });
    for seed in 0..10 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let values = normal(&mut rng, ROWS * COLUMNS, 20.0);
        let values: Vec<f64> = values.iter().map(|x| -x.abs()).collect();
        let inputs = [tensor(DType::F32, [ROWS, COLUMNS], &values)];
        let x = inputs[0].as_slice::<f32>().unwrap();
        let powers: Vec<f32> = x.iter().map(|x| (x * std::f32::consts::LOG2_E).exp2()).collect();
        let output = tensor(DType::F32, [ROWS, COLUMNS], &of_f32(&powers));
        assert_eq!(judge(&task, &inputs, output, seed), None, "seed {seed}");
    }
}

#[test]
fn results_that_jump_where_rounding_decides_pass_and_wrong_ties_do_not() {
    let floor = task(DType::F32, &[[ROWS, DEPTH], [DEPTH, COLUMNS]], |graph, x| {
        let y = graph.matmul(x[0], x[1]).unwrap();
        let y = graph.mul(y, 1e3).unwrap();
        graph.floor(y).unwrap()
    });
    for seed in 0..12 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let inputs = operands(DType::F32, &mut rng, 1.0);
        for order in ORDERS {
            let output: Vec<f32> = multiplied(&inputs, order)
                .iter()
                .map(|y| (y * 1e3).floor())
                .collect();
            let output = tensor(DType::F32, [ROWS, COLUMNS], &of_f32(&output));
            assert_eq!(
                judge(&floor, &inputs, output, seed),
                None,
                "{order:?}, seed {seed}"
            );
        }
    }
    let step = task(DType::F32, &[[ROWS, COLUMNS]], |graph, x| {
        let is_large = graph.ge(x[0], 0.1).unwrap();
        let zero = graph.mul(x[0], 0.0).unwrap();
        graph.where_(is_large, x[0], zero).unwrap()
    });
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut values = normal(&mut rng, ROWS * COLUMNS, 1.0);
    values[77] = f64::from(0.1f32);
    let inputs = [tensor(DType::F32, [ROWS, COLUMNS], &values)];
    let mut output = wide(&step, &inputs);
    assert_eq!(
        judge(&step, &inputs, tensor(DType::F32, [ROWS, COLUMNS], &output), 1),
        None
    );
    // The reference compares with the f64 number 0.1, which the nearest f32 is above.
    assert!(output[77] > 0.0);
    output[77] = 0.0;
    assert!(judge(&step, &inputs, tensor(DType::F32, [ROWS, COLUMNS], &output), 1).is_some());
}

/// Rejects the exact output after `fault` in it, for many seeds, with evidence that names what `names` says.
#[track_caller]
fn rejects(
    task: &Task,
    inputs: impl Fn(&mut ChaCha8Rng) -> Vec<Tensor>,
    names: &str,
    fault: impl Fn(&mut [f64], &[Tensor]),
) {
    rejects_as(task, inputs, &[names], fault);
}

/// The same with evidence that has one of the texts.
fn rejects_as(
    task: &Task,
    inputs: impl Fn(&mut ChaCha8Rng) -> Vec<Tensor>,
    names: &[&str],
    fault: impl Fn(&mut [f64], &[Tensor]),
) {
    let dtype = task.graph.ty(task.graph.outputs()[0].value).dtype;
    for seed in 0..20 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let inputs = inputs(&mut rng);
        let mut output = wide(task, &inputs);
        let shape = [ROWS, output.len() / ROWS];
        assert_eq!(
            judge(task, &inputs, tensor(dtype, shape, &output), seed),
            None,
            "seed {seed}"
        );
        fault(&mut output, &inputs);
        let failure = judge(task, &inputs, tensor(dtype, shape, &output), seed);
        let failure = failure.unwrap_or_else(|| panic!("not found with seed {seed}"));
        let is_named = names.iter().any(|name| failure.evidence.contains(name));
        assert!(is_named, "{}", failure.evidence);
    }
}

#[test]
fn garbage_beside_a_large_constant_is_found() {
    let scores = |rng: &mut ChaCha8Rng| operands(DType::F32, rng, 1.0).to_vec();
    rejects(&masked(false), scores, "output", |output, _| {
        for score in output.iter_mut().filter(|score| **score > -1e8) {
            *score *= 0.5;
        }
    });
    rejects(&masked(false), scores, "output", |output, _| {
        let first = output.iter_mut().find(|score| score.abs() < 100.0);
        *first.unwrap() += 1.0;
    });
}

#[test]
fn parts_left_out_or_stale_are_found_however_small_they_are() {
    for small in [1e-3, 1e-6] {
        let small = |rng: &mut ChaCha8Rng| operands(DType::F32, rng, small).to_vec();
        rejects(&product(DType::F32), small, "output", |output, _| {
            output.iter_mut().skip(7).step_by(COLUMNS).for_each(|y| *y = 0.0);
        });
        rejects(&product(DType::F32), small, "output", |output, _| {
            // A small row of other data.
            let (from, to) = (37 * COLUMNS, 21 * COLUMNS);
            output.copy_within(from..from + COLUMNS, to);
        });
    }
}

#[test]
fn a_column_or_row_of_lower_precision_is_found_and_named() {
    for (small, is_column) in [(1e-3, true), (1e-3, false), (1.0, true), (1.0, false)] {
        let inputs = |rng: &mut ChaCha8Rng| operands(DType::F32, rng, small).to_vec();
        let task = product(DType::F32);
        // One or two elements that are beyond their limits are named by themselves.
        let names = if is_column {
            [", column 7: error rms", ", 7] is above", ", 7]: got"]
        } else {
            [", axis 0, slice 5: error rms", " at [5, ", " is at [5, "]
        };
        rejects_as(&task, inputs, &names, |output, inputs| {
            let short = rounded(&task, inputs, Some(Rounding::TF32));
            for (i, y) in output.iter_mut().enumerate() {
                if if is_column {
                    i % COLUMNS == 7
                } else {
                    i / COLUMNS == 5
                } {
                    *y = short[i];
                }
            }
        });
    }
}

#[test]
fn small_probabilities_may_not_be_zero() {
    let task = task(DType::F32, &[[ROWS, COLUMNS]], |graph, x| softmax(graph, x[0]));
    let inputs = |rng: &mut ChaCha8Rng| {
        let x = normal(rng, ROWS * COLUMNS, 12.0);
        vec![tensor(DType::F32, [ROWS, COLUMNS], &x)]
    };
    rejects(&task, inputs, "output", |output, _| {
        for p in output.iter_mut().filter(|p| **p < 1e-9) {
            *p = 0.0;
        }
    });
}

#[test]
fn double_precision_is_a_class_of_its_own() {
    let task = product(DType::F64);
    let mut short = 0;
    for seed in 0..12 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let inputs = operands(DType::F64, &mut rng, [1.0, 1e-3][seed as usize % 2]);
        let (x, w) = (inputs[0].to_f64().unwrap(), inputs[1].to_f64().unwrap());
        let sum = |terms: &mut dyn Iterator<Item = f64>| terms.fold(0.0, |s, t| s + t);
        let forward = |i: usize| {
            let (row, column) = (i / COLUMNS, i % COLUMNS);
            sum(&mut (0..DEPTH).map(|k| x[row * DEPTH + k] * w[k * COLUMNS + column]))
        };
        let backward = |i: usize| {
            let (row, column) = (i / COLUMNS, i % COLUMNS);
            sum(&mut (0..DEPTH)
                .rev()
                .map(|k| x[row * DEPTH + k] * w[k * COLUMNS + column]))
        };
        let orders: [&dyn Fn(usize) -> f64; 2] = [&forward, &backward];
        for order in orders {
            let output: Vec<f64> = (0..ROWS * COLUMNS).map(order).collect();
            let output = tensor(DType::F64, [ROWS, COLUMNS], &output);
            assert_eq!(judge(&task, &inputs, output, seed), None, "seed {seed}");
        }
        let single = [
            tensor(DType::F32, [ROWS, DEPTH], &x),
            tensor(DType::F32, [DEPTH, COLUMNS], &w),
        ];
        for order in ORDERS {
            let output = tensor(DType::F64, [ROWS, COLUMNS], &of_f32(&multiplied(&single, order)));
            let failure = judge(&task, &inputs, output, seed).unwrap();
            assert!(failure.evidence.contains("class f64"), "{}", failure.evidence);
            short += 1;
        }
    }
    assert_eq!(short, 48);
    let inputs = |rng: &mut ChaCha8Rng| operands(DType::F64, rng, 1.0).to_vec();
    rejects(&task, inputs, "class f64", |output, _| {
        output
            .iter_mut()
            .take(COLUMNS)
            .for_each(|y| *y = f64::from(*y as f32));
    });
}

#[test]
fn classes_of_lower_precision_allow_what_they_are_for_in_every_group_and_no_more() {
    for (accuracy, own, beyond) in [
        (Accuracy::Tf32, Rounding::TF32, Rounding::BF16),
        (Accuracy::Half, Rounding::BF16, Rounding::BF16),
    ] {
        let mut task = product(DType::F32);
        task.contract.accuracy = accuracy;
        for seed in 0..12 {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let inputs = operands(DType::F32, &mut rng, [1.0, 1e-3][seed as usize % 2]);
            let mut output = rounded(&task, &inputs, Some(own));
            let judged =
                |output: &[f64]| judge(&task, &inputs, tensor(DType::F32, [ROWS, COLUMNS], output), seed);
            assert_eq!(judged(&output), None, "{accuracy}, seed {seed}");
            let short = rounded(&task, &inputs, Some(beyond));
            for (i, y) in output.iter_mut().enumerate().filter(|(i, _)| i % COLUMNS == 7) {
                *y = if accuracy == Accuracy::Half {
                    0.0
                } else {
                    short[i] + 0.05 * short[i].abs()
                };
            }
            assert!(judged(&output).is_some(), "{accuracy}, seed {seed}");
        }
    }
}
