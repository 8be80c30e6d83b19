//! Duels: which configuration of a sketch is the fastest.

use std::collections::HashSet;
use std::thread;
use std::time::Instant;

use super::Event;
use super::contest::Arena;
use super::road::{Road, Written};
use crate::backend::Cache;
use crate::designer::Design;
use crate::digest::Digest;
use crate::error::{Error, ErrorKind, Result};
use crate::source::{Artifact, Knobs};
use crate::timing::{Claim, Disturbance, LoadedSide};
use crate::tuner::{Ending, Memory, Origin, Space, Trial, Tuning, TuningPolicy};
use crate::verdict::{Failure, FailureKind};

/// The reason for the end that more time removes.
const BUDGET_SPENT: &str = "the budget is spent";

/// Chosen configurations of other shapes that are tried.
const MOST_NEAR: usize = 2;

/// The sides of duels.
pub(super) const CHALLENGER: &str = "challenger";
pub(super) const FASTEST: &str = "fastest so far";

/// Builds of one problem that run at the same time, at most; a device's problems share the processors.
const MOST_BUILDS: usize = 8;
const SHARE: usize = 4;

/// A candidate that was the fastest for a time.
#[derive(Debug, Clone)]
pub(super) struct Leader {
    pub(super) written: Written,
    pub(super) knobs: Knobs,
    /// Its place among the attempts, if it was judged.
    pub(super) attempt: Option<usize>,
    pub(super) origin: Origin,
    /// Its time over that of the first leader.
    pub(super) relative: f64,
    /// The number of the step that it comes from.
    pub(super) step: usize,
}

impl Leader {
    pub(super) fn new(written: Written, knobs: Knobs, attempt: Option<usize>) -> Self {
        Self {
            written,
            knobs,
            attempt,
            origin: Origin::Designer,
            relative: 1.0,
            step: 0,
        }
    }
}

/// What may challenge the fastest.
struct Challenger {
    leader: Leader,
    artifact: Artifact,
}

/// What became of a challenge.
enum Bout {
    Won,
    Lost,
    /// Nothing was measured: the same was before, or it failed.
    Void,
}

pub(super) struct Tuner<'a> {
    road: &'a Road<'a>,
    arena: &'a Arena<'a>,
    design: &'a Design,
    memory: &'a mut Memory,
    policy: TuningPolicy,
    /// Seconds below which the device cannot compute the task.
    bound: Option<f64>,
    began: Instant,
    /// Those that were the fastest, the fastest last, which takes part in duels.
    ladder: Vec<Leader>,
    fastest: Option<LoadedSide>,
    /// Seconds of the fastest in the last duel.
    seconds: Option<f64>,
    /// Sources and artifacts that were measured.
    seen: HashSet<Digest>,
    trials: Vec<Trial>,
    /// The step of what is tuned.
    step: usize,
    /// Duels, and those of them in which others used the machine.
    duels: usize,
    disturbed: usize,
}

/// What tuning ended with.
pub(super) struct Tuned {
    /// Those that were the fastest, the fastest last.
    pub(super) ladder: Vec<Leader>,
    pub(super) tuning: Tuning,
    pub(super) ending: Ending,
}

impl<'a> Tuner<'a> {
    pub(super) fn new(
        road: &'a Road<'a>,
        arena: &'a Arena<'a>,
        design: &'a Design,
        memory: &'a mut Memory,
        policy: TuningPolicy,
        bound: Option<f64>,
    ) -> Self {
        Self {
            road,
            arena,
            design,
            memory,
            policy,
            bound,
            began: Instant::now(),
            ladder: Vec::new(),
            fastest: None,
            seconds: None,
            seen: HashSet::new(),
            trials: Vec::new(),
            step: 0,
            duels: 0,
            disturbed: 0,
        }
    }

