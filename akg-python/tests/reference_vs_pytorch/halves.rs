//! Half types: the interpreter with rounded results against PyTorch's operators on `f16` and `bf16` tensors.

use akg_core::error::Error;
use akg_core::graph::Operator;
use akg_core::reference::{self, Options, Outcome, Semantics};
use akg_core::{DType, Graph, Tensor};
use akg_python::{Job, Precision};
use half::{bf16, f16};
use serde_json::Value as Json;

use crate::{CASES, Case, FAMILIES, common, draw_case};

/// Operators that PyTorch composes of several, each of which rounds, or that round inside, and the units that their results
/// are off by then.
const COMPOSED: [(&str, f64); 0] = [];

/// Roundings that a result of one operator is off by at most.
const UNITS: f64 = 1.01;

#[test]
fn rounded_results_are_those_of_eager_pytorch() {
    let Some(mut python) = common::python() else {
        return;
    };
    let mut failures = Vec::new();
    for op in Operator::all() {
        let Some(family) = FAMILIES
            .into_iter()
            .find(|family| draw_case(op, *family, 0).is_some())
        else {
            continue;
        };
        for dtype in [DType::F16, DType::BF16] {
            let drawn = (0..CASES).filter_map(|case| draw_case(op, family, case));
            let cases: Vec<Case> = drawn.filter_map(|case| in_half(&case, dtype)).collect();
            let job = |case: &'_ Case| -> (Graph, Vec<Tensor>) { (case.graph.clone(), case.inputs.clone()) };
            let owned: Vec<_> = cases.iter().map(job).collect();
            let jobs: Vec<_> = owned
                .iter()
                .map(|(graph, inputs)| Job { graph, inputs })
                .collect();
            let theirs = python.evaluate(&jobs, Precision::AsIs).unwrap();
            let allowed = COMPOSED
                .iter()
                .find(|(name, _)| *name == op.name())
                .map_or(UNITS, |(_, units)| *units);
            let pairs = cases.iter().zip(theirs);
            let worst = pairs
                .filter_map(|(case, theirs)| off(case, &theirs, dtype))
                .max_by(|a, b| a.0.total_cmp(&b.0));
            if let Some((units, why)) = worst.filter(|(units, _)| *units > allowed) {
                failures.push(format!("{} in {dtype}: {units:.1} units: {why}", op.name()));
            }
        }
    }
    assert!(
        failures.is_empty(),
        "{} operators differ:\n{}",
        failures.len(),
        failures.join("\n")
    );
}

/// The case with inputs of a half type for those of f32; none without any.
fn in_half(case: &Case, dtype: DType) -> Option<Case> {
    let mut json: Json = serde_json::from_str(&case.json).ok()?;
    let mut inputs = case.inputs.clone();
    let mut any = false;
    for (description, tensor) in json
        .get_mut("inputs")?
        .as_array_mut()?
        .iter_mut()
        .zip(&mut inputs)
    {
        if tensor.dtype() != DType::F32 {
            continue;
        }
        any = true;
        *description.get_mut("dtype")? = dtype.name().into();
        let values = tensor.to_f64().ok()?;
        *tensor = match dtype {
            DType::F16 => {
                let values: Vec<f16> = values.iter().map(|v| f16::from_f32(*v as f32)).collect();
                Tensor::from_slice(tensor.shape(), &values).ok()?
            }
            _ => {
                let values: Vec<bf16> = values.iter().map(|v| bf16::from_f32(*v as f32)).collect();
                Tensor::from_slice(tensor.shape(), &values).ok()?
            }
        };
    }
    let json = json.to_string();
    let graph = Graph::from_json(&json).ok().filter(|_| any)?;
    Some(Case { json, graph, inputs })
}

/// How many roundings our results are off from PyTorch's, and where; none if either side refuses the call.
fn off(case: &Case, theirs: &Result<Vec<Tensor>, Error>, dtype: DType) -> Option<(f64, String)> {
    let theirs = theirs.as_ref().ok()?;
    let semantics = Semantics::Rounded { perturb: None };
    let options = Options {
        semantics,
        ..Options::default()
    };
    let ours = reference::evaluate(&case.graph, &case.inputs, &options).ok()?;
    let pairs = ours.iter().zip(theirs);
    let worst = pairs.map(|(ours, theirs)| distance(ours, theirs, dtype));
    let (units, place) = worst.max_by(|a, b| a.0.total_cmp(&b.0))?;
    Some((units, format!("{place}\n  {}", case.json)))
}

/// The largest distance in units of the spacing at PyTorch's value; exact results are equal or infinitely far.
fn distance(ours: &Outcome, theirs: &Tensor, dtype: DType) -> (f64, String) {
    let (unit, least) = match dtype {
        DType::F16 => (2f64.powi(-10), 2f64.powi(-24)),
        _ => (2f64.powi(-7), 2f64.powi(-133)),
    };
    let largest = if dtype == DType::F16 {
        f16::MAX.to_f64()
    } else {
        bf16::MAX.to_f64()
    };
    let mut worst = (0.0, String::new());
    let theirs = theirs.to_f64().unwrap_or_default();
    for (i, (a, b)) in ours.to_f64().into_iter().zip(theirs).enumerate() {
        let is_same = a == b || a.is_nan() && b.is_nan();
        // The spacing lies between the unit times the value and half of it.
        let spacing = (b.abs().min(largest) * unit).max(least);
        let finite = |v: f64| v.clamp(-largest * (1.0 + unit), largest * (1.0 + unit));
        let units = match ours.dtype.is_float() {
            _ if is_same => 0.0,
            true if a.is_nan() || b.is_nan() => f64::INFINITY,
            true => (finite(a) - finite(b)).abs() / spacing,
            false => f64::INFINITY,
        };
        if units > worst.0 {
            worst = (units, format!("element {i} is {a}, PyTorch's {b}"));
        }
    }
    worst
}
