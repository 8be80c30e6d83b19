//! The candidate, itself again and PyTorch, timed in one contest.

use std::sync::Arc;
use std::time::Duration;

use akg::backend::{Backend, Call, Limits, Poison, RunOutput};
use akg::source::Artifact;
use akg::timing::{Check, Contest, ContestPolicy, Entrants, Floor, LoadedSide, Side};
use akg::verdict::{Failure, FailureKind};
use akg::verify::{Distribution, NumericVerifier, make_inputs};
use akg::{Result, Target, Task, Tensor, blocking};

use super::JudgeArgs;
use super::baseline::{self, Baseline};
use super::progress::Progress;
use super::task::Loaded;

/// What was measured of a candidate and its rivals.
#[derive(Debug)]
pub(super) struct Speed {
    pub(super) contest: Contest,
    pub(super) floor: Floor,
    pub(super) baselines: Vec<Baseline>,
}

/// Sets of inputs among which each round chooses.
const SETS: u64 = 2;

/// Places in memory among which each round chooses.
const PLACES: u32 = 2;

/// Times an artifact against itself and, unless that is not wanted, against PyTorch. An artifact that cannot be loaded
/// is the inner failure.
pub(super) fn measure(
    loaded: &mut Loaded,
    artifact: &Artifact,
    backend: &dyn Backend,
    target: &Target,
    judge: &JudgeArgs,
    progress: &Progress,
) -> Result<Result<Speed, Failure>> {
    let task = Arc::new(loaded.task.clone());
    let dims = &task.contract.hints;
    // Not the inputs of any check.
    let seed = judge.seed ^ 0x7469_6d65;
    let set = |i| make_inputs(&task, backend, Distribution::Contract, seed.wrapping_add(i), dims);
    let sets: Vec<Vec<Tensor>> = (0..SETS).map(set).collect::<Result<_>>()?;
    let check = check(task.clone(), sets.clone(), seed);
    let mut limits = Limits::default();
    limits.time = judge.timeout;
    let load = || -> Result<Result<LoadedSide, Failure>> {
        let loaded = match blocking::load(backend, artifact.clone(), limits.clone())? {
            Ok(loaded) => loaded,
            Err(failure) => return Ok(Err(failure)),
        };
        Ok(Ok(LoadedSide::new(
            "candidate",
            loaded,
            calls(&task, &sets),
            check.clone(),
            seed,
        )))
    };
    let (mut candidate, mut twin) = match (load()?, load()?) {
        (Ok(candidate), Ok(twin)) => (candidate, twin),
        (Err(failure), _) | (_, Err(failure)) => return Ok(Err(failure)),
    };
    let mut policy = ContestPolicy::default();
    let (mut sides, mut baselines) = (Vec::new(), Vec::new());
    if judge.no_baseline {
        policy.budget = Duration::from_secs(2);
    } else {
        match baseline::prepare(loaded, &sets, target, seed, progress) {
            Ok(found) => (sides, baselines) = found,
            Err(error) => progress.warn(&format!("no baseline: {error}")),
        }
    }
    progress.step("timing");
    let floor = Floor::new(&task.graph, dims, target)?;
    let entrants = Entrants {
        candidate: &mut candidate,
        twin: Some(&mut twin),
        rivals: sides.iter_mut().map(|s| s as &mut dyn Side).collect(),
        floor: Some(floor),
    };
    Ok(Ok(Speed {
        contest: blocking::contest(entrants, &policy, seed)?,
        floor,
        baselines,
    }))
}

/// Every set of inputs at every place.
fn calls(task: &Task, sets: &[Vec<Tensor>]) -> Vec<Call> {
    let places = (0..PLACES).flat_map(|placement| sets.iter().map(move |inputs| (placement, inputs)));
    let call = |(placement, inputs): (u32, &Vec<Tensor>)| Call {
        inputs: inputs.clone(),
        dims: task.contract.hints.clone(),
        poison: if placement % 2 == 0 {
            Poison::Ones
        } else {
            Poison::Finite
        },
        placement,
    };
    places.map(call).collect()
}

/// Judges what timed calls left behind.
fn check(task: Arc<Task>, sets: Vec<Vec<Tensor>>, seed: u64) -> Check {
    Arc::new(move |call: usize, output: &RunOutput| {
        if !output.inputs_unchanged {
            return Ok(Some(Failure::new(
                FailureKind::InputChanged,
                "an input was changed in a timed round",
            )));
        }
        let set = call % sets.len().max(1);
        let inputs = sets.get(set).map(Vec::as_slice).unwrap_or_default();
        let seed = seed.wrapping_add(set as u64);
        let error = NumericVerifier::default().measure(&task, inputs, &output.outputs, seed)?;
        let wrong = || Failure::new(FailureKind::WrongValues, "the outputs of a timed round are wrong");
        Ok(error.is_none().then(wrong))
    })
}