    /// Lets what passed, and then other configurations, challenge the fastest.
    pub(super) async fn run(&mut self, passed: Vec<Leader>) -> Result<Tuned> {
        self.step = passed.first().map_or(0, |leader| leader.step);
        for leader in passed {
            if let Some(challenger) = self.ready(leader)? {
                self.challenge(challenger).await?;
            }
        }
        let stopped = self.explore().await?;
        let cut_short = stopped == BUDGET_SPENT;
        let tuning = Tuning {
            trials: std::mem::take(&mut self.trials),
            stopped,
            cut_short,
            ..Tuning::default()
        };
        let disturbed = self.duels > 0 && self.disturbed == self.duels;
        let budget = (disturbed || tuning.cut_short).then_some(self.policy.budget.as_secs_f64());
        Ok(Tuned {
            ladder: std::mem::take(&mut self.ladder),
            ending: Ending { budget, disturbed },
            tuning,
        })
    }

    /// Tries recorded configurations, then each group of knobs; gives the reason for the end.
    async fn explore(&mut self) -> Result<String> {
        let own = self
            .road
            .session
            .dsl
            .knobs(&self.design.sketch, self.road.target)?;
        let space = Space {
            sketch: &self.design.sketch,
            own: &own,
            hints: &self.road.task.contract.hints,
            target: self.road.target,
        };
        if let Some(reason) = self.over() {
            return Ok(reason);
        }
        let near = self.memory.near().iter().filter(|k| space.contains(k));
        let near: Vec<Knobs> = near.take(MOST_NEAR).cloned().collect();
        for challenger in self.prepare(&near, Origin::NearRecord).await? {
            self.challenge(challenger).await?;
        }
        let mut groups = space.groups();
        self.road.session.observer.event(Event::Tuning(groups.len()));
        // Where the cost model sees the largest differences, most can be won.
        let spread = |group: &Vec<String>| {
            let ranked = space.ranked(&self.design.knobs, group);
            let times = || ranked.iter().map(|(_, s)| *s).filter(|s| s.is_finite());
            (times().fold(0.0, f64::max) - times().fold(f64::INFINITY, f64::min)).max(0.0)
        };
        groups.sort_by_cached_key(|group| std::cmp::Reverse((spread(group) * 1e12) as u64));
        for group in &groups {
            if let Some(reason) = self.tune(&space, group).await? {
                return Ok(reason);
            }
        }
        Ok("nothing promising is left".to_owned())
    }

    /// Tunes the knobs of one group; gives the reason if all tuning ends.
    async fn tune(&mut self, space: &Space<'_>, group: &[String]) -> Result<Option<String>> {
        let Some(base) = self.ladder.last().map(|l| l.knobs.clone()) else {
            return Ok(Some("nothing is left that passed".to_owned()));
        };
        let ranked = space.ranked(&base, group).into_iter();
        let ranked: Vec<Knobs> = ranked.take(self.policy.most_ranked).map(|(k, _)| k).collect();
        let mut lost = 0;
        for batch in ranked.chunks(self.builds()) {
            if let Some(reason) = self.over() {
                return Ok(Some(reason));
            }
            for (at, challenger) in self
                .prepare(batch, Origin::Ranking)
                .await?
                .into_iter()
                .enumerate()
            {
                // The first one is measured however long the builds took.
                if let Some(reason) = self.over().filter(|_| at > 0) {
                    return Ok(Some(reason));
                }
                match self.challenge(challenger).await? {
                    Bout::Won => lost = 0,
                    Bout::Lost => lost += 1,
                    Bout::Void => {}
                }
            }
            if lost >= self.policy.patience {
                break;
            }
        }
        Ok(None)
    }

    /// How many builds run at the same time.
    fn builds(&self) -> usize {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        let is_shared = self.road.session.backend.capability().own_processors;
        (processors / if is_shared { SHARE } else { 1 }).clamp(1, MOST_BUILDS)
    }

    /// The reason to end, if there is one.
    fn over(&self) -> Option<String> {
        let near_bound = self.bound.zip(self.seconds);
        let reason = if self.ladder.is_empty() {
            "nothing is left that passed"
        } else if self.began.elapsed() >= self.policy.budget {
            BUDGET_SPENT
        } else if self.trials.len() >= self.policy.most_challengers {
            "there were as many challengers as allowed"
        } else if near_bound.is_some_and(|(bound, time)| bound >= self.policy.enough * time) {
            "the device can hardly do better"
        } else {
            return None;
        };
        Some(reason.to_owned())
    }

