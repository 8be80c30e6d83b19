//! Operators to primitives, one file for each family.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::prim::{MapOp, Prim, PrimId, Prims};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::graph::ops::Call;
use crate::graph::{Family, Graph, Node, TensorType, ValueId};
use crate::reference::jumps;

mod activation;
mod adaptive;
mod arithmetic;
mod attention;
mod chance;
mod conv;
mod create;
mod elementary;
mod index;
mod join;
mod loss;
mod matmul;
mod norm;
mod places;
mod pointwise;
mod pool;
mod rearrange;
mod recur;
mod reduce;
mod scan;
mod slide;
mod view;

/// A graph in primitives.
#[derive(Debug, Clone)]
pub(super) struct Decomposed {
    pub(super) prims: Prims,
    /// The primitive of every graph output, in order.
    pub(super) outputs: Vec<PrimId>,
    /// The primitive of every value of the graph.
    pub(super) values: HashMap<ValueId, PrimId>,
}

/// One operator call being decomposed.
pub(super) struct Step<'a> {
    pub(super) prims: &'a mut Prims,
    graph: &'a Graph,
    /// The values of the graph that follow from it alone.
    fixed: &'a HashSet<ValueId>,
    values: &'a HashMap<ValueId, PrimId>,
    pub(super) call: Call<'a>,
    /// The types of the call's results.
    pub(super) results: Vec<TensorType>,
}

/// Computes the only result of a call.
type Rule = fn(&mut Step<'_>) -> Result<PrimId>;

/// Decomposes the call of an operator; `None` if there is no rule for it, or none for its arguments.
fn operator(step: &mut Step<'_>) -> Result<Option<Vec<PrimId>>> {
    let operator = step.call.op();
    let decompose = match operator.family() {
        Family::Attention => attention::decompose,
        Family::Rnn => recur::decompose,
        Family::Conv => conv::decompose,
        Family::Matmul => matmul::decompose,
        Family::Scan => scan::decompose,
        Family::Pool => pool::decompose,
        Family::Norm => norm::decompose,
        Family::Loss => loss::decompose,
        Family::Reduce => reduce::decompose,
        Family::Index => index::decompose,
        Family::Join => join::decompose,
        Family::Rearrange => rearrange::decompose,
        Family::View => view::decompose,
        Family::Dropout => chance::decompose,
        Family::Create => create::decompose,
        Family::Pointwise => pointwise::decompose,
    };
    decompose(step, operator.base_name())
}

impl Step<'_> {
    /// The primitive of a value.
    fn value(&self, value: ValueId) -> Result<PrimId> {
        let found = self.values.get(&value).copied();
        found.ok_or_else(|| Error::unexpected("a node reads a value that no earlier node defines"))
    }

    /// The primitive of a tensor argument.
    pub(super) fn tensor(&self, name: &str) -> Result<PrimId> {
        self.value(self.call.value(name)?)
    }

    /// The primitive of an optional tensor argument.
    pub(super) fn opt_tensor(&self, name: &str) -> Result<Option<PrimId>> {
        self.call.opt_value(name)?.map(|v| self.value(v)).transpose()
    }

    /// The primitives of a tensor-list argument.
    pub(super) fn tensors(&self, name: &str) -> Result<Vec<PrimId>> {
        let values = self.call.values(name)?.iter().flatten();
        values.map(|v| self.value(*v)).collect()
    }

    /// A literal from a number argument.
    pub(super) fn number(&mut self, name: &str) -> Result<PrimId> {
        let value = self.call.number(name)?;
        Ok(self.prims.number(value))
    }

    /// The position of the output that this call makes by replacing slices of a state, if nothing else reads that state: then
    /// the output can stand in its place.
    pub(super) fn in_place(&self) -> Result<Option<usize>> {
        let state = self.call.value("self")?;
        let outputs = self.graph.outputs();
        let Some(position) = outputs.iter().position(|o| o.updates == Some(state)) else {
            return Ok(None);
        };
        let reads = self.graph.nodes().iter().flat_map(|node| node.inputs());
        let is_alone = reads.filter(|value| *value == state).count() == 1
            && outputs.iter().all(|output| output.value != state);
        let makes_it = outputs.get(position).and_then(|o| self.graph.replacement(o));
        Ok((is_alone && makes_it.is_some()).then_some(position))
    }

    /// The type of result `i`.
    pub(super) fn result(&self, i: usize) -> Result<&TensorType> {
        self.results
            .get(i)
            .ok_or_else(|| Error::unexpected("an operator has fewer results than its schema"))
    }

    /// The element type in which the call's first result is computed.
    pub(super) fn dtype(&self) -> Result<DType> {
        Ok(self.result(0)?.dtype)
    }

    /// A dimension argument, counted from the front.
    pub(super) fn dim(&self, name: &str, rank: usize) -> Result<usize> {
        normalise(self.call.int(name)?, rank)
    }
}

