//! One run of a session, from the design to the best candidate.

use std::sync::Arc;
use std::time::Instant;

use super::contest::Arena;
use super::line::{Candidate, Line};
use super::plan::bound;
use super::pool::Pool;
use super::road::{Road, Written};
use super::tune::Leader;
use super::{Event, Outcome};
use crate::agent::Role as _;
use crate::coder::Coder;
use crate::conductor::{ConductContext, Next, Tried};
use crate::designer::{Design, DesignContext, Designer, FailedDesign};
use crate::error::{Error, ErrorKind, Result};
use crate::fixer::{Fixer, Wish};
use crate::search::fingerprint::of_sketch;
use crate::source::Knobs;
use crate::target::Target;
use crate::trace::{Taken, Trace};
use crate::verdict::{Failure, FailureKind};

/// One run of a session.
pub(super) struct Run<'a> {
    pub(super) road: &'a Road<'a>,
    /// The design that is worked on.
    pub(super) line: Line,
    pub(super) outcome: Outcome,
    /// What passed and what failed since something passed.
    pub(super) pool: Pool,
    /// Where candidates are timed, once one is.
    pub(super) arena: Option<Arc<Arena<'a>>>,
    began: Instant,
}

impl<'a> Run<'a> {
    /// A run that begins with a design, which is the step of this number.
    pub(super) fn new(
        road: &'a Road<'a>,
        design: Design,
        step: usize,
        target: Target,
        began: Instant,
    ) -> Result<Self> {
        let outcome = Outcome {
            bound_seconds: bound(road.task, &design, &target),
            target,
            sketch: design.sketch.to_string(),
            kernels: design.kernels.clone(),
            rules: design.rules.clone(),
            attempts: Vec::new(),
            winner: None,
            tuning: None,
            passes: Vec::new(),
            stopped: String::new(),
            first_pass_seconds: None,
            seconds: 0.0,
        };
        Ok(Self {
            road,
            pool: Pool::default(),
            line: Line::new(road, design, step)?,
            outcome,
            arena: None,
            began,
        })
    }

    /// Searches for a candidate that passes, tunes it, looks for faster ones, and times the best; starts over when what
    /// passed fails at last.
    pub(super) async fn finish(mut self) -> Result<Outcome> {
        let mut winner = None;
        while winner.is_none() {
            self.search().await?;
            let Some(first) = self.tune().await? else { break };
            let mut bests = self.improve(first).await?;
            while let Some(mut best) = bests.pop() {
                winner = self.confirm(&mut best).await?;
                self.line = best.line;
                if winner.is_some() {
                    break;
                }
            }
        }
        let design = &self.line.design;
        self.outcome.bound_seconds = bound(self.road.task, design, &self.outcome.target);
        self.outcome.sketch = design.sketch.to_string();
        self.outcome.kernels.clone_from(&design.kernels);
        self.outcome.seconds = self.began.elapsed().as_secs_f64();
        self.road.trace.end(&self.outcome.stopped, winner)?;
        Ok(self.outcome)
    }

    /// Whether no new candidate is to be started.
    pub(super) fn exhausted(&self) -> bool {
        self.began.elapsed() >= self.road.session.budget
    }

    /// Judges what the conductor chooses, until it stops.
    pub(super) async fn search(&mut self) -> Result<()> {
        let session = self.road.session;
        loop {
            let context = ConductContext {
                points: self.line.points.clone(),
                tried: self.line.tried.iter().map(|c| c.tried.clone()).collect(),
                designs: self.line.failed.len(),
                redesigns: self.line.redesigns,
                fixes: self.line.fixes,
                exhausted: self.exhausted(),
                trace: self.road.trace.clone(),
            };
            let done = match session.conductor.step(&context).await {
                Err(error) => Err(error),
                Ok(Next::Code(knobs)) => match self.code(knobs.clone()).await {
                    Err(error) if error.kind() == ErrorKind::Unsupported => {
                        self.unwritten(knobs, error).await
                    }
                    other => other,
                },
                Ok(Next::Fix) => self.fix().await,
                Ok(Next::Design) if self.line.passed.is_empty() => self.redesign(None).await,
                Ok(Next::Design) => {
                    "a candidate passed".clone_into(&mut self.outcome.stopped);
                    return Ok(());
                }
                Ok(Next::Stop(reason)) => {
                    self.outcome.stopped = reason;
                    return Ok(());
                }
            };
            match done {
                // Who has nothing to say, or nothing left to spend, ends the search; what was tried is not lost.
                Err(error) if is_silence(&error) && !self.line.tried.is_empty() => {
                    self.outcome.stopped = error.to_string();
                    return Ok(());
                }
                other => other?,
            }
        }
    }

