//! `akg run` and what it shares with `akg verify`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use akg::llm::Models;
use akg::python::{Config, ModuleBackend};
use akg::session::{Event, Outcome};
use akg::tuner::{Trial, TuningPolicy};
use akg::{Backend, Dsl, Error, Result, Session, Task, blocking};
use clap::Args;

use super::agent::AgentArgs;
use super::baseline::{PyTorch, baselines};
use super::bundle;
use super::numbers::Numbers;
use super::pool::Pool;
use super::progress::Progress;
use super::report::{AttemptReport, Report, TaskReport};
use super::store::{Memory, MemoryArgs};
use super::task::{Loaded, load, memory_budget, python};
use super::{
    AlgebraArgs, JudgeArgs, PythonArgs, ReportArgs, SizeArgs, TargetArgs, TaskArgs, parse_duration,
    print_error,
};

#[derive(Debug, Args)]
pub(super) struct RunArgs {
    #[command(flatten)]
    task: TaskArgs,
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    size: SizeArgs,
    #[command(flatten)]
    python: PythonArgs,
    #[command(flatten)]
    judge: JudgeArgs,
    #[command(flatten)]
    report: ReportArgs,
    /// Wall time in which other knob values are tried after the first kernel that passed; 0 leaves that out.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_duration)]
    tune: Duration,
    #[command(flatten)]
    agent: AgentArgs,
    /// Do not show language models what is known about writing kernels; see docs/knowledge.md.
    #[arg(long)]
    no_knowledge: bool,
    /// Devices of one kind that share the work of passes, by their numbers in the order in which `akg doctor` lists them, as in
    /// 0,1: kernels are timed against each other on the first, and tried and tuned on the others meanwhile.
    #[arg(long, value_name = "NUMBERS")]
    devices: Option<Numbers>,
    #[command(flatten)]
    algebra: AlgebraArgs,
    #[command(flatten)]
    memory: MemoryArgs,
    /// Write the best kernel with everything that is needed to run it to this file; see docs/bundle.md.
    #[arg(long, value_name = "FILE")]
    bundle: Option<PathBuf>,
}

impl RunArgs {
    pub(super) fn run(self) -> Result<ExitCode> {
        let progress = Progress::new(self.report.json);
        let empty = TaskReport {
            source: self.task.task.clone(),
            accuracy: self.task.contract.accuracy,
            ..Default::default()
        };
        let mut report = Report::new(empty, &self.target.dsl, &self.target.backend);
        let result = self.road(&mut report, &progress);
        if !self.agent.asks_models() {
            report.own_fault();
        }
        finish(result, &report, &self.report, &progress)
    }

    fn road(&self, report: &mut Report, progress: &Progress) -> Result<()> {
        self.judge.demand_isolation()?;
        let (dsl, backend) = self.target.find()?;
        let mut devices = match &self.devices {
            Some(chosen) => Pool::of(backend, Some(chosen))?.backends,
            None => vec![backend],
        };
        let kind = (Arc::clone(&dsl), devices.remove(0));
        self.judge.demand_sanitizers(&*kind.1)?;
        let out = prepare(self.report.out.as_deref())?;
        let memory = self.memory.open()?;
        let models = self.agent.models()?;
        let config = self.python.config();
        let room = self.size.memory.or_else(memory_budget);
        let loaded = load(&self.task, room, || python(&config, progress), progress)?;
        report.task = loaded.describe(&self.task.task);
        let session = session(kind, &self.judge, &config, &loaded, progress, |_| {});
        let session = match &models {
            Some(models) if !self.no_knowledge => informed(session, &memory, models, progress)?,
            _ => session,
        };
        let session = self
            .agent
            .staff(session, models.as_ref(), &*dsl, devices.len())?
            .with_others(in_modules(devices, &config))
            .with_algebra(self.algebra.algebra)
            .with_tuning(tuning(self.tune))
            .with_store(memory.store)
            .with_retry(self.memory.retry);
        let outcome = blocking::run(&session, &loaded.task);
        report.models = models.map(|models| models.account().spent());
        let outcome = outcome.map_err(|e| match &loaded.module {
            Some(module) => module.located(e),
            None => e,
        })?;
        if let Some(path) = &self.bundle {
            bundle::save(path, &session, &loaded, &outcome)?;
        }
        conclude(report, &loaded, &outcome, out.as_deref())
    }
}

/// The backends, which also run PyTorch modules.
fn in_modules(backends: Vec<Arc<dyn Backend>>, python: &Config) -> Vec<Arc<dyn Backend>> {
    let module = |backend| Arc::new(ModuleBackend::new(backend, python)) as Arc<dyn Backend>;
    backends.into_iter().map(module).collect()
}

/// A session whose agents look up what is known.
fn informed(session: Session, memory: &Memory, models: &Models, progress: &Progress) -> Result<Session> {
    let embedder = models.embedder()?;
    if embedder.is_some() {
        progress.step("embedding what is known");
    }
    let session = session.with_knowledge(memory.knowledge(embedder.as_deref())?);
    Ok(match embedder {
        Some(embedder) => session.with_embedder(embedder),
        None => session,
    })
}

/// Tuning for so long.
pub(super) fn tuning(budget: Duration) -> Option<TuningPolicy> {
    let mut policy = TuningPolicy::default();
    policy.budget = budget;
    (!budget.is_zero()).then_some(policy)
}

