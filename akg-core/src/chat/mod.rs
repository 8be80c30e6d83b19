//! Language models: what an agent asks one, and what it answers.
//!
//! A [`ChatModel`] takes a [`ChatRequest`] and gives a [`ChatReply`]; both are data that can be kept, compared and read
//! back. `akg-core` has no client: the crate `akg-llm` brings some, and retries, limits, accounts and recordings as models
//! around models.

mod block;
mod reply;
mod request;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

pub use block::Block;
pub use reply::{ChatReply, Stop, Usage};
pub use request::{ChatRequest, Content, Message, OutputSchema, Tool, ToolCall};

use crate::error::{Error, Result};

/// A language model.
///
/// A call that is dropped half-way is given up, and leaves the model as it was.
#[async_trait]
pub trait ChatModel: Send + Sync + fmt::Debug {
    /// The model's name in logs, errors and recordings.
    fn name(&self) -> &str;

    /// What requests may ask for.
    fn capability(&self) -> ChatCapability;

    /// Answers a request.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) if the request asks for what [`capability`](Self::capability)
    /// lacks, [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) if the model refuses it. Trouble that may pass has
    /// a kind that [is temporary](crate::ErrorKind::is_temporary), and
    /// [says when to come back](crate::Error::retry_after) if the server did.
    async fn chat(&self, request: &ChatRequest) -> Result<ChatReply>;

    /// Answers a request like [`chat`](Self::chat), and tells `sink` what arrives as it arrives.
    ///
    /// The texts and calls since the last [`ChatEvent::Restart`] are those of the reply, in order. A model that does not
    /// stream tells all at once.
    async fn stream(&self, request: &ChatRequest, sink: Sink<'_>) -> Result<ChatReply> {
        let reply = self.chat(request).await?;
        reply.events().for_each(sink);
        Ok(reply)
    }
}

/// Who is told what arrives.
pub type Sink<'a> = &'a mut (dyn FnMut(ChatEvent) + Send);

/// A part of a reply that arrives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChatEvent {
    /// The next piece of the text.
    Text(String),
    /// The next tool call, complete.
    Call(ToolCall),
    /// Everything so far is void: the reply broke off, and begins anew.
    Restart,
}

/// What requests to a model may ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ChatCapability {
    /// It calls tools.
    pub tools: bool,
    /// It keeps to a JSON schema.
    pub schema: bool,
    /// It sees images.
    pub images: bool,
    /// Replies arrive piece by piece.
    pub streaming: bool,
}

impl ChatCapability {
    /// Everything that there is.
    pub const ALL: Self = Self {
        tools: true,
        schema: true,
        images: true,
        streaming: true,
    };

    /// Checks that a request has something to answer, and asks for nothing that `model` lacks.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) for a request without a message of the user's,
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) for what is lacking.
    pub fn admit(&self, model: &str, request: &ChatRequest) -> Result<()> {
        let lacking = |what: &str| {
            Err(
                Error::unsupported(format!("the model cannot {what}; take another, or ask without"))
                    .with("model", model),
            )
        };
        if !request
            .messages
            .iter()
            .any(|m| matches!(m, Message::User { content } if !content.is_empty()))
        {
            let message = "the request has no message of the user's; there is nothing to answer";
            return Err(Error::invalid(message).with("model", model));
        }
        if !self.tools && !request.tools.is_empty() {
            return lacking("call tools");
        }
        if !self.schema && request.output.is_some() {
            return lacking("keep to a JSON schema");
        }
        if !self.images && request.has_images() {
            return lacking("see images");
        }
        Ok(())
    }
}

macro_rules! forward {
    ($($pointer:ident),*) => {$(
        #[async_trait]
        impl<M: ChatModel + ?Sized> ChatModel for $pointer<M> {
            fn name(&self) -> &str {
                (**self).name()
            }

            fn capability(&self) -> ChatCapability {
                (**self).capability()
            }

            async fn chat(&self, request: &ChatRequest) -> Result<ChatReply> {
                (**self).chat(request).await
            }

            async fn stream(&self, request: &ChatRequest, sink: Sink<'_>) -> Result<ChatReply> {
                (**self).stream(request, sink).await
            }
        }
    )*};
}
forward!(Arc, Box);

#[cfg(test)]
mod tests {
    use futures::executor::block_on;
    use serde_json::json;

    use super::*;
    use crate::error::ErrorKind;

    /// Answers everything with a text and a call.
    #[derive(Debug)]
    struct Parrot;

    #[async_trait]
    impl ChatModel for Parrot {
        fn name(&self) -> &str {
            "parrot"
        }

        fn capability(&self) -> ChatCapability {
            ChatCapability::default()
        }

        async fn chat(&self, request: &ChatRequest) -> Result<ChatReply> {
            self.capability().admit(self.name(), request)?;
            let calls = vec![ToolCall {
                id: "1".to_owned(),
                name: "fly".to_owned(),
                arguments: "{}".to_owned(),
            }];
            Ok(ChatReply {
                calls,
                ..ChatReply::text("squawk")
            })
        }
    }

    #[test]
    fn a_model_that_does_not_stream_tells_all_at_once() {
        let model: Arc<dyn ChatModel> = Arc::new(Parrot);
        let mut told = Vec::new();
        let request = ChatRequest::new([Message::user("hello")]);
        let reply = block_on(model.stream(&request, &mut |event| told.push(event))).unwrap();
        assert_eq!(
            told,
            [
                ChatEvent::Text("squawk".to_owned()),
                ChatEvent::Call(reply.calls[0].clone())
            ]
        );
    }

    #[test]
    fn what_a_model_lacks_is_refused_by_name() {
        let hello = ChatRequest::new([Message::user("hello")]);
        let tool = Tool::new("fly", "Flies.", json!({"type": "object"}));
        let schema = OutputSchema {
            name: "answer".to_owned(),
            schema: json!({}),
        };
        let image = Message::User {
            content: vec![Content::Image {
                media_type: "image/png".to_owned(),
                data: vec![0],
            }],
        };
        for (request, wanted) in [
            (hello.clone().with_tools([tool]), "call tools"),
            (hello.clone().with_output(schema), "JSON schema"),
            (ChatRequest::new([image]), "see images"),
        ] {
            let error = block_on(Parrot.chat(&request)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            assert!(
                error.to_string().contains(wanted) && error.to_string().contains("parrot"),
                "{error}"
            );
            ChatCapability::ALL.admit("able", &request).unwrap();
        }
        for empty in [
            ChatRequest::default(),
            ChatRequest::new([Message::system("be kind")]),
        ] {
            let error = block_on(Parrot.chat(&empty)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
        }
        block_on(Parrot.chat(&hello)).unwrap();
    }
}
