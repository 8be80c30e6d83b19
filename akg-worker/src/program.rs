//! Programs to run in confinement, and their start.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{LazyLock, mpsc};
use std::thread;

use akg_core::error::{Error, ErrorKind, Result};
use akg_core::isolation::IsolationLevel;
use rustix::process::{Resource, Rlimit, Signal};
use serde::{Deserialize, Serialize};

use crate::confined::Confined;
use crate::locate::{self, CONFINE};
use crate::sandbox::{self, Mechanism, Spec};
use crate::scratch::Scratch;

/// Variables that every program gets from the caller's environment.
const INHERITED: [&str; 6] = [
    "PATH",
    "LD_LIBRARY_PATH",
    "LANG",
    "LC_ALL",
    "TZ",
    "RUST_BACKTRACE",
];

/// Bytes that a scratch directory may hold if the program says nothing else.
const QUOTA: u64 = 256 << 20;

/// Open descriptors of a process at most.
const DESCRIPTORS: u64 = 1 << 14;

/// Resource limits of a program; `None` leaves the caller's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ResourceLimits {
    /// Bytes of private writable memory of one process (`RLIMIT_DATA`).
    pub data: Option<u64>,
    /// Bytes of address space of one process (`RLIMIT_AS`).
    pub address_space: Option<u64>,
    /// Bytes of one written file (`RLIMIT_FSIZE`).
    pub file_size: Option<u64>,
    /// Bytes of memory that all processes of the program use together. Looked at ten times a second, which costs a
    /// little time; a program beyond it is ended.
    pub total: Option<u64>,
    /// Processes and threads at the same time. The system keeps it where processes have ids of their own; elsewhere it
    /// is looked at together with `total`.
    pub processes: Option<u64>,
}

