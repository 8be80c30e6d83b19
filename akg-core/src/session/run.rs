//! One run of a session, from the design to the best candidate.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::contest::Arena;
use super::line::{Candidate, Line};
use super::plan::bound;
use super::road::{Road, Written};
use super::tune::{Leader, Tuner};
use super::{Attempt, Event, Outcome};
use crate::agent::Role as _;
use crate::backend::Cache;
use crate::conductor::{ConductContext, Next, Tried};
use crate::designer::{Design, DesignContext, Designer, FailedDesign};
use crate::error::{Error, ErrorKind, Result};
use crate::fixer::{FixContext, Fixer, Wish};
use crate::source::{Knobs, Source};
use crate::store::TuningRecord;
use crate::target::Target;
use crate::trace::Taken;
use crate::tuner::{Ending, Origin, Tuning, TuningPolicy};
use crate::verdict::Failure;

/// One run of a session.
pub(super) struct Run<'a> {
    pub(super) road: &'a Road<'a>,
    /// The design that is worked on.
    pub(super) line: Line,
    pub(super) outcome: Outcome,
    /// The sketches that were followed.
    pub(super) known: HashSet<String>,
    /// Where candidates are timed, once one is.
    arena: Option<Arc<Arena<'a>>>,
    began: Instant,
}

/// How a candidate was made.
struct Made {
    knobs: Knobs,
    lowered: bool,
    repairs: usize,
    step: usize,
}

/// The fastest that is known of a design, and what it fell back on if that fails after all.
pub(super) struct Best {
    pub(super) line: Line,
    /// Those that were the fastest, the fastest last.
    ladder: Vec<Leader>,
    tuning: Tuning,
    ending: Ending,
    /// Whether it was tuned now, so that how that ended is to be recorded.
    tuned: bool,
    /// Whether it begins with what earlier tuning ended with.
    recorded: bool,
    /// How much faster it is than the first that passed in the run.
    pub(super) speedup: f64,
}

