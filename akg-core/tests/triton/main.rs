//! The example sketches as Triton kernels: built to binaries for a GPU without one, and run in Triton's interpreter
//! against PyTorch's results. Printing is as small as it can be: what it takes beyond the mapping to tile machines is
//! what Triton calls things.
//!
//! Python with `triton` and `torch` is found through `AKG_PYTHON`, as `python3`, or where `akg doctor --fix` installs
//! it; without it the tests say that they were skipped.
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod printer;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use akg_core::conformance::sketch_cases;
use akg_core::expr::Bindings;
use akg_core::lower::tiles::{self, TileProgram};
use akg_core::sketch::ir::Program;
use akg_core::sketch::{Sketch, interpret};
use akg_core::source::{Knobs, Launch, LaunchPlan, TensorRole};
use akg_core::{DType, Tensor};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

fn python() -> Option<&'static Path> {
    static PYTHON: OnceLock<Option<PathBuf>> = OnceLock::new();
    let find = || {
        let named = std::env::var_os("AKG_PYTHON").map(PathBuf::from);
        let candidates = named.map_or_else(|| [vec!["python3".into()], installed()].concat(), |p| vec![p]);
        candidates.into_iter().find(|python| {
            let probe = Command::new(python).args(["-c", "import torch, triton"]).output();
            probe.is_ok_and(|o| o.status.success())
        })
    };
    let python = PYTHON.get_or_init(find).as_deref();
    if python.is_none() {
        // Not by `eprintln!`, which the test runner swallows.
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED: no Python with torch and triton; set AKG_PYTHON to one"
        );
    }
    python
}

/// The interpreters of akg's own environments in the cache directory.
fn installed() -> Vec<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let cache = variable("AKG_CACHE")
        .or_else(|| variable("XDG_CACHE_HOME").map(|c| c.join("akg")))
        .or_else(|| variable("HOME").map(|h| h.join(".cache/akg")));
    let entries = cache.and_then(|c| std::fs::read_dir(c).ok());
    let paths = entries
        .into_iter()
        .flatten()
        .flatten()
        .map(|e| e.path().join("bin/python"));
    paths.filter(|p| p.exists()).collect()
}

/// Elaborates a sketch; knobs without a value have their default.
fn elaborate(name: &str, text: &str, knobs: &Knobs, dims: &Bindings) -> Program {
    let sketch = Sketch::parse(text).unwrap_or_else(|d| panic!("{name}:\n{}", d.render(text)));
    let program = sketch.elaborate(knobs, dims);
    program.unwrap_or_else(|d| panic!("{name} {knobs:?}:\n{}", d.render(text)))
}

fn tile_program(name: &str, text: &str, knobs: &Knobs, dims: &Bindings) -> TileProgram {
    tiles::map(&elaborate(name, text, knobs, dims), &printer::rules())
}

/// Writes the module of a program and returns its path.
fn write_module(label: &str, program: &TileProgram) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{label}.py"));
    std::fs::write(&path, printer::print(program)).unwrap();
    path
}

fn harness(python: &Path, mode: &str, jobs: &[Value]) -> Vec<Value> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/triton/harness.py");
    let mut child = Command::new(python)
        .arg(script)
        .arg(mode)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    serde_json::to_writer(&mut stdin, jobs).unwrap();
    stdin.flush().unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "the harness failed");
    let results: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(results.len(), jobs.len());
    for result in &results {
        if let Some(error) = result.get("error") {
            panic!("{}", error.as_str().unwrap_or_default());
        }
    }
    results
}

fn pointer(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool => "*i1",
        DType::U8 => "*u8",
        DType::I8 => "*i8",
        DType::I16 => "*i16",
        DType::I32 => "*i32",
        DType::I64 => "*i64",
        DType::F16 => "*fp16",
        DType::BF16 => "*bf16",
        DType::F32 => "*fp32",
        DType::F64 => "*fp64",
        other => panic!("Triton has no element type for {other}"),
    }
}

fn build_job(label: &str, program: &TileProgram) -> Value {
    let kernels: Vec<Value> = program
        .kernels
        .iter()
        .map(|kernel| {
            let tensors = kernel.tensors.iter().map(|t| pointer(program.tensors[t.0].dtype));
            let mut arguments: Vec<&str> = tensors.collect();
            arguments.extend(kernel.cooperative.then_some("*i32"));
            arguments.extend(program.dims.iter().map(|_| "i64"));
            json!({"name": kernel.name, "arguments": arguments, "cooperative": kernel.cooperative})
        })
        .collect();
    json!({"module": write_module(label, program), "kernels": kernels})
}

fn run_job(label: &str, program: &TileProgram, dims: &Bindings, inputs: &[Tensor]) -> Value {
    let plan = program.plan();
    let mut inputs = inputs.iter();
    let tensors: Vec<Value> = plan
        .tensors
        .iter()
        .map(|t| {
            let shape: Vec<i64> = t.shape.iter().map(|e| e.eval(dims).unwrap()).collect();
            let input = (t.role == TensorRole::Input).then(|| inputs.next().unwrap());
            let data = input.map(|tensor| STANDARD.encode(tensor.bytes()));
            json!({"dtype": t.dtype.name(), "shape": shape, "role": t.role, "data": data})
        })
        .collect();
    let launches: Vec<Value> = plan
        .launches
        .iter()
        .map(|launch| {
            let programs = LaunchPlan::programs(launch, dims).unwrap();
            json!({
                "kernel": launch.kernel,
                "programs": programs,
                "tensors": launch.tensors,
                "cooperative": launch.cooperative,
            })
        })
        .collect();
    let values: Vec<i64> = plan.dims.iter().map(|d| dims[d]).collect();
    json!({"module": write_module(label, program), "tensors": tensors, "launches": launches, "dims": values})
}

