//! Keeping what was said.

use std::sync::Arc;

use akg_core::Result;
use akg_core::chat::{ChatEvent, ChatModel, ChatReply, ChatRequest, Sink};

use crate::cassette::{Exchange, Outcome, Recorder};
use crate::layer::{around, pass};

/// A model whose exchanges are recorded, those that fail among them.
///
/// An exchange is in the file before its reply is handed on. A reply that cannot be recorded is an error.
#[derive(Debug)]
pub struct Record {
    model: Arc<dyn ChatModel>,
    recorder: Arc<Recorder>,
}

impl Record {
    /// Records what `model` is asked and answers.
    pub fn new(model: Arc<dyn ChatModel>, recorder: Arc<Recorder>) -> Self {
        Self { model, recorder }
    }

    async fn run(&self, request: &ChatRequest, sink: Option<Sink<'_>>) -> Result<ChatReply> {
        let mut events = Vec::new();
        let result = match sink {
            None => pass(&*self.model, request, None).await,
            Some(sink) => {
                let mut keep = |event: ChatEvent| {
                    events.push(event.clone());
                    sink(event);
                };
                pass(&*self.model, request, Some(&mut keep)).await
            }
        };
        self.recorder.write(&Exchange {
            model: self.model.name().to_owned(),
            capability: self.model.capability(),
            request: request.clone(),
            events,
            outcome: Outcome::of(&result),
        })?;
        result
    }
}

around!(Record);
