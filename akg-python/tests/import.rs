//! Import of small modules, one for each thing that may be special about a module.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use std::collections::BTreeMap;
use std::time::Duration;

use akg_core::bundle::structure::Structure;
use akg_core::designer::design;
use akg_core::error::ErrorKind;
use akg_core::graph::{Arg, InputKind};
use akg_core::isolation::IsolationLevel;
use akg_core::reference::{Options, evaluate};
use akg_core::target::Target;
use akg_core::{Accuracy, DType, Graph, Task, Tensor};
use akg_python::{
    BaselineOptions, BaselineTask, BaselineWorker, Baselines, Generator, ImportOptions, ImportedModule, Job,
    OpenDim, Precision, Python, PythonOptions, Seeds, Source, Variant,
};
use common::{environment, import, module, python};

/// Modules that import, and how they had to be built.
const GOOD: [(&str, &str); 22] = [
    ("plain.py", "meta"),
    ("parameters.py", "meta"),
    ("buffers.py", "meta"),
    ("scalar_input.py", "meta"),
    ("lost_constant.py", "fake"),
    ("value_in_constructor.py", "real-model"),
    ("mutated_attribute.py", "meta"),
    ("mutated_input.py", "meta"),
    ("recurrent.py", "meta"),
    ("dropout.py", "meta"),
    ("tuple_output.py", "meta"),
    ("element_types.py", "meta"),
    ("generators.py", "meta"),
    ("noisy.py", "meta"),
    ("decomposed_elements.py", "meta"),
    ("decomposed_shapes.py", "meta"),
    ("decomposed_layers.py", "meta"),
    ("decomposed_orders.py", "fake"),
    ("decomposed_special.py", "meta"),
    ("decomposed_images.py", "fake"),
    ("replaced_slices.py", "meta"),
    ("held_state.py", "real-model"),
];

#[test]
fn a_module_reaches_nothing_while_it_is_imported() {
    let Some(environment) = environment() else { return };
    let mut options = PythonOptions::default();
    options.isolation = IsolationLevel::Strict;
    let mut python = Python::new(environment, options);
    match import(&mut python, "hostile.py") {
        Ok(module) => assert_eq!(operators(&module), ["add.Scalar"]),
        Err(e) if e.kind() == ErrorKind::Unsupported => eprintln!("SKIPPED: {e}"),
        Err(e) => panic!("{e}"),
    }
    assert!(
        python
            .isolation()
            .is_none_or(|i| i.level == IsolationLevel::Strict)
    );
}

fn operators(module: &ImportedModule) -> Vec<&str> {
    module.graph.nodes().iter().map(|n| n.op.name()).collect()
}

fn kinds(module: &ImportedModule) -> BTreeMap<&str, InputKind> {
    let inputs = module.graph.inputs().iter();
    inputs
        .map(|i| (module.graph.value_name(i.value), i.kind))
        .collect()
}

/// The sources of the state that the graph updates.
fn updates(module: &ImportedModule) -> Vec<&Source> {
    let updated = module.graph.outputs().iter().filter_map(|o| o.updates);
    let inputs = module.graph.inputs();
    updated
        .map(|state| &module.inputs[inputs.iter().position(|i| i.value == state).unwrap()].source)
        .collect()
}

