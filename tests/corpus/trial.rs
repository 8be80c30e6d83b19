//! One candidate before the judge.

use std::sync::Arc;
use std::time::Duration;

use akg::agent::Agent;
use akg::backend::Limits;
use akg::designer::{Design, DesignContext, Designer};
use akg::python::{Config, Environment, ModuleBackend};
use akg::session::Attempt;
use akg::sketch::Sketch;
use akg::source::{Artifact, Knobs, Source, SourceForm};
use akg::timing::ContestPolicy;
use akg::verdict::Failure;
use akg::verify::Judge;
use akg::{Candidate, Result, Session, Verifier as _, blocking};
use async_trait::async_trait;
use futures::executor::block_on;

use crate::entry::{Device, Entry, Form};

/// The secret of a run: the same candidates meet the same data.
fn secret() -> u64 {
    std::env::var("AKG_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok())
        .unwrap_or(1)
}

/// Judges an entry: the reason for which it was rejected with its evidence, or none.
pub(crate) fn judge(entry: &Entry) -> Result<Option<(String, String)>> {
    let failure = match &entry.form {
        Form::Cuda(artifact) => on_gpu(entry, artifact)?,
        _ => attempt(entry)?.verdict.failure,
    };
    Ok(failure.map(|failure| (failure.kind.name().to_owned(), failure.evidence)))
}

/// Judges an artifact, which no DSL makes.
fn on_gpu(entry: &Entry, artifact: &Artifact) -> Result<Option<Failure>> {
    let backend = akg::registry().backend("cuda")?;
    let target = blocking::devices(&*backend)?.into_iter().next();
    let target = target.ok_or_else(|| akg::Error::unsupported("there is no GPU"))?;
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
    let judge = Judge::standard(0, Some(secret()), &Limits::default());
    let verdict = block_on(judge.verify(&candidate, &entry.task, &target, &*backend))?;
    Ok(verdict.failure)
}

fn attempt(entry: &Entry) -> Result<Attempt> {
    let registry = akg::registry();
    let (dsl, backend) = match entry.device {
        Device::Cpu => ("cpp", "cpu"),
        Device::Cuda => ("triton", "cuda"),
    };
    let (dsl, mut backend) = (registry.dsl(dsl)?, registry.backend(backend)?);
    if let Form::Module(_) = entry.form {
        backend = Arc::new(ModuleBackend::new(backend, &Config::default()));
    }
    let mut session = Session::new(dsl.clone(), backend)
        .with_verifier(Judge::standard(0, Some(secret()), &Limits::default()))
        .with_timing(entry.timed.then(benchmark));
    let source = match &entry.form {
        Form::Source(source) => (**source).clone(),
        Form::Text(text) | Form::Module(text) | Form::Triton(text) => dsl.parse(text)?,
        Form::Cuda(_) => return Err(akg::Error::unexpected("no DSL makes CUDA C++")),
        Form::Sketch(text) => {
            let sketch = Sketch::parse(text).unwrap_or_else(|found| panic!("{}", found.render(text)));
            session = session.with_designer(Fixed(sketch));
            let outcome = blocking::run(&session, &entry.task)?;
            let attempt = outcome.attempts.into_iter().next();
            return attempt.ok_or_else(|| akg::Error::unexpected("nothing was tried"));
        }
    };
    Ok(blocking::judge(&session, source, &entry.task)?.0)
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
    let python = Environment::find(&Config::default()).err();
    Absence {
        python: python.map(|error| error.to_string()),
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
