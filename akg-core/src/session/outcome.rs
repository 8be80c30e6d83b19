//! What a session made of a task.

use serde::{Deserialize, Serialize};

use crate::designer::KernelSummary;
use crate::digest::Digest;
use crate::graph::Fired;
use crate::pass::Pass;
use crate::source::Source;
use crate::target::Target;
use crate::timing::Contest;
use crate::tuner::{Trial, Tuning};
use crate::verdict::{Failure, Verdict};

/// One candidate and what became of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Attempt {
    /// The candidate's key in the store.
    pub key: Digest,
    /// The source.
    pub source: Source,
    /// What the verifier decided; a build failure is a verdict without checks.
    pub verdict: Verdict,
    /// Seconds from the start of the build to the verdict, when it was judged.
    pub verdict_seconds: f64,
    /// Whether the verdict was in the store.
    pub recalled: bool,
    /// Its times beside those of its rivals, if it is the best, the backend times and the session wants it.
    pub timing: Option<Contest>,
    /// When that was measured, in seconds since 1970: before this session, if the times were in the store.
    pub timed_at: Option<u64>,
    /// What the rivals say about themselves: [`Rivals::account`](super::Rivals::account).
    #[serde(default, skip_serializing_if = "serde_json::Value::is_null")]
    pub rivals: serde_json::Value,
}

/// What a session made of a task.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Outcome {
    /// The device.
    pub target: Target,
    /// The sketch's text.
    pub sketch: String,
    /// What was fused into each kernel, in launch order.
    pub kernels: Vec<KernelSummary>,
    /// The rules by which the graph was rewritten before it was designed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<Fired>,
    /// The candidates that were judged, in that order.
    pub attempts: Vec<Attempt>,
    /// The position of the best of them: the last that passed, unless an earlier one was faster.
    pub winner: Option<usize>,
    /// How the knobs were tuned; `None` without anything that passed.
    pub tuning: Option<Tuning>,
    /// The attempts to make what passed faster, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub passes: Vec<Pass>,
    /// Why the session stopped.
    pub stopped: String,
    /// Seconds from the start to the first candidate that passed.
    pub first_pass_seconds: Option<f64>,
    /// Seconds from the start to the end.
    pub seconds: f64,
    /// Seconds below which the device cannot compute the task: every input read and every output written once at its
    /// bandwidth, or the products at its peak rate, whichever is longer. `None` if the bandwidth is unknown.
    pub bound_seconds: Option<f64>,
}

impl Outcome {
    /// The best candidate; `None` if none passed.
    pub fn best(&self) -> Option<&Attempt> {
        self.attempts.get(self.winner?)
    }

    /// The failure of the last candidate if none passed.
    pub fn failure(&self) -> Option<&Failure> {
        if self.best().is_some() {
            return None;
        }
        self.attempts.last().and_then(|a| a.verdict.failure.as_ref())
    }

    /// How many candidates were tried, by the judge or in tuning.
    pub fn candidates(&self) -> usize {
        let trials = self.tuning.iter().flat_map(|t| &t.trials);
        // What challenged and was faster was judged as well.
        let judged = |t: &&Trial| self.attempts.iter().any(|a| a.source.knobs == t.knobs);
        self.attempts.len() + trials.filter(|t| !judged(t)).count()
    }
}
