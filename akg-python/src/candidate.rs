//! A candidate that is a Python module with host code of its own, in a worker process.

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::AsFd;
use std::thread;
use std::time::{Duration, Instant};

use akg_core::backend::{Cache, Call as Tensors, Limits, RunOutput};
use akg_core::error::{Error, ErrorKind, Result};
use akg_core::expr::Bindings;
use akg_core::isolation::Isolation;
use akg_core::source::{Artifact, ModuleInterface, PlanTensor, TensorRole};
use akg_core::tensor::byte_len;
use akg_core::turns::Turns;
use akg_core::verdict::{Failure, FailureKind};
use akg_core::{Expr, Tensor};
use akg_worker::caches;
use akg_worker::process::{Ended, Halt, Process, RequestError};
use akg_worker::seat::Execute;
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
    limits: Limits,
    /// Whether it computes on the processor.
    on_host: bool,
    dims: Bindings,
    /// The memory of the inputs at each placement.
    stages: BTreeMap<u32, Stage>,
    bound: Option<u32>,
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
            digests: Vec::new(),
            failure: None,
            _directory: directory,
            interface: interface.clone(),
            limits,
        };
        let open = CandidateCall::Open {
            path: &path,
            device,
            threads: thread::available_parallelism().map_or(1, usize::from),
            inputs: &interface.inputs,
            states: &interface.states,
            idle: artifact.plan.launches.is_empty(),
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
        let answer = self
            .process
            .request_passing(&call, &files, start + self.limits.time, &mut |_| {});
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

    fn is_bound(&self) -> Result<u32> {
        let message = "nothing is bound: bind tensors before executing and after taking";
        self.bound.ok_or_else(|| Error::invalid(message))
    }

    /// See [`bind`](Execute::bind).
    fn put(&mut self, call: &Tensors) -> Result<Result<(), Failure>> {
        if let Some(failure) = &self.failure {
            return Ok(Err(failure.clone()));
        }
        self.bound = None;
        // Constants follow the inputs.
        let count = self.interface.inputs.len();
        let Some(inputs) = call.inputs.get(..count) else {
            return Err(Error::invalid(format!(
                "the module has {count} inputs, but {} tensors were given",
                call.inputs.len()
            )));
        };
        let placement = call.placement;
        let fresh = self.dims != call.dims;
        if fresh {
            self.stages.clear();
            self.dims.clone_from(&call.dims);
        }
        let known = self.stages.remove(&placement).filter(|stage| stage.fits(inputs));
        let is_known = known.is_some();
        let mut stage = known.map_or_else(|| Stage::new(inputs), Ok)?;
        stage.write(inputs);
        if !is_known || !self.on_host {
            let put = CandidateCall::Put {
                placement,
                inputs: &stage.descriptors,
                fresh,
            };
            if let Err(failure) = self.ask::<Done>(put, &stage.files, FailureKind::Crashed)? {
                return Ok(Err(failure));
            }
        }
        self.stages.insert(placement, stage);
        self.bound = Some(placement);
        self.digests.clear();
        Ok(Ok(()))
    }

    /// See [`take`](Execute::take).
    fn look(&mut self) -> Result<Result<RunOutput, Failure>> {
        self.is_bound()?;
        self.bound = None;
        let outputs: Vec<PlanTensor> = self.outputs().cloned().collect();
        let mut types = Vec::with_capacity(outputs.len());
        for output in &outputs {
            let extent = |e: &Expr| Ok(usize::try_from(e.eval(&self.dims)?).unwrap_or(0));
            let shape: Vec<usize> = output.shape.iter().map(extent).collect::<Result<_>>()?;
            types.push((output.dtype, shape));
        }
        let sizes = types.iter().map(|(dtype, shape)| byte_len(*dtype, shape));
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
        if tensors.len() != types.len() || self.digests.len() != types.len() {
            let evidence = format!("the module returned {} tensors of {}", tensors.len(), types.len());
            return Ok(Err(Failure::new(FailureKind::WrongType, evidence)));
        }
        for ((tensor, (dtype, shape)), output) in tensors.iter().zip(&types).zip(&outputs) {
            if tensor.dtype() != *dtype || tensor.shape() != shape {
                let evidence = format!(
                    "the module returned {}{:?} for `{}`, which is {dtype}{shape:?}",
                    tensor.dtype(),
                    tensor.shape(),
                    output.name
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

    fn outputs(&self) -> impl Iterator<Item = &PlanTensor> {
        let tensors = self.interface.tensors.iter();
        tensors.filter(|tensor| tensor.role == TensorRole::Output)
    }
}

impl Execute for ModuleExecutor {
    fn isolation(&self) -> &Isolation {
        &self.isolation
    }

    fn bind(&mut self, call: Tensors, turns: &Turns) -> Result<Result<(), Failure>> {
        turns.beside(|| self.put(&call))
    }

    fn execute(&mut self, calls: u32, cache: Cache) -> Result<Result<Duration, Failure>> {
        let placement = self.is_bound()?;
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
        let run = CandidateCall::Run { placement, calls };
        let ran = self.ask::<Ran>(run, &none, FailureKind::Crashed)?;
        Ok(ran.map(|(Ran { digests }, elapsed)| {
            self.digests = digests;
            elapsed
        }))
    }

    fn take(&mut self, turns: &Turns) -> Result<Result<RunOutput, Failure>> {
        turns.beside(|| self.look())
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
