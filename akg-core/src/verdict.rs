//! What the verifier decided, as data.

use serde::{Deserialize, Serialize};

use crate::expr::Bindings;
use crate::isolation::Isolation;
use crate::task::Accuracy;
use crate::verify::Operations;

/// Why a candidate failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum FailureKind {
    /// The DSL's rules or syntax check rejected the source.
    Rejected,
    /// The toolchain rejected the source.
    CompileFailed,
    /// The artifact could not be loaded, or a kernel's symbol is missing.
    LoadFailed,
    /// It has data that outlives a call, so that it could tell one call from another.
    KeepsState,
    /// The candidate died of a signal or ended its process.
    Crashed,
    /// The candidate ran past its time limit.
    TimedOut,
    /// The candidate ran past its memory limit.
    OutOfMemory,
    /// An output has the wrong element type, shape or count.
    WrongType,
    /// An output has elements that were never written.
    Unwritten,
    /// An output's values are wrong.
    WrongValues,
    /// An input was changed.
    InputChanged,
    /// Memory before or after a tensor was touched.
    OutOfBounds,
    /// Threads accessed the same memory in no order, and one wrote.
    Race,
    /// Memory was read that nobody had written.
    Uninitialized,
    /// The process was not left as it was: rounding, handlers, maps, descriptors, environment.
    LeftBehind,
    /// The candidate's clock contradicts the judge's.
    ClockMismatch,
    /// An output is one that other inputs had: the work does not follow the inputs.
    Stale,
    /// The outputs are the same without any of the kernels, or PyTorch computes them.
    NoWork,
    /// It was timed faster than the device can compute the task.
    Implausible,
    /// The judge passed its own limit of time. That says nothing of the candidate, and is not kept as a verdict about it.
    JudgeTimeout,
}

impl FailureKind {
    /// The kebab-case name used in messages and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            FailureKind::Rejected => "rejected",
            FailureKind::CompileFailed => "compile-failed",
            FailureKind::LoadFailed => "load-failed",
            FailureKind::KeepsState => "keeps-state",
            FailureKind::Crashed => "crashed",
            FailureKind::TimedOut => "timed-out",
            FailureKind::OutOfMemory => "out-of-memory",
            FailureKind::WrongType => "wrong-type",
            FailureKind::Unwritten => "unwritten",
            FailureKind::WrongValues => "wrong-values",
            FailureKind::InputChanged => "input-changed",
            FailureKind::OutOfBounds => "out-of-bounds",
            FailureKind::Race => "race",
            FailureKind::Uninitialized => "uninitialized",
            FailureKind::LeftBehind => "left-behind",
            FailureKind::ClockMismatch => "clock-mismatch",
            FailureKind::Stale => "stale",
            FailureKind::NoWork => "no-work",
            FailureKind::Implausible => "implausible",
            FailureKind::JudgeTimeout => "judge-timeout",
        }
    }

    /// Whether it says something about the candidate, and not only about its judge.
    pub const fn blames_candidate(self) -> bool {
        !matches!(self, FailureKind::JudgeTimeout)
    }
}

/// A failure with its evidence: compiler output, signal, first wrong element.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    /// Why.
    pub kind: FailureKind,
    /// The evidence, for people and for a fixing agent.
    pub evidence: String,
}

impl Failure {
    /// A failure of `kind` with its evidence.
    pub fn new(kind: FailureKind, evidence: impl Into<String>) -> Self {
        Self {
            kind,
            evidence: evidence.into(),
        }
    }
}

/// The error of one output against f64, both measures divided by rms(ref − mean).
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct ErrorMeasure {
    /// Root mean square.
    pub rms: f64,
    /// Maximum.
    pub max: f64,
}

impl ErrorMeasure {
    /// The larger of both, in each measure.
    #[must_use]
    pub fn larger(self, other: Self) -> Self {
        Self {
            rms: self.rms.max(other.rms),
            max: self.max.max(other.max),
        }
    }
}

/// One output of one check: the candidate's error and what was allowed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OutputCheck {
    /// The output's name in the graph.
    pub output: String,
    /// The candidate's error; zeros for exact types.
    pub error: ErrorMeasure,
    /// The class's limit for these inputs.
    pub limit: ErrorMeasure,
    /// Bytes of the output that were compared.
    pub bytes_compared: u64,
    /// Bytes of the output.
    pub bytes: u64,
    /// Elements that are infinite or NaN as the class's arithmetic is, where f64 is finite.
    #[serde(default, skip_serializing_if = "is_none")]
    pub overflowed: u64,
    /// Elements that are left out of the error, because roundings of the class's arithmetic decide them.
    #[serde(default, skip_serializing_if = "is_none")]
    pub undecided: u64,
    /// Elements that are infinite or NaN in f64, and rightly so in the candidate.
    #[serde(default, skip_serializing_if = "is_none")]
    pub not_finite: u64,
}

fn is_none(count: &u64) -> bool {
    *count == 0
}

/// One execution that was judged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// How the inputs were distributed.
    pub distribution: String,
    /// The seed of the inputs.
    pub seed: u64,
    /// What was special about it: `changed w in place`, `kernels k0 to k1 alone`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub about: String,
    /// Values of the symbolic dims.
    #[serde(default, skip_serializing_if = "Bindings::is_empty")]
    pub dims: Bindings,
    /// The outputs in order.
    pub outputs: Vec<OutputCheck>,
}

