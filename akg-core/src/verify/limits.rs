//! The accuracy classes.

use super::measure::Measured;
use super::tally::Tally;
use crate::dtype::DType;
use crate::reference::{Options, Precision, Rounding};
use crate::task::Accuracy;
use crate::verdict::ErrorMeasure;

/// The evaluation whose error against f64 sets the limits of a class.
pub(super) fn yardstick(accuracy: Accuracy) -> Options {
    let round = |r| Options {
        round_inputs: Some(r),
        ..Options::default()
    };
    match accuracy {
        Accuracy::Fp32 => Options {
            precision: Precision::F32Pairwise,
            ..Options::default()
        },
        Accuracy::Tf32 => round(Rounding::TF32),
        Accuracy::Half => round(Rounding::BF16),
    }
}

/// The part of themselves that inputs are known up to in the arithmetic of a class: one or two units in the last place.
pub(super) fn input_unit(accuracy: Accuracy) -> f64 {
    match accuracy {
        Accuracy::Fp32 => f64::from(f32::EPSILON),
        Accuracy::Tf32 => 2f64.powi(-11),
        Accuracy::Half => 2f64.powi(-8),
    }
}

/// What the type of an output, and of what it is computed from, leaves undecided.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Resolution {
    /// The unit roundoff of an element.
    unit: f64,
    /// Half of the smallest number above 0.
    underflow: f64,
    /// What no element's error is counted below, in its groups.
    pub(super) slack: Slack,
    /// The factor on the yardstick's errors.
    pub(super) yard_scale: f64,
    /// The error that every element may have, as a part of the output's root mean square.
    floor: f64,
    /// The factor on the yardstick's error in a group of one element.
    one: f64,
    /// The output is computed in f64.
    pub(super) is_double: bool,
}

/// The error of an element that is none: a part of its magnitude, and the smallest normal numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Slack {
    relative: f64,
    absolute: f64,
}

/// Roundings that an element may be off by whatever its value: functions of vendors err by up to four units in the last place.
const ROUNDINGS: f64 = 8.0;

/// One unit roundoff of f64 in those of f32: errors of first order are as much smaller.
const DOUBLE: f64 = 1.0 / (1u64 << 29) as f64;

impl Slack {
    /// Every error counts.
    pub(super) const NONE: Self = Self {
        relative: 0.0,
        absolute: 0.0,
    };

    #[inline(always)]
    pub(super) fn of(self, value: f64) -> f64 {
        self.relative * value.abs() + self.absolute
    }
}

impl Resolution {
    /// The resolution of an output of `dtype` in a class; with `terms`, of one that is computed in f64 and adds up as many terms at most.
    ///
    /// A sum of n terms in f64 errs by at most n·u·Σ|terms|, in whatever order. The f64 reference is such a sum, too, so the
    /// yardstick of f64 is the error of single precision, scaled to the unit roundoff of f64 and multiplied by n.
    pub(super) fn new(dtype: DType, terms: Option<f64>, accuracy: Accuracy) -> Self {
        let single = f64::from(f32::EPSILON) / 2.0;
        let unit = dtype.unit_roundoff().unwrap_or(0.0);
        if let Some(terms) = terms {
            return Self {
                unit,
                underflow: f64::MIN_POSITIVE,
                slack: Slack {
                    relative: ROUNDINGS * unit,
                    absolute: 4.0 * f64::MIN_POSITIVE,
                },
                yard_scale: terms * DOUBLE,
                floor: SMALL_GROUP * terms * unit,
                one: SMALL_GROUP,
                is_double: true,
            };
        }
        let underflow = match dtype {
            DType::F16 => 2f64.powi(-25),
            DType::BF16 => 2f64.powi(-134),
            _ => 2f64.powi(-150),
        };
        // A result of single precision is then rounded to a shorter type.
        let shorter = if unit > single { 2.0 * unit } else { 0.0 };
        Self {
            unit: unit.max(single),
            underflow,
            slack: Slack {
                relative: ROUNDINGS * single + shorter,
                // Devices may give zero for what is below the normal numbers.
                absolute: 4.0 * underflow.max(f64::from(f32::MIN_POSITIVE)),
            },
            yard_scale: 1.0,
            floor: 0.0,
            one: match accuracy {
                Accuracy::Fp32 => SMALL_GROUP,
                Accuracy::Tf32 | Accuracy::Half => SMALL_ROUNDED_GROUP,
            },
            is_double: false,
        }
    }

