//! The designer that asks a language model.

use async_trait::async_trait;
use serde::Serialize;
use serde_json::json;

use super::{Design, DesignContext, Designer, Known, RuleDesigner};
use crate::agent::{Agent, Role as _};
use crate::chat::{Block, ChatReply, Message};
use crate::consult::{Consultant, Objection, Talk, consults};
use crate::error::Result;
use crate::knowledge::{Kind, questions};
use crate::profile::time;
use crate::prompts::{DeviceSheet, TaskSheet};
use crate::sketch::{KernelCost, LANGUAGE, cost};

/// The form of answers.
const FORM: &str = "Answer with the whole corrected sketch in one fenced code block.";

/// What is said of a design that was tried.
const KNOWN: &str =
    "This is a sketch that was tried before, but for its names and comments. Propose one that is different.";

/// The designer that asks a language model for a sketch.
///
/// The model is shown the language, the graph, the device, what is known that helps, what [the rules](RuleDesigner) would do with
/// the cost model's estimate of it, and the designs that failed. What it sends is [checked](Design::from_text) before anything is compiled; what is
/// wrong goes back to it, until it is right, or the replies are used up. That a model has nothing to propose is an
/// [`Unsupported`](crate::ErrorKind::Unsupported) error.
#[derive(Debug, Clone)]
pub struct ModelDesigner(Consultant);

consults!(ModelDesigner);

impl ModelDesigner {
    /// What the model is told first.
    async fn opening(&self, context: &DesignContext) -> Result<Vec<Message>> {
        let prompts = &self.0.prompts;
        let system = prompts.render("designer/system.md", json!({"language": LANGUAGE}))?;
        let siblings = context.improve.iter().flat_map(|improve| &improve.failed);
        let failures = siblings.chain(&context.failed).map(|failed| {
            json!({
                "kind": failed.failure.kind.name(),
                "evidence": failed.failure.evidence,
                "text": failed.sketch.to_string(),
            })
        });
        let shown = |known: &Known| {
            json!({
                "text": known.sketch.to_string(),
                "time": known.seconds.map(time),
            })
        };
        let improve = context.improve.as_ref().map(|improve| {
            json!({
                "parents": improve.parents.iter().map(shown).collect::<Vec<_>>(),
                "inspirations": improve.inspirations.iter().map(shown).collect::<Vec<_>>(),
                "advice": improve.recommendation,
                "passes": improve.passes.iter().map(ToString::to_string).collect::<Vec<_>>(),
            })
        });
        let failure = context.failed.last().map(|failed| &failed.failure);
        let kinds = [Kind::Kernel, Kind::Fix, Kind::Hardware, Kind::Guide];
        let questions = questions(&context.task, &context.target, &kinds, failure)?;
        let task = prompts.render(
            "designer/task.md",
            json!({
                "known": self.0.known(&context.trace, &questions).await?,
                "task": TaskSheet::of(&context.task),
                "device": DeviceSheet::of(&context.target),
                "start": if improve.is_some() { None } else { start(context).await },
                "improve": improve,
                "failures": failures.collect::<Vec<_>>(),
            }),
        )?;
        Ok(vec![Message::system(system), Message::user(task)])
    }
}

#[async_trait]
impl Agent<Designer> for ModelDesigner {
    fn name(&self) -> &str {
        self.0.name()
    }

    async fn step(&self, context: &DesignContext) -> Result<Design> {
        let talk = Talk {
            role: Designer::NAME,
            opening: self.opening(context).await?,
            form: FORM,
            output: None,
        };
        let take = |reply: &ChatReply| {
            let text = match sketch_in(reply) {
                Ok(text) => text,
                Err(objection) => return Ok(Err(objection)),
            };
            let improve = context.improve.as_ref();
            let design = Design::from_text(text, context)?.and_then(|design| match improve {
                Some(improve) if improve.has_tried(&design.sketch) => Err(KNOWN.to_owned()),
                _ => Ok(design),
            });
            Ok(design.map_err(|wrong| Objection::to(text, wrong)))
        };
        self.0.ask(&context.trace, talk, take).await
    }
}

/// The sketch in a reply: the last fenced block that begins one, or the whole text if that does.
fn sketch_in(reply: &ChatReply) -> std::result::Result<&str, Objection> {
    let begins = |block: &str| block.lines().any(|line| line.starts_with("sketch "));
    Block::last(&reply.text, begins).ok_or_else(|| {
        "There is no fenced code block with a sketch in the reply: a line that begins with `sketch`, and kernels.".into()
    })
}

/// What the rules would do, with the cost model's estimate.
#[derive(Debug, Serialize)]
struct Start {
    text: String,
    microseconds: String,
    kernels: Vec<KernelLine>,
}

#[derive(Debug, Serialize)]
struct KernelLine {
    name: String,
    microseconds: String,
    limit: &'static str,
}

/// The rules' design, if they have one that did not fail.
async fn start(context: &DesignContext) -> Option<Start> {
    let design = RuleDesigner.step(context).await.ok()?;
    if context.has_failed(&design.sketch) {
        return None;
    }
    let hints = &context.task.contract.hints;
    let program = design.sketch.elaborate(&design.knobs, hints).ok()?;
    let cost = cost(&program, hints, &context.target).ok()?;
    let micros = |seconds: f64| format!("{:.1}", seconds * 1e6);
    let line = |kernel: &KernelCost| KernelLine {
        name: kernel.name.clone(),
        microseconds: micros(kernel.seconds),
        limit: limit(kernel, context.target.launch_seconds),
    };
    Some(Start {
        text: design.sketch.to_string(),
        microseconds: micros(cost.seconds),
        kernels: cost.kernels.iter().map(line).collect(),
    })
}

/// What bounds a kernel.
fn limit(kernel: &KernelCost, launch: f64) -> &'static str {
    let longest = kernel
        .memory_seconds
        .max(kernel.cache_seconds)
        .max(kernel.compute_seconds);
    if longest < launch {
        "bound by its launch"
    } else if longest <= kernel.memory_seconds {
        "bound by memory"
    } else if longest <= kernel.cache_seconds {
        "bound by the cache"
    } else {
        "bound by arithmetic"
    }
}
