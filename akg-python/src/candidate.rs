//! A candidate that is a Python module with host code of its own, in a worker process.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use akg_core::Tensor;
use akg_core::backend::{Cache, Call as Tensors, Limits, RunOutput, Sanitizer};
use akg_core::error::{Error, Result};
use akg_core::expr::Bindings;
use akg_core::isolation::Isolation;
use akg_core::profile::{Observation, Observed};
use akg_core::source::{Artifact, LaunchPlan, ModuleInterface};
use akg_core::turns::Turns;
use akg_core::verdict::{Failure, FailureKind};
use akg_worker::process::{Halt, HostState, Process};
use akg_worker::seat::Execute;
use akg_worker::{caches, plan};
use serde::de::DeserializeOwned;
use tempfile::TempDir;

use crate::baseline::{ALLOCATOR, HOST};
use crate::calls::{Call, CandidateCall, Done, Left, Results};
use crate::commitment::Digest;
use crate::environment::Environment;
use crate::python::{INTERPRETED, PythonOptions};
use crate::results::{Expected, Kept};
use crate::share::Share;
use crate::transfer::{Files, Stage};
use crate::worker::Worker;

mod device;
mod state;

use state::failure;

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

/// Calls of which samples are taken in a batch, about, and batches at most. A busy machine takes fewer samples in each.
const MOST_SAMPLED: usize = 1 << 12;
const MOST_BATCHES: usize = 96;

/// Bytes that the results in all slots may take.
const SLOT_MEMORY: usize = 256 << 20;

/// Requests that measure what asking and answering takes before the module is loaded, and how many times as long an execution
/// without calls counts at most: the module could make it slow, as its time is subtracted from that of others.
const TRIPS: usize = 5;
const MOST_TRIPS: u32 = 4;

