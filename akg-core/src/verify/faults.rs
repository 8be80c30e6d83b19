//! Faults that ordinary numbers do not show, against the data that every candidate meets.
//!
//! A fault is a graph that differs from the honest one only for some inputs; its results are judged as a candidate's are.

use std::sync::Arc;

use half::{bf16, f16};

use super::inputs::{Distribution, host_inputs};
use super::judge_all;
use super::numeric::NumericVerifier;
use crate::dtype::DType;
use crate::error::Result;
use crate::graph::{Graph, ValueId};
use crate::reference::{Buffer, Options, Outcome, Precision, evaluate};
use crate::task::{Capture, Generator, Task};
use crate::tensor::Tensor;

type Build = fn(&mut Graph, bool) -> Result<ValueId>;

/// A graph, or the same with a fault.
struct Fault {
    name: &'static str,
    /// With `true`, the faulty graph.
    build: Build,
}

fn graph_of(build: Build, is_faulty: bool) -> Graph {
    let mut graph = Graph::new("g");
    let y = build(&mut graph, is_faulty).unwrap();
    graph.output(y);
    graph
}

/// The elements as a kernel stores them.
fn stored(outcome: &Outcome) -> Tensor {
    let shape = outcome.shape.clone();
    let floats = outcome.to_f64();
    let exact: Vec<i64> = match &outcome.data {
        Buffer::Int(values) => values.clone(),
        _ => floats.iter().map(|v| *v as i64).collect(),
    };
    fn all<A: Copy, B: crate::tensor::Element>(
        shape: Vec<usize>,
        values: &[A],
        f: impl Fn(A) -> B,
    ) -> Tensor {
        let values: Vec<B> = values.iter().map(|v| f(*v)).collect();
        Tensor::from_slice(shape, &values).unwrap()
    }
    match outcome.dtype {
        DType::F64 => all(shape, &floats, |v| v),
        DType::F32 => all(shape, &floats, |v| v as f32),
        DType::F16 => all(shape, &floats, f16::from_f64),
        DType::BF16 => all(shape, &floats, bf16::from_f64),
        DType::Bool => {
            Tensor::from_bools(shape, &floats.iter().map(|v| *v != 0.0).collect::<Vec<_>>()).unwrap()
        }
        DType::U8 => all(shape, &exact, |v| v as u8),
        DType::I8 => all(shape, &exact, |v| v as i8),
        DType::I16 => all(shape, &exact, |v| v as i16),
        DType::I32 => all(shape, &exact, |v| v as i32),
        DType::I64 => all(shape, &exact, |v| v),
    }
}

fn outputs(graph: &Graph, inputs: &[Tensor], precision: Precision) -> Vec<Tensor> {
    let inputs = &inputs[..graph.inputs().len()];
    let options = Options {
        precision,
        ..Options::default()
    };
    evaluate(graph, inputs, &options)
        .unwrap()
        .iter()
        .map(stored)
        .collect()
}

/// The distributions under which the data of a verification shows the fault.
fn found(task: &Task, faulty: &Graph, seed: u64) -> Vec<Distribution> {
    let mut list = NumericVerifier::default().distributions;
    list.dedup();
    let shows = |(number, distribution): (usize, &Distribution)| {
        let seed = seed * 1000 + number as u64;
        let inputs = host_inputs(task, *distribution, seed).unwrap();
        for precision in [Precision::F64, Precision::F32Pairwise] {
            let honest = outputs(&task.graph, &inputs, precision);
            let failure = judge_all(task, &inputs, &honest, seed).unwrap();
            assert_eq!(failure, None, "{}: {distribution}, {precision:?}", task.name);
        }
        let wrong = outputs(faulty, &inputs, Precision::F32Pairwise);
        judge_all(task, &inputs, &wrong, seed)
            .unwrap()
            .map(|_| *distribution)
    };
    list.iter().enumerate().filter_map(shows).collect()
}

fn x(g: &mut Graph) -> ValueId {
    g.input("x", DType::F32, [48, 40])
}

/// Adds one to the elements for which `when` holds, if the graph is to be wrong.
fn wrong_when(g: &mut Graph, y: ValueId, when: ValueId, is_faulty: bool) -> Result<ValueId> {
    if !is_faulty {
        return Ok(y);
    }
    let when = g.to_dtype(when, DType::F32)?;
    g.add(y, when)
}

