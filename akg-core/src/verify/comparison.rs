//! Comparing what a run returned with the f64 reference.

use std::ops::Range;
use std::time::{Duration, Instant};

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::limits::{limit, yardstick};
use super::measure::{Measured, Mismatch, add_outcome, compare};
use crate::backend::Poison;
use crate::error::Result;
use crate::expr::Bindings;
use crate::reference::{Options, RowPlan, evaluate};
use crate::task::Task;
use crate::tensor::Tensor;
use crate::verdict::{Failure, FailureKind, OutputCheck};

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
    let comparison = Comparison {
        task,
        dims: &task.contract.hints,
        inputs,
        outputs,
        poison: Poison::Ones,
        seed: rand::random(),
    };
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

impl Comparison<'_> {
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
        let of = |range: Range<usize>, options: &Options| match &rows {
            Some(rows) => rows.evaluate(graph, graph_inputs, range, options),
            None => evaluate(graph, graph_inputs, options),
        };
        let start = Instant::now();
        let mut yard_spent = Duration::ZERO;
        let mut done = Vec::new();
        for (n, range) in chunks.into_iter().enumerate() {
            if n > 0 && extent.time.is_some_and(|t| start.elapsed() > t) {
                break;
            }
            done.push(range.clone());
            let reference = of(range.clone(), &options)?;
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
                    let yardstick = of(range.clone(), &yard_options)?;
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
                let yardstick = of(range.start..range.end.min(range.start + few), &yard_options)?;
                for (yard, (reference, got)) in yards.iter_mut().zip(reference.iter().zip(&yardstick)) {
                    add_outcome(yard, reference, got);
                }
                yard_spent += began.elapsed();
            }
        }
        let concluded = self.conclude(&measured, &yards, &compared)?;
        if concluded.1.is_none() {
            return Ok(concluded);
        }
        // Nobody is rejected by a sample of the yardstick, which may be luckier than the whole.
        let mut yards = vec![Measured::default(); self.outputs.len()];
        for range in done {
            let (reference, yardstick) = (of(range.clone(), &options)?, of(range, &yard_options)?);
            for (yard, (reference, got)) in yards.iter_mut().zip(reference.iter().zip(&yardstick)) {
                add_outcome(yard, reference, got);
            }
        }
        self.conclude(&measured, &yards, &compared)
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
        yards: &[Measured],
        compared: &[u64],
    ) -> Result<(Vec<OutputCheck>, Option<Failure>)> {
        let accuracy = self.task.contract.accuracy;
        let mut checks = Vec::new();
        let mut failure = None;
        for (i, output) in self.outputs.iter().enumerate() {
            let (error, limit) = (measured[i].error(), limit(accuracy, &yards[i], output.dtype()));
            let exact = !output.dtype().is_float();
            // Also false for an error that is no number.
            let within = error.rms <= limit.rms && error.max <= limit.max;
            if !exact && !within && failure.is_none() {
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
                bytes_compared: compared[i].min(output.bytes().len() as u64),
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
