//! What the arithmetic of a class can do at single elements.
//!
//! Most outputs are decided by their errors in groups. Rows in which a group is suspect come here: their elements get bounds of
//! their own, from several evaluations on inputs that are nearly the same.

use std::ops::Range;

use super::groups::{ENOUGH, Excess, excesses};
use super::limits::Allowance;
use super::measure::{Measured, View, float_at};
use super::tally::{Group, Groups, Layout};
use crate::error::{Error, Result};
use crate::reference::Outcome;
use crate::tensor::Tensor;

/// The parts of themselves that inputs are moved by to see how results depend on them, far below every class and far above the
/// rounding of f64. Where a result is smooth, it moves as many times as far by the second.
pub(super) const STEPS: [f64; 2] = [1.0 / (1u64 << 40) as f64, 1.0 / (1u64 << 36) as f64];

/// Units of the class that inputs are moved by to see whether a result jumps in reach of rounding: as many as sums of some
/// hundred terms in any order may be off by.
pub(super) const REACH: f64 = 32.0;

/// The ratio of both steps from which on a result is smooth, and that to the smooth distance from which on it jumps.
const SMOOTH: f64 = 4.0;

/// The part of an output's root mean square that counts as a jump if a result moves by it in reach of rounding, however smoothly; it
/// is at least this many units of the class.
const FAR: f64 = 1.0 / 16.0;
const NEAR: f64 = 256.0;

/// An element beside a jump may be off by so many times the largest error of the class's arithmetic in the output, or by so many
/// times what it moves in reach of rounding.
const JUMP: f64 = 4.0;
const BOTH_SIDES: f64 = 2.0;

/// The part of the elements of an output beside jumps from which on all of them count as such. Where roundings decide so much, as
/// behind norms of a few values that are nearly equal, a jump has some thousandths of a chance at each of the others, too, which a few
/// evaluations do not show.
const CHAOTIC: f64 = 0.25;

/// Rows with a suspect group.
#[derive(Debug)]
pub(super) struct Suspect {
    pub(super) range: Range<usize>,
    /// The results of the reference there, until they are taken.
    truth: Vec<Outcome>,
    /// Of each output; `None` for exact types.
    outputs: Vec<Option<Elements>>,
}

/// The elements of one output in these rows.
#[derive(Debug)]
struct Elements {
    offset: usize,
    expected: Vec<f64>,
    /// The candidate's errors.
    errors: Vec<f64>,
    /// The largest errors of the class's arithmetic so far.
    bounds: Vec<f64>,
    /// The farthest that the result moved in reach of rounding.
    reach: Vec<f64>,
    /// In reach of rounding, the result jumps.
    jumps: Vec<bool>,
    /// The distance that is a jump in any case.
    far: f64,
    /// The largest error of the class's arithmetic in all of them.
    largest: f64,
}

/// A reason to reject.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Fault {
    /// The group, or `None` for a single element.
    pub(super) group: Option<Group>,
    pub(super) error: f64,
    pub(super) limit: f64,
    pub(super) at: usize,
    pub(super) got: f64,
    pub(super) expected: f64,
}

