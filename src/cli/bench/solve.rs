//! One problem after the other.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use akg::python::{Environment, Python, PythonOptions};
use akg::session::Event;
use akg::store::Store;
use akg::{Error, Result};

use super::KernelBenchArgs;
use super::family::Family;
use super::problems::Problem;
use super::record::{Findings, Record, Work};
use super::stop::Stop;
use crate::cli::TaskArgs;
use crate::cli::progress::Progress;
use crate::cli::report::{Report, TaskReport, describe};
use crate::cli::run::{REPORT, conclude, prepare, session, tuning, write};
use crate::cli::task::{load, python};

/// Solves problems one after the other.
pub(super) struct Solver<'a> {
    pub(super) args: &'a KernelBenchArgs,
    /// Bytes that the tensors of a module may take.
    pub(super) memory: Option<u64>,
    /// The Python of modules.
    pub(super) environment: Option<Environment>,
    pub(super) store: Arc<dyn Store>,
    pub(super) stop: Stop,
    /// Imports PyTorch for the next module while the candidate of this one is built and judged. Each module has a process
    /// of its own, because what it does to PyTorch's global state must not reach the next.
    pub(super) ahead: Ahead,
}

type Ahead = Arc<Mutex<Option<Python>>>;

impl Solver<'_> {
    /// What becomes of a problem, whatever goes wrong; `None` if the run is to end. `next` is the module after this one.
    ///
    /// # Errors
    /// If the output directory cannot be written.
    pub(super) fn solve(
        &mut self,
        problem: &Problem,
        next: Option<&Path>,
        out: &Path,
        progress: &Progress,
    ) -> Result<Option<Record>> {
        let start = Instant::now();
        let task = TaskReport {
            name: problem.name(),
            source: problem.path.display().to_string(),
            accuracy: self.args.accuracy,
            ..Default::default()
        };
        let mut report = Report::new(task, &self.args.target.dsl, &self.args.target.backend);
        let mut findings = Findings::default();
        prepare(Some(out))?;
        // A bug that one problem shows must not cost the results of the others.
        let road = || self.road(problem, next, out, progress, &mut report, &mut findings);
        match catch_unwind(AssertUnwindSafe(road)) {
            Ok(Ok(true)) => {}
            Ok(Ok(false)) => return Ok(None),
            Ok(Err(error)) => report.add_error(&error),
            Err(panic) => report.add_error(&Error::unexpected(format!("akg panicked: {}", text_of(&*panic)))),
        }
        write(&out.join(REPORT), &report.to_json()?)?;
        let seconds = start.elapsed().as_secs_f64();
        Ok(Some(Record::new(problem, &report, findings, seconds)))
    }

    /// The way from the file to the report; whether it was gone to its end.
    fn road(
        &mut self,
        problem: &Problem,
        next: Option<&Path>,
        out: &Path,
        progress: &Progress,
        report: &mut Report,
        findings: &mut Findings,
    ) -> Result<bool> {
        let args = self.args;
        let config = args.python.config();
        let task = TaskArgs {
            task: problem.path.display().to_string(),
            accuracy: args.accuracy,
        };
        let started = lock(&self.ahead).take();
        let python = || started.map_or_else(|| python(&config, progress), Ok);
        let loaded = load(&task, self.memory, python, progress)?;
        report.task = describe(&loaded.task, &task.task, loaded.shrink());
        findings.family = Some(Family::of(&loaded.task.graph));
        if self.stop.asked() {
            return Ok(false);
        }
        let (ahead, stop) = (self.ahead.clone(), self.stop.clone());
        let next = self.environment.clone().zip(next.map(Path::to_owned));
        let observe = move |event: &Event<'_>| {
            let mut ahead = lock(&ahead);
            match (event, &mut *ahead, &next) {
                (Event::Built(_), None, Some((environment, module))) => {
                    let mut python = Python::new(environment.clone(), PythonOptions::default());
                    // One that does not start is started again, and reported, when its turn comes.
                    *ahead = python.start(module).is_ok().then_some(python);
                }
                // What is timed from now on must not suffer; trouble comes back with the import.
                (Event::Measuring, Some(python), _) => drop(python.wait()),
                _ => {}
            }
            stop.step_ended();
        };
        let session = session(&args.target, &args.judge, &config, &loaded, progress, observe)?;
        let session = session
            .with_budget(args.seconds_per_problem)
            .with_tuning(tuning(args.tune))
            .with_store(self.store.clone())
            .with_retry(args.retry);
        let Some(outcome) = self.stop.run(session.run(&loaded.task)) else {
            return Ok(false);
        };
        let outcome = outcome?;
        findings.work = Work::of(&loaded.task, &outcome);
        conclude(report, &loaded, &outcome, Some(out))?;
        Ok(true)
    }
}

/// A panic elsewhere leaves nothing half done here.
fn lock(ahead: &Ahead) -> MutexGuard<'_, Option<Python>> {
    ahead.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a panic says.
fn text_of(panic: &(dyn Any + Send)) -> &str {
    let owned = panic.downcast_ref::<String>().map(String::as_str);
    owned
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("no message")
}
