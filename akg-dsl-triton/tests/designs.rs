//! What the Designer makes of whole operators, as Triton kernels in Triton's own interpreter against the reference in f64.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

mod support;

use akg_core::designer::design;
use akg_core::expr::Bindings;
use akg_core::graph::{Arg, Graph, ValueId};
use akg_core::reference::{Options, evaluate};
use akg_core::task::Task;
use akg_core::{DType, Dsl, Result, Tensor};
use akg_dsl_triton::TritonDsl;

/// A graph of one operator of inputs with these names and shapes.
fn operator(op: &str, inputs: &[(&str, &[i64])], arguments: Vec<(&str, Arg)>) -> Graph {
    graph(op, |g| {
        let mut all = arguments;
        for (name, shape) in inputs {
            all.push((name, g.input(name, DType::F32, shape.to_vec()).into()));
        }
        g.call(op, all).map(|y| y[0])
    })
}

fn graph(name: &str, build: impl FnOnce(&mut Graph) -> Result<ValueId>) -> Graph {
    let mut graph = Graph::new(name);
    let y = build(&mut graph).unwrap();
    graph.output(y);
    graph
}

fn list(values: &[i64]) -> Arg {
    values.into()
}

fn graphs() -> Vec<Graph> {
    vec![
        operator(
            "max_pool2d.default",
            &[("self", &[2, 3, 13, 20])],
            vec![
                ("kernel_size", list(&[3, 2])),
                ("stride", list(&[2, 3])),
                ("padding", list(&[1, 1])),
            ],
        ),
        operator(
            "avg_pool1d.default",
            &[("self", &[2, 3, 40])],
            vec![
                ("kernel_size", list(&[5])),
                ("stride", list(&[3])),
                ("padding", list(&[2])),
                ("count_include_pad", false.into()),
            ],
        ),
        operator(
            "conv2d.default",
            &[
                ("input", &[2, 18, 9, 11]),
                ("weight", &[20, 18, 3, 2]),
                ("bias", &[20]),
            ],
            vec![
                ("stride", list(&[2, 1])),
                ("padding", list(&[1, 0])),
                ("dilation", list(&[1, 2])),
            ],
        ),
        operator(
            "conv2d.default",
            &[("input", &[2, 6, 9, 11]), ("weight", &[6, 1, 3, 3])],
            vec![("padding", list(&[1, 1])), ("groups", 6i64.into())],
        ),
        operator(
            "conv_transpose2d.input",
            &[("input", &[2, 18, 5, 6]), ("weight", &[18, 4, 3, 3])],
            vec![("stride", list(&[2, 2])), ("padding", list(&[1, 0]))],
        ),
        operator(
            "scaled_dot_product_attention.default",
            &[
                ("query", &[2, 2, 20, 16]),
                ("key", &[2, 2, 20, 16]),
                ("value", &[2, 2, 20, 16]),
            ],
            vec![("is_causal", true.into())],
        ),
        graph("pool_of_convolution", |g| {
            let (x, w) = (
                g.input("x", DType::F32, [2, 4, 12, 12]),
                g.input("w", DType::F32, [20, 4, 3, 3]),
            );
            let call = [
                ("input", x.into()),
                ("weight", w.into()),
                ("padding", list(&[1, 1])),
            ];
            let y = g.call("conv2d.default", call)?[0];
            let y = g.relu(y)?;
            let call = [
                ("self", y.into()),
                ("kernel_size", list(&[3, 3])),
                ("stride", list(&[2, 2])),
            ];
            g.call("max_pool2d.default", call).map(|y| y[0])
        }),
        // Each kernel sees what the one before it wrote in other extents.
        graph("layer_of_norm_of_convolution", |g| {
            let (x, w) = (
                g.input("x", DType::F32, [2, 4, 9, 8]),
                g.input("w", DType::F32, [6, 4, 3, 3]),
            );
            let call = [("input", x.into()), ("weight", w.into())];
            let y = g.call("conv2d.default", call)?[0];
            let y = g.group_norm(y, 3, None, None, 1e-5)?;
            let y = g.flatten(y, 1, 3)?;
            let w = g.input("layer", DType::F32, [5, 252]);
            g.linear(y, w, None)
        }),
    ]
}

/// Values in -1..1 that no simple pattern explains.
fn values(shape: &[usize], seed: usize) -> Tensor {
    let mut state = (seed as u32).wrapping_mul(2_654_435_761);
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1u32 << 23) as f32 - 1.0
    };
    let values: Vec<f32> = (0..shape.iter().product()).map(|_| next()).collect();
    Tensor::from_slice(shape.to_vec(), &values).unwrap()
}

#[test]
fn designed_windows_match_the_reference() {
    let Some(python) = support::python() else { return };
    let dsl = TritonDsl::default();
    let target = support::with_tensor_cores();
    let (mut jobs, mut checks) = (Vec::new(), Vec::new());
    for graph in graphs() {
        let name = graph.name().to_owned();
        let inputs: Vec<Tensor> = graph
            .given()
            .enumerate()
            .map(|(seed, value)| {
                let shape = graph.ty(value).shape.iter();
                let shape: Vec<usize> = shape.map(|e| e.as_const().unwrap() as usize).collect();
                values(&shape, seed + 1)
            })
            .collect();
        let exact = evaluate(&graph, &inputs, &Options::default()).unwrap();
        let task = Task::new(name.clone(), graph);
        let design = design(&task, &target).unwrap();
        let source = dsl.lower(&design.sketch, &design.knobs, &target).unwrap();
        let label = format!("design_{}", jobs.len());
        jobs.push(support::run_job(&label, &source, &Bindings::new(), &inputs));
        checks.push((name, source, exact[0].to_f64()));
    }
    for ((name, source, exact), result) in checks.iter().zip(support::interpret(python, &jobs)) {
        let got = support::outputs(source, &Bindings::new(), &result);
        let got = got[0].to_f64().unwrap();
        assert_eq!(got.len(), exact.len(), "{name}");
        for (at, (got, want)) in got.iter().zip(exact).enumerate() {
            let error = (got - want).abs();
            assert!(
                error <= 1e-5,
                "{name}: element {at} is {got}, not {want}\n{}",
                source.text
            );
        }
    }
}
