//! Operation counts of the interpreter, which decide how much of a task is checked.
//!
//! Counts follow from a graph and its extents alone. One operation is a multiply-add of a matrix product in f64; everything
//! else weighs what it was measured to take the interpreter beside that. Counts saturate.

use std::collections::BTreeMap;

use super::Precision;
use super::rows::RowPlan;
use crate::error::Result;
use crate::expr::Bindings;
use crate::graph::ops::{Call, Einsum};
use crate::graph::{Arg, Family, Graph, Node, TensorType};

/// Operations of touching an element.
pub(crate) const ELEMENT: u64 = 12;

/// Operations of an elementary function of an element.
const FUNCTION: u64 = 40;

/// Operations of an element that is added up, compared or normalised with others, beside touching it.
const FOLDED: u64 = 50;

/// Operations of an element under a pooling window.
const WINDOWED: u64 = 32;

/// Operations of a multiply-add whose result is rounded, and is added in pairs.
const PAIRWISE: u64 = 7;

/// Columns of a product that are added in pairs together, whether they are needed or not.
const LANES: u64 = 32;

/// Operations of calling an operator, whatever its extents.
const CALL: u64 = 20_000;

/// Element-wise operators whose values are elementary functions.
const FUNCTIONS: [&str; 37] = [
    "exp",
    "exp2",
    "expm1",
    "log",
    "log1p",
    "log2",
    "log10",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "atan2",
    "sinh",
    "cosh",
    "tanh",
    "asinh",
    "acosh",
    "atanh",
    "sigmoid",
    "erf",
    "erfc",
    "gelu",
    "silu",
    "mish",
    "elu",
    "selu",
    "celu",
    "softplus",
    "log_sigmoid",
    "pow",
    "remainder",
    "fmod",
    "floor_divide",
    "glu",
    "seeded_randn",
];

/// Operators that compute an elementary function of every element that they read.
const FUNCTIONS_OF_OPERANDS: [&str; 10] = [
    "softmax",
    "_softmax",
    "log_softmax",
    "_log_softmax",
    "logsumexp",
    "cross_entropy_loss",
    "kl_div",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "norm",
];

/// The operations of evaluating a graph once, split as a [`RowPlan`] splits it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EvaluationCost {
    /// Operations that all rows have in common.
    pub shared: u64,
    /// Operations of each row.
    pub row: u64,
    /// The number of rows; 1 for a graph that does not split.
    pub rows: usize,
}

impl EvaluationCost {
    /// Counts the operations of `graph` under `dims`; `plan` was made for both.
    ///
    /// # Errors
    /// If a symbol of the graph has no value in `dims`.
    pub fn new(graph: &Graph, plan: Option<&RowPlan>, dims: &Bindings, precision: Precision) -> Result<Self> {
        let rows = plan.map_or(1, RowPlan::rows);
        let (mut shared, mut split) = (0u64, 0u64);
        for node in graph.nodes() {
            let operations = operations(graph, node, dims, precision)?;
            let is_split = plan.is_none_or(|plan| node.outputs.iter().any(|v| plan.splits(*v)));
            let sum = if is_split { &mut split } else { &mut shared };
            *sum = sum.saturating_add(operations);
        }
        Ok(Self {
            shared,
            row: split.div_ceil(rows.max(1) as u64),
            rows,
        })
    }

    /// The operations of evaluating so many rows.
    pub fn of_rows(&self, rows: usize) -> u64 {
        self.row.saturating_mul(rows as u64).saturating_add(self.shared)
    }

    /// The operations of evaluating everything.
    pub fn whole(&self) -> u64 {
        self.of_rows(self.rows)
    }
}

