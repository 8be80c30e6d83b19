//! The command line.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use akg::backend::{Limits, Sanitizer};
use akg::graph::{Fired, Rewritten};
use akg::isolation::IsolationLevel;
use akg::python::Config;
use akg::timing::ContestPolicy;
use akg::verify::{Judge, SanitizerVerifier};
use akg::{Accuracy, Backend, Dsl, Error, Result, Task};
use clap::{Args, Parser, Subcommand};

use symbols::{Hint, Symbolic};

#[macro_use]
mod print;

mod agent;
mod baseline;
mod bench;
mod build;
mod build_task;
mod bundle;
mod chat_log;
mod check;
mod deadline;
mod device;
mod doctor;
mod environment;
mod export;
mod knowledge;
mod lift;
mod migrate;
mod numbers;
mod pool;
mod profile;
mod progress;
mod records;
mod report;
mod run;
mod show;
mod sketch;
mod store;
mod symbols;
mod task;
mod trace;
mod verify;

/// Turns tensor computations into fast, verified kernels.
#[derive(Debug, Parser)]
#[command(name = "akg", version, about, disable_help_subcommand = true)]
pub(crate) struct Cli {
    /// End the command with an error after this wall time. By default 2 minutes for commands that only read, 15 for those
    /// that design, and no end for those that search, judge or talk, whose parts have limits of their own. What was found
    /// until then is kept.
    #[arg(long, global = true, value_name = "TIME", value_parser = parse_duration)]
    deadline: Option<Duration>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Makes a kernel for a task: designs, writes, builds, verifies and times it.
    Run(run::RunArgs),
    /// Runs a benchmark: a kernel for each of its problems, compared with PyTorch.
    #[command(subcommand)]
    Bench(bench::BenchCommand),
    /// Judges a hand-written source against a task, or a bundle again.
    Verify(verify::VerifyArgs),
    /// Prints a bundle or a task in another form: a PyTorch module, C files, the stub of a hand-written kernel.
    Export(export::ExportArgs),
    /// Prints the sketch that the rules design for a task.
    Sketch(sketch::SketchArgs),
    /// Designs, writes and builds a kernel for a device that need not be here, and neither runs nor verifies it.
    Build(build::BuildArgs),
    /// Moves a kernel to another kernel language or device: exactly where akg has its sketch; where somebody else wrote it, a language model
    /// finds out what it computes, and that is checked against the original.
    Migrate(migrate::MigrateArgs),
    /// Says where the time of a kernel goes: what each launch takes, does and occupies, and what holds it back.
    Profile(profile::ProfileArgs),
    /// Makes a task of PyTorch code or of a description: by a language model, unless it is one already.
    Task(build_task::BuildTaskArgs),
    /// Checks a file: a sketch, a graph in JSON, or a kernel source.
    Check(check::CheckArgs),
    /// Shows what tuning found, and moves it between stores.
    Records(records::RecordsArgs),
    /// Shows what an earlier run found, from its output directory, or what a bundle holds.
    Show(show::ShowArgs),
    /// Shows what agents did in a run: the tree of their candidates, who proposed each, why, and what came of it.
    Trace(trace::TraceArgs),
    /// Shows what agents and language models said to each other in a run, and what that took.
    ChatLog(chat_log::ChatLogArgs),
    /// Shows what is known about writing kernels, and learns from what the store remembers.
    Knowledge(knowledge::KnowledgeArgs),
    /// Judges what a learner sends: tasks out, candidates in, verdicts and speedups back, as JSON lines.
    Env(environment::EnvArgs),
    /// Says what akg finds on this machine, and sets up what is missing.
    Doctor(doctor::DoctorArgs),
}

impl Command {
    /// The wall time that the command may take, unless another is asked for.
    fn deadline(&self) -> Option<Duration> {
        match self {
            Command::Check(_)
            | Command::Show(_)
            | Command::Records(_)
            | Command::Trace(_)
            | Command::ChatLog(_) => Some(Duration::from_secs(120)),
            Command::Export(_) | Command::Sketch(_) | Command::Build(_) => Some(Duration::from_secs(900)),
            Command::Run(_)
            | Command::Bench(_)
            | Command::Verify(_)
            | Command::Migrate(_)
            | Command::Profile(_)
            | Command::Task(_)
            | Command::Knowledge(_)
            | Command::Env(_)
            | Command::Doctor(_) => None,
        }
    }
}

/// What to compute and how exactly.
#[derive(Debug, Clone, Default, Args)]
struct TaskArgs {
    /// A KernelBench-form `.py`, a graph `.json`, or `builtin:NAME`.
    task: String,
    #[command(flatten)]
    contract: ContractArgs,
}

