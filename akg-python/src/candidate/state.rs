//! The state in which a module leaves its process, and how that ends.

use akg_core::error::{ErrorKind, Result};
use akg_core::verdict::{Failure, FailureKind};
use akg_worker::process::{Ended, RequestError};

use super::ModuleExecutor;
use crate::calls::{CandidateCall, Left};
use crate::transfer::Files;

impl ModuleExecutor {
    /// Compares the process, which stands still, with what it was before the module was loaded.
    pub(super) fn left_behind(&mut self) -> Result<Result<(), Failure>> {
        if let Err(failure) = self.check_process() {
            return Ok(Err(failure));
        }
        let left = self.ask::<Left>(CandidateCall::Left {}, &Files::default(), FailureKind::Crashed)?;
        Ok(left.and_then(|(left, _)| self.check_left(left)))
    }

    /// Takes what the worker says that the module left behind.
    pub(super) fn check_left(&mut self, left: Left) -> Result<(), Failure> {
        match left.left {
            None => Ok(()),
            Some(evidence) => Err(self.end(Failure::new(FailureKind::LeftBehind, evidence))),
        }
    }

    /// Compares what can be read of the process from outside.
    pub(super) fn check_process(&mut self) -> Result<(), Failure> {
        let Some(origin) = &self.origin else {
            return Ok(());
        };
        let failure = match origin.difference(&self.halt) {
            Ok(None) => return Ok(()),
            Ok(Some(what)) => {
                let evidence = format!("the candidate left its process in another state: {what}");
                Failure::new(FailureKind::LeftBehind, evidence)
            }
            Err(error) => {
                let evidence = format!("the state of the module's process cannot be read: {error}");
                Failure::new(FailureKind::Crashed, evidence)
            }
        };
        Err(self.end(failure))
    }
}

/// What the end of a worker says about the module in it, or what it reports, as a failure of this kind.
pub(super) fn failure(error: &RequestError, kind: FailureKind) -> Failure {
    let kind = match error {
        RequestError::Failed(error) if error.kind() == ErrorKind::OutOfResources => FailureKind::OutOfMemory,
        RequestError::Failed(_) => kind,
        RequestError::TimedOut { .. } => FailureKind::TimedOut,
        _ => FailureKind::Crashed,
    };
    let evidence = match error {
        RequestError::Failed(error) => error.to_string(),
        RequestError::Ended {
            how: Ended::Exited(status),
            stderr,
        } => format!("the module ended its process ({status}) {stderr}"),
        other => other.to_string(),
    };
    Failure::new(kind, evidence.trim_end())
}