impl Check {
    /// The largest errors over the outputs.
    pub fn error(&self) -> ErrorMeasure {
        let outputs = self.outputs.iter().map(|o| o.error);
        outputs.fold(ErrorMeasure::default(), ErrorMeasure::larger)
    }
}

/// The version of the judge: of what is checked, how errors are measured and what is allowed. It grows with every change
/// after which a candidate may get another verdict; verdicts of other versions count no longer.
pub const JUDGE_VERSION: u32 = 9;

/// The amount of checking behind a verdict. It follows from the task and the secret, and from no clock: the same on every
/// machine at any load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct JudgedWork {
    /// Operations of the reference that all checks are counted as, from which follows how many there are.
    pub operations: u64,
    /// Data sets whose outputs were compared.
    pub data_sets: u64,
    /// Rows of the graph that were compared, over all data sets.
    pub rows: u64,
    /// Executions on the same data that look for races.
    pub repetitions: u64,
    /// Launches that were left out in turn.
    pub ablations: u64,
}

impl JudgedWork {
    pub(crate) fn spend(&mut self, work: Operations) {
        self.operations = self.operations.saturating_add(work.0);
    }

    fn and(self, other: Self) -> Self {
        Self {
            operations: self.operations.saturating_add(other.operations),
            data_sets: self.data_sets + other.data_sets,
            rows: self.rows.saturating_add(other.rows),
            repetitions: self.repetitions + other.repetitions,
            ablations: self.ablations + other.ablations,
        }
    }
}

/// The first judge, of which verdicts did not name the version.
const fn first_judge() -> u32 {
    1
}

/// What a verifier decided.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The [version](JUDGE_VERSION) of the judge.
    #[serde(default = "first_judge")]
    pub judge: u32,
    /// Why it failed; `None` is a pass.
    pub failure: Option<Failure>,
    /// The accuracy class that it was judged in.
    pub accuracy: Accuracy,
    /// The executions that were judged, the failing one last.
    pub checks: Vec<Check>,
    /// What contained the candidate while it ran; `None` if it never ran.
    #[serde(default)]
    pub isolation: Option<Isolation>,
    /// Whether the same inputs gave the same bytes at other addresses; `None` if that was not tried.
    #[serde(default)]
    pub deterministic: Option<bool>,
    /// Kernels without which every output is the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub idle_kernels: Vec<String>,
    /// The part of the time that operators of the framework take in which it is written, as a Python module is; `None` if that
    /// was not measured. A clock's reading: it decides nothing but whether speed may be claimed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub framework_share: Option<f64>,
    /// What could not be checked, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<String>,
    /// How much was checked.
    #[serde(default)]
    pub work: JudgedWork,
}

impl Verdict {
    /// A pass that rests on nothing yet.
    pub fn new(accuracy: Accuracy) -> Self {
        Self {
            judge: JUDGE_VERSION,
            failure: None,
            accuracy,
            checks: Vec::new(),
            isolation: None,
            deterministic: None,
            idle_kernels: Vec::new(),
            framework_share: None,
            gaps: Vec::new(),
            work: JudgedWork::default(),
        }
    }

    /// A failure before anything was executed.
    pub fn failed(accuracy: Accuracy, failure: Failure) -> Self {
        Self {
            failure: Some(failure),
            ..Self::new(accuracy)
        }
    }

    /// Both together: the first failure, every check, the weaker isolation, what either found.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.failure = self.failure.or(other.failure);
        self.checks.extend(other.checks);
        self.isolation = match (self.isolation, other.isolation) {
            (Some(a), Some(b)) => Some(if a.level <= b.level { a } else { b }),
            (a, b) => a.or(b),
        };
        self.deterministic = match (self.deterministic, other.deterministic) {
            (Some(a), Some(b)) => Some(a && b),
            (a, b) => a.or(b),
        };
        self.idle_kernels.extend(other.idle_kernels);
        self.framework_share = self.framework_share.or(other.framework_share);
        self.add_gaps(other.gaps);
        self.work = self.work.and(other.work);
        self
    }

    /// Adds gaps that it does not name yet.
    pub(crate) fn add_gaps(&mut self, gaps: Vec<String>) {
        for gap in gaps {
            if !self.gaps.contains(&gap) {
                self.gaps.push(gap);
            }
        }
    }

    /// Whether the candidate passed.
    pub fn passed(&self) -> bool {
        self.failure.is_none()
    }

    /// The largest errors over the outputs of the first check, whose inputs are the contract's: what others reach on the
    /// same inputs can be put beside it. `None` if nothing was checked.
    pub fn error(&self) -> Option<ErrorMeasure> {
        self.checks.first().map(Check::error)
    }

    /// The largest errors over all checks and outputs.
    pub fn worst_error(&self) -> ErrorMeasure {
        let checks = self.checks.iter().map(Check::error);
        checks.fold(ErrorMeasure::default(), ErrorMeasure::larger)
    }

    /// The bytes of outputs that were compared, over all checks.
    pub fn bytes_compared(&self) -> u64 {
        self.checks
            .iter()
            .flat_map(|c| &c.outputs)
            .map(|o| o.bytes_compared)
            .sum()
    }
}
