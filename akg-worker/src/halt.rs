//! Stopping a worker's candidate whenever the clock does not run.

use std::collections::HashSet;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use akg_core::error::{Error, ErrorKind, Result};
use rustix::process::{Pid, Signal};

use crate::allowance::Allowance;

/// How long stopping may take; threads that are inside a long system call stop after it.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long to wait before looking again whether all threads have stopped.
const SLICE: Duration = Duration::from_micros(20);

/// A candidate whose threads stand still.
#[derive(Debug, Clone, Copy)]
pub struct Stopped {
    /// The number of its processes.
    pub processes: usize,
    /// When the last of them was seen to stand still. The search for others after that takes no time of the candidate's.
    pub at: Instant,
}

/// Stops and continues the process that executes a candidate, and all that the candidate started.
#[derive(Debug)]
pub struct Halt {
    /// The process that the caller started.
    root: Pid,
    /// The process that loads the candidate.
    executor: Pid,
    /// Processes between the caller and the executor. They are akg's own and go on.
    supervisors: HashSet<Pid>,
}

impl Halt {
    /// For a worker that has not loaded anything yet: the last of the chain of processes executes, the others supervise.
    pub(crate) fn new(root: Pid) -> Self {
        let mut chain = descendants(root);
        let executor = chain.pop().unwrap_or(root);
        Self {
            root,
            executor,
            supervisors: chain.into_iter().collect(),
        }
    }

    /// Stops every thread of the candidate, and returns when they have.
    ///
    /// # Errors
    /// [`ErrorKind::WorkerLost`] if they do not stop within ten seconds.
    pub fn stop(&self) -> Result<Stopped> {
        let until = Instant::now() + PATIENCE;
        let check_time = || {
            if Instant::now() <= until {
                return Ok(());
            }
            let message = format!("the worker cannot be stopped within {} s", PATIENCE.as_secs());
            Err(Error::new(ErrorKind::WorkerLost, message))
        };
        let mut stopped = HashSet::new();
        let mut at = Instant::now();
        // One that stands still starts no others: who is found afterwards was started before, and may have started more.
        let mut next = vec![self.executor];
        while !next.is_empty() {
            send(Signal::STOP, &next);
            while !next.iter().all(|process| is_stopped(*process)) {
                check_time()?;
                thread::sleep(SLICE);
            }
            check_time()?;
            at = Instant::now();
            stopped.extend(next);
            next = self.processes();
            next.retain(|process| !stopped.contains(process));
        }
        Ok(Stopped {
            processes: stopped.len(),
            at,
        })
    }

    /// The process that loads the candidate.
    pub(crate) fn executor(&self) -> Pid {
        self.executor
    }

    /// Returns true if the process that loads the candidate stands still. One that is killed while it is stopped does not: all
    /// its threads are woken before the first of them ends.
    pub(crate) fn stands_still(&self) -> bool {
        let task = format!("/proc/{}", self.executor.as_raw_nonzero());
        matches!(state(&task), Some('T' | 't'))
    }

    /// Lets it go on, and says since when.
    pub fn go(&self) -> Instant {
        let processes = self.processes();
        let since = Instant::now();
        send(Signal::CONT, &processes);
        since
    }

    /// The time that the candidate has from now on to answer a request.
    pub fn allow(&self, time: Duration) -> Allowance<'_> {
        Allowance::new(self, time)
    }

    /// The directories of all threads of the candidate.
    pub(crate) fn tasks(&self) -> impl Iterator<Item = String> {
        self.processes().into_iter().flat_map(tasks)
    }

    fn processes(&self) -> Vec<Pid> {
        let mut processes = descendants(self.root);
        processes.retain(|process| !self.supervisors.contains(process) && *process != self.executor);
        // The system may leave some out of its lists while others end; this one must not be missed.
        processes.push(self.executor);
        processes
    }
}

fn send(signal: Signal, processes: &[Pid]) {
    for process in processes {
        // Fails only if it is gone.
        let _ = rustix::process::kill_process(*process, signal);
    }
}

/// A process and all below it, parents first.
fn descendants(root: Pid) -> Vec<Pid> {
    let mut found = vec![root];
    let mut next = 0;
    while let Some(process) = found.get(next).copied() {
        next += 1;
        for task in tasks(process) {
            let children = fs::read_to_string(format!("{task}/children")).unwrap_or_default();
            found.extend(
                children
                    .split_whitespace()
                    .filter_map(|id| Pid::from_raw(id.parse().ok()?)),
            );
        }
    }
    found
}

/// The directories of a process's threads; none if it is gone.
fn tasks(process: Pid) -> impl Iterator<Item = String> {
    let directory = format!("/proc/{}/task", process.as_raw_nonzero());
    let entries = fs::read_dir(&directory).into_iter().flatten().flatten();
    entries.map(move |entry| format!("{directory}/{}", entry.file_name().display()))
}

fn is_stopped(process: Pid) -> bool {
    tasks(process).all(|task| matches!(state(&task), None | Some('T' | 't' | 'Z' | 'X')))
}

/// The letter for the state of a process or thread with this directory; `None` if it is gone.
fn state(directory: &str) -> Option<char> {
    let stat = fs::read_to_string(format!("{directory}/stat")).ok()?;
    // It follows the name, which may hold anything.
    stat.rsplit_once(") ")?.1.chars().next()
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use super::*;

    fn shell(script: &str) -> Child {
        Command::new("/bin/sh")
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// Waits until the shell says that it is ready.
    fn ready(child: &mut Child) {
        use std::io::Read as _;
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    }

    #[test]
    fn supervisors_go_on_while_the_rest_stops() {
        // The inner shell is there before the halt is made, its child comes later.
        let inner = "echo; read x; sleep 100 & echo; wait";
        let mut child = shell(&format!("sh -c '{inner}' <&0; exit 0"));
        let root = Pid::from_child(&child);
        ready(&mut child);
        let halt = Halt::new(root);
        assert_eq!(halt.supervisors, HashSet::from([root]));
        use std::io::Write as _;
        child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        ready(&mut child);
        assert_eq!(halt.stop().unwrap().processes, 2);
        assert!(!is_stopped(root));
        assert!(halt.processes().iter().all(|p| is_stopped(*p)));
        assert!(halt.stands_still());
        halt.go();
        assert!(!halt.stands_still());
        assert!(!halt.processes().iter().all(|p| is_stopped(*p)));
        send(Signal::KILL, &halt.processes());
        child.wait().unwrap();
    }

    #[test]
    fn what_is_gone_is_stopped() {
        use std::io::Read as _;
        let mut child = shell("exit 0");
        let halt = Halt::new(Pid::from_child(&child));
        child
            .stdout
            .as_mut()
            .unwrap()
            .read_to_end(&mut Vec::new())
            .unwrap();
        assert!(halt.stop().is_ok());
        assert!(!halt.stands_still());
        child.wait().unwrap();
    }
}
