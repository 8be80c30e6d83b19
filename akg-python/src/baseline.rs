//! PyTorch as a rival: eager and compiled, in a worker process of its own.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{fmt, fs};

use akg_core::backend::{Cache, Execution, RunOutput};
use akg_core::error::{Error, ErrorKind, Result, ResultExt};
use akg_core::timing::{Check, Returned, Side, SlotData, SlotId, Testimony, stretches};
use akg_core::turns::Turns;
use akg_core::verdict::{Failure, FailureKind};
use akg_core::{DType, Graph, Tensor};
use async_trait::async_trait;
use blocking::unblock;
use serde_json::Value;

use crate::calls::{self, Call, Compilation, Done, TaskCall, Types};
use crate::environment::Environment;
use crate::import::ImportedModule;
use crate::inductor;
use crate::python::{PythonOptions, check_inputs, collect, output_sizes};
use crate::transfer::{self, Files, SlotInputs};
use crate::variant::Variant;
use crate::worker::Worker;

/// What a baseline runs.
#[derive(Debug, Clone, Copy)]
pub enum BaselineTask<'a> {
    /// The module itself.
    Module(&'a ImportedModule),
    /// A graph without symbols, replayed with PyTorch's operators.
    Graph(&'a Graph),
}

impl BaselineTask<'_> {
    /// The task's graph.
    pub fn graph(&self) -> &Graph {
        match self {
            BaselineTask::Module(module) => &module.graph,
            BaselineTask::Graph(graph) => graph,
        }
    }
}

/// How baselines run.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct BaselineOptions {
    /// PyTorch's threads, which should be as many as the candidate has; `None` leaves its choice.
    pub threads: Option<u32>,
    /// How long one request may take.
    pub timeout: Duration,
    /// How long the first call of a [`Variant::Compiled`] may take.
    pub compile_timeout: Duration,
    /// Bytes to walk so that nothing else is left in the caches.
    pub flush_bytes: u64,
}

impl Default for BaselineOptions {
    fn default() -> Self {
        Self {
            threads: None,
            timeout: Duration::from_secs(120),
            compile_timeout: Duration::from_secs(180),
            flush_bytes: 64 << 20,
        }
    }
}

/// What glibc's allocator is told, so that results of one call take the memory of the call before: nothing comes from
/// the system by itself, freed memory is kept, and the heap grows in large steps. By default every large result of
/// PyTorch is mapped and unmapped, and its pages are supplied and cleared by the system within the timed call.
pub(crate) const ALLOCATOR: [(&str, &str); 3] = [
    ("MALLOC_MMAP_MAX_", "0"),
    ("MALLOC_TRIM_THRESHOLD_", "1099511627776"),
    ("MALLOC_TOP_PAD_", "67108864"),
];

/// From so many operators on, compiling the headers of C++ ahead pays: it takes 10 seconds and more, and saves some seconds
/// for each kernel.
const MANY_NODES: usize = 24;

/// PyTorch's threads go on spinning for about a millisecond in case there is more to do, and would take the processors
/// from the side whose turn is next.
const SPIN: Duration = Duration::from_millis(3);

/// The worker process of one task's baselines. Each task has one of its own: what a module does to PyTorch's global state
/// ends with it.
#[derive(Debug)]
pub struct BaselineWorker {
    worker: Worker,
    device: String,
}

/// PyTorch's name for the processor.
pub(crate) const HOST: &str = "cpu";

