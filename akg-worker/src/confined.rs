//! A confined program that runs, whatever it does.

use std::io;
use std::os::fd::OwnedFd;
use std::process::{Child, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use akg_core::error::{Error, ErrorKind, Result};
use akg_core::isolation::Isolation;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};

use crate::sandbox::{self, Report};
use crate::scratch::Scratch;

/// How long a supervisor may take to start a program.
const STARTING: Duration = Duration::from_secs(30);

/// How long a supervisor may take to end what it supervises.
const ENDING: Duration = Duration::from_secs(5);

/// A program below its supervisor. Dropping it ends both, and every process that the program started.
#[derive(Debug)]
pub(crate) struct Confined {
    /// The supervisor.
    child: Child,
    scratch: Scratch,
    isolation: Isolation,
    ended: bool,
}

impl Confined {
    /// Waits until a supervisor that was just started has started its program.
    pub(crate) fn new(child: Child, scratch: Scratch, reports: &OwnedFd) -> Result<Self> {
        let mut confined = Self {
            child,
            scratch,
            isolation: Isolation::default(),
            ended: false,
        };
        let deadline = Instant::now() + STARTING;
        let cannot = |e: io::Error| Error::io("a supervisor of a program does not report", e);
        let mut ready = false;
        while let Some((report, handle)) = sandbox::receive(reports, deadline).map_err(cannot)? {
            match report {
                Report::Ready(isolation) => {
                    confined.isolation = isolation;
                    confined.scratch.found_at(handle);
                    ready = true;
                }
                Report::Failed { kind, message } => return Err(Error::new(kind, message)),
            }
        }
        if !ready {
            let message = "the program that was to supervise is no worker of akg of this version";
            return Err(Error::new(ErrorKind::Protocol, message));
        }
        Ok(confined)
    }

    pub(crate) fn isolation(&self) -> &Isolation {
        &self.isolation
    }

    pub(crate) fn scratch(&self) -> &Scratch {
        &self.scratch
    }

    /// The supervisor.
    pub(crate) fn id(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Whether the program and all that it started have ended.
    pub(crate) fn has_exited(&self) -> bool {
        // It stays a zombie, so that its id is not given to another.
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        let pid = WaitId::Pid(Pid::from_child(&self.child));
        !matches!(rustix::process::waitid(pid, options), Ok(None))
    }

    /// Waits for the end, but not longer than `limit`; whether it came.
    pub(crate) fn wait(&self, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        while !self.has_exited() {
            if Instant::now() >= until {
                return false;
            }
            thread::sleep(Duration::from_micros(500));
        }
        true
    }

    /// Ends everything, and tells how the program ended; `None` if that was asked before.
    pub(crate) fn end(&mut self) -> Option<ExitStatus> {
        if self.ended {
            return None;
        }
        self.ended = true;
        let supervisor = Pid::from_child(&self.child);
        // Fails only if it has ended.
        let _ = rustix::process::kill_process(supervisor, Signal::TERM);
        if !self.wait(ENDING) {
            let _ = rustix::process::kill_process(supervisor, Signal::KILL);
        }
        self.child.wait().ok()
    }
}

impl Drop for Confined {
    fn drop(&mut self) {
        self.end();
    }
}
