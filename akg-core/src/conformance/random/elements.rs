//! Element-wise calls.

use crate::dtype::DType;
use crate::error::Result;
use crate::graph::ValueId;

use super::grow::{Grower, closed};

/// Operators of one operand that are defined everywhere.
const UNARY: [&str; 32] = [
    "relu",
    "neg",
    "abs",
    "sin",
    "cos",
    "tanh",
    "erf",
    "sigmoid",
    "gelu",
    "silu",
    "mish",
    "hardswish",
    "hardsigmoid",
    "selu",
    "relu6",
    "log_sigmoid",
    "square",
    "sign",
    "floor",
    "ceil",
    "round",
    "trunc",
    "leaky_relu",
    "elu",
    "celu",
    "softplus",
    "hardtanh",
    "exp",
    "expm1",
    "exp2",
    "tan",
    "clone",
];

/// Operators of positive numbers.
const OF_POSITIVE: [&str; 7] = ["log", "log2", "log10", "log1p", "sqrt", "rsqrt", "reciprocal"];

/// Operators of one operand that take other element types, too.
const OF_WHOLE: [&str; 7] = ["relu", "neg", "abs", "sign", "square", "clone", "sigmoid"];

fn call_unary(g: &mut Grower, op: &str, x: ValueId) -> Result<ValueId> {
    g.call1(&format!("{op}.default"), [("self", x.into())])
}

/// What is positive, and not close to zero, for any `x`.
pub(super) fn positive(g: &mut Grower, x: ValueId) -> Result<ValueId> {
    if g.dtype(x) == DType::Bool {
        return closed();
    }
    match g.below(4) {
        0 => {
            let y = g.graph.abs(x)?;
            g.graph.add(y, 0.5)
        }
        1 => {
            let y = g.graph.sigmoid(x)?;
            g.graph.add(y, 0.25)
        }
        2 => {
            let y = g.graph.mul(x, x)?;
            g.graph.add(y, 1.0)
        }
        _ => {
            let (shape, dtype) = (g.shape(x), g.dtype(x));
            g.positive_input(dtype, &shape)
        }
    }
}

pub(super) fn unary(g: &mut Grower) -> Result<()> {
    if g.chance(0.1) {
        let x = g.value(|g, v| matches!(g.dtype(v), DType::I64 | DType::I32))?;
        let op = g.pick(&OF_WHOLE)?;
        return call_unary(g, op, x).map(drop);
    }
    let x = g.float(0, 5)?;
    // The rules compute GELU as `1 + erf(x)`, whose digits cancel where all of `x` is far below zero.
    let has_gelu = g.largest(x) > 0.0;
    match g.below(12) {
        0..2 => {
            let (op, x) = (g.pick(&OF_POSITIVE)?, positive(g, x)?);
            call_unary(g, op, x)?;
        }
        2 if has_gelu => {
            g.graph.gelu_tanh(x)?;
        }
        3 => {
            let (alpha, slope) = (g.pick(&[0.5, 1.0, 1.5])?, g.pick(&[0.01, 0.2, -0.5])?);
            match g.below(5) {
                0 => g.graph.elu(x, alpha)?,
                1 => g.graph.leaky_relu(x, slope)?,
                2 => g.graph.hardtanh(x, -alpha, alpha / 2.0)?,
                3 => g.call1("celu.default", [("self", x.into()), ("alpha", alpha.into())])?,
                _ => {
                    let args = [
                        ("self", x.into()),
                        ("beta", alpha.into()),
                        ("threshold", 1.0.into()),
                    ];
                    g.call1("softplus.default", args)?
                }
            };
        }
        4 if g.rank(x) > 0 => {
            let channels = g.shape(x).get(1).copied().unwrap_or(1);
            let (count, dtype) = (g.pick(&[1, channels])?, g.dtype(x));
            let w = g.weight(dtype, &[count], 4)?;
            g.call("prelu.default", [("self", x.into()), ("weight", w.into())])?;
        }
        _ => {
            let op = g.pick(&UNARY)?;
            if op == "gelu" && !has_gelu {
                return closed();
            }
            call_unary(g, op, x)?;
        }
    }
    Ok(())
}

pub(super) fn binary(g: &mut Grower) -> Result<()> {
    let x = if g.chance(0.85) {
        g.float(0, 5)?
    } else {
        g.value(|g, v| g.dtype(v) != DType::Bool)?
    };
    let y = g.partner(x)?;
    let (x, y) = if g.chance(0.5) { (x, y) } else { (y, x) };
    match g.below(12) {
        0..3 => g.graph.add(x, y),
        3 | 4 => g.graph.sub(x, y),
        5..8 => g.graph.mul(x, y),
        8 => g.graph.maximum(x, y),
        9 => g.graph.minimum(x, y),
        10 => {
            let y = positive(g, y)?;
            g.graph.div(x, y)
        }
        _ => {
            let x = positive(g, x)?;
            g.graph.pow(x, y)
        }
    }?;
    Ok(())
}

