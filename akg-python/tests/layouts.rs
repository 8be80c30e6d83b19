//! Arguments of modules that are not dense and row-major.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use akg_core::graph::Layout;
use akg_core::reference::{Options, evaluate};
use akg_core::{Accuracy, Tensor};
use akg_python::{
    BaselineOptions, BaselineTask, BaselineWorker, Baselines, ImportOptions, ImportedModule, Seeds, Variant,
};
use common::{environment, module, python};

/// PyTorch's results for the arguments in their layouts.
fn eager(module: &ImportedModule, inputs: &[Tensor]) -> Vec<Tensor> {
    let task = BaselineTask::Module(module);
    let worker = BaselineWorker::new(environment().unwrap(), task, "cpu", None).unwrap();
    let sets = vec![inputs.to_vec()];
    let mut baselines = Baselines::new(worker, task, sets, BaselineOptions::default()).unwrap();
    baselines.prepare(Variant::Eager(Accuracy::Fp32)).unwrap()
}

#[test]
fn arguments_keep_their_layouts() {
    let Some(mut python) = python() else { return };
    let mut options = ImportOptions::default();
    options.refresh = true;
    let module = python
        .import(&module("layouts.py"), &options, &mut |_| {})
        .unwrap();
    let layouts: Vec<_> = module.graph.inputs().iter().map(|i| i.layout.clone()).collect();
    let layout = |shape: &[usize], strides: &[usize]| {
        Some(Layout {
            shape: shape.to_vec(),
            strides: strides.to_vec(),
        })
    };
    let expected = [
        layout(&[8, 6], &[1, 8]),
        layout(&[3, 6], &[0, 1]),
        layout(&[3, 7], &[21, 1]),
        layout(&[4, 5], &[12, 2]),
        layout(&[2, 3, 4, 4], &[48, 1, 12, 3]),
        layout(&[9, 4], &[2, 1]),
        layout(&[5, 3], &[1, 5]),
        None,
    ];
    assert_eq!(layouts, expected);

    let inputs = python.materialize(&module, Seeds::default()).unwrap();
    let spans: Vec<usize> = inputs
        .iter()
        .map(|tensor| tensor.shape().iter().product())
        .collect();
    let storage = |layout: &Option<Layout>| layout.as_ref().map_or(15, |layout| layout.span().unwrap());
    assert_eq!(spans, expected.iter().map(storage).collect::<Vec<_>>());
    let ours = evaluate(&module.graph, &inputs, &Options::default()).unwrap();
    let theirs = eager(&module, &inputs);
    assert_eq!(ours.len(), theirs.len());
    for (at, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
        assert_eq!(ours.shape, theirs.shape(), "output {at}");
        for (a, b) in ours.to_f64().into_iter().zip(theirs.to_f64().unwrap()) {
            assert!(
                (a - b).abs() <= 1e-5 * b.abs().max(1.0),
                "output {at}: {a} and {b}"
            );
        }
    }
}
