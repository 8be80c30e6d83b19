//! What a model answers.

use std::iter::Sum;
use std::ops::Add;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{ChatEvent, Message, ToolCall};
use crate::error::{Error, Result};

/// The next message of a conversation. In JSON every field may be missing.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ChatReply {
    /// What the model says.
    pub text: String,
    /// What it calls.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<ToolCall>,
    /// Why it stopped.
    pub stop: Stop,
    /// What it cost; `None` if the server does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// The model that answered, as the server calls it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

impl ChatReply {
    /// A reply of text alone.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            ..Self::default()
        }
    }

    /// Whether the model is done without a text or a call: no answer, then.
    pub fn says_nothing(&self) -> bool {
        self.text.is_empty() && self.calls.is_empty() && self.stop == Stop::End
    }

    /// The reply as a message, to go on with the conversation.
    pub fn message(&self) -> Message {
        Message::Assistant {
            text: self.text.clone(),
            calls: self.calls.clone(),
        }
    }

    /// The value whose JSON the text is.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) if it is not the JSON of a `T`. The message is fit to be
    /// told to the model.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_str(&self.text).map_err(|e| {
            let hint = match self.stop {
                Stop::Length => "; it was cut off at the most tokens that it may have",
                _ => "",
            };
            Error::invalid(format!("the reply is not the JSON that was asked for: {e}{hint}"))
        })
    }

    /// The events of a reply that arrives all at once.
    pub fn events(&self) -> impl Iterator<Item = ChatEvent> + '_ {
        let text = (!self.text.is_empty()).then(|| ChatEvent::Text(self.text.clone()));
        text.into_iter()
            .chain(self.calls.iter().cloned().map(ChatEvent::Call))
    }
}

/// Why a model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Stop {
    /// It had said what it wanted.
    #[default]
    End,
    /// It waits for the results of its calls.
    Calls,
    /// It reached the most tokens that it may use.
    Length,
    /// It, or who watches over it, refused to answer.
    Refused,
    /// For a reason that akg does not know.
    Other,
}

/// The tokens of one or several replies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// Tokens that were read, with those that were cached.
    pub input: u64,
    /// Those of the tokens read that came cheaper from the server's cache.
    pub cached: u64,
    /// Tokens that were written, with those of thoughts that are not shown.
    pub output: u64,
}

impl Usage {
    /// Tokens read and written.
    pub const fn total(&self) -> u64 {
        self.input.saturating_add(self.output)
    }
}

impl Add for Usage {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            input: self.input.saturating_add(other.input),
            cached: self.cached.saturating_add(other.cached),
            output: self.output.saturating_add(other.output),
        }
    }
}

impl Sum for Usage {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), Add::add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_alone_is_a_reply() {
        let reply: ChatReply = serde_json::from_str(r#"{"text": "hello"}"#).unwrap();
        assert_eq!(reply, ChatReply::text("hello"));
    }

    #[test]
    fn json_that_was_cut_off_says_so() {
        let mut reply = ChatReply::text("[1, 2");
        reply.stop = Stop::Length;
        let error = reply.parse::<Vec<u8>>().unwrap_err();
        assert!(error.message().contains("cut off"), "{error}");
        reply.text.push(']');
        assert_eq!(reply.parse::<Vec<u8>>().unwrap(), [1, 2]);
    }
}
