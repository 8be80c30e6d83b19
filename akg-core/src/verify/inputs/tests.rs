//! Tests of the data: what it is made of.

use std::collections::BTreeSet;
use std::sync::Arc;

use half::f16;

use super::*;
use crate::graph::{Arg, Graph, ValueId};
use crate::reference::{Options, evaluate};
use crate::task::Capture;

fn values(task: &Task, distribution: Distribution, seed: u64, position: usize) -> Vec<f64> {
    let inputs = host_inputs(task, distribution, seed).unwrap();
    inputs[position].to_f64().unwrap()
}

fn task_of(build: impl FnOnce(&mut Graph) -> Result<ValueId>) -> Task {
    let mut graph = Graph::new("g");
    let y = build(&mut graph).unwrap();
    graph.output(y);
    Task::new("t", graph)
}

#[test]
fn data_follows_from_the_seed_and_differs_between_distributions() {
    let task = task_of(|g| {
        let x = g.input("x", DType::F32, [40, 50]);
        let y = g.input("y", DType::F32, [40, 50]);
        g.add(x, y)
    });
    let mut seen = BTreeSet::new();
    for distribution in Distribution::ALL {
        let of = |seed| {
            let inputs = host_inputs(&task, distribution, seed).unwrap();
            inputs.iter().map(|t| t.bytes().to_vec()).collect::<Vec<_>>()
        };
        assert_eq!(of(7), of(7), "{distribution}");
        let constant = matches!(distribution, Distribution::Zeros | Distribution::Constant);
        if !constant {
            assert_ne!(of(7), of(8), "{distribution}");
            assert_ne!(of(7)[0], of(7)[1], "{distribution}");
            // Normal inputs of the contract and signed ones of the same seed, too.
            assert!(seen.insert(of(7)[0].clone()), "{distribution}");
        }
    }
}

#[test]
fn types_hold_the_same_numbers_each_with_all_of_its_bits() {
    let of = |dtype| {
        let task = task_of(|g| {
            let x = g.input("x", dtype, [3000]);
            g.relu(x)
        });
        values(&task, Distribution::Signed, 3, 0)
    };
    let (single, half, double) = (of(DType::F32), of(DType::F16), of(DType::F64));
    for ((single, half), double) in single.iter().zip(half).zip(&double).take(512) {
        assert_eq!(f16::from_f64(*single).to_f64(), half);
        assert!((single - double).abs() <= 1e-6 * single.abs());
    }
    let low = |bits: u64| double.iter().filter(|v| v.to_bits() & bits != 0).count();
    for bit in 0..40 {
        let share = low(1 << bit) as f64 / double.len() as f64;
        assert!((share - 0.5).abs() < 0.1, "bit {bit}: {share}");
    }
}

#[test]
fn chunks_are_made_apart() {
    let task = task_of(|g| {
        let x = g.input("x", DType::F32, [3, 1 << 20]);
        g.relu(x)
    });
    for distribution in [Distribution::Signed, Distribution::Rows, Distribution::Thresholds] {
        let facts = harvest(&task.graph);
        let stream = Stream::new(&task, &facts[0], distribution, 5, &Bindings::new(), 0).unwrap();
        let whole = host_inputs(&task, distribution, 5).unwrap();
        let mut chunk = vec![0.0f32; CHUNK];
        stream.fill(bytemuck::cast_slice_mut(&mut chunk), 1).unwrap();
        assert!(
            whole[0].as_slice::<f32>().unwrap()[CHUNK..2 * CHUNK] == chunk,
            "{distribution}"
        );
    }
}

