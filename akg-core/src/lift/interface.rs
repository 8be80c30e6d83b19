//! What a foreign kernel takes and gives, and how it is called.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::expr::{Bindings, Expr, Symbol};
use crate::graph::Graph;
use crate::source::{Launch, LaunchPlan, PlanTensor, TensorRole};
use crate::task::{Accuracy, Contract, Generator, SizeRange, Task};

/// The interface of a foreign kernel: a JSON file beside its text.
///
/// ```json
/// {"inputs": [{"name": "x", "dtype": "f32", "shape": ["N", 64]}],
///  "outputs": [{"name": "y", "dtype": "f32", "shape": ["N"]}],
///  "dims": {"N": 37},
///  "calls": [{"function": "row_sums", "grid": ["ceildiv(N, 4)"], "block": [128], "arguments": ["x", "y", "N", 64]}]}
/// ```
///
/// Tensors are dense and row-major. Calls are made in order. A function in Python takes its arguments and returns the outputs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interface {
    /// Tensors that are read.
    pub inputs: Vec<Port>,
    /// Tensors that are written completely.
    pub outputs: Vec<Port>,
    /// Tensors that one call leaves for a later one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scratch: Vec<Port>,
    /// Extents that are open, each with the value that it is tuned for. Others are checked, too.
    #[serde(default, skip_serializing_if = "Bindings::is_empty")]
    pub dims: Bindings,
    /// Values that open extents may have; from 1 on for those without an entry.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub ranges: BTreeMap<Symbol, SizeRange>,
    /// What is called, in order.
    pub calls: Vec<Invocation>,
}

/// A tensor of a foreign kernel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Port {
    /// Its name, by which arguments go.
    pub name: String,
    /// The element type.
    pub dtype: DType,
    /// The extents; symbols are open.
    pub shape: Vec<Expr>,
    /// How the values of an input are made: for indices, which must be in their range.
    #[serde(default, skip_serializing_if = "is_default")]
    pub generator: Generator,
    /// Whether an output or scratch tensor is zero before the first call, as for kernels that add to it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub zeroed: bool,
}

fn is_default(generator: &Generator) -> bool {
    *generator == Generator::default()
}

/// One call of a function, or one launch of a kernel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Invocation {
    /// The function.
    pub function: String,
    /// Blocks along x, y and z; for CUDA.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub grid: Vec<Expr>,
    /// Threads of a block along x, y and z; for CUDA.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub block: Vec<u32>,
    /// What it is given, in order.
    pub arguments: Vec<Argument>,
}

/// What a function is given.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Argument {
    /// A number.
    Number(serde_json::Number),
    /// A tensor's name, or an integer of open extents.
    Named(String),
}

/// What an argument is when it is looked up.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// The tensor of this position among inputs, outputs and scratch.
    Tensor(usize),
    /// An integer.
    Integer(Expr),
    /// A number that is no integer.
    Float(f64),
}

