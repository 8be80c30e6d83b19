//! What the worker is asked, and what it answers.

use std::collections::BTreeMap;
use std::path::Path;

use akg_core::error::ErrorKind;
use akg_core::graph::Layout;
use akg_core::{Accuracy, DType, Graph, Tensor};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::commitment::Digest;
use crate::import::{Cotangent, ImportedInput, OpenDim, Shrink, Source};
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

/// How a variant is compiled.
#[derive(Serialize)]
pub(crate) struct Compilation {
    /// Whether the headers of C++ are compiled ahead.
    pub(crate) headers: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Call<'a> {
    Ready {},
    Import {
        path: &'a Path,
        name: &'a str,
        halvings: u32,
        open: &'a [OpenDim],
        backward: bool,
        /// Those that the graph may have.
        operators: Vec<String>,
    },
    Materialize {
        path: &'a Path,
        inputs: Vec<&'a ImportedInput>,
        shrink: &'a Option<Shrink>,
        cotangents: &'a Option<Vec<Cotangent>>,
        weights_seed: u64,
        inputs_seed: u64,
        outputs: &'a [Slot],
    },
    Evaluate {
        jobs: Vec<JobCall>,
        float64: bool,
    },
    Prepare {
        variant: &'a str,
        compiled: Option<Compilation>,
        precision: Accuracy,
        task: &'a Value,
        device: &'a str,
        threads: Option<u32>,
    },
    Bind {
        variant: &'a str,
        /// The inputs of each slot by their names.
        slots: Vec<BTreeMap<&'a str, &'a Descriptor>>,
    },
    Outputs {
        variant: &'a str,
        outputs: &'a [Slot],
        output_names: &'a [&'a str],
        output_dtypes: &'a [DType],
    },
    Settle {
        variant: &'a str,
    },
    Execute {
        variant: &'a str,
        calls: u32,
        /// Bytes to walk before, so that nothing else is left in the caches.
        flush: Option<u64>,
    },
    Apply {
        path: &'a Path,
        function: &'a str,
        arguments: Vec<Argument<'a>>,
        outputs: &'a [Slot],
    },
    Answer {
        path: &'a Path,
        arguments: &'a Value,
    },
    Candidate(CandidateCall<'a>),
}

/// What a candidate that is a module is asked.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum CandidateCall<'a> {
    /// Makes the process ready for a module, which is not loaded yet.
    Begin {
        path: &'a Path,
        device: &'a str,
        threads: usize,
        /// True if its kernels are to do nothing.
        idle: bool,
    },
    Open {
        path: &'a Path,
        class: &'a str,
        /// Whether its results lie in memory that the caller can read.
        readable: bool,
        /// Names.
        inputs: &'a [String],
        states: &'a [String],
        /// The tensors that it is given for inputs that are their storage.
        layouts: &'a BTreeMap<String, Layout>,
    },
    Put {
        placement: u32,
        /// The inputs of each slot.
        slots: &'a [Vec<Descriptor>],
        /// Whether nothing that was put in place before is needed again.
        fresh: bool,
        /// Whether these descriptors were put in place before.
        known: bool,
    },
    Flush {
        bytes: u64,
    },
    Run {
        placement: u32,
        /// The number of the bind: what was returned after another is dropped.
        bind: u64,
        /// The slots of the calls, in their order.
        slots: &'a [usize],
    },
    /// Asks for results of a device, copied to this machine's memory.
    Take {
        slots: &'a [usize],
    },
    /// Asks what is not as it was before the module was loaded.
    Left {},
    /// Asks for nothing.
    Trip {},
}

/// What a function is given.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Argument<'a> {
    Tensor(&'a Descriptor),
    Number(Value),
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
        /// Those that the module is called with, if it also computes gradients.
        cotangents: &'a Option<Vec<Cotangent>>,
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
pub(crate) struct Prepared {
    pub(crate) threads: u32,
}

#[derive(Deserialize)]
pub(crate) struct Executed {
    pub(crate) seconds: f64,
    pub(crate) device_seconds: Option<f64>,
    pub(crate) page_faults: u64,
}

/// Where a candidate's results lie, as it says.
#[derive(Deserialize)]
pub(crate) struct Results {
    /// The types of a call's results, each list once.
    #[serde(default)]
    pub(crate) types: Vec<Vec<Written>>,
    /// The slots that were called, and the addresses of their results. Elements follow each other in the order of a dense tensor.
    #[serde(default)]
    pub(crate) places: Vec<(usize, Vec<u64>)>,
    /// The slots that were called, and digests of their results, where these lie on a device.
    #[serde(default)]
    pub(crate) digests: Vec<(usize, Vec<Digest>)>,
    /// What keeps the results from being tensors in dense memory.
    #[serde(default)]
    pub(crate) wrong: Option<String>,
    /// What shows that the kernels do not do the work, where that was asked for.
    #[serde(default)]
    pub(crate) idle: Option<String>,
    /// The part of the call's time that operators of PyTorch took, where that was asked for.
    #[serde(default)]
    pub(crate) share: Option<f64>,
    /// Whether all inputs on a device are as they were given.
    #[serde(default)]
    pub(crate) changed: bool,
}

/// The worker's words for a state that its candidate left behind, if it did.
#[derive(Deserialize)]
pub(crate) struct Left {
    #[serde(default)]
    pub(crate) left: Option<String>,
}

/// An answer without content.
#[derive(Deserialize)]
pub(crate) struct Done {}
