//! The state of a process that executes a candidate beside a runtime, as Python is. The runtime may start threads, open files
//! and map memory, which says nothing of the candidate.

use std::collections::BTreeMap;
use std::io;

use rustix::process::Pid;

use super::{Maps, ProcessState};
use crate::halt::Halt;
use crate::registers;

/// The beginnings of the names of libraries that hold LLVM.
const COMPILERS: [&str; 3] = ["libtriton", "libLLVM", "libllvmlite"];

/// The signals other than faults that LLVM handles once it has written a file (`llvm/lib/Support/Unix/Signals.inc`).
const COMPILER_SIGNALS: &[i32] = &[
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGXCPU,
    libc::SIGXFSZ,
    libc::SIGSYS,
];

/// The state of a candidate's process that a candidate must leave as it was.
#[derive(Debug, Clone)]
pub struct HostState {
    state: ProcessState,
    /// Control states of arithmetic that are not as the ABI promises, by the thread; `None` if the system does not let the
    /// caller see them.
    arithmetic: Option<BTreeMap<u32, u64>>,
}

impl Halt {
    /// Reads the state of the process that loads the candidate, which must stand still.
    ///
    /// # Errors
    /// If the process is gone or out of reach.
    pub fn host_state(&self) -> io::Result<HostState> {
        let state = ProcessState::read(self.executor())?;
        let threads = state.threads.keys();
        let threads = threads.filter_map(|id| Pid::from_raw(i32::try_from(*id).ok()?));
        let arithmetic = registers::deviations(threads).ok();
        Ok(HostState { state, arithmetic })
    }
}

impl HostState {
    /// Whether the control state of arithmetic in threads is known.
    pub fn knows_arithmetic(&self) -> bool {
        self.arithmetic.is_some()
    }

    /// Names the first thing that is different in the process now, which must stand still. A compiler that is loaded may handle
    /// the signals that end a process, to remove its files.
    ///
    /// # Errors
    /// If the process is gone or out of reach.
    pub fn difference(&self, halt: &Halt) -> io::Result<Option<String>> {
        let now = halt.host_state()?;
        let signals = match self.state.signals(&now.state, 0) {
            Some(_) if Maps::read(halt.executor())?.has_file(&COMPILERS) => {
                let except = COMPILER_SIGNALS
                    .iter()
                    .fold(0, |set, signal| set | 1 << (signal - 1));
                self.state.signals(&now.state, except)
            }
            found => found,
        };
        let difference = signals
            .or_else(|| self.state.known_threads(&now.state))
            .or_else(|| self.state.process(&now.state))
            .or_else(|| self.arithmetic(&now));
        Ok(difference)
    }

    fn arithmetic(&self, now: &Self) -> Option<String> {
        let before = self.arithmetic.as_ref()?;
        let mut changed = now.arithmetic.iter().flatten();
        let (thread, state) = changed.find(|(id, state)| before.get(id) != Some(state))?;
        let name = now.state.threads.get(thread).map(|thread| thread.name.as_str());
        let what = registers::describe(*state);
        Some(format!(
            "{what} in the thread `{}`, id {thread}",
            name.unwrap_or_default()
        ))
    }
}
