//! What PyTorch makes of a task, as a side of contests.

#![allow(clippy::unwrap_used)]

mod common;

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use akg_core::backend::{Cache, RunOutput};
use akg_core::error::ErrorKind;
use akg_core::timing::{Check, Side};
use akg_core::verdict::{Failure, FailureKind};
use akg_core::{DType, Graph, Tensor};
use akg_python::{
    BaselineOptions, BaselineSide, BaselineTask, BaselineWorker, Baselines, ImportOptions, Seeds, Variant,
};
use common::{environment, python};
use futures::executor::block_on;

/// A module of the tests over inputs from these seeds.
fn baselines(name: &str, seeds: &[u64], options: BaselineOptions) -> Option<(Baselines, Vec<Vec<Tensor>>)> {
    let mut python = python()?;
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/modules")
        .join(name);
    let module = python
        .import(&path, &ImportOptions::default(), &mut |_| {})
        .unwrap();
    let sets: Vec<_> = seeds
        .iter()
        .map(|seed| {
            let seeds = Seeds {
                weights: *seed,
                inputs: *seed,
            };
            python.materialize(&module, seeds).unwrap()
        })
        .collect();
    let task = BaselineTask::Module(&module);
    let worker = BaselineWorker::new(environment()?, task, "cpu", None).unwrap();
    let baselines = Baselines::new(worker, task, sets.clone(), options).unwrap();
    Some((baselines, sets))
}

#[test]
fn large_results_reuse_memory_that_is_there() {
    let Some((mut baselines, _)) = baselines("large.py", &[1], BaselineOptions::default()) else {
        return;
    };
    baselines.prepare(Variant::Eager).unwrap();
    // A small object in a wrong place may cost a block now and then.
    let (calls, mut faults) = (4, Vec::new());
    for _ in 0..5 {
        baselines.bind(Variant::Eager, 0).unwrap();
        faults.push(
            baselines
                .execute(Variant::Eager, calls, Cache::Warm)
                .unwrap()
                .page_faults,
        );
    }
    faults.sort_unstable();
    // One 64 MiB result alone is 16384 pages.
    assert!(faults[2] < u64::from(calls) * 16, "{faults:?}");
    let executed = baselines.execute(Variant::Eager, 1, Cache::Warm).unwrap();
    let nothing = baselines.execute(Variant::Eager, 0, Cache::Warm).unwrap();
    assert!(nothing.worker_time < executed.worker_time && executed.worker_time < executed.time);
}

/// `relu(x) * 2 + 1` in f64.
fn expected(x: &Tensor) -> Vec<f64> {
    let x = x.to_f64().unwrap();
    x.into_iter().map(|v| v.max(0.0) * 2.0 + 1.0).collect()
}

#[test]
fn compiled_and_eager_compute_the_same_on_every_set() {
    compiled_and_eager_agree("parameters.py");
}

#[test]
fn compiled_and_eager_update_state_alike() {
    compiled_and_eager_agree("buffers.py");
}

fn compiled_and_eager_agree(name: &str) {
    let Some((mut baselines, sets)) = baselines(name, &[1, 2], BaselineOptions::default()) else {
        return;
    };
    let compiled = baselines.prepare(Variant::Compiled).unwrap();
    let eager = baselines.prepare(Variant::Eager).unwrap();
    assert!(baselines.threads() > 0);
    let bytes = |set: &[Tensor]| set.iter().map(|t| t.bytes().to_vec()).collect::<Vec<_>>();
    assert_ne!(bytes(&sets[0]), bytes(&sets[1]));
    let close = |a: &[Tensor], b: &[Tensor]| {
        a.iter().zip(b).all(|(a, b)| {
            let (a, b) = (a.to_f64().unwrap(), b.to_f64().unwrap());
            a.len() == b.len()
                && a.iter()
                    .zip(&b)
                    .all(|(x, y)| (x - y).abs() < 1e-5 * y.abs().max(1.0))
        })
    };
    assert!(close(&compiled, &eager));
    let mut second = Vec::new();
    for variant in Variant::ALL {
        baselines.bind(variant, 1).unwrap();
        second.push(baselines.outputs(variant).unwrap());
    }
    assert!(close(&second[0], &second[1]));
    assert!(!close(&eager, &second[0]));
}

#[test]
fn a_graph_takes_part_in_contests() {
    let Some(environment) = environment() else { return };
    let mut graph = Graph::new("tail");
    let x = graph.input("x", DType::F32, [100]);
    let args = [("self", x.into()), ("other", akg_core::graph::Arg::Float(2.0))];
    let relu = graph.relu(x).unwrap();
    let args = args.map(|(n, a)| if n == "self" { (n, relu.into()) } else { (n, a) });
    let twice = graph.call("aten.mul.Scalar", args).unwrap()[0];
    let more = [
        ("self", twice.into()),
        ("other", akg_core::graph::Arg::Float(1.0)),
    ];
    let y = graph.call("aten.add.Scalar", more).unwrap()[0];
    graph.output(y);
    let set = |sign: f32| {
        let values: Vec<f32> = (0..100).map(|i| sign * (i as f32 - 50.0)).collect();
        vec![Tensor::from_slice([100], &values).unwrap()]
    };
    let sets = vec![set(1.0), set(-0.5)];
    let task = BaselineTask::Graph(&graph);
    let mut worker = BaselineWorker::new(environment, task, "cpu", None).unwrap();
    worker.start().unwrap();
    worker.wait().unwrap();
    let mut baselines = Baselines::new(worker, task, sets.clone(), BaselineOptions::default()).unwrap();
    baselines.prepare(Variant::Eager).unwrap();
    let baselines = Arc::new(Mutex::new(baselines));
    let checked = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
    let counts = checked.clone();
    let check: Check = Arc::new(move |set: usize, output: &RunOutput| {
        counts[set].fetch_add(1, Ordering::Relaxed);
        let right = output.outputs[0].to_f64()? == expected(&sets[set][0]);
        Ok((!right).then(|| Failure::new(FailureKind::WrongValues, "not relu(x) * 2 + 1")))
    });
    let mut side = BaselineSide::new(baselines.clone(), Variant::Eager, 7, Some(check));
    block_on(async {
        for round in 0..8 {
            side.refresh(round).await.unwrap().unwrap();
            for (calls, cache) in [(0, Cache::Warm), (3, Cache::Warm), (1, Cache::Cold)] {
                let time = side.execute(calls, cache).await.unwrap().unwrap();
                assert!(side.testimony().time.unwrap() < time);
            }
            let returned = side.take().await.unwrap().unwrap().unwrap();
            assert_eq!(returned.judge().unwrap(), None);
        }
        // What was never prepared is a failure of that side and no error.
        let mut compiled = BaselineSide::new(baselines, Variant::Compiled, 7, None);
        let failure = compiled.refresh(0).await.unwrap().unwrap_err();
        assert!(failure.evidence.contains("not prepared"), "{failure:?}");
    });
    assert!(checked.iter().all(|c| c.load(Ordering::Relaxed) > 0));
}

#[test]
fn compiling_has_a_time_limit_and_eager_goes_on() {
    let mut options = BaselineOptions::default();
    options.compile_timeout = Duration::from_millis(1);
    let Some((mut baselines, _)) = baselines("plain.py", &[3], options) else {
        return;
    };
    let error = baselines.prepare(Variant::Compiled).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    baselines.prepare(Variant::Eager).unwrap();
    baselines.execute(Variant::Eager, 1, Cache::Warm).unwrap();
}
