//! The same calls for callers without an async runtime.

use akg_core::backend::{Backend, RunOutput, RunRequest, Timing, TimingPolicy};
use akg_core::session::Outcome;
use akg_core::verdict::Failure;
use akg_core::{Result, Session, Target, Task};
use futures::executor::block_on;

/// Runs a session to its end. See [`Session::run`].
pub fn run(session: &Session, task: &Task) -> Result<Outcome> {
    block_on(session.run(task))
}

/// The devices of a backend. See [`Backend::devices`].
pub fn devices(backend: &dyn Backend) -> Result<Vec<Target>> {
    block_on(backend.devices())
}

/// Runs an artifact once. See [`Backend::run`].
pub fn run_once(backend: &dyn Backend, request: RunRequest) -> Result<Result<RunOutput, Failure>> {
    block_on(backend.run(request))
}

/// Times an artifact. See [`Backend::time`].
pub fn time(
    backend: &dyn Backend,
    request: RunRequest,
    policy: TimingPolicy,
) -> Result<Result<Timing, Failure>> {
    block_on(backend.time(request, policy))
}
