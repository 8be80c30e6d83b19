//! Designs compute what their graphs mean: the sketch interpreter against the reference interpreter.

use half::{bf16, f16};

use super::design;
use crate::diagnostic::Severity;
use crate::expr::Bindings;
use crate::graph::{Arg, Graph, ValueId};
use crate::reference::{Options, Outcome, evaluate};
use crate::sketch::{Sketch, interpret};
use crate::source::TensorRole;
use crate::target::Target;
use crate::task::Task;
use crate::{DType, Result, Tensor};

mod activations;
mod another;
mod attention;
mod choose;
mod classes;
mod elementary;
mod families;
mod found;
mod given;
mod groups;
mod images;
mod index;
mod joins;
mod mixing;
mod parts;
mod phases;
mod places;
mod pools;
mod recur;
mod state;
mod stream;
mod strips;
mod symbolic;
mod teams;
mod windows;

const F: DType = DType::F32;

/// Values in −2..2 that no simple pattern explains.
fn values(count: usize, seed: u32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(12345);
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1u32 << 22) as f32 - 2.0
    };
    (0..count).map(|_| next()).collect()
}

/// Elements of a type: floats of [`values`], integers in 0..5, booleans of both kinds.
fn input(shape: Vec<usize>, dtype: DType, seed: u32) -> Tensor {
    let values = values(shape.iter().product(), seed);
    match dtype {
        DType::F32 => Tensor::from_slice(shape, &values),
        DType::F16 => Tensor::from_slice(shape, &values.into_iter().map(f16::from_f32).collect::<Vec<_>>()),
        DType::BF16 => Tensor::from_slice(shape, &values.into_iter().map(bf16::from_f32).collect::<Vec<_>>()),
        DType::I64 => {
            let values: Vec<i64> = values.iter().map(|v| ((v + 2.0) * 1.25) as i64).collect();
            Tensor::from_slice(shape, &values)
        }
        _ => Tensor::from_bools(shape, &values.iter().map(|v| *v > 0.0).collect::<Vec<_>>()),
    }
    .unwrap()
}

/// A list of integers as an argument.
fn ints(list: &[i64]) -> Arg {
    Arg::Ints(list.iter().map(|i| (*i).into()).collect())
}

/// What stands at an index along the first dimension.
fn select(g: &mut Graph, x: ValueId, index: i64) -> Result<ValueId> {
    let args: [(&str, Arg); 3] = [("self", x.into()), ("dim", 0.into()), ("index", index.into())];
    g.call("select.int", args).map(|y| y[0])
}

fn roll(g: &mut Graph, x: ValueId, shifts: &[i64], dims: &[i64]) -> Result<ValueId> {
    let args = [("self", x.into()), ("shifts", ints(shifts)), ("dims", ints(dims))];
    g.call("roll.default", args).map(|y| y[0])
}

/// Interprets the design of a graph with one output at several knob points and compares it with the reference.
#[track_caller]
fn check(name: &str, build: impl FnOnce(&mut Graph) -> Result<ValueId>) {
    check_all(name, |g| build(g).map(|y| vec![y]));
}

/// The same for several outputs.
#[track_caller]
fn check_all(name: &str, build: impl FnOnce(&mut Graph) -> Result<Vec<ValueId>>) {
    check_within(name, 1e-5, build);
}

/// The same with another error for values of size one.
#[track_caller]
fn check_within(name: &str, error: f64, build: impl FnOnce(&mut Graph) -> Result<Vec<ValueId>>) {
    let mut g = Graph::new(name);
    for y in build(&mut g).unwrap() {
        g.output(y);
    }
    check_on(&[Target::new("cpu", "x86_64"), many_threads()], g, error);
}

/// The same on these devices.
#[track_caller]
fn check_on(targets: &[Target], g: Graph, error: f64) {
    check_task(targets, &Task::new(g.name().to_owned(), g), error);
}

/// The same for a task.
#[track_caller]
fn check_task(targets: &[Target], task: &Task, error: f64) {
    let inputs = inputs(&task.graph, &Bindings::new());
    let expected = evaluate(&task.graph, &inputs, &Options::default()).unwrap();
    for target in targets {
        check_design(task, target, &inputs, &expected, error);
    }
}

