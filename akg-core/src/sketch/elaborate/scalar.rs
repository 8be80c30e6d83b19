//! Values that are known without running a kernel: index expressions, conditions on them, floating constants.

use std::ops::Range;

use super::{Elab, fault};
use crate::expr::Expr;
use crate::sketch::ir::{CompareOp, Condition, Val};

/// What an expression stands for.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    /// An integer expression over extents and indices.
    Int(Expr),
    /// A floating constant, which takes the type of what it meets.
    Float(f64),
    /// A condition on integers.
    Condition(Condition),
    /// A tile.
    Tile(Val),
}

impl Value {
    /// The number, if it is one: a floating constant or a constant integer.
    fn as_f64(&self) -> Option<f64> {
        match self {
            Value::Float(value) => Some(*value),
            Value::Int(expr) => expr.as_const().map(|v| v as f64),
            Value::Condition(_) | Value::Tile(_) => None,
        }
    }

    pub(super) fn as_const_int(&self) -> Option<i64> {
        match self {
            Value::Int(expr) => expr.as_const(),
            _ => None,
        }
    }
}

/// The truth of a condition without symbols.
pub(super) fn truth(condition: &Condition) -> Option<bool> {
    Some(match condition {
        Condition::Compare(op, a, b) => compare(*op, &(a - b).as_const()?, &0),
        Condition::And(a, b) => truth(a)? && truth(b)?,
        Condition::Or(a, b) => truth(a)? || truth(b)?,
        Condition::Not(a) => !truth(a)?,
    })
}

/// The most comparisons and connectives of a condition.
const MAX_CONDITION: usize = 256;

/// An integer, unless it goes beyond the limits of expressions.
fn limited(expr: Expr, span: &Range<usize>) -> Elab<Value> {
    match expr.excess() {
        None => Ok(Value::Int(expr)),
        Some(excess) => fault(excess.to_string(), span.clone()),
    }
}

/// A condition, unless it is too large. Names for conditions let a short text double it with every line.
fn connected(condition: Condition, span: &Range<usize>) -> Elab<Value> {
    fn size(condition: &Condition) -> usize {
        match condition {
            Condition::Compare(..) => 1,
            Condition::And(a, b) | Condition::Or(a, b) => 1 + size(a) + size(b),
            Condition::Not(a) => 1 + size(a),
        }
    }
    if size(&condition) > MAX_CONDITION {
        let message = format!("a condition of more than {MAX_CONDITION} comparisons and connectives");
        return fault(message, span.clone());
    }
    Ok(Value::Condition(condition))
}

fn compare<T: PartialOrd>(op: CompareOp, a: &T, b: &T) -> bool {
    match op {
        CompareOp::Lt => a < b,
        CompareOp::Le => a <= b,
        CompareOp::Gt => a > b,
        CompareOp::Ge => a >= b,
        CompareOp::Eq => a == b,
        CompareOp::Ne => a != b,
    }
}

pub(super) fn compare_op(sign: &str) -> Option<CompareOp> {
    sign.parse().ok()
}

/// `-x` or `!x` of a value that is no tile.
pub(super) fn unary(sign: char, value: Value, span: &Range<usize>) -> Elab<Value> {
    match (sign, value) {
        ('-', Value::Int(expr)) => limited(-expr, span),
        ('-', Value::Float(value)) => Ok(Value::Float(-value)),
        ('!', Value::Condition(condition)) => connected(Condition::Not(Box::new(condition)), span),
        _ => fault(format!("`{sign}` does not apply to this constant"), span.clone()),
    }
}

/// `a sign b` of values that are no tiles.
pub(super) fn binary(sign: &str, a: &Value, b: &Value, span: &Range<usize>) -> Elab<Value> {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => integer(sign, a, b, span),
        (Value::Condition(a), Value::Condition(b)) => {
            let (a, b) = (Box::new(a.clone()), Box::new(b.clone()));
            match sign {
                "&" => connected(Condition::And(a, b), span),
                "|" => connected(Condition::Or(a, b), span),
                _ => fault(
                    format!("`{sign}` does not apply to conditions; use `&`, `|` and `!`"),
                    span.clone(),
                ),
            }
        }
        _ => {
            let (Some(x), Some(y)) = (a.as_f64(), b.as_f64()) else {
                let message = "a floating constant and an integer that is not known here have no common type; \
                               write the type, as in `f32(m) * 0.5`";
                return fault(message, span.clone());
            };
            let number = match sign {
                "+" => x + y,
                "-" => x - y,
                "*" => x * y,
                "/" => x / y,
                _ => {
                    let Some(op) = compare_op(sign) else {
                        return fault(
                            format!("`{sign}` does not apply to floating constants"),
                            span.clone(),
                        );
                    };
                    let one = i64::from(compare(op, &x, &y));
                    return Ok(Value::Condition(Condition::Compare(
                        CompareOp::Ne,
                        one.into(),
                        0.into(),
                    )));
                }
            };
            Ok(Value::Float(number))
        }
    }
}

