//! The same computation for every step of a loop as one for all steps.

use super::{Original, Rolled};
use crate::error::Result;
use crate::expr::Expr;
use crate::graph::{Arg, Node, ValueId};

/// Operators that do the same to all elements along a leading dimension more, with the operands that may have it.
const BATCHED: [(&str, &[&str]); 20] = [
    ("linear.default", &["input"]),
    ("tanh.default", &["self"]),
    ("relu.default", &["self"]),
    ("sigmoid.default", &["self"]),
    ("gelu.default", &["self"]),
    ("silu.default", &["self"]),
    ("softplus.default", &["self"]),
    ("exp.default", &["self"]),
    ("neg.default", &["self"]),
    ("add.Tensor", &["self", "other"]),
    ("sub.Tensor", &["self", "other"]),
    ("mul.Tensor", &["self", "other"]),
    ("div.Tensor", &["self", "other"]),
    ("add.Scalar", &["self"]),
    ("sub.Scalar", &["self"]),
    ("mul.Scalar", &["self"]),
    ("div.Scalar", &["self"]),
    ("rsub.Scalar", &["self"]),
    ("sum.dim_IntList", &["self"]),
    ("unsqueeze.default", &["self"]),
];

impl Original<'_> {
    /// The sequence whose elements along a dimension the values are, the dimension and the first place.
    fn elements_of(&self, list: &[ValueId]) -> Option<(ValueId, i64, i64)> {
        let element = |value: &ValueId| {
            if let Some(call) = self.call(*value, "select.int") {
                let (dim, at) = (call.int("dim").ok()?, call.int("index").ok()?);
                return Some((call.value("self").ok()?, dim, at));
            }
            let call = self.call(*value, "unbind.int")?;
            let node = self.producers.get(value)?;
            let at = node.outputs.iter().position(|output| output == value)?;
            Some((call.value("self").ok()?, call.int("dim").ok()?, at as i64))
        };
        let (sequence, dim, first) = element(list.first()?)?;
        let is_next = |(value, at): (&ValueId, i64)| element(value) == Some((sequence, dim, at));
        let rank = self.graph.ty(sequence).rank() as i64;
        let from_front = if dim < 0 { dim + rank } else { dim };
        let all = first >= 0 && list.iter().zip(first..).all(is_next);
        all.then_some((sequence, from_front, first))
    }
}

impl Rolled {
    /// All values of a list as one tensor whose elements along the first dimension they are, if they are computed in the same
    /// way of hidden vectors' or other sequences, or of what is the same for all.
    pub(super) fn batched(&mut self, original: &Original<'_>, list: &[ValueId]) -> Result<Option<ValueId>> {
        let held: Option<Vec<_>> = list.iter().map(|value| self.elements.get(value)).collect();
        if let Some([first, others @ ..]) = held.as_deref() {
            let is_next = |(other, at): (&&(ValueId, i64), i64)| other.0 == first.0 && other.1 == at;
            let is_all = self
                .graph
                .ty(first.0)
                .shape
                .first()
                .is_some_and(|steps| steps.is(list.len() as i64));
            let in_order = first.1 == 0 && others.iter().zip(1..).all(is_next);
            return Ok((is_all && in_order).then_some(first.0));
        }
        if let Some((sequence, dim, first)) = original.elements_of(list) {
            let sequence = self.value(sequence);
            let sequence = self.leading(sequence, dim)?;
            let end = first + list.len() as i64;
            return self.slice(sequence, 0, [first.into(), end.into()]).map(Some);
        }
        let nodes: Option<Vec<&Node>> = list.iter().map(|v| original.producers.get(v).copied()).collect();
        let Some(nodes) = nodes else {
            return Ok(None);
        };
        let Some((first, others)) = nodes.split_first() else {
            return Ok(None);
        };
        let known = BATCHED.iter().find(|(op, _)| *op == first.op.name());
        let Some((_, operands)) =
            known.filter(|_| others.iter().all(|node| node.op.name() == first.op.name()))
        else {
            return Ok(None);
        };
        let mut has_batches = false;
        let rank = |value: ValueId| original.graph.ty(value).rank();
        let mut args = Vec::new();
        for (i, (parameter, arg)) in first.op.schema().parameters.iter().zip(&first.args).enumerate() {
            if others.iter().all(|node| node.args.get(i) == Some(arg)) {
                let arg = arg.map_values(&|value| self.value(value));
                args.push(if parameter.name == "dim" {
                    behind_first(arg)
                } else {
                    arg
                });
                continue;
            }
            let each: Option<Vec<ValueId>> = nodes
                .iter()
                .map(|node| match node.args.get(i) {
                    Some(Arg::Value(value)) => Some(*value),
                    _ => None,
                })
                .collect();
            let is_operand = operands.contains(&parameter.name.as_str());
            let Some(each) = each.filter(|_| is_operand) else {
                return Ok(None);
            };
            let Some(mut batched) = self.batched(original, &each)? else {
                return Ok(None);
            };
            // Operands broadcast from their last dimension on.
            if operands.len() > 1 {
                let ranks = each
                    .first()
                    .copied()
                    .map(rank)
                    .zip(list.first().copied().map(rank));
                let missing = ranks.map_or(0, |(own, whole)| whole.saturating_sub(own));
                for _ in 0..missing {
                    batched =
                        self.call("unsqueeze.default", [("self", batched.into()), ("dim", 1.into())])?;
                }
            }
            args.push(batched.into());
            has_batches = true;
        }
        if !has_batches {
            return Ok(None);
        }
        Ok(self.graph.push(first.op, args, &[])?.first().copied())
    }

    /// The same with a dimension before all others.
    fn leading(&mut self, value: ValueId, dim: i64) -> Result<ValueId> {
        if dim <= 1 {
            return self.turned(value, dim);
        }
        let rank = self.graph.ty(value).rank() as i64;
        let others = (0..rank).filter(|other| *other != dim);
        let dims: Vec<Expr> = std::iter::once(dim).chain(others).map(Expr::constant).collect();
        self.call(
            "permute.default",
            [("self", value.into()), ("dims", Arg::Ints(dims))],
        )
    }
}

/// Dimensions where there is one more before all others; those that count from the end stay.
fn behind_first(dims: Arg) -> Arg {
    let moved = |dim: Expr| match dim.as_const() {
        Some(at) if at >= 0 => Expr::constant(at + 1),
        _ => dim,
    };
    match dims {
        Arg::Int(dim) => Arg::Int(moved(dim)),
        Arg::Ints(dims) => Arg::Ints(dims.into_iter().map(moved).collect()),
        other => other,
    }
}
