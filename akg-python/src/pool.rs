//! Processes that answer the calls of one Python file, several at a time.

use std::path::PathBuf;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use akg_core::error::{Error, ErrorKind, Result};
use akg_core::isolation::Isolation;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::cache;
use crate::calls::Call;
use crate::environment::{Config, Environment};
use crate::pins::Package;
use crate::python::PythonOptions;
use crate::transfer::Files;
use crate::worker::Worker;

/// A Python file with a function `answer(arguments)` that takes and returns what JSON can hold.
#[derive(Debug, Clone, Copy)]
pub struct Script {
    /// The file's name, without its extension.
    pub name: &'static str,
    /// Its text.
    pub text: &'static str,
    /// Modules that are imported before the first call.
    pub imports: &'static [&'static str],
    /// The package that it needs.
    pub package: Package,
}

/// Long-lived processes that run a [`Script`], as many as there are calls at once, but no more than processors.
///
/// A process that dies, breaks the protocol or is too slow is replaced at the next call. All run confined, as every
/// [`Python`](crate::Python) does.
#[derive(Debug)]
pub struct Pool {
    config: Config,
    options: PythonOptions,
    script: Script,
    most: usize,
    state: Mutex<State>,
    returned: Condvar,
}

#[derive(Debug, Default)]
struct State {
    found: Option<Found>,
    idle: Vec<Worker>,
    busy: usize,
}

/// Where the script runs.
#[derive(Debug, Clone)]
struct Found {
    environment: Environment,
    version: String,
    path: PathBuf,
}

impl Pool {
    /// A pool without processes; they start with the calls.
    pub fn new(config: Config, options: PythonOptions, script: Script) -> Self {
        Self {
            config,
            options,
            script,
            most: thread::available_parallelism().map_or(1, usize::from),
            state: Mutex::default(),
            returned: Condvar::new(),
        }
    }

    /// The version of the package that the script runs with.
    ///
    /// # Errors
    /// [`ErrorKind::ToolMissing`] if there is no environment, or none with the package.
    pub fn version(&self) -> Result<String> {
        Ok(self.find()?.version)
    }

    /// Calls the script and waits for its answer, which comes with the isolation that it ran in.
    ///
    /// # Errors
    /// What [`version`](Self::version) says; [`ErrorKind::Timeout`] after `limit`; [`ErrorKind::WorkerLost`] if the
    /// process died; and what the script raises.
    pub fn call<R: DeserializeOwned>(&self, arguments: &Value, limit: Duration) -> Result<(R, Isolation)> {
        let found = self.find()?;
        let mut worker = self.take(&found);
        let call = Call::Answer {
            path: &found.path,
            arguments,
        };
        worker.show(&found.path);
        let answer = worker.request(&call, &Files::default(), limit, &mut |_| {});
        let isolation = worker.isolation().cloned().unwrap_or_default();
        let mut state = self.lock();
        state.busy -= 1;
        state.idle.push(worker);
        drop(state);
        self.returned.notify_one();
        Ok((answer?, isolation))
    }

    fn find(&self) -> Result<Found> {
        let mut state = self.lock();
        if let Some(found) = &state.found {
            return Ok(found.clone());
        }
        let environment = Environment::find(&self.config)?;
        let package = self.script.package;
        let version = environment.version_of(package)?.ok_or_else(|| {
            Error::new(
                ErrorKind::ToolMissing,
                format!(
                    "{} has no {name}; `akg doctor --fix` installs it into akg's own environment, or run `{} -m pip install \
                     --no-deps {name}=={}`",
                    environment.python().display(),
                    environment.python().display(),
                    package.version(),
                    name = package.name(),
                ),
            )
        })?;
        let hash = blake3::hash(self.script.text.as_bytes()).to_hex();
        let directory = format!("{}-{}", self.script.name, hash.get(..16).unwrap_or(&hash));
        let path = environment
            .cache
            .join(directory)
            .join(format!("{}.py", self.script.name));
        if !path.exists() {
            cache::write(&path, self.script.text.as_bytes())?;
        }
        let found = Found {
            environment,
            version,
            path,
        };
        state.found = Some(found.clone());
        Ok(found)
    }

    /// An idle process or a new one; waits while all are busy.
    fn take(&self, found: &Found) -> Worker {
        let full = |state: &mut State| state.busy >= self.most;
        let state = self.returned.wait_while(self.lock(), full);
        let mut state = state.unwrap_or_else(PoisonError::into_inner);
        state.busy += 1;
        state.idle.pop().unwrap_or_else(|| {
            Worker::new(
                found.environment.clone(),
                self.options.clone(),
                self.script.imports,
            )
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
