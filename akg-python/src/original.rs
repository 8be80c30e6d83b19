//! Foreign kernels in Python, and modules: what a lift is held against.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use akg_core::error::{Error, ErrorKind, Result, ResultExt};
use akg_core::expr::Bindings;
use akg_core::lift::{Interface, Invocation, Original, Port, Value};
use akg_core::tensor::byte_len;
use akg_core::verdict::{Failure, FailureKind};
use akg_core::{Accuracy, DType, Expr, Graph, Tensor};
use async_trait::async_trait;
use blocking::unblock;
use serde_json::Value as Json;

use crate::baseline::{BaselineTask, task_call};
use crate::calls::{Argument, Call, Done, Prepared, Types};
use crate::import::ImportedModule;
use crate::python::{Python, Serves, check_inputs, collect, output_sizes};
use crate::transfer::{self, Files};
use crate::variant::Variant;

/// A function in Python that takes tensors and returns them. Kernels in Triton that it launches are executed by Triton's
/// interpreter.
#[derive(Debug, Clone)]
pub struct FunctionOriginal {
    path: PathBuf,
    interface: Interface,
    call: Invocation,
    python: Arc<Mutex<Python>>,
}

impl FunctionOriginal {
    /// The function that an interface calls, in the file at `path`. Starts nothing yet.
    ///
    /// # Errors
    /// A file that is not there; an interface with several calls, or with tensors between them.
    pub fn new(python: Arc<Mutex<Python>>, path: &Path, interface: &Interface) -> Result<Self> {
        let cannot = |e| Error::io(format!("cannot find {}", path.display()), e);
        let ([call], []) = (interface.calls.as_slice(), interface.scratch.as_slice()) else {
            return Err(Error::unsupported(
                "the interface of a function in Python has one call, and no tensors between calls",
            ));
        };
        Ok(Self {
            path: path.canonicalize().map_err(cannot)?,
            interface: interface.clone(),
            call: call.clone(),
            python,
        })
    }

    fn apply(&self, inputs: &[Tensor], dims: &Bindings) -> Result<Vec<Tensor>> {
        let mut files = Files::default();
        let given = transfer::inputs(&mut files, &inputs.iter().collect::<Vec<_>>())?;
        let mut arguments = Vec::new();
        for argument in &self.call.arguments {
            arguments.push(match self.interface.value(argument)? {
                Value::Tensor(at) => Argument::Tensor(given.descriptors.get(at).ok_or_else(|| {
                    Error::invalid(
                        "a function in Python returns its outputs; it is given inputs and numbers only",
                    )
                })?),
                Value::Integer(expr) => Argument::Number(expr.eval(dims)?.into()),
                Value::Float(number) => Argument::Number(number.into()),
            });
        }
        let size = |port: &Port| {
            let extent = |e: &Expr| Ok(usize::try_from(e.eval(dims)?).unwrap_or(0));
            let shape: Vec<usize> = port.shape.iter().map(extent).collect::<Result<_>>()?;
            // Room for what has another type than it should.
            byte_len(DType::F64, &shape)
        };
        let sizes: Vec<usize> = self.interface.outputs.iter().map(size).collect::<Result<_>>()?;
        let outputs = transfer::outputs(&mut files, &sizes)?;
        let call = Call::Apply {
            path: &self.path,
            function: &self.call.function,
            arguments,
            outputs: &outputs.slots,
        };
        let mut python = self.python.lock().unwrap_or_else(PoisonError::into_inner);
        python.show(&self.path);
        let reply: Types = python
            .call(Serves::module(&self.path), &call, &files)
            .context("file", || self.path.display())?;
        collect(outputs, reply.types)
    }
}

#[async_trait]
impl Original for FunctionOriginal {
    async fn run(&self, inputs: &[Tensor], dims: &Bindings) -> Result<Result<Vec<Tensor>, Failure>> {
        let (this, inputs, dims) = (self.clone(), inputs.to_vec(), dims.clone());
        answered(unblock(move || this.apply(&inputs, &dims)).await)
    }
}

/// A module in KernelBench's form as it is, called eagerly by PyTorch on the processor.
#[derive(Debug, Clone)]
pub struct ModuleOriginal {
    path: PathBuf,
    graph: Graph,
    task: Json,
    python: Arc<Mutex<Python>>,
}

impl ModuleOriginal {
    /// An imported module. Starts nothing yet.
    ///
    /// # Errors
    /// If its graph cannot be written.
    pub fn new(python: Arc<Mutex<Python>>, module: &ImportedModule) -> Result<Self> {
        let task = task_call(BaselineTask::Module(module))?;
        Ok(Self {
            path: module.path.clone(),
            graph: module.graph.clone(),
            task: serde_json::to_value(task)
                .map_err(|e| Error::unexpected("cannot write a module's task").caused_by(e))?,
            python,
        })
    }

    fn call(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        check_inputs(&self.graph, inputs)?;
        let variant = Variant::Eager(Accuracy::Fp32);
        let none = Files::default();
        let serves = Serves::module(&self.path);
        let mut python = self.python.lock().unwrap_or_else(PoisonError::into_inner);
        python.show(&self.path);
        let call = Call::Prepare {
            variant: variant.name(),
            compiled: None,
            precision: variant.precision(),
            task: &self.task,
            device: "cpu",
            threads: None,
        };
        python.call::<Prepared>(serves, &call, &none)?;
        let mut files = Files::default();
        let given = transfer::inputs(&mut files, &inputs.iter().collect::<Vec<_>>())?;
        let names = self.graph.inputs().iter().map(|i| self.graph.value_name(i.value));
        let call = Call::Bind {
            variant: variant.name(),
            slots: vec![names.zip(&given.descriptors).collect()],
        };
        python.call::<Done>(serves, &call, &files)?;
        let mut files = Files::default();
        let outputs = transfer::outputs(&mut files, &output_sizes(&self.graph, 0)?)?;
        let values = || self.graph.outputs().iter().map(|o| o.value);
        let names: Vec<_> = values().map(|v| self.graph.value_name(v)).collect();
        let dtypes: Vec<DType> = values().map(|v| self.graph.ty(v).dtype).collect();
        let call = Call::Outputs {
            variant: variant.name(),
            outputs: &outputs.slots,
            output_names: &names,
            output_dtypes: &dtypes,
        };
        let reply: Types = python.call(serves, &call, &files)?;
        collect(outputs, reply.types)
    }
}

#[async_trait]
impl Original for ModuleOriginal {
    async fn run(&self, inputs: &[Tensor], _dims: &Bindings) -> Result<Result<Vec<Tensor>, Failure>> {
        let (this, inputs) = (self.clone(), inputs.to_vec());
        answered(unblock(move || this.call(&inputs)).await)
    }
}

/// That an original ends its process or takes too long is its own failure.
fn answered(result: Result<Vec<Tensor>>) -> Result<Result<Vec<Tensor>, Failure>> {
    let error = match result {
        Ok(outputs) => return Ok(Ok(outputs)),
        Err(error) => error,
    };
    let kind = match error.kind() {
        ErrorKind::Timeout => FailureKind::TimedOut,
        ErrorKind::WorkerLost => FailureKind::Crashed,
        ErrorKind::OutOfResources => FailureKind::OutOfMemory,
        _ => return Err(error),
    };
    Ok(Err(Failure::new(kind, error.to_string())))
}
