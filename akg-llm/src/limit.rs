//! Not asking too much at once.

use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use akg_core::chat::{ChatModel, ChatReply, ChatRequest, Sink};
use akg_core::{Error, Result};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::layer::{around, pass};
use crate::runtime;

/// A model that is asked by a bounded number of calls at a time, and at a bounded rate. Who comes too early waits, first
/// come first served.
#[derive(Debug)]
pub struct Limit {
    model: Arc<dyn ChatModel>,
    gate: Gate,
}

impl Limit {
    /// Lets `at_once` calls at a time through to `model`, and `per_minute` each minute, evenly spaced.
    pub fn new(
        model: Arc<dyn ChatModel>,
        at_once: Option<NonZeroUsize>,
        per_minute: Option<NonZeroU32>,
    ) -> Self {
        let gate = Gate::new(at_once, per_minute);
        Self { model, gate }
    }

    async fn run(&self, request: &ChatRequest, sink: Option<Sink<'_>>) -> Result<ChatReply> {
        let _pass = self.gate.pass().await?;
        pass(&*self.model, request, sink).await
    }
}

around!(Limit);

/// Lets a bounded number of calls through at a time, and at a bounded rate.
#[derive(Debug)]
pub(crate) struct Gate {
    at_once: Semaphore,
    rate: Option<Rate>,
}

impl Gate {
    pub(crate) fn new(at_once: Option<NonZeroUsize>, per_minute: Option<NonZeroU32>) -> Self {
        let permits = at_once.map_or(Semaphore::MAX_PERMITS, NonZeroUsize::get);
        Self {
            at_once: Semaphore::new(permits.min(Semaphore::MAX_PERMITS)),
            rate: per_minute.map(|n| Rate::new(Duration::from_secs(60) / n.get())),
        }
    }

    /// Waits until a call may begin. It is under way for as long as the pass is kept.
    pub(crate) async fn pass(&self) -> Result<SemaphorePermit<'_>> {
        let permit = self.at_once.acquire().await;
        let permit =
            permit.map_err(|e| Error::unexpected("the limit of calls to a model is gone").caused_by(e))?;
        if let Some(rate) = &self.rate {
            let wait = rate.take(Instant::now());
            if !wait.is_zero() {
                runtime::sleep(wait).await?;
            }
        }
        Ok(permit)
    }
}

/// Evenly spaced starts.
#[derive(Debug)]
struct Rate {
    every: Duration,
    next: Mutex<Option<Instant>>,
}

impl Rate {
    fn new(every: Duration) -> Self {
        let next = Mutex::new(None);
        Self { every, next }
    }

    /// Takes the next start, and says how long it is from `now`.
    fn take(&self, now: Instant) -> Duration {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let start = next.map_or(now, |next| next.max(now));
        *next = Some(start + self.every);
        start - now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_are_evenly_spaced_and_unused_ones_are_lost() {
        const SECOND: Duration = Duration::from_secs(1);
        let (rate, now) = (Rate::new(SECOND), Instant::now());
        assert_eq!([0; 3].map(|_| rate.take(now)), [0, 1, 2].map(|n| SECOND * n));
        assert_eq!(rate.take(now + SECOND * 2), SECOND);
        let later = now + SECOND * 100;
        assert_eq!([0; 2].map(|_| rate.take(later)), [0, 1].map(|n| SECOND * n));
    }
}
