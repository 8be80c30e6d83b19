//! The caller's side: an artifact that is executed in a worker of its own.

use std::path::Path;
use std::time::Duration;

use akg_core::backend::{Cache, Call, Limits, RunOutput};
use akg_core::error::{Error, Result};
use akg_core::expr::Bindings;
use akg_core::isolation::{Isolation, IsolationLevel};
use akg_core::source::{Artifact, TensorRole};
use akg_core::target::Target;
use akg_core::tensor::byte_len;
use akg_core::turns::Turns;
use akg_core::verdict::{Failure, FailureKind};

use crate::layout::{Layout, Slots};
use crate::process::Program;
use crate::protocol::{self, Answer, Fault};
use crate::seat::Execute;
use crate::stage::Stage;
use crate::worker::{self, Worker, wrong_answer};
use crate::{caches, describe, locate, plan, space, state, team};

/// The artifact format that workers load: a shared object for this machine, with one C symbol for each kernel.
///
/// An ordinary kernel executes a range of programs, in the row-major numbering of the grid:
///
/// ```c
/// void NAME(void *const *tensors, const int64_t *dims, int64_t first, int64_t last);
/// ```
///
/// A cooperative one executes one program; all programs run at the same time and meet at the barrier:
///
/// ```c
/// struct akg_team { void (*barrier)(void *context); void *context; };
/// void NAME(void *const *tensors, const int64_t *dims, int64_t program, const struct akg_team *team);
/// ```
///
/// `tensors` are the launch's tensors, dense and row-major; `dims` are the values of the plan's dims. Kernels start no
/// threads.
pub const FORMAT: &str = "elf-so";

/// Slots at most: more say no more of a kernel's speed.
const MOST_SLOTS: usize = 1000;

/// Bytes that the tensors of several slots may take.
const SLOT_MEMORY: usize = 256 << 20;

/// Describes the device of a worker on this machine; `worker` is its program if configured. The first call on a machine
/// measures it, which takes about a second; the numbers are kept in the user's cache directory.
pub fn describe(worker: Option<&Path>) -> Result<Target> {
    let program = describe::CACHE_VARIABLES
        .into_iter()
        .fold(locate::find(worker)?, Program::inherit)
        // No candidate runs in it, and it writes to the user's cache directory.
        .at_most(IsolationLevel::Basic);
    worker::describe(&program)
}

/// An artifact in a worker of its own, ready to be executed. Dropping it kills the worker.
///
/// The worker's process is *stopped* (by `SIGSTOP`, and seen to be) except while a call is on its way: it runs while it
/// loads, while it maps memory that holds no data yet, and while the clock of [`execute`](Self::execute) runs. Inputs
/// are written and outputs read by this process while the worker is stopped. So a candidate cannot work on inputs before
/// the clock starts, and what it writes after it has said that it is done is not among the outputs, but for the few
/// microseconds that stopping it takes.
#[derive(Debug)]
pub struct Executor {
    program: Program,
    artifact: Artifact,
    limits: Limits,
    worker: Worker,
    stage: Option<Stage>,
    /// The placement whose addresses the stage's memory is mapped at.
    placed: Option<u32>,
    /// The calls in their slots; none if nothing is bound.
    bound: Vec<Call>,
    /// The slot of the next call.
    next: usize,
    /// How the candidate ended, if it did.
    failure: Option<Failure>,
}

impl Executor {
    /// Loads an artifact in a new worker; `worker` is its program if configured. One that could remember something from call to
    /// call is refused before that.
    ///
    /// # Errors
    /// [`Unsupported`](akg_core::ErrorKind::Unsupported) if the format is foreign or the isolation below the limit.
    pub fn load(worker: Option<&Path>, artifact: Artifact, limits: Limits) -> Result<Result<Self, Failure>> {
        plan::check_tensors(&artifact.plan)?;
        if let Some(failure) = plan::too_large(&artifact.plan) {
            return Ok(Err(failure));
        }
        if !limits.may_keep_state
            && let Some(failure) = state::check(&artifact.bytes)
        {
            return Ok(Err(failure));
        }
        // Grids that depend on dims are only known when tensors are bound.
        let cooperative = plan::cooperative_threads(&artifact.plan, &Bindings::new()).unwrap_or(0);
        let cooperative = match threads_for(cooperative) {
            Ok(threads) => threads,
            Err(failure) => return Ok(Err(failure)),
        };
        let program = locate::find(worker)?.isolation(limits.isolation);
        let loaded = Worker::start(&program, &artifact, &limits, cooperative)?;
        Ok(loaded.map(|worker| Self {
            program,
            artifact,
            limits,
            worker,
            stage: None,
            placed: None,
            bound: Vec::new(),
            next: 0,
            failure: None,
        }))
    }
}

