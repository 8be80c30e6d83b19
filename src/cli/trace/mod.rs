//! `akg trace`: what agents did in a run, as a tree of candidates.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use akg::history::{History, passed, short, trajectories};
use akg::store::{RunRecord, StepRecord, StoreExt as _};
use akg::{Error, Result, Store};
use clap::Args;

use super::run::write;
use super::store::StoreArgs;

mod page;
mod tree;

#[derive(Debug, Args)]
pub(super) struct TraceArgs {
    /// The beginning of a run's key, or the name of a task, whose latest run is shown. Without it, all runs are listed.
    run: Option<String>,
    /// Write a page of HTML instead, which needs nothing but itself.
    #[arg(long, value_name = "FILE", requires = "run")]
    html: Option<PathBuf>,
    /// Write the conversations that led to verified kernels as JSON lines, of the run or without one of all runs; `-` is
    /// standard output. Their form is in docs/env.md.
    #[arg(long, value_name = "FILE", conflicts_with = "html")]
    trajectories: Option<PathBuf>,
    /// Show one step with all of its text.
    #[arg(long, value_name = "NUMBER", requires = "run", conflicts_with_all = ["html", "trajectories"])]
    step: Option<usize>,
    #[command(flatten)]
    store: StoreArgs,
}

impl TraceArgs {
    pub(super) fn run(self) -> Result<ExitCode> {
        let store = self.store.open()?;
        if let Some(path) = &self.trajectories {
            export(&store, self.run.as_deref(), path)?;
            return Ok(ExitCode::SUCCESS);
        }
        let Some(name) = &self.run else {
            list(&store)?;
            return Ok(ExitCode::SUCCESS);
        };
        let history = History::find(&store, name)?;
        match (&self.html, self.step) {
            (Some(path), _) => {
                write(path, &page::page(&history, &store)?)?;
                println!("{} steps in {}", history.steps.len(), path.display());
            }
            (None, Some(number)) => one(&history, number, &store)?,
            (None, None) => print!("{}{}", heading(&history), tree::text(&history)),
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Writes the trajectories of a run, or of all.
fn export(store: &impl Store, name: Option<&str>, path: &Path) -> Result<()> {
    let histories = match name {
        Some(name) => vec![History::find(store, name)?],
        None => {
            let runs: Vec<RunRecord> = store.all(None)?;
            let histories = runs.into_iter().map(|run| History::load(store, run));
            histories.collect::<Result<_>>()?
        }
    };
    let mut lines = String::new();
    let mut count = 0;
    for trajectory in histories.iter().flat_map(trajectories) {
        let line = serde_json::to_string(&trajectory)
            .map_err(|e| Error::unexpected("cannot write a trajectory as JSON").caused_by(e))?;
        lines += &line;
        lines.push('\n');
        count += 1;
    }
    if path.as_os_str() == "-" {
        print!("{lines}");
        return Ok(());
    }
    write(path, &lines)?;
    println!("{count} trajectories in {}", path.display());
    Ok(())
}

/// One line for each run.
fn list(store: &impl Store) -> Result<()> {
    let mut runs: Vec<RunRecord> = store.all(None)?;
    runs.sort_by_key(|run| run.at);
    if runs.is_empty() {
        println!("no runs yet: `akg run TASK` makes one");
    }
    for run in runs {
        let history = History::load(store, run)?;
        println!(
            "{}  {}  {}, {} on {}, by {}: {}",
            short(history.run.key),
            date(history.run.at),
            history.run.name,
            history.run.dsl,
            history.run.device,
            history.run.agents,
            summary(&history),
        );
    }
    Ok(())
}

/// What a run was about and what it came to.
fn heading(history: &History) -> String {
    let run = &history.run;
    let stopped = run.stopped.as_deref().unwrap_or("it goes on, or was killed");
    let mut text = format!(
        "run {}: {}, {} on {}\nby {}, {}\nended: {stopped}\n{}\n",
        short(run.key),
        run.name,
        run.dsl,
        run.device,
        run.agents,
        date(run.at),
        summary(history),
    );
    let usage = history.usage();
    if !history.exchanges.is_empty() {
        text += &format!(
            "models: {} exchanges, {} tokens read, {} written\n",
            history.exchanges.len(),
            usage.input,
            usage.output
        );
    }
    text.push('\n');
    text
}

/// How many steps passed, and the best.
fn summary(history: &History) -> String {
    let count = history.steps.len();
    let plural = if count == 1 { "" } else { "s" };
    let passes = history.steps.iter().filter(|step| passed(step)).count();
    let best = match history.best() {
        Some(step) => format!(", the best is step {}: {}", step.number, verdict(step)),
        None => String::new(),
    };
    format!("{count} step{plural}, {passes} passed{best}")
}

/// What came of a step, in a few words.
fn verdict(step: &StepRecord) -> String {
    let mut words = vec![match &step.failure {
        Some(failure) => failure.kind.name().to_owned(),
        None if step.candidate.is_some() => "pass".to_owned(),
        None => "no candidate".to_owned(),
    }];
    words.extend(step.seconds.map(|seconds| format!("{:.1} µs", seconds * 1e6)));
    words.extend(step.speedup.map(|speedup| format!("{speedup:.2}x")));
    words.join(", ")
}

/// Seconds since 1970 as a date.
fn date(at: u64) -> String {
    let stamp = i64::try_from(at)
        .ok()
        .and_then(|at| jiff::Timestamp::from_second(at).ok());
    stamp.map_or_else(|| at.to_string(), |stamp| stamp.to_string())
}

/// The text that a step proposed, if it is kept.
fn proposal(step: &StepRecord, store: &impl Store) -> Result<Option<String>> {
    let Some(blob) = step.proposal else {
        return Ok(None);
    };
    let bytes = store.blob(blob)?;
    Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
}

/// Prints a step with all of its text.
fn one(history: &History, number: usize, store: &impl Store) -> Result<()> {
    let step = history.step(number).ok_or_else(|| {
        Error::invalid("the run has no such step")
            .with("step", number)
            .with("steps", history.steps.len())
    })?;
    let mut text = format!(
        "step {number}: {} ({}): {}\n",
        step.role,
        step.agent,
        verdict(step)
    );
    if !step.parents.is_empty() {
        let parents: Vec<String> = step.parents.iter().map(ToString::to_string).collect();
        text += &format!("began with step {}\n", parents.join(", "));
    }
    if !step.why.is_empty() {
        text += &format!("\n{}\n", step.why);
    }
    if let Some(failure) = &step.failure {
        text += &format!("\n--- {}\n{}\n", failure.kind.name(), failure.evidence);
    }
    if let Some(proposal) = proposal(step, store)? {
        text += &format!("\n--- what it proposed\n{proposal}\n");
    }
    if !step.retrieved.is_empty() {
        text += "\n--- what it was shown\n";
    }
    for shown in &step.retrieved {
        text += &format!("{} {}: {}\n", shown.kind, shown.name, shown.why);
    }
    for exchange in history.exchanges_of(step) {
        text += &format!(
            "\nasked {}: `akg chat-log {} --exchange {}`\n",
            exchange.model,
            short(history.run.key),
            exchange.number
        );
    }
    print!("{text}");
    Ok(())
}
