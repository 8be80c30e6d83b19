//! Contests of simulated sides on a simulated clock: what is claimed follows from what was planted.
#![allow(clippy::unwrap_used, reason = "tests")]

mod world;

use std::time::Duration;

use akg_core::backend::Cache;
use akg_core::timing::{
    Claim, ClockLimit, Contest, ContestPolicy, Disturbance, Entrants, Floor, Reading, Span, Usage, Witness,
    contest,
};
use akg_core::verdict::FailureKind;
use futures::executor::block_on;

use world::{CONSTANT, Observer, Simulated, side, world};

fn policy() -> ContestPolicy {
    let mut policy = ContestPolicy::default();
    policy.budget = Duration::from_secs(60);
    policy
}

/// A candidate with its twin against one rival.
fn duel(candidate: &mut Simulated, twin: &mut Simulated, rival: &mut Simulated, seed: u64) -> Contest {
    let mut observer = Observer(candidate.world.clone());
    let entrants = Entrants {
        candidate,
        twin: Some(twin),
        rivals: vec![rival],
        floor: None,
    };
    block_on(contest(entrants, &policy(), seed, &mut observer)).unwrap()
}

/// A candidate whose calls take `slowdown` times as long as its rival's.
fn planted(slowdown: f64, call: f64, seed: u64) -> Contest {
    let world = world(seed);
    let mine = call * slowdown;
    let mut sides =
        [("candidate", mine), ("candidate", mine), ("rival", call)].map(|(n, c)| side(n, &world, c));
    let [candidate, twin, rival] = &mut sides;
    duel(candidate, twin, rival, seed)
}

fn claims(contests: &[Contest], cache: Cache, claim: Claim) -> usize {
    let all = contests.iter().flat_map(|c| &c.comparisons);
    all.filter(|c| c.cache == cache && c.claim == claim).count()
}

#[test]
fn a_planted_slowdown_of_5_percent_is_seen() {
    for (call, runs) in [(2e-6, 20), (3e-4, 20), (2e-2, 20)] {
        let contests: Vec<_> = (0..runs).map(|seed| planted(1.05, call, seed)).collect();
        let seen = claims(&contests, Cache::Warm, Claim::Slower);
        assert!(seen >= 19, "{seen} of {runs} at {call}");
        for contest in &contests {
            let warm = contest.against_best(Cache::Warm).unwrap();
            assert!(
                warm.interval.contains(1.0 / 1.05) || (warm.ratio * 1.05 - 1.0).abs() < 0.02,
                "{warm:?}"
            );
            let median = contest.candidate().unwrap().warm.median().unwrap();
            assert!((median / (1.05 * call) - 1.0).abs() < 0.03, "{median}");
        }
    }
}

#[test]
fn a_planted_slowdown_of_half_a_percent_is_called_noise() {
    let contests: Vec<_> = (0..60).map(|seed| planted(1.005, 3e-4, seed)).collect();
    assert!(claims(&contests, Cache::Warm, Claim::Noise) >= 59);
}

#[test]
fn the_same_program_differs_from_itself_no_more_often_than_stated() {
    let contests: Vec<_> = (0..300).map(|seed| planted(1.0, 3e-4, seed)).collect();
    for cache in [Cache::Warm, Cache::Cold] {
        let noise = claims(&contests, cache, Claim::Noise);
        assert!(noise >= 297, "{noise} of 300");
    }
    let inside = contests.iter().filter(|c| {
        let warm = c.noise.iter().find(|n| n.cache == Cache::Warm).unwrap();
        warm.interval.unwrap().contains(1.0)
    });
    let inside = inside.count();
    assert!(inside >= 288, "the A/A interval holds 1 in {inside} of 300 runs");
    let ratios: Vec<f64> = contests
        .iter()
        .map(|c| c.against_best(Cache::Warm).unwrap().ratio)
        .collect();
    let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
    assert!((mean - 1.0).abs() < 0.002, "{mean}");
}

