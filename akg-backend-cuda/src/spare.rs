//! Workers that are started before they are needed: the driver takes up to a second to make a context.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use akg_core::error::{Error, Result};
use akg_core::turns::Turns;
use akg_worker::process::Process;

use crate::CudaConfig;
use crate::client;

/// Where workers come from. Each serves one candidate; while it does, the next one is started.
#[derive(Debug)]
pub(crate) struct Spares {
    config: Arc<CudaConfig>,
    turns: Turns,
    next: Mutex<Option<JoinHandle<Result<Process>>>>,
}

impl Spares {
    /// Workers of this configuration, which open their device beside what `turns` orders. Starts nothing yet.
    pub(crate) fn new(config: Arc<CudaConfig>, turns: Turns) -> Self {
        Self {
            config,
            turns,
            next: Mutex::new(None),
        }
    }

    /// A worker that has opened the device. Must not be called by who has a turn, for which this may have to wait.
    ///
    /// # Errors
    /// If there is no such device, or no worker can be started.
    pub(crate) fn take(&self) -> Result<Process> {
        let next = self.next.lock().unwrap_or_else(PoisonError::into_inner).take();
        let started = next.map(|thread| {
            thread
                .join()
                .unwrap_or_else(|_| Err(Error::unexpected("a thread that starts a worker panicked")))
        });
        let process = match started {
            Some(Ok(process)) if process.is_alive() => process,
            // What went wrong then may go well now, or says why.
            _ => self.turns.beside(|| client::open(&self.config))?,
        };
        let (config, turns) = (self.config.clone(), self.turns.clone());
        let next = thread::spawn(move || turns.beside(|| client::open(&config)));
        *self.next.lock().unwrap_or_else(PoisonError::into_inner) = Some(next);
        Ok(process)
    }
}