const FAULTS: &[Fault] = &[
    Fault {
        name: "greater or equal for greater",
        build: |g, is_faulty| {
            let x = x(g);
            if is_faulty { g.ge(x, 0.1) } else { g.gt(x, 0.1) }
        },
    },
    Fault {
        name: "less or equal for less, behind a negation and a scale",
        build: |g, is_faulty| {
            let x = x(g);
            let y = g.mul(x, -2.0)?;
            let y = g.reshape(y, [40, 48])?;
            if is_faulty { g.le(y, 17.0) } else { g.lt(y, 17.0) }
        },
    },
    Fault {
        name: "a clamp left out, far beyond the data",
        build: |g, is_faulty| {
            let x = x(g);
            let y = g.mul(x, 0.5)?;
            if is_faulty {
                Ok(y)
            } else {
                g.clamp(y, Some(-5000.0), Some(9000.0))
            }
        },
    },
    Fault {
        name: "a clamp left out behind a product",
        build: |g, is_faulty| {
            let x = x(g);
            let w = g.weight("w", DType::F32, [40, 24]);
            let y = g.matmul(x, w)?;
            if is_faulty {
                Ok(y)
            } else {
                g.clamp(y, None, Some(3000.0))
            }
        },
    },
    Fault {
        name: "the upper end of relu6 left out of a half",
        build: |g, is_faulty| {
            let x = g.input("x", DType::F16, [48, 40]);
            if is_faulty {
                g.relu(x)
            } else {
                g.call("relu6.default", [("self", x.into())]).map(|o| o[0])
            }
        },
    },
    Fault {
        name: "rms norm without its epsilon",
        build: |g, is_faulty| {
            let x = x(g);
            g.rms_norm(x, [40], None, if is_faulty { 0.0 } else { 1e-6 })
        },
    },
    Fault {
        name: "a division without its epsilon",
        build: |g, is_faulty| {
            let x = x(g);
            let sum = g.abs(x)?;
            let sum = g.sum(sum, &[1], true)?;
            let sum = if is_faulty { sum } else { g.add(sum, 1e-6)? };
            g.div(x, sum)
        },
    },
    Fault {
        name: "an epsilon left out along the first axis",
        build: |g, is_faulty| {
            let x = x(g);
            let squares = g.mul(x, x)?;
            let mean = g.mean(squares, &[0], true)?;
            let mean = if is_faulty { mean } else { g.add(mean, 1e-5)? };
            let norm = g.rsqrt(mean)?;
            g.mul(x, norm)
        },
    },
    Fault {
        name: "wrong in rows of equal elements",
        build: |g, is_faulty| {
            let x = x(g);
            let (high, low) = (g.amax(x, &[1], true)?, g.amin(x, &[1], true)?);
            let alike = g.eq(high, low)?;
            wrong_when(g, x, alike, is_faulty)
        },
    },
    Fault {
        name: "wrong where all elements are equal",
        build: |g, is_faulty| {
            let x = x(g);
            let (high, low) = (g.amax(x, &[0, 1], true)?, g.amin(x, &[0, 1], true)?);
            let alike = g.eq(high, low)?;
            wrong_when(g, x, alike, is_faulty)
        },
    },
    Fault {
        name: "wrong where all elements are zero",
        build: |g, is_faulty| {
            let x = x(g);
            let sizes = g.abs(x)?;
            let high = g.amax(sizes, &[0, 1], true)?;
            let zero = g.eq(high, 0.0)?;
            wrong_when(g, x, zero, is_faulty)
        },
    },
    Fault {
        name: "wrong where neighbours are equal",
        build: |g, is_faulty| {
            let x = x(g);
            let left = g.slice(x, 1, 0, 39, 1)?;
            let right = g.slice(x, 1, 1, 40, 1)?;
            let alike = g.eq(left, right)?;
            wrong_when(g, left, alike, is_faulty)
        },
    },
    Fault {
        name: "wrong in descending rows",
        build: |g, is_faulty| {
            let x = x(g);
            let left = g.slice(x, 1, 0, 39, 1)?;
            let right = g.slice(x, 1, 1, 40, 1)?;
            let falls = g.gt(left, right)?;
            let falls = g.all(falls, &[1], true)?;
            wrong_when(g, left, falls, is_faulty)
        },
    },
    Fault {
        name: "wrong in rows that are zero but for one element",
        build: |g, is_faulty| {
            let x = x(g);
            let some = g.ne(x, 0.0)?;
            let count = g.sum(some, &[1], true)?;
            let hot = g.eq(count, 1i64)?;
            wrong_when(g, x, hot, is_faulty)
        },
    },
    Fault {
        name: "only the lowest byte of an integer",
        build: |g, is_faulty| {
            let x = g.input("x", DType::I32, [300]);
            let y = g.add(x, 3i64)?;
            if !is_faulty {
                return Ok(y);
            }
            let low = g.call(
                "bitwise_and.Scalar",
                [("self", y.into()), ("other", 255i64.into())],
            )?[0];
            let low = g.call(
                "bitwise_xor.Scalar",
                [("self", low.into()), ("other", 128i64.into())],
            )?[0];
            g.sub(low, 128i64)
        },
    },
    Fault {
        name: "saturating for wrapping",
        build: |g, is_faulty| {
            let (x, y) = (g.input("x", DType::I8, [300]), g.input("y", DType::I8, [300]));
            if !is_faulty {
                return g.add(x, y);
            }
            let (x, y) = (g.to_dtype(x, DType::I32)?, g.to_dtype(y, DType::I32)?);
            let sum = g.add(x, y)?;
            let sum = g.clamp(sum, Some(-128.0), Some(127.0))?;
            g.to_dtype(sum, DType::I8)
        },
    },
    Fault {
        name: "a remainder of integers by another divisor above a bound",
        build: |g, is_faulty| {
            let x = g.input("x", DType::I64, [300]);
            let y = g.remainder(x, 1000i64)?;
            if is_faulty {
                g.call("fmod.Scalar", [("self", x.into()), ("other", 1000i64.into())])
                    .map(|o| o[0])
            } else {
                Ok(y)
            }
        },
    },
    Fault {
        name: "a counter that never counts",
        build: |g, is_faulty| {
            let count = g.state("count", DType::I64, [1]);
            let next = g.add(count, 1i64)?;
            if is_faulty {
                g.full([1], 1.0, DType::I64)
            } else {
                Ok(next)
            }
        },
    },
    Fault {
        name: "a running mean that is not read",
        build: |g, is_faulty| {
            let x = x(g);
            let mean = g.state("mean", DType::F32, [40]);
            let y = g.sub(x, mean)?;
            if is_faulty { g.sub(x, 0.0) } else { Ok(y) }
        },
    },
];