pub(super) fn scalar(g: &mut Grower) -> Result<()> {
    let x = g.value(|g, v| g.dtype(v) != DType::Bool)?;
    let number: f64 = g.pick(&[0.5, -1.25, 2.0, 3.0, 0.1, 1.0])?;
    match g.below(8) {
        0 => g.graph.add(x, number),
        1 => g.graph.sub(x, number),
        2 => g.graph.mul(x, number),
        3 => g.graph.div(x, number),
        4 => g.call1("rsub.Scalar", [("self", x.into()), ("other", number.into())]),
        5 => {
            let exponent = g.pick(&[2.0, 3.0])?;
            g.graph.pow(x, exponent)
        }
        6 => {
            let x = positive(g, x)?;
            let exponent = g.pick(&[0.5, -0.5, -1.0, -2.0, 1.5])?;
            g.graph.pow(x, exponent)
        }
        _ => g.graph.clamp(x, Some(-number.abs()), Some(number.abs())),
    }?;
    Ok(())
}

/// A boolean that broadcasts with `x`.
fn condition(g: &mut Grower, x: ValueId) -> Result<ValueId> {
    let shape = g.shape(x);
    let old = g.value(|g, v| g.dtype(v) == DType::Bool && g.shape(v) == shape);
    match old {
        Ok(old) if g.chance(0.6) => Ok(old),
        _ => {
            let shape = g.narrower(&shape);
            g.input("b", DType::Bool, &shape)
        }
    }
}

pub(super) fn choice(g: &mut Grower) -> Result<()> {
    let x = g.float(0, 5)?;
    let (y, condition) = (g.partner(x)?, condition(g, x)?);
    match g.below(3) {
        0 => g.graph.masked_fill(x, condition, -1.5),
        1 => {
            let args = [
                ("condition", condition.into()),
                ("self", x.into()),
                ("other", 0.5.into()),
            ];
            g.call1("where.ScalarOther", args)
        }
        _ => g.graph.where_(condition, x, y),
    }?;
    Ok(())
}

pub(super) fn predicate(g: &mut Grower) -> Result<()> {
    if g.chance(0.4) {
        let x = g.value(|g, v| g.dtype(v) == DType::Bool)?;
        let y = g.partner(x).and_then(|y| {
            if g.dtype(y) == DType::Bool {
                Ok(y)
            } else {
                condition(g, x)
            }
        })?;
        match g.below(4) {
            0 => g.graph.logical_and(x, y),
            1 => g.graph.logical_or(x, y),
            2 => g.call1("logical_xor.default", [("self", x.into()), ("other", y.into())]),
            _ => g.graph.logical_not(x),
        }?;
        return Ok(());
    }
    let x = g.value(|g, v| g.dtype(v) != DType::Bool)?;
    if g.chance(0.5) {
        let number = g.pick(&[0.0, 0.5, 1.0, -1.25])?;
        match g.below(4) {
            0 => g.graph.gt(x, number),
            1 => g.graph.le(x, number),
            2 => g.graph.ne(x, number),
            _ => g.graph.isnan(x),
        }?;
        return Ok(());
    }
    let y = g.partner(x)?;
    match g.below(6) {
        0 => g.graph.eq(x, y),
        1 => g.graph.ne(x, y),
        2 => g.graph.lt(x, y),
        3 => g.graph.le(x, y),
        4 => g.graph.gt(x, y),
        _ => g.graph.ge(x, y),
    }?;
    Ok(())
}

pub(super) fn conversion(g: &mut Grower) -> Result<()> {
    let x = g.value(|_, _| true)?;
    let dtype = g.pick(&[
        DType::F32,
        DType::F32,
        DType::F16,
        DType::BF16,
        DType::I32,
        DType::I64,
        DType::Bool,
        DType::F64,
    ])?;
    g.graph.to_dtype(x, dtype)?;
    Ok(())
}

pub(super) fn fused(g: &mut Grower) -> Result<()> {
    let x = g.float(0, 5)?;
    let (a, b) = (g.partner(x)?, g.partner(x)?);
    let value = g.pick(&[1.0, 0.5, -2.0])?;
    let is_quotient = g.chance(0.4);
    let b = if is_quotient { positive(g, b)? } else { b };
    let op = if is_quotient {
        "addcdiv.default"
    } else {
        "addcmul.default"
    };
    let args = [
        ("self", x.into()),
        ("tensor1", a.into()),
        ("tensor2", b.into()),
        ("value", value.into()),
    ];
    g.call(op, args)?;
    Ok(())
}
