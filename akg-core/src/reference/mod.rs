//! The reference interpreter: what a [`Graph`] means.
//!
//! [`evaluate`] runs a graph on host tensors, operator by operator, with ATen's semantics. [`Precision::F64`] is the
//! truth that kernels are judged against; [`Precision::F32Pairwise`] is the yardstick of accuracy class `fp32`, IEEE
//! single precision in which every operator rounds and every sum is pairwise.
//!
//! By default, the result of an operator on `f16`, `bf16` or `f32` tensors is *not* rounded to that type: the reference
//! is the exact function, up to the precision of the evaluation. Only what is explicit in the graph rounds: inputs,
//! constants, and conversions to a narrower type. Integers are exact and wrap as their type does.
//! [`Options::semantics`] selects other readings of the element types: results rounded after every operator, as
//! PyTorch's are, or wide results with rounded operands of comparisons.
//!
//! ```
//! use akg_core::reference::{Options, evaluate};
//! use akg_core::{Graph, Tensor};
//!
//! let graph = Graph::from_json(
//!     r#"{"akg_graph": 1, "name": "double",
//!         "inputs": [{"name": "x", "dtype": "f32", "shape": ["N"]}],
//!         "nodes": [{"op": "aten.add.Tensor", "args": {"self": "x", "other": "x"}, "outputs": ["y"]}],
//!         "outputs": [{"value": "y"}]}"#,
//! )?;
//! let x = Tensor::from_slice([2], &[1.0f32, 2.5])?;
//! let outcome = evaluate(&graph, &[x], &Options::default())?;
//! assert_eq!(outcome[0].to_f64(), [2.0, 5.0]);
//! # Ok::<(), akg_core::Error>(())
//! ```

use std::sync::Arc;

use crate::dtype::DType;
use crate::error::Result;
use crate::graph::Graph;
use crate::tensor::Tensor;

mod array;
mod attention;
mod conv;
mod cost;
mod create;
mod dropout;
mod elements;
mod fold;
mod index;
mod invocation;
mod join;
mod loss;
mod matmul;
mod memory;
mod norm;
mod parallel;
mod pointwise;
mod pool;
mod product;
mod real;
mod rearrange;
mod reduce;
mod registry;
mod rnn;
mod rows;
mod run;
mod scan;
mod semantics;
mod shift;
mod softmax;
mod strided;
mod view;

pub(crate) use cost::ELEMENT;
pub use cost::EvaluationCost;
pub use elements::{Elements, Stored};
pub use product::Products;
pub use rows::{Evaluation, RowPlan};
pub use semantics::{Perturb, Semantics, has_half};
pub(crate) use semantics::{half_outputs, jumps};
pub use shift::{Shift, Shifted};
pub use strided::Matrix;

/// The arithmetic of an evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Precision {
    /// Double precision throughout: the truth.
    #[default]
    F64,
    /// IEEE single precision: every operator rounds, products are rounded before they are added, and every sum
    /// (reductions, statistics, matrix products, convolutions) is a balanced binary tree.
    F32Pairwise,
}

/// Formats that floating inputs can be rounded to before an evaluation, which measures a graph's conditioning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rounding {
    /// IEEE binary16.
    F16,
    /// bfloat16.
    BF16,
    /// The 10 stored mantissa bits and 8 exponent bits that tensor cores read.
    TF32,
}

impl Rounding {
    /// `value` rounded to nearest, ties to even, by way of `f32`.
    pub fn round(self, value: f64) -> f64 {
        match self {
            Rounding::F16 => half::f16::from_f32(value as f32).to_f64(),
            Rounding::BF16 => half::bf16::from_f32(value as f32).to_f64(),
            Rounding::TF32 => {
                let value = value as f32;
                if !value.is_finite() {
                    return f64::from(value);
                }
                let bits = value.to_bits();
                let half_minus_one = 0x0fff + (bits >> 13 & 1);
                f64::from(f32::from_bits((bits + half_minus_one) & !0x1fff))
            }
        }
    }
}

/// How to evaluate.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The arithmetic.
    pub precision: Precision,
    /// Where results of operators are rounded to their element types.
    pub semantics: Semantics,
    /// Rounds floating inputs first.
    pub round_inputs: Option<Rounding>,
    /// Moves floating values by a little.
    pub shift: Option<Shift>,
    /// Worker threads; `None` takes as many as the machine has cores.
    pub threads: Option<usize>,
    /// Who makes large matrix products; `None` leaves all to the worker threads.
    pub products: Option<Arc<dyn Products>>,
}

/// The elements of a result, in row-major order.
#[derive(Debug, Clone, PartialEq)]
pub enum Buffer {
    /// Floating results of [`Precision::F64`].
    F64(Vec<f64>),
    /// Floating results of [`Precision::F32Pairwise`].
    F32(Vec<f32>),
    /// Results of any integer type.
    Int(Vec<i64>),
    /// Boolean results.
    Bool(Vec<bool>),
}

/// One output of an evaluation, in the precision of the evaluation.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The element type that the graph gives the output.
    pub dtype: DType,
    /// The extents.
    pub shape: Vec<usize>,
    /// The elements; rounded to `dtype` only under [`Semantics::Rounded`].
    pub data: Buffer,
}

impl Outcome {
    /// The elements of some of `rows` rows that it consists of, as one axis.
    pub(crate) fn part(&self, rows: usize, first: usize, count: usize) -> Self {
        fn part<E: Copy>(values: &[E], rows: usize, first: usize, count: usize) -> Vec<E> {
            let row = values.len() / rows.max(1);
            let part = values.get(first * row..(first + count) * row);
            part.unwrap_or_default().to_vec()
        }
        let data = match &self.data {
            Buffer::F64(values) => Buffer::F64(part(values, rows, first, count)),
            Buffer::F32(values) => Buffer::F32(part(values, rows, first, count)),
            Buffer::Int(values) => Buffer::Int(part(values, rows, first, count)),
            Buffer::Bool(values) => Buffer::Bool(part(values, rows, first, count)),
        };
        let elements = self.shape.iter().product::<usize>() / rows.max(1) * count;
        Self {
            dtype: self.dtype,
            shape: vec![elements],
            data,
        }
    }

    /// Every element as f64 (booleans as 0 and 1; integers beyond 2^53 round).
    pub fn to_f64(&self) -> Vec<f64> {
        match &self.data {
            Buffer::F64(values) => values.clone(),
            Buffer::F32(values) => values.iter().map(|v| f64::from(*v)).collect(),
            Buffer::Int(values) => values.iter().map(|v| *v as f64).collect(),
            Buffer::Bool(values) => values.iter().map(|v| f64::from(u8::from(*v))).collect(),
        }
    }
}

/// Evaluates `graph` on `inputs`, one tensor for each of [`Graph::inputs`], and returns one outcome for each of
/// [`Graph::outputs`]. Symbolic dimensions take their values from the shapes of the inputs.
///
/// # Errors
/// [`InvalidInput`](crate::ErrorKind::InvalidInput) when the inputs do not match the graph or an operator rejects its
/// operands (an index out of range, an integer division by zero); [`Unsupported`](crate::ErrorKind::Unsupported) for
/// operators whose results are random. Errors name the node.
pub fn evaluate(graph: &Graph, inputs: &[Tensor], options: &Options) -> Result<Vec<Outcome>> {
    run::evaluate(graph, inputs, &[], None, options)
}
