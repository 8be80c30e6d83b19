//! Keeping programs that run hostile code away from everything that is not their business.
//!
//! Every worker and tool is started through a *supervisor*: the worker program in another mode, freshly started and
//! with one thread, so that it can do between fork and exec what an embedder's process with its threads cannot. It
//! starts the program below itself with every restriction that the system offers, says what it reached before the
//! program runs, and afterwards ends whatever the program left behind.
//!
//! ```text
//! caller ── supervisor ─┬─ pid 1 of the program's own process ids (where the system has them)
//!                       └─ the program
//! ```

mod calls;
mod files;
mod lockdown;
mod namespaces;
mod refused;
mod report;
mod supervisor;
mod tree;

use std::os::fd::RawFd;
use std::path::PathBuf;

use akg_core::isolation::{Isolation, IsolationLevel};
use serde::{Deserialize, Serialize};

pub(crate) use lockdown::{lockdown, seal};
pub(crate) use refused::{Protected, name as refused_call};
pub(crate) use report::{Report, channel, receive};
pub(crate) use supervisor::confine;

use crate::process::ResourceLimits;

/// The exit status of a program that was ended because all its processes together used too much of something else than
/// memory.
pub(crate) const OVER_LIMIT: i32 = 118;

/// A group of restrictions that a system may lack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mechanism {
    /// Process ids, mounts, network and users of its own; a scratch directory with a hard quota.
    Namespaces,
    /// Rules for files.
    Landlock,
    /// Filters of system calls.
    Seccomp,
}

impl Mechanism {
    /// Every mechanism.
    pub const ALL: [Mechanism; 3] = [Mechanism::Namespaces, Mechanism::Landlock, Mechanism::Seccomp];
}

/// What a supervisor is told.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Spec {
    /// The private directory; the program starts in it.
    pub(crate) scratch: PathBuf,
    /// Bytes that it may hold.
    pub(crate) quota: u64,
    /// Directories in which the program sees names.
    pub(crate) listable: Vec<PathBuf>,
    /// Files and directories beside the system's that the program reads and executes.
    pub(crate) readable: Vec<PathBuf>,
    /// Files and directories that it also writes.
    pub(crate) writable: Vec<PathBuf>,
    pub(crate) limits: ResourceLimits,
    pub(crate) without: Vec<Mechanism>,
    pub(crate) at_most: IsolationLevel,
    pub(crate) required: IsolationLevel,
    /// The descriptor that takes the [`Report`]s.
    pub(crate) report: RawFd,
}

impl Spec {
    fn wants(&self, mechanism: Mechanism) -> bool {
        !self.without.contains(&mechanism)
    }

    /// What `missing` leaves.
    fn isolation(&self, missing: Vec<String>) -> Isolation {
        let reached = if missing.is_empty() {
            IsolationLevel::Strict
        } else {
            IsolationLevel::Basic
        };
        let level = reached.min(self.at_most);
        let mut isolation = Isolation { level, missing };
        if level < reached {
            isolation
                .missing
                .insert(0, format!("the caller wants no more than `{level}`"));
        }
        isolation
    }
}
