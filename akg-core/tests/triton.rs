//! The example sketches as Triton kernels: built to binaries for a GPU without one, and run in Triton's interpreter
//! against PyTorch's results. Printing is as small as it can be: what it takes beyond the mapping to tile machines is
//! what Triton calls things.
//!
//! Python with `triton` and `torch` is found through `AKG_PYTHON`, else as `python3`; without it the tests say that
//! they were skipped.

#[path = "triton/printer.rs"]
mod printer;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use akg_core::expr::Bindings;
use akg_core::lower::tiles::{self, TileProgram};
use akg_core::sketch::ir::Program;
use akg_core::sketch::{Sketch, examples, interpret};
use akg_core::source::{Knobs, Launch, LaunchPlan, TensorRole};
use akg_core::{DType, Tensor};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Value, json};

fn python() -> Option<&'static Path> {
    static PYTHON: OnceLock<Option<PathBuf>> = OnceLock::new();
    let find = || {
        let python = PathBuf::from(std::env::var_os("AKG_PYTHON").unwrap_or("python3".into()));
        let probe = Command::new(&python)
            .args(["-c", "import torch, triton"])
            .output();
        probe.is_ok_and(|o| o.status.success()).then_some(python)
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

/// A golden case of `tests/data/sketches`.
#[derive(Deserialize)]
struct Case {
    dims: Bindings,
    symbolic: Vec<String>,
    knobs: Vec<Knobs>,
    inputs: Vec<Packed>,
    expected: Vec<Packed>,
    tolerance: f64,
    by_row: bool,
}

/// A tensor with base64 data.
#[derive(Deserialize)]
struct Packed {
    shape: Vec<usize>,
    data: String,
}

impl Packed {
    /// The elements of a tensor of f64.
    fn elements(&self) -> Vec<f64> {
        let bytes = STANDARD.decode(&self.data).unwrap();
        let tensor = Tensor::from_bytes(DType::F64, self.shape.clone(), &bytes).unwrap();
        tensor.to_f64().unwrap()
    }
}

fn cases(name: &str) -> Vec<Case> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/data/sketches/{name}.json"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Elaborates a sketch, leaving the dims named in `symbolic` open.
fn elaborate(name: &str, text: &str, knobs: &Knobs, dims: &Bindings, symbolic: &[String]) -> Program {
    let sketch = Sketch::parse(text).unwrap_or_else(|d| panic!("{name}:\n{}", d.render(text)));
    let mut bindings = dims.clone();
    bindings.retain(|dim, _| !symbolic.iter().any(|s| **s == **dim));
    let mut all = sketch.default_knobs();
    all.extend(knobs.iter().map(|(name, value)| (name.clone(), *value)));
    sketch
        .elaborate(&all, &bindings)
        .unwrap_or_else(|d| panic!("{name} {knobs:?}:\n{}", d.render(text)))
}

fn tile_program(name: &str, text: &str, knobs: &Knobs, dims: &Bindings, symbolic: &[String]) -> TileProgram {
    tiles::map(&elaborate(name, text, knobs, dims, symbolic), &printer::rules())
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

/// `inputs` are base64 of the elements.
fn run_job(label: &str, program: &TileProgram, bindings: &Bindings, inputs: &[&str]) -> Value {
    let plan = program.plan();
    let mut inputs = inputs.iter();
    let tensors: Vec<Value> = plan
        .tensors
        .iter()
        .map(|t| {
            let shape: Vec<i64> = t.shape.iter().map(|e| e.eval(bindings).unwrap()).collect();
            let data = (t.role == TensorRole::Input).then(|| inputs.next().unwrap());
            json!({"dtype": t.dtype.name(), "shape": shape, "role": t.role, "data": data})
        })
        .collect();
    let launches: Vec<Value> = plan
        .launches
        .iter()
        .map(|launch| {
            let programs = LaunchPlan::programs(launch, bindings).unwrap();
            json!({
                "kernel": launch.kernel,
                "programs": programs,
                "tensors": launch.tensors,
                "cooperative": launch.cooperative,
            })
        })
        .collect();
    let dims: Vec<i64> = plan.dims.iter().map(|d| bindings[d]).collect();
    json!({"module": write_module(label, program), "tensors": tensors, "launches": launches, "dims": dims})
}

#[test]
fn examples_build_for_a_gpu() {
    let Some(python) = python() else { return };
    let mut jobs = Vec::new();
    for (name, text) in examples() {
        let case = cases(name).swap_remove(0);
        for (variant, symbolic) in [("static", &[][..]), ("symbolic", &case.symbolic)] {
            let program = tile_program(name, text, &Knobs::new(), &case.dims, symbolic);
            jobs.push(build_job(&format!("build_{name}_{variant}"), &program));
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
    for (name, text) in examples() {
        for (c, case) in cases(name).iter().enumerate() {
            for (k, knobs) in case.knobs.iter().enumerate() {
                // Symbolic extents once for each case.
                let symbolic = if k == 0 { &case.symbolic[..] } else { &[] };
                let mut program = tile_program(name, text, knobs, &case.dims, symbolic);
                if meets(&program, &case.dims) {
                    let alone = |p: &TileProgram| !meets(p, &case.dims);
                    let points = Sketch::parse(text)
                        .unwrap()
                        .legal_points(&case.dims)
                        .collect::<Vec<_>>();
                    let mut programs = points
                        .iter()
                        .map(|p| tile_program(name, text, p, &case.dims, symbolic));
                    program = programs
                        .find(alone)
                        .unwrap_or_else(|| panic!("{name} always has several programs"));
                }
                let label = format!("run_{name}_{c}_{k}");
                let data: Vec<&str> = case.inputs.iter().map(|i| i.data.as_str()).collect();
                jobs.push(run_job(&label, &program, &case.dims, &data));
                let expected: Vec<_> = case.expected.iter().map(Packed::elements).collect();
                let row = if case.by_row {
                    case.expected[0].shape.last().copied()
                } else {
                    None
                };
                checks.push((label, program, expected, row, case.tolerance));
            }
        }
    }
    for ((label, program, expected, row, tolerance), result) in
        checks.iter().zip(harness(python, "run", &jobs))
    {
        for ((name, got), want) in outputs(program, &result).iter().zip(expected) {
            compare(
                &format!("{label}: {name}"),
                got,
                want,
                row.unwrap_or(want.len()),
                *tolerance,
            );
        }
    }
}

/// Sketches that together use every operator, with extents that Triton does not have.
const OPERATORS: [(&str, &str, &[(&str, i64)]); 5] = [
    (
        "shapes",
        include_str!("triton/shapes.sketch"),
        &[("R", 7), ("L", 30)],
    ),
    (
        "dots",
        include_str!("triton/dots.sketch"),
        &[("M", 45), ("N", 30), ("K", 50)],
    ),
    ("math", include_str!("triton/math.sketch"), &[("L", 50)]),
    ("integers", include_str!("triton/integers.sketch"), &[("L", 50)]),
    (
        "control",
        include_str!("triton/control.sketch"),
        &[("A", 5), ("B", 4), ("L", 30)],
    ),
];

#[test]
fn operators_do_as_the_sketch_interpreter_does() {
    let Some(python) = python() else { return };
    let (mut jobs, mut builds, mut checks) = (Vec::new(), Vec::new(), Vec::new());
    for (name, text, dims) in OPERATORS {
        let dims: Bindings = dims.iter().map(|(n, v)| ((*n).into(), *v)).collect();
        let program = elaborate(name, text, &Knobs::new(), &dims, &[]);
        let mut random = Random(7);
        let inputs: Vec<Tensor> = program
            .with_role(TensorRole::Input)
            .map(|(_, t)| {
                let shape: Vec<usize> = t.shape.iter().map(|e| e.eval(&dims).unwrap() as usize).collect();
                random.tensor(t.dtype, shape)
            })
            .collect();
        let expected = interpret(&program, &inputs, &dims).unwrap_or_else(|e| panic!("{name}: {e}"));
        let expected: Vec<Vec<f64>> = expected.iter().map(|t| t.to_f64().unwrap()).collect();
        let program = tiles::map(&program, &printer::rules());
        let data: Vec<String> = inputs.iter().map(|t| STANDARD.encode(t.bytes())).collect();
        let data: Vec<&str> = data.iter().map(String::as_str).collect();
        builds.push(build_job(name, &program));
        jobs.push(run_job(name, &program, &dims, &data));
        checks.push((name, program, expected));
    }
    for ((sketch, program, expected), result) in checks.iter().zip(harness(python, "run", &jobs)) {
        let plan = program.plan();
        let dtypes = plan.with_role(TensorRole::Output).map(|(_, t)| t.dtype);
        for (((name, got), want), dtype) in outputs(program, &result).iter().zip(expected).zip(dtypes) {
            // A few roundings of the elements, or of the operands of the dots of low precision.
            let unit = match name.as_str() {
                "coarse" => 1e-3,
                _ => dtype.unit_roundoff().unwrap_or(0.0),
            };
            compare(&format!("{sketch}: {name}"), got, want, 1, 8.0 * unit);
        }
    }
    let built = harness(python, "build", &builds);
    // The promoted sums of the dots stay additions of their own.
    assert!(
        built[1]["main"]["additions"].as_i64().unwrap() >= 5,
        "{}",
        built[1]
    );
}

/// The outputs that a run left, by name.
fn outputs(program: &TileProgram, result: &Value) -> Vec<(String, Vec<f64>)> {
    let plan = program.plan();
    let data = result["outputs"].as_array().unwrap().iter();
    plan.with_role(TensorRole::Output)
        .zip(data)
        .map(|((_, tensor), data)| {
            let bytes = STANDARD.decode(data.as_str().unwrap()).unwrap();
            let elements =
                Tensor::from_bytes(tensor.dtype, [bytes.len() / tensor.dtype.size()], &bytes).unwrap();
            (tensor.name.clone(), elements.to_f64().unwrap())
        })
        .collect()
}

/// Compares elements, the bound in units of the rms of each `row` of finite expected elements.
fn compare(what: &str, got: &[f64], want: &[f64], row: usize, tolerance: f64) {
    assert_eq!(got.len(), want.len(), "{what}");
    for (at, (got, want)) in got.chunks(row).zip(want.chunks(row)).enumerate() {
        let finite = want.iter().filter(|w| w.is_finite());
        let rms = (finite.map(|w| w * w).sum::<f64>() / want.len() as f64).sqrt();
        for (i, (g, w)) in got.iter().zip(want).enumerate() {
            let same = g == w || (g.is_nan() && w.is_nan());
            let at = at * row + i;
            assert!(
                same || (g - w).abs() <= tolerance * rms,
                "{what}[{at}]: {g} instead of {w}"
            );
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

    /// Multiples of 1/64 up to 4 in magnitude, and small integers.
    fn tensor(&mut self, dtype: DType, shape: Vec<usize>) -> Tensor {
        let count = shape.iter().product();
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
