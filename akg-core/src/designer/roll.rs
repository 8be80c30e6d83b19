//! Recurrent networks whose steps are written out.
//!
//! A loop over the steps of a sequence comes from PyTorch as its iterations, one after the other: each has the hidden vector
//! of the one before and an element of the sequence. Here such a chain becomes one operator again, be it a recurrent network
//! or a [linear recurrence](linear), and what is computed of each hidden vector and stacked is computed of all of them at once.

use std::collections::{BTreeSet, HashMap};

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::expr::Expr;
use crate::graph::ops::Call;
use crate::graph::{Arg, Graph, Node, ValueId};

mod batch;
mod linear;

/// Fewer steps stay as they are.
const FEWEST: usize = 3;
/// Columns of a matrix, from the first to the end; all of them if there are no ends.
#[derive(Debug, Clone, PartialEq)]
struct Columns {
    matrix: ValueId,
    ends: Option<[Expr; 2]>,
}

/// What each step of a network does.
#[derive(Debug, Clone, PartialEq)]
struct Cell {
    op: &'static str,
    of_input: Columns,
    of_hidden: Columns,
    biases: Vec<ValueId>,
    /// The sequence that steps read an element of, and the dimension along which they are.
    sequence: ValueId,
    dim: i64,
}

/// A step.
#[derive(Debug, Clone)]
struct Step {
    cell: Cell,
    /// Which element of the sequence it reads.
    at: i64,
    before: ValueId,
    result: ValueId,
}

/// A sum of products: vectors, each with what it is multiplied with, and the biases.
struct Sum {
    parts: Vec<(ValueId, Columns)>,
    biases: Vec<ValueId>,
}

/// The values of a graph by what computes them.
struct Original<'a> {
    graph: &'a Graph,
    producers: HashMap<ValueId, &'a Node>,
}

/// A graph under construction.
struct Rolled {
    graph: Graph,
    /// What stands for values of the original.
    values: HashMap<ValueId, ValueId>,
    /// The sequences that hidden vectors of the original are elements of, and their places.
    elements: HashMap<ValueId, (ValueId, i64)>,
}

/// The graph with chains of steps as operators over sequences; `None` if it has none.
pub(super) fn rolled(graph: &Graph) -> Result<Option<Graph>> {
    let original = Original::new(graph);
    let chains = original.chains();
    let linear = original.linear_chains();
    if chains.is_empty() && linear.is_empty() {
        return Ok(None);
    }
    let mut rolled = Rolled {
        graph: graph.clone(),
        values: HashMap::new(),
        elements: HashMap::new(),
    };
    rolled.graph.nodes.clear();
    for node in graph.nodes() {
        let first = |chain: &&Vec<Step>| {
            chain
                .first()
                .is_some_and(|step| node.outputs.contains(&step.result))
        };
        if let Some(chain) = chains.iter().find(first) {
            rolled.sequence(chain)?;
        }
        if let Some(chain) = node.outputs.first().and_then(|result| linear.get(result)) {
            rolled.linear(&original, chain)?;
        }
        match node.outputs[..] {
            [value] if rolled.elements.contains_key(&value) => rolled.element(value)?,
            [value] => match original.stacked(node) {
                Some((list, dim)) => match rolled.batched(&original, &list)? {
                    Some(batched) => {
                        let turned = rolled.turned(batched, dim)?;
                        rolled.values.insert(value, turned);
                    }
                    None => rolled.keep(node),
                },
                None => rolled.keep(node),
            },
            _ => rolled.keep(node),
        }
    }
    Ok(Some(rolled.finish()))
}

impl<'a> Original<'a> {
    fn new(graph: &'a Graph) -> Self {
        let nodes = graph.nodes().iter();
        let producers = nodes.flat_map(|node| node.outputs.iter().map(move |value| (*value, node)));
        Self {
            graph,
            producers: producers.collect(),
        }
    }

