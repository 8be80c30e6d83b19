//! The reference interpreter against PyTorch: every operator, over generated shapes, layouts, types and values.
//!
//! PyTorch evaluates in double precision, so the two agree up to the order of sums. A second evaluation in the graph's
//! own types checks what inference says about them. Calls that either side rejects are skipped, but at most half of an
//! operator's.

#![allow(clippy::unwrap_used)]

#[path = "../common/mod.rs"]
mod common;
mod coverage;
mod draw;
mod halves;
mod layers;
mod pointwise;
mod shapes;
mod uncompared;

use akg_core::error::{Error, Result};
use akg_core::graph::Operator;
use akg_core::reference::{self, Options, Outcome};
use akg_core::{DType, Graph, Tensor};
use akg_python::{Job, Precision, Python};
use draw::Draw;

/// Calls of each operator.
const CASES: u64 = 40;

/// Draws a call of an operator; `false` if it draws none of that operator.
type Family = fn(&'static Operator, &mut Draw) -> bool;

/// The families whose calls are compared.
const FAMILIES: [Family; 3] = [pointwise::draw, shapes::draw, layers::draw];

/// One call: its graph in JSON form, its inputs, and what both sides made of it.
struct Case {
    json: String,
    graph: Graph,
    inputs: Vec<Tensor>,
}

#[test]
fn pointwise_operators_agree() {
    compare(pointwise::draw, 1e-14);
}

#[test]
fn operators_on_shapes_agree() {
    compare(shapes::draw, 1e-12);
}

#[test]
fn layers_agree() {
    compare(layers::draw, 1e-11);
}

/// Compares every operator of a family; `floor` is the absolute error that rounding explains for values of order 1.
fn compare(family: Family, floor: f64) {
    let Some(mut python) = common::python() else {
        return;
    };
    let mut failures = Vec::new();
    for op in Operator::all() {
        if !family(op, &mut Draw::new(op.name(), 0)) {
            continue;
        }
        let accepted: Vec<_> = (0..CASES)
            .filter_map(|case| draw_case(op, family, case))
            .collect();
        if let Err(failure) = check_operator(op, &accepted, floor, &mut python) {
            failures.push(failure);
        }
    }
    assert!(
        failures.is_empty(),
        "{} operators disagree:\n{}",
        failures.len(),
        failures.join("\n")
    );
}

/// A call of `op`, unless type inference rejects it.
fn draw_case(op: &'static Operator, family: Family, case: u64) -> Option<Case> {
    let mut d = Draw::new(op.name(), case);
    family(op, &mut d);
    let json = d.json(op.name());
    let graph = Graph::from_json(&json).ok()?;
    Some(Case {
        json,
        graph,
        inputs: d.tensors,
    })
}

/// Compares all calls of one operator; the error describes the first that differs.
fn check_operator(op: &Operator, cases: &[Case], floor: f64, python: &mut Python) -> Result<(), String> {
    let jobs: Vec<_> = cases
        .iter()
        .map(|c| Job {
            graph: &c.graph,
            inputs: &c.inputs,
        })
        .collect();
    let mut evaluate = |precision| python.evaluate(&jobs, precision).map_err(|e| e.to_string());
    let (exact, plain) = (evaluate(Precision::Float64)?, evaluate(Precision::AsIs)?);
    let mut compared = 0;
    let mut rejected = None;
    for ((case, exact), plain) in cases.iter().zip(exact).zip(plain) {
        let interpret = || reference::evaluate(&case.graph, &case.inputs, &Options::default());
        let ours = std::panic::catch_unwind(std::panic::AssertUnwindSafe(interpret))
            .map_err(|_| format!("{}: the interpreter panicked\n  {}", op.name(), case.json))?;
        let converts = [
            "to.dtype",
            "to.dtype_layout",
            "_to_copy.default",
            "type_as.default",
            "copy.default",
        ];
        // A conversion to a narrow type rounds, which double precision throughout would hide.
        let theirs = if converts.contains(&op.name()) {
            plain
        } else {
            check_types(case, plain).and(exact)
        };
        match (ours, theirs) {
            (Ok(ours), Ok(theirs)) => {
                compared += 1;
                difference(&ours, &theirs, floor).map_or(Ok(()), |why| {
                    Err(format!(
                        "{}: {why}\n  {}\n  inputs {:?}",
                        op.name(),
                        case.json,
                        values(&case.inputs)
                    ))
                })?;
            }
            (Err(e), Ok(_)) => rejected = Some(format!("ours: {e}\n  {}", case.json)),
            (Ok(_), Err(e)) if e.message().starts_with("inferred") => {
                return Err(format!("{}: {e}\n  {}", op.name(), case.json));
            }
            (_, Err(e)) => rejected = Some(format!("PyTorch's: {e}\n  {}", case.json)),
        }
    }
    if compared * 2 < CASES as usize {
        let last = rejected.unwrap_or_else(|| "type inference".into());
        return Err(format!(
            "{}: only {compared} of {CASES} calls were compared; last rejection: {last}",
            op.name()
        ));
    }
    Ok(())
}

/// Whether PyTorch's results have the inferred types; an error of PyTorch is passed on only if double precision has it.
fn check_types(case: &Case, plain: Result<Vec<Tensor>>) -> Result<()> {
    let Ok(plain) = plain else { return Ok(()) };
    for (output, tensor) in case.graph.outputs().iter().zip(&plain) {
        let ty = case.graph.ty(output.value);
        let shape = ty.concrete_shape(&Default::default())?;
        if (ty.dtype, shape.as_slice()) != (tensor.dtype(), tensor.shape()) {
            return Err(Error::unexpected(format!(
                "inferred {ty}, but PyTorch returns {tensor:?}"
            )));
        }
    }
    Ok(())
}

/// The first difference between the two sides' results.
fn difference(ours: &[Outcome], theirs: &[Tensor], floor: f64) -> Option<String> {
    for (at, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
        if ours.shape != theirs.shape() {
            return Some(format!(
                "result {at} has shape {:?}, not {:?}",
                ours.shape,
                theirs.shape()
            ));
        }
        let floating = ours.dtype.is_float();
        if floating != theirs.dtype().is_float() || (!floating && ours.dtype != theirs.dtype()) {
            return Some(format!("result {at} is {}, not {}", ours.dtype, theirs.dtype()));
        }
        let (a, b) = (ours.to_f64(), theirs.to_f64().ok()?);
        let scale = b
            .iter()
            .filter(|v| v.is_finite())
            .fold(0.0f64, |m, v| m.max(v.abs()))
            .min(1e6);
        for (index, (x, y)) in a.iter().zip(&b).enumerate() {
            let tolerance = if floating {
                1e-11 * scale + 1e-10 * y.abs() + floor
            } else {
                0.0
            };
            let same = x == y || (x.is_nan() && y.is_nan()) || (x - y).abs() <= tolerance;
            if !same {
                return Some(format!(
                    "result {at}, element {index}: {x:e}, but PyTorch says {y:e}"
                ));
            }
        }
    }
    None
}

fn values(inputs: &[Tensor]) -> Vec<(DType, Vec<usize>, Vec<f64>)> {
    let values = |t: &Tensor| (t.dtype(), t.shape().to_vec(), t.to_f64().unwrap_or_default());
    inputs.iter().map(values).collect()
}