    /// The errors that groups of an output of this root mean square may have.
    pub(super) fn allowance(&self, magnitude: f64) -> Allowance {
        Allowance {
            floor: self.floor * magnitude,
            one: self.one,
        }
    }
}

/// Sums of a hundred terms in order, which are within a class on random data, are within it on rows of repeated numbers, too.
const BEYOND: f64 = 4.0;

/// The largest error that a class allows, from the error of its [`yardstick`] and the output's own rounding.
///
/// `fp32` allows 2x the rms and 4x the maximum. The rounded classes allow 5e-4 and 4e-3 rms on a single product, where
/// rounding both operands alone gives 2.9e-4 and 2.3e-3; the same ratio of 1.75 to the error of rounded inputs holds
/// for every graph, which scales the limit by the graph's conditioning. `fp32` is always enough for the others.
///
/// An rms over few elements is as uncertain as their maximum: Σe² of n of them with deviation σ is nσ², give or take
/// σ²·√(2n). So the square of the factor on the rms goes from its own to that of the maximum with 1/√n, where n is the
/// number of elements that make up the yardstick's error (its [concentration](Measured::concentration)).
///
/// A class speaks of data as the contract describes them. On other data, such as rows of one repeated number, sums in order round
/// the same way each time; there the factors are [`BEYOND`] times as large.
pub(super) fn limit(
    accuracy: Accuracy,
    yardstick: &Measured,
    resolution: &Resolution,
    is_beyond: bool,
) -> ErrorMeasure {
    let own = yardstick.own_rounding(resolution.unit, resolution.underflow);
    let error = yardstick.error();
    let (rms, max): (f64, f64) = match accuracy {
        Accuracy::Fp32 => (2.0, 4.0),
        Accuracy::Tf32 | Accuracy::Half => (1.75, 4.0),
    };
    let times = if is_beyond { BEYOND } else { 1.0 };
    let (rms, max) = (times * rms, times * max);
    ErrorMeasure {
        rms: (between(rms, max, yardstick.concentration()) * error.rms).max(rms * own.rms),
        max: max * error.max.max(own.max),
    }
}

/// The factors on the error of the yardstick in a group of many elements, and of one. They are larger than those of the whole: there
/// are many groups, of which none may fail by chance, and what they are for is larger by orders of magnitude.
///
/// In single precision, the yardstick of one element is a pairwise sum, and an honest kernel adds up one after the other, which errs
/// by many times as much. In the rounded classes the yardstick's operands are rounded, which errs by as much in any order.
const LARGE_GROUP: f64 = 4.0;
const SMALL_GROUP: f64 = 64.0;
const SMALL_ROUNDED_GROUP: f64 = 16.0;

/// The errors that a group may have.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Allowance {
    /// Whatever the yardstick's errors are.
    pub(super) floor: f64,
    /// Times that of the yardstick, in a group of one element.
    pub(super) one: f64,
}

impl Allowance {
    /// The largest rms of errors in a group, from those of the yardstick.
    pub(super) fn limit(self, yardstick: &Tally) -> f64 {
        between(LARGE_GROUP, self.one, yardstick.concentration()) * yardstick.rms()
    }
}

/// The factor on an rms that rests on few elements.
fn between(many: f64, one: f64, concentration: f64) -> f64 {
    (many.powi(2) + (one.powi(2) - many.powi(2)) * concentration.sqrt()).sqrt()
}
