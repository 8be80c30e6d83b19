//! What `run` and `verify` report. The JSON form is documented in `docs/report.md`.

use std::path::Path;

use akg::backend::Cache;
use akg::designer::KernelSummary;
use akg::error::ErrorKind;
use akg::expr::Bindings;
use akg::file::read_text;
use akg::graph::{Fired, Input};
use akg::isolation::Isolation;
use akg::llm::Spent;
use akg::pass::Pass;
use akg::python::Shrink;
use akg::session::Attempt;
use akg::source::Knobs;
use akg::timing::{Contest, Readings, SideTimes, Span};
use akg::tuner::Tuning;
use akg::verdict::{Check, ErrorMeasure, FailureKind, JUDGE_VERSION, JudgedWork};
use akg::{Accuracy, Error, Result, Task, Verdict, store};
use serde::{Deserialize, Serialize};

use super::baseline::{Baseline, against_best_at, precisions};

/// The version of the JSON form.
pub(super) const SCHEMA: u32 = 2;

/// Everything that a run found.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Report {
    pub(super) schema: u32,
    pub(super) akg: String,
    /// The version of the judge.
    #[serde(default = "first_judge")]
    pub(super) judge: u32,
    /// `pass`, or the kind of failure or error.
    pub(super) status: String,
    /// Evidence of a failure, or an error's message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) message: Option<String>,
    pub(super) task: TaskReport,
    pub(super) dsl: String,
    pub(super) backend: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) device: Option<String>,
    pub(super) kernels: Vec<KernelSummary>,
    /// The rules of algebra that rewrote the graph before it was designed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) rules: Vec<Fired>,
    pub(super) knobs: Knobs,
    /// The candidate's error on the inputs that the baselines get too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<ErrorMeasure>,
    /// The times of the candidate and PyTorch in one contest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) speed: Option<Contest>,
    /// What the device could do at best.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) bound_seconds: Option<f64>,
    /// What PyTorch made of the task.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) baselines: Vec<Baseline>,
    /// From the start to the first verified kernel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) first_pass_seconds: Option<f64>,
    /// From the start to the end of the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) seconds: Option<f64>,
    /// What language models were asked, and what that cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) models: Option<Spent>,
    /// Candidates that were judged, or tried in tuning.
    #[serde(default)]
    pub(super) candidates: usize,
    /// How the knobs were chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) tuning: Option<Tuning>,
    /// What agents tried to make what passed faster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) passes: Vec<Pass>,
    /// When the times were measured, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) timed_at: Option<u64>,
    /// Whether the verdict comes from the store.
    #[serde(default)]
    pub(super) recalled: bool,
    /// What contained the candidate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) isolation: Option<Isolation>,
    /// Whether the same inputs gave the same bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) deterministic: Option<bool>,
    /// Kernels without which every output is the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) idle_kernels: Vec<String>,
    /// The part of a Python module's time that PyTorch takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) framework_share: Option<f64>,
    /// What could not be checked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) gaps: Vec<String>,
    /// How much was checked.
    #[serde(default)]
    pub(super) work: JudgedWork,
    pub(super) bytes_compared: u64,
    pub(super) checks: Vec<Check>,
    pub(super) attempts: Vec<AttemptReport>,
}

/// The judge of reports that do not name its version.
fn first_judge() -> u32 {
    1
}

/// The task of a run.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct TaskReport {
    pub(super) name: String,
    /// As given on the command line.
    pub(super) source: String,
    pub(super) accuracy: Accuracy,
    pub(super) inputs: Vec<String>,
    pub(super) outputs: Vec<String>,
    /// The values for which open extents are tuned.
    #[serde(default, skip_serializing_if = "Bindings::is_empty")]
    pub(super) hints: Bindings,
    /// Whether inputs may hold NaN, infinities and the like.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) special_values: bool,
    /// How the leading dimension was made smaller to fit the memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) shrink: Option<Shrink>,
    /// The operators of a module that akg does not know and that were replaced by others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) decomposed: Vec<String>,
}

/// One candidate in short.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct AttemptReport {
    pub(super) status: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) evidence: Option<String>,
    pub(super) knobs: Knobs,
}

impl AttemptReport {
    pub(super) fn of(attempt: &Attempt) -> Self {
        let failure = attempt.verdict.failure.as_ref();
        Self {
            status: failure.map_or("pass", |f| f.kind.name()).to_owned(),
            evidence: failure.map(|f| f.evidence.clone()),
            knobs: attempt.source.knobs.clone(),
        }
    }
}

