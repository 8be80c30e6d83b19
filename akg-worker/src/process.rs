//! Supervised worker processes: any program that answers [frames](crate::frame) on its standard input and output. Its
//! standard input is a Unix socket, on which descriptors can be passed too.
//!
//! A request is `{"version":1,"id":n,"call":…}`. The worker answers any number of `{"id":n,"progress":"text"}` and then
//! either `{"id":n,"ok":…}` or `{"id":n,"error":{"kind":"…","message":"…"}}`, where `kind` is a name of
//! [`ErrorKind`]. What it writes to its standard error is kept (the last 64 KiB) and shown when it dies.
//!
//! A worker runs in the highest [isolation](akg_core::isolation) that the system offers, with resource limits, a cleaned
//! environment and a private scratch directory as its working directory. It and all processes that it started are killed
//! when a deadline passes, when the [`Process`] is dropped, and when the caller dies. A program that runs hostile code
//! may still forge replies; whoever reads a reply treats it as a claim.

use std::fmt;
use std::os::fd::BorrowedFd;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use akg_core::error::{Error, ErrorKind, Result};
use akg_core::isolation::Isolation;
use rustix::process::Pid;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::confined::Confined;
use crate::fork::Copied;
use crate::frame;
use crate::pipes::{Pipes, Unsent};

pub use crate::allowance::Allowance;
pub use crate::fork::Template;
pub use crate::halt::{Halt, Stopped};
pub use crate::program::{Program, ResourceLimits};
pub use crate::sandbox::Mechanism;
pub use crate::snapshot::HostState;
pub use crate::tool::Finished;

/// The version of the envelope around calls.
pub const VERSION: u32 = 1;

/// The time that a worker that closed its pipe has to end. A busy machine takes seconds to free much memory.
const GRACE: Duration = Duration::from_secs(20);

impl Program {
    /// Starts the program as a worker.
    ///
    /// # Errors
    /// [`ErrorKind::ToolMissing`] if there is no such program, or none that supervises it; [`ErrorKind::Unsupported`]
    /// if it needs more isolation than the system offers.
    pub fn spawn(&self) -> Result<Process> {
        let (pipes, ends) = Pipes::new().map_err(|e| Error::io("cannot set up the pipes of a worker", e))?;
        let confined = self.start(ends.map(Into::into))?;
        Ok(Process::new(
            self.path().to_owned(),
            Life::Started(confined),
            pipes,
        ))
    }
}

/// A running worker. Dropping it kills it and every process that it started.
#[derive(Debug)]
pub struct Process {
    program: PathBuf,
    life: Life,
    pipes: Pipes,
    last_id: u64,
    /// How it ended, once that is known.
    ended: Option<Ended>,
}

/// What a worker's process came from.
#[derive(Debug)]
pub(crate) enum Life {
    /// A program that was started.
    Started(Confined),
    /// A process that was there.
    Copied(Copied),
}

impl Life {
    fn has_exited(&self) -> bool {
        match self {
            Life::Started(confined) => confined.has_exited(),
            Life::Copied(copied) => copied.has_exited(),
        }
    }

    /// Waits for the end, but not longer than `limit`; whether it came.
    fn wait(&mut self, limit: Duration) -> bool {
        match self {
            Life::Started(confined) => confined.wait(limit),
            Life::Copied(copied) => copied.wait(limit),
        }
    }

    /// Ends everything, and tells how the worker ended, as far as that is known.
    fn end(&mut self) -> Option<ExitStatus> {
        match self {
            Life::Started(confined) => confined.end(),
            Life::Copied(copied) => copied.end(),
        }
    }
}

/// How a worker ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// By itself or by a signal.
    Exited(ExitStatus),
    /// It closed its end of the pipe, lived on, and was killed.
    Silent,
    /// The caller killed it, after a missed deadline or a broken message.
    Killed,
}

/// Why there is no answer.
#[derive(Debug)]
#[non_exhaustive]
pub enum RequestError {
    /// The worker reported an error, or the call could not be written as a message. The worker goes on.
    Failed(Error),
    /// The deadline passed; the worker was killed.
    TimedOut {
        /// How long the request ran.
        after: Duration,
        /// The end of what the worker wrote to its standard error.
        stderr: String,
    },
    /// The worker ended.
    Ended {
        /// How.
        how: Ended,
        /// The end of what the worker wrote to its standard error.
        stderr: String,
    },
    /// The worker sent something that is no answer, and was killed.
    Protocol {
        /// What was wrong with it.
        error: Error,
        /// The end of what the worker wrote to its standard error.
        stderr: String,
    },
}