/// The outputs that a run left.
fn outputs(program: &TileProgram, dims: &Bindings, result: &Value) -> Vec<Tensor> {
    let plan = program.plan();
    let data = result["outputs"].as_array().unwrap().iter();
    plan.with_role(TensorRole::Output)
        .zip(data)
        .map(|((_, tensor), data)| {
            let extents = tensor.shape.iter().map(|e| e.eval(dims).unwrap() as usize);
            let bytes = STANDARD.decode(data.as_str().unwrap()).unwrap();
            Tensor::from_bytes(tensor.dtype, extents.collect::<Vec<_>>(), &bytes).unwrap()
        })
        .collect()
}

#[test]
fn examples_build_for_a_gpu() {
    let Some(python) = python() else { return };
    let mut jobs = Vec::new();
    let mut seen = "";
    for case in sketch_cases().unwrap() {
        // The first case of each example, which has the default knobs.
        if std::mem::replace(&mut seen, case.name) == case.name {
            continue;
        }
        for (variant, dims) in [("fixed", &case.dims), ("symbolic", &case.fixed_dims())] {
            let program = tile_program(case.name, case.text, &case.knobs, dims);
            jobs.push(build_job(&format!("build_{}_{variant}", case.name), &program));
        }
    }
    for (job, result) in jobs.iter().zip(harness(python, "build", &jobs)) {
        for kernel in job["kernels"].as_array().unwrap() {
            let name = kernel["name"].as_str().unwrap();
            assert_eq!(result[name]["target"], "sm_90a", "{name} of {}", job["module"]);
        }
    }
}

/// Whether programs must run at the same time; Triton's interpreter runs them one after the other.
fn meets(program: &TileProgram, dims: &Bindings) -> bool {
    let several = |l: &Launch| LaunchPlan::programs(l, dims).unwrap() > 1;
    program
        .plan()
        .launches
        .iter()
        .any(|l| l.cooperative && several(l))
}

#[test]
fn examples_match_pytorch_in_the_interpreter() {
    let Some(python) = python() else { return };
    let mut jobs = Vec::new();
    let mut checks = Vec::new();
    for (number, case) in sketch_cases().unwrap().into_iter().enumerate() {
        // Every other case with symbolic extents.
        let dims = if number % 2 == 0 {
            case.dims.clone()
        } else {
            case.fixed_dims()
        };
        let lower = |knobs: &Knobs| tile_program(case.name, case.text, knobs, &dims);
        let mut program = lower(&case.knobs);
        if meets(&program, &case.dims) {
            let sketch = Sketch::parse(case.text).unwrap();
            let mut points = sketch.legal_points(&case.dims).map(|knobs| lower(&knobs));
            let alone = points.find(|p| !meets(p, &case.dims));
            program = alone.unwrap_or_else(|| panic!("{} always has several programs", case.name));
        }
        let label = format!("run_{}_{number}", case.name);
        jobs.push(run_job(&label, &program, &case.dims, &case.inputs));
        checks.push((case, program));
    }
    for ((case, program), result) in checks.iter().zip(harness(python, "run", &jobs)) {
        case.check(&outputs(program, &case.dims, &result)).unwrap();
    }
}

type Extents = &'static [(&'static str, i64)];

/// Sketches that together use every operator, with extents that Triton does not have.
const OPERATORS: [(&str, &str, Extents); 5] = [
    ("shapes", include_str!("shapes.sketch"), &[("R", 7), ("L", 30)]),
    (
        "dots",
        include_str!("dots.sketch"),
        &[("M", 45), ("N", 30), ("K", 50)],
    ),
    ("math", include_str!("math.sketch"), &[("L", 50)]),
    ("integers", include_str!("integers.sketch"), &[("L", 50)]),
    (
        "control",
        include_str!("control.sketch"),
        &[("A", 5), ("B", 4), ("L", 30)],
    ),
];

#[test]
fn operators_do_as_the_sketch_interpreter_does() {
    let Some(python) = python() else { return };
    let (mut jobs, mut builds, mut checks) = (Vec::new(), Vec::new(), Vec::new());
    for (sketch, text, dims) in OPERATORS {
        let dims: Bindings = dims.iter().map(|(n, v)| ((*n).into(), *v)).collect();
        let program = elaborate(sketch, text, &Knobs::new(), &dims);
        let mut random = Random(7);
        let inputs: Vec<Tensor> = program
            .with_role(TensorRole::Input)
            .map(|(_, t)| {
                let shape: Vec<usize> = t.shape.iter().map(|e| e.eval(&dims).unwrap() as usize).collect();
                random.tensor(t.dtype, shape)
            })
            .collect();
        let expected = interpret(&program, &inputs, &dims).unwrap_or_else(|e| panic!("{sketch}: {e}"));
        let program = tiles::map(&program, &printer::rules());
        builds.push(build_job(sketch, &program));
        jobs.push(run_job(sketch, &program, &dims, &inputs));
        checks.push((sketch, program, dims, expected));
    }
    for ((sketch, program, dims, expected), result) in checks.iter().zip(harness(python, "run", &jobs)) {
        let plan = program.plan();
        let names = plan.with_role(TensorRole::Output).map(|(_, t)| t.name.as_str());
        let got = outputs(program, dims, &result);
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
                assert!(same || near, "{sketch}: {name}[{i}] is {g} instead of {w}");
            }
        }
    }
    let built = harness(python, "build", &builds);
    // The promoted sums of the dots stay additions of their own.
    let additions = &built[1]["main"]["additions"];
    assert!(additions.as_i64().unwrap() >= 5, "{additions}");
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
