//! The process between a caller and a confined program.

use std::convert::Infallible;
use std::ffi::OsString;
use std::io::{self, PipeReader, Read as _};
use std::os::fd::{AsFd as _, AsRawFd as _, FromRawFd as _, RawFd};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use std::{fs, mem, ptr};

use akg_core::error::{Error, ErrorKind, Result};
use rustix::fd::OwnedFd;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus};

use super::report::{self, Report};
use super::{Mechanism, OVER_LIMIT, Spec, calls, files, namespaces, tree};
use crate::crash;

/// How often the supervisor looks at what all processes of the program use together.
const LOOK: Duration = Duration::from_millis(100);

/// A look may take one part in this many of the time.
const LOOK_SHARE: u32 = 10;

/// The longest time without a look. A program can make looks slow, but not rare.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// Serves as supervisor of the program in `arguments`, after the [`Spec`] as JSON, and ends as the program ends.
pub(crate) fn confine(mut arguments: impl Iterator<Item = OsString>) -> ! {
    let spec = arguments
        .next()
        .and_then(|text| serde_json::from_str::<Spec>(text.to_str()?).ok());
    let Some(spec) = spec else {
        eprintln!("akg-worker: only akg starts a supervisor");
        std::process::exit(2);
    };
    close_all_but(&[0, 1, 2, spec.report]);
    // SAFETY: the caller opened this descriptor for this process, and nothing else here knows it.
    let channel = unsafe { OwnedFd::from_raw_fd(spec.report) };
    let command: Vec<_> = arguments.collect();
    let end = match Supervised::start(&spec, &command, &channel) {
        Ok(program) => {
            drop(channel);
            program.wait(&spec)
        }
        Err(error) => {
            tell_failure(&channel, &error);
            End::Exited(1)
        }
    };
    tree::end();
    end.repeat()
}

fn tell_failure(channel: &OwnedFd, error: &Error) {
    let failed = Report::Failed {
        kind: error.kind(),
        message: error.to_string(),
    };
    // A caller that is gone needs no report.
    let _ = report::send(channel.as_fd(), &failed, None);
}

/// A program that was started.
struct Supervised {
    program: Pid,
    signals: Signals,
    /// Whether the scratch directory has a hard quota.
    hard_quota: bool,
    /// Closes with this process, however it ends, which ends the first process of the program's own process ids.
    _alive: io::PipeWriter,
}

impl Supervised {
    fn start(spec: &Spec, command: &[OsString], channel: &OwnedFd) -> Result<Self> {
        let cannot = |e: io::Error| Error::io("cannot supervise a program", e);
        rustix::io::fcntl_setfd(channel, rustix::io::FdFlags::CLOEXEC).map_err(|e| cannot(e.into()))?;
        let signals = Signals::block();
        // Processes whose parents end come here, and not to one that knows nothing of them.
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
            .map_err(|e| cannot(e.into()))?;
        let mut missing = Vec::new();
        let (mut own_ids, mut hard_quota) = (false, false);
        if spec.wants(Mechanism::Namespaces) {
            own_ids = note("process ids of its own", namespaces::enter(), &mut missing);
            if own_ids
                && note(
                    "a read-only view of files",
                    namespaces::private_files(spec),
                    &mut missing,
                )
            {
                let scratch = namespaces::private_scratch(spec);
                hard_quota = note("a scratch directory with a quota", scratch, &mut missing);
            }
        } else {
            missing.push("namespaces are switched off".to_owned());
        }
        let (ends, alive) = io::pipe().map_err(cannot)?;
        if own_ids {
            fork(|| be_first(&ends)).map_err(cannot)?;
        }
        drop(ends);
        let program = fork(|| {
            let Err(error) = become_program(spec, command, channel, own_ids, hard_quota, missing);
            tell_failure(channel, &error);
            127
        });
        let program = program.map_err(cannot)?;
        // Standard error stays for last words.
        let null = fs::File::options()
            .read(true)
            .write(true)
            .open("/dev/null")
            .map_err(cannot)?;
        rustix::stdio::dup2_stdin(&null).map_err(|e| cannot(e.into()))?;
        rustix::stdio::dup2_stdout(&null).map_err(|e| cannot(e.into()))?;
        Ok(Self {
            program,
            signals,
            hard_quota,
            _alive: alive,
        })
    }

