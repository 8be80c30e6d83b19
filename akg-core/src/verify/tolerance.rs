//! The error of an output as a whole.

use std::ops::Range;

use rayon::prelude::*;

use super::appeals::Appeals;
use super::comparison::{Comparison, position};
use super::limits::limit;
use super::measure::{Measured, View};
use super::pieces::{Found, Piece, Sides};
use super::policy::{Findings, Stage};
use super::sample::{Extent, Sample};
use crate::error::Result;
use crate::task::Accuracy;
use crate::tensor::Tensor;
use crate::verdict::{ErrorMeasure, Failure, FailureKind, OutputCheck};

/// The limits of a comparison, and where more tolerance comes from.
pub(super) struct Tolerance<'a> {
    pub(super) comparison: &'a Comparison<'a>,
    pub(super) views: &'a [View<'a>],
    /// The graph's.
    pub(super) inputs: &'a [Tensor],
    pub(super) sides: &'a Sides<'a>,
    pub(super) sample: &'a Sample,
    pub(super) extent: &'a Extent,
}

/// The errors of the outputs as a whole.
pub(super) struct Whole {
    pub(super) checks: Vec<OutputCheck>,
    pub(super) limits: Vec<ErrorMeasure>,
    pub(super) failure: Option<Failure>,
    /// The failure is an error that is above its limit.
    pub(super) is_error: bool,
}

impl Tolerance<'_> {
    /// Decides by the error of each output as a whole, stage by stage.
    pub(super) fn whole(&self, found: &Found) -> Result<Whole> {
        let accuracy = self.comparison.task.contract.accuracy;
        let appeals = Appeals::of(self.inputs, self.sample.yardstick_work());
        // Half types have a judgement of their own.
        let turns = if self.comparison.is_half() {
            0
        } else {
            appeals.turns()
        };
        let mut nudged = appeals.nudged(self.inputs, self.comparison.seed);
        let mut perturbed = Perturbed::new(self.inputs, &appeals);
        let class = self.limits(&found.yards, accuracy);
        // What does not depend on the class, and what several evaluations showed.
        let mut limits = vec![ErrorMeasure::default(); self.views.len()];
        let mut concluded = self.conclude(found, class.clone());
        let mut stage = Stage::Class;
        loop {
            let findings = Findings {
                checks: &concluded.checks,
                failed: concluded.failure.is_some(),
                sampled: self.extent.work.is_some(),
            };
            stage = stage.next(findings, accuracy, turns);
            match stage {
                Stage::Class | Stage::Elements | Stage::Rejected => return Ok(concluded),
                Stage::Fp32Floor => {
                    // It is more than the class's where rounded inputs move nothing, such as the mean of what a norm made, but every
                    // operator rounds.
                    limits = self.limits(&self.yards(self.inputs, Accuracy::Fp32)?, Accuracy::Fp32);
                    concluded = self.conclude(found, larger(&class, &limits));
                }
                Stage::Perturbed(turn) => {
                    let yards = match turn {
                        0 => self.measure(self.sides)?,
                        _ => match nudged.next() {
                            Some(inputs) => self.yards(&inputs?, accuracy)?,
                            None => return Ok(concluded),
                        },
                    };
                    let own = self.limits(&perturbed.next(yards), accuracy);
                    limits = larger(&limits, &own);
                    concluded = self.conclude(found, limits.clone());
                }
            }
        }
    }

    /// Measures the yardstick of a class on other inputs in all rows that were compared.
    fn yards(&self, inputs: &[Tensor], accuracy: Accuracy) -> Result<Vec<Measured>> {
        self.measure(&self.comparison.sides(inputs, self.sides.plan, accuracy)?)
    }

    fn measure(&self, sides: &Sides<'_>) -> Result<Vec<Measured>> {
        let mut found = Found::new(self.views.len());
        for wave in self.sample.done() {
            let piece = |(range, _): &(Range<usize>, Range<usize>)| -> Result<Piece> {
                let mut piece = Piece::new(range.clone(), self.views.len());
                let reference = sides.truth.rows(range.clone())?;
                let placed = sides.placed(self.views, range);
                piece.measure_yard(&placed, &reference, || sides.yardstick.rows(range.clone()))?;
                Ok(piece)
            };
            let pieces: Vec<Result<Piece>> = wave.par_iter().map(piece).collect();
            for piece in pieces {
                found.add(&piece?);
            }
        }
        Ok(found.yards)
    }

    /// The largest error of each output in a class.
    fn limits(&self, yards: &[Measured], accuracy: Accuracy) -> Vec<ErrorMeasure> {
        let views = self.views.iter().zip(yards);
        views
            .map(|(view, yard)| limit(accuracy, yard, &view.resolution, self.comparison.is_beyond))
            .collect()
    }

    /// Decides by limits that are known.
    pub(super) fn conclude(&self, found: &Found, limits: Vec<ErrorMeasure>) -> Whole {
        let mut checks = Vec::new();
        let (mut failure, mut is_error) = (None, false);
        for (i, (output, view)) in self.comparison.outputs.iter().zip(self.views).enumerate() {
            let measured = &found.measured[i];
            let (error, limit) = (measured.error(), limits[i]);
            // Exact elements take no part in the scale.
            let spread = found.yards[i].inexact_spread();
            let scaled = |error: ErrorMeasure| ErrorMeasure {
                rms: error.rms / spread,
                max: error.max / spread,
            };
            let bytes = output.bytes().len() as u64;
            let check = OutputCheck {
                output: self.comparison.name(i).to_owned(),
                error: scaled(error),
                limit: scaled(limit),
                bytes_compared: bytes.min(found.compared[i] * output.dtype().size() as u64),
                bytes,
                overflowed: measured.overflowed(),
                undecided: view.undecided.len() as u64,
                not_finite: self.not_finite(found, i),
            };
            if check.overflowed > 0 && !self.comparison.may_overflow && failure.is_none() {
                failure = Some(overflow(&check, found.compared[i]));
            }
            // Also false for an error that is no number.
            let within = error.rms <= limit.rms && error.max <= limit.max;
            if output.dtype().is_float() && !within && failure.is_none() {
                failure = Some(self.failure(view, measured, &check));
                is_error = true;
            }
            checks.push(check);
        }
        Whole {
            checks,
            limits,
            failure,
            is_error,
        }
    }

    /// Elements of an output that the reference has as infinite or NaN.
    fn not_finite(&self, found: &Found, output: usize) -> u64 {
        let (measured, view) = (&found.measured[output], &self.views[output]);
        if !view.tensor.dtype().is_float() {
            return 0;
        }
        let known = measured.finite() + measured.overflowed() + view.undecided.len() as u64;
        found.compared[output].saturating_sub(known)
    }

    fn failure(&self, view: &View<'_>, measured: &Measured, check: &OutputCheck) -> Failure {
        let (worst, error, limit) = (measured.worst(), check.error, check.limit);
        Failure::new(
            FailureKind::WrongValues,
            format!(
                "output `{}`: error rms {:.2e}, max {:.2e} is above class {}'s limit rms {:.2e}, max {:.2e}; the largest error \
                 is at {}: got {}, expected {}",
                check.output,
                error.rms,
                error.max,
                view.class(self.comparison.task.contract.accuracy),
                limit.rms,
                limit.max,
                position(worst.index, view.tensor.shape()),
                worst.got,
                worst.expected,
            ),
        )
    }
}

