//! One life of a candidate: loaded once, fed one data set after the other.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::comparison::{Compared, Comparison};
use super::inputs::Distribution;
use super::sample::Extent;
use super::work::{Deadline, TaskWork};
use crate::backend::{Backend, Cache, Call, Limits, Loaded, LoadedExt as _, Poison, RunOutput};
use crate::error::Result;
use crate::expr::Bindings;
use crate::reference::{Products, RowPlan};
use crate::source::Artifact;
use crate::task::Task;
use crate::tensor::{Tensor, TensorMark};
use crate::verdict::{Check, Failure, FailureKind, OutputCheck, Verdict};

/// The part of an output without an error from which on it is named: because it overflows, or because roundings decide it.
const UNMEASURED: f64 = 0.01;

/// The part of an output that is infinite or NaN from which on it is named.
const HIDDEN: f64 = 0.5;

/// Stands for the bytes of outputs.
pub(super) type Digest = blake3::Hash;

/// A loaded candidate and what it has returned so far.
pub(super) struct Life {
    loaded: Box<dyn Loaded>,
    deadline: Deadline,
    /// Who makes the reference's large matrix products.
    products: Option<Arc<dyn Products>>,
    /// Every output so far, and the data that it was for.
    seen: Vec<(Digest, String)>,
    /// The comparisons of every byte so far.
    whole: Vec<Whole>,
}

/// A comparison of every byte, which would find the same again.
struct Whole {
    inputs: Vec<TensorMark>,
    digest: Digest,
    outputs: Vec<OutputCheck>,
}

impl Whole {
    /// The comparison, if no byte was left out.
    fn new(data: &Data<'_>, ran: &Ran, outputs: &[OutputCheck]) -> Option<Self> {
        let is_whole = outputs.iter().all(|output| output.bytes_compared == output.bytes);
        is_whole.then(|| Self {
            inputs: data.inputs.iter().map(Tensor::mark).collect(),
            digest: ran.digest,
            outputs: outputs.to_vec(),
        })
    }

    /// Whether these are the same outputs for the same inputs.
    fn is_of(&self, data: &Data<'_>, ran: &Ran) -> bool {
        let same = self
            .inputs
            .iter()
            .zip(data.inputs)
            .all(|(mark, input)| mark.is(input));
        same && self.inputs.len() == data.inputs.len() && self.digest == ran.digest
    }
}

/// What a candidate is fed in one check.
pub(super) struct Data<'a> {
    pub(super) task: &'a Task,
    pub(super) inputs: &'a [Tensor],
    pub(super) dims: &'a Bindings,
    /// How the inputs were made, from which seed, and what is special about them.
    pub(super) distribution: Distribution,
    pub(super) seed: u64,
    pub(super) about: &'a str,
    /// What memory holds before.
    pub(super) poison: Poison,
    pub(super) placement: u32,
}

impl Data<'_> {
    /// What evidence calls it.
    fn name(&self) -> String {
        let mut name = format!("{}, seed {}", self.distribution, self.seed);
        if !self.about.is_empty() {
            name = format!("{name}; {}", self.about);
        }
        name
    }

    fn call(&self) -> Call {
        Call {
            inputs: self.inputs.to_vec(),
            dims: self.dims.clone(),
            poison: self.poison,
            placement: self.placement,
        }
    }
}

/// What a run returned.
pub(super) struct Ran {
    pub(super) outputs: Vec<Tensor>,
    pub(super) digest: Digest,
    /// How long it took, copies included.
    pub(super) took: Duration,
}

impl Life {
    pub(super) async fn begin(
        artifact: Artifact,
        limits: &Limits,
        deadline: Deadline,
        backend: &dyn Backend,
        verdict: &mut Verdict,
    ) -> Result<Result<Self, Failure>> {
        let loaded = match backend.load(artifact, limits.clone()).await? {
            Ok(loaded) => loaded,
            Err(failure) => return Ok(Err(failure)),
        };
        verdict.isolation = Some(loaded.isolation().clone());
        verdict.add_gaps(loaded.gaps());
        Ok(Ok(Self {
            loaded,
            deadline,
            products: backend.products(),
            seen: Vec::new(),
            whole: Vec::new(),
        }))
    }

