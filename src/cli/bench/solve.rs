//! One problem, from its file to its record.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use akg::python::{SharedPython, lock};
use akg::session::Event;
use akg::store::Store;
use akg::{Accuracy, Backend, Dsl, Error, Result};

use super::KernelBenchArgs;
use super::family::Family;
use super::problems::Problem;
use super::record::{Findings, Record, Work};
use super::room::{Rivals, Room, need};
use super::stop::Stop;
use crate::cli::progress::Progress;
use crate::cli::report::{Report, TaskReport};
use crate::cli::run::{REPORT, conclude, prepare, session, tuning, write};
use crate::cli::task::{load, python};
use crate::cli::{ContractArgs, TaskArgs};

/// Solves problems, several at a time.
pub(super) struct Solver<'a> {
    pub(super) args: &'a KernelBenchArgs,
    pub(super) dsl: Arc<dyn Dsl>,
    /// A backend for each device.
    pub(super) backends: Vec<Arc<dyn Backend>>,
    /// The memory of each device.
    pub(super) rooms: Vec<Room>,
    /// Bytes that the tensors of a module may take.
    pub(super) memory: Option<u64>,
    /// The Python of modules: it has loaded PyTorch before the first of them, and each gets a process of its own.
    pub(super) python: Option<SharedPython>,
    pub(super) store: Arc<dyn Store>,
    pub(super) stop: Stop,
}

impl Solver<'_> {
    /// What becomes of a problem, whatever goes wrong; `None` if the run is to end. Hands take the devices in turns.
    ///
    /// # Errors
    /// If the output directory cannot be written.
    pub(super) fn solve(
        &self,
        hand: usize,
        problem: &Problem,
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
        let road = || self.road(hand, problem, out, progress, &mut report, &mut findings);
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

    /// Whom a candidate is compared with.
    fn rivals(&self) -> Rivals {
        match self.args.accuracy {
            _ if self.args.judge.no_baseline => Rivals::None,
            Accuracy::Fp32 => Rivals::Fp32,
            _ => Rivals::TwoPrecisions,
        }
    }

    /// The way from the file to the report; whether it was gone to its end.
    fn road(
        &self,
        hand: usize,
        problem: &Problem,
        out: &Path,
        progress: &Progress,
        report: &mut Report,
        findings: &mut Findings,
    ) -> Result<bool> {
        let args = self.args;
        let config = args.python.config();
        let task = TaskArgs {
            task: problem.path.display().to_string(),
            contract: ContractArgs {
                accuracy: args.accuracy,
                special_values: args.special_values,
                ..ContractArgs::default()
            },
        };
        let python = || self.python.clone().map_or_else(|| python(&config, progress), Ok);
        let loaded = load(&task, self.memory, python, progress)?;
        report.task = loaded.describe(&task.task);
        findings.family = Some(Family::of(&loaded.task.graph));
        let at = hand % self.backends.len().max(1);
        let (Some(backend), Some(room)) = (self.backends.get(at).cloned(), self.rooms.get(at)) else {
            return Err(Error::unexpected("there is no device to work on"));
        };
        let need = need(&loaded.task, self.rivals())?;
        if !room.has(need) {
            progress.step("waiting for memory of the device");
        }
        let _place = room.take(need);
        if self.stop.asked() {
            return Ok(false);
        }
        let busy = self
            .python
            .clone()
            .filter(|_| !backend.capability().own_processors);
        let work = self.stop.work();
        let step = work.clone();
        let observe = move |event: &Event<'_>| {
            if let (Event::Measuring, Some(python)) = (event, &busy) {
                // What is timed must not suffer from one that still starts; its trouble comes back with an import.
                drop(lock(python).wait());
            }
            step.step_ended();
        };
        let kind = (self.dsl.clone(), backend);
        let session = session(kind, &args.judge, &config, &loaded, progress, observe)
            .with_algebra(args.algebra.algebra)
            .with_budget(args.seconds_per_problem)
            .with_tuning(tuning(args.tune))
            .with_store(self.store.clone())
            .with_retry(args.retry);
        let Some(outcome) = work.run(session.run(&loaded.task)) else {
            return Ok(false);
        };
        let outcome = outcome?;
        findings.work = Work::of(&loaded.task, &outcome);
        conclude(report, &loaded, &outcome, Some(out))?;
        Ok(true)
    }
}

/// What a panic says.
fn text_of(panic: &(dyn Any + Send)) -> &str {
    let owned = panic.downcast_ref::<String>().map(String::as_str);
    owned
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("no message")
}
