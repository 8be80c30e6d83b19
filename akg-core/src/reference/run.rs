//! Execution of a graph, node by node.

use std::collections::BTreeMap;

use super::array::Array;
use super::invocation::Invocation;
use super::real::Real;
use super::semantics::{Places, jumps};
use super::shift::summed;
use super::{Buffer, Options, Outcome, Precision, Semantics, Shifted, registry};
use crate::dtype::DType;
use crate::error::{Error, Result, ResultExt};
use crate::expr::Bindings;
use crate::graph::ops::Call;
use crate::graph::{Family, Graph, Node, ValueId};
use crate::tensor::Tensor;

/// Elements from which on a tensor of `f32` stays as it is, to be read where it is needed.
const STORED_FROM: usize = 1 << 22;

/// A stretch of one axis of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stretch {
    pub(super) axis: usize,
    pub(super) start: usize,
    pub(super) end: usize,
}

/// The parts of values that a partial evaluation computes, by [`ValueId::index`]; `None` for whole values.
pub(super) type Stretches = [Option<Stretch>];

/// The values that all stretches have in common, by [`ValueId::index`].
#[derive(Debug)]
pub(super) enum Shared {
    F64(Vec<Option<Array<f64>>>),
    F32(Vec<Option<Array<f32>>>),
}

/// Evaluates `graph`, or only `stretches` of its values, with what is `shared` known already.
pub(super) fn evaluate(
    graph: &Graph,
    inputs: &[Tensor],
    stretches: &Stretches,
    shared: Option<&Shared>,
    options: &Options,
) -> Result<Vec<Outcome>> {
    let bindings = bind(graph, inputs)?;
    let run = || match (options.precision, shared) {
        (Precision::F64, None) => Run::<f64>::new(graph, inputs, bindings, stretches, options)?.finish(),
        (Precision::F64, Some(Shared::F64(known))) => {
            Run::new(graph, inputs, bindings, stretches, options)?.continue_from(known)
        }
        (Precision::F32Pairwise, None) => {
            Run::<f32>::new(graph, inputs, bindings, stretches, options)?.finish()
        }
        (Precision::F32Pairwise, Some(Shared::F32(known))) => {
            Run::new(graph, inputs, bindings, stretches, options)?.continue_from(known)
        }
        _ => Err(Error::unexpected("what is shared has another precision")),
    };
    on_threads(options, run)
}

/// What all stretches have in common: the values that have no stretch, as far as others need them.
pub(super) fn share(
    graph: &Graph,
    inputs: &[Tensor],
    stretches: &Stretches,
    options: &Options,
) -> Result<Shared> {
    let bindings = bind(graph, inputs)?;
    let run = || {
        Ok(match options.precision {
            Precision::F64 => Shared::F64(Run::new(graph, inputs, bindings, stretches, options)?.share()?),
            Precision::F32Pairwise => {
                Shared::F32(Run::new(graph, inputs, bindings, stretches, options)?.share()?)
            }
        })
    };
    on_threads(options, run)
}

/// Runs on as many threads as the options say.
fn on_threads<R: Send>(options: &Options, run: impl FnOnce() -> Result<R> + Send) -> Result<R> {
    match options.threads {
        None => run(),
        Some(threads) => rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .map_err(|e| Error::new(crate::ErrorKind::OutOfResources, "cannot start threads").caused_by(e))?
            .install(run),
    }
}

/// The values of the symbols of `graph` that the shapes of `inputs` imply, after checking that the inputs fit.
pub(super) fn bind(graph: &Graph, inputs: &[Tensor]) -> Result<Bindings> {
    if inputs.len() != graph.inputs().len() {
        let (want, have) = (graph.inputs().len(), inputs.len());
        return Err(Error::invalid(format!(
            "graph `{}` has {want} inputs, not {have}",
            graph.name()
        )));
    }
    let mut bindings = BTreeMap::new();
    for (input, tensor) in graph.inputs().iter().zip(inputs) {
        for (extent, have) in graph.ty(input.value).shape.iter().zip(tensor.shape()) {
            if let Some((symbol, factor)) = extent.as_multiple() {
                bindings.entry(symbol.clone()).or_insert(*have as i64 / factor);
            }
        }
    }
    for (input, tensor) in graph.inputs().iter().zip(inputs) {
        let ty = graph.ty(input.value);
        let shape = ty
            .concrete_shape(&bindings)
            .context("input", || graph.value_name(input.value))?;
        if ty.dtype != tensor.dtype() || shape != tensor.shape() {
            return Err(Error::invalid(format!(
                "input `{}` must be {ty}{}, not {}{:?}",
                graph.value_name(input.value),
                describe(&bindings),
                tensor.dtype(),
                tensor.shape()
            )));
        }
    }
    Ok(bindings)
}