#[test]
fn graphs_compute_what_their_modules_compute() {
    let Some(mut python) = python() else { return };
    for (name, mode) in GOOD {
        let module = import(&mut python, name).unwrap();
        assert_eq!(module.mode, mode, "{name}");
        let seeds = Seeds {
            weights: 1,
            inputs: 2,
        };
        let inputs = python.materialize(&module, seeds).unwrap();
        let eager = |task| {
            let (environment, sets) = (python.environment().clone(), vec![inputs.clone()]);
            let worker = BaselineWorker::new(environment, task, "cpu", None).unwrap();
            let mut baselines = Baselines::new(worker, task, sets, BaselineOptions::default()).unwrap();
            baselines.prepare(Variant::Eager(Accuracy::Fp32)).unwrap()
        };
        let (module_outputs, graph_outputs) = (
            eager(BaselineTask::Module(&module)),
            eager(BaselineTask::Graph(&module.graph)),
        );
        let job = Job {
            graph: &module.graph,
            inputs: &inputs,
        };
        let replayed = python
            .evaluate(&[job], Precision::AsIs)
            .unwrap()
            .remove(0)
            .unwrap();
        assert_same(name, &module_outputs, &replayed);
        assert_same(name, &graph_outputs, &replayed);
        for (output, tensor) in module.graph.outputs().iter().zip(&replayed) {
            let ty = module.graph.ty(output.value);
            assert_eq!(ty.dtype, tensor.dtype(), "{name}");
            assert_eq!(
                ty.concrete_shape(&Default::default()).unwrap(),
                tensor.shape(),
                "{name}"
            );
        }
    }
}

#[test]
fn what_akg_does_not_know_is_decomposed_and_what_it_knows_is_not() {
    let Some(mut python) = python() else { return };
    for (name, decomposed, kept) in [
        (
            "decomposed_elements.py",
            "aten.copysign.Tensor",
            "aten.div.Tensor",
        ),
        ("decomposed_shapes.py", "aten.diff.default", "aten.slice.Tensor"),
        (
            "decomposed_layers.py",
            "aten.gru_cell.default",
            "aten.linear.default",
        ),
    ] {
        let module = import(&mut python, name).unwrap();
        assert!(
            module.decomposed.iter().any(|op| op == decomposed),
            "{name}: {:?}",
            module.decomposed
        );
        assert!(!module.decomposed.iter().any(|op| op == kept), "{name}");
        let inputs = python.materialize(&module, Seeds::default()).unwrap();
        let job = Job {
            graph: &module.graph,
            inputs: &inputs,
        };
        let theirs = python.evaluate(&[job], Precision::Float64).unwrap();
        let theirs = theirs.into_iter().next().unwrap().unwrap();
        let ours = evaluate(&module.graph, &inputs, &Options::default()).unwrap();
        for (at, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
            for (a, b) in ours.to_f64().into_iter().zip(theirs.to_f64().unwrap()) {
                let same = a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= 1e-12 * b.abs().max(1.0);
                assert!(same, "{name}, output {at}: {a} and {b}");
            }
        }
    }
    assert_eq!(import(&mut python, "plain.py").unwrap().decomposed, [""; 0]);
}

fn assert_same(name: &str, a: &[Tensor], b: &[Tensor]) {
    assert_eq!(a.len(), b.len(), "{name}");
    for (at, (a, b)) in a.iter().zip(b).enumerate() {
        assert_eq!(
            (a.dtype(), a.shape()),
            (b.dtype(), b.shape()),
            "{name}, output {at}"
        );
        for (x, y) in a.to_f64().unwrap().into_iter().zip(b.to_f64().unwrap()) {
            assert!(
                (x - y).abs() <= 1e-6 * x.abs().max(1.0),
                "{name}, output {at}: {x} and {y}"
            );
        }
    }
}

#[test]
fn copies_vanish_and_dead_parameters_are_no_inputs() {
    let Some(mut python) = python() else { return };
    let plain = import(&mut python, "plain.py").unwrap();
    assert_eq!(operators(&plain), ["relu.default", "mul.Scalar", "add.Tensor"]);
    let dropout = import(&mut python, "dropout.py").unwrap();
    assert_eq!(operators(&dropout), ["exp.default"]);
    // In training mode without an effect.
    assert!(!dropout.graph.is_seeded());
    let parameters = import(&mut python, "parameters.py").unwrap();
    let weights: Vec<_> = kinds(&parameters)
        .into_iter()
        .filter(|(_, k)| *k == InputKind::Weight)
        .collect();
    assert_eq!(weights.len(), 4, "{weights:?}");
}

