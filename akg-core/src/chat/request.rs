//! What a model is asked.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::{Error, Result};
use crate::source::base64_bytes;

/// A conversation so far, and what is wanted of the next message.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ChatRequest {
    /// The conversation, oldest first.
    pub messages: Vec<Message>,
    /// What the model may call.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<Tool>,
    /// The form of the answer, if it is to be JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<OutputSchema>,
    /// The most tokens that the answer may have; `None` leaves it to the client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// How freely the model chooses; `None` leaves it to the model, and some models take nothing else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
}

impl ChatRequest {
    /// A request for the message after these.
    pub fn new(messages: impl IntoIterator<Item = Message>) -> Self {
        Self {
            messages: messages.into_iter().collect(),
            ..Self::default()
        }
    }

    /// With what the model may call.
    #[must_use]
    pub fn with_tools(mut self, tools: impl IntoIterator<Item = Tool>) -> Self {
        self.tools = tools.into_iter().collect();
        self
    }

    /// With the form that the answer must have.
    #[must_use]
    pub fn with_output(mut self, output: OutputSchema) -> Self {
        self.output = Some(output);
        self
    }

    /// Whether a message has an image.
    pub fn has_images(&self) -> bool {
        let image = |c: &Content| matches!(c, Content::Image { .. });
        self.messages
            .iter()
            .any(|m| matches!(m, Message::User { content } if content.iter().any(image)))
    }
}

/// A message of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "kebab-case")]
pub enum Message {
    /// What holds for the whole conversation.
    System {
        /// The rules.
        text: String,
    },
    /// What the agent says.
    User {
        /// Its parts, in order.
        content: Vec<Content>,
    },
    /// What the model said.
    Assistant {
        /// Its text.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        text: String,
        /// What it called.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        calls: Vec<ToolCall>,
    },
    /// What a call came to.
    Tool {
        /// The [id](ToolCall::id) of the call.
        call: String,
        /// The result.
        text: String,
    },
}

impl Message {
    /// What holds for the whole conversation.
    pub fn system(text: impl Into<String>) -> Self {
        Message::System { text: text.into() }
    }

    /// A text of the agent's.
    pub fn user(text: impl Into<String>) -> Self {
        Message::User {
            content: vec![Content::Text { text: text.into() }],
        }
    }

    /// What `call` came to.
    pub fn result(call: &ToolCall, text: impl Into<String>) -> Self {
        Message::Tool {
            call: call.id.clone(),
            text: text.into(),
        }
    }
}

/// A part of what an agent says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum Content {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// A picture.
    Image {
        /// What the bytes are, such as `image/png`.
        media_type: String,
        /// The bytes, base64 in JSON.
        #[serde(with = "base64_bytes")]
        data: Vec<u8>,
    },
}

/// Something that a model may call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tool {
    /// The name: letters, digits, `_` and `-`.
    pub name: String,
    /// What it does and when to call it.
    pub description: String,
    /// The JSON schema of its arguments, an object.
    pub parameters: Value,
}

impl Tool {
    /// A tool.
    pub fn new(name: impl Into<String>, description: impl Into<String>, parameters: Value) -> Self {
        Self {
            name: name.into(),
            description: description.into(),
            parameters,
        }
    }
}

/// A call that a model makes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// What the [result](Message::Tool) names it by.
    pub id: String,
    /// The tool.
    pub name: String,
    /// The arguments as the model wrote them. They should be JSON that follows the schema; a model may err.
    pub arguments: String,
}

impl ToolCall {
    /// The arguments.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) if they are not the JSON of a `T`. The message is fit
    /// to be the call's result, so that the model can try again.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_str(&self.arguments).map_err(|e| {
            Error::invalid(format!(
                "the arguments of the call of `{}` are not what its schema asks for: {e}",
                self.name
            ))
        })
    }
}

/// The form of an answer in JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OutputSchema {
    /// A name for the form: letters, digits, `_` and `-`.
    pub name: String,
    /// The JSON schema. Servers that enforce one want an object without additional properties whose properties are all
    /// required.
    pub schema: Value,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn requests_are_plain_json() {
        let call = ToolCall {
            id: "c1".to_owned(),
            name: "add".to_owned(),
            arguments: "{\"a\":2}".to_owned(),
        };
        let request = ChatRequest::new([
            Message::system("be short"),
            Message::User {
                content: vec![Content::Image {
                    media_type: "image/png".to_owned(),
                    data: b"png".to_vec(),
                }],
            },
            Message::Assistant {
                text: String::new(),
                calls: vec![call.clone()],
            },
            Message::result(&call, "5"),
        ]);
        let written = json!({"messages": [
            {"role": "system", "text": "be short"},
            {"role": "user", "content": [{"type": "image", "media_type": "image/png", "data": "cG5n"}]},
            {"role": "assistant", "calls": [{"id": "c1", "name": "add", "arguments": "{\"a\":2}"}]},
            {"role": "tool", "call": "c1", "text": "5"},
        ]});
        assert_eq!(serde_json::to_value(&request).unwrap(), written);
        assert_eq!(serde_json::from_value::<ChatRequest>(written).unwrap(), request);
    }

    #[test]
    fn arguments_that_are_wrong_say_so() {
        let call = |arguments: &str| ToolCall {
            id: String::new(),
            name: "add".to_owned(),
            arguments: arguments.to_owned(),
        };
        assert_eq!(call("[2, 3]").parse::<Vec<u8>>().unwrap(), [2, 3]);
        let error = call("[2,").parse::<Vec<u8>>().unwrap_err();
        assert!(error.message().contains("`add`"), "{error}");
    }
}
