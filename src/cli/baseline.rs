//! PyTorch on the same inputs, in the same contest.

use std::sync::{Arc, Mutex, PoisonError};

use akg::python::{
    BaselineOptions, BaselineSide, BaselineTask, Baselines, Config, Environment, ImportedModule, Variant,
};
use akg::session::{Attempt, Rivals};
use akg::timing::{Check, Side};
use akg::verdict::ErrorMeasure;
use akg::verify::NumericVerifier;
use akg::{Result, Target, Task, Tensor};
use async_trait::async_trait;
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
    /// Why it took no part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) trouble: Option<String>,
}

/// What became of each variant of PyTorch in an attempt's contest.
pub(super) fn baselines(attempt: &Attempt) -> Vec<Baseline> {
    serde_json::from_value(attempt.rivals.clone()).unwrap_or_default()
}

/// PyTorch eager and `torch.compile` as rivals.
#[derive(Debug, Clone)]
pub(super) struct PyTorch {
    environment: Environment,
    module: Option<ImportedModule>,
    progress: Progress,
    reports: Arc<Mutex<Vec<Baseline>>>,
}

impl PyTorch {
    /// `None` without a Python that has PyTorch.
    pub(super) fn find(loaded: &Loaded, progress: &Progress) -> Option<Self> {
        let environment = match &loaded.python {
            Some(python) => {
                let python = python.lock().unwrap_or_else(PoisonError::into_inner);
                python.environment().clone()
            }
            None => Environment::find(&Config::default()).ok()?,
        };
        Some(Self {
            environment,
            module: loaded.module.clone(),
            progress: progress.clone(),
            reports: Arc::default(),
        })
    }

    fn prepare(
        &self,
        task: &Task,
        target: &Target,
        sets: &[Vec<Tensor>],
    ) -> Result<(Baselines, Vec<Variant>, Vec<Baseline>)> {
        let what = match &self.module {
            Some(module) => BaselineTask::Module(module),
            None => BaselineTask::Graph(&task.graph),
        };
        let mut options = BaselineOptions::default();
        options.threads = Some(target.cores);
        if let Some(cache) = target.caches.last() {
            options.flush_bytes = 2 * cache;
        }
        // Constants follow the inputs.
        let inputs = task.graph.inputs().len();
        let sets: Vec<Vec<Tensor>> = sets
            .iter()
            .map(|s| s.iter().take(inputs).cloned().collect())
            .collect();
        let mut baselines = Baselines::new(self.environment.clone(), what, sets.clone(), options)?;
        let (mut ready, mut reports) = (Vec::new(), Vec::new());
        // Compiling first: when it runs out of time, the worker ends and all that was prepared in it.
        for variant in [Variant::Compiled, Variant::Eager] {
            self.progress.step(&format!("preparing {}", variant.name()));
            let inputs = sets.first().map(Vec::as_slice).unwrap_or_default();
            let (error, trouble) = match baselines.prepare(variant) {
                Ok(outputs) => match NumericVerifier::default().measure(task, inputs, &outputs, 0)? {
                    Some(error) => (Some(error), None),
                    None => (None, Some("its outputs are wrong".to_owned())),
                },
                Err(error) => (None, Some(error.to_string())),
            };
            if trouble.is_none() {
                ready.push(variant);
            }
            reports.push(Baseline {
                name: variant.name().to_owned(),
                threads: baselines.threads(),
                error,
                trouble,
            });
        }
        Ok((baselines, ready, reports))
    }
}

#[async_trait]
impl Rivals for PyTorch {
    async fn enter(
        &self,
        task: &Task,
        target: &Target,
        sets: &[Vec<Tensor>],
        _check: Check,
        seed: u64,
    ) -> Result<Vec<Box<dyn Side>>> {
        let (baselines, ready, reports) = match self.prepare(task, target, sets) {
            Ok(prepared) => prepared,
            Err(error) => {
                self.progress.warn(&format!("no baseline: {error}"));
                return Ok(Vec::new());
            }
        };
        *self.reports.lock().unwrap_or_else(PoisonError::into_inner) = reports;
        self.progress.step("timing");
        let baselines = Arc::new(Mutex::new(baselines));
        // The class binds candidates. PyTorch's own error is shown, and it is the same at every call.
        let side = |variant| -> Box<dyn Side> {
            Box::new(BaselineSide::new(baselines.clone(), variant, seed, None))
        };
        Ok(ready.into_iter().map(side).collect())
    }

    fn identity(&self) -> String {
        self.environment.describe()
    }

    fn account(&self) -> serde_json::Value {
        let reports = self.reports.lock().unwrap_or_else(PoisonError::into_inner);
        serde_json::to_value(&*reports).unwrap_or_default()
    }
}
