//! Chat completions in JSON. What a server says wrongly is a text here; who sent the request makes an error of it.

use akg_core::chat::{
    ChatEvent, ChatReply, ChatRequest, Content, Message, OutputSchema, Sink, Stop, Tool, ToolCall, Usage,
};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::OPENAI;
use crate::http::Progress;

/// Where servers differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// OpenAI's own, whose newer models refuse `max_tokens`.
    OpenAi,
    /// All others, some of which do not know what has replaced it.
    Compatible,
}

impl Dialect {
    pub(crate) fn of(base: &str) -> Self {
        if base.trim_end_matches('/') == OPENAI {
            Dialect::OpenAi
        } else {
            Dialect::Compatible
        }
    }
}

/// The body of a request.
pub(crate) fn body(
    model: &str,
    request: &ChatRequest,
    max_tokens: Option<u32>,
    dialect: Dialect,
    stream: bool,
) -> Value {
    let mut body = Map::new();
    body.insert("model".to_owned(), model.into());
    body.insert(
        "messages".to_owned(),
        request.messages.iter().map(message).collect(),
    );
    if !request.tools.is_empty() {
        body.insert("tools".to_owned(), request.tools.iter().map(tool).collect());
    }
    if let Some(OutputSchema { name, schema }) = &request.output {
        let schema = json!({"name": name, "schema": schema, "strict": true});
        let format = json!({"type": "json_schema", "json_schema": schema});
        body.insert("response_format".to_owned(), format);
    }
    if let Some(most) = request.max_tokens.or(max_tokens) {
        let name = match dialect {
            Dialect::OpenAi => "max_completion_tokens",
            Dialect::Compatible => "max_tokens",
        };
        body.insert(name.to_owned(), most.into());
    }
    if let Some(temperature) = request.temperature {
        body.insert("temperature".to_owned(), temperature.into());
    }
    if stream {
        body.insert("stream".to_owned(), true.into());
        body.insert("stream_options".to_owned(), json!({"include_usage": true}));
    }
    Value::Object(body)
}

fn message(message: &Message) -> Value {
    match message {
        Message::System { text } => json!({"role": "system", "content": text}),
        Message::User { content } => match &content[..] {
            [Content::Text { text }] => json!({"role": "user", "content": text}),
            parts => json!({"role": "user", "content": parts.iter().map(part).collect::<Value>()}),
        },
        Message::Assistant { text, calls } if calls.is_empty() => {
            json!({"role": "assistant", "content": text})
        }
        Message::Assistant { text, calls } => {
            let content = (!text.is_empty()).then_some(text);
            let calls: Value = calls.iter().map(call).collect();
            json!({"role": "assistant", "content": content, "tool_calls": calls})
        }
        Message::Tool { call, text } => json!({"role": "tool", "tool_call_id": call, "content": text}),
    }
}

fn part(content: &Content) -> Value {
    match content {
        Content::Text { text } => json!({"type": "text", "text": text}),
        Content::Image { media_type, data } => {
            let url = format!("data:{media_type};base64,{}", BASE64.encode(data));
            json!({"type": "image_url", "image_url": {"url": url}})
        }
    }
}

fn call(call: &ToolCall) -> Value {
    let function = json!({"name": call.name, "arguments": call.arguments});
    json!({"id": call.id, "type": "function", "function": function})
}

fn tool(tool: &Tool) -> Value {
    let function = json!({
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
    });
    json!({"type": "function", "function": function})
}

/// An answer, or a piece of one: a stream's differ in that `message` is called `delta`.
#[derive(Debug, Deserialize)]
struct Completion {
    #[serde(default)]
    model: Option<String>,
    #[serde(default)]
    choices: Vec<Choice>,
    #[serde(default)]
    usage: Option<WireUsage>,
    #[serde(default)]
    error: Option<Value>,
}