#[test]
fn batches_outlast_the_constant_and_the_constant_is_taken_off() {
    let contest = planted(2.0, 2e-6, 1);
    let candidate = contest.candidate().unwrap();
    assert!(
        f64::from(candidate.batches[0]) * 4e-6 > 90.0 * CONSTANT,
        "{candidate:?}"
    );
    assert!((candidate.constant_seconds / CONSTANT - 1.0).abs() < 0.1);
    assert!((candidate.warm.median().unwrap() / 4e-6 - 1.0).abs() < 0.03);
    assert!((contest.against_best(Cache::Warm).unwrap().ratio / 0.5 - 1.0).abs() < 0.03);
    let per_call = candidate.page_faults.unwrap() * f64::from(candidate.batches[0]);
    assert!((1.0..=3.0).contains(&per_call), "{per_call}");
    assert_eq!(planted(1.0, 0.1, 1).candidate().unwrap().batches, [1]);
}

#[test]
fn a_machine_that_slows_down_for_all_changes_no_ratio_but_a_throttled_one_claims_nothing() {
    let run = |slowness: fn(f64) -> f64| {
        let world = world(5);
        world.lock().unwrap().slowness = slowness;
        let mut sides =
            [("candidate", 1e-3), ("candidate", 1e-3), ("rival", 2e-3)].map(|(n, c)| side(n, &world, c));
        let [candidate, twin, rival] = &mut sides;
        duel(candidate, twin, rival, 5)
    };
    // Up and down by 5 %.
    let waves = run(|now| 1.0 + 0.05 * (now * 3.0).sin());
    assert_eq!(waves.comparisons[0].claim, Claim::Faster, "{waves:?}");
    assert!((waves.comparisons[0].ratio - 2.0).abs() < 0.06);
    // What slows all sides alike is cancelled by their pairs, to a point.
    let warmer = run(|now| 1.0 + 0.02 * now);
    assert_eq!(warmer.comparisons[0].claim, Claim::Faster, "{warmer:?}");
    assert!((warmer.comparisons[0].ratio - 2.0).abs() < 0.06);
    let throttled = run(|now| 1.0 + 0.2 * now);
    assert!(throttled.repeats > 0);
    assert!(
        throttled
            .disturbances
            .iter()
            .any(|d| matches!(d, Disturbance::Throttled { change } if *change > 0.1))
    );
    assert!(throttled.comparisons.iter().all(|c| c.claim == Claim::Noise));
}

#[test]
fn rounds_with_a_slow_machine_are_left_out() {
    let world = world(9);
    // A tenth of the time, somebody else takes half of the processor.
    world.lock().unwrap().slowness = |now| if (now * 3.0).fract() < 0.1 { 2.0 } else { 1.0 };
    let mut sides =
        [("candidate", 1e-3), ("candidate", 1e-3), ("rival", 2e-3)].map(|(n, c)| side(n, &world, c));
    let [candidate, twin, rival] = &mut sides;
    let contest = duel(candidate, twin, rival, 9);
    assert!(contest.discarded > 0 && contest.is_stable(), "{contest:?}");
    assert_eq!(contest.comparisons[0].claim, Claim::Faster);
    assert!((contest.comparisons[0].ratio - 2.0).abs() < 0.06);
}

/// Sides of `call` seconds beside others that use so many processors.
fn crowded(call: f64, processors: f64) -> Contest {
    let world = world(6);
    let mut sides =
        [("candidate", call), ("candidate", call), ("rival", 2.0 * call)].map(|(n, c)| side(n, &world, c));
    sides.iter_mut().for_each(|side| side.crowd = processors);
    let [candidate, twin, rival] = &mut sides;
    duel(candidate, twin, rival, 6)
}

#[test]
fn others_that_use_the_processors_disturb() {
    let contest = crowded(0.1, 0.5);
    let interrupted = |d: &Disturbance| matches!(d, Disturbance::Interrupted { rounds, of } if rounds == of);
    assert!(contest.disturbances.iter().any(interrupted), "{contest:?}");
    assert!(contest.comparisons.iter().all(|c| c.claim == Claim::Noise));
    assert!((contest.candidate().unwrap().warm.median().unwrap() / 0.1 - 1.0).abs() < 0.05);
}

#[test]
fn what_the_system_does_by_itself_and_what_is_uncertain_does_not_disturb() {
    for contest in [crowded(0.1, 0.1), crowded(1e-3, 0.5)] {
        assert!(contest.is_stable() && contest.discarded == 0, "{contest:?}");
        assert_eq!(contest.comparisons[0].claim, Claim::Faster);
    }
}