impl Execute for Executor {
    /// What contains the candidate.
    fn isolation(&self) -> &Isolation {
        &self.worker.isolation
    }

    /// As many as fit the memory for slots, of at most 1000 calls.
    fn slots(&self, dims: &Bindings) -> Result<usize> {
        let plan = &self.artifact.plan;
        let one = Slots {
            slots: 1,
            shared: vec![false; plan.tensors.len()],
        };
        let layout = Layout::new(plan, dims, &one)?;
        let bytes = layout.input_file.saturating_add(layout.other_file).max(1);
        let zones = space::MOST_ZONES / plan.tensors.len().max(1);
        Ok(MOST_SLOTS.min(zones).min(SLOT_MEMORY / bytes).max(1))
    }

    /// Puts tensors in place. If they need more threads for cooperative launches than there are, the artifact is loaded
    /// again in another worker that has them: threads must exist before the candidate does.
    fn bind(&mut self, calls: Vec<Call>, turns: &Turns) -> Result<Result<(), Failure>> {
        turns.beside(|| self.put(calls))
    }

    /// Executes the plan on the slots; gives the wall time by this process's clock, from before the worker is let go on until its answer has arrived.
    ///
    /// The worker's own time is compared with that: it cannot be longer, unless the worker lies. Shorter it may be by
    /// any amount on a busy machine, and no candidate gains by that.
    ///
    /// # Errors
    /// [`InvalidInput`](akg_core::ErrorKind::InvalidInput) if nothing is bound.
    fn execute(&mut self, calls: u32, cache: Cache) -> Result<Result<Duration, Failure>> {
        let first = self.next;
        let slots = self.bound()?.len();
        self.next = (first + calls as usize % slots) % slots;
        if cache == Cache::Cold {
            caches::flush();
        }
        let (answer, elapsed) = match self.ask(&protocol::Call::Execute { first, calls }, false)? {
            Ok(answered) => answered,
            Err(failure) => return Ok(Err(failure)),
        };
        let Answer::Executed {
            nanoseconds,
            left_behind,
        } = answer
        else {
            return Ok(Err(self.end(wrong_answer(&answer))));
        };
        if let Some(evidence) = left_behind {
            let failure = Failure::new(FailureKind::LeftBehind, worker::shortened(&evidence));
            return Ok(Err(self.end(failure)));
        }
        let claimed = Duration::from_nanos(nanoseconds);
        if claimed > elapsed {
            let evidence = format!(
                "the worker's clock says that {calls} calls took {claimed:?}, but the caller waited only {elapsed:?}"
            );
            let mismatch = Failure::new(FailureKind::ClockMismatch, evidence);
            return Ok(Err(self.end(mismatch)));
        }
        Ok(Ok(elapsed))
    }

    /// The outputs as they were when the last execution ended; nothing is bound afterwards.
    ///
    /// # Errors
    /// [`InvalidInput`](akg_core::ErrorKind::InvalidInput) if nothing is bound.
    fn take(&mut self, slots: &[usize], turns: &Turns) -> Result<Result<Vec<RunOutput>, Failure>> {
        turns.beside(|| self.look(slots))
    }

    fn untouched(&mut self, used: usize) -> Result<Vec<usize>> {
        let stage = self.stage()?;
        let calls = self.bound()?.iter().enumerate().take(used);
        let untouched = calls.filter(|(slot, call)| stage.is_untouched(*slot, call));
        Ok(untouched.map(|(slot, _)| slot).collect())
    }
}

