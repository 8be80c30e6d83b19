//! What an environment and a learner say to each other.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::{Error, Result};
use crate::graph::ValueId;
use crate::source::Knobs;
use crate::task::Task;

/// The version of the messages.
pub const PROTOCOL: u32 = 1;

/// What an environment says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Message {
    /// It is ready.
    Ready {
        /// The version of the messages.
        protocol: u32,
        /// akg's version.
        akg: String,
        /// The [version](crate::verdict::JUDGE_VERSION) of the judge.
        judge: u32,
        /// The DSL of sources.
        dsl: String,
        /// The device's name.
        device: String,
        /// How many tasks there are.
        tasks: usize,
        /// Attempts at each.
        attempts: usize,
        /// How to write a source.
        guide: String,
    },
    /// A task to try.
    Task {
        /// Its number, from zero.
        task: usize,
        /// Its name.
        name: String,
        /// The accuracy class that results must reach.
        accuracy: String,
        /// The graph, as people read it.
        graph: String,
        /// What a call takes, as `name: type`, in order.
        inputs: Vec<String>,
        /// What it returns, in order.
        outputs: Vec<String>,
        /// The sketch of the rules, if it is shown.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sketch: Option<String>,
        /// Attempts at it.
        attempts: usize,
    },
    /// What came of a candidate.
    Verdict {
        /// What the learner called it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<Value>,
        /// The task's number.
        task: usize,
        /// `pass`, or a [kind of failure](crate::verdict::FailureKind).
        verdict: String,
        /// The evidence of a failure.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        evidence: Option<String>,
        /// Seconds of a call with warm caches.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        seconds: Option<f64>,
        /// Time of the kernel of the rules over its own, measured in turns; 1 if the difference is not beyond the noise, and
        /// missing where the rules have no kernel.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        speedup: Option<f64>,
        /// What it is worth: [`reward`](crate::history::reward).
        reward: f64,
        /// Attempts that are left at the task. After the last, the next task follows.
        attempts_left: usize,
    },
    /// A line said nothing sensible, or akg has trouble of its own. It costs no attempt.
    Error {
        /// What the learner called its candidate.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<Value>,
        /// The [kind](crate::ErrorKind).
        kind: String,
        /// What is wrong.
        message: String,
        /// Whether the same may work another time.
        temporary: bool,
    },
    /// Nothing is judged any more.
    End {
        /// Why.
        reason: String,
    },
}

impl Message {
    /// A task to try.
    pub(super) fn task(task: &Task, number: usize, attempts: usize, sketch: Option<String>) -> Self {
        let graph = &task.graph;
        let typed = |value: ValueId| format!("{}: {}", graph.value_name(value), graph.ty(value));
        Message::Task {
            task: number,
            name: task.name.clone(),
            accuracy: task.contract.accuracy.name().to_owned(),
            graph: graph.to_string(),
            inputs: graph.given().map(typed).collect(),
            outputs: graph.outputs().iter().map(|output| typed(output.value)).collect(),
            sketch,
            attempts,
        }
    }

    /// Trouble.
    pub fn error(id: Option<Value>, error: &Error) -> Self {
        Message::Error {
            id,
            kind: error.kind().name().to_owned(),
            message: error.to_string(),
            temporary: error.kind().is_temporary(),
        }
    }
}

/// What a learner wants.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// That something is judged.
    Judge {
        /// What the learner calls it, to know the answer by.
        id: Option<Value>,
        /// What the learner called the attempt at the same task that it goes on from, if it does.
        from: Option<Value>,
        /// What it is.
        proposal: Proposal,
    },
    /// The next task.
    Next,
    /// No more tasks.
    Stop,
}

/// What a learner wants to be judged.
#[derive(Debug, Clone, PartialEq)]
pub enum Proposal {
    /// A source, which begins with its launch plan as `akg export --form stub` prints it.
    Source(String),
    /// The source that a sketch becomes, with these values of its knobs and of the DSL's own.
    Sketch(String, Knobs),
}

impl Proposal {
    /// The source, or the sketch.
    pub fn text(&self) -> &str {
        match self {
            Self::Source(text) | Self::Sketch(text, _) => text,
        }
    }
}

/// A line of a learner's.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    id: Option<Value>,
    from: Option<Value>,
    source: Option<String>,
    sketch: Option<String>,
    #[serde(default)]
    knobs: Knobs,
    #[serde(default)]
    next: bool,
    #[serde(default)]
    stop: bool,
}

impl Action {
    /// Reads a line.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) for one that is no JSON object with one wish.
    pub fn parse(line: &str) -> Result<Self> {
        const WANTED: &str = "a line is a JSON object with one of `source`, `sketch` (and `knobs`), `next: true` and `stop: true`, and \
                              perhaps an `id` and what it goes on `from`";
        let line: Line = serde_json::from_str(line).map_err(|e| Error::invalid(WANTED).caused_by(e))?;
        let proposal = match (line.source, line.sketch, line.next, line.stop) {
            (Some(text), None, false, false) => Proposal::Source(text),
            (None, Some(text), false, false) => Proposal::Sketch(text, line.knobs),
            (None, None, true, false) => return Ok(Self::Next),
            (None, None, false, true) => return Ok(Self::Stop),
            _ => return Err(Error::invalid(WANTED)),
        };
        Ok(Self::Judge {
            id: line.id,
            from: line.from,
            proposal,
        })
    }
}