impl Interface {
    /// Reads the JSON form.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn from_json(text: &str) -> Result<Self> {
        let wrong = |e: &dyn std::fmt::Display| Error::invalid(format!("this is no interface: {e}"));
        let interface: Self = serde_json::from_str(text).map_err(|e| wrong(&e))?;
        if interface.inputs.is_empty() || interface.outputs.is_empty() || interface.calls.is_empty() {
            return Err(wrong(&"it needs inputs, outputs and calls"));
        }
        for (at, (_, port)) in interface.tensors().enumerate() {
            let mut earlier = interface.tensors().take(at);
            if earlier.any(|(_, other)| other.name == port.name) {
                return Err(wrong(&format!("two tensors are called `{}`", port.name)));
            }
            let symbols = port.shape.iter().flat_map(Expr::symbols);
            if let Some(open) = symbols.into_iter().find(|s| !interface.dims.contains_key(s)) {
                let name = &port.name;
                return Err(wrong(&format!(
                    "`{name}` has the open extent `{open}`, which `dims` lacks"
                )));
            }
        }
        for call in &interface.calls {
            for argument in &call.arguments {
                interface.value(argument)?;
            }
        }
        Ok(interface)
    }

    /// Every tensor with its role: inputs, then outputs, then scratch.
    pub fn tensors(&self) -> impl Iterator<Item = (TensorRole, &Port)> {
        let role = |role: TensorRole| move |port| (role, port);
        let inputs = self.inputs.iter().map(role(TensorRole::Input));
        let outputs = self.outputs.iter().map(role(TensorRole::Output));
        inputs
            .chain(outputs)
            .chain(self.scratch.iter().map(role(TensorRole::Scratch)))
    }

    /// What an argument is.
    ///
    /// # Errors
    /// If it names nothing that there is.
    pub fn value(&self, argument: &Argument) -> Result<Value> {
        let name = match argument {
            Argument::Number(number) => {
                let integer = number.as_i64().map(|n| Value::Integer(Expr::constant(n)));
                return integer
                    .or(number.as_f64().map(Value::Float))
                    .ok_or_else(|| Error::invalid(format!("the argument {number} is out of range")));
            }
            Argument::Named(name) => name,
        };
        if let Some(at) = self.tensors().position(|(_, port)| port.name == *name) {
            return Ok(Value::Tensor(at));
        }
        let unknown = || {
            Error::invalid(format!(
                "the argument `{name}` is neither a tensor nor made of `dims`"
            ))
        };
        let expr = Expr::parse(name).map_err(|_| unknown())?;
        let known = expr.symbols().iter().all(|symbol| self.dims.contains_key(symbol));
        known.then_some(Value::Integer(expr)).ok_or_else(unknown)
    }

    /// A plan of one launch that is given every tensor: how akg executes a text that makes the calls.
    pub fn plan(&self, kernel: &str) -> LaunchPlan {
        let tensor = |(role, port): (TensorRole, &Port)| PlanTensor {
            name: port.name.clone(),
            dtype: port.dtype,
            shape: port.shape.clone(),
            role,
            align: 64,
            holds: None,
            updates: None,
        };
        let tensors: Vec<_> = self.tensors().map(tensor).collect();
        LaunchPlan {
            dims: self.dims.keys().cloned().collect(),
            launches: vec![Launch {
                kernel: kernel.to_owned(),
                grid: vec![Expr::constant(1)],
                tensors: (0..tensors.len()).collect(),
                cooperative: false,
                doc: String::new(),
            }],
            tensors,
        }
    }

    /// The task that a graph is for such a kernel.
    pub fn task(&self, name: &str, graph: Graph, accuracy: Accuracy) -> Task {
        let mut task = Task::new(name, graph);
        task.contract = Contract {
            accuracy,
            generators: self.inputs.iter().map(|port| port.generator).collect(),
            hints: self.dims.clone(),
            ranges: self.ranges.clone(),
            ..Contract::default()
        };
        task
    }

    /// Why a graph has other inputs or outputs, if it has.
    pub fn mismatch(&self, graph: &Graph) -> Option<String> {
        let inputs: Vec<_> = graph.inputs().iter().map(|input| input.value).collect();
        let outputs: Vec<_> = graph.outputs().iter().map(|output| output.value).collect();
        [
            ("input", &self.inputs, inputs),
            ("output", &self.outputs, outputs),
        ]
        .into_iter()
        .find_map(|(what, ports, values)| {
            if ports.len() != values.len() {
                let (have, want) = (values.len(), ports.len());
                return Some(format!("it has {have} {what}s, the kernel {want}"));
            }
            ports.iter().zip(values).find_map(|(port, value)| {
                let ty = graph.ty(value);
                let differs = ty.dtype != port.dtype || ty.shape != port.shape;
                let name = graph.value_name(value);
                differs.then(|| format!("its {what} `{name}` is {ty}, the kernel's `{}` {port}", port.name))
            })
        })
    }
}

impl std::fmt::Display for Port {
    /// `f32[N, 64]`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shape: Vec<_> = self.shape.iter().map(ToString::to_string).collect();
        write!(f, "{}[{}]", self.dtype, shape.join(", "))
    }
}
