//! The computation: typed SSA over ATen's operators.
//!
//! A [`Graph`] is a list of [`Node`]s in execution order. Each node calls one operator of the table in [`ops`], whose
//! names, arguments and semantics are ATen's (`aten.linear.default`, `aten.softmax.int`). Shapes are integer
//! expressions, so a dimension may be a symbol. Views, broadcasting and type conversions are operators like any other;
//! nothing happens implicitly beyond what ATen's own operators do.
//!
//! A graph is a function: equal inputs have equal results. ATen's operators that draw random numbers from a hidden state
//! have no reference. In their place stand operators of akg's own namespace whose chance is an input, a seed:
//! [`Graph::seeded_dropout`], [`Graph::seeded_rand`] and [`Graph::seeded_randn`].

use std::collections::HashMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::dtype::DType;
use crate::expr::{Bindings, Expr};
use crate::tensor::Tensor;

mod arguments;
mod builder;
mod display;
mod json;
mod layout;
mod limits;
pub mod ops;
mod rewritten;
mod transform;

pub use builder::Conv;
pub use layout::Layout;
pub use limits::{MAX_EXTENT_PARTS, MAX_INPUTS, MAX_LIST, MAX_NAME, MAX_NODES, MAX_OUTPUTS, MAX_RANK};
pub use ops::{Family, Operator};
pub use rewritten::{Fired, Rewritten};

/// Names one value of a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValueId(pub(crate) u32);

impl ValueId {
    /// The position in [`Graph::values`].
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Element type and extents.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TensorType {
    /// The element type.
    pub dtype: DType,
    /// The extents, outermost first; empty for a scalar tensor.
    pub shape: Vec<Expr>,
}

impl TensorType {
    /// A type from anything that converts to extents.
    pub fn new<D: Into<Expr>>(dtype: DType, shape: impl IntoIterator<Item = D>) -> Self {
        Self {
            dtype,
            shape: shape.into_iter().map(Into::into).collect(),
        }
    }

    /// The number of dimensions.
    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    /// The extents under `bindings`; an error names the symbol without a value or the negative extent.
    pub fn concrete_shape(&self, bindings: &Bindings) -> crate::Result<Vec<usize>> {
        let extent = |d: &Expr| {
            let value = d.eval(bindings)?;
            usize::try_from(value)
                .map_err(|_| crate::Error::invalid(format!("the extent `{d}` of {self} is {value}")))
        };
        self.shape.iter().map(extent).collect()
    }
}

impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dims: Vec<_> = self.shape.iter().map(ToString::to_string).collect();
        write!(f, "{}[{}]", self.dtype, dims.join(", "))
    }
}

/// A value: an input, a constant or the result of a node.
#[derive(Debug, Clone)]
pub struct Value {
    /// Unique within the graph.
    pub name: String,
    /// Element type and extents.
    pub ty: TensorType,
}

/// What an input is to the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InputKind {
    /// Different at every call.
    #[default]
    Activation,
    /// A parameter; the same at every call until the caller changes it.
    Weight,
    /// A buffer that the computation may update, such as running statistics.
    State,
}

/// An input of the graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input {
    /// The value it defines.
    pub value: ValueId,
    /// What it is to the caller.
    pub kind: InputKind,
    /// The tensor that the caller gives; `None` if that is the value itself, dense and row-major.
    pub layout: Option<Layout>,
}

/// A value known when the graph is made.
#[derive(Debug, Clone)]
pub struct Constant {
    /// The value it defines.
    pub value: ValueId,
    /// Its elements.
    pub tensor: Tensor,
}

/// An output of the graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// The value that is returned.
    pub value: ValueId,
    /// The state input that this is the new content of, if it is not a plain result.
    pub updates: Option<ValueId>,
}

