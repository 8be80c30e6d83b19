//! A computation together with what counts as right.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::digest::{Digest, Fields, Fingerprint};
use crate::error::{Error, Result};
use crate::expr::{Bindings, Symbol};
use crate::graph::{Graph, TensorType};
use crate::tensor::{Tensor, byte_len};

/// How exact a result must be. Error is measured for each output against f64 as rms(err)/rms(ref − mean) and
/// max(err)/rms(ref − mean).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Accuracy {
    /// At most twice (rms) and four times (max) the error of IEEE fp32 evaluation with pairwise sums.
    #[default]
    Fp32,
    /// At most 5e-4 rms on a single product, scaled by the graph's conditioning.
    Tf32,
    /// At most 4e-3 rms on a single product, scaled by the graph's conditioning.
    Half,
}

impl Accuracy {
    /// Every class, strictest first.
    pub const ALL: [Accuracy; 3] = [Accuracy::Fp32, Accuracy::Tf32, Accuracy::Half];

    /// The name on the command line and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Accuracy::Fp32 => "fp32",
            Accuracy::Tf32 => "tf32",
            Accuracy::Half => "half",
        }
    }
}

impl fmt::Display for Accuracy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Accuracy {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL
            .into_iter()
            .find(|a| a.name() == text)
            .ok_or_else(|| Error::invalid(format!("unknown accuracy class `{text}`; use fp32, tf32 or half")))
    }
}

/// How the values of one input are made.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
#[non_exhaustive]
pub enum Generator {
    /// Standard normal; fair coin flips for booleans; small integers for integers.
    #[default]
    Normal,
    /// Uniform in [0, 1).
    Uniform01,
    /// By the task's own code, through [`Task::capture`]; without one, as [`Generator::Normal`].
    Captured,
    /// Integers in `lo..hi`.
    Integers {
        /// The smallest value.
        lo: i64,
        /// The end, not reached.
        hi: i64,
    },
}

/// When work that depends on weights alone may be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Preparation {
    /// At every call, on the clock.
    #[default]
    PerCall,
    /// Once for given weights, off the clock.
    Once,
}

/// What counts as right.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Contract {
    /// How exact results must be.
    pub accuracy: Accuracy,
    /// How the graph's inputs are made, in their order; missing entries are [`Generator::Normal`].
    #[serde(default)]
    pub generators: Vec<Generator>,
    /// When weights may be prepared.
    #[serde(default)]
    pub preparation: Preparation,
    /// Values of symbolic dims that are checked and tuned.
    #[serde(default)]
    pub hints: Bindings,
    /// Values that symbolic dims may have; from 1 on for those without an entry. Some are checked besides the hints.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub ranges: BTreeMap<Symbol, SizeRange>,
    /// Whether floating inputs may hold NaN, infinities, zeros of both signs and subnormal numbers.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub special_values: bool,
}

/// Values that a symbolic dim may have, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SizeRange {
    /// The smallest.
    pub lo: i64,
    /// The largest.
    pub hi: i64,
}

/// Makes tensors that only the task's own code can make: a module's initial weights, inputs computed by its script.
pub trait Capture: fmt::Debug + Send + Sync {
    /// The tensors of the graph inputs at `positions`, with the shapes and element types of the graph.
    fn capture(&self, positions: &[usize], seed: u64) -> Result<Vec<Tensor>>;
}

/// A graph, its contract and a name.
#[derive(Debug, Clone)]
pub struct Task {
    /// The name, for people and file names.
    pub name: String,
    /// The computation.
    pub graph: Graph,
    /// What counts as right.
    pub contract: Contract,
    /// Where captured tensors come from, asked when they are needed.
    pub capture: Option<Arc<dyn Capture>>,
}

impl Task {
    /// A task with the default contract.
    pub fn new(name: impl Into<String>, graph: Graph) -> Self {
        Self {
            name: name.into(),
            graph,
            contract: Contract::default(),
            capture: None,
        }
    }

    /// The same task with another form of its graph.
    #[must_use]
    pub fn with_graph(&self, graph: Graph) -> Self {
        Self {
            name: self.name.clone(),
            graph,
            contract: self.contract.clone(),
            capture: self.capture.clone(),
        }
    }

    /// Bytes of all inputs and outputs at the contract's hints: what a call moves at least.
    pub fn traffic(&self) -> Result<u64> {
        self.total(self.graph.ports().map(|value| self.graph.ty(value)))
    }

    /// Bytes of the outputs that a call need not write, since they are those of the states that it updates.
    pub(crate) fn kept(&self) -> Result<u64> {
        let outputs = self.graph.outputs().iter();
        let all = self.total(outputs.clone().map(|output| self.graph.ty(output.value)))?;
        let written = self.total(outputs.map(|output| self.graph.ty(self.graph.written(output))))?;
        Ok(all.saturating_sub(written))
    }

    /// Bytes of all values of the graph at the contract's hints, each in memory of its own: what a call takes that keeps
    /// everything.
    pub fn footprint(&self) -> Result<u64> {
        self.total(self.graph.values().iter().map(|value| &value.ty))
    }

    fn total<'a>(&self, types: impl Iterator<Item = &'a TensorType>) -> Result<u64> {
        let mut total = 0u64;
        for ty in types {
            let sum = total.checked_add(self.bytes(ty)?);
            total = sum.ok_or_else(|| {
                Error::invalid("the tensors of the graph are larger than the address space")
            })?;
        }
        Ok(total)
    }

    fn bytes(&self, ty: &TensorType) -> Result<u64> {
        Ok(byte_len(ty.dtype, &ty.concrete_shape(&self.contract.hints)?)? as u64)
    }

    /// What distinguishes tasks: the graph and the contract, whatever the name.
    pub fn fingerprint(&self) -> Result<Digest> {
        let graph = self.graph.to_json()?;
        let contract = &self.contract;
        Ok(Digest::of_fields(&Identity { graph, contract }))
    }
}

/// What distinguishes a task: the graph in its own versioned text, and the contract.
struct Identity<'a> {
    graph: String,
    contract: &'a Contract,
}

impl Fingerprint for Identity<'_> {
    fn feed(&self, to: &mut Fields) {
        to.record("task", 1, &[("graph", &self.graph), ("contract", self.contract)]);
    }
}

impl Fingerprint for Contract {
    fn feed(&self, to: &mut Fields) {
        // Every field is named: whoever adds one decides whether it belongs here.
        let Self {
            accuracy,
            generators,
            preparation,
            hints,
            ranges,
            special_values,
        } = self;
        to.record(
            "contract",
            1,
            &[
                ("accuracy", &accuracy.name()),
                ("generators", generators),
                ("preparation", preparation),
                ("hints", hints),
                ("ranges", ranges),
                ("special_values", special_values),
            ],
        );
    }
}

impl Fingerprint for Generator {
    fn feed(&self, to: &mut Fields) {
        match self {
            Self::Normal => to.record("normal", 1, &[]),
            Self::Uniform01 => to.record("uniform01", 1, &[]),
            Self::Captured => to.record("captured", 1, &[]),
            Self::Integers { lo, hi } => to.record("integers", 1, &[("lo", lo), ("hi", hi)]),
        }
    }
}

impl Fingerprint for Preparation {
    fn feed(&self, to: &mut Fields) {
        let name = match self {
            Self::PerCall => "per-call",
            Self::Once => "once",
        };
        name.feed(to);
    }
}

impl Fingerprint for SizeRange {
    fn feed(&self, to: &mut Fields) {
        let Self { lo, hi } = self;
        to.record("range", 1, &[("lo", lo), ("hi", hi)]);
    }
}
