//! The caller's side of a worker: one worker, one candidate.

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use akg_core::backend::{RunOutput, RunRequest, Timing, TimingPolicy};
use akg_core::error::{Error, ErrorKind, Result};
use akg_core::isolation::IsolationLevel;
use akg_core::source::TensorRole;
use akg_core::target::Target;
use akg_core::tensor::{Tensor, byte_len};
use akg_core::verdict::{Failure, FailureKind};

use crate::process::{Ended, Process, Program, RequestError, ResourceLimits};
use crate::protocol::{self, Answer, Call, Execution, SharedView};
use crate::shm::{self, SharedBuffer};
use crate::{caches, crash, describe, locate, plan, team};

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

/// How long a worker may take to say hello, and to describe its device.
const STARTING: Duration = Duration::from_secs(30);

/// Private memory and address space that a worker needs for itself, and for each of its threads beside the stack.
const OWN_DATA: u64 = 64 << 20;
const OWN_ADDRESSES: u64 = 512 << 20;
const ADDRESSES_PER_THREAD: u64 = 128 << 20;

/// Threads of a worker beside those that execute kernels.
const OWN_THREADS: u64 = 16;

/// Bytes that a candidate may add to a file; it has no business writing any.
const FILE_SIZE: u64 = 64 << 20;

/// Describes the device of a worker on this machine; `worker` is its program if configured. The first call on a machine
/// measures it, which takes about a second; the numbers are kept in the user's cache directory.
pub fn describe(worker: Option<&Path>) -> Result<Target> {
    let program = describe::CACHE_VARIABLES
        .into_iter()
        .fold(locate::find(worker)?, Program::inherit)
        // No candidate runs in it, and it writes to the user's cache directory.
        .at_most(IsolationLevel::Basic);
    let mut process = start(&program)?;
    match call(&mut process, &Call::Describe, Instant::now() + STARTING)? {
        Answer::Device(target) => Ok(target),
        other => Err(unexpected(&other)),
    }
}

/// Runs an artifact once in a worker of its own; `worker` is its program if configured.
pub fn run(worker: Option<&Path>, request: &RunRequest) -> Result<Result<RunOutput, Failure>> {
    let job = match Job::new(request, false)? {
        Ok(job) => job,
        Err(failure) => return Ok(Err(failure)),
    };
    let answer = match job.execute(worker, Call::Run(job.execution()))? {
        Ok(answer) => answer,
        Err(failure) => return Ok(Err(failure)),
    };
    let Answer::Ran { inputs_unchanged } = answer else {
        return Err(unexpected(&answer));
    };
    let outputs = job
        .outputs
        .into_iter()
        .map(Output::freeze)
        .collect::<Result<_, _>>();
    Ok(outputs.map(|outputs| RunOutput {
        outputs,
        inputs_unchanged,
    }))
}

/// Times an artifact in a worker of its own; `worker` is its program if configured.
pub fn time(
    worker: Option<&Path>,
    request: &RunRequest,
    policy: &TimingPolicy,
) -> Result<Result<Timing, Failure>> {
    let job = match Job::new(request, policy.cold)? {
        Ok(job) => job,
        Err(failure) => return Ok(Err(failure)),
    };
    match job.execute(worker, Call::Time(job.execution(), policy.clone()))? {
        Ok(Answer::Timed(timing)) => Ok(Ok(timing)),
        Ok(other) => Err(unexpected(&other)),
        Err(failure) => Ok(Err(failure)),
    }
}

/// A request with its tensors in shared memory.
struct Job<'a> {
    request: &'a RunRequest,
    deadline: Instant,
    limits: ResourceLimits,
    inputs: Vec<Tensor>,
    outputs: Vec<Output>,
}

struct Output {
    view: SharedView,
    buffer: SharedBuffer,
}

impl Output {
    /// The tensor; a failure if the candidate left a process behind that can still change it.
    fn freeze(self) -> Result<Tensor, Failure> {
        let frozen = self.buffer.freeze();
        frozen
            .and_then(|file| Tensor::new(self.view.dtype, self.view.shape, Arc::new(file)))
            .map_err(|e| Failure::new(FailureKind::Crashed, format!("an output cannot be trusted: {e}")))
    }
}

