//! Quotients that are rounded, what they leave, and powers.

use super::Step;
use super::pointwise::{binary, operand, operands};
use crate::designer::prim::PrimId;
use crate::error::Result;
use crate::sketch::ir::{BinaryOp, CompareOp, UnaryOp};

/// The quotient, rounded down. That of floats follows from an exact remainder, so that it is right where `a / b` rounds up.
pub(super) fn floor_divide(s: &mut Step<'_>) -> Result<PrimId> {
    if !s.dtype()?.is_float() {
        return binary(s, BinaryOp::FloorDiv);
    }
    let (a, b) = operands(s)?;
    let rest = s.prims.binary(BinaryOp::Mod, a, b)?;
    let multiple = s.prims.sub(a, rest)?;
    let quotient = s.prims.div(multiple, b)?;
    let quotient = s.prims.unary(UnaryOp::Round, quotient)?;
    let zero = s.prims.number(0.0);
    let by_zero = s.prims.compare(CompareOp::Eq, b, zero)?;
    let plain = s.prims.div(a, b)?;
    s.prims.select(by_zero, plain, quotient)
}

/// The quotient, rounded toward zero.
pub(super) fn truncated_quotient(s: &mut Step<'_>) -> Result<PrimId> {
    let (a, b) = operands(s)?;
    if s.dtype()?.is_float() {
        let quotient = s.prims.div(a, b)?;
        return s.prims.unary(UnaryOp::Trunc, quotient);
    }
    let floor = s.prims.binary(BinaryOp::FloorDiv, a, b)?;
    let product = s.prims.mul(floor, b)?;
    // A quotient below zero is rounded up if something is left.
    let zero = s.prims.number(0.0);
    let left = s.prims.compare(CompareOp::Ne, product, a)?;
    let [a_below, b_below] = [a, b].map(|x| s.prims.compare(CompareOp::Lt, x, zero));
    let below = s.prims.binary(BinaryOp::Xor, a_below?, b_below?)?;
    let goes_up = s.prims.binary(BinaryOp::And, left, below)?;
    let one = s.prims.add_number(floor, 1.0)?;
    s.prims.select(goes_up, one, floor)
}

/// The rest that the truncated quotient leaves, with the sign of the dividend.
pub(super) fn truncated_remainder(s: &mut Step<'_>) -> Result<PrimId> {
    let (a, b) = operands(s)?;
    if !s.dtype()?.is_float() {
        let quotient = truncated_quotient(s)?;
        let product = s.prims.mul(quotient, b)?;
        return s.prims.sub(a, product);
    }
    let [dividend, divisor] = [a, b].map(|x| match s.prims.constant(x) {
        Some(number) if s.prims.is_number(x) => Ok(s.prims.number(number.abs())),
        _ => s.prims.unary(UnaryOp::Abs, x),
    });
    let rest = s.prims.binary(BinaryOp::Mod, dividend?, divisor?)?;
    let negative = s.prims.unary(UnaryOp::Neg, rest)?;
    let zero = s.prims.number(0.0);
    let is_below = s.prims.compare(CompareOp::Lt, a, zero)?;
    s.prims.select(is_below, negative, rest)
}

pub(super) fn pow(s: &mut Step<'_>) -> Result<PrimId> {
    let dtype = s.dtype()?;
    if let Ok(Some(exponent)) = s.call.opt_number("exponent") {
        let x = operand(s, "self")?;
        let whole = exponent.fract() == 0.0 && (1.0..=4.0).contains(&exponent);
        if whole {
            let mut product = x;
            for _ in 1..exponent as u32 {
                product = s.prims.mul(product, x)?;
            }
            return Ok(product);
        }
        if exponent == 0.5 {
            return s.prims.unary(UnaryOp::Sqrt, x);
        }
        let exponent = s.prims.number(exponent);
        return power(s, x, exponent);
    }
    let base = match s.call.opt_number("self") {
        Ok(Some(v)) => s.prims.number(v),
        _ => operand(s, "self")?,
    };
    let exponent = s.tensor("exponent")?;
    let exponent = s.prims.cast(exponent, dtype);
    power(s, base, exponent)
}

fn power(s: &mut Step<'_>, base: PrimId, exponent: PrimId) -> Result<PrimId> {
    let dtype = s.dtype()?;
    if dtype.is_float() {
        return s.prims.binary(BinaryOp::Pow, base, exponent);
    }
    let base = s.prims.cast(base, dtype);
    match s.prims.constant(exponent) {
        Some(number) if number >= 0.0 => power_by_number(s, base, number as u64),
        _ => power_of_integers(s, base, exponent),
    }
}

/// A power of integers by squaring.
fn power_by_number(s: &mut Step<'_>, base: PrimId, exponent: u64) -> Result<PrimId> {
    let mut power = s.prims.full(1.0, s.prims.dtype(base), Vec::new());
    let (mut square, mut left) = (base, exponent);
    while left > 0 {
        if left & 1 == 1 {
            power = s.prims.mul(power, square)?;
        }
        left >>= 1;
        if left > 0 {
            square = s.prims.mul(square, square)?;
        }
    }
    Ok(power)
}

/// The same with an exponent for each element, of which every bit is looked at.
fn power_of_integers(s: &mut Step<'_>, base: PrimId, exponent: PrimId) -> Result<PrimId> {
    let dtype = s.prims.dtype(base);
    let exponent = s.prims.cast(exponent, dtype);
    let (zero, one) = (s.prims.number(0.0), s.prims.number(1.0));
    let mut power = s.prims.full(1.0, dtype, Vec::new());
    let mut square = base;
    for bit in 0..8 * dtype.size() as i32 - 1 {
        let mask = s.prims.full(2f64.powi(bit), dtype, Vec::new());
        let part = s.prims.binary(BinaryOp::And, exponent, mask)?;
        let is_set = s.prims.compare(CompareOp::Ne, part, zero)?;
        let product = s.prims.mul(power, square)?;
        power = s.prims.select(is_set, product, power)?;
        square = s.prims.mul(square, square)?;
    }
    // The reciprocal of a number has no whole part, but for 1 and -1.
    let is_below = s.prims.compare(CompareOp::Lt, exponent, zero)?;
    let squared = s.prims.mul(base, base)?;
    let is_unit = s.prims.compare(CompareOp::Eq, squared, one)?;
    let none = s.prims.full(0.0, dtype, Vec::new());
    let reciprocal = s.prims.select(is_unit, power, none)?;
    s.prims.select(is_below, reciprocal, power)
}