#[test]
fn a_side_that_drifts_or_is_uneven_is_flagged() {
    let world = world(2);
    let mut sides =
        [("candidate", 1e-3), ("candidate", 1e-3), ("rival", 2e-3)].map(|(n, c)| side(n, &world, c));
    let [candidate, twin, rival] = &mut sides;
    rival.growth = 0.1;
    let contest = duel(candidate, twin, rival, 2);
    let drifts = |d: &Disturbance| matches!(d, Disturbance::Drift { side, change } if side == "rival" && *change > 0.03);
    assert!(
        contest.disturbances.iter().any(drifts),
        "{:?}",
        contest.disturbances
    );
    assert!(contest.comparisons.iter().all(|c| c.claim == Claim::Noise));

    let mut sides =
        [("candidate", 1e-4), ("candidate", 1e-4), ("rival", 2e-4)].map(|(n, c)| side(n, &world, c));
    let [candidate, twin, rival] = &mut sides;
    // Learns within a batch.
    candidate.batch = |call, calls| call * f64::from(calls).powf(0.8);
    twin.batch = candidate.batch;
    let contest = duel(candidate, twin, rival, 3);
    let uneven = |d: &Disturbance| matches!(d, Disturbance::Uneven { side, ratio } if side == "candidate" && *ratio < 0.9);
    assert!(contest.disturbances.iter().any(uneven), "{contest:?}");
}

#[test]
fn stolen_time_is_accounted() {
    struct Robbed(Observer);
    impl Witness for Robbed {
        fn now(&self) -> Duration {
            self.0.now()
        }
        fn reference(&mut self) -> Duration {
            self.0.reference()
        }
        fn stolen(&mut self) -> Option<Duration> {
            Some(self.now() / 10)
        }
        fn others(&mut self) -> Option<Usage> {
            None
        }
    }
    let world = world(4);
    let (mut candidate, mut rival) = (side("candidate", &world, 1e-3), side("rival", &world, 2e-3));
    let entrants = Entrants {
        candidate: &mut candidate,
        twin: None,
        rivals: vec![&mut rival],
        floor: None,
    };
    let mut policy = policy();
    policy.budget = Duration::from_secs(3);
    let contest = block_on(contest(entrants, &policy, 4, &mut Robbed(Observer(world)))).unwrap();
    assert!((contest.stolen.unwrap() - 0.1).abs() < 0.01);
    assert!(
        contest
            .disturbances
            .iter()
            .any(|d| matches!(d, Disturbance::Interrupted { .. }))
    );
    assert!(contest.comparisons.iter().all(|c| c.claim == Claim::Noise));
}

/// A device that says this of itself when it is asked for the n-th time.
struct Telling<F> {
    observer: Observer,
    asked: u32,
    says: F,
}

impl<F: FnMut(u32) -> akg_core::Result<Reading> + Send> Witness for Telling<F> {
    fn now(&self) -> Duration {
        self.observer.now()
    }
    fn reference(&mut self) -> Duration {
        self.observer.reference()
    }
    fn stolen(&mut self) -> Option<Duration> {
        None
    }
    fn others(&mut self) -> Option<Usage> {
        None
    }
    fn device(&mut self) -> Option<akg_core::Result<Reading>> {
        self.asked += 1;
        Some((self.says)(self.asked))
    }
}

/// A candidate twice as fast as its rival, on a device that says this of itself.
fn watched(says: impl FnMut(u32) -> akg_core::Result<Reading> + Send) -> Contest {
    let world = world(8);
    let (mut candidate, mut rival) = (side("candidate", &world, 1e-3), side("rival", &world, 2e-3));
    let entrants = Entrants {
        candidate: &mut candidate,
        twin: None,
        rivals: vec![&mut rival],
        floor: None,
    };
    let mut witness = Telling {
        observer: Observer(world),
        asked: 0,
        says,
    };
    let mut policy = policy();
    policy.budget = Duration::from_secs(10);
    block_on(contest(entrants, &policy, 8, &mut witness)).unwrap()
}

