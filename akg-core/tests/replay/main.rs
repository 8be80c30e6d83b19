//! A recorded run of more than fifty steps, in which models have all roles and times are left to chance: replayed where nobody
//! answers and nothing can be built, judged or executed, it decides the same.
//!
//! `AKG_BLESS=1` records it again. The prompts are the test's own, so that others may change.
#![allow(clippy::unwrap_used, reason = "tests")]

mod run;
#[path = "../simulated/mod.rs"]
mod simulated;
mod tape;

use std::fmt::Debug;
use std::sync::Arc;

use akg_core::ErrorKind;
use akg_core::store::{
    Record, RefutationRecord, Replay, RunRecord, StepRecord, Store, StoreExt as _, TuningRecord,
};
use run::{PASSES, here, run};
use simulated::Shared;
use tape::Tape;

/// The part of a call's time that was left to chance when the run was recorded.
const NOISE: f64 = 0.03;

const LEAST_STEPS: usize = 50;

/// What a run wrote down of a kind, whenever that was.
fn decided<R: Record + Debug>(store: &dyn Store) -> Vec<serde_json::Value> {
    let timeless = |record: R| {
        let mut value = serde_json::to_value(&record).unwrap();
        value["at"] = serde_json::Value::Null;
        value
    };
    store.all::<R>(None).unwrap().into_iter().map(timeless).collect()
}

#[test]
fn a_recorded_run_decides_the_same_where_nothing_answers() {
    let file = here().join("run.jsonl");
    if std::env::var_os("AKG_BLESS").is_some() {
        let (world, tape) = (Shared::default(), Arc::new(Tape::default()));
        world.with(|w| w.noise = NOISE);
        run(&world, tape.clone(), PASSES).unwrap();
        tape.write(&file);
    }
    let recorded: Arc<dyn Store> = Arc::new(Tape::read(&file));
    let (world, replay) = (Shared::default(), Arc::new(Replay::new(recorded.clone())));
    world.with(|w| w.closed = true);
    let outcome = run(&world, replay.clone(), PASSES).unwrap_or_else(|e| {
        panic!("{e}\nif what akg asks or decides was changed on purpose, `AKG_BLESS=1` records the run again")
    });
    assert_eq!(decided::<StepRecord>(&replay), decided::<StepRecord>(&recorded));
    assert_eq!(decided::<RunRecord>(&replay), decided::<RunRecord>(&recorded));
    assert_eq!(
        decided::<TuningRecord>(&replay),
        decided::<TuningRecord>(&recorded)
    );
    assert_eq!(
        decided::<RefutationRecord>(&replay),
        decided::<RefutationRecord>(&recorded)
    );
    let steps = decided::<StepRecord>(&replay).len();
    assert!(steps >= LEAST_STEPS, "{steps} steps");
    assert!(outcome.attempts.iter().all(|attempt| attempt.recalled));
    assert_eq!(outcome.passes.len(), PASSES);
}

#[test]
fn an_answer_that_was_not_recorded_is_an_error() {
    let recorded = Arc::new(Tape::read(&here().join("run.jsonl")));
    // The models would answer in one more pass.
    let error = run(&Shared::default(), Arc::new(Replay::new(recorded)), PASSES + 1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    assert!(error.to_string().contains("was not recorded"), "{error}");
}
