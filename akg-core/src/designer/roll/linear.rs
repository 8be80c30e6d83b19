//! Linear recurrences whose steps are written out: `h = a * h + b`, element by element, as in state space models.

use std::collections::{HashMap, HashSet};

use super::{Original, Rolled};
use crate::dtype::DType;
use crate::error::Result;
use crate::expr::Expr;
use crate::graph::{Arg, ValueId};

/// Fewer steps stay as they are.
const FEWEST: usize = 8;
/// The orders in which steps may have their operands: the operand of the sum that is a product, the other one, the operand of
/// the product that is the hidden vector, and its factor.
const ORDERS: [[&str; 4]; 4] = [
    ["self", "other", "self", "other"],
    ["self", "other", "other", "self"],
    ["other", "self", "self", "other"],
    ["other", "self", "other", "self"],
];

/// A step.
#[derive(Debug, Clone, Copy)]
pub(super) struct LinearStep {
    before: ValueId,
    factor: ValueId,
    term: ValueId,
    result: ValueId,
}

impl Original<'_> {
    /// Steps that follow each other, by the first result.
    pub(super) fn linear_chains(&self) -> HashMap<ValueId, Vec<LinearStep>> {
        let mut chains: HashMap<ValueId, Vec<LinearStep>> = HashMap::new();
        let mut taken: HashSet<ValueId> = HashSet::new();
        for order in ORDERS {
            let results = self.graph.nodes().iter().filter_map(|node| node.outputs.first());
            let steps: Vec<LinearStep> = results
                .filter_map(|result| self.linear_step(*result, order))
                .collect();
            let next: HashMap<ValueId, LinearStep> = steps.iter().map(|step| (step.before, *step)).collect();
            let results: HashSet<ValueId> = steps.iter().map(|step| step.result).collect();
            for first in steps.iter().filter(|step| !results.contains(&step.before)) {
                let follow = |step: &LinearStep| next.get(&step.result).copied();
                let chain: Vec<LinearStep> = std::iter::successors(Some(*first), follow).collect();
                let is_new = chain.iter().all(|step| !taken.contains(&step.result));
                if chain.len() >= FEWEST && is_new {
                    taken.extend(chain.iter().map(|step| step.result));
                    chains.insert(first.result, chain);
                }
            }
        }
        chains
    }

    /// The step that a value is the hidden vector after.
    fn linear_step(&self, result: ValueId, [product, term, hidden, factor]: [&str; 4]) -> Option<LinearStep> {
        let sum = self.call(result, "add.Tensor")?;
        let product = self.call(sum.value(product).ok()?, "mul.Tensor")?;
        let (before, factor) = (product.value(hidden).ok()?, product.value(factor).ok()?);
        let ty = self.graph.ty(result);
        let is_step =
            sum.number("alpha").ok()? == 1.0 && ty.dtype == DType::F32 && self.graph.ty(before) == ty;
        is_step.then_some(LinearStep {
            before,
            factor,
            term: sum.value(term).ok()?,
            result,
        })
    }
}

impl Rolled {
    /// Computes the hidden vectors of a chain, if its factors and terms can be computed for all steps at once.
    pub(super) fn linear(&mut self, original: &Original<'_>, chain: &[LinearStep]) -> Result<()> {
        let Some(first) = chain.first() else {
            return Ok(());
        };
        let mut shape = vec![Expr::constant(chain.len() as i64)];
        shape.extend(original.graph.ty(first.result).shape.iter().cloned());
        let mut operands = Vec::new();
        for of_step in [|step: &LinearStep| step.factor, |step: &LinearStep| step.term] {
            let list: Vec<ValueId> = chain.iter().map(of_step).collect();
            let each = of_step(first);
            let is_same = list.iter().all(|value| *value == each);
            let batched = if is_same {
                Some(self.value(each))
            } else {
                self.batched(original, &list)?
            };
            let Some(mut batched) = batched else {
                return Ok(());
            };
            // What differs from step to step broadcasts behind the dimension of steps.
            let rank = original.graph.ty(each).rank();
            let missing = (shape.len() - 1).saturating_sub(rank);
            for _ in 0..if is_same { 0 } else { missing } {
                batched = self.call("unsqueeze.default", [("self", batched.into()), ("dim", 1.into())])?;
            }
            let args = [("self", batched.into()), ("size", Arg::Ints(shape.clone()))];
            operands.push(self.call("expand.default", args)?);
        }
        let [factors, terms] = operands[..] else {
            return Ok(());
        };
        let args = [
            ("decay", factors.into()),
            ("input", terms.into()),
            ("hx", self.value(first.before).into()),
        ];
        let hidden = self.call("linear_recurrence.default", args)?;
        let places = chain.iter().zip(0..);
        self.elements
            .extend(places.map(|(step, t)| (step.result, (hidden, t))));
        Ok(())
    }
}
