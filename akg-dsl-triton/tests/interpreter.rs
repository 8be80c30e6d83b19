//! Sketches as Triton kernels in Triton's own interpreter, against PyTorch's results in f64 and the sketch interpreter.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

mod support;

use std::path::Path;

use akg_core::conformance::sketch_cases;
use akg_core::designer::design;
use akg_core::expr::Bindings;
use akg_core::graph::{Arg, Graph};
use akg_core::reference::{Options, evaluate};
use akg_core::sketch::interpret;
use akg_core::source::{KnobValue, Knobs, LaunchPlan, Source, TensorRole};
use akg_core::task::{Accuracy, Task};
use akg_core::{DType, Dsl, Sketch, Target, Tensor};
use akg_dsl_triton::{TritonDsl, lower_program};
use serde_json::Value;

/// Whether programs must run at the same time; Triton's interpreter runs them one after the other.
fn meets(source: &Source, dims: &Bindings) -> bool {
    let plan = support::plan(source);
    plan.launches
        .iter()
        .any(|l| l.cooperative && LaunchPlan::programs(l, dims).unwrap() > 1)
}

#[test]
fn cases_match_pytorch() {
    let Some(python) = support::python() else { return };
    let dsl = TritonDsl::default();
    // Descriptors, pointers, and another way to round to TF32.
    let targets = [
        support::h100(),
        Target::new("cuda", "sm_80"),
        Target::new("hip", "gfx942"),
    ];
    let mut jobs = Vec::new();
    let mut checks = Vec::new();
    for (number, case) in sketch_cases().unwrap().into_iter().enumerate() {
        // Every other case with symbolic extents.
        let dims = if number % 2 == 0 {
            case.dims.clone()
        } else {
            case.fixed_dims()
        };
        let mut target = targets[number / 2 % 3].clone();
        target.cores = 2;
        let target = &target;
        let sketch = case.sketch(&dims).unwrap();
        let lower = |knobs: &Knobs| {
            let mut knobs = knobs.clone();
            // Of every third case one program for each core goes through all tiles, and others have block pointers.
            let wanted = [".persistent", ".blocks", ".descriptors"][number % 3];
            let own = dsl.knobs(&sketch, target).unwrap().into_iter();
            let chosen = own.filter(|k| k.name.ends_with(wanted));
            knobs.extend(chosen.map(|k| (k.name, KnobValue::Int(1))));
            dsl.lower(&sketch, &knobs, target).unwrap()
        };
        let mut source = lower(&case.knobs);
        if meets(&source, &case.dims) {
            let mut points = sketch.legal_points(&case.dims).map(|knobs| lower(&knobs));
            let alone = points.find(|s| !meets(s, &case.dims));
            source = alone.unwrap_or_else(|| panic!("{} always has several programs", case.name));
        }
        let label = format!("case_{}_{number}", case.name);
        jobs.push(support::run_job(&label, &source, &case.dims, &case.inputs));
        checks.push((case, source));
    }
    for ((case, source), result) in checks.iter().zip(support::interpret(python, &jobs)) {
        let outputs = support::outputs(source, &case.dims, &result);
        case.check(&outputs)
            .unwrap_or_else(|e| panic!("{e}\n{}", source.text));
    }
}

type Extents = &'static [(&'static str, i64)];

/// Sketches that together use every operator, with extents that Triton does not have.
const OPERATORS: [(&str, &str, Extents); 6] = [
    (
        "shapes",
        include_str!("support/shapes.sketch"),
        &[("R", 7), ("L", 30)],
    ),
    (
        "dots",
        include_str!("support/dots.sketch"),
        &[("M", 45), ("N", 30), ("K", 50)],
    ),
    ("math", include_str!("support/math.sketch"), &[("L", 50)]),
    ("integers", include_str!("support/integers.sketch"), &[("L", 50)]),
    (
        "control",
        include_str!("support/control.sketch"),
        &[("A", 5), ("B", 4), ("L", 30)],
    ),
    (
        "ahead",
        include_str!("support/ahead.sketch"),
        &[("R", 7), ("C", 3), ("L", 80)],
    ),
];

