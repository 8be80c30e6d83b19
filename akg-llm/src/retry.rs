//! Asking again.

use std::sync::Arc;
use std::time::Duration;

use akg_core::chat::{ChatEvent, ChatModel, ChatReply, ChatRequest, Sink};
use akg_core::{Error, Result};
use rand::{Rng, RngExt as _};

use crate::layer::{around, pass};
use crate::runtime;

/// How often to ask again, and how long to wait before.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Backoff {
    /// How often to ask again.
    pub retries: u32,
    /// The wait before the first time; it doubles from time to time.
    pub first: Duration,
    /// The longest wait. A server that wants a longer one is not asked again.
    pub longest: Duration,
}

impl Default for Backoff {
    /// Six times, after one second first and two minutes at most.
    fn default() -> Self {
        Self {
            retries: 6,
            first: Duration::from_secs(1),
            longest: Duration::from_secs(120),
        }
    }
}

impl Backoff {
    /// How long to wait after `error` before asking for the time `retry`, counted from zero; `None` if asking again is of no
    /// use. Half of the wait is left to chance, so that those who were refused together do not come back together.
    pub fn wait(&self, retry: u32, error: &Error, rng: &mut impl Rng) -> Option<Duration> {
        if retry >= self.retries || !error.kind().is_temporary() {
            return None;
        }
        let doubled = self.first.saturating_mul(2u32.saturating_pow(retry));
        let jittered = doubled.min(self.longest).mul_f64(rng.random_range(0.5..=1.0));
        match error.retry_after() {
            None => Some(jittered),
            // As late as told, and a little later by chance.
            Some(told) if told <= self.longest => Some(told + jittered.min(self.first)),
            Some(_) => None,
        }
    }

    /// Tries that are this patient.
    pub(crate) fn tries(self) -> Tries {
        let backoff = self;
        Tries { backoff, retry: 0 }
    }
}

/// Tries of one call.
#[derive(Debug)]
pub(crate) struct Tries {
    backoff: Backoff,
    retry: u32,
}

impl Tries {
    /// Waits until the next try after one that failed.
    ///
    /// # Errors
    /// The error of that try, if another is of no use.
    pub(crate) async fn after(&mut self, error: Error) -> Result<()> {
        let Some(wait) = self.backoff.wait(self.retry, &error, &mut rand::rng()) else {
            return Err(match self.retry {
                0 => error,
                retry => error.with("asked", format!("{} times", retry + 1)),
            });
        };
        self.retry += 1;
        runtime::sleep(wait).await
    }
}

/// A model that is asked again after trouble that may pass.
///
/// Where a reply broke off while it streamed, the sink is told [`ChatEvent::Restart`] first.
#[derive(Debug)]
pub struct Retry {
    model: Arc<dyn ChatModel>,
    backoff: Backoff,
}

impl Retry {
    /// Asks `model` as often as `backoff` says.
    pub fn new(model: Arc<dyn ChatModel>, backoff: Backoff) -> Self {
        Self { model, backoff }
    }

    async fn run(&self, request: &ChatRequest, mut sink: Option<Sink<'_>>) -> Result<ChatReply> {
        let mut tries = self.backoff.tries();
        loop {
            let mut begun = false;
            let outcome = match &mut sink {
                None => pass(&*self.model, request, None).await,
                Some(sink) => {
                    let mut note = |event| {
                        begun = true;
                        sink(event);
                    };
                    pass(&*self.model, request, Some(&mut note)).await
                }
            };
            match outcome {
                Ok(reply) => return Ok(reply),
                Err(error) => tries.after(error).await?,
            }
            if begun && let Some(sink) = &mut sink {
                sink(ChatEvent::Restart);
            }
        }
    }
}

around!(Retry);

#[cfg(test)]
mod tests {
    use akg_core::ErrorKind;
    use rand::SeedableRng as _;
    use rand_chacha::ChaCha8Rng;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn waits_double_within_their_bounds() {
        let backoff = Backoff::default();
        let busy = Error::new(ErrorKind::Unavailable, "busy");
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let mut different = std::collections::BTreeSet::new();
        for _ in 0..100 {
            for (retry, most) in [(0, 1), (1, 2), (2, 4), (5, 32)] {
                let wait = backoff.wait(retry, &busy, &mut rng).unwrap();
                assert!(
                    wait <= SECOND * most && wait >= SECOND * most / 2,
                    "{retry}: {wait:?}"
                );
                different.insert(wait);
            }
        }
        assert!(different.len() > 300);
        assert_eq!(backoff.wait(6, &busy, &mut rng), None);
    }

    #[test]
    fn the_longest_wait_bounds_all_and_nothing_overflows() {
        let backoff = Backoff {
            retries: u32::MAX,
            longest: SECOND * 3,
            ..Backoff::default()
        };
        let busy = Error::new(ErrorKind::Timeout, "slow");
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        assert!(backoff.wait(u32::MAX - 1, &busy, &mut rng).unwrap() <= SECOND * 3);
    }

    #[test]
    fn nobody_comes_back_before_the_server_said() {
        let backoff = Backoff::default();
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let told = |seconds| Error::new(ErrorKind::Unavailable, "busy").retry_in(SECOND * seconds);
        for seconds in [0, 1, 100, 120] {
            let wait = backoff.wait(0, &told(seconds), &mut rng).unwrap();
            assert!(
                wait >= SECOND * seconds && wait <= SECOND * (seconds + 1),
                "{wait:?}"
            );
        }
        assert_eq!(backoff.wait(0, &told(121), &mut rng), None);
    }

    #[test]
    fn what_does_not_pass_is_not_tried_again() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        for kind in [
            ErrorKind::InvalidInput,
            ErrorKind::Unsupported,
            ErrorKind::BudgetSpent,
        ] {
            assert_eq!(
                Backoff::default().wait(0, &Error::new(kind, "no"), &mut rng),
                None
            );
        }
    }
}
