//! Operators and literals as sketch text.

use crate::dtype::DType;
use crate::sketch::ir::{BinaryOp, UnaryOp};

/// Element types are computed with in at least f32.
pub(super) fn compute_type(dtype: DType) -> DType {
    match dtype {
        DType::F16 | DType::BF16 => DType::F32,
        other => other,
    }
}

/// A literal of an element type.
pub(super) fn literal(value: f64, dtype: DType) -> String {
    if dtype.is_float() {
        if value.is_nan() {
            "(inf - inf)".into()
        } else if value.is_infinite() {
            if value > 0.0 { "inf".into() } else { "-inf".into() }
        } else {
            format!("{value:?}")
        }
    } else if dtype == DType::Bool {
        i64::from(value != 0.0).to_string()
    } else {
        match value as i64 {
            // Its magnitude is no number of 64 bits.
            i64::MIN => format!("({} - 1)", -i64::MAX),
            value => value.to_string(),
        }
    }
}

pub(super) fn unary(op: UnaryOp, a: &str) -> String {
    let name = op.name();
    if matches!(op, UnaryOp::Neg | UnaryOp::Not) {
        format!("{name}{a}")
    } else {
        format!("{name}({a})")
    }
}

pub(super) fn binary(op: BinaryOp, a: &str, b: &str) -> String {
    let name = op.name();
    if name.starts_with(|c: char| c.is_ascii_alphabetic()) {
        format!("{name}({a}, {b})")
    } else {
        format!("{a} {name} {b}")
    }
}
