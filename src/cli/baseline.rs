//! PyTorch on the same inputs, and the bound.

use akg::Result;
use std::sync::{Arc, Mutex, PoisonError};

use akg::backend::Timing;
use akg::expr::Bindings;
use akg::python::{BaselineOptions, BaselineTask, Config, Environment, Python, PythonOptions};
use akg::verify::{Distribution, NumericVerifier, make_inputs};

use super::progress::Progress;
use super::report::{Baseline, Time};
use super::task::Loaded;

/// Runs PyTorch eager on the inputs of the first check. `None` without a Python that has PyTorch.
pub(super) fn measure(loaded: &mut Loaded, seed: u64, progress: &Progress) -> Result<Option<Baseline>> {
    let python = match loaded.python.take() {
        Some(python) => python,
        None => match Environment::find(&Config::default()) {
            Ok(environment) => Arc::new(Mutex::new(Python::new(environment, PythonOptions::default()))),
            Err(_) => return Ok(None),
        },
    };
    progress.step("running PyTorch on the same inputs");
    let task = &loaded.task;
    let registry = akg::registry();
    let backend = registry.backend("cpu")?;
    let mut inputs = make_inputs(task, &*backend, Distribution::Contract, seed, &Bindings::new())?;
    inputs.truncate(task.graph.inputs().len());
    let mut python = python.lock().unwrap_or_else(PoisonError::into_inner);
    let what = match &loaded.module {
        Some(module) => BaselineTask::Module(module),
        None => BaselineTask::Graph(&task.graph),
    };
    let options = BaselineOptions::default();
    let ran = python.baseline(what, &inputs, &options, &mut |text| progress.step(text))?;
    let judged = NumericVerifier::default().measure(task, &inputs, &ran.outputs, seed)?;
    let timing = Timing { seconds: ran.samples };
    Ok(Some(Baseline {
        name: "PyTorch eager".to_owned(),
        threads: ran.threads,
        error: judged,
        time: Time::of(&timing),
    }))
}
