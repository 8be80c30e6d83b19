//! The lifter that asks a language model.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::json;

use super::{Language, Lift, LiftContext, Lifter, Port};
use crate::agent::Agent;
use crate::chat::{Block, ChatModel, ChatReply, ChatRequest, Message, Stop};
use crate::error::{Error, Result};
use crate::prompts::Prompts;
use crate::sketch::LANGUAGE;

/// Replies to ask for, unless told otherwise.
const REPLIES: usize = 6;

/// How often a model may repeat what is wrong.
const MOST_REPEATS: usize = 2;

/// The lifter that asks a language model for a graph and a sketch.
///
/// The model is shown the kernel with its interface. What it sends is [checked](Lift::from_text) against the original; what is
/// wrong goes back to it, until it is right, or the replies are used up. That a model does not find out what a kernel computes is
/// an [`Unsupported`](crate::ErrorKind::Unsupported) error.
#[derive(Debug, Clone)]
pub struct ModelLifter {
    model: Arc<dyn ChatModel>,
    prompts: Prompts,
    replies: usize,
}

impl ModelLifter {
    /// A lifter that asks this model.
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
    fn opening(&self, context: &LiftContext) -> Result<Vec<Message>> {
        let interface = &context.interface;
        let typed = |ports: &[Port]| -> Vec<String> {
            ports
                .iter()
                .map(|port| {
                    let zeroed = if port.zeroed { ", zero at first" } else { "" };
                    format!("`{}: {port}`{zeroed}", port.name)
                })
                .collect()
        };
        let dims = interface.dims.iter();
        let calls: Result<Vec<String>, _> = interface.calls.iter().map(serde_json::to_string).collect();
        let calls =
            calls.map_err(|e| Error::unexpected("cannot write the calls of an interface").caused_by(e))?;
        let system = self
            .prompts
            .render("lifter/system.md", json!({"language": LANGUAGE}))?;
        let kernel = self.prompts.render(
            "lifter/kernel.md",
            json!({
                "name": context.name,
                "language": context.language.title(),
                "fence": fence(context.language),
                "text": context.text,
                "inputs": typed(&interface.inputs),
                "outputs": typed(&interface.outputs),
                "scratch": typed(&interface.scratch),
                "dims": dims.map(|(name, value)| format!("`{name}`, {value} for a start")).collect::<Vec<_>>(),
                "calls": calls.join("\n"),
                "accuracy": context.accuracy.name(),
                "device": context.target.name,
                "tile_kilobytes": context.target.tile_bytes >> 10,
            }),
        )?;
        Ok(vec![Message::system(system), Message::user(kernel)])
    }

    fn nothing(&self, why: &str) -> Error {
        Error::unsupported(format!("the model did not lift the kernel: {why}"))
            .with("model", self.model.name())
    }
}

#[async_trait]
impl Agent<Lifter> for ModelLifter {
    fn name(&self) -> &str {
        self.model.name()
    }

    async fn step(&self, context: &LiftContext) -> Result<Lift> {
        let mut conversation = self.opening(context)?;
        let mut wrong: BTreeMap<String, usize> = BTreeMap::new();
        let mut last = String::new();
        for _ in 0..self.replies {
            let reply = self.model.chat(&ChatRequest::new(conversation.clone())).await?;
            if reply.stop == Stop::Refused {
                return Err(self.nothing(&format!("it refused to answer: {}", reply.text)));
            }
            let objection = match graph_and_sketch(&reply) {
                Ok((graph, sketch)) => match Lift::from_text(graph, sketch, context).await? {
                    Ok(lift) => return Ok(lift),
                    Err(objection) => objection,
                },
                Err(objection) => objection.to_owned(),
            };
            let times = wrong.entry(reply.text.clone()).or_default();
            *times += 1;
            let repeats = *times - 1;
            if repeats > MOST_REPEATS {
                return Err(self.nothing(&format!("it repeats itself; {objection}")));
            }
            let answer = json!({"objection": objection, "repeated": repeats > 0, "form": FORM});
            conversation.push(reply.message());
            conversation.push(Message::user(self.prompts.render("objection.md", answer)?));
            last = objection;
        }
        Err(self.nothing(&format!(
            "none of {} replies was right; of the last: {last}",
            self.replies
        )))
    }
}

/// How to answer an objection.
const FORM: &str =
    "Answer with the whole graph and the whole sketch, each in a fenced code block of its own.";

/// What marks a block of code in a language.
fn fence(language: Language) -> &'static str {
    match language {
        Language::Cpp => "cpp",
        Language::Cuda => "cuda",
        Language::Triton | Language::PyTorch => "python",
    }
}

/// The last graph and the last sketch in fenced blocks of a reply.
fn graph_and_sketch(reply: &ChatReply) -> std::result::Result<(&str, &str), &'static str> {
    if reply.stop == Stop::Length {
        return Err("The reply was cut off before its end. Say less around the code blocks.");
    }
    let graph = Block::last(&reply.text, |block| block.contains("\"akg_graph\"")).ok_or(
        "There is no fenced code block with a graph in the reply: JSON that begins with `{\"akg_graph\": 1`.",
    )?;
    let sketch = Block::last(&reply.text, |block| block.lines().any(|line| line.starts_with("sketch ")))
        .ok_or("There is no fenced code block with a sketch in the reply: a line that begins with `sketch`, and kernels.")?;
    Ok((graph, sketch))
}
