//! The same calls for callers without an async runtime.

use akg_core::backend::{Backend, BackendExt as _, Limits, RunOutput, RunRequest};
use akg_core::environment::{Environment, Message};
use akg_core::profile::Subject;
use akg_core::session::{Attempt, Outcome};
use akg_core::source::Source;
use akg_core::verdict::Failure;
use akg_core::{Agent, Profile, Result, Role, Session, Target, Task};
use futures::executor::block_on;

/// What an agent proposes. See [`Agent::step`].
pub fn step<R: Role>(agent: &dyn Agent<R>, context: &R::Context) -> Result<R::Proposal> {
    block_on(agent.step(context))
}

/// Runs a session to its end. See [`Session::run`].
pub fn run(session: &Session, task: &Task) -> Result<Outcome> {
    block_on(session.run(task))
}

/// Judges a source, whoever wrote it, on the session's device. See [`Session::judge`].
pub fn judge(session: &Session, source: Source, task: &Task) -> Result<(Attempt, Target)> {
    block_on(async {
        let target = session.target().await?;
        Ok((session.judge(source, task, &target).await?, target))
    })
}

/// What an environment says first. See [`Environment::begin`].
pub fn begin(environment: &mut Environment) -> Result<Vec<Message>> {
    block_on(environment.begin())
}

/// What an environment says to a line. See [`Environment::answer`].
pub fn answer(environment: &mut Environment, line: &str) -> Vec<Message> {
    block_on(environment.answer(line))
}

/// The devices of a backend. See [`Backend::devices`].
pub fn devices(backend: &dyn Backend) -> Result<Vec<Target>> {
    block_on(backend.devices())
}

/// Profiles an artifact. See [`Profile::measure`].
pub fn profile(
    subject: &Subject<'_>,
    backend: &dyn Backend,
    limits: &Limits,
    seed: u64,
) -> Result<Result<Profile, Failure>> {
    block_on(Profile::measure(subject, backend, limits, seed))
}

/// Runs an artifact once. See [`BackendExt::run`](akg_core::backend::BackendExt::run).
pub fn run_once(backend: &dyn Backend, request: RunRequest) -> Result<Result<RunOutput, Failure>> {
    block_on(backend.run(request))
}
