//! The adversarial verifier.

use std::ops::Range;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use rand::seq::SliceRandom as _;
use rand::{RngExt as _, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use super::changes::{Change, Changing};
use super::hidden;
use super::inputs::{Distribution, Fresh, make_inputs};
use super::life::{Data, Life, Ran};
use super::sample::Extent;
use super::work::{Deadline, Operations, TaskWork};
use crate::backend::{Backend, Limits, Poison};
use crate::digest::{Digest, Fields, Fingerprint};
use crate::error::Result;
use crate::expr::Bindings;
use crate::reference::RowPlan;
use crate::source::{Artifact, LaunchPlan, ModuleInterface};
use crate::target::Target;
use crate::task::Task;
use crate::tensor::Tensor;
use crate::verdict::{Failure, FailureKind, Verdict};
use crate::verifier::{Candidate, Verifier};

/// Judges whether the work is done, and follows the inputs: what candidates do that remember, guess or do nothing.
///
/// In one life of the candidate: data, the same data at other addresses, many executions in the same memory, a few
/// more to catch races, then parts of one input after the other overwritten, exchanged or changed a little in place with
/// everything else as before, outputs and scratch included in every other turn, then the first data again. In lives of their own: the plan
/// without one of its launches, for each of them, which must change the outputs.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct AdversarialVerifier {
    /// What all data follows from; drawn anew for each candidate if `None`.
    pub secret: Option<u64>,
    /// Work after which no further input is changed and no further launch left out, at least one of each.
    pub work: Operations,
    /// Work of the reference for each check.
    pub sample_work: Operations,
    /// Limits on each run of the candidate.
    pub limits: Limits,
}

impl Default for AdversarialVerifier {
    fn default() -> Self {
        Self {
            secret: None,
            work: Operations::of_milliseconds(2000),
            sample_work: Operations::of_milliseconds(100),
            limits: Limits::default(),
        }
    }
}

/// Inputs larger than this are not changed in part, which needs a copy.
const MOST_COPIED: usize = 1 << 30;

/// Executions on the same data in the same memory, for candidates that count them; others that look for races; and the work that
/// either may be.
const MOST_IN_PLACE: u64 = 128;
const MOST_REPEATS: u64 = 24;
const REPEATING: Operations = Operations::of_milliseconds(60);

/// How many times as long as the whole plan a plan of several launches may take to begin and to run without one of them, and
/// the least time for that. It is generous, since a machine can get busy in between: only what hangs waits so long.
const PATIENCE: u32 = 20;
const LEAST_PATIENCE: Duration = Duration::from_secs(8);

impl Fingerprint for AdversarialVerifier {
    fn feed(&self, to: &mut Fields) {
        let Self {
            secret,
            work,
            sample_work,
            limits,
        } = self;
        to.record(
            "adversarial",
            1,
            &[
                ("secret", secret),
                ("work", work),
                ("sample_work", sample_work),
                ("limits", limits),
            ],
        );
    }
}

#[async_trait]
impl Verifier for AdversarialVerifier {
    fn name(&self) -> &str {
        "adversarial"
    }

    fn identity(&self) -> Digest {
        Digest::of_fields(self)
    }

    async fn verify(
        &self,
        candidate: &Candidate,
        task: &Task,
        target: &Target,
        backend: &dyn Backend,
    ) -> Result<Verdict> {
        let mut verdict = Verdict::new(task.contract.accuracy);
        let artifact = &candidate.artifact;
        let limits = self.limits.for_task(task, target)?;
        let deadline = Deadline::new(&limits);
        let start = Instant::now();
        let life = match Life::begin(artifact.clone(), &limits, deadline, backend, &mut verdict).await? {
            Ok(life) => life,
            Err(failure) => {
                verdict.failure = Some(failure);
                return Ok(verdict);
            }
        };
        let began = start.elapsed();
        let secret = self.secret.unwrap_or_else(rand::random);
        let seed = hidden::seed(secret, 0);
        let dims = task.contract.hints.clone();
        let trial = Trial {
            verifier: self,
            task,
            backend,
            limits,
            deadline,
            began,
            work: TaskWork::new(task, &dims)?,
            seed,
            inputs: make_inputs(task, backend, DATA, seed, &dims)?,
            rows: RowPlan::new(&task.graph, &dims)?,
            dims,
        };
        let mut rng = ChaCha8Rng::seed_from_u64(hidden::seed(secret, 1));
        match trial.remembering(life, &mut rng, &mut verdict).await? {
            // Outputs of a module that differ each time do not keep it from showing what its kernels write.
            Ok(expected)
                if verdict.deterministic == Some(true) || artifact.format == ModuleInterface::FORMAT =>
            {
                verdict.failure = trial
                    .ablation(artifact, &expected, &mut rng, &mut verdict)
                    .await?;
            }
            Ok(_) => {}
            Err(failure) => verdict.failure = Some(failure),
        }
        Ok(verdict)
    }
}

const DATA: Distribution = Distribution::Signed;

/// What the first data is called.
const NEW: &str = "new data";

