//! Modules with complex numbers: graphs of pairs of real numbers compute what PyTorch computes.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use akg_core::designer::design;
use akg_core::reference::{Options, evaluate};
use akg_core::target::Target;
use akg_core::{Accuracy, Task};
use akg_python::{BaselineOptions, BaselineTask, BaselineWorker, Baselines, Seeds, Variant};
use common::{environment, import, python};

#[test]
fn complex_numbers_are_pairs() {
    let Some(mut python) = python() else { return };
    for name in [
        "complex_rotation.py",
        "complex_values.py",
        "complex_transforms.py",
    ] {
        let module = import(&mut python, name).unwrap();
        let inputs = python.materialize(&module, Seeds::default()).unwrap();
        let task = BaselineTask::Module(&module);
        let worker = BaselineWorker::new(environment().unwrap(), task, "cpu", None).unwrap();
        let sets = vec![inputs.clone()];
        let mut baselines = Baselines::new(worker, task, sets, BaselineOptions::default()).unwrap();
        let theirs = baselines.prepare(Variant::Eager(Accuracy::Fp32)).unwrap();
        let ours = evaluate(&module.graph, &inputs, &Options::default()).unwrap();
        assert_eq!(ours.len(), theirs.len(), "{name}");
        for (at, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
            assert_eq!(ours.shape, theirs.shape(), "{name}, output {at}");
            let theirs = theirs.to_f64().unwrap();
            let largest = theirs.iter().fold(1.0f64, |most, v| most.max(v.abs()));
            for (a, b) in ours.to_f64().into_iter().zip(theirs) {
                assert!(
                    (a - b).abs() <= 1e-5 * largest,
                    "{name}, output {at}: {a} and {b}"
                );
            }
        }
        design(
            &Task::new(name, module.graph.clone()),
            &Target::new("cpu", "x86_64"),
        )
        .unwrap();
    }
}
