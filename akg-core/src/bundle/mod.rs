//! The deployable result: a verified kernel in one file.
//!
//! A [`Bundle`] holds what a device loads, how to launch it, what it computes and how exactly, and why that is believed:
//! the verdict and the times. The file is a tar archive, so that `tar` lists and extracts it:
//!
//! | member | content |
//! |---|---|
//! | `akg-bundle` | the version of the form and the content hash, see below |
//! | `manifest.json` | the [`Manifest`] |
//! | `evidence.json` | the [`Evidence`] |
//! | `graph.json` | the computation, with its constants |
//! | `sketch.txt`, `source.txt` | the tile program and the source that was built from it |
//! | `module.py` | the PyTorch module that the task came from, if it came from one |
//! | `artifact.bin` | what the device loads, such as a shared object for CPUs |
//!
//! `akg-bundle` is the first member and fills the first 1024 bytes. It is one line of JSON with the version of the form
//! (`akg_bundle`) and the BLAKE3 hash of every byte after those 1024 (`blake3`). Equal content gives equal bytes. The
//! hash finds damage, it does not say who made the file.
//!
//! Whoever runs bundles is in the backends' crates: what is here knows no device.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::designer::KernelSummary;
use crate::dtype::DType;
use crate::error::{Error, Result, ResultExt as _};
use crate::expr::Expr;
use crate::file::{MAX_BUNDLE, read_bytes};
use crate::graph::{Graph, InputKind, Layout};
use crate::session::{Attempt, Outcome};
use crate::source::{Artifact, Knobs, LaunchPlan, Source, SourceForm};
use crate::target::Target;
use crate::task::{Contract, Task};
use crate::timing::Contest;
use crate::verdict::Verdict;
use crate::verifier::Candidate;

pub mod call;
mod check;
mod file;
pub mod module;
pub mod structure;

pub use structure::ModuleCall;

/// The version of the form that this library reads and writes.
pub const VERSION: u32 = 1;

/// What a bundle holds beside its texts and bytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// The task's name.
    pub name: String,
    /// The version of akg that made the bundle.
    pub akg: String,
    /// What a call takes, in order.
    pub inputs: Vec<Port>,
    /// What a call writes, in order.
    pub outputs: Vec<Port>,
    /// What counts as right: the accuracy class, and the values of symbolic dims that it holds for.
    pub contract: Contract,
    /// What a machine must have to run the artifact.
    pub requires: Requirements,
    /// The device that the kernel was made, verified and timed on.
    pub target: Target,
    /// The artifact's format.
    pub format: String,
    /// How to launch the artifact's kernels. Its inputs are [`inputs`](Self::inputs), then the graph's constants.
    pub plan: LaunchPlan,
    /// What the toolchain reported: compiler, flags.
    pub toolchain: BTreeMap<String, String>,
    /// The source's language.
    pub dsl: String,
    /// The knob values that the source was lowered with.
    pub knobs: Knobs,
    /// For a task from a PyTorch module, where each of the inputs is in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub module: Vec<ModuleInput>,
    /// For a task from a PyTorch module, the structure of what its `forward` takes and returns, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<ModuleCall>,
}

impl Manifest {
    /// What is known of a kernel for `task` before it is built: the format and the toolchain are empty, and a machine must
    /// have all that `target` has.
    ///
    /// # Errors
    /// If the plan is not one of the task.
    pub fn of(task: &Task, target: &Target, source: &Source, plan: LaunchPlan) -> Result<Self> {
        let (inputs, outputs) = check::ports(&task.graph, &plan)?;
        Ok(Self {
            name: task.name.clone(),
            akg: env!("CARGO_PKG_VERSION").to_owned(),
            inputs,
            outputs,
            contract: task.contract.clone(),
            requires: Requirements {
                backend: target.backend.clone(),
                arch: target.arch.clone(),
                features: target.features.clone(),
            },
            target: target.clone(),
            format: String::new(),
            plan,
            toolchain: BTreeMap::new(),
            dsl: source.dsl.clone(),
            knobs: source.knobs.clone(),
            module: Vec::new(),
            call: None,
        })
    }
}

