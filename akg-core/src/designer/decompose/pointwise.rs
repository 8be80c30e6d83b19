//! Element-wise operators.

use super::{Step, arithmetic};
use crate::designer::prim::{MapOp, Prim, PrimId, Prims};
use crate::designer::window::Window;
use crate::dtype::DType;
use crate::error::Result;
use crate::expr::Expr;
use crate::graph::Arg;
use crate::sketch::ir::{BinaryOp, CompareOp, UnaryOp};

pub(super) fn decompose(s: &mut Step<'_>, name: &str) -> Result<Option<Vec<PrimId>>> {
    let result = match name {
        "relu" => {
            let x = s.tensor("self")?;
            let zero = s.prims.number(0.0);
            s.prims.binary(BinaryOp::Max, x, zero)?
        }
        "neg" => unary(s, UnaryOp::Neg)?,
        "abs" => unary(s, UnaryOp::Abs)?,
        "exp" => unary(s, UnaryOp::Exp)?,
        "exp2" => unary(s, UnaryOp::Exp2)?,
        "expm1" => unary(s, UnaryOp::Expm1)?,
        "log" => unary(s, UnaryOp::Log)?,
        "log2" => unary(s, UnaryOp::Log2)?,
        "log1p" => unary(s, UnaryOp::Log1p)?,
        "sqrt" => unary(s, UnaryOp::Sqrt)?,
        "rsqrt" => unary(s, UnaryOp::Rsqrt)?,
        "sin" => unary(s, UnaryOp::Sin)?,
        "cos" => unary(s, UnaryOp::Cos)?,
        "tanh" => {
            let x = operand(s, "self")?;
            match softplus_of(s.prims, x) {
                Some(inner) => tanh_softplus(s.prims, inner)?,
                None => s.prims.unary(UnaryOp::Tanh, x)?,
            }
        }
        "erf" => unary(s, UnaryOp::Erf)?,
        "sigmoid" => unary(s, UnaryOp::Sigmoid)?,
        "floor" => unary(s, UnaryOp::Floor)?,
        "ceil" => unary(s, UnaryOp::Ceil)?,
        "round" => unary(s, UnaryOp::Round)?,
        "trunc" => unary(s, UnaryOp::Trunc)?,
        "isnan" => {
            let x = operand_float(s)?;
            s.prims.unary(UnaryOp::IsNan, x)?
        }
        "logical_not" | "bitwise_not" => unary(s, UnaryOp::Not)?,
        "reciprocal" => {
            let x = operand(s, "self")?;
            let one = s.prims.number(1.0);
            s.prims.div(one, x)?
        }
        "square" => {
            let x = operand(s, "self")?;
            s.prims.mul(x, x)?
        }
        "silu" => {
            let x = s.tensor("self")?;
            let gate = s.prims.unary(UnaryOp::Sigmoid, x)?;
            s.prims.mul(x, gate)?
        }
        "gelu" => gelu(s)?,
        "leaky_relu" => {
            let x = s.tensor("self")?;
            let slope = s.call.number("negative_slope")?;
            let scaled = s.prims.mul_number(x, slope)?;
            positive_or(s.prims, x, x, scaled)?
        }
        "elu" => {
            let x = s.tensor("self")?;
            let (alpha, scale) = (s.call.number("alpha")?, s.call.number("scale")?);
            let input_scale = s.call.number("input_scale")?;
            elu(s.prims, x, alpha, scale, input_scale)?
        }
        "selu" => {
            let x = s.tensor("self")?;
            elu(s.prims, x, 1.673_263_242_354_377_3, 1.050_700_987_355_480_5, 1.0)?
        }
        "softplus" => {
            let x = s.tensor("self")?;
            let (beta, threshold) = (s.call.number("beta")?, s.call.number("threshold")?);
            let scaled = s.prims.mul_number(x, beta)?;
            let soft = super::loss::softplus(s.prims, scaled)?;
            let beta = s.prims.number(beta);
            let soft = s.prims.div(soft, beta)?;
            let threshold = s.prims.number(threshold);
            let linear = s.prims.compare(CompareOp::Gt, scaled, threshold)?;
            s.prims.select(linear, x, soft)?
        }
        "hardsigmoid" => {
            let x = s.tensor("self")?;
            hard_gate(s.prims, x)?
        }
        "hardswish" => {
            let x = s.tensor("self")?;
            let gate = hard_gate(s.prims, x)?;
            s.prims.mul(x, gate)?
        }
        "mish" => {
            let x = s.tensor("self")?;
            let gate = tanh_softplus(s.prims, x)?;
            s.prims.mul(x, gate)?
        }
        "relu6" => {
            let x = s.tensor("self")?;
            let (zero, six) = (s.prims.number(0.0), s.prims.number(6.0));
            let low = s.prims.binary(BinaryOp::Max, x, zero)?;
            s.prims.binary(BinaryOp::Min, low, six)?
        }
        "celu" => {
            let (x, alpha) = (s.tensor("self")?, s.call.number("alpha")?);
            elu(s.prims, x, alpha, 1.0, 1.0 / alpha)?
        }
        "log_sigmoid" => {
            let x = s.tensor("self")?;
            super::loss::log_sigmoid(s.prims, x)?
        }
        "log10" => {
            let log = unary(s, UnaryOp::Log)?;
            s.prims.mul_number(log, std::f64::consts::LOG10_E)?
        }
        "tan" => {
            let (sin, cos) = (unary(s, UnaryOp::Sin)?, unary(s, UnaryOp::Cos)?);
            s.prims.div(sin, cos)?
        }
        "isinf" | "isfinite" => {
            let x = operand_float(s)?;
            let magnitude = s.prims.unary(UnaryOp::Abs, x)?;
            let infinity = s.prims.number(f64::INFINITY);
            let op = if name == "isinf" {
                CompareOp::Eq
            } else {
                CompareOp::Lt
            };
            s.prims.compare(op, magnitude, infinity)?
        }
        "sign" => {
            let x = s.tensor("self")?;
            let [zero, one, minus_one] = [0.0, 1.0, -1.0].map(|v| s.prims.number(v));
            let is_negative = s.prims.compare(CompareOp::Lt, x, zero)?;
            let is_positive = s.prims.compare(CompareOp::Gt, x, zero)?;
            let rest = s.prims.select(is_negative, minus_one, zero)?;
            let rest = s.prims.cast(rest, s.prims.dtype(x));
            s.prims.select(is_positive, one, rest)?
        }
        "addcmul" | "addcdiv" => {
            let dtype = s.dtype()?;
            let (x, a, b) = (
                operand(s, "self")?,
                operand(s, "tensor1")?,
                operand(s, "tensor2")?,
            );
            let op = if name == "addcmul" {
                BinaryOp::Mul
            } else {
                BinaryOp::Div
            };
            if op == BinaryOp::Div && !dtype.is_float() {
                return Ok(None);
            }
            let value = s.call.number("value")?;
            let a = scaled(s.prims, a, value)?;
            let term = s.prims.binary(op, a, b)?;
            s.prims.add(x, term)?
        }
        "lerp" => {
            let (start, end) = (operand(s, "self")?, operand(s, "end")?);
            let weight = match s.call.opt_number("weight") {
                Ok(Some(weight)) => s.prims.number(weight),
                _ => operand(s, "weight")?,
            };
            // From the nearer end, as PyTorch has it.
            let way = s.prims.sub(end, start)?;
            let step = s.prims.mul(weight, way)?;
            let from_start = s.prims.add(start, step)?;
            let one = s.prims.number(1.0);
            let rest = s.prims.sub(one, weight)?;
            let back = s.prims.mul(way, rest)?;
            let from_end = s.prims.sub(end, back)?;
            let size = s.prims.unary(UnaryOp::Abs, weight)?;
            let half = s.prims.number(0.5);
            let is_near = s.prims.compare(CompareOp::Lt, size, half)?;
            s.prims.select(is_near, from_start, from_end)?
        }
        "prelu" => {
            let (x, weight) = (s.tensor("self")?, s.tensor("weight")?);
            let channels = s.prims.shape(weight).to_vec();
            let shape = s.prims.shape(x).iter().enumerate().skip(1);
            let shape = shape.map(|(i, _)| match channels.first() {
                Some(count) if i == 1 => count.clone(),
                _ => Expr::constant(1),
            });
            let shape = if s.prims.rank(x) < 2 {
                channels.clone()
            } else {
                shape.collect()
            };
            let slope = s.prims.reshape(weight, shape);
            let negative = s.prims.mul(slope, x)?;
            positive_or(s.prims, x, x, negative)?
        }
        "type_as" => {
            let (x, dtype) = (s.tensor("self")?, s.dtype()?);
            s.prims.cast(x, dtype)
        }
        "logical_xor" | "bitwise_xor" => binary(s, BinaryOp::Xor)?,
        "hardtanh" => {
            let x = s.tensor("self")?;
            let (lo, hi) = (s.number("min_val")?, s.number("max_val")?);
            let low = s.prims.binary(BinaryOp::Max, x, lo)?;
            s.prims.binary(BinaryOp::Min, low, hi)?
        }
        "clamp" | "clamp_min" | "clamp_max" => clamp(s, name)?,
        "add" | "sub" | "rsub" => {
            let (mut a, mut b) = operands(s)?;
            let alpha = s.call.number("alpha")?;
            if name == "rsub" {
                std::mem::swap(&mut a, &mut b);
                a = scaled(s.prims, a, 1.0)?;
            }
            let b = scaled(s.prims, b, alpha)?;
            if name == "add" {
                s.prims.add(a, b)?
            } else {
                s.prims.sub(a, b)?
            }
        }
        "mul" | "multiply" => {
            let (a, b) = operands(s)?;
            product(s, a, b)?
        }
        "div" if s.call.op().name().ends_with("_mode") => match s.call.arg("rounding_mode")? {
            Arg::Str(mode) if mode == "floor" => arithmetic::floor_divide(s)?,
            Arg::Str(mode) if mode == "trunc" => arithmetic::truncated_quotient(s)?,
            _ => {
                let (a, b) = operands(s)?;
                s.prims.div(a, b)?
            }
        },
        "floor_divide" => arithmetic::floor_divide(s)?,
        "remainder" => binary(s, BinaryOp::Mod)?,
        "fmod" => arithmetic::truncated_remainder(s)?,
        "glu" => {
            let x = s.tensor("self")?;
            let dim = s.dim("dim", s.prims.rank(x))?;
            let count = s.result(0)?.shape.get(dim).cloned().unwrap_or(Expr::constant(1));
            let part =
                |s: &mut Step<'_>, start: Expr| s.prims.window(x, Window::new(dim, start, 1), count.clone());
            let (value, gate) = (part(s, Expr::constant(0)), part(s, count.clone()));
            let gate = s.prims.unary(UnaryOp::Sigmoid, gate)?;
            s.prims.mul(value, gate)?
        }
        "div" => {
            let (a, b) = operands(s)?;
            s.prims.div(a, b)?
        }
        "maximum" => binary(s, BinaryOp::Max)?,
        "minimum" => binary(s, BinaryOp::Min)?,
        "max" | "min" if s.call.op().name().ends_with(".other") => binary(
            s,
            if name == "max" {
                BinaryOp::Max
            } else {
                BinaryOp::Min
            },
        )?,
        "pow" => arithmetic::pow(s)?,
        "eq" => compare(s, CompareOp::Eq)?,
        "ne" => compare(s, CompareOp::Ne)?,
        "lt" => compare(s, CompareOp::Lt)?,
        "le" => compare(s, CompareOp::Le)?,
        "gt" => compare(s, CompareOp::Gt)?,
        "ge" => compare(s, CompareOp::Ge)?,
        "logical_and" | "bitwise_and" => binary(s, BinaryOp::And)?,
        "logical_or" | "bitwise_or" => binary(s, BinaryOp::Or)?,
        "where" => {
            let condition = s.tensor("condition")?;
            let (a, b) = operands(s)?;
            s.prims.select(condition, a, b)?
        }
        "masked_fill" => {
            let (x, mask) = (s.tensor("self")?, s.tensor("mask")?);
            let value = match s.call.opt_number("value") {
                Ok(Some(v)) => s.prims.number(v),
                _ => s.tensor("value")?,
            };
            let value = s.prims.cast(value, s.prims.dtype(x));
            s.prims.select(mask, value, x)?
        }
        "copy" => {
            let (source, result) = (s.tensor("src")?, s.result(0)?.clone());
            let source = s.prims.cast(source, result.dtype);
            s.prims.expand(source, result.shape)
        }
        "_to_copy" | "to" => {
            let x = s.tensor("self")?;
            let dtype = s.dtype()?;
            s.prims.cast(x, dtype)
        }
        _ => return super::elementary::decompose(s, name),
    };
    Ok(Some(vec![result]))
}

