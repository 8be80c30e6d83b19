//! Streaming where nobody listens.

use std::sync::Arc;

use akg_core::Result;
use akg_core::chat::{ChatModel, ChatReply, ChatRequest, Sink};

use crate::layer::around;

/// A model whose replies stream in any case: gateways cut connections on which nothing arrives for long.
#[derive(Debug)]
pub struct Streamed {
    model: Arc<dyn ChatModel>,
}

impl Streamed {
    /// Lets `model` stream every reply.
    pub fn new(model: Arc<dyn ChatModel>) -> Self {
        Self { model }
    }

    async fn run(&self, request: &ChatRequest, sink: Option<Sink<'_>>) -> Result<ChatReply> {
        match sink {
            Some(sink) => self.model.stream(request, sink).await,
            None => self.model.stream(request, &mut |_| {}).await,
        }
    }
}

around!(Streamed);
