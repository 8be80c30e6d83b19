//! What takes part in a contest.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::backend::{Cache, Call, Loaded, RunOutput};
use crate::error::{Error, Result};
use crate::verdict::Failure;

/// What takes part in a contest. A side that fails is the inner `Err(Failure)`.
#[async_trait]
pub trait Side: Send {
    /// The name in reports.
    fn name(&self) -> &str;

    /// Prepares new data at new addresses, untimed. Sides of one contest that choose by the same seed choose the same
    /// data for the same `round`.
    async fn refresh(&mut self, round: u32) -> Result<Result<(), Failure>>;

    /// Executes `calls` times on what was prepared.
    ///
    /// Gives the wall time by the judge's clock. It includes a constant for asking and answering, which `calls` of 0
    /// measures. With [`Cache::Cold`] the caches are emptied first, outside that time.
    async fn execute(&mut self, calls: u32, cache: Cache) -> Result<Result<Duration, Failure>>;

    /// Checks what the last execution left in the outputs. [`refresh`](Self::refresh) comes before the next execution.
    async fn verify(&mut self) -> Result<Result<(), Failure>>;

    /// What the side says about its last execution.
    fn testimony(&self) -> Testimony {
        Testimony::default()
    }
}

/// What a side says about its last execution: reported beside what the judge measured, never instead.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Testimony {
    /// The time of all calls by the side's own clock.
    pub time: Option<Duration>,
    /// Pages that the system had to supply meanwhile.
    pub page_faults: Option<u64>,
}

/// Judges the outputs of one of a side's calls, given by its position.
pub type Check = Arc<dyn Fn(usize, &RunOutput) -> Result<Option<Failure>> + Send + Sync>;

/// A loaded artifact as a side.
pub struct LoadedSide {
    name: String,
    loaded: Box<dyn Loaded>,
    calls: Vec<Call>,
    check: Check,
    seed: u64,
    /// The position of the call that is bound.
    bound: usize,
}

impl LoadedSide {
    /// A side that takes one of `calls` for each round, at random by `seed`. They should differ in data and placement.
    pub fn new(
        name: impl Into<String>,
        loaded: Box<dyn Loaded>,
        calls: Vec<Call>,
        check: Check,
        seed: u64,
    ) -> Self {
        Self {
            name: name.into(),
            loaded,
            calls,
            check,
            seed,
            bound: 0,
        }
    }
}

impl fmt::Debug for LoadedSide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadedSide")
            .field("name", &self.name)
            .field("loaded", &self.loaded)
            .field("calls", &self.calls.len())
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Side for LoadedSide {
    fn name(&self) -> &str {
        &self.name
    }

    async fn refresh(&mut self, round: u32) -> Result<Result<(), Failure>> {
        self.bound = choice(self.seed, round, self.calls.len());
        let call = self
            .calls
            .get(self.bound)
            .ok_or_else(|| Error::invalid("a side needs at least one call to execute"))?;
        self.loaded.bind(call.clone()).await
    }

    async fn execute(&mut self, calls: u32, cache: Cache) -> Result<Result<Duration, Failure>> {
        self.loaded.execute(calls, cache).await
    }

    async fn verify(&mut self) -> Result<Result<(), Failure>> {
        let output = match self.loaded.take().await? {
            Ok(output) => output,
            Err(failure) => return Ok(Err(failure)),
        };
        Ok((self.check)(self.bound, &output)?.map_or(Ok(()), Err))
    }
}

/// Which of `count` data sets is used in `round`.
pub fn choice(seed: u64, round: u32, count: usize) -> usize {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(u64::from(round));
    rng.random_range(0..count.max(1))
}