#[derive(Debug, Deserialize)]
struct Choice {
    #[serde(default, alias = "delta")]
    message: Option<Said>,
    #[serde(default)]
    finish_reason: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
struct Said {
    #[serde(default)]
    content: Option<String>,
    #[serde(default)]
    refusal: Option<String>,
    #[serde(default)]
    tool_calls: Option<Vec<Called>>,
}

#[derive(Debug, Deserialize)]
struct Called {
    #[serde(default)]
    index: Option<usize>,
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    function: Function,
}

#[derive(Debug, Default, Deserialize)]
struct Function {
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    arguments: Option<String>,
}

#[derive(Debug, Deserialize)]
struct WireUsage {
    #[serde(default)]
    prompt_tokens: u64,
    #[serde(default)]
    completion_tokens: u64,
    #[serde(default)]
    prompt_tokens_details: Option<Details>,
}

#[derive(Debug, Deserialize)]
struct Details {
    #[serde(default)]
    cached_tokens: Option<u64>,
}

/// The reply that an answer is.
pub(crate) fn reply(answer: Value) -> Result<ChatReply, String> {
    let mut assembly = Assembly::default();
    let completion = serde_json::from_value(answer)
        .map_err(|e| format!("the server's reply is no chat completion: {e}"))?;
    assembly.add(completion, &mut |_| {})?;
    assembly.finish(&mut |_| {})
}

/// A reply that arrives in pieces.
#[derive(Debug, Default)]
pub(crate) struct Assembly {
    reply: ChatReply,
    /// The calls with the numbers that the server gave them.
    calls: Vec<(Option<usize>, ToolCall)>,
    refused: bool,
    finish_reason: Option<String>,
}

impl Assembly {
    /// Takes the data of an event.
    pub(crate) fn take(&mut self, data: &str, sink: Sink<'_>) -> Result<Progress, String> {
        if data.trim() == "[DONE]" {
            return Ok(Progress::Done);
        }
        let completion = serde_json::from_str(data)
            .map_err(|e| format!("an event of the stream is no piece of a chat completion: {e}"))?;
        self.add(completion, sink)?;
        Ok(Progress::More)
    }

    fn add(&mut self, completion: Completion, sink: Sink<'_>) -> Result<(), String> {
        if let Some(error) = completion.error.filter(|e| !e.is_null()) {
            let said = error.get("message").and_then(Value::as_str);
            let said = said.map_or_else(|| error.to_string(), str::to_owned);
            return Err(format!("the server failed while it replied: {said}"));
        }
        if let Some(usage) = completion.usage {
            let details = usage.prompt_tokens_details;
            self.reply.usage = Some(Usage {
                input: usage.prompt_tokens,
                cached: details.and_then(|d| d.cached_tokens).unwrap_or(0),
                output: usage.completion_tokens,
            });
        }
        if completion.model.is_some() {
            self.reply.model = completion.model;
        }
        let Some(choice) = completion.choices.into_iter().next() else {
            return Ok(());
        };
        let said = choice.message.unwrap_or_default();
        for text in [said.content, said.refusal.inspect(|_| self.refused = true)]
            .into_iter()
            .flatten()
            .filter(|text| !text.is_empty())
        {
            self.reply.text.push_str(&text);
            sink(ChatEvent::Text(text));
        }
        for called in said.tool_calls.into_iter().flatten() {
            self.call(called);
        }
        if choice.finish_reason.is_some() {
            self.finish_reason = choice.finish_reason;
        }
        Ok(())
    }

    /// Adds a piece of a call to the call that it belongs to: the one of its number, or where there are no numbers, the
    /// last one if it brings no name of its own.
    fn call(&mut self, piece: Called) {
        let id = piece.id.unwrap_or_default();
        let name = piece.function.name.unwrap_or_default();
        let arguments = piece.function.arguments.unwrap_or_default();
        let open = match piece.index {
            Some(_) => self.calls.iter_mut().find(|(index, _)| *index == piece.index),
            None if name.is_empty() => self.calls.last_mut(),
            None => None,
        };
        match open {
            Some((_, call)) => {
                if call.id.is_empty() {
                    call.id = id;
                }
                if call.name.is_empty() {
                    call.name = name;
                }
                call.arguments.push_str(&arguments);
            }
            None => self.calls.push((piece.index, ToolCall { id, name, arguments })),
        }
    }

    /// Whether the server said why the model stopped.
    pub(crate) fn is_complete(&self) -> bool {
        self.finish_reason.is_some()
    }

    /// The reply. Its calls are told now, when they are complete.
    pub(crate) fn finish(mut self, sink: Sink<'_>) -> Result<ChatReply, String> {
        let Some(reason) = self.finish_reason else {
            return Err("the reply broke off: the server does not say why the model stopped".to_owned());
        };
        for (at, (_, mut call)) in self.calls.into_iter().enumerate() {
            if call.arguments.is_empty() {
                "{}".clone_into(&mut call.arguments);
            }
            if call.id.is_empty() {
                call.id = format!("call-{at}");
            }
            sink(ChatEvent::Call(call.clone()));
            self.reply.calls.push(call);
        }
        self.reply.stop = match reason.as_str() {
            _ if self.refused => Stop::Refused,
            // Some servers say `stop` where the model calls.
            "stop" | "tool_calls" | "function_call" if !self.reply.calls.is_empty() => Stop::Calls,
            "stop" => Stop::End,
            "length" => Stop::Length,
            "content_filter" => Stop::Refused,
            _ => Stop::Other,
        };
        // This is what some gateways make of a server that failed.
        if self.reply.says_nothing() {
            return Err("the model is said to be done, and has said nothing".to_owned());
        }
        Ok(self.reply)
    }
}

#[cfg(test)]
mod tests;
