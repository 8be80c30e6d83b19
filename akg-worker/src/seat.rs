//! Executors that block, as what asynchronous backends load.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use akg_core::backend::{Cache, Call, Loaded, RunOutput, Sanitizer};
use akg_core::error::{Error, Result};
use akg_core::isolation::Isolation;
use akg_core::profile::Observation;
use akg_core::verdict::Failure;
use async_trait::async_trait;
use blocking::unblock;

/// An artifact in a worker process of its own, whose caller waits for it. [`Loaded`] says what each method does.
pub trait Execute: Send + fmt::Debug + 'static {
    /// What contains the candidate.
    fn isolation(&self) -> &Isolation;

    /// Puts tensors in place.
    fn bind(&mut self, call: Call) -> Result<Result<(), Failure>>;

    /// Executes the plan on what is bound.
    fn execute(&mut self, calls: u32, cache: Cache) -> Result<Result<Duration, Failure>>;

    /// The outputs as they are now.
    fn take(&mut self) -> Result<Result<RunOutput, Failure>>;

    /// What each launch takes and uses.
    fn observe(&mut self, calls: u32) -> Result<Result<Observation, Failure>> {
        let _ = calls;
        Err(Error::unsupported(
            "this backend does not observe single launches",
        ))
    }

    /// Executes the plan on what is bound while a sanitizer watches.
    fn sanitize(&mut self, sanitizer: Sanitizer) -> Result<Result<(), Failure>> {
        Err(sanitizer.unsupported())
    }
}

/// The turns that executors take on one device: executions, which are timed, have it for themselves; what goes on before
/// and after them shares it. Cloning shares the device.
#[derive(Debug, Clone, Default)]
pub struct Turns(Arc<RwLock<()>>);

impl Turns {
    /// Does something that shares the device with others.
    pub fn beside<T>(&self, work: impl FnOnce() -> T) -> T {
        let _shared = self.0.read().unwrap_or_else(PoisonError::into_inner);
        work()
    }

    /// Does something that has the device for itself.
    pub fn alone<T>(&self, work: impl FnOnce() -> T) -> T {
        let _alone = self.0.write().unwrap_or_else(PoisonError::into_inner);
        work()
    }

    /// Makes an executor on a thread that may wait.
    pub async fn load<E: Execute>(
        &self,
        make: impl FnOnce() -> Result<Result<E, Failure>> + Send + 'static,
    ) -> Result<Result<Box<dyn Loaded>, Failure>> {
        let turns = self.clone();
        let executor = unblock(move || turns.beside(make)).await?;
        Ok(executor.map(|executor| {
            Box::new(Seat {
                isolation: executor.isolation().clone(),
                executor: Some(executor),
                turns: self.clone(),
            }) as Box<dyn Loaded>
        }))
    }
}

/// An executor and its turns.
#[derive(Debug)]
struct Seat<E> {
    /// Away while a thread works with it; lost if nobody waited for that thread.
    executor: Option<E>,
    isolation: Isolation,
    turns: Turns,
}

impl<E: Execute> Seat<E> {
    /// Works with the executor on a thread that may wait.
    async fn with<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut E, &Turns) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let mut executor = self.executor.take().ok_or_else(|| {
            Error::invalid("an earlier request was given up before its end; load the artifact again")
        })?;
        let turns = self.turns.clone();
        let (executor, outcome) = unblock(move || {
            let outcome = work(&mut executor, &turns);
            (executor, outcome)
        })
        .await;
        self.executor = Some(executor);
        outcome
    }
}

#[async_trait]
impl<E: Execute> Loaded for Seat<E> {
    fn isolation(&self) -> &Isolation {
        &self.isolation
    }

    async fn bind(&mut self, call: Call) -> Result<Result<(), Failure>> {
        self.with(|executor, turns| turns.beside(|| executor.bind(call)))
            .await
    }

    async fn execute(&mut self, calls: u32, cache: Cache) -> Result<Result<Duration, Failure>> {
        self.with(move |executor, turns| turns.alone(|| executor.execute(calls, cache)))
            .await
    }

    async fn take(&mut self) -> Result<Result<RunOutput, Failure>> {
        self.with(|executor, turns| turns.beside(|| executor.take()))
            .await
    }

    async fn observe(&mut self, calls: u32) -> Result<Result<Observation, Failure>> {
        self.with(move |executor, turns| turns.alone(|| executor.observe(calls)))
            .await
    }

    async fn sanitize(&mut self, sanitizer: Sanitizer) -> Result<Result<(), Failure>> {
        self.with(move |executor, turns| turns.alone(|| executor.sanitize(sanitizer)))
            .await
    }
}
