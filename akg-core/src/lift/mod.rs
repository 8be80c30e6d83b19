//! Lifting: from a kernel that somebody wrote in another language to a task and a design of it.
//!
//! What a [`Lifter`] proposes is believed in nothing. The graph is held against what the [`Original`] computes, on data of
//! several distributions and at several sizes; the sketch is held against the graph like [any other](Design::from_text). A lift
//! that passed both is a task like every other: each DSL lowers its sketch, and the judge judges what comes of it.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::agent::Role;
use crate::designer::{Design, DesignContext};
use crate::error::{Error, Result};
use crate::expr::Bindings;
use crate::graph::Graph;
use crate::target::Target;
use crate::task::{Accuracy, Task};
use crate::tensor::Tensor;
use crate::verdict::Failure;

mod check;
mod compiled;
mod interface;
#[cfg(feature = "models")]
mod model;

pub use check::disagreement;
pub use compiled::CompiledOriginal;
pub use interface::{Argument, Interface, Invocation, Port, Value};
#[cfg(feature = "models")]
pub use model::ModelLifter;

/// Finds out what a foreign kernel computes.
#[derive(Debug)]
pub struct Lifter;

impl Role for Lifter {
    type Context = LiftContext;
    type Proposal = Lift;
    const NAME: &'static str = "lifter";
}

/// The language of a foreign kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Language {
    /// C++ for CPUs.
    Cpp,
    /// CUDA C++.
    Cuda,
    /// Triton, with the Python function that launches it.
    Triton,
    /// A Python function of PyTorch tensors.
    PyTorch,
}

impl Language {
    /// Every language.
    pub const ALL: [Language; 4] = [Language::Cpp, Language::Cuda, Language::Triton, Language::PyTorch];

    /// The name on the command line and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Language::Cpp => "cpp",
            Language::Cuda => "cuda",
            Language::Triton => "triton",
            Language::PyTorch => "pytorch",
        }
    }

    /// The name for people.
    pub const fn title(self) -> &'static str {
        match self {
            Language::Cpp => "C++",
            Language::Cuda => "CUDA C++",
            Language::Triton => "Triton",
            Language::PyTorch => "PyTorch",
        }
    }
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Language {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|l| l.name() == text).ok_or_else(|| {
            Error::invalid(format!(
                "unknown language `{text}`; use cpp, cuda, triton or pytorch"
            ))
        })
    }
}

/// A foreign kernel that can be executed.
#[async_trait]
pub trait Original: Send + Sync + fmt::Debug {
    /// What it computes of these inputs, which are in the interface's order. That it crashes or hangs is the inner error.
    async fn run(&self, inputs: &[Tensor], dims: &Bindings) -> Result<Result<Vec<Tensor>, Failure>>;
}

/// What a lifter is shown.
#[derive(Debug, Clone)]
pub struct LiftContext {
    /// The kernel's name.
    pub name: String,
    /// Its language.
    pub language: Language,
    /// Its text.
    pub text: String,
    /// What it takes and gives, and how it is called.
    pub interface: Interface,
    /// The class that results of the lift must be right in.
    pub accuracy: Accuracy,
    /// What the sketch is for.
    pub target: Target,
    /// The kernel, to be executed.
    pub original: Arc<dyn Original>,
}

/// A foreign kernel's task, and a design of it.
#[derive(Debug, Clone)]
pub struct Lift {
    /// What it computes.
    pub task: Task,
    /// How.
    pub design: Design,
}

impl Lift {
    /// The lift that a graph in JSON and a sketch are of a kernel. The graph's inputs and outputs are held against the
    /// interface, its values against the original's, and the sketch against the graph.
    ///
    /// The inner error says what is wrong, for whoever wrote them.
    ///
    /// # Errors
    /// If the original cannot be executed, or the graph cannot be evaluated.
    pub async fn from_text(
        graph: &str,
        sketch: &str,
        context: &LiftContext,
    ) -> Result<std::result::Result<Self, String>> {
        let graph = match Graph::from_json(graph) {
            Ok(graph) => graph,
            Err(error) => return Ok(Err(format!("The graph cannot be read: {error}."))),
        };
        if let Some(wrong) = context.interface.mismatch(&graph) {
            return Ok(Err(format!("The graph is not one of the kernel: {wrong}.")));
        }
        let task = context.interface.task(&context.name, graph, context.accuracy);
        if let Some(wrong) = disagreement(&*context.original, &task).await? {
            return Ok(Err(wrong));
        }
        let design = Design::from_text(sketch, &DesignContext::new(task.clone(), context.target.clone()))?;
        Ok(design.map(|design| Self { task, design }))
    }
}