    /// The call of `op` that computes a value.
    fn call(&self, value: ValueId, op: &str) -> Option<Call<'a>> {
        let node = self.producers.get(&value).filter(|node| node.op.name() == op)?;
        Some(Call::new(node.op, &node.args, self.graph.values()))
    }

    /// The sequence that a value is an element of, the dimension and the place.
    fn selected(&self, value: ValueId) -> Option<(ValueId, i64, i64)> {
        let call = self.call(value, "select.int")?;
        let sequence = call.value("self").ok()?;
        let (dim, at) = (call.int("dim").ok()?, call.int("index").ok()?);
        (matches!(dim, 0 | 1) && at >= 0).then_some((sequence, dim, at))
    }

    /// The step that a value is the hidden vector after.
    fn step(&self, result: ValueId) -> Option<Step> {
        let activations = [
            ("tanh.default", "rnn_tanh.input"),
            ("relu.default", "rnn_relu.input"),
        ];
        let known = |(op, cell)| Some((self.call(result, op)?.value("self").ok()?, cell));
        let (sum, op) = activations.into_iter().find_map(known)?;
        let Sum { parts, biases } = self.joined(sum).or_else(|| self.added(sum))?;
        let is_input = |(value, _): &&(ValueId, Columns)| self.selected(*value).is_some();
        let (input, of_input) = parts.iter().find(is_input)?;
        let (before, of_hidden) = parts.iter().find(|(value, _)| value != input)?;
        let (sequence, dim, at) = self.selected(*input)?;
        let is_matrix = |value: ValueId| self.graph.ty(value).rank() == 2;
        let has_all = is_matrix(result) && is_matrix(*before) && is_matrix(*input);
        let has_all = has_all && self.graph.ty(result).dtype == DType::F32;
        has_all.then(|| Step {
            cell: Cell {
                op,
                of_input: of_input.clone(),
                of_hidden: of_hidden.clone(),
                biases,
                sequence,
                dim,
            },
            at,
            before: *before,
            result,
        })
    }

    /// Two vectors side by side, multiplied with one matrix.
    fn joined(&self, sum: ValueId) -> Option<Sum> {
        let linear = self.call(sum, "linear.default")?;
        let matrix = linear.value("weight").ok()?;
        let cat = self.call(linear.value("input").ok()?, "cat.default")?;
        let dim = cat.int("dim").ok()?;
        let parts: Option<Vec<ValueId>> = cat.values("tensors").ok()?.iter().copied().collect();
        let mut end = Expr::constant(0);
        let columns = parts?.into_iter().map(|value| {
            let width = self.graph.ty(value).shape.last()?.clone();
            let start = end.clone();
            end = &end + &width;
            let ends = Some([start, end.clone()]);
            Some((value, Columns { matrix, ends }))
        });
        let parts: Vec<_> = columns.collect::<Option<_>>()?;
        let is_pair = parts.len() == 2 && matches!(dim, 1 | -1);
        let biases = linear.opt_value("bias").ok()?.into_iter().collect();
        is_pair.then_some(Sum { parts, biases })
    }

    /// The sum of two vectors, each multiplied with a matrix of its own.
    fn added(&self, sum: ValueId) -> Option<Sum> {
        let add = self.call(sum, "add.Tensor")?;
        (add.number("alpha").ok()? == 1.0).then_some(())?;
        let (mut parts, mut biases) = (Vec::new(), Vec::new());
        for operand in ["self", "other"] {
            let linear = self.call(add.value(operand).ok()?, "linear.default")?;
            let matrix = linear.value("weight").ok()?;
            parts.push((linear.value("input").ok()?, Columns { matrix, ends: None }));
            biases.extend(linear.opt_value("bias").ok()?);
        }
        Some(Sum { parts, biases })
    }

    /// The steps that follow each other.
    fn chains(&self) -> Vec<Vec<Step>> {
        let values = self.graph.nodes().iter().flat_map(|node| &node.outputs);
        let mut chains: Vec<Vec<Step>> = Vec::new();
        for step in values.filter_map(|value| self.step(*value)) {
            let follows =
                |last: &Step| last.result == step.before && last.cell == step.cell && last.at + 1 == step.at;
            match chains.iter_mut().find(|chain| chain.last().is_some_and(follows)) {
                Some(chain) => chain.push(step),
                None => chains.push(vec![step]),
            }
        }
        chains.retain(|chain| chain.len() >= FEWEST);
        chains
    }

    /// What `node` stacks, and along which dimension.
    fn stacked(&self, node: &Node) -> Option<(Vec<ValueId>, i64)> {
        let [value] = node.outputs[..] else { return None };
        let call = self.call(value, "stack.default")?;
        let list: Option<Vec<ValueId>> = call.values("tensors").ok()?.iter().copied().collect();
        let dim = call.int("dim").ok()?;
        matches!(dim, 0 | 1).then_some((list?, dim))
    }
}

impl Rolled {
    fn value(&self, value: ValueId) -> ValueId {
        self.values.get(&value).copied().unwrap_or(value)
    }

