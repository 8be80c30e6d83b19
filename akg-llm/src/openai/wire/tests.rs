//! Bodies and answers as OpenAI's reference shows them.

use super::*;

fn request() -> ChatRequest {
    let call = ToolCall {
        id: "call_1".to_owned(),
        name: "add".to_owned(),
        arguments: "{\"a\":2}".to_owned(),
    };
    ChatRequest::new([
        Message::system("be short"),
        Message::User {
            content: vec![
                Content::Text {
                    text: "see".to_owned(),
                },
                Content::Image {
                    media_type: "image/png".to_owned(),
                    data: b"png".to_vec(),
                },
            ],
        },
        Message::Assistant {
            text: String::new(),
            calls: vec![call.clone()],
        },
        Message::result(&call, "5"),
    ])
}

#[test]
fn bodies_are_those_of_the_reference() {
    let mut request = request()
        .with_tools([Tool::new("add", "Adds.", json!({"type": "object"}))])
        .with_output(OutputSchema {
            name: "sum".to_owned(),
            schema: json!({"type": "object"}),
        });
    request.temperature = Some(0.5);
    let wanted = json!({
        "model": "m",
        "messages": [
            {"role": "system", "content": "be short"},
            {"role": "user", "content": [
                {"type": "text", "text": "see"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,cG5n"}},
            ]},
            {"role": "assistant", "content": null, "tool_calls": [
                {"id": "call_1", "type": "function", "function": {"name": "add", "arguments": "{\"a\":2}"}},
            ]},
            {"role": "tool", "tool_call_id": "call_1", "content": "5"},
        ],
        "tools": [{"type": "function", "function": {
            "name": "add", "description": "Adds.", "parameters": {"type": "object"},
        }}],
        "response_format": {"type": "json_schema", "json_schema": {
            "name": "sum", "schema": {"type": "object"}, "strict": true,
        }},
        "max_tokens": 9,
        "temperature": 0.5,
        "stream": true,
        "stream_options": {"include_usage": true},
    });
    assert_eq!(body("m", &request, Some(9), Dialect::Compatible, true), wanted);
}

#[test]
fn openai_itself_wants_another_name_for_the_most_tokens() {
    let dialect = Dialect::of("https://api.openai.com/v1/");
    let body = body("m", &ChatRequest::default(), Some(9), dialect, false);
    assert_eq!(body["max_completion_tokens"], 9);
    assert!(body.get("max_tokens").is_none() && body.get("stream").is_none());
}

#[test]
fn an_answer_is_a_reply() {
    let answer = json!({
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m-2026",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "hello", "refusal": null},
                     "logprobs": null, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 19, "completion_tokens": 10, "total_tokens": 29,
                  "prompt_tokens_details": {"cached_tokens": 4, "audio_tokens": 0}},
    });
    let wanted = ChatReply {
        usage: Some(Usage {
            input: 19,
            cached: 4,
            output: 10,
        }),
        model: Some("m-2026".to_owned()),
        ..ChatReply::text("hello")
    };
    assert_eq!(reply(answer), Ok(wanted));
}

#[test]
fn refusals_and_ends_are_told_apart() {
    let stop = |message: Value, reason: &str| {
        let choice = json!({"message": message, "finish_reason": reason});
        reply(json!({"choices": [choice]})).unwrap().stop
    };
    let call = json!({"tool_calls": [{"id": "1", "function": {"name": "f", "arguments": ""}}]});
    assert_eq!(stop(json!({"refusal": "no"}), "stop"), Stop::Refused);
    assert_eq!(stop(json!({"content": ""}), "content_filter"), Stop::Refused);
    assert_eq!(stop(json!({"content": "a"}), "length"), Stop::Length);
    assert_eq!(stop(json!({"content": "a"}), "eos"), Stop::Other);
    assert_eq!(stop(call.clone(), "tool_calls"), Stop::Calls);
    assert_eq!(stop(call, "stop"), Stop::Calls);
}

fn streamed(events: &[Value]) -> Result<(ChatReply, Vec<ChatEvent>), String> {
    let mut told = Vec::new();
    let mut sink = |event| told.push(event);
    let mut assembly = Assembly::default();
    for event in events {
        assembly.take(&event.to_string(), &mut sink)?;
    }
    assert_eq!(assembly.take("[DONE]", &mut sink), Ok(Progress::Done));
    let reply = assembly.finish(&mut sink)?;
    Ok((reply, told))
}

#[test]
fn calls_are_put_together_by_number() {
    let piece = |index: usize, rest: Value| {
        let mut call = json!({"index": index});
        call.as_object_mut()
            .unwrap()
            .extend(rest.as_object().unwrap().clone());
        json!({"choices": [{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": null}]})
    };
    let (reply, told) = streamed(&[
        piece(
            0,
            json!({"id": "a", "type": "function", "function": {"name": "f", "arguments": ""}}),
        ),
        piece(
            1,
            json!({"id": "b", "type": "function", "function": {"name": "g", "arguments": "{\"x\""}}),
        ),
        piece(0, json!({"function": {"arguments": "{}"}})),
        piece(1, json!({"function": {"arguments": ":1}"}})),
        json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}),
        json!({"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2}}),
    ])
    .unwrap();
    let call = |id: &str, name: &str, arguments: &str| ToolCall {
        id: id.to_owned(),
        name: name.to_owned(),
        arguments: arguments.to_owned(),
    };
    let calls = vec![call("a", "f", "{}"), call("b", "g", "{\"x\":1}")];
    assert_eq!((&reply.calls, reply.stop), (&calls, Stop::Calls));
    assert_eq!(reply.usage.unwrap().total(), 3);
    assert_eq!(told, calls.into_iter().map(ChatEvent::Call).collect::<Vec<_>>());
}

#[test]
fn servers_without_numbers_or_ids_are_understood() {
    let piece = |function: Value| json!({"choices": [{"delta": {"tool_calls": [{"function": function}]}}]});
    let (reply, _) = streamed(&[
        piece(json!({"name": "f", "arguments": "{"})),
        piece(json!({"arguments": "}"})),
        piece(json!({"name": "f", "arguments": "{\"again\":true}"})),
        json!({"choices": [{"delta": {"content": null}, "finish_reason": "stop"}]}),
    ])
    .unwrap();
    let got: Vec<_> = reply
        .calls
        .iter()
        .map(|c| (c.id.as_str(), c.arguments.as_str()))
        .collect();
    assert_eq!(got, [("call-0", "{}"), ("call-1", "{\"again\":true}")]);
}

#[test]
fn what_breaks_off_is_no_reply() {
    let text = json!({"choices": [{"delta": {"content": "half"}, "finish_reason": null}]});
    let error = streamed(&[text]).unwrap_err();
    assert!(error.contains("broke off"), "{error}");
    let error = reply(json!({"choices": []})).unwrap_err();
    assert!(error.contains("broke off"), "{error}");
    let error = streamed(&[json!({"error": {"message": "overloaded", "code": 503}})]).unwrap_err();
    assert!(error.contains("overloaded"), "{error}");
    let error =
        streamed(&[json!({"choices": [{"delta": {"content": ""}, "finish_reason": "stop"}]})]).unwrap_err();
    assert!(error.contains("nothing"), "{error}");
    assert!(reply(json!([1])).is_err());
}