#[test]
fn thresholds_have_the_constant_and_its_neighbours() {
    let near = |t: f32| [t.next_down(), t, t.next_up()].map(f64::from);
    type Build = fn(&mut Graph, ValueId) -> Result<ValueId>;
    let cases: [(&str, Build, Vec<f64>); 7] = [
        ("gt", |g, x| g.gt(x, 0.1), near(0.1).to_vec()),
        (
            "clamp",
            |g, x| g.clamp(x, Some(-300.0), Some(700.0)),
            [near(-300.0), near(700.0)].concat(),
        ),
        (
            "behind views, a negation and a power of two",
            |g, x| {
                let x = g.transpose(x, 0, 1)?;
                let x = g.mul(x, -4.0)?;
                g.le(x, 3.0)
            },
            near(-0.75).to_vec(),
        ),
        (
            "behind a sum",
            |g, x| {
                let x = g.add(x, 100.0)?;
                g.lt(x, 103.0)
            },
            vec![3.0],
        ),
        (
            "behind a function",
            |g, x| {
                let x = g.exp(x)?;
                g.gt(x, 5.0)
            },
            Vec::new(),
        ),
        ("remainder", |g, x| g.remainder(x, 2.5), vec![2.5, -5.0]),
        ("relu", |g, x| g.relu(x), vec![0.0]),
    ];
    for (name, build, expected) in cases {
        let task = task_of(|g| {
            let x = g.input("x", DType::F32, [60, 60]);
            build(g, x)
        });
        let found = values(&task, Distribution::Thresholds, 1, 0);
        for value in &expected {
            assert!(found.contains(value), "{name}: {value}");
        }
        if name == "behind a function" {
            let t = 5f64.ln();
            let beside =
                |low: f64, high: f64| found.iter().filter(|v| (low..high).contains(&(**v - t))).count();
            // Far enough that rounding decides nothing, on both sides.
            assert!(beside(-2.1e-3, -1e-4) > 20 && beside(1e-4, 2.1e-3) > 20);
            assert!(beside(-1e-6, 1e-6) == 0);
        }
    }
}

#[test]
fn rows_of_all_magnitudes_reach_a_constant_behind_a_product() {
    let task = task_of(|g| {
        let x = g.input("x", DType::F32, [200, 64]);
        let w = g.weight("w", DType::F32, [64, 32]);
        let y = g.matmul(x, w)?;
        g.clamp(y, None, Some(30_000.0))
    });
    let found = values(&task, Distribution::Thresholds, 1, 0);
    let largest = found.iter().fold(0.0f64, |a, v| a.max(v.abs()));
    assert!(largest > 100_000.0, "{largest}");
    let rms = |row: &[f64]| (row.iter().map(|v| v * v).sum::<f64>() / row.len() as f64).sqrt();
    assert!(found.chunks(64).any(|row| rms(row) < 0.01));
}

#[test]
fn integers_without_a_range_take_all_of_their_type_and_indices_their_extent() {
    let task = task_of(|g| {
        let x = g.input("x", DType::I32, [4000]);
        g.add(x, 1i64)
    });
    let found = values(&task, Distribution::Large, 1, 0);
    for value in [f64::from(i32::MIN), f64::from(i32::MAX), 255.0, 256.0, 65_536.0] {
        assert!(found.contains(&value), "{value}");
    }
    assert!(found.iter().filter(|v| v.abs() > 65_536.0).count() > 1000);
    assert!(
        values(&task, Distribution::Signed, 1, 0)
            .iter()
            .all(|v| v.abs() <= 8.0)
    );
    let task = task_of(|g| {
        let table = g.weight("table", DType::F32, [1000, 4]);
        let ids = g.input("ids", DType::I64, [8000]);
        g.embedding(table, ids)
    });
    for distribution in Distribution::ALL {
        let found = values(&task, distribution, 1, 1);
        assert!(found.iter().all(|v| (0.0..1000.0).contains(v)), "{distribution}");
        if matches!(distribution, Distribution::Signed | Distribution::Rows) {
            assert!(found.contains(&0.0) && found.contains(&999.0), "{distribution}");
        }
    }
    let task = task_of(|g| {
        let cache = g.state("cache", DType::F32, [4, 1000]);
        let (at, source) = (
            g.input("at", DType::I64, [8000]),
            g.input("source", DType::F32, [4, 8000]),
        );
        let at = g.reshape(at, [8000])?;
        g.index_copy(cache, -1, at, source)
    });
    for distribution in Distribution::ALL {
        let found = values(&task, distribution, 1, 1);
        assert!(
            found.iter().all(|v| (-1000.0..1000.0).contains(v)),
            "{distribution}"
        );
        match distribution {
            Distribution::Signed => assert!(found.contains(&0.0) && found.contains(&999.0)),
            Distribution::Rows => assert!(found.contains(&-1000.0) && found.contains(&999.0)),
            _ => {}
        }
    }
    // Integers that become floating numbers stay exact, but in one distribution.
    let task = task_of(|g| {
        let x = g.input("x", DType::I64, [4000]);
        g.to_dtype(x, DType::F32)
    });
    let found = values(&task, Distribution::Large, 1, 0);
    assert!(found.iter().all(|v| v.abs() <= 2f64.powi(24)));
    let found = values(&task, Distribution::Apart, 1, 0);
    let lies = |low: u32, high: u32| {
        found
            .iter()
            .any(|v| v.abs().log2() as u32 >= low && v.abs().log2() as u32 <= high)
    };
    assert!(lies(25, 30) && lies(31, 31) && lies(62, 63));
}