impl Best {
    /// The fastest.
    pub(super) fn leader(&self) -> Option<&Leader> {
        self.ladder.last()
    }
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
            known: HashSet::from([design.sketch.to_string()]),
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
            let done = match session.conductor.step(&context).await? {
                Next::Code(knobs) => self.code(knobs).await,
                Next::Fix => self.fix().await,
                Next::Design if self.line.passed.is_empty() => self.redesign().await,
                Next::Design => {
                    "a candidate passed".clone_into(&mut self.outcome.stopped);
                    return Ok(());
                }
                Next::Stop(reason) => {
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
            role: crate::coder::Coder::NAME,
            agent: session.coder.name(),
            why: "",
            proposal: &written.source.text,
        })?;
        let lowered = road.lowered(&self.line.design, &knobs, &written.source);
        let made = Made {
            knobs,
            lowered,
            repairs: 0,
            step,
        };
        self.judge(written, presented, made).await
    }

    /// Judges a repair of the last candidate, if the fixer knows one. It is not asked again once it knows none.
    async fn fix(&mut self) -> Result<()> {
        let Some(Candidate { tried, step, attempt }) = self.line.tried.last().cloned() else {
            return Ok(());
        };
        let failed = attempt.and_then(|at| self.outcome.attempts.get(at));
        let (Some(failed), Some(failure)) = (failed, tried.failure) else {
            self.line.fixes = false;
            return Ok(());
        };
        let before = self.line.tried.iter().rev().skip(1).take(tried.repairs);
        let mut earlier: Vec<Failure> = before.filter_map(|c| c.tried.failure.clone()).collect();
        earlier.reverse();
        let why = failure.kind.name();
        let fixed = self
            .ask_fixer(failed.source.clone(), Wish::Repair(failure), earlier)
            .await?;
        match fixed {
            Some(source) => {
                self.judge_change(source, tried.knobs, tried.repairs + 1, &[step], why)
                    .await
            }
            None => {
                self.line.fixes = false;
                Ok(())
            }
        }
    }

    /// What the fixer makes of a source.
    pub(super) async fn ask_fixer(
        &self,
        source: Source,
        wish: Wish,
        earlier: Vec<Failure>,
    ) -> Result<Option<Source>> {
        let road = self.road;
        let context = FixContext {
            task: road.task.clone(),
            dsl: road.session.dsl.clone(),
            target: road.target.clone(),
            source,
            wish,
            earlier,
            trace: road.trace.clone(),
        };
        match road.session.fixer.step(&context).await {
            Err(error) if error.kind() == ErrorKind::Unsupported => Ok(None),
            other => other,
        }
    }

    /// Judges what the fixer made of the candidate of a step.
    pub(super) async fn judge_change(
        &mut self,
        source: Source,
        knobs: Knobs,
        repairs: usize,
        parents: &[usize],
        why: &str,
    ) -> Result<()> {
        let road = self.road;
        let step = road.trace.step(&Taken {
            parents,
            role: Fixer::NAME,
            agent: road.session.fixer.name(),
            why,
            proposal: &source.text,
        })?;
        let (written, presented) = road.admit(source)?;
        let made = Made {
            knobs,
            lowered: false,
            repairs,
            step,
        };
        self.judge(written, presented, made).await
    }

    /// Judges a candidate, and takes down what became of it.
    async fn judge(&mut self, written: Written, presented: Result<(), Failure>, made: Made) -> Result<()> {
        let Made {
            knobs,
            lowered,
            repairs,
            step,
        } = made;
        let (road, session) = (self.road, self.road.session);
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
                    lowered,
                    step,
                    ..leader
                });
                let first = &mut self.outcome.first_pass_seconds;
                first.get_or_insert(self.began.elapsed().as_secs_f64());
            }
            Some(failure) if lowered => line.memory.fail(&*session.store, &knobs, failure)?,
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

    /// Goes on with another design, if the designer has one that is not among those that failed. It is not asked again once it
    /// has none.
    async fn redesign(&mut self) -> Result<()> {
        self.line.redesigns = false;
        let mut latest = self.line.tried.iter().rev();
        let failed = latest.find_map(|c| Some((&c.tried.knobs, c.tried.failure.as_ref()?)));
        let Some((knobs, failure)) = failed else {
            return Ok(());
        };
        let mut failed = self.line.failed.clone();
        failed.push(FailedDesign {
            sketch: self.line.design.sketch.clone(),
            knobs: knobs.clone(),
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
        if context.has_failed(&design.sketch) {
            return Ok(());
        }
        let why = format!("the design before led to {}", failure.kind.name());
        let mut line = self.follow(design, &[self.line.step], &why)?;
        line.failed = context.failed;
        line.improve = context.improve;
        self.line = line;
        Ok(())
    }

    /// Takes down a design as a step, to go on with it.
    pub(super) fn follow(&mut self, design: Design, parents: &[usize], why: &str) -> Result<Line> {
        let (road, session) = (self.road, self.road.session);
        let design = Design {
            rules: self.line.design.rules.clone(),
            ..design
        };
        let step = road.trace.step(&Taken {
            parents,
            role: Designer::NAME,
            agent: session.designer.name(),
            why,
            proposal: &design.sketch.to_string(),
        })?;
        session.observer.event(Event::Designed(&design));
        self.known.insert(design.sketch.to_string());
        self.outcome.bound_seconds = bound(road.task, &design, &self.outcome.target);
        Line::new(road, design, step)
    }

    /// Where candidates are timed: the same data for all of a run.
    pub(super) fn arena(&mut self) -> Result<Arc<Arena<'a>>> {
        if let Some(arena) = &self.arena {
            return Ok(Arc::clone(arena));
        }
        let first = self.outcome.attempts.iter().find(|a| a.verdict.passed());
        let arena = Arc::new(Arena::new(self.road, first.map_or(0, Road::seed))?);
        self.arena = Some(Arc::clone(&arena));
        Ok(arena)
    }

    /// Finds the best of what passed of the design that is worked on, and of what tuning makes of it; `None` if nothing
    /// passed.
    pub(super) async fn tune(&mut self) -> Result<Option<Best>> {
        let session = self.road.session;
        let times = session.backend.capability().times;
        let began = Instant::now();
        let leaders = std::mem::take(&mut self.line.passed);
        let Some(first) = leaders.first().cloned() else {
            return Ok(None);
        };
        let is_first = |r: &&TuningRecord| r.knobs == first.knobs && r.source == first.written.hash;
        let record = self.line.memory.chosen().filter(is_first).cloned();
        let again = |record: &TuningRecord, policy: &TuningPolicy| {
            let larger = |seconds| policy.budget.as_secs_f64() > seconds;
            record.ended_by.is_some_and(larger) || (record.disturbed && session.retry)
        };
        let untuned = |policy: &&TuningPolicy| record.as_ref().is_none_or(|record| again(record, policy));
        let tunable = times && first.lowered;
        let wanted = session.tuning.as_ref().filter(|_| tunable).filter(untuned);
        let several = leaders.len() > 1 && times && (session.timing.is_some() || wanted.is_some());
        let mut tuning = Tuning {
            relative: 1.0,
            stopped: match &record {
                Some(record) if record.disturbed => "others used the machine while an earlier run tuned",
                Some(_) => "an earlier run tuned",
                None if !first.lowered => "what a model wrote has no knobs",
                None => "no tuning was asked for",
            }
            .to_owned(),
            ..Tuning::default()
        };
        let mut ending = Ending::default();
        let mut ladder = leaders.get(..1).unwrap_or_default().to_vec();
        if several || wanted.is_some() {
            let arena = self.arena()?;
            let policy = wanted.cloned().unwrap_or_else(|| TuningPolicy {
                budget: Duration::ZERO,
                ..TuningPolicy::default()
            });
            let mut tuner = Tuner::new(
                self.road,
                &arena,
                &self.line.design,
                &mut self.line.memory,
                policy,
                self.outcome.bound_seconds,
            );
            let tuned = tuner.run(leaders).await?;
            (ladder, tuning, ending) = (tuned.ladder, tuned.tuning, tuned.ending);
        }
        tuning.seconds = began.elapsed().as_secs_f64();
        Ok(Some(Best {
            tuned: wanted.is_some(),
            recorded: record.is_some(),
            speedup: 1.0,
            line: self.line.clone(),
            ladder,
            tuning,
            ending,
        }))
    }

    /// Judges the fastest of a design and times it beside its rivals, and the one before it if it fails, and so on. Gives the
    /// step of the one that passes, which is the winner.
    async fn confirm(&mut self, best: &mut Best) -> Result<Option<usize>> {
        let session = self.road.session;
        let began = Instant::now();
        while self.stand(best).await? {
            let Some(leader) = best.ladder.last().cloned() else {
                break;
            };
            let (Some(at), arena) = (leader.attempt, self.arena.clone()) else {
                break;
            };
            let Some(attempt) = self.outcome.attempts.get_mut(at) else {
                break;
            };
            if session.backend.capability().times
                && let Some(policy) = &session.timing
            {
                self.road.time(attempt, arena.as_deref(), policy).await?;
            }
            if let Some(failure) = attempt.verdict.failure.clone() {
                best.fall(self.road, &failure)?;
                continue;
            }
            self.keep_times(leader.step, at)?;
            let mut tuning = std::mem::take(&mut best.tuning);
            tuning.origin = match leader.origin {
                Origin::Designer if best.recorded => Origin::Record,
                origin => origin,
            };
            tuning.relative = leader.relative;
            tuning.seconds += began.elapsed().as_secs_f64();
            if best.tuned {
                let chosen = (&leader.knobs, leader.written.hash);
                let memory = &mut best.line.memory;
                memory.choose(&*session.store, chosen, leader.relative, best.ending)?;
            }
            session.observer.event(Event::Tuned(&tuning));
            self.outcome.winner = Some(at);
            self.outcome.tuning = Some(tuning);
            return Ok(Some(leader.step));
        }
        Ok(None)
    }

    /// Judges the fastest of a design unless it was, and the one before it if it fails, and so on; whether one stands.
    pub(super) async fn stand(&mut self, best: &mut Best) -> Result<bool> {
        while let Some(leader) = best.ladder.last_mut() {
            let attempt: &Attempt = match leader.attempt {
                Some(at) => match self.outcome.attempts.get(at) {
                    Some(attempt) => attempt,
                    None => return Ok(false),
                },
                None => {
                    let attempt = self.road.judge(leader.written.clone()).await?;
                    leader.attempt = Some(self.outcome.attempts.len());
                    self.outcome.attempts.push(attempt);
                    match self.outcome.attempts.last() {
                        Some(attempt) => attempt,
                        None => return Ok(false),
                    }
                }
            };
            let Some(failure) = attempt.verdict.failure.clone() else {
                return Ok(true);
            };
            best.fall(self.road, &failure)?;
        }
        Ok(false)
    }

    /// Takes down how fast the candidate of a step is, and how much faster than the fastest of its rivals.
    fn keep_times(&self, step: usize, attempt: usize) -> Result<()> {
        let contest = self.outcome.attempts.get(attempt).and_then(|a| a.timing.as_ref());
        let Some(contest) = contest else {
            return Ok(());
        };
        self.road.trace.amend(step, |record| {
            record.seconds = contest.candidate().and_then(|c| c.warm.median());
            let over = contest.against_best(Cache::Warm).map(|c| c.ratio);
            record.speedup = over.or(record.speedup);
        })
    }
}

impl Best {
    /// The fastest failed, and the one before it takes its place.
    fn fall(&mut self, road: &Road<'_>, failure: &Failure) -> Result<()> {
        let Some(leader) = self.ladder.pop() else {
            return Ok(());
        };
        let line = &mut self.line;
        if leader.lowered {
            line.memory.fail(&*road.session.store, &leader.knobs, failure)?;
        }
        let same = |c: &&mut Candidate| c.tried.source == leader.written.hash;
        match line.tried.iter_mut().find(same) {
            Some(known) => known.tried.failure = Some(failure.clone()),
            None => line.tried.push(Candidate {
                tried: Tried {
                    knobs: leader.knobs,
                    source: leader.written.hash,
                    lowered: leader.lowered,
                    repairs: 0,
                    failure: Some(failure.clone()),
                },
                step: leader.step,
                attempt: leader.attempt,
            }),
        }
        Ok(())
    }
}

/// Whether an agent had nothing to say, or could not be asked.
pub(super) fn is_silence(error: &Error) -> bool {
    let kind = error.kind();
    kind == ErrorKind::Unsupported || kind == ErrorKind::BudgetSpent || kind == ErrorKind::Unavailable
}
