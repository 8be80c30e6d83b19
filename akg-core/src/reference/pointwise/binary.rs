//! Element-wise operators of two operands.

use std::sync::atomic::{AtomicBool, Ordering};

use super::super::array::{Array, Data, map, wrap, zip, zip_in_place};
use super::super::invocation::{Invocation, Kernel, Results};
use super::super::real::Real;
use super::super::semantics::Places;
use super::super::strided::{Item, Strided};
use super::float;
use crate::dtype::{DType, DTypeClass};
use crate::error::{Error, Result};

pub(super) fn kernel<T: Real>(name: &str) -> Option<Kernel<T>> {
    let kernel: Kernel<T> = match name {
        "add.Tensor" | "add.Scalar" => |c| scaled(c, "self", "other", |a, b| a + b, i64::wrapping_add),
        "sub.Tensor" | "sub.Scalar" => |c| scaled(c, "self", "other", |a, b| a - b, i64::wrapping_sub),
        "rsub.Tensor" | "rsub.Scalar" => |c| scaled(c, "other", "self", |a, b| a - b, i64::wrapping_sub),
        "mul.Tensor" | "mul.Scalar" | "multiply.Tensor" => {
            |c| arithmetic(c, "self", "other", |a, b| a * b, i64::wrapping_mul)
        }
        "maximum.default" | "max.other" => |c| arithmetic(c, "self", "other", T::maximum, i64::max),
        "minimum.default" | "min.other" => |c| arithmetic(c, "self", "other", T::minimum, i64::min),
        "div.Tensor" | "div.Scalar" => |c| arithmetic(c, "self", "other", |a, b| a / b, |a, _| a),
        "div.Tensor_mode" | "div.Scalar_mode" => |c| match c.opt_str("rounding_mode")? {
            Some("floor") => integral(c, floor_divide, floor_divide_int),
            Some("trunc") => integral(c, |a, b| (a / b).trunc(), i64::wrapping_div),
            _ => arithmetic(c, "self", "other", |a, b| a / b, |a, _| a),
        },
        "floor_divide.default" | "floor_divide.Scalar" => |c| integral(c, floor_divide, floor_divide_int),
        "remainder.Tensor" | "remainder.Scalar" => |c| integral(c, remainder, remainder_int),
        "fmod.Tensor" | "fmod.Scalar" => |c| integral(c, |a, b| a % b, i64::wrapping_rem),
        "atan2.default" => |c| arithmetic(c, "self", "other", T::atan2, |a, _| a),
        "pow.Tensor_Scalar" => power_by_number,
        "pow.Tensor_Tensor" | "pow.Scalar" => |c| arithmetic(c, "self", "exponent", T::powf, power_int),
        "bitwise_and.Tensor" | "bitwise_and.Scalar" => |c| bitwise(c, |a, b| a & b),
        "bitwise_or.Tensor" | "bitwise_or.Scalar" => |c| bitwise(c, |a, b| a | b),
        "bitwise_xor.Tensor" | "bitwise_xor.Scalar" => |c| bitwise(c, |a, b| a ^ b),
        "logical_and.default" => |c| logical(c, |a, b| a && b),
        "logical_or.default" => |c| logical(c, |a, b| a || b),
        "logical_xor.default" => |c| logical(c, |a, b| a != b),
        "eq.Tensor" | "eq.Scalar" => |c| compare(c, |a, b| a == b, |a, b| a == b),
        "ne.Tensor" | "ne.Scalar" => |c| compare(c, |a, b| a != b, |a, b| a != b),
        "lt.Tensor" | "lt.Scalar" => |c| compare(c, |a, b| a < b, |a, b| a < b),
        "le.Tensor" | "le.Scalar" => |c| compare(c, |a, b| a <= b, |a, b| a <= b),
        "gt.Tensor" | "gt.Scalar" => |c| compare(c, |a, b| a > b, |a, b| a > b),
        "ge.Tensor" | "ge.Scalar" => |c| compare(c, |a, b| a >= b, |a, b| a >= b),
        _ => return None,
    };
    Some(kernel)
}

