//! Loading the task that the command line names.

use std::path::Path;
use std::sync::{Arc, Mutex};

use akg::error::ErrorKind;
use akg::expr::Bindings;
use akg::file::read_text;
use akg::python::{
    Config, Environment, ImportOptions, ImportedModule, Python, PythonOptions, SharedPython, lock,
};
use akg::task::Generator;
use akg::{Error, Graph, Result, Task, builtin};

use super::progress::Progress;
use super::report::{TaskReport, describe};
use super::{TaskArgs, symbols};

/// A task and where it came from.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) task: Task,
    /// The imported module, for tasks from a `.py` file.
    pub(super) module: Option<ImportedModule>,
    /// The Python that imported it.
    pub(super) python: Option<SharedPython>,
}

impl Loaded {
    /// The task's part of a report, with what the import did to its module.
    pub(super) fn describe(&self, source: &str) -> TaskReport {
        let mut report = describe(&self.task, source);
        if let Some(module) = &self.module {
            report.shrink.clone_from(&module.shrink);
            report.decomposed.clone_from(&module.decomposed);
        }
        report
    }
}

/// Halvings of the leading dimension that are tried at most.
const MOST_HALVINGS: u32 = 12;

/// Loads a task, a module with the Python that `python` gives. Modules whose tensors do not fit `memory` bytes have their
/// leading dimension halved until they do.
pub(super) fn load(
    args: &TaskArgs,
    memory: Option<u64>,
    python: impl FnOnce() -> Result<SharedPython>,
    progress: &Progress,
) -> Result<Loaded> {
    if args.contract.backward && !args.task.ends_with(".py") {
        return Err(Error::invalid(format!(
            "`{}` has no gradients; give --backward a KernelBench-form .py",
            args.task
        )));
    }
    let mut loaded = if let Some(name) = args.task.strip_prefix("builtin:") {
        Loaded {
            task: builtin::task(name)?,
            module: None,
            python: None,
        }
    } else if args.task.ends_with(".json") {
        let text = read_text(&args.task)?;
        let graph = Graph::from_json(&text).map_err(|e| e.with("file", &args.task))?;
        Loaded {
            task: Task::new(graph.name().to_owned(), graph),
            module: None,
            python: None,
        }
    } else if args.task.ends_with(".py") {
        import(args, memory, python()?, progress)?
    } else {
        return Err(Error::invalid(format!(
            "`{}` is no task; give a KernelBench-form .py, a graph .json, or builtin:NAME",
            args.task
        )));
    };
    loaded.task.contract.accuracy = args.contract.accuracy;
    loaded.task.contract.special_values = args.contract.special_values;
    symbols::open(&mut loaded, &args.contract.symbolic, &args.contract.hint)?;
    Ok(loaded)
}

/// The environment to use; installs akg's own if none is named and none is found.
pub(super) fn environment(config: &Config, progress: &Progress) -> Result<Environment> {
    let named = config.python.is_some() || std::env::var_os("AKG_PYTHON").is_some();
    match Environment::find(config) {
        Err(e) if e.kind() == ErrorKind::ToolMissing && !named => {
            progress.step("setting up Python with PyTorch, once (about 1.5 GB)");
            Environment::install(config, &mut |text| progress.step(text))
        }
        found => found,
    }
}

/// A Python in that environment.
pub(super) fn python(config: &Config, progress: &Progress) -> Result<SharedPython> {
    environment(config, progress).map(|environment| python_in(environment, options(config)))
}

/// The limits of a Python.
pub(super) fn options(config: &Config) -> PythonOptions {
    let mut options = PythonOptions::default();
    if let Some(limit) = config.import_timeout {
        options.import_timeout = limit;
    }
    options
}

/// A Python in an environment.
pub(super) fn python_in(environment: Environment, options: PythonOptions) -> SharedPython {
    Arc::new(Mutex::new(Python::new(environment, options)))
}

fn import(args: &TaskArgs, memory: Option<u64>, python: SharedPython, progress: &Progress) -> Result<Loaded> {
    let path = Path::new(&args.task);
    let mut halvings = 0;
    // What the tensors took when they were too many.
    let mut took: Option<u64> = None;
    loop {
        progress.step("importing the module");
        let mut options = ImportOptions::default();
        options.halvings = halvings;
        options.backward = args.contract.backward;
        let module = lock(&python).import(path, &options, &mut |text| progress.step(text));
        let module = module.map_err(|e| match memory.zip(took) {
            Some((memory, took)) => e
                .with("bytes that the tensors may take", memory)
                .with("bytes that they take with fewer halvings", took),
            None => e,
        })?;
        let need = working_set(&module.graph)?;
        if let Some(memory) = memory.filter(|m| need > *m)
            && halvings < MOST_HALVINGS
        {
            // At best all tensors are halved, so no fewer halvings than these can do.
            let factor = need as f64 / memory.max(1) as f64;
            took = Some(need);
            halvings = (halvings + factor.log2().ceil().max(1.0) as u32).min(MOST_HALVINGS);
            continue;
        }
        let name = path
            .file_stem()
            .map_or_else(|| "module".into(), |s| s.to_string_lossy().into_owned());
        let task = module.task(name, &python);
        if module.cached && task.contract.generators.contains(&Generator::Captured) {
            // The module's code will be asked for its tensors. One that does not start is reported then.
            let _ = lock(&python).start(path);
        }
        return Ok(Loaded {
            task,
            module: Some(module),
            python: Some(python),
        });
    }
}

/// Bytes that judging a graph takes: its inputs, and its outputs by the candidate and by the baseline.
fn working_set(graph: &Graph) -> Result<u64> {
    let bytes = |value| {
        let ty = graph.ty(value);
        let shape = ty.concrete_shape(&Bindings::new())?;
        akg::tensor::byte_len(ty.dtype, &shape).map(|n| n as u64)
    };
    let mut total = 0u64;
    for input in graph.inputs() {
        total = total.saturating_add(bytes(input.value)?);
    }
    for output in graph.outputs() {
        total = total.saturating_add(2 * bytes(output.value)?);
    }
    Ok(total)
}

/// Bytes that a task may take on this machine: 60 % of the memory that is available now.
pub(super) fn memory_budget() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find(|l| l.starts_with("MemAvailable:"))?;
    let kilobytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kilobytes * 1024 / 10 * 6)
}
