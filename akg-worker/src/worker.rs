//! A worker's process as the caller has it: started, given an artifact, called, stopped, judged by its end.

use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::os::unix::process::ExitStatusExt as _;
use std::thread;
use std::time::{Duration, Instant};

use akg_core::backend::Limits;
use akg_core::error::{Error, ErrorKind, Result};
use akg_core::isolation::{Isolation, IsolationLevel};
use akg_core::source::Artifact;
use akg_core::target::Target;
use akg_core::verdict::{Failure, FailureKind};
use rustix::process::Pid;

use crate::process::{Ended, Halt, Process, Program, RequestError, ResourceLimits};
use crate::protocol::{self, Answer, Call};
use crate::snapshot::{Maps, ProcessState};
use crate::{crash, space, team};

/// How long a worker may take for what has nothing to do with a candidate.
const STARTING: Duration = Duration::from_secs(30);

/// Private memory and address space that a worker needs for itself, and for each of its threads beside the stack.
const OWN_DATA: u64 = 64 << 20;
const OWN_ADDRESSES: u64 = 512 << 20;
const ADDRESSES_PER_THREAD: u64 = 128 << 20;

/// Threads of a worker beside those that execute kernels.
const OWN_THREADS: u64 = 16;

/// Bytes that a candidate may add to a file; it has no business writing any.
const FILE_SIZE: u64 = 64 << 20;

/// Characters of evidence that are kept of what a worker says.
const EVIDENCE: usize = 64 << 10;

/// A process that has loaded the artifact.
#[derive(Debug)]
pub(crate) struct Worker {
    process: Process,
    halt: Halt,
    pub(crate) isolation: Isolation,
    /// Threads for cooperative launches.
    pub(crate) cooperative: usize,
    /// Bytes that the candidate may use.
    memory: u64,
    /// The state of the process before the candidate was in it, if it can be read from outside.
    origin: Option<Origin>,
}

/// The state that a candidate found.
#[derive(Debug)]
struct Origin {
    state: ProcessState,
    /// The maps before it was loaded, then after tensors were mapped.
    maps: Maps,
    /// Memory without rights: the guards of stacks, and the addresses of tensors around these.
    guards: Vec<Range<u64>>,
    tensors: Range<u64>,
}

impl Origin {
    /// Names what is different in the worker. `loaded` says that the artifact was loaded since.
    fn difference(&self, process: Pid, loaded: bool) -> io::Result<Option<String>> {
        let state = ProcessState::read(process)?;
        let maps = Maps::read(process)?;
        Ok(self
            .state
            .difference(&state)
            .or_else(|| self.guards(&maps))
            .or_else(|| self.maps.difference(&maps, loaded))
            .or_else(|| self.maps.new_memory(&maps).filter(|_| !loaded)))
    }

    fn guards(&self, maps: &Maps) -> Option<String> {
        let guard = self.guards.iter().find(|guard| !maps.is_guard(guard));
        if let Some(guard) = guard {
            return Some(format!(
                "the guard of a stack at {:#x} was unmapped or given rights",
                guard.start
            ));
        }
        (!maps.is_reserved(&self.tensors))
            .then(|| "memory around tensors was unmapped or given rights".to_owned())
    }
}

