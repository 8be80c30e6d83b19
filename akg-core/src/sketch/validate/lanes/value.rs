//! What is known of a value on outside lanes.

use super::super::prove::nonnegative;
use super::super::walk::Site;
use crate::dtype::{DType, DTypeClass};
use crate::expr::Expr;
use crate::sketch::ir::*;

/// The value that a tile has on the lanes of an origin.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::sketch::validate) enum Lane {
    /// A constant; booleans are 0 and 1.
    Known(f64),
    /// An integer expression.
    Exact(Expr),
    /// Integers not below the expression.
    AtLeast(Expr),
    /// What the loop's carried value has on the same lane.
    Carried(Val),
    /// The lanes hold what they should.
    Clean,
    /// Any finite value.
    Data,
}

impl Lane {
    pub(super) fn is(&self, number: f64) -> bool {
        matches!(self, Lane::Known(value) if *value == number)
    }

    /// The integer expression of a constant.
    fn exact(&self) -> Option<Expr> {
        match self {
            Lane::Exact(expr) => Some(expr.clone()),
            Lane::Known(value) if value.fract() == 0.0 && value.abs() < 2f64.powi(53) => {
                Some((*value as i64).into())
            }
            _ => None,
        }
    }

    pub(super) fn cast(self, dtype: DType) -> Self {
        match (self, dtype.class()) {
            (Lane::Known(value), DTypeClass::Float) => Lane::Known(value),
            (Lane::Known(value), DTypeClass::Int) => Lane::Known(dtype.truncate(value) as f64),
            (Lane::Known(value), DTypeClass::Bool) => Lane::Known(f64::from(u8::from(value != 0.0))),
            (lane @ (Lane::Exact(_) | Lane::AtLeast(_)), DTypeClass::Int) => lane,
            (Lane::Clean, _) => Lane::Clean,
            _ => Lane::Data,
        }
    }

    pub(super) fn unary(self, op: UnaryOp) -> Self {
        let x = match self {
            Lane::Known(x) => x,
            Lane::Clean => return Lane::Clean,
            _ => return Lane::Data,
        };
        Lane::Known(match op {
            UnaryOp::Neg => -x,
            UnaryOp::Abs => x.abs(),
            UnaryOp::Exp => x.exp(),
            UnaryOp::Exp2 => x.exp2(),
            UnaryOp::Expm1 => x.exp_m1(),
            UnaryOp::Log => x.ln(),
            UnaryOp::Log2 => x.log2(),
            UnaryOp::Log1p => x.ln_1p(),
            UnaryOp::Sqrt => x.sqrt(),
            UnaryOp::Rsqrt => x.sqrt().recip(),
            UnaryOp::Sin => x.sin(),
            UnaryOp::Cos => x.cos(),
            UnaryOp::Tanh => x.tanh(),
            UnaryOp::Sigmoid => 1.0 / (1.0 + (-x).exp()),
            UnaryOp::Floor => x.floor(),
            UnaryOp::Ceil => x.ceil(),
            UnaryOp::Round => x.round_ties_even(),
            UnaryOp::Trunc => x.trunc(),
            UnaryOp::IsNan => f64::from(u8::from(x.is_nan())),
            UnaryOp::Erf if x == 0.0 => 0.0,
            // Complements depend on the type.
            UnaryOp::Not | UnaryOp::Erf | UnaryOp::Pow2Floor => return Lane::Data,
        })
    }

    pub(super) fn binary(&self, op: BinaryOp, other: &Self, site: &Site) -> Self {
        use Lane::{AtLeast, Carried, Clean, Data, Exact, Known};
        let lane = match (op, self, other) {
            (_, Clean, _) | (_, _, Clean) => Clean,
            (_, Known(x), Known(y)) => known(op, *x, *y),
            (BinaryOp::Add, Carried(v), Known(0.0)) | (BinaryOp::Add, Known(0.0), Carried(v)) => Carried(*v),
            (BinaryOp::Sub, Carried(v), Known(0.0)) => Carried(*v),
            (BinaryOp::Mul, Carried(v), Known(1.0)) | (BinaryOp::Mul, Known(1.0), Carried(v)) => Carried(*v),
            (BinaryOp::Div, Carried(v), Known(1.0)) => Carried(*v),
            (BinaryOp::Max, Carried(v), Known(x)) | (BinaryOp::Max, Known(x), Carried(v))
                if *x == f64::NEG_INFINITY =>
            {
                Carried(*v)
            }
            (BinaryOp::Min, Carried(v), Known(x)) | (BinaryOp::Min, Known(x), Carried(v))
                if *x == f64::INFINITY =>
            {
                Carried(*v)
            }
            // Everything that is not known is finite, unless it may be a carried -inf.
            (BinaryOp::Add | BinaryOp::Sub, Known(x), Data) if x.is_infinite() => Known(*x),
            (BinaryOp::Add, Data, Known(x)) if x.is_infinite() => Known(*x),
            (BinaryOp::Sub, Data, Known(x)) if x.is_infinite() => Known(-x),
            (BinaryOp::Max, Known(x), _) | (BinaryOp::Max, _, Known(x)) if *x == f64::INFINITY => Known(*x),
            (BinaryOp::Min, Known(x), _) | (BinaryOp::Min, _, Known(x)) if *x == f64::NEG_INFINITY => {
                Known(*x)
            }
            (BinaryOp::Mul | BinaryOp::And, Known(0.0), _)
            | (BinaryOp::Mul | BinaryOp::And, _, Known(0.0)) => Known(0.0),
            (BinaryOp::Div | BinaryOp::Ldexp, Known(0.0), _) => Known(0.0),
            (BinaryOp::Add, AtLeast(x), y) | (BinaryOp::Add, y, AtLeast(x)) => {
                y.exact().map_or(Data, |y| AtLeast(x + &y))
            }
            (BinaryOp::Sub, AtLeast(x), y) => y.exact().map_or(Data, |y| AtLeast(x - &y)),
            (BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul, Exact(_), _)
            | (BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul, _, Exact(_)) => {
                match (self.exact(), other.exact()) {
                    (Some(x), Some(y)) => Exact(match op {
                        BinaryOp::Add => x + y,
                        BinaryOp::Sub => x - y,
                        _ => x * y,
                    }),
                    _ => Data,
                }
            }
            _ => Data,
        };
        // A sum with an unknown positive multiple keeps its lower bound only for multiples known not to be negative.
        match (op, self, other) {
            (BinaryOp::Mul, AtLeast(x), y) | (BinaryOp::Mul, y, AtLeast(x)) => match y.exact() {
                Some(y) if nonnegative(&y, site) => AtLeast(x * &y),
                _ => lane,
            },
            _ => lane,
        }
    }