/// Counts a possibly negative dimension from the front. A tensor of rank 0 counts as one of a single element.
pub(super) fn normalise(dim: i64, rank: usize) -> Result<usize> {
    let from_front = if dim < 0 { dim + rank.max(1) as i64 } else { dim };
    usize::try_from(from_front)
        .ok()
        .filter(|d| *d < rank.max(1))
        .ok_or_else(|| Error::invalid(format!("dimension {dim} of a tensor of rank {rank}")))
}

/// `values` with the half operands of `node` rounded to their types. Kernels keep such values in f32, which tells apart
/// what is equal, finite or whole in the type itself.
fn rounded_operands(
    prims: &mut Prims,
    node: &Node,
    values: &HashMap<ValueId, PrimId>,
) -> HashMap<ValueId, PrimId> {
    let mut operands = HashMap::new();
    for value in node.inputs() {
        let Some(id) = values.get(&value).copied() else {
            continue;
        };
        let dtype = prims.dtype(id);
        let id = if dtype.is_half() && !is_rounded(prims, id) {
            let wide = prims.cast(id, DType::F32);
            prims.cast(wide, dtype)
        } else {
            id
        };
        operands.insert(value, id);
    }
    operands
}

/// Whether a value of a half type comes from memory or a conversion, so that it is one of its type already.
fn is_rounded(prims: &Prims, id: PrimId) -> bool {
    match &prims.node(id).prim {
        Prim::Input(_) | Prim::Number(_) | Prim::Map(MapOp::Cast, _) => true,
        Prim::Permute(x, _) | Prim::Reshape(x) | Prim::Expand(x) | Prim::Window(_, x) => {
            is_rounded(prims, *x)
        }
        _ => false,
    }
}

/// Decomposes a whole graph. Operators without a rule are reported all at once.
pub(super) fn decompose(graph: &Graph) -> Result<Decomposed> {
    let mut prims = Prims::default();
    let mut values: HashMap<ValueId, PrimId> = HashMap::new();
    for value in graph.given() {
        let ty = graph.ty(value);
        values.insert(value, prims.push(Prim::Input(value), ty.dtype, ty.shape.clone()));
    }
    let fixed = places::fixed(graph);
    let mut missing: BTreeMap<String, usize> = BTreeMap::new();
    for node in graph.nodes() {
        if !node.inputs().all(|v| values.contains_key(&v)) {
            // A consequence of an operator that is reported already.
            continue;
        }
        prims.origin = node.op.base_name();
        let rounded = jumps(graph, node).then(|| rounded_operands(&mut prims, node, &values));
        let mut step = Step {
            graph,
            fixed: &fixed,
            call: Call::new(node.op, &node.args, graph.values()),
            results: node.outputs.iter().map(|v| graph.ty(*v).clone()).collect(),
            values: rounded.as_ref().unwrap_or(&values),
            prims: &mut prims,
        };
        let Some(results) = operator(&mut step)? else {
            *missing.entry(node.op.qualified_name()).or_default() += 1;
            continue;
        };
        for (value, result) in node.outputs.iter().zip(results) {
            let dtype = graph.ty(*value).dtype;
            let result = match prims.node(result).prim {
                // What a literal is to its readers, a value has to be to its caller.
                Prim::Number(number) if prims.dtype(result) != dtype => prims.full(number, dtype, Vec::new()),
                _ => prims.cast(result, dtype),
            };
            values.insert(*value, result);
        }
    }
    if !missing.is_empty() {
        let list: Vec<_> = missing.iter().map(|(op, n)| format!("{op} ({n})")).collect();
        return Err(Error::unsupported(format!(
            "no design rule yet for {}",
            list.join(", ")
        )));
    }
    let outputs = graph
        .outputs()
        .iter()
        .map(|o| values.get(&o.value).copied())
        .collect::<Option<Vec<_>>>();
    let outputs = outputs.ok_or_else(|| Error::unexpected("an output of the graph is never defined"))?;
    Ok(Decomposed {
        prims,
        outputs,
        values,
    })
}