#[derive(Serialize)]
struct Request<'a, C> {
    version: u32,
    id: u64,
    call: &'a C,
}

#[derive(Deserialize)]
struct Reply<R> {
    id: u64,
    #[serde(flatten)]
    answer: Answer<R>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Answer<R> {
    Progress(String),
    Ok(R),
    Error(Reported),
}

#[derive(Deserialize)]
struct Reported {
    kind: ErrorKind,
    message: String,
}

impl Process {
    pub(crate) fn new(program: PathBuf, life: Life, pipes: Pipes) -> Self {
        Self {
            program,
            life,
            pipes,
            last_id: 0,
            ended: None,
        }
    }

    /// The program that it runs.
    pub(crate) fn program(&self) -> &Path {
        &self.program
    }

    /// The isolation that it runs in, as its supervisor found before it started.
    pub fn isolation(&self) -> &Isolation {
        match &self.life {
            Life::Started(confined) => confined.isolation(),
            Life::Copied(copied) => copied.isolation(),
        }
    }

    /// The worker's private directory, gone with this value. The worker starts in it and finds it as `TMPDIR`; this
    /// path, which may be another, is the one for the caller. What lies there is the worker's choice, links to other
    /// places included.
    pub fn scratch(&self) -> &Path {
        match &self.life {
            Life::Started(confined) => confined.scratch().view(),
            Life::Copied(copied) => copied.scratch(),
        }
    }

    /// Its supervisor.
    pub(crate) fn supervisor(&self) -> Pid {
        match &self.life {
            Life::Started(confined) => confined.id(),
            Life::Copied(copied) => copied.supervisor(),
        }
    }

    /// What stops it, and all that it will start. Only for a worker that was started as a program, has answered a call and
    /// has started nothing yet.
    pub fn halt(&self) -> Halt {
        Halt::new(self.supervisor())
    }

    /// Whether it has sent something that no request has asked for. Only sure of a worker that is stopped.
    pub fn has_spoken(&mut self) -> bool {
        // A pipe that cannot be read is the next request's trouble.
        self.pipes.has_heard().unwrap_or(false)
    }

    /// Whether it can take another request.
    pub fn is_alive(&self) -> bool {
        self.ended.is_none() && !self.life.has_exited()
    }

    /// Calls the worker and waits for its answer until `deadline`; `progress` gets its messages on the way.
    pub fn request<C: Serialize, R: DeserializeOwned>(
        &mut self,
        call: &C,
        deadline: Instant,
        progress: &mut dyn FnMut(&str),
    ) -> Result<R, RequestError> {
        self.request_passing(call, &[], deadline, progress)
    }

