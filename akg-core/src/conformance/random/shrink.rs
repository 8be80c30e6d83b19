//! Smaller cases that fail like a large one.

use crate::error::Result;
use crate::expr::Expr;
use crate::graph::{Graph, ValueId};
use crate::tensor::Tensor;

use super::Case;

/// Cases tried at most.
const MOST: usize = 400;

/// A part of `case` for which `fails` still holds: fewer outputs and nodes, and smaller extents.
pub fn shrink(case: &Case, fails: &dyn Fn(&Case) -> bool) -> Case {
    let mut smallest = case.clone();
    let mut tried = 0;
    let mut is_smaller = true;
    while is_smaller && tried < MOST {
        is_smaller = false;
        for next in smaller(&smallest) {
            tried += 1;
            if next.is_steady() && fails(&next) {
                smallest = next;
                is_smaller = true;
                break;
            }
        }
    }
    smallest
}

/// The next smaller cases, the smallest first.
fn smaller(case: &Case) -> Vec<Case> {
    let all = [
        single_outputs(case),
        without_outputs(case),
        cut(case),
        halved(case),
    ];
    all.into_iter().filter_map(Result::ok).flatten().collect()
}

fn outputs(graph: &Graph) -> Vec<ValueId> {
    graph.outputs().iter().map(|o| o.value).collect()
}

/// The part of the case that computes `outputs` from inputs that are used, and `from` where they are given.
fn part(case: &Case, from: &[(ValueId, Tensor)], outputs: &[ValueId]) -> Result<Case> {
    let graph = &case.task.graph;
    let given = graph
        .inputs()
        .iter()
        .map(|i| i.value)
        .zip(case.inputs.iter().cloned());
    let all: Vec<(ValueId, Tensor)> = given.chain(from.iter().cloned()).collect();
    let ids: Vec<ValueId> = all.iter().map(|(v, _)| *v).collect();
    let whole = graph.subgraph(&ids, outputs)?;
    let reads = |name: &str| {
        let value = whole.find(name);
        let mut read = whole.nodes().iter().flat_map(|n| n.inputs().collect::<Vec<_>>());
        value.is_some_and(|v| read.any(|r| r == v) || whole.outputs().iter().any(|o| o.value == v))
    };
    let used: Vec<(ValueId, Tensor)> = all
        .into_iter()
        .filter(|(v, _)| reads(graph.value_name(*v)))
        .collect();
    let ids: Vec<ValueId> = used.iter().map(|(v, _)| *v).collect();
    let mut next = case.clone();
    next.task.graph = graph.subgraph(&ids, outputs)?;
    next.inputs = used.into_iter().map(|(_, tensor)| tensor).collect();
    Ok(next)
}

fn single_outputs(case: &Case) -> Result<Vec<Case>> {
    let outputs = outputs(&case.task.graph);
    if outputs.len() < 2 {
        return Ok(Vec::new());
    }
    outputs.iter().map(|output| part(case, &[], &[*output])).collect()
}

fn without_outputs(case: &Case) -> Result<Vec<Case>> {
    let outputs = outputs(&case.task.graph);
    if outputs.len() < 3 {
        return Ok(Vec::new());
    }
    let without = |at: usize| {
        let mut rest = outputs.clone();
        rest.remove(at);
        part(case, &[], &rest)
    };
    (0..outputs.len()).map(without).collect()
}

/// With what a node computes given as an input, or returned instead of what is computed from it.
fn cut(case: &Case) -> Result<Vec<Case>> {
    let graph = &case.task.graph;
    let (values, outputs) = (case.values()?, outputs(graph));
    let mut cases = Vec::new();
    for value in graph.nodes().iter().rev().flat_map(|n| n.outputs.clone()) {
        if let Some(Some(tensor)) = values.get(value.index())
            && !outputs.contains(&value)
        {
            cases.extend(part(case, &[(value, tensor.clone())], &outputs));
            if outputs.len() == 1 {
                cases.extend(part(case, &[], &[value]));
            }
        }
    }
    Ok(cases)
}

/// With one of the inputs' extents halved wherever it occurs.
fn halved(case: &Case) -> Result<Vec<Case>> {
    let graph = &case.task.graph;
    let mut extents: Vec<i64> = Vec::new();
    for input in graph.inputs() {
        extents.extend(graph.ty(input.value).shape.iter().filter_map(Expr::as_const));
    }
    extents.sort_unstable();
    extents.dedup();
    let mut cases = Vec::new();
    for extent in extents.into_iter().rev().filter(|e| *e > 1) {
        let to = extent.div_euclid(2);
        let shape = |tensor: &Tensor| -> Vec<i64> {
            tensor
                .shape()
                .iter()
                .map(|d| if *d as i64 == extent { to } else { *d as i64 })
                .collect()
        };
        let shapes: Vec<Vec<Expr>> = case
            .inputs
            .iter()
            .map(|t| shape(t).into_iter().map(Expr::constant).collect())
            .collect();
        let Ok(smaller) = graph.with_input_shapes(&shapes) else {
            continue;
        };
        let inputs: Result<Vec<Tensor>> = case.inputs.iter().map(|t| leading(t, &shape(t))).collect();
        let mut next = case.clone();
        (next.task.graph, next.inputs) = (smaller, inputs?);
        cases.push(next);
    }
    Ok(cases)
}

/// The first elements of a tensor, in another shape.
fn leading(tensor: &Tensor, shape: &[i64]) -> Result<Tensor> {
    let shape: Vec<usize> = shape.iter().map(|d| *d as usize).collect();
    let bytes = shape.iter().product::<usize>() * tensor.dtype().size();
    Tensor::from_bytes(
        tensor.dtype(),
        shape,
        tensor.bytes().get(..bytes).unwrap_or_default(),
    )
}
