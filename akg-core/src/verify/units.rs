//! Errors in units of what rounding can do at each element.

use std::collections::BTreeMap;

use half::{bf16, f16};

use super::measure::Mismatch;
use super::scores::{MAX, Scored, Scores, band};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::reference::{Buffer, Outcome};
use crate::tensor::{Element, Tensor};

/// Elements of a run at least, if an output has as many: the last axis, and those before it until there are enough.
const RUN_FROM: usize = 64;

/// The part of the elements of a band whose distances are at most the one that counts for all of them. Some may be
/// where a result jumps.
const STEADY: f64 = 0.75;

/// The elements of one output, or of a stretch of it, by every evaluation.
pub(super) struct Elements<'a> {
    pub(super) wide: &'a Outcome,
    pub(super) rounded: &'a Outcome,
    /// The wide reading in the arithmetic of the class.
    pub(super) class: &'a Outcome,
    /// The rounded reading with every result rounded up or down at random, equal ones alike, and each by itself.
    pub(super) alike: Vec<&'a Outcome>,
    pub(super) apart: Vec<&'a Outcome>,
}

/// Unit roundoff and half of the smallest number above 0 of a floating type; f32's at least.
fn resolution(dtype: DType) -> (f64, f64) {
    let unit = dtype.unit_roundoff().unwrap_or(0.0);
    let underflow = match dtype {
        DType::F16 => -25,
        DType::BF16 => -134,
        _ => -150,
    };
    (unit.max(f64::from(f32::EPSILON) / 2.0), 2f64.powi(underflow))
}

/// Rounds to a floating type.
fn round_to(dtype: DType, value: f64) -> f64 {
    match dtype {
        DType::F16 => f16::from_f32(value as f32).to_f64(),
        DType::BF16 => bf16::from_f32(value as f32).to_f64(),
        DType::F32 => f64::from(value as f32),
        _ => value,
    }
}

/// Both NaN, or equal.
fn is_same(a: f64, b: f64) -> bool {
    a == b || a.is_nan() && b.is_nan()
}

fn floats(outcome: &Outcome) -> Result<&[f64]> {
    match &outcome.data {
        Buffer::F64(values) => Ok(values),
        _ => Err(Error::unexpected("readings are evaluated in f64")),
    }
}

