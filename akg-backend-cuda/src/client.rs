//! The caller's side: an artifact that is executed in a worker of its own.

use std::fs::{File, OpenOptions};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use akg_core::backend::{self, Cache, Limits, RunOutput, Sanitizer};
use akg_core::dtype::DType;
use akg_core::error::{Error, ErrorKind, Result};
use akg_core::expr::Bindings;
use akg_core::isolation::{Isolation, IsolationLevel};
use akg_core::profile::{Observation, Observed};
use akg_core::source::{Artifact, TensorRole};
use akg_core::target::Target;
use akg_core::tensor::byte_len;
use akg_core::turns::Turns;
use akg_core::verdict::{Failure, FailureKind};
use akg_worker::plan;
use akg_worker::process::{Process, Program, RequestError};
use akg_worker::seat::Execute;
use akg_worker::shm::{self, SharedTensor};

use crate::layout::MOST_ALIGN;
use crate::program::foreign;
use crate::protocol::{self, Answer, Call};
use crate::{CudaConfig, counters, sanitizer};

/// The artifact format of machine code: [`akg_core::image::Images`] whose code is what NVIDIA's assembler makes.
pub const CUBIN: &str = "cubin";

/// The artifact format of CUDA C++: [`akg_core::image::Images`] whose code is text, compiled for the device when it is
/// loaded. A kernel is `extern "C" __global__`; several may be in one text.
pub const CUDA_CPP: &str = "cuda-c++";

/// How long a worker may take for what has nothing to do with a candidate: the driver needs seconds on some machines.
const STARTING: Duration = Duration::from_secs(60);

/// Variables that tell the driver and the compiler what to use.
const VARIABLES: [&str; 5] = [
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "CUDA_HOME",
    "CUDA_PATH",
    "NVIDIA_VISIBLE_DEVICES",
];

/// Why isolation is what it is.
const MISSING: &str = "device code cannot call the system and sees no other process's memory, but the driver's own memory \
                       in the worker may be within its reach, and the driver needs files and devices that strict isolation \
                       takes away";

/// Slots at most: each is bound by a request of its own.
const MOST_SLOTS: usize = 256;

/// Bytes that the tensors of several slots may take.
const SLOT_MEMORY: usize = 1 << 30;

/// How far the device's clock may be ahead of this process's.
const CLOCKS: (f64, Duration) = (0.01, Duration::from_micros(50));

/// A worker of this backend, not started.
fn program(worker: Option<&Path>) -> Result<Program> {
    let program = akg_worker::find(worker)?.arg(protocol::SERVICE);
    let program = VARIABLES.into_iter().fold(program, Program::inherit);
    // Only device code is hostile. The driver opens devices, starts threads and maps what it likes.
    Ok(program.at_most(IsolationLevel::Basic))
}

/// Describes the devices of this machine; none where NVIDIA's driver is not found or finds none.
pub(crate) fn describe(worker: Option<&Path>) -> Result<Result<Vec<Target>, String>> {
    let mut process = program(worker)?.spawn()?;
    match ask(&mut process, &Call::Describe)? {
        Answer::Devices(devices) => Ok(Ok(devices)),
        Answer::Absent(why) => Ok(Err(why)),
        other => Err(unexpected(&other)),
    }
}

/// A new worker that has opened its device.
pub(crate) fn open(config: &CudaConfig) -> Result<Process> {
    let mut process = program(config.worker.as_deref())?.spawn()?;
    let device = config.device;
    match ask(&mut process, &Call::Open { device })? {
        Answer::Opened => Ok(process),
        Answer::Absent(why) => Err(Error::new(ErrorKind::NotFound, why)),
        other => Err(unexpected(&other)),
    }
}

/// Whether an artifact can be loaded by this backend, under these limits.
pub(crate) fn check(artifact: &Artifact, limits: &Limits) -> Result<()> {
    if ![CUBIN, CUDA_CPP].contains(&artifact.format.as_str()) {
        return Err(foreign(&artifact.format));
    }
    plan::check_tensors(&artifact.plan)?;
    isolation().demand(limits.isolation)
}

fn isolation() -> Isolation {
    Isolation {
        level: IsolationLevel::Basic,
        missing: vec![MISSING.to_owned()],
    }
}

