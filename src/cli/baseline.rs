//! PyTorch on the same inputs, in the same contest.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;

use akg::backend::Cache;
use akg::error::ErrorKind;
use akg::python::{
    BaselineOptions, BaselineSide, BaselineTask, BaselineWorker, Baselines, Config, Environment,
    ImportedModule, Variant,
};
use akg::reference::Products;
use akg::session::{Attempt, Rivals};
use akg::timing::{Check, Comparison, Contest, Side, SlotData};
use akg::turns::Turns;
use akg::verdict::ErrorMeasure;
use akg::verify::NumericVerifier;
use akg::{Accuracy, Backend, Graph, Result, Target, Task, Tensor};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::progress::Progress;
use super::task::Loaded;

/// What PyTorch made of the task.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Baseline {
    pub(super) name: String,
    /// The class at whose precision PyTorch ran.
    #[serde(default)]
    pub(super) precision: Accuracy,
    pub(super) threads: u32,
    /// Its own error against f64, judged like the candidate's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<ErrorMeasure>,
    /// Why its outputs were not judged although it took part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) unchecked: Option<String>,
    /// Why it took no part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) trouble: Option<String>,
}

/// Why outputs that depend on chance are not compared.
const OWN_NUMBERS: &str = "it draws random numbers of its own, where akg's follow from a seed";

/// What became of each variant of PyTorch in an attempt's contest.
pub(super) fn baselines(attempt: &Attempt) -> Vec<Baseline> {
    serde_json::from_value(attempt.rivals.clone()).unwrap_or_default()
}

/// The precisions of these baselines, if they have several.
pub(super) fn precisions(baselines: &[Baseline]) -> BTreeSet<Accuracy> {
    let precisions: BTreeSet<_> = baselines.iter().map(|b| b.precision).collect();
    if precisions.len() > 1 {
        precisions
    } else {
        BTreeSet::new()
    }
}

/// The comparison with the fastest baseline at a precision.
pub(super) fn against_best_at<'c>(
    contest: &'c Contest,
    cache: Cache,
    baselines: &[Baseline],
    precision: Accuracy,
) -> Option<&'c Comparison> {
    let at = |name: &str| {
        baselines
            .iter()
            .any(|b| b.name == name && b.precision == precision)
    };
    contest.against_best_of(cache, at)
}

/// PyTorch eager and `torch.compile` as rivals, in fp32 and at the precision of the task's class.
#[derive(Debug, Clone)]
pub(super) struct PyTorch {
    environment: Environment,
    module: Option<ImportedModule>,
    /// The task's graph at its hints.
    graph: Graph,
    /// The task's class.
    accuracy: Accuracy,
    /// PyTorch's name for the device.
    device: String,
    turns: Turns,
    products: Option<Arc<dyn Products>>,
    /// The worker of the next contest.
    worker: Arc<Mutex<Option<BaselineWorker>>>,
    progress: Progress,
    reports: Arc<Mutex<Vec<Baseline>>>,
}

impl PyTorch {
    /// `None` without a Python that has PyTorch.
    pub(super) fn find(
        loaded: &Loaded,
        backend: &dyn Backend,
        config: &Config,
        progress: &Progress,
    ) -> Option<Self> {
        let environment = match &loaded.python {
            Some(python) => {
                let python = python.lock().unwrap_or_else(PoisonError::into_inner);
                python.environment().clone()
            }
            None => Environment::find(config).ok()?,
        };
        Some(Self {
            environment,
            module: loaded.module.clone(),
            graph: loaded.task.graph.bind(&loaded.task.contract.hints).ok()?,
            accuracy: loaded.task.contract.accuracy,
            // Backends are called as PyTorch calls their devices.
            device: match backend.position() {
                0 => backend.name().to_owned(),
                position => format!("{}:{position}", backend.name()),
            },
            turns: backend.turns(),
            products: backend.products(),
            worker: Arc::default(),
            progress: progress.clone(),
            reports: Arc::default(),
        })
    }

    /// Starts a worker ahead of the contest, in the background: to set up the first one of an environment takes long.
    pub(super) fn start(&self) {
        // Who cannot lock it finds it being started.
        if !self.worker.try_lock().is_ok_and(|worker| worker.is_none()) {
            return;
        }
        let (this, (locked, is_locked)) = (self.clone(), mpsc::channel());
        thread::spawn(move || {
            let mut worker = lock(&this.worker);
            let _ = locked.send(());
            // One that does not start is reported when it is asked.
            if worker.is_none()
                && let Ok(mut new) = this.worker()
                && new.start().is_ok()
            {
                *worker = Some(new);
            }
        });
        // From here on, who asks for the worker waits for it.
        let _ = is_locked.recv();
    }