impl Elements<'_> {
    /// Compares elements of `output` from `offset` on, and adds their errors to `scores`. The first element that no
    /// evaluation has is returned.
    pub(super) fn compare(
        &self,
        output: &Tensor,
        offset: usize,
        poison: u8,
        scores: &mut Scores,
    ) -> Result<Option<Mismatch>> {
        let count: usize = self.wide.shape.iter().product();
        let size = output.dtype().size();
        let wrong = match output.dtype() {
            DType::F16 => self.floats(
                &stretch(output, offset, count, f16::to_f64)?,
                output,
                offset,
                scores,
            ),
            DType::BF16 => self.floats(
                &stretch(output, offset, count, bf16::to_f64)?,
                output,
                offset,
                scores,
            ),
            DType::F32 => self.floats(
                &stretch(output, offset, count, |v: f32| v.into())?,
                output,
                offset,
                scores,
            ),
            DType::F64 => self.floats(
                &stretch(output, offset, count, |v: f64| v)?,
                output,
                offset,
                scores,
            ),
            DType::U8 => self.integers(&stretch(output, offset, count, |v: u8| v.into())?, offset),
            DType::I8 => self.integers(&stretch(output, offset, count, |v: i8| v.into())?, offset),
            DType::I16 => self.integers(&stretch(output, offset, count, |v: i16| v.into())?, offset),
            DType::I32 => self.integers(&stretch(output, offset, count, |v: i32| v.into())?, offset),
            DType::I64 => self.integers(&stretch(output, offset, count, |v: i64| v)?, offset),
            DType::Bool => {
                let bytes = output.bytes().get(offset..offset + count).unwrap_or_default();
                self.integers(&bytes.iter().map(|b| i64::from(*b)).collect::<Vec<_>>(), offset)
            }
        }?;
        Ok(wrong.map(|(index, got, expected)| {
            let bytes = output
                .bytes()
                .get(index * size..(index + 1) * size)
                .unwrap_or_default();
            Mismatch {
                index,
                got,
                expected,
                poison: output.dtype().is_float() && bytes.iter().all(|b| *b == poison),
            }
        }))
    }

    fn integers(&self, got: &[i64], offset: usize) -> Result<Option<(usize, String, String)>> {
        let values = |outcome: &Outcome| -> Result<Vec<i64>> {
            match &outcome.data {
                Buffer::Int(values) => Ok(values.clone()),
                Buffer::Bool(values) => Ok(values.iter().map(|v| i64::from(*v)).collect()),
                _ => Err(Error::unexpected("a floating reference for an exact output")),
            }
        };
        let all: Vec<Vec<i64>> = [self.rounded, self.wide, self.class]
            .into_iter()
            .chain(self.alike.iter().chain(&self.apart).copied())
            .map(values)
            .collect::<Result<_>>()?;
        let is_right = |i: usize, got: i64| all.iter().any(|values| values.get(i) == Some(&got));
        let wrong = got.iter().enumerate().find(|(i, got)| !is_right(*i, **got));
        let expected = |i: usize| {
            all.first()
                .and_then(|values| values.get(i))
                .copied()
                .unwrap_or_default()
        };
        Ok(wrong.map(|(i, got)| (offset + i, got.to_string(), expected(i).to_string())))
    }

    fn floats(
        &self,
        got: &[f64],
        output: &Tensor,
        offset: usize,
        scores: &mut Scores,
    ) -> Result<Option<(usize, String, String)>> {
        let run = run_of(output.shape());
        let class = self.class.to_f64();
        let all = Floats {
            dtype: output.dtype(),
            wide: floats(self.wide)?,
            rounded: floats(self.rounded)?,
            class: &class,
            alike: self.alike.iter().map(|o| floats(o)).collect::<Result<_>>()?,
            apart: self.apart.iter().map(|o| floats(o)).collect::<Result<_>>()?,
        };
        let mut start = 0;
        while start < got.len() {
            let first = (offset + start) % run;
            let end = (start + run - first).min(got.len());
            let distances: Vec<Distance> = (start..end).map(|i| all.distance(i)).collect();
            let steady = Steady::of(&distances);
            let mut scored = Vec::with_capacity(end - start);
            for (i, distance) in (start..end).zip(&distances) {
                let value = got.get(i).copied().unwrap_or(f64::NAN);
                let unit = distance.unit(&steady);
                let Some(error) = all.error(i, value, unit) else {
                    let expected = Floats::at(all.rounded, i);
                    return Ok(Some((offset + i, value.to_string(), expected.to_string())));
                };
                if distance.base.is_finite() && value.is_finite() {
                    scored.push(Scored {
                        index: offset + i,
                        column: first + i - start,
                        got: value,
                        expected: distance.base,
                        error,
                        unit,
                    });
                }
            }
            scores.add_run(run, &scored);
            start = end;
        }
        Ok(None)
    }
}

/// Elements of a run of an output of this shape.
fn run_of(shape: &[usize]) -> usize {
    let mut run = 1;
    for extent in shape.iter().rev() {
        if run >= RUN_FROM {
            break;
        }
        run *= (*extent).max(1);
    }
    run
}

/// `count` elements from `offset` on.
fn stretch<T: Element, V>(
    output: &Tensor,
    offset: usize,
    count: usize,
    widen: impl Fn(T) -> V,
) -> Result<Vec<V>> {
    let all = output.as_slice::<T>()?;
    let part = all.get(offset..offset + count);
    let part = part.ok_or_else(|| Error::unexpected("an output has fewer elements than the reference"))?;
    Ok(part.iter().map(|v| widen(*v)).collect())
}

/// Floating elements by every evaluation.
struct Floats<'a> {
    dtype: DType,
    wide: &'a [f64],
    rounded: &'a [f64],
    class: &'a [f64],
    alike: Vec<&'a [f64]>,
    apart: Vec<&'a [f64]>,
}