impl Worker {
    /// Starts a worker with so many threads for cooperative launches, and loads the artifact in it.
    pub(crate) fn start(
        program: &Program,
        artifact: &Artifact,
        limits: &Limits,
        cooperative: usize,
    ) -> Result<Result<Self, Failure>> {
        let resources = resources(limits, artifact, cooperative);
        let mut process = start(&program.clone().limits(resources))?;
        let mut isolation = process.isolation().clone();
        let halt = process.halt();
        let prepare = Call::Prepare {
            artifact: artifact.clone(),
            cooperative,
        };
        let (unlocked, guards, tensors) = match call(&mut process, &prepare, Instant::now() + STARTING)? {
            Answer::Prepared {
                unlocked,
                guards,
                tensors,
            } => (unlocked, guards, tensors),
            Answer::Failed(failure) => return Ok(Err(failure)),
            other => return Err(unexpected(&other)),
        };
        let is_sealed = unlocked.is_none();
        let state = ProcessState::read(halt.executor())
            .and_then(|state| Ok((state, Maps::read(halt.executor())?)))
            .map_err(|error| format!("a worker's state cannot be read from outside: {error}"));
        let missing: Vec<_> = unlocked
            .into_iter()
            .chain(state.as_ref().err().cloned())
            .collect();
        if !missing.is_empty() {
            isolation.level = isolation.level.min(IsolationLevel::Basic);
            isolation.missing.extend(missing);
            isolation.demand(limits.isolation)?;
        }
        let origin = state.ok().map(|(state, maps)| Origin {
            // The worker's own filter follows when the artifact is loaded.
            state: if is_sealed { state.with_filter() } else { state },
            maps,
            guards,
            tensors,
        });
        let mut worker = Self {
            process,
            halt,
            isolation,
            cooperative,
            memory: limits.memory,
            origin,
        };
        Ok(match worker.ask(&Call::Load, &[], limits.time)? {
            Ok((Answer::Loaded, _)) => worker.left_behind(true).and_then(|()| {
                worker.remember_maps()?;
                Ok(worker)
            }),
            Ok((other, _)) => Err(wrong_answer(&other)),
            Err(failure) => Err(failure),
        })
    }

    /// Compares the stopped worker with what it was before the candidate.
    ///
    /// # Errors
    /// [`FailureKind::LeftBehind`] with the first thing that is different.
    pub(crate) fn check_state(&self) -> Result<(), Failure> {
        self.left_behind(false)
    }

    /// Takes the maps of the stopped worker for right: it has just mapped tensors.
    pub(crate) fn remember_maps(&mut self) -> Result<(), Failure> {
        if let Some(origin) = &mut self.origin {
            origin.maps = Maps::read(self.halt.executor()).map_err(|e| is_gone(&e))?;
        }
        Ok(())
    }

    fn left_behind(&self, loaded: bool) -> Result<(), Failure> {
        let Some(origin) = &self.origin else {
            return Ok(());
        };
        match origin.difference(self.halt.executor(), loaded) {
            Ok(None) => Ok(()),
            Ok(Some(what)) => {
                // What is read of a process that is killed meanwhile lacks its end.
                if !self.halt.stands_still() {
                    return Err(is_gone(&io::ErrorKind::NotFound.into()));
                }
                let evidence = format!("the candidate left its process in another state: {what}");
                Err(Failure::new(FailureKind::LeftBehind, evidence))
            }
            Err(error) => Err(is_gone(&error)),
        }
    }

