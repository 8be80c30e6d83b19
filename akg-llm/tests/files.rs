//! Requests and replies as files: with somebody who answers them, and as batches.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "this is a test")]

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use akg_core::chat::ChatModel as _;
use akg_core::{ErrorKind, conformance};
use akg_llm::{Files, ModelConfig, export_batch, import_batch};
use futures::executor::block_on;
use futures::future::{join, join_all, poll_immediate};
use serde_json::{Value, json};
use support::ask;

fn files(folder: &Path) -> Files {
    let config = ModelConfig {
        model: Some("somebody".to_owned()),
        folder: Some(folder.to_owned()),
        ..ModelConfig::default()
    };
    Files::new(&config).unwrap()
}

/// The request files in `folder` and what they hold, by ID.
fn requests(folder: &Path) -> BTreeMap<String, Value> {
    let entries = fs::read_dir(folder).unwrap().map(|e| e.unwrap().path());
    let request = |path: PathBuf| {
        let id = path
            .file_name()?
            .to_str()?
            .strip_suffix(".request.json")?
            .to_owned();
        Some((id, serde_json::from_slice(&fs::read(path).unwrap()).unwrap()))
    };
    entries.filter_map(request).collect()
}

fn answer(folder: &Path, id: &str, text: &str) {
    fs::write(folder.join(format!("{id}.reply.json")), text).unwrap();
}

/// Answers what the conformance functions ask, as a person would who reads the files.
fn person(folder: &Path, done: &AtomicBool) {
    while !done.load(Ordering::SeqCst) {
        for (id, asked) in requests(folder) {
            let messages = asked["request"]["messages"].as_array().unwrap();
            let text = messages.last().unwrap().to_string();
            let call = json!({"id": "c", "name": "add", "arguments": "{\"a\": 2, \"b\": 3}"});
            let reply = if text.contains("the word ready") {
                json!({"text": "ready"})
            } else if text.contains("Call the tool") {
                json!({"calls": [call], "stop": "calls"})
            } else if text.contains("Give the point") {
                json!({"text": "{\"x\": 2, \"y\": 3}"})
            } else if text.contains("the colour") {
                json!({"text": "red"})
            } else {
                json!({"text": "5"})
            };
            if !folder.join(format!("{id}.reply.json")).exists() {
                answer(folder, &id, &reply.to_string());
            }
        }
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_folder_that_somebody_looks_after_keeps_the_rules() {
    let folder = tempfile::tempdir().unwrap();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| person(folder.path(), &done));
        let report = block_on(conformance::chat(&files(folder.path())));
        done.store(true, Ordering::SeqCst);
        report.assert_held();
    });
}

#[test]
fn a_run_that_is_started_again_finds_its_replies() {
    let folder = tempfile::tempdir().unwrap();
    let (same, other) = (ask("same"), ask("other"));
    // Two of the same, at once; nobody answers, and the run is given up.
    let model = files(folder.path());
    block_on(async {
        let calls = [&same, &same, &other].map(|request| model.chat(request));
        assert!(poll_immediate(join_all(calls)).await.is_none());
    });
    let ids: Vec<String> = requests(folder.path()).into_keys().collect();
    assert_eq!(ids.len(), 3, "{ids:?}");
    for id in &ids {
        answer(folder.path(), id, &json!({"text": id}).to_string());
    }

    let model = files(folder.path());
    let (first, second) = block_on(join(model.chat(&same), model.chat(&same)));
    let (first, second) = (first.unwrap().text, second.unwrap().text);
    assert!(
        first.ends_with("-1") && second.ends_with("-2"),
        "{first} {second}"
    );
    let third = block_on(model.chat(&other)).unwrap().text;
    assert!(third.ends_with("-1") && third != first, "{third}");
    assert_eq!(requests(folder.path()).len(), 3);
}

#[test]
fn a_call_that_is_dropped_leaves_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let model = files(folder.path());
    for _ in 0..3 {
        assert!(block_on(poll_immediate(model.chat(&ask("?")))).is_none());
    }
    assert_eq!(requests(folder.path()).len(), 1);
}