#[test]
fn captured_elements_come_again_at_other_sizes() {
    let tensor = Tensor::from_slice([3], &[1i64, 2, 3]).unwrap();
    let longer = resized(tensor.clone(), vec![2, 4]).unwrap();
    assert_eq!(longer.as_slice::<i64>().unwrap(), [1, 2, 3, 1, 2, 3, 1, 2]);
    let shorter = resized(tensor, vec![2]).unwrap();
    assert_eq!(shorter.as_slice::<i64>().unwrap(), [1, 2]);
    let nothing = Tensor::from_slice::<i64>([0], &[]).unwrap();
    assert!(resized(nothing, vec![2]).is_err());
}

/// Captures one tensor for every seed.
#[derive(Debug)]
pub(super) struct Always(pub(super) Tensor);

impl Capture for Always {
    fn capture(&self, positions: &[usize], _seed: u64) -> Result<Vec<Tensor>> {
        Ok(positions.iter().map(|_| self.0.clone()).collect())
    }
}

/// A task whose input at this position a script makes.
pub(super) fn captured(mut task: Task, position: usize, tensor: Tensor) -> Task {
    task.contract.generators = vec![Generator::Normal; task.graph.inputs().len()];
    task.contract.generators[position] = Generator::Captured;
    task.capture = Some(Arc::new(Always(tensor)));
    task
}

#[test]
fn captured_integers_take_other_legal_values() {
    let lengths = |values: [i64; 4]| {
        let task = task_of(|g| {
            let n = g.input("n", DType::I64, [4, 1]);
            let at = g.arange(16, DType::I64)?;
            g.lt(at, n)
        });
        captured(task, 0, Tensor::from_slice([4, 1], &values).unwrap())
    };
    for (made, lo, hi) in [([16; 4], 1.0, 16.0), ([3, 9, 4, 7], 3.0, 9.0)] {
        let task = lengths(made);
        let script: Vec<f64> = made.iter().map(|v| *v as f64).collect();
        assert_eq!(values(&task, Distribution::Contract, 1, 0), script);
        assert_eq!(values(&task, Distribution::Signed, 1, 0), script);
        let mut others = BTreeSet::new();
        for seed in 0..20 {
            let other = values(&task, Distribution::Rows, seed, 0);
            assert!(other.iter().all(|v| (lo..=hi).contains(v)), "{other:?}");
            assert_ne!(other, script);
            others.insert(format!("{other:?}"));
        }
        assert!(others.len() > 4);
        let inputs = host_inputs(&task, Distribution::Contract, 1).unwrap();
        assert!(unvaried(&task, &inputs).unwrap().is_empty());
    }
    // Offsets stay sorted, between the same ends.
    let task = lengths([0, 5, 9, 16]);
    for seed in 0..20 {
        let other = values(&task, Distribution::Rows, seed, 0);
        assert!(
            other.is_sorted() && other[0] == 0.0 && other[3] == 16.0,
            "{other:?}"
        );
    }
    // Zeros say nothing of what else there may be.
    let task = lengths([0; 4]);
    let inputs = host_inputs(&task, Distribution::Contract, 1).unwrap();
    let gaps = unvaried(&task, &inputs).unwrap();
    assert!(gaps.len() == 1 && gaps[0].contains("`n`"), "{gaps:?}");
}

#[test]
fn extremes_are_looked_for_in_rows_far_from_zero() {
    let task = task_of(|g| {
        let x = g.input("x", DType::F32, [64, 8]);
        let scaled = g.neg(x)?;
        g.amax(scaled, &[1], false)
    });
    let found = values(&task, Distribution::OneSided, 1, 0);
    let is_far = |row: &[f64]| row.iter().all(|v| v.abs() > 1e4 && v.signum() == row[0].signum());
    assert!(found.chunks(8).filter(|row| is_far(row)).count() > 8);
    // Sums are not.
    let task = task_of(|g| {
        let x = g.input("x", DType::F32, [64, 8]);
        g.exp(x)
    });
    assert!(
        values(&task, Distribution::OneSided, 1, 0)
            .iter()
            .all(|v| v.abs() < 200.0)
    );
}

#[test]
fn weights_change_nothing_in_one_distribution() {
    let task = task_of(|g| {
        let (x, w, b) = (
            g.input("x", DType::F32, [4, 8]),
            g.weight("w", DType::F32, [8]),
            g.weight("b", DType::F32, [8]),
        );
        let scaled = g.mul(x, w)?;
        g.add(scaled, b)
    });
    assert_eq!(values(&task, Distribution::Tiny, 1, 1), [1.0; 8]);
    assert_eq!(values(&task, Distribution::Tiny, 1, 2), [0.0; 8]);
    assert_ne!(values(&task, Distribution::Large, 1, 1), [1.0; 8]);
}

