//! What the primitives of an attention are there for.

use super::unsupported;
use crate::designer::emit::rows::online::scaled_sum;
use crate::designer::plan::{Axis, KernelPlan, Operand};
use crate::designer::prim::{MapOp, Prim, PrimId, Prims};
use crate::error::Result;
use crate::sketch::ir::{BinaryOp, CompareOp, ReduceOp};

/// The primitives of an attention that its kernel does not just compute in order.
pub(super) struct Roles {
    /// The product of queries and keys.
    pub(super) scores: PrimId,
    /// What is between it and the weights, if they are not made of it element by element.
    pub(super) softmax: Option<Softmax>,
    /// What multiplies the values.
    pub(super) weights: PrimId,
    pub(super) product: PrimId,
    /// The operand of the product which is the values.
    pub(super) values: usize,
}

/// A softmax, or what else is exponentials times something about their rows.
pub(super) struct Softmax {
    /// What it is of.
    logits: PrimId,
    /// The maxima of a row's logits.
    pub(super) maxima: Vec<PrimId>,
    /// The exponentials of the logits' distances from it, and their sums.
    pub(super) term: PrimId,
    pub(super) sums: Vec<PrimId>,
}

impl Roles {
    pub(super) fn new(prims: &Prims, kernel: &KernelPlan, product: PrimId) -> Result<Self> {
        let scores = kernel.scores.ok_or_else(unsupported)?;
        let (weights, values) = match (kernel.node(product, 0), kernel.node(product, 1)) {
            (Some(weights), None) => (weights, 1),
            (None, Some(weights)) => (weights, 0),
            _ => return Err(unsupported()),
        };
        let is_reduction = |id: &PrimId| matches!(prims.node(*id).prim, Prim::Reduce(..));
        let softmax = if kernel.nodes.iter().any(is_reduction) {
            let softmax = Softmax::new(prims, kernel, weights);
            Some(softmax.ok_or_else(unsupported)?)
        } else {
            None
        };
        Ok(Self {
            scores,
            softmax,
            weights,
            product,
            values,
        })
    }

    /// What is computed of every score as its tile is: the softmax's logits, or the weights.
    pub(super) fn of_tiles(&self) -> PrimId {
        self.softmax
            .as_ref()
            .map_or(self.weights, |softmax| softmax.logits)
    }

    /// What that is where it adds nothing.
    pub(super) fn nothing(&self) -> f64 {
        if self.softmax.is_some() {
            f64::NEG_INFINITY
        } else {
            0.0
        }
    }

    /// Returns true if only its score decides the weight of every key: no mask, no bias, and no function that makes zeros of scores.
    pub(super) fn weighs_all_keys(&self, prims: &Prims, kernel: &KernelPlan) -> bool {
        let mut id = self.of_tiles();
        while id != self.scores {
            let is_scaled = match prims.node(id).prim {
                Prim::Map(MapOp::Cast, _) => true,
                Prim::Map(MapOp::Binary(BinaryOp::Mul | BinaryOp::Div), _) => {
                    matches!(kernel.operands.get(&(id, 1)), Some(Operand::Number(_)))
                }
                _ => false,
            };
            match kernel.node(id, 0) {
                Some(operand) if is_scaled => id = operand,
                _ => return false,
            }
        }
        self.softmax.is_some()
    }

    /// How many keys beyond its own coordinate and itself a row may see at most, if what is computed of scores says so.
    pub(super) fn last_key(&self, prims: &Prims, kernel: &KernelPlan, axes: [Axis; 2]) -> Option<i64> {
        last_key(prims, kernel, self.of_tiles(), self.nothing(), axes)
    }
}

