//! Comparing what a run returned with the f64 reference.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use rand::{RngExt as _, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use super::limits::{limit, yardstick};
use super::measure::{Measured, Mismatch, compare};
use super::sample::{Extent, Found, Piece, Sample};
use crate::backend::Poison;
use crate::dtype::DType;
use crate::error::Result;
use crate::expr::Bindings;
use crate::reference::{Evaluation, Options, Products, RowPlan};
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
    /// Who makes the reference's large matrix products.
    pub(super) products: Option<Arc<dyn Products>>,
}

/// Judges randomly chosen rows of outputs, at the contract's sizes.
pub(crate) fn judge_sample(
    task: &Task,
    inputs: &[Tensor],
    outputs: &[Tensor],
    products: Option<Arc<dyn Products>>,
    time: Duration,
) -> Result<Option<Failure>> {
    let comparison = Comparison::returned(task, inputs, outputs, products, rand::random());
    let (_, failure) = comparison.judge(&Extent {
        time: Some(time),
        yardstick: time,
        first: None,
    })?;
    Ok(failure)
}

/// An error this many times its limit is above every limit that further evaluations could give.
const HOPELESS: f64 = 100.0;

/// Evaluations on nudged inputs, and the bytes of inputs up to which there are any.
const APPEALS: usize = 4;
const MOST_NUDGED: usize = 1 << 28;

impl<'a> Comparison<'a> {
    /// What somebody returned for inputs of the contract's sizes, in memory of his own.
    pub(super) fn returned(
        task: &'a Task,
        inputs: &'a [Tensor],
        outputs: &'a [Tensor],
        products: Option<Arc<dyn Products>>,
        seed: u64,
    ) -> Self {
        Self {
            task,
            dims: &task.contract.hints,
            inputs,
            outputs,
            poison: Poison::Ones,
            seed,
            products,
        }
    }

    /// Compares; the failure is the first wrong element, or the first output whose error is above its limit.
    pub(super) fn judge(&self, extent: &Extent) -> Result<(Vec<OutputCheck>, Option<Failure>)> {
        if let Some(failure) = self.types()? {
            return Ok((Vec::new(), Some(failure)));
        }
        let graph = &self.task.graph;
        let plan = RowPlan::new(graph, self.dims)?;
        let inputs = self.inputs.get(..graph.inputs().len()).unwrap_or_default();
        let truth = Options {
            products: self.products.clone(),
            ..Options::default()
        };
        let sides = Sides {
            plan: plan.as_ref(),
            truth: Evaluation::new(graph, inputs, plan.as_ref(), truth)?,
            yardstick: Evaluation::new(graph, inputs, plan.as_ref(), self.yardstick())?,
        };
        let mut sample = Sample::new(
            plan.as_ref(),
            self.outputs,
            extent,
            self.seed,
            self.products.is_some(),
        );
        let mut found = Found::new(self.outputs.len());
        while let Some(wave) = sample.next(&found) {
            let piece = |(range, yard): &(Range<usize>, bool)| self.piece(&sides, range.clone(), *yard);
            let pieces: Vec<Result<Piece>> = wave.par_iter().map(piece).collect();
            for piece in pieces {
                let piece = piece?;
                if let Some((output, wrong)) = &piece.wrong {
                    return Ok((Vec::new(), Some(self.mismatch(*output, wrong))));
                }
                found.add(&piece);
            }
        }
        let concluded = self.conclude(&found, &self.limits(&found.yards));
        if concluded.1.is_none() || is_hopeless(&concluded.0) {
            return Ok(concluded);
        }
        let mut limits = vec![ErrorMeasure::default(); self.outputs.len()];
        for inputs in appeal(inputs, self.seed)? {
            let yardstick = Evaluation::new(graph, &inputs, plan.as_ref(), self.yardstick())?;
            let mut all = Found::new(self.outputs.len());
            for wave in sample.done() {
                let piece = |range: &Range<usize>| -> Result<Piece> {
                    let mut piece = Piece::new(self.outputs.len());
                    let reference = sides.truth.rows(range.clone())?;
                    piece.measure_yard(&reference, || yardstick.rows(range.clone()))?;
                    Ok(piece)
                };
                let pieces: Vec<Result<Piece>> = wave.par_iter().map(piece).collect();
                for piece in pieces {
                    all.add(&piece?);
                }
            }
            let own = self.limits(&all.yards);
            limits = limits.iter().zip(own).map(|(a, b)| a.larger(b)).collect();
        }
        Ok(self.conclude(&found, &limits))
    }

    /// Compares one stretch of rows, and measures the yardstick's error in its first rows, if that is asked for.
    fn piece(&self, sides: &Sides<'_>, range: Range<usize>, yard: bool) -> Result<Piece> {
        let mut piece = Piece::new(self.outputs.len());
        let reference = sides.truth.rows(range.clone())?;
        for (i, (output, outcome)) in self.outputs.iter().zip(&reference).enumerate() {
            let offset = sides
                .plan
                .map_or(0, |plan| output.len() / plan.rows() * range.start);
            let poison = self.poison.byte();
            let measured = &mut piece.measured[i];
            let mut wrong = compare(measured, output, offset, outcome, None, poison)?;
            if wrong.as_ref().is_some_and(|w| !w.poison) {
                // Rare, so that the arithmetic of the class is only looked up when it is asked for.
                let yardstick = sides.yardstick.rows(range.clone())?;
                *measured = Measured::default();
                wrong = compare(measured, output, offset, outcome, yardstick.get(i), poison)?;
            }
            piece.compared[i] = outcome.shape.iter().product();
            if let Some(wrong) = wrong {
                piece.wrong = Some((i, wrong));
                return Ok(piece);
            }
        }
        if yard {
            let few = Sample::few(sides.plan, range);
            piece.measure_yard(&reference, || sides.yardstick.rows(few))?;
        }
        Ok(piece)
    }

    /// How the yardstick of the task's class is evaluated.
    fn yardstick(&self) -> Options {
        Options {
            products: self.products.clone(),
            ..yardstick(self.task.contract.accuracy)
        }
    }

    /// The largest error of each output in the task's class.
    fn limits(&self, yards: &[Measured]) -> Vec<ErrorMeasure> {
        let accuracy = self.task.contract.accuracy;
        let outputs = self.outputs.iter().zip(yards);
        outputs
            .map(|(output, yard)| limit(accuracy, yard, output.dtype()))
            .collect()
    }

    fn conclude(&self, found: &Found, limits: &[ErrorMeasure]) -> (Vec<OutputCheck>, Option<Failure>) {
        let accuracy = self.task.contract.accuracy;
        let mut checks = Vec::new();
        let mut failure = None;
        for (i, output) in self.outputs.iter().enumerate() {
            let (error, limit) = (found.measured[i].error(), limits[i]);
            let exact = !output.dtype().is_float();
            let bytes = output.bytes().len() as u64;
            // Also false for an error that is no number.
            let within = error.rms <= limit.rms && error.max <= limit.max;
            if !exact && !within && failure.is_none() {
                let worst = found.measured[i].worst();
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
                bytes_compared: bytes.min(found.compared[i] * output.dtype().size() as u64),
                bytes,
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

/// The evaluations that a comparison needs.
struct Sides<'a> {
    plan: Option<&'a RowPlan>,
    truth: Evaluation<'a>,
    /// In the arithmetic of the class.
    yardstick: Evaluation<'a>,
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