/// A tensor argument in the element type of the result.
pub(super) fn operand(s: &mut Step<'_>, name: &str) -> Result<PrimId> {
    let (x, dtype) = (s.tensor(name)?, s.dtype()?);
    Ok(s.prims.cast(x, dtype))
}

/// The operand of a predicate.
fn operand_float(s: &mut Step<'_>) -> Result<PrimId> {
    let x = s.tensor("self")?;
    let dtype = s.prims.dtype(x);
    Ok(s.prims.cast(x, if dtype.is_float() { dtype } else { DType::F32 }))
}

fn unary(s: &mut Step<'_>, op: UnaryOp) -> Result<PrimId> {
    let x = operand(s, "self")?;
    let is_rounding = matches!(
        op,
        UnaryOp::Floor | UnaryOp::Ceil | UnaryOp::Round | UnaryOp::Trunc
    );
    if is_rounding && !s.prims.dtype(x).is_float() {
        return Ok(x);
    }
    s.prims.unary(op, x)
}

/// `self` and `other`, tensors or numbers, in the element type of the result.
pub(super) fn operands(s: &mut Step<'_>) -> Result<(PrimId, PrimId)> {
    let dtype = s.dtype()?;
    let mut get = |name: &str| match (s.call.opt_number(name), s.call.arg(name)) {
        (Ok(Some(v)), _) => Ok(s.prims.number(v)),
        // A size that is open.
        (_, Ok(Arg::Int(size))) => {
            let size = s.prims.integer(size);
            Ok(s.prims.cast(size, dtype))
        }
        _ => s.tensor(name).map(|x| s.prims.cast(x, dtype)),
    };
    Ok((get("self")?, get("other")?))
}

