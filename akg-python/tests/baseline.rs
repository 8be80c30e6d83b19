//! What PyTorch makes of a task, as a side of contests.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use akg_core::backend::{Cache, RunOutput};
use akg_core::error::ErrorKind;
use akg_core::expr::Bindings;
use akg_core::timing::{Check, Side, SlotData, SlotId};
use akg_core::verdict::{Failure, FailureKind};
use akg_core::{Accuracy, DType, Graph, Tensor};
use akg_python::{
    BaselineOptions, BaselineSide, BaselineTask, BaselineWorker, Baselines, ImportOptions, Seeds, Variant,
};
use common::{environment, python};
use futures::executor::block_on;

const EAGER: Variant = Variant::Eager(Accuracy::Fp32);
const COMPILED: Variant = Variant::Compiled(Accuracy::Fp32);

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
    baselines.prepare(EAGER).unwrap();
    // A small object in a wrong place may cost a block now and then.
    let (calls, mut faults) = (4, Vec::new());
    for _ in 0..5 {
        baselines.bind(EAGER, 0).unwrap();
        faults.push(baselines.execute(EAGER, calls, Cache::Warm).unwrap().page_faults);
    }
    faults.sort_unstable();
    // One 64 MiB result alone is 16384 pages.
    assert!(faults[2] < u64::from(calls) * 16, "{faults:?}");
    let executed = baselines.execute(EAGER, 1, Cache::Warm).unwrap();
    let nothing = baselines.execute(EAGER, 0, Cache::Warm).unwrap();
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
    let compiled = baselines.prepare(COMPILED).unwrap();
    let eager = baselines.prepare(EAGER).unwrap();
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
    for variant in [EAGER, COMPILED] {
        baselines.bind(variant, 1).unwrap();
        second.push(baselines.outputs(variant).unwrap());
    }
    assert!(close(&second[0], &second[1]));
    assert!(!close(&eager, &second[0]));
}

#[test]
fn calls_go_round_the_slots() {
    let Some((mut baselines, sets)) = baselines("parameters.py", &[1, 2], BaselineOptions::default()) else {
        return;
    };
    baselines.prepare(EAGER).unwrap();
    let mut alone = Vec::new();
    for set in [0, 1] {
        baselines.bind(EAGER, set).unwrap();
        alone.push(baselines.outputs(EAGER).unwrap());
    }
    // The module's own tensors are those of the first slot.
    for order in [[0, 1], [1, 0]] {
        baselines
            .bind_slots(EAGER, &order.map(|set| sets[set].clone()))
            .unwrap();
        let executed = baselines.execute(EAGER, 3, Cache::Warm).unwrap();
        assert!(executed.worker_time > Duration::ZERO);
        let outputs = baselines.outputs(EAGER).unwrap();
        assert_eq!(outputs[0].bytes(), alone[order[0]][0].bytes());
    }
}

#[test]
fn rivals_are_those_of_fp32_and_those_of_the_class() {
    assert_eq!(Variant::rivals(Accuracy::Fp32), [EAGER, COMPILED]);
    for class in [Accuracy::Tf32, Accuracy::Half] {
        let rivals = Variant::rivals(class);
        let own = [Variant::Eager(class), Variant::Compiled(class)];
        assert_eq!(rivals, [[EAGER, COMPILED], own].concat());
        let names: BTreeSet<_> = rivals.iter().map(|r| r.name()).collect();
        assert_eq!(names.len(), rivals.len());
    }
}

#[test]
fn each_call_has_the_precision_of_its_variant_whatever_ran_before() {
    let Some((mut baselines, sets)) = baselines("precision.py", &[1, 2], BaselineOptions::default()) else {
        return;
    };
    let variants = [(EAGER, 1.0), (Variant::Eager(Accuracy::Tf32), 2.0)];
    for (variant, factor) in variants.into_iter().chain(variants) {
        // The module has changed the setting meanwhile.
        let times = |set: usize| -> Vec<f64> {
            let x = sets[set][0].to_f64().unwrap();
            x.into_iter().map(|x| factor * x).collect()
        };
        assert_eq!(baselines.prepare(variant).unwrap()[0].to_f64().unwrap(), times(0));
        for (other, _) in variants.into_iter().filter(|(v, _)| *v < variant) {
            baselines.bind(other, 0).unwrap();
            baselines.execute(other, 2, Cache::Warm).unwrap();
        }
        baselines.bind(variant, 1).unwrap();
        assert_eq!(baselines.outputs(variant).unwrap()[0].to_f64().unwrap(), times(1));
    }
}

