//! Ending a run from outside.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use akg::{Error, Result};
use futures::channel::oneshot;
use futures::executor::block_on;
use futures::future::{Either, select};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

/// Notices interrupt and termination: the first ends the run after the steps in progress, the second at once.
#[derive(Debug, Clone, Default)]
pub(super) struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Listens from now on.
    pub(super) fn listen() -> Result<Self> {
        let stop = Self::default();
        for signal in [SIGINT, SIGTERM] {
            // In this order: the second signal finds the flag set.
            flag::register_conditional_shutdown(signal, 128 + signal, stop.0.clone())
                .and_then(|_| flag::register(signal, stop.0.clone()))
                .map_err(|e| Error::io("cannot listen to signals", e))?;
        }
        Ok(stop)
    }

    /// Whether someone asked for the end.
    pub(super) fn asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Some work that this ends.
    pub(super) fn work(&self) -> Work {
        Work {
            stop: self.clone(),
            end: Arc::default(),
        }
    }
}

/// Work that can be ended between its steps.
#[derive(Debug, Clone)]
pub(super) struct Work {
    stop: Stop,
    /// Ends it.
    end: Arc<Mutex<Option<oneshot::Sender<()>>>>,
}

impl Work {
    /// Runs `work` to its end; `None` if a [step](Self::step_ended) ended after someone had asked for the end.
    pub(super) fn run<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let (end, ended) = oneshot::channel();
        *self.end.lock().unwrap_or_else(PoisonError::into_inner) = Some(end);
        match block_on(select(pin!(work), ended)) {
            Either::Left((value, _)) => Some(value),
            Either::Right(_) => None,
        }
    }

    /// Says that the work is at a point where it can end.
    pub(super) fn step_ended(&self) {
        let mut end = self.end.lock().unwrap_or_else(PoisonError::into_inner);
        if self.stop.asked()
            && let Some(end) = end.take()
        {
            // The work may have ended by itself.
            let _ = end.send(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_ends_with_a_step_after_it_was_asked_to() {
        let stop = Stop::default();
        let ended = stop.work();
        let work = |steps: usize| {
            let (stop, ended) = (stop.clone(), ended.clone());
            async move {
                for step in 0..steps {
                    if step == 3 {
                        stop.0.store(true, Ordering::Relaxed);
                    }
                    ended.step_ended();
                    let mut waited = false;
                    futures::future::poll_fn(|context| {
                        context.waker().wake_by_ref();
                        if std::mem::replace(&mut waited, true) {
                            std::task::Poll::Ready(())
                        } else {
                            std::task::Poll::Pending
                        }
                    })
                    .await;
                }
                steps
            }
        };
        assert_eq!(ended.run(work(3)), Some(3));
        assert_eq!(ended.run(work(10)), None);
    }
}
