//! Conversations with a model in which what is wrong goes back to it.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::{self, BoxFuture, FutureExt as _};
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::chat::{Block, ChatModel, ChatReply, ChatRequest, Message, OutputSchema, Stop};
use crate::error::{Error, Result};
use crate::knowledge::{Found, Query};
use crate::prompts::Prompts;
use crate::trace::Trace;

/// Replies to ask for, unless told otherwise.
const REPLIES: usize = 6;

/// How often a model may repeat what is wrong.
const MOST_REPEATS: usize = 2;

/// A model with its prompts: what model-backed agents have in common.
#[derive(Debug, Clone)]
pub(crate) struct Consultant {
    model: Arc<dyn ChatModel>,
    pub(crate) prompts: Prompts,
    replies: usize,
}

/// How agents are made that are a [`Consultant`] and nothing else.
macro_rules! consults {
    ($agent:ident) => {
        impl $agent {
            /// An agent that asks this model.
            ///
            /// # Errors
            /// Never, unless the library's prompts are damaged.
            pub fn new(model: impl $crate::chat::ChatModel + 'static) -> $crate::error::Result<Self> {
                $crate::consult::Consultant::new(model).map(Self)
            }

            /// Other prompts than the library's.
            #[must_use]
            pub fn with_prompts(self, prompts: $crate::prompts::Prompts) -> Self {
                Self(self.0.with_prompts(prompts))
            }

            /// The most replies to ask for in one step, at least one.
            #[must_use]
            pub fn with_replies(self, replies: usize) -> Self {
                Self(self.0.with_replies(replies))
            }
        }
    };
}
pub(crate) use consults;

/// What a conversation is about.
#[derive(Debug)]
pub(crate) struct Talk {
    /// The role of the agent.
    pub(crate) role: &'static str,
    /// What the model is told first.
    pub(crate) opening: Vec<Message>,
    /// What every objection ends with: in which form to answer.
    pub(crate) form: &'static str,
    /// The form of replies, if they are to be JSON. A model that cannot keep to one is only told.
    pub(crate) output: Option<OutputSchema>,
}

/// Why a reply is not taken.
#[derive(Debug)]
pub(crate) struct Objection {
    /// What is wrong, for the model.
    pub(crate) wrong: String,
    /// What of the reply is wrong; `None` if there is nothing that could be repeated.
    pub(crate) what: Option<String>,
}

impl Objection {
    /// To a part of a reply, which the model should not send again.
    pub(crate) fn to(what: impl Into<String>, wrong: impl Into<String>) -> Self {
        Self {
            wrong: wrong.into(),
            what: Some(what.into()),
        }
    }
}

impl From<&str> for Objection {
    fn from(wrong: &str) -> Self {
        Self {
            wrong: wrong.to_owned(),
            what: None,
        }
    }
}

impl Consultant {
    pub(crate) fn new(model: impl ChatModel + 'static) -> Result<Self> {
        Ok(Self {
            model: Arc::new(model),
            prompts: Prompts::embedded()?,
            replies: REPLIES,
        })
    }

    pub(crate) fn with_prompts(mut self, prompts: Prompts) -> Self {
        self.prompts = prompts;
        self
    }

    pub(crate) fn with_replies(mut self, replies: usize) -> Self {
        self.replies = replies.max(1);
        self
    }

    /// The model's name.
    pub(crate) fn name(&self) -> &str {
        self.model.name()
    }

    /// Whether the model sees images.
    pub(crate) fn sees(&self) -> bool {
        self.model.capability().images
    }

    /// What is known that helps, as a part of a prompt; empty if nothing is.
    pub(crate) async fn known(&self, trace: &Trace, questions: &[Query]) -> Result<String> {
        let found = trace.look_up(questions).await?;
        if found.is_empty() {
            return Ok(String::new());
        }
        let article = |found: &Found| {
            json!({
                "kind": found.article.card.kind.name(),
                "name": found.article.card.name,
                "why": found.why,
                "text": found.article.text(),
            })
        };
        let articles: Vec<_> = found.iter().map(article).collect();
        self.prompts.render("known.md", json!({"articles": articles}))
    }

    /// Asks until `take` takes a reply. That the model has nothing right to say is an
    /// [`Unsupported`](crate::ErrorKind::Unsupported) error.
    pub(crate) async fn ask<T: Send>(
        &self,
        trace: &Trace,
        talk: Talk,
        mut take: impl FnMut(&ChatReply) -> Result<Result<T, Objection>> + Send,
    ) -> Result<T> {
        let at_once = |reply: &ChatReply| future::ready(take(reply)).boxed();
        self.ask_until(trace, talk, at_once).await
    }

    /// The same where it takes time to see whether a reply is right.
    pub(crate) async fn ask_until<'t, T>(
        &self,
        trace: &Trace,
        talk: Talk,
        mut take: impl FnMut(&ChatReply) -> BoxFuture<'t, Result<Result<T, Objection>>> + Send,
    ) -> Result<T> {
        let model = trace.asking(talk.role, Arc::clone(&self.model));
        let mut request = ChatRequest::new(talk.opening);
        request.output = talk.output.filter(|_| self.model.capability().schema);
        let mut wrong: BTreeMap<String, usize> = BTreeMap::new();
        let mut last = String::new();
        let nothing = |why: &str| {
            Error::unsupported(format!("the model has nothing right to say: {why}"))
                .with("role", talk.role)
                .with("model", self.model.name())
        };
        for _ in 0..self.replies {
            let reply = model.chat(&request).await?;
            let taken = match reply.stop {
                Stop::Refused => return Err(nothing(&format!("it refused to answer: {}", reply.text))),
                Stop::Length => {
                    Err("The reply was cut off before its end. Say less around what was asked for.".into())
                }
                Stop::Calls => {
                    Err("There are no tools to call. Say in the reply itself what was asked for.".into())
                }
                _ => take(&reply).await?,
            };
            let objection = match taken {
                Ok(taken) => return Ok(taken),
                Err(objection) => objection,
            };
            let repeats = objection.what.map_or(0, |what| {
                let times = wrong.entry(what).or_default();
                *times += 1;
                *times - 1
            });
            if repeats > MOST_REPEATS {
                return Err(nothing(&format!("it repeats itself; {}", objection.wrong)));
            }
            let answer = json!({"objection": objection.wrong, "repeated": repeats > 0, "form": talk.form});
            request.messages.push(said(reply));
            let answer = self.prompts.render("objection.md", answer)?;
            request.messages.push(Message::user(answer));
            last = objection.wrong;
        }
        Err(nothing(&format!(
            "none of {} replies was right; of the last: {last}",
            self.replies
        )))
    }
}

/// A reply as part of the conversation. Calls are left out: servers refuse conversations in which they have no results.
fn said(reply: ChatReply) -> Message {
    let called = reply.text.is_empty() && !reply.calls.is_empty();
    Message::Assistant {
        text: if called {
            "(a call of a tool)".to_owned()
        } else {
            reply.text
        },
        calls: Vec::new(),
    }
}

/// The value whose JSON a reply is, by itself or in a fenced block.
pub(crate) fn json_in<T: DeserializeOwned>(reply: &ChatReply) -> Result<T, Objection> {
    let fenced = Block::last(&reply.text, |text| text.trim_start().starts_with('{'));
    let text = fenced.unwrap_or(&reply.text);
    serde_json::from_str(text).map_err(|e| {
        Objection::to(
            reply.text.as_str(),
            format!("That is not the JSON that was asked for: {e}."),
        )
    })
}
