//! Sessions that tune and remember, on a simulated device whose fastest configuration is known.
#![allow(clippy::unwrap_used, reason = "tests")]

mod simulated;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use akg_core::session::Outcome;
use akg_core::source::KnobValue;
use akg_core::store::{Measurement, MemoryStore, StoreExt as _, TuningRecord};
use akg_core::tuner::Origin;
use akg_core::verdict::FailureKind;
use futures::executor::block_on;
use simulated::{PLENTY, Shared, seconds, session, task};

fn run(world: &Shared, store: &Arc<MemoryStore>, n: usize, budget: Duration) -> Outcome {
    block_on(session(world, store, budget).run(&task(n))).unwrap()
}

fn best(outcome: &Outcome) -> (KnobValue, KnobValue) {
    let knobs = &outcome.best().unwrap().source.knobs;
    (knobs["A"], knobs["B"])
}

const FASTEST: (KnobValue, KnobValue) = (KnobValue::Int(256), KnobValue::Int(128));

#[test]
fn the_fastest_configuration_that_is_right_is_found_and_nothing_is_done_twice() {
    let (world, store) = (Shared::default(), Arc::default());
    let outcome = run(&world, &store, 4096, PLENTY);
    assert_eq!(best(&outcome), FASTEST);
    let tuning = outcome.tuning.as_ref().unwrap();
    assert_eq!(tuning.origin, Origin::Ranking);
    let expected = seconds("K = 2 A = 256 B = 128") / seconds("K = 2 A = 64 B = 64");
    assert!((tuning.relative / expected - 1.0).abs() < 0.02, "{tuning:?}");
    assert!(!tuning.cut_short);
    // What was wrong in its duel, and what only the judge saw through.
    let failures: Vec<FailureKind> = tuning
        .trials
        .iter()
        .filter_map(|t| Some(t.failure.as_ref()?.kind))
        .collect();
    assert!(failures.contains(&FailureKind::WrongValues), "{failures:?}");
    let all: Vec<TuningRecord> = store.all(None).unwrap();
    let of = |a: i64, b: i64| {
        let mut matching = all
            .iter()
            .filter(move |r| r.knobs["A"] == KnobValue::Int(a) && r.knobs["B"] == KnobValue::Int(b));
        matching.next().unwrap()
    };
    assert_eq!(of(256, 512).failure.as_ref().unwrap().evidence, "seen through");
    assert!(of(512, 64).failure.is_some());
    assert!(of(256, 128).chosen);
    assert_eq!(all.iter().filter(|r| r.chosen).count(), 1);
    world.with(|w| {
        let distinct: HashSet<&String> = w.builds.iter().collect();
        assert_eq!(distinct.len(), w.builds.len(), "{:?}", w.builds);
        let distinct: HashSet<&String> = w.verdicts.iter().collect();
        assert_eq!(distinct.len(), w.verdicts.len(), "{:?}", w.verdicts);
    });
}

#[test]
fn a_second_run_does_nothing_again() {
    let (world, store) = (Shared::default(), Arc::default());
    let first = run(&world, &store, 4096, PLENTY);
    let again = Shared::default();
    let second = run(&again, &store, 4096, PLENTY);
    assert_eq!(best(&second), FASTEST);
    let tuning = second.tuning.as_ref().unwrap();
    assert_eq!((tuning.origin, tuning.trials.len()), (Origin::Record, 0));
    let (a, b) = (first.best().unwrap(), second.best().unwrap());
    assert_eq!((a.key, &a.verdict, &a.timing), (b.key, &b.verdict, &b.timing));
    assert!(b.recalled && !a.recalled && b.timing.is_some());
    again.with(|w| assert_eq!((w.builds.len(), w.verdicts.len(), w.loads), (0, 0, 0)));
}

#[test]
fn what_was_disturbed_is_measured_again_only_if_asked() {
    let (world, store) = (Shared::default(), Arc::default());
    world.with(|w| w.crowded = true);
    let first = run(&world, &store, 4096, PLENTY);
    assert_eq!(best(&first), (KnobValue::Int(64), KnobValue::Int(64)));
    assert!(!first.best().unwrap().timing.as_ref().unwrap().is_stable());
    let calm = Shared::default();
    let second = run(&calm, &store, 4096, PLENTY);
    assert_eq!(second.best().unwrap().timing, first.best().unwrap().timing);
    assert!(second.tuning.unwrap().stopped.contains("others used the machine"));
    calm.with(|w| assert_eq!((w.builds.len(), w.verdicts.len(), w.loads), (0, 0, 0)));
    let session = session(&calm, &store, PLENTY).with_retry(true);
    let retried = block_on(session.run(&task(4096))).unwrap();
    assert_eq!(best(&retried), FASTEST);
    assert!(retried.best().unwrap().timing.as_ref().unwrap().is_stable());
}

#[test]
fn a_run_that_ended_early_is_taken_up_where_it_was() {
    let mut ended = 0;
    for lost_at in (3..200).step_by(20) {
        let (world, store) = (Shared::default(), Arc::default());
        world.with(|w| w.lost_at = Some(lost_at));
        ended += usize::from(block_on(session(&world, &store, PLENTY).run(&task(4096))).is_err());
        world.with(|w| w.lost_at = None);
        let outcome = run(&world, &store, 4096, PLENTY);
        assert_eq!(best(&outcome), FASTEST, "lost at {lost_at}");
        world.with(|w| {
            let distinct: HashSet<&String> = w.verdicts.iter().collect();
            assert_eq!(
                distinct.len(),
                w.verdicts.len(),
                "lost at {lost_at}: {:?}",
                w.verdicts
            );
            let distinct: HashSet<&String> = w.builds.iter().collect();
            assert_eq!(
                distinct.len(),
                w.builds.len(),
                "lost at {lost_at}: {:?}",
                w.builds
            );
        });
        let duels: Vec<Measurement> = store.all(None).unwrap();
        let duels: Vec<_> = duels.iter().filter(|m| m.challenged.is_some()).collect();
        let challengers: HashSet<_> = duels.iter().map(|m| m.candidate).collect();
        assert_eq!(challengers.len(), duels.len(), "lost at {lost_at}");
    }
    assert!(ended > 3, "{ended}");
}

#[test]
fn a_larger_budget_goes_on_and_another_shape_starts_from_the_record() {
    let (world, store) = (Shared::default(), Arc::default());
    let outcome = run(&world, &store, 4096, Duration::ZERO);
    assert_eq!(best(&outcome), (KnobValue::Int(64), KnobValue::Int(64)));
    assert!(outcome.tuning.unwrap().cut_short);
    // The same budget is no reason to tune again, a larger one is.
    let outcome = run(&world, &store, 4096, Duration::ZERO);
    assert_eq!(outcome.tuning.unwrap().trials.len(), 0);
    let outcome = run(&world, &store, 4096, PLENTY);
    assert_eq!(best(&outcome), FASTEST);
    let near = run(&world, &store, 8192, PLENTY);
    assert_eq!(best(&near), FASTEST);
    let tuning = near.tuning.unwrap();
    assert_eq!(
        (tuning.origin, tuning.trials[0].origin),
        (Origin::NearRecord, Origin::NearRecord)
    );
    assert!(tuning.trials[0].faster);
}
