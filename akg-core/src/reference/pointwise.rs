//! Element-wise operators.

use super::array::{Array, Data, map, map_in_place, wrap, zip, zip_in_place, zip3};
use super::real::Real;
use super::run::{Invocation, Kernel, Results};
use super::strided::{Item, Strided};
use crate::dtype::{DType, DTypeClass};
use crate::error::{Error, Result};

pub(super) fn kernel<T: Real>(name: &str) -> Option<Kernel<T>> {
    unary(name).or_else(|| binary(name)).or_else(|| other(name))
}

fn unary<T: Real>(name: &str) -> Option<Kernel<T>> {
    let kernel: Kernel<T> = match name {
        "exp.default" => |c| float(c, T::exp),
        "exp2.default" => |c| float(c, T::exp2),
        "expm1.default" => |c| float(c, T::exp_m1),
        "log.default" => |c| float(c, T::ln),
        "log1p.default" => |c| float(c, T::ln_1p),
        "log2.default" => |c| float(c, T::log2),
        "log10.default" => |c| float(c, T::log10),
        "sqrt.default" => |c| float(c, T::sqrt),
        "rsqrt.default" => |c| float(c, |x| x.sqrt().recip()),
        "reciprocal.default" => |c| float(c, T::recip),
        "sin.default" => |c| float(c, T::sin),
        "cos.default" => |c| float(c, T::cos),
        "tan.default" => |c| float(c, T::tan),
        "asin.default" => |c| float(c, T::asin),
        "acos.default" => |c| float(c, T::acos),
        "atan.default" => |c| float(c, T::atan),
        "sinh.default" => |c| float(c, T::sinh),
        "cosh.default" => |c| float(c, T::cosh),
        "tanh.default" => |c| float(c, T::tanh),
        "asinh.default" => |c| float(c, T::asinh),
        "acosh.default" => |c| float(c, T::acosh),
        "atanh.default" => |c| float(c, T::atanh),
        "sigmoid.default" => |c| float(c, sigmoid),
        "erf.default" => |c| float(c, T::erf),
        "erfc.default" => |c| float(c, T::erfc),
        "silu.default" => |c| float(c, |x| x / (T::one() + (-x).exp())),
        "mish.default" => |c| float(c, |x| x * x.exp().ln_1p().tanh()),
        "hardsigmoid.default" => |c| float(c, |x| hard_gate(x) / T::of(6.0)),
        "hardswish.default" => |c| float(c, |x| x * hard_gate(x) / T::of(6.0)),
        "log_sigmoid.default" => |c| float(c, |x| x.minimum(T::zero()) - (-x.abs()).exp().ln_1p()),
        "selu.default" => |c| float(c, |x| elu(x, T::of(SELU_ALPHA * SELU_SCALE), T::of(SELU_SCALE), T::one())),
        "gelu.default" => gelu,
        "leaky_relu.default" => |c| {
            let slope = c.number("negative_slope")?;
            float(c, |x| if x > T::zero() { x } else { x * slope })
        },
        "elu.default" => |c| {
            let (alpha, scale, input) = (c.number("alpha")?, c.number("scale")?, c.number("input_scale")?);
            float(c, |x| elu(x, alpha * scale, scale, input))
        },
        "celu.default" => |c| {
            let alpha = c.number("alpha")?;
            float(c, |x| elu(x, alpha, T::one(), alpha.recip()))
        },
        "softplus.default" => |c| {
            let (beta, threshold) = (c.number("beta")?, c.number("threshold")?);
            float(c, |x| if x * beta > threshold { x } else { (x * beta).exp().ln_1p() / beta })
        },
        "neg.default" => |c| numeric(c, |x| -x, i64::wrapping_neg),
        "abs.default" => |c| numeric(c, T::abs, i64::wrapping_abs),
        "sign.default" => |c| numeric(c, sign, i64::signum),
        "square.default" => |c| numeric(c, |x| x * x, |v| v.wrapping_mul(v)),
        "relu.default" => |c| numeric(c, |x| x.maximum(T::zero()), |v| v.max(0)),
        "relu6.default" => |c| numeric(c, |x| x.maximum(T::zero()).minimum(T::of(6.0)), |v| v.clamp(0, 6)),
        "ceil.default" => |c| numeric(c, T::ceil, |v| v),
        "floor.default" => |c| numeric(c, T::floor, |v| v),
        "round.default" => |c| numeric(c, T::round_even, |v| v),
        "trunc.default" => |c| numeric(c, T::trunc, |v| v),
        "bitwise_not.default" => |c| {
            let x = c.array("self")?;
            let dtype = x.dtype;
            Ok(vec![match x.data {
                Data::Bool(x) => Array::bool(map_in_place(x, |b| !b)),
                _ => Array::int(dtype, map_in_place(x.into_int(), |v| wrap(dtype, !v))),
            }])
        },
        "logical_not.default" => |c| Ok(vec![Array::bool(map_in_place(c.array("self")?.into_bool(), |b| !b))]),
        "isnan.default" => |c| predicate(c, T::is_nan),
        "isinf.default" => |c| predicate(c, T::is_infinite),
        "isfinite.default" => |c| predicate(c, T::is_finite),
        _ => return None,
    };
    Some(kernel)
}

