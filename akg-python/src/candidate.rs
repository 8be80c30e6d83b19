//! A candidate that is a Python module with host code of its own, in a worker process.

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::AsFd;
use std::thread;
use std::time::{Duration, Instant};

use akg_core::Tensor;
use akg_core::backend::{Cache, Call as Tensors, Limits, RunOutput, Sanitizer};
use akg_core::error::{Error, ErrorKind, Result};
use akg_core::expr::Bindings;
use akg_core::isolation::Isolation;
use akg_core::profile::{Observation, Observed};
use akg_core::source::{Artifact, LaunchPlan, ModuleInterface, TensorRole};
use akg_core::tensor::byte_len;
use akg_core::turns::Turns;
use akg_core::verdict::{Failure, FailureKind};
use akg_worker::process::{Ended, Halt, Process, RequestError};
use akg_worker::seat::Execute;
use akg_worker::{caches, plan};
use serde::de::DeserializeOwned;
use tempfile::TempDir;

use crate::baseline::HOST;
use crate::calls::{Call, CandidateCall, Done, Ran, Taken};
use crate::environment::Environment;
use crate::python::{INTERPRETED, PythonOptions};
use crate::transfer::{self, Files, Stage};
use crate::worker::Worker;

/// What is loaded before the module.
const LOADED: &[&str] = &["torch", "akg_worker.candidate"];

/// How long Python may take to load that.
const STARTING: Duration = Duration::from_secs(120);

/// Private memory of a process that has loaded PyTorch, with the stacks of its threads.
const OWN_MEMORY: u64 = 4 << 30;

/// Bytes that are written to empty the caches of a device: more than twice the largest there is.
const FLUSHED: u64 = 256 << 20;

/// Slots at most: more say no more of a module's speed.
const MOST_SLOTS: usize = 1000;

/// A module that has been loaded.
///
/// The process is stopped whenever the clock does not run, but while it takes over tensors and gives them back. It runs
/// somebody's code, which can change all that the worker does; what it returned must match the digests that it gave before
/// the clock was stopped.
#[derive(Debug)]
pub(crate) struct ModuleExecutor {
    process: Process,
    halt: Halt,
    isolation: Isolation,
    interface: ModuleInterface,
    plan: LaunchPlan,
    limits: Limits,
    /// Whether it computes on the processor.
    on_host: bool,
    dims: Bindings,
    /// The memory of the inputs at each placement.
    stages: BTreeMap<u32, Stage>,
    /// The placement that is bound, and the number of its slots.
    bound: Option<(u32, usize)>,
    /// The number of binds so far.
    binds: u64,
    /// The slot of the next call.
    next: usize,
    /// Digests of what the last execution returned.
    digests: Vec<u64>,
    /// How the candidate ended, if it did.
    failure: Option<Failure>,
    /// Where the module lies.
    _directory: TempDir,
}

impl ModuleExecutor {
    /// Loads a module in a new process; its tensors are on the device that PyTorch knows by this name.
    pub(crate) fn load(
        environment: Environment,
        device: &str,
        artifact: &Artifact,
        limits: Limits,
    ) -> Result<Result<Self, Failure>> {
        let interface = ModuleInterface::from_artifact(artifact)?;
        let directory = tempfile::tempdir().map_err(|e| Error::io("cannot keep a module", e))?;
        let path = directory.path().join("modelnew.py");
        fs::write(&path, &artifact.bytes).map_err(|e| Error::io("cannot write a module", e))?;
        let on_host = device == HOST;
        let options = PythonOptions {
            memory: on_host.then(|| limits.memory.saturating_add(OWN_MEMORY)),
            isolation: limits.isolation,
            ..PythonOptions::default()
        };
        let worker = Worker::new(environment, options, LOADED);
        let mut worker = if on_host {
            worker.variable(INTERPRETED.0, INTERPRETED.1)
        } else {
            worker.with_devices()
        };
        worker.show(&path);
        let mut process = worker.spawn()?;
        let ready = Call::Ready {};
        process.request::<_, Done>(&ready, Instant::now() + STARTING, &mut |_| {})?;
        let mut executor = Self {
            halt: process.halt(),
            isolation: process.isolation().clone(),
            process,
            on_host,
            dims: Bindings::new(),
            stages: BTreeMap::new(),
            bound: None,
            binds: 0,
            next: 0,
            digests: Vec::new(),
            failure: None,
            _directory: directory,
            interface: interface.clone(),
            plan: artifact.plan.clone(),
            limits,
        };
        let launch = artifact.plan.launches.first();
        let open = CandidateCall::Open {
            path: &path,
            class: launch.map_or(ModuleInterface::CLASS, |launch| &launch.kernel),
            device,
            threads: thread::available_parallelism().map_or(1, usize::from),
            inputs: &interface.inputs,
            states: &interface.states,
            idle: launch.is_none(),
        };
        let opened = executor.ask::<Done>(open, &Files::default(), FailureKind::LoadFailed)?;
        Ok(opened.map(|_| executor))
    }

