//! The numeric verifier.

use std::ops::Range;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::inputs::{Distribution, make_inputs};
use super::limits::{limit, yardstick};
use super::measure::{Measured, Mismatch, add_outcome, compare};
use crate::backend::{Backend, BackendExt as _, Limits, Poison, RunRequest};
use crate::error::Result;
use crate::expr::Bindings;
use crate::reference::{Options, RowPlan, evaluate};
use crate::target::Target;
use crate::task::Task;
use crate::tensor::Tensor;
use crate::verdict::{Check, ErrorMeasure, Failure, FailureKind, OutputCheck, Verdict};
use crate::verifier::{Candidate, Verifier};

/// Judges values: several seeds and distributions against the f64 reference.
///
/// The first check compares every byte of every output. Later checks compare randomly chosen rows for at most
/// [`sample_time`](Self::sample_time) each if the reference is slow; the verdict says how many bytes were compared.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct NumericVerifier {
    /// The seed of the first check; later ones follow from it.
    pub seed: u64,
    /// What the inputs of each check look like, most telling first.
    pub distributions: Vec<Distribution>,
    /// After three checks, no further one begins once the verification has taken this long.
    pub time: Duration,
    /// Reference time for each check after the first, and for each yardstick.
    pub sample_time: Duration,
    /// Limits on each run of the candidate.
    pub limits: Limits,
}

impl Default for NumericVerifier {
    fn default() -> Self {
        Self {
            seed: 0,
            distributions: vec![
                Distribution::Contract,
                Distribution::Signed,
                Distribution::Offset,
                Distribution::Large,
            ],
            time: Duration::from_secs(4),
            sample_time: Duration::from_millis(300),
            limits: Limits::default(),
        }
    }
}

impl NumericVerifier {
    /// The largest error of outputs that somebody else computed from `inputs`; `None` if they are wrong under any
    /// tolerance.
    pub fn measure(
        &self,
        task: &Task,
        inputs: &[Tensor],
        outputs: &[Tensor],
        seed: u64,
    ) -> Result<Option<ErrorMeasure>> {
        let judge = Judge {
            task,
            inputs,
            outputs,
            poison: Poison::Ones,
            seed,
        };
        let (checks, _) = judge.judge(Some(self.sample_time), Duration::ZERO)?;
        let worst = |a: ErrorMeasure, b: ErrorMeasure| ErrorMeasure {
            rms: a.rms.max(b.rms),
            max: a.max.max(b.max),
        };
        Ok(checks.into_iter().map(|c| c.error).reduce(worst))
    }
}

/// Checks that every candidate gets, however long they take.
const ALWAYS: usize = 3;

#[async_trait]
impl Verifier for NumericVerifier {
    fn name(&self) -> &str {
        "numeric"
    }

    async fn verify(
        &self,
        candidate: &Candidate,
        task: &Task,
        _target: &Target,
        backend: &dyn Backend,
    ) -> Result<Verdict> {
        let mut verdict = Verdict {
            failure: None,
            accuracy: task.contract.accuracy,
            checks: Vec::new(),
        };
        let start = Instant::now();
        for (i, distribution) in self.distributions.iter().enumerate() {
            if i >= ALWAYS && start.elapsed() > self.time {
                break;
            }
            let seed = self.seed.wrapping_add(i as u64);
            let inputs = make_inputs(task, backend, *distribution, seed, &task.contract.hints)?;
            let poison = if i % 2 == 0 { Poison::Ones } else { Poison::Finite };
            let request = RunRequest {
                artifact: candidate.artifact.clone(),
                inputs: inputs.clone(),
                dims: task.contract.hints.clone(),
                poison,
                limits: self.limits.clone(),
            };
            let run = match backend.run(request).await? {
                Ok(run) => run,
                Err(failure) => {
                    verdict.failure = Some(failure);
                    return Ok(verdict);
                }
            };
            if !run.inputs_unchanged {
                verdict.failure = Some(Failure::new(
                    FailureKind::InputChanged,
                    "an input was changed by the candidate",
                ));
                return Ok(verdict);
            }
            let judge = Judge {
                task,
                inputs: &inputs,
                outputs: &run.outputs,
                poison,
                seed,
            };
            let time = (i > 0).then_some(self.sample_time);
            let (checks, failure) = judge.judge(time, self.sample_time)?;
            verdict.checks.push(Check {
                distribution: distribution.name().to_owned(),
                seed,
                outputs: checks,
            });
            if let Some(mut failure) = failure {
                failure.evidence = format!("{} (inputs: {distribution}, seed {seed})", failure.evidence);
                verdict.failure = Some(failure);
                return Ok(verdict);
            }
        }
        Ok(verdict)
    }
}

