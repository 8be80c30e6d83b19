//! The state of a worker's process that a candidate must leave as it was, read by the caller from `/proc` while the
//! worker is stopped.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::PathBuf;

use rustix::process::Pid;

mod host;
mod maps;

pub use host::HostState;
pub(crate) use maps::{Maps, guards_below};

/// Lines of `/proc/PID/status` that are compared, and what they are.
const STATUS: [(&str, &str); 4] = [
    ("Umask", "the mask of file modes (umask)"),
    ("NoNewPrivs", "the right to gain privileges"),
    ("Seccomp", "the mode of system call filters"),
    ("Seccomp_filters", "the number of system call filters"),
];

/// Sets of signals in `/proc/PID/status`, and what became of a signal that is in one and was not, or the reverse.
const SIGNALS: [(&str, &str, &str); 2] = [
    (
        "SigCgt",
        "a handler for {} was installed",
        "the handler for {} was removed",
    ),
    ("SigIgn", "{} is ignored", "{} is no longer ignored"),
];

/// Fields of `/proc/PID/task/TID/stat`, counted from 0 behind the name of the thread.
const PRIORITY: usize = 15;
const NICE: usize = 16;
const BLOCKED: usize = 29;
const POLICY: usize = 38;

/// The state of a process at one moment.
#[derive(Debug, Clone)]
pub(crate) struct ProcessState {
    status: BTreeMap<String, String>,
    limits: String,
    directory: PathBuf,
    root: PathBuf,
    descriptors: BTreeMap<u32, PathBuf>,
    timers: String,
    threads: BTreeMap<u32, Thread>,
}

/// The state of a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Thread {
    name: String,
    /// Bits of the signals 1 to 31 that are blocked.
    blocked: u64,
    scheduling: [String; 3],
}

impl ProcessState {
    /// Reads the state of a process that stands still.
    pub(crate) fn read(process: Pid) -> io::Result<Self> {
        let root = format!("/proc/{}", process.as_raw_nonzero());
        let status = fs::read_to_string(format!("{root}/status"))?;
        let status = status.lines().filter_map(|line| line.split_once(':'));
        let wanted = |name: &str| {
            STATUS.iter().any(|(line, _)| *line == name) || SIGNALS.iter().any(|(line, ..)| *line == name)
        };
        let status = status
            .filter(|(name, _)| wanted(name))
            .map(|(name, value)| (name.to_owned(), value.trim().to_owned()));
        let mut descriptors = BTreeMap::new();
        for (number, name) in numbers(&format!("{root}/fd"))? {
            // It is open as long as the process stands still.
            descriptors.insert(number, fs::read_link(format!("{root}/fd/{}", name.display()))?);
        }
        let mut threads = BTreeMap::new();
        for (number, name) in numbers(&format!("{root}/task"))? {
            let stat = fs::read_to_string(format!("{root}/task/{}/stat", name.display()))?;
            threads.insert(number, Thread::parse(&stat).ok_or(io::ErrorKind::InvalidData)?);
        }
        Ok(Self {
            status: status.collect(),
            limits: fs::read_to_string(format!("{root}/limits"))?,
            directory: fs::read_link(format!("{root}/cwd"))?,
            root: fs::read_link(format!("{root}/root"))?,
            descriptors,
            // Not every system has it.
            timers: fs::read_to_string(format!("{root}/timers")).unwrap_or_default(),
            threads,
        })
    }

    /// The same after one more filter of system calls, if the system counts them.
    pub(crate) fn with_filter(mut self) -> Self {
        if let Some(filters) = self.status.get_mut("Seccomp_filters")
            && let Ok(number) = filters.parse::<u32>()
        {
            *filters = (number + 1).to_string();
        }
        self
    }

    /// Names the first thing that is different in `now`.
    pub(crate) fn difference(&self, now: &Self) -> Option<String> {
        self.signals(now, 0)
            .or_else(|| self.threads(now))
            .or_else(|| self.descriptors(now))
            .or_else(|| self.process(now))
    }

