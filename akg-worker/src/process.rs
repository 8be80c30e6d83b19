//! Supervised worker processes: any program that answers [frames](crate::frame) on its standard input and output. Its
//! standard input is a Unix socket, on which descriptors can be passed too.
//!
//! A request is `{"version":1,"id":n,"call":…}`. The worker answers any number of `{"id":n,"progress":"text"}` and then
//! either `{"id":n,"ok":…}` or `{"id":n,"error":{"kind":"…","message":"…"}}`, where `kind` is a name of
//! [`ErrorKind`]. What it writes to its standard error is kept (the last 64 KiB) and shown when it dies.
//!
//! A worker runs in a session of its own with resource limits, a cleaned environment and a private scratch directory as
//! its working directory. It and all processes of its group are killed when a deadline passes, when the [`Process`] is
//! dropped, and, on Linux, when the caller dies. A program that runs hostile code may still forge replies or start a
//! session of its own; whoever reads a reply treats it as a claim.

use std::ffi::{OsStr, OsString};
use std::os::fd::BorrowedFd;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{LazyLock, mpsc};
use std::time::{Duration, Instant};
use std::{fmt, io, thread};

use akg_core::error::{Error, ErrorKind, Result};
use rustix::process::{Pid, Resource, Rlimit, Signal, WaitId, WaitIdOptions};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::frame;
use crate::pipes::{self, Pipes, Unsent};
use crate::scratch::Scratch;

/// The version of the envelope around calls.
pub const VERSION: u32 = 1;

/// Variables that every worker gets from the caller's environment.
const INHERITED: [&str; 6] = [
    "PATH",
    "LD_LIBRARY_PATH",
    "LANG",
    "LC_ALL",
    "TZ",
    "RUST_BACKTRACE",
];

/// How long a worker that closed its pipe may take to end.
const GRACE: Duration = Duration::from_secs(2);

/// Resource limits of a worker; `None` leaves the caller's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ResourceLimits {
    /// Bytes of private writable memory (`RLIMIT_DATA`).
    pub data: Option<u64>,
    /// Bytes of address space (`RLIMIT_AS`).
    pub address_space: Option<u64>,
    /// Bytes of one written file (`RLIMIT_FSIZE`).
    pub file_size: Option<u64>,
}

impl ResourceLimits {
    /// Called between fork and exec: only system calls.
    fn apply(self) -> io::Result<()> {
        let limits = [
            (Resource::Data, self.data),
            (Resource::As, self.address_space),
            (Resource::Fsize, self.file_size),
            (Resource::Core, Some(0)),
        ];
        for (resource, limit) in limits {
            if limit.is_some() {
                let limit = Rlimit {
                    current: limit,
                    maximum: limit,
                };
                rustix::process::setrlimit(resource, limit)?;
            }
        }
        Ok(())
    }
}

/// A program to run as a worker.
#[derive(Debug, Clone)]
pub struct Program {
    path: PathBuf,
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    limits: ResourceLimits,
}