/// One run to be judged.
struct Judge<'a> {
    task: &'a Task,
    inputs: &'a [Tensor],
    outputs: &'a [Tensor],
    poison: Poison,
    seed: u64,
}

/// Bytes of f64 values that one chunk of rows may take for its largest value.
const CHUNK_BYTES: usize = 64 << 20;

/// A sample is one part in so many of the rows.
const SAMPLES: usize = 32;

impl Judge<'_> {
    /// Judges every row, or randomly chosen ones for at most `time`; the yardstick runs for at most `yardstick_time`.
    fn judge(
        &self,
        time: Option<Duration>,
        yardstick_time: Duration,
    ) -> Result<(Vec<OutputCheck>, Option<Failure>)> {
        if let Some(failure) = self.types()? {
            return Ok((Vec::new(), Some(failure)));
        }
        let graph = &self.task.graph;
        let graph_inputs = self.inputs.get(..graph.inputs().len()).unwrap_or_default();
        let rows = RowPlan::new(graph, &self.task.contract.hints)?;
        let mut measured = vec![Measured::default(); self.outputs.len()];
        let mut yards = vec![Measured::default(); self.outputs.len()];
        let mut compared = vec![0u64; self.outputs.len()];
        let options = Options::default();
        let yard_options = yardstick(self.task.contract.accuracy);
        let mut chunks = match &rows {
            Some(rows) => self.chunks(rows.rows(), time.is_some())?,
            None => std::iter::once(0..1).collect(),
        };
        // A fixed order would let a candidate be right only where it expects to be looked at.
        chunks.shuffle(&mut ChaCha8Rng::seed_from_u64(self.seed ^ 0x726f_7773));
        let start = Instant::now();
        let mut yard_spent = Duration::ZERO;
        for (n, range) in chunks.into_iter().enumerate() {
            if n > 0 && time.is_some_and(|t| start.elapsed() > t) {
                break;
            }
            let of = |range: Range<usize>, options: &Options| match &rows {
                Some(rows) => rows.evaluate(graph, graph_inputs, range, options),
                None => evaluate(graph, graph_inputs, options),
            };
            let reference = of(range.clone(), &options)?;
            for (i, (output, outcome)) in self.outputs.iter().zip(&reference).enumerate() {
                let offset = rows
                    .as_ref()
                    .map_or(0, |rows| output.len() / rows.rows() * range.start);
                let wrong = compare(&mut measured[i], output, offset, outcome, self.poison.byte())?;
                compared[i] += (outcome.shape.iter().product::<usize>() * output.dtype().size()) as u64;
                if let Some(wrong) = wrong {
                    return Ok((Vec::new(), Some(self.mismatch(i, &wrong))));
                }
            }
            if n == 0 || yard_spent < yardstick_time {
                let began = Instant::now();
                // The first rows of the stretch say enough about its error.
                let few = rows.as_ref().map_or(1, |rows| rows.rows().div_ceil(SAMPLES));
                let yardstick = of(range.start..range.end.min(range.start + few), &yard_options)?;
                for (yard, (reference, got)) in yards.iter_mut().zip(reference.iter().zip(&yardstick)) {
                    add_outcome(yard, reference, got);
                }
                yard_spent += began.elapsed();
            }
        }
        self.conclude(&measured, &yards, &compared)
    }

    /// Stretches of rows, small enough for the memory, and enough of them to `sample` from.
    fn chunks(&self, rows: usize, sample: bool) -> Result<Vec<Range<usize>>> {
        let graph = &self.task.graph;
        let mut largest = 0;
        for value in graph.values() {
            largest = largest.max(
                value
                    .ty
                    .concrete_shape(&self.task.contract.hints)?
                    .iter()
                    .product(),
            );
        }
        let per_row = (largest / rows.max(1)).max(1) * size_of::<f64>();
        let most = if sample { rows.div_ceil(SAMPLES) } else { rows };
        let step = (CHUNK_BYTES / per_row).clamp(1, most.max(1));
        Ok((0..rows)
            .step_by(step)
            .map(|start| start..(start + step).min(rows))
            .collect())
    }

    fn conclude(
        &self,
        measured: &[Measured],
        yards: &[Measured],
        compared: &[u64],
    ) -> Result<(Vec<OutputCheck>, Option<Failure>)> {
        let accuracy = self.task.contract.accuracy;
        let mut checks = Vec::new();
        let mut failure = None;
        for (i, output) in self.outputs.iter().enumerate() {
            let (error, limit) = (measured[i].error(), limit(accuracy, &yards[i], output.dtype()));
            let exact = !output.dtype().is_float();
            if !exact && (error.rms > limit.rms || error.max > limit.max) && failure.is_none() {
                failure = Some(Failure::new(
                    FailureKind::WrongValues,
                    format!(
                        "output `{}`: error rms {:.2e}, max {:.2e} is above class {accuracy}'s limit rms {:.2e}, max \
                         {:.2e}; the largest error is at {}",
                        self.name(i),
                        error.rms,
                        error.max,
                        limit.rms,
                        limit.max,
                        position(measured[i].worst(), output.shape()),
                    ),
                ));
            }
            checks.push(OutputCheck {
                output: self.name(i).to_owned(),
                error,
                limit,
                bytes_compared: compared[i],
                bytes: output.bytes().len() as u64,
            });
        }
        Ok((checks, failure))
    }

    fn name(&self, output: usize) -> &str {
        let graph = &self.task.graph;
        graph
            .outputs()
            .get(output)
            .map_or("?", |o| graph.value_name(o.value))
    }

    fn mismatch(&self, output: usize, wrong: &Mismatch) -> Failure {
        let kind = if wrong.poison {
            FailureKind::Unwritten
        } else {
            FailureKind::WrongValues
        };
        let shape = self.outputs.get(output).map_or(&[][..], |t| t.shape());
        let what = if wrong.poison {
            "was never written"
        } else {
            "is wrong"
        };
        Failure::new(
            kind,
            format!(
                "output `{}` {what} at {}: got {}, expected {}",
                self.name(output),
                position(wrong.index, shape),
                wrong.got,
                wrong.expected
            ),
        )
    }

    /// Checks the number, element types and shapes of the outputs.
    fn types(&self) -> Result<Option<Failure>> {
        let graph = &self.task.graph;
        let dims: &Bindings = &self.task.contract.hints;
        let fail = |evidence: String| Ok(Some(Failure::new(FailureKind::WrongType, evidence)));
        if self.outputs.len() != graph.outputs().len() {
            return fail(format!(
                "{} outputs instead of {}",
                self.outputs.len(),
                graph.outputs().len()
            ));
        }
        for (i, (output, tensor)) in graph.outputs().iter().zip(self.outputs).enumerate() {
            let ty = graph.ty(output.value);
            let shape = ty.concrete_shape(dims)?;
            if tensor.dtype() != ty.dtype || tensor.shape() != shape {
                let name = self.name(i);
                return fail(format!(
                    "output `{name}` is {tensor:?} instead of {}{shape:?}",
                    ty.dtype
                ));
            }
        }
        Ok(None)
    }
}

/// `[2, 5]`: the coordinates of an element.
fn position(index: usize, shape: &[usize]) -> String {
    let mut rest = index;
    let mut coordinates: Vec<usize> = shape
        .iter()
        .rev()
        .map(|d| {
            let c = rest % (*d).max(1);
            rest /= (*d).max(1);
            c
        })
        .collect();
    coordinates.reverse();
    format!("{coordinates:?}")
}
