//! The few operations that every ATen operator of the rules comes down to.

mod map;
mod reduce;
mod view;

use super::window::Window;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::expr::Expr;
use crate::graph::{Graph, ValueId};
use crate::sketch::ir::{BinaryOp, CompareOp, ReduceOp, UnaryOp};

/// Names a primitive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct PrimId(pub(super) usize);

/// An element-wise operation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum MapOp {
    Unary(UnaryOp),
    Binary(BinaryOp),
    Compare(CompareOp),
    Select,
    /// To the node's element type.
    Cast,
}

/// A prefix combination along a dimension.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Scan {
    pub(super) op: ReduceOp,
    pub(super) dim: usize,
    /// Whether an element's own value is left out.
    pub(super) exclusive: bool,
    /// Whether it runs from the end.
    pub(super) reverse: bool,
}

/// What a primitive computes.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Prim {
    /// An input or constant of the graph.
    Input(ValueId),
    /// A literal of rank 0.
    Number(f64),
    /// An integer of rank 0 that follows from the extents.
    Integer(Expr),
    /// The coordinate along a dimension.
    Coordinate(usize),
    /// Element-wise with broadcasting.
    Map(MapOp, Vec<PrimId>),
    /// Combines along dimensions, which disappear.
    Reduce(ReduceOp, PrimId, Vec<usize>),
    /// Index of the extreme element along a dimension, which disappears.
    ArgReduce(ReduceOp, PrimId, usize),
    /// Combines each element with those before it.
    Scan(Scan, PrimId),
    /// `[batch.., M, K]` times `[batch.., K, N]`.
    Contract(PrimId, PrimId),
    /// The rows of a table `[T, D]` that the numbers `[M]` name, each from 0 to T - 1: `[M, D]`.
    Gather(PrimId, PrimId),
    /// The output of that position, which updates an input in place: of its rows along `dim`, those that the numbers `[J]` name
    /// become the rows of the second operand, which has `J` along `dim`. Negative numbers count from the end; of equal ones the
    /// last counts. The other rows stay as they are.
    Scatter {
        output: usize,
        dim: usize,
        operands: [PrimId; 2],
    },
    /// Result dimension `i` is operand dimension `perm[i]`.
    Permute(PrimId, Vec<usize>),
    /// The same elements in row-major order.
    Reshape(PrimId),
    /// Broadcast to the node's shape.
    Expand(PrimId),
    /// Parts, reversals, paddings, and what sliding windows see.
    Window(Window, PrimId),
    /// The hidden vectors `[T, B, H]` of a recurrent layer, step by step. The operands are the input's share of the gates
    /// `[T, B, G, H]`, the hidden weights `[G, H, H]`, the first hidden vectors `[B, H]`, of an LSTM the first cells, and the
    /// hidden bias `[G, H]` if there is one. Those of a linear recurrence, which has results `[T, H]`, are factors and terms in
    /// that shape, and the first hidden vector `[H]`.
    Recur {
        cell: Cell,
        reverse: bool,
        operands: Vec<PrimId>,
    },
    /// The cells that go along with the hidden vectors of an LSTM.
    Carried(PrimId),
}

/// What a recurrent layer computes in a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Cell {
    Lstm,
    Gru,
    Tanh,
    Relu,
    /// `h = a * h + b`, element by element.
    Linear,
}

impl Cell {
    /// Gates of each hidden element.
    pub(super) fn gates(self) -> i64 {
        match self {
            Cell::Lstm => 4,
            Cell::Gru => 3,
            Cell::Tanh | Cell::Relu | Cell::Linear => 1,
        }
    }
}