#[test]
fn operators_do_as_the_sketch_interpreter_does() {
    let Some(python) = support::python() else { return };
    let target = support::h100();
    let (mut jobs, mut checks) = (Vec::new(), Vec::new());
    for (name, text, dims) in OPERATORS {
        let dims: Bindings = dims.iter().map(|(n, v)| ((*n).into(), *v)).collect();
        let sketch = Sketch::parse(text).unwrap_or_else(|d| panic!("{name}:\n{}", d.render(text)));
        let program = sketch.elaborate(&Knobs::new(), &dims).unwrap();
        let mut random = Random(7);
        let inputs: Vec<Tensor> = program
            .with_role(TensorRole::Input)
            .map(|(_, t)| {
                let shape: Vec<usize> = t.shape.iter().map(|e| e.eval(&dims).unwrap() as usize).collect();
                random.tensor(t.dtype, shape)
            })
            .collect();
        let expected = interpret(&program, &inputs, &dims).unwrap_or_else(|e| panic!("{name}: {e}"));
        let source = lower_program(&program, &target, &Knobs::new()).unwrap();
        jobs.push(support::run_job(
            &format!("operators_{name}"),
            &source,
            &dims,
            &inputs,
        ));
        checks.push((name, source, dims, expected));
    }
    for ((sketch, source, dims, expected), result) in checks.iter().zip(support::interpret(python, &jobs)) {
        let names = support::plan(source)
            .with_role(TensorRole::Output)
            .map(|(_, t)| t.name.as_str());
        let got = support::outputs(source, dims, &result);
        for ((name, got), want) in names.zip(&got).zip(expected) {
            // A few roundings of the elements, or of the operands of the dot in tf32.
            let unit = match name {
                "coarse" => 1e-3,
                _ => got.dtype().unit_roundoff().unwrap_or(0.0),
            };
            let elements = got.to_f64().unwrap().into_iter().zip(want.to_f64().unwrap());
            for (i, (g, w)) in elements.enumerate() {
                let same = g == w || (g.is_nan() && w.is_nan());
                let near = (g - w).abs() <= 8.0 * unit * w.abs();
                assert!(
                    same || near,
                    "{sketch}: {name}[{i}] is {g} instead of {w}\n{}",
                    source.text
                );
            }
        }
    }
}

const SWEEP: &str = "
sketch sweep(x: f32[512, 64], z: f32[512, 64]) -> (tangent: f32[512, 64], logarithm: f32[512, 64], quotient: f32[512, 64], share: f32[512, 64], natural: f32[512, 64])
kernel main over (l in 8) {
  t = load x[l*64 :+ 64, 0 :+ 64]
  store tangent[l*64 :+ 64, 0 :+ 64] = tanh(t)
  store logarithm[l*64 :+ 64, 0 :+ 64] = log1p(exp(-abs(t)))
  store quotient[l*64 :+ 64, 0 :+ 64] = t / load z[l*64 :+ 64, 0 :+ 64]
  first = load z[l*64 :+ 64, 0]
  store share[l*64 :+ 64, 0 :+ 64] = t / first[:, None]
  store natural[l*64 :+ 64, 0 :+ 64] = log(t)
}
";

/// A step through all numbers, as many as there are elements; half of them from 2^-8 to 2^8.
fn numbers(step: u32) -> Vec<f32> {
    let number = |i: u32| match i.wrapping_mul(step) {
        bits if i.is_multiple_of(2) => f32::from_bits(bits),
        bits => f32::from_bits((bits & 0x87ff_ffff) + 0x3b80_0000),
    };
    (0..32768).map(number).collect()
}