/// A tensor that a call takes or writes: dense and row-major, unless it is the storage of a layout.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Port {
    /// Its name in the graph.
    pub name: String,
    /// The element type.
    pub dtype: DType,
    /// The extents; symbols are dims, which follow from the inputs of a call.
    pub shape: Vec<Expr>,
    /// Alignment of the first byte, at least.
    pub align: usize,
    /// What an input is to the caller; `None` for outputs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<InputKind>,
    /// The input whose new content an output is, if it is not a plain result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updates: Option<String>,
    /// The tensor that the caller gives, of which this is the storage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layout: Option<Layout>,
}

/// Where an input is in the PyTorch module that the task came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ModuleInput {
    /// A parameter, buffer or tensor attribute, by its dotted path below the module.
    Attribute(String),
    /// Among the flattened arguments of `forward`, by position.
    Argument(usize),
    /// Nowhere: a seed, to be drawn anew for each call.
    Seed {},
}

/// What a machine must have to run an artifact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requirements {
    /// The backend that loads it.
    pub backend: String,
    /// The architecture.
    pub arch: String,
    /// Instruction-set features.
    pub features: BTreeSet<String>,
}

impl Requirements {
    /// Refuses a machine that cannot run the artifact.
    ///
    /// # Errors
    /// [`Unsupported`](crate::ErrorKind::Unsupported), naming what is missing.
    pub fn check(&self, backend: &str, arch: &str, features: &BTreeSet<String>) -> Result<()> {
        let remedy = "make a bundle on such a machine, with `akg run TASK --bundle FILE`";
        if self.backend != backend {
            return Err(Error::unsupported(format!(
                "the bundle is for backend `{}`, not `{backend}`",
                self.backend
            )));
        }
        if self.arch != arch {
            return Err(Error::unsupported(format!(
                "the bundle is for {}, and this machine is {arch}: {remedy}",
                self.arch
            )));
        }
        let missing: Vec<_> = self.features.difference(features).map(String::as_str).collect();
        if missing.is_empty() {
            return Ok(());
        }
        Err(Error::unsupported(format!(
            "the bundle's kernels use {}, which this machine's processor lacks: {remedy}",
            missing.join(", ")
        )))
    }
}

/// Why a bundle is believed to be right and fast.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// What the judge checked.
    pub verdict: Verdict,
    /// The times beside those of the rivals, if it was timed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timing: Option<Contest>,
    /// Seconds below which the device cannot compute the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound_seconds: Option<f64>,
    /// What was fused into each kernel, in launch order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kernels: Vec<KernelSummary>,
}

/// A verified kernel with everything that is needed to run it and to trust it. See the [module documentation](self).
#[derive(Debug, Clone)]
pub struct Bundle {
    manifest: Manifest,
    evidence: Evidence,
    graph: Graph,
    sketch: String,
    source: String,
    module: Option<String>,
    artifact: Vec<u8>,
}

impl Bundle {
    /// A bundle of a candidate for `task` that was judged on `target`. `sketch` is the text that it was lowered from;
    /// empty if there is none.
    ///
    /// # Errors
    /// If the verdict is no pass in the task's accuracy class, or the candidate's plan is not one of the task;
    /// [`Unsupported`](crate::ErrorKind::Unsupported) for a Python module.
    pub fn new(
        task: &Task,
        target: &Target,
        candidate: Candidate,
        sketch: impl Into<String>,
        evidence: Evidence,
    ) -> Result<Self> {
        let Candidate { source, artifact } = candidate;
        if let SourceForm::Module { .. } = source.form {
            return Err(Error::unsupported(
                "a Python module with host code of its own is no bundle, which is called without Python; use its text as it is",
            ));
        }
        let mut manifest = Manifest::of(task, target, &source, artifact.plan.clone())?;
        if let Some(features) = artifact.features() {
            manifest.requires.features = features.map(str::to_owned).collect();
        }
        manifest.format = artifact.format;
        manifest.toolchain = artifact.metadata;
        let bundle = Self {
            manifest,
            evidence,
            graph: task.graph.clone(),
            sketch: sketch.into(),
            source: source.text,
            module: None,
            artifact: artifact.bytes,
        };
        check::bundle(&bundle).context("task", || &task.name)?;
        Ok(bundle)
    }