    /// Waits for the end of the program, or of the caller's patience.
    fn wait(&self, spec: &Spec) -> End {
        let looks = spec.limits.total.is_some() || !self.hard_quota;
        let mut pause = LOOK;
        loop {
            let signal = self.signals.next(looks.then_some(pause));
            if signal == Some(libc::SIGTERM) {
                return End::Signaled(libc::SIGTERM);
            }
            while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
                if pid == self.program {
                    return End::from(status);
                }
            }
            if signal.is_none() {
                let start = Instant::now();
                if let Some(end) = self.look(spec) {
                    return end;
                }
                pause = (start.elapsed() * LOOK_SHARE).clamp(LOOK, LONGEST_PAUSE);
            }
        }
    }

    /// The end that all processes of the program deserve for what they use together.
    fn look(&self, spec: &Spec) -> Option<End> {
        let (bytes, threads) = tree::usage(&tree::descendants());
        if spec.limits.total.is_some_and(|limit| bytes > limit) {
            eprintln!("akg-worker: all processes together used {bytes} bytes of memory");
            return Some(End::Exited(crash::OUT_OF_MEMORY));
        }
        if spec.limits.processes.is_some_and(|limit| threads > limit) {
            eprintln!("akg-worker: {threads} processes and threads ran at the same time");
            return Some(End::Exited(OVER_LIMIT));
        }
        if !self.hard_quota
            && !fits(
                &spec.scratch,
                &mut spec.quota.clone(),
                &mut namespaces::MOST_FILES.clone(),
            )
        {
            eprintln!(
                "akg-worker: the scratch directory held more than {} bytes",
                spec.quota
            );
            return Some(End::Exited(OVER_LIMIT));
        }
        None
    }
}

/// Whether what is in `directory` stays within what is left of bytes and files, from which it is subtracted.
fn fits(directory: &Path, bytes: &mut u64, files: &mut u64) -> bool {
    fs::read_dir(directory)
        .into_iter()
        .flatten()
        .flatten()
        .all(|entry| {
            let Ok(metadata) = entry.metadata() else {
                return true;
            };
            let left = bytes.checked_sub(metadata.len()).zip(files.checked_sub(1));
            let Some(left) = left else { return false };
            (*bytes, *files) = left;
            !metadata.is_dir() || fits(&entry.path(), bytes, files)
        })
}

/// Notes what is missing; whether it is there.
fn note(what: &str, outcome: io::Result<()>, missing: &mut Vec<String>) -> bool {
    if let Err(error) = &outcome {
        missing.push(format!("{what}: {error}"));
    }
    outcome.is_ok()
}

/// The first process of the program's own process ids: all others end when it does. Adopts and buries orphans.
fn be_first(ends: &PipeReader) -> i32 {
    close_all_but(&[ends.as_raw_fd()]);
    // For the case that somebody stops this process. Without it, the pipe below does.
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    // SAFETY: children whose parent ignores this signal are buried by the system.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
    // Returns when the supervisor ends.
    let _ = (&*ends).read(&mut [0]);
    0
}

/// Applies every restriction to this process, says what was reached, and becomes the program.
fn become_program(
    spec: &Spec,
    command: &[OsString],
    channel: &OwnedFd,
    own_ids: bool,
    hard_quota: bool,
    mut missing: Vec<String>,
) -> Result<Infallible> {
    let cannot = |e: io::Error| Error::io("cannot confine a program", e);
    let Some((program, arguments)) = command.split_first() else {
        return Err(Error::invalid("there is no program to confine"));
    };
    rustix::process::setsid().map_err(|e| cannot(e.into()))?;
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).map_err(|e| cannot(e.into()))?;
    let mut private_proc = false;
    if own_ids {
        private_proc = namespaces::private_proc().is_ok();
        // Filters of system calls already deny sockets, and the supervisor counts processes too.
        let _ = namespaces::private_network();
        if let Some(limit) = spec.limits.processes {
            let _ = namespaces::limit_processes(limit);
        }
    }
    let capabilities = namespaces::drop_capabilities();
    // Ordinary users have none.
    if rustix::process::geteuid().is_root() {
        note("programs without capabilities", capabilities, &mut missing);
    }
    spec.limits.apply(own_ids).map_err(cannot)?;
    rustix::thread::set_no_new_privs(true).map_err(|e| cannot(e.into()))?;
    if !spec.wants(Mechanism::Landlock) {
        missing.push("Landlock is switched off".to_owned());
    } else if let Err(why) = files::restrict(spec, Path::new(program), private_proc) {
        missing.push(why);
    }
    let mut handle = None;
    if hard_quota {
        handle = Some(namespaces::open_directory(&spec.scratch).map_err(cannot)?);
    }
    if !spec.wants(Mechanism::Seccomp) {
        missing.push("seccomp is switched off".to_owned());
    } else if let Err(error) = calls::restrict() {
        missing.push(error.to_string());
    }
    let isolation = spec.isolation(missing);
    isolation.demand(spec.required)?;
    let handle = handle.as_ref().map(|h| h.as_fd());
    report::send(channel.as_fd(), &Report::Ready(isolation), handle).map_err(cannot)?;
    let error = Command::new(program).args(arguments).exec();
    let kind = match error.kind() {
        io::ErrorKind::NotFound => ErrorKind::ToolMissing,
        _ => ErrorKind::Io,
    };
    Err(Error::new(kind, format!("cannot start {}", Path::new(program).display())).caused_by(error))
}

