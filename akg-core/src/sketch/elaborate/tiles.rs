//! Expressions over tiles: types, broadcasting, literals.

use std::collections::BTreeMap;
use std::ops::Range;

use super::header::Header;
use super::scalar::{self, Value, compare_op};
use super::scope::Scope;
use super::{Elab, Fault, fault};
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::dtype::DType;
use crate::expr::Expr;
use crate::sketch::ir::*;
use crate::sketch::syntax::*;
use crate::source::PlanTensor;

/// No tile has more elements: a larger one is a mistake on any device.
const ELEMENT_LIMIT: usize = 1 << 28;

/// A kernel in the making.
pub(super) struct Builder<'a> {
    pub(super) header: &'a Header,
    pub(super) scope: Scope<'a>,
    /// Tensors that the kernel sees in other extents than they are declared with.
    pub(super) views: BTreeMap<TensorId, Vec<Expr>>,
    pub(super) values: Vec<ValInfo>,
    /// The statements of the block at hand.
    pub(super) block: Vec<Stmt>,
    pub(super) diagnostics: &'a mut Diagnostics,
}

impl<'a> Builder<'a> {
    pub(super) fn new(header: &'a Header, scope: Scope<'a>, diagnostics: &'a mut Diagnostics) -> Self {
        Self {
            header,
            scope,
            views: BTreeMap::new(),
            values: Vec::new(),
            block: Vec::new(),
            diagnostics,
        }
    }

    /// A new value.
    pub(super) fn value(&mut self, ty: TileType, name: &str) -> Val {
        let value = Val(self.values.len() as u32);
        self.values.push(ValInfo {
            ty,
            name: name.to_owned(),
        });
        value
    }

    /// Names an intermediate result.
    pub(super) fn name_value(&mut self, value: Val, name: &str) {
        if let Some(info) = self
            .values
            .get_mut(value.0 as usize)
            .filter(|i| i.name.is_empty())
        {
            name.clone_into(&mut info.name);
        }
    }

    pub(super) fn ty(&self, value: Val) -> &TileType {
        &self.values[value.0 as usize].ty
    }

