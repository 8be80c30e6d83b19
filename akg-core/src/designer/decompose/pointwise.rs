//! Element-wise operators.

use super::{Rule, Step, activation, arithmetic, elementary};
use crate::designer::prim::{PrimId, Prims};
use crate::dtype::DType;
use crate::error::Result;
use crate::graph::Arg;
use crate::sketch::ir::{BinaryOp, CompareOp, UnaryOp};

/// Operators that are one operation on `self`.
const UNARY: &[(&str, UnaryOp)] = &[
    ("neg", UnaryOp::Neg),
    ("abs", UnaryOp::Abs),
    ("exp", UnaryOp::Exp),
    ("exp2", UnaryOp::Exp2),
    ("expm1", UnaryOp::Expm1),
    ("log", UnaryOp::Log),
    ("log2", UnaryOp::Log2),
    ("log1p", UnaryOp::Log1p),
    ("sqrt", UnaryOp::Sqrt),
    ("rsqrt", UnaryOp::Rsqrt),
    ("sin", UnaryOp::Sin),
    ("cos", UnaryOp::Cos),
    ("erf", UnaryOp::Erf),
    ("sigmoid", UnaryOp::Sigmoid),
    ("floor", UnaryOp::Floor),
    ("ceil", UnaryOp::Ceil),
    ("round", UnaryOp::Round),
    ("trunc", UnaryOp::Trunc),
    ("logical_not", UnaryOp::Not),
    ("bitwise_not", UnaryOp::Not),
];

/// Operators that are one operation on `self` and `other`.
const BINARY: &[(&str, BinaryOp)] = &[
    ("maximum", BinaryOp::Max),
    ("max", BinaryOp::Max),
    ("minimum", BinaryOp::Min),
    ("min", BinaryOp::Min),
    ("remainder", BinaryOp::Mod),
    ("logical_and", BinaryOp::And),
    ("bitwise_and", BinaryOp::And),
    ("logical_or", BinaryOp::Or),
    ("bitwise_or", BinaryOp::Or),
    ("logical_xor", BinaryOp::Xor),
    ("bitwise_xor", BinaryOp::Xor),
];

/// Comparisons of `self` with `other`.
const COMPARISONS: &[(&str, CompareOp)] = &[
    ("eq", CompareOp::Eq),
    ("ne", CompareOp::Ne),
    ("lt", CompareOp::Lt),
    ("le", CompareOp::Le),
    ("gt", CompareOp::Gt),
    ("ge", CompareOp::Ge),
];

/// The rules of the other operators.
const RULES: &[(&str, Rule)] = &[
    ("isnan", |s| {
        let x = operand_float(s)?;
        s.prims.unary(UnaryOp::IsNan, x)
    }),
    ("isinf", |s| magnitude_to_infinity(s, CompareOp::Eq)),
    ("isfinite", |s| magnitude_to_infinity(s, CompareOp::Lt)),
    ("sign", |s| {
        let x = s.tensor("self")?;
        let [zero, one, minus_one] = [0.0, 1.0, -1.0].map(|v| s.prims.number(v));
        let is_negative = s.prims.compare(CompareOp::Lt, x, zero)?;
        let is_positive = s.prims.compare(CompareOp::Gt, x, zero)?;
        let rest = s.prims.select(is_negative, minus_one, zero)?;
        let rest = s.prims.cast(rest, s.prims.dtype(x));
        s.prims.select(is_positive, one, rest)
    }),
    ("reciprocal", |s| {
        let x = operand(s, "self")?;
        let one = s.prims.number(1.0);
        s.prims.div(one, x)
    }),
    ("square", |s| {
        let x = operand(s, "self")?;
        s.prims.mul(x, x)
    }),
    ("log10", |s| {
        let log = unary(s, UnaryOp::Log)?;
        s.prims.mul_number(log, std::f64::consts::LOG10_E)
    }),
    ("tan", |s| {
        let (sin, cos) = (unary(s, UnaryOp::Sin)?, unary(s, UnaryOp::Cos)?);
        s.prims.div(sin, cos)
    }),
    ("add", |s| {
        let (a, b) = operands(s)?;
        sum(s, a, b)
    }),
    ("sub", |s| {
        let (a, b) = operands(s)?;
        difference(s, a, b)
    }),
    ("rsub", |s| {
        let (a, b) = operands(s)?;
        difference(s, b, a)
    }),
    ("mul", multiply),
    ("multiply", multiply),
    ("div", divide),
    ("floor_divide", arithmetic::floor_divide),
    ("fmod", arithmetic::truncated_remainder),
    ("pow", arithmetic::pow),
    ("addcmul", |s| add_combined(s, BinaryOp::Mul)),
    ("addcdiv", |s| add_combined(s, BinaryOp::Div)),
    ("lerp", |s| {
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
        s.prims.select(is_near, from_start, from_end)
    }),
    ("clamp", |s| clamp(s, &["min", "max"])),
    ("clamp_min", |s| clamp(s, &["min"])),
    ("clamp_max", |s| clamp(s, &["max"])),
    ("where", |s| {
        let condition = s.tensor("condition")?;
        let (a, b) = operands(s)?;
        s.prims.select(condition, a, b)
    }),
    ("masked_fill", |s| {
        let (x, mask) = (s.tensor("self")?, s.tensor("mask")?);
        let value = match s.call.opt_number("value") {
            Ok(Some(v)) => s.prims.number(v),
            _ => s.tensor("value")?,
        };
        let value = s.prims.cast(value, s.prims.dtype(x));
        s.prims.select(mask, value, x)
    }),
    ("copy", |s| {
        let (source, result) = (s.tensor("src")?, s.result(0)?.clone());
        let source = s.prims.cast(source, result.dtype);
        Ok(s.prims.expand(source, result.shape))
    }),
    ("type_as", converted),
    ("to", converted),
    ("_to_copy", converted),
];

