//! Elementary functions that have no instruction of their own: by exponentials, logarithms and polynomials, to a few units
//! in the last place of single and of double precision, relative to each result.

use std::f64::consts::{FRAC_PI_2, FRAC_PI_4, LN_2, PI};

use super::pointwise::{operand, operands};
use super::{Rule, Step};
use crate::designer::prim::{PrimId, Prims};
use crate::dtype::DType;
use crate::error::Result;
use crate::sketch::ir::{BinaryOp, CompareOp, UnaryOp};

/// The rules of the operators.
pub(super) const RULES: &[(&str, Rule)] = &[
    ("atan", |s| of_magnitude(s, arc_tangent)),
    ("asin", |s| {
        // Half of the angle has the tangent x / (1 + sqrt(1 - x^2)).
        let x = operand(s, "self")?;
        let root = root_of_rest(s.prims, x)?;
        let whole = s.prims.add_number(root, 1.0)?;
        let tangent = s.prims.div(x, whole)?;
        let half = odd(s.prims, tangent, arc_tangent)?;
        s.prims.mul_number(half, 2.0)
    }),
    ("acos", |s| {
        let x = operand(s, "self")?;
        let root = root_of_rest(s.prims, x)?;
        angle(s.prims, root, x)
    }),
    ("atan2", |s| {
        let (y, x) = operands(s)?;
        angle(s.prims, y, x)
    }),
    ("sinh", |s| {
        of_magnitude(s, |p, x| hyperbolic(p, x, UnaryOp::Expm1))
    }),
    ("cosh", |s| {
        let x = operand(s, "self")?;
        let magnitude = s.prims.unary(UnaryOp::Abs, x)?;
        hyperbolic(s.prims, magnitude, UnaryOp::Exp)
    }),
    ("asinh", |s| of_magnitude(s, area_sine)),
    ("acosh", |s| {
        let x = operand(s, "self")?;
        area_cosine(s.prims, x)
    }),
    ("atanh", |s| of_magnitude(s, area_tangent)),
    ("erfc", |s| {
        // The factors of its tail round once more than single precision has digits for.
        let x = operand(s, "self")?;
        let x = s.prims.cast(x, DType::F64);
        complement_of_erf(s.prims, x)
    }),
];

/// The odd function of `self` that is `function` for positive arguments.
fn of_magnitude(s: &mut Step<'_>, function: fn(&mut Prims, PrimId) -> Result<PrimId>) -> Result<PrimId> {
    let x = operand(s, "self")?;
    odd(s.prims, x, function)
}

/// An odd function of which `function` computes the half of positive arguments.
fn odd(p: &mut Prims, x: PrimId, function: fn(&mut Prims, PrimId) -> Result<PrimId>) -> Result<PrimId> {
    let magnitude = p.unary(UnaryOp::Abs, x)?;
    let positive = function(p, magnitude)?;
    with_sign_of(p, positive, x)
}

fn with_sign_of(p: &mut Prims, magnitude: PrimId, x: PrimId) -> Result<PrimId> {
    let negative = p.unary(UnaryOp::Neg, magnitude)?;
    let is_below = compare(p, CompareOp::Lt, x, 0.0)?;
    p.select(is_below, negative, magnitude)
}

fn compare(p: &mut Prims, op: CompareOp, x: PrimId, number: f64) -> Result<PrimId> {
    let number = p.number(number);
    p.compare(op, x, number)
}

/// `number - x`.
fn rest(p: &mut Prims, number: f64, x: PrimId) -> Result<PrimId> {
    let number = p.number(number);
    p.sub(number, x)
}

/// `sqrt(1 - x^2)`, in which no digits cancel.
fn root_of_rest(p: &mut Prims, x: PrimId) -> Result<PrimId> {
    let below = rest(p, 1.0, x)?;
    let above = p.add_number(x, 1.0)?;
    let product = p.mul(below, above)?;
    p.unary(UnaryOp::Sqrt, product)
}

