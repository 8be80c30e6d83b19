//! What the tests share: devices, and the Python that runs Triton.

#![allow(dead_code, reason = "each test program uses a part")]

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use akg_core::expr::Bindings;
use akg_core::source::{LaunchPlan, Source, SourceForm, TensorRole};
use akg_core::tensor::Tensor;
use akg_core::{DType, Target};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// A device with a copy engine, by its limits.
pub(crate) fn h100() -> Target {
    let mut target = Target::new("cuda", "sm_90a");
    target.cores = 132;
    target.tile_bytes = 227 << 10;
    target
}

/// The same where short numbers are multiplied much faster.
pub(crate) fn with_tensor_cores() -> Target {
    let mut target = h100();
    target.threads = 2048;
    target.peak = [(DType::F32, 1.0), (DType::F16, 16.0), (DType::BF16, 16.0)].into();
    target
}

/// The Python that has Triton and PyTorch; says on the terminal if there is none.
pub(crate) fn python() -> Option<&'static Path> {
    static PYTHON: OnceLock<Option<PathBuf>> = OnceLock::new();
    let find = || {
        let environment = akg_python::Environment::find(&akg_python::Config::default()).ok()?;
        let version = environment.version_of(akg_python::Package::Triton).ok()?;
        version.map(|_| environment.python().to_owned())
    };
    let python = PYTHON.get_or_init(find).as_deref();
    if python.is_none() {
        // Not by `eprintln!`, which the test runner swallows.
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED: no Python with PyTorch and Triton; `akg doctor --fix` installs one, AKG_PYTHON names one"
        );
    }
    python
}

pub(crate) fn plan(source: &Source) -> &LaunchPlan {
    match &source.form {
        SourceForm::Lowered { plan } => plan,
        _ => panic!("a lowered source has a plan"),
    }
}

/// One run of a source in Triton's interpreter.
pub(crate) fn run_job(label: &str, source: &Source, dims: &Bindings, inputs: &[Tensor]) -> Value {
    let plan = plan(source);
    let module = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{label}.py"));
    std::fs::write(&module, &source.text).unwrap();
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
            json!({"kernel": launch.kernel, "programs": programs, "tensors": launch.tensors})
        })
        .collect();
    let values: Vec<i64> = plan.dims.iter().map(|d| dims[d]).collect();
    json!({"module": module, "tensors": tensors, "launches": launches, "dims": values})
}

/// Runs jobs; a job that fails is a panic with its text.
pub(crate) fn interpret(python: &Path, jobs: &[Value]) -> Vec<Value> {
    let mut child = Command::new(python)
        .args(["-c", include_str!("harness.py")])
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
    let errors: Vec<&str> = results.iter().filter_map(|r| r.get("error")?.as_str()).collect();
    assert!(errors.is_empty(), "{}", errors.join("\n"));
    results
}

/// The outputs that a run left.
pub(crate) fn outputs(source: &Source, dims: &Bindings, result: &Value) -> Vec<Tensor> {
    let data = result["outputs"].as_array().unwrap().iter();
    plan(source)
        .with_role(TensorRole::Output)
        .zip(data)
        .map(|((_, tensor), data)| {
            let extents = tensor.shape.iter().map(|e| e.eval(dims).unwrap() as usize);
            let bytes = STANDARD.decode(data.as_str().unwrap()).unwrap();
            Tensor::from_bytes(tensor.dtype, extents.collect::<Vec<_>>(), &bytes).unwrap()
        })
        .collect()
}