#[test]
fn functions_of_the_prelude_are_exact_at_every_magnitude() {
    let Some(python) = support::python() else { return };
    let (x, z) = (numbers(0x0002_0003), numbers(0x9e37_79b1));
    let inputs = [&x, &z].map(|n| Tensor::from_slice([512, 64], n).unwrap());
    let sketch = Sketch::parse(SWEEP).unwrap_or_else(|d| panic!("{}", d.render(SWEEP)));
    let none = Bindings::new();
    let program = sketch.elaborate(&Knobs::new(), &none).unwrap();
    let source = lower_program(&program, &support::h100(), &Knobs::new()).unwrap();
    let job = support::run_job("sweep", &source, &none, &inputs);
    let result = support::interpret(python, &[job]).into_iter().next().unwrap();
    let outputs = support::outputs(&source, &none, &result);
    let wide = |n: &[f32]| n.iter().map(|v| f64::from(*v)).collect::<Vec<_>>();
    let tangents = wide(&x).into_iter().map(f64::tanh).collect::<Vec<_>>();
    let logarithms = wide(&x).into_iter().map(|x| (-x.abs()).exp().ln_1p());
    let logarithms = logarithms.collect::<Vec<_>>();
    let quotients = wide(&x).into_iter().zip(wide(&z)).map(|(a, b)| a / b).collect();
    let firsts = wide(&z).into_iter().step_by(64).flat_map(|z| [z; 64]);
    let shares = wide(&x).into_iter().zip(firsts).map(|(a, b)| a / b).collect();
    let naturals = wide(&x).into_iter().map(f64::ln).collect();
    for (got, want) in outputs
        .iter()
        .zip([tangents, logarithms, quotients, shares, naturals])
    {
        for (i, (got, want)) in got.to_f64().unwrap().into_iter().zip(want).enumerate() {
            let (x, z, rounded) = (x[i], z[i], f64::from(want as f32));
            let allowed = 4.0 * f64::from(f32::EPSILON) * want.abs() + f64::from(f32::from_bits(1));
            let same = got == rounded && (got != 0.0 || got.is_sign_negative() == want.is_sign_negative());
            let near = got != 0.0 && (got - want).abs() <= allowed;
            assert!(
                same || near || got.is_nan() && want.is_nan(),
                "{got:e} instead of {want:e} for {x:e} and {z:e}, number {i}"
            );
        }
    }
}

const NEAR: &str = "
sketch near(x: f32[512, 64], z: f32[512, 64]) -> (exponential: f32[512, 64], tangent: f32[512, 64], share: f32[512, 64], error: f32[512, 64], quotient: f32[512, 64])
accuracy half
kernel main over (l in 8) {
  t = load x[l*64 :+ 64, 0 :+ 64]
  store exponential[l*64 :+ 64, 0 :+ 64] = exp(t)
  store tangent[l*64 :+ 64, 0 :+ 64] = tanh(t)
  store share[l*64 :+ 64, 0 :+ 64] = sigmoid(t)
  store error[l*64 :+ 64, 0 :+ 64] = erf(t)
  store quotient[l*64 :+ 64, 0 :+ 64] = t / load z[l*64 :+ 64, 0 :+ 64]
}
";

#[test]
fn functions_beyond_fp32_are_near_at_every_magnitude() {
    let Some(python) = support::python() else { return };
    let inputs =
        [0x0002_0003, 0x9e37_79b1].map(|step| Tensor::from_slice([512, 64], &numbers(step)).unwrap());
    let sketch = Sketch::parse(NEAR).unwrap_or_else(|d| panic!("{}", d.render(NEAR)));
    let none = Bindings::new();
    let program = sketch.elaborate(&Knobs::new(), &none).unwrap();
    let expected = interpret(&program, &inputs, &none).unwrap();
    let source = lower_program(&program, &support::h100(), &Knobs::new()).unwrap();
    for function in ["fast_expf", "tanh_approx", "sigmoid_approx", "erf_approx"] {
        assert!(source.text.contains(function), "no {function}\n{}", source.text);
    }
    let job = support::run_job("near", &source, &none, &inputs);
    let result = support::interpret(python, &[job]).into_iter().next().unwrap();
    let outputs = support::outputs(&source, &none, &result);
    let x = inputs[0].to_f64().unwrap();
    for (number, (got, want)) in outputs.iter().zip(&expected).enumerate() {
        let elements = got.to_f64().unwrap().into_iter().zip(want.to_f64().unwrap());
        for (i, (got, want)) in elements.enumerate() {
            let near = (got - want).abs() <= 1e-5 * want.abs() + f64::from(f32::MIN_POSITIVE);
            assert!(
                near || got == want || got.is_nan() && want.is_nan(),
                "function {number}: {got:e} instead of {want:e} for {:e}",
                x[i]
            );
        }
    }
}

