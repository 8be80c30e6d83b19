//! Graphs in half types, each with a twin that has a fault.
//!
//! The graphs are what people compute in `f16` and `bf16`: attention, norms, feed-forward layers, scans, convolutions,
//! losses, and code that looks at values where a half type jumps. A kernel may round their intermediate values as
//! PyTorch does, or not; the twin computes something else.
//!
//! ```
//! use akg_core::conformance::half::cases;
//!
//! let cases = cases()?;
//! assert_eq!(cases.len(), 60);
//! # Ok::<(), akg_core::Error>(())
//! ```

use half::{bf16, f16};
use rand::{RngExt as _, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::random::Case;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::graph::{Arg, Graph, ValueId};
use crate::reference::{Options, Outcome, Semantics, evaluate};
use crate::task::Task;
use crate::tensor::Tensor;

mod attention;
mod jumps;
mod layers;
mod losses;
mod norms;
mod scans;

/// A graph with values of a half type.
#[derive(Debug, Clone)]
pub struct HalfCase {
    /// The right graph and its inputs.
    pub case: Case,
    /// A graph of the same inputs and outputs with a fault.
    pub faulty: Graph,
}

impl HalfCase {
    /// The outputs of an evaluation of the right graph, or of the faulty one, rounded to their types.
    ///
    /// # Errors
    /// Those of [`evaluate`].
    pub fn outputs(&self, is_faulty: bool, options: &Options) -> Result<Vec<Tensor>> {
        let graph = if is_faulty {
            &self.faulty
        } else {
            &self.case.task.graph
        };
        let outcomes = evaluate(graph, &self.case.inputs, options)?;
        outcomes.iter().map(tensor).collect()
    }

    /// What PyTorch's operators make of the right graph, or of the faulty one.
    ///
    /// # Errors
    /// Those of [`evaluate`].
    pub fn eager(&self, is_faulty: bool) -> Result<Vec<Tensor>> {
        let semantics = Semantics::Rounded { perturb: None };
        self.outputs(
            is_faulty,
            &Options {
                semantics,
                ..Options::default()
            },
        )
    }
}

/// Adds nodes to a graph and returns its outputs.
type Recipe = fn(&mut Recorder) -> Result<Vec<ValueId>>;

/// All cases: each graph in `f16` and in `bf16`.
///
/// # Errors
/// None that an input could cause.
pub fn cases() -> Result<Vec<HalfCase>> {
    let families = [
        attention::RECIPES,
        norms::RECIPES,
        layers::RECIPES,
        scans::RECIPES,
        losses::RECIPES,
        jumps::RECIPES,
    ];
    let recipes = families.into_iter().flatten();
    let typed = recipes.flat_map(|recipe| [DType::F16, DType::BF16].map(|dtype| (recipe, dtype)));
    typed
        .enumerate()
        .map(|(seed, ((name, recipe), dtype))| case(name, *recipe, dtype, seed as u64))
        .collect()
}

fn case(name: &str, recipe: Recipe, dtype: DType, seed: u64) -> Result<HalfCase> {
    let name = format!("{name}_{dtype}");
    let (graph, inputs) = record(&name, recipe, dtype, seed, false)?;
    let (faulty, _) = record(&name, recipe, dtype, seed, true)?;
    let task = Task::new(name, graph);
    Ok(HalfCase {
        case: Case { seed, task, inputs },
        faulty,
    })
}

fn record(
    name: &str,
    recipe: Recipe,
    dtype: DType,
    seed: u64,
    is_faulty: bool,
) -> Result<(Graph, Vec<Tensor>)> {
    let mut recorder = Recorder {
        graph: Graph::new(name),
        dtype,
        is_faulty,
        inputs: Vec::new(),
        rng: ChaCha8Rng::seed_from_u64(seed),
    };
    for output in recipe(&mut recorder)? {
        recorder.graph.output(output);
    }
    Ok((recorder.graph, recorder.inputs))
}

/// A graph that grows, with the inputs that it takes.
struct Recorder {
    graph: Graph,
    dtype: DType,
    is_faulty: bool,
    inputs: Vec<Tensor>,
    rng: ChaCha8Rng,
}

impl Recorder {
    /// The right one of two alternatives, unless the graph shall be faulty.
    fn or<V>(&self, right: V, wrong: V) -> V {
        if self.is_faulty { wrong } else { right }
    }

    /// An input of normal numbers times `scale`.
    fn normal<const N: usize>(&mut self, shape: [usize; N], scale: f64) -> Result<ValueId> {
        let rng = &mut self.rng;
        let count = shape.iter().product();
        // The sum of twelve uniform numbers.
        let mut draw = || (0..12).map(|_| rng.random_range(-0.5..0.5)).sum::<f64>() * scale;
        let values: Vec<f64> = (0..count).map(|_| draw()).collect();
        self.input(shape, &values)
    }

    /// An input of numbers from 0 to 1.
    fn uniform<const N: usize>(&mut self, shape: [usize; N]) -> Result<ValueId> {
        let count = shape.iter().product();
        let values: Vec<f64> = (0..count).map(|_| self.rng.random_range(0.0..1.0)).collect();
        self.input(shape, &values)
    }

    fn input<const N: usize>(&mut self, shape: [usize; N], values: &[f64]) -> Result<ValueId> {
        let tensor = rounded(self.dtype, &shape, values)?;
        self.given(tensor)
    }

    /// Class labels.
    fn labels(&mut self, count: usize, classes: i64) -> Result<ValueId> {
        let labels: Vec<i64> = (0..count).map(|_| self.rng.random_range(0..classes)).collect();
        self.given(Tensor::from_slice([count], &labels)?)
    }

    fn given(&mut self, tensor: Tensor) -> Result<ValueId> {
        let name = format!("x{}", self.inputs.len());
        let value = self
            .graph
            .input(&name, tensor.dtype(), tensor.shape().iter().map(|n| *n as i64));
        self.inputs.push(tensor);
        Ok(value)
    }

    /// A call of an operator with one result.
    fn call<'a>(&mut self, op: &str, args: impl IntoIterator<Item = (&'a str, Arg)>) -> Result<ValueId> {
        let results = self.graph.call(&format!("aten.{op}"), args)?;
        let first = results.first().copied();
        first.ok_or_else(|| Error::unexpected(format!("`{op}` has no result")))
    }

    /// A call of an element-wise operator of one operand.
    fn unary(&mut self, op: &str, x: ValueId) -> Result<ValueId> {
        self.call(&format!("{op}.default"), [("self", x.into())])
    }
}

/// The outcome of an evaluation, in its type.
fn tensor(outcome: &Outcome) -> Result<Tensor> {
    rounded(outcome.dtype, &outcome.shape, &outcome.to_f64())
}

fn rounded(dtype: DType, shape: &[usize], values: &[f64]) -> Result<Tensor> {
    fn each<T>(values: &[f64], f: impl Fn(f64) -> T) -> Vec<T> {
        values.iter().map(|v| f(*v)).collect()
    }
    match dtype {
        DType::F16 => Tensor::from_slice(shape, &each(values, |v| f16::from_f32(v as f32))),
        DType::BF16 => Tensor::from_slice(shape, &each(values, |v| bf16::from_f32(v as f32))),
        DType::F32 => Tensor::from_slice(shape, &each(values, |v| v as f32)),
        DType::I64 => Tensor::from_slice(shape, &each(values, |v| v as i64)),
        DType::I32 => Tensor::from_slice(shape, &each(values, |v| v as i32)),
        DType::Bool => Tensor::from_bools(shape, &each(values, |v| v != 0.0)),
        other => Err(Error::unexpected(format!("no case has outputs of {other}"))),
    }
}