impl Prim {
    /// Reads other primitives in the place of its operands.
    pub(super) fn rename(&mut self, name: impl Fn(PrimId) -> PrimId) {
        match self {
            Prim::Input(_) | Prim::Number(_) | Prim::Integer(_) | Prim::Coordinate(_) => {}
            Prim::Map(_, args) | Prim::Recur { operands: args, .. } => {
                args.iter_mut().for_each(|a| *a = name(*a));
            }
            Prim::Reduce(_, a, _)
            | Prim::ArgReduce(_, a, _)
            | Prim::Scan(_, a)
            | Prim::Permute(a, _)
            | Prim::Reshape(a)
            | Prim::Expand(a)
            | Prim::Window(_, a)
            | Prim::Carried(a) => *a = name(*a),
            Prim::Contract(a, b) | Prim::Gather(a, b) | Prim::Scatter { operands: [a, b], .. } => {
                (*a, *b) = (name(*a), name(*b))
            }
        }
    }
}

/// A primitive with its type and the ATen operator that it comes from.
#[derive(Debug, Clone)]
pub(super) struct PrimNode {
    pub(super) prim: Prim,
    pub(super) dtype: DType,
    pub(super) shape: Vec<Expr>,
    pub(super) origin: &'static str,
}

/// A graph of primitives under construction.
#[derive(Debug, Clone, Default)]
pub(super) struct Prims {
    pub(super) nodes: Vec<PrimNode>,
    /// The operator being decomposed.
    pub(super) origin: &'static str,
    /// Steps of operators that PyTorch's kernels round to their types, as they do values of the graph.
    pub(super) rounded: Vec<PrimId>,
}

impl Prims {
    pub(super) fn node(&self, id: PrimId) -> &PrimNode {
        &self.nodes[id.0]
    }

    pub(super) fn shape(&self, id: PrimId) -> &[Expr] {
        &self.node(id).shape
    }

    pub(super) fn dtype(&self, id: PrimId) -> DType {
        self.node(id).dtype
    }

    pub(super) fn rank(&self, id: PrimId) -> usize {
        self.shape(id).len()
    }

    /// The extent of a dimension.
    pub(super) fn extent(&self, id: PrimId, dim: usize) -> Expr {
        self.shape(id).get(dim).cloned().unwrap_or(Expr::constant(1))
    }

    pub(super) fn push(&mut self, prim: Prim, dtype: DType, shape: Vec<Expr>) -> PrimId {
        self.nodes.push(PrimNode {
            prim,
            dtype,
            shape,
            origin: self.origin,
        });
        PrimId(self.nodes.len() - 1)
    }

    /// A literal; its type follows its use.
    pub(super) fn number(&mut self, value: f64) -> PrimId {
        self.push(Prim::Number(value), DType::F32, Vec::new())
    }

    /// An integer that follows from the extents: a literal if it is known.
    pub(super) fn integer(&mut self, value: &Expr) -> PrimId {
        match value.as_const() {
            Some(value) => self.number(value as f64),
            None => self.push(Prim::Integer(value.clone()), DType::I64, Vec::new()),
        }
    }

    pub(super) fn is_number(&self, id: PrimId) -> bool {
        matches!(self.node(id).prim, Prim::Number(_))
    }

    /// The coordinate along `dim` of a value of the given shape.
    pub(super) fn coordinate(&mut self, dim: usize, shape: Vec<Expr>) -> PrimId {
        let short = shape
            .get(dim)
            .and_then(Expr::as_const)
            .is_some_and(|e| i32::try_from(e).is_ok());
        let dtype = if short { DType::I32 } else { DType::I64 };
        self.push(Prim::Coordinate(dim), dtype, shape)
    }

    /// A literal of an element type, repeated over a shape.
    pub(super) fn full(&mut self, value: f64, dtype: DType, shape: Vec<Expr>) -> PrimId {
        let number = self.push(Prim::Number(value), dtype, Vec::new());
        self.expand(number, shape)
    }

    /// The literal that a value repeats.
    pub(super) fn constant(&self, id: PrimId) -> Option<f64> {
        match &self.node(id).prim {
            Prim::Number(value) => Some(*value),
            Prim::Map(MapOp::Cast, args) => args.first().and_then(|a| self.constant(*a)),
            _ => self.viewed(id).and_then(|a| self.constant(a)),
        }
    }

