//! Populations and strategies.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use std::ops::ControlFlow;

use proptest::prelude::*;

use super::Strategy;
use super::*;
use crate::digest::Digest;
use crate::verdict::FailureKind;

mod crossing;
mod prints;

/// All strategies with a seed, for so many moves.
fn strategies(seed: u64, most: usize) -> Vec<Box<dyn Strategy>> {
    vec![
        Box::new(Random { seed, most }),
        Box::new(BestOfN { most, width: 4 }),
        Box::new(Evolution::new(seed, most)),
        Box::new(Adaptive::new(seed, most)),
    ]
}

fn passed(seconds: f64, spread: f64) -> Outcome {
    Outcome::Passed(Measured { seconds, spread })
}

fn features(family: &str) -> Features {
    Features {
        family: family.to_owned(),
        tile_elements: 64,
        on_chip_bytes: 4096,
        precision: String::new(),
    }
}

/// What a landscape without noise makes of a move: children are a little faster or slower than their first parent, by a hash of
/// the seed and the number; some fail.
fn outcome(population: &Population, number: usize, seed: u64) -> Outcome {
    let hash = Digest::of(format!("{seed} {number}").as_bytes()).to_string();
    let draw = f64::from(u32::from_str_radix(&hash[..8], 16).unwrap()) / f64::from(u32::MAX);
    if draw < 0.2 {
        return Outcome::Failed(FailureKind::WrongValues);
    }
    let parent = population.get(number).and_then(|member| member.parents.first());
    let parent = parent.and_then(|parent| population.get(*parent)?.measured());
    match parent {
        Some(parent) => passed(parent.seconds * (0.85 + 0.3 * draw), 0.0),
        None => passed(1.0 + draw, 0.0),
    }
}

/// Runs a strategy with up to `under_way` moves at a time, which settle in an order of their own.
fn run(strategy: &dyn Strategy, seed: u64, under_way: usize) -> Population {
    let mut population = Population::default();
    let mut open = Vec::new();
    loop {
        let next = strategy.next(&population);
        if let ControlFlow::Continue(next) = &next {
            open.push(population.begin(next).unwrap());
        }
        if open.len() >= under_way || next.is_break() {
            if open.is_empty() {
                return population;
            }
            let number = open.remove((seed as usize + population.members().len()) % open.len());
            let outcome = outcome(&population, number, seed);
            let family = ["a", "b", "c"][number % 3];
            population
                .settle(number, Some(features(family)), outcome)
                .unwrap();
        }
    }
}

#[test]
fn strategies_go_by_their_names() {
    for name in STRATEGIES {
        assert_eq!(strategy(name, 1, 8).unwrap().name(), name);
    }
    for known in strategies(1, 8) {
        assert!(STRATEGIES.contains(&known.name()), "{known:?}");
    }
    assert_eq!(strategy(DEFAULT, 1, 8).unwrap().name(), DEFAULT);
    assert!(
        strategy("luck", 1, 8)
            .unwrap_err()
            .to_string()
            .contains("evolution")
    );
}

#[test]
fn a_killed_search_goes_on_as_if_it_had_not_been() {
    for strategy in strategies(3, 120) {
        let whole = run(&*strategy, 3, 1);
        // At each move, what the records say is enough to find the next.
        let mut replayed = Population::default();
        for member in whole.members() {
            let json = serde_json::to_string(&replayed).unwrap();
            let resumed: Population = serde_json::from_str(&json).unwrap();
            assert_eq!(resumed, replayed);
            let ControlFlow::Continue(next) = strategy.next(&resumed) else {
                panic!("{} ends early", strategy.name());
            };
            assert_eq!(next.parents(), member.parents, "{}", strategy.name());
            assert_eq!(next.inspirations(), member.inspirations);
            let number = replayed.begin(&next).unwrap();
            let (features, outcome) = (member.features.clone(), member.outcome.unwrap());
            replayed.settle(number, features, outcome).unwrap();
        }
        assert_eq!(strategy.next(&replayed), ControlFlow::Break(Stop::Done));
    }
}

#[test]
fn moves_under_way_do_not_stop_others_and_settle_in_any_order() {
    for strategy in strategies(5, 100) {
        let population = run(&*strategy, 5, 8);
        assert_eq!(population.members().len(), 100, "{}", strategy.name());
        assert_eq!(population.pending().count(), 0);
        for member in population.members() {
            for other in member.parents.iter().chain(&member.inspirations) {
                assert!(*other < member.number);
            }
            for parent in &member.parents {
                assert!(
                    population.get(*parent).unwrap().measured().is_some(),
                    "what failed has no children"
                );
            }
        }
    }
}

