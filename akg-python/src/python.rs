//! The worker as seen from Rust.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use akg_core::error::{Error, ErrorKind, Result, ResultExt};
use akg_core::expr::Bindings;
use akg_core::isolation::{Isolation, IsolationLevel};
use akg_core::tensor::byte_len;
use akg_core::{Graph, Tensor};
use akg_worker::process::{Process, RequestError, Template};
use serde::de::DeserializeOwned;

use crate::calls::{Call, Done, Job, JobCall, Outcome, Outcomes, Precision, Seeds, Types};
use crate::environment::Environment;
use crate::import::{Entry, ImportOptions, Imported, ImportedModule, graph_name, operators};
use crate::transfer::{self, Files};
use crate::worker::{Worker, ask};

/// Limits of a Python worker.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PythonOptions {
    /// How long an import may take. Recurrent networks take up to a minute.
    pub import_timeout: Duration,
    /// How long any other call may take.
    pub timeout: Duration,
    /// Bytes of private memory that the worker may use; `None` for three quarters of the machine's, tensors included.
    pub memory: Option<u64>,
    /// The isolation that the worker must run in at least. It always gets the highest that the system offers.
    pub isolation: IsolationLevel,
}

impl Default for PythonOptions {
    fn default() -> Self {
        Self {
            import_timeout: Duration::from_secs(180),
            timeout: Duration::from_secs(600),
            memory: None,
            isolation: IsolationLevel::None,
        }
    }
}

/// A Python that has PyTorch loaded. It starts at the first call that needs it, and again after it has died.
///
/// Each module gets a process for itself, which is a copy of one that has loaded PyTorch and nothing else: what a module
/// does to Python ends with it, and loading PyTorch takes its seconds once. A copy is kept until another module, or none,
/// is what a call is about. It is as confined as the process that it was copied from, and cannot change that one; if it
/// ends it, the next call starts another. Where processes cannot be copied, each module's starts by itself.
#[derive(Debug)]
pub struct Python {
    worker: Worker,
    current: Option<Current>,
    /// What processes are copied from, once it is started.
    template: Option<Template>,
    /// Whether processes can be copied, as far as is known.
    copies: bool,
}

/// The process that was called last.
#[derive(Debug)]
struct Current {
    serves: Serves,
    process: Process,
}

/// What a process is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Serves {
    /// A module, identified by its path and text.
    Module(blake3::Hash),
    /// Graphs, which do nothing to the process.
    Graphs,
}

impl Serves {
    pub(crate) fn module(path: &Path) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(path.as_os_str().as_encoded_bytes());
        // A file that cannot be read is reported by the call.
        hasher.update(&fs::read(path).unwrap_or_default());
        Serves::Module(hasher.finalize())
    }
}

/// What is loaded before a process is copied.
const LOADED: &[&str] = &["torch", "akg_worker.warm", "akg_worker.replay"];

/// Libraries that PyTorch loads must not start threads, which a copy would lack.
const NO_THREADS: (&str, &str) = ("OPENBLAS_NUM_THREADS", "1");

/// Tensors that PyTorch makes lie in large pages where the system has them: gigabytes of them are written once, and the first
/// write to a small page takes longer than to make up what is written.
const LARGE_PAGES: (&str, &str) = ("THP_MEM_ALLOC_ENABLE", "1");

/// Kernels in Triton that a file launches are executed by Triton's interpreter: there may be no device, and none is needed to
/// see what they compute.
pub(crate) const INTERPRETED: (&str, &str) = ("TRITON_INTERPRET", "1");

/// How often a template is started again that ended for unknown reasons, before processes start by themselves.
const ATTEMPTS: usize = 2;

impl Python {
    /// A worker in `environment`.
    pub fn new(environment: Environment, options: PythonOptions) -> Self {
        let worker = Worker::new(environment, options, LOADED);
        let variables = [NO_THREADS, LARGE_PAGES, INTERPRETED].into_iter();
        Self {
            worker: variables.fold(worker, |worker, (name, value)| worker.variable(name, value)),
            current: None,
            template: None,
            copies: true,
        }
    }

