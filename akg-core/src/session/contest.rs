//! Timing candidates that passed.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use async_trait::async_trait;

use super::road::Road;
use super::{Attempt, Event};
use crate::backend::Limits;
use crate::digest::Digest;
use crate::error::Result;
use crate::source::Artifact;
use crate::store::{Measurement, StoreExt as _, now};
use crate::target::Target;
use crate::task::{Accuracy, Task};
use crate::timing::{
    Check, Contest, ContestPolicy, Disturbance, Entrants, Floor, LoadedSide, Side, SlotData, SlotId, contest,
};
use crate::verdict::{Failure, FailureKind};
use crate::verify::{ContestData, Operations, judge_sample};

/// Supplies what candidates are compared with: what PyTorch makes of the same task, the kernels in use today.
#[async_trait]
pub trait Rivals: Send + Sync + fmt::Debug {
    /// The sides that take part in one contest, on the same data as the candidate. `check` judges outputs by their slot, in
    /// class [`Half`](Accuracy::Half) whatever the task's class is: a rival that is less exact than the candidate must
    /// be is still one to beat, and its error is reported.
    ///
    /// Rivals that cannot take part are left out: a candidate is timed without them.
    async fn enter(
        &self,
        task: &Task,
        target: &Target,
        data: Arc<dyn SlotData>,
        check: Check,
    ) -> Result<Vec<Box<dyn Side>>>;

    /// Who they are, with versions and settings. A contest with rivals of the same identity is not held again.
    fn identity(&self) -> String;

    /// What they say about themselves after they [entered](Self::enter), kept with the contest.
    fn account(&self) -> serde_json::Value {
        serde_json::Value::Null
    }
}

/// No rivals.
#[derive(Debug, Clone, Copy)]
pub(super) struct NoRivals;

#[async_trait]
impl Rivals for NoRivals {
    async fn enter(
        &self,
        _: &Task,
        _: &Target,
        _: Arc<dyn SlotData>,
        _: Check,
    ) -> Result<Vec<Box<dyn Side>>> {
        Ok(Vec::new())
    }

    fn identity(&self) -> String {
        "nobody".to_owned()
    }
}

/// Work of the reference for each check of timed outputs.
const SAMPLE_WORK: Operations = Operations::of_milliseconds(30);

/// What the contests of one task are held on.
pub(super) struct Arena<'a> {
    road: &'a Road<'a>,
    limits: Limits,
    data: Arc<ContestData>,
}

impl<'a> Arena<'a> {
    /// Draws the secret that all data follows from. No candidate can know it, and no verification had that data.
    pub(super) fn new(road: &'a Road<'a>) -> Result<Self> {
        road.session.observer.event(Event::Measuring);
        let backend = Arc::clone(&road.session.backend);
        Ok(Self {
            road,
            limits: road.session.limits.for_task(road.task, road.target)?,
            data: Arc::new(ContestData::new(road.task, backend, rand::random())?),
        })
    }

    fn check(&self, accuracy: Accuracy) -> Check {
        let (mut task, data) = (self.road.task.clone(), self.data.clone());
        let products = self.road.session.backend.products();
        task.contract.accuracy = accuracy;
        Arc::new(move |SlotId { round, index }, output| {
            let made = data.inputs(round, index..index + 1)?;
            let inputs = made.first().map(Vec::as_slice).unwrap_or_default();
            let failure = judge_sample(
                &task,
                (data.distribution(round), inputs),
                &output.outputs,
                products.clone(),
                rand::random(),
                SAMPLE_WORK,
            )?;
            let changed = || Failure::new(FailureKind::InputChanged, "an input was changed in a timed round");
            Ok(failure.or_else(|| (!output.inputs_unchanged).then(changed)))
        })
    }

    /// An artifact that takes part under this name.
    pub(super) fn side(&self, name: &str, artifact: &Artifact) -> LoadedSide {
        let session = self.road.session;
        LoadedSide::new(
            name,
            Arc::clone(&session.backend),
            artifact.clone(),
            self.limits.clone(),
            self.data.clone(),
            self.check(self.road.task.contract.accuracy),
        )
    }

    fn floor(&self) -> Result<Floor> {
        let hints = &self.road.task.contract.hints;
        Floor::new(&self.road.graph, hints, self.road.target)
    }

    /// Lets a candidate take turns with itself and the rivals.
    async fn contest(&self, artifact: &Artifact, policy: &ContestPolicy) -> Result<Contest> {
        let (mut candidate, mut twin) = (
            self.side("candidate", artifact),
            self.side("candidate again", artifact),
        );
        let Road {
            session,
            task,
            target,
            ..
        } = self.road;
        let check = self.check(Accuracy::Half);
        let entered = session.rivals.enter(task, target, self.data.clone(), check);
        let mut rivals = entered.await?;
        let entrants = Entrants {
            candidate: &mut candidate,
            twin: Some(&mut twin),
            rivals: rivals.iter_mut().map(|r| &mut **r as &mut dyn Side).collect(),
            floor: Some(self.floor()?),
        };
        self.hold(entrants, policy).await
    }