impl Executor {
    /// See [`bind`](Execute::bind).
    fn put(&mut self, calls: Vec<Call>) -> Result<Result<(), Failure>> {
        if let Some(failure) = &self.failure {
            return Ok(Err(failure.clone()));
        }
        self.bound.clear();
        self.next = 0;
        let plan = &self.artifact.plan;
        let Some(Call { dims, placement, .. }) = calls.first() else {
            return Err(Error::invalid("there is no call to bind"));
        };
        if let Some(failure) = plan::too_large_under(plan, dims)? {
            return Ok(Err(failure));
        }
        let mut shapes = Vec::new();
        for call in &calls {
            shapes = plan::check(plan, dims, &call.inputs)?;
        }
        if let Some(failure) = self.too_much_scratch(&shapes)? {
            return Ok(Err(failure));
        }
        let cooperative = match threads_for(plan::cooperative_threads(plan, dims)?) {
            Ok(threads) => threads,
            Err(failure) => return Ok(Err(failure)),
        };
        if cooperative > self.worker.cooperative {
            self.worker.kill();
            self.placed = None;
            match Worker::start(&self.program, &self.artifact, &self.limits, cooperative)? {
                Ok(worker) => self.worker = worker,
                Err(failure) => return Ok(Err(self.failure.insert(failure).clone())),
            }
        }
        let slots = Slots {
            slots: calls.len(),
            shared: plan::shared(plan, &calls),
        };
        let fits = |stage: &Stage| stage.dims == *dims && stage.slots == slots;
        if !self.stage.as_ref().is_some_and(fits) {
            // Not both at the same time: they may be large.
            self.stage = None;
            self.placed = None;
            self.stage = Some(Stage::new(&self.artifact.plan, dims, slots)?);
        }
        if self.placed != Some(*placement)
            && let Err(failure) = self.place(*placement)?
        {
            return Ok(Err(failure));
        }
        if let Some(stage) = &mut self.stage {
            stage.set(&calls);
        }
        self.bound = calls;
        Ok(Ok(()))
    }

    /// See [`take`](Execute::take).
    fn look(&mut self, slots: &[usize]) -> Result<Result<Vec<RunOutput>, Failure>> {
        self.bound()?;
        // A failure is the answer below.
        let _ = self.check_state();
        let mut taken = Vec::with_capacity(slots.len());
        for slot in slots {
            match self.look_at(*slot)? {
                Ok(output) => taken.push(output),
                Err(failure) => return Ok(Err(failure)),
            }
        }
        self.bound.clear();
        Ok(Ok(taken))
    }

    /// The outputs in one slot.
    fn look_at(&self, slot: usize) -> Result<Result<RunOutput, Failure>> {
        let not_bound = || Error::invalid(format!("slot {slot} is not bound"));
        let call = self.bound()?.get(slot).ok_or_else(not_bound)?;
        let (plan, stage, placement) = (&self.artifact.plan, self.stage()?, call.placement);
        Ok(match (stage.overrun(plan, slot, placement), &self.failure) {
            (_, Some(failure)) => Err(failure.clone()),
            (Some(failure), None) => Err(failure),
            (None, None) => Ok(RunOutput {
                outputs: stage.outputs(plan, slot, placement)?,
                inputs_unchanged: stage.inputs_unchanged(slot, call),
            }),
        })
    }

    /// Scratch is the candidate's memory, though the caller allocates it.
    fn too_much_scratch(&self, shapes: &[Vec<usize>]) -> Result<Option<Failure>> {
        let mut left = self.limits.memory;
        for (tensor, shape) in self.artifact.plan.tensors.iter().zip(shapes) {
            if tensor.role != TensorRole::Scratch {
                continue;
            }
            let bytes = byte_len(tensor.dtype, shape)? as u64;
            let Some(rest) = left.checked_sub(bytes) else {
                let evidence = format!(
                    "there is no room for the {bytes} bytes of scratch `{}`: the candidate may use {} bytes in all",
                    tensor.name, self.limits.memory
                );
                return Ok(Some(Failure::new(FailureKind::OutOfMemory, evidence)));
            };
            left = rest;
        }
        Ok(None)
    }