impl Report {
    /// An empty report.
    pub(super) fn new(task: TaskReport, dsl: &str, backend: &str) -> Self {
        Self {
            schema: SCHEMA,
            akg: env!("CARGO_PKG_VERSION").to_owned(),
            judge: JUDGE_VERSION,
            status: "unexpected".to_owned(),
            message: None,
            task,
            dsl: dsl.to_owned(),
            backend: backend.to_owned(),
            device: None,
            kernels: Vec::new(),
            rules: Vec::new(),
            knobs: Knobs::new(),
            error: None,
            speed: None,
            bound_seconds: None,
            baselines: Vec::new(),
            first_pass_seconds: None,
            seconds: None,
            models: None,
            candidates: 0,
            tuning: None,
            passes: Vec::new(),
            timed_at: None,
            recalled: false,
            isolation: None,
            deterministic: None,
            idle_kernels: Vec::new(),
            framework_share: None,
            gaps: Vec::new(),
            work: JudgedWork::default(),
            bytes_compared: 0,
            checks: Vec::new(),
            attempts: Vec::new(),
        }
    }

    /// Takes over what became of a candidate.
    pub(super) fn add_attempt(&mut self, attempt: &Attempt) {
        self.add_verdict(&attempt.verdict);
        self.speed.clone_from(&attempt.timing);
        self.timed_at = attempt.timed_at;
        self.recalled = attempt.recalled;
        self.candidates = self.candidates.max(1);
        self.knobs.clone_from(&attempt.source.knobs);
    }

    /// Takes over what was decided about a candidate.
    pub(super) fn add_verdict(&mut self, verdict: &Verdict) {
        let failure = verdict.failure.as_ref();
        failure
            .map_or("pass", |f| f.kind.name())
            .clone_into(&mut self.status);
        self.message = failure.map(|f| f.evidence.clone());
        self.error = verdict.error();
        self.isolation.clone_from(&verdict.isolation);
        self.deterministic = verdict.deterministic;
        self.idle_kernels.clone_from(&verdict.idle_kernels);
        self.framework_share = verdict.framework_share;
        self.gaps.clone_from(&verdict.gaps);
        self.judge = verdict.judge;
        self.work = verdict.work;
        self.bytes_compared = verdict.bytes_compared();
        self.checks.clone_from(&verdict.checks);
    }

    /// Takes over an error of akg's own.
    pub(super) fn add_error(&mut self, error: &Error) {
        error.kind().name().clone_into(&mut self.status);
        let mut message = error.to_string();
        if error.kind() == ErrorKind::Unexpected {
            message.push_str(&format!("\n{}", request()));
        }
        self.message = Some(message);
    }

    /// Says that a candidate which failed was made by akg's own rules, so that the task is not to blame.
    pub(super) fn own_fault(&mut self) {
        // What the machine has no room or time for is nobody's fault.
        let limits = [
            FailureKind::TimedOut,
            FailureKind::OutOfMemory,
            FailureKind::JudgeTimeout,
        ]
        .map(FailureKind::name);
        let is_own = !self.attempts.is_empty() && !self.passed() && !limits.contains(&self.status.as_str());
        if let (true, Some(message)) = (is_own, &mut self.message) {
            *message = format!("akg's own design failed its judge: {message}\n{}", request());
        }
    }

    /// Whether a candidate passed.
    pub(super) fn passed(&self) -> bool {
        self.status == "pass"
    }

    /// The JSON form.
    pub(super) fn to_json(&self) -> Result<String> {
        serde_json::to_string_pretty(self)
            .map_err(|e| Error::unexpected("cannot write the report").caused_by(e))
    }

