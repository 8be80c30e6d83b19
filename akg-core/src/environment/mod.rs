//! An environment for reinforcement learning: tasks out, candidates in, verdicts and speedups back.
//!
//! An [`Environment`] goes through its tasks one after the other. A learner has so many attempts at each; every attempt is a
//! source or a sketch, and meets the same judge as everything else. What passes is timed in turns with the kernel of
//! the rules, and its [reward] is how much faster it is. Each try at a task is a [run](RunRecord) of its own in the store, and
//! each attempt a step of it. The messages are plain data, in JSON one line each:
//! `akg env` speaks them on its standard input and output, and docs/env.md describes them.

mod message;
mod rules;

use std::sync::Arc;
use std::time::{Duration, Instant};

pub use message::{Action, Message, PROTOCOL, Proposal};
use rules::RulesKernel;
use serde_json::Value;

use crate::backend::{Backend, Cache, Limits};
use crate::designer::{Design, DesignContext};
use crate::digest::Digest;
use crate::dsl::{Dsl, Stage};
use crate::error::{Error, ErrorKind, Result};
use crate::history::reward;
use crate::session::{Attempt, Session, present};
use crate::source::{Knobs, Source, SourceForm};
use crate::store::{MemoryStore, RunRecord, Store};
use crate::target::Target;
use crate::task::Task;
use crate::timing::{Claim, ContestPolicy};
use crate::trace::{Taken, Trace};
use crate::verdict::{Failure, FailureKind, JUDGE_VERSION};
use crate::verifier::Verifier;
use crate::verify::Judge;

/// Attempts at each task, unless told otherwise.
const ATTEMPTS: usize = 16;

/// The role of who tries, in traces.
const LEARNER: &str = "learner";

/// Tasks to try, and who judges.
#[derive(Debug)]
pub struct Environment {
    dsl: Arc<dyn Dsl>,
    backend: Arc<dyn Backend>,
    verifier: Arc<dyn Verifier>,
    store: Arc<dyn Store>,
    timing: ContestPolicy,
    attempts: usize,
    budget: Option<Duration>,
    shows_start: bool,
    tasks: Vec<Task>,
    /// The number of the next task.
    next: usize,
    episode: Option<Episode>,
    began: Instant,
}

/// A task that is being tried.
#[derive(Debug)]
struct Episode {
    number: usize,
    task: Task,
    target: Target,
    session: Session,
    trace: Trace,
    left: usize,
    /// The steps so far, with what the learner calls them.
    steps: Vec<(Option<Value>, usize)>,
    /// The step with the largest reward so far, and that reward.
    best: Option<(usize, f64)>,
}

/// What was found out about a proposal.
#[derive(Debug, Default)]
struct Judged {
    /// The key of the candidate, if it was one.
    candidate: Option<Digest>,
    failure: Option<Failure>,
    seconds: Option<f64>,
    speedup: Option<f64>,
}

impl Environment {
    /// An environment with the standard judge, 16 attempts at each task and no budget of time, whose memory ends with it.
    pub fn new(dsl: Arc<dyn Dsl>, backend: Arc<dyn Backend>, tasks: Vec<Task>) -> Self {
        let timing = ContestPolicy {
            budget: Duration::from_secs(2),
            patience: Duration::ZERO,
            ..ContestPolicy::default()
        };
        Self {
            dsl,
            backend,
            verifier: Arc::new(Judge::standard(0, None, &Limits::default())),
            store: Arc::new(MemoryStore::new()),
            timing,
            attempts: ATTEMPTS,
            budget: None,
            shows_start: false,
            tasks,
            next: 0,
            episode: None,
            began: Instant::now(),
        }
    }

    /// Another verifier.
    #[must_use]
    pub fn with_verifier(mut self, verifier: impl Verifier + 'static) -> Self {
        self.verifier = Arc::new(verifier);
        self
    }

    /// Where everything is kept: a candidate that comes again is neither judged nor timed again.
    #[must_use]
    pub fn with_store(mut self, store: Arc<dyn Store>) -> Self {
        self.store = store;
        self
    }

    /// How candidates are timed beside the kernel of the rules.
    #[must_use]
    pub fn with_timing(mut self, timing: ContestPolicy) -> Self {
        self.timing = timing;
        self
    }

    /// Attempts at each task, at least one.
    #[must_use]
    pub fn with_attempts(mut self, attempts: usize) -> Self {
        self.attempts = attempts.max(1);
        self
    }

    /// Wall time after which no candidate is judged any more.
    #[must_use]
    pub fn with_budget(mut self, budget: Duration) -> Self {
        self.budget = Some(budget);
        self
    }

    /// Whether tasks show the sketch of the rules, which who copies it is not slower than.
    #[must_use]
    pub fn with_start(mut self, shows_start: bool) -> Self {
        self.shows_start = shows_start;
        self
    }

