//! The trait of devices.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::digest::{Fields, Fingerprint};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::expr::Bindings;
use crate::isolation::{Isolation, IsolationLevel};
use crate::profile::Observation;
use crate::reference::Products;
use crate::source::Artifact;
use crate::target::Target;
use crate::task::Task;
use crate::tensor::{Tensor, byte_len};
use crate::timing::{Machine, Witness};
use crate::turns::Turns;
use crate::verdict::Failure;

/// What a backend can do, as data.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct BackendCapability {
    /// Artifact formats that it loads.
    pub formats: Vec<String>,
    /// Whether the times that [`Loaded::execute`] gives are those of the device.
    pub times: bool,
    /// Whether it [observes](Loaded::observe) each launch of a plan.
    #[serde(default)]
    pub observes: bool,
    /// What its [sanitizers](Loaded::sanitize) look for.
    #[serde(default)]
    pub sanitizers: Vec<Sanitizer>,
    /// Whether candidates run on processors of their own, so that what this machine's do meanwhile does not change times.
    #[serde(default)]
    pub own_processors: bool,
}

/// What a sanitizer looks for: faults in how kernels use memory, which need not show in any output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sanitizer {
    /// Accesses outside of every tensor, and misaligned ones.
    Memory,
    /// Accesses of several threads to the same place, of which one writes, that nothing orders.
    Races,
    /// Reads of what nobody has written.
    Initialization,
}

impl Sanitizer {
    /// Every one.
    pub const ALL: [Sanitizer; 3] = [Sanitizer::Memory, Sanitizer::Races, Sanitizer::Initialization];

    /// The name on the command line and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Sanitizer::Memory => "memory",
            Sanitizer::Races => "races",
            Sanitizer::Initialization => "initialization",
        }
    }

    /// What a backend without it answers.
    pub fn unsupported(self) -> Error {
        Error::unsupported(format!("this backend has no sanitizer for `{self}`"))
    }
}

impl Fingerprint for Sanitizer {
    fn feed(&self, to: &mut Fields) {
        self.name().feed(to);
    }
}

impl fmt::Display for Sanitizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Sanitizer {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|s| s.name() == text).ok_or_else(|| {
            Error::invalid(format!(
                "unknown sanitizer `{text}`; use memory, races or initialization"
            ))
        })
    }
}

/// Limits on one request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Limits {
    /// Time of the whole request. Where the candidate's threads wait for processors that others have, that does not count, up
    /// to [`WAITING`](Self::WAITING) times as much.
    pub time: Duration,
    /// Bytes of memory that the candidate may use beyond the tensors it is given.
    pub memory: u64,
    /// The isolation that the candidate must run under at least. It always gets the highest that the system offers.
    #[serde(default)]
    pub isolation: IsolationLevel,
    /// Wall time of a verifier for one candidate. It is akg's own: where it is passed, the verdict is
    /// [`JudgeTimeout`](crate::verdict::FailureKind::JudgeTimeout), which says nothing of the candidate.
    #[serde(default = "judging")]
    pub judging: Duration,
    /// Whether it may have data that outlives a call. Never for candidates, which could tell one call from another: an original
    /// that is only asked what it computes may.
    #[serde(default)]
    pub may_keep_state: bool,
}

/// Half an hour: a verdict takes seconds, or minutes on the largest problems.
const fn judging() -> Duration {
    Duration::from_secs(1800)
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            time: Duration::from_secs(60),
            memory: 4 << 30,
            isolation: IsolationLevel::None,
            judging: judging(),
            may_keep_state: false,
        }
    }
}

impl Fingerprint for Limits {
    fn feed(&self, to: &mut Fields) {
        let Self {
            time,
            memory,
            isolation,
            judging,
            may_keep_state,
        } = self;
        to.record(
            "limits",
            1,
            &[
                ("time", &time.as_secs_f64()),
                ("memory", memory),
                ("isolation", &isolation.name()),
                ("judging", &judging.as_secs_f64()),
                ("may_keep_state", may_keep_state),
            ],
        );
    }
}

