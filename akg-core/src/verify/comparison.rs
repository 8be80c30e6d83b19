//! Comparing what a run returned with the f64 reference.

use std::ops::Range;
use std::time::{Duration, Instant};

use rand::seq::SliceRandom;
use rand::{RngExt as _, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::limits::{limit, yardstick};
use super::measure::{Measured, Mismatch, add_outcome, compare};
use crate::backend::Poison;
use crate::dtype::DType;
use crate::error::Result;
use crate::expr::Bindings;
use crate::reference::{Options, RowPlan, evaluate};
use crate::task::Task;
use crate::tensor::Tensor;
use crate::verdict::{ErrorMeasure, Failure, FailureKind, OutputCheck};

/// Outputs and what they were computed from.
pub(super) struct Comparison<'a> {
    pub(super) task: &'a Task,
    pub(super) dims: &'a Bindings,
    /// The graph's inputs; what follows them is ignored.
    pub(super) inputs: &'a [Tensor],
    pub(super) outputs: &'a [Tensor],
    pub(super) poison: Poison,
    /// Decides which rows are looked at.
    pub(super) seed: u64,
}

/// Judges randomly chosen rows of outputs, at the contract's sizes.
pub(crate) fn judge_sample(
    task: &Task,
    inputs: &[Tensor],
    outputs: &[Tensor],
    time: Duration,
) -> Result<Option<Failure>> {
    let comparison = Comparison::returned(task, inputs, outputs, rand::random());
    let (_, failure) = comparison.judge(&Extent {
        time: Some(time),
        yardstick: time,
        first: None,
    })?;
    Ok(failure)
}

/// How much of the outputs is compared.
#[derive(Debug, Clone)]
pub(super) struct Extent {
    /// Reference time after which no further rows are compared; `None` for all rows.
    pub(super) time: Option<Duration>,
    /// Time for the yardstick of the limits.
    pub(super) yardstick: Duration,
    /// Rows that are compared first, if the graph splits into rows.
    pub(super) first: Option<Range<usize>>,
}

/// Bytes of f64 values that one chunk of rows may take for its largest value.
const CHUNK_BYTES: usize = 64 << 20;

/// A sample is one part in so many of the rows.
const SAMPLES: usize = 32;

/// An error this many times its limit is above every limit that further evaluations could give.
const HOPELESS: f64 = 100.0;

/// Evaluations on nudged inputs, and the bytes of inputs up to which there are any.
const APPEALS: usize = 4;
const MOST_NUDGED: usize = 1 << 28;

impl<'a> Comparison<'a> {
    /// What somebody returned for inputs of the contract's sizes, in memory of his own.
    pub(super) fn returned(task: &'a Task, inputs: &'a [Tensor], outputs: &'a [Tensor], seed: u64) -> Self {
        Self {
            task,
            dims: &task.contract.hints,
            inputs,
            outputs,
            poison: Poison::Ones,
            seed,
        }
    }

