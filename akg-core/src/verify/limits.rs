//! The accuracy classes.

use super::measure::Measured;
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

/// The largest error that a class allows, from the error of its [`yardstick`] and the output's own rounding.
///
/// `fp32` allows 2x the rms and 4x the maximum. The rounded classes allow 5e-4 and 4e-3 rms on a single product, where
/// rounding both operands alone gives 2.9e-4 and 2.3e-3; the same ratio of 1.75 to the error of rounded inputs holds
/// for every graph, which scales the limit by the graph's conditioning. `fp32` is always enough for the others.
///
/// An rms over few elements is as uncertain as their maximum: Σe² of n of them with deviation σ is nσ², give or take
/// σ²·√(2n). So the square of the factor on the rms goes from its own to that of the maximum with 1/√n, where n is the
/// number of elements that make up the yardstick's error (its [concentration](Measured::concentration)).
pub(super) fn limit(accuracy: Accuracy, yardstick: &Measured, dtype: DType) -> ErrorMeasure {
    let unit = dtype
        .unit_roundoff()
        .unwrap_or(0.0)
        .max(f64::from(f32::EPSILON) / 2.0);
    // Half of the smallest number above 0.
    let underflow = match dtype {
        DType::F16 => 2f64.powi(-25),
        DType::BF16 => 2f64.powi(-134),
        _ => 2f64.powi(-150),
    };
    let (own, error) = (yardstick.own_rounding(unit, underflow), yardstick.error());
    let (rms, max): (f64, f64) = match accuracy {
        Accuracy::Fp32 => (2.0, 4.0),
        Accuracy::Tf32 | Accuracy::Half => (1.75, 4.0),
    };
    let chance = yardstick.concentration().sqrt();
    let uncertain = (rms.powi(2) + (max.powi(2) - rms.powi(2)) * chance).sqrt();
    ErrorMeasure {
        rms: (uncertain * error.rms).max(rms * own.rms),
        max: max * error.max.max(own.max),
    }
}
