//! What a caller and a worker say to each other, inside the envelope of [`process`](crate::process).
//!
//! The first call is [`Call::Hello`]; closing the connection ends the worker. Tensors stay in shared memory, whose
//! descriptors come with [`Call::Place`].

use std::ops::Range;

use akg_core::expr::Bindings;
use akg_core::source::Artifact;
use akg_core::target::Target;
use akg_core::verdict::Failure;
use serde::{Deserialize, Serialize};

/// The version of these messages; both sides must have the same.
pub const VERSION: u32 = 4;

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
    /// Makes everything ready for an artifact, once in a worker's life, without touching it; answered by
    /// [`Answer::Prepared`] or [`Answer::Failed`].
    Prepare {
        /// What will be loaded.
        artifact: Artifact,
        /// Threads for cooperative launches: none can be started once the artifact is loaded.
        cooperative: usize,
    },
    /// Loads what was prepared; answered by [`Answer::Loaded`] or [`Answer::Failed`].
    Load,
    /// Maps the tensors' memory and prepares the arguments of every slot; answered by [`Answer::Placed`]. Comes with two
    /// descriptors: the file of the inputs and that of outputs and scratch.
    Place {
        /// Values of the plan's dims.
        dims: Bindings,
        /// The placement: the same one finds tensors at the same addresses.
        placement: u32,
        /// The number of slots.
        slots: usize,
        /// For each tensor of the plan, whether all slots share it.
        shared: Vec<bool>,
    },
    /// Executes the plan on the slots, one after the other and round; answered by [`Answer::Executed`] or [`Answer::Faulted`].
    Execute {
        /// The slot to begin with.
        first: usize,
        /// The number of calls.
        calls: u32,
    },
}

/// What a worker answers. Once an artifact is loaded, all of it may be the candidate's invention.
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
    Device(Box<Target>),
    /// The artifact can be loaded.
    Prepared {
        /// Why the worker could not give up the rights that kernels do not need, if so.
        unlocked: Option<String>,
        /// Memory below the stacks of the worker's threads that has no rights.
        guards: Vec<Range<u64>>,
        /// The addresses that are reserved for tensors.
        tensors: Range<u64>,
    },
    /// The artifact is loaded.
    Loaded,
    /// The memory is mapped.
    Placed,
    /// The plan was executed.
    Executed {
        /// How long that took by the worker's clock.
        nanoseconds: u64,
        /// What the kernels did not restore, of what only the worker sees.
        left_behind: Option<String>,
    },
    /// The candidate accessed memory that it must not, and is gone.
    Faulted(Fault),
    /// The candidate failed.
    Failed(Failure),
}

/// A forbidden access near a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// The tensor, in the order of the plan and slot after slot; `None` if the address belongs to another placement.
    pub tensor: Option<usize>,
    /// Where, in bytes from the tensor's beginning.
    pub offset: i64,
    /// Whether it was a write, where the processor says so.
    pub write: Option<bool>,
}
