//! The errors of an output by group and by element.

use std::collections::BTreeSet;
use std::ops::Range;

use rayon::prelude::*;

use super::appeals::nudge_all;
use super::comparison::{Comparison, position};
use super::elements::{Allowed, Fault, REACH, STEPS, Suspect, Trace, is_chaotic, judge};
use super::groups::excesses;
use super::limits::{input_unit, yardstick};
use super::measure::{Measured, View};
use super::pieces::{Found, Sides};
use super::sample::FEWEST_SUSPECTS;
use crate::error::Result;
use crate::reference::{Evaluation, Options, Outcome, Shift, Shifted};
use crate::task::Accuracy;
use crate::tensor::Tensor;
use crate::verdict::{Failure, FailureKind};

/// Sets of inputs beside the given ones on which the arithmetic of the class is evaluated before an element is rejected.
const ROUNDS: u64 = 8;

/// Parts of themselves that inputs move by in turn, in units of the class: in the first sets all sums round elsewhere, in the others
/// elements stay as near to a jump as they are.
const NUDGES: [f64; 2] = [32.0, 2.0];

/// Elements in suspect rows that are looked at. The most suspect come first.
const MOST_ELEMENTS: usize = 1 << 20;

/// The rows whose groups and elements are looked at once the whole is known.
pub(super) struct Suspects<'a> {
    pub(super) comparison: &'a Comparison<'a>,
    pub(super) views: &'a [View<'a>],
    /// The graph's.
    pub(super) inputs: &'a [Tensor],
    pub(super) sides: &'a Sides<'a>,
    /// All rows that were compared.
    pub(super) traces: &'a [Trace],
}