impl Limits {
    /// How many times its limit a request may take by the clock, however busy the machine is.
    pub const WAITING: u32 = 20;

    /// These limits for candidates of a task on a device: they may use twice as much memory as the values of the task's graph
    /// take together, if that is more and no more than half of the device's.
    ///
    /// # Errors
    /// Hints that do not give every extent of the graph.
    pub fn for_task(&self, task: &Task, target: &Target) -> Result<Self> {
        let needed = task.footprint()?.saturating_mul(2).min(target.memory_bytes / 2);
        Ok(Self {
            memory: self.memory.max(needed),
            ..self.clone()
        })
    }
}

/// What outputs and scratch memory hold before a run, so that what was not written shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Poison {
    /// Every byte is 0xff: NaN in every floating type, −1 in integers.
    Ones,
    /// Every byte is 0x7b: a finite value in every type.
    Finite,
    /// Contents that the execution before left there, if its call had the same dims and placement: a caller may use memory again.
    /// Backends that cannot keep them fill memory with [`byte`](Self::byte).
    Kept,
}

impl Poison {
    /// The byte that fills memory.
    pub const fn byte(self) -> u8 {
        match self {
            Poison::Ones | Poison::Kept => 0xff,
            Poison::Finite => 0x7b,
        }
    }
}

/// One execution of an artifact.
#[derive(Debug, Clone)]
pub struct RunRequest {
    /// What to run.
    pub artifact: Artifact,
    /// The inputs, in the order of the plan's inputs.
    pub inputs: Vec<Tensor>,
    /// Values of the plan's dims.
    pub dims: Bindings,
    /// What outputs and scratch hold before.
    pub poison: Poison,
    /// Limits on the request.
    pub limits: Limits,
}

/// What a run produced.
#[derive(Debug, Clone)]
pub struct RunOutput {
    /// The outputs, in the order of the plan's outputs.
    pub outputs: Vec<Tensor>,
    /// Whether every input held the same bytes afterwards.
    pub inputs_unchanged: bool,
}

/// The tensors of an execution.
#[derive(Debug, Clone)]
pub struct Call {
    /// The inputs, in the order of the plan's inputs.
    pub inputs: Vec<Tensor>,
    /// Values of the plan's dims.
    pub dims: Bindings,
    /// What outputs and scratch hold before.
    pub poison: Poison,
    /// Where tensors lie: calls with the same placement and dims find them at the same addresses, calls with another
    /// placement at others.
    pub placement: u32,
}

/// What the caches hold when a timed execution begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cache {
    /// What the execution before left there.
    Warm,
    /// Nothing of the candidate's.
    Cold,
}

/// A number of calls on the bound slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Execution {
    /// How many; 0 measures what asking and answering takes.
    pub calls: u32,
    /// What the caches hold when they begin.
    pub cache: Cache,
}

/// An artifact in its place, ready to be executed again and again. Dropping it ends whatever the candidate started.
///
/// The candidate behind it is hostile: implementations decide nothing by what it says, keep the clock and the inputs
/// out of its reach, and hand out outputs that it can no longer change.
#[async_trait]
pub trait Loaded: Send + fmt::Debug {
    /// What contains the candidate.
    fn isolation(&self) -> &Isolation;