/// One candidate on trial.
struct Trial<'a> {
    verifier: &'a AdversarialVerifier,
    task: &'a Task,
    backend: &'a dyn Backend,
    limits: Limits,
    deadline: Deadline,
    /// How long it took to begin.
    began: Duration,
    work: TaskWork,
    seed: u64,
    dims: Bindings,
    inputs: Vec<Tensor>,
    rows: Option<RowPlan>,
}

impl Trial<'_> {
    /// Feeds data that a memory of earlier calls would get wrong; gives what the candidate returns for the first data.
    async fn remembering(
        &self,
        mut life: Life,
        rng: &mut ChaCha8Rng,
        verdict: &mut Verdict,
    ) -> Result<Result<Ran, Failure>> {
        let new = self.data(&self.inputs, NEW, verdict.checks.len());
        let first = match life.check(&new, &self.extent(None), verdict).await? {
            Ok(ran) => ran,
            Err(failure) => return Ok(Err(failure)),
        };
        let mut moved = self.data(
            &self.inputs,
            "the same data at other addresses",
            verdict.checks.len(),
        );
        moved.placement = 1;
        match life.check(&moved, &self.extent(None), verdict).await? {
            Ok(ran) => verdict.deterministic = Some(ran.digest == first.digest),
            Err(failure) => return Ok(Err(failure)),
        }
        if let Some(failure) = self.repeat(&mut life, &first, verdict).await? {
            return Ok(Err(failure));
        }
        let mut positions = Vec::new();
        for (position, input) in self.task.graph.inputs().iter().enumerate() {
            match self.inputs.get(position).map(|t| t.bytes().len()) {
                Some(1..=MOST_COPIED) => positions.push(position),
                Some(size) if size > 0 => verdict.gaps.push(format!(
                    "input `{}` was not changed in part: it has {size} bytes",
                    self.task.graph.value_name(input.value)
                )),
                _ => {}
            }
        }
        let mut turns = Vec::new();
        for change in Change::sequence(rng) {
            positions.shuffle(rng);
            turns.extend(positions.iter().map(|position| (*position, change)));
        }
        let mut changed = 0;
        for (position, change) in turns {
            if changed > 0 && verdict.work.operations > self.verifier.work.0 {
                break;
            }
            let Some(input) = self.inputs.get(position) else {
                continue;
            };
            let name = self.task.graph.inputs().get(position);
            let name = name.map_or("?", |i| self.task.graph.value_name(i.value));
            let rows = self.rows.as_ref();
            let seed = rng.random();
            let changing = Changing {
                input,
                rows: rows
                    .and_then(|rows| Some((rows.input_axis(position)?, rows.rows())))
                    .filter(|(_, rows)| *rows > 1),
                fresh: &|| Fresh::new(self.task, DATA, seed, &self.dims, position),
            };
            let buffer = self.backend.allocate(input.dtype(), input.shape())?;
            let (tensor, row) = changing.copy(change, buffer, rng)?;
            verdict.work.spend(self.work.data());
            let mut inputs = self.inputs.clone();
            if let Some(slot) = inputs.get_mut(position) {
                *slot = tensor;
            }
            let about = change.about(name);
            let mut data = self.data(&inputs, &about, verdict.checks.len());
            if changed % 2 == 0 {
                // Memory that somebody uses again: what lies there is the result for other inputs.
                data.poison = Poison::Kept;
            }
            if let Err(failure) = life.check(&data, &self.extent(row), verdict).await? {
                return Ok(Err(failure));
            }
            changed += 1;
        }
        let again = self.data(&self.inputs, "the first data again", verdict.checks.len());
        let last = life.check(&again, &self.extent(None), verdict).await?;
        Ok(last.map(|last| {
            if last.digest != first.digest {
                verdict.deterministic = Some(false);
            }
            first
        }))
    }

    /// Executes again and again on the first data: in memory that holds what was left there, and as often as the work
    /// for races allows. Outputs that differ are compared with the reference.
    async fn repeat(&self, life: &mut Life, first: &Ran, verdict: &mut Verdict) -> Result<Option<Failure>> {
        let each = self.work.execution();
        let affordable = REPEATING.0 / each.0.max(1);
        let turns = affordable.clamp(1, MOST_REPEATS);
        for turn in 1..=turns {
            // Last, since what it leaves in memory is what the next call finds there.
            let (calls, about) = if turn == turns {
                let calls = affordable.clamp(2, MOST_IN_PLACE);
                (calls, "the same data in memory that was used")
            } else {
                (0, "the same data again")
            };
            verdict.work.repetitions += 1;
            verdict
                .work
                .spend(Operations(each.0.saturating_mul(calls.max(1))));
            let data = self.data(&self.inputs, about, 1);
            let ran = match life.run_on(&data, calls as u32).await? {
                Ok(ran) => ran,
                Err(failure) => return Ok(Some(failure)),
            };
            if ran.digest == first.digest {
                continue;
            }
            verdict.deterministic = Some(false);
            // Not counted: a candidate must not have fewer checks because it is never the same.
            let counted = verdict.work;
            if let Some(failure) = life.compare(&data, &ran, &self.extent(None), verdict)? {
                return Ok(Some(failure));
            }
            verdict.work = counted;
        }
        Ok(None)
    }

    /// Inputs with what is special about them, in memory that held one poison or the other before.
    fn data<'d>(&'d self, inputs: &'d [Tensor], about: &'d str, number: usize) -> Data<'d> {
        Data {
            task: self.task,
            inputs,
            dims: &self.dims,
            distribution: DATA,
            seed: self.seed,
            about,
            poison: if number.is_multiple_of(2) {
                Poison::Finite
            } else {
                Poison::Ones
            },
            placement: 0,
        }
    }

    /// A sample of the outputs, `row` of them first.
    fn extent(&self, row: Option<Range<usize>>) -> Extent {
        Extent {
            work: Some(self.verifier.sample_work),
            yardstick: self.verifier.sample_work,
            first: row,
        }
    }

    /// Leaves out one launch after the other: a launch without which nothing changes does nothing.
    async fn ablation(
        &self,
        artifact: &Artifact,
        expected: &Ran,
        rng: &mut ChaCha8Rng,
        verdict: &mut Verdict,
    ) -> Result<Option<Failure>> {
        let launches = &artifact.plan.launches;
        let is_module = artifact.format == ModuleInterface::FORMAT;
        let mut limits = self.limits.clone();
        // A kernel that waits for what is left out waits forever. Host code that is left with nothing has all the time.
        if launches.len() > 1 {
            let patience = (self.began + expected.took) * PATIENCE;
            limits.time = limits.time.min(patience.max(LEAST_PATIENCE));
        }
        let mut order: Vec<usize> = (0..launches.len()).collect();
        order.shuffle(rng);
        let mut tried = 0;
        for index in order {
            if tried > 0 && verdict.work.operations > self.verifier.work.0 {
                let left = launches.len() - tried;
                verdict.gaps.push(format!(
                    "whether the outputs need them was not tried for {left} of {} launches",
                    launches.len()
                ));
                break;
            }
            let Some(launch) = launches.get(index) else {
                continue;
            };
            tried += 1;
            verdict.work.ablations += 1;
            verdict.work.spend(self.work.loading());
            if LaunchPlan::programs(launch, &self.dims)? == 0 {
                continue;
            }
            let mut without = artifact.clone();
            without.plan.launches.remove(index);
            let mut ignored = Verdict::new(verdict.accuracy);
            // To begin takes it as long as the first did. That it cannot shows nothing of what was left out.
            let mut life =
                match Life::begin(without, &limits, self.deadline, self.backend, &mut ignored).await? {
                    Ok(life) => life,
                    Err(failure) => return Ok(Some(failure)),
                };
            let ran = life.run(&self.data(&self.inputs, NEW, 1)).await?;
            verdict.framework_share = life.framework_share().or(verdict.framework_share);
            match ran {
                Ok(ran) if ran.digest == expected.digest => {
                    verdict.idle_kernels.push(launch.kernel.clone());
                }
                Ok(ran) if is_module && mostly_same(&ran.outputs, &expected.outputs) => {
                    let evidence = "most of every output is the same without what the kernels write";
                    return Ok(Some(Failure::new(FailureKind::NoWork, evidence)));
                }
                Err(failure) if matches!(failure.kind, FailureKind::JudgeTimeout | FailureKind::NoWork) => {
                    return Ok(Some(failure));
                }
                // Host code that is left without its kernels, as a module's is, can fail on purpose.
                Err(failure) if launches.len() == 1 => {
                    let evidence = format!(
                        "without what its kernels write it fails, so that nothing shows that the outputs need them: {}",
                        failure.evidence
                    );
                    return Ok(Some(Failure::new(FailureKind::NoWork, evidence)));
                }
                _ => {}
            }
        }
        Ok(
            (tried > 0 && verdict.idle_kernels.len() == launches.len()).then(|| {
                let evidence = "the outputs are the same without any one of the kernels";
                Failure::new(FailureKind::NoWork, evidence)
            }),
        )
    }
}

/// Returns true if at least seven in eight elements of every output are the same.
fn mostly_same(some: &[Tensor], others: &[Tensor]) -> bool {
    let same = |(some, other): (&Tensor, &Tensor)| {
        let size = some.dtype().size();
        let elements = some.bytes().par_chunks(size).zip(other.bytes().par_chunks(size));
        8 * elements.filter(|(some, other)| some == other).count() >= 7 * some.len()
    };
    some.iter().zip(others).all(same)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_are_mostly_the_same_if_few_elements_of_each_differ() {
        let with = |changed: usize| {
            let values: Vec<f32> = (0..64).map(|i| if i < changed { -1.0 } else { 1.0 }).collect();
            Tensor::from_slice([64], &values).unwrap()
        };
        let ones = [with(0), with(0)];
        for (changed, same) in [([0, 0], true), ([8, 1], true), ([9, 0], false), ([0, 64], false)] {
            assert_eq!(mostly_same(&ones, &changed.map(with)), same, "{changed:?}");
        }
    }
}
