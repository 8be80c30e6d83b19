//! Arithmetic on single elements: rounding to an element type and the scalar operators.
//!
//! Floating elements of every type are held as f64, which contains them all; integers and booleans as i64. Basic
//! operations on types up to f32 computed in f64 and then rounded are correctly rounded.

use half::{bf16, f16};

use crate::dtype::DType;
use crate::philox;
use crate::sketch::ir::{BinaryOp, ReduceOp, UnaryOp};

/// Rounds to nearest even at `mantissa` stored bits; magnitudes below `2^min_exponent` lose bits, those that round
/// above `max` become infinite.
fn round_bits(v: f64, mantissa: i32, min_exponent: i32, max: f64) -> f64 {
    if v == 0.0 || !v.is_finite() {
        return v;
    }
    let exponent = (((v.to_bits() >> 52) & 0x7ff) as i32 - 1023).max(min_exponent);
    let quantum = 2f64.powi(exponent - mantissa);
    let rounded = (v / quantum).round_ties_even() * quantum;
    if rounded.abs() > max {
        f64::INFINITY.copysign(v)
    } else {
        rounded
    }
}

/// The nearest value of a floating type.
pub(super) fn round(dtype: DType, v: f64) -> f64 {
    match dtype {
        DType::F16 => round_bits(v, 10, -14, 65504.0),
        DType::BF16 => round_bits(v, 7, -126, f64::from(bf16::MAX)),
        DType::F32 => f64::from(v as f32),
        _ => v,
    }
}

/// The nearest value with f32's exponents and 10 mantissa bits.
pub(super) fn round_tf32(v: f64) -> f64 {
    round_bits(v, 10, -126, f64::from(f32::MAX))
}

/// The low bits as an integer type sees them; a boolean is whether any bit is set.
pub(super) fn wrap(dtype: DType, v: i64) -> i64 {
    match dtype {
        DType::Bool => i64::from(v != 0),
        _ => dtype.wrap(v),
    }
}

/// The element that a conversion gives; see [`DType::truncate`].
pub(super) fn to_int(dtype: DType, v: f64) -> i64 {
    match dtype {
        DType::Bool => i64::from(v != 0.0),
        _ => dtype.truncate(v),
    }
}

/// The nearest value of a floating type to an integer.
pub(super) fn from_int(dtype: DType, v: i64) -> f64 {
    match dtype {
        DType::F32 => f64::from(v as f32),
        _ => round(dtype, v as f64),
    }
}

/// The bits of an element of a floating type.
pub(super) fn to_bits(dtype: DType, v: f64) -> i64 {
    match dtype {
        DType::F16 => i64::from(f16::from_f64(v).to_bits() as i16),
        DType::BF16 => i64::from(bf16::from_f64(v).to_bits() as i16),
        DType::F32 => i64::from((v as f32).to_bits() as i32),
        _ => v.to_bits() as i64,
    }
}

/// The element of a floating type with these bits.
pub(super) fn from_bits(dtype: DType, bits: i64) -> f64 {
    match dtype {
        DType::F16 => f64::from(f16::from_bits(bits as u16)),
        DType::BF16 => f64::from(bf16::from_bits(bits as u16)),
        DType::F32 => f64::from(f32::from_bits(bits as u32)),
        _ => f64::from_bits(bits as u64),
    }
}

fn pow2_floor(v: f64) -> f64 {
    let magnitude = v.abs();
    if magnitude == 0.0 || !magnitude.is_finite() {
        return 1.0;
    }
    let mantissa = magnitude.to_bits() & ((1 << 52) - 1);
    let bits = match magnitude.to_bits() >> 52 {
        0 => 1 << mantissa.ilog2(),
        exponent => exponent << 52,
    };
    f64::from_bits(bits)
}

