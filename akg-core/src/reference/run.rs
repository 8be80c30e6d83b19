//! Execution of a graph, node by node.

use std::collections::BTreeMap;

use super::array::Array;
use super::product::Products;
use super::real::Real;
use super::strided::Strided;
use super::{Buffer, Options, Outcome, Precision, registry};
use crate::dtype::DType;
use crate::error::{Error, Result, ResultExt};
use crate::expr::Bindings;
use crate::graph::ops::Call;
use crate::graph::{Arg, Graph, Node, ValueId};
use crate::tensor::Tensor;

/// The results of one operator.
pub(super) type Results<T> = Result<Vec<Array<T>>>;

/// What evaluates one operator.
pub(super) type Kernel<T> = fn(&mut Invocation<'_, T>) -> Results<T>;

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
            if let Some(symbol) = extent.as_symbol() {
                bindings.entry(symbol.clone()).or_insert(*have as i64);
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
        let stretch = self.stretches.get(index).copied().flatten();
        let array = match rounding {
            None => Array::from_tensor(source.tensor, stretch, |v| v)?,
            Some(rounding) => Array::from_tensor(source.tensor, stretch, |v| rounding.round(v))?,
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
        let kernel = registry::find::<T>(node.op.name())
            .ok_or_else(|| Error::unsupported("the reference interpreter cannot evaluate this operator"))?;
        for value in node.inputs() {
            self.load(value)?;
        }
        let mut invocation = Invocation {
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
            self.known[output.index()] = Some(result);
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

/// One operator call with its operands, as a [`Kernel`] sees it. Arguments are asked for by the names of the schema.
///
/// A tensor argument can be asked for once: it is handed over, so that a kernel can compute in the memory of an
/// operand that nothing else needs.
pub(super) struct Invocation<'a, T> {
    call: Call<'a>,
    node: &'a Node,
    position: usize,
    bindings: &'a Bindings,
    shapes: &'a [Vec<usize>],
    stretches: &'a Stretches,
    last_use: &'a [usize],
    known: &'a mut [Option<Array<T>>],
    products: Option<&'a dyn Products>,
}

impl<'a, T: Real> Invocation<'a, T> {
    /// Who else can make matrix products.
    pub(super) fn products(&self) -> Option<&'a dyn Products> {
        self.products
    }

    fn take(&mut self, value: ValueId) -> Result<Array<T>> {
        let index = value.index();
        let dies = self.last_use[index] == self.position;
        let once = self.node.inputs().filter(|v| *v == value).count() == 1;
        let slot = &mut self.known[index];
        let array = if dies && once { slot.take() } else { slot.clone() };
        array.ok_or_else(|| Error::unexpected("an operand was asked for twice"))
    }

    /// A tensor argument.
    pub(super) fn array(&mut self, name: &str) -> Result<Array<T>> {
        self.take(self.call.value(name)?)
    }

    /// An optional tensor argument.
    pub(super) fn opt_array(&mut self, name: &str) -> Result<Option<Array<T>>> {
        self.call.opt_value(name)?.map(|v| self.take(v)).transpose()
    }

    /// A tensor argument as floating numbers.
    pub(super) fn float(&mut self, name: &str) -> Result<Strided<T>> {
        Ok(self.array(name)?.into_float())
    }

    /// An optional tensor argument as floating numbers.
    pub(super) fn opt_float(&mut self, name: &str) -> Result<Option<Strided<T>>> {
        Ok(self.opt_array(name)?.map(Array::into_float))
    }

    /// A list of tensors, some of which may be missing.
    pub(super) fn opt_arrays(&mut self, name: &str) -> Result<Vec<Option<Array<T>>>> {
        let values = self.call.values(name)?;
        values
            .iter()
            .map(|v| v.map(|v| self.take(v)).transpose())
            .collect()
    }

    /// A list of tensors.
    pub(super) fn arrays(&mut self, name: &str) -> Result<Vec<Array<T>>> {
        let arrays = self.opt_arrays(name)?;
        arrays
            .into_iter()
            .map(|a| a.ok_or_else(|| Error::invalid(format!("`{name}` has a missing entry"))))
            .collect()
    }

    /// A tensor argument, or a number as a 0-dimensional tensor.
    pub(super) fn operand(&mut self, name: &str) -> Result<Array<T>> {
        self.opt_operand(name)?
            .ok_or_else(|| Error::invalid(format!("argument `{name}` is missing")))
    }

    /// A tensor argument, or a number as a 0-dimensional tensor, that may be missing.
    pub(super) fn opt_operand(&mut self, name: &str) -> Result<Option<Array<T>>> {
        Ok(Some(match self.call.arg(name)? {
            Arg::None => return Ok(None),
            Arg::Value(v) => self.take(*v)?,
            Arg::Int(e) => Array::int(DType::I64, Strided::full([], e.eval(self.bindings)?)),
            Arg::Bool(b) => Array::bool(Strided::full([], *b)),
            _ => Array::float(DType::F64, Strided::full([], T::of(self.call.number(name)?))),
        }))
    }

    /// A number; symbolic integers have their value.
    pub(super) fn number(&self, name: &str) -> Result<T> {
        self.opt_number(name)?
            .ok_or_else(|| Error::invalid(format!("argument `{name}` is missing")))
    }

    /// A number that may be missing.
    pub(super) fn opt_number(&self, name: &str) -> Result<Option<T>> {
        Ok(match self.call.arg(name)? {
            Arg::Int(e) => Some(T::of_int(e.eval(self.bindings)?)),
            _ => self.call.opt_number(name)?.map(T::of),
        })
    }

    /// An integer that may be missing.
    pub(super) fn opt_int(&self, name: &str) -> Result<Option<i64>> {
        self.call
            .opt_size(name)?
            .map(|e| e.eval(self.bindings))
            .transpose()
    }

    /// An integer.
    pub(super) fn int(&self, name: &str) -> Result<i64> {
        self.opt_int(name)?
            .ok_or_else(|| Error::invalid(format!("argument `{name}` is missing")))
    }

    /// A list of integers; missing lists are empty.
    pub(super) fn ints(&self, name: &str) -> Result<Vec<i64>> {
        self.call
            .sizes(name)?
            .iter()
            .map(|e| e.eval(self.bindings))
            .collect()
    }

    /// An integer that must not be negative.
    pub(super) fn count(&self, name: &str) -> Result<usize> {
        let value = self.int(name)?;
        usize::try_from(value).map_err(|_| Error::invalid(format!("`{name}` is negative: {value}")))
    }

    /// A list of integers that must not be negative.
    pub(super) fn counts(&self, name: &str) -> Result<Vec<usize>> {
        let ints = self.ints(name)?.into_iter();
        ints.map(|v| {
            usize::try_from(v).map_err(|_| Error::invalid(format!("`{name}` has the negative entry {v}")))
        })
        .collect()
    }

    /// A boolean.
    pub(super) fn flag(&self, name: &str) -> Result<bool> {
        self.call.bool(name)
    }

    /// A string that may be missing.
    pub(super) fn opt_str(&self, name: &str) -> Result<Option<&str>> {
        if self.has(name) {
            self.call.str(name).map(Some)
        } else {
            Ok(None)
        }
    }

    /// Whether the operator has an argument of this name and it is given.
    pub(super) fn has(&self, name: &str) -> bool {
        self.call.has(name).unwrap_or(false)
    }

    /// Whether an argument is a plain number, not a tensor.
    pub(super) fn is_number(&self, name: &str) -> bool {
        matches!(
            self.call.arg(name),
            Ok(Arg::Int(_) | Arg::Float(_) | Arg::Bool(_))
        )
    }

    /// The axis of a tensor of `rank` dimensions that an argument names, counted from the end if negative.
    pub(super) fn axis(&self, name: &str, rank: usize) -> Result<usize> {
        axis(self.int(name)?, rank)
    }

    /// The axes that a list names, in its order.
    pub(super) fn axes(&self, name: &str, rank: usize) -> Result<Vec<usize>> {
        self.ints(name)?.into_iter().map(|a| axis(a, rank)).collect()
    }

    /// The shape of a tensor argument.
    pub(super) fn operand_shape(&self, name: &str) -> Result<&[usize]> {
        Ok(&self.shapes[self.call.value(name)?.index()])
    }

    /// The element type of a tensor argument.
    pub(super) fn operand_dtype(&self, name: &str) -> Result<DType> {
        Ok(self.call.tensor(name)?.dtype)
    }

    /// The element type that the graph gives result `index`.
    pub(super) fn dtype(&self, index: usize) -> Result<DType> {
        Ok(self.call.ty(self.result(index)?)?.dtype)
    }

    /// The shape of result `index`.
    pub(super) fn shape(&self, index: usize) -> Result<Vec<usize>> {
        Ok(self.shapes[self.result(index)?.index()].clone())
    }

    /// The index along `axis` of the first result at which its computed part starts.
    pub(super) fn start(&self, axis: usize) -> Result<usize> {
        let stretch = self.stretches.get(self.result(0)?.index()).copied().flatten();
        Ok(stretch.filter(|s| s.axis == axis).map_or(0, |s| s.start))
    }

    /// How many results there are.
    pub(super) fn results(&self) -> usize {
        self.node.outputs.len()
    }

    fn result(&self, index: usize) -> Result<ValueId> {
        let value = self.node.outputs.get(index).copied();
        value.ok_or_else(|| Error::unexpected(format!("there is no result {index}")))
    }
}

/// Resolves an axis that counts from the end if negative. A 0-dimensional tensor counts as having one.
pub(super) fn axis(axis: i64, rank: usize) -> Result<usize> {
    let rank = rank.max(1) as i64;
    let at = if axis < 0 { axis + rank } else { axis };
    usize::try_from(at)
        .ok()
        .filter(|_| at < rank)
        .ok_or_else(|| Error::invalid(format!("axis {axis} of a tensor of {rank} dimensions")))
}
