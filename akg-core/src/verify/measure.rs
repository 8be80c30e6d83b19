//! Comparing a candidate's elements with the reference's.

use std::collections::BTreeSet;
use std::sync::Arc;

use half::{bf16, f16};
use rayon::prelude::*;

use super::limits::{Resolution, Slack};
use super::tally::{Groups, Layout, Tally};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::reference::{Buffer, Outcome};
use crate::task::Accuracy;
use crate::tensor::{Element, Tensor};
use crate::verdict::ErrorMeasure;

/// An element that cannot be right under any tolerance.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Mismatch {
    pub(super) index: usize,
    pub(super) got: String,
    pub(super) expected: String,
    /// The element still holds the poison it was given.
    pub(super) poison: bool,
}

/// The element with the largest error.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Worst {
    pub(super) index: usize,
    pub(super) got: f64,
    pub(super) expected: f64,
}

/// Elements are few if there are this many times as many.
const FEW_PARTS: f64 = 16.0;

/// Elements that a thread looks at before it asks for more.
const BLOCK: usize = 1 << 17;

/// Sums over the elements compared so far, as a whole and by group.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Measured {
    whole: Tally,
    worst: Worst,
    scale: Scale,
    /// The scale of the elements that have an error.
    inexact: Scale,
    /// Finite elements that the arithmetic of the class cannot keep finite.
    overflowed: u64,
    pub(super) groups: Groups,
}

/// Sums over expected values.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Scale {
    count: u64,
    sum: f64,
    squares: f64,
    largest: f64,
}

impl Scale {
    #[inline(always)]
    fn add(&mut self, value: f64) {
        self.count += 1;
        self.sum += value;
        self.squares += value * value;
        self.largest = self.largest.max(value.abs());
    }

    fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.sum += other.sum;
        self.squares += other.squares;
        self.largest = self.largest.max(other.largest);
    }

    /// rms(ref − mean), or rms(ref) for constant outputs, or 1 for zero ones.
    fn norm(&self) -> f64 {
        let n = self.count.max(1) as f64;
        let mean_square = self.squares / n;
        let variance = (mean_square - (self.sum / n).powi(2)).max(0.0);
        // Below this the spread is rounding noise of the mean.
        if variance > mean_square * 1e-12 {
            variance.sqrt()
        } else if mean_square > 0.0 {
            mean_square.sqrt()
        } else {
            1.0
        }
    }
}

impl Measured {
    /// Adds elements of an output from `offset` on: `reference` f64 values and what was computed instead of each. Elements where
    /// either is not finite are skipped: they are equal or not, never close. Errors are multiplied by `scale`; in its groups, an
    /// element has none of at most its `slack`.
    fn add(
        &mut self,
        layout: &Layout,
        slack: Slack,
        scale: f64,
        offset: usize,
        reference: &[f64],
        got: impl Fn(usize) -> f64 + Sync,
    ) {
        let block = |(number, values): (usize, &[f64])| {
            let mut block = Self::default();
            let first = number * BLOCK;
            block.groups = Groups::new(layout);
            let (whole, worst) = (&mut block.whole, &mut block.worst);
            let (all, inexact) = (&mut block.scale, &mut block.inexact);
            block.groups.add(offset + first, values.len(), |i| {
                let (expected, got) = (*values.get(i)?, got(first + i));
                if !expected.is_finite() || !got.is_finite() {
                    return None;
                }
                let index = offset + first + i;
                let error = (got - expected).abs() * scale;
                if error > whole.max {
                    *worst = Worst { index, got, expected };
                }
                whole.add(index, error);
                all.add(expected);
                if error > 0.0 {
                    inexact.add(expected);
                }
                let counted = if error > slack.of(expected) { error } else { 0.0 };
                Some((expected, counted))
            });
            block
        };
        let blocks: Vec<Self> = reference.par_chunks(BLOCK).enumerate().map(block).collect();
        blocks.iter().for_each(|block| self.merge(block));
    }

    /// Adds what was measured elsewhere.
    pub(super) fn merge(&mut self, other: &Self) {
        if other.whole.max > self.whole.max {
            self.worst = other.worst;
        }
        self.whole.merge(&other.whole);
        self.scale.merge(&other.scale);
        self.inexact.merge(&other.inexact);
        self.overflowed += other.overflowed;
        self.groups.merge(&other.groups);
    }