    pub(super) fn tensor(&self, id: TensorId) -> Elab<&'a PlanTensor> {
        self.header.tensor(id).ok_or(Fault::Reported)
    }

    /// Appends the computation of a new value.
    pub(super) fn define(&mut self, op: Op, ty: TileType, span: &Range<usize>) -> Value {
        Value::Tile(self.define_tile(op, ty, span))
    }

    pub(super) fn define_tile(&mut self, op: Op, ty: TileType, span: &Range<usize>) -> Val {
        let value = self.value(ty, "");
        self.block.push(Stmt::Define {
            value,
            op,
            span: span.clone(),
        });
        value
    }

    pub(super) fn integer(&mut self, ex: &Ex) -> Elab<Expr> {
        match self.eval(ex)? {
            Value::Int(expr) => Ok(expr),
            _ => fault(
                format!("{} is not an integer known to the whole program", quote(ex)),
                ex.span.clone(),
            ),
        }
    }

    pub(super) fn constant_int(&mut self, ex: &Ex) -> Elab<i64> {
        let expr = self.integer(ex)?;
        expr.as_const().map_or_else(
            || {
                let message =
                    format!("this must be a number, but `{expr}` has no value here; bind it or use a knob");
                fault(message, ex.span.clone())
            },
            Ok,
        )
    }

    /// An extent of a tile.
    pub(super) fn extent(&mut self, ex: &Ex) -> Elab<usize> {
        let value = self.constant_int(ex)?;
        match usize::try_from(value) {
            Ok(extent) if extent > 0 => Ok(extent),
            _ => fault(
                format!("a tile cannot have an extent of {value}"),
                ex.span.clone(),
            ),
        }
    }

    pub(super) fn extents(&mut self, shape: &[Ex], span: &Range<usize>) -> Elab<Vec<usize>> {
        let extents = shape.iter().map(|e| self.extent(e)).collect::<Elab<Vec<_>>>()?;
        check_size(&extents, span)?;
        Ok(extents)
    }

    pub(super) fn eval(&mut self, ex: &Ex) -> Elab<Value> {
        let span = &ex.span;
        match &*ex.node {
            Expression::Int(value) => Ok(Value::Int(Expr::constant(*value))),
            Expression::Float(value) => Ok(Value::Float(*value)),
            Expression::Name(name) => self.scope.value(name, span),
            Expression::Unary(sign, operand) => match self.eval(operand)? {
                Value::Tile(tile) => {
                    let op = if *sign == '-' { UnaryOp::Neg } else { UnaryOp::Not };
                    self.unary(op, tile, operand, span)
                }
                constant => scalar::unary(*sign, constant, span),
            },
            Expression::Binary(sign, a, b) => {
                let (left, right) = (self.eval(a)?, self.eval(b)?);
                let tiles = [&left, &right].into_iter().any(|v| matches!(v, Value::Tile(_)));
                // `mask & m < 4`: a condition joins tiles as one. Conditions alone stay conditions.
                if !tiles {
                    return scalar::binary(sign, &left, &right, span);
                }
                if let Some(op) = compare_op(sign) {
                    return self.compare(op, (left, a), (right, b), span);
                }
                match sign.parse() {
                    Ok(op) => self.binary(op, (left, a), (right, b), span),
                    Err(_) => fault(format!("`{sign}` is no operator of tiles"), span.clone()),
                }
            }
            Expression::Call(name, arguments) => self.call(name, arguments, span),
            Expression::List(_) => fault(
                "a list is only an argument of `trans` and `reshape`",
                span.clone(),
            ),
            Expression::Expand(operand, keeps) => self.expand(operand, keeps, span),
            Expression::Load { tensor, region, fill } => self.load(tensor, region, fill.as_ref(), span),
            Expression::Full { dtype, shape, value } => {
                let dtype = self.dtype(dtype)?;
                let extents = self.extents(shape, span)?;
                let scalar = match value {
                    Some(value) => self.scalar(value, dtype)?,
                    None => constant(0.0, dtype),
                };
                Ok(self.define(Op::Full(scalar), TileType { dtype, extents }, span))
            }
            Expression::Dot {
                a,
                b,
                init,
                method,
                promote,
            } => self.dot([a, b], init.as_ref(), method, promote.as_ref(), span),
        }
    }

    /// The tile of an expression that must be one.
    pub(super) fn tile(&mut self, ex: &Ex) -> Elab<Val> {
        match self.eval(ex)? {
            Value::Tile(tile) => Ok(tile),
            _ => {
                let message = format!(
                    "{} is a constant, but a tile is needed; write its type",
                    quote(ex)
                );
                let error = Diagnostic::error(message, ex.span.clone());
                Err(error
                    .note("`full f32[] 0.5` or `f32(…)` make tiles of constants")
                    .into())
            }
        }
    }

    /// A constant element of type `dtype`.
    pub(super) fn scalar(&mut self, ex: &Ex, dtype: DType) -> Elab<Scalar> {
        let value = self.eval(ex)?;
        Self::scalar_of(&value, ex, dtype)
    }

    fn scalar_of(value: &Value, ex: &Ex, dtype: DType) -> Elab<Scalar> {
        match value {
            Value::Float(number) if dtype.is_float() => Ok(Scalar::Float(*number)),
            Value::Float(_) => {
                let message = format!("{} is a float, but {dtype} holds none", quote(ex));
                fault(message, ex.span.clone())
            }
            Value::Int(expr) => {
                let Some(number) = expr.as_const() else {
                    return fault(
                        format!("`{expr}` has no value here, but a constant is needed"),
                        ex.span.clone(),
                    );
                };
                if dtype.is_float() {
                    return Ok(Scalar::Float(number as f64));
                }
                if !holds(dtype, number) {
                    return fault(format!("{dtype} cannot hold {number}"), ex.span.clone());
                }
                Ok(Scalar::Int(number))
            }
            Value::Condition(_) | Value::Tile(_) => {
                fault(format!("{} is not a constant", quote(ex)), ex.span.clone())
            }
        }
    }

    /// A tile of element type `dtype` from a constant, index expression or condition; tiles stay as they are.
    pub(super) fn adapt(&mut self, value: Value, ex: &Ex, dtype: DType) -> Elab<Val> {
        let rank0 = |dtype| TileType {
            dtype,
            extents: Vec::new(),
        };
        match value {
            Value::Tile(tile) => Ok(tile),
            Value::Int(expr) if expr.as_const().is_none() && dtype != DType::Bool => {
                let integer = if dtype.is_float() { DType::I32 } else { dtype };
                let index = self.define_tile(Op::Index(expr), rank0(integer), &ex.span);
                Ok(if integer == dtype {
                    index
                } else {
                    self.define_tile(Op::Cast(index), rank0(dtype), &ex.span)
                })
            }
            Value::Condition(condition) if dtype == DType::Bool => Ok(self.materialise(&condition, &ex.span)),
            Value::Condition(_) => {
                let message = format!(
                    "{} is a condition where a {dtype} is needed; use `select`",
                    quote(ex)
                );
                fault(message, ex.span.clone())
            }
            constant => {
                let scalar = Self::scalar_of(&constant, ex, dtype)?;
                Ok(self.define_tile(Op::Full(scalar), rank0(dtype), &ex.span))
            }
        }
    }

    /// A condition on integers as a boolean tile of rank 0.
    fn materialise(&mut self, condition: &Condition, span: &Range<usize>) -> Val {
        let rank0 = |dtype| TileType {
            dtype,
            extents: Vec::new(),
        };
        let op = match condition {
            Condition::Compare(op, a, b) => {
                let a = self.define_tile(Op::Index(a.clone()), rank0(DType::I32), span);
                let b = self.define_tile(Op::Index(b.clone()), rank0(DType::I32), span);
                Op::Compare(*op, a, b)
            }
            Condition::And(a, b) => Op::Binary(
                BinaryOp::And,
                self.materialise(a, span),
                self.materialise(b, span),
            ),
            Condition::Or(a, b) => {
                Op::Binary(BinaryOp::Or, self.materialise(a, span), self.materialise(b, span))
            }
            Condition::Not(a) => Op::Unary(UnaryOp::Not, self.materialise(a, span)),
        };
        self.define_tile(op, rank0(DType::Bool), span)
    }

    fn expand(&mut self, operand: &Ex, keeps: &[bool], span: &Range<usize>) -> Elab<Value> {
        let tile = self.tile(operand)?;
        let ty = self.ty(tile).clone();
        let kept = keeps.iter().filter(|k| **k).count();
        if kept != ty.extents.len() {
            let message = format!(
                "{} is {ty}, so it has {} dimensions to keep, not {kept}",
                quote(operand),
                ty.extents.len()
            );
            return fault(message, span.clone());
        }
        if kept == keeps.len() {
            return Ok(Value::Tile(tile));
        }
        let mut old = ty.extents.iter();
        let extents = keeps.iter().map(|keep| {
            if *keep {
                old.next().copied().unwrap_or(1)
            } else {
                1
            }
        });
        let ty = TileType {
            dtype: ty.dtype,
            extents: extents.collect(),
        };
        Ok(self.define(Op::Reshape(tile), ty, span))
    }
}