/// Why this machine has no device, for people; `None` if it has one. `worker` is the worker program if configured.
pub fn absence(worker: Option<&Path>) -> Result<Option<String>> {
    Ok(match describe(worker)? {
        Ok(devices) if devices.is_empty() => Some("NVIDIA's driver finds no device".to_owned()),
        Ok(_) => None,
        Err(why) => Some(why),
    })
}

/// An artifact in a worker of its own, ready to be executed. Dropping it ends the worker.
#[derive(Debug)]
pub(crate) struct Executor {
    config: Arc<CudaConfig>,
    process: Process,
    isolation: Isolation,
    artifact: Artifact,
    limits: Limits,
    /// The binding of each slot: the values of the dims that shapes follow from, and the inputs, whose files must live on.
    bound: Vec<backend::Call>,
    /// The slot of the next call.
    next: usize,
    /// Where the worker puts outputs.
    outputs: Vec<SharedTensor>,
    /// How the candidate ended, if it did.
    failure: Option<Failure>,
}

impl Executor {
    /// Loads an artifact, which was [checked](check), in a worker that has opened its device.
    pub(crate) fn load(
        config: Arc<CudaConfig>,
        process: Process,
        artifact: Artifact,
        limits: Limits,
    ) -> Result<Result<Self, Failure>> {
        if let Some(failure) = plan::too_large(&artifact.plan) {
            return Ok(Err(failure));
        }
        let load = Call::Load {
            artifact: artifact.clone(),
            memory: limits.memory,
        };
        let mut executor = Self {
            config,
            process,
            isolation: isolation(),
            artifact,
            limits,
            bound: Vec::new(),
            next: 0,
            outputs: Vec::new(),
            failure: None,
        };
        // The text of a candidate can keep the compiler busy for any time.
        let time = executor.limits.time.max(STARTING);
        Ok(match executor.judge(&load, &[], time)? {
            Ok(Answer::Loaded) => Ok(executor),
            Ok(other) => return Err(unexpected(&other)),
            Err(failure) => Err(failure),
        })
    }
}

impl Execute for Executor {
    /// What contains the candidate.
    fn isolation(&self) -> &Isolation {
        &self.isolation
    }

    /// As many as fit the memory for slots, of at most [`MOST_SLOTS`] calls.
    fn slots(&self, dims: &Bindings) -> Result<usize> {
        let plan = &self.artifact.plan;
        let mut bytes = 1usize;
        for (tensor, shape) in plan.tensors.iter().zip(plan::shapes(plan, dims)?) {
            bytes = bytes.saturating_add(byte_len(tensor.dtype, &shape)?);
        }
        Ok((SLOT_MEMORY / bytes).clamp(1, MOST_SLOTS))
    }

    /// Puts tensors in place, slot after slot.
    fn bind(&mut self, calls: Vec<backend::Call>, turns: &Turns) -> Result<Result<(), Failure>> {
        self.bound.clear();
        self.next = 0;
        let plan = &self.artifact.plan;
        let mut calls = calls;
        let shared = plan::shared(plan, &calls);
        let is_shared = shared
            .iter()
            .zip(&plan.tensors)
            .filter(|(_, t)| t.role == TensorRole::Input);
        let is_shared: Vec<bool> = is_shared.map(|(shared, _)| *shared).collect();
        let slots = calls.len();
        for slot in 0..slots {
            let (before, call) = match calls.split_at_mut(slot) {
                (before, [call, ..]) => (before.first(), call),
                _ => break,
            };
            if let Some(failure) = plan::too_large_under(&self.artifact.plan, &call.dims)? {
                return Ok(Err(failure));
            }
            plan::check(&self.artifact.plan, &call.dims, &call.inputs)?;
            let mut files = Vec::new();
            for (at, input) in call.inputs.iter_mut().enumerate() {
                let first = before.filter(|_| is_shared.get(at) == Some(&true));
                match first.and_then(|first| first.inputs.get(at)) {
                    Some(first) => *input = first.clone(),
                    None => {
                        *input = shm::share(input)?;
                        let path = input.path();
                        let path = path.ok_or_else(|| Error::unexpected("a shared tensor has no file"))?;
                        files.push(open_file(path, File::options().read(true))?);
                    }
                }
            }
            let bind = Call::Bind {
                dims: call.dims.clone(),
                placement: call.placement,
                poison: call.poison,
                slot,
                slots,
                shared: shared.clone(),
            };
            // Copying inputs is no work of the candidate's.
            let time = self.limits.time.max(STARTING);
            match turns.beside(|| self.judge(&bind, &files, time))? {
                Ok(Answer::Bound) => {}
                Ok(other) => return Err(unexpected(&other)),
                Err(failure) => return Ok(Err(failure)),
            }
        }
        self.bound = calls;
        Ok(Ok(()))
    }

