//! Gradients of modules: what the graphs compute is what autograd computes.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use akg_core::bundle::structure::Structure;
use akg_core::error::{ErrorKind, Result};
use akg_core::reference::{Options, evaluate};
use akg_core::{Accuracy, Graph, Tensor};
use akg_python::{
    BaselineOptions, BaselineTask, BaselineWorker, Baselines, Generator, ImportOptions, ImportedModule, Job,
    Precision, Python, Seeds, Variant,
};
use common::{environment, module, python};

const EAGER: Variant = Variant::Eager(Accuracy::Fp32);
const COMPILED: Variant = Variant::Compiled(Accuracy::Fp32);

/// Imports a module of the tests with its gradients.
fn import(python: &mut Python, name: &str) -> Result<ImportedModule> {
    let mut options = ImportOptions::default();
    options.refresh = true;
    options.backward = true;
    python.import(&module(name), &options, &mut |_| {})
}

fn outputs(graph: &Graph) -> Vec<&str> {
    graph
        .outputs()
        .iter()
        .map(|o| graph.value_name(o.value))
        .collect()
}

/// The outputs of a module, by autograd.
fn autograd(module: &ImportedModule, inputs: &[Tensor], variants: &[Variant]) -> Vec<Vec<Tensor>> {
    let task = BaselineTask::Module(module);
    let worker = BaselineWorker::new(environment().unwrap(), task, "cpu", None).unwrap();
    let sets = vec![inputs.to_vec()];
    let mut baselines = Baselines::new(worker, task, sets, BaselineOptions::default()).unwrap();
    let prepared = variants.iter().map(|variant| baselines.prepare(*variant));
    prepared.collect::<Result<_>>().unwrap()
}

/// Asserts that tensors are equal but for `tolerance` of the largest element.
fn assert_close(name: &str, found: &[Tensor], expected: &[Tensor], tolerance: f64) {
    assert_eq!(found.len(), expected.len(), "{name}");
    for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert_eq!(found.shape(), expected.shape(), "{name}, output {at}");
        let (found, expected) = (found.to_f64().unwrap(), expected.to_f64().unwrap());
        let largest = expected.iter().fold(0.0, |most: f64, v| most.max(v.abs()));
        for (a, b) in found.into_iter().zip(expected) {
            assert!(
                (a - b).abs() <= tolerance * largest.max(1e-3),
                "{name}, output {at}: {a} and {b}"
            );
        }
    }
}

#[test]
fn gradients_are_those_of_autograd() {
    let Some(mut python) = python() else { return };
    for name in ["gradients_image.py", "gradients_sequence.py"] {
        let module = import(&mut python, name).unwrap();
        let seeds = Seeds {
            weights: 1,
            inputs: 2,
        };
        let inputs = python.materialize(&module, seeds).unwrap();
        let job = Job {
            graph: &module.graph,
            inputs: &inputs,
        };
        let mut exact = python.evaluate(&[job], Precision::Float64).unwrap();
        let exact = exact.remove(0).unwrap();
        for theirs in autograd(&module, &inputs, &[EAGER, COMPILED]) {
            assert_close(name, &theirs, &exact, 1e-4);
        }
        let ours: Vec<_> = evaluate(&module.graph, &inputs, &Options::default()).unwrap();
        for (at, (ours, exact)) in ours.iter().zip(&exact).enumerate() {
            for (a, b) in ours.to_f64().into_iter().zip(exact.to_f64().unwrap()) {
                assert!(
                    (a - b).abs() <= 1e-9 * b.abs().max(1.0),
                    "{name}, output {at}: {a} and {b}"
                );
            }
        }
    }
}

#[test]
fn gradients_follow_the_outputs_and_cotangents_the_arguments() {
    let Some(mut python) = python() else { return };
    let image = import(&mut python, "gradients_image.py").unwrap();
    // Of what is frozen or not read, there is none.
    let gradients = [
        "grad_x",
        "grad_first_weight",
        "grad_norm_weight",
        "grad_norm_bias",
        "grad_back_weight",
        "grad_back_bias",
    ];
    let found = outputs(&image.graph);
    assert_eq!(found.get(4..10), Some(&gradients[..]), "{found:?}");
    let updated = image.graph.outputs().iter().filter(|o| o.updates.is_some());
    assert_eq!(updated.count(), 3);
    let cotangents: Vec<_> = image
        .inputs
        .iter()
        .filter(|i| i.name.starts_with("cotangents"))
        .collect();
    // The fourth output is an integer.
    assert_eq!(cotangents.len(), 3);
    assert!(cotangents.iter().all(|i| i.generator == Generator::Normal));
    assert_eq!(image.cotangents.as_ref().unwrap().len(), 3);
    let (last, _) = image.call.arguments.as_ref().unwrap().last().unwrap();
    assert_eq!(last, "cotangents");
    let Structure::Tuple(results) = &image.call.results else {
        panic!("{:?}", image.call.results)
    };
    assert_eq!(results.len(), 2);

    // Tied parameters have one.
    let sequence = import(&mut python, "gradients_sequence.py").unwrap();
    let tied = outputs(&sequence.graph);
    let tied = tied
        .iter()
        .filter(|name| name.ends_with("table_weight") || name.ends_with("head_weight"));
    assert_eq!(tied.count(), 1);

    let plain = python.import(
        &module("gradients_image.py"),
        &ImportOptions::default(),
        &mut |_| {},
    );
    let plain = plain.unwrap();
    assert_eq!(plain.cotangents, None);
    assert!(!outputs(&plain.graph).contains(&"grad_x"));
}

#[test]
fn a_gradient_has_the_chance_of_its_forward_pass() {
    let Some(mut python) = python() else { return };
    let module = import(&mut python, "gradients_dropout.py").unwrap();
    let inputs = python.materialize(&module, Seeds::default()).unwrap();
    let results = evaluate(&module.graph, &inputs, &Options::default()).unwrap();
    let (out, grad) = (results[0].to_f64(), results[1].to_f64());
    let cotangent = inputs[1].to_f64().unwrap();
    assert!(out.contains(&0.0) && out.iter().any(|v| *v != 0.0));
    for ((out, grad), cotangent) in out.iter().zip(&grad).zip(&cotangent) {
        let expected = if *out == 0.0 { 0.0 } else { cotangent * 1.5 / 0.75 };
        assert!(
            (grad - expected).abs() < 1e-6 * expected.abs().max(1.0),
            "{grad} and {expected}"
        );
    }
}

#[test]
fn what_has_no_gradient_is_refused_by_name() {
    let Some(mut python) = python() else { return };
    for (name, words) in [
        ("gradients_own.py", &["`Straight`", "gradients_own.py:17"][..]),
        ("mutated_input.py", &["in-place"]),
    ] {
        let error = import(&mut python, name).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        for word in words {
            assert!(error.to_string().contains(word), "{error}");
        }
    }
}
