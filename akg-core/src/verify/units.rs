//! Errors in units of what rounding can do at each element.

use half::{bf16, f16};

use super::measure::Mismatch;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::reference::{Buffer, Outcome};
use crate::tensor::Tensor;
use crate::verdict::ErrorMeasure;

/// The largest root mean square of a group of many elements, and the largest error of one element, in units.
const RMS: f64 = 1.5;
const MAX: f64 = 5.0;

/// Elements of a run at least, if an output has as many: the last axis, and those before it until there are enough.
const RUN_FROM: usize = 64;

/// Groups of columns at most.
const COLUMNS: usize = 256;

/// The part of the elements of a band whose distances are at most the one that counts for all of them. Some may be
/// where a result jumps.
const STEADY: f64 = 0.75;

/// The elements of one output, or of a stretch of it, by every evaluation.
pub(super) struct Elements<'a> {
    pub(super) wide: &'a Outcome,
    pub(super) rounded: &'a Outcome,
    /// The wide reading in the arithmetic of the class.
    pub(super) class: &'a Outcome,
    pub(super) perturbed: Vec<&'a Outcome>,
}

/// Errors of the elements of an output.
#[derive(Debug, Clone, Default)]
pub(super) struct Scores {
    whole: Tally,
    columns: Vec<Tally>,
    bands: std::collections::BTreeMap<u64, Tally>,
    /// The run whose errors are the most beyond what they may be.
    row: Option<Tally>,
    /// Sums over elements: of the expected, of its square, of squared errors, and of squared units.
    sum: f64,
    squares: f64,
    errors: f64,
    units: f64,
    largest_error: f64,
    largest_unit: f64,
    /// Elements that are infinite or NaN as a rounded evaluation is, where the wide one is finite.
    pub(super) overflowed: u64,
}

/// Errors of a group of elements, in units.
#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    count: u64,
    squares: f64,
    max: f64,
    /// The element with the largest error.
    worst: Worst,
}

#[derive(Debug, Clone, Copy, Default)]
struct Worst {
    index: usize,
    got: f64,
    expected: f64,
}

/// A group of elements whose errors are too large.
#[derive(Debug)]
pub(super) struct Excess {
    /// `row`, `column 5`: which elements.
    pub(super) group: String,
    /// The root mean square and the maximum of the errors in units, and the largest that they may be.
    pub(super) error: ErrorMeasure,
    pub(super) limit: ErrorMeasure,
    /// The number, value and expected value of the worst element.
    pub(super) index: usize,
    pub(super) got: f64,
    pub(super) expected: f64,
}

impl Tally {
    fn add(&mut self, units: f64, worst: Worst) {
        self.count += 1;
        self.squares += units * units;
        if units >= self.max {
            self.max = units;
            self.worst = worst;
        }
    }

    fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.squares += other.squares;
        if other.max >= self.max {
            self.max = other.max;
            self.worst = other.worst;
        }
    }

    fn error(&self) -> ErrorMeasure {
        ErrorMeasure {
            rms: (self.squares / self.count.max(1) as f64).sqrt(),
            max: self.max,
        }
    }

    /// The largest error of a group: the root mean square of few elements is as uncertain as their maximum.
    fn limit(&self) -> ErrorMeasure {
        let few = (self.count.max(1) as f64).sqrt().recip();
        ErrorMeasure {
            rms: (RMS.powi(2) + (MAX.powi(2) - RMS.powi(2)) * few).sqrt(),
            max: MAX,
        }
    }

    /// The largest part of a limit that an error is; more than 1 is too much.
    fn excess(&self) -> f64 {
        let (error, limit) = (self.error(), self.limit());
        (error.rms / limit.rms).max(error.max / limit.max)
    }
}

impl Scores {
    /// Adds what was found in other elements.
    pub(super) fn merge(&mut self, other: &Self) {
        self.whole.merge(&other.whole);
        self.columns
            .resize(self.columns.len().max(other.columns.len()), Tally::default());
        for (column, other) in self.columns.iter_mut().zip(&other.columns) {
            column.merge(other);
        }
        for (band, other) in &other.bands {
            self.bands.entry(*band).or_default().merge(other);
        }
        other.row.iter().for_each(|row| self.add_row(*row));
        self.sum += other.sum;
        self.squares += other.squares;
        self.errors += other.errors;
        self.units += other.units;
        self.largest_error = self.largest_error.max(other.largest_error);
        self.largest_unit = self.largest_unit.max(other.largest_unit);
        self.overflowed += other.overflowed;
    }

    fn add_row(&mut self, row: Tally) {
        if self.row.is_none_or(|before| before.excess() < row.excess()) {
            self.row = Some(row);
        }
    }

    /// The root mean square of all errors, in units.
    pub(super) fn rms(&self) -> f64 {
        self.whole.error().rms
    }

    /// The error of the output and its limit, relative to the spread of the expected values.
    pub(super) fn measures(&self) -> (ErrorMeasure, ErrorMeasure) {
        let n = self.whole.count.max(1) as f64;
        let spread = (self.squares / n - (self.sum / n).powi(2)).max(0.0).sqrt();
        let norm = if spread > 0.0 {
            spread
        } else {
            (self.squares / n).sqrt()
        };
        let norm = if norm > 0.0 { norm } else { 1.0 };
        let measure = |squares: f64, max: f64| ErrorMeasure {
            rms: (squares / n).sqrt() / norm,
            max: max / norm,
        };
        let error = measure(self.errors, self.largest_error);
        (error, measure(self.units * RMS * RMS, self.largest_unit * MAX))
    }

