//! Replies of a language model, on the road from a conversation with an agent to a source.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use akg::blocking::step;
use akg::chat::{ChatCapability, ChatModel, ChatReply, ChatRequest};
use akg::coder::{CodeContext, ModelCoder};
use akg::designer::{DesignContext, ModelDesigner, RuleDesigner};
use akg::fixer::{FixContext, ModelFixer, Wish};
use akg::source::Source;
use akg::verdict::{Failure, FailureKind};
use akg::{Dsl, Error, Result, Target, Task};
use async_trait::async_trait;

use crate::sections::{File, Section};

/// The line between the replies of a conversation.
const NEXT: &str = "#@@ next\n";

/// The agent that a model answers.
#[derive(Debug, Clone, Copy)]
enum Asking {
    Coder,
    /// With the text of the head as the source that failed.
    Fixer,
    Designer,
}

/// Replies to an agent, one after the other.
#[derive(Debug, Clone)]
pub(crate) struct Conversation {
    asking: Asking,
    /// The head of the file.
    given: String,
    replies: Vec<ChatReply>,
    /// Whether they have a Python module.
    pub(crate) is_python: bool,
}

impl Conversation {
    pub(crate) fn new(file: &File, section: &Section) -> Self {
        let option = |key: &str| section.option(key).or(file.head.option(key));
        let stop = option("stop").map_or_else(Default::default, |stop| {
            serde_json::from_value(stop.into()).unwrap()
        });
        let reply = |text: &str| ChatReply {
            stop,
            ..ChatReply::text(text.replace("@HEAD@\n", &file.head.text))
        };
        Self {
            asking: match option("agent") {
                Some("coder") => Asking::Coder,
                Some("fixer") => Asking::Fixer,
                Some("designer") => Asking::Designer,
                other => panic!("no agent is called {other:?}"),
            },
            given: file.head.text.clone(),
            replies: section.text.split(NEXT).map(reply).collect(),
            is_python: option("python").is_some(),
        }
    }

    /// The source that the agent takes from the replies.
    ///
    /// # Errors
    /// [`Unsupported`](akg::ErrorKind::Unsupported) with the agent's last objection, if it takes none.
    pub(crate) fn source(&self, task: &Task, dsl: &Arc<dyn Dsl>, target: &Target) -> Result<Source> {
        let model = Scripted::new(&self.replies);
        let (most, trace) = (self.replies.len(), Default::default());
        let design = DesignContext::new(task.clone(), target.clone());
        let (task, dsl, target) = (task.clone(), dsl.clone(), target.clone());
        match self.asking {
            Asking::Designer => {
                let proposed = step(&ModelDesigner::new(model)?.with_replies(most), &design)?;
                dsl.lower(&proposed.sketch, &proposed.knobs, &target)
            }
            Asking::Coder => {
                let shown = step(&RuleDesigner, &design)?;
                let (sketch, knobs) = (shown.sketch, shown.knobs);
                let context = CodeContext {
                    task,
                    sketch,
                    knobs,
                    dsl,
                    target,
                    trace,
                };
                step(&ModelCoder::new(model)?.with_replies(most), &context)
            }
            Asking::Fixer => {
                let failure = Failure::new(FailureKind::WrongValues, "output `y` is wrong at [0, 0]");
                let context = FixContext {
                    source: dsl.parse(&self.given)?,
                    wish: Wish::Repair(failure),
                    earlier: Vec::new(),
                    task,
                    dsl,
                    target,
                    trace,
                };
                let fixed = step(&ModelFixer::new(model)?.with_replies(most), &context)?;
                fixed.ok_or_else(|| Error::unsupported("the fixer has nothing to change"))
            }
        }
    }
}

/// A model that gives its replies one after the other.
#[derive(Debug)]
struct Scripted {
    replies: Mutex<VecDeque<ChatReply>>,
}

impl Scripted {
    fn new(replies: &[ChatReply]) -> Self {
        Self {
            replies: Mutex::new(replies.iter().cloned().collect()),
        }
    }
}

#[async_trait]
impl ChatModel for Scripted {
    fn name(&self) -> &str {
        "scripted"
    }

    fn capability(&self) -> ChatCapability {
        ChatCapability::default()
    }

    async fn chat(&self, _: &ChatRequest) -> Result<ChatReply> {
        let mut replies = self.replies.lock().unwrap_or_else(PoisonError::into_inner);
        replies
            .pop_front()
            .ok_or_else(|| Error::unexpected("all replies were given"))
    }
}
