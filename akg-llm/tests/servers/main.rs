//! Independent servers over real HTTP: aimock in its two dialects, and the proxy of litellm in front of it. What they need
//! is installed once, under the target directory; without Node or Python the tests are skipped, and say so.
#![expect(clippy::unwrap_used, reason = "this is a test")]

mod install;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use akg_core::chat::{ChatModel, ChatReply, ChatRequest, Message};
use akg_core::knowledge::Embedder as _;
use akg_core::{ErrorKind, Result, conformance};
use akg_llm::{
    Account, Anthropic, Backoff, Config, ModelConfig, Models, OpenAi, OpenAiEmbedder, Outcome, Provider,
    read_recording,
};
use futures::executor::block_on;
use futures::future::join_all;
use install::{Absence, KEY, Server};
use libtest_mimic::{Arguments, Failed, Trial};
use serde_json::{Value, json};

/// A way to aimock.
#[derive(Debug, Clone, Copy)]
struct Way {
    name: &'static str,
    provider: Provider,
}

const WAYS: [Way; 3] = [
    Way {
        name: "openai",
        provider: Provider::Openai,
    },
    Way {
        name: "anthropic",
        provider: Provider::Anthropic,
    },
    Way {
        name: "litellm",
        provider: Provider::Openai,
    },
];

/// What happens before an answer comes, as aimock's fixtures say it.
fn troubles() -> Vec<(&'static str, Value)> {
    let error =
        |status: u16| json!({"response": {"error": {"message": "no", "type": "error"}, "status": status}});
    let answer = |with: Value| {
        let mut fixture =
            json!({"response": {"content": "an answer that takes some pieces"}, "chunkSize": 4});
        fixture
            .as_object_mut()
            .unwrap()
            .extend(with.as_object().unwrap().clone());
        fixture
    };
    let mut limited = error(429);
    limited["response"]["retryAfter"] = json!(1);
    vec![
        ("limited", limited),
        ("failing", error(500)),
        ("overloaded", error(529)),
        ("malformed", answer(json!({"chaos": {"malformedRate": 1}}))),
        ("dropped", answer(json!({"chaos": {"disconnectRate": 1}}))),
        ("truncated", answer(json!({"truncateAfterChunks": 4}))),
        ("hanging", answer(json!({"latency": 30000}))),
    ]
}

fn question(way: Way, trouble: &str) -> String {
    format!("{} {trouble}", way.name)
}

fn answer(way: Way, trouble: &str) -> String {
    format!("{} {trouble}: an answer that comes in several pieces", way.name)
}

fn embedded(way: Way) -> String {
    format!("embedded by {}", way.name)
}

fn fixtures() -> Value {
    let when = |text: &str| json!({"userMessage": text});
    let add = json!([{"name": "add", "arguments": {"a": 2, "b": 3}}]);
    let call = "Call the tool add";
    let mut all = vec![
        json!({"match": when("Reply with the word ready"), "response": {"content": "ready"}}),
        json!({"match": {"userMessage": call, "hasToolResult": false}, "response": {"toolCalls": add}}),
        json!({"match": {"userMessage": call, "hasToolResult": true}, "response": {"content": "5"}}),
        json!({"match": when("Give the point"), "response": {"content": "{\"x\": 2, \"y\": 3}"}}),
        json!({"match": when("Reply with the colour"), "response": {"content": "red"}}),
    ];
    for way in WAYS {
        for (name, mut trouble) in troubles() {
            trouble["match"] = json!({"userMessage": question(way, name), "sequenceIndex": 0});
            let good = json!({"content": answer(way, name)});
            all.push(trouble);
            all.push(json!({"match": when(&question(way, name)), "response": good, "chunkSize": 7}));
        }
    }
    let vector = json!({"embedding": [0.6, 0.8]});
    for way in WAYS {
        let text = embedded(way);
        let limited = json!({"error": {"message": "no", "type": "error"}, "status": 429, "retryAfter": 1});
        all.push(json!({"match": {"inputText": text, "sequenceIndex": 0}, "response": limited}));
        all.push(json!({"match": {"inputText": text}, "response": vector}));
    }
    let wait = json!({"error": {"message": "no", "type": "error"}, "status": 429, "retryAfter": 3});
    all.push(json!({"match": when("wait limited"), "response": wait}));
    json!({"fixtures": all})
}

fn config(way: Way, server: &Server) -> ModelConfig {
    ModelConfig {
        provider: Some(way.provider),
        model: Some("m".to_owned()),
        base_url: Some(format!("http://{}/v1", server.address)),
        key: Some(KEY.into()),
        ..ModelConfig::default()
    }
}

fn model(way: Way, server: &Server) -> Arc<dyn ChatModel> {
    let config = config(way, server);
    match way.provider {
        Provider::Anthropic => Arc::new(Anthropic::new(&config).unwrap()),
        _ => Arc::new(OpenAi::new(&config).unwrap()),
    }
}

/// How often aimock was asked something whose last message is `text`.
fn asked(server: &Server, text: &str) -> usize {
    let last = |request: &&Value| {
        let messages = request["messages"].as_array();
        messages
            .and_then(|m| m.last())
            .is_some_and(|m| m["content"].to_string().contains(text))
    };
    server.requests().iter().filter(last).count()
}

fn ask(text: &str) -> ChatRequest {
    ChatRequest::new([Message::user(text)])
}

fn keeps_the_rules(way: Way, server: &Server) {
    let report = block_on(conformance::chat(&model(way, server)));
    report.assert_held();
    assert_eq!(report.skipped(), 1, "{report}");
}