    async fn hold(&self, entrants: Entrants<'_>, policy: &ContestPolicy) -> Result<Contest> {
        let is_timing = &self.road.is_timing;
        is_timing.store(true, Ordering::Relaxed);
        let held = contest(
            entrants,
            policy,
            rand::random(),
            &mut *self.road.session.witness(),
        )
        .await;
        is_timing.store(false, Ordering::Relaxed);
        held
    }

    /// Lets a challenger take turns with the fastest so far, unless they have before.
    pub(super) async fn duel(
        &self,
        (challenger, side): (Digest, &mut LoadedSide),
        (challenged, fastest): (Digest, &mut LoadedSide),
        policy: &ContestPolicy,
    ) -> Result<Measurement> {
        if let Some(known) = self.road.duelled(challenger, challenged, policy)? {
            return Ok(known);
        }
        let entrants = Entrants {
            candidate: side,
            twin: None,
            rivals: vec![fastest],
            floor: Some(self.floor()?),
        };
        let measurement = Measurement {
            candidate: challenger,
            challenged: Some(challenged),
            setting: Digest::of_value(policy)?,
            contest: self.hold(entrants, policy).await?,
            rivals: serde_json::Value::Null,
            at: now(),
        };
        self.road.session.store.save(&measurement)?;
        Ok(measurement)
    }
}

impl Road<'_> {
    /// The latest duel of two candidates: an undisturbed one if the session retries.
    pub(super) fn duelled(
        &self,
        challenger: Digest,
        challenged: Digest,
        policy: &ContestPolicy,
    ) -> Result<Option<Measurement>> {
        let (session, setting) = (self.session, Digest::of_value(policy)?);
        let known = session.store.all::<Measurement>(Some(challenger))?;
        Ok(known.into_iter().rfind(|duel| {
            duel.challenged == Some(challenged)
                && duel.setting == setting
                && (!session.retry || duel.contest.is_stable())
        }))
    }

    /// Times a candidate beside its rivals, unless the store has a contest of the same kind: an undisturbed one, or any if
    /// the session does not retry. A candidate that fails in it has the failure in its verdict afterwards.
    pub(super) async fn time(
        &self,
        attempt: &mut Attempt,
        arena: Option<&Arena<'_>>,
        policy: &ContestPolicy,
    ) -> Result<()> {
        let session = self.session;
        let setting = Digest::of_parts([
            Digest::of_value(policy)?.to_string().as_str(),
            session.rivals.identity().as_str(),
            env!("CARGO_PKG_VERSION"),
        ]);
        let measured = session.store.all::<Measurement>(Some(attempt.key))?;
        let same = |m: &&Measurement| m.challenged.is_none() && m.setting == setting;
        let stable = measured.iter().filter(same).rfind(|m| m.contest.is_stable());
        let any = || measured.iter().rfind(same).filter(|_| !session.retry);
        let measurement = match stable.or_else(any) {
            Some(measurement) => measurement.clone(),
            None => {
                let written = self.keep(attempt.source.clone())?;
                let artifact = match self.build(&written)? {
                    Ok(artifact) => artifact,
                    Err(failure) => return self.give_up(attempt, failure),
                };
                let mut contest = match arena {
                    Some(arena) => arena.contest(&artifact, policy).await?,
                    None => {
                        let arena = Arena::new(self)?;
                        arena.contest(&artifact, policy).await?
                    }
                };
                let share = attempt.verdict.framework_share;
                contest.disturbances.extend(share.and_then(Disturbance::borrowed));
                let measurement = Measurement {
                    candidate: attempt.key,
                    challenged: None,
                    setting,
                    contest,
                    rivals: session.rivals.account(),
                    at: now(),
                };
                session.store.save(&measurement)?;
                measurement
            }
        };
        if let Some(failure) = measurement.contest.candidate().and_then(|c| c.failure.clone()) {
            return self.give_up(attempt, failure);
        }
        session.observer.event(Event::Timed(&measurement.contest));
        attempt.timing = Some(measurement.contest);
        attempt.timed_at = Some(measurement.at);
        attempt.rivals = measurement.rivals;
        Ok(())
    }

    /// A candidate that passed and then failed.
    fn give_up(&self, attempt: &mut Attempt, failure: Failure) -> Result<()> {
        self.fail(attempt.key, &failure)?;
        attempt.verdict.failure = Some(failure);
        self.session.observer.event(Event::Judged(&attempt.verdict));
        Ok(())
    }
}
