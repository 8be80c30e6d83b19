//! Workers that are copies of a running one, which has loaded everything that takes long to load.
//!
//! Two calls make a worker a template. With `{"fork":{}}` come three descriptors: it forks, and the copy answers further
//! calls on these, as its standard input, output and error, while the template answers this one with `{}`. And
//! `{"end":{"seconds":s}}` ends the copy and everything that it started; the answer `{"status":n}` says how it ended by
//! itself, if it did within that time, as `wait` says it. There is one copy at a time.
//!
//! A copy is as confined as its template. It can see the template and end it, but not change it: a template says nothing
//! and ends if it is not as it was when a copy has ended.

use std::os::fd::AsFd as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use akg_core::error::Error;
use akg_core::isolation::Isolation;
use rustix::process::Pid;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::pipes::Pipes;
use crate::process::{Ended, Life, Process, RequestError};

/// How long a template may take to end a copy.
const ENDING: Duration = Duration::from_secs(5);

/// A worker that can make copies of itself, one at a time. Dropping it and its copy kills it.
#[derive(Debug)]
pub struct Template {
    process: Arc<Mutex<Process>>,
    isolation: Isolation,
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Call {
    Fork {},
    End { seconds: f64 },
}

#[derive(Deserialize)]
struct Forked {}

#[derive(Deserialize)]
struct EndedCopy {
    status: Option<i32>,
}

impl Template {
    /// `process` must answer the two calls.
    pub fn new(process: Process) -> Self {
        Self {
            isolation: process.isolation().clone(),
            process: Arc::new(Mutex::new(process)),
        }
    }

    /// The isolation that it and its copies run in.
    pub fn isolation(&self) -> &Isolation {
        &self.isolation
    }

    /// Whether it can make another copy.
    pub fn is_alive(&self) -> bool {
        lock(&self.process).is_alive()
    }

    /// Calls the template itself. See [`Process::request`].
    pub fn request<C: Serialize, R: DeserializeOwned>(
        &self,
        call: &C,
        deadline: Instant,
    ) -> Result<R, RequestError> {
        lock(&self.process).request(call, deadline, &mut |_| {})
    }

    /// A copy. The one before must have ended: it is an error to have two.
    ///
    /// # Errors
    /// [`RequestError::Failed`] if the system does not allow it; the template goes on.
    pub fn fork(&self, deadline: Instant) -> Result<Process, RequestError> {
        let (pipes, ends) = Pipes::new()
            .map_err(|e| RequestError::Failed(Error::io("cannot set up the pipes of a worker", e)))?;
        let mut process = lock(&self.process);
        let ends = ends.each_ref().map(|end| end.as_fd());
        let _: Forked = process.request_passing(&Call::Fork {}, &ends, deadline, &mut |_| {})?;
        let copied = Copied {
            template: self.process.clone(),
            isolation: self.isolation.clone(),
            scratch: process.scratch().to_owned(),
            supervisor: process.supervisor(),
            has_ended: false,
            status: None,
            last_words: String::new(),
        };
        Ok(Process::new(
            process.program().to_owned(),
            Life::Copied(copied),
            pipes,
        ))
    }
}

/// The life of a copy.
#[derive(Debug)]
pub(crate) struct Copied {
    template: Arc<Mutex<Process>>,
    isolation: Isolation,
    scratch: PathBuf,
    supervisor: Pid,
    has_ended: bool,
    /// How it ended, if it did so by itself.
    status: Option<ExitStatus>,
    /// What the template wrote to its standard error, if it ended too.
    last_words: String,
}

impl Copied {
    pub(crate) fn isolation(&self) -> &Isolation {
        &self.isolation
    }

    /// The private directory of the template, which is empty for each copy.
    pub(crate) fn scratch(&self) -> &Path {
        &self.scratch
    }

    pub(crate) fn supervisor(&self) -> Pid {
        self.supervisor
    }

    pub(crate) fn last_words(&self) -> &str {
        &self.last_words
    }

    /// Whether it has ended with its template. What ends alone closes its pipes: the template sees to that.
    pub(crate) fn has_exited(&self) -> bool {
        self.has_ended || !lock(&self.template).is_alive()
    }

    /// Waits for the end, but not longer than `limit`, and ends what is left; whether the end came.
    pub(crate) fn wait(&mut self, limit: Duration) -> bool {
        if !self.has_ended {
            self.has_ended = true;
            self.status = self.ask(limit);
        }
        self.status.is_some()
    }

    /// Ends it with everything that it started, and tells how it ended if it did by itself.
    pub(crate) fn end(&mut self) -> Option<ExitStatus> {
        self.wait(Duration::ZERO);
        self.status
    }

    fn ask(&mut self, limit: Duration) -> Option<ExitStatus> {
        let template = self.template.clone();
        let mut template = lock(&template);
        let call = Call::End {
            seconds: limit.as_secs_f64(),
        };
        let deadline = Instant::now() + limit + ENDING;
        match template.request::<_, EndedCopy>(&call, deadline, &mut |_| {}) {
            Ok(EndedCopy { status }) => status.map(ExitStatus::from_raw),
            Err(error) => {
                // Without an answer nobody knows what is left of either.
                template.kill();
                let RequestError::Ended { how, stderr } = error else {
                    return None;
                };
                self.last_words = stderr;
                match how {
                    Ended::Exited(status) => Some(status),
                    Ended::Silent | Ended::Killed => None,
                }
            }
        }
    }
}

impl Drop for Copied {
    fn drop(&mut self) {
        self.end();
    }
}

/// A panic elsewhere leaves nothing half done here.
fn lock(process: &Mutex<Process>) -> MutexGuard<'_, Process> {
    process.lock().unwrap_or_else(PoisonError::into_inner)
}
