//! `akg bench`: all problems of a benchmark, each against PyTorch.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use akg::python::lock;
use akg::sqlite::SqliteStore;
use akg::{Accuracy, Result};
use clap::{Args, Subcommand};

use self::copy::Copy;
use self::folder::{Folder, Settings};
use self::problems::Problem;
use self::results::Results;
use self::room::Room;
use self::solve::Solver;
use self::stop::Stop;
use super::numbers::Numbers;
use super::pool::Pool;
use super::progress::Progress;
use super::task::{environment, memory_budget, options, python_in};
use super::{AlgebraArgs, JudgeArgs, PythonArgs, SizeArgs, TargetArgs, parse_duration};

mod copy;
mod crew;
mod evaluate;
mod family;
mod folder;
mod problems;
mod record;
mod results;
mod room;
mod solve;
mod stop;
mod summary;
mod table;

#[derive(Debug, Subcommand)]
pub(super) enum BenchCommand {
    /// KernelBench, or problems in the same form.
    #[command(name = "kernelbench")]
    KernelBench(KernelBenchArgs),
    /// KernelBench's own evaluator on kernels as PyTorch modules.
    Evaluate(evaluate::EvaluateArgs),
}

impl BenchCommand {
    pub(super) fn run(self) -> Result<ExitCode> {
        match self {
            BenchCommand::KernelBench(args) => args.run(),
            BenchCommand::Evaluate(args) => args.run(),
        }
    }
}

/// The exit status is 0 if every chosen problem has a verified kernel, 1 if one has not, 2 for akg's own trouble, 3 if the
/// run stopped before its end.
#[derive(Debug, Args)]
pub(super) struct KernelBenchArgs {
    /// KernelBench's repository, or a directory with `level1/1_name.py` or `level1/1_name.json` (a graph) and so on.
    #[arg(long, value_name = "DIR")]
    root: PathBuf,
    /// Levels, as in 1,2; by default all that are there.
    #[arg(long, value_name = "NUMBERS")]
    levels: Option<Numbers>,
    /// Problems of these levels, as in 1,2,19-32; by default all.
    #[arg(long, value_name = "NUMBERS")]
    problems: Option<Numbers>,
    /// Where results go: a new directory.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Go on with the run in the output directory: what is finished is kept, what is verified is not judged again.
    #[arg(long)]
    resume: bool,
    /// Try problems again that have no verified kernel or whose contest was disturbed, in the output directory or the store.
    #[arg(long)]
    retry: bool,
    /// Where candidates, verdicts and measurements are kept, instead of `store.sqlite` in the output directory. What another
    /// run left there is used: its verdicts, its tuning and its times.
    #[arg(long, value_name = "PATH")]
    store: Option<PathBuf>,
    /// Wall time of one problem after which no new candidate is started.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse_duration)]
    seconds_per_problem: Duration,
    /// Wall time of tuning for each problem; 0 leaves it out.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_duration)]
    tune: Duration,
    /// Wall time after which no new problem is started; go on with --resume.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    stop_after: Option<Duration>,
    /// Problems that are worked on at the same time: a device times one thing at a time, and meanwhile the next kernels are
    /// designed, built and verified. By default 1 if kernels run on the processors that do all this, else a quarter of these,
    /// but no more than 4 for each device.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// Devices of one kind that share the work, by their numbers in the order in which `akg doctor` lists them, as in 0,1.
    /// By default the first.
    #[arg(long, value_name = "NUMBERS")]
    devices: Option<Numbers>,
    /// Also verify and time a copy of an array that is far larger than the caches, and say how near to it the kernels come
    /// that memory bounds.
    #[arg(long)]
    copy: bool,
    /// Accuracy class: fp32, tf32 or half.
    #[arg(long, default_value = "fp32")]
    accuracy: Accuracy,
    /// Also judge with NaN, infinities, zeros of both signs and subnormal numbers in floating inputs: the contract then says
    /// that inputs may hold them.
    #[arg(long)]
    special_values: bool,
    #[command(flatten)]
    algebra: AlgebraArgs,
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    size: SizeArgs,
    #[command(flatten)]
    python: PythonArgs,
    #[command(flatten)]
    judge: JudgeArgs,
}

/// The store in the output directory.
const STORE: &str = "store.sqlite";

/// The exit status of a run that stopped before its end.
const STOPPED: u8 = 3;