/// `coefficients[0] + coefficients[1] x + …`
fn polynomial(p: &mut Prims, coefficients: &[f64], x: PrimId) -> Result<PrimId> {
    let Some((last, others)) = coefficients.split_last() else {
        return Ok(p.number(0.0));
    };
    let mut sum = p.number(*last);
    for coefficient in others.iter().rev() {
        let product = p.mul(sum, x)?;
        sum = p.add_number(product, *coefficient)?;
    }
    Ok(sum)
}

/// `(atan(x) / x - 1) / x^2` as a polynomial in `x^2`, from its values at eleven Chebyshev points of `[0, tan²(π/8)]`.
const ARC_TANGENT: [f64; 11] = [
    -0.333_333_333_333_333_3,
    0.199_999_999_999_955_14,
    -0.142_857_142_846_651_8,
    0.111_111_110_151_467_14,
    -0.090_909_045_736_690_6,
    0.076_921_830_873_420_26,
    -0.066_645_099_898_180_44,
    0.058_581_362_519_061_46,
    -0.050_853_834_888_428_31,
    0.039_229_744_536_612_23,
    -0.019_174_543_572_021_332,
];

/// `tan(π/8)`
const TANGENT_OF_EIGHTH: f64 = 0.414_213_562_373_095_03;

/// The arc tangent of `x` from 0 to 1.
fn arc_tangent_of_fraction(p: &mut Prims, x: PrimId) -> Result<PrimId> {
    let is_large = compare(p, CompareOp::Gt, x, TANGENT_OF_EIGHTH)?;
    let (less, more) = (p.add_number(x, -1.0)?, p.add_number(x, 1.0)?);
    let turned = p.div(less, more)?;
    let tangent = p.select(is_large, turned, x)?;
    let square = p.mul(tangent, tangent)?;
    let series = polynomial(p, &ARC_TANGENT, square)?;
    let correction = p.mul(square, series)?;
    let correction = p.mul(correction, tangent)?;
    let arc = p.add(tangent, correction)?;
    let whole = p.add_number(arc, FRAC_PI_4)?;
    p.select(is_large, whole, arc)
}

/// The arc tangent of `x` from 0.
fn arc_tangent(p: &mut Prims, x: PrimId) -> Result<PrimId> {
    let is_steep = compare(p, CompareOp::Gt, x, 1.0)?;
    let one = p.number(1.0);
    let inverse = p.div(one, x)?;
    let tangent = p.select(is_steep, inverse, x)?;
    let arc = arc_tangent_of_fraction(p, tangent)?;
    let other = rest(p, FRAC_PI_2, arc)?;
    p.select(is_steep, other, arc)
}

/// The angle of the point `(x, y)`.
fn angle(p: &mut Prims, y: PrimId, x: PrimId) -> Result<PrimId> {
    let (width, height) = (p.unary(UnaryOp::Abs, x)?, p.unary(UnaryOp::Abs, y)?);
    let large = p.binary(BinaryOp::Max, width, height)?;
    let small = p.binary(BinaryOp::Min, width, height)?;
    let ratio = p.div(small, large)?;
    // Zeros and infinities have no ratio.
    let is_zero = compare(p, CompareOp::Eq, large, 0.0)?;
    let ratio = p.select(is_zero, small, ratio)?;
    let is_infinite = compare(p, CompareOp::Eq, small, f64::INFINITY)?;
    let one = p.number(1.0);
    let ratio = p.select(is_infinite, one, ratio)?;
    let arc = arc_tangent_of_fraction(p, ratio)?;
    let is_steep = p.compare(CompareOp::Gt, height, width)?;
    let other = rest(p, FRAC_PI_2, arc)?;
    let arc = p.select(is_steep, other, arc)?;
    let is_left = is_negative(p, x)?;
    let other = rest(p, PI, arc)?;
    let arc = p.select(is_left, other, arc)?;
    let negative = p.unary(UnaryOp::Neg, arc)?;
    let is_below = is_negative(p, y)?;
    p.select(is_below, negative, arc)
}

