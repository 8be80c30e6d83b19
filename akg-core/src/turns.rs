//! The order in which those who share a device use it.

use std::sync::{Arc, PoisonError, RwLock};

/// The turns that are taken on one device: executions, which are timed, have it for themselves, and what goes on before and
/// after them shares it. So several contests can go on at the same time, each of whose sides meets the others' work as
/// often, because sides take turns in random order. Cloning shares the device.
#[derive(Debug, Clone, Default)]
pub struct Turns {
    device: Arc<RwLock<()>>,
}

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
}
