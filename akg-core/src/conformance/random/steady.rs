//! Whether what a call gives can be told from rounding errors.
//!
//! A call is evaluated on what its operands hold, in f64 and in f32, and again with operands that are a little off.

use std::collections::BTreeMap;

use half::{bf16, f16};
use rand::RngExt as _;
use rand_chacha::ChaCha8Rng;

use crate::dtype::DType;
use crate::error::Result;
use crate::graph::{Graph, Node, ValueId};
use crate::reference::{Buffer, Options, Outcome, Precision, evaluate};
use crate::tensor::Tensor;

/// The largest float, and the root mean square of a value's elements at most: what is larger loses digits in sums with
/// what is not.
const LARGEST: f64 = 4096.0;
const LARGEST_RMS: f64 = 64.0;
const SMALLEST_RMS: f64 = 1.0 / 256.0;

/// The largest integer.
const LARGEST_INTEGER: i64 = 1 << 20;

/// How much more a result may change than the operands did: in its root mean square, and in any element of it.
struct Slope {
    rms: f64,
    largest: f64,
}

const STEEPEST: Slope = Slope {
    rms: 32.0,
    largest: 512.0,
};

/// The same where halves may be rounded between kernels, of which the limits know nothing.
const STEEPEST_OF_HALVES: Slope = Slope {
    rms: 0.5,
    largest: 1.0,
};

/// What a value of the graph holds.
#[derive(Debug, Clone)]
pub(super) struct Held {
    pub(super) tensor: Tensor,
    /// Whether every evaluation gives these very elements.
    is_exact: bool,
}

impl Held {
    /// What nobody computes.
    pub(super) fn given(tensor: Tensor) -> Self {
        Self {
            tensor,
            is_exact: true,
        }
    }

    /// The elements, as far off as they may be in another evaluation.
    fn nudged(&self, nudge: Nudge, rng: &mut ChaCha8Rng) -> Result<Tensor> {
        let tensor = &self.tensor;
        if !tensor.dtype().is_float() {
            return Ok(tensor.clone());
        }
        let values = tensor.to_f64()?;
        let rms = rms(&values);
        let step = coarseness(if self.is_exact { DType::F32 } else { tensor.dtype() });
        let mut sign = || match nudge {
            Nudge::Up => 1.0,
            Nudge::Down => -1.0,
            Nudge::Either => rng.random_range(-1.0..1.0),
        };
        let moved: Vec<f64> = values
            .iter()
            .map(|v| v + step * v.abs().max(rms) * sign())
            .collect();
        floats(tensor.dtype(), tensor.shape().to_vec(), &moved)
    }
}

/// Nudges of operands from which indices and booleans follow, beside the usual.
const SWAPS: usize = 8;

/// Where operands are moved to see how results follow: together, so that what is close to a number shows, or each by itself.
#[derive(Debug, Clone, Copy)]
enum Nudge {
    Up,
    Down,
    Either,
}

/// What a node's results hold; `None` if they are too large or too small, or hang on the last digits of the operands.
pub(super) fn evaluated(
    graph: &Graph,
    node: &Node,
    held: &BTreeMap<ValueId, Held>,
    rng: &mut ChaCha8Rng,
) -> Result<Option<Vec<Held>>> {
    let mut operands: Vec<ValueId> = node.inputs().collect();
    operands.sort_unstable();
    operands.dedup();
    let part = graph.subgraph(&operands, &node.outputs)?;
    let held: Vec<&Held> = operands.iter().filter_map(|v| held.get(v)).collect();
    let inputs: Vec<Tensor> = held.iter().map(|h| h.tensor.clone()).collect();
    let exact = evaluate(&part, &inputs, &options(Precision::F64))?;
    let single = evaluate(&part, &inputs, &options(Precision::F32Pairwise))?;
    let are_exact = held.iter().all(|h| h.is_exact);
    let coarsest = operands
        .iter()
        .map(|v| coarseness(graph.ty(*v).dtype))
        .fold(0.0, f64::max);
    let (step, slope) = match coarsest {
        _ if are_exact => (coarseness(DType::F32), &STEEPEST),
        step if step > coarseness(DType::F32) => (step, &STEEPEST_OF_HALVES),
        step => (step, &STEEPEST),
    };
    let on_nudged = |nudge: Nudge, rng: &mut ChaCha8Rng| {
        let moved: Result<Vec<Tensor>> = held.iter().map(|h| h.nudged(nudge, rng)).collect();
        evaluate(&part, &moved?, &options(Precision::F64))
    };
    let mut nudged = Vec::new();
    for nudge in [Nudge::Up, Nudge::Down, Nudge::Either] {
        nudged.push(on_nudged(nudge, rng)?);
    }
    // Of two that are almost equal, about every second nudge leaves the order as it is.
    if !are_exact && exact.iter().any(|outcome| !outcome.dtype.is_float()) {
        let mut others = rng.clone();
        for _ in 0..SWAPS {
            nudged.push(on_nudged(Nudge::Either, &mut others)?);
        }
    }
    let mut results = Vec::new();
    for (i, outcome) in exact.iter().enumerate() {
        let single = single.get(i).map(Outcome::to_f64).unwrap_or_default();
        let values = outcome.to_f64();
        let mut nudged = nudged.iter().filter_map(|n| n.get(i));
        // Exact operands give the same indices and booleans wherever they are compared.
        let is_same = are_exact && !outcome.dtype.is_float();
        let is_steady = is_moderate(outcome)
            && is_near(outcome, &values, &single, coarseness(DType::F32), &STEEPEST)
            && nudged.all(|n| is_same || is_near(outcome, &values, &n.to_f64(), step, slope));
        // Whoever stores halves between kernels rounds them; finer results would show it.
        let is_finer = coarseness(outcome.dtype) < coarsest && outcome.dtype.is_float();
        if !is_steady || is_finer && !are_exact {
            return Ok(None);
        }
        let tensor = stored(outcome)?;
        let is_exact =
            !outcome.dtype.is_float() || are_exact && single == values && tensor.to_f64()? == values;
        results.push(Held { tensor, is_exact });
    }
    Ok(Some(results))
}