/// Runs sources with one output each and compares it with the exact one, by rms.
fn errors_are_at_most(python: &Path, jobs: &[Value], checks: &[(Source, Vec<f64>, f64)]) {
    for ((source, exact, most), result) in checks.iter().zip(support::interpret(python, jobs)) {
        let got = support::outputs(source, &Bindings::new(), &result)[0]
            .to_f64()
            .unwrap();
        let size: f64 = exact.iter().map(|e| e * e).sum();
        let wrong: f64 = got.iter().zip(exact).map(|(g, e)| (g - e).powi(2)).sum();
        let error = (wrong / size).sqrt();
        assert!(error <= *most, "an error of {error}\n{}", source.text);
    }
}

#[test]
fn designed_products_keep_to_their_class() {
    let Some(python) = support::python() else { return };
    let dsl = TritonDsl::default();
    let target = support::with_tensor_cores();
    let (mut jobs, mut checks) = (Vec::new(), Vec::new());
    // Operands that become factors beforehand, where they are multiplied, and in parts of the sum.
    for [rows, columns, depth] in [[20, 800, 130], [800, 20, 130], [40, 40, 1100]] {
        for (accuracy, most) in [(Accuracy::Tf32, 5e-4), (Accuracy::Half, 4e-3)] {
            let mut graph = Graph::new("product");
            let x = graph.input("x", DType::F32, [rows, depth]);
            let w = graph.weight("w", DType::F32, [columns, depth]);
            let y = graph.linear(x, w, None).unwrap();
            graph.output(y);
            let mut random = Random(rows as u64);
            let inputs = [rows, columns].map(|n| random.fractions(&[n as usize, depth as usize]));
            let exact = evaluate(&graph, &inputs, &Options::default()).unwrap();
            let mut task = Task::new("product", graph);
            task.contract.accuracy = accuracy;
            let design = design(&task, &target).unwrap();
            let source = dsl.lower(&design.sketch, &design.knobs, &target).unwrap();
            let label = format!("class_{}", jobs.len());
            jobs.push(support::run_job(&label, &source, &Bindings::new(), &inputs));
            checks.push((source, exact[0].to_f64(), most));
        }
    }
    errors_are_at_most(python, &jobs, &checks);
}

#[test]
fn designed_attention_is_right() {
    let Some(python) = support::python() else { return };
    let dsl = TritonDsl::default();
    let target = support::with_tensor_cores();
    let (mut jobs, mut checks) = (Vec::new(), Vec::new());
    // Neither rows, keys nor heads are multiples of tiles.
    let shapes = [[2, 70, 24], [2, 150, 24], [2, 150, 40]];
    for (accuracy, most) in [
        (Accuracy::Fp32, 1e-6),
        (Accuracy::Tf32, 1e-3),
        (Accuracy::Half, 1e-3),
    ] {
        for is_causal in [true, false] {
            let mut graph = Graph::new("attention");
            let [q, k, v] = [0, 1, 2].map(|i| graph.input(["q", "k", "v"][i], DType::F32, shapes[i]));
            let all: [(&str, Arg); 4] = [
                ("query", q.into()),
                ("key", k.into()),
                ("value", v.into()),
                ("is_causal", is_causal.into()),
            ];
            let y = graph.call("scaled_dot_product_attention.default", all).unwrap()[0];
            graph.output(y);
            let mut random = Random(7);
            let inputs = shapes.map(|shape| random.fractions(&shape.map(|n| n as usize)));
            let exact = evaluate(&graph, &inputs, &Options::default()).unwrap();
            let mut task = Task::new("attention", graph);
            task.contract.accuracy = accuracy;
            let design = design(&task, &target).unwrap();
            assert!(design.kernels.iter().any(|kernel| kernel.rule == "attention"));
            let source = dsl.lower(&design.sketch, &design.knobs, &target).unwrap();
            let label = format!("attention_{}", jobs.len());
            jobs.push(support::run_job(&label, &source, &Bindings::new(), &inputs));
            checks.push((source, exact[0].to_f64(), most));
        }
    }
    errors_are_at_most(python, &jobs, &checks);
}

