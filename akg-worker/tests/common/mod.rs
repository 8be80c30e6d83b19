//! What tests of candidates share: a compiler, plans, a way to run once.
#![allow(dead_code, reason = "not every test uses all of it")]
#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use std::path::Path;
use std::process::Command;

use akg_core::backend::{Cache, Call, Limits, Poison, RunOutput, RunRequest};
use akg_core::dtype::DType;
use akg_core::source::{Artifact, Launch, LaunchPlan, PlanTensor, TensorRole};
use akg_core::turns::Turns;
use akg_core::verdict::Failure;
use akg_core::{Expr, Tensor};
use akg_worker::client::Executor;
use akg_worker::seat::Execute as _;

pub(crate) const WORKER: &str = env!("CARGO_BIN_EXE_akg-worker");

const PROLOGUE: &str = r#"
#include <cstdint>
#include <cstdlib>
#include <cstdio>
#include <csignal>
#include <vector>
#include <unistd.h>
struct akg_team { void (*barrier)(void *context); void *context; };
#define KERNEL(name) extern "C" void name(void *const *tensors, const int64_t *dims, int64_t first, int64_t last)
"#;

/// Compiles C++; `None`, said aloud, where there is no compiler.
pub(crate) fn compile(source: &str) -> Option<Vec<u8>> {
    let directory = tempfile::tempdir().unwrap();
    let (text, object) = (
        directory.path().join("kernel.cpp"),
        directory.path().join("kernel.so"),
    );
    std::fs::write(&text, format!("{PROLOGUE}{source}")).unwrap();
    for compiler in ["c++", "g++", "clang++"] {
        let mut command = Command::new(compiler);
        command
            .args(["-O1", "-std=c++17", "-shared", "-fPIC", "-w", "-o"])
            .arg(&object)
            .arg(&text);
        let Ok(output) = command.output() else { continue };
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        return Some(std::fs::read(&object).unwrap());
    }
    eprintln!("SKIPPED: no C++ compiler");
    None
}

pub(crate) fn tensor(name: &str, dtype: DType, shape: &[Expr], role: TensorRole) -> PlanTensor {
    PlanTensor {
        name: name.into(),
        dtype,
        shape: shape.to_vec(),
        role,
        align: 64,
        holds: None,
        updates: None,
    }
}

pub(crate) fn launch(kernel: &str, grid: Expr, tensors: &[usize]) -> Launch {
    Launch {
        kernel: kernel.into(),
        grid: vec![grid],
        tensors: tensors.to_vec(),
        cooperative: false,
        doc: String::new(),
    }
}

/// One input and one output of `n` f32, one kernel `main` over `programs`.
pub(crate) fn simple_plan(n: i64, programs: i64) -> LaunchPlan {
    let shape = [Expr::constant(n)];
    LaunchPlan {
        dims: Vec::new(),
        tensors: vec![
            tensor("x", DType::F32, &shape, TensorRole::Input),
            tensor("y", DType::F32, &shape, TensorRole::Output),
        ],
        launches: vec![launch("kernel", Expr::constant(programs), &[0, 1])],
    }
}

pub(crate) fn request(bytes: Vec<u8>, plan: LaunchPlan, inputs: Vec<Tensor>) -> RunRequest {
    RunRequest {
        artifact: Artifact {
            format: "elf-so".into(),
            bytes,
            plan,
            metadata: Default::default(),
        },
        inputs,
        dims: Default::default(),
        poison: Poison::Ones,
        limits: Limits::default(),
    }
}

pub(crate) fn run(request: &RunRequest) -> Result<RunOutput, Failure> {
    try_run(Path::new(WORKER), request).unwrap()
}

/// Loads, binds, executes once and takes.
pub(crate) fn try_run(worker: &Path, request: &RunRequest) -> akg_core::Result<Result<RunOutput, Failure>> {
    let loaded = Executor::load(Some(worker), request.artifact.clone(), request.limits.clone())?;
    let mut executor = match loaded {
        Ok(executor) => executor,
        Err(failure) => return Ok(Err(failure)),
    };
    let call = Call {
        inputs: request.inputs.clone(),
        dims: request.dims.clone(),
        poison: request.poison,
        placement: 0,
    };
    if let Err(failure) = executor.bind(vec![call], &Turns::default())? {
        return Ok(Err(failure));
    }
    if let Err(failure) = executor.execute(1, Cache::Warm)? {
        return Ok(Err(failure));
    }
    let taken = executor.take(&[0], &Turns::default())?;
    Ok(taken.map(|mut outputs| outputs.remove(0)))
}

pub(crate) fn ramp(n: usize) -> Tensor {
    let values: Vec<f32> = (0..n).map(|i| i as f32).collect();
    Tensor::from_slice([n], &values).unwrap()
}

/// A kernel that copies four elements in each program.
pub(crate) const COPY: &str = r"
KERNEL(kernel) {
    auto x = (const float *)tensors[0]; auto y = (float *)tensors[1];
    for (int64_t p = first; p < last; p++) for (int64_t i = 0; i < 4; i++) y[p * 4 + i] = x[p * 4 + i];
}";