#[test]
fn what_the_device_says_is_recorded() {
    let contest = watched(|asked| {
        Ok(Reading {
            clock: Some(1000.0 + f64::from(asked % 3)),
            temperature: (asked == 1).then_some(40.0),
            limits: (asked % 2 == 0)
                .then_some(ClockLimit::PowerCap)
                .into_iter()
                .collect(),
            ..Reading::default()
        })
    });
    let device = contest.device.as_ref().unwrap();
    // Each side in each round.
    assert_eq!(device.count, 2 * (contest.rounds + contest.discarded));
    let span = |low, median, high| Some(Span { low, median, high });
    assert_eq!(device.clock, span(1000.0, 1001.0, 1002.0));
    assert_eq!((device.temperature, device.power), (span(40.0, 40.0, 40.0), None));
    assert_eq!(device.limits, [(ClockLimit::PowerCap, device.count / 2)].into());
    assert_eq!(device.gap, None);
    // The power cap is what work brings about.
    assert!(contest.is_stable(), "{contest:?}");
    assert_eq!(contest.comparisons[0].claim, Claim::Faster);
}

#[test]
fn a_device_that_slows_itself_down_disturbs() {
    let emergencies = [
        ClockLimit::SoftwareThermal,
        ClockLimit::HardwareThermal,
        ClockLimit::PowerBrake,
        ClockLimit::HardwareSlowdown,
    ];
    for emergency in emergencies {
        let contest = watched(|_| {
            Ok(Reading {
                limits: vec![ClockLimit::PowerCap, emergency],
                ..Reading::default()
            })
        });
        let slowed = |d: &Disturbance| matches!(d, Disturbance::Slowdown { limit, readings, of } if *limit == emergency && readings == of);
        assert!(contest.disturbances.iter().any(slowed), "{contest:?}");
        assert!(contest.comparisons.iter().all(|c| c.claim == Claim::Noise));
    }
    // What is over when the run is repeated does not.
    let contest = watched(|asked| {
        let limits = (asked == 3).then_some(ClockLimit::HardwareSlowdown);
        Ok(Reading {
            limits: limits.into_iter().collect(),
            ..Reading::default()
        })
    });
    assert!(contest.is_stable() && contest.repeats == 1, "{contest:?}");
    assert!(contest.device.unwrap().limits.is_empty());
}

#[test]
fn a_device_that_cannot_be_asked_disturbs_nothing() {
    let contest = watched(|_| Err(akg_core::Error::unsupported("nobody answers")));
    let device = contest.device.as_ref().unwrap();
    assert_eq!((device.count, device.gap.as_deref()), (0, Some("nobody answers")));
    assert!(contest.is_stable(), "{contest:?}");
    let silent = planted(1.0, 1e-3, 0);
    assert_eq!(silent.device, None);
}

#[test]
fn a_side_that_turns_wrong_in_timed_rounds_is_caught() {
    for seed in 0..20 {
        let world = world(seed);
        let mut sides =
            [("candidate", 1e-4), ("candidate", 1e-4), ("rival", 2e-4)].map(|(n, c)| side(n, &world, c));
        let [candidate, twin, rival] = &mut sides;
        candidate.wrong_from = 30;
        let contest = duel(candidate, twin, rival, seed);
        assert_eq!(
            contest.candidate().unwrap().failure.as_ref().unwrap().kind,
            FailureKind::WrongValues
        );

        let mut sides =
            [("candidate", 1e-4), ("candidate", 1e-4), ("rival", 2e-4)].map(|(n, c)| side(n, &world, c));
        let [candidate, twin, rival] = &mut sides;
        rival.wrong_from = 30;
        let contest = duel(candidate, twin, rival, seed);
        assert_eq!(contest.candidate().unwrap().failure, None);
        assert!(contest.sides[1].failure.is_some());
        assert_eq!(contest.comparisons, [], "nothing is claimed over what is wrong");
    }
}

#[test]
fn long_calls_get_the_rounds_that_a_claim_takes() {
    let held = |patience: u64| {
        let world = world(1);
        let mut sides = [("candidate", 0.45), ("rival", 0.3)].map(|(n, c)| side(n, &world, c));
        // One outlier among eight leaves no claim.
        sides.iter_mut().for_each(|side| side.noise = 0.0);
        let [candidate, rival] = &mut sides;
        let entrants = Entrants {
            candidate,
            twin: None,
            rivals: vec![rival],
            floor: None,
        };
        let mut policy = policy();
        policy.budget = Duration::from_secs(6);
        policy.patience = Duration::from_secs(patience);
        block_on(contest(entrants, &policy, 1, &mut Observer(world))).unwrap()
    };
    let (impatient, patient) = (held(0), held(60));
    assert!(impatient.rounds < 8 && !impatient.is_stable(), "{impatient:?}");
    assert!(patient.rounds == 8 && patient.is_stable(), "{patient:?}");
    assert_eq!(patient.against_best(Cache::Warm).unwrap().claim, Claim::Slower);
}

