//! What KernelBench says of one file. The JSON form is documented in `docs/bench.md`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::export::{Export, Kernels};
use crate::cli::bench::problems::Problem;

/// The answer of the Python program.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Answer {
    /// What KernelBench's static checker finds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) static_check: Option<StaticCheck>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) compiled: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) correct: Option<bool>,
    /// What KernelBench's evaluator says besides.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) metadata: BTreeMap<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) milliseconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reference_milliseconds: Option<f64>,
    /// Why the evaluator itself failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) trouble: Option<String>,
    /// SHA-256 of the evaluator's files.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) evaluator: BTreeMap<String, String>,
    /// Packages that were not there and that evaluation does not need.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) stand_ins: Vec<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) versions: BTreeMap<String, String>,
}

/// What KernelBench's static checker finds.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct StaticCheck {
    pub(super) errors: Vec<String>,
    pub(super) warnings: Vec<String>,
}

impl Answer {
    fn said(&self, key: &str) -> Option<String> {
        self.metadata.get(key).map(|value| match value {
            Value::String(text) => text.clone(),
            Value::Array(list) => {
                let texts: Vec<_> = list.iter().filter_map(Value::as_str).collect();
                texts.join(", ")
            }
            other => other.to_string(),
        })
    }

    /// What went wrong, in a few words.
    pub(super) fn message(&self) -> Option<String> {
        let check = self
            .static_check
            .as_ref()
            .filter(|check| !check.errors.is_empty());
        check
            .map(|check| check.errors.join("; "))
            .or_else(|| self.trouble.clone())
            .or_else(|| self.said("compilation_error"))
            .or_else(|| self.said("runtime_error"))
            .or_else(|| {
                let issue = self.said("correctness_issue")?;
                let by = self.said("max_difference");
                Some(by.map_or_else(|| issue.clone(), |by| format!("{issue}, by at most {by}")))
            })
    }
}

/// What became of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Status {
    /// The static checker and all correctness trials.
    Pass,
    /// The file is there and the static checker has no objection; it was not evaluated.
    Exported,
    StaticError,
    CompileError,
    RuntimeError,
    Wrong,
    /// The reference, evaluated against itself, is not correct either: nothing can pass.
    ReferenceFails,
    Timeout,
    /// There is nothing to evaluate: the bench run has no verified kernel.
    NoKernel,
    /// There is nothing to evaluate: no file could be written.
    NotExported,
    /// The evaluator itself failed.
    Trouble,
}

impl Status {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Status::Pass => "pass",
            Status::Exported => "exported",
            Status::StaticError => "static-error",
            Status::CompileError => "compile-error",
            Status::RuntimeError => "runtime-error",
            Status::Wrong => "wrong",
            Status::ReferenceFails => "reference-fails",
            Status::Timeout => "timeout",
            Status::NoKernel => "no-kernel",
            Status::NotExported => "not-exported",
            Status::Trouble => "trouble",
        }
    }

    fn of(answer: &Answer) -> Self {
        let is_refused = answer.static_check.as_ref().is_some_and(|c| !c.errors.is_empty());
        match (answer.correct, answer.compiled) {
            _ if is_refused => Status::StaticError,
            _ if answer.trouble.is_some() => Status::Trouble,
            (Some(true), _) => Status::Pass,
            (_, Some(false)) => Status::CompileError,
            (Some(false), _) if answer.metadata.contains_key("runtime_error") => Status::RuntimeError,
            (Some(false), _) => Status::Wrong,
            (None, _) => Status::Exported,
        }
    }
}

/// The evaluation of one problem.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Evaluation {
    /// Level and number: `1-19`.
    pub(super) problem: String,
    pub(super) name: String,
    pub(super) status: Status,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) message: Option<String>,
    /// What was evaluated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) kernels: Option<Kernels>,
    #[serde(flatten)]
    pub(super) answer: Answer,
    /// What the evaluator says of the reference in the place of the kernels, if they did not pass.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) control: Option<Box<Answer>>,
    pub(super) seconds: f64,
    pub(super) date: String,
}

impl Evaluation {
    /// Of a problem for which there is nothing to evaluate, or nobody who does.
    pub(super) fn without(problem: &Problem, status: Status, message: impl Into<String>) -> Self {
        Self {
            problem: problem.id(),
            name: problem.name(),
            status,
            message: Some(message.into()),
            kernels: None,
            answer: Answer::default(),
            control: None,
            seconds: 0.0,
            date: jiff::Timestamp::now().to_string(),
        }
    }

    /// Of a file that was evaluated.
    pub(super) fn of(problem: &Problem, export: &Export, answer: Answer, seconds: f64) -> Self {
        Self {
            status: Status::of(&answer),
            message: answer.message(),
            kernels: Some(export.kernels),
            answer,
            seconds,
            ..Self::without(problem, Status::Trouble, "")
        }
    }

    /// Adds what the evaluator says of the reference itself.
    pub(super) fn with_control(mut self, control: Answer) -> Self {
        if control.correct == Some(false) {
            self.status = Status::ReferenceFails;
        }
        self.control = Some(Box::new(control));
        self
    }

    /// Whether kernels ran and gave other results than the reference, or none.
    pub(super) fn asks_for_control(&self) -> bool {
        matches!(self.status, Status::RuntimeError | Status::Wrong)
    }

    pub(super) fn heading() -> String {
        format!(
            "{:<7} {:<36} {:<8} {:<15} {:>9} {:>9} {:>6} {:>6}  {}",
            "problem", "name", "kernels", "status", "ms", "reference", "ratio", "s", "message"
        )
    }

    pub(super) fn row(&self) -> String {
        let milliseconds = |ms: Option<f64>| ms.map(|ms| format!("{ms:.3}")).unwrap_or_default();
        let (mine, theirs) = (self.answer.milliseconds, self.answer.reference_milliseconds);
        let ratio = mine
            .zip(theirs)
            .map(|(mine, theirs)| format!("{:.2}x", theirs / mine));
        let message = self.message.as_deref().unwrap_or_default();
        format!(
            "{:<7} {:<36.36} {:<8} {:<15} {:>9} {:>9} {:>6} {:>6.1}  {}",
            self.problem,
            self.name,
            self.kernels.map_or("", Kernels::name),
            self.status.name(),
            milliseconds(mine),
            milliseconds(theirs),
            ratio.unwrap_or_default(),
            self.seconds,
            message.lines().next().unwrap_or_default(),
        )
    }
}