#[test]
fn the_standard_data_shows_what_ordinary_numbers_do_not() {
    for fault in FAULTS {
        let mut task = Task::new(fault.name, graph_of(fault.build, false));
        task.name = fault.name.to_owned();
        let faulty = graph_of(fault.build, true);
        for seed in 1..4 {
            let found = found(&task, &faulty, seed);
            assert!(!found.is_empty(), "{}, seed {seed}", fault.name);
        }
    }
}

/// Captures the same tensor for every seed.
#[derive(Debug)]
struct Always(Tensor);

impl Capture for Always {
    fn capture(&self, positions: &[usize], _seed: u64) -> Result<Vec<Tensor>> {
        Ok(positions.iter().map(|_| self.0.clone()).collect())
    }
}

#[test]
fn lengths_and_positions_that_a_script_makes_alike_must_be_read() {
    let lengths: Build = |g, is_faulty| {
        let n = g.input("n", DType::I64, [48, 1]);
        let x = g.input("x", DType::F32, [48, 40]);
        let at = g.arange(40, DType::I64)?;
        let valid = g.lt(at, n)?;
        let valid = g.to_dtype(valid, DType::F32)?;
        let y = if is_faulty { x } else { g.mul(x, valid)? };
        g.sum(y, &[1], false)
    };
    let positions: Build = |g, is_faulty| {
        let at = g.input("at", DType::I64, [48]);
        let table = g.input("table", DType::F32, [40, 8]);
        let rows = g.embedding(table, at)?;
        if is_faulty {
            let first = g.slice(table, 0, 0, 1, 1)?;
            return g.expand(first, [48, 8]);
        }
        Ok(rows)
    };
    for (build, made) in [
        (lengths, Tensor::from_slice([48, 1], &[40i64; 48]).unwrap()),
        (positions, Tensor::from_slice([48], &[0i64; 48]).unwrap()),
    ] {
        let mut task = Task::new("captured", graph_of(build, false));
        task.contract.generators = vec![Generator::Captured, Generator::Normal];
        task.capture = Some(Arc::new(Always(made)));
        let faulty = graph_of(build, true);
        for seed in 1..4 {
            let found = found(&task, &faulty, seed);
            assert!(!found.is_empty());
            // As the script makes them, they hide it.
            assert!(!found.contains(&Distribution::Contract));
        }
    }
}
