//! Chat completions, as OpenAI made them and many servers speak them.

mod embedder;
pub(crate) mod wire;

pub use embedder::OpenAiEmbedder;

use akg_core::chat::{ChatCapability, ChatModel, ChatReply, ChatRequest, Sink};
use akg_core::{ErrorKind, Result};
use async_trait::async_trait;
use serde_json::Value;

use crate::config::ModelConfig;
use crate::http::Endpoint;
use wire::{Assembly, Dialect};

/// Where OpenAI itself is.
const OPENAI: &str = "https://api.openai.com/v1";

/// Where the server of `config` is.
fn base(config: &ModelConfig) -> &str {
    config.base_url.as_deref().unwrap_or(OPENAI)
}

/// The address `path` of the server.
fn endpoint(config: &ModelConfig, path: &str) -> Result<Endpoint> {
    let key = config.key.as_ref();
    let bearer = key.map(|key| ("authorization", format!("Bearer {}", key.reveal())));
    let headers: Vec<_> = bearer.into_iter().collect();
    Endpoint::new(base(config), path, &headers, key.cloned())
}

/// A model behind an address that takes chat completions: OpenAI's own, a gateway, or a server such as vLLM or llama.cpp.
#[derive(Debug)]
pub struct OpenAi {
    model: String,
    capability: ChatCapability,
    max_tokens: Option<u32>,
    dialect: Dialect,
    endpoint: Endpoint,
}

impl OpenAi {
    /// Takes the model, base URL (OpenAI's if there is none), key, longest reply and capabilities of `config`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] if no model is named, or the URL or the key cannot be one.
    pub fn new(config: &ModelConfig) -> Result<Self> {
        Ok(Self {
            model: config.model()?.to_owned(),
            capability: config.capability(),
            max_tokens: config.max_tokens,
            dialect: Dialect::of(base(config)),
            endpoint: endpoint(config, "chat/completions")?,
        })
    }

    fn body(&self, request: &ChatRequest, stream: bool) -> Result<Value> {
        self.capability.admit(&self.model, request)?;
        Ok(wire::body(
            &self.model,
            request,
            self.max_tokens,
            self.dialect,
            stream,
        ))
    }
}

#[async_trait]
impl ChatModel for OpenAi {
    fn name(&self) -> &str {
        &self.model
    }

    fn capability(&self) -> ChatCapability {
        self.capability
    }

    async fn chat(&self, request: &ChatRequest) -> Result<ChatReply> {
        let body = self.body(request, false)?;
        let answer = self.endpoint.ask(&body).await?;
        wire::reply(answer).map_err(|what| self.endpoint.unavailable(what))
    }

    async fn stream(&self, request: &ChatRequest, sink: Sink<'_>) -> Result<ChatReply> {
        let body = self.body(request, true)?;
        let mut assembly = Assembly::default();
        let mut each = |data: &str| {
            let progress = assembly.take(data, sink);
            progress.map_err(|what| self.endpoint.unavailable(what))
        };
        match self.endpoint.events(&body, &mut each).await {
            Ok(()) => {}
            // Some servers close the stream without saying `[DONE]`.
            Err(error) if error.kind() == ErrorKind::Unavailable && assembly.is_complete() => {}
            Err(error) => return Err(error),
        }
        assembly
            .finish(sink)
            .map_err(|what| self.endpoint.unavailable(what))
    }
}