#[test]
fn active_dropout_follows_from_a_seed() {
    let Some(mut python) = python() else { return };
    let module = import(&mut python, "active_dropout.py").unwrap();
    assert_eq!(
        operators(&module),
        ["seeded_dropout.default", "tanh.default", "seeded_dropout.default"]
    );
    let seed = module.inputs.last().unwrap();
    assert_eq!((seed.name.as_str(), &seed.source), ("seed", &Source::Seed {}));
    let high = i64::MAX;
    assert_eq!(seed.generator, Generator::Randint { low: 0, high });
    assert_eq!(kinds(&module)["seed"], InputKind::Activation);
    // The second takes other numbers than the first.
    let json: serde_json::Value = serde_json::from_str(&module.graph.to_json().unwrap()).unwrap();
    let arguments = |node: usize| &json["nodes"][node]["args"];
    assert_eq!(
        (&arguments(0)["p"], &arguments(0)["offset"]),
        (&0.2.into(), &serde_json::Value::Null)
    );
    assert_eq!(
        (&arguments(2)["p"], &arguments(2)["offset"]),
        (&0.5.into(), &2400.into())
    );

    // PyTorch draws other numbers, and drops as many in either form of the task.
    let mut make = |inputs| {
        let seeds = Seeds { weights: 0, inputs };
        python.materialize(&module, seeds).unwrap()
    };
    let (inputs, others) = (make(1), make(2));
    assert_ne!(inputs[1].bytes(), others[1].bytes());
    let gone = |outputs: &[f64]| outputs.iter().filter(|v| **v == 0.0).count();
    let ours = evaluate(&module.graph, &inputs, &Options::default()).unwrap()[0].to_f64();
    // 0.6 of 2400, give or take five standard deviations.
    let expected = 1320..1560;
    assert!(expected.contains(&gone(&ours)));
    for task in [BaselineTask::Module(&module), BaselineTask::Graph(&module.graph)] {
        let worker = BaselineWorker::new(python.environment().clone(), task, "cpu", None).unwrap();
        let sets = vec![inputs.clone()];
        let mut baselines = Baselines::new(worker, task, sets, BaselineOptions::default()).unwrap();
        let theirs = baselines.prepare(Variant::Eager(Accuracy::Fp32)).unwrap()[0]
            .to_f64()
            .unwrap();
        assert!(expected.contains(&gone(&theirs)));
        assert_ne!(theirs, ours);
    }
}

#[test]
fn random_tensors_follow_from_a_seed() {
    let Some(mut python) = python() else { return };
    let module = import(&mut python, "random_states.py").unwrap();
    assert_eq!(
        operators(&module),
        [
            "seeded_randn.default",
            "mul.Scalar",
            "add.Tensor",
            "seeded_rand.default",
            "add.Tensor"
        ]
    );
    // A normal number takes two of the sequence.
    let json: serde_json::Value = serde_json::from_str(&module.graph.to_json().unwrap()).unwrap();
    assert_eq!(json["nodes"][3]["args"]["offset"], 2 * 6000);
    let inputs = python.materialize(&module, Seeds::default()).unwrap();
    let ours = evaluate(&module.graph, &inputs, &Options::default()).unwrap()[0].to_f64();
    let task = BaselineTask::Graph(&module.graph);
    let worker = BaselineWorker::new(python.environment().clone(), task, "cpu", None).unwrap();
    let sets = vec![inputs.clone()];
    let mut baselines = Baselines::new(worker, task, sets, BaselineOptions::default()).unwrap();
    let theirs = baselines.prepare(Variant::Eager(Accuracy::Fp32)).unwrap()[0]
        .to_f64()
        .unwrap();
    assert_ne!(theirs, ours);
    // Other numbers of one distribution: the mean of normal ones times 2, and of uniform ones.
    for values in [ours, theirs] {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        assert!((mean - 0.5).abs() < 0.15, "{mean}");
    }
}