    /// Returns the facts about this candidate that the judge cannot see itself, for the gaps of its verdict.
    fn gaps(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns the part of its time that operators of the framework take in which it is written; `None` if there is none, or if
    /// no call without its kernels was asked for.
    fn framework_share(&self) -> Option<f64> {
        None
    }

    /// Puts the tensors of one call in place. Inputs cannot be written by the candidate, or a change is seen by
    /// [`take`](Self::take).
    async fn bind(&mut self, call: Call) -> Result<Result<(), Failure>>;

    /// The number of calls with these dims that [`bind_slots`](Self::bind_slots) puts in place at a time.
    ///
    /// # Errors
    /// If a dim of the plan has no value.
    fn slots(&self, dims: &Bindings) -> Result<usize> {
        let _ = dims;
        Ok(1)
    }

    /// Puts the tensors of several calls in place, each in a *slot*: at addresses of its own, with poison of its own. All calls
    /// have the same dims and the same placement. An input that is the same tensor in every call lies in one place. Whatever
    /// launching a call needs is prepared here for every slot, so that the clock does not see it.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for more calls than there are [`slots`](Self::slots), for none, and for
    /// calls that differ in dims or placement.
    async fn bind_slots(&mut self, calls: Vec<Call>) -> Result<Result<(), Failure>> {
        let count = calls.len();
        match <[Call; 1]>::try_from(calls) {
            Ok([call]) => self.bind(call).await,
            Err(_) => Err(Error::invalid(format!(
                "this backend binds 1 call at a time, not {count}"
            ))),
        }
    }

    /// Executes the whole plan `calls` times, and returns when all work is done. Calls go round the slots: the first one after
    /// binding uses the first slot, each later one the slot after the last.
    ///
    /// Gives the wall time by a clock that the candidate cannot reach. It includes a constant for asking and answering,
    /// which `calls` of 0 measures. With [`Cache::Cold`] the caches are emptied first, outside that time.
    async fn execute(&mut self, calls: u32, cache: Cache) -> Result<Result<Duration, Failure>>;

    /// Executes one thing after the other and gives the time of each. Where several share the device, nothing of theirs
    /// comes in between.
    async fn execute_all(&mut self, executions: &[Execution]) -> Result<Result<Vec<Duration>, Failure>> {
        let mut times = Vec::with_capacity(executions.len());
        for execution in executions {
            match self.execute(execution.calls, execution.cache).await? {
                Ok(time) => times.push(time),
                Err(failure) => return Ok(Err(failure)),
            }
        }
        Ok(Ok(times))
    }

    /// The outputs in the first slot as they are now, unchangeable from here on; nothing is bound afterwards.
    async fn take(&mut self) -> Result<Result<RunOutput, Failure>>;

    /// The outputs in these slots, in their order; nothing is bound afterwards.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for a slot that is not bound.
    async fn take_slots(&mut self, slots: &[usize]) -> Result<Result<Vec<RunOutput>, Failure>> {
        match slots {
            [] => Ok(Ok(Vec::new())),
            [0] => Ok(self.take().await?.map(|output| vec![output])),
            _ => Err(Error::invalid(
                "this backend binds 1 call at a time: only slot 0 can be taken",
            )),
        }
    }

    /// Those of the first `used` slots in whose outputs a stretch holds what was put there before, so that a call may have left
    /// it out. It is no proof, since a result may have these bytes: such slots are to be taken and compared. Backends that
    /// cannot tell name none.
    async fn untouched(&mut self, used: usize) -> Result<Vec<usize>> {
        let _ = used;
        Ok(Vec::new())
    }

    /// Executes the plan on what is bound, `calls` times and perhaps more often under tools, and says what each launch
    /// took and used. For candidates that passed: it is no evidence of anything, and a tool may need more rights than a
    /// candidate has.
    ///
    /// # Errors
    /// [`Unsupported`](crate::ErrorKind::Unsupported) where [`BackendCapability::observes`] is false.
    async fn observe(&mut self, calls: u32) -> Result<Result<Observation, Failure>> {
        let _ = calls;
        Err(Error::unsupported(
            "this backend does not observe single launches",
        ))
    }

    /// Executes the plan on what is bound while a sanitizer watches, which takes many times as long; the failure is what it
    /// found first. For candidates that passed: a tool may need more rights than a candidate has.
    ///
    /// # Errors
    /// [`Unsupported`](crate::ErrorKind::Unsupported) where [`BackendCapability::sanitizers`] lacks it, or where the tool cannot
    /// work on this machine; [`ToolMissing`](crate::ErrorKind::ToolMissing) without the tool.
    async fn sanitize(&mut self, sanitizer: Sanitizer) -> Result<Result<(), Failure>> {
        Err(sanitizer.unsupported())
    }
}

/// Conveniences for [`Loaded`].
#[async_trait]
pub trait LoadedExt: Loaded {
    /// Binds, executes once and takes the outputs.
    async fn run(&mut self, call: Call) -> Result<Result<RunOutput, Failure>> {
        if let Err(failure) = self.bind(call).await? {
            return Ok(Err(failure));
        }
        if let Err(failure) = self.execute(1, Cache::Warm).await? {
            return Ok(Err(failure));
        }
        self.take().await
    }
}

impl<T: Loaded + ?Sized> LoadedExt for T {}

/// Memory for a tensor that is being made.
pub trait TensorBuffer: Send {
    /// The bytes, zero at first.
    fn bytes_mut(&mut self) -> &mut [u8];

