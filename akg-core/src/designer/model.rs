//! The designer that asks a language model.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use serde::Serialize;
use serde_json::json;

use super::{Design, DesignContext, Designer, RuleDesigner};
use crate::agent::Agent;
use crate::chat::{ChatModel, ChatReply, ChatRequest, Message, Stop};
use crate::error::{Error, Result};
use crate::graph::{Graph, ValueId};
use crate::prompts::Prompts;
use crate::sketch::{KernelCost, LANGUAGE, cost};
use crate::target::Target;
use crate::task::Accuracy;

/// Replies to ask for, unless told otherwise.
const REPLIES: usize = 6;

/// How often a model may repeat what is wrong.
const MOST_REPEATS: usize = 2;

/// The designer that asks a language model for a sketch.
///
/// The model is shown the language, the graph, the device, what [the rules](RuleDesigner) would do with the cost model's
/// estimate of it, and the designs that failed. What it sends is [checked](Design::from_text) before anything is compiled; what is
/// wrong goes back to it, until it is right, or the replies are used up. That a model has nothing to propose is an
/// [`Unsupported`](crate::ErrorKind::Unsupported) error.
#[derive(Debug, Clone)]
pub struct ModelDesigner {
    model: Arc<dyn ChatModel>,
    prompts: Prompts,
    replies: usize,
}

impl ModelDesigner {
    /// A designer that asks this model.
    ///
    /// # Errors
    /// Never, unless the library's prompts are damaged.
    pub fn new(model: impl ChatModel + 'static) -> Result<Self> {
        Ok(Self {
            model: Arc::new(model),
            prompts: Prompts::embedded()?,
            replies: REPLIES,
        })
    }

    /// Other prompts than the library's.
    #[must_use]
    pub fn with_prompts(mut self, prompts: Prompts) -> Self {
        self.prompts = prompts;
        self
    }

    /// The most replies to ask for in one step, at least one.
    #[must_use]
    pub fn with_replies(mut self, replies: usize) -> Self {
        self.replies = replies.max(1);
        self
    }

    /// What the model is told first.
    async fn opening(&self, context: &DesignContext) -> Result<Vec<Message>> {
        let graph = &context.task.graph;
        let system = self
            .prompts
            .render("designer/system.md", json!({"language": LANGUAGE}))?;
        let accuracy = context.task.contract.accuracy;
        let failures = context.failed.iter().map(|failed| {
            json!({
                "kind": failed.failure.kind.name(),
                "evidence": failed.failure.evidence,
                "text": failed.sketch.to_string(),
            })
        });
        let task = self.prompts.render(
            "designer/task.md",
            json!({
                "graph": graph.to_string(),
                "inputs": typed(graph, graph.given()),
                "outputs": typed(graph, graph.outputs().iter().map(|o| o.value)),
                "accuracy": accuracy.name(),
                "allowed": allowed(accuracy),
                "device": DeviceSheet::of(&context.target),
                "start": start(context).await,
                "failures": failures.collect::<Vec<_>>(),
            }),
        )?;
        Ok(vec![Message::system(system), Message::user(task)])
    }

    fn nothing(&self, why: &str) -> Error {
        Error::unsupported(format!("the model proposed no design: {why}")).with("model", self.model.name())
    }
}

#[async_trait]
impl Agent<Designer> for ModelDesigner {
    fn name(&self) -> &str {
        self.model.name()
    }

    async fn step(&self, context: &DesignContext) -> Result<Design> {
        let mut conversation = self.opening(context).await?;
        let mut wrong: BTreeMap<String, usize> = BTreeMap::new();
        let mut last = String::new();
        for _ in 0..self.replies {
            let reply = self.model.chat(&ChatRequest::new(conversation.clone())).await?;
            if reply.stop == Stop::Refused {
                return Err(self.nothing(&format!("it refused to answer: {}", reply.text)));
            }
            let (objection, repeats) = match sketch_in(&reply) {
                Ok(text) => match Design::from_text(text, context)? {
                    Ok(design) => return Ok(design),
                    Err(objection) => {
                        let times = wrong.entry(text.to_owned()).or_default();
                        *times += 1;
                        (objection, *times - 1)
                    }
                },
                Err(objection) => (objection.to_owned(), 0),
            };
            if repeats > MOST_REPEATS {
                return Err(self.nothing(&format!("it repeats itself; {objection}")));
            }
            let answer = json!({"objection": objection, "repeated": repeats > 0});
            conversation.push(reply.message());
            conversation.push(Message::user(
                self.prompts.render("designer/objection.md", answer)?,
            ));
            last = objection;
        }
        Err(self.nothing(&format!(
            "none of {} replies was right; of the last: {last}",
            self.replies
        )))
    }
}

/// The sketch in a reply: the last fenced block that begins one, or the whole text if that does.
fn sketch_in(reply: &ChatReply) -> std::result::Result<&str, &'static str> {
    let text = reply.text.as_str();
    let begins = |block: &str| block.lines().any(|line| line.starts_with("sketch "));
    let mut fenced = Vec::new();
    let mut open: Option<usize> = None;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let next = at + line.len();
        if line.trim_start().starts_with("```") {
            match open.take() {
                Some(start) => fenced.extend(text.get(start..at)),
                None => open = Some(next),
            }
        }
        at = next;
    }
    if reply.stop == Stop::Length {
        return Err("The reply was cut off before its end. Say less around the sketch.");
    }
    if let Some(start) = open {
        fenced.extend(text.get(start..));
    }
    if fenced.is_empty() && begins(text) {
        return Ok(text);
    }
    let sketch = fenced.into_iter().rev().find(|block| begins(block));
    sketch.ok_or("There is no fenced code block with a sketch in the reply: a line that begins with `sketch`, and kernels.")
}

/// What a class allows, as a model is told.
fn allowed(accuracy: Accuracy) -> &'static str {
    match accuracy {
        Accuracy::Fp32 => {
            "at most twice the rms error, and four times the largest, of fp32 arithmetic with pairwise sums; products of halves that \
             operands were split into are welcome where they reach that"
        }
        Accuracy::Tf32 => "an error of 5e-4 rms on a product, as rounding operands to TF32 gives",
        Accuracy::Half => "an error of 4e-3 rms on a product, as operands in bf16 give",
    }
}

/// Values with their types.
fn typed(graph: &Graph, values: impl Iterator<Item = ValueId>) -> Vec<String> {
    values
        .map(|value| format!("`{}: {}`", graph.value_name(value), graph.ty(value)))
        .collect()
}

/// A device as a model is told of it.
#[derive(Debug, Serialize)]
struct DeviceSheet {
    name: String,
    cores: u32,
    threads: u32,
    tile_kilobytes: u64,
    gigabytes_per_second: Option<u64>,
    peaks: Vec<String>,
    launch_microseconds: String,
}

impl DeviceSheet {
    fn of(target: &Target) -> Self {
        let measured = |rate: f64| (rate > 0.0).then_some((rate / 1e9).round() as u64);
        let peaks = target.peak.iter();
        Self {
            name: target.name.clone(),
            cores: target.cores,
            threads: target.threads,
            tile_kilobytes: target.tile_bytes >> 10,
            gigabytes_per_second: measured(target.bandwidth),
            peaks: peaks
                .filter_map(|(dtype, rate)| {
                    Some(format!("{} Gflop/s with operands in {dtype}", measured(*rate)?))
                })
                .collect(),
            launch_microseconds: format!("{:.1}", target.launch_seconds * 1e6),
        }
    }
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
