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

use akg_core::DType;
use akg_core::expr::Bindings;
use akg_core::lower::tiles::{self, TileProgram};
use akg_core::sketch::{Sketch, examples};
use akg_core::source::{KnobValue, Knobs, LaunchPlan, TensorRole};
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
        eprintln!("SKIPPED: no Python with torch and triton; set AKG_PYTHON to one");
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

fn cases(name: &str) -> Vec<Case> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/data/sketches/{name}.json"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Elaborates and maps a sketch, leaving the dims named in `symbolic` open.
fn tile_program(name: &str, text: &str, knobs: &Knobs, case: &Case, symbolic: &[String]) -> TileProgram {
    let sketch = Sketch::parse(text).unwrap_or_else(|d| panic!("{name}:\n{}", d.render(text)));
    let mut bindings = case.dims.clone();
    bindings.retain(|dim, _| !symbolic.iter().any(|s| **s == **dim));
    let mut all = sketch.default_knobs();
    all.extend(knobs.iter().map(|(name, value)| (name.clone(), *value)));
    let program = sketch
        .elaborate(&all, &bindings)
        .unwrap_or_else(|d| panic!("{name} {knobs:?}:\n{}", d.render(text)));
    tiles::map(&program, &printer::rules())
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

fn run_job(label: &str, program: &TileProgram, case: &Case) -> Value {
    let plan = program.plan();
    let mut inputs = case.inputs.iter();
    let tensors: Vec<Value> = plan
        .tensors
        .iter()
        .map(|t| {
            let shape: Vec<i64> = t.shape.iter().map(|e| e.eval(&case.dims).unwrap()).collect();
            let data = (t.role == TensorRole::Input).then(|| &inputs.next().unwrap().data);
            json!({"dtype": t.dtype.name(), "shape": shape, "role": t.role, "data": data})
        })
        .collect();
    let launches: Vec<Value> = plan
        .launches
        .iter()
        .map(|launch| {
            let programs = LaunchPlan::programs(launch, &case.dims).unwrap();
            json!({
                "kernel": launch.kernel,
                "programs": programs,
                "tensors": launch.tensors,
                "cooperative": launch.cooperative,
            })
        })
        .collect();
    let dims: Vec<i64> = plan.dims.iter().map(|d| case.dims[d]).collect();
    json!({"module": write_module(label, program), "tensors": tensors, "launches": launches, "dims": dims})
}

#[test]
fn examples_build_for_a_gpu() {
    let Some(python) = python() else { return };
    let mut jobs = Vec::new();
    for (name, text) in examples() {
        let case = cases(name).swap_remove(0);
        for (variant, symbolic) in [("static", &[][..]), ("symbolic", &case.symbolic)] {
            let program = tile_program(name, text, &Knobs::new(), &case, symbolic);
            jobs.push(build_job(&format!("build_{name}_{variant}"), &program));
        }
    }
    for (job, result) in jobs.iter().zip(harness(python, "build", &jobs)) {
        for kernel in job["kernels"].as_array().unwrap() {
            let name = kernel["name"].as_str().unwrap();
            assert_eq!(result[name], "sm_90a", "{name} of {}", job["module"]);
        }
    }
}

#[test]
fn examples_match_pytorch_in_the_interpreter() {
    let Some(python) = python() else { return };
    let mut jobs = Vec::new();
    let mut checks = Vec::new();
    for (name, text) in examples() {
        for (c, case) in cases(name).into_iter().enumerate() {
            for (k, knobs) in case.knobs.iter().enumerate() {
                // Symbolic extents once for each case.
                let symbolic = if k == 0 { &case.symbolic[..] } else { &[] };
                let program = tile_program(name, text, knobs, &case, symbolic);
                // The interpreter runs programs one after the other: they cannot meet.
                let alone = |l: &_| LaunchPlan::programs(l, &case.dims).unwrap() == 1;
                if program.plan().launches.iter().any(|l| l.cooperative && !alone(l)) {
                    continue;
                }
                let label = format!("run_{name}_{c}_{k}");
                jobs.push(run_job(&label, &program, &case));
                let dtypes: Vec<DType> = program
                    .plan()
                    .with_role(TensorRole::Output)
                    .map(|(_, t)| t.dtype)
                    .collect();
                checks.push((label, dtypes, c, name));
            }
        }
    }
    for example in examples() {
        assert!(
            checks.iter().any(|c| c.3 == &example.0),
            "nothing ran of {}",
            example.0
        );
    }
    for ((label, dtypes, case, name), result) in checks.iter().zip(harness(python, "run", &jobs)) {
        let case = cases(name).swap_remove(*case);
        for ((dtype, expected), data) in dtypes
            .iter()
            .zip(&case.expected)
            .zip(result["outputs"].as_array().unwrap())
        {
            let got = unpack(*dtype, &expected.shape, data.as_str().unwrap());
            let want = unpack(DType::F64, &expected.shape, &expected.data);
            let row = if case.by_row {
                *expected.shape.last().unwrap()
            } else {
                want.len()
            };
            for (got, want) in got.chunks(row).zip(want.chunks(row)) {
                let finite = want.iter().filter(|w| w.is_finite());
                let rms = (finite.map(|w| w * w).sum::<f64>() / want.len() as f64).sqrt();
                for (g, w) in got.iter().zip(want) {
                    let same = g == w || (g.is_nan() && w.is_nan());
                    assert!(
                        same || (g - w).abs() <= case.tolerance * rms,
                        "{label}: {g} instead of {w}"
                    );
                }
            }
        }
    }
}

fn unpack(dtype: DType, shape: &[usize], data: &str) -> Vec<f64> {
    let bytes = STANDARD.decode(data).unwrap();
    let tensor = akg_core::Tensor::from_bytes(dtype, shape, &bytes).unwrap();
    tensor.to_f64().unwrap()
}
