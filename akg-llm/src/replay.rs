//! Saying again what was said.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use akg_core::chat::{ChatCapability, ChatModel, ChatReply, ChatRequest, Sink};
use akg_core::{Digest, Error, Result};
use async_trait::async_trait;
use serde_json::Value;
use similar::TextDiff;

use crate::cassette::{self, Exchange};

/// A recording that is played. Each exchange is played once, to the first request that equals its own; so the same run gets
/// the same replies, also where its calls overlap and come in another order.
#[derive(Debug)]
pub struct Cassette {
    path: PathBuf,
    /// `None` for what was played.
    exchanges: Mutex<Vec<Option<Exchange>>>,
}

impl Cassette {
    /// Reads a recording.
    ///
    /// # Errors
    /// See [`cassette::read`](crate::read_recording).
    pub fn open(path: &Path) -> Result<Arc<Self>> {
        let exchanges = cassette::read(path)?.into_iter().map(Some).collect();
        Ok(Arc::new(Self {
            path: path.to_owned(),
            exchanges: Mutex::new(exchanges),
        }))
    }

    /// How many exchanges were not played yet.
    pub fn remaining(&self) -> usize {
        let exchanges = self.exchanges.lock().unwrap_or_else(PoisonError::into_inner);
        exchanges.iter().flatten().count()
    }

    /// What the recording says that a model is capable of; nothing if it does not occur.
    fn capability(&self, model: &str) -> ChatCapability {
        let exchanges = self.exchanges.lock().unwrap_or_else(PoisonError::into_inner);
        let first = exchanges.iter().flatten().find(|e| e.model == model);
        first.map(|e| e.capability).unwrap_or_default()
    }

    fn take(&self, model: &str, request: &ChatRequest) -> Result<Exchange> {
        let mut exchanges = self.exchanges.lock().unwrap_or_else(PoisonError::into_inner);
        let is = |e: &Exchange| e.model == model && e.request == *request;
        let slot = exchanges.iter_mut().find(|slot| slot.as_ref().is_some_and(is));
        if let Some(exchange) = slot.and_then(Option::take) {
            return Ok(exchange);
        }
        let total = exchanges.len();
        let next = exchanges.iter().flatten().find(|e| e.model == model);
        let error = |message: String| {
            Error::invalid(message)
                .with("recording", self.path.display())
                .with("model", model)
        };
        Err(match next {
            None => error(format!(
                "none of the {total} recorded exchanges is left for the model; record the run again"
            )),
            Some(next) => error(
                "the request was not recorded, or was answered before; record the run again, or undo what changed it"
                    .to_owned(),
            )
            .with("difference to the next one recorded", difference(&next.request, request)),
        })
    }
}

/// A model that answers from a recording. It needs no network.
#[derive(Debug)]
pub struct Replay {
    name: String,
    capability: ChatCapability,
    cassette: Arc<Cassette>,
}

impl Replay {
    /// Answers as the model called `name` did.
    pub fn new(name: impl Into<String>, cassette: Arc<Cassette>) -> Self {
        let name = name.into();
        let capability = cassette.capability(&name);
        Self {
            name,
            capability,
            cassette,
        }
    }
}

#[async_trait]
impl ChatModel for Replay {
    fn name(&self) -> &str {
        &self.name
    }

    fn capability(&self) -> ChatCapability {
        self.capability
    }

    /// # Errors
    /// [`ErrorKind::InvalidInput`](akg_core::ErrorKind::InvalidInput) for a request that was not recorded, with its
    /// difference to the next one that was.
    async fn chat(&self, request: &ChatRequest) -> Result<ChatReply> {
        self.cassette.take(&self.name, request)?.outcome.into_result()
    }

    async fn stream(&self, request: &ChatRequest, sink: Sink<'_>) -> Result<ChatReply> {
        let exchange = self.cassette.take(&self.name, request)?;
        let streamed = !exchange.events.is_empty();
        exchange.events.into_iter().for_each(&mut *sink);
        let reply = exchange.outcome.into_result()?;
        if !streamed {
            reply.events().for_each(sink);
        }
        Ok(reply)
    }
}

/// How `asked` differs from `recorded`, as lines with `-` and `+`.
fn difference(recorded: &ChatRequest, asked: &ChatRequest) -> String {
    let text = |request: &ChatRequest| {
        let mut text = String::new();
        if let Ok(value) = serde_json::to_value(request) {
            outline(&value, "request", &mut text);
        }
        text
    };
    let (recorded, asked) = (text(recorded), text(asked));
    let lines = TextDiff::from_lines(&recorded, &asked);
    let lines = lines
        .unified_diff()
        .context_radius(2)
        .header("recorded", "asked")
        .to_string();
    format!("\n{}", lines.trim_end())
}

/// A line for each leaf, and for each line of a text, behind the path to it.
fn outline(value: &Value, path: &str, out: &mut String) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                outline(value, &format!("{path}.{name}"), out);
            }
        }
        Value::Array(items) => {
            for (at, value) in items.iter().enumerate() {
                outline(value, &format!("{path}[{at}]"), out);
            }
        }
        Value::String(text) => {
            for line in text.split('\n') {
                let _ = writeln!(out, "{path}: {}", short(line));
            }
        }
        other => {
            let _ = writeln!(out, "{path}: {other}");
        }
    }
}

/// A line, or what tells a long one (such as a picture) from others.
fn short(line: &str) -> String {
    const LONGEST: usize = 200;
    match line.char_indices().nth(LONGEST) {
        None => line.to_owned(),
        Some((at, _)) => {
            let digest = Digest::of(line.as_bytes());
            format!("{}… ({} bytes, {digest})", line.split_at(at).0, line.len())
        }
    }
}

#[cfg(test)]
mod tests {
    use akg_core::chat::Message;

    use super::*;

    #[test]
    fn differences_are_lines_of_the_texts() {
        let ask = |text: &str| ChatRequest::new([Message::system("be kind\n\n\n\n"), Message::user(text)]);
        let long = "x".repeat(1000);
        let shown = difference(
            &ask(&format!("one\ntwo\nthree\n{long}y")),
            &ask(&format!("one\n2\nthree\n{long}z")),
        );
        let has = |line: &str| shown.lines().any(|l| l == line);
        assert!(has("-request.messages[1].content[0].text: two"), "{shown}");
        assert!(has("+request.messages[1].content[0].text: 2"), "{shown}");
        assert!(has(" request.messages[1].content[0].text: three"), "{shown}");
        assert!(!shown.contains("be kind"), "{shown}");
        assert_eq!(shown.matches("… (1001 bytes, ").count(), 2, "{shown}");
    }
}