/// The operations of one node.
fn operations(graph: &Graph, node: &Node, dims: &Bindings, precision: Precision) -> Result<u64> {
    let call = Call::new(node.op, &node.args, graph.values());
    let count = Count { call: &call, dims };
    let in_pairs = precision == Precision::F32Pairwise;
    let product = |terms: u64| terms.saturating_mul(if in_pairs { PAIRWISE } else { 1 });
    let mut read = 0u64;
    for value in node.inputs() {
        read = read.saturating_add(count.elements(graph.ty(value))?);
    }
    let mut written = 0u64;
    for value in &node.outputs {
        written = written.saturating_add(count.elements(graph.ty(*value))?);
    }
    let result = node.outputs.first().map(|v| graph.ty(*v));
    let name = node.op.base_name();
    let touched = read.saturating_add(written).saturating_mul(ELEMENT);
    let is_called = |names: &[&str]| names.contains(&name);
    let work = match node.op.family() {
        Family::Matmul if name == "outer" => 0,
        Family::Matmul if name == "einsum" => product(count.einsum()?),
        Family::Matmul => {
            let columns = match result {
                Some(result) if !is_called(&["mv", "dot"]) => count.last(result)?.max(1),
                _ => 1,
            };
            let padded = if in_pairs {
                columns.next_multiple_of(LANES)
            } else {
                columns
            };
            let terms = written.saturating_mul(count.depth(name)?);
            product(terms / columns).saturating_mul(padded)
        }
        Family::Conv => product(count.convolution(result)?),
        Family::Attention => {
            let (terms, scores) = count.attention()?;
            product(terms).saturating_add(scores.saturating_mul(FUNCTION + FOLDED))
        }
        Family::Rnn => product(count.recurrence()?),
        Family::Pool => written
            .saturating_mul(count.window()?)
            .max(read)
            .saturating_mul(WINDOWED),
        Family::View => return Ok(CALL),
        Family::Reduce | Family::Norm | Family::Scan | Family::Loss if is_called(&FUNCTIONS_OF_OPERANDS) => {
            read.saturating_mul(FUNCTION + FOLDED)
        }
        Family::Reduce | Family::Norm | Family::Scan | Family::Loss => read.saturating_mul(FOLDED),
        _ if is_called(&FUNCTIONS) => written.saturating_mul(FUNCTION),
        _ => 0,
    };
    let work = work.saturating_add(touched);
    Ok(work.saturating_add(CALL))
}

/// Counts parts of a call.
struct Count<'a> {
    call: &'a Call<'a>,
    dims: &'a Bindings,
}

impl Count<'_> {
    fn shape(&self, ty: &TensorType) -> Result<Vec<u64>> {
        let shape = ty.concrete_shape(self.dims)?;
        Ok(shape.into_iter().map(|n| n as u64).collect())
    }

    fn elements(&self, ty: &TensorType) -> Result<u64> {
        Ok(product(&self.shape(ty)?))
    }

    fn last(&self, ty: &TensorType) -> Result<u64> {
        Ok(self.shape(ty)?.last().copied().unwrap_or(1))
    }

    /// Terms of each sum of a matrix product.
    fn depth(&self, name: &str) -> Result<u64> {
        self.last(self.call.tensor(match name {
            "addmm" => "mat1",
            "baddbmm" => "batch1",
            "linear" => "input",
            _ => "self",
        })?)
    }

    /// Multiply-adds of a product whose sums run over every label that the result lacks.
    fn einsum(&self) -> Result<u64> {
        let operands = self.call.tensors("tensors")?;
        let ranks: Vec<usize> = operands.iter().map(|ty| ty.rank()).collect();
        let einsum = Einsum::parse(self.call.str("equation")?, &ranks)?;
        let mut extents = BTreeMap::new();
        for (labels, ty) in einsum.operands.iter().zip(operands) {
            for (label, extent) in labels.iter().zip(self.shape(ty)?) {
                let known = extents.entry(*label).or_insert(extent);
                *known = extent.max(*known);
            }
        }
        Ok(product(&extents.into_values().collect::<Vec<_>>()))
    }

    /// Multiply-adds of a convolution: every output position, or input position of a transposed one, meets every tap.
    fn convolution(&self, result: Option<&TensorType>) -> Result<u64> {
        let weight = self.shape(self.call.tensor("weight")?)?;
        let is_transposed = self.call.op().name().starts_with("conv_transpose")
            || matches!(self.call.opt_arg("transposed"), Some(Arg::Bool(true)));
        let positions = match result {
            Some(result) if !is_transposed => self.elements(result)?,
            _ => self.elements(self.call.tensor("input")?)?,
        };
        Ok(positions.saturating_mul(product(weight.get(1..).unwrap_or_default())))
    }

    /// Multiply-adds of both products of attention, and the scores between them.
    fn attention(&self) -> Result<(u64, u64)> {
        let query = self.shape(self.call.tensor("query")?)?;
        let key = self.shape(self.call.tensor("key")?)?;
        let value = self.shape(self.call.tensor("value")?)?;
        let depth = query.last().copied().unwrap_or(1);
        let rows = product(&query).checked_div(depth).unwrap_or(0);
        let columns = key.iter().rev().nth(1).copied().unwrap_or(1);
        let scores = rows.saturating_mul(columns);
        let each = depth.saturating_add(value.last().copied().unwrap_or(1));
        Ok((scores.saturating_mul(each), scores))
    }

    /// Every weight of a recurrent network meets every vector of the sequence.
    fn recurrence(&self) -> Result<u64> {
        let input = self.shape(self.call.tensor("input")?)?;
        let width = input.last().copied().unwrap_or(1);
        let vectors = product(&input).checked_div(width).unwrap_or(0);
        let mut weights = 0u64;
        for ty in self.call.tensors("params")? {
            let each = if ty.rank() > 1 { 1 } else { FUNCTION };
            weights = weights.saturating_add(self.elements(ty)?.saturating_mul(each));
        }
        Ok(vectors.saturating_mul(weights))
    }

    /// Elements under a window; 1 for windows that adapt, which read every element about once.
    fn window(&self) -> Result<u64> {
        if self.call.opt_arg("kernel_size").is_none() {
            return Ok(1);
        }
        let rank = match self.call.op().name() {
            name if name.contains("1d") => 1,
            name if name.contains("3d") => 3,
            _ => 2,
        };
        let window = self.call.per_dimension("kernel_size", rank, 1)?;
        Ok(product(
            &window.iter().map(|n| n.unsigned_abs()).collect::<Vec<_>>(),
        ))
    }
}