/// How a program ended.
#[derive(Debug, Clone, Copy)]
enum End {
    Exited(i32),
    Signaled(i32),
}

impl From<WaitStatus> for End {
    fn from(status: WaitStatus) -> Self {
        match status.terminating_signal() {
            Some(signal) => End::Signaled(signal),
            None => End::Exited(status.exit_status().unwrap_or(1)),
        }
    }
}

impl End {
    /// Ends this process in the same way, so that whoever waits for it learns what happened to the program.
    fn repeat(self) -> ! {
        match self {
            End::Exited(code) => std::process::exit(code),
            End::Signaled(signal) => {
                // SAFETY: plain system calls; this process has one thread.
                unsafe {
                    libc::signal(signal, libc::SIG_DFL);
                    let mut set = mem::zeroed();
                    libc::sigemptyset(&raw mut set);
                    libc::sigaddset(&raw mut set, signal);
                    libc::sigprocmask(libc::SIG_UNBLOCK, &raw const set, ptr::null_mut());
                    libc::raise(signal);
                }
                std::process::exit(128 + signal)
            }
        }
    }
}

/// The signals that a supervisor waits for: the end of a child, and the wish of the caller.
struct Signals(libc::sigset_t);

impl Signals {
    /// From now on they are only seen by [`next`](Self::next). The program start undoes that for the program.
    fn block() -> Self {
        // SAFETY: the set is plain data and initialised before it is used.
        unsafe {
            let mut set = mem::zeroed();
            libc::sigemptyset(&raw mut set);
            libc::sigaddset(&raw mut set, libc::SIGCHLD);
            libc::sigaddset(&raw mut set, libc::SIGTERM);
            libc::sigprocmask(libc::SIG_BLOCK, &raw const set, ptr::null_mut());
            Self(set)
        }
    }

    /// The next one, or none within `limit`.
    fn next(&self, limit: Option<Duration>) -> Option<i32> {
        // SAFETY: the pointers are valid or null, where the system allows null.
        let signal = unsafe {
            match limit {
                Some(limit) => {
                    let limit = libc::timespec {
                        tv_sec: limit.as_secs() as libc::time_t,
                        tv_nsec: limit.subsec_nanos() as libc::c_long,
                    };
                    libc::sigtimedwait(&raw const self.0, ptr::null_mut(), &raw const limit)
                }
                None => libc::sigwaitinfo(&raw const self.0, ptr::null_mut()),
            }
        };
        (signal > 0).then_some(signal)
    }
}

/// Runs `child` in a new process, which ends with the status that it returns.
fn fork(child: impl FnOnce() -> i32) -> io::Result<Pid> {
    // SAFETY: a supervisor has one thread, so that the child can go on as any process.
    let id = unsafe { libc::fork() };
    if id == 0 {
        std::process::exit(child());
    }
    Pid::from_raw(id)
        .filter(|_| id > 0)
        .ok_or_else(io::Error::last_os_error)
}

/// Closes every other descriptor.
fn close_all_but(kept: &[RawFd]) {
    /// Where the system cannot close ranges, the usual number of descriptors.
    const USUAL: u32 = 1 << 10;
    let mut kept: Vec<u32> = kept.iter().filter_map(|fd| u32::try_from(*fd).ok()).collect();
    kept.extend([u32::MAX]);
    kept.sort_unstable();
    let mut first = 0;
    for next in kept {
        if next > first {
            let last = next - 1;
            // SAFETY: descriptors of which this process knows nothing.
            unsafe {
                if libc::syscall(libc::SYS_close_range, first, last, 0) != 0 {
                    for fd in first..=last.min(USUAL) {
                        libc::close(fd as RawFd);
                    }
                }
            }
        }
        first = next.saturating_add(1);
    }
}
