//! The conductor that asks a language model where rules cannot tell.

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::json;

use super::{ConductContext, Conductor, Fault, Next, RuleConductor};
use crate::agent::{Agent, Role as _};
use crate::chat::{ChatModel, ChatReply, Message, OutputSchema};
use crate::consult::{Consultant, Talk, json_in};
use crate::error::{ErrorKind, Result};
use crate::prompts::Prompts;

/// The form of answers.
const FORM: &str = "Answer with one JSON object and nothing else.";

/// The conductor that follows [rules](RuleConductor), and asks a language model only where they cannot tell: whether values that
/// stay wrong after a repair are for another repair or for another design.
#[derive(Debug, Clone)]
pub struct ModelConductor {
    consultant: Consultant,
    rules: RuleConductor,
}

/// What the model decides.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Decision {
    next: Choice,
    why: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Choice {
    Fix,
    Design,
    Stop,
}

impl ModelConductor {
    /// A conductor that asks this model.
    ///
    /// # Errors
    /// Never, unless the library's prompts are damaged.
    pub fn new(model: impl ChatModel + 'static) -> Result<Self> {
        Ok(Self {
            consultant: Consultant::new(model)?,
            rules: RuleConductor::default(),
        })
    }

    /// Other prompts than the library's.
    #[must_use]
    pub fn with_prompts(mut self, prompts: Prompts) -> Self {
        self.consultant = self.consultant.with_prompts(prompts);
        self
    }

    fn talk(&self, context: &ConductContext) -> Result<Talk> {
        let tried = context.tried.iter().filter_map(|tried| {
            let failure = tried.failure.as_ref()?;
            Some(json!({
                "repairs": tried.repairs,
                "kind": failure.kind.name(),
                "evidence": failure.evidence,
            }))
        });
        let prompts = &self.consultant.prompts;
        let told = json!({"tried": tried.collect::<Vec<_>>(), "designs": context.designs});
        Ok(Talk {
            role: Conductor::NAME,
            opening: vec![
                Message::system(prompts.render("conductor/system.md", json!({}))?),
                Message::user(prompts.render("conductor/task.md", told)?),
            ],
            form: FORM,
            output: Some(OutputSchema {
                name: "decision".to_owned(),
                schema: json!({
                    "type": "object",
                    "properties": {
                        "next": {"type": "string", "enum": ["fix", "design", "stop"]},
                        "why": {"type": "string"},
                    },
                    "required": ["next", "why"],
                    "additionalProperties": false,
                }),
            }),
        })
    }
}

#[async_trait]
impl Agent<Conductor> for ModelConductor {
    fn name(&self) -> &str {
        self.consultant.name()
    }

    async fn step(&self, context: &ConductContext) -> Result<Next> {
        let next = self.rules.step(context).await?;
        let last = context.last_failed();
        let unclear =
            last.is_some_and(|(tried, failure)| tried.repairs > 0 && Fault::of(failure) == Fault::Values);
        if next != Next::Fix || !unclear || !context.redesigns {
            return Ok(next);
        }
        let take = |reply: &ChatReply| Ok(json_in::<Decision>(reply));
        let decision = self
            .consultant
            .ask(&context.trace, self.talk(context)?, take)
            .await;
        match decision {
            Ok(Decision {
                next: Choice::Fix, ..
            }) => Ok(Next::Fix),
            Ok(Decision {
                next: Choice::Design, ..
            }) => Ok(Next::Design),
            Ok(Decision {
                next: Choice::Stop,
                why,
            }) => Ok(Next::Stop(why)),
            // Who has nothing to say does not hold up the rules.
            Err(error) if error.kind() == ErrorKind::Unsupported => Ok(next),
            Err(error) => Err(error),
        }
    }
}