    /// What is different of what the process has once.
    fn process(&self, now: &Self) -> Option<String> {
        (self.directory != now.directory)
            .then(|| {
                let (before, now) = (self.directory.display(), now.directory.display());
                format!("the working directory is {now} and was {before}")
            })
            .or_else(|| (self.root != now.root).then(|| "the root directory is another".to_owned()))
            .or_else(|| (self.timers != now.timers).then(|| "a timer was made or changed".to_owned()))
            .or_else(|| {
                let lines = self.limits.lines().zip(now.limits.lines());
                let changed = lines.into_iter().find(|(before, now)| before != now)?;
                let words: Vec<_> = changed.1.split_whitespace().collect();
                Some(format!("a resource limit was changed: {}", words.join(" ")))
            })
            .or_else(|| {
                STATUS.iter().find_map(|(line, what)| {
                    let (before, now) = (self.status.get(*line), now.status.get(*line));
                    let value = |value: Option<&String>| value.cloned().unwrap_or_default();
                    (before != now).then(|| format!("{what} is {} and was {}", value(now), value(before)))
                })
            })
    }

    /// What is different of the handling of signals, except of those whose bit is set in `except`.
    fn signals(&self, now: &Self, except: u64) -> Option<String> {
        let set = |state: &Self, line: &str| {
            let text = state.status.get(line)?;
            u64::from_str_radix(text, 16).ok()
        };
        SIGNALS.iter().find_map(|(line, added, removed)| {
            let (before, now) = (set(self, line)?, set(now, line)?);
            let differing = (before ^ now) & !except;
            (differing != 0).then(|| {
                let signal = differing.trailing_zeros();
                let text = if now >> signal & 1 == 1 { added } else { removed };
                text.replace("{}", &signal_name(signal + 1))
            })
        })
    }

    fn threads(&self, now: &Self) -> Option<String> {
        let new = now.threads.iter().find(|(id, _)| !self.threads.contains_key(id));
        if let Some((id, thread)) = new {
            return Some(format!("a thread was started: `{}`, id {id}", thread.name));
        }
        let ended = self.threads.iter().find(|(id, _)| !now.threads.contains_key(id));
        if let Some((_, thread)) = ended {
            return Some(format!("the thread `{}` of the worker has ended", thread.name));
        }
        self.known_threads(now)
    }

    /// What is different in threads that were there before and are there now.
    fn known_threads(&self, now: &Self) -> Option<String> {
        self.threads.iter().find_map(|(id, before)| {
            let name = &before.name;
            let now = now.threads.get(id)?;
            let differing = before.blocked ^ now.blocked;
            if differing != 0 {
                let signal = differing.trailing_zeros();
                let verb = if now.blocked >> signal & 1 == 1 {
                    "is"
                } else {
                    "is no longer"
                };
                let signal = signal_name(signal + 1);
                return Some(format!("{signal} {verb} blocked in the thread `{name}`"));
            }
            if before.name != now.name {
                return Some(format!("the thread `{name}` is now named `{}`", now.name));
            }
            (before.scheduling != now.scheduling)
                .then(|| format!("the priority or scheduling of the thread `{name}` was changed"))
        })
    }

    fn descriptors(&self, now: &Self) -> Option<String> {
        let closed = self
            .descriptors
            .iter()
            .find(|(number, _)| !now.descriptors.contains_key(number));
        if let Some((number, file)) = closed {
            return Some(format!("descriptor {number} ({}) was closed", file.display()));
        }
        now.descriptors
            .iter()
            .find_map(|(number, file)| match self.descriptors.get(number) {
                None => Some(format!("descriptor {number} ({}) was left open", file.display())),
                Some(before) if before != file => Some(format!(
                    "descriptor {number} is {} and was {}",
                    file.display(),
                    before.display()
                )),
                Some(_) => None,
            })
    }
}

