//! From text to something a device can load: sources, launch plans, artifacts.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::dtype::DType;
use crate::expr::{Bindings, Expr, Symbol};
use crate::graph::{Graph, ValueId};

mod comment;
mod fingerprint;
mod header;
mod module;
mod plan;

pub use comment::comment_lines;
pub use header::LaunchHeader;
pub use module::ModuleInterface;
pub use plan::MAX_ALIGN;

/// Values for a sketch's knobs and type knobs, by name.
pub type Knobs = BTreeMap<String, KnobValue>;

/// Whether a knob is one of a DSL's own and not one that a sketch declares: its name holds a `.`.
pub fn is_dsl_knob(name: &str) -> bool {
    name.contains('.')
}

/// `knobs` without the DSL's own.
pub fn sketch_knobs(knobs: &Knobs) -> Knobs {
    let mut knobs = knobs.clone();
    knobs.retain(|name, _| !is_dsl_knob(name));
    knobs
}

/// The value of one knob.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged)]
pub enum KnobValue {
    /// An integer knob.
    Int(i64),
    /// A type knob.
    DType(DType),
}

impl fmt::Display for KnobValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KnobValue::Int(value) => value.fmt(f),
            KnobValue::DType(dtype) => dtype.fmt(f),
        }
    }
}

/// What a tensor of a [`LaunchPlan`] is to the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TensorRole {
    /// Given by the caller, never written.
    Input,
    /// Allocated by the caller, written completely, unless it [updates](PlanTensor::updates) an input.
    Output,
    /// Allocated by whoever executes the plan; contents undefined at the start.
    Scratch,
}

/// A tensor that the kernels of a plan share. Dense and row-major.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlanTensor {
    /// Its name in the sketch or source.
    pub name: String,
    /// The element type.
    pub dtype: DType,
    /// The extents; symbols are the plan's dims.
    pub shape: Vec<Expr>,
    /// What it is to the caller.
    pub role: TensorRole,
    /// Alignment of the first byte.
    pub align: usize,
    /// The value that a scratch tensor holds for later kernels, in its order of elements. A claim: where it is made, the
    /// kernels before and after it are also judged by themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holds: Option<Held>,
    /// The position in [`LaunchPlan::tensors`] of the input that an output updates in place: the output begins as its
    /// contents, and kernels write what changes. No kernel takes that input, so that both may be the same memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updates: Option<usize>,
}

impl PlanTensor {
    /// The inputs, constants and outputs of a graph.
    pub fn of(graph: &Graph) -> Vec<Self> {
        let tensor = |value: ValueId, role| {
            let ty = graph.ty(value);
            Self {
                name: graph.value_name(value).to_owned(),
                dtype: ty.dtype,
                shape: ty.shape.clone(),
                role,
                align: ALIGN,
                holds: None,
                updates: None,
            }
        };
        let given = graph.given().map(|value| tensor(value, TensorRole::Input));
        let outputs = graph.outputs().iter();
        given
            .chain(outputs.map(|output| tensor(output.value, TensorRole::Output)))
            .collect()
    }
}

/// Alignment of the tensors of a graph.
const ALIGN: usize = 64;

/// The name of a value that a scratch tensor holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Held {
    /// A value of the task's graph.
    Own(String),
    /// A value of the graph that algebra [makes](crate::graph::Rewritten) of the task's.
    Rewritten {
        /// Its name there.
        rewritten: String,
    },
}

impl Held {
    /// The name.
    pub fn name(&self) -> &str {
        match self {
            Held::Own(name) | Held::Rewritten { rewritten: name } => name,
        }
    }
}

/// One kernel launch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Launch {
    /// The kernel's symbol in the artifact, which several launches may have in common.
    pub kernel: String,
    /// Extents of the grid, outermost first; programs are numbered row-major.
    pub grid: Vec<Expr>,
    /// Indices into [`LaunchPlan::tensors`], in the order of the kernel's tensor parameters.
    pub tensors: Vec<usize>,
    /// Whether all programs must run at the same time because they meet at grid barriers.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cooperative: bool,
    /// What the kernel computes, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub doc: String,
}

/// How Rust runs the kernels of a lowered source: the tensors and the launches in order.
///
/// Inputs are bound to the task's inputs and outputs to its outputs, each in their order of appearance.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct LaunchPlan {
    /// Symbols that kernels take as 64-bit integer arguments, in this order, after the tensors.
    #[serde(default)]
    pub dims: Vec<Symbol>,
    /// The tensors.
    pub tensors: Vec<PlanTensor>,
    /// The launches, executed in order.
    pub launches: Vec<Launch>,
}

impl LaunchPlan {
    /// The tensors of one role with their indices.
    pub fn with_role(&self, role: TensorRole) -> impl Iterator<Item = (usize, &PlanTensor)> {
        self.tensors
            .iter()
            .enumerate()
            .filter(move |(_, t)| t.role == role)
    }

    /// The number of programs of `launch` under `bindings`.
    pub fn programs(launch: &Launch, bindings: &Bindings) -> crate::Result<i64> {
        launch.grid.iter().try_fold(1i64, |n, extent| {
            let extent = extent.eval(bindings)?;
            n.checked_mul(extent.max(0)).ok_or_else(|| {
                crate::Error::invalid(format!(
                    "the grid of kernel `{}` has too many programs",
                    launch.kernel
                ))
            })
        })
    }
}

/// What the text of a source is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "form")]
#[non_exhaustive]
pub enum SourceForm {
    /// Kernels that a launch plan runs.
    Lowered {
        /// How to run them.
        plan: LaunchPlan,
    },
    /// A Python module with a class `ModelNew`, whose host code runs its kernels.
    Module {
        /// What it is called with and what it returns. As long as no task is known, nothing.
        #[serde(default)]
        interface: ModuleInterface,
    },
}

/// Text in one DSL and how to launch it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Source {
    /// The DSL's name.
    pub dsl: String,
    /// The text.
    pub text: String,
    /// What the text is.
    #[serde(flatten)]
    pub form: SourceForm,
    /// The knob values that it was lowered with.
    #[serde(default)]
    pub knobs: Knobs,
}

/// What a DSL's toolchain made of a source.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Artifact {
    /// An open set: `elf-so`, `cubin`, `hsaco`, `npubin`, or a source format that a backend compiles itself.
    pub format: String,
    /// The bytes.
    #[serde(with = "base64_bytes")]
    pub bytes: Vec<u8>,
    /// How to run its kernels.
    pub plan: LaunchPlan,
    /// What the toolchain reported: compiler, registers, spills, warnings.
    #[serde(default)]
    pub metadata: BTreeMap<String, String>,
}

impl Artifact {
    /// The key in [`metadata`](Self::metadata) of the instruction-set features that the code uses, separated by spaces.
    pub const FEATURES: &str = "features";

    /// The instruction-set features that the code uses; `None` if the toolchain did not say, which may mean all that its
    /// target has.
    pub fn features(&self) -> Option<impl Iterator<Item = &str>> {
        self.metadata
            .get(Self::FEATURES)
            .map(|names| names.split_whitespace())
    }
}

pub(crate) mod base64_bytes {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(bytes))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        STANDARD
            .decode(String::deserialize(deserializer)?)
            .map_err(serde::de::Error::custom)
    }
}
