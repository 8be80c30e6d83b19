//! Scalar expressions as a graph without duplicates: the same computation is the same node.

use std::collections::HashMap;

use crate::dtype::DType;
use crate::expr::Expr;
use crate::sketch::ir::{BinaryOp, CompareOp, Scalar as Constant, TensorId, UnaryOp};

use super::ir::LocalId;

/// Names a node of [`Nodes`]. Operands have smaller numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct NodeId(usize);

/// A coordinate that must lie in `0..extent`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Guard {
    pub(super) coordinate: Expr,
    pub(super) extent: Expr,
}

/// A scalar computation and the type of its result.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Node {
    pub(super) dtype: DType,
    pub(super) kind: NodeKind,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum NodeKind {
    Const(ConstantBits),
    Index(Expr),
    Local(LocalId, Expr),
    Tensor {
        tensor: TensorId,
        offset: Expr,
        guards: Vec<Guard>,
        fill: ConstantBits,
    },
    Unary(UnaryOp, NodeId),
    Binary(BinaryOp, NodeId, NodeId),
    Compare(CompareOp, NodeId, NodeId),
    Select(NodeId, NodeId, NodeId),
    Cast(NodeId),
    Bits(NodeId),
    Tf32(NodeId),
}

/// A constant that can be hashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum ConstantBits {
    Int(i64),
    Float(u64),
}

impl From<Constant> for ConstantBits {
    fn from(value: Constant) -> Self {
        match value {
            Constant::Int(v) => ConstantBits::Int(v),
            Constant::Float(v) => ConstantBits::Float(v.to_bits()),
        }
    }
}

impl From<ConstantBits> for Constant {
    fn from(value: ConstantBits) -> Self {
        match value {
            ConstantBits::Int(v) => Constant::Int(v),
            ConstantBits::Float(v) => Constant::Float(f64::from_bits(v)),
        }
    }
}

impl NodeKind {
    /// The nodes that it reads directly; those behind index symbols are not among them.
    pub(super) fn operands(&self) -> impl Iterator<Item = NodeId> {
        let three = match *self {
            NodeKind::Const(_) | NodeKind::Index(_) | NodeKind::Local(..) | NodeKind::Tensor { .. } => {
                [None; 3]
            }
            NodeKind::Unary(_, a) | NodeKind::Cast(a) | NodeKind::Bits(a) | NodeKind::Tf32(a) => {
                [Some(a), None, None]
            }
            NodeKind::Binary(_, a, b) | NodeKind::Compare(_, a, b) => [Some(a), Some(b), None],
            NodeKind::Select(c, a, b) => [Some(c), Some(a), Some(b)],
        };
        three.into_iter().flatten()
    }

    /// The same with other operands.
    pub(super) fn map_operands(self, mut f: impl FnMut(NodeId) -> NodeId) -> Self {
        match self {
            NodeKind::Const(_) | NodeKind::Index(_) | NodeKind::Local(..) | NodeKind::Tensor { .. } => self,
            NodeKind::Unary(op, a) => NodeKind::Unary(op, f(a)),
            NodeKind::Cast(a) => NodeKind::Cast(f(a)),
            NodeKind::Bits(a) => NodeKind::Bits(f(a)),
            NodeKind::Tf32(a) => NodeKind::Tf32(f(a)),
            NodeKind::Binary(op, a, b) => NodeKind::Binary(op, f(a), f(b)),
            NodeKind::Compare(op, a, b) => NodeKind::Compare(op, f(a), f(b)),
            NodeKind::Select(c, a, b) => NodeKind::Select(f(c), f(a), f(b)),
        }
    }

    /// The index expressions in it.
    pub(super) fn indices(&self) -> Vec<&Expr> {
        match self {
            NodeKind::Index(e) | NodeKind::Local(_, e) => vec![e],
            NodeKind::Tensor { offset, guards, .. } => guards
                .iter()
                .flat_map(|g| [&g.coordinate, &g.extent])
                .chain([offset])
                .collect(),
            _ => Vec::new(),
        }
    }
}

/// All nodes of a kernel.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    all: Vec<Node>,
    ids: HashMap<Node, NodeId>,
}

impl Nodes {
    pub(super) fn add(&mut self, dtype: DType, kind: NodeKind) -> NodeId {
        let node = Node { dtype, kind };
        if let Some(id) = self.ids.get(&node) {
            return *id;
        }
        let id = NodeId(self.all.len());
        self.all.push(node.clone());
        self.ids.insert(node, id);
        id
    }

    pub(super) fn get(&self, id: NodeId) -> &Node {
        &self.all[id.0]
    }
}
