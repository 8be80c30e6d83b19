//! Dots: operand types, neutral lanes, promotion.

use super::map::{Mapper, zero};
use super::{TileOp, TileStmt};
use crate::dtype::{DType, DTypeClass};
use crate::sketch::ir::{BinaryOp, DotMethod, Op, ReduceOp, Val};

impl Mapper<'_> {
    /// Defines `value` as the dot of `a` and `b` added to `init`.
    pub(super) fn dot(
        &mut self,
        value: Val,
        (a, b): (Val, Val),
        init: Option<Val>,
        method: DotMethod,
        promote: Option<usize>,
        out: &mut Vec<TileStmt>,
    ) {
        let result = self.value(value).ty.clone();
        let operand = operand_type(method, self.value(a).ty.dtype);
        let (sum, other) = (sum_type(operand), zero(operand));
        let a = self.cast(a, operand, out);
        let b = self.cast(b, operand, out);
        let a = self.padding_as(a, 1, other, out);
        let b = self.padding_as(b, 0, other, out);
        let depth = self.value(a).ty.extents[1];
        let chunk = promote.unwrap_or(depth).clamp(1, depth.max(1));

        if promote.is_none() && sum == result.dtype && depth >= self.rules.min_contraction {
            let separate = self.added.contains(&value);
            let op = TileOp::Dot {
                a,
                b,
                init,
                method,
                separate,
            };
            out.push(TileStmt::Define { value, op });
            return;
        }

        let mut total = init;
        for start in (0..depth).step_by(chunk) {
            let keep = start..(start + chunk).min(depth);
            let mut part = |value: Val, axis: usize| {
                if keep.len() == depth {
                    return value;
                }
                let ty = self.value(value).ty.clone();
                let op = TileOp::Mask {
                    value,
                    axis,
                    keep: keep.clone(),
                    other,
                };
                self.define(ty.dtype, &ty.extents, op, out)
            };
            // Both operands: a product with an infinite or undefined element that is left out must not count.
            let (a, b) = (part(a, 1), part(b, 0));
            let partial = self.partial_sum(a, b, sum, method, out);
            let partial = self.cast(partial, result.dtype, out);
            total = Some(match total {
                None => partial,
                Some(total) => {
                    let op = TileOp::Plain(Op::Binary(BinaryOp::Add, total, partial));
                    self.define(result.dtype, &result.extents, op, out)
                }
            });
        }
        // The last definition is the result itself.
        if let (Some(last), Some(TileStmt::Define { value: defined, .. })) = (total, out.last_mut())
            && *defined == last
        {
            *defined = value;
        }
    }

    fn partial_sum(&mut self, a: Val, b: Val, sum: DType, method: DotMethod, out: &mut Vec<TileStmt>) -> Val {
        let (m, k) = (self.value(a).ty.extents[0], self.value(a).ty.extents[1]);
        let n = self.value(b).ty.extents[1];
        if k >= self.rules.min_contraction {
            let op = TileOp::Dot {
                a,
                b,
                init: None,
                method,
                separate: true,
            };
            return self.define(sum, &[m, n], op, out);
        }
        let a = self.cast(a, sum, out);
        let b = self.cast(b, sum, out);
        let rows = self.define(sum, &[m, k, 1], TileOp::Plain(Op::Reshape(a)), out);
        let columns = self.define(sum, &[1, k, n], TileOp::Plain(Op::Reshape(b)), out);
        let products = TileOp::Plain(Op::Binary(BinaryOp::Mul, rows, columns));
        let products = self.define(sum, &[m, k, n], products, out);
        let reduce = TileOp::Plain(Op::Reduce(ReduceOp::Sum, products, 1));
        self.define(sum, &[m, n], reduce, out)
    }

    fn cast(&mut self, value: Val, dtype: DType, out: &mut Vec<TileStmt>) -> Val {
        let ty = self.value(value).ty.clone();
        if ty.dtype == dtype {
            return value;
        }
        let zero_beyond = self.beyond[value.0 as usize] == Some(zero(ty.dtype));
        let cast = self.define(dtype, &ty.extents, TileOp::Plain(Op::Cast(value)), out);
        self.beyond[cast.0 as usize] = zero_beyond.then_some(zero(dtype));
        cast
    }
}

/// The element type in which `method` reads operands of type `dtype`.
fn operand_type(method: DotMethod, dtype: DType) -> DType {
    match (method, dtype) {
        (DotMethod::F16, _) => DType::F16,
        (DotMethod::Bf16, _) => DType::BF16,
        (DotMethod::Tf32, _) | (DotMethod::Ieee, DType::F16 | DType::BF16) => DType::F32,
        (DotMethod::Ieee, other) => other,
    }
}

/// The element type of sums of products of `operand`s.
fn sum_type(operand: DType) -> DType {
    match (operand.class(), operand) {
        (_, DType::F64) => DType::F64,
        (DTypeClass::Float, _) => DType::F32,
        _ => DType::I32,
    }
}
