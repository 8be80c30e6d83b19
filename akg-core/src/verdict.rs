//! What the verifier decided, as data.

use serde::{Deserialize, Serialize};

/// Why a candidate failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum FailureKind {
    /// The DSL's rules or syntax check rejected the source.
    Rejected,
    /// The toolchain rejected the source.
    CompileFailed,
    /// The artifact could not be loaded, or a kernel's symbol is missing.
    LoadFailed,
    /// The candidate died of a signal or ended its process.
    Crashed,
    /// The candidate ran past its time limit.
    TimedOut,
    /// The candidate ran past its memory limit.
    OutOfMemory,
    /// An output has the wrong element type, shape or count.
    WrongType,
    /// An output has elements that were never written.
    Unwritten,
    /// An output's values are wrong.
    WrongValues,
    /// An input was changed.
    InputChanged,
}

impl FailureKind {
    /// The kebab-case name used in messages and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            FailureKind::Rejected => "rejected",
            FailureKind::CompileFailed => "compile-failed",
            FailureKind::LoadFailed => "load-failed",
            FailureKind::Crashed => "crashed",
            FailureKind::TimedOut => "timed-out",
            FailureKind::OutOfMemory => "out-of-memory",
            FailureKind::WrongType => "wrong-type",
            FailureKind::Unwritten => "unwritten",
            FailureKind::WrongValues => "wrong-values",
            FailureKind::InputChanged => "input-changed",
        }
    }
}

/// A failure with its evidence: compiler output, signal, first wrong element.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    /// Why.
    pub kind: FailureKind,
    /// The evidence, for people and for a fixing agent.
    pub evidence: String,
}

impl Failure {
    /// A failure of `kind` with its evidence.
    pub fn new(kind: FailureKind, evidence: impl Into<String>) -> Self {
        Self {
            kind,
            evidence: evidence.into(),
        }
    }
}
