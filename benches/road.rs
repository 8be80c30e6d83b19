//! What akg itself costs on the way from a module to a verdict, without compilers and devices.
#![allow(missing_docs, reason = "criterion's macros make public items")]
#![expect(clippy::unwrap_used, reason = "this is a benchmark")]

use std::hint::black_box;
use std::time::Duration;

use akg::designer::design;
use akg::expr::Bindings;
use akg::reference::{Options, evaluate};
use akg::sketch::interpret;
use akg::{DType, Graph, Target, Task, Tensor};
use criterion::{Criterion, criterion_group, criterion_main};

/// A linear layer with its tail, and a softmax over it.
fn graph(rows: usize, width: usize) -> Graph {
    let mut g = Graph::new("head");
    let x = g.input("x", DType::F32, [rows, width]);
    let w = g.weight("w", DType::F32, [width, width]);
    let b = g.weight("b", DType::F32, [width]);
    let y = g.linear(x, w, Some(b)).unwrap();
    let y = g.gelu(y).unwrap();
    let y = g.softmax(y, -1).unwrap();
    g.output(y);
    g
}

fn task(rows: usize, width: usize) -> Task {
    Task::new("head", graph(rows, width))
}

fn inputs(graph: &Graph) -> Vec<Tensor> {
    let tensor = |value| {
        let shape = graph.ty(value).concrete_shape(&Bindings::new()).unwrap();
        let values: Vec<f32> = (0..shape.iter().product())
            .map(|i: usize| (i % 13) as f32 / 13.0 - 0.5)
            .collect();
        Tensor::from_slice(shape, &values).unwrap()
    };
    graph.inputs().iter().map(|input| tensor(input.value)).collect()
}

fn import(c: &mut Criterion) {
    let json = graph(256, 256).to_json().unwrap();
    c.bench_function("import/json", |b| {
        b.iter(|| Graph::from_json(black_box(&json)).unwrap())
    });
    module(c);
}

/// A PyTorch module that was imported before; nothing without Python.
#[cfg(feature = "python")]
fn module(c: &mut Criterion) {
    use std::path::Path;

    use akg::python::{Config, Environment, ImportOptions, Python, PythonOptions};

    let Ok(environment) = Environment::find(&Config::default()) else {
        return;
    };
    let mut python = Python::new(environment, PythonOptions::default());
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/modules/mlp.py");
    python
        .import(&path, &ImportOptions::default(), &mut |_| {})
        .unwrap();
    c.bench_function("import/module, cached", |b| {
        b.iter(|| {
            python
                .import(black_box(&path), &ImportOptions::default(), &mut |_| {})
                .unwrap()
        });
    });
}

#[cfg(not(feature = "python"))]
fn module(_: &mut Criterion) {}

fn designing(c: &mut Criterion) {
    let (task, target) = (task(256, 256), Target::new("cpu", "x86_64"));
    c.bench_function("design/rules", |b| {
        b.iter(|| design(black_box(&task), &target).unwrap())
    });
}

fn lowering(c: &mut Criterion) {
    let design = design(&task(256, 256), &Target::new("cpu", "x86_64")).unwrap();
    c.bench_function("lower/elaborate", |b| {
        b.iter(|| {
            design
                .sketch
                .elaborate(black_box(&design.knobs), &Bindings::new())
                .unwrap()
        });
    });
    #[cfg(feature = "cpp")]
    c.bench_function("lower/cpp", |b| {
        use akg::Dsl as _;
        let (dsl, target) = (akg::cpp::CppDsl::default(), akg::Target::new("cpu", "x86_64"));
        b.iter(|| {
            dsl.lower(black_box(&design.sketch), &design.knobs, &target)
                .unwrap()
        });
    });
}

fn interpreting(c: &mut Criterion) {
    let graph = graph(32, 64);
    let inputs = inputs(&graph);
    c.bench_function("interpret/reference", |b| {
        b.iter(|| evaluate(&graph, black_box(&inputs), &Options::default()).unwrap());
    });
    let task = Task::new("head", graph);
    let design = design(&task, &Target::new("cpu", "x86_64")).unwrap();
    let program = design.sketch.elaborate(&design.knobs, &Bindings::new()).unwrap();
    c.bench_function("interpret/sketch", |b| {
        b.iter(|| interpret(&program, black_box(&inputs), &Bindings::new()).unwrap());
    });
}

criterion_group! {
    name = road;
    config = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1));
    targets = import, designing, lowering, interpreting
}
criterion_main!(road);
