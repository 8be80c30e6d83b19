//! Servers that do what no real one should, over real sockets.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "this is a test")]

mod support;

use std::sync::Arc;
use std::time::Duration;

use akg_core::chat::{ChatEvent, ChatModel, ChatReply};
use akg_core::{Error, ErrorKind, Result};
use akg_llm::{Anthropic, Backoff, ModelConfig, OpenAi, Retry, Timeout};
use futures::executor::block_on;
use serde_json::Value;
use support::{Answer, Server, ask};

const WHOLE: &str = r#"{"choices":[{"message":{"content":"whole"},"finish_reason":"stop"}]}"#;
const HALF: &str = r#"{"choices":[{"delta":{"content":"half"},"finish_reason":null}]}"#;
const REST: &str = r#"{"choices":[{"delta":{"content":" and half"},"finish_reason":null}]}"#;
const END: &str = r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#;

fn config(server: &Server) -> ModelConfig {
    ModelConfig {
        model: Some("m".to_owned()),
        base_url: Some(server.base()),
        key: Some("sk-hidden".into()),
        ..ModelConfig::default()
    }
}

fn openai(server: &Server) -> OpenAi {
    OpenAi::new(&config(server)).unwrap()
}

/// What a plain call gives with a server that answers so.
fn chat(answer: Answer) -> Result<ChatReply> {
    block_on(openai(&Server::start(vec![answer])).chat(&ask("?")))
}

/// What a streaming call gives with a server that answers so, and what arrived.
fn stream(answers: Vec<Answer>, retries: u32) -> (Result<ChatReply>, Vec<ChatEvent>) {
    let server = Server::start(answers);
    let model = Arc::new(Timeout::new(Arc::new(openai(&server)), Duration::from_secs(2)));
    let backoff = Backoff {
        retries,
        first: Duration::ZERO,
        ..Backoff::default()
    };
    let mut told = Vec::new();
    let reply = block_on(Retry::new(model, backoff).stream(&ask("?"), &mut |event| told.push(event)));
    (reply, told)
}

fn text(text: &str) -> ChatEvent {
    ChatEvent::Text(text.to_owned())
}

fn kind(outcome: Result<ChatReply>) -> ErrorKind {
    let error = outcome.unwrap_err();
    assert!(!format!("{error} {error:?}").contains("sk-hidden"), "{error:?}");
    error.kind()
}

#[test]
fn requests_carry_the_key_and_the_body() {
    let server = Server::start(vec![Answer::json("200 OK", "", WHOLE)]);
    assert_eq!(
        block_on(openai(&server).chat(&ask("hello"))).unwrap().text,
        "whole"
    );
    let (head, body) = server.requests.lock().unwrap().remove(0);
    assert!(
        head.starts_with("post /v1/chat/completions http/1.1\r\n"),
        "{head}"
    );
    assert!(head.contains("\r\nauthorization: bearer sk-hidden\r\n"), "{head}");
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(body["messages"][0]["content"], "hello");
}

#[test]
fn anthropic_has_headers_of_its_own() {
    let answer = r#"{"content":[{"type":"text","text":"whole"}],"stop_reason":"end_turn"}"#;
    let server = Server::start(vec![Answer::json("200 OK", "", answer)]);
    let model = Anthropic::new(&config(&server)).unwrap();
    assert_eq!(block_on(model.chat(&ask("hello"))).unwrap().text, "whole");
    let (head, _) = server.requests.lock().unwrap().remove(0);
    assert!(head.starts_with("post /v1/messages http/1.1\r\n"), "{head}");
    assert!(head.contains("\r\nx-api-key: sk-hidden\r\n"), "{head}");
    assert!(head.contains("\r\nanthropic-version: "), "{head}");
}

