//! Worker processes that run Python: how they start, and how they are called.

use std::env;
use std::ffi::OsString;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use akg_core::error::{Error, Result};
use akg_core::isolation::{Isolation, IsolationLevel};
use akg_worker::process::{Process, Program, RequestError, ResourceLimits};
use akg_worker::{machine_memory, on_path};
use serde::de::DeserializeOwned;

use crate::calls::{Call, Done};
use crate::environment::{BYTECODE, Environment};
use crate::modules::Modules;
use crate::python::PythonOptions;
use crate::sources;
use crate::transfer::Files;

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

/// A Python process that starts at the first call that needs it, and again after it has died.
#[derive(Debug)]
pub(crate) struct Worker {
    environment: Environment,
    options: PythonOptions,
    imports: &'static [&'static str],
    variables: Vec<(&'static str, OsString)>,
    writable: Vec<PathBuf>,
    /// The isolation that it has at most.
    at_most: IsolationLevel,
    /// The modules that it reads.
    modules: Option<Modules>,
    process: Option<Process>,
}

impl Worker {
    /// A worker that imports some modules before its first call.
    pub(crate) fn new(
        environment: Environment,
        options: PythonOptions,
        imports: &'static [&'static str],
    ) -> Self {
        Self {
            environment,
            options,
            imports,
            variables: Vec::new(),
            writable: Vec::new(),
            at_most: IsolationLevel::Strict,
            modules: None,
            process: None,
        }
    }

    /// Sets a variable in the environment of processes that start from now on.
    pub(crate) fn variable(mut self, name: &'static str, value: impl Into<OsString>) -> Self {
        self.variables.push((name, value.into()));
        self
    }

    /// Lets processes that start from now on change what is in a directory.
    pub(crate) fn writable(mut self, directory: PathBuf) -> Self {
        self.writable.push(directory);
        self
    }

    /// Lets processes that start from now on use what drivers of devices need, which strict isolation takes away.
    pub(crate) fn with_devices(mut self) -> Self {
        self.at_most = IsolationLevel::Basic;
        self
    }

    /// Lets it read the module at `path`, with the Python files and packages beside it. A process that was started
    /// without that ends; whether it has changed what it may read.
    pub(crate) fn show(&mut self, path: &Path) -> bool {
        let there = Modules::of(path.parent().unwrap_or(path));
        let changes = !self.modules.as_ref().is_some_and(|shown| shown.include(&there));
        if changes {
            self.process = None;
            self.modules = Some(there);
        }
        changes
    }

    pub(crate) fn environment(&self) -> &Environment {
        &self.environment
    }

    pub(crate) fn options(&self) -> &PythonOptions {
        &self.options
    }

    /// The isolation that the process runs in; `None` while there is none.
    pub(crate) fn isolation(&self) -> Option<&Isolation> {
        self.process.as_ref().map(Process::isolation)
    }

    /// Starts the process unless it runs. It imports its modules while the caller does other things.
    pub(crate) fn launch(&mut self) -> Result<()> {
        if !self.process.as_ref().is_some_and(Process::is_alive) {
            self.process = Some(self.spawn()?);
        }
        Ok(())
    }

    /// Waits until a process that was started has imported its modules and uses no processor any more.
    pub(crate) fn wait(&mut self) -> Result<()> {
        if self.process.is_none() {
            return Ok(());
        }
        let limit = self.options.timeout;
        self.request::<Done>(&Call::Ready {}, &Files::default(), limit, &mut |_| {})
            .map(|_| ())
    }

    /// Calls the process and waits for its answer.
    pub(crate) fn request<R: DeserializeOwned>(
        &mut self,
        call: &Call<'_>,
        files: &Files,
        limit: Duration,
        progress: &mut dyn FnMut(&str),
    ) -> Result<R> {
        let deadline = Instant::now() + limit;
        let mut process = match self.process.take() {
            Some(process) if process.is_alive() => process,
            _ => self.spawn()?,
        };
        let (answer, goes_on) = ask(&mut process, call, files, deadline, progress);
        if goes_on {
            self.process = Some(process);
        }
        answer
    }

    /// A new process, beside the one that it has.
    pub(crate) fn spawn(&self) -> Result<Process> {
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
        let program = match &self.modules {
            Some(modules) => modules.show_to(program)?,
            None => program,
        };
        let program = INHERITED.iter().fold(program, |p, name| p.inherit(name));
        let bytecode = self.environment.bytecode.iter();
        let program = bytecode.fold(program, |p, directory| {
            p.readable(directory).env(BYTECODE, directory)
        });
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

/// Calls a process; its answer, and whether it can be called again. One that broke the protocol, died or was too slow is
/// gone.
pub(crate) fn ask<R: DeserializeOwned>(
    process: &mut Process,
    call: &Call<'_>,
    files: &Files,
    deadline: Instant,
    progress: &mut dyn FnMut(&str),
) -> (Result<R>, bool) {
    let files = match files.open() {
        Ok(files) => files,
        Err(error) => return (Err(error), true),
    };
    let files: Vec<_> = files.iter().map(AsFd::as_fd).collect();
    let answer = process.request_passing(call, &files, deadline, progress);
    let goes_on = matches!(answer, Ok(_) | Err(RequestError::Failed(_)));
    (answer.map_err(Error::from), goes_on)
}

/// Where the compilers are that PyTorch runs, as far as there are any.
fn compilers() -> Vec<PathBuf> {
    let found = COMPILERS.iter().filter_map(|(variable, default)| {
        let named = variable.and_then(env::var_os).filter(|name| !name.is_empty());
        on_path(Path::new(&named.unwrap_or_else(|| default.into())))
    });
    found.collect()
}
