//! Bodies and answers as Anthropic's reference shows them.

use akg_core::chat::OutputSchema;

use super::*;

#[test]
fn bodies_are_those_of_the_reference() {
    let call = ToolCall {
        id: "toolu_1".to_owned(),
        name: "add".to_owned(),
        arguments: "{\"a\":2}".to_owned(),
    };
    let other = ToolCall {
        id: "toolu_2".to_owned(),
        arguments: "{\"a\":".to_owned(),
        ..call.clone()
    };
    let request = ChatRequest::new([
        Message::system("be short"),
        Message::User {
            content: vec![Content::Image {
                media_type: "image/png".to_owned(),
                data: b"png".to_vec(),
            }],
        },
        Message::Assistant {
            text: String::new(),
            calls: vec![call.clone(), other.clone()],
        },
        Message::result(&call, "5"),
        Message::result(&other, "6"),
        Message::user("and?"),
    ])
    .with_tools([Tool::new("add", "Adds.", json!({"type": "object"}))])
    .with_output(OutputSchema {
        name: "sum".to_owned(),
        schema: json!({"type": "object"}),
    });
    let wanted = json!({
        "model": "m",
        "max_tokens": 9,
        "system": [{"type": "text", "text": "be short"}],
        "messages": [
            {"role": "user", "content": [
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "cG5n"}},
            ]},
            {"role": "assistant", "content": [
                {"type": "tool_use", "id": "toolu_1", "name": "add", "input": {"a": 2}},
                {"type": "tool_use", "id": "toolu_2", "name": "add", "input": {"malformed": "{\"a\":"}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": "5"},
                {"type": "tool_result", "tool_use_id": "toolu_2", "content": "6"},
                {"type": "text", "text": "and?"},
            ]},
        ],
        "tools": [{"name": "add", "description": "Adds.", "input_schema": {"type": "object"}}],
        "output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}},
        "stream": true,
    });
    assert_eq!(body("m", &request, 9, true), wanted);
}

#[test]
fn an_answer_is_a_reply() {
    let answer = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m-2026",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "x"},
            {"type": "text", "text": "I add."},
            {"type": "tool_use", "id": "toolu_1", "name": "add", "input": {"a": 2}},
        ],
        "stop_reason": "tool_use", "stop_sequence": null,
        "usage": {"input_tokens": 10, "cache_creation_input_tokens": 20, "cache_read_input_tokens": 30,
                  "output_tokens": 5},
    });
    let wanted = ChatReply {
        text: "I add.".to_owned(),
        calls: vec![ToolCall {
            id: "toolu_1".to_owned(),
            name: "add".to_owned(),
            arguments: "{\"a\":2}".to_owned(),
        }],
        stop: Stop::Calls,
        usage: Some(Usage {
            input: 60,
            cached: 30,
            output: 5,
        }),
        model: Some("m-2026".to_owned()),
    };
    assert_eq!(reply(answer), Ok(wanted));
}

/// The stream with a tool call of the reference, shortened.
const STREAM: &[&str] = &[
    r#"{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"usage":{"input_tokens":472,"output_tokens":2}}}"#,
    r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
    r#"{"type":"ping"}"#,
    r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Okay"}}"#,
    r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":", let"}}"#,
    r#"{"type":"content_block_stop","index":0}"#,
    r#"{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"toolu_1","name":"get_weather","input":{}}}"#,
    r#"{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":""}}"#,
    r#"{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"location\":"}}"#,
    r#"{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":" \"San\"}"}}"#,
    r#"{"type":"content_block_stop","index":1}"#,
    r#"{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":89}}"#,
    r#"{"type":"message_stop"}"#,
];

#[test]
fn a_stream_is_a_reply() {
    let mut told = Vec::new();
    let mut assembly = Assembly::default();
    for (at, event) in STREAM.iter().enumerate() {
        let progress = assembly.take(event, &mut |event| told.push(event)).unwrap();
        assert_eq!(progress == Progress::Done, at + 1 == STREAM.len());
    }
    let reply = assembly.finish().unwrap();
    assert_eq!((reply.text.as_str(), reply.stop), ("Okay, let", Stop::Calls));
    assert_eq!(reply.calls[0].arguments, "{\"location\": \"San\"}");
    assert_eq!(reply.usage.unwrap().total(), 472 + 89);
    let text = |text: &str| ChatEvent::Text(text.to_owned());
    let call = ChatEvent::Call(reply.calls[0].clone());
    assert_eq!(told, [text("Okay"), text(", let"), call]);
}

#[test]
fn what_breaks_off_is_no_reply() {
    let mut assembly = Assembly::default();
    for event in &STREAM[..9] {
        assembly.take(event, &mut |_| {}).unwrap();
    }
    assert!(assembly.finish().unwrap_err().contains("broke off"));
    let overloaded = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    let error = Assembly::default().take(overloaded, &mut |_| {}).unwrap_err();
    assert!(error.contains("Overloaded"), "{error}");
    assert!(reply(json!({"content": "text"})).is_err());
}