fn describe(bindings: &Bindings) -> String {
    if bindings.is_empty() {
        return String::new();
    }
    let pairs: Vec<_> = bindings
        .iter()
        .map(|(name, value)| format!("{name} = {value}"))
        .collect();
    format!(" with {}", pairs.join(", "))
}

/// An evaluation under way.
struct Run<'a, T> {
    graph: &'a Graph,
    options: &'a Options,
    bindings: Bindings,
    stretches: &'a Stretches,
    /// Where each value comes from, if it is an input or constant.
    sources: Vec<Option<Source<'a>>>,
    /// The values that are read by sums alone, where that is asked for.
    summed: Vec<bool>,
    /// The shape of each value.
    shapes: Vec<Vec<usize>>,
    /// The last node that reads each value.
    last_use: Vec<usize>,
    /// The values that are known and still needed.
    known: Vec<Option<Array<T>>>,
}

#[derive(Clone, Copy)]
struct Source<'a> {
    tensor: &'a Tensor,
    is_input: bool,
}

impl<'a, T: Real> Run<'a, T> {
    fn new(
        graph: &'a Graph,
        inputs: &'a [Tensor],
        bindings: Bindings,
        stretches: &'a Stretches,
        options: &'a Options,
    ) -> Result<Self> {
        let count = graph.values().len();
        let mut shapes = Vec::with_capacity(count);
        for (index, value) in graph.values().iter().enumerate() {
            let mut shape = value
                .ty
                .concrete_shape(&bindings)
                .context("value", || &value.name)?;
            if let Some(part) = stretches.get(index).copied().flatten() {
                shape[part.axis] = part.end - part.start;
            }
            shapes.push(shape);
        }
        let mut sources = vec![None; count];
        for (input, tensor) in graph.inputs().iter().zip(inputs) {
            sources[input.value.index()] = Some(Source {
                tensor,
                is_input: true,
            });
        }
        for constant in graph.constants() {
            sources[constant.value.index()] = Some(Source {
                tensor: &constant.tensor,
                is_input: false,
            });
        }
        let mut last_use = vec![0; count];
        for (position, node) in graph.nodes().iter().enumerate() {
            for value in node.inputs() {
                last_use[value.index()] = position;
            }
        }
        for output in graph.outputs() {
            last_use[output.value.index()] = usize::MAX;
        }
        Ok(Self {
            graph,
            options,
            bindings,
            stretches,
            sources,
            summed: match options.shift {
                Some(shift) if shift.of == Shifted::Arithmetic => summed(graph),
                _ => Vec::new(),
            },
            shapes,
            last_use,
            known: vec![None; count],
        })
    }

    fn finish(mut self) -> Result<Vec<Outcome>> {
        for position in 0..self.graph.nodes().len() {
            self.step(position)?;
        }
        self.outcomes()
    }

    /// Computes only what has a stretch; the rest is known.
    fn continue_from(mut self, known: &[Option<Array<T>>]) -> Result<Vec<Outcome>> {
        self.known = known.to_vec();
        for (position, node) in self.graph.nodes().iter().enumerate() {
            if self.is_stretched(node) {
                self.step(position)?;
            }
        }
        self.outcomes()
    }

    /// Computes only what has no stretch; gives what others need of it.
    fn share(mut self) -> Result<Vec<Option<Array<T>>>> {
        let nodes = self.graph.nodes();
        for (position, node) in nodes.iter().enumerate() {
            if !self.is_stretched(node) {
                self.step(position)?;
            }
        }
        let stretched = nodes.iter().filter(|node| self.is_stretched(node));
        let whole = |value: &ValueId| self.stretches.get(value.index()).is_some_and(Option::is_none);
        let needed: Vec<ValueId> = stretched.flat_map(Node::inputs).filter(whole).collect();
        for value in needed {
            self.load(value)?;
        }
        Ok(self.known)
    }

    /// Whether only a stretch of what a node computes is needed.
    fn is_stretched(&self, node: &Node) -> bool {
        let stretch = |value: &ValueId| self.stretches.get(value.index()).copied().flatten();
        node.outputs.iter().any(|value| stretch(value).is_some())
    }

    fn outcomes(mut self) -> Result<Vec<Outcome>> {
        let graph = self.graph;
        for output in graph.outputs() {
            self.load(output.value)?;
        }
        let mut outcomes = Vec::with_capacity(graph.outputs().len());
        for (position, output) in graph.outputs().iter().enumerate() {
            let index = output.value.index();
            let again = graph
                .outputs()
                .iter()
                .skip(position + 1)
                .any(|o| o.value == output.value);
            let array = if again {
                self.known[index].clone()
            } else {
                self.known[index].take()
            };
            let array = array.ok_or_else(|| Error::unexpected("an output has no value"))?;
            outcomes.push(array.into_outcome());
        }
        Ok(outcomes)
    }