impl ResourceLimits {
    /// Limits the calling process and all that it starts. `own_users` says that processes of the same user elsewhere do
    /// not count.
    pub(crate) fn apply(self, own_users: bool) -> io::Result<()> {
        let descriptors = rustix::process::getrlimit(Resource::Nofile)
            .maximum
            .map_or(DESCRIPTORS, |limit| limit.min(DESCRIPTORS));
        let limits = [
            (Resource::Data, self.data),
            (Resource::As, self.address_space),
            (Resource::Fsize, self.file_size),
            (Resource::Nproc, self.processes.filter(|_| own_users)),
            (Resource::Nofile, Some(descriptors)),
            (Resource::Rtprio, Some(0)),
            (Resource::Memlock, Some(0)),
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

/// A program to run in confinement: as a worker by [`spawn`](Self::spawn), to its end by [`run`](Self::run).
///
/// It gets the highest isolation that the system offers. It may read and execute what belongs to the system, and itself;
/// everything else that it needs must be named by [`readable`](Self::readable) and [`writable`](Self::writable).
#[derive(Debug, Clone)]
pub struct Program {
    path: PathBuf,
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    files: Vec<(String, Vec<u8>)>,
    listable: Vec<PathBuf>,
    readable: Vec<PathBuf>,
    writable: Vec<PathBuf>,
    limits: ResourceLimits,
    quota: u64,
    supervisor: Option<PathBuf>,
    without: Vec<Mechanism>,
    at_most: IsolationLevel,
    required: IsolationLevel,
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
            files: Vec::new(),
            listable: Vec::new(),
            readable: Vec::new(),
            writable: Vec::new(),
            limits: ResourceLimits::default(),
            quota: QUOTA,
            supervisor: None,
            without: Vec::new(),
            at_most: IsolationLevel::Strict,
            required: IsolationLevel::None,
        }
    }

    /// The program's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The program's arguments.
    pub fn arguments(&self) -> &[OsString] {
        &self.arguments
    }

    /// Adds an argument.
    pub fn arg(mut self, argument: impl Into<OsString>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Adds arguments.
    pub fn args(mut self, arguments: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        self.arguments.extend(arguments.into_iter().map(Into::into));
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

    /// Puts a file into the directory in which the program starts.
    pub fn file(mut self, name: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        self.files.push((name.into(), bytes.into()));
        self
    }

    /// Lets the program see the names of what is in a directory and below.
    pub fn listable(mut self, path: impl Into<PathBuf>) -> Self {
        self.listable.push(path.into());
        self
    }

    /// Lets the program read and execute a file, or what is in a directory.
    pub fn readable(mut self, path: impl Into<PathBuf>) -> Self {
        self.readable.push(path.into());
        self
    }

    /// Lets the program read, execute and change a file, or what is in a directory. Such a directory has no quota.
    pub fn writable(mut self, path: impl Into<PathBuf>) -> Self {
        self.writable.push(path.into());
        self
    }

    /// Sets the resource limits.
    pub fn limits(mut self, limits: ResourceLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets how many bytes the scratch directory may hold; 256 MiB if this is not called. Where the system allows it,
    /// the directory is in memory.
    pub fn quota(mut self, bytes: u64) -> Self {
        self.quota = bytes;
        self
    }

    /// Refuses to start in less isolation than this.
    pub fn isolation(mut self, required: IsolationLevel) -> Self {
        self.required = required;
        self
    }

    /// Uses no more isolation than this, although there may be more: below [`IsolationLevel::Strict`], none of
    /// [`Mechanism::ALL`]. For tests, and for systems on which a mechanism is in the way.
    pub fn at_most(mut self, level: IsolationLevel) -> Self {
        self.at_most = level;
        if level < IsolationLevel::Strict {
            self.without = Mechanism::ALL.to_vec();
        }
        self
    }

    /// Does without a mechanism, as a system would that lacks it. For tests, and for systems on which it is in the way.
    pub fn without(mut self, mechanism: Mechanism) -> Self {
        self.without.push(mechanism);
        self
    }

    /// The worker program that supervises; as [`find`](crate::find) finds it if this is not called.
    pub fn supervisor(mut self, path: impl Into<PathBuf>) -> Self {
        self.supervisor = Some(path.into());
        self
    }

    /// Starts the program, below a supervisor.
    pub(crate) fn start(&self, [input, output, errors]: [Stdio; 3]) -> Result<Confined> {
        let scratch = Scratch::new()?;
        for (name, bytes) in &self.files {
            let path = scratch.path().join(name);
            std::fs::write(&path, bytes)
                .map_err(|e| Error::io(format!("cannot write {}", path.display()), e))?;
        }
        let supervisor = match &self.supervisor {
            Some(path) => path.clone(),
            None => locate::path(None)?,
        };
        let (ours, theirs) = sandbox::channel().map_err(|e| Error::io("cannot start a program", e))?;
        let spec = Spec {
            scratch: scratch.path().to_owned(),
            quota: self.quota,
            listable: self.listable.clone(),
            readable: self.readable.clone(),
            writable: self.writable.clone(),
            limits: self.limits,
            without: self.without.clone(),
            at_most: self.at_most,
            required: self.required,
            report: theirs.as_raw_fd(),
        };
        let json = serde_json::to_string(&spec)
            .map_err(|e| Error::invalid("a path of a confined program is no UTF-8").caused_by(e))?;
        let mut command = Command::new(&supervisor);
        command
            .args([CONFINE, json.as_str()])
            .arg(&self.path)
            .args(&self.arguments)
            .env_clear()
            .envs(self.environment.iter().map(|(k, v)| (k, v)))
            .env("TMPDIR", scratch.path())
            .current_dir(scratch.path())
            .stdin(input)
            .stdout(output)
            .stderr(errors);
        prepare(&mut command, &spec);
        let child = spawn_from_lasting_thread(command).map_err(|e| {
            let kind = match e.kind() {
                io::ErrorKind::NotFound => ErrorKind::ToolMissing,
                _ => ErrorKind::Io,
            };
            Error::new(kind, format!("cannot start {}", supervisor.display())).caused_by(e)
        })?;
        drop(theirs);
        Confined::new(child, scratch, &ours).map_err(|e| e.with("supervisor", supervisor.display()))
    }
}

/// Arranges for what happens between fork and exec.
fn prepare(command: &mut Command, spec: &Spec) {
    let parent = rustix::process::getpid();
    let report = spec.report;
    let setup = move || {
        rustix::process::setsid()?;
        // SAFETY: a plain system call; the descriptor is open in the caller for as long as it starts the program.
        if unsafe { libc::fcntl(report, libc::F_SETFD, 0) } == -1 {
            return Err(io::Error::last_os_error());
        }
        #[cfg(target_os = "linux")]
        {
            rustix::process::set_parent_process_death_signal(Some(Signal::TERM))?;
            // The parent may have died before the signal was arranged for.
            if rustix::process::getppid() != Some(parent) {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
        }
        Ok(())
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
