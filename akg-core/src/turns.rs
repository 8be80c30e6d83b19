//! The order in which those who share a device use it.

use std::sync::{Arc, PoisonError, RwLock};

use futures::lock::{Mutex, OwnedMutexGuard};

/// The turns that are taken on one device: executions, which are timed, have it for themselves; what goes on before and
/// after them shares it; and one contest ends before the next begins. Cloning shares the device.
#[derive(Debug, Clone, Default)]
pub struct Turns {
    device: Arc<RwLock<()>>,
    contest: Arc<Mutex<()>>,
}

/// The right to hold a contest, until it is dropped.
#[derive(Debug)]
pub struct ContestTurn(#[expect(dead_code, reason = "held, not read")] OwnedMutexGuard<()>);

impl Turns {
    /// Does something that shares the device with others.
    pub fn beside<T>(&self, work: impl FnOnce() -> T) -> T {
        let _shared = self.device.read().unwrap_or_else(PoisonError::into_inner);
        work()
    }

    /// Does something that has the device for itself.
    pub fn alone<T>(&self, work: impl FnOnce() -> T) -> T {
        let _alone = self.device.write().unwrap_or_else(PoisonError::into_inner);
        work()
    }

    /// Waits until no other contest is held on the device. In between its executions, others go on sharing the device.
    pub async fn contest(&self) -> ContestTurn {
        ContestTurn(self.contest.clone().lock_owned().await)
    }
}
