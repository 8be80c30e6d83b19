//! The worker as seen from Rust.

use std::env;
use std::ffi::OsString;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use akg_core::error::{Error, ErrorKind, Result, ResultExt};
use akg_core::expr::Bindings;
use akg_core::isolation::{Isolation, IsolationLevel};
use akg_core::tensor::byte_len;
use akg_core::{Graph, Tensor};
use akg_worker::process::{Process, Program, RequestError, ResourceLimits};
use akg_worker::{machine_memory, on_path};
use serde::de::DeserializeOwned;

use crate::calls::{Call, Done, Job, JobCall, Outcome, Outcomes, Precision, Seeds, Types};
use crate::environment::Environment;
use crate::import::{Entry, ImportOptions, Imported, ImportedModule, graph_name};
use crate::sources;
use crate::transfer::{self, Files};

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
            import_timeout: Duration::from_secs(300),
            timeout: Duration::from_secs(600),
            memory: None,
            isolation: IsolationLevel::None,
        }
    }
}

/// A Python worker process. It starts at the first call that needs it, and again after it has died.
#[derive(Debug)]
pub struct Python {
    environment: Environment,
    options: PythonOptions,
    /// Modules that the worker imports before the first call.
    imports: &'static [&'static str],
    /// Set in the worker's environment.
    variables: Vec<(&'static str, OsString)>,
    /// Directories that it may write to.
    writable: Vec<PathBuf>,
    /// The isolation that it has at most.
    at_most: IsolationLevel,
    /// The directory of the modules that it reads.
    modules: Option<PathBuf>,
    worker: Option<Process>,
}

/// What is passed on to the worker, beside what every worker gets.
const INHERITED: [&str; 8] = [
    "HOME",
    "USER",
    "VIRTUAL_ENV",
    "PYTHONPATH",
    "CC",
    "CXX",
    "OMP_NUM_THREADS",
    "CUDA_VISIBLE_DEVICES",
];

/// Variables that name the compilers that PyTorch runs, what it runs if they are not set, and what these compilers run.
const COMPILERS: [(Option<&str>, &str); 4] = [
    (Some("CXX"), "g++"),
    (Some("CC"), "gcc"),
    (None, "as"),
    (None, "ld"),
];

/// Bytes of temporary files.
const QUOTA: u64 = 2 << 30;

/// Processes and threads, with those of compilers.
const PROCESSES: u64 = 4096;

impl Python {
    /// A worker in `environment`.
    pub fn new(environment: Environment, options: PythonOptions) -> Self {
        Self {
            environment,
            options,
            imports: &["torch"],
            variables: Vec::new(),
            writable: Vec::new(),
            at_most: IsolationLevel::Strict,
            modules: None,
            worker: None,
        }
    }

