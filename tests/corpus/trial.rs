//! One candidate before the judge.

use std::sync::Arc;
use std::time::Duration;

use akg::agent::Agent;
use akg::backend::Limits;
use akg::designer::{Design, DesignContext, Designer};
use akg::python::{Config, Environment, ModuleBackend, Package};
use akg::session::Attempt;
use akg::sketch::Sketch;
use akg::source::{Artifact, Knobs, Source, SourceForm};
use akg::timing::ContestPolicy;
use akg::verdict::Verdict;
use akg::verify::Judge;
use akg::{Backend, Candidate, ErrorKind, Result, Session, Target, Verifier as _, blocking};
use async_trait::async_trait;
use futures::executor::block_on;
use serde::{Deserialize, Serialize};

use crate::bundle;
use crate::entry::{Device, Entry, Form};

/// The secret of a run: the same candidates meet the same data.
fn secret() -> u64 {
    std::env::var("AKG_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok())
        .unwrap_or(1)
}

/// The verdict on an entry.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Outcome {
    /// The name of the failure for which it was rejected, or of the error with which it was refused before.
    pub(crate) rejection: Option<String>,
    /// The evidence, or what an acceptance says beside it: the checks of single kernels, and kernels without effect.
    pub(crate) said: String,
}

impl Outcome {
    fn of(verdict: &Verdict) -> Self {
        if let Some(failure) = &verdict.failure {
            return Self {
                rejection: Some(failure.kind.name().to_owned()),
                said: failure.evidence.clone(),
            };
        }
        let abouts = verdict.checks.iter().map(|check| check.about.clone());
        let idle = verdict
            .idle_kernels
            .iter()
            .map(|kernel| format!("idle: {kernel}"));
        Self {
            rejection: None,
            said: abouts.chain(idle).collect::<Vec<_>>().join("\n"),
        }
    }
}

/// Judges an entry.
pub(crate) fn judge(entry: &Entry) -> Result<Outcome> {
    let verdict = match &entry.form {
        Form::Cuda(artifact) => on_gpu(entry, artifact),
        Form::Bundle(change) => bundle::judge(entry, change, &standard(entry)),
        _ => attempt(entry).map(|attempt| attempt.verdict),
    };
    match verdict {
        Ok(verdict) => Ok(Outcome::of(&verdict)),
        // What cannot be read or executed has no verdict.
        Err(error) if matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported) => {
            Ok(Outcome {
                rejection: Some(error.kind().name().to_owned()),
                said: error.to_string(),
            })
        }
        Err(error) => Err(error),
    }
}

fn standard(entry: &Entry) -> Judge {
    let mut limits = Limits::default();
    if let Some(seconds) = entry.seconds {
        limits.time = Duration::from_secs(seconds);
    }
    Judge::standard(0, Some(secret()), &limits)
}

/// Judges an artifact, which no DSL makes.
fn on_gpu(entry: &Entry, artifact: &Artifact) -> Result<Verdict> {
    let backend = akg::registry().backend("cuda")?;
    let target = device(&*backend)?;
    let source = Source {
        dsl: "cuda-c++".into(),
        text: String::new(),
        form: SourceForm::Lowered {
            plan: artifact.plan.clone(),
        },
        knobs: Knobs::new(),
    };
    let candidate = Candidate {
        source,
        artifact: artifact.clone(),
    };
    block_on(standard(entry).verify(&candidate, &entry.task, &target, &*backend))
}

/// The first device of a backend.
pub(crate) fn device(backend: &dyn Backend) -> Result<Target> {
    let target = blocking::devices(backend)?.into_iter().next();
    target.ok_or_else(|| akg::Error::unsupported("there is no device"))
}

fn attempt(entry: &Entry) -> Result<Attempt> {
    let registry = akg::registry();
    let (dsl, backend) = match entry.device {
        Device::Cpu => ("cpp", "cpu"),
        Device::Cuda => ("triton", "cuda"),
    };
    let (dsl, mut backend) = (registry.dsl(dsl)?, registry.backend(backend)?);
    let source = match &entry.form {
        Form::Source(source) => Some((**source).clone()),
        Form::Plan(text) | Form::Module(text) | Form::Triton(text) => Some(dsl.parse(text)?),
        Form::Replies(replies) => Some(replies.source(&entry.task, &dsl, &device(&*backend)?)?),
        Form::Sketch(_) | Form::Cuda(_) | Form::Bundle(_) => None,
    };
    if let Some(SourceForm::Module { .. }) = source.as_ref().map(|source| &source.form) {
        backend = Arc::new(ModuleBackend::new(backend, &Config::default()));
    }
    let mut session = Session::new(dsl, backend)
        .with_verifier(standard(entry))
        .with_timing(entry.timed.then(benchmark));
    if let Some(source) = source {
        return Ok(blocking::judge(&session, source, &entry.task)?.0);
    }
    let Form::Sketch(text) = &entry.form else {
        return Err(akg::Error::unexpected("no DSL makes this candidate"));
    };
    let sketch = Sketch::parse(text).unwrap_or_else(|found| panic!("{}", found.render(text)));
    session = session.with_designer(Fixed(sketch));
    let outcome = blocking::run(&session, &entry.task)?;
    let attempt = outcome.attempts.into_iter().next();
    attempt.ok_or_else(|| akg::Error::unexpected("nothing was tried"))
}

/// A benchmark that is as short as one can be.
fn benchmark() -> ContestPolicy {
    let mut policy = ContestPolicy::default();
    policy.least_rounds = 4;
    policy.most_rounds = 8;
    policy.budget = Duration::from_secs(2);
    policy
}

/// A designer with one sketch.
#[derive(Debug)]
struct Fixed(Sketch);

#[async_trait]
impl Agent<Designer> for Fixed {
    fn name(&self) -> &str {
        "fixed"
    }

    async fn step(&self, _: &DesignContext) -> Result<Design> {
        Ok(Design {
            knobs: self.0.default_knobs(),
            sketch: self.0.clone(),
            kernels: Vec::new(),
            intermediates: Default::default(),
            rules: Vec::new(),
        })
    }
}

/// The parts of a machine that the corpus needs and that may be absent, each with the reason.
pub(crate) struct Absence {
    python: Option<String>,
    gpu: Option<String>,
}

pub(crate) fn absence() -> Absence {
    let environment = Environment::find(&Config::default());
    let triton = environment.and_then(|environment| environment.version_of(Package::Triton));
    let python = match triton {
        Ok(Some(_)) => None,
        Ok(None) => Some("there is no Triton; `akg doctor --fix` installs it".to_owned()),
        Err(error) => Some(error.to_string()),
    };
    Absence {
        python,
        gpu: akg::cuda::absence(None).unwrap_or_else(|error| Some(error.to_string())),
    }
}

impl Absence {
    /// Whether an entry cannot be judged here.
    pub(crate) fn concerns(&self, entry: &Entry) -> bool {
        entry.needs_python() && self.python.is_some() || entry.device == Device::Cuda && self.gpu.is_some()
    }

    pub(crate) fn report(&self) {
        for (what, why) in [("modules", &self.python), ("candidates for GPUs", &self.gpu)] {
            if let Some(why) = why {
                eprintln!("SKIPPED: {what}: {why}");
            }
        }
    }
}