const IN_HALF: [Variant; 2] = [Variant::Compiled(Accuracy::Half), Variant::Eager(Accuracy::Half)];

#[test]
fn in_half_every_call_converts_the_tensors_of_the_task() {
    let Some((mut baselines, sets)) = baselines("casts.py", &[1, 2], BaselineOptions::default()) else {
        return;
    };
    let values = |outputs: &[Tensor]| -> Vec<_> { outputs.iter().map(|t| t.to_f64().unwrap()).collect() };
    baselines.prepare(EAGER).unwrap();
    for variant in IN_HALF {
        baselines.prepare(variant).unwrap();
    }
    for set in [1, 0] {
        baselines.bind(EAGER, set).unwrap();
        let exact = baselines.outputs(EAGER).unwrap();
        let in_full = values(&exact);
        assert_ne!(in_full[0], in_full[1]);
        for variant in IN_HALF {
            baselines.bind(variant, set).unwrap();
            // A call that kept what an earlier one converted would have the weights of the other set.
            let half = baselines.outputs(variant).unwrap();
            same_in_half(&exact, &half);
            let in_half = values(&half);
            assert_eq!(in_half[0], in_half[1]);
            assert_eq!(in_half[2], in_full[2]);
        }
    }
    assert_ne!(sets[0][0].bytes(), sets[1][0].bytes());
}

#[test]
fn a_module_in_half_updates_its_state() {
    for name in ["parameters.py", "buffers.py"] {
        let Some((mut baselines, _)) = baselines(name, &[1, 2], BaselineOptions::default()) else {
            return;
        };
        let exact = baselines.prepare(EAGER).unwrap();
        for variant in IN_HALF {
            same_in_half(&exact, &baselines.prepare(variant).unwrap());
            baselines.bind(variant, 1).unwrap();
            let again = baselines.outputs(variant).unwrap();
            baselines.bind(EAGER, 1).unwrap();
            same_in_half(&baselines.outputs(EAGER).unwrap(), &again);
        }
    }
}

/// Asserts that outputs are of the same types, with the same values to f16's precision.
fn same_in_half(exact: &[Tensor], half: &[Tensor]) {
    assert_eq!(exact.len(), half.len());
    for (exact, half) in exact.iter().zip(half) {
        assert_eq!((exact.dtype(), exact.shape()), (half.dtype(), half.shape()));
        for (e, h) in exact.to_f64().unwrap().into_iter().zip(half.to_f64().unwrap()) {
            assert!((e - h).abs() < 1e-2 * e.abs().max(1.0), "{e} is {h} in half");
        }
    }
}

#[test]
fn without_autocast_only_the_rivals_in_half_take_no_part() {
    let Some((mut baselines, _)) = baselines("no_autocast.py", &[1], BaselineOptions::default()) else {
        return;
    };
    for variant in IN_HALF {
        let error = baselines.prepare(variant).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(
            error.to_string().contains("no autocast to torch.float16"),
            "{error}"
        );
    }
    baselines.prepare(EAGER).unwrap();
}