impl Thread {
    /// Parses `/proc/PID/task/TID/stat`, whose second field is the name in parentheses and may hold anything.
    fn parse(stat: &str) -> Option<Self> {
        let (before, after) = stat.rsplit_once(") ")?;
        let (_, name) = before.split_once('(')?;
        let fields: Vec<_> = after.split_whitespace().collect();
        let field = |index: usize| fields.get(index).copied();
        Some(Self {
            name: name.to_owned(),
            blocked: field(BLOCKED)?.parse().ok()?,
            scheduling: [
                field(PRIORITY)?.to_owned(),
                field(NICE)?.to_owned(),
                field(POLICY)?.to_owned(),
            ],
        })
    }
}

/// The entries of a directory whose names are numbers.
fn numbers(directory: &str) -> io::Result<Vec<(u32, OsString)>> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(directory)? {
        let name = entry?.file_name();
        if let Some(number) = name.to_str().and_then(|name| name.parse().ok()) {
            numbers.push((number, name));
        }
    }
    Ok(numbers)
}

/// The name of a signal, for people.
fn signal_name(signal: u32) -> String {
    let known = [
        (libc::SIGHUP, "SIGHUP"),
        (libc::SIGINT, "SIGINT"),
        (libc::SIGQUIT, "SIGQUIT"),
        (libc::SIGILL, "SIGILL"),
        (libc::SIGTRAP, "SIGTRAP"),
        (libc::SIGABRT, "SIGABRT"),
        (libc::SIGBUS, "SIGBUS"),
        (libc::SIGFPE, "SIGFPE"),
        (libc::SIGUSR1, "SIGUSR1"),
        (libc::SIGSEGV, "SIGSEGV"),
        (libc::SIGUSR2, "SIGUSR2"),
        (libc::SIGPIPE, "SIGPIPE"),
        (libc::SIGALRM, "SIGALRM"),
        (libc::SIGTERM, "SIGTERM"),
        (libc::SIGCHLD, "SIGCHLD"),
        (libc::SIGCONT, "SIGCONT"),
        (libc::SIGSYS, "SIGSYS"),
    ];
    let name = known
        .iter()
        .find(|(number, _)| u32::try_from(*number) == Ok(signal));
    name.map_or_else(|| format!("signal {signal}"), |(_, name)| (*name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_named() {
        use std::io::Read as _;
        use std::process::{Command, Stdio};
        // Says that it has started, and then only waits.
        let mut child = Command::new("/bin/sh")
            .args(["-c", "echo; read line"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        let before = ProcessState::read(Pid::from_child(&child)).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let mut now = before.clone();
        assert_eq!(before.difference(&now), None);
        let difference = |change: &dyn Fn(&mut ProcessState)| {
            let mut now = before.clone();
            change(&mut now);
            before.difference(&now).unwrap()
        };
        let text = difference(&|s| {
            s.status.insert("SigCgt".into(), "ffffffffffffffff".into());
        });
        assert!(text.contains("a handler for"), "{text}");
        let text = difference(&|s| {
            let thread = s.threads.values_mut().next().unwrap();
            thread.blocked ^= 1 << (libc::SIGUSR1 - 1);
        });
        assert!(text.contains("SIGUSR1 is blocked in the thread"), "{text}");
        let text = difference(&|s| s.threads.clear());
        assert!(text.contains("has ended"), "{text}");
        let text = difference(&|s| {
            s.descriptors.remove(&1);
        });
        assert!(text.contains("descriptor 1 ("), "{text}");
        let text = difference(&|s| s.directory = "/elsewhere".into());
        assert!(text.contains("/elsewhere"), "{text}");
        now.limits = now.limits.replace("unlimited", "0");
        if now.limits != before.limits {
            assert!(before.difference(&now).unwrap().contains("resource limit"));
        }
    }
}