/// The product, which of booleans is their conjunction.
pub(super) fn product(s: &mut Step<'_>, a: PrimId, b: PrimId) -> Result<PrimId> {
    let op = match s.prims.dtype(a) {
        DType::Bool => BinaryOp::And,
        _ => BinaryOp::Mul,
    };
    s.prims.binary(op, a, b)
}

pub(super) fn binary(s: &mut Step<'_>, op: BinaryOp) -> Result<PrimId> {
    let (a, b) = operands(s)?;
    s.prims.binary(op, a, b)
}

/// Comparisons compute in the promoted type of their operands, not in that of their boolean result.
fn compare(s: &mut Step<'_>, op: CompareOp) -> Result<PrimId> {
    let a = s.tensor("self")?;
    if let Ok(Some(v)) = s.call.opt_number("other") {
        let dtype = s.prims.dtype(a);
        let a = match dtype {
            _ if v.fract() != 0.0 && !dtype.is_float() => s.prims.cast(a, DType::F32),
            // Other numbers than these are no truth values.
            DType::Bool if v != 0.0 && v != 1.0 => s.prims.cast(a, DType::I64),
            _ => a,
        };
        let b = s.prims.number(v);
        return s.prims.compare(op, a, b);
    }
    let b = s.tensor("other")?;
    let dtype = s.prims.dtype(a).promote(s.prims.dtype(b));
    let (a, b) = (s.prims.cast(a, dtype), s.prims.cast(b, dtype));
    s.prims.compare(op, a, b)
}

