//! Timing a candidate that passed.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::Session;
use crate::backend::{Call, Poison};
use crate::error::Result;
use crate::source::Artifact;
use crate::target::Target;
use crate::task::{Accuracy, Task};
use crate::tensor::Tensor;
use crate::timing::{Check, Contest, ContestPolicy, Entrants, Floor, LoadedSide, Machine, Side, contest};
use crate::verdict::{Failure, Verdict};
use crate::verify::{Distribution, judge_sample, make_inputs};

/// Supplies what candidates are compared with: what PyTorch makes of the same task, the kernels in use today.
#[async_trait]
pub trait Rivals: Send + Sync + fmt::Debug {
    /// The sides that take part in one contest, over the same sets of inputs as the candidate, of which each round uses
    /// the one that [`choice`](crate::timing::choice) makes of `seed`. `check` judges outputs by the position of the set,
    /// in class [`Half`](Accuracy::Half) whatever the task's class is: a rival that is less exact than the candidate must
    /// be is still one to beat, and its error is reported.
    ///
    /// Rivals that cannot take part are left out: a candidate is timed without them.
    async fn enter(
        &self,
        task: &Task,
        target: &Target,
        sets: &[Vec<Tensor>],
        check: Check,
        seed: u64,
    ) -> Result<Vec<Box<dyn Side>>>;
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
        _: &[Vec<Tensor>],
        _: Check,
        _: u64,
    ) -> Result<Vec<Box<dyn Side>>> {
        Ok(Vec::new())
    }
}

/// Inputs up to this size get a second set, so that data changes from round to round.
const MOST_BYTES_TWICE: usize = 1 << 29;

/// Reference time for each check of timed outputs.
const SAMPLE_TIME: Duration = Duration::from_millis(30);

impl Session {
    /// Lets a candidate take turns with itself and the rivals; the inner error is its failure to be timed at all.
    pub(super) async fn contest(
        &self,
        artifact: &Artifact,
        task: &Task,
        target: &Target,
        verdict: &Verdict,
        policy: &ContestPolicy,
    ) -> Result<Result<Contest, Failure>> {
        let dims = task.contract.hints.clone();
        let seed = verdict.checks.first().map_or(0, |c| c.seed);
        let make = |distribution| make_inputs(task, &*self.backend, distribution, seed, &dims);
        let mut sets = vec![make(Distribution::Contract)?];
        let bytes: usize = sets.iter().flatten().map(|t| t.bytes().len()).sum();
        if bytes <= MOST_BYTES_TWICE {
            sets.push(make(Distribution::Signed)?);
        }
        let calls: Vec<Call> = sets
            .iter()
            .zip(0..)
            .map(|(inputs, placement)| Call {
                inputs: inputs.clone(),
                dims: dims.clone(),
                poison: Poison::Ones,
                placement,
            })
            .collect();
        let sets = Arc::new(sets);
        let check_in = |accuracy| -> Check {
            let (mut task, sets) = (task.clone(), sets.clone());
            task.contract.accuracy = accuracy;
            Arc::new(move |set, output| {
                let inputs = sets.get(set).map(Vec::as_slice).unwrap_or_default();
                judge_sample(&task, inputs, &output.outputs, SAMPLE_TIME)
            })
        };
        let check = check_in(task.contract.accuracy);
        let side = |name| {
            let (backend, limits) = (Arc::clone(&self.backend), self.limits.clone());
            LoadedSide::new(
                name,
                backend,
                artifact.clone(),
                limits,
                calls.clone(),
                check.clone(),
                seed,
            )
        };
        let (mut candidate, mut twin) = (side("candidate"), side("candidate again"));
        let mut rivals = self
            .rivals
            .enter(task, target, &sets, check_in(Accuracy::Half), seed)
            .await?;
        let entrants = Entrants {
            candidate: &mut candidate,
            twin: Some(&mut twin),
            rivals: rivals.iter_mut().map(|r| &mut **r as &mut dyn Side).collect(),
            floor: Some(Floor::new(&task.graph, &dims, target)?),
        };
        let contest = contest(entrants, policy, seed, &mut Machine).await?;
        let failure = contest.candidate().and_then(|c| c.failure.clone());
        Ok(failure.map_or(Ok(contest), Err))
    }
}