#[test]
fn slices_that_an_index_names_are_replaced_in_one_node() {
    let Some(mut python) = python() else { return };
    let module = import(&mut python, "replaced_slices.py").unwrap();
    let graph = &module.graph;
    let count = operators(&module)
        .iter()
        .filter(|op| **op == "index_copy.default")
        .count();
    assert_eq!(count, 6, "{:?}", operators(&module));
    // Nothing stands between a state and what writes to it, or between that and the update.
    let updates = graph.outputs().iter().filter_map(|o| Some((o.value, o.updates?)));
    let states: Vec<_> = updates
        .map(|(value, state)| {
            let node = graph.nodes().iter().find(|node| node.outputs.contains(&value));
            let node = node.unwrap();
            assert_eq!(node.op.name(), "index_copy.default");
            assert_eq!(node.args.first(), Some(&Arg::Value(state)));
            graph.value_name(state)
        })
        .collect();
    assert_eq!(states, ["keys", "values", "log"]);
    design(
        &Task::new("replaced", graph.clone()),
        &Target::new("cpu", "x86_64"),
    )
    .unwrap();
}

#[test]
fn mutated_buffers_attributes_and_inputs_are_state() {
    let Some(mut python) = python() else { return };
    let attribute = |name: &str| Source::Attribute(name.into());
    let buffers = import(&mut python, "buffers.py").unwrap();
    let names = [
        "calls",
        "norm.num_batches_tracked",
        "norm.running_mean",
        "norm.running_var",
    ];
    let mut updated: Vec<_> = updates(&buffers).into_iter().cloned().collect();
    updated.sort_by_key(|s| format!("{s:?}"));
    assert_eq!(updated, names.map(attribute));
    assert_eq!(kinds(&buffers)["offset"], InputKind::Weight);
    assert_eq!(kinds(&buffers)["calls"], InputKind::State);

    let hidden = import(&mut python, "mutated_attribute.py").unwrap();
    assert_eq!(updates(&hidden), [&attribute("hidden")]);
    let held = import(&mut python, "held_state.py").unwrap();
    let mut updated: Vec<_> = updates(&held).into_iter().cloned().collect();
    updated.sort_by_key(|s| format!("{s:?}"));
    let paths = ["cache.lengths[0]", "cache.rows['keys']", "values"];
    assert_eq!(updated, paths.map(attribute));
    let input = import(&mut python, "mutated_input.py").unwrap();
    assert_eq!(updates(&input), [&Source::Argument(0)]);
    assert_eq!(kinds(&input)["x"], InputKind::State);
}

#[test]
fn numbers_become_constants_and_nested_arguments_become_inputs() {
    let Some(mut python) = python() else { return };
    let module = import(&mut python, "scalar_input.py").unwrap();
    let sources: Vec<_> = module.inputs.iter().map(|i| i.source.clone()).collect();
    assert_eq!(sources, [Source::Argument(0), Source::Argument(2)]);
    let lost = import(&mut python, "lost_constant.py").unwrap();
    let constants: Vec<_> = lost
        .graph
        .constants()
        .iter()
        .map(|c| c.tensor.to_f64().unwrap())
        .collect();
    assert_eq!(constants, [vec![0.25], vec![1.0, -2.0, 3.0]]);
}

#[test]
fn recurrent_networks_stay_whole() {
    let Some(mut python) = python() else { return };
    let module = import(&mut python, "recurrent.py").unwrap();
    assert_eq!(
        operators(&module).iter().filter(|o| **o == "lstm.input").count(),
        1
    );
    assert!(module.graph.nodes().len() < 5, "{:?}", operators(&module));
}

#[test]
fn generators_are_recognised_and_anything_else_is_captured() {
    let Some(mut python) = python() else { return };
    let module = import(&mut python, "generators.py").unwrap();
    let generators: Vec<_> = module.inputs.iter().map(|i| i.generator.clone()).collect();
    let captured = Generator::Captured;
    assert_eq!(
        generators,
        [
            Generator::Uniform01,
            Generator::Normal,
            Generator::Randint { low: 0, high: 7 },
            Generator::Randint { low: -2, high: 9 },
            captured.clone(),
            captured.clone(),
            captured
        ]
    );
}