/// One thread: the same rounding on every machine.
fn options(precision: Precision) -> Options {
    Options {
        precision,
        threads: Some(1),
        ..Options::default()
    }
}

fn rms(values: &[f64]) -> f64 {
    (values.iter().map(|v| v * v).sum::<f64>() / values.len().max(1) as f64).sqrt()
}

/// How far elements of a type may be off after a few operations.
fn coarseness(dtype: DType) -> f64 {
    let roundings = if dtype == DType::F32 { 64.0 } else { 4.0 };
    roundings * dtype.unit_roundoff().unwrap_or(0.0).max(2f64.powi(-24))
}

/// Whether elements are neither so large nor so small that nothing can be computed with them.
fn is_moderate(outcome: &Outcome) -> bool {
    match &outcome.data {
        Buffer::Int(values) => values.iter().all(|v| v.abs() <= LARGEST_INTEGER),
        Buffer::Bool(_) => true,
        _ => {
            let values = outcome.to_f64();
            let rms = rms(&values);
            let is_sized = rms == 0.0 || (SMALLEST_RMS..=LARGEST_RMS).contains(&rms);
            is_sized && values.iter().all(|v| v.abs() <= LARGEST)
        }
    }
}

/// Whether another evaluation, of operands that are off by `step`, gives about the same.
fn is_near(outcome: &Outcome, values: &[f64], other: &[f64], step: f64, steepest: &Slope) -> bool {
    if !outcome.dtype.is_float() {
        return values == other;
    }
    let errors: Vec<f64> = values.iter().zip(other).map(|(a, b)| a - b).collect();
    let scale = step * rms(values);
    let largest = errors.iter().fold(0.0, |most: f64, e| most.max(e.abs()));
    other.iter().all(|v| v.is_finite())
        && rms(&errors) <= steepest.rms * scale
        && largest <= steepest.largest * scale
}

/// The elements of an outcome in its own type.
pub(super) fn stored(outcome: &Outcome) -> Result<Tensor> {
    let shape = outcome.shape.clone();
    match &outcome.data {
        Buffer::Bool(values) => Tensor::from_bools(shape, values),
        Buffer::Int(values) => whole(outcome.dtype, shape, values),
        _ => floats(outcome.dtype, shape, &outcome.to_f64()),
    }
}

pub(super) fn floats(dtype: DType, shape: Vec<usize>, values: &[f64]) -> Result<Tensor> {
    fn each<T>(values: &[f64], convert: impl Fn(f64) -> T) -> Vec<T> {
        values.iter().map(|v| convert(*v)).collect()
    }
    match dtype {
        DType::F16 => Tensor::from_slice(shape, &each(values, f16::from_f64)),
        DType::BF16 => Tensor::from_slice(shape, &each(values, bf16::from_f64)),
        DType::F64 => Tensor::from_slice(shape, values),
        _ => Tensor::from_slice(shape, &each(values, |v| v as f32)),
    }
}

pub(super) fn whole(dtype: DType, shape: Vec<usize>, values: &[i64]) -> Result<Tensor> {
    fn each<T>(values: &[i64], convert: impl Fn(i64) -> T) -> Vec<T> {
        values.iter().map(|v| convert(*v)).collect()
    }
    match dtype {
        DType::U8 => Tensor::from_slice(shape, &each(values, |v| v as u8)),
        DType::I8 => Tensor::from_slice(shape, &each(values, |v| v as i8)),
        DType::I16 => Tensor::from_slice(shape, &each(values, |v| v as i16)),
        DType::I32 => Tensor::from_slice(shape, &each(values, |v| v as i32)),
        _ => Tensor::from_slice(shape, values),
    }
}
