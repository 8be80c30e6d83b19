//! Functions of tiles.

use std::ops::Range;

use super::header::sizeof;
use super::scalar::{self, Value};
use super::tiles::{Builder, check_size, quote};
use super::{Elab, fault};
use crate::diagnostic::{Diagnostic, closest};
use crate::dtype::{DType, DTypeClass};
use crate::sketch::ir::*;
use crate::sketch::syntax::*;

/// The functions that are no operator of [`UnaryOp`] or [`BinaryOp`] and not one of a family.
const OTHERS: [&str; 11] = [
    "select", "iota", "trans", "reshape", "argmax", "argmin", "ceildiv", "pow2ceil", "roundup", "sizeof",
    "dot",
];

/// The only elements of `arguments`, if there are `N`.
fn exactly<'a, const N: usize>(arguments: &'a [Ex], usage: &str, span: &Range<usize>) -> Elab<[&'a Ex; N]> {
    let references: Vec<&Ex> = arguments.iter().collect();
    references.try_into().or_else(|_| {
        fault(
            format!("wrong number of arguments; write `{usage}`"),
            span.clone(),
        )
    })
}

impl Builder<'_> {
    pub(super) fn call(&mut self, name: &Name, arguments: &[Ex], span: &Range<usize>) -> Elab<Value> {
        let function = name.node.as_str();
        if let Some(dtype) = self.scope.dtype(function) {
            let [operand] = exactly(arguments, &format!("{function}(t)"), span)?;
            return self.cast(operand, dtype, span);
        }
        if let Some(dtype) = function.strip_prefix("bits_").and_then(|d| self.scope.dtype(d)) {
            let [operand] = exactly(arguments, &format!("{function}(t)"), span)?;
            return self.bits(operand, dtype, span);
        }
        if let Some(op) = function
            .strip_prefix("reduce_")
            .and_then(|suffix| suffix.parse::<ReduceOp>().ok())
        {
            let [operand, axis] = exactly(arguments, &format!("{function}(t, AXIS)"), span)?;
            let (tile, ty, axis) = self.along(operand, axis)?;
            let ty = TileType {
                dtype: ty.dtype,
                extents: without(&ty.extents, axis),
            };
            return Ok(self.define(Op::Reduce(op, tile, axis), ty, span));
        }
        if let Some(op) = function
            .strip_prefix("arg")
            .and_then(|suffix| suffix.parse::<ReduceOp>().ok())
            && matches!(op, ReduceOp::Max | ReduceOp::Min)
        {
            let [operand, axis] = exactly(arguments, &format!("{function}(t, AXIS)"), span)?;
            let (tile, ty, axis) = self.along(operand, axis)?;
            let ty = TileType {
                dtype: DType::I32,
                extents: without(&ty.extents, axis),
            };
            return Ok(self.define(Op::ArgReduce(op, tile, axis), ty, span));
        }
        if let Some(op) = function
            .strip_prefix("scan_")
            .and_then(|suffix| suffix.parse::<ReduceOp>().ok())
        {
            return self.scan(op, arguments, span);
        }
        match function {
            "select" => self.select(arguments, span),
            "iota" => {
                let [len] = exactly(arguments, "iota(N)", span)?;
                let extents = vec![self.extent(len)?];
                check_size(&extents, span)?;
                let dtype = DType::I32;
                Ok(self.define(Op::Iota, TileType { dtype, extents }, span))
            }
            "trans" => self.transpose(arguments, span),
            "reshape" => self.reshape(arguments, span),
            "sizeof" => sizeof(arguments, span, |n| self.scope.dtype(n)),
            _ => self.elementwise(name, arguments, span),
        }
    }

    fn elementwise(&mut self, name: &Name, arguments: &[Ex], span: &Range<usize>) -> Elab<Value> {
        let function = name.node.as_str();
        let (unary, binary) = (
            function.parse::<UnaryOp>().ok(),
            function.parse::<BinaryOp>().ok(),
        );
        if unary.is_none() && binary.is_none() && !OTHERS.contains(&function) {
            return Err(unknown(name).into());
        }
        let values = arguments.iter().map(|a| self.eval(a)).collect::<Elab<Vec<_>>>()?;
        if !values.iter().any(|v| matches!(v, Value::Tile(_)))
            && let Some(folded) = scalar::call(function, &values, span)
        {
            return folded;
        }
        let mut values = values.into_iter();
        if let Some(op) = unary {
            let [operand] = exactly(arguments, &format!("{function}(t)"), span)?;
            return match values.next() {
                Some(Value::Tile(tile)) => self.unary(op, tile, operand, span),
                _ => {
                    let message = format!(
                        "{} has no element type; write `{function}(f32(…))`",
                        quote(operand)
                    );
                    fault(message, span.clone())
                }
            };
        }
        let [a, b] = exactly(arguments, &format!("{function}(a, b)"), span)?;
        match (binary, values.next(), values.next()) {
            (Some(op), Some(x), Some(y)) => self.binary(op, (x, a), (y, b), span),
            _ => fault(format!("`{function}` takes integers, not tiles"), span.clone()),
        }
    }

    fn cast(&mut self, operand: &Ex, dtype: DType, span: &Range<usize>) -> Elab<Value> {
        let value = self.eval(operand)?;
        let value = match value {
            // A condition is made of elements before it is converted.
            Value::Condition(_) => Value::Tile(self.adapt(value, operand, DType::Bool)?),
            value => value,
        };
        let tile = self.adapt(value, operand, dtype)?;
        let ty = self.ty(tile).clone();
        if ty.dtype == dtype {
            return Ok(Value::Tile(tile));
        }
        let ty = TileType { dtype, ..ty };
        Ok(self.define(Op::Cast(tile), ty, span))
    }

    fn bits(&mut self, operand: &Ex, dtype: DType, span: &Range<usize>) -> Elab<Value> {
        let tile = self.tile(operand)?;
        let ty = self.ty(tile).clone();
        if ty.dtype.size() != dtype.size() || ty.dtype == DType::Bool || dtype == DType::Bool {
            let message = format!(
                "{} is {ty}, whose elements are not as wide as {dtype}",
                quote(operand)
            );
            return fault(message, span.clone());
        }
        let ty = TileType { dtype, ..ty };
        Ok(self.define(Op::Bits(tile), ty, span))
    }

    /// The operand of a reduction or scan, and the axis, which may count from the end.
    fn along(&mut self, operand: &Ex, axis: &Ex) -> Elab<(Val, TileType, usize)> {
        let tile = self.tile(operand)?;
        let ty = self.ty(tile).clone();
        if ty.dtype == DType::Bool {
            let message = format!("{} is {ty}; cast it first: `i32({operand})`", quote(operand));
            return fault(message, operand.span.clone());
        }
        let rank = ty.extents.len() as i64;
        let given = self.constant_int(axis)?;
        let axis_number = if given < 0 { given + rank } else { given };
        if !(0..rank).contains(&axis_number) {
            let message = format!("{} is {ty}, which has no axis {given}", quote(operand));
            return fault(message, axis.span.clone());
        }
        Ok((tile, ty, axis_number as usize))
    }

    fn scan(&mut self, op: ReduceOp, arguments: &[Ex], span: &Range<usize>) -> Elab<Value> {
        let usage = "scan_sum(t, AXIS[, exclusive][, reverse])";
        let (Some(operand), Some(axis)) = (arguments.first(), arguments.get(1)) else {
            return fault(
                format!("wrong number of arguments; write `{usage}`"),
                span.clone(),
            );
        };
        let (mut exclusive, mut reverse) = (false, false);
        for flag in arguments.iter().skip(2) {
            match &*flag.node {
                Expression::Name(name) if name == "exclusive" => exclusive = true,
                Expression::Name(name) if name == "reverse" => reverse = true,
                _ => {
                    return fault(
                        format!("expected `exclusive` or `reverse`; write `{usage}`"),
                        flag.span.clone(),
                    );
                }
            }
        }
        let (value, ty, axis) = self.along(operand, axis)?;
        let op = Op::Scan {
            op,
            value,
            axis,
            exclusive,
            reverse,
        };
        Ok(self.define(op, ty, span))
    }

    fn select(&mut self, arguments: &[Ex], span: &Range<usize>) -> Elab<Value> {
        let [condition, a, b] = exactly(arguments, "select(condition, a, b)", span)?;
        let (c, x, y) = (self.eval(condition)?, self.eval(a)?, self.eval(b)?);
        let c = self.adapt(c, condition, DType::Bool)?;
        let ct = self.ty(c).clone();
        if ct.dtype != DType::Bool {
            let message = format!(
                "{} is {ct}, not a condition; compare it with something",
                quote(condition)
            );
            return fault(message, condition.span.clone());
        }
        let (x, y, ty) = self.pair((x, a), (y, b))?;
        let result = TileType {
            dtype: ty.dtype,
            extents: Self::broadcast((&ct, condition), (&ty, a))?,
        };
        Ok(self.define(Op::Select(c, x, y), result, span))
    }

    /// The numbers of a list argument.
    fn numbers(&mut self, ex: &Ex) -> Elab<Vec<usize>> {
        let Expression::List(values) = &*ex.node else {
            return fault(
                format!("expected a list like `[1, 0]`, found {}", quote(ex)),
                ex.span.clone(),
            );
        };
        let mut out = Vec::new();
        for value in values {
            let number = self.constant_int(value)?;
            match usize::try_from(number) {
                Ok(number) => out.push(number),
                Err(_) => return fault(format!("{number} is negative"), value.span.clone()),
            }
        }
        Ok(out)
    }

    fn transpose(&mut self, arguments: &[Ex], span: &Range<usize>) -> Elab<Value> {
        let (operand, permutation) = match arguments {
            [operand] => (operand, vec![1, 0]),
            [operand, list] => (operand, self.numbers(list)?),
            _ => {
                return fault(
                    "wrong number of arguments; write `trans(t)` or `trans(t, [1, 0])`",
                    span.clone(),
                );
            }
        };
        let tile = self.tile(operand)?;
        let ty = self.ty(tile).clone();
        let mut sorted = permutation.clone();
        sorted.sort_unstable();
        if !sorted.iter().copied().eq(0..ty.extents.len()) {
            let message = format!(
                "{} is {ty}, whose dimensions {permutation:?} does not reorder",
                quote(operand)
            );
            return fault(message, span.clone());
        }
        let extents = permutation
            .iter()
            .filter_map(|i| ty.extents.get(*i).copied())
            .collect();
        let dtype = ty.dtype;
        Ok(self.define(
            Op::Transpose(tile, permutation),
            TileType { dtype, extents },
            span,
        ))
    }

    fn reshape(&mut self, arguments: &[Ex], span: &Range<usize>) -> Elab<Value> {
        let [operand, list] = exactly(arguments, "reshape(t, [EXTENTS])", span)?;
        let tile = self.tile(operand)?;
        let ty = self.ty(tile).clone();
        let extents = self.numbers(list)?;
        check_size(&extents, span)?;
        let (old, new): (usize, usize) = (ty.extents.iter().product(), extents.iter().product());
        if old != new {
            let message = format!(
                "{} is {ty} with {old} elements, {extents:?} has {new}",
                quote(operand)
            );
            return fault(message, span.clone());
        }
        let dtype = ty.dtype;
        Ok(self.define(Op::Reshape(tile), TileType { dtype, extents }, span))
    }

    /// `dot(a, b, init) method promote(interval)`. Without an accumulator the result is f32, f64 for f64 operands and
    /// i32 for integers.
    pub(super) fn dot(
        &mut self,
        [left, right]: [&Ex; 2],
        init: Option<&Ex>,
        method: &Name,
        promote: Option<&Ex>,
        span: &Range<usize>,
    ) -> Elab<Value> {
        let (a, b) = (self.tile(left)?, self.tile(right)?);
        let (at, bt) = (self.ty(a).clone(), self.ty(b).clone());
        let ([m, k], [k2, n]) = (at.extents.as_slice(), bt.extents.as_slice()) else {
            let message = format!("`dot` multiplies tiles of rank 2, but the operands are {at} and {bt}");
            return fault(message, span.clone());
        };
        if k != k2 {
            let error = Diagnostic::error(
                format!("`dot` of {at} and {bt}: {k} and {k2} differ"),
                span.clone(),
            );
            let n_by_k = bt.extents.get(1) == Some(k);
            return Err(if n_by_k {
                error.note(format!("write `trans({right})`"))
            } else {
                error
            }
            .into());
        }
        if at.dtype != bt.dtype {
            return fault(
                format!("`dot` of {at} and {bt}: the element types differ; cast one"),
                span.clone(),
            );
        }
        let extents = vec![*m, *n];
        let (init, dtype) = match init {
            None => {
                let dtype = match at.dtype.class() {
                    DTypeClass::Float => at.dtype.promote(DType::F32),
                    DTypeClass::Int | DTypeClass::Bool => DType::I32,
                };
                (None, dtype)
            }
            Some(init) => {
                let tile = self.tile(init)?;
                let ty = self.ty(tile).clone();
                if ty.extents != extents {
                    let message = format!(
                        "the product is {extents:?} but the accumulator {} is {ty}",
                        quote(init)
                    );
                    return fault(message, init.span.clone());
                }
                (Some(tile), ty.dtype)
            }
        };
        let Ok(method) = method.node.parse::<DotMethod>() else {
            return fault(
                format!("`{}` is no method of `dot`", method.node),
                method.span.clone(),
            );
        };
        let promote = promote.map(|p| self.extent(p)).transpose()?;
        let op = Op::Dot {
            a,
            b,
            init,
            method,
            promote,
        };
        Ok(self.define(op, TileType { dtype, extents }, span))
    }
}

fn without(extents: &[usize], axis: usize) -> Vec<usize> {
    let kept = extents.iter().enumerate().filter(|(i, _)| *i != axis);
    kept.map(|(_, e)| *e).collect()
}

fn unknown(name: &Name) -> Diagnostic {
    let suffixes = ReduceOp::ALL.iter().map(|op| op.name());
    let families = suffixes.map(|suffix| [format!("reduce_{suffix}"), format!("scan_{suffix}")]);
    let families: Vec<_> = families.collect();
    let unary = UnaryOp::ALL.iter().map(|op| op.name());
    let operators = unary.chain(BinaryOp::ALL.iter().map(|op| op.name()));
    let known = operators
        .chain(OTHERS)
        .chain(DType::ALL.map(DType::name))
        .chain(families.iter().flatten().map(String::as_str));
    let error = Diagnostic::error(format!("there is no function `{}`", name.node), name.span.clone());
    match closest(&name.node, known) {
        Some(known) => error.note(format!("did you mean `{known}`?")),
        None => error,
    }
}