/// A floating operator before rounding; `None` if it has no floating result.
pub(super) fn unary_float(op: UnaryOp) -> Option<fn(f64) -> f64> {
    Some(match op {
        UnaryOp::Neg => |v| -v,
        UnaryOp::Abs => f64::abs,
        UnaryOp::Exp => f64::exp,
        UnaryOp::Exp2 => f64::exp2,
        UnaryOp::Expm1 => f64::exp_m1,
        UnaryOp::Log => f64::ln,
        UnaryOp::Log2 => f64::log2,
        UnaryOp::Log1p => f64::ln_1p,
        UnaryOp::Sqrt => f64::sqrt,
        UnaryOp::Rsqrt => |v| 1.0 / v.sqrt(),
        UnaryOp::Sin => f64::sin,
        UnaryOp::Cos => f64::cos,
        UnaryOp::Tanh => f64::tanh,
        UnaryOp::Erf => libm::erf,
        UnaryOp::Sigmoid => |v| 1.0 / (1.0 + (-v).exp()),
        UnaryOp::Floor => f64::floor,
        UnaryOp::Ceil => f64::ceil,
        UnaryOp::Round => f64::round_ties_even,
        UnaryOp::Trunc => f64::trunc,
        UnaryOp::Pow2Floor => pow2_floor,
        UnaryOp::Not | UnaryOp::IsNan => return None,
    })
}

/// An operator on integers before wrapping; `None` if it takes floats only.
pub(super) fn unary_int(op: UnaryOp, dtype: DType) -> Option<fn(i64) -> i64> {
    Some(match op {
        UnaryOp::Neg => i64::wrapping_neg,
        UnaryOp::Abs => i64::wrapping_abs,
        UnaryOp::Not if dtype == DType::Bool => |v| 1 - v,
        UnaryOp::Not => |v| !v,
        _ => return None,
    })
}

/// The smaller, NaN if either is.
fn min(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() {
        f64::NAN
    } else {
        a.min(b)
    }
}

/// The larger, NaN if either is.
fn max(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() {
        f64::NAN
    } else {
        a.max(b)
    }
}

/// The remainder with the sign of the divisor.
fn floor_mod(a: f64, b: f64) -> f64 {
    let r = a % b;
    if r != 0.0 && (r < 0.0) != (b < 0.0) {
        r + b
    } else {
        r
    }
}

/// A floating operator before rounding; `None` if it takes integers.
pub(super) fn binary_float(op: BinaryOp) -> Option<fn(f64, f64) -> f64> {
    Some(match op {
        BinaryOp::Add => |a, b| a + b,
        BinaryOp::Sub => |a, b| a - b,
        BinaryOp::Mul => |a, b| a * b,
        BinaryOp::Div => |a, b| a / b,
        BinaryOp::Mod => floor_mod,
        BinaryOp::Min => min,
        BinaryOp::Max => max,
        BinaryOp::Pow => f64::powf,
        _ => return None,
    })
}

/// `a * 2^b`.
pub(super) fn ldexp(a: f64, b: i64) -> f64 {
    libm::scalbn(a, b.clamp(-5000, 5000) as i32)
}

/// An operator on integers before wrapping; `Err` names what the operands must not be.
pub(super) fn binary_int(op: BinaryOp, dtype: DType, a: i64, b: i64) -> Result<i64, &'static str> {
    let bits = 8 * dtype.size() as i64;
    Ok(match op {
        BinaryOp::Add => a.wrapping_add(b),
        BinaryOp::Sub => a.wrapping_sub(b),
        BinaryOp::Mul => a.wrapping_mul(b),
        BinaryOp::FloorDiv | BinaryOp::Mod => {
            if b == 0 {
                return Err("divides an integer by zero");
            }
            let (q, r) = (a.wrapping_div(b), a.wrapping_rem(b));
            let down = i64::from(r != 0 && (r < 0) != (b < 0));
            if op == BinaryOp::FloorDiv {
                q - down
            } else {
                r + down * b
            }
        }
        BinaryOp::Min => a.min(b),
        BinaryOp::Max => a.max(b),
        BinaryOp::Pow => match u32::try_from(b) {
            Ok(exponent) => a.wrapping_pow(exponent),
            Err(_) => return Err("raises an integer to a negative or huge power"),
        },
        BinaryOp::And => a & b,
        BinaryOp::Or => a | b,
        BinaryOp::Xor => a ^ b,
        BinaryOp::Shl | BinaryOp::Shr => {
            if !(0..bits).contains(&b) {
                return Err("shifts by less than 0 or not less than the number of bits");
            }
            if op == BinaryOp::Shl {
                a.wrapping_shl(b as u32)
            } else {
                a >> b
            }
        }
        BinaryOp::Philox => i64::from(philox::word(a, b)),
        BinaryOp::Div | BinaryOp::Ldexp => return Err("applies a floating operator to integers"),
    })
}