pub(super) fn check_size(extents: &[usize], span: &Range<usize>) -> Elab<()> {
    let count = extents.iter().try_fold(1usize, |n, e| n.checked_mul(*e));
    match count.filter(|n| *n <= ELEMENT_LIMIT) {
        Some(_) => Ok(()),
        None => fault(
            format!("a tile of extents {extents:?} is too large; loop over parts"),
            span.clone(),
        ),
    }
}

/// How messages call an expression.
pub(super) fn quote(ex: &Ex) -> String {
    let text = ex.to_string();
    if text.len() <= 40 {
        format!("`{text}`")
    } else {
        "this".to_owned()
    }
}

/// A number as an element.
fn constant(number: f64, dtype: DType) -> Scalar {
    if dtype.is_float() {
        Scalar::Float(number)
    } else {
        Scalar::Int(number as i64)
    }
}

/// Whether an integer type can hold `number`.
fn holds(dtype: DType, number: i64) -> bool {
    match dtype {
        DType::Bool => (0..=1).contains(&number),
        DType::U8 => u8::try_from(number).is_ok(),
        DType::I8 => i8::try_from(number).is_ok(),
        DType::I16 => i16::try_from(number).is_ok(),
        DType::I32 => i32::try_from(number).is_ok(),
        _ => true,
    }
}