    /// Lets the worker map the stage's memory, which does not hold this call's inputs yet.
    fn place(&mut self, placement: u32) -> Result<Result<(), Failure>> {
        self.placed = None;
        if let Err(failure) = self.check_state() {
            return Ok(Err(failure));
        }
        let stage = self.stage()?;
        let place = protocol::Call::Place {
            dims: stage.dims.clone(),
            placement,
            slots: stage.slots.slots,
            shared: stage.slots.shared.clone(),
        };
        match self.ask(&place, true)? {
            Ok((Answer::Placed, _)) => {
                self.placed = Some(placement);
                Ok(self.worker.remember_maps().map_err(|failure| self.end(failure)))
            }
            Ok((other, _)) => Ok(Err(self.end(wrong_answer(&other)))),
            Err(failure) => Ok(Err(failure)),
        }
    }

    /// The calls in their slots, of which there is one at least.
    fn bound(&self) -> Result<&[Call]> {
        let message = "nothing is bound: bind tensors before executing and after taking";
        let bound = Some(self.bound.as_slice()).filter(|bound| !bound.is_empty());
        bound.ok_or_else(|| Error::invalid(message))
    }

    fn stage(&self) -> Result<&Stage> {
        let missing = || Error::unexpected("tensors are bound without memory");
        self.stage.as_ref().ok_or_else(missing)
    }

    /// Calls the worker, which runs only until it answers; gives the time that this took too.
    fn ask(
        &mut self,
        call: &protocol::Call,
        with_files: bool,
    ) -> Result<Result<(Answer, Duration), Failure>> {
        if let Some(failure) = &self.failure {
            return Ok(Err(failure.clone()));
        }
        let files = self.stage.as_ref().filter(|_| with_files);
        let files: Vec<_> = files
            .into_iter()
            .flat_map(|stage| [stage.inputs.descriptor(), stage.others.descriptor()])
            .collect();
        let outcome = match self.worker.ask(call, &files, self.limits.time)? {
            Ok((Answer::Faulted(fault), _)) => Err(self.fault(fault)),
            other => other,
        };
        Ok(outcome.map_err(|failure| self.end(failure)))
    }

    /// Compares the state of the worker with what it was before the candidate.
    fn check_state(&mut self) -> Result<(), Failure> {
        match &self.failure {
            Some(failure) => Err(failure.clone()),
            None => self.worker.check_state().map_err(|failure| self.end(failure)),
        }
    }

    /// Ends the worker because of a failure, which is the answer to everything from here on.
    fn end(&mut self, failure: Failure) -> Failure {
        self.worker.kill();
        self.failure.insert(failure).clone()
    }

    /// What a forbidden access says about the candidate. The worker may say anything here, but never that it is right.
    fn fault(&self, fault: Fault) -> Failure {
        let stage = self.stage.as_ref();
        let tensors = self.artifact.plan.tensors.len().max(1);
        // Every slot has all of them.
        let near = fault
            .tensor
            .map(|index| index % tensors)
            .and_then(|index| Some((self.artifact.plan.tensors.get(index)?, stage?.bytes(index)?)));
        let Some((tensor, bytes)) = near else {
            let evidence =
                "a kernel used the address of a tensor of an earlier call, with other dims or placement";
            return Failure::new(FailureKind::OutOfBounds, evidence);
        };
        let inside = usize::try_from(fault.offset).is_ok_and(|offset| offset < bytes);
        let kind = match tensor.role {
            TensorRole::Input if inside => FailureKind::InputChanged,
            _ => FailureKind::OutOfBounds,
        };
        Failure::new(kind, fault.evidence(&tensor.name, bytes))
    }
}

/// The number of threads for so many cooperative programs.
fn threads_for(programs: u64) -> Result<usize, Failure> {
    if programs > team::MOST_THREADS {
        let evidence = format!(
            "a cooperative kernel has {programs} programs; {} can run at the same time",
            team::MOST_THREADS
        );
        return Err(Failure::new(FailureKind::LoadFailed, evidence));
    }
    Ok(programs as usize)
}