    /// Lets the worker go on, calls it, and stops it when it has answered.
    pub(crate) fn ask(
        &mut self,
        call: &Call,
        files: &[BorrowedFd<'_>],
        time: Duration,
    ) -> Result<Result<(Answer, Duration), Failure>> {
        if self.process.has_spoken() {
            let evidence = "the worker answered without being asked";
            return Ok(Err(Failure::new(FailureKind::Crashed, evidence)));
        }
        let start = Instant::now();
        self.halt.go();
        let mut allowance = self.halt.allow(time);
        let answer = self.process.request_until(
            call,
            files,
            allowance.first(),
            &mut || allowance.extension(),
            &mut |_| {},
        );
        let elapsed = start.elapsed();
        Ok(match answer {
            Ok(Answer::Failed(Failure { kind, evidence })) => Err(Failure::new(kind, shortened(&evidence))),
            Ok(answer) => self.stop().map(|()| (answer, elapsed)),
            Err(error) => Err(self.judge(error)),
        })
    }

    /// Ends it and all that it started.
    pub(crate) fn kill(&mut self) {
        self.process.kill();
    }

    /// Stops the candidate, which consists of one process.
    fn stop(&self) -> Result<(), Failure> {
        let crashed = |evidence| Err(Failure::new(FailureKind::Crashed, evidence));
        match self.halt.stop() {
            Ok(stopped) if stopped.processes <= 1 => Ok(()),
            Ok(stopped) => crashed(format!(
                "the candidate started {} processes of its own",
                stopped.processes - 1
            )),
            Err(error) => crashed(error.to_string()),
        }
    }

    /// What the end of a worker says about the candidate it ran. An error that it reports counts too: with a candidate
    /// in it, it can report anything.
    fn judge(&self, error: RequestError) -> Failure {
        let kind = match &error {
            RequestError::TimedOut { .. } => FailureKind::TimedOut,
            RequestError::Ended {
                how: Ended::Exited(status),
                stderr,
            } if status.code() == Some(crash::OUT_OF_MEMORY) => {
                let evidence = format!(
                    "the candidate needs more than the {} bytes of memory it may use {stderr}",
                    self.memory
                );
                return Failure::new(FailureKind::OutOfMemory, evidence.trim_end());
            }
            RequestError::Ended {
                how: Ended::Exited(status),
                ..
            } if status.code() == Some(crash::REFUSED_CALL) => {
                let evidence =
                    format!("the candidate made a system call that kernels must not make; {error}");
                return Failure::new(FailureKind::LeftBehind, shortened(&evidence));
            }
            RequestError::Ended {
                how: Ended::Exited(status),
                ..
            } if status.signal() == Some(libc::SIGSYS) => {
                let evidence = format!(
                    "the candidate made a refused system call while it blocked all signals, as C libraries do to start \
                     a thread: kernels start no threads or processes; {error}"
                );
                return Failure::new(FailureKind::Crashed, shortened(&evidence));
            }
            RequestError::Failed(_) | RequestError::Ended { .. } | RequestError::Protocol { .. } => {
                FailureKind::Crashed
            }
        };
        Failure::new(kind, shortened(&error.to_string()))
    }
}

/// A worker that was stopped and has no state.
fn is_gone(error: &io::Error) -> Failure {
    Failure::new(
        FailureKind::Crashed,
        format!("the state of the worker's process cannot be read: {error}"),
    )
}

/// The resource limits of a worker.
fn resources(limits: &Limits, artifact: &Artifact, cooperative: usize) -> ResourceLimits {
    let threads = (thread::available_parallelism().map_or(1, usize::from) + cooperative) as u64;
    let sum = |parts: &[u64]| Some(parts.iter().copied().fold(0, u64::saturating_add));
    let stacks = threads * team::STACK as u64;
    ResourceLimits {
        data: sum(&[limits.memory, stacks, OWN_DATA]),
        address_space: sum(&[
            limits.memory,
            stacks,
            OWN_DATA,
            space::RESERVED,
            threads * ADDRESSES_PER_THREAD,
            OWN_ADDRESSES,
        ]),
        file_size: Some(FILE_SIZE.max(artifact.bytes.len() as u64)),
        total: None,
        processes: Some(threads + OWN_THREADS),
    }
}

/// What a worker of this program says about its device.
pub(crate) fn describe(program: &Program) -> Result<Target> {
    let mut process = start(program)?;
    match call(&mut process, &Call::Describe, Instant::now() + STARTING)? {
        Answer::Device(target) => Ok(*target),
        other => Err(unexpected(&other)),
    }
}

/// The beginning of what a worker says, which may be long.
pub(crate) fn shortened(text: &str) -> String {
    text.chars().take(EVIDENCE).collect()
}
/// Starts a worker and checks that it is one.
fn start(program: &Program) -> Result<Process> {
    let mut process = program.spawn()?;
    let hello = Call::Hello {
        protocol: protocol::VERSION,
    };
    let answer = call(&mut process, &hello, Instant::now() + STARTING)
        .map_err(|e| e.with("worker", program.path().display()))?;
    match answer {
        Answer::Hello { protocol } if protocol == protocol::VERSION => Ok(process),
        Answer::Hello { protocol } => Err(Error::new(
            ErrorKind::Protocol,
            format!(
                "the worker {} speaks version {protocol} of the protocol, this program {}; install the same version \
                 of both",
                program.path().display(),
                protocol::VERSION
            ),
        )),
        other => Err(unexpected(&other)),
    }
}

fn call(process: &mut Process, call: &Call, deadline: Instant) -> Result<Answer> {
    Ok(process.request(call, deadline, &mut |_| {})?)
}

fn unexpected(answer: &Answer) -> Error {
    let message = format!("the worker gave an answer to another question: {answer:?}");
    Error::new(ErrorKind::Protocol, message)
}

/// The same of a worker that may say what the candidate wants.
pub(crate) fn wrong_answer(answer: &Answer) -> Failure {
    Failure::new(FailureKind::Crashed, shortened(&unexpected(answer).to_string()))
}
