//! Graphs from graphs: symbols bound, other input shapes, dead nodes dropped.

use std::collections::{BTreeMap, BTreeSet};

use super::{Arg, Constant, Graph, Input, InputKind, Node, Output, TensorType, ValueId};
use crate::error::{Error, Result, ResultExt};
use crate::expr::{Bindings, Expr, Symbol};

/// So many tensors that are joined more than once are joined once.
const MANY: usize = 6;

impl Graph {
    /// Every symbol in the shapes of the inputs and in the arguments of the nodes.
    pub fn symbols(&self) -> BTreeSet<Symbol> {
        let shapes = self
            .inputs
            .iter()
            .filter_map(|i| self.value(i.value))
            .flat_map(|v| &v.ty.shape);
        let args = self.nodes.iter().flat_map(|n| &n.args).flat_map(|arg| match arg {
            Arg::Int(e) => std::slice::from_ref(e),
            Arg::Ints(list) => list,
            _ => &[],
        });
        shapes.chain(args).flat_map(Expr::symbols).collect()
    }

    /// The graph for these values of its symbols; symbols without a value stay. Types are inferred anew, so an error
    /// tells which node does not fit.
    pub fn bind(&self, bindings: &Bindings) -> Result<Graph> {
        let bind = |e: &Expr| e.bind(bindings);
        let shapes: Vec<Vec<Expr>> = self
            .inputs
            .iter()
            .map(|i| self.ty(i.value).shape.iter().map(bind).collect())
            .collect();
        self.retyped(&shapes, &bind)
    }

    /// The same nodes for inputs of other shapes, one shape for each input. Types are inferred anew; an error names the
    /// node that does not fit, such as a view to a literal size.
    pub fn with_input_shapes(&self, shapes: &[Vec<Expr>]) -> Result<Graph> {
        if shapes.len() != self.inputs.len() {
            return Err(Error::invalid(format!(
                "graph `{}` has {} inputs, but {} shapes are given",
                self.name,
                self.inputs.len(),
                shapes.len()
            )));
        }
        self.retyped(shapes, &Expr::clone)
    }

    fn retyped(&self, shapes: &[Vec<Expr>], map: &dyn Fn(&Expr) -> Expr) -> Result<Graph> {
        let mut out = self.clone();
        for (input, shape) in self.inputs.iter().zip(shapes) {
            out.set_type(input.value, |ty| ty.shape.clone_from(shape));
        }
        out.nodes.clear();
        for node in &self.nodes {
            let args: Vec<_> = node.args.iter().map(|arg| arg.map_sizes(map)).collect();
            let types = out
                .infer(node.op, &args)
                .context("node", || self.node_name(node))?;
            if types.len() != node.outputs.len() {
                return Err(Error::invalid(format!(
                    "`{}` has {} results for the new shapes instead of {}",
                    node.op.name(),
                    types.len(),
                    node.outputs.len()
                ))
                .with("node", self.node_name(node)));
            }
            for (value, ty) in node.outputs.iter().zip(types) {
                out.set_type(*value, |slot| *slot = ty);
            }
            out.nodes.push(Node {
                op: node.op,
                args,
                outputs: node.outputs.clone(),
            });
        }
        out.validate()?;
        Ok(out)
    }

    fn set_type(&mut self, value: ValueId, set: impl FnOnce(&mut TensorType)) {
        if let Some(value) = self.values.get_mut(value.index()) {
            set(&mut value.ty);
        }
    }

    /// The name by which messages know a node: its first result's.
    pub(super) fn node_name(&self, node: &Node) -> String {
        let first = node.outputs.first().and_then(|v| self.value(*v));
        first.map_or_else(|| node.op.name().to_owned(), |v| v.name.clone())
    }

    /// The part of the graph that computes `outputs` from `inputs`, any values of the graph. Inputs that are the graph's
    /// own stay what they are to the caller; others become activations. Constants come along.
    ///
    /// # Errors
    /// If `outputs` also depend on something else.
    pub fn subgraph(&self, inputs: &[ValueId], outputs: &[ValueId]) -> Result<Graph> {
        let input = |value: &ValueId| {
            let own = self.inputs.iter().find(|i| i.value == *value);
            own.cloned().unwrap_or(Input {
                value: *value,
                kind: InputKind::Activation,
                layout: None,
            })
        };
        let part = Graph {
            inputs: inputs.iter().map(input).collect(),
            nodes: self
                .nodes
                .iter()
                .filter(|n| !n.outputs.iter().any(|v| inputs.contains(v)))
                .cloned()
                .collect(),
            constants: self
                .constants
                .iter()
                .filter(|c| !inputs.contains(&c.value))
                .cloned()
                .collect(),
            outputs: outputs
                .iter()
                .map(|value| Output {
                    value: *value,
                    updates: None,
                })
                .collect(),
            ..self.clone()
        };
        let mut defined: BTreeSet<ValueId> = inputs.iter().copied().collect();
        defined.extend(part.constants.iter().map(|c| c.value));
        defined.extend(part.nodes.iter().flat_map(|n| &n.outputs));
        let mut needed: BTreeSet<ValueId> = outputs.iter().copied().collect();
        for node in part.nodes.iter().rev() {
            if node.outputs.iter().any(|v| needed.contains(v)) {
                needed.extend(node.inputs());
            }
        }
        if let Some(missing) = needed.difference(&defined).next() {
            return Err(Error::invalid(format!(
                "part of graph `{}` depends on `{}`, which is not among its inputs",
                self.name,
                self.value_name(*missing)
            )));
        }
        Ok(part.prune())
    }

