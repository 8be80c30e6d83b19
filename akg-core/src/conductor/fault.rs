//! What a failure says about what to do, before anybody is asked.

use crate::verdict::{Failure, FailureKind};

/// What is at fault when a candidate fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fault {
    /// A place in the text, to which the evidence points.
    Local,
    /// The values: of a slip in the text as well as of the design.
    Values,
    /// The structure: it takes too much time or memory.
    Structure,
    /// The intent: it does not do the work.
    Deceit,
    /// The machine, which fails whatever is tried.
    Environment,
}

/// What toolchains and loaders say when the machine is at fault.
const ENVIRONMENT: [&str; 5] = [
    "No space left on device",
    "Disk quota exceeded",
    "Cannot allocate memory",
    "Too many open files",
    "Read-only file system",
];

impl Fault {
    /// Classifies a failure.
    pub fn of(failure: &Failure) -> Self {
        use FailureKind as Kind;
        let made = matches!(failure.kind, Kind::CompileFailed | Kind::LoadFailed);
        if made && ENVIRONMENT.iter().any(|said| failure.evidence.contains(said)) {
            return Fault::Environment;
        }
        match failure.kind {
            Kind::WrongValues => Fault::Values,
            Kind::TimedOut | Kind::OutOfMemory => Fault::Structure,
            Kind::Stale | Kind::NoWork | Kind::Implausible | Kind::ClockMismatch => Fault::Deceit,
            _ => Fault::Local,
        }
    }
}