    /// The tensor.
    fn freeze(self: Box<Self>) -> Result<Tensor>;
}

/// Host memory for a tensor.
struct HostBuffer {
    dtype: DType,
    shape: Vec<usize>,
    words: Vec<u128>,
}

impl TensorBuffer for HostBuffer {
    fn bytes_mut(&mut self) -> &mut [u8] {
        let length = self.shape.iter().product::<usize>() * self.dtype.size();
        bytemuck::cast_slice_mut::<u128, u8>(&mut self.words)
            .get_mut(..length)
            .unwrap_or_default()
    }

    fn freeze(self: Box<Self>) -> Result<Tensor> {
        Tensor::new(self.dtype, self.shape, Arc::new(self.words))
    }
}

/// Memory of this process for a tensor.
pub(crate) fn host_buffer(dtype: DType, shape: &[usize]) -> Result<Box<dyn TensorBuffer>> {
    let words = byte_len(dtype, shape)?.div_ceil(16);
    Ok(Box::new(HostBuffer {
        dtype,
        shape: shape.to_vec(),
        words: vec![0; words],
    }))
}

/// Devices that load artifacts and execute them on tensors. Knows no DSL.
///
/// A candidate that crashes, hangs or eats memory is the inner `Err(Failure)`; the outer `Err` is the backend's own
/// trouble, such as a worker that cannot be started.
#[async_trait]
pub trait Backend: Send + Sync + fmt::Debug {
    /// The name in registries and on the command line.
    fn name(&self) -> &str;

    /// What it can do.
    fn capability(&self) -> &BackendCapability;

    /// The devices of this machine; empty if there are none.
    async fn devices(&self) -> Result<Vec<Target>>;

    /// Which of these it loads artifacts on.
    fn position(&self) -> usize {
        0
    }

    /// The same backend with another of these devices to load artifacts on; `None` if it has but one.
    fn at(&self, position: usize) -> Option<Arc<dyn Backend>> {
        let _ = position;
        None
    }

    /// The turns that whoever uses the device takes.
    fn turns(&self) -> Turns {
        Turns::default()
    }

    /// Who watches the machine while candidates are timed.
    fn witness(&self) -> Box<dyn Witness> {
        Box::new(Machine)
    }

    /// Who makes large matrix products for the judge's reference, in the judge's own process; `None` if its cores do.
    fn products(&self) -> Option<Arc<dyn Products>> {
        None
    }

    /// Memory for an input, placed where it is copied least. What it holds before it is written is anything.
    fn allocate(&self, dtype: DType, shape: &[usize]) -> Result<Box<dyn TensorBuffer>> {
        host_buffer(dtype, shape)
    }

    /// Loads an artifact, in isolation of at least [`Limits::isolation`]. The time limit holds for each request to what
    /// is loaded, the others for its life.
    async fn load(&self, artifact: Artifact, limits: Limits) -> Result<Result<Box<dyn Loaded>, Failure>>;
}

/// Conveniences for [`Backend`].
#[async_trait]
pub trait BackendExt: Backend {
    /// Loads an artifact for one execution.
    async fn run(&self, request: RunRequest) -> Result<Result<RunOutput, Failure>> {
        let mut loaded = match self.load(request.artifact, request.limits).await? {
            Ok(loaded) => loaded,
            Err(failure) => return Ok(Err(failure)),
        };
        let call = Call {
            inputs: request.inputs,
            dims: request.dims,
            poison: request.poison,
            placement: 0,
        };
        loaded.run(call).await
    }
}

impl<T: Backend + ?Sized> BackendExt for T {}
