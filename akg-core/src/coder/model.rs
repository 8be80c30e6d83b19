//! The coder that asks a language model.

use async_trait::async_trait;
use serde_json::json;

use super::{CodeContext, Coder};
use crate::agent::{Agent, Role as _};
use crate::chat::{Block, Message};
use crate::consult::{Consultant, Objection, Talk, consults};
use crate::diagnostic::{Diagnostics, Severity};
use crate::dsl::{Dsl, Stage};
use crate::error::Result;
use crate::fixer::whole_text;
use crate::knowledge::{Kind, questions};
use crate::prompts::TaskSheet;
use crate::source::Source;

/// The form of answers.
const FORM: &str = "Answer with the whole corrected text in one fenced code block.";

/// The coder that asks a language model for a source.
///
/// The model is shown the DSL's guide, the graph, what is known of the language and the device, the sketch, and what the DSL lowers
/// it to, if it does. What it sends must be [readable](Dsl::parse) and pass the DSL's [check](Dsl::check); what is wrong goes back to
/// it. That nothing right comes is an [`Unsupported`](crate::ErrorKind::Unsupported) error.
#[derive(Debug, Clone)]
pub struct ModelCoder(Consultant);

consults!(ModelCoder);

impl ModelCoder {
    async fn opening(&self, context: &CodeContext) -> Result<Vec<Message>> {
        let dsl = &context.dsl;
        let has = |form: &str| dsl.capability().exports.iter().any(|f| f == form);
        let lowered = dsl.lower(&context.sketch, &context.knobs, &context.target).ok();
        let start = lowered
            .as_ref()
            .and_then(|source| whole_text(&**dsl, source).ok());
        let stub = lowered.filter(|_| start.is_none() && has("stub"));
        let stub = stub.and_then(|source| dsl.export(&source, "stub").ok());
        let knobs: Vec<String> = context.knobs.iter().map(|(k, v)| format!("{k} = {v}")).collect();
        let system = self.0.prompts.render(
            "coder/system.md",
            json!({"dsl": dsl.name(), "guide": dsl.guide(Stage::Write, &context.target)}),
        )?;
        let kinds = [Kind::Guide, Kind::Hardware];
        let questions = questions(&context.task, &context.target, &kinds, None)?;
        let task = self.0.prompts.render(
            "coder/task.md",
            json!({
                "known": self.0.known(&context.trace, &questions).await?,
                "task": TaskSheet::of(&context.task),
                "dsl": dsl.name(),
                "sketch": context.sketch.to_string(),
                "knobs": if knobs.is_empty() { "of their defaults".to_owned() } else { knobs.join(", ") },
                "start": start,
                "stub": stub,
            }),
        )?;
        Ok(vec![Message::system(system), Message::user(task)])
    }
}

#[async_trait]
impl Agent<Coder> for ModelCoder {
    fn name(&self) -> &str {
        self.0.name()
    }

    async fn step(&self, context: &CodeContext) -> Result<Source> {
        let talk = Talk {
            role: Coder::NAME,
            opening: self.opening(context).await?,
            form: FORM,
            output: None,
        };
        let take = |reply: &crate::chat::ChatReply| {
            let Some(text) = Block::last(&reply.text, |text| !text.trim().is_empty())
                .filter(|_| reply.text.contains("```"))
            else {
                return Ok(Err("There is no fenced code block in the reply.".into()));
            };
            Ok(read(&*context.dsl, text).map_err(|wrong| Objection::to(text, wrong)))
        };
        self.0.ask(&context.trace, talk, take).await
    }
}

/// The source that a text is, if it can be read and the DSL finds no error in it.
pub(crate) fn read(dsl: &dyn Dsl, text: &str) -> std::result::Result<Source, String> {
    let source = dsl
        .parse(text)
        .map_err(|error| format!("The text cannot be read: {error}."))?;
    let found: Diagnostics = errors(dsl, &source);
    if found.is_empty() {
        return Ok(source);
    }
    Err(format!(
        "The text is rejected:\n\n{}",
        found.render(text).trim_end()
    ))
}

/// The errors that a DSL finds in a source.
pub(crate) fn errors(dsl: &dyn Dsl, source: &Source) -> Diagnostics {
    let found = dsl.check(source).into_iter();
    found
        .filter(|finding| finding.severity == Severity::Error)
        .collect()
}