    fn keep(&mut self, node: &Node) {
        let args = node
            .args
            .iter()
            .map(|arg| arg.map_values(&|value| self.value(value)));
        let kept = Node {
            args: args.collect(),
            ..node.clone()
        };
        self.graph.nodes.push(kept);
    }

    /// Calls an operator and returns its first result.
    fn call<'b>(&mut self, op: &str, args: impl IntoIterator<Item = (&'b str, Arg)>) -> Result<ValueId> {
        let results = self.graph.call(op, args)?;
        let first = results.first().copied();
        first.ok_or_else(|| Error::unexpected(format!("`{op}` has no result")))
    }

    /// The same with its first dimension in the place `dim`, or the other way round.
    fn turned(&mut self, value: ValueId, dim: i64) -> Result<ValueId> {
        if dim == 0 {
            return Ok(value);
        }
        let dims = [("self", value.into()), ("dim0", 0.into()), ("dim1", dim.into())];
        self.call("transpose.int", dims)
    }

    fn slice(&mut self, value: ValueId, dim: i64, [start, end]: [Expr; 2]) -> Result<ValueId> {
        let args = [
            ("self", value.into()),
            ("dim", dim.into()),
            ("start", Arg::Int(start)),
            ("end", Arg::Int(end)),
        ];
        self.call("slice.Tensor", args)
    }

    fn columns(&mut self, columns: &Columns) -> Result<ValueId> {
        let matrix = self.value(columns.matrix);
        match &columns.ends {
            Some(ends) => self.slice(matrix, 1, ends.clone()),
            None => Ok(matrix),
        }
    }

    /// Computes the hidden vectors of a chain.
    fn sequence(&mut self, chain: &[Step]) -> Result<()> {
        let Some(Step { cell, at, before, .. }) = chain.first() else {
            return Ok(());
        };
        let sequence = self.value(cell.sequence);
        let sequence = self.turned(sequence, cell.dim)?;
        let end = *at + chain.len() as i64;
        let sequence = self.slice(sequence, 0, [(*at).into(), end.into()])?;
        let mut params = vec![self.columns(&cell.of_input)?, self.columns(&cell.of_hidden)?];
        params.extend(cell.biases.iter().map(|bias| self.value(*bias)));
        if let [bias] = cell.biases[..] {
            let size = self.graph.ty(bias).shape.clone();
            let args = [("size", Arg::Ints(size)), ("fill_value", 0.0.into())];
            params.insert(2, self.call("full.default", args)?);
        }
        let first = self.value(*before);
        let first = self.call("unsqueeze.default", [("self", first.into()), ("dim", 0.into())])?;
        let args = [
            ("input", sequence.into()),
            ("hx", first.into()),
            ("params", Arg::Values(params.into_iter().map(Some).collect())),
            ("has_biases", Arg::Bool(!cell.biases.is_empty())),
            ("num_layers", 1.into()),
            ("dropout", 0.0.into()),
            ("train", Arg::Bool(false)),
            ("bidirectional", Arg::Bool(false)),
            ("batch_first", Arg::Bool(false)),
        ];
        let hidden = self.call(cell.op, args)?;
        let places = chain.iter().zip(0..);
        self.elements
            .extend(places.map(|(step, t)| (step.result, (hidden, t))));
        Ok(())
    }

    /// Takes a hidden vector from its sequence.
    fn element(&mut self, value: ValueId) -> Result<()> {
        if let Some((sequence, at)) = self.elements.get(&value).copied() {
            let args = [("self", sequence.into()), ("dim", 0.into()), ("index", at.into())];
            let element = self.call("select.int", args)?;
            self.values.insert(value, element);
        }
        Ok(())
    }

    /// The graph without what nothing needs any more.
    fn finish(mut self) -> Graph {
        for output in &mut self.graph.outputs {
            output.value = self.values.get(&output.value).copied().unwrap_or(output.value);
        }
        let mut live: BTreeSet<ValueId> = self.graph.outputs.iter().map(|output| output.value).collect();
        let mut nodes = std::mem::take(&mut self.graph.nodes);
        nodes.reverse();
        nodes.retain(|node| {
            let is_live = node.outputs.iter().any(|value| live.contains(value));
            if is_live {
                live.extend(node.inputs());
            }
            is_live
        });
        nodes.reverse();
        self.graph.nodes = nodes;
        self.graph
    }
}