/// `f(a, b)` in the memory of whichever operand already has the full shape.
pub(in crate::reference) fn combine<E: Item>(
    a: Strided<E>,
    b: Strided<E>,
    shape: &[usize],
    f: impl Fn(E, E) -> E + Sync,
) -> Result<Strided<E>> {
    let swap = a.shape() != shape && b.shape() == shape;
    let (a, b) = (a.expand(shape)?, b.expand(shape)?);
    Ok(if swap {
        zip_in_place(b, &a, |b, a| f(a, b))
    } else {
        zip_in_place(a, &b, f)
    })
}

/// Arithmetic in the type of the result. Booleans take part as 0 and 1, and a boolean result is whether the integer
/// one differs from zero, which makes `+` an or and `*` an and.
fn arithmetic<T: Real>(
    c: &mut Invocation<'_, T>,
    a: &str,
    b: &str,
    f: impl Fn(T, T) -> T + Sync,
    i: impl Fn(i64, i64) -> i64 + Sync,
) -> Results<T> {
    let (dtype, shape) = (c.dtype(0)?, c.shape(0)?);
    let (a, b) = (operand(c, a)?, operand(c, b)?);
    Ok(vec![match dtype.class() {
        DTypeClass::Float => Array::float(dtype, combine(a.into_float(), b.into_float(), &shape, f)?),
        _ => {
            let (a, b) = (a.promote(dtype).into_int(), b.promote(dtype).into_int());
            let out = combine(a, b, &shape, |a, b| wrap(dtype, i(a, b)))?;
            Array::int(dtype, out).carried()
        }
    }])
}

/// Operators that read a number in f32 whatever the type of the other operands.
const WIDE_NUMBERS: [&str; 6] = [
    "mul.Tensor",
    "mul.Scalar",
    "multiply.Tensor",
    "div.Tensor",
    "div.Scalar",
    "lerp.Scalar",
];

/// An operand of element-wise arithmetic: a tensor, or a number as a 0-dimensional one.
///
/// Under rounded semantics, a wider floating operand without dimensions is first rounded to the type of the result, as
/// PyTorch does on a CPU.
pub(super) fn operand<T: Real>(c: &mut Invocation<'_, T>, name: &str) -> Result<Array<T>> {
    let (x, dtype) = (c.operand(name)?, c.dtype(0)?);
    let is_wider = x.rank() == 0 && x.dtype.is_float() && dtype.is_float() && x.dtype != dtype;
    Ok(match c.rounder()? {
        Some(rounder) if is_wider && !WIDE_NUMBERS.contains(&c.node.op.name()) => {
            x.rounded(rounder, Places::ALL)
        }
        _ => x,
    })
}

impl<T: Real> Array<T> {
    /// Integers under a boolean element type become booleans.
    pub(in crate::reference) fn carried(self) -> Self {
        match (self.dtype, self.data) {
            (DType::Bool, Data::Int(x)) => Array::bool(map(&x, |v| v != 0)),
            (dtype, data) => Self { dtype, data },
        }
    }
}

/// `a ± alpha b`.
fn scaled<T: Real>(
    c: &mut Invocation<'_, T>,
    a: &str,
    b: &str,
    f: impl Fn(T, T) -> T + Sync,
    i: impl Fn(i64, i64) -> i64 + Sync,
) -> Results<T> {
    let alpha = c.operand("alpha")?;
    let whole = alpha.clone().into_int().first();
    let alpha = alpha.into_float().first();
    if alpha == T::one() {
        return arithmetic(c, a, b, f, i);
    }
    arithmetic(
        c,
        a,
        b,
        |a, b| f(a, alpha * b),
        |a, b| i(a, whole.wrapping_mul(b)),
    )
}

/// Division-like arithmetic, which integers cannot do by zero.
fn integral<T: Real>(
    c: &mut Invocation<'_, T>,
    f: impl Fn(T, T) -> T + Sync,
    i: impl Fn(i64, i64) -> i64 + Sync,
) -> Results<T> {
    let by_zero = AtomicBool::new(false);
    let checked = |a, b| {
        if b == 0 {
            by_zero.store(true, Ordering::Relaxed);
            return 0;
        }
        i(a, b)
    };
    let results = arithmetic(c, "self", "other", f, checked)?;
    if by_zero.into_inner() {
        return Err(Error::invalid("integer division by zero"));
    }
    Ok(results)
}