fn integer(sign: &str, a: &Expr, b: &Expr, span: &Range<usize>) -> Elab<Value> {
    if let Some(op) = compare_op(sign) {
        return Ok(Value::Condition(Condition::Compare(op, a.clone(), b.clone())));
    }
    let expr = match sign {
        "+" => a + b,
        "-" => a - b,
        "*" => a * b,
        "//" | "%" if b.is(0) => return fault("division by zero", span.clone()),
        "//" => a.floor_div(b),
        "%" => a.modulo(b),
        "/" => {
            return fault(
                "`/` divides floats; write `//` to divide integers, rounding down",
                span.clone(),
            );
        }
        _ => match (a.as_const(), b.as_const()) {
            (Some(a), Some(b)) => {
                let shift = u32::try_from(b).ok();
                let value = match sign {
                    "&" => Some(a & b),
                    "|" => Some(a | b),
                    "^" => Some(a ^ b),
                    "<<" => shift.and_then(|s| a.checked_shl(s)),
                    _ => shift.and_then(|s| a.checked_shr(s)),
                };
                match value {
                    Some(value) => value.into(),
                    None => return fault("a shift by less than 0 or more than 63 bits", span.clone()),
                }
            }
            _ => {
                let message =
                    format!("`{sign}` needs integers that are known here; for tiles write `i32(…) {sign} …`");
                return fault(message, span.clone());
            }
        },
    };
    limited(expr, span)
}

/// A function of values that are no tiles; `None` if there is none of that name.
pub(super) fn call(name: &str, arguments: &[Value], span: &Range<usize>) -> Option<Elab<Value>> {
    match (name, arguments) {
        ("ceildiv" | "roundup", [Value::Int(_), Value::Int(b)]) if b.is(0) => {
            Some(fault("division by zero", span.clone()))
        }
        ("ceildiv", [Value::Int(a), Value::Int(b)]) => Some(limited(a.ceil_div(b), span)),
        ("roundup", [Value::Int(a), Value::Int(b)]) => Some(limited(a.round_up(b), span)),
        ("min", [Value::Int(a), Value::Int(b)]) => Some(limited(a.minimum(b), span)),
        ("max", [Value::Int(a), Value::Int(b)]) => Some(limited(a.maximum(b), span)),
        ("pow2ceil", [Value::Int(a)]) => Some(match a.as_const().map(|v| u64::try_from(v.max(1))) {
            Some(Ok(value)) if value <= 1 << 62 => Ok(Value::Int((value.next_power_of_two() as i64).into())),
            _ => fault(
                format!("`pow2ceil` needs a number, but `{a}` has no value here"),
                span.clone(),
            ),
        }),
        ("ceildiv" | "roundup" | "pow2ceil", _) => {
            let usage = "takes integers: `ceildiv(a, b)`, `roundup(a, b)`, `pow2ceil(a)`";
            Some(fault(format!("`{name}` {usage}"), span.clone()))
        }
        _ => {
            let numbers: Option<Vec<f64>> = arguments.iter().map(Value::as_f64).collect();
            let number = match (name, numbers?.as_slice()) {
                ("sqrt", [x]) => x.sqrt(),
                ("rsqrt", [x]) => x.sqrt().recip(),
                ("exp", [x]) => x.exp(),
                ("exp2", [x]) => x.exp2(),
                ("log", [x]) => x.ln(),
                ("log2", [x]) => x.log2(),
                ("abs", [x]) => x.abs(),
                ("pow", [x, y]) => x.powf(*y),
                ("min", [x, y]) => x.min(*y),
                ("max", [x, y]) => x.max(*y),
                _ => return None,
            };
            Some(Ok(Value::Float(number)))
        }
    }
}