    /// Makes an input or constant known.
    fn load(&mut self, value: ValueId) -> Result<()> {
        let index = value.index();
        if self.known[index].is_some() {
            return Ok(());
        }
        let source =
            self.sources[index].ok_or_else(|| Error::unexpected("a node reads a value before it is made"))?;
        let rounding = self.options.round_inputs.filter(|_| source.is_input);
        let shift = self.options.shift;
        let shift = shift.filter(|shift| match shift.of {
            Shifted::Inputs => source.is_input,
            Shifted::Results => false,
            Shifted::Arithmetic => source.is_input && self.summed.get(index).copied().unwrap_or(false),
        });
        let stretch = self.stretches.get(index).copied().flatten();
        let tensor = source.tensor;
        let large = tensor.dtype() == DType::F32 && tensor.len() >= STORED_FROM;
        let stored = if large && stretch.is_none() && rounding.is_none() {
            Array::stored(tensor, shift)
        } else {
            None
        };
        let array = match (stored, rounding, shift) {
            (Some(stored), ..) => stored,
            (None, None, None) => Array::from_tensor(tensor, stretch, |v| v)?,
            (None, Some(rounding), None) => Array::from_tensor(tensor, stretch, |v| rounding.round(v))?,
            (None, _, Some(shift)) => Array::from_tensor(tensor, stretch, |v| shift.apply(v))?,
        };
        self.known[index] = Some(array);
        Ok(())
    }

    fn step(&mut self, position: usize) -> Result<()> {
        let node = &self.graph.nodes()[position];
        let name = node.outputs.first().map_or("", |v| self.graph.value_name(*v));
        self.evaluate_node(position, node)
            .context("operator", || node.op.name())
            .context("node", || name)?;
        for value in node.inputs().chain(node.outputs.iter().copied()) {
            if self.last_use[value.index()] <= position {
                self.known[value.index()] = None;
            }
        }
        Ok(())
    }

    fn evaluate_node(&mut self, position: usize, node: &Node) -> Result<()> {
        let kernel = registry::find::<T>(node.op)
            .ok_or_else(|| Error::unsupported("the reference interpreter cannot evaluate this operator"))?;
        for value in node.inputs() {
            self.load(value)?;
        }
        let semantics = self.options.semantics;
        let mut invocation = Invocation {
            semantics,
            rounds_operands: semantics == Semantics::Wide && jumps(self.graph, node),
            call: Call::new(node.op, &node.args, self.graph.values()),
            node,
            position,
            bindings: &self.bindings,
            shapes: &self.shapes,
            stretches: self.stretches,
            last_use: &self.last_use,
            known: &mut self.known,
            products: self.options.products.as_deref(),
        };
        let results = kernel(&mut invocation)?;
        if results.len() != node.outputs.len() {
            return Err(Error::unexpected(format!(
                "evaluation gave {} results, the graph has {}",
                results.len(),
                node.outputs.len()
            )));
        }
        let computes = node.op.family() != Family::View;
        for (result, output) in results.into_iter().zip(&node.outputs) {
            let (ty, shape) = (self.graph.ty(*output), &self.shapes[output.index()]);
            if result.dtype != ty.dtype || result.shape() != shape {
                return Err(Error::unexpected(format!(
                    "evaluation gave {}{:?} where the graph has {}{shape:?}",
                    result.dtype,
                    result.shape(),
                    ty.dtype
                )));
            }
            let rounder = semantics.rounder(ty.dtype, output.index()).filter(|_| computes);
            let result = match rounder {
                Some(rounder) => {
                    let stretch = self.stretches.get(output.index()).copied().flatten();
                    let places = match stretch {
                        Some(stretch) => Places::of(stretch, &ty.concrete_shape(&self.bindings)?),
                        None => Places::ALL,
                    };
                    result.rounded(rounder, places)
                }
                None => result,
            };
            let shift = self.options.shift;
            let shift = shift.and_then(|shift| shift.of_result(node.op, output.index()));
            self.known[output.index()] = Some(match shift {
                Some(shift) => result.shifted(shift),
                None => result,
            });
        }
        Ok(())
    }
}

impl<T: Real> Array<T> {
    fn into_outcome(self) -> Outcome {
        use super::array::Data;
        let (dtype, shape) = (self.dtype, self.shape().to_vec());
        let data = match self.data {
            Data::Float(x) => T::buffer(x.into_vec()),
            Data::Int(x) => Buffer::Int(x.into_vec()),
            Data::Bool(x) => Buffer::Bool(x.into_vec()),
        };
        Outcome { dtype, shape, data }
    }
}