impl Suspects<'_> {
    /// The first group or element of an output whose error is above what the class does there.
    pub(super) fn judge(&self, found: &Found) -> Result<Option<Failure>> {
        let mut suspects = self.suspects(found, self.beyond_in_groups(found))?;
        if suspects.is_empty() {
            return Ok(None);
        }
        // Half types have a judgement of their own.
        let rounds = if self.comparison.is_half() { 0 } else { ROUNDS };
        let mut fault = None;
        for round in 0..=rounds {
            self.widen(&mut suspects, round)?;
            fault = self.fault(&suspects, found);
            if fault.is_none() {
                break;
            }
        }
        Ok(fault.map(|(output, fault)| self.failure(output, fault)))
    }

    /// The elements of each output that roundings decide, in the rows with the largest errors, where few elements make up the error.
    /// If roundings decide a large part, there are none: the yardstick shows what they do.
    pub(super) fn undecided(&self, found: &Found) -> Result<Vec<BTreeSet<usize>>> {
        let mut undecided = vec![BTreeSet::new(); self.views.len()];
        if !found.measured.iter().any(Measured::is_of_few) {
            return Ok(undecided);
        }
        let largest = |trace: &Trace| {
            let outputs = found.measured.iter().enumerate();
            let part = |(i, measured): (usize, &Measured)| trace.largest_error(i) / measured.largest_error();
            outputs.map(part).fold(0.0, f64::max)
        };
        let mut suspects = self.suspects(found, largest)?;
        for round in 0..=ROUNDS {
            let [inexact, reach] = self.inexact(Shifted::Arithmetic, round)?;
            let note = |suspect: &mut Suspect| -> Result<()> {
                let range = suspect.range.clone();
                let placed = self.sides.placed(self.views, &range);
                suspect.note_results(&placed, [&inexact.rows(range.clone())?, &reach.rows(range)?]);
                Ok(())
            };
            suspects.par_iter_mut().try_for_each(note)?;
        }
        for (i, undecided) in undecided.iter_mut().enumerate() {
            let allowed = self.allowed(&suspects, found, i);
            if !allowed.is_chaotic {
                undecided.extend(suspects.iter().flat_map(|suspect| suspect.undecided(i, allowed)));
            }
        }
        Ok(undecided)
    }

    /// Evaluations that are inexact by a unit of the class, and by the [`REACH`].
    fn inexact(&self, of: Shifted, round: u64) -> Result<[Evaluation<'_>; 2]> {
        let unit = input_unit(self.comparison.task.contract.accuracy);
        let step = |size: f64| {
            let shift = Shift {
                of,
                seed: self.comparison.seed.wrapping_add(round),
                size,
                alike: false,
            };
            let options = Options {
                shift: Some(shift),
                ..Options::default()
            };
            self.comparison.evaluation(self.inputs, self.sides.plan, options)
        };
        Ok([step(unit)?, step(REACH * unit)?])
    }

    fn fault(&self, suspects: &[Suspect], found: &Found) -> Option<(usize, Fault)> {
        let mut faults = self.views.iter().enumerate().filter_map(|(i, view)| {
            let allowed = self.allowed(suspects, found, i);
            Some((i, judge(suspects, i, view, allowed)?))
        });
        faults.next()
    }

    /// The errors that an output's elements may have.
    fn allowed(&self, suspects: &[Suspect], found: &Found, output: usize) -> Allowed {
        let largest = found.yards[output].largest_error();
        let resolution = &self.views[output].resolution;
        Allowed {
            groups: resolution.allowance(found.measured[output].magnitude()),
            largest: suspects
                .iter()
                .fold(largest, |most, suspect| most.max(suspect.largest(output))),
            is_chaotic: is_chaotic(suspects, output),
        }
    }

    /// The rows of most suspicion.
    fn suspects(&self, found: &Found, suspicion: impl Fn(&Trace) -> f64) -> Result<Vec<Suspect>> {
        let unit = input_unit(self.comparison.task.contract.accuracy);
        let suspect = |range: &Range<usize>| -> Result<Suspect> {
            let placed = self.sides.placed(self.views, range);
            let truth = self.sides.truth.rows(range.clone())?;
            Suspect::new(&placed, range.clone(), truth, &found.measured, unit)
        };
        self.ranges(suspicion)?.par_iter().map(suspect).collect()
    }

    /// Suspicion by the groups whose errors are above their limits.
    fn beyond_in_groups(&self, found: &Found) -> impl Fn(&Trace) -> f64 {
        let outputs = self.views.iter().enumerate();
        let outputs = outputs.map(|(i, view)| {
            let (measured, yard) = (&found.measured[i], &found.yards[i]);
            let allowance = view.resolution.allowance(measured.magnitude());
            excesses(&measured.groups, &yard.groups, allowance)
        });
        let outputs: Vec<_> = outputs.collect();
        move |trace: &Trace| {
            let outputs = outputs.iter().zip(self.views).enumerate();
            let each = outputs.map(|(i, (excesses, view))| trace.suspicion(i, excesses, &view.layout));
            each.fold(0.0, f64::max)
        }
    }

    /// The most suspect rows.
    fn ranges(&self, suspicion: impl Fn(&Trace) -> f64) -> Result<Vec<Range<usize>>> {
        let traces = self.traces.iter().map(|trace| (suspicion(trace), trace));
        let mut traces: Vec<(f64, &Trace)> = traces.filter(|(times, _)| *times > 0.0).collect();
        traces.sort_by(|a, b| b.0.total_cmp(&a.0));
        let most = self.comparison.costs(self.sides.plan)?.suspect_rows();
        let (mut elements, mut rows) = (0, 0);
        let few = |(i, (_, trace)): &(usize, (f64, &Trace))| {
            elements += trace.len();
            rows += trace.range.len();
            *i < FEWEST_SUSPECTS || elements <= MOST_ELEMENTS && rows <= most
        };
        let taken = traces.into_iter().enumerate().take_while(few);
        Ok(taken.map(|(_, (_, trace))| trace.range.clone()).collect())
    }

    /// Adds what another set of inputs shows about the arithmetic of the class.
    fn widen(&self, suspects: &mut [Suspect], round: u64) -> Result<()> {
        let class = self.comparison.task.contract.accuracy;
        let plan = self.sides.plan;
        let unit = input_unit(class);
        let seed = self.comparison.seed.wrapping_add(round);
        let inputs = match round {
            0 => self.inputs.to_vec(),
            _ => nudge_all(self.inputs, unit * NUDGES[round as usize % 2], seed)?,
        };
        let nudged = match round {
            0 => None,
            _ => Some(self.comparison.sides(&inputs, plan, class)?),
        };
        let sides = nudged.as_ref().unwrap_or(self.sides);
        let single = match class {
            Accuracy::Fp32 => None,
            _ => Some(
                self.comparison
                    .evaluation(&inputs, plan, yardstick(Accuracy::Fp32))?,
            ),
        };
        let step = |size: f64| -> Result<Evaluation<'_>> {
            let shift = Some(Shift {
                of: Shifted::Inputs,
                seed,
                size,
                alike: round.is_multiple_of(2),
            });
            let options = Options {
                shift,
                ..Options::default()
            };
            self.comparison.evaluation(self.inputs, plan, options)
        };
        // A jump may lie on either side.
        let reach = if round.is_multiple_of(4) { REACH } else { -REACH };
        let steps = [step(STEPS[0])?, step(STEPS[1])?, step(reach * unit)?];
        let [inexact, beyond] = self.inexact(Shifted::Results, round)?;
        let note = |suspect: &mut Suspect| -> Result<()> {
            let range = suspect.range.clone();
            let placed = sides.placed(self.views, &range);
            let truth = match round {
                0 => suspect.take_truth(),
                _ => sides.truth.rows(range.clone())?,
            };
            let rows =
                |evaluation: &Evaluation<'_>| -> Result<Vec<Outcome>> { evaluation.rows(range.clone()) };
            suspect.note_errors(&placed, &truth, &rows(&sides.yardstick)?);
            if let Some(single) = &single {
                suspect.note_errors(&placed, &truth, &rows(single)?);
            }
            suspect.note_results(&placed, [&rows(&inexact)?, &rows(&beyond)?]);
            let [near, far, reach] = &steps;
            suspect.note_steps(&placed, [&rows(near)?, &rows(far)?, &rows(reach)?], unit);
            Ok(())
        };
        suspects.par_iter_mut().try_for_each(note)
    }

    fn failure(&self, output: usize, fault: Fault) -> Failure {
        let (name, class) = (
            self.comparison.name(output),
            self.comparison.task.contract.accuracy,
        );
        let Some(view) = self.views.get(output) else {
            return Failure::new(FailureKind::WrongValues, format!("output `{name}`"));
        };
        let (class, at) = (view.class(class), position(fault.at, view.tensor.shape()));
        let Fault {
            error,
            limit,
            got,
            expected,
            ..
        } = fault;
        let evidence = match fault.group {
            Some(group) => format!(
                "output `{name}`, {}: error rms {error:.2e} is above class {class}'s limit {limit:.2e} there; the largest error is \
                 at {at}: got {got}, expected {expected}",
                view.layout.name(group)
            ),
            None => format!(
                "output `{name}`: the error {error:.2e} at {at} is above class {class}'s limit {limit:.2e} for this element: got \
                 {got}, expected {expected}"
            ),
        };
        Failure::new(FailureKind::WrongValues, evidence)
    }
}