#[test]
fn each_status_has_its_kind() {
    let said = |code: &str| format!(r#"{{"error":{{"message":"no sk-hidden here","code":"{code}"}}}}"#);
    for (status, code, wanted) in [
        ("400 Bad Request", "", ErrorKind::InvalidInput),
        ("401 Unauthorized", "", ErrorKind::InvalidInput),
        ("404 Not Found", "", ErrorKind::NotFound),
        ("429 Too Many Requests", "", ErrorKind::Unavailable),
        (
            "429 Too Many Requests",
            "insufficient_quota",
            ErrorKind::BudgetSpent,
        ),
        ("500 Internal Server Error", "", ErrorKind::Unavailable),
        ("529 Overloaded", "", ErrorKind::Unavailable),
        ("307 Temporary Redirect", "", ErrorKind::InvalidInput),
    ] {
        let got = kind(chat(Answer::json(
            status,
            "location: http://127.0.0.1:1/\r\n",
            &said(code),
        )));
        assert_eq!(got, wanted, "{status}");
    }
}

#[test]
fn retry_after_reaches_the_error() {
    let answer = Answer::json("429 Too Many Requests", "retry-after: 7\r\n", "{}");
    let error: Error = chat(answer).unwrap_err();
    assert_eq!(error.retry_after(), Some(Duration::from_secs(7)));
}

#[test]
fn replies_that_are_none_may_pass() {
    let cut = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n{\"cho";
    for answer in [
        Answer::json("200 OK", "", "<html>"),
        Answer::json("200 OK", "", ""),
        Answer::json("200 OK", "", "[1]"),
        Answer::json("200 OK", "", r#"{"choices":[]}"#),
        Answer::json("200 OK", "", r#"{"error":{"message":"upstream"}}"#),
        Answer::Write(cut.to_owned()),
        Answer::Write(String::new()),
        Answer::Write("no HTTP at all\r\n\r\n".to_owned()),
    ] {
        assert_eq!(kind(chat(answer)), ErrorKind::Unavailable);
    }
}

#[test]
fn a_server_that_is_not_there_may_come_back() {
    let server = Server::start(Vec::new());
    // Nobody listens once its thread has ended.
    while std::net::TcpStream::connect(server.address).is_ok() {
        std::thread::yield_now();
    }
    let error = block_on(openai(&server).chat(&ask("?"))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    let shown = error.to_string();
    assert!(
        shown.contains("cannot be reached") && shown.contains("refused"),
        "{shown}"
    );
}

#[test]
fn streams_that_break_off_begin_anew() {
    let whole = Answer::Write(Answer::events(&[HALF, REST, END, "[DONE]"]));
    for broken in [
        Answer::Write(Answer::events(&[HALF])),
        Answer::Write(Answer::events(&[HALF, "{\"choices\": ["])),
        Answer::Write(Answer::events(&[HALF, r#"{"error":{"message":"overloaded"}}"#])),
        Answer::Write(Answer::events(&[HALF, "[DONE]"])),
        Answer::Hang(Answer::events(&[HALF])),
    ] {
        let (reply, told) = stream(vec![broken.clone(), whole.clone()], 1);
        assert_eq!(reply.unwrap().text, "half and half");
        assert_eq!(
            told,
            [text("half"), ChatEvent::Restart, text("half"), text(" and half")]
        );
        let (reply, told) = stream(vec![broken], 0);
        assert!(reply.unwrap_err().kind().is_temporary());
        assert_eq!(told, [text("half")]);
    }
}

#[test]
fn servers_that_answer_nothing_are_given_up() {
    let (reply, told) = stream(vec![Answer::Hang(String::new())], 0);
    assert_eq!(kind(reply), ErrorKind::Timeout);
    assert_eq!(told, []);
}

#[test]
fn a_stream_without_its_last_word_is_whole_if_it_says_why_it_ends() {
    let (reply, _) = stream(vec![Answer::Write(Answer::events(&[HALF, END]))], 0);
    assert_eq!(reply.unwrap().text, "half");
}

#[test]
fn callers_may_have_a_runtime_of_their_own() {
    // One that waits neither for sockets nor for clocks.
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let busy = Answer::json("503 Service Unavailable", "", "{}");
    let server = Server::start(vec![busy, Answer::json("200 OK", "", WHOLE)]);
    let backoff = Backoff {
        first: Duration::from_millis(1),
        ..Backoff::default()
    };
    let model = Retry::new(Arc::new(openai(&server)), backoff);
    let reply = runtime.block_on(model.chat(&ask("?")));
    assert_eq!(reply.unwrap().text, "whole");
}
