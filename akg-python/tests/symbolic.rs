//! Modules with open sizes: one graph computes what PyTorch does at several of them.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use akg_core::designer::design;
use akg_core::error::ErrorKind;
use akg_core::expr::Bindings;
use akg_core::reference::{Options, evaluate};
use akg_core::target::Target;
use akg_core::{Accuracy, DType, Graph, Task, Tensor};
use akg_python::{
    BaselineOptions, BaselineTask, BaselineWorker, Baselines, ImportOptions, ImportedModule, OpenDim, Seeds,
    Variant,
};
use common::{environment, module, python};

/// An open dimension: argument, dimension, multiple and symbol.
type Open<'a> = (usize, usize, i64, &'a str);

fn options(dims: &[Open<'_>]) -> ImportOptions {
    let open = dims.iter().map(|(argument, dim, multiple, symbol)| OpenDim {
        argument: *argument,
        dim: *dim,
        symbol: (*symbol).to_owned(),
        multiple: *multiple,
        low: 1,
        high: None,
    });
    let mut options = ImportOptions::default();
    options.refresh = true;
    options.open = open.collect();
    options
}

/// Inputs of other sizes: the elements of those of the example, again and again.
fn inputs(graph: &Graph, example: &[Tensor], dims: &Bindings) -> Vec<Tensor> {
    let pairs = graph.inputs().iter().zip(example);
    let resized = pairs.map(|(input, example)| {
        let shape = graph.ty(input.value).concrete_shape(dims).unwrap();
        let values = example.to_f64().unwrap();
        let count = shape.iter().product();
        let values: Vec<f64> = values.into_iter().cycle().take(count).collect();
        match example.dtype() {
            DType::I64 => {
                let values: Vec<i64> = values.into_iter().map(|v| v as i64).collect();
                Tensor::from_slice(shape, &values).unwrap()
            }
            _ => {
                let values: Vec<f32> = values.into_iter().map(|v| v as f32).collect();
                Tensor::from_slice(shape, &values).unwrap()
            }
        }
    });
    resized.collect()
}

/// What PyTorch computes.
fn eager(module: &ImportedModule, inputs: &[Tensor]) -> Vec<Tensor> {
    let task = BaselineTask::Module(module);
    let worker = BaselineWorker::new(environment().unwrap(), task, "cpu", None).unwrap();
    let mut baselines =
        Baselines::new(worker, task, vec![inputs.to_vec()], BaselineOptions::default()).unwrap();
    baselines.prepare(Variant::Eager(Accuracy::Fp32)).unwrap()
}

#[test]
fn one_graph_serves_all_open_sizes() {
    let Some(mut python) = python() else { return };
    let sequence: &[Open<'_>] = &[(0, 0, 1, "B"), (0, 1, 1, "L"), (1, 0, 1, "B")];
    let image: &[Open<'_>] = &[(0, 0, 1, "B"), (0, 2, 2, "H"), (0, 3, 1, "W")];
    for (name, dims, ranges, sizes) in [
        (
            "open_sequence.py",
            sequence,
            [("L", 24)],
            [[("B", 3), ("L", 9)], [("B", 2), ("L", 24)]],
        ),
        (
            "open_image.py",
            image,
            [("H", 1 << 14)],
            [[("H", 3), ("W", 8)], [("H", 2), ("W", 5)]],
        ),
    ] {
        let opened = python.import(&module(name), &options(dims), &mut |_| {}).unwrap();
        for (symbol, high) in ranges {
            let range = opened.ranges.iter().find(|range| range.symbol == symbol).unwrap();
            assert_eq!(range.high, Some(high), "{name}");
        }
        let closed = python
            .import(&module(name), &ImportOptions::default(), &mut |_| {})
            .unwrap();
        let example = python.materialize(&closed, Seeds::default()).unwrap();
        let mut task = Task::new(name, opened.graph.clone());
        for size in sizes {
            let dims: Bindings = [("B", 2)]
                .into_iter()
                .chain(size)
                .map(|(s, v)| (s.into(), v))
                .collect();
            let given = inputs(&opened.graph, &example, &dims);
            let ours = evaluate(&opened.graph, &given, &Options::default()).unwrap();
            let mut bound = opened.clone();
            bound.graph = opened.graph.bind(&dims).unwrap();
            let theirs = eager(&bound, &given);
            assert_eq!(ours.len(), theirs.len());
            for (ours, theirs) in ours.iter().zip(&theirs) {
                assert_eq!(ours.shape, theirs.shape(), "{name}, {dims:?}");
                for (a, b) in ours.to_f64().into_iter().zip(theirs.to_f64().unwrap()) {
                    assert!(
                        (a - b).abs() <= 1e-4 * b.abs().max(1.0),
                        "{name}, {dims:?}: {a} and {b}"
                    );
                }
            }
            task.contract.hints = dims;
        }
        design(&task, &Target::new("cpu", "x86_64")).unwrap_or_else(|e| panic!("{name}: {e}"));
    }
}

#[test]
fn sizes_that_cannot_be_open_are_named() {
    let Some(mut python) = python() else { return };
    for (name, dims, words) in [
        ("open_multiple.py", &[(0, 1, 1, "L")][..], "`4*L`"),
        ("open_sequence.py", &[(0, 2, 1, "C")], "static shape of 16"),
    ] {
        let error = python
            .import(&module(name), &options(dims), &mut |_| {})
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[test]
fn cotangents_of_open_sizes_are_open() {
    let Some(mut python) = python() else { return };
    let mut options = options(&[(0, 0, 1, "N")]);
    options.backward = true;
    let opened = python
        .import(&module("gradients_open.py"), &options, &mut |_| {})
        .unwrap();
    let types = opened
        .graph
        .inputs()
        .iter()
        .map(|i| opened.graph.ty(i.value).to_string());
    let types: Vec<_> = types.collect();
    assert!(types.contains(&"f32[5*N, 8]".to_owned()), "{types:?}");
    assert!(!opened.graph.outputs().is_empty());
}