/// What a graph is called with.
fn inputs(g: &Graph, dims: &Bindings) -> Vec<Tensor> {
    let types = g.inputs().iter().map(|given| g.ty(given.value)).zip(1..);
    types
        .map(|(ty, seed)| input(ty.concrete_shape(dims).unwrap(), ty.dtype, seed))
        .collect()
}

/// A device whose cores share tiles between threads, and multiply halves fast. A launch takes longer than anything that more
/// kernels could save.
fn many_threads() -> Target {
    let mut target = Target::new("threads", "t1");
    (target.cores, target.threads) = (16, 2048);
    target.peak = [(DType::F32, 1.0), (DType::F16, 16.0), (DType::BF16, 16.0)].into();
    target.launch_seconds = 1e18;
    target
}

/// What the design of `task` computes at several knob points, by the interpreter.
#[track_caller]
fn results(task: &Task, target: &Target, inputs: &[Tensor]) -> Vec<(String, Vec<Tensor>)> {
    let name = &task.name;
    let design = design(task, target).unwrap_or_else(|e| panic!("{name}: {e:?}"));
    let constants = task.graph.constants().iter().map(|c| c.tensor.clone());
    let given: Vec<Tensor> = inputs.iter().cloned().chain(constants).collect();
    runs(name, &design.sketch, &given, &Bindings::new(), 4)
}

/// What a sketch computes at the first `points` knob points.
#[track_caller]
fn runs(
    name: &str,
    sketch: &Sketch,
    inputs: &[Tensor],
    dims: &Bindings,
    points: usize,
) -> Vec<(String, Vec<Tensor>)> {
    let text = sketch.to_string();
    let run = |knobs| {
        let program = sketch
            .elaborate(&knobs, &Bindings::new())
            .unwrap_or_else(|d| panic!("{}\n{text}", d.render(&text)));
        let found = crate::sketch::validate(&program, None);
        assert!(
            found.iter().all(|d| d.severity != Severity::Error),
            "{name}: {}",
            found.render(&text)
        );
        let declared = program.with_role(TensorRole::Input).map(|(_, t)| t.shape.clone());
        let inputs: Vec<Tensor> = inputs
            .iter()
            .zip(declared)
            .map(|(t, shape)| {
                let shape = shape.iter().map(|d| d.eval(dims).unwrap() as usize);
                t.reshape(shape.collect::<Vec<_>>()).unwrap()
            })
            .collect();
        let got = interpret(&program, &inputs, dims).unwrap_or_else(|e| panic!("{name}: {e:?}\n{text}"));
        (format!("with {knobs:?} {dims:?}\n{text}"), got)
    };
    sketch.legal_points(dims).take(points).map(run).collect()
}

#[track_caller]
fn check_design(task: &Task, target: &Target, inputs: &[Tensor], expected: &[Outcome], error: f64) {
    for (how, got) in results(task, target, inputs) {
        compare(&task.name, &how, &got, expected, error);
    }
}

#[track_caller]
fn compare(name: &str, how: &str, got: &[Tensor], expected: &[Outcome], error: f64) {
    for (got, expected) in got.iter().zip(expected) {
        let (got, expected) = (got.to_f64().unwrap(), expected.to_f64());
        assert_eq!(got.len(), expected.len());
        let finite = expected.iter().filter(|e| e.is_finite());
        let rms = (finite.map(|e| e * e).sum::<f64>() / expected.len().max(1) as f64).sqrt();
        for (i, (g, e)) in got.iter().zip(&expected).enumerate() {
            let close =
                (g - e).abs() <= error * (1.0 + e.abs() + 0.1 * rms) || g.is_nan() && e.is_nan() || g == e;
            assert!(close, "{name}: element {i} is {g}, not {e}, {how}");
        }
    }
}

fn unary(name: &str, shape: &[i64], f: impl FnOnce(&mut Graph, ValueId) -> Result<ValueId>) {
    check(name, |g| {
        let x = g.input("x", F, shape.iter().copied());
        f(g, x)
    });
}

