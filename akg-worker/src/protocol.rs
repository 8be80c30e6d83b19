//! What a caller and a worker say to each other, inside the envelope of [`process`](crate::process).
//!
//! The first call is [`Call::Hello`]; closing the pipe ends the worker. Tensors stay in [shared memory](crate::shm).

use std::path::PathBuf;

use akg_core::backend::{Poison, Timing, TimingPolicy};
use akg_core::dtype::DType;
use akg_core::expr::Bindings;
use akg_core::source::Artifact;
use akg_core::target::Target;
use akg_core::verdict::Failure;
use serde::{Deserialize, Serialize};

/// The version of these messages; both sides must have the same.
pub const VERSION: u32 = 1;

/// What the caller asks for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Call {
    /// Says the caller's [`VERSION`]; answered by [`Answer::Hello`].
    Hello {
        /// The caller's version.
        protocol: u32,
    },
    /// Describes the worker's device; answered by [`Answer::Device`].
    Describe,
    /// Loads an artifact, replacing the one before; answered by [`Answer::Loaded`] or [`Answer::Failed`].
    Load(Artifact),
    /// Runs the artifact once; answered by [`Answer::Ran`] or [`Answer::Failed`].
    Run(Execution),
    /// Times the artifact; answered by [`Answer::Timed`] or [`Answer::Failed`].
    Time(Execution, TimingPolicy),
}

/// What a worker answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Answer {
    /// The worker's version.
    Hello {
        /// The worker's [`VERSION`].
        protocol: u32,
    },
    /// The worker's device.
    Device(Target),
    /// The artifact is loaded.
    Loaded,
    /// The outputs are written.
    Ran {
        /// Whether every input held the same bytes afterwards.
        inputs_unchanged: bool,
    },
    /// The times.
    Timed(Timing),
    /// The candidate failed.
    Failed(Failure),
}

/// One execution of the loaded artifact.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Execution {
    /// Values of the plan's dims.
    pub dims: Bindings,
    /// The inputs, in the order of the plan's inputs.
    pub inputs: Vec<SharedView>,
    /// Memory for the outputs, in the order of the plan's outputs.
    pub outputs: Vec<SharedView>,
    /// What outputs and scratch hold before.
    pub poison: Poison,
}

/// A dense, row-major tensor at the start of a shared file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedView {
    /// The file.
    pub path: PathBuf,
    /// The element type.
    pub dtype: DType,
    /// The extents.
    pub shape: Vec<usize>,
}