/// One argument of an operator.
#[derive(Debug, Clone, PartialEq)]
pub enum Arg {
    /// An optional argument that was not given.
    None,
    /// A tensor.
    Value(ValueId),
    /// A list of tensors; entries of optional lists (`Tensor?[]`) may be missing.
    Values(Vec<Option<ValueId>>),
    /// `bool`.
    Bool(bool),
    /// `int` and `SymInt`, and integer `Scalar`s.
    Int(Expr),
    /// `int[]` and `SymInt[]`.
    Ints(Vec<Expr>),
    /// `float`, and floating `Scalar`s.
    Float(f64),
    /// `float[]`.
    Floats(Vec<f64>),
    /// `str`.
    Str(String),
    /// `ScalarType`.
    DType(DType),
}

impl Arg {
    /// The values in it.
    pub fn values(&self) -> impl Iterator<Item = ValueId> + use<'_> {
        let (one, many) = match self {
            Arg::Value(v) => (Some(*v), [].as_slice()),
            Arg::Values(vs) => (None, vs.as_slice()),
            _ => (None, [].as_slice()),
        };
        one.into_iter().chain(many.iter().flatten().copied())
    }
}

/// One operator call.
#[derive(Debug, Clone)]
pub struct Node {
    /// The operator.
    pub op: &'static Operator,
    /// One argument for each parameter of the operator's schema, in its order, defaults filled in.
    pub args: Vec<Arg>,
    /// The values it defines, one for each result of the schema.
    pub outputs: Vec<ValueId>,
}

impl Node {
    /// The values it reads, in argument order.
    pub fn inputs(&self) -> impl Iterator<Item = ValueId> {
        self.args.iter().flat_map(Arg::values)
    }
}

/// A computation over tensors. See the [module documentation](self).
///
/// Built by [`Graph::new`] and the builder methods, by [`Graph::call`] for any operator, or by [`Graph::from_json`]:
///
/// ```
/// use akg_core::{DType, Expr, Graph};
///
/// # fn main() -> akg_core::Result<()> {
/// let mut g = Graph::new("mlp");
/// let x = g.input("x", DType::F32, [Expr::symbol("N"), Expr::constant(64)]);
/// let w = g.weight("w", DType::F32, [4, 64]);
/// let y = g.linear(x, w, None)?;
/// let y = g.gelu(y)?;
/// let y = g.call("aten.softmax.int", [("self", y.into()), ("dim", (-1).into())])?[0];
/// g.output(y);
/// assert_eq!(g.ty(y).to_string(), "f32[N, 4]");
/// # g.validate()
/// # }
/// ```
#[derive(Debug, Clone, Default)]
pub struct Graph {
    pub(crate) name: String,
    pub(crate) values: Vec<Value>,
    pub(crate) inputs: Vec<Input>,
    pub(crate) constants: Vec<Constant>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) outputs: Vec<Output>,
    /// Where in `values` each name is.
    names: HashMap<String, ValueId>,
    /// The last number that made a name unique.
    suffixes: HashMap<String, u32>,
}

impl Graph {
    /// What distinguishes graphs whatever the names of their values, which are numbered in their order: types, inputs,
    /// constants, operators with their arguments, and outputs.
    pub fn structure(&self) -> Digest {
        let mut numbers: HashMap<ValueId, usize> = HashMap::new();
        let mut number = |value: ValueId| {
            let next = numbers.len();
            *numbers.entry(value).or_insert(next)
        };
        let mut parts = Vec::new();
        for input in &self.inputs {
            parts.push(format!(
                "{} {:?} {:?}",
                number(input.value),
                input.kind,
                self.ty(input.value)
            ));
            parts.extend(input.layout.as_ref().map(ToString::to_string));
        }
        for constant in &self.constants {
            let elements = Digest::of(constant.tensor.bytes());
            parts.push(format!(
                "{} {:?} {elements}",
                number(constant.value),
                self.ty(constant.value)
            ));
        }
        for node in &self.nodes {
            parts.push(node.op.name().to_owned());
            for arg in &node.args {
                parts.push(match arg {
                    Arg::Value(value) => format!("%{}", number(*value)),
                    Arg::Values(values) => {
                        let values: Vec<_> = values.iter().map(|v| v.map(&mut number)).collect();
                        format!("%{values:?}")
                    }
                    other => format!("{other:?}"),
                });
            }
            for output in &node.outputs {
                parts.push(format!("{} {:?}", number(*output), self.ty(*output)));
            }
        }
        for output in &self.outputs {
            parts.push(format!(
                "{} {:?}",
                number(output.value),
                output.updates.map(&mut number)
            ));
        }
        Digest::of_parts(parts.iter().map(String::as_str))
    }

