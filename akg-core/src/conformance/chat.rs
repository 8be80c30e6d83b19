//! What every language model must do.

use futures::future::{join, poll_immediate};
use serde::Deserialize;
use serde_json::json;

use super::report::{Report, Tried, broken, demand, skipped};
use crate::chat::{ChatEvent, ChatModel, ChatReply, ChatRequest, Content, Message, OutputSchema, Stop, Tool};
use crate::error::{ErrorKind, Result};

const READY: &str = "Reply with the word ready and nothing else.";
const ADD: &str = "Call the tool add once with a = 2 and b = 3.";
const POINT: &str = "Give the point with x = 2 and y = 3.";
const COLOUR: &str = "Reply with the colour of this picture, one word and nothing else.";

/// A red PNG of 8 x 8.
const RED: &[u8] = &[
    0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0, 0, 0, 0x0d, 0x49, 0x48, 0x44, 0x52, 0, 0, 0, 8, 0, 0,
    0, 8, 8, 2, 0, 0, 0, 0x4b, 0x6d, 0x29, 0xdc, 0, 0, 0, 0x11, 0x49, 0x44, 0x41, 0x54, 0x78, 0xda, 0x63,
    0xf8, 0xcf, 0xc0, 0x80, 0x15, 0x31, 0x0c, 0x2d, 9, 0, 0x28, 0xff, 0x3f, 0xc1, 0xce, 0x77, 0xc8, 0x4f, 0,
    0, 0, 0, 0x49, 0x45, 0x4e, 0x44, 0xae, 0x42, 0x60, 0x82,
];

/// Tries whether a language model keeps the rules. It asks a dozen short questions that name the answer they want, so that
/// a scripted server can answer as well as a real one:
///
/// | the last message of the user's contains | answer |
/// |---|---|
/// | `Reply with the word ready` | `ready` |
/// | `Call the tool add` | a call of `add` with `{"a": 2, "b": 3}`; `5` after its result |
/// | `Give the point` | `{"x": 2, "y": 3}` |
/// | `Reply with the colour` | `red` |
pub async fn chat(model: &dyn ChatModel) -> Report {
    let mut report = Report::new(format!("model `{}`", model.name()));
    report.add("a question is answered", answer(model).await);
    report.add("what was said before is taken", history(model).await);
    report.add("tokens are counted", usage(model).await);
    report.add("what arrives makes the reply", stream(model).await);
    report.add("tools are called, and their results taken", tools(model).await);
    report.add("calls arrive complete", streamed_calls(model).await);
    report.add("JSON follows its schema", schema(model).await);
    report.add("images are seen", images(model).await);
    report.add("what is lacking is refused", lacking(model).await);
    report.add("a request without a question is refused", nothing(model).await);
    report.add("calls do not disturb each other", concurrent(model).await);
    report.add(
        "a call that is dropped leaves the model as it was",
        dropped(model).await,
    );
    report
}

fn ask(text: &str) -> ChatRequest {
    ChatRequest::new([Message::user(text)])
}

fn demand_word(reply: &ChatReply, word: &str) -> Tried {
    demand(reply.text.to_lowercase().contains(word), || {
        format!("asked for `{word}`, got {reply:?}")
    })
}

async fn answer(model: &dyn ChatModel) -> Tried {
    let reply = model.chat(&ask(READY)).await?;
    demand_word(&reply, "ready")?;
    demand(reply.stop == Stop::End && reply.calls.is_empty(), || {
        format!("a plain answer ends like {reply:?}")
    })
}

async fn history(model: &dyn ChatModel) -> Tried {
    let first = model.chat(&ask(READY)).await?;
    let conversation = [
        Message::system("Do what you are asked to do."),
        Message::user(READY),
        first.message(),
        Message::user(READY),
    ];
    demand_word(&model.chat(&ChatRequest::new(conversation)).await?, "ready")
}

async fn usage(model: &dyn ChatModel) -> Tried {
    match model.chat(&ask(READY)).await?.usage {
        None => skipped("the model does not say what a reply takes"),
        Some(usage) => demand(usage.cached <= usage.input, || {
            format!("more tokens are cached than read: {usage:?}")
        }),
    }
}