    /// Executes the plan on the slots; gives the time by the device's clock, which cannot be longer than
    /// what this process waited.
    fn execute(&mut self, calls: u32, cache: Cache) -> Result<Result<Duration, Failure>> {
        self.bound()?;
        let first = self.next;
        let slots = self.bound.len().max(1);
        self.next = (first + calls as usize % slots) % slots;
        let began = Instant::now();
        let execute = Call::Execute { first, calls, cache };
        let answer = match self.judge(&execute, &[], self.limits.time)? {
            Ok(answer) => answer,
            Err(failure) => return Ok(Err(failure)),
        };
        let waited = began.elapsed();
        let Answer::Executed { nanoseconds } = answer else {
            return Err(unexpected(&answer));
        };
        let device = Duration::from_nanos(nanoseconds);
        let (part, beside) = CLOCKS;
        if device > waited.mul_f64(1.0 + part) + beside {
            let evidence = format!(
                "the device's clock says that {calls} calls took {device:?}, but the caller waited only {waited:?}"
            );
            return Ok(Err(self.end(Failure::new(FailureKind::ClockMismatch, evidence))));
        }
        Ok(Ok(device))
    }

    /// The outputs in these slots; nothing is bound afterwards.
    fn take(&mut self, slots: &[usize], turns: &Turns) -> Result<Result<Vec<RunOutput>, Failure>> {
        let mut taken = Vec::with_capacity(slots.len());
        for slot in slots {
            match self.take_one(*slot, turns)? {
                Ok(output) => taken.push(output),
                Err(failure) => return Ok(Err(failure)),
            }
        }
        self.bound.clear();
        Ok(Ok(taken))
    }

    fn untouched(&mut self, used: usize) -> Result<Vec<usize>> {
        self.bound()?;
        let time = self.limits.time.max(STARTING);
        match self.judge(&Call::LookForUntouched { used }, &[], time)? {
            Ok(Answer::Untouched(slots)) => Ok(slots),
            Ok(other) => Err(unexpected(&other)),
            // Whoever takes an output is told of it.
            Err(_) => Ok(Vec::new()),
        }
    }

    /// Times each launch, asks the driver what it uses, and lets Nsight Compute count if it is there.
    fn observe(&mut self, calls: u32) -> Result<Result<Observation, Failure>> {
        let launches = match self.observe_launches(calls)? {
            Ok(launches) => launches,
            Err(failure) => return Ok(Err(failure)),
        };
        let mut observation = Observation {
            launches,
            notes: Vec::new(),
        };
        let required = self.limits.isolation;
        counters::add(
            &mut observation,
            &self.config,
            &self.artifact,
            self.bound()?,
            required,
        );
        Ok(Ok(observation))
    }

    /// Lets Compute Sanitizer watch an execution.
    fn sanitize(&mut self, sanitizer: Sanitizer) -> Result<Result<(), Failure>> {
        let required = self.limits.isolation;
        sanitizer::run(&self.config, &self.artifact, self.bound()?, required, sanitizer)
    }
}

impl Executor {
    /// What the device's clock and the driver say of each launch.
    fn observe_launches(&mut self, calls: u32) -> Result<Result<Vec<Observed>, Failure>> {
        self.bound()?;
        Ok(
            match self.judge(&Call::Observe { calls }, &[], self.limits.time)? {
                Ok(Answer::Observed(launches)) => Ok(launches),
                Ok(other) => return Err(unexpected(&other)),
                Err(failure) => Err(failure),
            },
        )
    }