    /// The environment that it runs in.
    pub fn environment(&self) -> &Environment {
        self.worker.environment()
    }

    /// Lets processes read the module at `path`, with the Python files and packages beside it. Those that were started
    /// without that end.
    pub(crate) fn show(&mut self, path: &Path) {
        if self.worker.show(path) {
            self.stop();
        }
    }

    /// Imports the module in the file at `path`. Its tensors are not made, whatever their sizes. The result is kept in
    /// the cache directory; from there it comes without starting Python.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] for whatever is wrong with the file, naming the line;
    /// [`ErrorKind::Unsupported`] for control flow that depends on data and for operators that akg lacks, all of them;
    /// [`ErrorKind::Timeout`]; [`ErrorKind::OutOfResources`].
    pub fn import(
        &mut self,
        path: &Path,
        options: &ImportOptions,
        progress: &mut dyn FnMut(&str),
    ) -> Result<ImportedModule> {
        let cannot = |e| Error::io(format!("cannot read the module {}", path.display()), e);
        let path = &path.canonicalize().map_err(cannot)?;
        let entry = Entry::new(self.environment(), path, options)?;
        if let Some(imported) = entry.read().filter(|_| !options.refresh) {
            return imported.into_module(path, true);
        }
        self.show(path);
        let call = Call::Import {
            path,
            name: &graph_name(path),
            halvings: options.halvings,
            open: &options.open,
            backward: options.backward,
            operators: operators(),
        };
        let limit = self.worker.options().import_timeout;
        let mut imported: Imported = self
            .request(Serves::module(path), &call, &Files::default(), limit, progress)
            .map_err(|e| match e.kind() {
                ErrorKind::Timeout => Error::new(
                    ErrorKind::Timeout,
                    format!(
                        "the import of the module took longer than {} s and was stopped; does its code end? \
                         `--import-timeout` gives it longer",
                        limit.as_secs_f64()
                    ),
                ),
                _ => e,
            })
            .context("module", || path.display())?;
        entry.write(&mut imported);
        imported.into_module(path, false)
    }

    /// Makes the real tensors of a module's graph inputs, in their order, in shared memory.
    pub fn materialize(&mut self, module: &ImportedModule, seeds: Seeds) -> Result<Vec<Tensor>> {
        let all: Vec<_> = (0..module.inputs.len()).collect();
        self.materialize_some(module, &all, seeds)
    }

    /// Makes the real tensors of some graph inputs, given by their positions. The module is only constructed if a
    /// weight or state is among them, and `get_inputs` only runs if an argument is.
    pub fn materialize_some(
        &mut self,
        module: &ImportedModule,
        wanted: &[usize],
        seeds: Seeds,
    ) -> Result<Vec<Tensor>> {
        let mut inputs = Vec::with_capacity(wanted.len());
        let mut types = Vec::with_capacity(wanted.len());
        for &at in wanted {
            let found = module.inputs.get(at).zip(module.graph.inputs().get(at));
            let (input, graph_input) =
                found.ok_or_else(|| Error::invalid(format!("the graph has no input at position {at}")))?;
            inputs.push(input);
            types.push(module.graph.ty(graph_input.value));
        }
        let sizes: Vec<_> = types
            .iter()
            .map(|ty| byte_len(ty.dtype, &ty.concrete_shape(&Bindings::new())?))
            .collect::<Result<_>>()?;
        let mut files = Files::default();
        let outputs = transfer::outputs(&mut files, &sizes)?;
        self.show(&module.path);
        let call = Call::Materialize {
            path: &module.path,
            inputs,
            shrink: &module.shrink,
            cotangents: &module.cotangents,
            weights_seed: seeds.weights,
            inputs_seed: seeds.inputs,
            outputs: &outputs.slots,
        };
        let limit = self.worker.options().timeout;
        let reply: Types = self
            .request(Serves::module(&module.path), &call, &files, limit, &mut |_| {})
            .context("module", || module.path.display())?;
        let made = collect(outputs, reply.types)?;
        for ((tensor, ty), &at) in made.iter().zip(types).zip(wanted) {
            if tensor.dtype() != ty.dtype || tensor.shape() != ty.concrete_shape(&Bindings::new())? {
                let name = module.inputs.get(at).map_or("", |i| i.name.as_str());
                return Err(Error::invalid(format!(
                    "the module makes the input `{name}` as {tensor:?}, but was imported with {ty}"
                )));
            }
        }
        Ok(made)
    }