const SELU_ALPHA: f64 = 1.6732632423543772;
const SELU_SCALE: f64 = 1.0507009873554805;

fn float<T: Real>(c: &mut Invocation<'_, T>, f: impl Fn(T) -> T + Sync) -> Results<T> {
    let x = c.float("self")?;
    Ok(vec![Array::float(c.dtype(0)?, map_in_place(x, f))])
}

fn numeric<T: Real>(
    c: &mut Invocation<'_, T>,
    f: impl Fn(T) -> T + Sync,
    i: impl Fn(i64) -> i64 + Sync,
) -> Results<T> {
    let dtype = c.dtype(0)?;
    let x = c.array("self")?;
    Ok(vec![match dtype.class() {
        DTypeClass::Float => Array::float(dtype, map_in_place(x.into_float(), f)),
        _ => Array::int(dtype, map_in_place(x.into_int(), |v| wrap(dtype, i(v)))).promote(dtype),
    }])
}

fn predicate<T: Real>(c: &mut Invocation<'_, T>, f: impl Fn(T) -> bool + Sync) -> Results<T> {
    let x = c.float("self")?;
    Ok(vec![Array::bool(map(&x, f))])
}

pub(super) fn sigmoid<T: Real>(x: T) -> T {
    (T::one() + (-x).exp()).recip()
}

fn hard_gate<T: Real>(x: T) -> T {
    (x + T::of(3.0)).maximum(T::zero()).minimum(T::of(6.0))
}

fn elu<T: Real>(x: T, negative: T, positive: T, input: T) -> T {
    if x < T::zero() { (x * input).exp_m1() * negative } else { x * positive }
}

/// ATen's sign of NaN is zero.
fn sign<T: Real>(x: T) -> T {
    if x > T::zero() {
        T::one()
    } else if x < T::zero() {
        -T::one()
    } else {
        T::zero()
    }
}

fn gelu<T: Real>(c: &mut Invocation<'_, T>) -> Results<T> {
    let half = T::of(0.5);
    if c.opt_str("approximate")? == Some("tanh") {
        let (scale, cubic) = (T::of((2.0 / std::f64::consts::PI).sqrt()), T::of(0.044715));
        return float(c, |x| half * x * (T::one() + (scale * (x + cubic * x * x * x)).tanh()));
    }
    float(c, |x| half * x * (-x * T::of(std::f64::consts::FRAC_1_SQRT_2)).erfc())
}