/// What is asked of a task's kernels.
#[derive(Debug, Clone, Default, Args)]
struct ContractArgs {
    /// Accuracy class: fp32, tf32 or half.
    #[arg(long, default_value = "fp32")]
    accuracy: Accuracy,
    /// Leaves the extent of an input's dimension open, as in x.0=N, or x.0=8*N for multiples of 8: one kernel for
    /// all sizes, tuned for the one that the task has. May be given several times.
    #[arg(long, value_name = "INPUT.DIM=NAME")]
    symbolic: Vec<Symbolic>,
    /// Compute the gradients of a module, too: of its floating inputs and its parameters. Its outputs' cotangents become
    /// inputs; see docs/operators.md.
    #[arg(long)]
    backward: bool,
    /// The value for which an open extent of a graph is tuned, as in N=64, or with the values that it may have, as in
    /// N=64:1..4096.
    #[arg(long, value_name = "NAME=VALUE")]
    hint: Vec<Hint>,
    /// Also judge with NaN, infinities, zeros of both signs and subnormal numbers in floating inputs: the contract then says
    /// that inputs may hold them.
    #[arg(long)]
    special_values: bool,
}

impl ContractArgs {
    /// The first option that a bundle says itself.
    fn beyond_a_bundle(&self) -> Option<&'static str> {
        let given = [
            (!self.symbolic.is_empty(), "--symbolic"),
            (self.backward, "--backward"),
            (!self.hint.is_empty(), "--hint"),
            (self.special_values, "--special-values"),
        ];
        given
            .iter()
            .find(|(is_given, _)| *is_given)
            .map(|(_, option)| *option)
    }
}

/// Which Python imports modules and runs PyTorch.
#[derive(Debug, Clone, Args)]
struct PythonArgs {
    /// A Python that has PyTorch 2.9 or newer. By default `AKG_PYTHON`, the active environment, `python3`, or the one
    /// that `akg doctor --fix` installs.
    #[arg(long, value_name = "PATH")]
    python: Option<PathBuf>,
    /// Wall time that the import of a module may take; by default 3 minutes.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    import_timeout: Option<Duration>,
}

impl PythonArgs {
    fn config(&self) -> Config {
        let mut config = Config::default();
        config.python.clone_from(&self.python);
        config.import_timeout = self.import_timeout;
        config
    }
}

/// What may be made of a graph before it is designed.
#[derive(Debug, Clone, Copy, Args)]
struct AlgebraArgs {
    /// Rewrite the graph by algebra before it is designed; see docs/algebra.md. What fired is named in the results, whose
    /// speed is then not that of kernels alone.
    #[arg(long)]
    algebra: bool,
}

impl AlgebraArgs {
    /// The task to design, and the rules that made it of the given one.
    fn apply(self, task: &Task) -> Result<(Task, Vec<Fired>)> {
        if !self.algebra {
            return Ok((task.clone(), Vec::new()));
        }
        let Rewritten { graph, rules } = akg::algebra::rewrite(&task.graph, &task.contract)?;
        Ok((
            Task {
                graph,
                ..task.clone()
            },
            rules,
        ))
    }
}

/// How large a task may be.
#[derive(Debug, Clone, Args)]
struct SizeArgs {
    /// Memory that the tensors of a module may take, as in 4GB; its leading dimension is halved until they fit. By
    /// default 60 % of what is available.
    #[arg(long, value_parser = parse_bytes)]
    memory: Option<u64>,
}

/// Where a kernel runs and in which language it is written.
#[derive(Debug, Clone, Args)]
struct TargetArgs {
    /// The kernel language.
    #[arg(long, default_value = "cpp")]
    dsl: String,
    /// The device's backend.
    #[arg(long, default_value = "cpu")]
    backend: String,
}

impl TargetArgs {
    /// Both, in their default configuration.
    fn find(&self) -> Result<(Arc<dyn Dsl>, Arc<dyn Backend>)> {
        let registry = akg::registry();
        Ok((registry.dsl(&self.dsl)?, registry.backend(&self.backend)?))
    }
}

/// How results are judged.
#[derive(Debug, Clone, Args)]
struct JudgeArgs {
    /// Seed of the inputs.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// What the inputs of all checks but the first follow from; new for each candidate unless given, as for repeating a
    /// verdict.
    #[arg(long)]
    secret: Option<u64>,
    /// Isolation that candidates must run under at least: none, basic or strict. They always get the highest that the
    /// system offers.
    #[arg(long, default_value = "none")]
    isolation: IsolationLevel,
    /// Wall time that one run of a candidate may take.
    #[arg(long, default_value = "60s", value_parser = parse_duration)]
    timeout: Duration,
    /// Also run candidates that passed under the device's sanitizer, which looks at every access: for `memory` (so by
    /// default), `races` or `initialization`, or several with commas between; see docs/judge.md.
    #[arg(long, value_name = "FOR", num_args = 0.., require_equals = true, value_delimiter = ',', default_missing_value = "memory")]
    sanitize: Vec<Sanitizer>,
    /// Do not run PyTorch for comparison.
    #[arg(long)]
    no_baseline: bool,
    /// Wall time of the contest with PyTorch, if that is enough for it; at most three times as much, or three minutes if
    /// calls are so long that it takes that. By default 10 s, and 2 s with nobody to compare with.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    contest_seconds: Option<Duration>,
}

/// How results are reported.
#[derive(Debug, Clone, Args)]
struct ReportArgs {
    /// Directory for the report, the sketch and the sources.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print one JSON object instead of text; its form is in docs/report.md.
    #[arg(long)]
    json: bool,
}