/// ATen's floor division: exact remainders decide, so the quotient is not off by one where `a / b` rounds up.
fn floor_divide<T: Real>(a: T, b: T) -> T {
    if b == T::zero() {
        return a / b;
    }
    let rest = a % b;
    let mut quotient = (a - rest) / b;
    if rest != T::zero() && (b < T::zero()) != (rest < T::zero()) {
        quotient -= T::one();
    }
    if quotient == T::zero() {
        return T::zero().copysign(a / b);
    }
    let floor = quotient.floor();
    if quotient - floor > T::of(0.5) {
        floor + T::one()
    } else {
        floor
    }
}

fn floor_divide_int(a: i64, b: i64) -> i64 {
    let quotient = a.wrapping_div(b);
    if a.wrapping_rem(b) != 0 && (a < 0) != (b < 0) {
        quotient - 1
    } else {
        quotient
    }
}

/// The remainder with the sign of the divisor.
fn remainder<T: Real>(a: T, b: T) -> T {
    let rest = a % b;
    if rest != T::zero() && (b < T::zero()) != (rest < T::zero()) {
        rest + b
    } else {
        rest
    }
}

fn remainder_int(a: i64, b: i64) -> i64 {
    let rest = a.wrapping_rem(b);
    if rest != 0 && (rest < 0) != (b < 0) {
        rest + b
    } else {
        rest
    }
}

fn power_int(base: i64, exponent: i64) -> i64 {
    match (base, exponent) {
        (1, _) => 1,
        (-1, e) => 1 - 2 * (e & 1),
        (_, ..0) => 0,
        _ => {
            let (mut out, mut square, mut rest) = (1i64, base, exponent);
            while rest > 0 {
                if rest & 1 == 1 {
                    out = out.wrapping_mul(square);
                }
                square = square.wrapping_mul(square);
                rest >>= 1;
            }
            out
        }
    }
}

/// Powers by a plain number, of which ATen computes some by other operations.
fn power_by_number<T: Real>(c: &mut Invocation<'_, T>) -> Results<T> {
    let exponent = c.operand("exponent")?;
    if !c.dtype(0)?.is_float() && exponent.clone().into_int().first() < 0 {
        return Err(Error::invalid("integers cannot be raised to negative powers"));
    }
    let special: Option<fn(T) -> T> = match exponent.into_float().first().widen() {
        0.5 => Some(T::sqrt),
        2.0 => Some(|x| x * x),
        3.0 => Some(|x| x * x * x),
        -0.5 => Some(|x| x.sqrt().recip()),
        -1.0 => Some(T::recip),
        -2.0 => Some(|x| (x * x).recip()),
        _ => None,
    };
    match special {
        Some(f) if c.dtype(0)?.is_float() => float(c, f),
        _ => arithmetic(c, "self", "exponent", T::powf, power_int),
    }
}

fn bitwise<T: Real>(c: &mut Invocation<'_, T>, f: impl Fn(i64, i64) -> i64 + Sync) -> Results<T> {
    arithmetic(c, "self", "other", |a, _| a, f)
}

fn logical<T: Real>(c: &mut Invocation<'_, T>, f: impl Fn(bool, bool) -> bool + Sync) -> Results<T> {
    let shape = c.shape(0)?;
    let (a, b) = (c.operand("self")?.into_bool(), c.operand("other")?.into_bool());
    Ok(vec![Array::bool(combine(a, b, &shape, f)?)])
}

/// Comparisons, whose operands first take the type that both promote to.
fn compare<T: Real>(
    c: &mut Invocation<'_, T>,
    f: impl Fn(T, T) -> bool + Sync,
    i: impl Fn(i64, i64) -> bool + Sync,
) -> Results<T> {
    let shape = c.shape(0)?;
    let dtype = c.call.promoted(&["self", "other"])?;
    let (a, mut b) = (
        c.operand("self")?.expand(&shape)?,
        c.operand("other")?.expand(&shape)?,
    );
    let out = match (&a.data, &b.data) {
        (Data::Float(_), _) | (_, Data::Float(_)) => {
            zip(&a.cast(dtype).into_float(), &b.cast(dtype).into_float(), f)
        }
        _ => {
            // A number becomes an integer of the tensor's type, and wraps.
            if c.is_number("other") && a.dtype != DType::Bool {
                b = b.cast(a.dtype);
            }
            zip(&a.into_int(), &b.into_int(), i)
        }
    };
    Ok(vec![Array::bool(out)])
}