    /// A bundle of a candidate that a session tried. `artifact` is what was built from its source.
    ///
    /// # Errors
    /// As for [`new`](Self::new).
    pub fn from_attempt(
        task: &Task,
        outcome: &Outcome,
        attempt: &Attempt,
        artifact: Artifact,
    ) -> Result<Self> {
        let candidate = Candidate {
            source: attempt.source.clone(),
            artifact,
        };
        let evidence = Evidence {
            verdict: attempt.verdict.clone(),
            // Without a round there is nothing in it.
            timing: attempt.timing.clone().filter(|contest| contest.rounds > 0),
            bound_seconds: outcome.bound_seconds,
            kernels: outcome.kernels.clone(),
        };
        Self::new(task, &outcome.target, candidate, outcome.sketch.clone(), evidence)
    }

    /// Adds the PyTorch module that the task came from: its text, and where each input of the graph is in it.
    ///
    /// # Errors
    /// If there are not as many inputs as the graph has.
    pub fn with_module(mut self, text: impl Into<String>, inputs: Vec<ModuleInput>) -> Result<Self> {
        self.module = Some(text.into());
        self.manifest.module = inputs;
        check::bundle(&self)?;
        Ok(self)
    }

    /// Adds the structure of what the module's `forward` takes and returns.
    ///
    /// # Errors
    /// If it names tensors that the bundle has not, or not all that it has.
    pub fn with_call(mut self, call: ModuleCall) -> Result<Self> {
        self.manifest.call = Some(call);
        check::bundle(&self)?;
        Ok(self)
    }

    /// What it holds beside texts and bytes.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Why it is believed.
    pub fn evidence(&self) -> &Evidence {
        &self.evidence
    }

    /// The computation.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The tile program's text; empty if there is none.
    pub fn sketch(&self) -> &str {
        &self.sketch
    }

    /// The text of the PyTorch module that the task came from.
    pub fn module(&self) -> Option<&str> {
        self.module.as_deref()
    }

    /// The bytes that the device loads.
    pub fn artifact_bytes(&self) -> &[u8] {
        &self.artifact
    }

    /// The computation with what counts as right, to judge the bundle again. Inputs that only a module's own code can
    /// make are then drawn from the standard normal distribution.
    pub fn task(&self) -> Task {
        let mut task = Task::new(self.manifest.name.clone(), self.graph.clone());
        task.contract = self.manifest.contract.clone();
        task
    }

    /// The source and the artifact, as a judge takes them.
    pub fn candidate(&self) -> Candidate {
        let manifest = &self.manifest;
        Candidate {
            source: Source {
                dsl: manifest.dsl.clone(),
                text: self.source.clone(),
                form: SourceForm::Lowered {
                    plan: manifest.plan.clone(),
                },
                knobs: manifest.knobs.clone(),
            },
            artifact: Artifact {
                format: manifest.format.clone(),
                bytes: self.artifact.clone(),
                plan: manifest.plan.clone(),
                metadata: manifest.toolchain.clone(),
            },
        }
    }

    /// The file's content hash, in hexadecimal.
    pub fn content_hash(&self) -> Result<String> {
        Ok(file::hash(&file::members(self)?))
    }

    /// The bytes of the file.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        file::encode(self)
    }

    /// Reads the bytes of a file.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for what is no bundle, is damaged or contradicts itself;
    /// [`Unsupported`](crate::ErrorKind::Unsupported) for another version of the form.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let bundle = file::decode(bytes)?;
        check::bundle(&bundle)?;
        Ok(bundle)
    }

    /// Writes the file. It appears complete or not at all.
    pub fn write(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let failed = |e| Error::io(format!("cannot write the bundle {}", path.display()), e);
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.new", std::process::id()));
        let new = path.with_file_name(name);
        std::fs::write(&new, self.to_bytes()?)
            .and_then(|()| std::fs::rename(&new, path))
            .map_err(|e| {
                // What is left of a file that could not be written is of no use.
                let _ = std::fs::remove_file(&new);
                failed(e)
            })
    }

    /// Reads a file.
    ///
    /// # Errors
    /// As for [`from_bytes`](Self::from_bytes), and if the file cannot be read.
    pub fn read(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let bytes = read_bytes(path, MAX_BUNDLE)?;
        Self::from_bytes(&bytes).context("file", || path.display().to_string())
    }

    /// Whether bytes begin as those of a bundle do, of whatever version.
    pub fn is_bundle(bytes: &[u8]) -> bool {
        file::is_bundle(bytes)
    }
}