/// Tells whether `x` has a minus sign, which zeros may have, too.
fn is_negative(p: &mut Prims, x: PrimId) -> Result<PrimId> {
    let is_below = compare(p, CompareOp::Lt, x, 0.0)?;
    let is_zero = compare(p, CompareOp::Eq, x, 0.0)?;
    let one = p.number(1.0);
    let inverse = p.div(one, x)?;
    let is_inverse_below = compare(p, CompareOp::Lt, inverse, 0.0)?;
    let is_negative_zero = p.binary(BinaryOp::And, is_zero, is_inverse_below)?;
    p.binary(BinaryOp::Or, is_below, is_negative_zero)
}

/// Half of `e^x ∓ e^-x` for `x` from 0: the sine from `expm1`, the cosine from `exp`. The exponential of large arguments is a
/// product, since it alone leaves the range of its type before half of it does.
fn hyperbolic(p: &mut Prims, x: PrimId, exponential: UnaryOp) -> Result<PrimId> {
    let e = p.unary(exponential, x)?;
    let inverse = if exponential == UnaryOp::Expm1 {
        let whole = p.add_number(e, 1.0)?;
        p.div(e, whole)?
    } else {
        let one = p.number(1.0);
        p.div(one, e)?
    };
    let sum = p.add(e, inverse)?;
    let near = p.mul_number(sum, 0.5)?;
    let half = p.mul_number(x, 0.5)?;
    let root = p.unary(UnaryOp::Exp, half)?;
    let half_root = p.mul_number(root, 0.5)?;
    let far = p.mul(half_root, root)?;
    let is_far = compare(p, CompareOp::Gt, x, 40.0)?;
    p.select(is_far, far, near)
}

/// From here on, `asinh(x)` and `acosh(x)` are `log(2 x)` in double precision.
const FAR: f64 = 1e9;

/// `log(1 + excess)`; far away, where the excess may leave the range of its type, `log(2 x)`.
fn logarithm(p: &mut Prims, excess: PrimId, x: PrimId) -> Result<PrimId> {
    let near = p.unary(UnaryOp::Log1p, excess)?;
    let log = p.unary(UnaryOp::Log, x)?;
    let far = p.add_number(log, LN_2)?;
    let is_far = compare(p, CompareOp::Gt, x, FAR)?;
    p.select(is_far, far, near)
}

/// `log(x + sqrt(x^2 + 1))` for `x` from 0.
fn area_sine(p: &mut Prims, x: PrimId) -> Result<PrimId> {
    let square = p.mul(x, x)?;
    let sum = p.add_number(square, 1.0)?;
    let root = p.unary(UnaryOp::Sqrt, sum)?;
    let whole = p.add_number(root, 1.0)?;
    let excess = p.div(square, whole)?;
    let excess = p.add(x, excess)?;
    logarithm(p, excess, x)
}

/// `log(x + sqrt(x^2 - 1))`
fn area_cosine(p: &mut Prims, x: PrimId) -> Result<PrimId> {
    let (less, more) = (p.add_number(x, -1.0)?, p.add_number(x, 1.0)?);
    let (less_root, more_root) = (p.unary(UnaryOp::Sqrt, less)?, p.unary(UnaryOp::Sqrt, more)?);
    let root = p.mul(less_root, more_root)?;
    let excess = p.add(less, root)?;
    logarithm(p, excess, x)
}

/// `log((1 + x) / (1 - x)) / 2` for `x` from 0.
fn area_tangent(p: &mut Prims, x: PrimId) -> Result<PrimId> {
    let below = rest(p, 1.0, x)?;
    let double = p.mul_number(x, 2.0)?;
    let excess = p.div(double, below)?;
    let log = p.unary(UnaryOp::Log1p, excess)?;
    p.mul_number(log, 0.5)
}

