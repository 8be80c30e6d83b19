//! `akg bench evaluate`: KernelBench's own evaluator, as it is, on exported kernels.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use akg::python::Environment;
use akg::{Accuracy, Error, ErrorKind, Result, Target};
use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::json;

use self::evaluation::{Answer, Evaluation, Status};
use self::export::{Export, Kernels};
use super::STOPPED;
use super::folder::{read, to_json, write_whole};
use super::problems::{self, Problem};
use super::room::Memory;
use super::stop::Stop;
use crate::cli::device::target;
use crate::cli::numbers::Numbers;
use crate::cli::progress::Progress;
use crate::cli::task::environment;
use crate::cli::{PythonArgs, parse_bytes, parse_duration};

mod evaluation;
mod export;

/// The exit status is 0 if every chosen problem passes, 1 if one does not, 2 for akg's own trouble, 3 if the run stopped
/// before its end.
#[derive(Debug, Args)]
pub(in crate::cli) struct EvaluateArgs {
    /// KernelBench's repository, whose `src/kernelbench` evaluates.
    #[arg(long, value_name = "DIR")]
    root: PathBuf,
    /// The output directory of `akg bench kernelbench --dsl triton`, whose verified kernels are evaluated. Those that were
    /// made for a part of a problem's size are designed anew for all of it. Without this, what the rules design is evaluated.
    #[arg(long, value_name = "DIR")]
    results: Option<PathBuf>,
    /// Levels, as in 1,2; by default all that are there.
    #[arg(long, value_name = "NUMBERS")]
    levels: Option<Numbers>,
    /// Problems of these levels, as in 1,2,19-32; by default all, or all in the results.
    #[arg(long, value_name = "NUMBERS")]
    problems: Option<Numbers>,
    /// Where the files with `ModelNew` and the evaluations go: a new directory.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Go on with the run in the output directory: files and evaluations in it are kept.
    #[arg(long)]
    resume: bool,
    /// Evaluate files again that did not pass.
    #[arg(long, requires = "resume")]
    retry: bool,
    /// Write the files and ask the static checker, which needs no GPU; evaluate later, with --resume.
    #[arg(long)]
    export_only: bool,
    /// Measure times as KernelBench does, one problem after the other.
    #[arg(long)]
    timing: bool,
    /// Evaluations at the same time.
    #[arg(long, default_value_t = 1, conflicts_with = "timing")]
    jobs: usize,
    /// Memory of the GPU for all evaluations at the same time, as in 100GB; by default 85 % of what it has.
    #[arg(long, value_parser = parse_bytes)]
    memory: Option<u64>,
    /// Wall time of one evaluation.
    #[arg(long, value_name = "TIME", default_value = "300s", value_parser = parse_duration)]
    timeout: Duration,
    /// Wall time after which no new evaluation is started; go on with --resume.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    stop_after: Option<Duration>,
    /// Accuracy class of what is designed without results: fp32, tf32 or half.
    #[arg(long, default_value = "fp32")]
    accuracy: Accuracy,
    /// The device that this JSON file describes, instead of that of the results or the first one that is found.
    #[arg(long, value_name = "FILE")]
    device: Option<PathBuf>,
    #[command(flatten)]
    python: PythonArgs,
}

/// What `evaluations.json` holds.
#[derive(Debug, Serialize)]
struct Summary<'a> {
    schema: u32,
    /// The command of the last part of the run.
    command: String,
    date: String,
    akg: &'static str,
    device: &'a Target,
    passed: usize,
    evaluations: Vec<&'a Evaluation>,
}

/// The version of the form of `evaluations.json`.
const SCHEMA: u32 = 1;

const EVALUATION: &str = "evaluation.json";

const PROGRAM: &str = include_str!("evaluate.py");

/// What the threads share.
#[derive(Debug)]
struct Queue {
    open: Vec<(Problem, Export)>,
    /// What evaluations in progress need.
    memory: Memory,
    evaluations: Vec<Evaluation>,
}

