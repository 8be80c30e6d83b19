//! Both readings of a graph with half types: results rounded after every operator, and wide results.
//!
//! A kernel may keep intermediate values in f32, round each of them as PyTorch does, or round some of them. So the error
//! of an element is its distance to the nearer of two evaluations, [`Semantics::Rounded`] and [`Semantics::Wide`]. It is
//! measured in units of what rounding can do at that element: the distances between evaluations in which every result is
//! rounded up or down at random, equal results alike or each by itself. Errors in these units are compared for the whole
//! output and by row, column and magnitude band, so that large or unsteady elements hide nothing.

use std::ops::Range;

use rayon::prelude::*;

use super::comparison::{Comparison, position};
use super::limits::yardstick;
use super::measure::Mismatch;
use super::sample::Extent;
use super::scores::{Excess, Scores};
use super::units::Elements;
use crate::error::{Error, Result};
use crate::reference::{Evaluation, Options, Outcome, Perturb, RowPlan, Semantics};
use crate::verdict::{Failure, FailureKind, OutputCheck};

/// Numbers of perturbed evaluations: few show the scale of the errors in a band, more the one of each element, and many
/// all results that a jump can have. The next number is only tried if an output is not right by the one before.
const PERTURBED: [usize; 3] = [2, 8, 32];

/// One evaluation in which equal results are rounded each by itself for so many in which they are rounded alike; none among the
/// first few.
const APART: usize = 2;

/// Errors of this many units are wrong whatever further evaluations show.
const HOPELESS: f64 = 1e3;

/// The evaluations that outputs are compared with.
struct Readings<'a> {
    plan: Option<&'a RowPlan>,
    wide: Evaluation<'a>,
    rounded: Evaluation<'a>,
    /// The wide reading in the arithmetic of the class.
    class: Evaluation<'a>,
    /// With equal results rounded alike, and each by itself.
    alike: Vec<Evaluation<'a>>,
    apart: Vec<Evaluation<'a>>,
}

/// What the comparison of a piece found.
struct Compared {
    scores: Vec<Scores>,
    /// Elements of each output.
    counts: Vec<usize>,
    /// The first output with an element that no reading has.
    wrong: Option<(usize, Mismatch)>,
}