    /// The error relative to the spread of the reference.
    pub fn error(&self) -> ErrorMeasure {
        ErrorMeasure {
            rms: self.whole.rms() / self.scale.norm(),
            max: self.whole.max / self.scale.norm(),
        }
    }

    /// Elements that are infinite or NaN as the arithmetic of the class is, where f64 is finite.
    pub(super) fn overflowed(&self) -> u64 {
        self.overflowed
    }

    /// Elements that are finite.
    pub(super) fn finite(&self) -> u64 {
        self.scale.count
    }

    /// The largest error, in the output's unit.
    pub(super) fn largest_error(&self) -> f64 {
        self.whole.max
    }

    /// Returns true if the error is that of a small part of the elements.
    pub(super) fn is_of_few(&self) -> bool {
        self.whole.concentration() * self.whole.count as f64 >= FEW_PARTS
    }

    /// The root mean square of the expected values.
    pub(super) fn magnitude(&self) -> f64 {
        (self.scale.squares / self.scale.count.max(1) as f64).sqrt()
    }

    /// The spread of the elements that have an error, as a part of the spread of all.
    pub(super) fn inexact_spread(&self) -> f64 {
        let part = self.inexact.norm() / self.scale.norm();
        if self.inexact.count > 0 && part.is_finite() && part > 0.0 {
            part
        } else {
            1.0
        }
    }

    /// The same, with an error that one element makes up.
    pub(super) fn of_one(&self) -> Self {
        Self {
            whole: self.whole.of_one(),
            ..self.clone()
        }
    }

    /// How few elements make up the error.
    pub(super) fn concentration(&self) -> f64 {
        self.whole.concentration()
    }

    /// The error of rounding to a type of this unit roundoff every element that has an error, or every element if none has one. An
    /// output may always be off by its own rounding, which for numbers near the type's smallest is `underflow`.
    pub(super) fn own_rounding(&self, unit_roundoff: f64, underflow: f64) -> ErrorMeasure {
        let rounded = if self.inexact.count > 0 {
            &self.inexact
        } else {
            &self.scale
        };
        let (n, norm) = (self.scale.count.max(1) as f64, self.scale.norm());
        ErrorMeasure {
            rms: (unit_roundoff * (rounded.squares / n).sqrt() + underflow) / norm,
            max: (unit_roundoff * rounded.largest + underflow) / norm,
        }
    }

    /// The element with the largest error.
    pub(super) fn worst(&self) -> Worst {
        self.worst
    }
}

/// An output as it is compared.
#[derive(Debug, Clone)]
pub(super) struct View<'a> {
    pub(super) tensor: &'a Tensor,
    pub(super) layout: Layout,
    pub(super) resolution: Resolution,
    /// Elements that roundings decide, which are not measured.
    pub(super) undecided: Arc<BTreeSet<usize>>,
}

impl View<'_> {
    /// The name of the class that the output is held to, in a contract of class `accuracy`.
    pub(super) fn class(&self, accuracy: Accuracy) -> String {
        if self.resolution.is_double {
            DType::F64.to_string()
        } else {
            accuracy.to_string()
        }
    }
}

/// Adds an outcome of the interpreter in lower precision to `measured`, whose first element is that at `offset` of the output.
/// Elements beyond the range of the output's type are left out, as they are where a candidate rightly has infinities.
pub(super) fn add_outcome(
    measured: &mut Measured,
    view: &View<'_>,
    offset: usize,
    reference: &Outcome,
    got: &Outcome,
) {
    let Buffer::F64(values) = &reference.data else {
        return;
    };
    // Beyond the end is left out, too.
    let kept = |i: usize| {
        let is_kept = values.get(i).is_some_and(|v| in_range(reference.dtype, *v));
        float_at(got, i).filter(|_| is_kept).unwrap_or(f64::NAN)
    };
    let scale = view.resolution.yard_scale;
    measured.add(&view.layout, Slack::NONE, scale, offset, values, kept);
}

/// An element of a floating outcome.
pub(super) fn float_at(outcome: &Outcome, i: usize) -> Option<f64> {
    match &outcome.data {
        Buffer::F32(values) => values.get(i).map(|v| f64::from(*v)),
        Buffer::F64(values) => values.get(i).copied(),
        _ => None,
    }
}

