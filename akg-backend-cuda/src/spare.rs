//! Workers that are started before they are needed: the driver takes up to a second to make a context.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use akg_core::error::{Error, Result};
use akg_core::turns::Turns;
use akg_worker::process::Process;

use crate::CudaConfig;
use crate::client;

/// Where workers come from. Each serves one candidate; while it does, the next ones are started: as many as were missed at
/// once so far.
#[derive(Debug)]
pub(crate) struct Spares {
    config: Arc<CudaConfig>,
    turns: Turns,
    stock: Mutex<Stock>,
}

#[derive(Debug, Default)]
struct Stock {
    /// Workers that are there or about to be, the oldest first.
    next: VecDeque<JoinHandle<Result<Process>>>,
    /// How many there should be.
    wanted: usize,
}

/// Workers in stock at most: each takes some of the device's memory.
const MOST: usize = 6;

impl Spares {
    /// Workers of this configuration, which open their device beside what `turns` orders. Starts nothing yet.
    pub(crate) fn new(config: Arc<CudaConfig>, turns: Turns) -> Self {
        Self {
            config,
            turns,
            stock: Mutex::default(),
        }
    }

    /// A worker that has opened the device. Must not be called by who has a turn, for which this may have to wait.
    ///
    /// # Errors
    /// If there is no such device, or no worker can be started.
    pub(crate) fn take(&self) -> Result<Process> {
        let next = self.stock().next.pop_front();
        let missed = next.is_none();
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
        let mut stock = self.stock();
        stock.wanted = (stock.wanted + usize::from(missed)).min(MOST);
        while stock.next.len() < stock.wanted {
            let (config, turns) = (self.config.clone(), self.turns.clone());
            let next = thread::spawn(move || turns.beside(|| client::open(&config)));
            stock.next.push_back(next);
        }
        Ok(process)
    }

    fn stock(&self) -> MutexGuard<'_, Stock> {
        self.stock.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