/// `e^(x^2) erfc(x) / t` with `t = 1 / (1 + x / 2)` as a Chebyshev series on `t` from 0 to 0.8.
const SCALED_COMPLEMENT: [f64; 24] = [
    0.486_997_489_659_338_1,
    0.241_014_448_617_606_62,
    0.039_171_580_198_019_34,
    0.002_820_201_316_258_969_6,
    -0.000_319_002_588_014_298_5,
    -7.762_458_294_633_77e-5,
    3.904_758_903_066_749e-6,
    2.106_501_005_383_56e-6,
    -1.171_915_614_529_298_1e-7,
    -6.458_612_987_687_304e-8,
    6.547_928_118_976_531e-9,
    2.017_647_062_307_822e-9,
    -3.982_401_175_873_017e-10,
    -4.976_143_621_029_05e-11,
    2.213_944_839_159_887e-11,
    -1.735_862_352_811_392_6e-13,
    -1.026_209_787_629_387_8e-12,
    1.444_899_118_413_236_7e-13,
    3.158_980_053_643e-14,
    -1.242_895_996_989_400_9e-14,
    3.029_583_093_007_499_4e-16,
    6.422_214_347_909_853e-16,
    -1.329_424_267_463_555_4e-16,
    -1.279_690_579_282_727_8e-17,
];

/// The end of the series.
const SERIES_END: f64 = 0.8;

/// `1 - erf(x)`
fn complement_of_erf(p: &mut Prims, x: PrimId) -> Result<PrimId> {
    let magnitude = p.unary(UnaryOp::Abs, x)?;
    // Beyond, it is zero in double precision.
    let limit = p.number(30.0);
    let magnitude = p.binary(BinaryOp::Min, magnitude, limit)?;
    let half = p.mul_number(magnitude, 0.5)?;
    let whole = p.add_number(half, 1.0)?;
    let one = p.number(1.0);
    let t = p.div(one, whole)?;
    let scaled = p.mul_number(t, 2.0 / SERIES_END)?;
    let place = p.add_number(scaled, -1.0)?;
    let series = chebyshev(p, &SCALED_COMPLEMENT, place)?;
    let scaled = p.mul(series, t)?;
    let e = exponential_of_square(p, magnitude)?;
    let tail = p.mul(e, scaled)?;
    let other = rest(p, 2.0, tail)?;
    let is_below = compare(p, CompareOp::Lt, x, 0.0)?;
    let far = p.select(is_below, other, tail)?;
    let erf = p.unary(UnaryOp::Erf, x)?;
    let near = rest(p, 1.0, erf)?;
    let is_near = compare(p, CompareOp::Lt, magnitude, 0.5)?;
    p.select(is_near, near, far)
}

/// `e^(-x^2)`. The square of what `x` has in sixteenths is exact, so that the exponent's rounding does not grow with it.
fn exponential_of_square(p: &mut Prims, x: PrimId) -> Result<PrimId> {
    let sixteenths = p.mul_number(x, 16.0)?;
    let sixteenths = p.unary(UnaryOp::Floor, sixteenths)?;
    let coarse = p.mul_number(sixteenths, 1.0 / 16.0)?;
    let (difference, sum) = (p.sub(x, coarse)?, p.add(x, coarse)?);
    let fine = p.mul(difference, sum)?;
    let square = p.mul(coarse, coarse)?;
    let mut factors = [square, fine];
    for exponent in &mut factors {
        let negative = p.unary(UnaryOp::Neg, *exponent)?;
        *exponent = p.unary(UnaryOp::Exp, negative)?;
    }
    let [coarse, fine] = factors;
    p.mul(coarse, fine)
}

/// The sum of a Chebyshev series at `x` from -1 to 1 (Clenshaw's recurrence).
fn chebyshev(p: &mut Prims, coefficients: &[f64], x: PrimId) -> Result<PrimId> {
    let Some((first, others)) = coefficients.split_first() else {
        return Ok(p.number(0.0));
    };
    let double = p.mul_number(x, 2.0)?;
    let zero = p.mul_number(x, 0.0)?;
    let (mut current, mut last) = (zero, zero);
    for coefficient in others.iter().rev() {
        let product = p.mul(double, current)?;
        let difference = p.sub(product, last)?;
        (current, last) = (p.add_number(difference, *coefficient)?, current);
    }
    let product = p.mul(x, current)?;
    let difference = p.sub(product, last)?;
    p.add_number(difference, *first)
}