    /// The outputs in one slot.
    fn take_one(&mut self, slot: usize, turns: &Turns) -> Result<Result<RunOutput, Failure>> {
        self.make_room()?;
        if slot >= self.bound.len() {
            return Err(Error::invalid(format!("slot {slot} is not bound")));
        }
        let options = File::options().read(true).write(true).clone();
        let files = self
            .outputs
            .iter()
            .map(|output| open_file(output.path(), &options));
        let files: Vec<File> = files.collect::<Result<_>>()?;
        let time = self.limits.time.max(STARTING);
        let taken = turns.beside(|| self.judge(&Call::Take { slot }, &files, time))?;
        Ok(match taken {
            Ok(Answer::Taken { inputs_unchanged }) => Ok(RunOutput {
                outputs: self
                    .outputs
                    .iter()
                    .map(SharedTensor::copy_own)
                    .collect::<Result<_>>()?,
                inputs_unchanged,
            }),
            Ok(other) => return Err(unexpected(&other)),
            Err(failure) => Err(failure),
        })
    }

    /// Memory for the outputs of what is bound: what the last ones left if they were alike.
    fn make_room(&mut self) -> Result<()> {
        let plan = &self.artifact.plan;
        let shapes = plan::shapes(plan, &self.bound()?.dims)?;
        let wanted: Vec<_> = plan
            .tensors
            .iter()
            .zip(shapes)
            .filter(|(tensor, _)| tensor.role == TensorRole::Output)
            .map(|(tensor, shape)| (tensor.dtype, shape))
            .collect();
        let alike =
            |(output, (dtype, shape)): (&SharedTensor, &(DType, Vec<usize>))| output.is(*dtype, shape);
        if self.outputs.len() != wanted.len() || !self.outputs.iter().zip(&wanted).all(alike) {
            self.outputs.clear();
            let outputs = wanted
                .into_iter()
                .map(|(dtype, shape)| shm::allocate(dtype, shape));
            self.outputs = outputs.collect::<Result<_>>()?;
        }
        Ok(())
    }

    /// The binding of the first slot.
    fn bound(&self) -> Result<&backend::Call> {
        self.bound
            .first()
            .ok_or_else(|| Error::invalid("nothing is bound: bind tensors before executing and after taking"))
    }

    /// Calls the worker, with files, for something that the candidate takes part in.
    fn judge(&mut self, call: &Call, files: &[File], time: Duration) -> Result<Result<Answer, Failure>> {
        if let Some(failure) = &self.failure {
            return Ok(Err(failure.clone()));
        }
        let descriptors: Vec<BorrowedFd<'_>> = files.iter().map(File::as_fd).collect();
        let deadline = Instant::now() + time;
        let answer = self
            .process
            .request_passing(call, &descriptors, deadline, &mut |_| {});
        let failure = match answer {
            Ok(Answer::Failed(failure)) => failure,
            Ok(answer) => return Ok(Ok(answer)),
            Err(RequestError::Failed(error)) => return Err(error),
            Err(error @ RequestError::TimedOut { .. }) => {
                Failure::new(FailureKind::TimedOut, error.to_string())
            }
            Err(error) => Failure::new(FailureKind::Crashed, error.to_string()),
        };
        Ok(Err(self.end(failure)))
    }

    /// Ends the worker because of a failure, which is the answer to everything from here on.
    fn end(&mut self, failure: Failure) -> Failure {
        self.process.kill();
        self.failure.insert(failure).clone()
    }
}

/// Opens shared memory of this process.
fn open_file(path: &Path, options: &OpenOptions) -> Result<File> {
    let cannot = |e| Error::io(format!("cannot open shared memory {}", path.display()), e);
    options.open(path).map_err(cannot)
}

/// Calls the worker for something that no candidate takes part in.
fn ask(process: &mut Process, call: &Call) -> Result<Answer> {
    Ok(process.request(call, Instant::now() + STARTING, &mut |_| {})?)
}

fn unexpected(answer: &Answer) -> Error {
    let message = format!("the worker gave an answer to another question: {answer:?}");
    Error::new(ErrorKind::Protocol, message)
}

const _: () = assert!(MOST_ALIGN == plan::MAX_ALIGN as u64);
