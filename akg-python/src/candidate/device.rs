//! The results of a module that lie on a device.

use akg_core::error::Result;
use akg_core::verdict::{Failure, FailureKind};

use super::ModuleExecutor;
use crate::calls::{CandidateCall, Results};
use crate::results::Expected;
use crate::transfer::Files;

impl ModuleExecutor {
    /// Lets the worker copy results of a device to where they can be read, and compares them with their digests. Whether it
    /// says that inputs were changed.
    pub(super) fn fetch(&mut self, slots: &[usize]) -> Result<Result<bool, Failure>> {
        let take = CandidateCall::Take { slots };
        let results = match self.ask::<Results>(take, &Files::default(), FailureKind::WrongType)? {
            Ok((results, _)) => results,
            Err(failure) => return Ok(Err(failure)),
        };
        let expected = self.expected()?;
        let read = Expected::check(&expected, &results)
            .and_then(|()| self.kept.read(&self.halt, &expected, &results.places));
        if let Err(failure) = read {
            return Ok(Err(failure));
        }
        let late = slots.iter().any(|slot| {
            let said = self.digests.get(slot);
            said.is_some_and(|said| Some(said) != self.kept.digests(*slot).as_ref())
        });
        if late {
            let evidence = "the outputs are not what they were when the module had returned: it worked on when the clock had \
                            stopped, or they are not what it said";
            return Ok(Err(Failure::new(FailureKind::ClockMismatch, evidence)));
        }
        Ok(Ok(results.changed))
    }
}