    /// The operands of a primitive.
    pub(super) fn operands(&self, id: PrimId) -> Vec<PrimId> {
        match &self.node(id).prim {
            Prim::Input(_) | Prim::Number(_) | Prim::Integer(_) | Prim::Coordinate(_) => Vec::new(),
            Prim::Map(_, args) | Prim::Recur { operands: args, .. } => args.clone(),
            Prim::Reduce(_, a, _)
            | Prim::ArgReduce(_, a, _)
            | Prim::Scan(_, a)
            | Prim::Permute(a, _)
            | Prim::Reshape(a)
            | Prim::Expand(a)
            | Prim::Window(_, a)
            | Prim::Carried(a) => vec![*a],
            Prim::Contract(a, b) | Prim::Gather(a, b) | Prim::Scatter { operands: [a, b], .. } => {
                vec![*a, *b]
            }
        }
    }

    /// What a view is a view of, one step.
    pub(super) fn viewed(&self, id: PrimId) -> Option<PrimId> {
        match &self.node(id).prim {
            Prim::Permute(a, _) | Prim::Reshape(a) | Prim::Expand(a) | Prim::Window(_, a) => Some(*a),
            _ => None,
        }
    }

    /// Follows views to what they are a view of.
    pub(super) fn root(&self, id: PrimId) -> PrimId {
        self.viewed(id).map_or(id, |a| self.root(a))
    }

    /// Whether a view on the way to the root is a window.
    pub(super) fn is_windowed(&self, id: PrimId) -> bool {
        matches!(self.node(id).prim, Prim::Window(..)) || self.viewed(id).is_some_and(|a| self.is_windowed(a))
    }

    /// Whether a kernel computes this, as opposed to inputs, literals and views.
    pub(super) fn is_computed(&self, id: PrimId) -> bool {
        matches!(
            self.node(id).prim,
            Prim::Map(..)
                | Prim::Reduce(..)
                | Prim::ArgReduce(..)
                | Prim::Scan(..)
                | Prim::Contract(..)
                | Prim::Gather(..)
                | Prim::Scatter { .. }
                | Prim::Recur { .. }
                | Prim::Carried(_)
        )
    }

    /// The input that a scatter updates, and the output's position.
    pub(super) fn updated(&self, graph: &Graph, id: PrimId) -> Option<(ValueId, usize)> {
        match self.node(id).prim {
            Prim::Scatter { output, .. } => Some((graph.outputs().get(output)?.updates?, output)),
            _ => None,
        }
    }

    /// How many elements a sum adds up, `None` for everything else. Unknown extents count as many.
    pub(super) fn summed(&self, id: PrimId) -> Option<i64> {
        let Prim::Reduce(ReduceOp::Sum, a, axes) = &self.node(id).prim else {
            return None;
        };
        let extents = axes.iter().map(|axis| self.extent(*a, *axis).as_const());
        Some(extents.fold(1, |n: i64, extent| n.saturating_mul(extent.unwrap_or(i64::MAX))))
    }

    /// Whether a kernel is made for this that reads all its operands from memory.
    pub(super) fn reads_memory(&self, id: PrimId) -> bool {
        matches!(
            self.node(id).prim,
            Prim::Contract(..) | Prim::Gather(..) | Prim::Scatter { .. } | Prim::Recur { .. }
        )
    }
}

/// The shape that two shapes broadcast to.
pub(super) fn broadcast(a: &[Expr], b: &[Expr]) -> Result<Vec<Expr>> {
    let rank = a.len().max(b.len());
    let one = Expr::constant(1);
    let at = |s: &[Expr], i: usize| {
        (i + s.len())
            .checked_sub(rank)
            .map_or(one.clone(), |j| s[j].clone())
    };
    (0..rank)
        .map(|i| {
            let (x, y) = (at(a, i), at(b, i));
            match (x.is(1), y.is(1)) {
                (true, _) => Ok(y),
                (_, true) => Ok(x),
                _ if x == y => Ok(x),
                _ => Err(Error::invalid(format!(
                    "cannot prove that the extents `{x}` and `{y}` are equal"
                ))),
            }
        })
        .collect()
}
