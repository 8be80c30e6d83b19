//! What is kept.

use serde::{Deserialize, Serialize};

use super::{Record, Store};
use crate::digest::{Digest, Fields, Fingerprint};
use crate::error::Result;
use crate::graph::Graph;
use crate::profile::Profile;
use crate::source::Knobs;
use crate::task::{Accuracy, Contract, Task};
use crate::timing::Contest;
use crate::verdict::{Failure, Verdict};

/// What was to be computed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskRecord {
    /// [`Task::fingerprint`].
    pub key: Digest,
    /// The task's name.
    pub name: String,
    /// The blob that holds the graph's JSON.
    pub graph: Digest,
    /// What counts as right.
    pub contract: Contract,
    /// When it was first tried, in seconds since 1970.
    pub at: u64,
}

impl TaskRecord {
    /// The task, without whoever makes its captured tensors; `None` if the store has lost the graph.
    pub fn task(&self, store: &(impl Store + ?Sized)) -> Result<Option<Task>> {
        let Some(bytes) = store.blob(self.graph)? else {
            return Ok(None);
        };
        let graph = Graph::from_json(&String::from_utf8_lossy(&bytes))?;
        let mut task = Task::new(self.name.clone(), graph);
        task.contract.clone_from(&self.contract);
        Ok(Some(task))
    }
}

impl Record for TaskRecord {
    const KIND: &'static str = "task";

    fn key(&self) -> Digest {
        self.key
    }

    fn group(&self) -> Digest {
        self.graph
    }
}

/// What a toolchain made of a source.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Made {
    /// The blob that holds the [`Artifact`](crate::source::Artifact) in JSON.
    Artifact(Digest),
    /// Why it made nothing.
    Nothing(Failure),
}

/// A source that was built.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BuildRecord {
    /// The hash of the source, its DSL, the toolchain and the target.
    pub key: Digest,
    /// The blob that holds the [`Source`](crate::source::Source) in JSON.
    pub source: Digest,
    /// The toolchain, as [`Dsl::toolchain`](crate::Dsl::toolchain) names it.
    pub toolchain: String,
    /// What came of it.
    pub made: Made,
    /// When, in seconds since 1970.
    pub at: u64,
}

impl Record for BuildRecord {
    const KIND: &'static str = "build";

    fn key(&self) -> Digest {
        self.key
    }

    fn group(&self) -> Digest {
        self.source
    }
}

/// A source that claims to compute a task on a device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CandidateRecord {
    /// The hash of the task, the source, its DSL, the toolchain and the target.
    pub key: Digest,
    /// [`Task::fingerprint`](crate::Task::fingerprint).
    pub task: Digest,
    /// The task's name.
    pub name: String,
    /// The blob that holds the [`Source`](crate::source::Source) in JSON.
    pub source: Digest,
    /// The blob that holds the text of the sketch that it was lowered from, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sketch: Option<Digest>,
    /// The DSL.
    pub dsl: String,
    /// The knob values that the source was lowered with.
    pub knobs: Knobs,
    /// [`Target::fingerprint`](crate::Target::fingerprint).
    pub target: Digest,
    /// The backend that owns the device.
    #[serde(default)]
    pub backend: String,
    /// The device's name.
    pub device: String,
    /// The toolchain, as [`Dsl::toolchain`](crate::Dsl::toolchain) names it.
    pub toolchain: String,
    /// When it was first tried, in seconds since 1970.
    pub at: u64,
}

impl Record for CandidateRecord {
    const KIND: &'static str = "candidate";

    fn key(&self) -> Digest {
        self.key
    }

    fn group(&self) -> Digest {
        self.task
    }
}

/// What a judge decided about a candidate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VerdictRecord {
    /// The candidate's key.
    pub candidate: Digest,
    /// The judge, by the hash of [`Verifier::identity`](crate::Verifier::identity) and its
    /// [version](crate::verdict::JUDGE_VERSION).
    pub judge: Digest,
    /// What it decided.
    pub verdict: Verdict,
    /// How long that took, in seconds, with the build.
    pub seconds: f64,
    /// When, in seconds since 1970.
    pub at: u64,
}

impl VerdictRecord {
    /// The key of `judge`'s verdict about `candidate`.
    pub fn key_of(candidate: Digest, judge: Digest) -> Digest {
        Digest::of_parts([candidate.to_string().as_str(), judge.to_string().as_str()])
    }
}

impl Record for VerdictRecord {
    const KIND: &'static str = "verdict";

    fn key(&self) -> Digest {
        Self::key_of(self.candidate, self.judge)
    }

    fn group(&self) -> Digest {
        self.candidate
    }
}