    /// What is said first: who is here, and the first task.
    ///
    /// # Errors
    /// If there is no device for the DSL.
    pub async fn begin(&mut self) -> Result<Vec<Message>> {
        self.began = Instant::now();
        let target = self.session().target().await?;
        let mut said = vec![Message::Ready {
            protocol: PROTOCOL,
            akg: env!("CARGO_PKG_VERSION").to_owned(),
            judge: JUDGE_VERSION,
            dsl: self.dsl.name().to_owned(),
            device: target.name.clone(),
            tasks: self.tasks.len(),
            attempts: self.attempts,
            guide: self.dsl.guide(Stage::Write, &target),
        }];
        self.advance(&target, &mut said).await;
        Ok(said)
    }

    /// What is said to a line of the learner's. A line that says nothing sensible costs no attempt.
    pub async fn answer(&mut self, line: &str) -> Vec<Message> {
        let action = match Action::parse(line) {
            Ok(action) => action,
            Err(error) => return vec![Message::error(None, &error)],
        };
        let mut said = Vec::new();
        let Some(mut episode) = self.episode.take() else {
            said.push(self.end("every task was tried"));
            return said;
        };
        match action {
            Action::Stop => {
                episode.end("the learner stopped", &mut said);
                said.push(self.end("the learner stopped"));
            }
            _ if self.is_spent() => {
                episode.end("the time is up", &mut said);
                said.push(self.end("the time is up"));
            }
            Action::Next => {
                episode.end("the learner went on", &mut said);
                self.advance(&episode.target, &mut said).await;
            }
            Action::Judge { id, from, proposal } => {
                match episode
                    .attempt([id.as_ref(), from.as_ref()], &proposal, &*self.dsl)
                    .await
                {
                    Ok(judged) => said.push(episode.verdict(id, judged)),
                    // akg's own trouble is not the candidate's.
                    Err(error) => said.push(Message::error(id, &error)),
                }
                if episode.left > 0 {
                    self.episode = Some(episode);
                } else {
                    episode.end("all attempts were made", &mut said);
                    self.advance(&episode.target, &mut said).await;
                }
            }
        }
        said
    }

    /// Ends what is left because nobody listens any more.
    ///
    /// # Errors
    /// The store's.
    pub fn leave(&mut self) -> Result<()> {
        self.next = self.tasks.len();
        match self.episode.take() {
            Some(episode) => episode.close("the learner left"),
            None => Ok(()),
        }
    }

    /// Whether there is anything left to try.
    pub fn is_over(&self) -> bool {
        self.episode.is_none()
    }

    fn is_spent(&self) -> bool {
        self.budget.is_some_and(|budget| self.began.elapsed() >= budget)
    }

    fn end(&mut self, reason: &str) -> Message {
        self.next = self.tasks.len();
        Message::End {
            reason: reason.to_owned(),
        }
    }

    fn session(&self) -> Session {
        Session::new(Arc::clone(&self.dsl), Arc::clone(&self.backend))
            .with_verifier(Arc::clone(&self.verifier))
            .with_store(Arc::clone(&self.store))
    }

    /// Goes on to the next task that can be tried.
    async fn advance(&mut self, target: &Target, said: &mut Vec<Message>) {
        while let Some(task) = self.tasks.get(self.next).cloned() {
            if self.is_spent() {
                said.push(self.end("the time is up"));
                return;
            }
            let number = self.next;
            self.next += 1;
            match self.open(number, &task, target).await {
                Ok((episode, start)) => {
                    said.push(Message::task(&episode.task, number, self.attempts, start));
                    self.episode = Some(episode);
                    return;
                }
                Err(error) => said.push(Message::error(None, &error.with("task", &task.name))),
            }
        }
        said.push(self.end("every task was tried"));
    }

    /// Makes the kernel of the rules, which candidates are timed beside.
    async fn open(&self, number: usize, task: &Task, target: &Target) -> Result<(Episode, Option<String>)> {
        let session = self.session().with_timing(None);
        let rules = match Box::pin(session.run(task)).await {
            Ok(outcome) => outcome
                .best()
                .map(|best| (best.source.clone(), outcome.sketch.clone())),
            // What the rules have no design for is still a task.
            Err(error) if error.kind() == ErrorKind::Unsupported => None,
            Err(error) => return Err(error),
        };
        let mut session = self.session().with_timing(Some(self.timing.clone()));
        let mut start = None;
        if let Some((source, sketch)) = rules {
            let built = self.dsl.build(&source, target)?;
            let artifact = built.map_err(|failure| {
                Error::unexpected("the kernel of the rules cannot be built again")
                    .with("why", failure.evidence)
            })?;
            session = session.with_rivals(RulesKernel::new(artifact, Arc::clone(&self.backend)));
            start = self.shows_start.then_some(sketch);
        }
        let episode = Episode {
            number,
            task: task.clone(),
            target: target.clone(),
            session,
            trace: Trace::begin(Arc::clone(&self.store), self.run(task, target)?)?,
            left: self.attempts,
            steps: Vec::new(),
            best: None,
        };
        Ok((episode, start))
    }

    /// A new run on a task.
    fn run(&self, task: &Task, target: &Target) -> Result<RunRecord> {
        let number = rand::random::<u64>().to_string();
        RunRecord::new(task, target, self.dsl.name(), LEARNER.to_owned(), &number)
    }
}

