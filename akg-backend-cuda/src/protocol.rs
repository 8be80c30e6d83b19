//! What a caller and a worker say to each other, inside the envelope of [`akg_worker::process`].
//!
//! The worker's host code is akg's own; only device code is the candidate's, and that cannot speak. So what the worker
//! says can be believed as long as it lives.

use akg_core::backend::{Cache, Poison};
use akg_core::expr::Bindings;
use akg_core::profile::Observed;
use akg_core::source::Artifact;
use akg_core::target::Target;
use akg_core::verdict::Failure;
use serde::{Deserialize, Serialize};

/// The name of the worker's service; a change of these messages changes it.
pub(crate) const SERVICE: &str = "cuda-3";

/// What the caller asks for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Call {
    /// Describes the devices; answered by [`Answer::Devices`] or [`Answer::Absent`].
    Describe,
    /// Makes a context on a device; answered by [`Answer::Opened`] or [`Answer::Absent`].
    Open {
        /// The device's number.
        device: u32,
    },
    /// Loads an artifact, once in a worker's life; answered by [`Answer::Loaded`] or [`Answer::Failed`].
    Load {
        /// What to load.
        artifact: Artifact,
        /// Bytes that it may use beyond inputs and outputs.
        memory: u64,
    },
    /// Puts the tensors of one slot in place; answered by [`Answer::Bound`] or [`Answer::Failed`]. Slots come in their order, and
    /// the first one replaces all that was bound. Comes with the files of the inputs, but in later slots without those that
    /// all slots share.
    Bind {
        /// Values of the plan's dims.
        dims: Bindings,
        /// The placement.
        placement: u32,
        /// What outputs and scratch of the slot hold before.
        poison: Poison,
        /// The number of the slot.
        slot: usize,
        /// The number of slots.
        slots: usize,
        /// For each tensor of the plan, whether all slots share it.
        shared: Vec<bool>,
    },
    /// Executes the plan on the slots, one after the other and round; answered by [`Answer::Executed`] or [`Answer::Failed`].
    Execute {
        /// The slot to begin with.
        first: usize,
        /// The number of calls.
        calls: u32,
        /// What the caches hold before each call.
        cache: Cache,
    },
    /// Executes the launches of the first slot one by one; answered by [`Answer::Observed`] or [`Answer::Failed`].
    Observe {
        /// How often.
        calls: u32,
    },
    /// Looks for outputs that are as they were bound, in the first slots; answered by [`Answer::Untouched`].
    LookForUntouched {
        /// The number of slots.
        used: usize,
    },
    /// Checks what is around the tensors of a slot and copies its outputs; answered by [`Answer::Taken`] or
    /// [`Answer::Failed`]. Comes with the files of the outputs.
    Take {
        /// The slot.
        slot: usize,
    },
}

/// What a worker answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Answer {
    /// The devices.
    Devices(Vec<Target>),
    /// Why there is no device.
    Absent(String),
    /// The context exists.
    Opened,
    /// The artifact is loaded.
    Loaded,
    /// The tensors are in place.
    Bound,
    /// The plan was executed.
    Executed {
        /// How long that took by the device's clock.
        nanoseconds: u64,
    },
    /// What each launch took and uses.
    Observed(Vec<Observed>),
    /// Slots with such outputs.
    Untouched(Vec<usize>),
    /// The outputs are written.
    Taken {
        /// Whether all inputs held the same bytes afterwards.
        inputs_unchanged: bool,
    },
    /// The candidate failed.
    Failed(Failure),
}
