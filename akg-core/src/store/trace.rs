//! What agents did: runs, their steps, and what models were asked.

use serde::{Deserialize, Serialize};

use super::{Record, now};
use crate::chat::{ChatReply, ChatRequest};
use crate::digest::Digest;
use crate::error::{ErrorKind, Result};
use crate::knowledge::Found;
use crate::target::Target;
use crate::task::Task;
use crate::verdict::Failure;

/// A run of a session on a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// The hash of the task, the device, who works on it and the seed: a run that was stopped has the key of the one that
    /// goes on.
    pub key: Digest,
    /// [`Task::fingerprint`](crate::Task::fingerprint).
    pub task: Digest,
    /// The task's name.
    pub name: String,
    /// The DSL.
    pub dsl: String,
    /// The device's name.
    pub device: String,
    /// Who works on it, for people.
    pub agents: String,
    /// Why it ended; `None` while it goes on, and of one that was killed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<String>,
    /// The number of the step with the best candidate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best: Option<usize>,
    /// When it began, in seconds since 1970.
    pub at: u64,
}

impl RunRecord {
    /// A run that begins now. `apart` tells it from others by the same agents.
    ///
    /// # Errors
    /// If the task has no fingerprint.
    pub fn new(task: &Task, target: &Target, dsl: &str, agents: String, apart: &str) -> Result<Self> {
        let (task_print, target_print) = (task.fingerprint()?, target.fingerprint());
        let key = Digest::of_parts([
            task_print.to_string().as_str(),
            target_print.to_string().as_str(),
            dsl,
            &agents,
            apart,
        ]);
        Ok(Self {
            key,
            task: task_print,
            name: task.name.clone(),
            dsl: dsl.to_owned(),
            device: target.name.clone(),
            agents,
            stopped: None,
            best: None,
            at: now(),
        })
    }
}

impl Record for RunRecord {
    const KIND: &'static str = "run";

    fn key(&self) -> Digest {
        self.key
    }

    fn group(&self) -> Digest {
        self.task
    }
}

/// A step of a run: what an agent proposed, and what came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepRecord {
    /// The run's key.
    pub run: Digest,
    /// Its number in the run, from zero.
    pub number: usize,
    /// The steps whose proposals it began with: none for one from nothing, several where candidates are crossed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parents: Vec<usize>,
    /// The [role](crate::agent::Role::NAME) of the agent.
    pub role: String,
    /// The agent's name.
    pub agent: String,
    /// Why, in the agent's words or the rules'.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// The blob with the proposal's text: a sketch, a source, a recommendation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proposal: Option<Digest>,
    /// The key of the candidate that it led to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub candidate: Option<Digest>,
    /// Why it failed, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// Seconds of the candidate, if it passed and was timed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// How much faster than the fastest rival, or where nobody was asked than the run's first candidate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speedup: Option<f64>,
    /// The keys of the exchanges with models, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exchanges: Vec<Digest>,
    /// What the agent was shown of what is known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub retrieved: Vec<Retrieved>,
    /// When, in seconds since 1970.
    pub at: u64,
}

impl StepRecord {
    /// The key of a run's step.
    pub fn key_of(run: Digest, number: usize) -> Digest {
        Digest::of_parts([run.to_string().as_str(), number.to_string().as_str()])
    }
}

impl Record for StepRecord {
    const KIND: &'static str = "step";

    fn key(&self) -> Digest {
        Self::key_of(self.run, self.number)
    }

    fn group(&self) -> Digest {
        self.run
    }
}

/// Something known that an agent was shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Retrieved {
    /// What kind of knowledge it is: `kernel`, `fix`, `guide`, `hardware`.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Why it was chosen, for people.
    pub why: String,
}

/// What was found for an agent when it looked something up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LookupRecord {
    /// The run's key.
    pub run: Digest,
    /// The hash of what was looked for.
    pub question: Digest,
    /// What was found, best first.
    pub found: Vec<Found>,
    /// When, in seconds since 1970.
    pub at: u64,
}

impl LookupRecord {
    /// The key of what a run found for a question.
    pub fn key_of(run: Digest, question: Digest) -> Digest {
        Digest::of_parts([run.to_string().as_str(), "lookup", question.to_string().as_str()])
    }
}

impl Record for LookupRecord {
    const KIND: &'static str = "lookup";

    fn key(&self) -> Digest {
        Self::key_of(self.run, self.question)
    }

    fn group(&self) -> Digest {
        self.run
    }
}

/// What a model was asked in a run, and what it answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExchangeRecord {
    /// The run's key.
    pub run: Digest,
    /// Its number in the run, from zero.
    pub number: usize,
    /// The [role](crate::agent::Role::NAME) that asked.
    pub role: String,
    /// The member of the search that it was asked for, where several are asked for at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member: Option<usize>,
    /// The model's name.
    pub model: String,
    /// What it was asked.
    pub request: ChatRequest,
    /// What it answered, or why it did not.
    pub answer: Answer,
    /// How long that took, in seconds.
    pub seconds: f64,
    /// When it was asked, in seconds since 1970.
    pub at: u64,
}

/// What came of a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// The reply.
    Reply(ChatReply),
    /// The error.
    Error {
        /// Its kind.
        kind: ErrorKind,
        /// What it says, in one line.
        message: String,
    },
}

impl ExchangeRecord {
    /// The key of a run's exchange.
    pub fn key_of(run: Digest, number: usize) -> Digest {
        Digest::of_parts([run.to_string().as_str(), "exchange", number.to_string().as_str()])
    }
}

impl Record for ExchangeRecord {
    const KIND: &'static str = "exchange";

    fn key(&self) -> Digest {
        Self::key_of(self.run, self.number)
    }

    fn group(&self) -> Digest {
        self.run
    }
}
