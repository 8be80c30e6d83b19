//! Messages in JSON. What a server says wrongly is a text here; who sent the request makes an error of it.

use akg_core::chat::{
    ChatEvent, ChatReply, ChatRequest, Content, Message, Sink, Stop, Tool, ToolCall, Usage,
};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::http::Progress;

/// The body of a request.
pub(super) fn body(model: &str, request: &ChatRequest, max_tokens: u32, stream: bool) -> Value {
    let mut body = Map::new();
    body.insert("model".to_owned(), model.into());
    body.insert(
        "max_tokens".to_owned(),
        request.max_tokens.unwrap_or(max_tokens).into(),
    );
    let system: Vec<_> = request
        .messages
        .iter()
        .filter_map(|message| match message {
            Message::System { text } => Some(json!({"type": "text", "text": text})),
            _ => None,
        })
        .collect();
    if !system.is_empty() {
        body.insert("system".to_owned(), system.into());
    }
    body.insert("messages".to_owned(), messages(&request.messages).into());
    if !request.tools.is_empty() {
        body.insert("tools".to_owned(), request.tools.iter().map(tool).collect());
    }
    if let Some(output) = &request.output {
        let format = json!({"type": "json_schema", "schema": output.schema});
        body.insert("output_config".to_owned(), json!({"format": format}));
    }
    if let Some(temperature) = request.temperature {
        body.insert("temperature".to_owned(), temperature.into());
    }
    if stream {
        body.insert("stream".to_owned(), true.into());
    }
    Value::Object(body)
}

/// The messages but for those of the system. The results of calls are the user's here, all of them in one message.
fn messages(all: &[Message]) -> Vec<Value> {
    let mut messages: Vec<(&str, Vec<Value>)> = Vec::new();
    for message in all {
        let (role, blocks) = match message {
            Message::System { .. } => continue,
            Message::User { content } => ("user", content.iter().map(block).collect()),
            Message::Tool { call, text } => {
                let result = json!({"type": "tool_result", "tool_use_id": call, "content": text});
                ("user", vec![result])
            }
            Message::Assistant { text, calls } => {
                // An empty block is refused.
                let text = (!text.is_empty()).then(|| json!({"type": "text", "text": text}));
                (
                    "assistant",
                    text.into_iter().chain(calls.iter().map(tool_use)).collect(),
                )
            }
        };
        match messages.last_mut() {
            Some((last, content)) if *last == role => content.extend(blocks),
            _ => messages.push((role, blocks)),
        }
    }
    let write = |(role, content)| json!({"role": role, "content": content});
    messages.into_iter().map(write).collect()
}

fn block(content: &Content) -> Value {
    match content {
        Content::Text { text } => json!({"type": "text", "text": text}),
        Content::Image { media_type, data } => {
            let source = json!({"type": "base64", "media_type": media_type, "data": BASE64.encode(data)});
            json!({"type": "image", "source": source})
        }
    }
}

fn tool_use(call: &ToolCall) -> Value {
    // Only objects are taken, so what a model wrote wrongly is shown to it inside one.
    let input: Map<String, Value> = call
        .parse()
        .unwrap_or_else(|_| Map::from_iter([("malformed".to_owned(), call.arguments.as_str().into())]));
    json!({"type": "tool_use", "id": call.id, "name": call.name, "input": input})
}

fn tool(tool: &Tool) -> Value {
    json!({"name": tool.name, "description": tool.description, "input_schema": tool.parameters})
}

#[derive(Debug, Deserialize)]
struct Answer {
    #[serde(default)]
    model: Option<String>,
    #[serde(default)]
    content: Vec<Block>,
    #[serde(default)]
    stop_reason: Option<String>,
    #[serde(default)]
    usage: WireUsage,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block {
    Text {
        text: String,
    },
    ToolUse {
        id: String,
        name: String,
        #[serde(default)]
        input: Value,
    },
    #[serde(other)]
    Other,
}

/// Each number is that of the whole reply so far, where there is one.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WireUsage {
    #[serde(rename = "input_tokens")]
    fresh: Option<u64>,
    #[serde(rename = "cache_creation_input_tokens")]
    cached_now: Option<u64>,
    #[serde(rename = "cache_read_input_tokens")]
    cached: Option<u64>,
    #[serde(rename = "output_tokens")]
    output: Option<u64>,
}

impl WireUsage {
    fn update(&mut self, newer: WireUsage) {
        *self = Self {
            fresh: newer.fresh.or(self.fresh),
            cached_now: newer.cached_now.or(self.cached_now),
            cached: newer.cached.or(self.cached),
            output: newer.output.or(self.output),
        };
    }

    fn total(&self) -> Option<Usage> {
        let cached = self.cached.unwrap_or(0);
        let input = self.fresh?.saturating_add(cached);
        Some(Usage {
            input: input.saturating_add(self.cached_now.unwrap_or(0)),
            cached,
            output: self.output?,
        })
    }
}