impl KernelBenchArgs {
    fn run(self) -> Result<ExitCode> {
        let start = Instant::now();
        let progress = Progress::new(false);
        self.judge.demand_isolation()?;
        let problems = problems::find(&self.root, self.levels.as_ref(), self.problems.as_ref())?;
        let environment = if problems.iter().any(Problem::is_module) {
            Some(environment(&self.python.config(), &progress)?)
        } else {
            None
        };
        let python = environment
            .clone()
            .map(|environment| python_in(environment, options(&self.python.config())));
        let module = problems.iter().find(|problem| problem.is_module());
        if let (Some(python), Some(module)) = (&python, module) {
            // Loads PyTorch while the devices are found. One that does not start is reported when it is asked.
            let _ = lock(python).start(&module.path);
        }
        let (dsl, backend) = self.target.find()?;
        let pool = Pool::of(backend, self.devices.as_ref())?;
        let jobs = pool.jobs(self.jobs)?;
        let (folder, mut settings) = Folder::open(&self.out, self.settings(), self.resume)?;
        let memory = settings.memory.or_else(memory_budget);
        settings.memory = memory;
        let store = self.store.clone().unwrap_or_else(|| self.out.join(STORE));
        let store = SqliteStore::open(&store)?;
        let mut results = Results::new(settings, pool.target, environment.as_ref(), problems.len());
        let stop = Stop::listen()?;

        progress.print(&table::heading(self.accuracy));
        let mut open = Vec::new();
        for problem in &problems {
            match folder.finished(problem)? {
                Some(record) if record.is_clear() || !self.retry => {
                    progress.print(&table::row(&record));
                    results.push(record);
                }
                _ => open.push(problem),
            }
        }
        let memory_bytes = results.device().memory_bytes;
        let solver = Solver {
            args: &self,
            dsl,
            rooms: pool.backends.iter().map(|_| Room::of(memory_bytes)).collect(),
            backends: pool.backends,
            memory,
            python,
            store: Arc::new(store),
            stop: stop.clone(),
        };
        if self.copy {
            match Copy::measure(&solver, results.device()) {
                Ok(Some(copy)) => results.set_copy(copy),
                Ok(None) => return Ok(ExitCode::from(STOPPED)),
                Err(error) => progress.warn(&format!("nothing is compared with a copy: {error}")),
            }
        }
        results.save(&folder)?;
        let all = Mutex::new(results);
        let results = || all.lock().unwrap_or_else(PoisonError::into_inner);
        crew::each(&open, jobs, |hand, problem| {
            if stop.asked() || self.stop_after.is_some_and(|limit| start.elapsed() >= limit) {
                return Ok(false);
            }
            let standing = {
                let results = results();
                let finished = results.finished() + 1;
                format!(
                    "{finished}/{}, {}",
                    problems.len(),
                    table::standing(results.summary())
                )
            };
            let what = format!("{} {}", problem.id(), problem.name());
            let progress = progress.about(&what, &standing);
            let Some(record) = solver.solve(hand, problem, &folder.of(problem), &progress)? else {
                return Ok(false);
            };
            folder.finish(problem, &record)?;
            progress.print(&table::row(&record));
            let mut results = results();
            results.push(record);
            results.save(&folder)?;
            Ok(true)
        })?;
        let results = results();
        progress.done();
        for line in table::lines(results.summary()) {
            println!("{line}");
        }
        if let Some(line) = results.copy_line() {
            println!("{line}");
        }
        if !results.complete() {
            println!(
                "stopped after {} of {} problems; go on with --resume",
                results.finished(),
                problems.len()
            );
            return Ok(ExitCode::from(STOPPED));
        }
        Ok(if results.summary().failed.is_empty() {
            ExitCode::SUCCESS
        } else {
            ExitCode::from(1)
        })
    }

    fn settings(&self) -> Settings {
        Settings {
            akg: env!("CARGO_PKG_VERSION").to_owned(),
            judge: akg::verdict::JUDGE_VERSION,
            root: self.root.clone(),
            dsl: self.target.dsl.clone(),
            backend: self.target.backend.clone(),
            accuracy: self.accuracy,
            special_values: self.special_values,
            algebra: self.algebra.algebra,
            memory: self.size.memory,
            seed: self.judge.seed,
            secret: self.judge.secret,
            isolation: self.judge.isolation,
            baseline: !self.judge.no_baseline,
            contest_seconds: self.judge.contest().budget.as_secs_f64(),
            tune_seconds: self.tune.as_secs_f64(),
            seconds_per_problem: self.seconds_per_problem.as_secs_f64(),
        }
    }
}