    /// As [`request`](Self::request); copies of the descriptors go with the first bytes of the call (`SCM_RIGHTS`), at
    /// most 253 with one byte.
    pub fn request_passing<C: Serialize, R: DeserializeOwned>(
        &mut self,
        call: &C,
        descriptors: &[BorrowedFd<'_>],
        deadline: Instant,
        progress: &mut dyn FnMut(&str),
    ) -> Result<R, RequestError> {
        self.request_until(call, descriptors, deadline, &mut || None, progress)
    }

    /// As [`request_passing`](Self::request_passing); when the deadline has passed, `later` may give another one.
    pub fn request_until<C: Serialize, R: DeserializeOwned>(
        &mut self,
        call: &C,
        descriptors: &[BorrowedFd<'_>],
        mut deadline: Instant,
        later: &mut dyn FnMut() -> Option<Instant>,
        progress: &mut dyn FnMut(&str),
    ) -> Result<R, RequestError> {
        let started = Instant::now();
        self.last_id += 1;
        let id = self.last_id;
        let version = VERSION;
        let frame = frame::encode(&Request { version, id, call }).map_err(RequestError::Failed)?;
        let mut unsent = Unsent {
            bytes: &frame,
            descriptors,
        };
        self.pipes.begin_request();
        while self.ended.is_none() {
            let exited = self.life.has_exited();
            let open = self.pipes.exchange(&mut unsent, deadline);
            self.pipes.check_output().map_err(|e| self.broke(e))?;
            while let Some(reply) = self.pipes.next_message::<Reply<R>>().map_err(|e| self.broke(e))? {
                if reply.id != id {
                    let message = format!("the worker answered request {} instead of {id}", reply.id);
                    return Err(self.broke(Error::new(ErrorKind::Protocol, message)));
                }
                match reply.answer {
                    Answer::Progress(text) => progress(&text),
                    Answer::Ok(value) => return Ok(value),
                    Answer::Error(e) => return Err(RequestError::Failed(Error::new(e.kind, e.message))),
                }
            }
            match open {
                Ok(true) if !exited => {}
                Ok(_) => self.reap(),
                Err(e) => return Err(self.broke(Error::io("cannot talk to the worker", e))),
            }
            if self.ended.is_none() && Instant::now() >= deadline {
                if let Some(later) = later() {
                    deadline = later;
                    continue;
                }
                self.kill();
                let after = started.elapsed();
                let stderr = self.stderr();
                return Err(RequestError::TimedOut { after, stderr });
            }
        }
        Err(RequestError::Ended {
            how: self.ended.unwrap_or(Ended::Silent),
            stderr: self.stderr(),
        })
    }

    /// The end of what it wrote to its standard error.
    fn stderr(&self) -> String {
        let own = self.pipes.stderr();
        match &self.life {
            Life::Started(_) => own,
            Life::Copied(copied) => own + copied.last_words(),
        }
    }

    /// Kills the worker and every process that it started.
    pub fn kill(&mut self) {
        self.end(Ended::Killed);
    }

    fn broke(&mut self, error: Error) -> RequestError {
        self.kill();
        let error = error.with("worker", self.program.display());
        let stderr = self.stderr();
        RequestError::Protocol { error, stderr }
    }

    /// Finds out how a worker that closed its pipe ended.
    fn reap(&mut self) {
        let exited = self.life.wait(GRACE);
        if let Some(status) = self.end(Ended::Silent)
            && exited
        {
            self.ended = Some(Ended::Exited(status));
        }
    }

    fn end(&mut self, how: Ended) -> Option<ExitStatus> {
        if self.ended.is_some() {
            return None;
        }
        self.ended = Some(how);
        let status = self.life.end();
        self.pipes.drain();
        status
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ended::Exited(status) => match (status.code(), status.signal()) {
                (Some(code), _) => write!(f, "ended its process with exit status {code}"),
                (None, Some(signal)) => write!(f, "was killed by signal {signal}{}", signal_name(signal)),
                (None, None) => write!(f, "ended: {status}"),
            },
            Ended::Silent => f.write_str("closed its connection to the caller"),
            Ended::Killed => f.write_str("was killed by the caller"),
        }
    }
}

fn signal_name(signal: i32) -> &'static str {
    match signal {
        libc::SIGSEGV => " (SIGSEGV: invalid memory access)",
        libc::SIGBUS => " (SIGBUS: invalid memory access)",
        libc::SIGILL => " (SIGILL: illegal instruction)",
        libc::SIGFPE => " (SIGFPE: integer division by zero or overflow)",
        libc::SIGABRT => " (SIGABRT: aborted)",
        libc::SIGKILL => " (SIGKILL: by the system when memory ran out, or by itself)",
        libc::SIGSYS => " (SIGSYS: refused system call)",
        libc::SIGXFSZ => " (SIGXFSZ: wrote a file beyond the limit)",
        _ => "",
    }
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stderr = match self {
            RequestError::Failed(error) => return write!(f, "{error}"),
            RequestError::TimedOut { after, stderr } => {
                write!(f, "the worker did not answer within {:.1} s", after.as_secs_f64())?;
                stderr
            }
            RequestError::Ended { how, stderr } => {
                write!(f, "the worker {how}")?;
                stderr
            }
            RequestError::Protocol { error, stderr } => {
                write!(f, "{error}")?;
                stderr
            }
        };
        match stderr.trim() {
            "" => Ok(()),
            text => write!(f, "; it wrote: {text}"),
        }
    }
}

impl std::error::Error for RequestError {}

impl From<RequestError> for Error {
    fn from(error: RequestError) -> Self {
        let kind = match error {
            RequestError::Failed(error) => return error,
            RequestError::TimedOut { .. } => ErrorKind::Timeout,
            RequestError::Ended { .. } => ErrorKind::WorkerLost,
            RequestError::Protocol { .. } => ErrorKind::Protocol,
        };
        Error::new(kind, error.to_string())
    }
}
