//! The road of one task: design, code, build, verify, fix, tune, improve, time.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::agent::{Agent, Role as _};
use crate::analyst::{Analyst, RuleAnalyst};
use crate::backend::{Backend, Limits};
use crate::bundle::Bundle;
use crate::coder::{Coder, RuleCoder};
use crate::conductor::{Conductor, RuleConductor};
use crate::designer::{Design, DesignContext, Designer, RuleDesigner};
use crate::dsl::Dsl;
use crate::error::{Error, ErrorKind, Result};
use crate::fixer::{Fixer, RuleFixer};
use crate::graph::{Graph, Rewritten};
use crate::knowledge::{Embedder, Knowledge};
use crate::profile::Profile;
use crate::search::{self, Strategy};
use crate::source::Source;
use crate::store::{MemoryStore, RunRecord, Store};
use crate::target::Target;
use crate::task::{Contract, Task};
use crate::timing::{ContestPolicy, Witness};
use crate::trace::{Taken, Trace};
use crate::tuner::TuningPolicy;
use crate::verifier::Verifier;
use crate::verify::Judge;

mod asked;
mod best;
mod challenge;
mod contest;
mod event;
mod line;
mod outcome;
mod passes;
mod plan;
mod pool;
mod rehearsal;
mod road;
mod run;
mod tune;

pub use contest::Rivals;
pub use event::{Event, Observer};
pub use outcome::{Attempt, Outcome};
pub use plan::present;
pub(crate) use plan::{mismatch, roles};
use road::Road;
use run::Run;

/// A DSL, a backend and the agents that turn tasks into verified kernels.
#[derive(Clone)]
pub struct Session {
    dsl: Arc<dyn Dsl>,
    backend: Arc<dyn Backend>,
    others: Vec<Arc<dyn Backend>>,
    designer: Arc<dyn Agent<Designer>>,
    coder: Arc<dyn Agent<Coder>>,
    fixer: Arc<dyn Agent<Fixer>>,
    analyst: Arc<dyn Agent<Analyst>>,
    conductor: Arc<dyn Agent<Conductor>>,
    passes: usize,
    lookahead: usize,
    strategy: Option<Arc<dyn Strategy>>,
    pictures: Option<Arc<Draw>>,
    verifier: Arc<dyn Verifier>,
    observer: Arc<dyn Observer>,
    budget: Duration,
    rivals: Arc<dyn Rivals>,
    timing: Option<ContestPolicy>,
    tuning: Option<TuningPolicy>,
    store: Arc<dyn Store>,
    retry: bool,
    witness: Option<Arc<dyn Fn() -> Box<dyn Witness> + Send + Sync>>,
    limits: Limits,
    rewrite: Option<Rewrite>,
    knowledge: Option<Arc<dyn Knowledge>>,
    embedder: Option<Arc<dyn Embedder>>,
}

/// Makes another graph with the same values of a graph, within what a contract asks.
type Rewrite = fn(&Graph, &Contract) -> Result<Rewritten>;

/// Draws a profile, as PNG pictures.
type Draw = dyn Fn(&Profile) -> Result<Vec<Vec<u8>>> + Send + Sync;

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("dsl", &self.dsl)
            .field("backend", &self.backend)
            .field("budget", &self.budget)
            .field("store", &self.store)
            .finish_non_exhaustive()
    }
}