    /// Writes and judges a source with these knob values.
    async fn code(&mut self, knobs: Knobs) -> Result<()> {
        let road = self.road;
        let (written, presented) = road.write(&self.line.design, &knobs).await?;
        let session = road.session;
        let step = road.trace.step(&Taken {
            parents: &[self.line.step],
            role: Coder::NAME,
            agent: session.coder.name(),
            why: "",
            proposal: &written.source.text,
        })?;
        self.judge(written, presented, (knobs, 0), step).await
    }

    /// Judges a repair of the last candidate, if the fixer knows one. It is not asked again once it knows none.
    async fn fix(&mut self) -> Result<()> {
        let Some(Candidate { tried, step, attempt }) = self.line.tried.last().cloned() else {
            return Ok(());
        };
        let failed = attempt.and_then(|at| self.outcome.attempts.get(at));
        // What its judge has no time for is not the source's fault.
        let failure = tried.failure.filter(|failure| failure.kind.blames_candidate());
        let (Some(failed), Some(failure)) = (failed, failure) else {
            self.line.fixes = false;
            return Ok(());
        };
        let before = self.line.tried.iter().rev().skip(1).take(tried.repairs);
        let mut earlier: Vec<Failure> = before.filter_map(|c| c.tried.failure.clone()).collect();
        earlier.reverse();
        let why = failure.kind.name();
        let road = self.road;
        let fixed = road
            .ask_fixer(
                road.trace.clone(),
                failed.source.clone(),
                Wish::Repair(failure),
                earlier,
            )
            .await?;
        match fixed {
            Some(source) => {
                let change = road.admit(source)?;
                let configuration = (tried.knobs, tried.repairs + 1);
                self.judge_change(change, configuration, (&road.trace, &[step], why))
                    .await
            }
            None => {
                self.line.fixes = false;
                Ok(())
            }
        }
    }

    /// Judges what the fixer made of the candidates of some steps, which was written for these knob values and is repaired so
    /// often; it is a step of the trace in which the fixer was asked.
    pub(super) async fn judge_change(
        &mut self,
        (written, presented): (Written, Result<(), Failure>),
        configuration: (Knobs, usize),
        (trace, parents, why): (&Trace, &[usize], &str),
    ) -> Result<()> {
        let step = trace.step(&Taken {
            parents,
            role: Fixer::NAME,
            agent: self.road.session.fixer.name(),
            why,
            proposal: &written.source.text,
        })?;
        self.judge(written, presented, configuration, step).await
    }

    /// Judges the candidate of a step, written for these knob values and repaired so often, and takes down what became of
    /// it.
    async fn judge(
        &mut self,
        written: Written,
        presented: Result<(), Failure>,
        (knobs, repairs): (Knobs, usize),
        step: usize,
    ) -> Result<()> {
        let (road, session) = (self.road, self.road.session);
        let lowered = written.lowered;
        session.observer.event(Event::Coded(&written.source));
        let attempt = match presented {
            Ok(()) => road.judge(written.clone()).await?,
            Err(failure) => road.rejected(written.clone(), failure)?,
        };
        let failure = attempt.verdict.failure.clone();
        road.trace.amend(step, |record| {
            record.candidate = Some(attempt.key);
            record.failure.clone_from(&failure);
        })?;
        let at = self.outcome.attempts.len();
        let line = &mut self.line;
        match &failure {
            None => {
                let known = line.memory.of(&knobs, written.hash).filter(|_| lowered);
                let relative = known.and_then(|r| r.relative).unwrap_or(1.0);
                let leader = Leader::new(written.clone(), knobs.clone(), Some(at));
                line.passed.push(Leader {
                    relative,
                    step,
                    ..leader
                });
                let first = &mut self.outcome.first_pass_seconds;
                first.get_or_insert(self.began.elapsed().as_secs_f64());
            }
            Some(failure) if lowered && failure.kind.blames_candidate() => {
                line.memory.fail(&*session.store, &knobs, failure)?
            }
            Some(_) => {}
        }
        let tried = Tried {
            knobs,
            source: written.hash,
            lowered,
            repairs,
            failure,
        };
        line.tried.push(Candidate {
            tried,
            step,
            attempt: Some(at),
        });
        self.outcome.attempts.push(attempt);
        Ok(())
    }