impl JudgeArgs {
    /// The limits on one request.
    fn limits(&self) -> Limits {
        let mut limits = Limits::default();
        limits.time = self.timeout;
        limits.isolation = self.isolation;
        limits
    }

    /// Who judges.
    fn verifier(&self) -> Judge {
        let judge = Judge::standard(self.seed, self.secret, &self.limits());
        match self.sanitizer() {
            Some(sanitizer) => judge.with(sanitizer),
            None => judge,
        }
    }

    /// Who judges how kernels use memory, if somebody shall.
    fn sanitizer(&self) -> Option<SanitizerVerifier> {
        let mut sanitizer = SanitizerVerifier::default();
        sanitizer.sanitizers.clone_from(&self.sanitize);
        (sanitizer.seed, sanitizer.secret) = (self.seed, self.secret);
        sanitizer.limits = self.limits();
        (!self.sanitize.is_empty()).then_some(sanitizer)
    }

    /// Refuses to go on, before anything is imported or compiled, if the backend has not the sanitizers.
    fn demand_sanitizers(&self, backend: &dyn Backend) -> Result<()> {
        self.sanitizer()
            .map_or(Ok(()), |sanitizer| sanitizer.demand(backend))
    }

    /// Refuses to go on, before anything is imported or compiled, if this system's isolation is below the required one.
    fn demand_isolation(&self) -> Result<()> {
        match self.isolation {
            IsolationLevel::None => Ok(()),
            required => akg::worker::isolation()?.demand(required),
        }
    }

    /// How the contest is held.
    fn contest(&self) -> ContestPolicy {
        let mut policy = ContestPolicy::default();
        if self.no_baseline {
            policy.budget = Duration::from_secs(2);
            policy.patience = Duration::ZERO;
        }
        if let Some(budget) = self.contest_seconds {
            policy.budget = budget;
        }
        policy
    }
}

impl Cli {
    /// Runs the command. The status is 0 for success (for `run` and `verify`: a pass), 1 for a candidate that failed,
    /// 2 for everything else.
    pub(crate) fn run(self) -> ExitCode {
        if let Some(limit) = self.deadline.or(self.command.deadline()) {
            deadline::begin(limit);
        }
        let result = match self.command {
            Command::Run(args) => args.run(),
            Command::Bench(command) => command.run(),
            Command::Verify(args) => args.run(),
            Command::Export(args) => args.run(),
            Command::Sketch(args) => args.run(),
            Command::Build(args) => args.run(),
            Command::Migrate(args) => args.run(),
            Command::Profile(args) => args.run(),
            Command::Task(args) => args.run(),
            Command::Check(args) => args.run(),
            Command::Records(args) => args.run(),
            Command::Show(args) => args.run(),
            Command::Trace(args) => args.run(),
            Command::ChatLog(args) => args.run(),
            Command::Knowledge(args) => args.run(),
            Command::Env(args) => args.run(),
            Command::Doctor(args) => args.run(),
        };
        result.unwrap_or_else(|error| {
            print_error(&error);
            ExitCode::from(2)
        })
    }
}

/// Prints an error for people, on standard error.
fn print_error(error: &Error) {
    eprintln!("error: {}", error.message());
    for (key, value) in error.context() {
        eprintln!("  {key}: {value}");
    }
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        eprintln!("  caused by: {cause}");
        source = cause.source();
    }
}

/// Reads `60s`, `2m`, `500ms` or a plain number of seconds.
fn parse_duration(text: &str) -> Result<Duration> {
    let (number, unit) = number_and_unit(text);
    let scale = match unit {
        "" | "s" => 1.0,
        "ms" => 1e-3,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => {
            return Err(Error::invalid(format!(
                "`{text}` is not a duration; write 60s, 2m or 500ms"
            )));
        }
    };
    let seconds = number.parse::<f64>().ok().map(|n| n * scale);
    seconds
        .and_then(|s| Duration::try_from_secs_f64(s).ok())
        .ok_or_else(|| Error::invalid(format!("`{text}` is not a duration; write 60s, 2m or 500ms")))
}

/// Reads `4GB`, `1.5GB`, `512MB` or a plain number of bytes.
fn parse_bytes(text: &str) -> Result<u64> {
    let (number, unit) = number_and_unit(text);
    let scale = match unit {
        "" | "B" => Some(1.0),
        "kB" | "KB" => Some(1e3),
        "MB" => Some(1e6),
        "GB" => Some(1e9),
        _ => None,
    };
    let bytes = number.parse::<f64>().ok().zip(scale).map(|(n, scale)| n * scale);
    let bytes = bytes.filter(|bytes| *bytes < u64::MAX as f64);
    bytes.map(|bytes| bytes as u64).ok_or_else(|| {
        Error::invalid(format!(
            "`{text}` is not a size; write 4GB, 512MB or a number of bytes"
        ))
    })
}

/// The digits with a decimal point that a text begins with, and what follows.
fn number_and_unit(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    text.split_at(end.unwrap_or(text.len()))
}