impl BaselineWorker {
    /// A worker for `task` on `device`, which PyTorch knows by that name (`cpu`, `cuda`, `cuda:1`), with at most so many
    /// bytes of private memory if a number is given. Does not start it yet, but the first for
    /// an environment finds out about its compiler, which takes up to half a minute.
    ///
    /// On a device the module runs in [`Basic`](akg_core::isolation::IsolationLevel::Basic) isolation.
    pub fn new(
        environment: Environment,
        task: BaselineTask<'_>,
        device: &str,
        memory: Option<u64>,
    ) -> Result<Self> {
        let path = match task {
            BaselineTask::Module(module) => Some(&module.path),
            BaselineTask::Graph(_) => None,
        };
        let key = cache_key(path, &task.graph().to_json()?)?;
        let compiled = inductor::directory(&environment, &key, device == HOST)?;
        let options = PythonOptions {
            memory,
            ..PythonOptions::default()
        };
        let imports = &["torch", "torch._inductor.compile_fx", "akg_worker.baseline"];
        let mut worker = Worker::new(environment, options, imports)
            .writable(compiled.clone())
            .variable(inductor::DIRECTORY, compiled)
            // No compiler process stays beside it.
            .variable("TORCHINDUCTOR_COMPILE_THREADS", "1");
        if let Some(path) = path {
            worker.show(path);
        }
        let worker = ALLOCATOR
            .iter()
            .fold(worker, |w, (name, value)| w.variable(name, value));
        let worker = if device == HOST {
            worker
        } else {
            worker.with_devices()
        };
        Ok(Self {
            worker,
            device: device.to_owned(),
        })
    }

    /// Starts the process, which imports PyTorch and its compiler while the caller does other things.
    pub fn start(&mut self) -> Result<()> {
        self.worker.launch()
    }

    /// Waits until a process that was started uses no processor any more.
    pub fn wait(&mut self) -> Result<()> {
        self.worker.wait()
    }
}

/// A task in PyTorch over several sets of inputs: its variants, all loaded in one worker process.
///
/// Calls run under `torch.no_grad()`, as in KernelBench, each at the precision of its variant.
pub struct Baselines {
    worker: Worker,
    graph: Graph,
    task: Value,
    /// The sets of inputs that variants are prepared with.
    sets: Vec<Vec<Tensor>>,
    options: BaselineOptions,
    device: String,
    turns: Turns,
    threads: u32,
}

impl fmt::Debug for Baselines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Baselines")
            .field("graph", &self.graph.name())
            .field("sets", &self.sets.len())
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

/// What a number of calls took.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Executed {
    /// By this process's clock, with a constant for asking and answering; on a device with a clock of its own by that one.
    pub time: Duration,
    /// By the worker's clock.
    pub worker_time: Duration,
    /// Minor page faults of the worker meanwhile.
    pub page_faults: u64,
}

impl Baselines {
    /// The task of `worker` over `sets` of inputs, each with one tensor for each of the graph's inputs.
    pub fn new(
        worker: BaselineWorker,
        task: BaselineTask<'_>,
        sets: Vec<Vec<Tensor>>,
        options: BaselineOptions,
    ) -> Result<Self> {
        let graph = task.graph().clone();
        sets.iter().try_for_each(|set| check_inputs(&graph, set))?;
        Ok(Self {
            worker: worker.worker,
            device: worker.device,
            task: serde_json::to_value(task_call(task)?)
                .map_err(|e| Error::unexpected("cannot write a baseline's task").caused_by(e))?,
            graph,
            sets,
            options,
            turns: Turns::default(),
            threads: 0,
        })
    }

    /// Lets executions take these turns of the device. What [`prepare`](Self::prepare) does takes none: compiling takes
    /// long, and uses the device for moments.
    #[must_use]
    pub fn with_turns(mut self, turns: Turns) -> Self {
        self.turns = turns;
        self
    }

    /// PyTorch's threads, once a variant is prepared.
    pub fn threads(&self) -> u32 {
        self.threads
    }

