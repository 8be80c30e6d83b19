//! Choices that are the same at all points of a nest.
//!
//! Where joined tensors are read, every element comes from one of them, and often an index decides that no loop of the nest
//! goes along. Each alternative has loops of its own then, around which the index is known to lie where it was chosen.

use std::collections::{BTreeSet, HashMap};

use super::ir::Stmt;
use super::mapper::Mapper;
use super::nest::Nest;
use super::node::{ConstantBits, NodeId, NodeKind};
use crate::expr::{Expr, Symbol};
use crate::sketch::ir::{CompareOp, Condition};

/// The most choices that a nest is written for.
const MOST: usize = 32;

/// What is chosen by.
struct Choice {
    condition: NodeId,
    op: CompareOp,
    operands: [Expr; 2],
}

impl Mapper<'_> {
    /// Appends the loops of `nest`, for each of its alternatives.
    pub(super) fn emit(&mut self, nest: &Nest) {
        let mut most = MOST;
        self.alternatives(nest, &mut most);
    }

    /// The same with so many choices at most, in all alternatives together.
    fn alternatives(&mut self, nest: &Nest, most: &mut usize) {
        let choice = match *most {
            0 => None,
            _ => self.choice(nest),
        };
        let Some(choice) = choice else {
            return self.loops(nest);
        };
        let [a, b] = &choice.operands;
        let holds = match choice.op {
            CompareOp::Lt => self.bounds(&(a - b)).and_then(|bounds| match bounds {
                (_, high) if high < 0 => Some(true),
                (low, _) if low >= 0 => Some(false),
                _ => None,
            }),
            _ => None,
        };
        if let Some(holds) = holds {
            let nest = self.chosen(nest, choice.condition, holds);
            return self.alternatives(&nest, most);
        }
        *most -= 1;
        let [then, otherwise] = [true, false].map(|holds| {
            let nest = self.chosen(nest, choice.condition, holds);
            let before = std::mem::take(&mut self.out);
            let known = self.assume(&choice, holds);
            self.alternatives(&nest, most);
            self.ranges.extend(known);
            std::mem::replace(&mut self.out, before)
        });
        let [a, b] = choice.operands;
        self.out.push(Stmt::If {
            condition: Condition::Compare(choice.op, a, b),
            then,
            otherwise,
        });
    }

    /// The outermost choice that is the same for all points.
    fn choice(&self, nest: &Nest) -> Option<Choice> {
        if nest.axes.is_empty() {
            return None;
        }
        let mut seen = BTreeSet::new();
        let mut stack: Vec<NodeId> = nest.effects.iter().map(|effect| effect.value()).collect();
        while let Some(id) = stack.pop() {
            if seen.insert(id) {
                stack.extend(self.nodes.get(id).kind.operands());
            }
        }
        seen.into_iter().rev().find_map(|id| {
            let NodeKind::Select(condition, ..) = self.nodes.get(id).kind else {
                return None;
            };
            let NodeKind::Compare(op, a, b) = self.nodes.get(condition).kind else {
                return None;
            };
            let operands = [self.index_of(a)?, self.index_of(b)?];
            let mut symbols = operands.iter().flat_map(Expr::symbols);
            let is_fixed =
                |s: &Symbol| !self.dynamic.contains_key(s) && nest.axes.iter().all(|(axis, _)| axis != s);
            symbols.all(|s| is_fixed(&s)).then_some(Choice {
                condition,
                op,
                operands,
            })
        })
    }

    /// An integer that needs no data.
    fn index_of(&self, id: NodeId) -> Option<Expr> {
        match &self.nodes.get(id).kind {
            NodeKind::Index(e) => Some(e.clone()),
            NodeKind::Const(ConstantBits::Int(value)) => Some((*value).into()),
            _ => None,
        }
    }

    /// Narrows the range of an index to where a condition on it holds or does not. Returns what it was.
    fn assume(&mut self, choice: &Choice, holds: bool) -> Option<(Symbol, (i64, i64))> {
        let [a, b] = &choice.operands;
        let (symbol, limit) = (a.as_symbol()?.clone(), b.as_const()?);
        let before = *self.ranges.get(&symbol)?;
        let now = match (choice.op, holds) {
            (CompareOp::Lt, true) => (before.0, before.1.min(limit - 1)),
            (CompareOp::Lt, false) => (before.0.max(limit), before.1),
            _ => before,
        };
        self.ranges.insert(symbol.clone(), now);
        Some((symbol, before))
    }

    /// The nest in which a condition holds or does not.
    fn chosen(&mut self, nest: &Nest, condition: NodeId, holds: bool) -> Nest {
        let mut nest = nest.clone();
        let mut done = HashMap::new();
        for effect in &mut nest.effects {
            let value = effect.value_mut();
            *value = self.alternative(*value, condition, holds, &mut done);
        }
        nest
    }

    fn alternative(
        &mut self,
        id: NodeId,
        condition: NodeId,
        holds: bool,
        done: &mut HashMap<NodeId, NodeId>,
    ) -> NodeId {
        if let Some(known) = done.get(&id) {
            return *known;
        }
        let node = self.nodes.get(id).clone();
        let new = match node.kind {
            NodeKind::Select(c, a, b) if c == condition => {
                self.alternative(if holds { a } else { b }, condition, holds, done)
            }
            kind => {
                let kind = kind.map_operands(|operand| self.alternative(operand, condition, holds, done));
                self.nodes.add(node.dtype, kind)
            }
        };
        if let Some(label) = self.labels.get(&id).cloned() {
            self.labels.entry(new).or_insert(label);
        }
        done.insert(id, new);
        new
    }
}