/// The reply of a streaming call, and what it should be by the events.
async fn streamed(model: &dyn ChatModel, request: &ChatRequest) -> Result<(ChatReply, ChatReply)> {
    let mut told = ChatReply::default();
    let reply = model
        .stream(request, &mut |event| match event {
            ChatEvent::Text(text) => told.text.push_str(&text),
            ChatEvent::Call(call) => told.calls.push(call),
            ChatEvent::Restart => told = ChatReply::default(),
        })
        .await?;
    Ok((reply, told))
}

async fn stream(model: &dyn ChatModel) -> Tried {
    let (reply, told) = streamed(model, &ask(READY)).await?;
    demand_word(&reply, "ready")?;
    demand(reply.text == told.text, || {
        format!("told {:?}, replied {:?}", told.text, reply.text)
    })
}

fn add_tool() -> Tool {
    let integer = json!({"type": "integer"});
    let parameters = json!({
        "type": "object",
        "properties": {"a": integer, "b": integer},
        "required": ["a", "b"],
        "additionalProperties": false,
    });
    Tool::new("add", "Adds two integers.", parameters)
}

async fn tools(model: &dyn ChatModel) -> Tried {
    if !model.capability().tools {
        return skipped("the model does not call tools");
    }
    #[derive(Debug, PartialEq, Deserialize)]
    struct Terms {
        a: i64,
        b: i64,
    }
    let mut request = ask(ADD).with_tools([add_tool()]);
    let reply = model.chat(&request).await?;
    let [call] = &reply.calls[..] else {
        return broken(format!("asked for one call, got {reply:?}"));
    };
    demand(
        call.name == "add" && call.parse::<Terms>()? == Terms { a: 2, b: 3 },
        || format!("asked for add(2, 3), got {call:?}"),
    )?;
    demand(reply.stop == Stop::Calls && !call.id.is_empty(), || {
        format!("a reply that calls ends like {reply:?}")
    })?;
    request
        .messages
        .extend([reply.message(), Message::result(call, "5")]);
    demand_word(&model.chat(&request).await?, "5")
}

async fn streamed_calls(model: &dyn ChatModel) -> Tried {
    if !model.capability().tools {
        return skipped("the model does not call tools");
    }
    let (reply, told) = streamed(model, &ask(ADD).with_tools([add_tool()])).await?;
    demand(!reply.calls.is_empty() && reply.calls == told.calls, || {
        format!("told {:?}, replied {:?}", told.calls, reply.calls)
    })
}

fn point() -> OutputSchema {
    let number = json!({"type": "number"});
    OutputSchema {
        name: "point".to_owned(),
        schema: json!({
            "type": "object",
            "properties": {"x": number, "y": number},
            "required": ["x", "y"],
            "additionalProperties": false,
        }),
    }
}

async fn schema(model: &dyn ChatModel) -> Tried {
    if !model.capability().schema {
        return skipped("the model does not keep to a schema");
    }
    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Point {
        x: f64,
        y: f64,
    }
    let got: Point = model.chat(&ask(POINT).with_output(point())).await?.parse()?;
    demand(got == Point { x: 2.0, y: 3.0 }, || {
        format!("asked for (2, 3), got {got:?}")
    })
}

fn picture() -> ChatRequest {
    let text = COLOUR.to_owned();
    let image = Content::Image {
        media_type: "image/png".to_owned(),
        data: RED.to_vec(),
    };
    ChatRequest::new([Message::User {
        content: vec![Content::Text { text }, image],
    }])
}

async fn images(model: &dyn ChatModel) -> Tried {
    if !model.capability().images {
        return skipped("the model does not see images");
    }
    demand_word(&model.chat(&picture()).await?, "red")
}

fn demand_refused(outcome: Result<ChatReply>, kind: ErrorKind, what: &str) -> Tried {
    match outcome {
        Err(error) if error.kind() == kind => Ok(()),
        other => broken(format!("{what} gives {other:?}")),
    }
}

async fn lacking(model: &dyn ChatModel) -> Tried {
    let has = model.capability();
    let requests = [
        (has.tools, "a tool", ask(ADD).with_tools([add_tool()])),
        (has.schema, "a schema", ask(POINT).with_output(point())),
        (has.images, "an image", picture()),
    ];
    let lacks: Vec<_> = requests.iter().filter(|(has, ..)| !has).collect();
    if lacks.is_empty() {
        return skipped("the model lacks nothing");
    }
    for (_, what, request) in lacks {
        demand_refused(model.chat(request).await, ErrorKind::Unsupported, what)?;
    }
    Ok(())
}