impl Judged {
    fn new(judged: std::result::Result<Attempt, Failure>) -> Self {
        let attempt = match judged {
            Ok(attempt) => attempt,
            Err(failure) => {
                return Self {
                    failure: Some(failure),
                    ..Self::default()
                };
            }
        };
        let timing = attempt.timing.as_ref();
        let side = timing.and_then(|contest| contest.candidate());
        let against = timing.and_then(|contest| contest.against_best(Cache::Warm));
        Self {
            candidate: Some(attempt.key),
            failure: attempt.verdict.failure,
            seconds: side.and_then(|side| side.warm.median()),
            // A difference that is not beyond the noise is none.
            speedup: against.map(|c| if c.claim == Claim::Noise { 1.0 } else { c.ratio }),
        }
    }

    fn reward(&self) -> f64 {
        reward(self.failure.is_none(), self.speedup)
    }
}

impl Episode {
    /// Judges a proposal, which costs an attempt, and writes down what came of it.
    async fn attempt(
        &mut self,
        [id, from]: [Option<&Value>; 2],
        proposal: &Proposal,
        dsl: &dyn Dsl,
    ) -> Result<Judged> {
        let parent = from.map(|from| self.step_of(from)).transpose()?;
        let judged = Judged::new(self.judge(proposal, dsl).await?);
        if let Some(failure) = judged
            .failure
            .as_ref()
            .filter(|failure| !failure.kind.blames_candidate())
        {
            return Err(Error::new(ErrorKind::Timeout, &failure.evidence));
        }
        let step = self.trace.step(&Taken {
            parents: parent.as_slice(),
            role: LEARNER,
            agent: LEARNER,
            why: "",
            proposal: proposal.text(),
        })?;
        self.trace.amend(step, |record| {
            record.candidate = judged.candidate;
            record.failure.clone_from(&judged.failure);
            record.seconds = judged.seconds;
            record.speedup = judged.speedup;
        })?;
        self.steps.push((id.cloned(), step));
        let reward = judged.reward();
        if reward > self.best.map_or(0.0, |(_, best)| best) {
            self.best = Some((step, reward));
        }
        self.left -= 1;
        Ok(judged)
    }

    /// The last step that the learner calls this.
    fn step_of(&self, wanted: &Value) -> Result<usize> {
        let called = |(id, _): &&(Option<Value>, usize)| id.as_ref() == Some(wanted);
        let step = self.steps.iter().rfind(called).map(|(_, step)| *step);
        step.ok_or_else(|| Error::invalid(format!("no attempt at this task has the id {wanted}")))
    }

    /// Writes down that nothing more is tried.
    fn close(&self, why: &str) -> Result<()> {
        self.trace.end(why, self.best.map(|(step, _)| step))
    }

    /// The same, where somebody listens.
    fn end(&self, why: &str, said: &mut Vec<Message>) {
        if let Err(error) = self.close(why) {
            said.push(Message::error(None, &error));
        }
    }

    /// What the judge says about a proposal; the inner error is why it did not get that far.
    async fn judge(
        &self,
        proposal: &Proposal,
        dsl: &dyn Dsl,
    ) -> Result<std::result::Result<Attempt, Failure>> {
        let rejected = |what: String| Ok(Err(Failure::new(FailureKind::Rejected, what)));
        let source = match proposal {
            Proposal::Source(text) => match dsl.parse(text) {
                Ok(source) => source,
                Err(error) => return rejected(error.to_string()),
            },
            Proposal::Sketch(text, knobs) => {
                let context = DesignContext::new(self.task.clone(), self.target.clone());
                match Design::from_text(text, &context)? {
                    Ok(design) => match self.lower(design, knobs, dsl) {
                        Ok(source) => source,
                        Err(failure) => return Ok(Err(failure)),
                    },
                    Err(objection) => return rejected(objection),
                }
            }
        };
        self.session.judge(source, &self.task, &self.target).await.map(Ok)
    }

    fn lower(
        &self,
        mut design: Design,
        knobs: &Knobs,
        dsl: &dyn Dsl,
    ) -> std::result::Result<Source, Failure> {
        design.knobs.extend(knobs.clone());
        let lowered = dsl.lower(&design.sketch, &design.knobs, &self.target);
        let mut source = lowered.map_err(|error| Failure::new(FailureKind::Rejected, error.to_string()))?;
        if let SourceForm::Lowered { plan } = &mut source.form {
            present(plan, &self.task, &design)?;
        }
        Ok(source)
    }

    fn verdict(&self, id: Option<Value>, judged: Judged) -> Message {
        let reward = judged.reward();
        let failure = judged.failure;
        Message::Verdict {
            id,
            task: self.number,
            verdict: failure
                .as_ref()
                .map_or("pass", |failure| failure.kind.name())
                .to_owned(),
            reward,
            evidence: failure.map(|failure| failure.evidence),
            seconds: judged.seconds,
            speedup: judged.speedup,
            attempts_left: self.left,
        }
    }
}