/// Why a candidate failed where no judge was asked, or after one had passed it: it could not be built, or failed when it was
/// timed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RefutationRecord {
    /// The candidate's key.
    pub candidate: Digest,
    /// The judge whose verdict counts no longer.
    pub judge: Digest,
    /// The failure.
    pub failure: Failure,
    /// When, in seconds since 1970.
    pub at: u64,
}

impl Record for RefutationRecord {
    const KIND: &'static str = "refutation";

    fn key(&self) -> Digest {
        VerdictRecord::key_of(self.candidate, self.judge)
    }

    fn group(&self) -> Digest {
        self.candidate
    }
}

/// Where the time of a candidate goes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProfileRecord {
    /// The candidate's key.
    pub candidate: Digest,
    /// The profile.
    pub profile: Profile,
    /// When it was found, in seconds since 1970.
    pub at: u64,
}

impl Record for ProfileRecord {
    const KIND: &'static str = "profile";

    fn key(&self) -> Digest {
        self.candidate
    }

    fn group(&self) -> Digest {
        self.candidate
    }
}

/// Times of a candidate beside those of others in the same run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// The candidate's key.
    pub candidate: Digest,
    /// In a duel of tuning, the key of the candidate that it challenged.
    pub challenged: Option<Digest>,
    /// The hash of how it was timed and against whom.
    pub setting: Digest,
    /// All samples, the machine's state, and what may be said.
    pub contest: Contest,
    /// What the rivals say about themselves, as [`Rivals::account`](crate::session::Rivals::account) gives it.
    #[serde(default, skip_serializing_if = "serde_json::Value::is_null")]
    pub rivals: serde_json::Value,
    /// When, in seconds since 1970.
    pub at: u64,
}

impl Fingerprint for Measurement {
    fn feed(&self, to: &mut Fields) {
        let sides = self.contest.sides.iter();
        let seconds: Vec<_> = sides.flat_map(|s| [&s.warm.seconds, &s.cold.seconds]).collect();
        to.record(
            "measurement",
            1,
            &[
                ("candidate", &self.candidate),
                ("setting", &self.setting),
                ("at", &self.at),
                ("seconds", &seconds),
            ],
        );
    }
}

impl Record for Measurement {
    const KIND: &'static str = "measurement";

    fn key(&self) -> Digest {
        Digest::of_fields(self)
    }

    fn group(&self) -> Digest {
        self.candidate
    }
}

/// What a configuration of a kernel is worth on a device, for one shape.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TuningRecord {
    /// The kernel, whatever its extents: [`tuner::kernel_of`](crate::tuner::kernel_of).
    pub kernel: Digest,
    /// Its name, for people.
    pub name: String,
    /// Extents of its inputs and outputs.
    pub shape: Vec<Vec<i64>>,
    /// The configuration.
    pub knobs: Knobs,
    /// [`Target::fingerprint`](crate::Target::fingerprint).
    pub device: Digest,
    /// The device's name.
    pub device_name: String,
    /// The DSL.
    pub dsl: String,
    /// The toolchain, as [`Dsl::toolchain`](crate::Dsl::toolchain) names it.
    pub toolchain: String,
    /// The class in which it was verified.
    pub accuracy: Accuracy,
    /// The hash of the source.
    pub source: Digest,
    /// Why it failed; `None` if it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// Its warm times in its duel, in seconds, round by round.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub seconds: Vec<f64>,
    /// Those of the configuration that it challenged, in the same rounds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub challenged_seconds: Vec<f64>,
    /// Its time over that of the configuration that tuning began with, through the chain of duels; `None` if its duel was
    /// disturbed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relative: Option<f64>,
    /// Whether it was faster than what it challenged, beyond the noise.
    #[serde(default)]
    pub faster: bool,
    /// Whether tuning ended with it, fully verified.
    #[serde(default)]
    pub chosen: bool,
    /// Of a chosen one, the budget in seconds by which tuning ended; `None` if it ended by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_by: Option<f64>,
    /// Of a chosen one, whether all duels were disturbed, so that it is only what tuning began with.
    #[serde(default)]
    pub disturbed: bool,
    /// When, in seconds since 1970.
    pub at: u64,
}

impl Fingerprint for TuningRecord {
    fn feed(&self, to: &mut Fields) {
        to.record(
            "tuning",
            1,
            &[
                ("kernel", &self.kernel),
                ("shape", &self.shape),
                ("knobs", &self.knobs),
                ("device", &self.device),
                ("dsl", &self.dsl),
                ("toolchain", &self.toolchain),
                ("accuracy", &self.accuracy.name()),
            ],
        );
    }
}

impl Record for TuningRecord {
    const KIND: &'static str = "tuning";

    fn key(&self) -> Digest {
        Digest::of_fields(self)
    }

    fn group(&self) -> Digest {
        self.kernel
    }
}