    /// Waits until nothing that was started ahead uses a processor: what is timed would suffer.
    pub(super) fn wait(&self) {
        if let Some(worker) = &mut *lock(&self.worker) {
            // Trouble comes back with the first request.
            let _ = worker.wait();
        }
    }

    fn worker(&self) -> Result<BaselineWorker> {
        BaselineWorker::new(self.environment.clone(), self.what(), &self.device, None)
    }

    fn what(&self) -> BaselineTask<'_> {
        match &self.module {
            Some(module) => BaselineTask::Module(module),
            None => BaselineTask::Graph(&self.graph),
        }
    }

    fn prepare(
        &self,
        task: &Task,
        target: &Target,
        data: &dyn SlotData,
    ) -> Result<(Baselines, Vec<Variant>, Vec<Baseline>)> {
        let started = lock(&self.worker).take();
        let worker = started.map_or_else(|| self.worker(), Ok)?;
        let mut options = BaselineOptions::default();
        options.threads = (self.device == "cpu").then_some(target.cores);
        if let Some(cache) = target.caches.last() {
            options.flush_bytes = 2 * cache;
        }
        // Constants follow the inputs.
        let inputs = task.graph.inputs().len();
        let mut first = data.inputs(0, 0..1)?.pop().unwrap_or_default();
        first.truncate(inputs);
        let sets = vec![first.clone()];
        let mut baselines =
            Baselines::new(worker, self.what(), sets, options)?.with_turns(self.turns.clone());
        let error_of = |outputs: &[Tensor]| {
            NumericVerifier::default().measure(task, &first, outputs, self.products.clone(), 0)
        };
        let (mut ready, mut reports) = (Vec::new(), BTreeMap::new());
        // Compiling first: when it runs out of time, the worker ends and all that was prepared in it.
        let mut open = Variant::rivals(self.accuracy);
        open.sort();
        while let Some(variant) = open.pop() {
            self.progress.step(&format!("preparing {}", variant.name()));
            let unchecked = task.graph.is_seeded().then(|| OWN_NUMBERS.to_owned());
            let (error, trouble) = match baselines.prepare(variant) {
                Ok(_) if unchecked.is_some() => (None, None),
                Ok(outputs) => match error_of(&outputs)? {
                    Some(error) => (Some(error), None),
                    None => (None, Some("its outputs are wrong".to_owned())),
                },
                Err(error) => {
                    if matches!(error.kind(), ErrorKind::Timeout | ErrorKind::WorkerLost) {
                        // Those that were ready are prepared again.
                        open.append(&mut ready);
                    }
                    (None, Some(error.to_string()))
                }
            };
            if trouble.is_none() {
                ready.push(variant);
            }
            let report = Baseline {
                name: variant.name().to_owned(),
                precision: variant.precision(),
                threads: baselines.threads(),
                error,
                unchecked: unchecked.filter(|_| trouble.is_none()),
                trouble,
            };
            reports.insert(variant, report);
        }
        Ok((baselines, ready, reports.into_values().collect()))
    }
}

/// A panic elsewhere leaves nothing half done here.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[async_trait]
impl Rivals for PyTorch {
    async fn enter(
        &self,
        task: &Task,
        target: &Target,
        data: Arc<dyn SlotData>,
        _check: Check,
    ) -> Result<Vec<Box<dyn Side>>> {
        let (baselines, ready, reports) = match self.prepare(task, target, &*data) {
            Ok(prepared) => prepared,
            Err(error) => {
                self.progress.warn(&format!("no baseline: {error}"));
                return Ok(Vec::new());
            }
        };
        *lock(&self.reports) = reports;
        self.progress.step("timing");
        let baselines = Arc::new(Mutex::new(baselines));
        // The class binds candidates. PyTorch's own error is shown, and it is the same at every call.
        let side = |variant| -> Box<dyn Side> {
            Box::new(BaselineSide::new(baselines.clone(), variant, data.clone(), None))
        };
        Ok(ready.into_iter().map(side).collect())
    }

    fn identity(&self) -> String {
        let mut identity = format!("{} on {}", self.environment.describe(), self.device);
        if self.accuracy != Accuracy::Fp32 {
            identity.push_str(&format!(" in fp32 and {}", self.accuracy));
        }
        identity
    }

    fn account(&self) -> serde_json::Value {
        serde_json::to_value(&*lock(&self.reports)).unwrap_or_default()
    }
}