/// Takes the outcome into the report, and saves what it holds.
pub(super) fn conclude(
    report: &mut Report,
    loaded: &Loaded,
    outcome: &Outcome,
    out: Option<&Path>,
) -> Result<()> {
    report.kernels.clone_from(&outcome.kernels);
    report.rules.clone_from(&outcome.rules);
    report.device = Some(outcome.target.name.clone());
    report.first_pass_seconds = outcome.first_pass_seconds;
    report.attempts = outcome.attempts.iter().map(AttemptReport::of).collect();
    if let Some(out) = out {
        save(out, &loaded.task, outcome)?;
    }
    let Some(attempt) = outcome.best().or(outcome.attempts.last()) else {
        return Err(Error::unexpected(format!(
            "no candidate was tried: {}",
            outcome.stopped
        )));
    };
    report.bound_seconds = outcome.bound_seconds;
    report.candidates = outcome.candidates();
    report.seconds = Some(outcome.seconds);
    report.tuning.clone_from(&outcome.tuning);
    report.passes.clone_from(&outcome.passes);
    report.add_attempt(attempt);
    report.baselines = baselines(attempt);
    Ok(())
}

/// A session of this DSL and backend as the command line asks for it. `observe` sees all events.
pub(super) fn session(
    (dsl, backend): (Arc<dyn Dsl>, Arc<dyn Backend>),
    judge: &JudgeArgs,
    python: &Config,
    loaded: &Loaded,
    progress: &Progress,
    observe: impl Fn(&Event<'_>) + Send + Sync + 'static,
) -> Session {
    let pytorch = if judge.no_baseline {
        None
    } else {
        PyTorch::find(loaded, &*backend, python, progress)
    };
    let (observer, ahead) = (progress.clone(), pytorch.clone());
    let backend = Arc::new(ModuleBackend::new(backend, python));
    let session = Session::new(dsl, backend)
        .with_verifier(judge.verifier())
        .with_timing(Some(judge.contest()))
        .with_observer(move |event: Event<'_>| {
            observe(&event);
            observer.step(match event {
                Event::Designed(_) => "writing the source",
                Event::Coded(_) => "building",
                Event::Built(_) => {
                    // What the store knows needs no contest.
                    ahead.iter().for_each(|pytorch| pytorch.start());
                    "verifying"
                }
                Event::Judged(verdict) if verdict.passed() => "the candidate passed",
                Event::Measuring => {
                    ahead.iter().for_each(PyTorch::wait);
                    "timing"
                }
                Event::Judged(_) => "the candidate failed",
                Event::Tuning(_) => "tuning",
                Event::Tried(trial) => return observer.step(&tried(trial)),
                Event::Tuned(_) => return,
                Event::Recommended(advice) => return observer.step(&format!("trying: {}", advice.what)),
                Event::Pass(pass) => return observer.step(&format!("tried: {pass}")),
                _ => "timed",
            });
        });
    match pytorch {
        Some(rival) => session.with_rivals(rival),
        None => session,
    }
}

/// What became of a configuration, for people.
fn tried(trial: &Trial) -> String {
    let knobs: Vec<_> = trial.knobs.iter().map(|(k, v)| format!("{k} = {v}")).collect();
    let result = match (&trial.failure, trial.relative) {
        (Some(failure), _) => failure.kind.name().to_owned(),
        (None, Some(relative)) => format!("{relative:.2} of the time at the start"),
        (None, None) => "no result".to_owned(),
    };
    let faster = if trial.faster { ", the fastest so far" } else { "" };
    format!("tuning: {}: {result}{faster}", knobs.join(", "))
}

/// Prints and saves the report, and decides the exit status.
pub(super) fn finish(
    result: Result<()>,
    report: &Report,
    args: &ReportArgs,
    progress: &Progress,
) -> Result<ExitCode> {
    progress.done();
    let mut report = report.clone();
    if let Err(error) = &result {
        report.add_error(error);
    }
    if args.json {
        println!("{}", report.to_json()?);
    } else if let Err(error) = &result {
        print_error(error);
    } else {
        report.print();
    }
    // Printed first: what was found is not lost when the disk is full.
    if let Some(out) = &args.out
        && result.is_ok()
    {
        write(&out.join(REPORT), &report.to_json()?)?;
    }
    Ok(match result {
        Ok(()) if report.passed() => ExitCode::SUCCESS,
        Ok(()) => ExitCode::from(1),
        Err(_) => ExitCode::from(2),
    })
}

/// The report's file in the output directory.
pub(super) const REPORT: &str = "report.json";

/// What counts as right, in the output directory.
pub(super) const CONTRACT: &str = "contract.json";

/// Makes the output directory before any work is done, so that a full or read-only disk costs nothing.
pub(super) fn prepare(out: Option<&Path>) -> Result<Option<PathBuf>> {
    let Some(out) = out else { return Ok(None) };
    std::fs::create_dir_all(out).map_err(|e| Error::io(format!("cannot create {}", out.display()), e))?;
    write(&out.join(REPORT), "{}\n")?;
    Ok(Some(out.to_owned()))
}

pub(super) fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).map_err(|e| Error::io(format!("cannot write {}", path.display()), e))
}

/// Saves the graph, the sketch and every candidate, and the best source by itself.
fn save(out: &Path, task: &Task, outcome: &Outcome) -> Result<()> {
    write(&out.join("task.json"), &task.graph.to_json()?)?;
    let contract = serde_json::to_string_pretty(&task.contract)
        .map_err(|e| Error::unexpected("cannot write a contract").caused_by(e))?;
    write(&out.join(CONTRACT), &contract)?;
    write(&out.join("kernel.sketch"), &outcome.sketch)?;
    for (i, attempt) in outcome.attempts.iter().enumerate() {
        let text = serde_json::to_string_pretty(attempt)
            .map_err(|e| Error::unexpected("cannot write a candidate").caused_by(e))?;
        write(&out.join(format!("candidate-{i}.json")), &text)?;
    }
    if let Some(best) = outcome.best() {
        write(
            &out.join(format!("kernel.{}", best.source.dsl)),
            &best.source.text,
        )?;
    }
    Ok(())
}