#[test]
fn replies_that_are_wrong_name_the_file() {
    for wrong in ["{\"text\": ", "{\"txt\": \"a\"}", ""] {
        let folder = tempfile::tempdir().unwrap();
        let model = files(folder.path());
        assert!(block_on(poll_immediate(model.chat(&ask("?")))).is_none());
        let id = requests(folder.path()).into_keys().next().unwrap();
        answer(folder.path(), &id, wrong);
        let error = block_on(model.chat(&ask("?"))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains(&format!("{id}.reply.json")), "{error}");
    }
}

/// Asks so that the requests are in the folder, and gives up.
fn leave(model: &Files, texts: &[&str]) {
    for text in texts {
        assert!(block_on(poll_immediate(model.chat(&ask(text)))).is_none());
    }
}

#[test]
fn batches_go_out_and_come_back() {
    let place = tempfile::tempdir().unwrap();
    let (folder, batch) = (place.path().join("folder"), place.path().join("batch.jsonl"));
    let model = files(&folder);
    leave(&model, &["one", "two", "three"]);
    assert_eq!(export_batch(&folder, &batch).unwrap(), 3);
    let lines: Vec<Value> = fs::read_to_string(&batch)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let id = |text: &str| {
        let is = |line: &&Value| line["body"]["messages"][0]["content"] == text;
        let line = lines.iter().find(is).unwrap();
        assert_eq!(
            (&line["method"], &line["url"]),
            (&json!("POST"), &json!("/v1/chat/completions"))
        );
        assert_eq!(line["body"]["model"], "somebody");
        line["custom_id"].clone()
    };

    // As OpenAI's reference shows the lines of the output and the error file.
    let body = json!({
        "id": "chatcmpl-1", "object": "chat.completion", "model": "somebody",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "uno"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 24, "completion_tokens": 15, "total_tokens": 39},
    });
    let results = [
        json!({"id": "b1", "custom_id": id("one"), "error": null,
               "response": {"status_code": 200, "request_id": "r1", "body": body}}),
        json!({"id": "b2", "custom_id": id("two"), "error": null,
               "response": {"status_code": 500, "request_id": "r2", "body": {"error": {"message": "sorry"}}}}),
        json!({"id": "b3", "custom_id": id("three"), "response": null,
               "error": {"code": "batch_expired", "message": "too late"}}),
    ];
    let results = results.map(|line| line.to_string()).join("\n");
    let output = place.path().join("output.jsonl");
    fs::write(&output, &results).unwrap();
    let imported = import_batch(&folder, &output).unwrap();
    assert_eq!(imported.replies, 1);
    let failed: Vec<_> = imported.failed.iter().map(|(id, _)| json!(id)).collect();
    assert_eq!(failed, [id("two"), id("three")]);
    assert!(imported.failed[0].1.contains("sorry") && imported.failed[1].1.contains("too late"));

    let reply = block_on(model.chat(&ask("one"))).unwrap();
    assert_eq!((reply.text.as_str(), reply.usage.unwrap().total()), ("uno", 39));
    assert_eq!(export_batch(&folder, &batch).unwrap(), 2);
    assert_eq!(import_batch(&folder, &output).unwrap().replies, 0);
}

#[test]
fn results_of_other_requests_are_refused() {
    let place = tempfile::tempdir().unwrap();
    let (folder, output) = (place.path().join("folder"), place.path().join("output.jsonl"));
    leave(&files(&folder), &["one"]);
    for (line, wanted) in [
        (
            "{\"custom_id\": \"../../elsewhere\", \"response\": null}",
            "elsewhere",
        ),
        ("not JSON", "line: 1"),
    ] {
        fs::write(&output, line).unwrap();
        let error = import_batch(&folder, &output).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains(wanted), "{error}");
    }
    let nowhere = place.path().join("empty");
    fs::create_dir(&nowhere).unwrap();
    assert_eq!(
        export_batch(&nowhere, &output).unwrap_err().kind(),
        ErrorKind::NotFound
    );
}