    /// Runs once and compares what is returned, as [`compare`](Self::compare) does.
    pub(super) async fn check(
        &mut self,
        data: &Data<'_>,
        extent: &Extent,
        verdict: &mut Verdict,
    ) -> Result<Result<Ran, Failure>> {
        verdict
            .work
            .spend(TaskWork::new(data.task, data.dims)?.execution());
        let ran = match self.run(data).await? {
            Ok(ran) => ran,
            Err(failure) => return Ok(Err(failure)),
        };
        let failure = self.compare(data, &ran, extent, verdict)?;
        Ok(failure.map_or(Ok(ran), Err))
    }

    /// Compares what was returned, notes that in the verdict, and remembers what was returned.
    pub(super) fn compare(
        &mut self,
        data: &Data<'_>,
        ran: &Ran,
        extent: &Extent,
        verdict: &mut Verdict,
    ) -> Result<Option<Failure>> {
        let comparison = Comparison {
            task: data.task,
            dims: data.dims,
            inputs: data.inputs,
            outputs: &ran.outputs,
            poison: data.poison,
            compared: Compared::All,
            may_overflow: data.distribution != Distribution::Contract,
            is_beyond: data.distribution != Distribution::Contract,
            seed: data.seed.wrapping_add(verdict.checks.len() as u64),
            products: self.products.clone(),
        };
        let plan = RowPlan::new(&data.task.graph, data.dims)?;
        let sample = comparison.sample(plan.as_ref(), extent)?;
        verdict.work.data_sets += 1;
        verdict.work.rows += sample.rows() as u64;
        // Also for what is known already: what is checked next must not depend on what was returned.
        verdict.work.spend(sample.work());
        let known = self.whole.iter().find(|whole| whole.is_of(data, ran));
        let (outputs, failure) = match known {
            Some(whole) => (whole.outputs.clone(), None),
            None => {
                let (outputs, failure) = comparison.judge(extent)?;
                if failure.is_none() {
                    self.whole.extend(Whole::new(data, ran, &outputs));
                }
                (outputs, failure)
            }
        };
        for (check, output) in outputs.iter().zip(&ran.outputs) {
            if check.overflowed as f64 > UNMEASURED * output.len() as f64 {
                verdict.gaps.push(format!(
                    "output `{}` overflows in {} of {} elements as the class's arithmetic does, which shows nothing of them (inputs: {})",
                    check.output,
                    check.overflowed,
                    output.len(),
                    data.name()
                ));
            }
            if check.undecided as f64 > UNMEASURED * output.len() as f64 {
                verdict.gaps.push(format!(
                    "roundings decide {} of {} elements of output `{}`, which shows nothing of them (inputs: {})",
                    check.undecided,
                    output.len(),
                    check.output,
                    data.name()
                ));
            }
            let is_hidden = check.not_finite as f64 > HIDDEN * output.len() as f64;
            let what = format!("output `{}` is infinite or NaN", check.output);
            if is_hidden
                && data.distribution != Distribution::Special
                && !verdict.gaps.iter().any(|gap| gap.starts_with(&what))
            {
                verdict.gaps.push(format!(
                    "{what} in {} of {} elements, which shows little (inputs: {})",
                    check.not_finite,
                    output.len(),
                    data.name()
                ));
            }
        }
        verdict.checks.push(Check {
            distribution: data.distribution.name().to_owned(),
            seed: data.seed,
            about: data.about.to_owned(),
            dims: data.dims.clone(),
            outputs,
        });
        if let Some(failure) = failure {
            return Ok(Some(self.explain(failure, ran, &data.name())));
        }
        self.seen.push((ran.digest, data.name()));
        Ok(None)
    }

    /// See [`Loaded::framework_share`](crate::backend::Loaded::framework_share).
    pub(super) fn framework_share(&self) -> Option<f64> {
        self.loaded.framework_share()
    }