    /// Compares; the failure is the first wrong element, or the first output whose error is above its limit.
    pub(super) fn judge(&self, extent: &Extent) -> Result<(Vec<OutputCheck>, Option<Failure>)> {
        if let Some(failure) = self.types()? {
            return Ok((Vec::new(), Some(failure)));
        }
        let graph = &self.task.graph;
        let graph_inputs = self.inputs.get(..graph.inputs().len()).unwrap_or_default();
        let rows = RowPlan::new(graph, self.dims)?;
        let mut measured = vec![Measured::default(); self.outputs.len()];
        let mut yards = vec![Measured::default(); self.outputs.len()];
        let mut compared = vec![0u64; self.outputs.len()];
        let options = Options::default();
        let yard_options = yardstick(self.task.contract.accuracy);
        let chunks = match &rows {
            Some(rows) => self.chunks(rows.rows(), extent)?,
            None => std::iter::once(0..1).collect(),
        };
        let of = |inputs: &[Tensor], range: Range<usize>, options: &Options| match &rows {
            Some(rows) => rows.evaluate(graph, inputs, range, options),
            None => evaluate(graph, inputs, options),
        };
        let start = Instant::now();
        let mut yard_spent = Duration::ZERO;
        let mut done = Vec::new();
        for (n, range) in chunks.into_iter().enumerate() {
            if n > 0 && extent.time.is_some_and(|t| start.elapsed() > t) {
                break;
            }
            done.push(range.clone());
            let reference = of(graph_inputs, range.clone(), &options)?;
            for (i, (output, outcome)) in self.outputs.iter().zip(&reference).enumerate() {
                let offset = rows
                    .as_ref()
                    .map_or(0, |rows| output.len() / rows.rows() * range.start);
                let poison = self.poison.byte();
                let measured = &mut measured[i];
                let before = measured.clone();
                let mut wrong = compare(measured, output, offset, outcome, None, poison)?;
                if wrong.as_ref().is_some_and(|w| !w.poison) {
                    // Rare, so that the arithmetic of the class is only looked up when it is asked for.
                    let yardstick = of(graph_inputs, range.clone(), &yard_options)?;
                    *measured = before;
                    wrong = compare(measured, output, offset, outcome, yardstick.get(i), poison)?;
                }
                compared[i] += (outcome.shape.iter().product::<usize>() * output.dtype().size()) as u64;
                if let Some(wrong) = wrong {
                    return Ok((Vec::new(), Some(self.mismatch(i, &wrong))));
                }
            }
            if n == 0 || yard_spent < extent.yardstick {
                let began = Instant::now();
                // The first rows of the stretch say enough about its error.
                let few = rows.as_ref().map_or(1, |rows| rows.rows().div_ceil(SAMPLES));
                let few = range.start..range.end.min(range.start + few);
                let yardstick = of(graph_inputs, few, &yard_options)?;
                for (yard, (reference, got)) in yards.iter_mut().zip(reference.iter().zip(&yardstick)) {
                    add_outcome(yard, reference, got);
                }
                yard_spent += began.elapsed();
            }
        }
        let limits = self.limits(&yards);
        let concluded = self.conclude(&measured, &limits, &compared);
        if concluded.1.is_none() || is_hopeless(&concluded.0) {
            return Ok(concluded);
        }
        let mut limits = vec![ErrorMeasure::default(); self.outputs.len()];
        for inputs in appeal(graph_inputs, self.seed)? {
            let mut yards = vec![Measured::default(); self.outputs.len()];
            for range in &done {
                let reference = of(graph_inputs, range.clone(), &options)?;
                let yardstick = of(&inputs, range.clone(), &yard_options)?;
                for (yard, (reference, got)) in yards.iter_mut().zip(reference.iter().zip(&yardstick)) {
                    add_outcome(yard, reference, got);
                }
            }
            let found = self.limits(&yards);
            limits = limits.iter().zip(found).map(|(a, b)| a.larger(b)).collect();
        }
        Ok(self.conclude(&measured, &limits, &compared))
    }

    /// The largest error of each output in the task's class.
    fn limits(&self, yards: &[Measured]) -> Vec<ErrorMeasure> {
        let accuracy = self.task.contract.accuracy;
        let outputs = self.outputs.iter().zip(yards);
        outputs
            .map(|(output, yard)| limit(accuracy, yard, output.dtype()))
            .collect()
    }

    /// Stretches of rows, small enough for the memory, enough of them for a sample, in an order that nobody can expect.
    fn chunks(&self, rows: usize, extent: &Extent) -> Result<Vec<Range<usize>>> {
        let mut largest = 0;
        for value in self.task.graph.values() {
            largest = largest.max(value.ty.concrete_shape(self.dims)?.iter().product());
        }
        let per_row = (largest / rows.max(1)).max(1) * size_of::<f64>();
        let most = if extent.time.is_some() {
            rows.div_ceil(SAMPLES)
        } else {
            rows
        };
        let step = (CHUNK_BYTES / per_row).clamp(1, most.max(1));
        let mut chunks: Vec<_> = (0..rows)
            .step_by(step)
            .map(|start| start..(start + step).min(rows))
            .collect();
        chunks.shuffle(&mut ChaCha8Rng::seed_from_u64(self.seed ^ 0x726f_7773));
        if let Some(first) = &extent.first {
            chunks.insert(0, first.clone());
        }
        Ok(chunks)
    }

