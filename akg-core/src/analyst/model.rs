//! The analyst that asks a language model.

use async_trait::async_trait;
use serde_json::json;

use super::{AnalyseContext, Analyst, Recommendation};
use crate::agent::{Agent, Role as _};
use crate::chat::{ChatReply, Content, Message, OutputSchema};
use crate::consult::{Consultant, Objection, Talk, consults, json_in};
use crate::error::Result;
use crate::profile::time;
use crate::prompts::TaskSheet;

/// The form of answers.
const FORM: &str = "Answer with one JSON object and nothing else.";

/// Less than this is no gain.
const LEAST_GAIN: f64 = 1.01;

/// More than this is no estimate.
const MOST_GAIN: f64 = 1000.0;

/// The analyst that asks a language model.
///
/// The model is shown the sketch, the source, the profile as text and, if it sees them, as pictures, how far the bound is, what
/// the toolchain reports, and what was tried.
#[derive(Debug, Clone)]
pub struct ModelAnalyst(Consultant);

consults!(ModelAnalyst);

impl ModelAnalyst {
    fn opening(&self, context: &AnalyseContext) -> Result<Vec<Message>> {
        let prompts = &self.0.prompts;
        let system = prompts.render("analyst/system.md", json!({}))?;
        let pictures = context.pictures.iter().filter(|_| self.0.sees());
        let pictures: Vec<Content> = pictures
            .map(|png| Content::Image {
                media_type: "image/png".to_owned(),
                data: png.clone(),
            })
            .collect();
        let seconds = context.profile.seconds;
        let task = prompts.render(
            "analyst/task.md",
            json!({
                "task": TaskSheet::of(&context.task),
                "sketch": context.sketch.to_string(),
                "dsl": context.source.dsl,
                "source": context.source.text,
                "profile": context.profile.to_string(),
                "pictures": !pictures.is_empty(),
                "seconds": time(seconds),
                "bound": context.bound_seconds.map(time),
                "part": context.bound_seconds.map(|bound| (100.0 * bound / seconds).round()),
                "report": context.report,
                "passes": context.passes.iter().map(ToString::to_string).collect::<Vec<_>>(),
            }),
        )?;
        let mut content = vec![Content::Text { text: task }];
        content.extend(pictures);
        Ok(vec![Message::system(system), Message::User { content }])
    }
}

#[async_trait]
impl Agent<Analyst> for ModelAnalyst {
    fn name(&self) -> &str {
        self.0.name()
    }

    async fn step(&self, context: &AnalyseContext) -> Result<Option<Recommendation>> {
        let talk = Talk {
            role: Analyst::NAME,
            opening: self.opening(context)?,
            form: FORM,
            output: Some(OutputSchema {
                name: "recommendation".to_owned(),
                schema: json!({
                    "type": "object",
                    "properties": {
                        "what": {"type": "string"},
                        "why": {"type": "string"},
                        "gain": {"type": "number"},
                        "place": {"type": "string", "enum": ["sketch", "source"]},
                    },
                    "required": ["what", "why", "gain", "place"],
                    "additionalProperties": false,
                }),
            }),
        };
        let take = |reply: &ChatReply| Ok(json_in(reply).and_then(|advice| checked(reply, advice)));
        self.0.ask(&context.trace, talk, take).await
    }
}

/// A recommendation that can be followed; `None` if it says that nothing is worth trying.
fn checked(
    reply: &ChatReply,
    advice: Recommendation,
) -> std::result::Result<Option<Recommendation>, Objection> {
    let wrong = |wrong: &str| Err(Objection::to(reply.text.as_str(), wrong));
    if !(0.0..=MOST_GAIN).contains(&advice.gain) {
        return wrong("`gain` is the expected speed over that of now, such as 1.5; this is no estimate.");
    }
    if advice.gain < LEAST_GAIN {
        return Ok(None);
    }
    if advice.what.trim().is_empty() || advice.why.trim().is_empty() {
        return wrong("`what` and `why` must say something.");
    }
    Ok(Some(advice))
}