impl Program {
    /// The program at `path`, without arguments.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        let environment = INHERITED
            .into_iter()
            .filter_map(|name| Some((name.into(), std::env::var_os(name)?)))
            .collect();
        Self {
            path: path.into(),
            arguments: Vec::new(),
            environment,
            limits: ResourceLimits::default(),
        }
    }

    /// The program's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds an argument.
    pub fn arg(mut self, argument: impl Into<OsString>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Sets an environment variable.
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Passes on a variable of the caller's environment, if it is set there. Beside `PATH`, the locale and the like,
    /// nothing else is passed on.
    pub fn inherit(self, name: impl AsRef<OsStr>) -> Self {
        match std::env::var_os(name.as_ref()) {
            Some(value) => self.env(name.as_ref(), value),
            None => self,
        }
    }

    /// Sets the resource limits.
    pub fn limits(mut self, limits: ResourceLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Starts the program.
    ///
    /// # Errors
    /// [`ErrorKind::ToolMissing`] if there is no such program.
    pub fn spawn(&self) -> Result<Process> {
        let scratch = Scratch::new()?;
        let (connection, stdin) =
            pipes::connection().map_err(|e| Error::io("cannot make a connection for a worker", e))?;
        let mut command = Command::new(&self.path);
        command
            .args(&self.arguments)
            .env_clear()
            .envs(self.environment.iter().map(|(k, v)| (k, v)))
            .env("TMPDIR", scratch.path())
            .current_dir(scratch.path())
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        prepare(&mut command, self.limits);
        let mut child = spawn_from_lasting_thread(command).map_err(|e| {
            let kind = match e.kind() {
                io::ErrorKind::NotFound => ErrorKind::ToolMissing,
                _ => ErrorKind::Io,
            };
            Error::new(kind, format!("cannot start {}", self.path.display())).caused_by(e)
        })?;
        let pipes = match Pipes::new(connection, &mut child) {
            Ok(pipes) => pipes,
            Err(e) => {
                // A child that has no pipes ends at its first read.
                let _ = child.kill().and_then(|()| child.wait());
                return Err(Error::io("cannot set up the pipes of a worker", e));
            }
        };
        Ok(Process {
            program: self.path.clone(),
            child,
            pipes,
            scratch,
            last_id: 0,
            ended: None,
        })
    }
}

/// Arranges for what happens between fork and exec.
fn prepare(command: &mut Command, limits: ResourceLimits) {
    let parent = rustix::process::getpid();
    let setup = move || {
        rustix::process::setsid()?;
        #[cfg(target_os = "linux")]
        {
            rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
            // The parent may have died before the signal was arranged for.
            if rustix::process::getppid() != Some(parent) {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
        }
        limits.apply()
    };
    // SAFETY: the closure makes system calls only; it neither allocates nor takes locks.
    unsafe { command.pre_exec(setup) };
}

/// Starts a program from a thread that lives as long as this process.
///
/// Linux sends the parent's death signal when the *thread* that started a child ends, so threads of a pool, which come
/// and go, must not start workers.
fn spawn_from_lasting_thread(mut command: Command) -> io::Result<Child> {
    type Job = (Command, mpsc::Sender<io::Result<Child>>);
    static SPAWNER: LazyLock<Option<mpsc::Sender<Job>>> = LazyLock::new(|| {
        let (sender, jobs) = mpsc::channel::<Job>();
        let spawner = move || {
            for (mut command, reply) in jobs {
                // The receiver waits below.
                let _ = reply.send(command.spawn());
            }
        };
        let thread = thread::Builder::new().name("akg-spawner".into());
        thread.spawn(spawner).ok().map(|_| sender)
    });
    let Some(spawner) = &*SPAWNER else {
        return command.spawn();
    };
    let (reply, child) = mpsc::channel();
    let gone = || io::Error::other("the thread that starts workers is gone");
    spawner.send((command, reply)).map_err(|_| gone())?;
    child.recv().map_err(|_| gone())?
}

/// A running worker. Dropping it kills it and every process of its group.
#[derive(Debug)]
pub struct Process {
    program: PathBuf,
    child: Child,
    pipes: Pipes,
    scratch: Scratch,
    last_id: u64,
    /// How it ended, once that is known.
    ended: Option<Ended>,
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
    /// The worker's private directory, removed with this value. The worker starts in it and finds it as `TMPDIR`.
    pub fn scratch(&self) -> &Path {
        self.scratch.path()
    }

    /// The process that was started; others may be between it and the worker.
    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Whether it can take another request.
    pub fn is_alive(&self) -> bool {
        self.ended.is_none() && !self.has_exited()
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

    /// As [`request`](Self::request); copies of the descriptors go with the call.
    pub(crate) fn request_passing<C: Serialize, R: DeserializeOwned>(
        &mut self,
        call: &C,
        descriptors: &[BorrowedFd<'_>],
        deadline: Instant,
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
        while self.ended.is_none() {
            let exited = self.has_exited();
            let open = self.pipes.exchange(&mut unsent, deadline);
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
                self.kill();
                let after = started.elapsed();
                let stderr = self.pipes.stderr();
                return Err(RequestError::TimedOut { after, stderr });
            }
        }
        Err(RequestError::Ended {
            how: self.ended.unwrap_or(Ended::Silent),
            stderr: self.pipes.stderr(),
        })
    }

    /// Kills the worker and every process of its group.
    pub fn kill(&mut self) {
        self.end(Ended::Killed);
    }

    fn broke(&mut self, error: Error) -> RequestError {
        self.kill();
        let error = error.with("worker", self.program.display());
        let stderr = self.pipes.stderr();
        RequestError::Protocol { error, stderr }
    }

    /// Whether the process has exited; it stays a zombie, so that its id is not given to another.
    fn has_exited(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        let pid = WaitId::Pid(Pid::from_child(&self.child));
        !matches!(rustix::process::waitid(pid, options), Ok(None))
    }

    /// Finds out how a worker that closed its pipe ended.
    fn reap(&mut self) {
        let until = Instant::now() + GRACE;
        while !self.has_exited() && Instant::now() < until {
            thread::sleep(Duration::from_millis(1));
        }
        let exited = self.has_exited();
        if let Some(status) = self.end(Ended::Silent)
            && exited
        {
            self.ended = Some(Ended::Exited(status));
        }
    }

    /// Kills the group, then waits for the worker, so that the group's id cannot be somebody else's by then.
    fn end(&mut self, how: Ended) -> Option<ExitStatus> {
        if self.ended.is_some() {
            return None;
        }
        self.ended = Some(how);
        // Fails only if the group is gone.
        let _ = rustix::process::kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        let status = self.child.wait().ok();
        self.pipes.drain();
        status
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
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