    /// Lets workers that start from now on import other modules before the first call than `torch`.
    pub(crate) fn imports(mut self, modules: &'static [&'static str]) -> Self {
        self.imports = modules;
        self
    }

    /// Sets a variable in the environment of workers that start from now on.
    pub(crate) fn variable(mut self, name: &'static str, value: impl Into<OsString>) -> Self {
        self.variables.push((name, value.into()));
        self
    }

    /// The environment that it runs in.
    pub fn environment(&self) -> &Environment {
        &self.environment
    }

    /// Lets workers that start from now on change what is in a directory.
    pub(crate) fn writable(mut self, directory: PathBuf) -> Self {
        self.writable.push(directory);
        self
    }

    /// Lets workers that start from now on use what drivers of devices need, which strict isolation takes away.
    pub(crate) fn with_devices(mut self) -> Self {
        self.at_most = IsolationLevel::Basic;
        self
    }

    /// Lets the worker read the module at `path`, with the Python files and packages beside it. One that was started
    /// without that ends.
    pub(crate) fn show(&mut self, path: &Path) {
        if self.modules.as_deref() != path.parent() {
            self.worker = None;
            self.modules = path.parent().map(Path::to_owned);
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
        let entry = Entry::new(&self.environment, path, options)?;
        if let Some(imported) = entry.read().filter(|_| !options.refresh) {
            return imported.into_module(path, true);
        }
        self.show(path);
        let call = Call::Import {
            path,
            name: &graph_name(path),
            halvings: options.halvings,
        };
        let imported: Imported = self
            .request(&call, &Files::default(), self.options.import_timeout, progress)
            .context("module", || path.display())?;
        entry.write(&imported);
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
            weights_seed: seeds.weights,
            inputs_seed: seeds.inputs,
            outputs: &outputs.slots,
        };
        let reply: Types = self
            .request(&call, &files, self.options.timeout, &mut |_| {})
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
        let reply: Outcomes = self.request(&call, &files, self.options.timeout, &mut |_| {})?;
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

    /// The isolation that the worker runs in; `None` while there is no worker.
    pub fn isolation(&self) -> Option<&Isolation> {
        self.worker.as_ref().map(Process::isolation)
    }

    /// Starts the worker for the modules in the directory of `path`, unless it runs. It imports PyTorch while the caller
    /// does other things.
    pub fn start(&mut self, path: &Path) -> Result<()> {
        let path = path.canonicalize();
        self.show(&path.map_err(|e| Error::io("cannot find the module", e))?);
        self.launch()
    }

    /// As [`start`](Self::start), for what the worker was told to show.
    pub(crate) fn launch(&mut self) -> Result<()> {
        if !self.worker.as_ref().is_some_and(Process::is_alive) {
            self.worker = Some(self.spawn()?);
        }
        Ok(())
    }

    /// Waits until a worker that was started has imported PyTorch and uses no processor any more.
    pub fn wait(&mut self) -> Result<()> {
        if self.worker.is_none() {
            return Ok(());
        }
        let limit = self.options.timeout;
        self.request::<Done>(&Call::Ready {}, &Files::default(), limit, &mut |_| {})
            .map(|_| ())
    }

    /// Ends the worker process; the next call starts another.
    pub fn stop(&mut self) {
        self.worker = None;
    }

    pub(crate) fn request<R: DeserializeOwned>(
        &mut self,
        call: &Call<'_>,
        files: &Files,
        limit: Duration,
        progress: &mut dyn FnMut(&str),
    ) -> Result<R> {
        let deadline = Instant::now() + limit;
        let files = files.open()?;
        let files: Vec<_> = files.iter().map(AsFd::as_fd).collect();
        let mut worker = match self.worker.take() {
            Some(worker) if worker.is_alive() => worker,
            _ => self.spawn()?,
        };
        let answer = worker.request_passing(call, &files, deadline, progress);
        // A worker that broke the protocol, died or was too slow is gone.
        if matches!(answer, Ok(_) | Err(RequestError::Failed(_))) {
            self.worker = Some(worker);
        }
        Ok(answer?)
    }

    fn spawn(&self) -> Result<Process> {
        let script = sources::write(&self.environment.cache)?;
        let program = Program::new(self.environment.python())
            .readable(script.parent().unwrap_or(&script))
            .arg("-u")
            .arg(&script)
            .quota(QUOTA)
            .at_most(self.at_most)
            .isolation(self.options.isolation);
        let program = self.imports.iter().fold(program, |p, module| p.arg(module));
        let readable = self.environment.roots.iter();
        let program = readable.fold(program, Program::readable);
        let program = compilers().iter().fold(program, |p, tool| p.installation(tool));
        let program = self.writable.iter().fold(program, Program::writable);
        let program = self.modules.iter().fold(program, show_modules);
        let program = INHERITED.iter().fold(program, |p, name| p.inherit(name));
        let variables = self.variables.iter();
        let program = variables.fold(program, |p, (name, value)| p.env(name, value));
        let limits = ResourceLimits {
            data: self.options.memory,
            total: Some(self.options.memory.unwrap_or(machine_memory() / 4 * 3)),
            processes: Some(PROCESSES),
            ..ResourceLimits::default()
        };
        program.limits(limits).spawn()
    }
}

/// Where the compilers are that PyTorch runs, as far as there are any.
fn compilers() -> Vec<PathBuf> {
    let found = COMPILERS.iter().filter_map(|(variable, default)| {
        let named = variable.and_then(env::var_os).filter(|name| !name.is_empty());
        on_path(Path::new(&named.unwrap_or_else(|| default.into())))
    });
    found.collect()
}

/// Lets a program read Python files and packages in a directory, and list what else is there, as Python does to find
/// them.
fn show_modules(program: Program, directory: &PathBuf) -> Program {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let modules = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|e| e == "py") || path.join("__init__.py").exists());
    modules.fold(program.listable(directory), Program::readable)
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
