//! The best of a design: by duels, by the judge, by the contest.

use std::time::{Duration, Instant};

use super::Event;
use super::line::{Candidate, Line};
use super::plan::bound;
use super::road::Road;
use super::run::Run;
use super::tune::{Leader, Tuner};
use crate::backend::Cache;
use crate::conductor::Tried;
use crate::error::Result;
use crate::store::TuningRecord;
use crate::tuner::{Ending, Origin, Tuning, TuningPolicy};
use crate::verdict::Failure;

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
}

impl Best {
    /// The fastest.
    pub(super) fn leader(&self) -> Option<&Leader> {
        self.ladder.last()
    }

    /// Records what tuning chose, and how it ended, so that it is not tuned again.
    pub(super) fn choose(&mut self, road: &Road<'_>) -> Result<()> {
        let Some(leader) = self.ladder.last().filter(|_| self.tuned) else {
            return Ok(());
        };
        let (store, chosen) = (&*road.session.store, (&leader.knobs, leader.written.hash));
        let memory = &mut self.line.memory;
        memory.choose(store, chosen, leader.relative, self.ending)
    }

    /// The fastest failed, and the one before it takes its place.
    fn fall(&mut self, road: &Road<'_>, failure: &Failure) -> Result<()> {
        let Some(leader) = self.ladder.pop() else {
            return Ok(());
        };
        let line = &mut self.line;
        if leader.written.lowered {
            line.memory.fail(&*road.session.store, &leader.knobs, failure)?;
        }
        let same = |c: &&mut Candidate| c.tried.source == leader.written.hash;
        match line.tried.iter_mut().find(same) {
            Some(known) => known.tried.failure = Some(failure.clone()),
            None => line.tried.push(Candidate {
                tried: Tried {
                    knobs: leader.knobs,
                    source: leader.written.hash,
                    lowered: leader.written.lowered,
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

impl Run<'_> {
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
        let tunable = times && first.written.lowered;
        let wanted = session.tuning.as_ref().filter(|_| tunable).filter(untuned);
        let several = leaders.len() > 1 && times && (session.timing.is_some() || wanted.is_some());
        let mut tuning = Tuning {
            relative: 1.0,
            stopped: match &record {
                Some(record) if record.disturbed => "others used the machine while it was tuned before",
                Some(_) => "it was tuned before",
                None if !first.written.lowered => "what is not lowered has no knobs",
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
                bound(self.road.task, &self.line.design, self.road.target),
            );
            let tuned = tuner.run(leaders).await?;
            (ladder, tuning, ending) = (tuned.ladder, tuned.tuning, tuned.ending);
        }
        tuning.seconds = began.elapsed().as_secs_f64();
        Ok(Some(Best {
            tuned: wanted.is_some(),
            recorded: record.is_some(),
            line: self.line.clone(),
            ladder,
            tuning,
            ending,
        }))
    }

    /// Judges the fastest of a design and times it beside its rivals, and the one before it if it fails, and so on. Gives the
    /// step of the one that passes, which is the winner.
    pub(super) async fn confirm(&mut self, best: &mut Best) -> Result<Option<usize>> {
        let session = self.road.session;
        let began = Instant::now();
        while self.stand(best).await? {
            let Some(leader) = best.ladder.last().cloned() else {
                break;
            };
            let arena = self.arena.clone();
            let Some((at, attempt)) = leader
                .attempt
                .and_then(|at| Some((at, self.outcome.attempts.get_mut(at)?)))
            else {
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
            best.choose(self.road)?;
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
            if leader.attempt.is_none() {
                let attempt = self.road.judge(leader.written.clone()).await?;
                leader.attempt = Some(self.outcome.attempts.len());
                self.outcome.attempts.push(attempt);
            }
            let attempt = leader.attempt.and_then(|at| self.outcome.attempts.get(at));
            match attempt.and_then(|attempt| attempt.verdict.failure.clone()) {
                None => return Ok(true),
                Some(failure) => best.fall(self.road, &failure)?,
            }
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
