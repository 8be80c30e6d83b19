//! What loops do at each point.

use crate::dtype::DType;
use crate::expr::Expr;
use crate::sketch::ir::{BinaryOp, CompareOp, ReduceOp, Scalar as Constant, StoreMode, TensorId, UnaryOp};

use super::ir::{LocalId, Scalar, Stmt};
use super::mapper::Mapper;
use super::nest::{Nest, Plan};
use super::node::NodeId;

/// What happens at each point of a nest.
#[derive(Debug, Clone)]
pub(super) enum Effect {
    /// A local's element is written.
    Set {
        local: LocalId,
        offset: Expr,
        value: NodeId,
    },
    /// A tensor's element is written; its coordinates are the nest's clip.
    Store {
        tensor: TensorId,
        offset: Expr,
        mode: StoreMode,
        value: NodeId,
    },
    /// An accumulator takes the value up. Extremes note NaN in `nan` instead, if there is one.
    Accumulate {
        op: ReduceOp,
        local: LocalId,
        offset: Expr,
        dtype: DType,
        nan: Option<LocalId>,
        value: NodeId,
    },
    /// The extreme so far and its index take the value up.
    Extreme {
        op: ReduceOp,
        best: LocalId,
        index: LocalId,
        offset: Expr,
        dtype: DType,
        position: Expr,
        value: NodeId,
    },
    /// The running combination takes the value up and is written out.
    Scan {
        op: ReduceOp,
        running: LocalId,
        running_offset: Expr,
        dtype: DType,
        exclusive: bool,
        out: LocalId,
        offset: Expr,
        out_dtype: DType,
        value: NodeId,
    },
}

impl Effect {
    pub(super) fn value(&self) -> NodeId {
        match self {
            Effect::Set { value, .. }
            | Effect::Store { value, .. }
            | Effect::Accumulate { value, .. }
            | Effect::Extreme { value, .. }
            | Effect::Scan { value, .. } => *value,
        }
    }

    pub(super) fn value_mut(&mut self) -> &mut NodeId {
        match self {
            Effect::Set { value, .. }
            | Effect::Store { value, .. }
            | Effect::Accumulate { value, .. }
            | Effect::Extreme { value, .. }
            | Effect::Scan { value, .. } => value,
        }
    }

    /// Whether the statements name the value more than once.
    pub(super) fn repeats_value(&self) -> bool {
        matches!(self, Effect::Accumulate { .. } | Effect::Extreme { .. })
    }

    pub(super) fn indices(&self) -> Vec<&Expr> {
        match self {
            Effect::Set { offset, .. }
            | Effect::Store { offset, .. }
            | Effect::Accumulate { offset, .. }
            | Effect::Extreme { offset, .. } => vec![offset],
            Effect::Scan {
                offset,
                running_offset,
                ..
            } => vec![offset, running_offset],
        }
    }
}