async fn nothing(model: &dyn ChatModel) -> Tried {
    let empty = ChatRequest::default();
    let what = "a request without messages";
    demand_refused(model.chat(&empty).await, ErrorKind::InvalidInput, what)?;
    demand_refused(
        model.stream(&empty, &mut |_| {}).await,
        ErrorKind::InvalidInput,
        what,
    )
}

async fn concurrent(model: &dyn ChatModel) -> Tried {
    let (plain, told) = (ask(READY), ask(READY));
    let (plain, told) = join(model.chat(&plain), streamed(model, &told)).await;
    demand_word(&plain?, "ready")?;
    demand_word(&told?.0, "ready")
}

async fn dropped(model: &dyn ChatModel) -> Tried {
    // Polled once, so that it has begun.
    drop(poll_immediate(model.chat(&ask(READY))).await);
    drop(poll_immediate(model.stream(&ask(READY), &mut |_| {})).await);
    answer(model).await
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use async_trait::async_trait;
    use futures::executor::block_on;

    use super::*;
    use crate::chat::{ChatCapability, Sink, ToolCall, Usage};

    /// Answers as the rules ask, but for a flaw.
    #[derive(Debug)]
    struct Model {
        flaw: &'static str,
        capability: ChatCapability,
    }

    impl Model {
        fn is(&self, flaw: &str) -> bool {
            self.flaw == flaw
        }
    }

    #[async_trait]
    impl ChatModel for Model {
        fn name(&self) -> &str {
            self.flaw
        }

        fn capability(&self) -> ChatCapability {
            self.capability
        }

        async fn chat(&self, request: &ChatRequest) -> Result<ChatReply> {
            if !self.is("takes everything") {
                self.capability.admit(self.name(), request)?;
            }
            let text = format!("{:?}", request.messages);
            let mut reply = ChatReply::text(if text.contains("ready") {
                "Ready."
            } else if text.contains("colour") {
                "red"
            } else if text.contains("Tool {") {
                "5"
            } else {
                "{\"x\": 2, \"y\": 3}"
            });
            if request.messages.len() > 1 && self.is("forgets") {
                reply.text.clear();
            }
            if !request.tools.is_empty() && !text.contains("Tool {") {
                reply = ChatReply {
                    stop: Stop::Calls,
                    ..ChatReply::default()
                };
                let arguments = if self.is("swaps") {
                    "{\"a\": 3, \"b\": 2}"
                } else {
                    "{\"a\": 2, \"b\": 3}"
                };
                reply.calls.push(ToolCall {
                    id: if self.is("nameless") { "" } else { "1" }.to_owned(),
                    name: "add".to_owned(),
                    arguments: arguments.to_owned(),
                });
            }
            reply.usage = Some(Usage {
                input: 1,
                cached: u64::from(self.is("miscounts")) * 2,
                output: 1,
            });
            Ok(reply)
        }

        async fn stream(&self, request: &ChatRequest, sink: Sink<'_>) -> Result<ChatReply> {
            let reply = self.chat(request).await?;
            let silent = |e: &ChatEvent| self.is("hides calls") && matches!(e, ChatEvent::Call(_));
            reply.events().filter(|e| !silent(e)).for_each(&mut *sink);
            if self.is("stutters") {
                sink(ChatEvent::Text("Ready.".to_owned()));
            }
            Ok(reply)
        }
    }

    fn model(flaw: &'static str, capability: ChatCapability) -> Arc<dyn ChatModel> {
        Arc::new(Model { flaw, capability })
    }

    #[test]
    fn a_model_without_a_flaw_keeps_the_rules() {
        for capability in [ChatCapability::ALL, ChatCapability::default()] {
            let report = block_on(chat(&model("none", capability)));
            report.assert_held();
            let skipped = if capability == ChatCapability::ALL { 1 } else { 4 };
            assert_eq!(report.skipped(), skipped, "{report}");
        }
    }

    #[test]
    fn each_flaw_is_found() {
        for flaw in [
            "forgets",
            "swaps",
            "nameless",
            "miscounts",
            "hides calls",
            "stutters",
        ] {
            let report = block_on(chat(&model(flaw, ChatCapability::ALL)));
            assert!(report.broken() > 0, "{flaw}: {report}");
        }
        let report = block_on(chat(&model("takes everything", ChatCapability::default())));
        assert_eq!(report.broken(), 2, "{report}");
    }
}
