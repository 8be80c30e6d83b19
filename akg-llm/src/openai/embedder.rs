//! Embeddings, as OpenAI made them and many servers speak them.

use std::sync::Arc;
use std::time::Duration;

use akg_core::chat::Usage;
use akg_core::knowledge::Embedder;
use akg_core::{Error, ErrorKind, Result};
use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};

use super::endpoint;
use crate::config::{ModelConfig, Provider};
use crate::http::Endpoint;
use crate::limit::Gate;
use crate::meter::{Account, Price, tokens};
use crate::retry::Backoff;
use crate::runtime;

/// An embedder behind an address that takes embeddings: OpenAI's own, a gateway, or a server such as vLLM or llama.cpp. It keeps
/// the limits of its configuration, asks again after what may pass, and puts its tokens on the account of the run.
#[derive(Debug)]
pub struct OpenAiEmbedder {
    model: String,
    endpoint: Endpoint,
    time_limit: Option<Duration>,
    gate: Gate,
    backoff: Backoff,
    price: Price,
    account: Arc<Account>,
}

impl OpenAiEmbedder {
    /// Takes the model, base URL (OpenAI's if there is none), key, limits and price of `config`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] if no model is named, or the URL, the key or the time limit cannot be one;
    /// [`ErrorKind::Unsupported`] for other providers.
    pub fn new(config: &ModelConfig, account: Arc<Account>) -> Result<Self> {
        if !matches!(config.provider, None | Some(Provider::Openai)) {
            return Err(Error::unsupported(
                "only servers that speak like OpenAI's embed texts; set `AKG_LLM_EMBEDDER_PROVIDER=openai` and \
                 `AKG_LLM_EMBEDDER_BASE_URL`",
            ));
        }
        Ok(Self {
            model: config.model()?.to_owned(),
            endpoint: endpoint(config, "embeddings")?,
            time_limit: config.time_limit()?,
            gate: Gate::new(config.at_once(), config.per_minute),
            backoff: config.backoff(),
            price: config.price(),
            account,
        })
    }

    async fn ask(&self, body: &Value) -> Result<Answer> {
        let _pass = self.gate.pass().await?;
        let call = self.endpoint.ask(body);
        let answer = match self.time_limit {
            None => call.await?,
            Some(limit) => runtime::within(limit, call).await?.unwrap_or_else(|| {
                let message = format!("the embedder did not answer within {limit:?}");
                Err(Error::new(ErrorKind::Timeout, message))
            })?,
        };
        serde_json::from_value(answer).map_err(|e| {
            self.endpoint
                .unavailable(format!("the server's reply has no embeddings: {e}"))
        })
    }
}

#[async_trait]
impl Embedder for OpenAiEmbedder {
    fn name(&self) -> &str {
        &self.model
    }

    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>> {
        self.account
            .check()
            .map_err(|e| e.with("embedder", &self.model))?;
        let body = json!({"model": self.model, "input": texts, "encoding_format": "float"});
        let mut tries = self.backoff.tries();
        let mut answer = loop {
            match self.ask(&body).await {
                Ok(answer) => break answer,
                Err(error) => tries.after(error.with("embedder", &self.model)).await?,
            }
        };
        let said = answer.usage.map(|usage| usage.prompt_tokens);
        let input = said.unwrap_or_else(|| tokens(texts.iter().map(String::len).sum()));
        let usage = Usage {
            input,
            ..Usage::default()
        };
        self.account.add(usage, said.is_none(), self.price);
        answer.data.sort_by_key(|one| one.index);
        Ok(answer.data.into_iter().map(|one| one.embedding).collect())
    }
}

/// What the server answers.
#[derive(Deserialize)]
struct Answer {
    data: Vec<One>,
    #[serde(default)]
    usage: Option<Taken>,
}

/// The embedding of one text.
#[derive(Deserialize)]
struct One {
    index: usize,
    embedding: Vec<f32>,
}

/// What it took.
#[derive(Deserialize)]
struct Taken {
    prompt_tokens: u64,
}
