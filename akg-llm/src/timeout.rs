//! Giving up.

use std::sync::Arc;
use std::time::Duration;

use akg_core::chat::{ChatModel, ChatReply, ChatRequest, Sink};
use akg_core::{Error, ErrorKind, Result};

use crate::layer::{around, pass};
use crate::runtime;

/// A model that is given up when a reply takes too long, from the call to its last word.
#[derive(Debug)]
pub struct Timeout {
    model: Arc<dyn ChatModel>,
    limit: Duration,
}

impl Timeout {
    /// Gives `model` as long as `limit` for a reply.
    pub fn new(model: Arc<dyn ChatModel>, limit: Duration) -> Self {
        Self { model, limit }
    }

    async fn run(&self, request: &ChatRequest, sink: Option<Sink<'_>>) -> Result<ChatReply> {
        let call = pass(&*self.model, request, sink);
        runtime::within(self.limit, call).await?.unwrap_or_else(|| {
            let message = format!(
                "the model did not finish its reply within {:?}; raise the limit if it needs longer",
                self.limit
            );
            Err(Error::new(ErrorKind::Timeout, message).with("model", self.model.name()))
        })
    }
}

around!(Timeout);