/// A combination of floats with its identity.
pub(super) fn fold_float(op: ReduceOp) -> (f64, fn(f64, f64) -> f64) {
    match op {
        ReduceOp::Sum => (0.0, |a, b| a + b),
        ReduceOp::Prod => (1.0, |a, b| a * b),
        ReduceOp::Max => (f64::NEG_INFINITY, max),
        ReduceOp::Min => (f64::INFINITY, min),
    }
}

/// A combination of integers, before wrapping, with its identity in `dtype`.
pub(super) fn fold_int(op: ReduceOp, dtype: DType) -> (i64, fn(i64, i64) -> i64) {
    let (lowest, highest) = match dtype {
        DType::Bool => (0, 1),
        DType::U8 => (0, i64::from(u8::MAX)),
        DType::I8 => (i64::from(i8::MIN), i64::from(i8::MAX)),
        DType::I16 => (i64::from(i16::MIN), i64::from(i16::MAX)),
        DType::I32 => (i64::from(i32::MIN), i64::from(i32::MAX)),
        _ => (i64::MIN, i64::MAX),
    };
    match op {
        ReduceOp::Sum => (0, i64::wrapping_add),
        ReduceOp::Prod => (1, i64::wrapping_mul),
        ReduceOp::Max => (lowest, |a, b| a.max(b)),
        ReduceOp::Min => (highest, |a, b| a.min(b)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn half_types_round_like_the_half_crate(bits: u32) {
            // From f32, where the half crate rounds once.
            let v = f32::from_bits(bits);
            prop_assume!(!v.is_nan());
            prop_assert_eq!(round(DType::F16, f64::from(v)), f64::from(f16::from_f32(v)));
            prop_assert_eq!(round(DType::BF16, f64::from(v)), f64::from(bf16::from_f32(v)));
        }

        #[test]
        fn pow2_floor_brackets(bits: u64) {
            let v = f64::from_bits(bits);
            prop_assume!(v.is_finite() && v != 0.0);
            let p = pow2_floor(v);
            prop_assert!(p <= v.abs() && v.abs() / 2.0 < p && p.log2().fract() == 0.0);
        }

        #[test]
        fn integer_division_floors(a in -200i64..200, b in -20i64..20) {
            prop_assume!(b != 0);
            let q = binary_int(BinaryOp::FloorDiv, DType::I32, a, b).unwrap();
            let r = binary_int(BinaryOp::Mod, DType::I32, a, b).unwrap();
            prop_assert_eq!(q, (a as f64 / b as f64).floor() as i64);
            prop_assert_eq!(r, a - b * q);
        }
    }

    #[test]
    fn rounding_is_to_nearest_even_and_only_once() {
        assert_eq!(round(DType::F16, 65519.9), 65504.0);
        assert_eq!(round(DType::F16, 65520.0), f64::INFINITY);
        // A value just above a tie that f32 would first round onto the tie.
        let above = 1.0 + 2f64.powi(-11) + 2f64.powi(-40);
        assert_eq!(round(DType::F16, above), 1.0 + 2f64.powi(-10));
        assert_eq!(round_tf32(1.0 + 2f64.powi(-11)), 1.0);
        assert_eq!(pow2_floor(f64::NAN), 1.0);
    }

    #[test]
    fn bits_round_trip() {
        for v in [0.0, -0.0, 1.5, -65504.0, f64::INFINITY] {
            for dtype in [DType::F16, DType::BF16, DType::F32, DType::F64] {
                let v = round(dtype, v);
                assert_eq!(from_bits(dtype, to_bits(dtype, v)).to_bits(), v.to_bits());
            }
        }
        assert_eq!(to_bits(DType::F32, -1.0), i64::from(0xbf80_0000u32 as i32));
    }
}