impl EvaluateArgs {
    pub(super) fn run(self) -> Result<ExitCode> {
        let start = Instant::now();
        let progress = Progress::new(false);
        let problems = self.chosen()?;
        let environment = environment(&self.python.config(), &progress)?;
        let target = self.target()?;
        self.open()?;
        let stop = Stop::listen()?;
        let late = || stop.asked() || self.stop_after.is_some_and(|limit| start.elapsed() >= limit);
        progress.print(&Evaluation::heading());
        let mut queue = Queue {
            open: Vec::new(),
            memory: self
                .memory
                .map_or_else(|| Memory::of(target.memory_bytes), Memory::new),
            evaluations: Vec::new(),
        };
        for problem in &problems {
            if late() {
                break;
            }
            let progress = progress.about(&format!("{} {}", problem.id(), problem.name()), "");
            match self.prepare(problem, &target, &progress)? {
                Ok(export) => queue.open.push((problem.clone(), export)),
                Err(evaluation) => {
                    progress.print(&evaluation.row());
                    queue.evaluations.push(evaluation);
                }
            }
        }
        let (queue, freed) = (Mutex::new(queue), Condvar::new());
        let others = self.others(&problems)?;
        let save = |evaluations: &mut Vec<Evaluation>| {
            evaluations.sort_by_key(|e| problems.iter().position(|p| p.id() == e.problem));
            self.save(others.iter().chain(&*evaluations).collect(), &target)
        };
        let work = || -> Result<()> {
            while let Some((problem, export)) = next(&queue, &freed, &late) {
                progress
                    .about(&format!("{} {}", problem.id(), problem.name()), "")
                    .step("evaluating");
                let evaluation = self.evaluate(&problem, &export, &environment);
                let mut queue = lock(&queue);
                queue.memory.give(export.need);
                freed.notify_all();
                progress.print(&evaluation.row());
                if !self.export_only {
                    let file = self.of(&problem).join(EVALUATION);
                    write_whole(&file, &to_json(&evaluation)?)?;
                }
                queue.evaluations.push(evaluation);
                save(&mut queue.evaluations)?;
            }
            Ok(())
        };
        thread::scope(|scope| {
            let jobs: Vec<_> = (0..self.jobs.max(1)).map(|_| scope.spawn(work)).collect();
            let ended = jobs.into_iter().map(|job| {
                job.join()
                    .unwrap_or_else(|_| Err(Error::unexpected("an evaluation ended akg's thread")))
            });
            ended.collect::<Result<Vec<()>>>()
        })?;
        let queue = queue.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut evaluations = queue.evaluations;
        save(&mut evaluations)?;
        progress.done();
        Ok(self.conclude(&evaluations, problems.len()))
    }

    /// The problems that are to be evaluated.
    fn chosen(&self) -> Result<Vec<Problem>> {
        let mut problems = problems::find(&self.root, self.levels.as_ref(), self.problems.as_ref())?;
        problems.retain(|problem| {
            let there = |results: &PathBuf| results.join(problem.id()).join("record.json").exists();
            problem.is_module() && self.results.as_ref().is_none_or(there)
        });
        if problems.is_empty() {
            return Err(Error::invalid(
                "no chosen problem is a PyTorch module with results",
            ));
        }
        Ok(problems)
    }

    fn target(&self) -> Result<Target> {
        /// The part of `results.json` that is of interest here.
        #[derive(Deserialize)]
        struct Device {
            device: Target,
        }
        match (&self.device, &self.results) {
            (None, Some(results)) => Ok(read::<Device>(&results.join("results.json"))?.device),
            (device, _) => target("cuda", device.as_deref()),
        }
    }

    /// Makes the output directory.
    fn open(&self) -> Result<()> {
        let cannot = |e| Error::io(format!("cannot use {}", self.out.display()), e);
        std::fs::create_dir_all(&self.out).map_err(cannot)?;
        if !self.resume && std::fs::read_dir(&self.out).map_err(cannot)?.next().is_some() {
            return Err(Error::invalid(format!(
                "{} is not empty; give --resume to go on with the run in it, or name another directory",
                self.out.display()
            )));
        }
        Ok(())
    }

    /// Where the files of one problem are.
    fn of(&self, problem: &Problem) -> PathBuf {
        self.out.join(problem.id())
    }

    /// The file to evaluate, or what is known of the problem without an evaluation; an error only if the output directory
    /// cannot be read.
    fn prepare(
        &self,
        problem: &Problem,
        target: &Target,
        progress: &Progress,
    ) -> Result<std::result::Result<Export, Evaluation>> {
        let directory = self.of(problem);
        let finished = directory.join(EVALUATION);
        if finished.exists() {
            let evaluation: Evaluation = read(&finished)?;
            let lacks_times =
                self.timing && evaluation.status == Status::Pass && evaluation.answer.milliseconds.is_none();
            let is_retried = self.retry && evaluation.status != Status::Pass;
            if !lacks_times && !is_retried {
                return Ok(Err(evaluation));
            }
        }
        if let Some(export) = export::kept(&directory)? {
            return Ok(Ok(export));
        }
        Ok(
            match export::export(self, problem, target, &directory, progress) {
                Ok(Some(export)) => Ok(export),
                Ok(None) => Err(Evaluation::without(
                    problem,
                    Status::NoKernel,
                    "the results have no verified kernel",
                )),
                Err(error) => Err(Evaluation::without(
                    problem,
                    Status::NotExported,
                    error.to_string(),
                )),
            },
        )
    }