    /// The graph in which a join that begins with all that an earlier one joined, if that is many tensors, begins with its
    /// result instead. Where each layer reads what all layers before it computed, it then reads two tensors, and values stay
    /// what they are to the last bit.
    #[must_use]
    pub fn with_growing_joins(&self) -> Graph {
        let mut out = self.clone();
        let mut joins: BTreeMap<(Vec<ValueId>, Option<i64>), ValueId> = BTreeMap::new();
        for node in out
            .nodes
            .iter_mut()
            .filter(|node| node.op.qualified_name() == "aten.cat.default")
        {
            let ([Arg::Values(parts), Arg::Int(dim)], [joined]) = (&mut node.args[..], &node.outputs[..])
            else {
                continue;
            };
            let dtype = self.ty(*joined).dtype;
            let all: Option<Vec<ValueId>> = parts.iter().copied().collect();
            let Some(all) = all.filter(|all| all.iter().all(|part| self.ty(*part).dtype == dtype)) else {
                continue;
            };
            let known = (MANY..all.len()).rev().find_map(|count| {
                let (first, others) = all.split_at_checked(count)?;
                let joined = joins.get(&(first.to_vec(), dim.as_const()))?;
                Some([&[*joined], others].concat())
            });
            if let Some(fewer) = known {
                *parts = fewer.into_iter().map(Some).collect();
            }
            joins.insert((all, dim.as_const()), *joined);
        }
        out
    }

    /// The graph without the nodes and constants that no output needs. Inputs stay, names too; values are numbered
    /// anew.
    pub fn prune(&self) -> Graph {
        let mut live: BTreeSet<ValueId> = self.outputs.iter().map(|o| o.value).collect();
        let mut kept = Vec::new();
        for node in self.nodes.iter().rev() {
            if node.outputs.iter().any(|v| live.contains(v)) {
                live.extend(node.inputs());
                kept.push(node);
            }
        }
        kept.reverse();
        let constants = self.constants.iter().filter(|c| live.contains(&c.value));
        let mut values: Vec<ValueId> = self.inputs.iter().map(|i| i.value).collect();
        values.extend(constants.clone().map(|c| c.value));
        values.extend(kept.iter().flat_map(|n| &n.outputs));
        values.sort_unstable();

        let renumbered = |old: ValueId| values.binary_search(&old).map_or(old, |at| ValueId(at as u32));
        let kept_values = values.iter().filter_map(|v| self.value(*v).cloned());
        let kept_values: Vec<_> = kept_values.collect();
        let numbered = kept_values.iter().enumerate();
        Graph {
            name: self.name.clone(),
            names: numbered
                .map(|(at, v)| (v.name.clone(), ValueId(at as u32)))
                .collect(),
            suffixes: self.suffixes.clone(),
            inputs: self
                .inputs
                .iter()
                .map(|i| Input {
                    value: renumbered(i.value),
                    kind: i.kind,
                    layout: i.layout.clone(),
                })
                .collect(),
            constants: constants
                .map(|c| Constant {
                    value: renumbered(c.value),
                    tensor: c.tensor.clone(),
                })
                .collect(),
            nodes: kept
                .iter()
                .map(|node| Node {
                    op: node.op,
                    args: node.args.iter().map(|arg| arg.map_values(&renumbered)).collect(),
                    outputs: node.outputs.iter().map(|v| renumbered(*v)).collect(),
                })
                .collect(),
            outputs: self
                .outputs
                .iter()
                .map(|o| Output {
                    value: renumbered(o.value),
                    updates: o.updates.map(renumbered),
                })
                .collect(),
            values: kept_values,
        }
    }
}

impl Arg {
    fn map_sizes(&self, map: &dyn Fn(&Expr) -> Expr) -> Arg {
        match self {
            Arg::Int(e) => Arg::Int(map(e)),
            Arg::Ints(list) => Arg::Ints(list.iter().map(map).collect()),
            other => other.clone(),
        }
    }

    pub(crate) fn map_values(&self, map: &dyn Fn(ValueId) -> ValueId) -> Arg {
        match self {
            Arg::Value(v) => Arg::Value(map(*v)),
            Arg::Values(list) => Arg::Values(list.iter().map(|v| v.map(map)).collect()),
            other => other.clone(),
        }
    }
}
