//! Anthropic's messages.

mod wire;

use akg_core::Result;
use akg_core::chat::{ChatCapability, ChatModel, ChatReply, ChatRequest, Sink};
use async_trait::async_trait;
use serde_json::Value;

use crate::config::ModelConfig;
use crate::http::Endpoint;
use wire::Assembly;

/// A model behind an address that takes Anthropic's messages.
#[derive(Debug)]
pub struct Anthropic {
    model: String,
    capability: ChatCapability,
    max_tokens: u32,
    endpoint: Endpoint,
}

impl Anthropic {
    /// Takes the model, base URL (Anthropic's if there is none), key, longest reply (8192 tokens if nothing is said) and
    /// capabilities of `config`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`](akg_core::ErrorKind::InvalidInput) if no model is named, or the URL or the key cannot be
    /// one.
    pub fn new(config: &ModelConfig) -> Result<Self> {
        let base = config
            .base_url
            .as_deref()
            .unwrap_or("https://api.anthropic.com/v1");
        let key = config.key.as_ref();
        let mut headers = vec![("anthropic-version", "2023-06-01".to_owned())];
        headers.extend(key.map(|key| ("x-api-key", key.reveal().to_owned())));
        Ok(Self {
            model: config.model()?.to_owned(),
            capability: config.capability(),
            max_tokens: config.max_tokens.unwrap_or(8192),
            endpoint: Endpoint::new(base, "messages", &headers, key.cloned())?,
        })
    }

    fn body(&self, request: &ChatRequest, stream: bool) -> Result<Value> {
        self.capability.admit(&self.model, request)?;
        Ok(wire::body(&self.model, request, self.max_tokens, stream))
    }
}

#[async_trait]
impl ChatModel for Anthropic {
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
        self.endpoint.events(&body, &mut each).await?;
        assembly.finish().map_err(|what| self.endpoint.unavailable(what))
    }
}