    fn conclude(
        &self,
        measured: &[Measured],
        limits: &[ErrorMeasure],
        compared: &[u64],
    ) -> (Vec<OutputCheck>, Option<Failure>) {
        let accuracy = self.task.contract.accuracy;
        let mut checks = Vec::new();
        let mut failure = None;
        for (i, output) in self.outputs.iter().enumerate() {
            let (error, limit) = (measured[i].error(), limits[i]);
            let exact = !output.dtype().is_float();
            // Also false for an error that is no number.
            let within = error.rms <= limit.rms && error.max <= limit.max;
            if !exact && !within && failure.is_none() {
                let worst = measured[i].worst();
                failure = Some(Failure::new(
                    FailureKind::WrongValues,
                    format!(
                        "output `{}`: error rms {:.2e}, max {:.2e} is above class {accuracy}'s limit rms {:.2e}, max \
                         {:.2e}; the largest error is at {}: got {}, expected {}",
                        self.name(i),
                        error.rms,
                        error.max,
                        limit.rms,
                        limit.max,
                        position(worst.index, output.shape()),
                        worst.got,
                        worst.expected,
                    ),
                ));
            }
            checks.push(OutputCheck {
                output: self.name(i).to_owned(),
                error,
                limit,
                bytes_compared: compared[i].min(output.bytes().len() as u64),
                bytes: output.bytes().len() as u64,
            });
        }
        (checks, failure)
    }

    fn name(&self, output: usize) -> &str {
        let graph = &self.task.graph;
        graph
            .outputs()
            .get(output)
            .map_or("?", |o| graph.value_name(o.value))
    }

    fn mismatch(&self, output: usize, wrong: &Mismatch) -> Failure {
        let (kind, what) = if wrong.poison {
            (FailureKind::Unwritten, "was never written")
        } else {
            (FailureKind::WrongValues, "is wrong")
        };
        let shape = self.outputs.get(output).map_or(&[][..], |t| t.shape());
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
            let shape = ty.concrete_shape(self.dims)?;
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

/// Whether no limit of the class can allow these errors, whatever the yardstick says in the end.
fn is_hopeless(checks: &[OutputCheck]) -> bool {
    let beyond = |error: f64, limit: f64| error.is_nan() || error > HOPELESS * limit;
    checks
        .iter()
        .any(|c| beyond(c.error.rms, c.limit.rms) && beyond(c.error.max, c.limit.max))
}

/// The inputs that the yardstick is evaluated on before a candidate is rejected for its error: the inputs themselves, and
/// inputs of which every element is the next number or the one before.
///
/// Where a few ill-conditioned elements make up most of the error, as in the softmax of large products, one evaluation
/// in fp32 may be right in them by luck. What fp32 is worth there shows in several.
fn appeal(inputs: &[Tensor], seed: u64) -> Result<Vec<Vec<Tensor>>> {
    let mut all = vec![inputs.to_vec()];
    let bytes: usize = inputs.iter().map(|t| t.bytes().len()).sum();
    if bytes <= MOST_NUDGED {
        let mut rng = ChaCha8Rng::seed_from_u64(seed ^ 0x006e_7564_6765);
        for _ in 0..APPEALS {
            let nudged = inputs.iter().map(|t| nudge(t, &mut rng));
            all.push(nudged.collect::<Result<_>>()?);
        }
    }
    Ok(all)
}

/// The tensor with every finite element of f32 moved to a neighbour; other types stay.
fn nudge(tensor: &Tensor, rng: &mut ChaCha8Rng) -> Result<Tensor> {
    if tensor.dtype() != DType::F32 {
        return Ok(tensor.clone());
    }
    let neighbour = |v: &f32| match rng.random_range(0..2) {
        _ if !v.is_finite() || *v == 0.0 => *v,
        0 => v.next_up(),
        _ => v.next_down(),
    };
    let values: Vec<f32> = tensor.as_slice::<f32>()?.iter().map(neighbour).collect();
    Tensor::from_slice(tensor.shape(), &values)
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