    /// A design that nobody can write goes back to the designer; the error stays if it has no other.
    async fn unwritten(&mut self, knobs: Knobs, error: Error) -> Result<()> {
        if !self.line.redesigns || !self.line.passed.is_empty() || self.exhausted() {
            return Err(error);
        }
        let failure = Failure::new(FailureKind::Rejected, error.to_string());
        self.redesign(Some((knobs, failure))).await?;
        // It is not asked again once it has none.
        if self.line.redesigns { Ok(()) } else { Err(error) }
    }

    /// Goes on with another design after a failure, the last one unless it is given, if the designer has one that is not among
    /// those that failed. It is not asked again once it has none.
    async fn redesign(&mut self, failed: Option<(Knobs, Failure)>) -> Result<()> {
        self.line.redesigns = false;
        let last = || {
            let (knobs, failure) = self.line.last_failure()?;
            Some((knobs.clone(), failure.clone()))
        };
        let failed = failed.or_else(last);
        let Some((knobs, failure)) = failed.filter(|(_, failure)| failure.kind.blames_candidate()) else {
            return Ok(());
        };
        let mut failed = self.line.failed.clone();
        failed.push(FailedDesign {
            sketch: self.line.design.sketch.clone(),
            knobs,
            failure: failure.clone(),
        });
        let road = self.road;
        let context = DesignContext {
            failed,
            improve: self.line.improve.clone(),
            ..road.design_context()
        };
        let design = match road.session.designer.step(&context).await {
            Ok(design) => design,
            Err(error) if error.kind() == ErrorKind::Unsupported => return Ok(()),
            Err(error) => return Err(error),
        };
        let print = of_sketch(&design.sketch);
        let population = &mut self.pool.population;
        if context.has_failed(&design.sketch) || population.like(print).next().is_some() {
            return Ok(());
        }
        if let Some(member) = self.line.member {
            population.identify(member, print)?;
        }
        let why = format!("the design before led to {}", failure.kind.name());
        let mut line = self.follow(design, (&road.trace, &[self.line.step], &why))?;
        line.failed = context.failed;
        line.improve = context.improve;
        line.member = self.line.member;
        self.line = line;
        Ok(())
    }

    /// Takes down a design as a step of the trace in which the designer was asked, to go on with it.
    pub(super) fn follow(
        &mut self,
        design: Design,
        (trace, parents, why): (&Trace, &[usize], &str),
    ) -> Result<Line> {
        let (road, session) = (self.road, self.road.session);
        let design = Design {
            rules: self.line.design.rules.clone(),
            ..design
        };
        let step = trace.step(&Taken {
            parents,
            role: Designer::NAME,
            agent: session.designer.name(),
            why,
            proposal: &design.sketch.to_string(),
        })?;
        session.observer.event(Event::Designed(&design));
        Line::new(road, design, step)
    }

    /// Where candidates are timed: one secret for all of a run.
    pub(super) fn arena(&mut self) -> Result<Arc<Arena<'a>>> {
        if let Some(arena) = &self.arena {
            return Ok(Arc::clone(arena));
        }
        let arena = Arc::new(Arena::new(self.road)?);
        self.arena = Some(Arc::clone(&arena));
        Ok(arena)
    }
}

/// Whether an agent had nothing to say, or could not be asked.
pub(super) fn is_silence(error: &Error) -> bool {
    use ErrorKind::{BudgetSpent, Timeout, Unavailable, Unsupported};
    matches!(error.kind(), Unsupported | BudgetSpent | Unavailable | Timeout)
}