#[test]
fn seeds_decide_weights_and_inputs() {
    let Some(mut python) = python() else { return };
    let module = import(&mut python, "parameters.py").unwrap();
    let mut make = |weights, inputs| python.materialize(&module, Seeds { weights, inputs }).unwrap();
    let (a, b, c) = (make(1, 1), make(1, 2), make(2, 1));
    for (at, input) in module.inputs.iter().enumerate() {
        let [a, b, c] = [&a[at], &b[at], &c[at]].map(Tensor::bytes);
        match &input.source {
            Source::Argument(_) => assert!(a == c && a != b, "{}", input.name),
            // A constant parameter does not depend on any seed.
            Source::Attribute(path) if path == "scale" => assert!(a == b && a == c),
            Source::Attribute(_) => assert!(a == b && a != c, "{}", input.name),
            Source::Seed {} => panic!("nothing in the module is random"),
        }
    }
}

#[test]
fn huge_tensors_are_not_made() {
    let Some(environment) = environment() else { return };
    // Far less than the 16 GiB of each of its tensors.
    let mut options = PythonOptions::default();
    options.memory = Some(8 << 30);
    let mut python = Python::new(environment, options);
    let module = import(&mut python, "huge.py").unwrap();
    let x = module
        .graph
        .inputs()
        .iter()
        .find(|i| i.kind == InputKind::Activation)
        .unwrap();
    assert_eq!(module.graph.ty(x.value).to_string(), "f32[1048576, 4096]");
}

#[test]
fn inputs_shrink_together_or_only_the_first() {
    let Some(mut python) = python() else { return };
    let mut options = ImportOptions::default();
    options.refresh = true;
    options.halvings = 2;
    for (name, only_first, shapes) in [
        ("shrink_all.py", false, [[16, 3], [16, 3]]),
        ("shrink_first.py", true, [[4, 16], [16, 16]]),
    ] {
        let small = python.import(&module(name), &options, &mut |_| {}).unwrap();
        let shrink = small.shrink.clone().unwrap();
        assert_eq!((shrink.halvings, shrink.only_first), (2, only_first), "{name}");
        let made = python.materialize(&small, Seeds::default()).unwrap();
        let made: Vec<_> = made.iter().map(|t| t.shape().to_vec()).collect();
        assert_eq!(made, shapes, "{name}");
    }
    options.halvings = 10;
    let error = python
        .import(&module("shrink_all.py"), &options, &mut |_| {})
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
}

#[test]
fn what_is_wrong_with_a_module_is_said_with_its_place() {
    let Some(mut python) = python() else { return };
    for (name, kind, words) in [
        (
            "syntax_error.py",
            ErrorKind::InvalidInput,
            &["syntax error", "syntax_error.py:4"][..],
        ),
        (
            "missing_class.py",
            ErrorKind::InvalidInput,
            &["class `Model`", "function `get_init_inputs`"],
        ),
        (
            "constructor_raises.py",
            ErrorKind::InvalidInput,
            &["constructor", "KeyError", "constructor_raises.py:8"],
        ),
        (
            "forward_raises.py",
            ErrorKind::InvalidInput,
            &["`forward`", "forward_raises.py:7"],
        ),
        (
            "data_dependent.py",
            ErrorKind::Unsupported,
            &["data-dependent", "data_dependent.py:7: if x.sum() > 0"],
        ),
        (
            "unknown_operators.py",
            ErrorKind::Unsupported,
            &[
                "special_legendre_polynomial_p",
                "special_laguerre_polynomial_l",
                "at: aten.special_legendre_polynomial_p.default: unknown_operators.py:",
            ],
        ),
        (
            "complex_result.py",
            ErrorKind::Unsupported,
            &["complex", "`torch.view_as_real`"],
        ),
        (
            "complex_prime.py",
            ErrorKind::Unsupported,
            &["length 4099", "complex_prime.py:7"],
        ),
        (
            "memory_eater.py",
            ErrorKind::OutOfResources,
            &["memory", "memory_eater.py:8"],
        ),
        ("dies.py", ErrorKind::WorkerLost, &["SIGABRT"]),
        ("no_such_file.py", ErrorKind::NotFound, &["no_such_file.py"]),
    ] {
        let error = import(&mut python, name).unwrap_err();
        assert_eq!(error.kind(), kind, "{name}: {error:?}");
        for word in words {
            assert!(
                error.to_string().contains(word),
                "{name}: `{word}` is not in: {error}"
            );
        }
    }
    // The worker, or the one after it, still answers.
    import(&mut python, "plain.py").unwrap();
}