impl<'a> Job<'a> {
    fn new(request: &'a RunRequest, flushes: bool) -> Result<Result<Self, Failure>> {
        let deadline = Instant::now() + request.limits.time;
        let plan = &request.artifact.plan;
        let shapes = plan::check(plan, &request.dims, &request.inputs)?;
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let cooperative = plan::cooperative_threads(plan, &request.dims)?;
        if cooperative > team::MOST_THREADS {
            let evidence = format!(
                "a cooperative kernel has {cooperative} programs; {} can run at the same time",
                team::MOST_THREADS
            );
            return Ok(Err(Failure::new(FailureKind::LoadFailed, evidence)));
        }
        let mut outputs = Vec::new();
        for (tensor, shape) in plan.tensors.iter().zip(shapes) {
            if tensor.role == TensorRole::Output {
                let buffer = SharedBuffer::allocate(byte_len(tensor.dtype, &shape)?)
                    .map_err(|e| e.with("output", &tensor.name))?;
                let view = SharedView {
                    path: buffer.path().to_owned(),
                    dtype: tensor.dtype,
                    shape,
                };
                outputs.push(Output { view, buffer });
            }
        }
        let inputs = request
            .inputs
            .iter()
            .map(shm::share)
            .collect::<Result<Vec<_>>>()?;

        let input_bytes: u64 = inputs.iter().map(|t| t.bytes().len() as u64).sum();
        let output_bytes: u64 = outputs.iter().map(|o| o.buffer.bytes().len() as u64).sum();
        let all_threads = threads as u64 + cooperative;
        // Kernels get private copies of the inputs, whose pages count even where they are not written.
        let data = [
            request.limits.memory,
            input_bytes,
            all_threads * team::STACK as u64,
            if flushes { caches::flush_bytes(threads) } else { 0 },
            OWN_DATA,
        ];
        let data = data.into_iter().fold(0, u64::saturating_add);
        let addresses = [
            data,
            input_bytes,
            output_bytes,
            all_threads * ADDRESSES_PER_THREAD,
            OWN_ADDRESSES,
        ];
        Ok(Ok(Self {
            request,
            deadline,
            limits: ResourceLimits {
                data: Some(data),
                address_space: Some(addresses.into_iter().fold(0, u64::saturating_add)),
                file_size: Some(FILE_SIZE.max(request.artifact.bytes.len() as u64)),
                total: None,
                processes: Some(all_threads + OWN_THREADS),
            },
            inputs,
            outputs,
        }))
    }

    fn execution(&self) -> Execution {
        let input = |tensor: &Tensor| SharedView {
            path: tensor.path().map(Path::to_owned).unwrap_or_default(),
            dtype: tensor.dtype(),
            shape: tensor.shape().to_owned(),
        };
        Execution {
            dims: self.request.dims.clone(),
            inputs: self.inputs.iter().map(input).collect(),
            outputs: self.outputs.iter().map(|o| o.view.clone()).collect(),
            poison: self.request.poison,
        }
    }

    /// Loads the artifact in a new worker and makes one call, after which the worker is gone.
    fn execute(&self, worker: Option<&Path>, work: Call) -> Result<Result<Answer, Failure>> {
        // Tensors are passed by path, which confined programs cannot follow.
        let program = locate::find(worker)?.at_most(IsolationLevel::Basic);
        let mut process = start(&program.limits(self.limits))?;
        for call in [Call::Load(self.request.artifact.clone()), work] {
            match process.request(&call, self.deadline, &mut |_| {}) {
                Ok(Answer::Loaded) => {}
                Ok(Answer::Failed(failure)) => return Ok(Err(failure)),
                Ok(answer) => return Ok(Ok(answer)),
                Err(error) => return self.judge(error).map(Err),
            }
        }
        Err(unexpected(&Answer::Loaded))
    }

    /// What the end of a worker says about the candidate it ran.
    fn judge(&self, error: RequestError) -> Result<Failure> {
        let memory = self.request.limits.memory;
        let kind = match &error {
            RequestError::Failed(_) => return Err(error.into()),
            RequestError::TimedOut { .. } => FailureKind::TimedOut,
            RequestError::Ended {
                how: Ended::Exited(status),
                stderr,
            } if status.code() == Some(crash::OUT_OF_MEMORY) => {
                let evidence =
                    format!("the candidate needs more than the {memory} bytes of memory it may use {stderr}");
                return Ok(Failure::new(FailureKind::OutOfMemory, evidence.trim_end()));
            }
            RequestError::Ended { .. } | RequestError::Protocol { .. } => FailureKind::Crashed,
        };
        Ok(Failure::new(kind, error.to_string()))
    }
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