fn scaled(p: &mut Prims, x: PrimId, alpha: f64) -> Result<PrimId> {
    if alpha == 1.0 {
        Ok(x)
    } else {
        p.mul_number(x, alpha)
    }
}

/// `condition_of > 0 ? a : b`.
fn positive_or(p: &mut Prims, condition_of: PrimId, a: PrimId, b: PrimId) -> Result<PrimId> {
    let zero = p.number(0.0);
    let positive = p.compare(CompareOp::Gt, condition_of, zero)?;
    p.select(positive, a, b)
}

fn elu(p: &mut Prims, x: PrimId, alpha: f64, scale: f64, input_scale: f64) -> Result<PrimId> {
    let inner = scaled(p, x, input_scale)?;
    let e = p.unary(UnaryOp::Expm1, inner)?;
    let negative = scaled(p, e, alpha * scale)?;
    let positive = scaled(p, x, scale)?;
    positive_or(p, x, positive, negative)
}

/// Where softplus is taken for the identity, and its hyperbolic tangent is 1 in every type.
const LINEAR: f64 = 20.0;

/// `tanh(log1p(e^x))`, which is `n / (n + 2)` with `n = e^x (e^x + 2)`: one exponential, and no difference in which
/// digits cancel.
fn tanh_softplus(p: &mut Prims, x: PrimId) -> Result<PrimId> {
    let limit = p.number(LINEAR);
    let low = p.binary(BinaryOp::Min, x, limit)?;
    let e = p.unary(UnaryOp::Exp, low)?;
    let shifted = p.add_number(e, 2.0)?;
    let n = p.mul(e, shifted)?;
    let whole = p.add_number(n, 2.0)?;
    p.div(n, whole)
}

