//! Recordings: that a run comes out the same without a network, and that another run is told what differs.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "this is a test")]

mod support;

use std::fs;
use std::path::Path;
use std::sync::Arc;

use akg_core::chat::{ChatEvent, ChatModel, ChatReply, ChatRequest, Message};
use akg_core::{Error, ErrorKind, Result};
use akg_llm::{
    Budget, Cassette, Config, ModelConfig, Models, Outcome, Record, Recorder, Replay, read_recording,
};
use futures::executor::block_on;
use support::{Answer, Script, Server, ask};

fn text(text: &str) -> ChatEvent {
    ChatEvent::Text(text.to_owned())
}

/// A conversation whose later questions follow from earlier replies; all that it says and hears, in order.
fn converse(model: &dyn ChatModel, opening: &str) -> String {
    let mut log = String::new();
    let mut messages = vec![Message::user(opening)];
    for turn in 0..3 {
        let request = ChatRequest::new(messages.clone());
        let reply = match turn {
            1 => {
                let mut told = Vec::new();
                let reply = block_on(model.stream(&request, &mut |event| told.push(event)));
                log += &format!("{told:?}\n");
                reply
            }
            _ => block_on(model.chat(&request)),
        };
        match reply {
            Ok(reply) => {
                log += &format!("{reply:?}\n");
                messages.extend([reply.message(), Message::user(format!("{}?", reply.text))]);
            }
            Err(error) => log += &format!("{:?}: {error}\n", error.kind()),
        }
    }
    log
}

fn script() -> Arc<Script> {
    Script::streaming(
        [
            (Vec::new(), Ok(ChatReply::text("one\ntwo"))),
            (
                vec![text("br"), ChatEvent::Restart, text("thr"), text("ee")],
                Ok(ChatReply::text("three")),
            ),
            (
                Vec::new(),
                Err(Error::new(ErrorKind::Timeout, "slow").with("model", "script")),
            ),
        ]
        .into(),
    )
}

fn record(model: Arc<dyn ChatModel>, file: &Path) -> Record {
    Record::new(model, Arc::new(Recorder::open(file).unwrap()))
}

#[test]
fn a_run_comes_out_the_same() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("run.jsonl");
    let recorded = converse(&record(script(), &file), "count");
    let cassette = Cassette::open(&file).unwrap();
    let replay = Replay::new("script", cassette.clone());
    assert_eq!(cassette.remaining(), 3);
    assert_eq!(converse(&replay, "count"), recorded);
    assert_eq!(cassette.remaining(), 0);
    assert_eq!(replay.capability(), script().capability());
}

#[test]
fn another_request_is_told_what_differs() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("run.jsonl");
    converse(&record(script(), &file), "count\nto three");
    let replay = |name: &str| Replay::new(name, Cassette::open(&file).unwrap());
    let error = block_on(replay("script").chat(&ask("count\nto four"))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    let shown = error.to_string();
    assert!(
        shown.contains("\n-request.messages[0].content[0].text: to three\n"),
        "{shown}"
    );
    assert!(
        shown.contains("\n+request.messages[0].content[0].text: to four\n"),
        "{shown}"
    );
    assert!(shown.contains("run.jsonl"), "{shown}");

    let error = block_on(replay("another").chat(&ask("count\nto three"))).unwrap_err();
    assert!(error.to_string().contains("none of the 3"), "{error}");
}

#[test]
fn each_exchange_is_played_once_in_any_order() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("run.jsonl");
    let replies = ["a1", "b", "a2"].map(|text| Ok(ChatReply::text(text)));
    let model = record(Script::new(replies), &file);
    for question in ["a", "b", "a"] {
        block_on(model.chat(&ask(question))).unwrap();
    }
    let replay = Replay::new("script", Cassette::open(&file).unwrap());
    let hear = |question| block_on(replay.chat(&ask(question))).map(|reply| reply.text);
    assert_eq!(
        [hear("b"), hear("a"), hear("a")].map(Result::unwrap),
        ["b", "a1", "a2"]
    );
    assert!(hear("a").is_err());
}

