//! The task builder that asks a language model.

use async_trait::async_trait;
use serde_json::json;

use super::{BuildContext, TaskBuilder};
use crate::agent::{Agent, Role as _};
use crate::chat::{Block, ChatReply, Message};
use crate::consult::{Consultant, Objection, Talk, consults};
use crate::error::Result;

/// The form of answers.
const FORM: &str = "Answer with the whole corrected module in one fenced code block.";

/// The task builder that asks a language model. What it writes is run, and what is wrong goes back to it.
#[derive(Debug, Clone)]
pub struct ModelTaskBuilder(Consultant);

consults!(ModelTaskBuilder);

#[async_trait]
impl Agent<TaskBuilder> for ModelTaskBuilder {
    fn name(&self) -> &str {
        self.0.name()
    }

    async fn step(&self, context: &BuildContext) -> Result<String> {
        let prompts = &self.0.prompts;
        let talk = Talk {
            role: TaskBuilder::NAME,
            opening: vec![
                Message::system(prompts.render("task-builder/system.md", json!({}))?),
                Message::user(prompts.render("task-builder/task.md", json!({"request": context.request}))?),
            ],
            form: FORM,
            output: None,
        };
        let take = |reply: &ChatReply| {
            let Some(module) = Block::last(&reply.text, |text| text.contains("class Model")) else {
                return Ok(Err(
                    "There is no fenced code block with a `class Model` in the reply.".into(),
                ));
            };
            let ran = context.trial.run(module)?;
            Ok(ran
                .map(|()| module.to_owned())
                .map_err(|wrong| Objection::to(module, format!("The module does not run: {wrong}."))))
        };
        self.0.ask(&context.trace, talk, take).await
    }
}
