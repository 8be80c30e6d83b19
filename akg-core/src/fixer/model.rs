//! The fixer that asks a language model.

use async_trait::async_trait;
use serde_json::json;

use super::{FixContext, Fixer, Wish, whole_text};
use crate::agent::{Agent, Role as _};
use crate::chat::{Block, ChatReply, Message};
use crate::coder::{errors, read};
use crate::consult::{Consultant, Objection, Talk, consults};
use crate::dsl::Stage;
use crate::edit::Edit;
use crate::error::Result;
use crate::knowledge::{Kind, questions};
use crate::prompts::TaskSheet;
use crate::source::Source;
use crate::verdict::Failure;

/// The form of answers.
const FORM: &str =
    "Answer with edits; only if nearly every line changes, with the whole text in one fenced code block.";

/// The fixer that asks a language model for [edits](Edit).
///
/// The model is shown the source with its launch plan, how it failed with the place or the first wrong element, what the DSL's
/// check finds, the DSL's guide, and what mended the like before; or what would make it faster. Edits that do not fit the text, or after which the DSL
/// finds errors in it, go back to it. That nothing right comes is an [`Unsupported`](crate::ErrorKind::Unsupported) error.
#[derive(Debug, Clone)]
pub struct ModelFixer(Consultant);

consults!(ModelFixer);

impl ModelFixer {
    async fn opening(&self, context: &FixContext, text: &str) -> Result<Vec<Message>> {
        let dsl = &context.dsl;
        let (purpose, stage) = match &context.wish {
            Wish::Repair(_) => ("repair", Stage::Fix),
            Wish::Faster(_) => ("speed up", Stage::Optimise),
        };
        let system = self.0.prompts.render(
            "fixer/system.md",
            json!({"dsl": dsl.name(), "guide": dsl.guide(stage, &context.target), "purpose": purpose}),
        )?;
        let told = |failure: &Failure| json!({"kind": failure.kind.name(), "evidence": failure.evidence});
        let (failure, advice, diagnostics) = match &context.wish {
            Wish::Repair(failure) => {
                let found = dsl.parse(text).map(|source| errors(&**dsl, &source));
                (Some(told(failure)), None, found.unwrap_or_default().render(text))
            }
            Wish::Faster(advice) => (None, Some(advice), String::new()),
        };
        let (kinds, failed) = match &context.wish {
            Wish::Repair(failure) => ([Kind::Fix, Kind::Guide], Some(failure)),
            Wish::Faster(_) => ([Kind::Guide, Kind::Hardware], None),
        };
        let questions = questions(&context.task, &context.target, &kinds, failed)?;
        let task = self.0.prompts.render(
            "fixer/task.md",
            json!({
                "known": self.0.known(&context.trace, &questions).await?,
                "task": TaskSheet::of(&context.task),
                "dsl": dsl.name(),
                "text": text,
                "failure": failure,
                "diagnostics": diagnostics,
                "advice": advice,
                "earlier": context.earlier.iter().map(told).collect::<Vec<_>>(),
            }),
        )?;
        Ok(vec![Message::system(system), Message::user(task)])
    }
}

#[async_trait]
impl Agent<Fixer> for ModelFixer {
    fn name(&self) -> &str {
        self.0.name()
    }

    async fn step(&self, context: &FixContext) -> Result<Option<Source>> {
        let dsl = &*context.dsl;
        let given = whole_text(dsl, &context.source)?;
        let talk = Talk {
            role: Fixer::NAME,
            opening: self.opening(context, &given).await?,
            form: FORM,
            output: None,
        };
        // Edits that fit are made, so that the next reply goes on from there.
        let mut text = given.clone();
        let take = |reply: &ChatReply| {
            let next = match changed(&text, reply) {
                Ok(next) => next,
                Err(objection) => return Ok(Err(objection)),
            };
            if next.trim() == given.trim() {
                return Ok(Err(Objection::to(
                    next,
                    "The text is the same after the change as it was at first.",
                )));
            }
            let source = read(dsl, &next).map_err(|wrong| {
                let made = "What you changed is done, and further edits are made in the text as it is now.";
                Objection::to(next.as_str(), format!("{made} {wrong}"))
            });
            text = next;
            Ok(source.map(Some))
        };
        self.0.ask(&context.trace, talk, take).await
    }
}

/// The text after what a reply wants changed.
fn changed(text: &str, reply: &ChatReply) -> std::result::Result<String, Objection> {
    let wrong = |wrong: String| Objection::to(reply.text.as_str(), format!("{wrong} Nothing was changed."));
    let edits = Edit::parse(&reply.text).map_err(wrong)?;
    if !edits.is_empty() {
        return Edit::apply(&edits, text).map_err(wrong);
    }
    let block = Block::all(&reply.text).pop();
    match block.filter(|block| !block.text.trim().is_empty()) {
        Some(block) => Ok(block.text.to_owned()),
        None => Err("There is no edit in the reply, and no fenced code block.".into()),
    }
}