impl Comparison<'_> {
    /// Compares with both readings of the graph; the failure is the first wrong element, or the first output whose errors
    /// are too many units.
    pub(super) fn judge_readings(&self, extent: &Extent) -> Result<(Vec<OutputCheck>, Option<Failure>)> {
        let graph = &self.task.graph;
        let plan = RowPlan::new(graph, self.dims)?;
        let mut readings = self.readings(plan.as_ref())?;
        let mut sample = self.sample(plan.as_ref(), extent)?;
        let mut verdict = (Vec::new(), None);
        for (turn, count) in PERTURBED.into_iter().enumerate() {
            let apart = if turn == 0 { 0 } else { count / APART };
            self.perturb(&mut readings, [count, apart])?;
            let mut all = Compared::new(self.outputs.len());
            let mut add = |wave: &[(Range<usize>, Range<usize>)]| -> Result<()> {
                let piece = |(range, _): &(Range<usize>, _)| self.compare_piece(&readings, range.clone());
                let pieces: Vec<Result<Compared>> = wave.par_iter().map(piece).collect();
                for piece in pieces {
                    all.merge(piece?);
                }
                Ok(())
            };
            if turn == 0 {
                while let Some(wave) = sample.next() {
                    add(wave)?;
                }
            } else {
                sample.done().try_for_each(&mut add)?;
            }
            verdict = self.conclude_readings(&all);
            let hopeless = all.scores.iter().any(|scores| scores.rms() > HOPELESS);
            if verdict.1.is_none() || turn > 0 && hopeless {
                break;
            }
        }
        Ok(verdict)
    }

    fn reading<'b>(&'b self, plan: Option<&'b RowPlan>, options: Options) -> Result<Evaluation<'b>> {
        let products = self.products.clone();
        let graph = &self.task.graph;
        let inputs = self.inputs.get(..graph.inputs().len()).unwrap_or_default();
        Evaluation::new(graph, inputs, plan, Options { products, ..options })
    }

    fn readings<'b>(&'b self, plan: Option<&'b RowPlan>) -> Result<Readings<'b>> {
        let by = |semantics| Options {
            semantics,
            ..Options::default()
        };
        let class = Options {
            semantics: Semantics::Wide,
            ..yardstick(self.task.contract.accuracy)
        };
        Ok(Readings {
            plan,
            wide: self.reading(plan, by(Semantics::Wide))?,
            rounded: self.reading(plan, by(Semantics::Rounded { perturb: None }))?,
            class: self.reading(plan, class)?,
            alike: Vec::new(),
            apart: Vec::new(),
        })
    }

    /// Adds perturbed evaluations up to these numbers.
    fn perturb<'b>(&'b self, readings: &mut Readings<'b>, [alike, apart]: [usize; 2]) -> Result<()> {
        let evaluation = |perturb: fn(u64) -> Perturb, number: usize| {
            let perturb = Some(perturb(self.seed.wrapping_add(number as u64)));
            let options = Options {
                semantics: Semantics::Rounded { perturb },
                ..Options::default()
            };
            self.reading(readings.plan, options)
        };
        for number in readings.alike.len()..alike {
            readings.alike.push(evaluation(Perturb::Alike, number)?);
        }
        for number in readings.apart.len()..apart {
            readings.apart.push(evaluation(Perturb::Apart, number)?);
        }
        Ok(())
    }

    fn compare_piece(&self, readings: &Readings<'_>, range: Range<usize>) -> Result<Compared> {
        let rows = |evaluation: &Evaluation<'_>| evaluation.rows(range.clone());
        let (wide, rounded, class) = (
            rows(&readings.wide)?,
            rows(&readings.rounded)?,
            rows(&readings.class)?,
        );
        let all = |evaluations: &[Evaluation<'_>]| -> Result<Vec<Vec<Outcome>>> {
            evaluations.iter().map(rows).collect()
        };
        let (alike, apart) = (all(&readings.alike)?, all(&readings.apart)?);
        let mut compared = Compared::new(self.outputs.len());
        let all = self
            .outputs
            .iter()
            .zip(&mut compared.scores)
            .zip(&mut compared.counts);
        for (i, ((output, scores), count)) in all.enumerate() {
            if !self.has(i) {
                continue;
            }
            let rows = readings.plan.map_or(1, RowPlan::rows);
            let offset = output.len() / rows.max(1) * range.start;
            let elements = Elements {
                wide: output_of(&wide, i)?,
                rounded: output_of(&rounded, i)?,
                class: output_of(&class, i)?,
                alike: outputs_of(&alike, i)?,
                apart: outputs_of(&apart, i)?,
            };
            *count = elements.wide.shape.iter().product();
            let wrong = elements.compare(output, offset, self.poison.byte(), scores)?;
            if compared.wrong.is_none() {
                compared.wrong = wrong.map(|wrong| (i, wrong));
            }
        }
        Ok(compared)
    }

    fn conclude_readings(&self, all: &Compared) -> (Vec<OutputCheck>, Option<Failure>) {
        if let Some((output, wrong)) = &all.wrong {
            return (Vec::new(), Some(self.mismatch(*output, wrong)));
        }
        let mut failure = None;
        let mut checks = Vec::new();
        for (i, (output, scores)) in self.outputs.iter().zip(&all.scores).enumerate() {
            let (error, limit) = scores.measures();
            if failure.is_none()
                && let Some(excess) = scores.excess()
            {
                failure = Some(self.excess(i, &excess));
            }
            let bytes = output.bytes().len() as u64;
            let compared = all.counts.get(i).map_or(0, |n| *n * output.dtype().size()) as u64;
            checks.push(OutputCheck {
                output: self.name(i).to_owned(),
                error,
                limit,
                bytes_compared: bytes.min(compared),
                bytes,
                overflowed: 0,
                undecided: 0,
                not_finite: 0,
            });
        }
        (checks, failure)
    }

    fn excess(&self, output: usize, excess: &Excess) -> Failure {
        let shape = self.outputs.get(output).map_or(&[][..], |t| t.shape());
        let (error, limit) = (excess.error, excess.limit);
        Failure::new(
            FailureKind::WrongValues,
            format!(
                "output `{}`, {}: errors are {:.1} (rms) and {:.1} (max) times what rounding can do, above {:.1} and {:.1}; \
                 the largest is at {}: got {}, expected {}",
                self.name(output),
                excess.group,
                error.rms,
                error.max,
                limit.rms,
                limit.max,
                position(excess.index, shape),
                excess.got,
                excess.expected,
            ),
        )
    }
}

impl Compared {
    fn new(outputs: usize) -> Self {
        Self {
            scores: vec![Scores::default(); outputs],
            counts: vec![0; outputs],
            wrong: None,
        }
    }

    fn merge(&mut self, other: Self) {
        let scores = self.scores.iter_mut().zip(&other.scores);
        scores.for_each(|(all, part)| all.merge(part));
        let counts = self.counts.iter_mut().zip(&other.counts);
        counts.for_each(|(all, part)| *all += part);
        if self.wrong.is_none() {
            self.wrong = other.wrong;
        }
    }
}

/// The `index`-th output of an evaluation.
fn output_of(outcomes: &[Outcome], index: usize) -> Result<&Outcome> {
    let outcome = outcomes.get(index);
    outcome.ok_or_else(|| Error::unexpected("an evaluation lacks an output"))
}

/// The `index`-th output of each evaluation.
fn outputs_of(evaluations: &[Vec<Outcome>], index: usize) -> Result<Vec<&Outcome>> {
    evaluations
        .iter()
        .map(|outcomes| output_of(outcomes, index))
        .collect()
}