    /// What KernelBench says, whatever goes wrong there.
    fn evaluate(&self, problem: &Problem, export: &Export, environment: &Environment) -> Evaluation {
        let start = Instant::now();
        let file = export::file(&self.of(problem));
        let evaluation = match self.ask(problem, Some(&file), environment) {
            Ok(answer) => Evaluation::of(problem, export, answer, start.elapsed().as_secs_f64()),
            Err(error) if error.kind() == ErrorKind::Timeout => {
                Evaluation::without(problem, Status::Timeout, error.to_string())
            }
            Err(error) => Evaluation::without(problem, Status::Trouble, error.to_string()),
        };
        if !evaluation.asks_for_control() {
            return evaluation;
        }
        // What cannot be asked says nothing.
        match self.ask(problem, None, environment) {
            Ok(control) => evaluation.with_control(control),
            Err(_) => evaluation,
        }
    }

    /// Asks KernelBench about a file, or about the reference itself.
    fn ask(&self, problem: &Problem, file: Option<&Path>, environment: &Environment) -> Result<Answer> {
        let request = json!({
            "root": self.root,
            "reference": problem.path,
            "kernels": file,
            "evaluate": !self.export_only,
            "timing": self.timing && file.is_some(),
        });
        let said = environment.run(PROGRAM, &[&request.to_string()], self.timeout)?;
        let answer = said.iter().rev().find_map(|line| serde_json::from_str(line).ok());
        answer.ok_or_else(|| {
            let last = said.iter().rev().find(|line| !line.trim().is_empty());
            Error::new(
                ErrorKind::WorkerLost,
                format!(
                    "the evaluator ended without an answer: {}",
                    last.map_or("no output", |l| l)
                ),
            )
        })
    }

    /// The evaluations in the output directory of problems that were not chosen now.
    fn others(&self, problems: &[Problem]) -> Result<Vec<Evaluation>> {
        let cannot = |e| Error::io(format!("cannot list {}", self.out.display()), e);
        let entries = std::fs::read_dir(&self.out).map_err(cannot)?;
        let files = entries.flatten().map(|entry| entry.path().join(EVALUATION));
        let mut others: Vec<Evaluation> = files
            .filter(|file| file.exists())
            .map(|file| read(&file))
            .collect::<Result<_>>()?;
        others.retain(|e| problems.iter().all(|p| p.id() != e.problem));
        others.sort_by(|a, b| a.problem.cmp(&b.problem));
        Ok(others)
    }

    fn save(&self, evaluations: Vec<&Evaluation>, device: &Target) -> Result<()> {
        let command: Vec<_> = std::env::args_os()
            .map(|a| a.to_string_lossy().into_owned())
            .collect();
        let summary = Summary {
            schema: SCHEMA,
            command: command.join(" "),
            date: jiff::Timestamp::now().to_string(),
            akg: env!("CARGO_PKG_VERSION"),
            device,
            passed: evaluations.iter().filter(|e| e.status == Status::Pass).count(),
            evaluations,
        };
        write_whole(&self.out.join("evaluations.json"), &to_json(&summary)?)
    }

    /// Prints what all evaluations say together, and decides the exit status.
    fn conclude(&self, evaluations: &[Evaluation], chosen: usize) -> ExitCode {
        let goal = if self.export_only {
            Status::Exported
        } else {
            Status::Pass
        };
        let (reached, others): (Vec<_>, Vec<_>) = evaluations.iter().partition(|e| e.status == goal);
        let verified = reached
            .iter()
            .filter(|e| e.kernels == Some(Kernels::Verified))
            .count();
        println!(
            "{}: {} of {chosen}, {verified} of them with verified kernels",
            goal.name(),
            reached.len()
        );
        for evaluation in others {
            println!(
                "{}: {} {}: {}",
                evaluation.status.name(),
                evaluation.problem,
                evaluation.name,
                evaluation.message.as_deref().unwrap_or_default()
            );
        }
        if evaluations.len() < chosen {
            println!(
                "stopped after {} of {chosen} problems; go on with --resume",
                evaluations.len()
            );
            return ExitCode::from(STOPPED);
        }
        ExitCode::from(u8::from(reached.len() < chosen))
    }
}

/// The next problem for which there is memory, with its memory taken; waits for some. None if there is nothing left to begin.
fn next(queue: &Mutex<Queue>, freed: &Condvar, late: &impl Fn() -> bool) -> Option<(Problem, Export)> {
    let mut queue = lock(queue);
    loop {
        if late() {
            return None;
        }
        let fits = |(_, export): &(Problem, Export)| queue.memory.has(export.need);
        if let Some(at) = queue.open.iter().position(fits) {
            let (problem, export) = queue.open.remove(at);
            queue.memory.take(export.need);
            return Some((problem, export));
        }
        if queue.open.is_empty() {
            return None;
        }
        queue = freed.wait(queue).unwrap_or_else(PoisonError::into_inner);
    }
}

/// A panic elsewhere leaves nothing half done here.
fn lock(queue: &Mutex<Queue>) -> MutexGuard<'_, Queue> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}