#[test]
fn strategies_that_look_at_times_find_faster_members_than_one_that_does_not() {
    let found = |strategy: &dyn Strategy, seed| {
        let population = run(strategy, seed, 4);
        population.best().unwrap().measured().unwrap().seconds
    };
    let mut wins = [0; 3];
    for seed in 0..20 {
        let all: Vec<f64> = strategies(seed, 200).iter().map(|s| found(&**s, seed)).collect();
        for (win, seconds) in wins.iter_mut().zip(&all[1..]) {
            *win += u32::from(*seconds < all[0]);
        }
    }
    // A sign test with p < 0.01.
    assert!(wins.iter().all(|wins| *wins >= 16), "{wins:?}");
}

#[test]
fn what_is_faster_within_the_noise_is_not_better() {
    let mut population = Population::default();
    let fresh = Move::Fresh { inspirations: vec![] };
    for (seconds, spread) in [(1.0, 0.3), (0.96, 0.05), (0.89, 0.05), (0.88, 0.02)] {
        let number = population.begin(&fresh).unwrap();
        population.settle(number, None, passed(seconds, spread)).unwrap();
    }
    // 0.89 is faster than 1.0 beyond the noise, 0.95 is not, and 0.88 is not faster than 0.89.
    assert_eq!(population.best().unwrap().number, 2);
    assert_eq!(population.stalled(), 1);
}

#[test]
fn duplicates_are_found_while_the_other_is_under_way_and_never_measured() {
    let mut population = Population::default();
    let fresh = Move::Fresh { inspirations: vec![] };
    let [a, b, c] = [0; 3].map(|_| population.begin(&fresh).unwrap());
    let print = Digest::of(b"the same");
    assert_eq!(population.identify(a, print).unwrap(), None);
    assert_eq!(population.identify(b, print).unwrap(), Some(a));
    assert_eq!(population.get(b).unwrap().outcome, Some(Outcome::Duplicate(a)));
    population
        .settle(a, None, Outcome::Failed(FailureKind::Crashed))
        .unwrap();
    // What failed would fail again.
    assert_eq!(population.identify(c, print).unwrap(), Some(a));
    assert!(
        population.settle(c, None, passed(1.0, 0.0)).is_err(),
        "settled twice"
    );
    assert!(
        population
            .begin(&Move::Improve {
                parent: 9,
                inspirations: vec![]
            })
            .is_err()
    );
}

#[test]
fn what_failed_after_all_is_no_parent_and_its_children_stay() {
    let mut population = Population::default();
    let inspirations = vec![];
    let first = population.begin(&Move::Fresh { inspirations }).unwrap();
    assert!(population.fail(first, FailureKind::Crashed).is_err(), "under way");
    population.settle(first, None, passed(1.0, 0.0)).unwrap();
    let (parent, inspirations) = (first, vec![]);
    let child = population.begin(&Move::Improve { parent, inspirations }).unwrap();
    population.settle(child, None, passed(2.0, 0.0)).unwrap();
    population.fail(first, FailureKind::Crashed).unwrap();
    assert_eq!(population.best().unwrap().number, child);
    assert_eq!(population.get(child).unwrap().lineage, first);
    assert!(population.fail(first, FailureKind::Crashed).is_err(), "failed");
}

#[test]
fn a_member_that_was_replaced_is_known_by_what_failed_too() {
    let mut population = Population::default();
    let fresh = Move::Fresh { inspirations: vec![] };
    let [a, b] = [0; 2].map(|_| population.begin(&fresh).unwrap());
    let [before, after] = [Digest::of(b"before"), Digest::of(b"after")];
    assert_eq!(population.identify(a, before).unwrap(), None);
    assert_eq!(population.identify(a, after).unwrap(), None);
    assert_eq!(population.identify(b, before).unwrap(), Some(a));
    let alike: Vec<usize> = population.like(before).map(|member| member.number).collect();
    assert_eq!(alike, [a], "a duplicate is nothing of its own");
}

#[test]
fn a_short_search_goes_on_from_what_is_there() {
    for name in ["adaptive", "evolution", "climb"] {
        let strategy = strategy(name, 1, 6).unwrap();
        let population = run(&*strategy, 1, 1);
        let fresh = population.members().iter().filter(|m| m.parents.is_empty());
        assert!(fresh.count() < 5, "{name}");
    }
}

