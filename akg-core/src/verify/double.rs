//! Outputs that are computed in f64.

use crate::dtype::DType;
use crate::error::Result;
use crate::expr::Bindings;
use crate::graph::{Graph, ValueId};

/// Terms that a result counts for at least: the f64 reference rounds, too.
const FEWEST: f64 = 4.0;

/// For each output, the number of terms of its longest sum if all that it is computed from is computed in f64; `None` for
/// other outputs, which have the class of the contract.
///
/// The inputs and constants of an f64 computation may have any type: their conversion is exact.
pub(super) fn double_terms(graph: &Graph, dims: &Bindings) -> Result<Vec<Option<f64>>> {
    let outputs = graph.outputs();
    let is_double = |value: ValueId| graph.ty(value).dtype == DType::F64;
    if !outputs.iter().any(|output| is_double(output.value)) {
        return Ok(vec![None; outputs.len()]);
    }
    let mut terms: Vec<Option<f64>> = vec![Some(FEWEST); graph.values().len()];
    let of = |terms: &[Option<f64>], value: ValueId| terms.get(value.index()).copied().flatten();
    for node in graph.nodes() {
        let mut most = Some(longest_sum(graph, node.inputs(), &node.outputs, dims)?);
        for value in node.inputs() {
            most = most.and_then(|most| Some(f64::max(most, of(&terms, value)?)));
        }
        for value in &node.outputs {
            let dtype = graph.ty(*value).dtype;
            let exact = !dtype.is_float() || dtype == DType::F64;
            if let Some(slot) = terms.get_mut(value.index()) {
                *slot = most.filter(|_| exact);
            }
        }
    }
    let output = |value: ValueId| of(&terms, value).filter(|_| is_double(value));
    Ok(outputs.iter().map(|o| output(o.value)).collect())
}

/// The number of terms that an operator adds up for a result, at most: the longest axis of an operand, the operands' elements for
/// each result, or those of a product.
fn longest_sum(
    graph: &Graph,
    inputs: impl Iterator<Item = ValueId>,
    results: &[ValueId],
    dims: &Bindings,
) -> Result<f64> {
    let elements = |shape: &[usize]| shape.iter().map(|n| *n as f64).product::<f64>().max(1.0);
    let mut fewest = f64::INFINITY;
    for value in results {
        fewest = fewest.min(elements(&graph.ty(*value).concrete_shape(dims)?));
    }
    let (mut most, mut product) = (FEWEST, 1.0);
    for value in inputs.filter(|value| graph.ty(*value).dtype.is_float()) {
        let shape = graph.ty(value).concrete_shape(dims)?;
        let longest = shape.iter().max().map_or(1.0, |n| *n as f64);
        most = most.max(longest).max(elements(&shape) / fewest);
        product *= elements(&shape);
    }
    Ok(most.max((product / fewest).sqrt()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(graph: &Graph) -> Option<f64> {
        double_terms(graph, &Bindings::new()).unwrap()[0]
    }

    #[test]
    fn sums_in_double_precision_are_counted_and_others_are_not() {
        let product = |dtype| {
            let mut graph = Graph::new("g");
            let x = graph.input("x", dtype, [8, 300]);
            let w = graph.input("w", dtype, [300, 16]);
            let y = graph.matmul(x, w).unwrap();
            (graph, y)
        };
        let (mut graph, y) = product(DType::F64);
        graph.output(y);
        assert_eq!(terms(&graph), Some(300.0));
        let (mut graph, y) = product(DType::F32);
        let wide = graph.to_dtype(y, DType::F64).unwrap();
        graph.output(wide);
        assert_eq!(terms(&graph), None);
        let mut graph = Graph::new("g");
        let x = graph.input("x", DType::F32, [8, 300]);
        let wide = graph.to_dtype(x, DType::F64).unwrap();
        let y = graph.sum(wide, &[1], false).unwrap();
        graph.output(y);
        assert_eq!(terms(&graph), Some(300.0));
    }
}