#[test]
fn slow_sides_end_in_time_and_claim_nothing_without_enough_rounds() {
    let contest = planted(1.5, 9.0, 1);
    assert!(contest.rounds < 8, "{}", contest.rounds);
    assert!(
        contest
            .disturbances
            .iter()
            .any(|d| matches!(d, Disturbance::FewRounds { .. }))
    );
    assert!(contest.comparisons.iter().all(|c| c.claim == Claim::Noise));
}

/// A candidate below its floor, beside a rival that takes so many seconds.
fn below_the_floor(rival_seconds: f64) -> Contest {
    let world = world(1);
    let mut sides = [("candidate", 1e-6), ("rival", rival_seconds)].map(|(n, c)| side(n, &world, c));
    let [candidate, rival] = &mut sides;
    let entrants = Entrants {
        candidate,
        twin: None,
        rivals: vec![rival],
        floor: Some(Floor {
            warm_seconds: 1e-4,
            cold_seconds: 1e-4,
        }),
    };
    block_on(contest(entrants, &policy(), 1, &mut Observer(world))).unwrap()
}

#[test]
fn a_candidate_below_the_floor_fails() {
    let contest = below_the_floor(1e-3);
    assert_eq!(
        contest.candidate().unwrap().failure.as_ref().unwrap().kind,
        FailureKind::Implausible
    );
}

#[test]
fn a_few_rounds_are_no_evidence_against_a_candidate() {
    let contest = below_the_floor(9.0);
    assert_eq!(contest.candidate().unwrap().failure, None);
    assert!(!contest.is_stable());
}

#[test]
fn sides_with_few_slots_are_timed_as_well() {
    // A batch that is much shorter than the constant asks for, and one call at a time.
    for (call, slots) in [(2e-6, 900), (2e-5, 100), (2e-2, 1)] {
        let contests = (0..20).map(|seed| {
            let world = world(seed);
            let times = [
                ("candidate", 1.1 * call),
                ("candidate", 1.1 * call),
                ("rival", call),
            ];
            let mut sides = times.map(|(name, call)| side(name, &world, call));
            sides.iter_mut().for_each(|side| side.slots = slots);
            let [candidate, twin, rival] = &mut sides;
            duel(candidate, twin, rival, seed)
        });
        let contests: Vec<_> = contests.collect();
        let seen = claims(&contests, Cache::Warm, Claim::Slower);
        assert!(seen >= 19, "{seen} of 20 with {slots} slots");
        for contest in &contests {
            let candidate = contest.candidate().unwrap();
            assert!(candidate.batches[0] <= slots, "{candidate:?}");
            let median = candidate.warm.median().unwrap();
            assert!((median / (1.1 * call) - 1.0).abs() < 0.05, "{median}");
        }
    }
}

#[test]
fn a_report_survives_json() {
    let contest = planted(1.05, 3e-4, 0);
    let text = serde_json::to_string(&contest).unwrap();
    assert_eq!(serde_json::from_str::<Contest>(&text).unwrap(), contest);
}

#[test]
fn a_hopeless_candidate_gives_up_and_no_other_does() {
    let rounds = |slowdown: f64| {
        let world = world(3);
        let mut observer = Observer(world.clone());
        let [mut candidate, mut rival] =
            [("candidate", 1e-3 * slowdown), ("rival", 1e-3)].map(|(n, c)| side(n, &world, c));
        let mut policy = policy();
        policy.concede = Some(1.25);
        let entrants = Entrants {
            candidate: &mut candidate,
            twin: None,
            rivals: vec![&mut rival],
            floor: None,
        };
        let contest = block_on(contest(entrants, &policy, 3, &mut observer)).unwrap();
        (contest.rounds, contest.comparisons.first().map(|c| c.claim))
    };
    // Not after three if one of them was disturbed.
    let (played, claim) = rounds(2.0);
    assert!((3..8).contains(&played), "{played}");
    assert_eq!(claim, Some(Claim::Noise));
    let (played, claim) = rounds(1.1);
    assert!(played >= 12, "{played}");
    assert_eq!(claim, Some(Claim::Slower));
}