    /// Evaluates graphs with PyTorch's operators, many in one call. A graph that PyTorch rejects is an error of its own.
    ///
    /// # Errors
    /// The outer error is for trouble with the worker.
    pub fn evaluate(&mut self, jobs: &[Job<'_>], precision: Precision) -> Result<Vec<Result<Vec<Tensor>>>> {
        let tensors: Vec<_> = jobs.iter().flat_map(|job| job.inputs).collect();
        let mut files = Files::default();
        let inputs = transfer::inputs(&mut files, &tensors)?;
        let mut descriptors = inputs.descriptors.iter().cloned();
        let mut sizes = Vec::new();
        for job in jobs {
            sizes.extend(output_sizes(job.graph, 8)?);
        }
        let outputs = transfer::outputs(&mut files, &sizes)?;
        let mut slots = outputs.slots.iter().cloned();
        let mut calls = Vec::with_capacity(jobs.len());
        for job in jobs {
            check_inputs(job.graph, job.inputs)?;
            let names = job
                .graph
                .inputs()
                .iter()
                .map(|i| job.graph.value_name(i.value).to_owned());
            calls.push(JobCall {
                graph: job.graph.to_json()?,
                inputs: names.zip(descriptors.by_ref()).collect(),
                outputs: slots.by_ref().take(job.graph.outputs().len()).collect(),
            });
        }
        let float64 = precision == Precision::Float64;
        let call = Call::Evaluate { jobs: calls, float64 };
        let limit = self.worker.options().timeout;
        let reply: Outcomes = self.request(Serves::Graphs, &call, &files, limit, &mut |_| {})?;
        let mut written = Vec::new();
        for (job, outcome) in jobs.iter().zip(&reply.jobs) {
            match outcome {
                Outcome::Ok(types) => written.extend(types.iter().cloned().map(Some)),
                Outcome::Error { .. } => written.extend(job.graph.outputs().iter().map(|_| None)),
            }
        }
        let mut made = outputs.collect(&written)?.into_iter();
        let results = jobs.iter().zip(reply.jobs).map(|(job, outcome)| {
            // Takes the places of a failed job too, before looking at what is in them.
            let places: Vec<_> = made.by_ref().take(job.graph.outputs().len()).collect();
            let tensors: Option<Vec<_>> = places.into_iter().collect();
            match outcome {
                Outcome::Ok(_) => {
                    tensors.ok_or_else(|| Error::new(ErrorKind::Protocol, "an output is missing"))
                }
                Outcome::Error { kind, message } => Err(Error::new(kind, message)),
            }
        });
        Ok(results.collect())
    }

    /// The isolation that its processes run in; `None` while there is none.
    pub fn isolation(&self) -> Option<&Isolation> {
        let current = self.current.as_ref().map(|c| c.process.isolation());
        current.or_else(|| self.template.as_ref().map(Template::isolation))
    }

    /// Starts to load PyTorch, for modules in the directory of `path`, unless it is loaded, while the caller does other
    /// things.
    pub fn start(&mut self, path: &Path) -> Result<()> {
        let path = path.canonicalize();
        self.show(&path.map_err(|e| Error::io("cannot find the module", e))?);
        self.launch().map(|_| ())
    }

    /// Waits until nothing that was started uses a processor any more.
    pub fn wait(&mut self) -> Result<()> {
        let Some(template) = &self.template else {
            return Ok(());
        };
        let deadline = Instant::now() + self.worker.options().timeout;
        template.request::<_, Done>(&Call::Ready {}, deadline)?;
        Ok(())
    }

    /// Ends all processes; the next call starts others.
    pub fn stop(&mut self) {
        self.current = None;
        self.template = None;
    }

    /// Calls a process that serves this and nothing else, within the options' limit.
    pub(crate) fn call<R: DeserializeOwned>(
        &mut self,
        serves: Serves,
        call: &Call<'_>,
        files: &Files,
    ) -> Result<R> {
        let limit = self.worker.options().timeout;
        self.request(serves, call, files, limit, &mut |_| {})
    }

    /// The same within another limit, telling what it does.
    fn request<R: DeserializeOwned>(
        &mut self,
        serves: Serves,
        call: &Call<'_>,
        files: &Files,
        limit: Duration,
        progress: &mut dyn FnMut(&str),
    ) -> Result<R> {
        let deadline = Instant::now() + limit;
        // One that serves something else ends here, before the next is made.
        let current = self.current.take().filter(|c| c.serves == serves);
        let mut process = match current {
            Some(current) if current.process.is_alive() => current.process,
            _ => self.process(deadline, progress)?,
        };
        let (answer, goes_on) = ask(&mut process, call, files, deadline, progress);
        if goes_on {
            self.current = Some(Current { serves, process });
        }
        answer
    }

    /// A process that has PyTorch loaded and has served nothing yet.
    fn process(&mut self, deadline: Instant, progress: &mut dyn FnMut(&str)) -> Result<Process> {
        if self.template.is_none() {
            progress("loading PyTorch");
        }
        for _ in 0..ATTEMPTS {
            if !self.copies {
                break;
            }
            match self.launch()?.fork(deadline) {
                Ok(process) => return Ok(process),
                Err(RequestError::Failed(_)) => self.copies = false,
                // What was copied last may have ended it.
                Err(RequestError::Ended { .. }) => {}
                Err(error) => return Err(error.into()),
            }
            self.template = None;
        }
        self.worker.spawn()
    }

    /// The template, started unless it runs.
    fn launch(&mut self) -> Result<&Template> {
        let template = match self.template.take() {
            Some(template) if template.is_alive() => template,
            _ => Template::new(self.worker.spawn()?),
        };
        Ok(self.template.insert(template))
    }
}

/// The tensors in `outputs`, all of which the worker must have written.
pub(crate) fn collect(outputs: transfer::Outputs, types: Vec<transfer::Written>) -> Result<Vec<Tensor>> {
    let expected = outputs.slots.len();
    let types: Vec<_> = types.into_iter().map(Some).collect();
    let tensors: Vec<_> = outputs.collect(&types)?.into_iter().flatten().collect();
    if tensors.len() != expected {
        let message = format!("PyTorch returned {} tensors instead of {expected}", tensors.len());
        return Err(Error::invalid(message));
    }
    Ok(tensors)
}

/// Bytes of each output, with at least `element` bytes an element.
pub(crate) fn output_sizes(graph: &Graph, element: usize) -> Result<Vec<usize>> {
    let size = |output: &akg_core::graph::Output| {
        let ty = graph.ty(output.value);
        let shape = ty.concrete_shape(&Bindings::new())?;
        byte_len(ty.dtype, &shape).map(|bytes| bytes / ty.dtype.size() * ty.dtype.size().max(element))
    };
    graph.outputs().iter().map(size).collect()
}

pub(crate) fn check_inputs(graph: &Graph, inputs: &[Tensor]) -> Result<()> {
    let (want, have) = (graph.inputs().len(), inputs.len());
    if want != have {
        let message = format!(
            "the graph `{}` has {want} inputs, but {have} tensors were given",
            graph.name()
        );
        return Err(Error::invalid(message));
    }
    Ok(())
}
