//! Half types: the interpreter with rounded results against PyTorch's operators on `f16` and `bf16` tensors.

use akg_core::error::Error;
use akg_core::graph::Operator;
use akg_core::reference::{self, Options, Outcome, Semantics};
use akg_core::{DType, Graph, Tensor};
use akg_python::{Job, Precision};
use half::{bf16, f16};
use serde_json::Value as Json;

use crate::{CASES, Case, FAMILIES, common, draw_case};

/// Operators that PyTorch's kernels for processors compose of several, each of which rounds, or that add up in the half type.
/// Their distances are measured at the largest number of a call, where the roundings within are.
const ROUND_INSIDE: [&str; 41] = [
    "_adaptive_avg_pool3d",
    "_log_softmax",
    "_native_batch_norm_legit",
    "_native_batch_norm_legit_functional",
    "adaptive_avg_pool3d",
    "add",
    "avg_pool3d",
    "batch_norm",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "convolution",
    "cosine_similarity",
    "cross_entropy_loss",
    "einsum",
    "erf",
    "floor_divide",
    "group_norm",
    "gru",
    "instance_norm",
    "kl_div",
    "linear",
    "log_softmax",
    "lstm",
    "mse_loss",
    "native_group_norm",
    "native_layer_norm",
    "layer_norm",
    "nll_loss",
    "rnn_relu",
    "rnn_tanh",
    "rsub",
    "scaled_dot_product_attention",
    "smooth_l1_loss",
    "sub",
    "triplet_margin_loss",
];

/// Operators whose results have no such bound: products overflow on the way, and the square root of -inf as a power is infinite in
/// the half types and NaN in `f32`.
const NOT_BOUNDED: [&str; 2] = ["prod", "pow"];

/// Roundings that a result of one operator is off by at most, and of one that rounds inside.
const UNITS: f64 = 1.01;
const UNITS_INSIDE: f64 = 16.0;

#[test]
fn rounded_results_are_those_of_eager_pytorch() {
    let Some(mut python) = common::python() else {
        return;
    };
    let mut failures = Vec::new();
    for op in Operator::all() {
        let name = op.name().split('.').next().unwrap_or_default();
        if NOT_BOUNDED.contains(&name) {
            continue;
        }
        let rounds_inside = ROUND_INSIDE.contains(&name);
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
            let allowed = if rounds_inside { UNITS_INSIDE } else { UNITS };
            let pairs = cases.iter().zip(theirs);
            let worst = pairs
                .filter_map(|(case, theirs)| off(case, &theirs, dtype, rounds_inside))
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
fn off(
    case: &Case,
    theirs: &Result<Vec<Tensor>, Error>,
    dtype: DType,
    rounds_inside: bool,
) -> Option<(f64, String)> {
    let theirs = theirs.as_ref().ok()?;
    let all = case.inputs.iter().chain(theirs);
    let largest = |tensor: &Tensor| {
        let values = tensor.to_f64().unwrap_or_default().into_iter();
        values
            .filter(|v| v.is_finite())
            .fold(0.0, |most, v| v.abs().max(most))
    };
    let scale = if rounds_inside {
        all.map(largest).fold(0.0, f64::max)
    } else {
        0.0
    };
    let semantics = Semantics::Rounded { perturb: None };
    let options = Options {
        semantics,
        ..Options::default()
    };
    let ours = reference::evaluate(&case.graph, &case.inputs, &options).ok()?;
    let pairs = ours.iter().zip(theirs);
    let worst = pairs.map(|(ours, theirs)| distance(ours, theirs, dtype, scale));
    let (units, place) = worst.max_by(|a, b| a.0.total_cmp(&b.0))?;
    Some((units, format!("{place}\n  {}", case.json)))
}

/// The largest distance in units of the spacing at PyTorch's value, or at `scale` where that is larger; exact results are equal or
/// infinitely far.
fn distance(ours: &Outcome, theirs: &Tensor, dtype: DType, scale: f64) -> (f64, String) {
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
        let spacing = (b.abs().max(scale).min(largest) * unit).max(least);
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