    /// Runs once.
    pub(super) async fn run(&mut self, data: &Data<'_>) -> Result<Result<Ran, Failure>> {
        if let Some(failure) = self.deadline.failure() {
            return Ok(Err(failure));
        }
        let start = Instant::now();
        let ran = self.loaded.run(data.call()).await?;
        let ran = ran.and_then(|run| ran_in(start.elapsed(), run));
        Ok(ran.map_err(|f| named(f, &data.name())))
    }

    /// Executes several times in the same memory, whose outputs and scratch hold what the execution before left.
    pub(super) async fn run_on(&mut self, data: &Data<'_>, calls: u32) -> Result<Result<Ran, Failure>> {
        if let Some(failure) = self.deadline.failure() {
            return Ok(Err(failure));
        }
        let start = Instant::now();
        let mut outcome = self.loaded.bind(data.call()).await?;
        for calls in [1, calls] {
            if outcome.is_ok() {
                outcome = self.loaded.execute(calls, Cache::Warm).await?.map(|_| ());
            }
        }
        let ran = match outcome {
            Ok(()) => {
                let run = self.loaded.take().await?;
                run.and_then(|run| ran_in(start.elapsed(), run))
            }
            Err(failure) => Err(failure),
        };
        Ok(ran.map_err(|f| named(f, &data.name())))
    }

    /// A failure of what was returned for `data`, told as staleness if it was returned for other data before.
    fn explain(&self, failure: Failure, ran: &Ran, data: &str) -> Failure {
        let mut failure = named(failure, data);
        let before = self.seen.iter().find(|(digest, _)| *digest == ran.digest);
        match before {
            Some((_, other)) if failure.kind == FailureKind::WrongValues => {
                // Writing to a string cannot fail.
                let _ = write!(
                    failure.evidence,
                    "; every byte of the outputs is as it was for {other}"
                );
                Failure::new(FailureKind::Stale, failure.evidence)
            }
            _ => failure,
        }
    }
}

/// The failure, with the data that it happened on.
fn named(mut failure: Failure, data: &str) -> Failure {
    // Writing to a string cannot fail.
    let _ = write!(failure.evidence, " (inputs: {data})");
    failure
}

fn ran_in(took: Duration, run: RunOutput) -> Result<Ran, Failure> {
    if !run.inputs_unchanged {
        let evidence = "an input was changed by the candidate";
        return Err(Failure::new(FailureKind::InputChanged, evidence));
    }
    let mut hasher = blake3::Hasher::new();
    for output in &run.outputs {
        hasher.update_rayon(output.bytes());
    }
    Ok(Ran {
        outputs: run.outputs,
        digest: hasher.finalize(),
        took,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;
    use crate::graph::Graph;
    use crate::verdict::ErrorMeasure;

    #[test]
    fn only_whole_comparisons_of_the_same_bytes_stand_for_another() {
        let task = Task::new("t", Graph::new("g"));
        let dims = Bindings::new();
        let inputs = [(); 2].map(|()| [Tensor::zeros(DType::F32, [4]).unwrap()]);
        let [data, other] = inputs.each_ref().map(|inputs| Data {
            task: &task,
            inputs,
            dims: &dims,
            distribution: Distribution::Signed,
            seed: 1,
            about: "",
            poison: Poison::Ones,
            placement: 0,
        });
        let ran = |byte: u8| Ran {
            outputs: Vec::new(),
            digest: blake3::hash(&[byte]),
            took: Duration::ZERO,
        };
        let check = |bytes_compared: u64| OutputCheck {
            output: "y".to_owned(),
            error: ErrorMeasure::default(),
            limit: ErrorMeasure::default(),
            bytes_compared,
            bytes: 16,
            overflowed: 0,
            undecided: 0,
            not_finite: 0,
        };
        assert!(Whole::new(&data, &ran(0), &[check(16), check(8)]).is_none());
        let whole = Whole::new(&data, &ran(0), &[check(16)]).unwrap();
        assert!(whole.is_of(&data, &ran(0)));
        assert!(!whole.is_of(&data, &ran(1)));
        assert!(!whole.is_of(&other, &ran(0)));
    }
}