    /// Sets a variant up over the first set of inputs, compiles it if that is the variant, calls it until its memory has
    /// settled, and gives the outputs of the first call, in the order of the graph's.
    ///
    /// # Errors
    /// Whatever the module raises; [`ErrorKind::Timeout`] after [`compile_timeout`](BaselineOptions::compile_timeout),
    /// which ends the worker and with it what was prepared before.
    pub fn prepare(&mut self, variant: Variant) -> Result<Vec<Tensor>> {
        let call = Call::Prepare {
            variant: variant.name(),
            compiled: matches!(variant, Variant::Compiled(_)).then(|| Compilation {
                headers: self.graph.nodes().len() >= MANY_NODES,
            }),
            precision: variant.precision(),
            task: &self.task,
            device: &self.device,
            threads: self.options.threads,
        };
        let limit = self.options.timeout;
        let prepared: calls::Prepared =
            request(&mut self.worker, &self.graph, &call, &Files::default(), limit)?;
        self.threads = prepared.threads;
        self.bind(variant, 0)?;
        let limit = match variant {
            Variant::Eager(_) => self.options.timeout,
            Variant::Compiled(_) => self.options.compile_timeout,
        };
        let outputs = self.call_once(variant, limit)?;
        let call = Call::Settle {
            variant: variant.name(),
        };
        let limit = self.options.timeout;
        request::<Done>(&mut self.worker, &self.graph, &call, &Files::default(), limit)?;
        Ok(outputs)
    }

    /// Gives a variant one of the sets of inputs, in memory that the worker maps anew.
    pub fn bind(&mut self, variant: Variant, set: usize) -> Result<()> {
        let missing = || Error::invalid(format!("the baseline has no set of inputs {set}"));
        let set = self.sets.get(set).cloned().ok_or_else(missing)?;
        self.bind_slots(variant, &[set])
    }

    /// Gives a variant the inputs of several slots, in memory that the worker maps anew: calls go round them. Constants, which
    /// follow the inputs, are left out.
    pub fn bind_slots(&mut self, variant: Variant, slots: &[Vec<Tensor>]) -> Result<()> {
        let count = self.graph.inputs().len();
        let own: Vec<&[Tensor]> = slots
            .iter()
            .map(|slot| slot.get(..count).unwrap_or(slot))
            .collect();
        own.iter().try_for_each(|slot| check_inputs(&self.graph, slot))?;
        let offered = SlotInputs::new(&own)?;
        let names: Vec<&str> = self
            .graph
            .inputs()
            .iter()
            .map(|i| self.graph.value_name(i.value))
            .collect();
        let slots = offered.slots.iter();
        let call = Call::Bind {
            variant: variant.name(),
            slots: slots
                .map(|slot| names.iter().copied().zip(slot).collect())
                .collect(),
        };
        let limit = self.options.timeout;
        request::<Done>(&mut self.worker, &self.graph, &call, &offered.files, limit).map(|_| ())
    }

    /// Calls a variant once on the first slot and gives its outputs. Bind again before the next call: what the module
    /// updates in place has changed.
    pub fn outputs(&mut self, variant: Variant) -> Result<Vec<Tensor>> {
        self.call_once(variant, self.options.timeout)
    }

    /// Calls a variant so often, going round its slots; with [`Cache::Cold`] after emptying the caches. 0 calls measure what
    /// asking and answering takes.
    pub fn execute(&mut self, variant: Variant, calls: u32, cache: Cache) -> Result<Executed> {
        let turns = self.turns.clone();
        turns.alone(|| self.execute_now(variant, Execution { calls, cache }))
    }

    /// Does one [execution](Self::execute) after the other, and lets nobody else use the device in between.
    pub fn execute_all(&mut self, variant: Variant, executions: &[Execution]) -> Result<Vec<Executed>> {
        let turns = self.turns.clone();
        turns.alone(|| {
            let executed = executions.iter().map(|e| self.execute_now(variant, *e));
            executed.collect()
        })
    }

    fn execute_now(&mut self, variant: Variant, Execution { calls, cache }: Execution) -> Result<Executed> {
        // On a device, emptying the caches hides the time that the first launch takes.
        let is_host = self.device == HOST;
        let flush = (cache == Cache::Cold).then_some(self.options.flush_bytes);
        if is_host && flush.is_some() {
            self.call(variant, 0, flush)?;
        }
        self.call(variant, calls, flush.filter(|_| !is_host))
    }

