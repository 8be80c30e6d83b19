//! Element-wise operators.

use super::array::{Array, Data, map, map_in_place, wrap};
use super::invocation::{Invocation, Kernel, Results};
use super::real::Real;
use crate::dtype::DTypeClass;

mod binary;
mod select;

pub(super) use binary::combine;
pub(super) use select::pick;

pub(super) fn kernel<T: Real>(name: &str) -> Option<Kernel<T>> {
    unary(name)
        .or_else(|| binary::kernel(name))
        .or_else(|| select::kernel(name))
}

fn unary<T: Real>(name: &str) -> Option<Kernel<T>> {
    let kernel: Kernel<T> = match name {
        "exp.default" => |c| float(c, T::exponential),
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
        "silu.default" => |c| float(c, |x| x / (T::one() + (-x).exponential())),
        "mish.default" => |c| float(c, |x| x * x.exponential().ln_1p().tanh()),
        "hardsigmoid.default" => |c| float(c, |x| hard_gate(x) / T::of(6.0)),
        "hardswish.default" => |c| float(c, |x| x * hard_gate(x) / T::of(6.0)),
        "log_sigmoid.default" => |c| float(c, |x| x.minimum(T::zero()) - (-x.abs()).exponential().ln_1p()),
        "selu.default" => |c| {
            float(c, |x| {
                elu(x, T::of(SELU_ALPHA * SELU_SCALE), T::of(SELU_SCALE), T::one())
            })
        },
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
            float(c, |x| {
                if x * beta > threshold {
                    x
                } else {
                    (x * beta).exponential().ln_1p() / beta
                }
            })
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
        "logical_not.default" => |c| {
            Ok(vec![Array::bool(map_in_place(
                c.array("self")?.into_bool(),
                |b| !b,
            ))])
        },
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
        _ => Array::int(dtype, map_in_place(x.into_int(), |v| wrap(dtype, i(v))))
            .promote(dtype)
            .carried(),
    }])
}

fn predicate<T: Real>(c: &mut Invocation<'_, T>, f: impl Fn(T) -> bool + Sync) -> Results<T> {
    let x = c.float("self")?;
    Ok(vec![Array::bool(map(&x, f))])
}

pub(super) fn sigmoid<T: Real>(x: T) -> T {
    (T::one() + (-x).exponential()).recip()
}

fn hard_gate<T: Real>(x: T) -> T {
    (x + T::of(3.0)).maximum(T::zero()).minimum(T::of(6.0))
}

fn elu<T: Real>(x: T, negative: T, positive: T, input: T) -> T {
    if x < T::zero() {
        (x * input).exp_m1() * negative
    } else {
        x * positive
    }
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
        return float(c, |x| {
            half * x * (T::one() + (scale * (x + cubic * x * x * x)).tanh())
        });
    }
    float(c, |x| {
        half * x * (x * T::of(std::f64::consts::FRAC_1_SQRT_2)).one_plus_erf()
    })
}