/// The yardstick on one set of inputs after the other.
struct Perturbed {
    /// All floating inputs move.
    all_move: bool,
    before: Option<Vec<Measured>>,
}

impl Perturbed {
    fn new(inputs: &[Tensor], appeals: &Appeals) -> Self {
        Self {
            all_move: inputs.iter().all(|t| appeals.moves(t) || !t.dtype().is_float()),
            before: None,
        }
    }

    /// The yardstick's errors. An output that no input moves is computed once from constants, and all its elements may have the error
    /// of one rounding.
    fn next(&mut self, yards: Vec<Measured>) -> Vec<Measured> {
        let before = self.before.as_ref().filter(|_| self.all_move);
        let is_moved = |i: usize, yard: &Measured| before.is_none_or(|before| before.get(i) != Some(yard));
        let each = yards.iter().enumerate();
        let each = each.map(|(i, yard)| {
            if is_moved(i, yard) {
                yard.clone()
            } else {
                yard.of_one()
            }
        });
        let each = each.collect();
        self.before = Some(yards);
        each
    }
}

fn overflow(check: &OutputCheck, compared: u64) -> Failure {
    Failure::new(
        FailureKind::WrongValues,
        format!(
            "output `{}`: {} of {compared} elements are infinite or NaN on the contract's own data, where the reference is finite; \
             compute them in an order that does not overflow",
            check.output, check.overflowed
        ),
    )
}

fn larger(a: &[ErrorMeasure], b: &[ErrorMeasure]) -> Vec<ErrorMeasure> {
    a.iter().zip(b).map(|(a, b)| a.larger(*b)).collect()
}