    /// The graph's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Every value, indexed by [`ValueId::index`].
    pub fn values(&self) -> &[Value] {
        &self.values
    }

    /// The inputs in call order.
    pub fn inputs(&self) -> &[Input] {
        &self.inputs
    }

    /// The constants.
    pub fn constants(&self) -> &[Constant] {
        &self.constants
    }

    /// What a plan's inputs hold, in order: the inputs, then the constants.
    pub fn given(&self) -> impl Iterator<Item = ValueId> {
        let inputs = self.inputs.iter().map(|i| i.value);
        inputs.chain(self.constants.iter().map(|c| c.value))
    }

    /// What a call takes and returns: the inputs, then the outputs.
    pub fn ports(&self) -> impl Iterator<Item = ValueId> {
        let inputs = self.inputs.iter().map(|i| i.value);
        inputs.chain(self.outputs.iter().map(|o| o.value))
    }

    /// The operator calls in execution order.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Whether results follow from a seed, where PyTorch would draw numbers of its own.
    pub fn is_seeded(&self) -> bool {
        let mut parameters = self.nodes.iter().flat_map(|n| &n.op.schema().parameters);
        parameters.any(|p| p.name == "seed")
    }

    /// The outputs in return order.
    pub fn outputs(&self) -> &[Output] {
        &self.outputs
    }

    /// The call that replaces slices of a state to make its new content, an output.
    pub(crate) fn replacement(&self, output: &Output) -> Option<&Node> {
        let state = output.updates?;
        let node = self.nodes.iter().find(|n| n.outputs.contains(&output.value))?;
        let call = ops::Call::new(node.op, &node.args, &self.values);
        let is_own = node.op.base_name() == "index_copy" && call.value("self").ok() == Some(state);
        is_own.then_some(node)
    }

    /// The value that a call at least writes to make an output: the slices that are replaced if the output is the new content
    /// of a state of which the rest stays as it is, else the output itself.
    pub fn written(&self, output: &Output) -> ValueId {
        let slices = self.replacement(output).and_then(|node| {
            let call = ops::Call::new(node.op, &node.args, &self.values);
            call.value("source").ok()
        });
        slices.unwrap_or(output.value)
    }

    /// A value; `None` if it belongs to another graph.
    pub fn value(&self, value: ValueId) -> Option<&Value> {
        self.values.get(value.index())
    }

    /// The value called `name`.
    pub fn find(&self, name: &str) -> Option<ValueId> {
        self.names.get(name).copied()
    }

    /// The type of a value of this graph.
    ///
    /// # Panics
    ///
    /// If `value` belongs to another graph; [`value`](Self::value) does not.
    pub fn ty(&self, value: ValueId) -> &TensorType {
        &self.values[value.index()].ty
    }

    /// The name of a value of this graph.
    ///
    /// # Panics
    ///
    /// If `value` belongs to another graph; [`value`](Self::value) does not.
    pub fn value_name(&self, value: ValueId) -> &str {
        &self.values[value.index()].name
    }

    /// The node that defines `value`, unless it is an input or constant.
    pub fn producer(&self, value: ValueId) -> Option<&Node> {
        self.nodes.iter().find(|n| n.outputs.contains(&value))
    }
}