    fn call(&mut self, variant: Variant, calls: u32, flush: Option<u64>) -> Result<Executed> {
        let call = Call::Execute {
            variant: variant.name(),
            calls,
            flush,
        };
        let start = Instant::now();
        let limit = self.options.timeout;
        let executed: calls::Executed =
            request(&mut self.worker, &self.graph, &call, &Files::default(), limit)?;
        let seconds = |s| Duration::try_from_secs_f64(s).unwrap_or_default();
        Ok(Executed {
            time: executed.device_seconds.map_or_else(|| start.elapsed(), seconds),
            worker_time: seconds(executed.seconds),
            page_faults: executed.page_faults,
        })
    }

    fn call_once(&mut self, variant: Variant, limit: Duration) -> Result<Vec<Tensor>> {
        let mut files = Files::default();
        let outputs = transfer::outputs(&mut files, &output_sizes(&self.graph, 0)?)?;
        let values = || self.graph.outputs().iter().map(|o| o.value);
        let names: Vec<_> = values().map(|v| self.graph.value_name(v)).collect();
        let dtypes: Vec<DType> = values().map(|v| self.graph.ty(v).dtype).collect();
        let call = Call::Outputs {
            variant: variant.name(),
            outputs: &outputs.slots,
            output_names: &names,
            output_dtypes: &dtypes,
        };
        let reply: Types = request(&mut self.worker, &self.graph, &call, &files, limit)?;
        collect(outputs, reply.types)
    }
}

/// Identifies a task and, where it has one, the module's text.
fn cache_key(path: Option<&PathBuf>, graph: &str) -> Result<String> {
    let mut hasher = blake3::Hasher::new();
    hasher.update(graph.as_bytes());
    if let Some(path) = path {
        let text = fs::read(path);
        hasher.update(&text.map_err(|e| Error::io(format!("cannot read the module {}", path.display()), e))?);
    }
    Ok(hasher.finalize().to_hex().to_string())
}

fn request<R: serde::de::DeserializeOwned>(
    worker: &mut Worker,
    graph: &Graph,
    call: &Call<'_>,
    files: &Files,
    limit: Duration,
) -> Result<R> {
    worker
        .request(call, files, limit, &mut |_| {})
        .context("baseline of", || graph.name().to_owned())
}

/// One variant as a side of a contest.
///
/// PyTorch is no adversary, but what `torch.compile` makes may be wrong: verification calls once more, on another slot with the
/// state that the task begins with, and checks that.
pub struct BaselineSide {
    baselines: Arc<Mutex<Baselines>>,
    variant: Variant,
    data: Arc<dyn SlotData>,
    check: Option<Check>,
    /// The first slot of this round that was never bound.
    next: SlotId,
    is_bound: bool,
    last: Testimony,
}

impl BaselineSide {
    /// A variant that was [prepared](Baselines::prepare). It is timed on this data; `check` judges its outputs by their slot.
    pub fn new(
        baselines: Arc<Mutex<Baselines>>,
        variant: Variant,
        data: Arc<dyn SlotData>,
        check: Option<Check>,
    ) -> Self {
        Self {
            baselines,
            variant,
            data,
            check,
            next: SlotId { round: 0, index: 0 },
            is_bound: false,
            last: Testimony::default(),
        }
    }

    /// The inputs of so many slots of the round that no call has used.
    fn fresh(&mut self, count: u32) -> Result<Vec<Vec<Tensor>>> {
        let SlotId { round, index } = self.next;
        self.next.index = index.saturating_add(count);
        self.data.inputs(round, index..self.next.index)
    }

    async fn ask<T: Send + 'static>(
        &self,
        f: impl FnOnce(&mut Baselines, Variant) -> Result<T> + Send + 'static,
    ) -> Result<Result<T, Failure>> {
        let (baselines, variant) = (self.baselines.clone(), self.variant);
        let answer = unblock(move || {
            let mut baselines = baselines.lock().unwrap_or_else(PoisonError::into_inner);
            f(&mut baselines, variant)
        });
        answer.await.map_or_else(failure, |value| Ok(Ok(value)))
    }
}