    /// A group of elements whose errors are too large.
    pub(super) fn excess(&self) -> Option<Excess> {
        let columns = self.columns.iter().enumerate();
        let columns = columns.map(|(i, tally)| (format!("column {i}"), tally));
        let bands = self.bands.iter().map(|(band, tally)| (magnitude(*band), tally));
        let row = self.row.iter().map(|tally| ("row".to_owned(), tally));
        let whole = std::iter::once(("all elements".to_owned(), &self.whole));
        let mut groups = whole.chain(row).chain(columns).chain(bands);
        let (group, tally) = groups.find(|(_, tally)| tally.excess() > 1.0 || tally.squares.is_nan())?;
        Some(Excess {
            group,
            error: tally.error(),
            limit: tally.limit(),
            index: tally.worst.index,
            got: tally.worst.got,
            expected: tally.worst.expected,
        })
    }
}

/// The band of a magnitude, of four powers of two.
fn band(value: f64) -> u64 {
    value.to_bits() >> 54 & 0x1ff
}

fn magnitude(band: u64) -> String {
    let from = band as i64 * 4 - 1023;
    format!("magnitudes from 2^{from}")
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
            .chain(self.perturbed.iter().copied())
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
            perturbed: self.perturbed.iter().map(|o| floats(o)).collect::<Result<_>>()?,
        };
        let together = run.div_ceil(COLUMNS);
        scores.columns.resize(run.div_ceil(together), Tally::default());
        let mut start = 0;
        while start < got.len() {
            let end = (start + run - (offset + start) % run).min(got.len());
            let distances: Vec<Distance> = (start..end).map(|i| all.distance(i)).collect();
            let steady = Steady::of(&distances);
            let mut row = Tally::default();
            for (i, distance) in (start..end).zip(&distances) {
                let value = got.get(i).copied().unwrap_or(f64::NAN);
                let unit = distance.unit(&steady);
                let Some(error) = all.error(i, value, unit) else {
                    let expected = all.expected(i);
                    return Ok(Some((offset + i, value.to_string(), expected.to_string())));
                };
                if !distance.base.is_finite() || !value.is_finite() {
                    scores.overflowed += u64::from(distance.wide_is_finite && !value.is_finite());
                    continue;
                }
                let units = error / unit;
                let worst = Worst {
                    index: offset + i,
                    got: value,
                    expected: all.expected(i),
                };
                row.add(units, worst);
                scores
                    .bands
                    .entry(band(distance.base))
                    .or_default()
                    .add(units, worst);
                let column = (offset + i) % run / together;
                if let Some(column) = scores.columns.get_mut(column) {
                    column.add(units, worst);
                }
                scores.sum += distance.base;
                scores.squares += distance.base.powi(2);
                scores.errors += error * error;
                scores.units += unit * unit;
                scores.largest_error = scores.largest_error.max(error);
                scores.largest_unit = scores.largest_unit.max(unit);
            }
            scores.whole.merge(&row);
            scores.add_row(row);
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
fn stretch<T: crate::tensor::Element, V>(
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
    perturbed: Vec<&'a [f64]>,
}

/// The distances between evaluations of one element.
#[derive(Debug, Clone, Copy)]
struct Distance {
    /// The rounded reading, or the wide one where that is not finite.
    base: f64,
    wide_is_finite: bool,
    /// Between the base and perturbed evaluations, root mean square.
    perturbed: f64,
    /// Between the wide reading in f64 and in the class's arithmetic.
    class: f64,
    /// The rounding of the element itself.
    own: f64,
}

/// The distances that most elements of a band have at most.
struct Steady {
    perturbed: std::collections::BTreeMap<u64, f64>,
    class: std::collections::BTreeMap<u64, f64>,
}

impl Steady {
    fn of(distances: &[Distance]) -> Self {
        let most = |of: fn(&Distance) -> f64| {
            let mut bands: std::collections::BTreeMap<u64, Vec<f64>> = Default::default();
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
        let of = |bands: &std::collections::BTreeMap<u64, f64>| {
            bands.get(&band(self.base)).copied().unwrap_or(0.0)
        };
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
    fn at(values: &[f64], i: usize) -> f64 {
        values.get(i).copied().unwrap_or(f64::NAN)
    }

    /// The rounded reading.
    fn expected(&self, i: usize) -> f64 {
        Self::at(self.rounded, i)
    }

    fn distance(&self, i: usize) -> Distance {
        let (wide, rounded) = (Self::at(self.wide, i), Self::at(self.rounded, i));
        let base = if rounded.is_finite() { rounded } else { wide };
        let apart = |values: &[f64]| Some((Self::at(values, i) - base).abs()).filter(|d| d.is_finite());
        let perturbed: Vec<f64> = self.perturbed.iter().filter_map(|values| apart(values)).collect();
        let squares: f64 = perturbed.iter().map(|d| d * d).sum();
        let class = (Self::at(self.class, i) - wide).abs();
        let (unit, underflow) = resolution(self.dtype);
        Distance {
            base,
            wide_is_finite: round_to(self.dtype, wide).is_finite(),
            perturbed: (squares / perturbed.len().max(1) as f64).sqrt(),
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
                .chain(self.perturbed.iter().map(|values| Self::at(values, i)));
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
                .perturbed
                .iter()
                .filter_map(|values| distance(Self::at(values, i)));
            perturbed
                .fold(None, |best, d| nearest(best, Some(d)))
                .filter(|d| *d <= MAX * unit)
        })
    }
}