/// Each trouble comes to one call; all calls run at once. Each must have its answer in the end, and everything is recorded.
fn nothing_is_lost(way: Way, server: &Server) {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("run.jsonl");
    let names: Vec<_> = troubles().into_iter().map(|(name, _)| name).collect();
    let models = |record: Option<PathBuf>, replay| {
        let all = ModelConfig {
            timeout: Some(8.0),
            ..config(way, server)
        };
        Models::new(Config {
            all,
            record,
            replay,
            ..Config::default()
        })
        .unwrap()
    };
    let run = |models: &Models| -> Vec<(Result<ChatReply>, Vec<_>)> {
        let model = models.role("fixer").unwrap();
        let call = async |name: &str| {
            let mut told = Vec::new();
            let request = ask(&question(way, name));
            let reply = model.stream(&request, &mut |event| told.push(event)).await;
            (reply, told)
        };
        block_on(join_all(names.iter().map(|name| call(name))))
    };
    let recording = models(Some(file.clone()), None);
    let first = run(&recording);
    for (name, (reply, _)) in names.iter().zip(&first) {
        let text = reply.as_ref().map(|reply| reply.text.clone());
        assert_eq!(text.map_err(|e| format!("{name}: {e}")), Ok(answer(way, name)));
    }
    for name in &names {
        let asked = asked(server, &question(way, name));
        assert!(asked > 1, "{name} was no trouble");
    }
    let exchanges = read_recording(&file).unwrap();
    assert_eq!(exchanges.len(), names.len());
    assert!(exchanges.iter().all(|e| matches!(e.outcome, Outcome::Reply(_))));
    assert!(!std::fs::read_to_string(&file).unwrap().contains(KEY));
    assert_eq!(recording.account().spent().calls, names.len() as u64);

    let replayed = models(None, Some(file));
    let again = run(&replayed);
    assert_eq!(format!("{again:?}"), format!("{first:?}"));
    assert_eq!(replayed.account().spent(), recording.account().spent());
}

/// Texts are embedded, though the first call is refused.
fn texts_are_embedded(way: Way, server: &Server) {
    let account = Arc::new(Account::default());
    let embedder = OpenAiEmbedder::new(&config(way, server), Arc::clone(&account)).unwrap();
    let texts = [embedded(way), "another text".to_owned()];
    assert_eq!(
        block_on(embedder.embed(&texts)).unwrap(),
        [[0.6, 0.8], [0.6, 0.8]]
    );
    assert_eq!(account.spent().calls, 1);
    let embeddings = |request: &&Value| request["embeddingInput"].to_string().contains(&texts[0]);
    assert!(server.requests().iter().filter(embeddings).count() > 1);
}

/// The server's own wish reaches the error where nothing stands between.
fn the_wait_that_is_asked_for_is_known(server: &Server) {
    let model = model(WAYS[0], server);
    let error = block_on(model.chat(&ask("wait limited"))).unwrap_err();
    assert_eq!(
        (error.kind(), error.retry_after()),
        (ErrorKind::Unavailable, Some(Duration::from_secs(3)))
    );
    let backoff = Backoff::default();
    let wait = backoff.wait(0, &error, &mut rand::rng()).unwrap();
    assert!(wait >= Duration::from_secs(3), "{wait:?}");
}

fn a_key_that_is_wrong_is_not_tried_again(litellm: &Server) {
    let config = ModelConfig {
        key: Some("sk-wrong".into()),
        ..config(WAYS[2], litellm)
    };
    let models = Models::new(Config {
        all: config,
        ..Config::default()
    })
    .unwrap();
    let error = block_on(models.role("fixer").unwrap().chat(&ask("?"))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    assert!(!format!("{error:?}").contains("sk-wrong"), "{error:?}");
}

fn main() {
    let arguments = Arguments::from_args();
    let [aimock, litellm] = install::both(&fixtures(), arguments.list).map(Arc::new);
    type Test = Box<dyn FnOnce(&Server) + Send>;
    let trial = |name: String, server: &Arc<std::result::Result<Server, Absence>>, test: Test| {
        let missing = matches!(**server, Err(Absence::Missing(_)));
        let server = Arc::clone(server);
        let run = move || match &*server {
            Ok(server) => {
                test(server);
                Ok(())
            }
            Err(Absence::Missing(why) | Absence::Broken(why)) => Err(Failed::from(why)),
        };
        Trial::test(name, run).with_ignored_flag(missing)
    };
    let mut trials = vec![
        trial(
            "the_wait_that_is_asked_for_is_known".to_owned(),
            &aimock,
            Box::new(the_wait_that_is_asked_for_is_known),
        ),
        trial(
            "a_key_that_is_wrong_is_not_tried_again".to_owned(),
            &litellm,
            Box::new(a_key_that_is_wrong_is_not_tried_again),
        ),
    ];
    for way in WAYS {
        let server = if way.name == "litellm" { &litellm } else { &aimock };
        let named = |what: &str| format!("{}_{what}", way.name);
        trials.push(trial(
            named("keeps_the_rules"),
            server,
            Box::new(move |s| keeps_the_rules(way, s)),
        ));
        trials.push(trial(
            named("loses_nothing"),
            server,
            Box::new(move |s| nothing_is_lost(way, s)),
        ));
        if way.provider == Provider::Openai {
            trials.push(trial(
                named("embeds_texts"),
                server,
                Box::new(move |s| texts_are_embedded(way, s)),
            ));
        }
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    // The servers end before the process does.
    drop((aimock, litellm));
    conclusion.exit();
}
