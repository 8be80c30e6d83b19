//! The road of one task: design, code, build, verify, time.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::agent::Agent;
use crate::backend::{Backend, Limits};
use crate::coder::{CodeContext, Coder, RuleCoder};
use crate::conductor::{ConductContext, Conductor, Next, RuleConductor};
use crate::designer::{Design, DesignContext, Designer, KernelSummary, RuleDesigner};
use crate::dsl::Dsl;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::sketch::cost;
use crate::source::{Knobs, LaunchPlan, Source, SourceForm, TensorRole};
use crate::target::Target;
use crate::task::Task;
use crate::tensor::byte_len;
use crate::timing::{Contest, ContestPolicy};
use crate::verdict::{Failure, FailureKind, Verdict};
use crate::verifier::{Candidate, Verifier};
use crate::verify::Judge;

mod contest;

pub use contest::Rivals;

/// What a session reports while it works.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A designer proposed a sketch.
    Designed(&'a Design),
    /// A source was written.
    Coded(&'a Source),
    /// A source was built, in this time.
    Built(Duration),
    /// A candidate was judged.
    Judged(&'a Verdict),
    /// A candidate was timed.
    Timed(&'a Contest),
}

/// Receives a session's reports.
pub trait Observer: Send + Sync {
    /// Something happened.
    fn event(&self, event: Event<'_>);
}

impl<F: Fn(Event<'_>) + Send + Sync> Observer for F {
    fn event(&self, event: Event<'_>) {
        self(event);
    }
}

/// One candidate and what became of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Attempt {
    /// The source.
    pub source: Source,
    /// What the verifier decided; a build failure is a verdict without checks.
    pub verdict: Verdict,
    /// Seconds from the start of the build to the verdict.
    pub verdict_seconds: f64,
    /// Its times beside those of its rivals, if it passed, the backend times and the session wants it.
    pub timing: Option<Contest>,
}

/// What a session made of a task.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Outcome {
    /// The device.
    pub target: Target,
    /// The sketch's text.
    pub sketch: String,
    /// What was fused into each kernel, in launch order.
    pub kernels: Vec<KernelSummary>,
    /// The candidates in the order they were tried.
    pub attempts: Vec<Attempt>,
    /// Why the session stopped.
    pub stopped: String,
    /// Seconds from the start to the first candidate that passed.
    pub first_pass_seconds: Option<f64>,
    /// Seconds below which the device cannot compute the task: every input read and every output written once at its
    /// bandwidth, or the products at its peak rate, whichever is longer. `None` if the bandwidth is unknown.
    pub bound_seconds: Option<f64>,
}

impl Outcome {
    /// The candidate that passed with the smallest median time; the first that passed if none was timed.
    pub fn best(&self) -> Option<&Attempt> {
        let passed = self.attempts.iter().filter(|a| a.verdict.passed());
        let time = |a: &Attempt| {
            a.timing
                .as_ref()
                .and_then(|contest| contest.candidate()?.warm.median())
                .unwrap_or(f64::INFINITY)
        };
        passed.min_by(|a, b| time(a).total_cmp(&time(b)))
    }

    /// The failure of the last candidate if none passed.
    pub fn failure(&self) -> Option<&Failure> {
        if self.best().is_some() {
            return None;
        }
        self.attempts.last().and_then(|a| a.verdict.failure.as_ref())
    }
}

/// A DSL, a backend and the agents that turn tasks into verified kernels.
pub struct Session {
    dsl: Arc<dyn Dsl>,
    backend: Arc<dyn Backend>,
    designer: Arc<dyn Agent<Designer>>,
    coder: Arc<dyn Agent<Coder>>,
    conductor: Arc<dyn Agent<Conductor>>,
    verifier: Arc<dyn Verifier>,
    observer: Arc<dyn Observer>,
    budget: Duration,
    rivals: Arc<dyn Rivals>,
    timing: Option<ContestPolicy>,
    limits: Limits,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("dsl", &self.dsl)
            .field("backend", &self.backend)
            .field("budget", &self.budget)
            .finish_non_exhaustive()
    }
}

impl Session {
    /// A session with the rule-based agents, the standard judge and a budget of one minute.
    pub fn new(dsl: Arc<dyn Dsl>, backend: Arc<dyn Backend>) -> Self {
        Self {
            dsl,
            backend,
            designer: Arc::new(RuleDesigner),
            coder: Arc::new(RuleCoder),
            conductor: Arc::new(RuleConductor::default()),
            verifier: Arc::new(Judge::standard(0, None, &Limits::default())),
            observer: Arc::new(|_: Event<'_>| {}),
            budget: Duration::from_secs(60),
            rivals: Arc::new(contest::NoRivals),
            timing: Some(ContestPolicy::default()),
            limits: Limits::default(),
        }
    }

    /// Another designer.
    #[must_use]
    pub fn with_designer(mut self, designer: impl Agent<Designer> + 'static) -> Self {
        self.designer = Arc::new(designer);
        self
    }

    /// Another coder.
    #[must_use]
    pub fn with_coder(mut self, coder: impl Agent<Coder> + 'static) -> Self {
        self.coder = Arc::new(coder);
        self
    }

    /// Another conductor.
    #[must_use]
    pub fn with_conductor(mut self, conductor: impl Agent<Conductor> + 'static) -> Self {
        self.conductor = Arc::new(conductor);
        self
    }

    /// Another verifier.
    #[must_use]
    pub fn with_verifier(mut self, verifier: impl Verifier + 'static) -> Self {
        self.verifier = Arc::new(verifier);
        self
    }

    /// Someone to report to.
    #[must_use]
    pub fn with_observer(mut self, observer: impl Observer + 'static) -> Self {
        self.observer = Arc::new(observer);
        self
    }

    /// Wall time after which no new candidate is started.
    #[must_use]
    pub fn with_budget(mut self, budget: Duration) -> Self {
        self.budget = budget;
        self
    }

    /// How candidates that passed are timed; `None` leaves that out.
    #[must_use]
    pub fn with_timing(mut self, timing: Option<ContestPolicy>) -> Self {
        self.timing = timing;
        self
    }

    /// What candidates are timed against.
    #[must_use]
    pub fn with_rivals(mut self, rivals: impl Rivals + 'static) -> Self {
        self.rivals = Arc::new(rivals);
        self
    }

    /// The first device of the backend that the DSL can write for.
    pub async fn target(&self) -> Result<Target> {
        let capability = self.dsl.capability();
        if !capability.backends.iter().any(|b| b == self.backend.name()) {
            return Err(Error::unsupported(format!(
                "DSL `{}` does not write for backend `{}`; it writes for {}",
                self.dsl.name(),
                self.backend.name(),
                capability.backends.join(", ")
            )));
        }
        let devices = self.backend.devices().await?;
        devices.into_iter().next().ok_or_else(|| {
            Error::unsupported(format!(
                "backend `{}` finds no device on this machine",
                self.backend.name()
            ))
        })
    }

    /// Runs the whole road. `Err` is akg's own trouble; candidates that fail are in the outcome.
    pub async fn run(&self, task: &Task) -> Result<Outcome> {
        let start = Instant::now();
        task.graph.validate()?;
        let target = self.target().await?;
        let context = DesignContext {
            task: task.clone(),
            target: target.clone(),
        };
        let design = self.designer.step(&context).await?;
        self.observer.event(Event::Designed(&design));
        let mut points = vec![design.knobs.clone()];
        points.extend(
            design
                .sketch
                .legal_points(&task.contract.hints)
                .take(64)
                .filter(|p| *p != design.knobs),
        );
        let mut tried: Vec<(Knobs, Option<Failure>)> = Vec::new();
        let mut outcome = Outcome {
            bound_seconds: bound(task, &design, &target),
            target,
            sketch: design.sketch.to_string(),
            kernels: design.kernels.clone(),
            attempts: Vec::new(),
            stopped: String::new(),
            first_pass_seconds: None,
        };
        loop {
            let exhausted = start.elapsed() >= self.budget;
            let context = ConductContext {
                points: points.clone(),
                tried: tried.clone(),
                exhausted,
            };
            let knobs = match self.conductor.step(&context).await? {
                Next::Code(knobs) => knobs,
                Next::Stop(reason) => {
                    outcome.stopped = reason;
                    return Ok(outcome);
                }
            };
            let context = CodeContext {
                sketch: design.sketch.clone(),
                knobs: knobs.clone(),
                dsl: self.dsl.clone(),
                target: outcome.target.clone(),
            };
            let mut source = self.coder.step(&context).await?;
            let presented = match &mut source.form {
                SourceForm::Lowered { plan } => present(plan, task, &design),
                SourceForm::Module => Ok(()),
            };
            self.observer.event(Event::Coded(&source));
            let coded = start.elapsed().as_secs_f64();
            let attempt = match presented {
                Ok(()) => self.judge(source, task, &outcome.target).await?,
                Err(failure) => self.rejected(source, task, failure, Duration::ZERO),
            };
            if attempt.verdict.passed() && outcome.first_pass_seconds.is_none() {
                outcome.first_pass_seconds = Some(coded + attempt.verdict_seconds);
            }
            tried.push((knobs, attempt.verdict.failure.clone()));
            outcome.attempts.push(attempt);
        }
    }

    /// An attempt that failed before it ran.
    fn rejected(&self, source: Source, task: &Task, failure: Failure, after: Duration) -> Attempt {
        let verdict = Verdict::failed(task.contract.accuracy, failure);
        self.observer.event(Event::Judged(&verdict));
        Attempt {
            source,
            verdict,
            verdict_seconds: after.as_secs_f64(),
            timing: None,
        }
    }

    /// Builds, verifies and times a source, whoever wrote it.
    pub async fn judge(&self, source: Source, task: &Task, target: &Target) -> Result<Attempt> {
        let began = Instant::now();
        let artifact = match self.dsl.build(&source, target)? {
            Ok(artifact) => artifact,
            Err(failure) => return Ok(self.rejected(source, task, failure, began.elapsed())),
        };
        self.observer.event(Event::Built(began.elapsed()));
        let candidate = Candidate { source, artifact };
        let mut verdict = self
            .verifier
            .verify(&candidate, task, target, &*self.backend)
            .await?;
        let verdict_seconds = began.elapsed().as_secs_f64();
        self.observer.event(Event::Judged(&verdict));
        let mut timing = None;
        if verdict.passed()
            && self.backend.capability().times
            && let Some(policy) = &self.timing
        {
            match self
                .contest(&candidate.artifact, task, target, &verdict, policy)
                .await?
            {
                Ok(contest) => {
                    self.observer.event(Event::Timed(&contest));
                    timing = Some(contest);
                }
                Err(failure) => {
                    verdict.failure = Some(failure);
                    self.observer.event(Event::Judged(&verdict));
                }
            }
        }
        Ok(Attempt {
            source: candidate.source,
            verdict,
            verdict_seconds,
            timing,
        })
    }
}

/// See [`Outcome::bound_seconds`].
fn bound(task: &Task, design: &Design, target: &Target) -> Option<f64> {
    if target.bandwidth <= 0.0 {
        return None;
    }
    let (graph, hints) = (&task.graph, &task.contract.hints);
    let values = graph
        .inputs()
        .iter()
        .map(|i| i.value)
        .chain(graph.outputs().iter().map(|o| o.value));
    let bytes = values.map(|v| byte_len(graph.ty(v).dtype, &graph.ty(v).concrete_shape(hints).ok()?).ok());
    let bytes: usize = bytes.sum::<Option<usize>>()?;
    let program = design.sketch.elaborate(&design.knobs, hints).ok()?;
    let cost = cost(&program, hints, target).ok()?;
    let flops: f64 = cost.kernels.iter().flat_map(|k| k.dot_flops.values()).sum();
    let peak = target.peak.get(&DType::F32).copied().filter(|p| *p > 0.0);
    Some((bytes as f64 / target.bandwidth).max(peak.map_or(0.0, |p| flops / p)))
}

/// Gives the plan's inputs and outputs the shapes of the task's graph, and its scratch tensors the names of what they
/// hold: sketches regroup extents, which changes neither the number nor the order of elements.
///
/// # Errors
/// A sketch that is not one of the task's inputs and outputs.
fn present(plan: &mut LaunchPlan, task: &Task, design: &Design) -> Result<(), Failure> {
    let wrong = |evidence| Err(Failure::new(FailureKind::WrongType, evidence));
    for tensor in plan.tensors.iter_mut().filter(|t| t.role == TensorRole::Scratch) {
        tensor.holds = design.intermediates.get(&tensor.name).cloned();
    }
    let graph = &task.graph;
    let inputs = graph
        .inputs()
        .iter()
        .map(|i| i.value)
        .chain(graph.constants().iter().map(|c| c.value));
    let outputs = graph.outputs().iter().map(|o| o.value);
    for (role, values) in [
        (TensorRole::Input, inputs.collect::<Vec<_>>()),
        (TensorRole::Output, outputs.collect()),
    ] {
        let mut tensors: Vec<_> = plan.tensors.iter_mut().filter(|t| t.role == role).collect();
        if tensors.len() != values.len() {
            return wrong(format!(
                "the sketch has {} {role:?} tensors but the graph has {}",
                tensors.len(),
                values.len()
            ));
        }
        for (tensor, value) in tensors.iter_mut().zip(values) {
            let ty = graph.ty(value);
            let count = |shape: &[crate::Expr]| shape.iter().fold(crate::Expr::constant(1), |n, d| &n * d);
            if tensor.dtype != ty.dtype || count(&tensor.shape) != count(&ty.shape) {
                return wrong(format!(
                    "the sketch's tensor `{}` does not hold the elements of `{}`: {ty}",
                    tensor.name,
                    graph.value_name(value)
                ));
            }
            tensor.shape.clone_from(&ty.shape);
        }
    }
    Ok(())
}