/// A baseline that fails is no trouble of akg's.
fn failure<T>(error: Error) -> Result<Result<T, Failure>> {
    let kind = match error.kind() {
        ErrorKind::Timeout => FailureKind::TimedOut,
        ErrorKind::WorkerLost => FailureKind::Crashed,
        ErrorKind::OutOfResources => FailureKind::OutOfMemory,
        ErrorKind::InvalidInput | ErrorKind::Unsupported | ErrorKind::Unexpected => FailureKind::Rejected,
        _ => return Err(error),
    };
    Ok(Err(Failure::new(kind, error.to_string())))
}

impl fmt::Debug for BaselineSide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BaselineSide")
            .field("baselines", &self.baselines)
            .field("variant", &self.variant)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Side for BaselineSide {
    fn name(&self) -> &str {
        self.variant.name()
    }

    async fn refresh(&mut self, round: u32) -> Result<Result<(), Failure>> {
        self.next = SlotId { round, index: 0 };
        self.is_bound = false;
        Ok(Ok(()))
    }

    fn slots(&self) -> u32 {
        self.data.capacity()
    }

    async fn execute_all(&mut self, executions: &[Execution]) -> Result<Result<Vec<Duration>, Failure>> {
        let mut parts = Vec::new();
        for together in stretches(executions, self.slots()) {
            let calls: u32 = together.iter().map(|e| e.calls).sum();
            let is_needed = calls > 0 || !self.is_bound;
            let slots = if is_needed {
                self.fresh(calls.max(1))?
            } else {
                Vec::new()
            };
            self.is_bound = true;
            parts.push((slots, together.to_vec()));
        }
        let executed = self.ask(move |b, variant| {
            let mut executed = Vec::new();
            for (slots, together) in parts {
                if !slots.is_empty() {
                    b.bind_slots(variant, &slots)?;
                }
                executed.extend(b.execute_all(variant, &together)?);
                if together.iter().any(|e| e.calls > 0) {
                    std::thread::sleep(SPIN);
                }
            }
            Ok(executed)
        });
        let executed = match executed.await? {
            Ok(executed) => executed,
            Err(failure) => return Ok(Err(failure)),
        };
        let longest = executed.iter().zip(executions).max_by_key(|(_, e)| e.calls);
        if let Some((executed, _)) = longest {
            self.last = Testimony {
                time: Some(executed.worker_time),
                page_faults: Some(executed.page_faults),
            };
        }
        Ok(Ok(executed.iter().map(|e| e.time).collect()))
    }

    async fn take(&mut self) -> Result<Result<Option<Returned>, Failure>> {
        let Some(check) = self.check.clone() else {
            return Ok(Ok(None));
        };
        let slot = self.next;
        let slots = self.fresh(1)?;
        self.is_bound = false;
        let again = self.ask(move |b, variant| {
            b.bind_slots(variant, &slots)?;
            b.outputs(variant)
        });
        let outputs = match again.await? {
            Ok(outputs) => outputs,
            Err(failure) => return Ok(Err(failure)),
        };
        let output = RunOutput {
            outputs,
            inputs_unchanged: true,
        };
        Ok(Ok(Some(Returned::new(check, vec![(slot, output)]))))
    }

    fn testimony(&self) -> Testimony {
        self.last
    }
}

pub(crate) fn task_call(task: BaselineTask<'_>) -> Result<TaskCall<'_>> {
    let module = match task {
        BaselineTask::Graph(graph) => return Ok(TaskCall::Graph(graph.to_json()?)),
        BaselineTask::Module(module) => module,
    };
    let updated = module.graph.outputs().iter().filter_map(|o| o.updates);
    let source = |state| {
        let at = module.graph.inputs().iter().position(|i| i.value == state);
        at.and_then(|at| module.inputs.get(at)).map(|i| &i.source)
    };
    Ok(TaskCall::Module {
        path: &module.path,
        inputs: &module.inputs,
        shrink: &module.shrink,
        cotangents: &module.cotangents,
        states: updated.filter_map(source).collect(),
    })
}
