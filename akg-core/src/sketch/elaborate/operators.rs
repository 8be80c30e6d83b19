//! Element-wise operators: which elements they take, and how their operands broadcast.

use std::ops::Range;

use super::scalar::Value;
use super::tiles::{Builder, check_size, quote};
use super::{Elab, fault};
use crate::diagnostic::Diagnostic;
use crate::dtype::{DType, DTypeClass};
use crate::sketch::ir::*;
use crate::sketch::syntax::*;

impl Builder<'_> {
    pub(super) fn unary(&mut self, op: UnaryOp, tile: Val, operand: &Ex, span: &Range<usize>) -> Elab<Value> {
        use UnaryOp::{Abs, IsNan, Neg, Not};
        let ty = self.ty(tile).clone();
        let class = ty.dtype.class();
        let fits = match op {
            Neg | Abs => class != DTypeClass::Bool,
            Not => class != DTypeClass::Float,
            _ => class == DTypeClass::Float,
        };
        if !fits {
            let message = format!(
                "`{}` does not apply to {}, which is {ty}",
                op.name(),
                quote(operand)
            );
            return fault(message, span.clone());
        }
        let dtype = if op == IsNan { DType::Bool } else { ty.dtype };
        let ty = TileType { dtype, ..ty };
        Ok(self.define(Op::Unary(op, tile), ty, span))
    }

    pub(super) fn binary(
        &mut self,
        op: BinaryOp,
        a: (Value, &Ex),
        b: (Value, &Ex),
        span: &Range<usize>,
    ) -> Elab<Value> {
        use BinaryOp::{
            Add, And, Div, FloorDiv, Ldexp, Max, Min, Mod, Mul, Or, Philox, Pow, Shl, Shr, Sub, Xor,
        };
        let (a, b, ty) = if op == Ldexp {
            self.ldexp_operands(a, b)?
        } else {
            self.pair(a, b)?
        };
        let class = ty.dtype.class();
        let fits = match op {
            Add | Sub | Mul | Min | Max | Mod => class != DTypeClass::Bool,
            Div | Pow | Ldexp => class == DTypeClass::Float,
            FloorDiv | Shl | Shr => class == DTypeClass::Int,
            And | Or | Xor => class != DTypeClass::Float,
            Philox => ty.dtype == DType::I64,
        };
        if !fits {
            let message = format!("`{}` does not apply to {} elements", op.name(), ty.dtype);
            let error = Diagnostic::error(message, span.clone());
            return Err(match (op, class) {
                (Div, DTypeClass::Int) => error.note("`//` divides integers, rounding down"),
                (FloorDiv, DTypeClass::Float) => {
                    error.note("`floor(a / b)` rounds the quotient of floats down")
                }
                (_, DTypeClass::Bool) => {
                    error.note("combine conditions with `&`, `|`, `^`, or cast: `i32(…)`")
                }
                _ => error,
            }
            .into());
        }
        Ok(self.define(Op::Binary(op, a, b), ty, span))
    }

    pub(super) fn compare(
        &mut self,
        op: CompareOp,
        a: (Value, &Ex),
        b: (Value, &Ex),
        span: &Range<usize>,
    ) -> Elab<Value> {
        let (a, b, ty) = self.pair(a, b)?;
        let ty = TileType {
            dtype: DType::Bool,
            ..ty
        };
        Ok(self.define(Op::Compare(op, a, b), ty, span))
    }

    /// Two operands of one type, constants adapted, and the type of an element-wise result.
    pub(super) fn pair(&mut self, a: (Value, &Ex), b: (Value, &Ex)) -> Elab<(Val, Val, TileType)> {
        let dtype = match (&a.0, &b.0) {
            (Value::Tile(tile), _) | (_, Value::Tile(tile)) => self.ty(*tile).dtype,
            _ => {
                let message = format!(
                    "{} and {} are constants; write the type of one",
                    quote(a.1),
                    quote(b.1)
                );
                return fault(message, a.1.span.start..b.1.span.end);
            }
        };
        let (left, right) = (self.adapt(a.0, a.1, dtype)?, self.adapt(b.0, b.1, dtype)?);
        let (lt, rt) = (self.ty(left).clone(), self.ty(right).clone());
        if lt.dtype != rt.dtype {
            let (from, to) = if lt.dtype.promote(rt.dtype) == lt.dtype {
                (b.1, &lt)
            } else {
                (a.1, &rt)
            };
            let message = format!("{} is {lt} but {} is {rt}", quote(a.1), quote(b.1));
            let error = Diagnostic::error(message, a.1.span.start..b.1.span.end);
            return Err(error
                .note(format!("types convert only by name: `{}({from})`", to.dtype))
                .into());
        }
        let extents = Self::broadcast((&lt, a.1), (&rt, b.1))?;
        Ok((left, right, TileType { dtype, extents }))
    }

    fn ldexp_operands(&mut self, a: (Value, &Ex), b: (Value, &Ex)) -> Elab<(Val, Val, TileType)> {
        let value = match a.0 {
            Value::Tile(tile) => tile,
            _ => self.tile(a.1)?,
        };
        let power = self.adapt(b.0, b.1, DType::I32)?;
        let (lt, rt) = (self.ty(value).clone(), self.ty(power).clone());
        if rt.dtype.class() != DTypeClass::Int {
            return fault(
                format!("the exponent {} is {rt}, not an integer tile", quote(b.1)),
                b.1.span.clone(),
            );
        }
        let extents = Self::broadcast((&lt, a.1), (&rt, b.1))?;
        let dtype = lt.dtype;
        Ok((value, power, TileType { dtype, extents }))
    }

    /// The extents of an element-wise result.
    pub(super) fn broadcast(a: (&TileType, &Ex), b: (&TileType, &Ex)) -> Elab<Vec<usize>> {
        let (x, y) = (&a.0.extents, &b.0.extents);
        if x.is_empty() || y.is_empty() {
            return Ok(if x.is_empty() { y.clone() } else { x.clone() });
        }
        if x.len() == y.len() && x.iter().zip(y).all(|(m, n)| m == n || *m == 1 || *n == 1) {
            let extents: Vec<_> = x.iter().zip(y).map(|(m, n)| *m.max(n)).collect();
            check_size(&extents, &(a.1.span.start..b.1.span.end))?;
            return Ok(extents);
        }
        let message = format!("{} is {} but {} is {}", quote(a.1), a.0, quote(b.1), b.0);
        let error = Diagnostic::error(message, a.1.span.start..b.1.span.end);
        let (large, small, ex) = if x.len() > y.len() {
            (x, y, b.1)
        } else {
            (y, x, a.1)
        };
        let fitting: Vec<_> = placements(small, large)
            .iter()
            .map(|p| format!("`{ex}[{p}]`"))
            .collect();
        Err(if x.len() != y.len() && !fitting.is_empty() {
            error.note(format!("write {}", fitting.join(" or ")))
        } else {
            error.note("extents of an element-wise operation are equal or 1")
        }
        .into())
    }
}

/// The ways to insert dimensions into a tile of extents `small` so that it broadcasts with `large`.
fn placements(small: &[usize], large: &[usize]) -> Vec<String> {
    let Some((last, rest)) = large.split_last() else {
        return if small.is_empty() {
            vec![String::new()]
        } else {
            Vec::new()
        };
    };
    if small.len() > large.len() {
        return Vec::new();
    }
    let join = |head: String, tail: &str| {
        if head.is_empty() {
            tail.to_owned()
        } else {
            format!("{head}, {tail}")
        }
    };
    let mut out: Vec<_> = placements(small, rest)
        .into_iter()
        .map(|p| join(p, "None"))
        .collect();
    if let Some((n, head)) = small.split_last()
        && (n == last || *n == 1 || *last == 1)
    {
        out.extend(placements(head, rest).into_iter().map(|p| join(p, ":")));
    }
    out
}
