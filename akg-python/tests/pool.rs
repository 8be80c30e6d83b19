//! Processes that answer the calls of a script.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

mod common;

use std::collections::BTreeSet;
use std::time::Duration;

use akg_core::ErrorKind;
use akg_python::{Config, Package, Pool, PythonOptions, Script};
use serde_json::{Value, json};

const SCRIPT: Script = Script {
    name: "echo",
    text: "import os, time


def answer(arguments):
    if arguments == \"raise\":
        raise ValueError(\"no such thing\")
    if arguments == \"die\":
        os._exit(3)
    if arguments == \"sleep\":
        time.sleep(1000)
    time.sleep(0.2)
    return {\"pid\": os.getpid(), \"arguments\": arguments}
",
    imports: &["json"],
    package: Package::Triton,
};

const LIMIT: Duration = Duration::from_secs(60);

/// A pool, unless there is no Python with the package that it asks for.
fn pool() -> Option<Pool> {
    let environment = common::environment()?;
    if environment.version_of(SCRIPT.package).unwrap().is_none() {
        eprintln!(
            "skipped: {} has no {}",
            environment.python().display(),
            SCRIPT.package.name()
        );
        return None;
    }
    Some(Pool::new(Config::default(), PythonOptions::default(), SCRIPT))
}

fn call(pool: &Pool, arguments: &Value) -> akg_core::Result<Value> {
    pool.call(arguments, LIMIT).map(|(answer, _)| answer)
}

#[test]
fn calls_are_answered_several_at_a_time_by_processes_that_stay() {
    let Some(pool) = pool() else { return };
    let round = || -> BTreeSet<u64> {
        std::thread::scope(|scope| {
            let pool = &pool;
            let calls: Vec<_> = (0..6)
                .map(|n| scope.spawn(move || (n, call(pool, &json!([n])).unwrap())))
                .collect();
            let answers = calls.into_iter().map(|c| c.join().unwrap());
            answers
                .map(|(n, answer)| {
                    assert_eq!(answer["arguments"], json!([n]));
                    answer["pid"].as_u64().unwrap()
                })
                .collect()
        })
    };
    let first = round();
    let most = std::thread::available_parallelism().unwrap().get();
    assert!((1..=most).contains(&first.len()), "{first:?}");
    assert!(round().is_subset(&first), "a later call started another process");
}

#[test]
fn a_call_that_fails_harms_no_other() {
    let Some(pool) = pool() else { return };
    let kinds = [("raise", ErrorKind::Unexpected), ("die", ErrorKind::WorkerLost)];
    for (arguments, kind) in kinds {
        let error = call(&pool, &json!(arguments)).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert_eq!(call(&pool, &json!(1)).unwrap()["arguments"], 1);
    }
    let slow = pool
        .call::<Value>(&json!("sleep"), Duration::from_millis(500))
        .unwrap_err();
    assert_eq!(slow.kind(), ErrorKind::Timeout);
    assert_eq!(call(&pool, &json!(2)).unwrap()["arguments"], 2);
}