fn product(extents: &[u64]) -> u64 {
    extents.iter().fold(1, |all, extent| all.saturating_mul(*extent))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;

    fn cost(graph: &Graph, dims: &Bindings) -> EvaluationCost {
        let plan = RowPlan::new(graph, dims).unwrap();
        EvaluationCost::new(graph, plan.as_ref(), dims, Precision::F64).unwrap()
    }

    #[test]
    fn products_are_counted_by_their_multiply_adds() {
        let mut graph = Graph::new("g");
        let x = graph.input("x", DType::F32, ["N".into(), crate::Expr::constant(512)]);
        let w = graph.weight("w", DType::F32, [256, 512]);
        let y = graph.linear(x, w, None).unwrap();
        graph.output(y);
        let of = |rows: i64| cost(&graph, &[("N".into(), rows)].into());
        let (small, large) = (of(1000), of(4000));
        assert_eq!((small.rows, large.rows), (1000, 4000));
        let in_pairs =
            EvaluationCost::new(&graph, None, &[("N".into(), 1000)].into(), Precision::F32Pairwise);
        assert!(in_pairs.unwrap().whole() > 5 * small.whole());
        let products = 1000 * 512 * 256;
        assert!((products..products * 2).contains(&small.whole()), "{small:?}");
        assert!((3 * products..8 * products).contains(&large.whole()), "{large:?}");
    }

    #[test]
    fn what_all_rows_have_in_common_is_counted_once() {
        let mut graph = Graph::new("g");
        let x = graph.input("x", DType::F32, [64, 32]);
        let w = graph.weight("w", DType::F32, [32, 32]);
        let w = graph.call("aten.exp.default", [("self", w.into())]).unwrap()[0];
        let y = graph.linear(x, w, None).unwrap();
        graph.output(y);
        let cost = cost(&graph, &Bindings::new());
        assert_eq!(cost.rows, 64);
        assert!(cost.shared >= 32 * 32 * FUNCTION);
        assert_eq!(cost.of_rows(3) - cost.of_rows(2), cost.row);
        assert!(cost.row >= 32 * 32);
    }

    #[test]
    fn counts_beyond_every_machine_saturate() {
        let mut graph = Graph::new("g");
        let extents = [1 << 20, 1 << 20];
        let x = graph.input("x", DType::F32, extents);
        let w = graph.weight("w", DType::F32, extents);
        let y = graph.linear(x, w, None).unwrap();
        let y = graph.linear(y, w, None).unwrap();
        graph.output(y);
        assert!(cost(&graph, &Bindings::new()).whole() >= 1 << 61);
    }
}