impl Session {
    /// A session with the rule-based agents, the standard judge and a budget of one minute, which does not tune, and
    /// whose memory ends with it.
    pub fn new(dsl: Arc<dyn Dsl>, backend: Arc<dyn Backend>) -> Self {
        Self {
            dsl,
            backend,
            others: Vec::new(),
            designer: Arc::new(RuleDesigner),
            coder: Arc::new(RuleCoder),
            fixer: Arc::new(RuleFixer),
            analyst: Arc::new(RuleAnalyst),
            conductor: Arc::new(RuleConductor::default()),
            passes: 0,
            lookahead: 0,
            strategy: None,
            pictures: None,
            verifier: Arc::new(Judge::standard(0, None, &Limits::default())),
            observer: Arc::new(|_: Event<'_>| {}),
            budget: Duration::from_secs(60),
            rivals: Arc::new(contest::NoRivals),
            timing: Some(ContestPolicy::default()),
            tuning: None,
            store: Arc::new(MemoryStore::new()),
            retry: false,
            witness: None,
            limits: Limits::default(),
            rewrite: None,
            knowledge: None,
            embedder: None,
        }
    }

    /// Another designer.
    #[must_use]
    pub fn with_designer(mut self, designer: impl Agent<Designer> + 'static) -> Self {
        self.designer = Arc::new(designer);
        self
    }

    /// Whether graphs are [rewritten](crate::algebra) before they are designed. What is made is still judged against the
    /// task's own graph. Off by default.
    #[cfg(feature = "algebra")]
    #[must_use]
    pub fn with_algebra(mut self, algebra: bool) -> Self {
        self.rewrite = algebra.then_some(crate::algebra::rewrite as Rewrite);
        self
    }

    /// Another coder.
    #[must_use]
    pub fn with_coder(mut self, coder: impl Agent<Coder> + 'static) -> Self {
        self.coder = Arc::new(coder);
        self
    }

    /// Another fixer.
    #[must_use]
    pub fn with_fixer(mut self, fixer: impl Agent<Fixer> + 'static) -> Self {
        self.fixer = Arc::new(fixer);
        self
    }

    /// Another analyst.
    #[must_use]
    pub fn with_analyst(mut self, analyst: impl Agent<Analyst> + 'static) -> Self {
        self.analyst = Arc::new(analyst);
        self
    }

    /// How often agents may try to make what passed faster. By default they do not.
    #[must_use]
    pub fn with_passes(mut self, passes: usize) -> Self {
        self.passes = passes;
        self
    }

    /// How many passes agents are asked for while the one before them is judged, so that whoever thinks does not wait for the
    /// device, nor the device for them. What they go on from is chosen without knowing what comes of as many passes before. By
    /// default it is none: passes are made one after the other.
    #[must_use]
    pub fn with_lookahead(mut self, passes: usize) -> Self {
        self.lookahead = passes;
        self
    }

    /// Other devices of the same kind, which share the work of passes with the session's own: what agents propose is built, judged and
    /// tuned on all of them at the same time, which takes a [lookahead](Self::with_lookahead) of as many passes as there are
    /// others. Who is faster is always found out on the session's own.
    #[must_use]
    pub fn with_others(mut self, others: Vec<Arc<dyn Backend>>) -> Self {
        self.others = others;
        self
    }

    /// Another search strategy, which says what each pass goes on from. What passed first is the first member of its
    /// population, which no pass is spent on. By default it is the [usual one](crate::search::DEFAULT) for the number of
    /// [passes](Self::with_passes).
    #[must_use]
    pub fn with_strategy(mut self, strategy: impl Strategy + 'static) -> Self {
        self.strategy = Some(Arc::new(strategy));
        self
    }

    /// How profiles are drawn for an analyst that sees pictures: as PNG files.
    #[must_use]
    pub fn with_pictures(
        mut self,
        draw: impl Fn(&Profile) -> Result<Vec<Vec<u8>>> + Send + Sync + 'static,
    ) -> Self {
        self.pictures = Some(Arc::new(draw));
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

    /// Wall time after which no new candidate is started. Tuning has a budget of its own.
    #[must_use]
    pub fn with_budget(mut self, budget: Duration) -> Self {
        self.budget = budget;
        self
    }

    /// How the best candidate is timed beside its rivals; `None` leaves that out.
    #[must_use]
    pub fn with_timing(mut self, timing: Option<ContestPolicy>) -> Self {
        self.timing = timing;
        self
    }

    /// How other configurations than the first that passed are tried; `None` leaves that out. What earlier tuning found is
    /// used in any case.
    #[must_use]
    pub fn with_tuning(mut self, tuning: Option<TuningPolicy>) -> Self {
        self.tuning = tuning;
        self
    }

    /// Where everything is kept and looked up: what is in the store is not built, judged or measured again.
    #[must_use]
    pub fn with_store(mut self, store: Arc<dyn Store>) -> Self {
        self.store = store;
        self
    }

    /// What is known about writing kernels: agents that ask models look there for what helps with a task. What answers the very
    /// task is never shown. By default nothing is.
    #[must_use]
    pub fn with_knowledge(mut self, knowledge: Arc<dyn Knowledge>) -> Self {
        self.knowledge = Some(knowledge);
        self
    }

    /// Who [embeds](crate::knowledge::embed) what agents look up, so that what means the like is found under other words, too. The
    /// articles have embeddings of the same embedder. By default nobody does.
    #[must_use]
    pub fn with_embedder(mut self, embedder: Arc<dyn Embedder>) -> Self {
        self.embedder = Some(embedder);
        self
    }

    /// Whether what is in the store but was disturbed is measured again: a contest that claims nothing, and tuning in which
    /// others used the machine all the time. By default it is not: the same run twice takes its time once.
    #[must_use]
    pub fn with_retry(mut self, retry: bool) -> Self {
        self.retry = retry;
        self
    }

    /// Who watches the machine that candidates are timed on, instead of who [the backend](Backend::witness) names; asked
    /// once for each contest.
    #[must_use]
    pub fn with_witness(mut self, witness: impl Fn() -> Box<dyn Witness> + Send + Sync + 'static) -> Self {
        self.witness = Some(Arc::new(witness));
        self
    }

    /// What candidates are timed against.
    #[must_use]
    pub fn with_rivals(mut self, rivals: impl Rivals + 'static) -> Self {
        self.rivals = Arc::new(rivals);
        self
    }

    /// Who watches a contest.
    fn witness(&self) -> Box<dyn Witness> {
        match &self.witness {
            Some(witness) => witness(),
            None => self.backend.witness(),
        }
    }

    /// The device of the backend, which the DSL must be able to write for.
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
        target_of(&*self.backend).await
    }

    /// Runs the whole road. `Err` is akg's own trouble; candidates that fail are in the outcome.
    pub async fn run(&self, task: &Task) -> Result<Outcome> {
        let began = Instant::now();
        task.graph.validate()?;
        let target = self.target().await?;
        self.demand_alike(&target).await?;
        let trace = self.trace(task, &target)?;
        let outcome = self.traced(task, &target, &trace, began).await;
        if let Err(error) = &outcome {
            trace.end(&error.to_string(), None)?;
        }
        outcome
    }

    /// Runs the whole road of a run that is written down.
    async fn traced(&self, task: &Task, target: &Target, trace: &Trace, began: Instant) -> Result<Outcome> {
        let (design, graph) = self.design(task, target, trace).await?;
        let step = trace.step(&Taken {
            parents: &[],
            role: Designer::NAME,
            agent: self.designer.name(),
            why: "",
            proposal: &design.sketch.to_string(),
        })?;
        self.observer.event(Event::Designed(&design));
        let road = Road::new(self, task, target)?
            .with_graph(graph)
            .with_trace(trace.clone());
        Run::new(&road, design, step, target.clone(), began)?
            .finish()
            .await
    }

    /// Where a run on a task is written down.
    fn trace(&self, task: &Task, target: &Target) -> Result<Trace> {
        let names = [
            (Designer::NAME, self.designer.name()),
            (Coder::NAME, self.coder.name()),
            (Fixer::NAME, self.fixer.name()),
            (Analyst::NAME, self.analyst.name()),
            (Conductor::NAME, self.conductor.name()),
        ];
        let agents = names.map(|(role, name)| format!("{role}: {name}")).join("; ");
        let strategy = self.strategy.as_ref().map_or(search::DEFAULT, |s| s.name());
        let record = RunRecord::new(task, target, self.dsl.name(), agents, strategy)?;
        let trace = Trace::begin(Arc::clone(&self.store), record)?;
        Ok(trace
            .with_knowledge(self.knowledge.clone())
            .with_embedder(self.embedder.clone()))
    }

    /// The design of a task, and the graph that it is a design of.
    async fn design(&self, task: &Task, target: &Target, trace: &Trace) -> Result<(Design, Graph)> {
        let of = |graph: &Graph| DesignContext {
            trace: trace.clone(),
            ..DesignContext::new(task.with_graph(graph.clone()), target.clone())
        };
        if let Some(rewrite) = self.rewrite {
            let Rewritten { graph, rules } = rewrite(&task.graph, &task.contract)?;
            match self.designer.step(&of(&graph)).await {
                Ok(design) => return Ok((Design { rules, ..design }, graph)),
                // The task's own graph may still have a design.
                Err(error) if error.kind() == ErrorKind::Unsupported && !rules.is_empty() => {}
                Err(error) => return Err(error),
            }
        }
        let design = self.designer.step(&of(&task.graph)).await?;
        Ok((design, task.graph.clone()))
    }

    /// Builds, verifies and times a source, whoever wrote it.
    pub async fn judge(&self, source: Source, task: &Task, target: &Target) -> Result<Attempt> {
        let road = Road::new(self, task, target)?;
        let mut attempt = road.judge(road.keep(source)?).await?;
        if attempt.verdict.passed()
            && self.backend.capability().times
            && let Some(policy) = &self.timing
        {
            road.time(&mut attempt, None, policy).await?;
        }
        Ok(attempt)
    }

    /// The best candidate of an outcome of this session as a bundle, with the artifact that was judged, which is in the
    /// store; `None` if no candidate passed.
    pub fn bundle(&self, task: &Task, outcome: &Outcome) -> Result<Option<Bundle>> {
        let Some(best) = outcome.best() else {
            return Ok(None);
        };
        let road = Road::new(self, task, &outcome.target)?;
        let artifact = road.build(&road.keep(best.source.clone())?)?.map_err(|failure| {
            let evidence = &failure.evidence;
            Error::unexpected(format!("what was built before cannot be built again: {evidence}"))
        })?;
        Bundle::from_attempt(task, outcome, best, artifact).map(Some)
    }
}

/// The device of a backend.
async fn target_of(backend: &dyn Backend) -> Result<Target> {
    let devices = backend.devices().await?;
    let (count, position) = (devices.len(), backend.position());
    devices.into_iter().nth(position).ok_or_else(|| {
        let name = backend.name();
        Error::unsupported(match count {
            0 => format!("backend `{name}` finds no device on this machine"),
            _ => format!(
                "backend `{name}` finds {count} devices on this machine, but none at position {position}"
            ),
        })
    })
}