/// The distances between evaluations of one element.
#[derive(Debug, Clone, Copy)]
struct Distance {
    /// The rounded reading, or the wide one where that is not finite.
    base: f64,
    /// Between the base and perturbed evaluations, root mean square; the larger of both ways to perturb.
    perturbed: f64,
    /// Between the wide reading in f64 and in the class's arithmetic.
    class: f64,
    /// The rounding of the element itself.
    own: f64,
}

/// The distances that most elements of a band have at most.
struct Steady {
    perturbed: BTreeMap<u64, f64>,
    class: BTreeMap<u64, f64>,
}

impl Steady {
    fn of(distances: &[Distance]) -> Self {
        let most = |of: fn(&Distance) -> f64| {
            let mut bands: BTreeMap<u64, Vec<f64>> = Default::default();
            for distance in distances.iter().filter(|d| d.base.is_finite()) {
                bands.entry(band(distance.base)).or_default().push(of(distance));
            }
            let most = |mut values: Vec<f64>| {
                let at = ((values.len() - 1) as f64 * STEADY).ceil() as usize;
                *values.select_nth_unstable_by(at, f64::total_cmp).1
            };
            bands
                .into_iter()
                .map(|(band, values)| (band, most(values)))
                .collect()
        };
        Self {
            perturbed: most(|d| d.perturbed),
            class: most(|d| d.class),
        }
    }
}

impl Distance {
    /// What rounding can do at this element.
    fn unit(&self, steady: &Steady) -> f64 {
        let of = |bands: &BTreeMap<u64, f64>| bands.get(&band(self.base)).copied().unwrap_or(0.0);
        let parts = [
            self.own,
            self.perturbed,
            self.class,
            of(&steady.perturbed),
            of(&steady.class),
        ];
        parts.iter().map(|part| part * part).sum::<f64>().sqrt()
    }
}

impl Floats<'_> {
    fn perturbed(&self) -> impl Iterator<Item = &[f64]> {
        self.alike.iter().chain(&self.apart).copied()
    }

    fn at(values: &[f64], i: usize) -> f64 {
        values.get(i).copied().unwrap_or(f64::NAN)
    }

    fn distance(&self, i: usize) -> Distance {
        let (wide, rounded) = (Self::at(self.wide, i), Self::at(self.rounded, i));
        let base = if rounded.is_finite() { rounded } else { wide };
        let distance = |values: &[f64]| Some((Self::at(values, i) - base).abs()).filter(|d| d.is_finite());
        let spread = |perturbed: &[&[f64]]| {
            let distances: Vec<f64> = perturbed.iter().filter_map(|values| distance(values)).collect();
            let squares: f64 = distances.iter().map(|d| d * d).sum();
            (squares / distances.len().max(1) as f64).sqrt()
        };
        let class = (Self::at(self.class, i) - wide).abs();
        let (unit, underflow) = resolution(self.dtype);
        Distance {
            base,
            perturbed: spread(&self.alike).max(spread(&self.apart)),
            class: if class.is_finite() { class } else { 0.0 },
            own: unit * base.abs() + underflow,
        }
    }

    /// The distance of `got` to the nearer reading; `None` if it is wrong under any tolerance: infinite, NaN or finite where
    /// no evaluation is.
    fn error(&self, i: usize, got: f64, unit: f64) -> Option<f64> {
        let (wide, rounded) = (Self::at(self.wide, i), Self::at(self.rounded, i));
        let round = |value: f64| round_to(self.dtype, value);
        if !got.is_finite() {
            let mut all = [rounded, wide, Self::at(self.class, i)]
                .into_iter()
                .chain(self.perturbed().map(|values| Self::at(values, i)));
            return all.any(|value| is_same(round(value), got)).then_some(0.0);
        }
        let distance = |value: f64| {
            let finite = value.is_finite() && round(value).is_finite();
            finite.then(|| (got - value).abs())
        };
        let nearest = |a: Option<f64>, b: Option<f64>| match (a, b) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        // Where neither reading is finite, a perturbed one may be.
        nearest(distance(rounded), distance(wide)).or_else(|| {
            let perturbed = self
                .perturbed()
                .filter_map(|values| distance(Self::at(values, i)));
            perturbed
                .fold(None, |best, d| nearest(best, Some(d)))
                .filter(|d| *d <= MAX * unit)
        })
    }
}
