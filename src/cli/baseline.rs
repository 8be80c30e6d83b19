//! PyTorch on the same inputs.

use std::sync::{Arc, Mutex, PoisonError};

use akg::python::{BaselineOptions, BaselineSide, BaselineTask, Baselines, Config, Environment, Variant};
use akg::verdict::ErrorMeasure;
use akg::verify::NumericVerifier;
use akg::{Result, Target, Tensor};
use serde::{Deserialize, Serialize};

use super::progress::Progress;
use super::task::Loaded;

/// What PyTorch made of the task.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Baseline {
    pub(super) name: String,
    pub(super) threads: u32,
    /// Its own error against f64, judged like the candidate's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<ErrorMeasure>,
    /// Why there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) trouble: Option<String>,
}

/// Sets up PyTorch eager and `torch.compile` over sets of inputs, as sides of a contest; nothing without a Python that
/// has PyTorch. A variant that does not work is reported with its trouble and takes no part.
pub(super) fn prepare(
    loaded: &Loaded,
    sets: &[Vec<Tensor>],
    target: &Target,
    seed: u64,
    progress: &Progress,
) -> Result<(Vec<BaselineSide>, Vec<Baseline>)> {
    let environment = match &loaded.python {
        Some(python) => {
            let python = python.lock().unwrap_or_else(PoisonError::into_inner);
            python.environment().clone()
        }
        None => match Environment::find(&Config::default()) {
            Ok(environment) => environment,
            Err(_) => return Ok(Default::default()),
        },
    };
    let task = &loaded.task;
    let what = match &loaded.module {
        Some(module) => BaselineTask::Module(module),
        None => BaselineTask::Graph(&task.graph),
    };
    let mut options = BaselineOptions::default();
    options.threads = Some(target.cores);
    if let Some(cache) = target.caches.last() {
        options.flush_bytes = 2 * cache;
    }
    // Constants follow the inputs.
    let given = |set: &Vec<Tensor>| set.iter().take(task.graph.inputs().len()).cloned().collect();
    let mut baselines = Baselines::new(environment, what, sets.iter().map(given).collect(), options)?;
    let (mut ready, mut reports) = (Vec::new(), Vec::new());
    // Compiling first: when it runs out of time, the worker ends and all that was prepared in it.
    for variant in [Variant::Compiled, Variant::Eager] {
        progress.step(&format!("preparing {}", variant.name()));
        let (error, trouble) = match baselines.prepare(variant) {
            Ok(outputs) => {
                ready.push(variant);
                let inputs = sets.first().map(Vec::as_slice).unwrap_or_default();
                (
                    NumericVerifier::default().measure(task, inputs, &outputs, seed)?,
                    None,
                )
            }
            Err(error) => (None, Some(error.to_string())),
        };
        reports.push(Baseline {
            name: variant.name().to_owned(),
            threads: baselines.threads(),
            error,
            trouble,
        });
    }
    let baselines = Arc::new(Mutex::new(baselines));
    let side = |variant| BaselineSide::new(baselines.clone(), variant, seed, None);
    Ok((ready.into_iter().map(side).collect(), reports))
}