#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Event {
    MessageStart {
        message: Answer,
    },
    ContentBlockStart {
        content_block: Block,
    },
    ContentBlockDelta {
        delta: Delta,
    },
    ContentBlockStop,
    MessageDelta {
        delta: Ended,
        #[serde(default)]
        usage: WireUsage,
    },
    MessageStop,
    Error {
        error: Value,
    },
    #[serde(other)]
    Other,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "type")]
enum Delta {
    #[serde(rename = "text_delta")]
    Text { text: String },
    #[serde(rename = "input_json_delta")]
    Json { partial_json: String },
    #[serde(other)]
    Other,
}

#[derive(Debug, Deserialize)]
struct Ended {
    #[serde(default)]
    stop_reason: Option<String>,
}

/// The reply that an answer is.
pub(super) fn reply(answer: Value) -> Result<ChatReply, String> {
    let answer: Answer =
        serde_json::from_value(answer).map_err(|e| format!("the server's reply is no message: {e}"))?;
    let mut assembly = Assembly::default();
    assembly.add(answer, &mut |_| {});
    assembly.finish()
}

/// A reply that arrives in pieces.
#[derive(Debug, Default)]
pub(super) struct Assembly {
    reply: ChatReply,
    usage: WireUsage,
    /// The call whose arguments arrive.
    open: Option<ToolCall>,
    stop_reason: Option<String>,
}

impl Assembly {
    /// Takes the data of an event.
    pub(super) fn take(&mut self, data: &str, sink: Sink<'_>) -> Result<Progress, String> {
        let event = serde_json::from_str(data)
            .map_err(|e| format!("an event of the stream is none that a message has: {e}"))?;
        match event {
            Event::MessageStart { message } => self.add(message, sink),
            Event::ContentBlockStart { content_block } => self.begin(content_block, sink),
            Event::ContentBlockDelta { delta } => match delta {
                Delta::Text { text } => self.text(text, sink),
                Delta::Json { partial_json } => {
                    if let Some(call) = &mut self.open {
                        call.arguments.push_str(&partial_json);
                    }
                }
                Delta::Other => {}
            },
            Event::ContentBlockStop => self.close(sink),
            Event::MessageDelta { delta, usage } => {
                self.stop_reason = delta.stop_reason.or(self.stop_reason.take());
                self.usage.update(usage);
            }
            Event::MessageStop => return Ok(Progress::Done),
            Event::Error { error } => {
                let said = error.get("message").and_then(Value::as_str);
                let said = said.map_or_else(|| error.to_string(), str::to_owned);
                return Err(format!("the server failed while it replied: {said}"));
            }
            Event::Other => {}
        }
        Ok(Progress::More)
    }

    fn add(&mut self, answer: Answer, sink: Sink<'_>) {
        for block in answer.content {
            self.begin(block, sink);
            self.close(sink);
        }
        self.reply.model = answer.model;
        self.stop_reason = answer.stop_reason;
        self.usage.update(answer.usage);
    }

    fn text(&mut self, text: String, sink: Sink<'_>) {
        if !text.is_empty() {
            self.reply.text.push_str(&text);
            sink(ChatEvent::Text(text));
        }
    }

    fn begin(&mut self, block: Block, sink: Sink<'_>) {
        match block {
            Block::Text { text } => self.text(text, sink),
            Block::ToolUse { id, name, input } => {
                // In a stream it is empty, and follows in pieces.
                let arguments = match input.as_object() {
                    Some(fields) if !fields.is_empty() => input.to_string(),
                    _ => String::new(),
                };
                self.open = Some(ToolCall { id, name, arguments });
            }
            Block::Other => {}
        }
    }

    fn close(&mut self, sink: Sink<'_>) {
        if let Some(mut call) = self.open.take() {
            if call.arguments.is_empty() {
                "{}".clone_into(&mut call.arguments);
            }
            sink(ChatEvent::Call(call.clone()));
            self.reply.calls.push(call);
        }
    }

    /// The reply.
    pub(super) fn finish(mut self) -> Result<ChatReply, String> {
        let Some(reason) = self.stop_reason else {
            return Err("the reply broke off: the server does not say why the model stopped".to_owned());
        };
        self.reply.usage = self.usage.total();
        self.reply.stop = match reason.as_str() {
            "end_turn" | "stop_sequence" => Stop::End,
            "tool_use" => Stop::Calls,
            "max_tokens" | "model_context_window_exceeded" => Stop::Length,
            "refusal" => Stop::Refused,
            _ => Stop::Other,
        };
        if self.reply.says_nothing() {
            return Err("the model is said to be done, and has said nothing".to_owned());
        }
        Ok(self.reply)
    }
}

#[cfg(test)]
mod tests;