#[test]
fn masks_are_of_one_value_or_triangles() {
    let task = task_of(|g| {
        let (x, mask) = (
            g.input("x", DType::F32, [6, 6]),
            g.input("mask", DType::Bool, [6, 6]),
        );
        g.masked_fill(x, mask, 0.0)
    });
    for (distribution, value) in [
        (Distribution::Zeros, 0.0),
        (Distribution::Ties, 0.0),
        (Distribution::Constant, 1.0),
        (Distribution::Extremes, 1.0),
    ] {
        assert_eq!(values(&task, distribution, 1, 1), [value; 36]);
    }
    // Where the column is less than the row, equal to it, and greater.
    for (distribution, expected) in [
        (Distribution::Offset, [0.0, 0.0, 1.0]),
        (Distribution::Apart, [1.0, 1.0, 0.0]),
        (Distribution::Large, [0.0, 1.0, 1.0]),
        (Distribution::Tiny, [1.0, 0.0, 0.0]),
    ] {
        for (at, value) in values(&task, distribution, 1, 1).into_iter().enumerate() {
            let order = (at % 6).cmp(&(at / 6)) as isize;
            assert_eq!(value, expected[(order + 1) as usize], "{distribution} at {at}");
        }
    }
}

#[test]
fn indices_come_in_runs_in_one_distribution() {
    let task = task_of(|g| {
        let (x, at) = (
            g.input("x", DType::F32, [50, 3]),
            g.input("at", DType::I64, [600]),
        );
        g.index_select(x, 0, at)
    });
    let longest = |distribution| {
        let found = values(&task, distribution, 1, 1);
        let runs = found.chunk_by(|a, b| a == b).map(<[f64]>::len);
        (runs.clone().max(), runs.count())
    };
    let (longest_tie, ties) = longest(Distribution::Ties);
    assert!(longest_tie >= Some(200) && ties > 50);
    assert!(longest(Distribution::Signed).0 < Some(10));
}

#[test]
fn places_are_counted_from_the_end_where_they_may_be() {
    let task = |op: &str| {
        task_of(|g| {
            let x = g.input("x", DType::F32, [5, 3]);
            let at = g.input("at", DType::I64, [64]);
            match op {
                "index" => g.call(
                    "index.Tensor",
                    [("self", x.into()), ("indices", Arg::Values(vec![Some(at)]))],
                ),
                _ => g.call(
                    "index_select.default",
                    [("self", x.into()), ("dim", 0.into()), ("index", at.into())],
                ),
            }
            .map(|outputs| outputs[0])
        })
    };
    let found = values(&task("index"), Distribution::Large, 1, 1);
    assert!(found.contains(&-5.0) && found.contains(&4.0) && found.iter().all(|v| (-5.0..5.0).contains(v)));
    let found = values(&task("index_select"), Distribution::Large, 1, 1);
    assert!(found.iter().all(|v| (0.0..5.0).contains(v)));
}

#[test]
fn divisors_of_a_script_have_other_values_but_zero() {
    let task = task_of(|g| {
        let (x, by) = (g.input("x", DType::I32, [8]), g.input("by", DType::I32, [8]));
        g.call("remainder.Tensor", [("self", x.into()), ("other", by.into())])
            .map(|outputs| outputs[0])
    });
    let made = [-3i32, 2, 1, -1, 3, -2, 2, 1];
    let task = captured(task, 1, Tensor::from_slice([8], &made).unwrap());
    let mut others = BTreeSet::new();
    for seed in 0..20 {
        let other = values(&task, Distribution::Rows, seed, 1);
        assert!(
            other.iter().all(|v| (-3.0..=3.0).contains(v) && *v != 0.0),
            "{other:?}"
        );
        others.insert(format!("{other:?}"));
    }
    assert!(others.len() > 4);
    // Divisors that are indices, too, and all alike.
    let task = task_of(|g| {
        let (x, table) = (g.input("x", DType::I64, [8]), g.input("table", DType::I64, [5]));
        let by = g.input("by", DType::I64, [8]);
        let rest = g.call("remainder.Tensor", [("self", x.into()), ("other", by.into())])?[0];
        let row = g.index_select(table, 0, by)?;
        g.add(rest, row)
    });
    let task = captured(task, 2, Tensor::from_slice([8], &[2i64; 8]).unwrap());
    for seed in 0..20 {
        let other = values(&task, Distribution::Rows, seed, 2);
        assert!(other.iter().all(|v| (1.0..=4.0).contains(v)), "{other:?}");
    }
}