    /// Reads a report back; another schema is refused.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let text = read_text(path)?;
        let bad = |e: serde_json::Error| {
            Error::invalid(format!("{} is not a report of akg", path.display())).caused_by(e)
        };
        let value: serde_json::Value = serde_json::from_str(&text).map_err(bad)?;
        let schema = value.get("schema").and_then(serde_json::Value::as_u64);
        if schema != Some(u64::from(SCHEMA)) {
            return Err(Error::unsupported(format!(
                "{} has report schema {}; this akg reads schema {SCHEMA}",
                path.display(),
                schema.map_or_else(|| "none".to_owned(), |s| s.to_string())
            )));
        }
        serde_json::from_value(value).map_err(bad)
    }

    /// The summary for people.
    pub(super) fn print(&self) {
        let task = &self.task;
        println!(
            "{}: {} ({} on {})",
            task.name,
            self.status,
            self.dsl,
            self.device.as_deref().unwrap_or(&self.backend)
        );
        println!("  {} -> {}", task.inputs.join(", "), task.outputs.join(", "));
        if let Some(shrink) = &task.shrink {
            println!(
                "  made smaller to fit the memory: leading dimension {} halved {} time{}",
                shrink.leading,
                shrink.halvings,
                if shrink.halvings == 1 { "" } else { "s" }
            );
        }
        if !task.decomposed.is_empty() {
            println!("  decomposed: {}", task.decomposed.join(", "));
        }
        for kernel in &self.kernels {
            println!("  kernel {}: {}", kernel.name, kernel.operators.join(" + "));
        }
        for rule in &self.rules {
            println!("  algebra: {} ({})", rule.name, rule.count);
        }
        if let Some(spent) = &self.models {
            println!(
                "  models: {} calls, {} tokens read, {} written, {:.4} spent",
                spent.calls, spent.usage.input, spent.usage.output, spent.money
            );
        }
        if !self.passed() {
            if let Some(message) = &self.message {
                println!("  {}", message.replace('\n', "\n  "));
            }
            return;
        }
        println!(
            "  verdict: pass in class {}, {} checks, {} compared{}",
            task.accuracy,
            self.checks.len(),
            bytes(self.bytes_compared),
            if self.recalled { ", by an earlier run" } else { "" }
        );
        if let Some(isolation) = &self.isolation {
            let missing = isolation.missing.join("; ");
            let missing = if missing.is_empty() {
                missing
            } else {
                format!(" ({missing})")
            };
            println!("  isolation: {}{missing}", isolation.level);
        }
        if self.deterministic == Some(false) {
            println!("  not deterministic: the same inputs gave other bytes");
        }
        for kernel in &self.idle_kernels {
            println!("  kernel {kernel} is idle: the outputs are the same without it");
        }
        for gap in &self.gaps {
            println!("  not checked: {gap}");
        }
        let error = |e: &ErrorMeasure| format!("rms {:.1e}, max {:.1e}", e.rms, e.max);
        if let Some(mine) = &self.error {
            let theirs = self.baselines.iter();
            let theirs = theirs.filter_map(|b| Some(format!("; {}: {}", b.name, error(b.error.as_ref()?))));
            println!(
                "  error against f64: {}{}",
                error(mine),
                theirs.collect::<String>()
            );
        }
        for baseline in &self.baselines {
            if let Some(why) = &baseline.unchecked {
                println!("  outputs of {} not compared: {why}", baseline.name);
            }
            if let Some(trouble) = &baseline.trouble {
                println!(
                    "  {} does not work: {}",
                    baseline.name,
                    trouble.replace('\n', "\n    ")
                );
            }
        }
        if let Some(speed) = &self.speed {
            print_speed(speed);
            self.print_precisions(speed);
            if let Some(earlier) = self.timed_at.and_then(|at| store::now().checked_sub(at))
                && self.seconds.is_some_and(|s| earlier as f64 > s)
            {
                println!("    measured by an earlier run, {} before", duration(earlier));
            }
        }
        if let Some(bound) = self.bound_seconds {
            println!("  bound: {}", seconds(bound));
        }
        if let Some(first) = self.first_pass_seconds {
            println!("  first verified kernel after {first:.1} s");
        }
        for pass in &self.passes {
            println!("  pass: {pass}");
        }
        if let Some(tuning) = &self.tuning {
            print_tuning(tuning);
        }
    }

    /// The candidate against the faster baseline at each precision, if there are several.
    fn print_precisions(&self, speed: &Contest) {
        for precision in precisions(&self.baselines) {
            let best = |cache| against_best_at(speed, cache, &self.baselines, precision);
            let shown = [("warm", best(Cache::Warm)), ("cold", best(Cache::Cold))];
            let shown = shown
                .into_iter()
                .filter_map(|(name, best)| Some(format!("{name} {:.3}x {}", best?.ratio, best?.rival)));
            let shown: Vec<_> = shown.collect();
            if !shown.is_empty() {
                println!("  over PyTorch in {precision}: {}", shown.join("; "));
            }
        }
    }
}

/// How the knobs were chosen.
fn print_tuning(tuning: &Tuning) {
    let tried = match tuning.trials.len() {
        0 => String::new(),
        1 => format!(", 1 other tried in {:.1} s", tuning.seconds),
        n => format!(", {n} others tried in {:.1} s", tuning.seconds),
    };
    let gain = match tuning.relative {
        relative if relative < 1.0 => format!(", {:.2}x the speed at the start", 1.0 / relative),
        _ => String::new(),
    };
    println!(
        "  knobs from the {}{tried}{gain}; {}",
        tuning.origin.name(),
        tuning.stopped
    );
}

/// Some time for people.
fn duration(seconds: u64) -> String {
    match seconds {
        s if s >= 2 * 86400 => format!("{} days", s / 86400),
        s if s >= 2 * 3600 => format!("{} hours", s / 3600),
        s if s >= 120 => format!("{} minutes", s / 60),
        s => format!("{s} s"),
    }
}

