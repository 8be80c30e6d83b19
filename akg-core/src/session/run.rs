//! One run of a session, from the design to the best candidate.

use std::time::{Duration, Instant};

use super::contest::Arena;
use super::plan::bound;
use super::road::Road;
use super::tune::{Leader, Tuner};
use super::{Event, Outcome};
use crate::conductor::{ConductContext, Next};
use crate::designer::{Design, DesignContext, FailedDesign};
use crate::error::{ErrorKind, Result};
use crate::source::{Knobs, sketch_knobs};
use crate::store::TuningRecord;
use crate::target::Target;
use crate::tuner::{Ending, Memory, Origin, Tuning, TuningPolicy};
use crate::verdict::Failure;

/// Legal configurations that the conductor can choose from, beside the designer's and the recorded one.
const MOST_POINTS: usize = 64;

/// One run of a session.
pub(super) struct Run<'a> {
    road: &'a Road<'a>,
    design: Design,
    memory: Memory,
    /// What the conductor can choose from.
    points: Vec<Knobs>,
    /// What it chose, and why that failed if it did.
    tried: Vec<(Knobs, Option<Failure>)>,
    /// Whether the designer may have another design.
    redesigns: bool,
    /// Earlier designs.
    failed: Vec<FailedDesign>,
    /// What passed.
    passed: Vec<Leader>,
    outcome: Outcome,
    began: Instant,
}

impl<'a> Run<'a> {
    pub(super) fn new(road: &'a Road<'a>, design: Design, target: Target, began: Instant) -> Result<Self> {
        let (memory, points) = prospects(road, &design)?;
        let outcome = Outcome {
            bound_seconds: bound(road.task, &design, &target),
            target,
            sketch: design.sketch.to_string(),
            kernels: design.kernels.clone(),
            rules: design.rules.clone(),
            attempts: Vec::new(),
            winner: None,
            tuning: None,
            stopped: String::new(),
            first_pass_seconds: None,
            seconds: 0.0,
        };
        Ok(Self {
            road,
            design,
            memory,
            points,
            tried: Vec::new(),
            redesigns: true,
            failed: Vec::new(),
            passed: Vec::new(),
            outcome,
            began,
        })
    }

    /// Searches, tunes and times; starts over when what passed fails at last.
    pub(super) async fn finish(mut self) -> Result<Outcome> {
        loop {
            self.search().await?;
            if self.passed.is_empty() || self.choose().await? {
                break;
            }
        }
        self.outcome.seconds = self.began.elapsed().as_secs_f64();
        Ok(self.outcome)
    }

    /// Judges what the conductor chooses, until it stops.
    async fn search(&mut self) -> Result<()> {
        let session = self.road.session;
        loop {
            let context = ConductContext {
                points: self.points.clone(),
                tried: self.tried.clone(),
                redesigns: self.redesigns,
                exhausted: self.began.elapsed() >= session.budget,
            };
            let knobs = match session.conductor.step(&context).await? {
                Next::Code(knobs) => knobs,
                Next::Design if self.passed.is_empty() => {
                    self.redesign().await?;
                    continue;
                }
                Next::Design => {
                    "a candidate passed".clone_into(&mut self.outcome.stopped);
                    return Ok(());
                }
                Next::Stop(reason) => {
                    self.outcome.stopped = reason;
                    return Ok(());
                }
            };
            let (written, presented) = self.road.write(&self.design, &knobs).await?;
            session.observer.event(Event::Coded(&written.source));
            let attempt = match presented {
                Ok(()) => self.road.judge(written.clone()).await?,
                Err(failure) => self.road.rejected(written.clone(), failure)?,
            };
            if attempt.verdict.passed() {
                let at = self.outcome.attempts.len();
                let known = self.memory.of(&knobs, written.hash);
                let relative = known.and_then(|r| r.relative).unwrap_or(1.0);
                let leader = Leader::new(written, knobs.clone(), Some(at));
                self.passed.push(Leader { relative, ..leader });
            }
            if attempt.verdict.passed() && self.outcome.first_pass_seconds.is_none() {
                self.outcome.first_pass_seconds = Some(self.began.elapsed().as_secs_f64());
            }
            if let Some(failure) = &attempt.verdict.failure {
                self.memory.fail(&*session.store, &knobs, failure)?;
            }
            self.tried.push((knobs, attempt.verdict.failure.clone()));
            self.outcome.attempts.push(attempt);
        }
    }