/// A module that has been loaded.
///
/// The process is stopped whenever the clock does not run, but while it maps memory and, on a device, takes over tensors. It
/// runs somebody's code, which can change all that the worker does. So nothing is believed that the worker says: the clock
/// runs until all of its threads stand still, and results are read from its memory before it goes on. Inputs lie in memory of
/// the judge, where they are written right before the call that they are for.
///
/// A device's memory cannot be read from here. There, results are copied to the host later, and must match digests that were
/// given before the clock was stopped.
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
    /// The placement that is bound, and the tensors of its slots.
    bound: Option<(u32, Vec<Tensors>)>,
    /// The number of binds so far.
    binds: u64,
    /// The slot of the next call.
    next: usize,
    /// What the calls since the last bind returned, where it lies in this machine's memory.
    kept: Kept,
    /// Digests of what they returned, by their slot, where it lies on a device.
    digests: BTreeMap<usize, Vec<Digest>>,
    /// What asking and answering took before the module was loaded.
    trip: Duration,
    /// The state of the process before the module was loaded.
    origin: Option<HostState>,
    /// How the candidate ended, if it did.
    failure: Option<Failure>,
    /// The part of its time that operators of PyTorch take, once a call has shown it.
    share: Option<f64>,
    /// True if the next call shows what the module's kernels do.
    is_watched: bool,
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
        Self::load_reading(environment, device, device == HOST, artifact, limits)
    }

    /// Loads a module whose results lie in memory that can be read from here, or in that of a device.
    fn load_reading(
        environment: Environment,
        device: &str,
        on_host: bool,
        artifact: &Artifact,
        limits: Limits,
    ) -> Result<Result<Self, Failure>> {
        let interface = ModuleInterface::from_artifact(artifact)?;
        let directory = tempfile::tempdir().map_err(|e| Error::io("cannot keep a module", e))?;
        let path = directory.path().join("modelnew.py");
        fs::write(&path, &artifact.bytes).map_err(|e| Error::io("cannot write a module", e))?;
        let options = PythonOptions {
            memory: (device == HOST).then(|| limits.memory.saturating_add(OWN_MEMORY)),
            isolation: limits.isolation,
            ..PythonOptions::default()
        };
        let worker = Worker::new(environment, options, LOADED);
        let mut worker = if device == HOST {
            // Results take memory that is there, as those of PyTorch do.
            let worker = worker.variable(INTERPRETED.0, INTERPRETED.1);
            ALLOCATOR
                .into_iter()
                .fold(worker, |worker, (name, value)| worker.variable(name, value))
        } else {
            worker.with_devices()
        };
        worker.show(&path);
        let mut process = worker.spawn()?;
        let ready = Call::Ready {};
        process.request::<_, Done>(&ready, Instant::now() + STARTING, &mut |_| {})?;
        let halt = process.halt();
        halt.check_reading().map_err(|e| {
            let message = "the system does not let akg read the memory of its workers, in which the results of modules lie";
            Error::unsupported(message).caused_by(e)
        })?;
        let mut executor = Self {
            halt,
            isolation: process.isolation().clone(),
            process,
            on_host,
            dims: Bindings::new(),
            stages: BTreeMap::new(),
            bound: None,
            binds: 0,
            next: 0,
            kept: Kept::default(),
            digests: BTreeMap::new(),
            trip: Duration::MAX,
            origin: None,
            failure: None,
            share: None,
            is_watched: artifact.plan.launches.is_empty(),
            _directory: directory,
            interface: interface.clone(),
            plan: artifact.plan.clone(),
            limits,
        };
        for _ in 0..TRIPS {
            match executor.ask::<Done>(CandidateCall::Trip {}, &Files::default(), FailureKind::LoadFailed)? {
                Ok((_, elapsed)) => executor.trip = executor.trip.min(elapsed),
                Err(failure) => return Ok(Err(failure)),
            }
        }
        let launch = artifact.plan.launches.first();
        let begin = CandidateCall::Begin {
            path: &path,
            device,
            threads: thread::available_parallelism().map_or(1, usize::from),
            idle: executor.is_watched,
        };
        if let Err(failure) = executor.ask::<Done>(begin, &Files::default(), FailureKind::LoadFailed)? {
            return Ok(Err(failure));
        }
        let origin = executor.halt.host_state();
        executor.origin =
            Some(origin.map_err(|e| Error::io("cannot read the state of a worker from outside", e))?);
        let open = CandidateCall::Open {
            path: &path,
            class: launch.map_or(ModuleInterface::CLASS, |launch| &launch.kernel),
            readable: on_host,
            inputs: &interface.inputs,
            states: &interface.states,
            layouts: &interface.layouts,
        };
        match executor.ask::<Left>(open, &Files::default(), FailureKind::LoadFailed)? {
            Ok((left, _)) => {
                let checked = executor.check_left(left);
                let checked = checked.and_then(|()| executor.check_process());
                Ok(checked.map(|()| executor))
            }
            Err(failure) => Ok(Err(failure)),
        }
    }

    /// Lets the process go on, calls it, and stops it when it has answered; gives the time until all of its threads stood
    /// still, too. An error that it reports is a failure of this kind.
    fn ask<R: DeserializeOwned>(
        &mut self,
        call: CandidateCall<'_>,
        files: &Files,
        kind: FailureKind,
    ) -> Result<Result<(R, Duration), Failure>> {
        self.ask_beside(call, files, kind, None)
    }

    /// As [`ask`](Self::ask), with samples of what the process executes meanwhile if they are wanted.
    fn ask_beside<R: DeserializeOwned>(
        &mut self,
        call: CandidateCall<'_>,
        files: &Files,
        kind: FailureKind,
        share: Option<&mut Share>,
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
        let start = self.halt.go();
        let mut allowance = self.halt.allow(self.limits.time);
        let (process, halt) = (&mut self.process, &self.halt);
        let mut request = || {
            let first = allowance.first();
            process.request_until(&call, &files, first, &mut || allowance.extension(), &mut |_| {})
        };
        let answer = match share {
            None => request(),
            Some(share) => {
                let done = AtomicBool::new(false);
                thread::scope(|scope| {
                    scope.spawn(|| share.sample(halt, &done));
                    let answer = request();
                    done.store(true, Ordering::Release);
                    answer
                })
            }
        };
        let failure = match answer {
            Ok(answer) => match self.halt.stop() {
                Ok(stopped) => return Ok(Ok((answer, stopped.at.saturating_duration_since(start)))),
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

    fn is_bound(&self) -> Result<&(u32, Vec<Tensors>)> {
        let message = "nothing is bound: bind tensors before executing and after taking";
        self.bound.as_ref().ok_or_else(|| Error::invalid(message))
    }

    /// What it must return under the dims that are bound.
    fn expected(&self) -> Result<Vec<Expected>> {
        Expected::of(&self.plan, &self.dims)
    }

    /// See [`bind`](Execute::bind).
    fn put(&mut self, mut calls: Vec<Tensors>) -> Result<Result<(), Failure>> {
        if let Some(failure) = &self.failure {
            return Ok(Err(failure.clone()));
        }
        self.bound = None;
        let Some(first) = calls.first() else {
            return Err(Error::invalid("there is no call to bind"));
        };
        let (dims, placement) = (first.dims.clone(), first.placement);
        for call in &mut calls {
            plan::check(&self.plan, &dims, &call.inputs)?;
            // Constants follow the inputs.
            call.inputs.truncate(self.interface.inputs.len());
        }
        let slots: Vec<&[Tensor]> = calls.iter().map(|call| call.inputs.as_slice()).collect();
        let fresh = self.dims != dims;
        if fresh {
            self.stages.clear();
            self.dims = dims;
        }
        // With the same dims, tensors are as large as before.
        let known = self
            .stages
            .remove(&placement)
            .filter(|stage| stage.is_for(&slots));
        let is_known = known.is_some();
        let mut stage = known.map_or_else(|| Stage::new(&slots, self.on_host), Ok)?;
        stage.begin();
        if !self.on_host {
            slots
                .iter()
                .enumerate()
                .for_each(|(slot, inputs)| stage.write(slot, inputs));
        }
        if !is_known || !self.on_host {
            let put = CandidateCall::Put {
                placement,
                slots: &stage.slots,
                fresh,
                known: is_known,
            };
            if let Err(failure) = self.ask::<Done>(put, &stage.files, FailureKind::Crashed)? {
                return Ok(Err(failure));
            }
        }
        self.stages.insert(placement, stage);
        self.bound = Some((placement, calls));
        self.binds += 1;
        self.next = 0;
        self.kept.clear();
        self.digests.clear();
        Ok(Ok(()))
    }

    /// Writes the inputs of slots where the module finds them, unless they are there since the last bind.
    fn supply(&mut self, slots: &[usize]) {
        let Some((placement, calls)) = self.bound.as_ref().filter(|_| self.on_host) else {
            return;
        };
        let Some(stage) = self.stages.get_mut(placement) else {
            return;
        };
        for slot in slots {
            if let Some(call) = calls.get(*slot) {
                stage.write(*slot, &call.inputs);
            }
        }
    }

    /// Keeps what calls in these slots returned: the process stands still.
    fn keep(&mut self, called: &BTreeSet<usize>, results: Results) -> Result<Result<(), Failure>> {
        if let Some(evidence) = results.idle {
            return Ok(Err(Failure::new(FailureKind::NoWork, evidence)));
        }
        self.share = results.share.or(self.share);
        let expected = self.expected()?;
        if let Err(failure) = Expected::check(&expected, &results) {
            return Ok(Err(failure));
        }
        let named: BTreeSet<usize> = if self.on_host {
            results.places.iter().map(|(slot, _)| *slot).collect()
        } else {
            results.digests.iter().map(|(slot, _)| *slot).collect()
        };
        if named != *called {
            let evidence = "the worker does not say where the results of every call are";
            return Ok(Err(Failure::new(FailureKind::Crashed, evidence)));
        }
        self.digests.extend(results.digests);
        Ok(self.kept.read(&self.halt, &expected, &results.places))
    }

    /// Measures the part of the module's time that PyTorch takes, in calls like those that are timed.
    fn measure_share(&mut self, slots: &[usize]) -> Result<Result<(), Failure>> {
        self.is_watched = false;
        if !self.on_host {
            return Ok(Ok(()));
        }
        let placement = self.is_bound()?.0;
        let mut share = Share::default();
        let mut slots = slots.to_vec();
        for _ in 0..MOST_BATCHES {
            if !share.is_open() {
                break;
            }
            let run = CandidateCall::Run {
                placement,
                bind: self.binds,
                slots: &slots,
            };
            let (none, kind) = (Files::default(), FailureKind::Crashed);
            if let Err(failure) = self.ask_beside::<Results>(run, &none, kind, Some(&mut share))? {
                return Ok(Err(failure));
            }
            if slots.len() < MOST_SAMPLED {
                slots.extend_from_within(..);
            }
        }
        self.share = share.of_pytorch();
        Ok(Ok(()))
    }

    /// See [`take`](Execute::take).
    fn look(&mut self, slots: &[usize]) -> Result<Result<Vec<RunOutput>, Failure>> {
        if let Some(failure) = &self.failure {
            return Ok(Err(failure.clone()));
        }
        let mut changed = false;
        if !self.on_host {
            match self.fetch(slots)? {
                Ok(on_device) => changed = on_device,
                Err(failure) => return Ok(Err(self.end(failure))),
            }
        }
        if let Err(failure) = self.left_behind()? {
            return Ok(Err(failure));
        }
        let expected = self.expected()?;
        let missing = |slot| Error::invalid(format!("slot {slot} is not bound"));
        let Some((placement, calls)) = self.bound.take() else {
            return Ok(Ok(Vec::new()));
        };
        let stage = self.stages.get(&placement);
        let mut taken = Vec::with_capacity(slots.len());
        for slot in slots {
            let call = calls.get(*slot).ok_or_else(|| missing(slot))?;
            let Some(outputs) = self.kept.tensors(*slot, &expected)? else {
                let evidence = format!("there are no results in slot {slot}");
                return Ok(Err(Failure::new(FailureKind::WrongType, evidence)));
            };
            let holds = stage.is_some_and(|stage| stage.holds(*slot, &call.inputs));
            taken.push(RunOutput {
                outputs,
                inputs_unchanged: holds && !changed,
            });
        }
        Ok(Ok(taken))
    }
}

impl Execute for ModuleExecutor {
    fn isolation(&self) -> &Isolation {
        &self.isolation
    }

    /// As many as fit the memory for slots, of at most 1000 calls.
    fn slots(&self, dims: &Bindings) -> Result<usize> {
        let outputs = Expected::of(&self.plan, dims)?;
        let bytes: usize = outputs.iter().map(|output| output.bytes).sum();
        Ok((SLOT_MEMORY / bytes.max(1)).clamp(1, MOST_SLOTS))
    }

    /// Names the results on a device, which no other process looks at, and all that the system does not show.
    fn gaps(&self) -> Vec<String> {
        let mut gaps = Vec::new();
        if !self.on_host {
            let gap = "not shown by the judge, but by the module's process: when its work on the device began, that it was done \
                       when the clock stopped, and that inputs on the device were left as they were";
            gaps.push(gap.to_owned());
        }
        if !self.origin.as_ref().is_some_and(HostState::knows_arithmetic) {
            let gap = "not shown: that the module left rounding and flush-to-zero as they were";
            gaps.push(gap.to_owned());
        }
        gaps
    }

    fn framework_share(&self) -> Option<f64> {
        self.share
    }

    fn bind(&mut self, calls: Vec<Tensors>, turns: &Turns) -> Result<Result<(), Failure>> {
        turns.beside(|| self.put(calls))
    }

    fn execute(&mut self, calls: u32, cache: Cache) -> Result<Result<Duration, Failure>> {
        let (placement, bound) = self.is_bound()?;
        let (placement, count) = (*placement, bound.len());
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
        let called: BTreeSet<usize> = slots.iter().copied().collect();
        self.supply(&slots);
        let run = CandidateCall::Run {
            placement,
            bind: self.binds,
            slots: &slots,
        };
        let (results, elapsed) = match self.ask::<Results>(run, &none, FailureKind::Crashed)? {
            Ok(ran) => ran,
            Err(failure) => return Ok(Err(failure)),
        };
        if called.is_empty() {
            // On a device it contains digests, which take longer.
            let most = self.trip.saturating_mul(MOST_TRIPS);
            return Ok(Ok(if self.on_host { elapsed.min(most) } else { elapsed }));
        }
        match self.keep(&called, results)? {
            Ok(()) if self.is_watched => Ok(self.measure_share(&slots)?.map(|()| elapsed)),
            Ok(()) => Ok(Ok(elapsed)),
            Err(failure) => Ok(Err(self.end(failure))),
        }
    }

    fn take(&mut self, slots: &[usize], turns: &Turns) -> Result<Result<Vec<RunOutput>, Failure>> {
        self.is_bound()?;
        turns.beside(|| self.look(slots))
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

#[cfg(test)]
mod tests;