/// Whether a type holds a value.
fn in_range(dtype: DType, value: f64) -> bool {
    match dtype {
        DType::F16 => f16::from_f64(value).is_finite(),
        DType::BF16 => bf16::from_f64(value).is_finite(),
        DType::F32 => (value as f32).is_finite(),
        _ => true,
    }
}

/// Compares the elements of an output from `offset` on with `reference`; exact types must be equal. The first element that
/// is wrong under any tolerance is returned.
///
/// With a `yardstick`, the same elements in the arithmetic of the class, an element is also right if it is what that
/// arithmetic gives: infinite or NaN where it overflows on the way, another index where rounding made a tie.
pub(super) fn compare(
    measured: &mut Measured,
    view: &View<'_>,
    offset: usize,
    reference: &Outcome,
    yardstick: Option<&Outcome>,
    poison: u8,
) -> Result<Option<Mismatch>> {
    let output = view.tensor;
    let excuse = |i: usize, got: f64| {
        let class = yardstick.and_then(|outcome| float_at(outcome, i));
        class.is_some_and(|v| alike(got, v))
    };
    let excuse_exact = |i: usize, got: i64| match yardstick.map(|y| &y.data) {
        Some(Buffer::Int(values)) => values.get(i) == Some(&got),
        Some(Buffer::Bool(values)) => values.get(i).map(|v| i64::from(*v)) == Some(got),
        _ => false,
    };
    let stretch = Stretch { view, offset, poison };
    match &reference.data {
        Buffer::F64(values) => match output.dtype() {
            DType::F32 => floats::<f32>(
                measured,
                stretch,
                values,
                &excuse,
                |v| v.into(),
                |v| f64::from(v as f32),
            ),
            DType::F64 => floats::<f64>(measured, stretch, values, &excuse, |v| v, |v| v),
            DType::F16 => floats::<f16>(measured, stretch, values, &excuse, f64::from, |v| {
                f16::from_f64(v).to_f64()
            }),
            DType::BF16 => floats::<bf16>(measured, stretch, values, &excuse, f64::from, |v| {
                bf16::from_f64(v).to_f64()
            }),
            other => Err(Error::unexpected(format!(
                "a floating reference for an output of {other}"
            ))),
        },
        Buffer::Int(values) => match output.dtype() {
            DType::U8 => exact::<u8>(output, offset, values, &excuse_exact, |v| v.into()),
            DType::I8 => exact::<i8>(output, offset, values, &excuse_exact, |v| v.into()),
            DType::I16 => exact::<i16>(output, offset, values, &excuse_exact, |v| v.into()),
            DType::I32 => exact::<i32>(output, offset, values, &excuse_exact, |v| v.into()),
            DType::I64 => exact::<i64>(output, offset, values, &excuse_exact, |v| v),
            other => Err(Error::unexpected(format!(
                "an integer reference for an output of {other}"
            ))),
        },
        Buffer::Bool(values) => {
            let bytes = output.bytes().get(offset..).unwrap_or_default();
            let wrong = bytes
                .par_iter()
                .zip(values)
                .enumerate()
                .position_first(|(i, (b, v))| *b != u8::from(*v) && !excuse_exact(i, i64::from(*b)));
            Ok(wrong.map(|i| Mismatch {
                index: offset + i,
                got: format!("byte {}", bytes[i]),
                expected: values[i].to_string(),
                poison: bytes[i] == poison,
            }))
        }
        Buffer::F32(_) => Err(Error::unexpected("outputs are compared with f64 references")),
    }
}

/// Both NaN, or equal and not finite.
fn alike(got: f64, yardstick: f64) -> bool {
    got.is_nan() && yardstick.is_nan() || !got.is_finite() && got == yardstick
}

/// The elements of an output from `offset` on, in memory that held `poison` before.
#[derive(Clone, Copy)]
struct Stretch<'a> {
    view: &'a View<'a>,
    offset: usize,
    poison: u8,
}

