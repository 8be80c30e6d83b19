//! Executors that block, as what asynchronous backends load.

use std::fmt;
use std::time::Duration;

use akg_core::backend::{Cache, Call, Execution, Loaded, RunOutput, Sanitizer};
use akg_core::error::{Error, Result};
use akg_core::expr::Bindings;
use akg_core::isolation::Isolation;
use akg_core::profile::Observation;
use akg_core::turns::Turns;
use akg_core::verdict::Failure;
use async_trait::async_trait;
use blocking::unblock;

/// An artifact in a worker process of its own, whose caller waits for it. [`Loaded`] says what each method does.
pub trait Execute: Send + fmt::Debug + 'static {
    /// What contains the candidate.
    fn isolation(&self) -> &Isolation;

    /// What the caller cannot see of the candidate itself.
    fn gaps(&self) -> Vec<String> {
        Vec::new()
    }

    /// See [`Loaded::framework_share`].
    fn framework_share(&self) -> Option<f64> {
        None
    }

    /// The number of calls that can be bound at a time.
    fn slots(&self, dims: &Bindings) -> Result<usize>;

    /// Puts the tensors of calls in place, which were checked to have the same dims and placement. What that needs of the device
    /// is done beside others.
    fn bind(&mut self, calls: Vec<Call>, turns: &Turns) -> Result<Result<(), Failure>>;

    /// Executes the plan on the slots, one after the other.
    fn execute(&mut self, calls: u32, cache: Cache) -> Result<Result<Duration, Failure>>;

    /// The outputs in these slots. What that needs of the device is done beside others.
    fn take(&mut self, slots: &[usize], turns: &Turns) -> Result<Result<Vec<RunOutput>, Failure>>;

    /// Slots in whose outputs a stretch holds what was put there before.
    fn untouched(&mut self, used: usize) -> Result<Vec<usize>> {
        let _ = used;
        Ok(Vec::new())
    }

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

/// Makes an executor on a thread that may wait, which takes these turns.
pub async fn load<E: Execute>(
    turns: &Turns,
    make: impl FnOnce() -> Result<Result<E, Failure>> + Send + 'static,
) -> Result<Result<Box<dyn Loaded>, Failure>> {
    let own = turns.clone();
    let executor = unblock(move || own.beside(make)).await?;
    Ok(executor.map(|executor| {
        Box::new(Seat {
            isolation: executor.isolation().clone(),
            executor: Some(executor),
            turns: turns.clone(),
        }) as Box<dyn Loaded>
    }))
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
        let mut executor = self.executor.take().ok_or_else(given_up)?;
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

fn given_up() -> Error {
    Error::invalid("an earlier request was given up before its end; load the artifact again")
}

#[async_trait]
impl<E: Execute> Loaded for Seat<E> {
    fn isolation(&self) -> &Isolation {
        &self.isolation
    }

    fn gaps(&self) -> Vec<String> {
        self.executor.as_ref().map(Execute::gaps).unwrap_or_default()
    }

    fn framework_share(&self) -> Option<f64> {
        self.executor.as_ref().and_then(Execute::framework_share)
    }

    async fn bind(&mut self, call: Call) -> Result<Result<(), Failure>> {
        self.bind_slots(vec![call]).await
    }

    fn slots(&self, dims: &Bindings) -> Result<usize> {
        self.executor.as_ref().ok_or_else(given_up)?.slots(dims)
    }

    async fn bind_slots(&mut self, calls: Vec<Call>) -> Result<Result<(), Failure>> {
        let first = calls
            .first()
            .ok_or_else(|| Error::invalid("there is no call to bind"))?;
        if calls
            .iter()
            .any(|c| c.dims != first.dims || c.placement != first.placement)
        {
            return Err(Error::invalid(
                "calls of one bind have the same dims and placement",
            ));
        }
        if calls.len() > 1 {
            let (slots, count) = (self.slots(&first.dims)?, calls.len());
            if count > slots {
                let message = format!("this artifact has {slots} slots, but {count} calls were given");
                return Err(Error::invalid(message));
            }
        }
        self.with(|executor, turns| executor.bind(calls, turns)).await
    }

    async fn execute(&mut self, calls: u32, cache: Cache) -> Result<Result<Duration, Failure>> {
        self.with(move |executor, turns| turns.alone(|| executor.execute(calls, cache)))
            .await
    }

    async fn execute_all(&mut self, executions: &[Execution]) -> Result<Result<Vec<Duration>, Failure>> {
        let executions = executions.to_vec();
        self.with(move |executor, turns| {
            turns.alone(|| {
                let mut times = Vec::with_capacity(executions.len());
                for Execution { calls, cache } in executions {
                    match executor.execute(calls, cache)? {
                        Ok(time) => times.push(time),
                        Err(failure) => return Ok(Err(failure)),
                    }
                }
                Ok(Ok(times))
            })
        })
        .await
    }

    async fn take(&mut self) -> Result<Result<RunOutput, Failure>> {
        let taken = self.take_slots(&[0]).await?;
        let only = |mut outputs: Vec<RunOutput>| {
            outputs
                .pop()
                .ok_or_else(|| Error::unexpected("a slot was left out"))
        };
        taken
            .map(only)
            .map_or_else(|failure| Ok(Err(failure)), |output| output.map(Ok))
    }

    async fn take_slots(&mut self, slots: &[usize]) -> Result<Result<Vec<RunOutput>, Failure>> {
        let slots = slots.to_vec();
        self.with(move |executor, turns| executor.take(&slots, turns))
            .await
    }

    async fn untouched(&mut self, used: usize) -> Result<Vec<usize>> {
        self.with(move |executor, turns| turns.beside(|| executor.untouched(used)))
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