    /// Writes and builds configurations, except those of which all is known.
    async fn prepare(&mut self, points: &[Knobs], origin: Origin) -> Result<Vec<Challenger>> {
        let mut fresh = Vec::new();
        for knobs in points {
            let blank = Trial {
                knobs: knobs.clone(),
                origin,
                failure: None,
                relative: None,
                faster: false,
                recalled: false,
            };
            let (written, presented) = match self.road.write(self.design, knobs).await {
                Ok(written) => written,
                // Some configurations cannot be lowered.
                Err(e) if matches!(e.kind(), ErrorKind::Unsupported | ErrorKind::InvalidInput) => {
                    let failure = Failure::new(FailureKind::Rejected, e.to_string());
                    self.tried(Trial {
                        failure: Some(failure),
                        ..blank
                    });
                    continue;
                }
                Err(e) => return Err(e),
            };
            if !self.seen.insert(written.hash) {
                continue;
            }
            let leader = Leader {
                origin,
                step: self.step,
                ..Leader::new(written, knobs.clone(), None)
            };
            if let Err(failure) = presented {
                self.road.rejected(leader.written.clone(), failure.clone())?;
                self.failed(&leader, failure, false)?;
            } else if !self.recall(&leader)? {
                fresh.push(leader);
            }
        }
        let road = self.road;
        // Each build waits for a compiler of its own.
        let built: Vec<_> = thread::scope(|scope| {
            let builds: Vec<_> = fresh
                .iter()
                .map(|leader| scope.spawn(|| road.build(&leader.written)))
                .collect();
            let lost = || Err(Error::unexpected("a thread that built a candidate panicked"));
            builds
                .into_iter()
                .map(|build| build.join().unwrap_or_else(|_| lost()))
                .collect()
        });
        let mut ready = Vec::new();
        for (leader, built) in fresh.into_iter().zip(built) {
            match built? {
                Ok(artifact) if self.seen.insert(Digest::of(&artifact.bytes)) => {
                    ready.push(Challenger { leader, artifact });
                }
                Ok(_) => {}
                Err(failure) => {
                    self.road.fail(leader.written.key, &failure)?;
                    self.failed(&leader, failure, false)?;
                }
            }
        }
        Ok(ready)
    }

    /// Something that passed, with its artifact; `None` if the same was measured.
    fn ready(&mut self, leader: Leader) -> Result<Option<Challenger>> {
        match self.road.build(&leader.written)? {
            Ok(artifact) => {
                self.seen.insert(leader.written.hash);
                let new = self.seen.insert(Digest::of(&artifact.bytes));
                Ok(new.then_some(Challenger { leader, artifact }))
            }
            Err(_) => Ok(None),
        }
    }

    /// Takes over what an earlier run found out about a configuration; `false` if that is not enough.
    fn recall(&mut self, leader: &Leader) -> Result<bool> {
        let verdict = self.road.recalled(leader.written.key)?;
        let record = self.memory.of(&leader.knobs, leader.written.hash).cloned();
        let failure = verdict
            .and_then(|(verdict, _)| verdict.failure)
            .or_else(|| record.as_ref()?.failure.clone());
        if let Some(failure) = failure {
            self.failed(leader, failure, true)?;
            return Ok(true);
        }
        let Some((relative, won)) = record.and_then(|r| Some((r.relative?, r.faster))) else {
            return Ok(false);
        };
        let fastest = self.ladder.last().map_or(f64::INFINITY, |l| l.relative);
        let mut faster = won && relative < fastest;
        if faster {
            let Ok(artifact) = self.road.build(&leader.written)? else {
                return Ok(false);
            };
            faster = self.seen.insert(Digest::of(&artifact.bytes));
            if faster {
                let side = self.arena.side(CHALLENGER, &artifact);
                self.promote(leader.clone(), side, relative);
            }
        }
        self.tried(Trial {
            knobs: leader.knobs.clone(),
            origin: leader.origin,
            failure: None,
            relative: Some(relative),
            faster,
            recalled: true,
        });
        Ok(true)
    }