#[test]
fn a_graph_in_half_multiplies_in_half() {
    let Some(environment) = environment() else { return };
    let mut graph = Graph::new("half");
    let x = graph.input("x", DType::F32, [3, 8]);
    let w = graph.constant("w", Tensor::from_slice([8, 2], &[0.1f32; 16]).unwrap());
    let args = [("self", x.into()), ("mat2", w.into())];
    let product = graph.call("aten.mm.default", args).unwrap()[0];
    graph.output(product);
    let values: Vec<f32> = (0..24).map(|i| i as f32 / 7.0).collect();
    let sets = vec![vec![Tensor::from_slice([3, 8], &values).unwrap()]];
    let task = BaselineTask::Graph(&graph);
    let worker = BaselineWorker::new(environment, task, "cpu", None).unwrap();
    let mut baselines = Baselines::new(worker, task, sets, BaselineOptions::default()).unwrap();
    let exact = baselines.prepare(EAGER).unwrap();
    for variant in IN_HALF {
        let half = baselines.prepare(variant).unwrap();
        same_in_half(&exact, &half);
        for value in half[0].to_f64().unwrap() {
            // The last 13 of float32's 23 bits are beyond float16's 10.
            assert!((value as f32).to_bits().trailing_zeros() >= 13);
        }
    }
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
    let task = BaselineTask::Graph(&graph);
    let mut worker = BaselineWorker::new(environment, task, "cpu", None).unwrap();
    worker.start().unwrap();
    worker.wait().unwrap();
    let data = Arc::new(Ramps(Default::default()));
    let sets = data.inputs(0, 0..1).unwrap();
    let mut baselines = Baselines::new(worker, task, sets, BaselineOptions::default()).unwrap();
    baselines.prepare(EAGER).unwrap();
    let baselines = Arc::new(Mutex::new(baselines));
    let checked: Arc<Mutex<BTreeSet<SlotId>>> = Arc::default();
    let (seen, known) = (checked.clone(), data.clone());
    let check: Check = Arc::new(move |slot: SlotId, output: &RunOutput| {
        seen.lock().unwrap().insert(slot);
        let inputs = known.inputs(slot.round, slot.index..slot.index + 1)?;
        let right = output.outputs[0].to_f64()? == expected(&inputs[0][0]);
        Ok((!right).then(|| Failure::new(FailureKind::WrongValues, "not relu(x) * 2 + 1")))
    });
    let mut side = BaselineSide::new(baselines.clone(), EAGER, data.clone(), Some(check));
    block_on(async {
        for round in 0..8 {
            side.refresh(round).await.unwrap().unwrap();
            // More calls than slots in all, but not in one execution.
            for (calls, cache) in [
                (0, Cache::Warm),
                (3, Cache::Warm),
                (1, Cache::Cold),
                (4, Cache::Warm),
            ] {
                let time = side.execute(calls, cache).await.unwrap().unwrap();
                assert!(side.testimony().time.unwrap() < time);
            }
            let returned = side.take().await.unwrap().unwrap().unwrap();
            assert_eq!(returned.judge().unwrap(), None);
        }
        // What was never prepared is a failure of that side and no error.
        let mut compiled = BaselineSide::new(baselines, COMPILED, data, None);
        compiled.refresh(0).await.unwrap().unwrap();
        let failure = compiled.execute(1, Cache::Warm).await.unwrap().unwrap_err();
        assert!(failure.evidence.contains("not prepared"), "{failure:?}");
    });
    assert_eq!(checked.lock().unwrap().len(), 8);
}

/// Another ramp in every slot.
#[derive(Debug)]
struct Ramps(Bindings);

impl SlotData for Ramps {
    fn dims(&self) -> &Bindings {
        &self.0
    }

    fn capacity(&self) -> u32 {
        4
    }

    fn inputs(&self, round: u32, slots: Range<u32>) -> akg_core::Result<Vec<Vec<Tensor>>> {
        let inputs = slots.map(|index| {
            let values: Vec<f32> = (0..100).map(|i| (i + index + 10 * round) as f32 - 50.0).collect();
            Ok(vec![Tensor::from_slice([100], &values)?])
        });
        inputs.collect()
    }
}

#[test]
fn compiling_has_a_time_limit_and_eager_goes_on() {
    let mut options = BaselineOptions::default();
    options.compile_timeout = Duration::from_millis(1);
    let Some((mut baselines, _)) = baselines("plain.py", &[3], options) else {
        return;
    };
    let error = baselines.prepare(COMPILED).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    baselines.prepare(EAGER).unwrap();
    baselines.execute(EAGER, 1, Cache::Warm).unwrap();
}