fn binary<T: Real>(name: &str) -> Option<Kernel<T>> {
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
pub(super) fn combine<E: Item>(
    a: Strided<E>,
    b: Strided<E>,
    shape: &[usize],
    f: impl Fn(E, E) -> E + Sync,
) -> Result<Strided<E>> {
    let swap = a.shape() != shape && b.shape() == shape;
    let (a, b) = (a.expand(shape)?, b.expand(shape)?);
    Ok(if swap { zip_in_place(b, &a, |b, a| f(a, b)) } else { zip_in_place(a, &b, f) })
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
    let (a, b) = (c.operand(a)?, c.operand(b)?);
    Ok(vec![match dtype.class() {
        DTypeClass::Float => Array::float(dtype, combine(a.into_float(), b.into_float(), &shape, f)?),
        _ => {
            let (a, b) = (a.promote(dtype).into_int(), b.promote(dtype).into_int());
            let out = combine(a, b, &shape, |a, b| wrap(dtype, i(a, b)))?;
            Array::int(dtype, out).carried()
        }
    }])
}

impl<T: Real> Array<T> {
    /// Integers under a boolean element type become booleans.
    fn carried(self) -> Self {
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
    arithmetic(c, a, b, |a, b| f(a, alpha * b), |a, b| i(a, whole.wrapping_mul(b)))
}

/// Division-like arithmetic, which integers cannot do by zero.
fn integral<T: Real>(
    c: &mut Invocation<'_, T>,
    f: impl Fn(T, T) -> T + Sync,
    i: impl Fn(i64, i64) -> i64 + Sync,
) -> Results<T> {
    let by_zero = std::sync::atomic::AtomicBool::new(false);
    let checked = |a, b| {
        if b == 0 {
            by_zero.store(true, std::sync::atomic::Ordering::Relaxed);
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
    if quotient - floor > T::of(0.5) { floor + T::one() } else { floor }
}

fn floor_divide_int(a: i64, b: i64) -> i64 {
    let quotient = a.wrapping_div(b);
    if a.wrapping_rem(b) != 0 && (a < 0) != (b < 0) { quotient - 1 } else { quotient }
}

/// The remainder with the sign of the divisor.
fn remainder<T: Real>(a: T, b: T) -> T {
    let rest = a % b;
    if rest != T::zero() && (b < T::zero()) != (rest < T::zero()) { rest + b } else { rest }
}

fn remainder_int(a: i64, b: i64) -> i64 {
    let rest = a.wrapping_rem(b);
    if rest != 0 && (rest < 0) != (b < 0) { rest + b } else { rest }
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

/// Comparisons, in which a plain number first takes the type of the tensor.
fn compare<T: Real>(
    c: &mut Invocation<'_, T>,
    f: impl Fn(T, T) -> bool + Sync,
    i: impl Fn(i64, i64) -> bool + Sync,
) -> Results<T> {
    let shape = c.shape(0)?;
    let (a, mut b) = (c.operand("self")?.expand(&shape)?, c.operand("other")?.expand(&shape)?);
    let out = match (&a.data, &b.data) {
        (Data::Float(_), _) | (_, Data::Float(_)) => {
            if b.dtype == DType::F64 && a.dtype != DType::F64 && c.is_number("other") {
                b = b.cast(if a.dtype.is_float() { a.dtype } else { DType::F32 });
            }
            zip(&a.into_float(), &b.into_float(), f)
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

fn other<T: Real>(name: &str) -> Option<Kernel<T>> {
    let kernel: Kernel<T> = match name {
        "where.self" | "where.ScalarOther" | "where.ScalarSelf" | "where.Scalar" => choose,
        "clamp.default" | "clamp.Tensor" => |c| clamp(c, Some("min"), Some("max")),
        "hardtanh.default" => |c| clamp(c, Some("min_val"), Some("max_val")),
        "clamp_min.default" | "clamp_min.Tensor" => |c| clamp(c, Some("min"), None),
        "clamp_max.default" | "clamp_max.Tensor" => |c| clamp(c, None, Some("max")),
        "masked_fill.Scalar" | "masked_fill.Tensor" => |c| {
            let shape = c.shape(0)?;
            let (x, mask, value) = (c.array("self")?, c.array("mask")?, c.operand("value")?);
            let dtype = x.dtype;
            Ok(vec![pick(mask.into_bool(), value.promote(dtype), x, &shape)?])
        },
        "addcmul.default" => |c| fused(c, |x, a, b, v| x + v * a * b, |x, a, b, v| {
            x.wrapping_add(v.wrapping_mul(a).wrapping_mul(b))
        }),
        "addcdiv.default" => |c| fused(c, |x, a, b, v| x + v * a / b, |x, _, _, _| x),
        "lerp.Scalar" | "lerp.Tensor" => |c| {
            let shape = c.shape(0)?;
            let start = c.float("self")?.expand(&shape)?;
            let end = c.float("end")?.expand(&shape)?;
            let weight = c.operand("weight")?.into_float().expand(&shape)?;
            let out = zip3(start, &end, &weight, |start, end, weight| {
                if weight.abs() < T::of(0.5) {
                    start + weight * (end - start)
                } else {
                    end - (end - start) * (T::one() - weight)
                }
            });
            Ok(vec![Array::float(c.dtype(0)?, out)])
        },
        "to.dtype" | "to.dtype_layout" | "_to_copy.default" | "type_as.default" => |c| {
            let dtype = c.dtype(0)?;
            Ok(vec![c.array("self")?.cast(dtype)])
        },
        "copy.default" => |c| {
            let (dtype, shape) = (c.dtype(0)?, c.shape(0)?);
            Ok(vec![c.array("src")?.cast(dtype).expand(&shape)?])
        },
        "dropout.default" => |c| Ok(vec![drop(c, true)?.0]),
        "native_dropout.default" => |c| {
            let (out, mask) = drop(c, false)?;
            Ok(vec![out, mask])
        },
        "prelu.default" => |c| {
            let (x, weight) = (c.float("self")?, c.float("weight")?);
            let mut shape = vec![1; x.rank()];
            if let Some(channels) = shape.get_mut(1) {
                *channels = weight.len();
            }
            let weight = weight.reshape(shape)?.expand(x.shape())?;
            let out = zip_in_place(x, &weight, |x, w| if x > T::zero() { x } else { w * x });
            Ok(vec![Array::float(c.dtype(0)?, out)])
        },
        "glu.default" => |c| {
            let x = c.float("self")?;
            let axis = c.axis("dim", x.rank())?;
            let half = x.shape()[axis] / 2;
            let gate = x.clone().slice(axis, half, half, 1);
            let out = zip(&x.slice(axis, 0, half, 1), &gate, |x, gate| x * sigmoid(gate));
            Ok(vec![Array::float(c.dtype(0)?, out)])
        },
        _ => return None,
    };
    Some(kernel)
}

fn choose<T: Real>(c: &mut Invocation<'_, T>) -> Results<T> {
    let (dtype, shape) = (c.dtype(0)?, c.shape(0)?);
    let condition = c.array("condition")?.into_bool();
    let (yes, no) = (c.operand("self")?.promote(dtype), c.operand("other")?.promote(dtype));
    Ok(vec![pick(condition, yes, no, &shape)?])
}

/// `yes` where the condition holds, else `no`; both have one carrier.
pub(super) fn pick<T: Real>(
    condition: Strided<bool>,
    yes: Array<T>,
    no: Array<T>,
    shape: &[usize],
) -> Result<Array<T>> {
    fn go<E: Item>(c: Strided<bool>, yes: Strided<E>, no: Strided<E>, shape: &[usize]) -> Result<Strided<E>> {
        let (c, yes) = (c.expand(shape)?, yes.expand(shape)?);
        Ok(zip3(no.expand(shape)?, &c, &yes, |no, c, yes| if c { yes } else { no }))
    }
    let dtype = no.dtype;
    let data = match (yes.data, no.data) {
        (Data::Float(a), Data::Float(b)) => Data::Float(go(condition, a, b, shape)?),
        (Data::Int(a), Data::Int(b)) => Data::Int(go(condition, a, b, shape)?),
        (Data::Bool(a), Data::Bool(b)) => Data::Bool(go(condition, a, b, shape)?),
        _ => return Err(Error::unexpected("the alternatives have different element types")),
    };
    Ok(Array { dtype, data })
}

fn clamp<T: Real>(c: &mut Invocation<'_, T>, low: Option<&str>, high: Option<&str>) -> Results<T> {
    let (dtype, shape) = (c.dtype(0)?, c.shape(0)?);
    let low = low.map(|name| c.opt_operand(name)).transpose()?.flatten();
    let high = high.map(|name| c.opt_operand(name)).transpose()?.flatten();
    let x = c.array("self")?;
    if dtype.is_float() {
        let mut out = x.into_float();
        if let Some(low) = low {
            out = combine(out, low.into_float(), &shape, T::maximum)?;
        }
        if let Some(high) = high {
            out = combine(out, high.into_float(), &shape, T::minimum)?;
        }
        return Ok(vec![Array::float(dtype, out)]);
    }
    let mut out = x.promote(dtype).into_int();
    if let Some(low) = low {
        out = combine(out, low.promote(dtype).into_int(), &shape, i64::max)?;
    }
    if let Some(high) = high {
        out = combine(out, high.promote(dtype).into_int(), &shape, i64::min)?;
    }
    Ok(vec![Array::int(dtype, out).carried()])
}

/// `self` with a scaled product or quotient of two tensors added.
fn fused<T: Real>(
    c: &mut Invocation<'_, T>,
    f: impl Fn(T, T, T, T) -> T + Sync,
    i: impl Fn(i64, i64, i64, i64) -> i64 + Sync,
) -> Results<T> {
    let (dtype, shape) = (c.dtype(0)?, c.shape(0)?);
    let value = c.operand("value")?;
    let x = c.array("self")?.expand(&shape)?;
    let (a, b) = (c.array("tensor1")?.expand(&shape)?, c.array("tensor2")?.expand(&shape)?);
    Ok(vec![if dtype.is_float() {
        let v = value.into_float().first();
        Array::float(dtype, zip3(x.into_float(), &a.into_float(), &b.into_float(), |x, a, b| f(x, a, b, v)))
    } else {
        let v = value.into_int().first();
        let out = zip3(x.into_int(), &a.into_int(), &b.into_int(), |x, a, b| wrap(dtype, i(x, a, b, v)));
        Array::int(dtype, out)
    }])
}

/// Dropout where chance has no part in it: nothing or everything is dropped. The mask says what is kept.
fn drop<T: Real>(c: &mut Invocation<'_, T>, required: bool) -> Result<(Array<T>, Array<T>)> {
    let p = c.number("p")?;
    let train = if required || c.has("train") { c.flag("train")? } else { true };
    let x = c.array("input")?;
    let shape = x.shape().to_vec();
    if !train || p == T::zero() {
        return Ok((x, Array::bool(Strided::full(shape, true))));
    }
    if p == T::one() {
        let dtype = x.dtype;
        let zeros = map_in_place(x.into_float(), |x| x * T::zero());
        return Ok((Array::float(dtype, zeros), Array::bool(Strided::full(shape, false))));
    }
    Err(Error::unsupported(
        "active dropout is random and has no reference; set p = 0 or export in evaluation mode",
    ))
}