    /// Lets the process go on, calls it, and stops it when it has answered; gives the time that this took, too. An error that
    /// it reports is a failure of this kind.
    fn ask<R: DeserializeOwned>(
        &mut self,
        call: CandidateCall<'_>,
        files: &Files,
        kind: FailureKind,
    ) -> Result<Result<(R, Duration), Failure>> {
        if let Some(failure) = &self.failure {
            return Ok(Err(failure.clone()));
        }
        let files = files.open()?;
        let files: Vec<_> = files.iter().map(AsFd::as_fd).collect();
        let call = Call::Candidate(call);
        if self.process.has_spoken() {
            let evidence = "the worker answered without being asked";
            return Ok(Err(self.end(Failure::new(FailureKind::Crashed, evidence))));
        }
        let start = Instant::now();
        self.halt.go();
        let (halt, time) = (&self.halt, self.limits.time);
        let answer = self.process.request_until(
            &call,
            &files,
            start + time,
            &mut || halt.deadline(start, time),
            &mut |_| {},
        );
        let elapsed = start.elapsed();
        let failure = match answer {
            Ok(answer) => match self.halt.stop() {
                Ok(_) => return Ok(Ok((answer, elapsed))),
                Err(error) => Failure::new(FailureKind::Crashed, error.to_string()),
            },
            Err(error) => failure(&error, kind),
        };
        Ok(Err(self.end(failure)))
    }

    /// Ends the process because of a failure, which is the answer to everything from here on.
    fn end(&mut self, failure: Failure) -> Failure {
        self.process.kill();
        self.failure.insert(failure).clone()
    }

    fn is_bound(&self) -> Result<(u32, usize)> {
        let message = "nothing is bound: bind tensors before executing and after taking";
        self.bound.ok_or_else(|| Error::invalid(message))
    }

    /// See [`bind`](Execute::bind).
    fn put(&mut self, calls: &[Tensors]) -> Result<Result<(), Failure>> {
        if let Some(failure) = &self.failure {
            return Ok(Err(failure.clone()));
        }
        self.bound = None;
        let Some(Tensors { dims, placement, .. }) = calls.first() else {
            return Err(Error::invalid("there is no call to bind"));
        };
        for call in calls {
            plan::check(&self.plan, dims, &call.inputs)?;
        }
        // Constants follow the inputs.
        let count = self.interface.inputs.len();
        let slots: Vec<&[Tensor]> = calls
            .iter()
            .map(|call| call.inputs.get(..count).unwrap_or_default())
            .collect();
        let fresh = self.dims != *dims;
        if fresh {
            self.stages.clear();
            self.dims.clone_from(dims);
        }
        // With the same dims, tensors are as large as before.
        let known = self.stages.remove(placement).filter(|stage| stage.is_for(&slots));
        let is_known = known.is_some();
        let mut stage = known.map_or_else(|| Stage::new(&slots), Ok)?;
        stage.write(&slots);
        if !is_known || !self.on_host {
            let put = CandidateCall::Put {
                placement: *placement,
                slots: &stage.slots,
                fresh,
                known: is_known,
            };
            if let Err(failure) = self.ask::<Done>(put, &stage.files, FailureKind::Crashed)? {
                return Ok(Err(failure));
            }
        }
        self.stages.insert(*placement, stage);
        self.bound = Some((*placement, calls.len()));
        self.binds += 1;
        self.next = 0;
        self.digests.clear();
        Ok(Ok(()))
    }

    /// See [`take`](Execute::take).
    fn look(&mut self) -> Result<Result<RunOutput, Failure>> {
        self.is_bound()?;
        self.bound = None;
        let shapes = plan::shapes(&self.plan, &self.dims)?;
        let tensors = self.plan.tensors.iter().cloned().zip(shapes);
        let outputs: Vec<_> = tensors.filter(|(t, _)| t.role == TensorRole::Output).collect();
        let sizes = outputs
            .iter()
            .map(|(output, shape)| byte_len(output.dtype, shape));
        let sizes: Vec<usize> = sizes.collect::<Result<_>>()?;
        let mut files = Files::default();
        let memory = transfer::outputs(&mut files, &sizes)?;
        let take = CandidateCall::Take {
            outputs: &memory.slots,
        };
        let taken = match self.ask::<Taken>(take, &files, FailureKind::WrongType)? {
            Ok((taken, _)) => taken,
            Err(failure) => return Ok(Err(failure)),
        };
        let written: Vec<_> = taken.types.into_iter().map(Some).collect();
        let tensors: Vec<Tensor> = memory.collect(&written)?.into_iter().flatten().collect();
        if tensors.len() != outputs.len() || self.digests.len() != outputs.len() {
            let evidence = format!(
                "the module returned {} tensors of {}",
                tensors.len(),
                outputs.len()
            );
            return Ok(Err(Failure::new(FailureKind::WrongType, evidence)));
        }
        for (tensor, (output, shape)) in tensors.iter().zip(&outputs) {
            if tensor.dtype() != output.dtype || tensor.shape() != shape {
                let evidence = format!(
                    "the module returned {}{:?} for `{}`, which is {}{shape:?}",
                    tensor.dtype(),
                    tensor.shape(),
                    output.name,
                    output.dtype
                );
                return Ok(Err(Failure::new(FailureKind::WrongType, evidence)));
            }
        }
        let late = tensors
            .iter()
            .zip(&self.digests)
            .any(|(t, d)| digest(t.bytes()) != *d);
        if late {
            let evidence = "the outputs are not what they were when the module had returned: it worked on when the clock \
                            had stopped, or they are not what it said";
            return Ok(Err(Failure::new(FailureKind::ClockMismatch, evidence)));
        }
        Ok(Ok(RunOutput {
            outputs: tensors,
            inputs_unchanged: taken.unchanged,
        }))
    }
}