fn floats<T: Element>(
    measured: &mut Measured,
    stretch: Stretch<'_>,
    reference: &[f64],
    excuse: &(dyn Fn(usize, f64) -> bool + Sync),
    widen: fn(T) -> f64,
    round: fn(f64) -> f64,
) -> Result<Option<Mismatch>> {
    let Stretch { view, offset, poison } = stretch;
    let all = view.tensor.as_slice::<T>()?;
    let got = all.get(offset..offset + reference.len()).unwrap_or_default();
    if got.len() != reference.len() {
        return Err(Error::unexpected(
            "an output has fewer elements than the reference",
        ));
    }
    let is_right = |g: f64, r: f64| {
        // A value beyond the type's range is rightly infinite.
        let r = round(r);
        g.is_nan() && r.is_nan() || g == r
    };
    let differs = |(_, (g, r)): &(usize, (&T, &f64))| {
        let g = widen(**g);
        !(g.is_finite() && r.is_finite() || is_right(g, **r))
    };
    let all = got.par_iter().zip(reference).enumerate();
    let special: Vec<usize> = all.filter(differs).map(|(i, _)| i).collect();
    let wrong = special.par_iter().filter(|i| !excuse(**i, widen(got[**i])));
    if let Some(i) = wrong.min().copied() {
        let element = got[i];
        let bytes = bytemuck::bytes_of(&element);
        return Ok(Some(Mismatch {
            index: offset + i,
            got: widen(element).to_string(),
            expected: reference[i].to_string(),
            poison: bytes.iter().all(|b| *b == poison),
        }));
    }
    measured.overflowed += special.len() as u64;
    let element = |i: usize| {
        if view.undecided.contains(&(offset + i)) {
            f64::NAN
        } else {
            widen(got[i])
        }
    };
    measured.add(
        &view.layout,
        view.resolution.slack,
        1.0,
        offset,
        reference,
        element,
    );
    Ok(None)
}

fn exact<T: Element>(
    output: &Tensor,
    offset: usize,
    reference: &[i64],
    excuse: &(dyn Fn(usize, i64) -> bool + Sync),
    widen: impl Fn(T) -> i64 + Sync,
) -> Result<Option<Mismatch>> {
    let all = output.as_slice::<T>()?;
    let got = all.get(offset..).unwrap_or_default();
    let wrong = got
        .par_iter()
        .zip(reference)
        .enumerate()
        .position_first(|(i, (g, r))| widen(*g) != *r && !excuse(i, widen(*g)));
    Ok(wrong.map(|i| Mismatch {
        index: offset + i,
        got: widen(got[i]).to_string(),
        expected: reference[i].to_string(),
        poison: false,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(data: Buffer, shape: usize) -> Outcome {
        Outcome {
            dtype: DType::F32,
            shape: vec![shape],
            data,
        }
    }

    fn judge(got: &[f32], reference: &[f64], yardstick: Option<&[f32]>) -> (Option<usize>, ErrorMeasure) {
        let mut measured = Measured::default();
        let output = Tensor::from_slice([got.len()], got).unwrap();
        let reference = outcome(Buffer::F64(reference.to_vec()), got.len());
        let yardstick = yardstick.map(|y| outcome(Buffer::F32(y.to_vec()), got.len()));
        let view = View {
            layout: Layout::new(output.shape()),
            resolution: Resolution::new(DType::F32, None, Accuracy::Fp32),
            tensor: &output,
            undecided: Arc::default(),
        };
        let wrong = compare(&mut measured, &view, 0, &reference, yardstick.as_ref(), 0xff).unwrap();
        (wrong.map(|w| w.index), measured.error())
    }

    #[test]
    fn overflow_neither_hides_errors_nor_counts_as_one() {
        let reference = [1e200, 1.0, -1.0, 2.0];
        let (wrong, error) = judge(&[f32::INFINITY, 1.0, -1.0, 2.0], &reference, None);
        assert_eq!((wrong, error.max), (None, 0.0));
        let (wrong, error) = judge(&[f32::INFINITY, 1.0, -1.0, 3.0], &reference, None);
        assert!(wrong.is_none() && error.max > 0.1, "{error:?}");
        let (wrong, _) = judge(&[f32::NEG_INFINITY, 1.0, -1.0, 2.0], &reference, None);
        assert_eq!(wrong, Some(0));
    }

    #[test]
    fn what_the_class_cannot_keep_finite_is_excused() {
        let (reference, got) = ([1.0, 2.0], [f32::NAN, 2.0]);
        assert_eq!(judge(&got, &reference, None).0, Some(0));
        assert_eq!(judge(&got, &reference, Some(&[f32::NAN, 2.0])).0, None);
        assert_eq!(judge(&got, &reference, Some(&[f32::INFINITY, 2.0])).0, Some(0));
        assert_eq!(
            judge(&[1.0, f32::NAN], &reference, Some(&[f32::NAN, 2.0])).0,
            Some(1)
        );
    }
}
