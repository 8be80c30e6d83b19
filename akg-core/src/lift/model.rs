//! The lifter that asks a language model.

use async_trait::async_trait;
use futures::FutureExt as _;
use serde_json::json;

use super::{Language, Lift, LiftContext, Lifter, Port};
use crate::agent::{Agent, Role as _};
use crate::chat::{Block, ChatReply, Message};
use crate::consult::{Consultant, Objection, Talk, consults};
use crate::error::{Error, Result};
use crate::sketch::LANGUAGE;
use crate::trace::Trace;

/// How to answer an objection.
const FORM: &str =
    "Answer with the whole graph and the whole sketch, each in a fenced code block of its own.";

/// The lifter that asks a language model for a graph and a sketch.
///
/// The model is shown the kernel with its interface. What it sends is [checked](Lift::from_text) against the original; what is
/// wrong goes back to it, until it is right, or the replies are used up. That a model does not find out what a kernel computes is
/// an [`Unsupported`](crate::ErrorKind::Unsupported) error.
#[derive(Debug, Clone)]
pub struct ModelLifter(Consultant);

consults!(ModelLifter);

impl ModelLifter {
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
        let prompts = &self.0.prompts;
        let system = prompts.render("lifter/system.md", json!({"language": LANGUAGE}))?;
        let kernel = prompts.render(
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
}

#[async_trait]
impl Agent<Lifter> for ModelLifter {
    fn name(&self) -> &str {
        self.0.name()
    }

    async fn step(&self, context: &LiftContext) -> Result<Lift> {
        let talk = Talk {
            role: Lifter::NAME,
            opening: self.opening(context)?,
            form: FORM,
            output: None,
        };
        let take = |reply: &ChatReply| {
            let text = reply.text.clone();
            let lift = async move {
                let lift = match graph_and_sketch(&text) {
                    Ok((graph, sketch)) => Lift::from_text(graph, sketch, context).await?,
                    Err(objection) => Err(objection.to_owned()),
                };
                Ok(lift.map_err(|wrong| Objection::to(text, wrong)))
            };
            lift.boxed()
        };
        self.0.ask_until(&Trace::default(), talk, take).await
    }
}

/// What marks a block of code in a language.
fn fence(language: Language) -> &'static str {
    match language {
        Language::Cpp => "cpp",
        Language::Cuda => "cuda",
        Language::Triton | Language::PyTorch => "python",
    }
}

/// The last graph and the last sketch in fenced blocks of a reply.
fn graph_and_sketch(reply: &str) -> std::result::Result<(&str, &str), &'static str> {
    let graph = Block::last(reply, |block| block.contains("\"akg_graph\"")).ok_or(
        "There is no fenced code block with a graph in the reply: JSON that begins with `{\"akg_graph\": 1`.",
    )?;
    let sketch = Block::last(reply, |block| block.lines().any(|line| line.starts_with("sketch ")))
        .ok_or("There is no fenced code block with a sketch in the reply: a line that begins with `sketch`, and kernels.")?;
    Ok((graph, sketch))
}