/// The times of all sides, and what may be said of them.
pub(super) fn print_speed(contest: &Contest) {
    for cache in [Cache::Warm, Cache::Cold] {
        let name = if cache == Cache::Warm { "warm" } else { "cold" };
        let side = |side: &SideTimes| {
            let timing = if cache == Cache::Warm {
                &side.warm
            } else {
                &side.cold
            };
            let (median, spread) = timing.median().zip(timing.spread())?;
            Some(format!("{} {} ± {}", side.name, seconds(median), seconds(spread)))
        };
        let sides: Vec<_> = contest.sides.iter().filter_map(side).collect();
        if !sides.is_empty() {
            println!("  {name}: {}", sides.join("; "));
        }
        if let Some(best) = contest.against_best(cache) {
            println!(
                "    {:.3}x {} [{:.3}, {:.3}] at {:.0} %: {}",
                best.ratio,
                best.rival,
                best.interval.low,
                best.interval.high,
                100.0 * contest.confidence,
                if contest.is_stable() {
                    best.claim.name()
                } else {
                    "no claim"
                }
            );
        }
        if let Some(noise) = contest.noise(cache) {
            println!("    noise of this run: ±{:.1} %", 100.0 * noise);
        }
    }
    for side in contest.sides.iter().skip(1) {
        if let Some(failure) = &side.failure {
            println!("  {} fell out: {}", side.name, failure.evidence);
        }
    }
    if let Some(device) = &contest.device {
        println!("  {}", condition(device));
    }
    for disturbance in &contest.disturbances {
        println!("  unstable, so no claim is made: {disturbance}");
    }
}

/// What a device said of itself.
fn condition(device: &Readings) -> String {
    if let Some(gap) = &device.gap {
        return gap.clone();
    }
    let spans = [
        ("", &device.clock, "MHz"),
        ("memory ", &device.memory_clock, "MHz"),
        ("", &device.temperature, "°C"),
        ("", &device.power, "W"),
    ];
    let spans = spans.into_iter().filter_map(|(of, span, unit)| {
        let Span { low, high, .. } = span.as_ref()?;
        Some(if high - low < 1.0 {
            format!("{of}{high:.0} {unit}")
        } else {
            format!("{of}{low:.0} to {high:.0} {unit}")
        })
    });
    let spans: Vec<String> = spans.collect();
    let limits = device.limits.iter();
    let limits = limits.map(|(limit, n)| format!("; {} in {n} of {} readings", limit.name(), device.count));
    format!("device: {}{}", spans.join(", "), limits.collect::<String>())
}

/// Asks for a report of a fault of akg, with the command that shows it.
fn request() -> String {
    let words = std::env::args().map(|word| {
        let is_plain = |c: char| c.is_alphanumeric() || "-_./:=,".contains(c);
        if !word.is_empty() && word.chars().all(is_plain) {
            word
        } else {
            format!("'{}'", word.replace('\'', "'\\''"))
        }
    });
    let command = words.collect::<Vec<_>>().join(" ");
    format!("this is a fault of akg and not of the task: please report it, with the task and `{command}`")
}

/// The task's part of a report.
pub(super) fn describe(task: &Task, source: &str) -> TaskReport {
    let graph = &task.graph;
    let show = |v| format!("{}: {}", graph.value_name(v), graph.ty(v));
    let given = |input: &Input| match &input.layout {
        None => show(input.value),
        Some(layout) => {
            let dtype = graph.ty(input.value).dtype;
            format!("{}: {dtype}{layout}", graph.value_name(input.value))
        }
    };
    TaskReport {
        name: task.name.clone(),
        source: source.to_owned(),
        accuracy: task.contract.accuracy,
        inputs: graph.inputs().iter().map(given).collect(),
        outputs: graph.outputs().iter().map(|o| show(o.value)).collect(),
        hints: task.contract.hints.clone(),
        special_values: task.contract.special_values,
        shrink: None,
        decomposed: Vec::new(),
    }
}

/// A time with a unit that suits it.
fn seconds(s: f64) -> String {
    match s {
        s if s >= 1.0 => format!("{s:.2} s"),
        s if s >= 1e-3 => format!("{:.2} ms", s * 1e3),
        s => format!("{:.1} µs", s * 1e6),
    }
}

/// A number of bytes with a unit that suits it.
pub(super) fn bytes(n: u64) -> String {
    match n as f64 {
        n if n >= 1e9 => format!("{:.2} GB", n / 1e9),
        n if n >= 1e6 => format!("{:.1} MB", n / 1e6),
        n => format!("{:.1} kB", n / 1e3),
    }
}
