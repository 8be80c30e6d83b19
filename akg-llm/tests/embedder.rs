//! An embedder behind servers that do what no real one should, over real sockets.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "this is a test")]

mod support;

use std::sync::Arc;

use akg_core::knowledge::Embedder as _;
use akg_core::{ErrorKind, Result};
use akg_llm::{Account, Budget, Config, ModelConfig, Models, OpenAiEmbedder, Provider};
use futures::executor::block_on;
use serde_json::Value;
use support::{Answer, Server};

/// Two embeddings, the second first.
const BOTH: &str = r#"{"data":[{"index":1,"embedding":[0.0,2.0]},{"index":0,"embedding":[1.0,0.5]}],"usage":{"prompt_tokens":7}}"#;

fn config(server: &Server) -> ModelConfig {
    ModelConfig {
        model: Some("e".to_owned()),
        base_url: Some(server.base()),
        key: Some("sk-hidden".into()),
        retries: Some(1),
        timeout: Some(1.0),
        price_input: Some(2.0),
        ..ModelConfig::default()
    }
}

/// What two texts give with a server that answers so, and the account after that.
fn embed(answers: Vec<Answer>) -> (Result<Vec<Vec<f32>>>, Arc<Account>, Server) {
    let (server, account) = (Server::start(answers), Arc::new(Account::default()));
    let embedder = OpenAiEmbedder::new(&config(&server), Arc::clone(&account)).unwrap();
    let texts = ["one".to_owned(), "the other".to_owned()];
    (block_on(embedder.embed(&texts)), account, server)
}

fn good() -> Answer {
    Answer::json("200 OK", "", BOTH)
}

#[test]
fn vectors_are_in_the_order_of_their_texts_and_cost_what_they_cost() {
    let (vectors, account, server) = embed(vec![good()]);
    assert_eq!(vectors.unwrap(), [[1.0, 0.5], [0.0, 2.0]]);
    let spent = account.spent();
    assert_eq!((spent.calls, spent.estimated, spent.usage.input), (1, 0, 7));
    assert!((spent.money - 14e-6).abs() < 1e-12);
    let (head, body) = server.requests.lock().unwrap().remove(0);
    assert!(head.starts_with("post /v1/embeddings http/1.1\r\n"), "{head}");
    assert!(head.contains("\r\nauthorization: bearer sk-hidden\r\n"), "{head}");
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(body["input"], serde_json::json!(["one", "the other"]));
    assert_eq!(body["model"], "e");
}

#[test]
fn trouble_that_may_pass_does() {
    for trouble in [
        Answer::json("429 Too Many Requests", "retry-after: 0\r\n", "{}"),
        Answer::json("500 Oh", "", "no"),
        Answer::json("200 OK", "", r#"{"data":[{"index":0}]}"#),
        Answer::json("200 OK", "", "half of"),
        Answer::Hang("HTTP/1.1 200 OK\r\n".to_owned()),
    ] {
        let (vectors, account, server) = embed(vec![trouble, good()]);
        assert_eq!(vectors.unwrap().len(), 2);
        assert_eq!(account.spent().calls, 1);
        assert_eq!(server.requests.lock().unwrap().len(), 2);
    }
}

#[test]
fn what_does_not_pass_is_told() {
    let refusal = r#"{"error":{"message":"the input is too long"}}"#;
    for (answers, kind, word) in [
        (
            vec![Answer::json("400 Bad Request", "", refusal)],
            ErrorKind::InvalidInput,
            "the input is too long",
        ),
        (
            vec![Answer::json("500 Oh", "", "no"); 2],
            ErrorKind::Unavailable,
            "2 times",
        ),
        (
            vec![Answer::Hang(String::new()), Answer::Hang(String::new())],
            ErrorKind::Timeout,
            "within 1s",
        ),
    ] {
        let (vectors, account, _server) = embed(answers);
        let error = vectors.unwrap_err();
        let text = format!("{error} {error:?}");
        assert_eq!(error.kind(), kind, "{text}");
        assert!(text.contains(word) && !text.contains("sk-hidden"), "{text}");
        assert_eq!(account.spent().calls, 0);
    }
}

#[test]
fn tokens_that_the_server_does_not_tell_are_estimated() {
    let silent = BOTH.replace(r#","usage":{"prompt_tokens":7}"#, "");
    let (_, account, _server) = embed(vec![Answer::json("200 OK", "", &silent)]);
    let spent = account.spent();
    assert_eq!((spent.estimated, spent.usage.input), (1, 3));
}

#[test]
fn the_budget_holds_for_embeddings_too() {
    let server = Server::start(vec![good()]);
    let config = Config {
        roles: [("embedder".to_owned(), config(&server))].into(),
        budget: Budget {
            tokens: Some(7),
            money: None,
        },
        ..Config::default()
    };
    let models = Models::new(config).unwrap();
    let embedder = models.embedder().unwrap().expect("one is configured");
    let texts = ["one".to_owned(), "the other".to_owned()];
    block_on(embedder.embed(&texts)).unwrap();
    let error = block_on(embedder.embed(&texts)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BudgetSpent, "{error}");
    assert_eq!(models.account().spent().usage.input, 7);
}

#[test]
fn only_who_can_is_asked() {
    let models = |config: Config| Models::new(config).unwrap().embedder();
    assert!(models(Config::default()).unwrap().is_none());
    let role = |config: ModelConfig| Config {
        roles: [("embedder".to_owned(), config)].into(),
        ..Config::default()
    };
    let anthropic = ModelConfig {
        provider: Some(Provider::Anthropic),
        model: Some("e".to_owned()),
        ..ModelConfig::default()
    };
    let error = models(role(anthropic)).unwrap_err();
    assert!(error.to_string().contains("AKG_LLM_EMBEDDER_PROVIDER"), "{error}");
    let nameless = ModelConfig {
        base_url: Some("http://localhost:1/v1".to_owned()),
        ..ModelConfig::default()
    };
    assert_eq!(
        models(role(nameless)).unwrap_err().kind(),
        ErrorKind::InvalidInput
    );
    // Who replays asks nobody.
    let place = tempfile::tempdir().unwrap();
    let replay = place.path().join("run.jsonl");
    std::fs::write(&replay, "").unwrap();
    let named = ModelConfig {
        model: Some("e".to_owned()),
        ..ModelConfig::default()
    };
    let replayed = Config {
        replay: Some(replay),
        ..role(named)
    };
    assert!(models(replayed).unwrap().is_none());
}