#[test]
fn what_is_written_to_stays_where_the_script_wants_it() {
    let task = task_of(|g| {
        let x = g.input("x", DType::F32, [8]);
        let at = g.input("at", DType::I64, [3]);
        g.call(
            "scatter.value",
            [
                ("self", x.into()),
                ("dim", 0i64.into()),
                ("index", at.into()),
                ("value", 1.0.into()),
            ],
        )
        .map(|outputs| outputs[0])
    });
    let task = captured(task, 1, Tensor::from_slice([3], &[4i64, 0, 2]).unwrap());
    for distribution in Distribution::ALL {
        assert_eq!(
            values(&task, distribution, 1, 1),
            [4.0, 0.0, 2.0],
            "{distribution}"
        );
    }
    let inputs = host_inputs(&task, Distribution::Contract, 1).unwrap();
    let gaps = unvaried(&task, &inputs).unwrap();
    assert!(gaps.len() == 1 && gaps[0].contains("written"), "{gaps:?}");
}

#[test]
fn places_of_replaced_slices_take_other_values() {
    for (made, lo, hi) in [([5, 6, 7], 5.0, 7.0), ([5, 5, 5], 0.0, 63.0)] {
        let task = task_of(|g| {
            let (cache, at) = (
                g.input("cache", DType::F32, [2, 64]),
                g.input("at", DType::I64, [3]),
            );
            let source = g.input("source", DType::F32, [2, 3]);
            g.index_copy(cache, 1, at, source)
        });
        let task = captured(task, 1, Tensor::from_slice([3], &made).unwrap());
        let mut others = BTreeSet::new();
        for seed in 0..20 {
            let other = values(&task, Distribution::Rows, seed, 1);
            assert!(other.iter().all(|v| (lo..=hi).contains(v)), "{other:?}");
            others.insert(format!("{other:?}"));
        }
        assert!(others.len() > 4);
        let inputs = host_inputs(&task, Distribution::Contract, 1).unwrap();
        assert!(unvaried(&task, &inputs).unwrap().is_empty());
    }
}

#[test]
fn booleans_of_a_script_keep_how_many_are_true_in_a_row() {
    let task = task_of(|g| {
        let x = g.input("x", DType::F32, [4, 4]);
        let mask = g.input("mask", DType::Bool, [4, 4]);
        g.masked_fill(x, mask, 0.0)
    });
    let causal: Vec<bool> = (0..16).map(|i| i % 4 > i / 4).collect();
    let task = captured(task, 1, Tensor::from_bools([4, 4], &causal).unwrap());
    let count = |values: &[f64]| {
        values
            .chunks(4)
            .map(|row| row.iter().sum::<f64>())
            .collect::<Vec<_>>()
    };
    let script = values(&task, Distribution::Contract, 1, 1);
    for seed in 0..10 {
        let other = values(&task, Distribution::Large, seed, 1);
        assert_ne!(other, script);
        assert_eq!(count(&other), count(&script));
    }
}

#[test]
fn variances_that_a_module_keeps_as_they_are_have_a_root() {
    let task = task_of(|g| {
        let x = g.input("x", DType::F32, [6, 5]);
        let [mean, variance, free] = ["mean", "variance", "free"].map(|name| g.weight(name, DType::F32, [5]));
        let shifted = g.add(variance, 1e-5)?;
        let scale = g.rsqrt(shifted)?;
        let centred = g.sub(x, mean)?;
        let norm = g.mul(centred, scale)?;
        let square = g.pow(free, 2.0)?;
        let total = g.sum(square, &[0], false)?;
        g.mul(norm, total)
    });
    let not_positive = |position| {
        let has = |distribution: &&Distribution| {
            values(&task, **distribution, 9, position)
                .iter()
                .any(|v| *v <= 0.0)
        };
        Distribution::ALL.iter().filter(has).count()
    };
    assert_eq!(not_positive(2), 0);
    assert!(not_positive(1) > 3 && not_positive(3) > 3);
    for distribution in Distribution::ALL {
        if distribution != Distribution::Special {
            let inputs = host_inputs(&task, distribution, 9).unwrap();
            let y = evaluate(&task.graph, &inputs, &Options::default()).unwrap()[0].to_f64();
            assert!(y.iter().all(|v| v.is_finite()), "{distribution}");
        }
    }
}