#[test]
fn migrants_are_parents_on_the_next_island() {
    let strategy = Evolution {
        islands: 2,
        initial: 1,
        fresh: 0.0,
        cross: 0.0,
        migration: 4,
        ..Evolution::new(1, 400)
    };
    let mut population = Population::default();
    // Whatever is born on the first island is far faster.
    while let ControlFlow::Continue(next) = strategy.next(&population) {
        let number = population.begin(&next).unwrap();
        let seconds = if strategy.island(number) == 0 { 1.0 } else { 9.0 };
        let family = format!("island {}", strategy.island(number));
        population
            .settle(number, Some(features(&family)), passed(seconds, 0.0))
            .unwrap();
    }
    let crossed = population.members().iter().filter(|member| {
        let parent = member.parents.first();
        strategy.island(member.number) == 1 && parent.is_some_and(|parent| strategy.island(*parent) == 0)
    });
    assert!(crossed.count() > 20);
    // Before anything migrated, nothing has.
    let early = population.members().iter().take(4);
    assert!(
        early
            .flat_map(|m| m.parents.iter().map(move |p| (m.number, p)))
            .all(|(n, p)| n % 2 == p % 2)
    );
}

#[test]
fn a_slow_member_of_another_kind_stays_a_parent() {
    let strategy = Evolution {
        islands: 1,
        fresh: 0.0,
        pressure: 1.0,
        ..Evolution::new(1, 200)
    };
    let mut population = Population::default();
    while let ControlFlow::Continue(next) = strategy.next(&population) {
        let number = population.begin(&next).unwrap();
        let (family, seconds) = if number == 0 {
            ("rare", 5.0)
        } else {
            ("usual", 1.0)
        };
        population
            .settle(number, Some(features(family)), passed(seconds, 0.0))
            .unwrap();
    }
    assert!(population.children(0).count() > 5);
    // Of those of one kind that cannot be told apart, the first is the elite.
    assert!(population.children(2).count() == 0 && population.children(1).count() > 50);
}

#[test]
fn no_lineage_takes_all_moves_and_the_best_takes_most() {
    let strategy = Adaptive {
        cross: 0.0,
        temperature: [0.5, 0.1],
        ..Adaptive::new(1, 300)
    };
    let mut population = Population::default();
    while let ControlFlow::Continue(next) = strategy.next(&population) {
        let number = population.begin(&next).unwrap();
        let lineage = population.get(number).unwrap().lineage;
        population
            .settle(number, None, passed(1.0 + lineage as f64, 0.0))
            .unwrap();
    }
    let size = |lineage| {
        population
            .members()
            .iter()
            .filter(|m| m.lineage == lineage)
            .count()
    };
    let founders: Vec<usize> = (0..8).map(size).collect();
    assert!(founders.iter().all(|size| *size > 1), "{founders:?}");
    assert_eq!(founders.iter().max(), founders.first(), "{founders:?}");
    assert!(founders[0] < 240, "{founders:?}");
}

#[test]
fn a_search_that_stands_still_ends() {
    let patient: [Box<dyn Strategy>; 2] = [
        Box::new(Evolution {
            patience: Some(20),
            ..Evolution::new(2, 1000)
        }),
        Box::new(Adaptive {
            patience: Some(20),
            ..Adaptive::new(2, 1000)
        }),
    ];
    for strategy in patient {
        let mut population = Population::default();
        let stop = loop {
            match strategy.next(&population) {
                ControlFlow::Break(stop) => break stop,
                ControlFlow::Continue(next) => {
                    let number = population.begin(&next).unwrap();
                    // The tenth is the last that is faster.
                    let seconds = 1.0 / (1 + number.min(10)) as f64;
                    population.settle(number, None, passed(seconds, 0.0)).unwrap();
                }
            }
        };
        assert_eq!((stop, population.members().len()), (Stop::Converged, 31));
    }
}

proptest! {
    /// Whatever settles in whatever order, strategies answer, name members that there are, and answer the same again.
    #[test]
    fn strategies_answer_any_population(
        seed in any::<u64>(),
        history in prop::collection::vec((0u8..4, 0.5f64..2.0, 0.0f64..0.2, 0usize..4), 0..60),
    ) {
        for strategy in strategies(seed, 64) {
            let mut population = Population::default();
            for (kind, seconds, spread, delay) in &history {
                let ControlFlow::Continue(next) = strategy.next(&population) else { break };
                prop_assert_eq!(strategy.next(&population), ControlFlow::Continue(next.clone()));
                population.begin(&next).unwrap();
                let open: Vec<usize> = population.pending().map(|member| member.number).collect();
                if open.len() > *delay {
                    let outcome = match kind {
                        0 => Outcome::Failed(FailureKind::CompileFailed),
                        _ => passed(*seconds, *spread),
                    };
                    let features = (*kind > 1).then(|| features(["x", "y"][usize::from(*kind) % 2]));
                    population.settle(open[delay % open.len()], features, outcome).unwrap();
                }
                let parents = next.parents();
                prop_assert!(next.inspirations().iter().all(|number| !parents.contains(number)));
            }
        }
    }
}