#[test]
fn element_wise_chains() {
    unary("gelu", &[7, 33], |g, x| g.gelu(x));
    unary("gelu_tanh", &[5], |g, x| g.gelu_tanh(x));
    unary("shared", &[3, 70], |g, x| {
        let e = g.exp(x)?;
        let s = g.sigmoid(x)?;
        let y = g.mul(e, s)?;
        g.sub(y, x)
    });
    unary("leaky", &[130], |g, x| g.leaky_relu(x, 0.01));
    unary("hardtanh", &[130], |g, x| g.hardtanh(x, -1.0, 1.0));
    unary("elu", &[130], |g, x| g.elu(x, 1.0));
    unary("scalar", &[130], |g, x| {
        let y = g.mul(x, 3.5)?;
        g.add(y, 2)
    });
    unary("transposed", &[20, 70], |g, x| {
        let y = g.transpose(x, 0, 1)?;
        g.relu(y)
    });
    unary("with_its_transpose", &[33, 33], |g, x| {
        let y = g.transpose(x, 0, 1)?;
        g.add(x, y)
    });
    check("broadcast", |g| {
        let x = g.input("x", F, [6, 5, 40]);
        let b = g.input("b", F, [5, 1]);
        let c = g.input("c", F, [40]);
        let y = g.mul(x, b)?;
        let c = g.exp(c)?;
        g.add(y, c)
    });
    check("outer", |g| {
        let a = g.input("a", F, [30]);
        let b = g.input("b", F, [30, 50]);
        let a = g.unsqueeze(a, 1)?;
        g.mul(a, b)
    });
    unary("copy", &[4, 6, 5], |g, x| g.permute(x, &[2, 0, 1]));
    unary("expand", &[4, 1, 5], |g, x| g.expand(x, [4, 3, 5]));
}

#[test]
fn reductions() {
    unary("sum_inner", &[9, 100], |g, x| g.sum(x, &[1], false));
    unary("sum_middle", &[4, 70, 33], |g, x| g.sum(x, &[1], true));
    unary("sum_outer", &[70, 33], |g, x| g.sum(x, &[0], false));
    unary("sum_long", &[3, 9001], |g, x| g.sum(x, &[1], false));
    unary("mean_two", &[4, 5, 6, 7], |g, x| g.mean(x, &[2, 3], false));
    unary("mean_apart", &[4, 5, 6], |g, x| g.mean(x, &[0, 2], false));
    unary("max", &[4, 70, 33], |g, x| Ok(g.max_dim(x, 1, false)?.0));
    unary("min", &[4, 70], |g, x| Ok(g.min_dim(x, 1, true)?.0));
    unary("argmax", &[4, 70, 33], |g, x| g.argmax(x, 1));
    unary("argmin", &[4, 70], |g, x| g.argmin(x, -1));
    unary("argmax_long", &[2, 9001], |g, x| g.argmax(x, 1));
    unary("sum_of_squares", &[5, 9001], |g, x| {
        let y = g.mul(x, x)?;
        g.sum(y, &[1], false)
    });
    unary("max_of_abs_shift", &[5, 9001], |g, x| {
        let y = g.add(x, 1.0)?;
        let y = g.abs(y)?;
        g.amax(y, &[1], false)
    });
}

#[test]
fn softmax_and_norms() {
    unary("softmax", &[9, 100], |g, x| g.softmax(x, -1));
    unary("softmax_long", &[2, 9001], |g, x| g.softmax(x, -1));
    unary("softmax_middle", &[3, 50, 20], |g, x| g.softmax(x, 1));
    unary("log_softmax", &[9, 100], |g, x| g.log_softmax(x, 1));
    check("layer_norm", |g| {
        let x = g.input("x", F, [10, 6, 20]);
        let w = g.weight("w", F, [6, 20]);
        let b = g.weight("b", F, [6, 20]);
        g.layer_norm(x, [6, 20], Some(w), Some(b), 1e-5)
    });
    check("group_norm", |g| {
        let x = g.input("x", F, [3, 8, 5, 6]);
        let w = g.weight("w", F, [8]);
        let b = g.weight("b", F, [8]);
        g.group_norm(x, 4, Some(w), Some(b), 1e-5)
    });
    unary("rms", &[6, 50, 7], |g, x| {
        let s = g.mul(x, x)?;
        let m = g.mean(s, &[1], true)?;
        let m = g.add(m, 1e-5)?;
        let r = g.sqrt(m)?;
        g.div(x, r)
    });
    unary("two_stages", &[6, 50], |g, x| {
        let s = g.softmax(x, 1)?;
        g.softmax(s, 0)
    });
}