#[test]
fn a_module_for_another_device_is_not_called_wrong() {
    let Some(mut python) = python() else { return };
    match import(&mut python, "cuda_constructor.py") {
        Ok(_) => eprintln!("SKIPPED: there is a CUDA device"),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
            for words in ["CUDA device", "cuda_constructor.py:8"] {
                assert!(error.to_string().contains(words), "{error}");
            }
        }
    }
}

#[test]
fn sizes_that_a_module_reads_stay_open() {
    let Some(mut python) = python() else { return };
    let path = module("reads_sizes.py");
    let mut options = ImportOptions::default();
    options.refresh = true;
    let closed = python.import(&path, &options, &mut |_| {}).unwrap();
    let Structure::Tuple(results) = &closed.call.results else {
        panic!("{:?}", closed.call.results)
    };
    assert_eq!(results[2], Structure::Literal("15".to_owned()));
    let open = |dim, symbol: &str| OpenDim {
        argument: 0,
        dim,
        symbol: symbol.to_owned(),
        multiple: 1,
        low: 1,
        high: None,
    };
    options.open = vec![open(0, "B"), open(1, "L")];
    let opened = python.import(&path, &options, &mut |_| {}).unwrap();
    let types = |graph: &Graph| -> Vec<String> {
        let outputs = graph.outputs().iter();
        outputs.map(|output| graph.ty(output.value).to_string()).collect()
    };
    assert_eq!(types(&opened.graph), ["f32[B, 2, L, 3]", "f32[B + 1]"]);
    // What depends on them is no constant of the module.
    let Structure::Tuple(results) = &opened.call.results else {
        panic!("{:?}", opened.call.results)
    };
    assert!(matches!(results[2], Structure::Opaque(_)), "{results:?}");
    for (batch, length) in [(3, 5), (1, 2), (7, 4)] {
        let dims = [("B".into(), batch), ("L".into(), length)];
        let bound = opened.graph.bind(&dims.into()).unwrap();
        let expected = [
            format!("f32[{batch}, 2, {length}, 3]"),
            format!("f32[{}]", batch + 1),
        ];
        assert_eq!(types(&bound), expected);
    }
}

#[test]
fn files_beside_a_module_are_part_of_it() {
    let Some(mut python) = python() else { return };
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(directory.path().join(name), text).unwrap();
    let source = std::fs::read_to_string(module("plain.py")).unwrap();
    let class = source.find("class Model").unwrap();
    let (head, rest) = source.split_at(class);
    let path = directory.path().join("module.py");
    write(
        "module.py",
        &format!(
            "{head}from beside_it import factor\n\n\n{rest}\n\nNAME = \"{}\"\n",
            directory.path().display()
        ),
    );
    write("beside_it.py", "factor = 2\n");
    let mut imported = || {
        python
            .import(&path, &ImportOptions::default(), &mut |_| {})
            .unwrap()
            .cached
    };
    assert!(!imported() && imported());
    write("beside_it.py", "factor = 3\n");
    assert!(!imported() && imported());
}

#[test]
fn a_module_that_never_ends_is_stopped() {
    let Some(environment) = environment() else { return };
    let mut options = PythonOptions::default();
    options.import_timeout = Duration::from_secs(15);
    let mut python = Python::new(environment, options);
    let error = import(&mut python, "endless.py").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
}