pub(super) fn decompose(s: &mut Step<'_>, name: &str) -> Result<Option<Vec<PrimId>>> {
    let rule = || {
        let tables = [RULES, activation::RULES, elementary::RULES];
        tables.into_iter().find_map(|table| row(table, name))
    };
    let result = if let Some(op) = row(UNARY, name) {
        unary(s, op)?
    } else if let Some(op) = row(BINARY, name) {
        binary(s, op)?
    } else if let Some(op) = row(COMPARISONS, name) {
        compare(s, op)?
    } else if let Some(rule) = rule() {
        rule(s)?
    } else {
        return Ok(None);
    };
    Ok(Some(vec![result]))
}

/// The entry of an operator in a table.
fn row<T: Copy>(table: &[(&str, T)], name: &str) -> Option<T> {
    table.iter().find(|(of, _)| *of == name).map(|(_, what)| *what)
}

/// Compares the magnitude of the operand with infinity.
fn magnitude_to_infinity(s: &mut Step<'_>, op: CompareOp) -> Result<PrimId> {
    let x = operand_float(s)?;
    let magnitude = s.prims.unary(UnaryOp::Abs, x)?;
    let infinity = s.prims.number(f64::INFINITY);
    s.prims.compare(op, magnitude, infinity)
}

/// `a + alpha * b`.
fn sum(s: &mut Step<'_>, a: PrimId, b: PrimId) -> Result<PrimId> {
    let alpha = s.call.number("alpha")?;
    let b = scaled(s.prims, b, alpha)?;
    s.prims.add(a, b)
}

/// `a - alpha * b`.
fn difference(s: &mut Step<'_>, a: PrimId, b: PrimId) -> Result<PrimId> {
    let alpha = s.call.number("alpha")?;
    let b = scaled(s.prims, b, alpha)?;
    s.prims.sub(a, b)
}

fn multiply(s: &mut Step<'_>) -> Result<PrimId> {
    let (a, b) = operands(s)?;
    product(s, a, b)
}

fn divide(s: &mut Step<'_>) -> Result<PrimId> {
    match s.call.opt_arg("rounding_mode") {
        Some(Arg::Str(mode)) if mode == "floor" => arithmetic::floor_divide(s),
        Some(Arg::Str(mode)) if mode == "trunc" => arithmetic::truncated_quotient(s),
        _ => {
            let (a, b) = operands(s)?;
            s.prims.div(a, b)
        }
    }
}

/// `self + value * (tensor1 op tensor2)`.
fn add_combined(s: &mut Step<'_>, op: BinaryOp) -> Result<PrimId> {
    let (x, a, b) = (
        operand(s, "self")?,
        operand(s, "tensor1")?,
        operand(s, "tensor2")?,
    );
    let value = s.call.number("value")?;
    let a = scaled(s.prims, a, value)?;
    let term = s.prims.binary(op, a, b)?;
    s.prims.add(x, term)
}

/// The operand in the element type of the result.
fn converted(s: &mut Step<'_>) -> Result<PrimId> {
    operand(s, "self")
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

pub(super) fn scaled(p: &mut Prims, x: PrimId, alpha: f64) -> Result<PrimId> {
    if alpha == 1.0 {
        Ok(x)
    } else {
        p.mul_number(x, alpha)
    }
}

/// The operand within those bounds of `bounds` that are given.
fn clamp(s: &mut Step<'_>, bounds: &[&str]) -> Result<PrimId> {
    let mut x = operand(s, "self")?;
    for bound in bounds {
        if !s.call.has(bound)? {
            continue;
        }
        let limit = match s.call.opt_number(bound) {
            Ok(Some(v)) => s.prims.number(v),
            _ => operand(s, bound)?,
        };
        let op = if *bound == "min" {
            BinaryOp::Max
        } else {
            BinaryOp::Min
        };
        x = s.prims.binary(op, x, limit)?;
    }
    Ok(x)
}