    /// Measures a challenger beside the fastest.
    async fn challenge(&mut self, challenger: Challenger) -> Result<Bout> {
        let Challenger { leader, artifact } = challenger;
        let mut side = self.arena.side(CHALLENGER, &artifact);
        let (Some(standing), Some(fastest)) = (self.ladder.last(), &mut self.fastest) else {
            let relative = leader.relative;
            self.promote(leader, side, relative);
            return Ok(Bout::Void);
        };
        let key = leader.written.key;
        let sides = ((key, &mut side), (standing.written.key, fastest));
        let contest = self
            .arena
            .duel(sides.0, sides.1, &self.policy.duel)
            .await?
            .contest;
        let standing = standing.relative;
        let [own, theirs] = contest.sides.as_slice() else {
            return Err(Error::unexpected("a duel has two sides"));
        };
        if let Some(failure) = &own.failure {
            self.road.fail(key, failure)?;
            self.failed(&leader, failure.clone(), false)?;
            return Ok(Bout::Void);
        }
        if let Some(failure) = &theirs.failure {
            self.dethrone(failure)?;
            return Ok(Bout::Void);
        }
        let Some(comparison) = contest.against_best(Cache::Warm) else {
            return Ok(Bout::Void);
        };
        let ratio = comparison.ratio;
        let relative = standing / ratio;
        let faster = comparison.claim == Claim::Faster;
        self.seconds = if faster { &own.warm } else { &theirs.warm }.median();
        let mut record = self.memory.record(&leader.knobs, leader.written.hash);
        record.seconds.clone_from(&own.warm.seconds);
        record.challenged_seconds.clone_from(&theirs.warm.seconds);
        // Hopelessly slower is known after few rounds.
        let hopeless = self.policy.duel.concede.is_some_and(|c| ratio * c < 1.0);
        let few = |d: &Disturbance| matches!(d, Disturbance::FewRounds { .. });
        let conclusive = contest.disturbances.iter().all(|d| hopeless && few(d));
        self.duels += 1;
        self.disturbed += usize::from(contest.disturbances.iter().any(|d| !few(d)));
        record.relative = conclusive.then_some(relative);
        record.faster = faster;
        self.memory.keep(&*self.road.session.store, record)?;
        self.tried(Trial {
            knobs: leader.knobs.clone(),
            origin: leader.origin,
            failure: None,
            relative: Some(relative),
            faster,
            recalled: false,
        });
        if faster {
            self.promote(leader, side, relative);
            return Ok(Bout::Won);
        }
        Ok(Bout::Lost)
    }

    /// Makes a challenger the fastest.
    fn promote(&mut self, leader: Leader, side: LoadedSide, relative: f64) {
        self.ladder.push(Leader { relative, ..leader });
        self.fastest = Some(side.unjudged(FASTEST));
    }

    /// Removes the fastest, which failed when it was timed.
    fn dethrone(&mut self, failure: &Failure) -> Result<()> {
        if let Some(leader) = self.ladder.pop() {
            self.road.fail(leader.written.key, failure)?;
            self.memory
                .fail(&*self.road.session.store, &leader.knobs, failure)?;
        }
        let artifact = match self.ladder.last() {
            Some(leader) => self.road.build(&leader.written)?.ok(),
            None => None,
        };
        self.fastest = artifact.map(|artifact| self.arena.side(CHALLENGER, &artifact).unjudged(FASTEST));
        Ok(())
    }

    /// A challenger that failed.
    fn failed(&mut self, leader: &Leader, failure: Failure, recalled: bool) -> Result<()> {
        if !recalled {
            let mut record = self.memory.record(&leader.knobs, leader.written.hash);
            record.failure = Some(failure.clone());
            self.memory.keep(&*self.road.session.store, record)?;
        }
        self.tried(Trial {
            knobs: leader.knobs.clone(),
            origin: leader.origin,
            failure: Some(failure),
            relative: None,
            faster: false,
            recalled,
        });
        Ok(())
    }

    fn tried(&mut self, trial: Trial) {
        self.road.session.observer.event(Event::Tried(&trial));
        self.trials.push(trial);
    }
}