impl Suspect {
    /// Measures the candidate against the reference. `measured` are all errors in the outputs; `unit` is that of the class.
    pub(super) fn new(
        views: &[(View<'_>, usize)],
        range: Range<usize>,
        truth: Vec<Outcome>,
        measured: &[Measured],
        unit: f64,
    ) -> Result<Self> {
        let elements =
            |(((view, offset), reference), measured): ((&(View<'_>, usize), &Outcome), &Measured)| {
                if !reference.dtype.is_float() {
                    return Ok(None);
                }
                let got = values(view.tensor, *offset, reference.shape.iter().product())?;
                let expected: Vec<f64> = reference.to_f64();
                let errors = got
                    .iter()
                    .zip(&expected)
                    .map(|(got, expected)| (got - expected).abs());
                Ok(Some(Elements {
                    offset: *offset,
                    errors: errors.collect(),
                    bounds: vec![0.0; expected.len()],
                    reach: vec![0.0; expected.len()],
                    jumps: vec![false; expected.len()],
                    far: FAR.max(NEAR * unit) * measured.magnitude(),
                    largest: 0.0,
                    expected,
                }))
            };
        let outputs = views.iter().zip(&truth).zip(measured).map(elements);
        Ok(Self {
            range,
            outputs: outputs.collect::<Result<_>>()?,
            truth,
        })
    }

    /// Takes the results of the reference on the inputs themselves.
    pub(super) fn take_truth(&mut self) -> Vec<Outcome> {
        std::mem::take(&mut self.truth)
    }

    /// Notes the errors of the class's arithmetic on inputs that are nearly the same.
    pub(super) fn note_errors(&mut self, views: &[(View<'_>, usize)], truth: &[Outcome], class: &[Outcome]) {
        let outcomes = truth.iter().zip(class);
        for ((elements, (view, _)), (truth, class)) in self.outputs.iter_mut().zip(views).zip(outcomes) {
            let Some(elements) = elements else { continue };
            for (i, bound) in elements.bounds.iter_mut().enumerate() {
                let error = float_at(truth, i)
                    .zip(float_at(class, i))
                    .map(|(t, c)| (c - t).abs());
                if let Some(error) = error.filter(|error| error.is_finite()) {
                    let error = error * view.resolution.yard_scale;
                    *bound = bound.max(error);
                    elements.largest = elements.largest.max(error);
                }
            }
        }
    }

    /// Notes how far results move when those of the operators are inexact, by a unit of the class and by the [`REACH`].
    pub(super) fn note_results(&mut self, views: &[(View<'_>, usize)], [inexact, reach]: [&[Outcome]; 2]) {
        let outcomes = inexact.iter().zip(reach);
        for ((elements, (view, _)), (inexact, reach)) in self.outputs.iter_mut().zip(views).zip(outcomes) {
            let Some(elements) = elements else { continue };
            for i in 0..elements.expected.len() {
                let (Some(moved), Some(reach)) = (elements.moved(i, inexact), elements.moved(i, reach))
                else {
                    continue;
                };
                let scale = view.resolution.yard_scale;
                elements.note(i, moved * scale, reach * scale, reach > SMOOTH * REACH * moved);
            }
        }
    }

    /// Notes how far results move when the inputs move by each of the [`STEPS`] and by the [`REACH`] of a class whose inputs are known
    /// up to `unit`.
    pub(super) fn note_steps(&mut self, views: &[(View<'_>, usize)], steps: [&[Outcome]; 3], unit: f64) {
        let [near, far, reach] = steps;
        let outcomes = near.iter().zip(far).zip(reach);
        for ((elements, (view, _)), ((near, far), reach)) in self.outputs.iter_mut().zip(views).zip(outcomes)
        {
            let Some(elements) = elements else { continue };
            for i in 0..elements.expected.len() {
                let [near, far, reach] = [near, far, reach].map(|outcome| elements.moved(i, outcome));
                let slope = near.map(|near| near / STEPS[0]);
                let slope = slope.filter(|_| far.zip(near).is_some_and(|(far, near)| far >= SMOOTH * near));
                let moved = slope.map_or(0.0, |slope| slope * unit);
                let reach = reach.unwrap_or(0.0);
                let jumps = slope.is_none() || reach > SMOOTH * REACH * moved;
                let scale = view.resolution.yard_scale;
                elements.note(i, moved * scale, reach * scale, jumps);
            }
        }
    }

    /// The largest error of the class's arithmetic in an output.
    pub(super) fn largest(&self, output: usize) -> f64 {
        self.outputs
            .get(output)
            .and_then(Option::as_ref)
            .map_or(0.0, |elements| elements.largest)
    }

    /// The elements of an output that roundings decide.
    pub(super) fn undecided(&self, output: usize, allowed: Allowed) -> impl Iterator<Item = usize> + '_ {
        let elements = self.outputs.get(output).and_then(Option::as_ref);
        elements.into_iter().flat_map(move |elements| {
            let all = 0..elements.errors.len();
            let undecided = all.filter(move |i| elements.is_undecided(*i, allowed));
            undecided.map(move |i| elements.offset + i)
        })
    }

    /// The elements of an output that are beyond what the class does at them.
    fn elements<'s>(
        &'s self,
        output: usize,
        view: &'s View<'_>,
        allowed: Allowed,
    ) -> impl Iterator<Item = Fault> + 's {
        let elements = self.outputs.get(output).and_then(Option::as_ref);
        elements.into_iter().flat_map(move |elements| {
            (0..elements.errors.len()).filter_map(move |i| {
                let error = elements.error(i, view, allowed)?;
                let limit = elements.limit(i, view, allowed)?;
                (error > limit).then(|| elements.fault(i, view, error, limit))
            })
        })
    }
}

/// What an output's elements may be off by whatever their bounds are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Allowed {
    /// The allowance of groups.
    pub(super) groups: Allowance,
    /// The largest error of the class's arithmetic in the output, which elements beside a jump may have.
    pub(super) largest: f64,
    /// All elements count as such.
    pub(super) is_chaotic: bool,
}

/// Returns true if roundings decide a large part of an output's elements in suspect rows.
pub(super) fn is_chaotic(suspects: &[Suspect], output: usize) -> bool {
    let elements = suspects
        .iter()
        .filter_map(|suspect| suspect.outputs.get(output)?.as_ref());
    let (jumps, all) = elements.fold((0, 0), |(jumps, all), elements| {
        let own = elements.jumps.iter().filter(|jump| **jump).count();
        (jumps + own, all + elements.jumps.len())
    });
    all >= ENOUGH as usize && jumps as f64 >= CHAOTIC * all as f64
}

impl Elements {
    /// The distance by which an element moved in another evaluation, if it is finite.
    fn moved(&self, i: usize, outcome: &Outcome) -> Option<f64> {
        let moved = (float_at(outcome, i)? - self.expected.get(i)?).abs();
        moved.is_finite().then_some(moved)
    }

    /// Notes how far an element moved by one unit and by the [`REACH`], and whether it jumped.
    fn note(&mut self, i: usize, moved: f64, reach: f64, jumps: bool) {
        let (Some(bound), Some(farthest)) = (self.bounds.get_mut(i), self.reach.get_mut(i)) else {
            return;
        };
        *bound = bound.max(moved).max(reach / REACH);
        *farthest = farthest.max(reach);
        if let Some(jump) = self.jumps.get_mut(i) {
            *jump |= jumps || reach > self.far;
        }
    }

    /// Returns true for an element beside a jump whose error the jump explains.
    fn is_undecided(&self, i: usize, allowed: Allowed) -> bool {
        let at = |values: &[f64]| values.get(i).copied().unwrap_or(0.0);
        let jumps = allowed.is_chaotic || self.jumps.get(i).copied().unwrap_or(false);
        jumps && at(&self.errors) <= (JUMP * allowed.largest).max(BOTH_SIDES * at(&self.reach))
    }

    /// The error of an element that is counted; `None` if it has none that can be measured.
    fn error(&self, i: usize, view: &View<'_>, allowed: Allowed) -> Option<f64> {
        let (error, expected) = (*self.errors.get(i)?, *self.expected.get(i)?);
        if !expected.is_finite() || !error.is_finite() {
            return None;
        }
        let counts = error > view.resolution.slack.of(expected) && !self.is_undecided(i, allowed);
        Some(if counts { error } else { 0.0 })
    }

    fn limit(&self, i: usize, view: &View<'_>, allowed: Allowed) -> Option<f64> {
        let own = view.resolution.slack.of(*self.expected.get(i)?);
        let Allowance { floor, one } = allowed.groups;
        Some((one * self.bounds.get(i)?).max(own).max(floor))
    }

    fn fault(&self, i: usize, view: &View<'_>, error: f64, limit: f64) -> Fault {
        let at = self.offset + i;
        let got = values(view.tensor, at, 1)
            .ok()
            .and_then(|got| got.first().copied());
        Fault {
            group: None,
            error,
            limit,
            at,
            got: got.unwrap_or(f64::NAN),
            expected: self.expected.get(i).copied().unwrap_or(f64::NAN),
        }
    }
}

/// The reason to reject an output, if there is one, by what is known of the suspect rows so far: the group in which errors are most
/// above what they may be, or the first of a few elements.
pub(super) fn judge(suspects: &[Suspect], output: usize, view: &View<'_>, allowed: Allowed) -> Option<Fault> {
    let beyond = suspects
        .iter()
        .flat_map(|suspect| suspect.elements(output, view, allowed));
    let beyond: Vec<Fault> = beyond.take(FEW + 1).collect();
    let element = beyond.first().copied();
    if (1..=FEW).contains(&beyond.len()) {
        return element;
    }
    let (mut found, mut yard) = (Groups::new(&view.layout), Groups::new(&view.layout));
    let all = || {
        suspects
            .iter()
            .filter_map(|suspect| suspect.outputs.get(output)?.as_ref())
    };
    for elements in all() {
        let len = elements.errors.len();
        found.add(elements.offset, len, |i| {
            Some((*elements.expected.get(i)?, elements.error(i, view, allowed)?))
        });
        yard.add(elements.offset, len, |i| {
            elements.error(i, view, allowed)?;
            Some((*elements.expected.get(i)?, *elements.bounds.get(i)?))
        });
    }
    let is_scarce = |band: usize| yard.bands.get(band).is_none_or(|tally| tally.count < ENOUGH);
    let excesses = excesses(&found, &yard, allowed.groups).into_iter();
    // The elements were tested by themselves, and a band of few has no other measure.
    let excesses = excesses
        .filter(|excess| excess.is_rms && !matches!(excess.group, Group::Band(band) if is_scarce(band)));
    // A band says less about where the fault is.
    let order = |excess: &Excess| (!matches!(excess.group, Group::Band(_)), excess.times());
    let worst = excesses.map(|excess| (order(&excess), excess));
    let worst = worst.max_by(|(a, _), (b, _)| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let Some((_, excess)) = worst else {
        return element;
    };
    let elements = all().find(|e| (e.offset..e.offset + e.errors.len()).contains(&excess.at))?;
    Some(Fault {
        group: Some(excess.group),
        ..elements.fault(excess.at - elements.offset, view, excess.error, excess.limit)
    })
}

/// Elements that are named by themselves.
const FEW: usize = 2;

/// Elements of a floating tensor.
fn values(tensor: &Tensor, offset: usize, len: usize) -> Result<Vec<f64>> {
    use crate::dtype::DType;
    fn of<T: crate::tensor::Element>(
        tensor: &Tensor,
        range: Range<usize>,
        widen: fn(T) -> f64,
    ) -> Result<Vec<f64>> {
        let part = tensor.as_slice::<T>()?.get(range);
        let part =
            part.ok_or_else(|| Error::unexpected("an output has fewer elements than the reference"))?;
        Ok(part.iter().map(|v| widen(*v)).collect())
    }
    let range = offset..offset + len;
    match tensor.dtype() {
        DType::F16 => of::<half::f16>(tensor, range, half::f16::to_f64),
        DType::BF16 => of::<half::bf16>(tensor, range, half::bf16::to_f64),
        DType::F32 => of::<f32>(tensor, range, f64::from),
        DType::F64 => of::<f64>(tensor, range, |v| v),
        other => Err(Error::unexpected(format!("elements of {other} have no distance"))),
    }
}

/// The rows of one piece and the largest errors of its outputs by band, for finding it again.
#[derive(Debug)]
pub(super) struct Trace {
    pub(super) range: Range<usize>,
    /// The first element of each output and those behind it.
    elements: Vec<Range<usize>>,
    bands: Vec<Vec<(usize, f64)>>,
}

impl Trace {
    pub(super) fn new(range: Range<usize>, elements: Vec<Range<usize>>, measured: &[Measured]) -> Self {
        let bands = |measured: &Measured| {
            let bands = measured.groups.bands.iter().enumerate();
            bands
                .filter(|(_, tally)| tally.max > 0.0)
                .map(|(i, tally)| (i, tally.max))
                .collect()
        };
        Self {
            range,
            elements,
            bands: measured.iter().map(bands).collect(),
        }
    }

    /// The elements of all outputs.
    pub(super) fn len(&self) -> usize {
        self.elements.iter().map(Range::len).sum()
    }

    /// The largest error of an output in these rows.
    pub(super) fn largest_error(&self, output: usize) -> f64 {
        let bands = self.bands.get(output).into_iter().flatten();
        bands.fold(0.0, |most, (_, max)| most.max(*max))
    }

    /// How suspect an output is in these rows: the times that the error of one of its groups is above the limit.
    pub(super) fn suspicion(&self, output: usize, excesses: &[Excess], layout: &Layout) -> f64 {
        let (Some(elements), Some(bands)) = (self.elements.get(output), self.bands.get(output)) else {
            return 0.0;
        };
        let within = |excess: &Excess| -> f64 {
            let has = match excess.group {
                Group::Band(band) if !excess.is_rms => {
                    let own = bands.iter().find(|(own, _)| *own == band);
                    return own.map_or(0.0, |(_, max)| {
                        if *max > excess.limit {
                            max / excess.limit
                        } else {
                            0.0
                        }
                    });
                }
                Group::Row(row) => {
                    let start = layout.row_start(row);
                    elements.contains(&start) || elements.contains(&excess.at)
                }
                _ => elements.contains(&excess.at),
            };
            if has { excess.times() } else { 0.0 }
        };
        excesses.iter().map(within).fold(0.0, f64::max)
    }
}