#[test]
fn products() {
    check("mlp", |g| {
        let x = g.input("x", F, [33, 70]);
        let w = g.weight("w", F, [50, 70]);
        let b = g.weight("b", F, [50]);
        let y = g.linear(x, w, Some(b))?;
        let y = g.gelu(y)?;
        g.softmax(y, -1)
    });
    check("batched", |g| {
        let a = g.input("a", F, [3, 20, 40]);
        let b = g.input("b", F, [3, 40, 30]);
        g.bmm(a, b)
    });
    check("four_dimensions", |g| {
        let x = g.input("x", F, [2, 3, 10, 16]);
        let w = g.weight("w", F, [16, 24]);
        g.einsum("bijl,lk->bijk", &[x, w])
    });
    check("transposed", |g| {
        let a = g.input("a", F, [40, 20]);
        let b = g.input("b", F, [30, 40]);
        let (a, b) = (g.transpose(a, 0, 1)?, g.transpose(b, 0, 1)?);
        g.matmul(a, b)
    });
    check("triangular", |g| {
        let a = g.input("a", F, [40, 40]);
        let b = g.input("b", F, [40, 40]);
        let y = g.matmul(a, b)?;
        g.tril(y, 0)
    });
    check("triangular_of_several_tiles", |g| {
        let a = g.input("a", F, [270, 260]);
        let b = g.input("b", F, [260, 300]);
        let y = g.matmul(a, b)?;
        g.triu(y, -3)
    });
    check("sum_in_parts", |g| {
        let a = g.input("a", F, [19, 8500]);
        let b = g.input("b", F, [8500, 5]);
        let y = g.matmul(a, b)?;
        g.relu(y)
    });
    check("matrix_vector", |g| {
        let a = g.input("a", F, [40, 9001]);
        let b = g.input("b", F, [9001, 1]);
        g.matmul(a, b)
    });
    check("batched_matrix_vector", |g| {
        let a = g.input("a", F, [2, 67, 5000]);
        let b = g.input("b", F, [2, 5000, 1]);
        let c = g.input("c", F, [2, 67, 1]);
        // Terms cancel: an error is small beside them, not beside what is left.
        let y = g.bmm(a, b)?;
        let y = g.mul(y, 0.01)?;
        g.add(y, c)
    });
    check("square_of_itself", |g| {
        let a = g.input("a", F, [40, 40]);
        g.matmul(a, a)
    });
    check("prologue", |g| {
        let a = g.input("a", F, [40, 30]);
        let b = g.input("b", F, [30, 20]);
        let a = g.relu(a)?;
        g.matmul(a, b)
    });
    check("few_rows", |g| {
        let x = g.input("x", F, [19, 128]);
        let w = g.weight("w", F, [300, 128]);
        g.linear(x, w, None)
    });
    check("few_tiles_in_parts", |g| {
        let a = g.input("a", F, [20, 1024]);
        let b = g.input("b", F, [1024, 24]);
        g.matmul(a, b)
    });
    check("long_sums", |g| {
        let a = g.input("a", F, [20, 2500]);
        let b = g.input("b", F, [2500, 24]);
        g.matmul(a, b)
    });
    check("long_sums_in_parts", |g| {
        let a = g.input("a", F, [20, 17000]);
        let b = g.input("b", F, [17000, 24]);
        g.matmul(a, b)
    });
    check("residual", |g| {
        let a = g.input("a", F, [40, 30]);
        let b = g.input("b", F, [30, 30]);
        let y = g.matmul(a, b)?;
        g.add(y, a)
    });
}

#[test]
fn buffers_are_known_by_the_values_they_hold() {
    let mut g = Graph::new("two_layers");
    let x = g.input("x", F, [24, 32]);
    let w1 = g.weight("w1", F, [40, 32]);
    let w2 = g.weight("w2", F, [16, 40]);
    let h = g.linear(x, w1, None).unwrap();
    let h = g.gelu(h).unwrap();
    g.rename(h, "hidden").unwrap();
    let y = g.linear(h, w2, None).unwrap();
    g.output(y);
    let task = Task::new("two_layers", g);
    let design = design(&task, &Target::new("cpu", "x86_64")).unwrap();
    let held: Vec<_> = design.intermediates.values().map(String::as_str).collect();
    assert_eq!(held, ["hidden"], "{}", design.sketch);
    let program = design.sketch.elaborate(&design.knobs, &Bindings::new()).unwrap();
    for name in design.intermediates.keys() {
        assert!(
            program
                .with_role(TensorRole::Scratch)
                .any(|(_, t)| t.name == *name)
        );
    }
}