#[test]
fn designed_strips_are_stored_where_they_belong() {
    let Some(python) = support::python() else { return };
    let dsl = TritonDsl::default();
    let mut target = support::with_tensor_cores();
    // A few tiles fill it.
    target.cores = 1;
    let (mut jobs, mut checks) = (Vec::new(), Vec::new());
    // Tiles reach beyond rows and columns; the copy engine takes rows of multiples of 16 bytes.
    for (batch, rows, columns, is_boxed) in [(1, 906, 436, true), (1, 906, 430, false), (2, 450, 440, true)] {
        let mut graph = Graph::new("product");
        let shapes = [[batch, rows, 20], [batch, 20, columns]];
        let [x, w] = ["x", "w"].map(|name| {
            let shape = shapes[usize::from(name == "w")];
            graph.input(name, DType::F32, shape)
        });
        let y = graph.matmul(x, w).unwrap();
        graph.output(y);
        let mut random = Random(columns as u64);
        let inputs = shapes.map(|shape| random.fractions(&shape.map(|n| n as usize)));
        let exact = evaluate(&graph, &inputs, &Options::default()).unwrap();
        let design = design(&Task::new("product", graph), &target).unwrap();
        let source = dsl.lower(&design.sketch, &design.knobs, &target).unwrap();
        assert_eq!(source.text.contains("_desc.store("), is_boxed, "{}", source.text);
        let label = format!("strips_{}", jobs.len());
        jobs.push(support::run_job(&label, &source, &Bindings::new(), &inputs));
        checks.push((source, exact[0].to_f64()));
    }
    for ((source, exact), result) in checks.iter().zip(support::interpret(python, &jobs)) {
        let got = support::outputs(source, &Bindings::new(), &result)[0]
            .to_f64()
            .unwrap();
        for (i, (got, want)) in got.iter().zip(exact).enumerate() {
            let near = (got - want).abs() <= 16.0 * f64::from(f32::EPSILON);
            assert!(near, "element {i} is {got}, not {want}\n{}", source.text);
        }
    }
}

/// Marsaglia's xorshift64, for inputs.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Numbers with all the bits of f32 between -1 and 1.
    fn fractions(&mut self, shape: &[usize]) -> Tensor {
        let one = |_| (self.next() as i32) as f32 / 2f32.powi(31);
        let values: Vec<f32> = (0..shape.iter().product()).map(one).collect();
        Tensor::from_slice(shape, &values).unwrap()
    }

    /// Multiples of 1/64 up to 4 in magnitude, and small integers.
    fn tensor(&mut self, dtype: DType, shape: Vec<usize>) -> Tensor {
        let count: usize = shape.iter().product();
        let mut bytes = Vec::new();
        for _ in 0..count {
            let i = self.next() as i64 % 256;
            let f = i as f64 / 64.0;
            match dtype {
                DType::F64 => bytes.extend(f.to_le_bytes()),
                DType::F32 => bytes.extend((f as f32).to_le_bytes()),
                DType::F16 => bytes.extend(half::f16::from_f64(f).to_le_bytes()),
                DType::I64 => bytes.extend((i / 4).to_le_bytes()),
                DType::I32 => bytes.extend((i as i32 / 16).to_le_bytes()),
                DType::U8 => bytes.push(i.unsigned_abs() as u8),
                other => panic!("no inputs of {other}"),
            }
        }
        Tensor::from_bytes(dtype, shape, &bytes).unwrap()
    }
}