impl Mapper<'_> {
    /// The statements of an effect.
    pub(super) fn effect(&self, effect: &Effect, nest: &Nest, plan: &Plan, interior: bool) -> Vec<Stmt> {
        let value = self.scalar(effect.value(), plan, interior);
        match effect {
            Effect::Set { local, offset, .. } => vec![Stmt::Set {
                local: *local,
                offset: offset.clone(),
                value,
            }],
            Effect::Store {
                tensor, offset, mode, ..
            } => vec![match (&plan.stream, nest.axes.last()) {
                (Some(stream), Some((symbol, _))) => {
                    let (local, offset) = stream.place(symbol);
                    Stmt::Set { local, offset, value }
                }
                _ => Stmt::Store {
                    tensor: *tensor,
                    offset: offset.clone(),
                    mode: *mode,
                    value,
                },
            }],
            Effect::Accumulate {
                op,
                local,
                offset,
                dtype,
                nan,
                ..
            } => {
                let sum = Scalar::Local(*local, offset.clone());
                let next = match (nan, extreme(*op)) {
                    (Some(_), Some(better)) => {
                        let is_better =
                            Scalar::Compare(better, *dtype, Box::new([value.clone(), sum.clone()]));
                        Scalar::Select(Box::new([is_better, value.clone(), sum]))
                    }
                    _ => Scalar::Binary(binary(*op), *dtype, Box::new([sum, value.clone()])),
                };
                let mut stmts = vec![Stmt::Set {
                    local: *local,
                    offset: offset.clone(),
                    value: next,
                }];
                if let Some(nan) = nan {
                    let is_nan = Scalar::Cast {
                        from: DType::Bool,
                        to: DType::I32,
                        value: Box::new(Scalar::Unary(UnaryOp::IsNan, *dtype, Box::new(value))),
                    };
                    let seen = Scalar::Local(*nan, 0.into());
                    stmts.push(Stmt::Set {
                        local: *nan,
                        offset: 0.into(),
                        value: Scalar::Binary(BinaryOp::Or, DType::I32, Box::new([seen, is_nan])),
                    });
                }
                stmts
            }
            Effect::Extreme {
                op,
                best,
                index,
                offset,
                dtype,
                position,
                ..
            } => {
                let so_far = || Scalar::Local(*best, offset.clone());
                let is_better = if dtype.is_float() {
                    // Better than a number, or the first that is none.
                    let worse = Scalar::Compare(worse(*op), *dtype, Box::new([value.clone(), so_far()]));
                    let is_number = Scalar::Compare(CompareOp::Eq, *dtype, Box::new([so_far(), so_far()]));
                    let not_worse = Scalar::Unary(UnaryOp::Not, DType::Bool, Box::new(worse));
                    Scalar::Binary(BinaryOp::And, DType::Bool, Box::new([not_worse, is_number]))
                } else {
                    let better = extreme(*op).unwrap_or(CompareOp::Gt);
                    Scalar::Compare(better, *dtype, Box::new([value.clone(), so_far()]))
                };
                let choose =
                    |new: Scalar, old: Scalar| Scalar::Select(Box::new([is_better.clone(), new, old]));
                let at = Scalar::Local(*index, offset.clone());
                vec![
                    Stmt::Set {
                        local: *index,
                        offset: offset.clone(),
                        value: choose(Scalar::Index(DType::I32, position.clone()), at),
                    },
                    Stmt::Set {
                        local: *best,
                        offset: offset.clone(),
                        value: choose(value, so_far()),
                    },
                ]
            }
            Effect::Scan {
                op,
                running,
                running_offset,
                dtype,
                exclusive,
                out,
                offset,
                out_dtype,
                ..
            } => {
                let so_far = Scalar::Local(*running, running_offset.clone());
                let take_up = Stmt::Set {
                    local: *running,
                    offset: running_offset.clone(),
                    value: Scalar::Binary(binary(*op), *dtype, Box::new([so_far.clone(), value])),
                };
                let write = Stmt::Set {
                    local: *out,
                    offset: offset.clone(),
                    value: Scalar::Cast {
                        from: *dtype,
                        to: *out_dtype,
                        value: Box::new(so_far),
                    },
                };
                if *exclusive {
                    vec![write, take_up]
                } else {
                    vec![take_up, write]
                }
            }
        }
    }
}

/// The operator that combines two elements.
pub(super) fn binary(op: ReduceOp) -> BinaryOp {
    match op {
        ReduceOp::Sum => BinaryOp::Add,
        ReduceOp::Prod => BinaryOp::Mul,
        ReduceOp::Max => BinaryOp::Max,
        ReduceOp::Min => BinaryOp::Min,
    }
}

/// What combines elements by this operator.
pub(super) fn combination(op: BinaryOp) -> Option<ReduceOp> {
    let mut combinations = ReduceOp::ALL.iter().copied();
    combinations.find(|combination| binary(*combination) == op)
}

/// How an element compares with a less extreme one.
fn extreme(op: ReduceOp) -> Option<CompareOp> {
    match op {
        ReduceOp::Max => Some(CompareOp::Gt),
        ReduceOp::Min => Some(CompareOp::Lt),
        ReduceOp::Sum | ReduceOp::Prod => None,
    }
}

/// How an element compares with one that is as extreme or more so.
fn worse(op: ReduceOp) -> CompareOp {
    match op {
        ReduceOp::Min => CompareOp::Ge,
        _ => CompareOp::Le,
    }
}

/// The neutral element in an accumulator of type `dtype`.
pub(super) fn identity(op: ReduceOp, dtype: DType) -> Constant {
    let (lowest, highest) = integer_range(dtype);
    match (op, dtype.is_float()) {
        (ReduceOp::Sum, true) => Constant::Float(0.0),
        (ReduceOp::Prod, true) => Constant::Float(1.0),
        (ReduceOp::Max, true) => Constant::Float(f64::NEG_INFINITY),
        (ReduceOp::Min, true) => Constant::Float(f64::INFINITY),
        (ReduceOp::Sum, false) => Constant::Int(0),
        (ReduceOp::Prod, false) => Constant::Int(1),
        (ReduceOp::Max, false) => Constant::Int(lowest),
        (ReduceOp::Min, false) => Constant::Int(highest),
    }
}

/// The values of an integer type.
pub(super) fn integer_range(dtype: DType) -> (i64, i64) {
    match dtype {
        DType::Bool => (0, 1),
        DType::U8 => (0, 255),
        DType::I8 => (i8::MIN.into(), i8::MAX.into()),
        DType::I16 => (i16::MIN.into(), i16::MAX.into()),
        DType::I32 => (i32::MIN.into(), i32::MAX.into()),
        _ => (i64::MIN, i64::MAX),
    }
}