/// What `soft` is the softplus of, in the form that this module gives to one of slope 1.
fn softplus_of(p: &Prims, soft: PrimId) -> Option<PrimId> {
    let map = |id: PrimId, op: MapOp| match &p.node(id).prim {
        Prim::Map(own, args) if *own == op => Some(args.as_slice()),
        _ => None,
    };
    let &[linear, x, sum] = map(soft, MapOp::Select)? else {
        return None;
    };
    let &[scaled, threshold] = map(linear, MapOp::Compare(CompareOp::Gt))? else {
        return None;
    };
    let &[positive, log] = map(sum, MapOp::Binary(BinaryOp::Add))? else {
        return None;
    };
    let &[above, floor] = map(positive, MapOp::Binary(BinaryOp::Max))? else {
        return None;
    };
    let chain = [UnaryOp::Log1p, UnaryOp::Exp, UnaryOp::Neg, UnaryOp::Abs];
    let from = chain
        .iter()
        .try_fold(log, |id, op| match map(id, MapOp::Unary(*op))? {
            [inner] => Some(*inner),
            _ => None,
        })?;
    let same = [scaled, above, from] == [x; 3] && p.constant(floor) == Some(0.0);
    let saturates = p.constant(threshold).is_some_and(|t| t >= LINEAR);
    (same && saturates).then_some(x)
}

/// `clamp(x + 3, 0, 6) / 6`.
fn hard_gate(p: &mut Prims, x: PrimId) -> Result<PrimId> {
    let shifted = p.add_number(x, 3.0)?;
    let (zero, six) = (p.number(0.0), p.number(6.0));
    let low = p.binary(BinaryOp::Max, shifted, zero)?;
    let high = p.binary(BinaryOp::Min, low, six)?;
    p.mul_number(high, 1.0 / 6.0)
}

fn gelu(s: &mut Step<'_>) -> Result<PrimId> {
    let x = s.tensor("self")?;
    let tanh = s.call.str("approximate")? == "tanh";
    let p = &mut *s.prims;
    let inner = if tanh {
        let squared = p.mul(x, x)?;
        let cubed = p.mul(squared, x)?;
        let cubed = p.mul_number(cubed, 0.044_715)?;
        let sum = p.add(x, cubed)?;
        let scaled = p.mul_number(sum, (2.0 / std::f64::consts::PI).sqrt())?;
        p.unary(UnaryOp::Tanh, scaled)?
    } else {
        let scaled = p.mul_number(x, std::f64::consts::FRAC_1_SQRT_2)?;
        p.unary(UnaryOp::Erf, scaled)?
    };
    let gate = p.add_number(inner, 1.0)?;
    let half = p.mul_number(x, 0.5)?;
    p.mul(half, gate)
}

fn clamp(s: &mut Step<'_>, name: &str) -> Result<PrimId> {
    let mut x = operand(s, "self")?;
    for (bound, op) in [("min", BinaryOp::Max), ("max", BinaryOp::Min)] {
        if name != "clamp" && !name.ends_with(bound) || !s.call.has(bound)? {
            continue;
        }
        let limit = match s.call.opt_number(bound) {
            Ok(Some(v)) => s.prims.number(v),
            _ => operand(s, bound)?,
        };
        x = s.prims.binary(op, x, limit)?;
    }
    Ok(x)
}