impl Softmax {
    fn new(prims: &Prims, kernel: &KernelPlan, weights: PrimId) -> Option<Self> {
        let reductions = |op: ReduceOp| {
            let is_one = move |id: &PrimId| matches!(prims.node(*id).prim, Prim::Reduce(o, ..) if o == op);
            kernel.nodes.iter().copied().filter(is_one).collect::<Vec<_>>()
        };
        let (maxima, sums) = (reductions(ReduceOp::Max), reductions(ReduceOp::Sum));
        let scaled = sums.iter().map(|sum| scaled_sum(prims, kernel, *sum));
        let scaled = scaled.collect::<Option<Vec<_>>>()?;
        let (max, term) = scaled.first().copied()?;
        let logits = kernel.node(max, 0)?;
        let is_alike = scaled.iter().all(|(_, t)| *t == term)
            && maxima.iter().all(|max| kernel.node(*max, 0) == Some(logits));
        let softmax = Self {
            logits,
            maxima,
            term,
            sums,
        };
        let keys = kernel.axes.get(&logits).into_iter().flatten();
        let keys: Vec<Axis> = keys
            .copied()
            .filter(|axis| kernel.reduced.contains(axis))
            .collect();
        (is_alike && softmax.multiplies_rows(prims, kernel, weights, &keys)).then_some(softmax)
    }

    /// Whether something is the exponentials times what is the same for all keys.
    fn multiplies_rows(&self, prims: &Prims, kernel: &KernelPlan, id: PrimId, keys: &[Axis]) -> bool {
        if id == self.term {
            return true;
        }
        let Prim::Map(op, _) = prims.node(id).prim else {
            return false;
        };
        let operand = |i: usize| kernel.operands.get(&(id, i));
        let of_rows = |i: usize| match operand(i) {
            Some(Operand::Node(node)) => kernel
                .axes
                .get(node)
                .is_some_and(|axes| !axes.iter().any(|a| keys.contains(a))),
            Some(Operand::Load(access)) => !kernel.walked(access).iter().any(|a| keys.contains(a)),
            Some(Operand::Number(_) | Operand::Integer(_)) => true,
            Some(Operand::Coordinate(axes)) => !axes.iter().any(|a| keys.contains(a)),
            None => false,
        };
        let multiplies = |i: usize| {
            kernel
                .node(id, i)
                .is_some_and(|node| self.multiplies_rows(prims, kernel, node, keys))
        };
        let is_zero = |i: usize| operand(i) == Some(&Operand::Number(0.0));
        match op {
            MapOp::Cast => multiplies(0),
            MapOp::Binary(BinaryOp::Div) => multiplies(0) && of_rows(1),
            MapOp::Binary(BinaryOp::Mul) => multiplies(0) && of_rows(1) || of_rows(0) && multiplies(1),
            MapOp::Select => of_rows(0) && (multiplies(1) && is_zero(2) || is_zero(1) && multiplies(2)),
            _ => false,
        }
    }
}

/// The same of a primitive that is `nothing` where a row may not see.
fn last_key(prims: &Prims, kernel: &KernelPlan, id: PrimId, nothing: f64, axes: [Axis; 2]) -> Option<i64> {
    let Prim::Map(op, _) = prims.node(id).prim else {
        return None;
    };
    let of_operand = |i: usize, nothing: f64| {
        let node = kernel.node(id, i)?;
        last_key(prims, kernel, node, nothing, axes)
    };
    let number = |i: usize| match kernel.operands.get(&(id, i)) {
        Some(Operand::Number(number)) => Some(*number),
        _ => None,
    };
    let is_zero = nothing == 0.0;
    match op {
        MapOp::Cast => of_operand(0, nothing),
        MapOp::Select => {
            let side = (1..=2).find(|i| number(*i) == Some(nothing))?;
            let condition = kernel.node(id, 0).and_then(|c| kernel.triangle(prims, c, axes));
            let own = condition.and_then(|(op, diagonal)| match (op, side) {
                (CompareOp::Le, 2) | (CompareOp::Gt, 1) => Some(diagonal),
                (CompareOp::Lt, 2) | (CompareOp::Ge, 1) => Some(diagonal - 1),
                _ => None,
            });
            own.or_else(|| of_operand(3 - side, nothing))
        }
        // As ReLU makes zero of it.
        MapOp::Binary(BinaryOp::Max) if is_zero && number(1) == Some(0.0) => of_operand(0, f64::NEG_INFINITY),
        // What is added to -inf leaves it.
        MapOp::Binary(BinaryOp::Add) if !is_zero => of_operand(0, nothing).or_else(|| of_operand(1, nothing)),
        MapOp::Binary(BinaryOp::Sub) if !is_zero => of_operand(0, nothing),
        MapOp::Binary(BinaryOp::Mul | BinaryOp::Div) if number(1).is_some_and(|n| n > 0.0) => {
            of_operand(0, nothing)
        }
        _ => None,
    }
}