    pub(super) fn compare(&self, op: CompareOp, other: &Self, site: &Site) -> Self {
        let (x, y) = match (self, other) {
            (Lane::Clean, _) | (_, Lane::Clean) => return Lane::Clean,
            (Lane::Known(x), Lane::Known(y)) => return truth(compare(op, x, y)),
            (Lane::AtLeast(x), y) => match y.exact() {
                Some(y) => (x.clone(), y),
                None => return Lane::Data,
            },
            (_, Lane::AtLeast(_)) => return other.compare(mirrored(op), self, site),
            _ => match (self.exact(), other.exact()) {
                (Some(x), Some(y)) if x == y => return truth(compare(op, &0, &0)),
                _ => return Lane::Data,
            },
        };
        let not_below = nonnegative(&(&x - &y), site);
        let above = nonnegative(&(&x - &y - 1), site);
        match op {
            CompareOp::Lt if not_below => truth(false),
            CompareOp::Ge if not_below => truth(true),
            CompareOp::Le | CompareOp::Eq if above => truth(false),
            CompareOp::Gt | CompareOp::Ne if above => truth(true),
            _ => Lane::Data,
        }
    }
}

fn truth(holds: bool) -> Lane {
    Lane::Known(f64::from(u8::from(holds)))
}

fn mirrored(op: CompareOp) -> CompareOp {
    match op {
        CompareOp::Lt => CompareOp::Gt,
        CompareOp::Le => CompareOp::Ge,
        CompareOp::Gt => CompareOp::Lt,
        CompareOp::Ge => CompareOp::Le,
        CompareOp::Eq | CompareOp::Ne => op,
    }
}

fn compare<T: PartialOrd>(op: CompareOp, x: &T, y: &T) -> bool {
    match op {
        CompareOp::Lt => x < y,
        CompareOp::Le => x <= y,
        CompareOp::Gt => x > y,
        CompareOp::Ge => x >= y,
        CompareOp::Eq => x == y,
        CompareOp::Ne => x != y,
    }
}

fn known(op: BinaryOp, x: f64, y: f64) -> Lane {
    Lane::Known(match op {
        BinaryOp::Add => x + y,
        BinaryOp::Sub => x - y,
        BinaryOp::Mul => x * y,
        BinaryOp::Div => x / y,
        BinaryOp::FloorDiv if y != 0.0 => (x / y).floor(),
        BinaryOp::Min => x.min(y),
        BinaryOp::Max => x.max(y),
        BinaryOp::Pow => x.powf(y),
        BinaryOp::Ldexp => x * y.exp2(),
        BinaryOp::And if x == 0.0 || y == 0.0 => 0.0,
        BinaryOp::And if x == 1.0 && y == 1.0 => 1.0,
        BinaryOp::Or if x == 0.0 => y,
        BinaryOp::Or if y == 0.0 => x,
        _ => return Lane::Data,
    })
}

/// The least element, which leaves maxima unchanged.
pub(super) fn lowest(dtype: DType) -> f64 {
    match dtype {
        DType::I8 => f64::from(i8::MIN),
        DType::I16 => f64::from(i16::MIN),
        DType::I32 => f64::from(i32::MIN),
        DType::I64 => i64::MIN as f64,
        DType::Bool | DType::U8 => 0.0,
        _ => f64::NEG_INFINITY,
    }
}

/// The greatest element, which leaves minima unchanged.
pub(super) fn highest(dtype: DType) -> f64 {
    match dtype {
        DType::Bool => 1.0,
        DType::U8 => f64::from(u8::MAX),
        DType::I8 => f64::from(i8::MAX),
        DType::I16 => f64::from(i16::MAX),
        DType::I32 => f64::from(i32::MAX),
        DType::I64 => i64::MAX as f64,
        _ => f64::INFINITY,
    }
}