    /// Goes on with another design, if the designer has one that is not among those that failed. It is not asked again once it
    /// has none.
    async fn redesign(&mut self) -> Result<()> {
        self.redesigns = false;
        let mut latest = self.tried.iter().rev();
        let failed = latest.find_map(|(knobs, failure)| Some((knobs, failure.as_ref()?)));
        let Some((knobs, failure)) = failed else {
            return Ok(());
        };
        let mut failed = self.failed.clone();
        failed.push(FailedDesign {
            sketch: self.design.sketch.clone(),
            knobs: knobs.clone(),
            failure: failure.clone(),
        });
        let road = self.road;
        let context = DesignContext {
            failed,
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
        let design = Design {
            rules: self.design.rules.clone(),
            ..design
        };
        road.session.observer.event(Event::Designed(&design));
        (self.memory, self.points) = prospects(road, &design)?;
        self.outcome.bound_seconds = bound(road.task, &design, &self.outcome.target);
        self.outcome.sketch = design.sketch.to_string();
        self.outcome.kernels.clone_from(&design.kernels);
        self.failed = context.failed;
        self.design = design;
        self.tried.clear();
        self.redesigns = true;
        Ok(())
    }

    /// Finds the best of what passed and of what tuning makes of it, and times that. `false` if nothing is left.
    async fn choose(&mut self) -> Result<bool> {
        let session = self.road.session;
        let times = session.backend.capability().times;
        let began = Instant::now();
        let leaders = std::mem::take(&mut self.passed);
        let Some(first) = leaders.first() else {
            return Ok(false);
        };
        let is_first = |r: &&TuningRecord| r.knobs == first.knobs && r.source == first.written.hash;
        let record = self.memory.chosen().filter(is_first).cloned();
        let again = |record: &TuningRecord, policy: &TuningPolicy| {
            let larger = |seconds| policy.budget.as_secs_f64() > seconds;
            record.ended_by.is_some_and(larger) || (record.disturbed && session.retry)
        };
        let untuned = |policy: &&TuningPolicy| record.as_ref().is_none_or(|record| again(record, policy));
        let wanted = session.tuning.as_ref().filter(|_| times).filter(untuned);
        let several = leaders.len() > 1 && times && (session.timing.is_some() || wanted.is_some());
        let mut tuning = Tuning {
            relative: 1.0,
            stopped: match &record {
                Some(record) if record.disturbed => "others used the machine while an earlier run tuned",
                Some(_) => "an earlier run tuned",
                None => "no tuning was asked for",
            }
            .to_owned(),
            ..Tuning::default()
        };
        let mut arena = None;
        let mut ending = Ending::default();
        let mut ladder = leaders.get(..1).unwrap_or_default().to_vec();
        if several || wanted.is_some() {
            let seed = self.outcome.attempts.get(first.attempt.unwrap_or_default());
            let arena = arena.insert(Arena::new(self.road, seed.map_or(0, Road::seed))?);
            let policy = wanted.cloned().unwrap_or_else(|| TuningPolicy {
                budget: Duration::ZERO,
                ..TuningPolicy::default()
            });
            let mut tuner = Tuner::new(
                self.road,
                arena,
                &self.design,
                &mut self.memory,
                policy,
                self.outcome.bound_seconds,
            );
            let tuned = tuner.run(leaders).await?;
            (ladder, tuning, ending) = (tuned.ladder, tuned.tuning, tuned.ending);
        }
        while let Some(leader) = ladder.last().cloned() {
            if let Some(at) = self.confirm(&leader, arena.as_ref()).await? {
                tuning.origin = match leader.origin {
                    Origin::Designer if record.is_some() => Origin::Record,
                    origin => origin,
                };
                tuning.relative = leader.relative;
                tuning.seconds = began.elapsed().as_secs_f64();
                if wanted.is_some() {
                    let chosen = (&leader.knobs, leader.written.hash);
                    self.memory
                        .choose(&*session.store, chosen, leader.relative, ending)?;
                }
                session.observer.event(Event::Tuned(&tuning));
                self.outcome.winner = Some(at);
                self.outcome.tuning = Some(tuning);
                return Ok(true);
            }
            ladder.pop();
        }
        Ok(false)
    }

    /// Judges a leader unless it was, and times it; gives its place among the attempts if it passes both.
    async fn confirm(&mut self, leader: &Leader, arena: Option<&Arena<'_>>) -> Result<Option<usize>> {
        let session = self.road.session;
        let at = match leader.attempt {
            Some(at) => at,
            None => {
                let attempt = self.road.judge(leader.written.clone()).await?;
                self.outcome.attempts.push(attempt);
                self.outcome.attempts.len() - 1
            }
        };
        let Some(attempt) = self.outcome.attempts.get_mut(at) else {
            return Ok(None);
        };
        if attempt.verdict.passed()
            && session.backend.capability().times
            && let Some(policy) = &session.timing
        {
            self.road.time(attempt, arena, policy).await?;
        }
        let Some(failure) = attempt.verdict.failure.clone() else {
            return Ok(Some(at));
        };
        self.memory.fail(&*session.store, &leader.knobs, &failure)?;
        match self.tried.iter_mut().find(|(knobs, _)| *knobs == leader.knobs) {
            Some((_, known)) => *known = Some(failure),
            None => self.tried.push((leader.knobs.clone(), Some(failure))),
        }
        Ok(None)
    }
}

/// What is known about a design, and what the conductor can choose from.
fn prospects(road: &Road<'_>, design: &Design) -> Result<(Memory, Vec<Knobs>)> {
    let (session, hints) = (road.session, &road.task.contract.hints);
    let memory = Memory::recall(
        &*session.store,
        road.task,
        &design.sketch,
        road.target,
        (session.dsl.name(), &road.toolchain),
    )?;
    let recorded = memory.chosen().map(|r| r.knobs.clone());
    let known = recorded.filter(|k| design.sketch.elaborate(&sketch_knobs(k), hints).is_ok());
    let mut points = Vec::new();
    for point in known.into_iter().chain(design.points(hints).take(MOST_POINTS)) {
        if !points.contains(&point) {
            points.push(point);
        }
    }
    Ok((memory, points))
}