impl Execute for ModuleExecutor {
    fn isolation(&self) -> &Isolation {
        &self.isolation
    }

    fn slots(&self, _: &Bindings) -> Result<usize> {
        Ok(MOST_SLOTS)
    }

    fn bind(&mut self, calls: Vec<Tensors>, turns: &Turns) -> Result<Result<(), Failure>> {
        turns.beside(|| self.put(&calls))
    }

    fn execute(&mut self, calls: u32, cache: Cache) -> Result<Result<Duration, Failure>> {
        let (placement, count) = self.is_bound()?;
        let slots: Vec<usize> = (self.next..)
            .take(calls as usize)
            .map(|call| call % count)
            .collect();
        self.next += slots.len();
        let none = Files::default();
        match cache {
            Cache::Warm => {}
            Cache::Cold if self.on_host => caches::flush(),
            Cache::Cold => {
                let flush = CandidateCall::Flush { bytes: FLUSHED };
                if let Err(failure) = self.ask::<Done>(flush, &none, FailureKind::Crashed)? {
                    return Ok(Err(failure));
                }
            }
        }
        let run = CandidateCall::Run {
            placement,
            bind: self.binds,
            slots: &slots,
        };
        let ran = self.ask::<Ran>(run, &none, FailureKind::Crashed)?;
        Ok(ran.map(|(Ran { digests }, elapsed)| {
            self.digests = digests;
            elapsed
        }))
    }

    fn keeps_last_only(&self) -> bool {
        true
    }

    fn take(&mut self, slots: &[usize], turns: &Turns) -> Result<Result<Vec<RunOutput>, Failure>> {
        let (_, count) = self.is_bound()?;
        let last = self.next.checked_sub(1).map_or(0, |last| last % count);
        match slots {
            [] => Ok(Ok(Vec::new())),
            [slot] if *slot == last => {
                let taken = turns.beside(|| self.look())?;
                Ok(taken.map(|output| vec![output]))
            }
            _ => Err(Error::invalid(format!(
                "a module keeps the outputs of slot {last} only, which was called last"
            ))),
        }
    }

    /// The time of a call as that of its only launch.
    fn observe(&mut self, calls: u32) -> Result<Result<Observation, Failure>> {
        let mut times = [Duration::ZERO; 2];
        for (time, calls) in times.iter_mut().zip([calls.max(1), 0]) {
            match self.execute(calls, Cache::Warm)? {
                Ok(elapsed) => *time = elapsed,
                Err(failure) => return Ok(Err(failure)),
            }
        }
        let [all, none] = times;
        let mut observation = Observation::default();
        observation.launches.push(Observed {
            seconds: all.saturating_sub(none).as_secs_f64() / f64::from(calls.max(1)),
            ..Observed::default()
        });
        let note = "the kernels of a Python module are not told apart: what is shown is a whole call, with its host code";
        observation.notes.push(note.to_owned());
        Ok(Ok(observation))
    }

    fn sanitize(&mut self, _: Sanitizer) -> Result<Result<(), Failure>> {
        Err(Error::unsupported(
            "a Python module with host code of its own is not executed under a sanitizer; leave out --sanitize",
        ))
    }
}

/// What the end of a worker says about the module in it, or what it reports, as a failure of this kind.
fn failure(error: &RequestError, kind: FailureKind) -> Failure {
    let kind = match error {
        RequestError::Failed(error) if error.kind() == ErrorKind::OutOfResources => FailureKind::OutOfMemory,
        RequestError::Failed(_) => kind,
        RequestError::TimedOut { .. } => FailureKind::TimedOut,
        _ => FailureKind::Crashed,
    };
    let evidence = match error {
        RequestError::Failed(error) => error.to_string(),
        RequestError::Ended {
            how: Ended::Exited(status),
            stderr,
        } => format!("the module ended its process ({status}) {stderr}"),
        other => other.to_string(),
    };
    Failure::new(kind, evidence.trim_end())
}

/// The sum of bytes as little-endian 64-bit words, and of the bytes that are left over, modulo 2^64.
fn digest(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let words = words.iter().map(|word| u64::from_le_bytes(*word));
    let rest = rest.iter().map(|byte| u64::from(*byte));
    words.chain(rest).fold(0, u64::wrapping_add)
}
