//! What the worker is asked, and what it answers.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use akg_core::error::ErrorKind;
use akg_core::{Graph, Tensor};
use serde::{Deserialize, Serialize};

use crate::import::{ImportedInput, ImportedModule, Shrink, Source};
use crate::transfer::{Descriptor, Slot, Written};

/// The seeds from which a module's tensors are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seeds {
    /// Seed of the constructor.
    pub weights: u64,
    /// Seed of `get_inputs`.
    pub inputs: u64,
}

impl Default for Seeds {
    /// KernelBench's: 42 for both.
    fn default() -> Self {
        Self {
            weights: 42,
            inputs: 42,
        }
    }
}

/// One graph to evaluate.
#[derive(Debug, Clone, Copy)]
pub struct Job<'a> {
    /// A graph without symbols.
    pub graph: &'a Graph,
    /// A tensor for each of its inputs, in their order.
    pub inputs: &'a [Tensor],
}

/// The precision in which PyTorch evaluates a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Precision {
    /// As the graph says.
    AsIs,
    /// Every floating value in f64.
    Float64,
}

/// What a baseline runs.
#[derive(Debug, Clone, Copy)]
pub enum BaselineTask<'a> {
    /// The module itself.
    Module(&'a ImportedModule),
    /// A graph without symbols, replayed with PyTorch's operators.
    Graph(&'a Graph),
}

impl BaselineTask<'_> {
    /// The task's graph.
    pub fn graph(&self) -> &Graph {
        match self {
            BaselineTask::Module(module) => &module.graph,
            BaselineTask::Graph(graph) => graph,
        }
    }
}

/// How to run and time a baseline.
#[derive(Debug, Clone)]
pub struct BaselineOptions {
    /// Whether to compile it with `torch.compile` first.
    pub compile: bool,
    /// PyTorch's threads; `None` leaves its choice.
    pub threads: Option<u32>,
    /// Whether to return the outputs of the first call. Without, a baseline that was set up before is used again.
    pub outputs: bool,
    /// Calls before the timing starts.
    pub warmup: u32,
    /// Timed calls.
    pub samples: u32,
    /// Timing stops early after this long, but not before one sample.
    pub budget: Duration,
}

impl Default for BaselineOptions {
    fn default() -> Self {
        Self {
            compile: false,
            threads: None,
            outputs: true,
            warmup: 3,
            samples: 20,
            budget: Duration::from_secs(10),
        }
    }
}

/// What a baseline did.
#[derive(Debug, Clone)]
pub struct Baseline {
    /// The outputs of the first call, in the order of the graph's; empty if they were not asked for.
    pub outputs: Vec<Tensor>,
    /// Wall-clock times of single calls, in seconds.
    pub samples: Vec<f64>,
    /// PyTorch's threads.
    pub threads: u32,
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Call<'a> {
    Import {
        path: &'a Path,
        name: &'a str,
        halvings: u32,
    },
    Materialize {
        path: &'a Path,
        inputs: Vec<&'a ImportedInput>,
        shrink: &'a Option<Shrink>,
        weights_seed: u64,
        inputs_seed: u64,
        outputs: &'a [Slot],
    },
    Evaluate {
        jobs: Vec<JobCall>,
        float64: bool,
    },
    Baseline {
        task: TaskCall<'a>,
        inputs: BTreeMap<&'a str, Descriptor>,
        outputs: &'a [Slot],
        output_names: Vec<&'a str>,
        compile: bool,
        threads: Option<u32>,
        warmup: u32,
        samples: u32,
        budget_s: f64,
    },
}

#[derive(Serialize)]
pub(crate) struct JobCall {
    pub(crate) graph: String,
    pub(crate) inputs: BTreeMap<String, Descriptor>,
    pub(crate) outputs: Vec<Slot>,
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum TaskCall<'a> {
    Module {
        path: &'a Path,
        inputs: &'a [ImportedInput],
        shrink: &'a Option<Shrink>,
        /// The sources of the state inputs that the graph's last outputs update.
        states: Vec<&'a Source>,
    },
    Graph(String),
}

#[derive(Deserialize)]
pub(crate) struct Types {
    pub(crate) types: Vec<Written>,
}

#[derive(Deserialize)]
pub(crate) struct Outcomes {
    pub(crate) jobs: Vec<Outcome>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Outcome {
    Ok(Vec<Written>),
    Error { kind: ErrorKind, message: String },
}

#[derive(Deserialize)]
pub(crate) struct BaselineReply {
    pub(crate) types: Vec<Written>,
    pub(crate) samples_s: Vec<f64>,
    pub(crate) threads: u32,
}