#[test]
fn a_recording_that_was_cut_off_goes_on() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("run.jsonl");
    let once = || record(Script::new([Ok(ChatReply::text("yes"))]), &file);
    block_on(once().chat(&ask("first"))).unwrap();
    let whole = fs::read(&file).unwrap();
    // A process that is killed while it writes leaves any part of a line.
    for cut in [1, whole.len() / 2, whole.len() - 1] {
        let torn = [&whole[..], &whole[..cut]].concat();
        fs::write(&file, &torn).unwrap();
        assert_eq!(read_recording(&file).unwrap().len(), 1);
        block_on(once().chat(&ask("second"))).unwrap();
        let exchanges = read_recording(&file).unwrap();
        assert_eq!(exchanges.len(), 2);
        assert_eq!(exchanges[1].request, ask("second"));
        assert_eq!(exchanges[1].outcome, Outcome::Reply(ChatReply::text("yes")));
    }
    fs::write(&file, "{}\n").unwrap();
    let error = read_recording(&file).unwrap_err();
    assert!(error.to_string().contains("line: 1"), "{error}");
}

/// A run of two roles behind a server, with all layers; then the same without the server.
#[test]
fn models_of_a_run_are_recorded_without_keys_and_replayed_with_their_account() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("run.jsonl");
    let answer = |text: &str| {
        let body = format!(
            "{{\"choices\":[{{\"message\":{{\"content\":\"{text}\"}},\"finish_reason\":\"stop\"}}],\
             \"usage\":{{\"prompt_tokens\":10,\"completion_tokens\":5}}}}"
        );
        Answer::json("200 OK", "", &body)
    };
    let busy = Answer::json("429 Too Many Requests", "retry-after: 0\r\n", "{}");
    let server = Server::start(vec![answer("designed"), busy, answer("fixed")]);
    let config = |record, replay| Config {
        all: ModelConfig {
            model: Some("fast".to_owned()),
            base_url: Some(server.base()),
            key: Some("sk-hidden".into()),
            price_output: Some(2e5),
            ..ModelConfig::default()
        },
        roles: [(
            "designer".to_owned(),
            ModelConfig {
                model: Some("strong".to_owned()),
                ..ModelConfig::default()
            },
        )]
        .into(),
        budget: Budget {
            tokens: Some(30),
            money: None,
        },
        record,
        replay,
    };
    let run = |models: &Models| {
        let said = ["designer", "fixer", "coder"].map(|role| {
            let model = models.role(role).unwrap();
            let reply = block_on(model.chat(&ask("go")));
            (
                model.name().to_owned(),
                reply.map(|r| r.text).map_err(|e| e.kind()),
            )
        });
        (said, models.account().spent())
    };
    let models = Models::new(config(Some(file.clone()), None)).unwrap();
    assert!(!format!("{models:?}").contains("sk-hidden"));
    let recorded = run(&models);
    let wanted = [
        ("strong", Ok("designed")),
        ("fast", Ok("fixed")),
        ("fast", Err(ErrorKind::BudgetSpent)),
    ];
    assert_eq!(
        recorded.0,
        wanted.map(|(name, reply)| (name.to_owned(), reply.map(str::to_owned)))
    );
    assert!((recorded.1.money - 2.0).abs() < 1e-9);
    let models_asked = server.requests.lock().unwrap().clone();
    assert!(models_asked[0].1.contains("\"strong\"") && models_asked[2].1.contains("\"fast\""));
    assert!(!fs::read_to_string(&file).unwrap().contains("sk-hidden"));

    let replayed = Models::new(config(None, Some(file.clone()))).unwrap();
    assert_eq!(run(&replayed), recorded);
    assert_eq!(replayed.cassette().unwrap().remaining(), 0);
    assert!(Models::new(config(Some(file.clone()), Some(file))).is_err());
}