#[test]
fn a_second_import_comes_from_the_cache_until_the_source_changes() {
    let Some(mut python) = python() else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("module.py");
    let source = std::fs::read_to_string(module("plain.py")).unwrap();
    let unique = format!("{source}# {}\n", directory.path().display());
    std::fs::write(&path, &unique).unwrap();
    let mut imported = || {
        python
            .import(&path, &ImportOptions::default(), &mut |_| {})
            .unwrap()
    };
    let first = imported();
    let second = imported();
    assert!(!first.cached && second.cached);
    assert_eq!(first.graph.to_json().unwrap(), second.graph.to_json().unwrap());
    assert_eq!(first.inputs, second.inputs);
    std::fs::write(&path, format!("{unique}# changed\n")).unwrap();
    assert!(!imported().cached);
}

#[test]
fn a_graph_that_fails_does_not_disturb_the_others() {
    let Some(mut python) = python() else { return };
    let graph = |index: i64| {
        let json = r#"{"akg_graph": 1, "name": "at", "inputs": [{"name": "x", "dtype": "f32", "shape": [3]},
                {"name": "i", "dtype": "i64", "shape": [1]}],
                "nodes": [{"op": "aten.index_select.default", "args": {"self": "x", "dim": 0, "index": "i"},
                            "outputs": ["y"]},
                          {"op": "aten.neg.default", "args": {"self": "y"}, "outputs": ["z"]}],
                "outputs": [{"value": "y"}, {"value": "z"}]}"#;
        let x = Tensor::from_slice([3], &[1.0f32, 2.0, 3.0]).unwrap();
        (
            Graph::from_json(json).unwrap(),
            [x, Tensor::from_slice([1], &[index]).unwrap()],
        )
    };
    let cases = [graph(1), graph(7), graph(2)];
    let jobs: Vec<_> = cases
        .iter()
        .map(|(graph, inputs)| Job { graph, inputs })
        .collect();
    let results = python.evaluate(&jobs, Precision::AsIs).unwrap();
    let values: Vec<_> = results
        .iter()
        .map(|r| {
            r.as_ref()
                .ok()
                .map(|ts| ts.iter().map(|t| t.to_f64().unwrap()[0]).collect::<Vec<_>>())
        })
        .collect();
    assert_eq!(values, [Some(vec![2.0, -2.0]), None, Some(vec![3.0, -3.0])]);
}

#[test]
fn views_of_what_does_not_lie_in_order_are_evaluated() {
    let Some(mut python) = python() else { return };
    let json = r#"{"akg_graph": 1, "name": "view", "inputs": [{"name": "x", "dtype": "f32", "shape": [2, 3]}],
        "nodes": [{"op": "aten.transpose.int", "args": {"self": "x", "dim0": 0, "dim1": 1}, "outputs": ["t"]},
                  {"op": "aten.view.default", "args": {"self": "t", "size": [6]}, "outputs": ["v"]},
                  {"op": "aten._unsafe_view.default", "args": {"self": "t", "size": [6]}, "outputs": ["u"]}],
        "outputs": [{"value": "v"}, {"value": "u"}]}"#;
    let graph = Graph::from_json(json).unwrap();
    let x = Tensor::from_slice([2, 3], &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
    let job = Job {
        graph: &graph,
        inputs: &[x],
    };
    let outputs = python.evaluate(&[job], Precision::AsIs).unwrap();
    for output in outputs.into_iter().flat_map(|outputs| outputs.unwrap()) {
        assert_eq!(output.to_f64().unwrap(), [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
    }
}

#[test]
fn double_precision_reaches_every_floating_value() {
    let Some(mut python) = python() else { return };
    let module = import(&mut python, "element_types.py").unwrap();
    let inputs = python.materialize(&module, Seeds::default()).unwrap();
    let job = Job {
        graph: &module.graph,
        inputs: &inputs,
    };
    let outputs = python.evaluate(&[job, job], Precision::Float64).unwrap();
    for outputs in outputs {
        let dtypes: Vec<_> = outputs.unwrap().iter().map(Tensor::dtype).collect();
        assert_eq!(dtypes, [DType::F64, DType::I64, DType::Bool]);
    }
}
