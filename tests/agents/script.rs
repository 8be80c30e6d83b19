//! A model that says what a script tells it to say, by role.

use std::sync::{Arc, Mutex};

use akg::chat::{ChatCapability, ChatModel, ChatReply, ChatRequest, Content, Message};
use akg::{Error, Result};
use async_trait::async_trait;

/// What was asked, oldest first.
pub(crate) type Asked = Arc<Mutex<Vec<ChatRequest>>>;

/// A model of one role: it gives its replies one after the other, and the last one again and again.
#[derive(Debug, Clone, Default)]
pub(crate) struct Scripted {
    replies: Vec<ChatReply>,
    pub(crate) asked: Asked,
}

impl Scripted {
    pub(crate) fn new(replies: &[ChatReply]) -> Self {
        Self {
            replies: replies.to_vec(),
            asked: Asked::default(),
        }
    }

    /// The last messages of all requests.
    pub(crate) fn told(&self) -> Vec<String> {
        self.asked.lock().unwrap().iter().map(last).collect()
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

    async fn chat(&self, request: &ChatRequest) -> Result<ChatReply> {
        let mut asked = self.asked.lock().unwrap();
        let reply = self.replies.get(asked.len()).or(self.replies.last());
        asked.push(request.clone());
        reply
            .cloned()
            .ok_or_else(|| Error::unexpected("nobody wrote a reply"))
    }
}

/// The text of the last message.
fn last(request: &ChatRequest) -> String {
    let Some(Message::User { content }) = request.messages.last() else {
        return String::new();
    };
    let texts = content.iter().filter_map(|part| match part {
        Content::Text { text } => Some(text.as_str()),
        Content::Image { .. } => None,
    });
    texts.collect()
}
