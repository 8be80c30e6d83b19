//! The rule that names what holds a launch back.

use super::{Bottleneck, Counters, Finding, LaunchProfile, Occupancy, Resources, Work, scaled};
use crate::target::Target;

/// A resource that is used to this part of its peak holds the launch back. Nsight Compute draws the line there too.
const BUSY: f64 = 0.6;

/// A launch that takes up to this many times what an empty one costs is one that launching holds back.
const BARELY_LONGER: f64 = 2.0;

/// Reasons of NVIDIA's schedulers to wait, and what they mean. From the Nsight Compute guide, "Warp Scheduler States".
const STALLS: [(&str, &str); 17] = [
    ("barrier", "other threads of the block"),
    ("branch_resolving", "branches"),
    ("dispatch_stall", "the dispatcher"),
    ("drain", "stores at the end"),
    ("gmma", "the registers of an asynchronous product"),
    ("imc_miss", "constants"),
    ("lg_throttle", "room in the queue to global memory"),
    ("long_scoreboard", "data from global memory or caches"),
    ("math_pipe_throttle", "a busy arithmetic unit"),
    ("membar", "a memory fence"),
    ("mio_throttle", "room in the queue to shared memory"),
    ("no_instruction", "instructions to be fetched"),
    ("not_selected", "their turn"),
    ("short_scoreboard", "data from shared memory"),
    ("sleeping", "the end of a sleep"),
    ("tex_throttle", "room in the queue to textures"),
    ("wait", "a fixed latency of arithmetic"),
];

/// What the rule looks at.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// Seconds of the launch.
    pub seconds: f64,
    /// What it has to do.
    pub work: &'a Work,
    /// What it occupies.
    pub resources: &'a Resources,
    /// How much of a core is in flight.
    pub occupancy: Option<&'a Occupancy>,
    /// What was counted.
    pub counters: Option<&'a Counters>,
}

/// Names what holds a launch back on a target.
///
/// A launch that hardly takes longer than an empty one is held back by launching. Otherwise the resource that is used most
/// is named if that is at least 60 % of its peak, by the counters if there are any, else by the work over the time, less that
/// of an empty launch, at the target's peaks. Where nothing is that busy it is latency, and the evidence says what is known of why so little is in
/// flight.
pub fn diagnose(facts: &Facts<'_>, target: &Target) -> Finding {
    let Facts {
        seconds,
        work,
        counters,
        ..
    } = *facts;
    if seconds <= BARELY_LONGER * target.launch_seconds {
        return Finding {
            bottleneck: Bottleneck::Launch,
            evidence: format!(
                "it takes {:.1} µs, and a launch that does nothing {:.1} µs",
                seconds * 1e6,
                target.launch_seconds * 1e6
            ),
        };
    }
    // Launching is no work.
    let over = |part: f64| part / (seconds - target.launch_seconds).max(f64::MIN_POSITIVE);
    let estimated = [
        (Bottleneck::Memory, over(work.memory_seconds)),
        (Bottleneck::Tensor, over(work.tensor_seconds)),
        (Bottleneck::Issue, over(work.issue_seconds)),
    ];
    let counted = counters.map(|c| {
        let memory = c.memory.unwrap_or(0.0).max(c.cache.unwrap_or(0.0));
        [
            (Bottleneck::Memory, memory),
            (Bottleneck::Tensor, c.tensor.unwrap_or(0.0)),
            (Bottleneck::Issue, c.issue.unwrap_or(0.0)),
        ]
    });
    let counted = counted.filter(|parts| parts.iter().any(|(_, part)| *part > 0.0));
    let how = if counted.is_some() { "counted" } else { "at least" };
    let parts = counted.unwrap_or(estimated);
    let busiest = parts
        .into_iter()
        .filter(|(_, part)| *part >= BUSY)
        .max_by(|a, b| a.1.total_cmp(&b.1));
    if let Some((bottleneck, part)) = busiest {
        let what = match bottleneck {
            Bottleneck::Memory if counters.is_some_and(|c| c.cache > c.memory) => {
                "the last cache's bandwidth".to_owned()
            }
            Bottleneck::Memory if part > 1.0 => format!(
                "memory bandwidth for {} of data, so that caches must hold some",
                scaled(work.bytes, "B")
            ),
            Bottleneck::Memory => format!("memory bandwidth for {} of data", scaled(work.bytes, "B")),
            Bottleneck::Tensor => "the peak of the matrix units".to_owned(),
            _ => "the peak rate of instructions".to_owned(),
        };
        return Finding {
            bottleneck,
            evidence: format!("it uses {} of {what} ({how})", percent(part)),
        };
    }
    Finding {
        bottleneck: Bottleneck::Latency,
        evidence: latency(facts, &parts, how, target),
    }
}

/// Why too little may be in flight.
fn latency(facts: &Facts<'_>, parts: &[(Bottleneck, f64)], how: &str, target: &Target) -> String {
    let used: Vec<_> = parts
        .iter()
        .filter(|(_, part)| *part >= 0.005)
        .map(|(name, part)| format!("{name} {}", percent(*part)))
        .collect();
    let mut reasons = vec![if used.is_empty() {
        "nothing is used to a part of its peak that shows".to_owned()
    } else {
        format!("nothing is near its peak ({}, {how})", used.join(", "))
    }];
    let Resources {
        programs,
        cluster,
        spilled_bytes,
        ..
    } = facts.resources;
    let blocks = programs * u64::from(cluster.unwrap_or(1));
    if blocks > 0 && blocks < u64::from(target.cores) {
        reasons.push(format!(
            "{blocks} blocks leave some of {} cores idle",
            target.cores
        ));
    }
    if let Some(spilled) = spilled_bytes.filter(|n| *n > 0) {
        reasons.push(format!("each thread spills {spilled} bytes"));
    }
    if let Some(occupancy) = facts.occupancy.filter(|o| o.part < 0.5) {
        reasons.push(format!(
            "{} admit {} of a core's threads",
            occupancy.limit,
            percent(occupancy.part)
        ));
    }
    if let Some((name, warps)) = facts.counters.and_then(longest_stall) {
        let meaning = STALLS.iter().find(|(stall, _)| *stall == name);
        let meaning = meaning.map_or_else(String::new, |(_, meaning)| format!(", for {meaning}"));
        reasons.push(format!(
            "threads wait most in `{name}`{meaning} ({warps:.1} for each issued)"
        ));
    }
    reasons.join("; ")
}

/// The most frequent reason to wait, unless threads hardly wait.
fn longest_stall(counters: &Counters) -> Option<(&str, f64)> {
    let waits = counters.stalls.iter().filter(|(name, _)| *name != "selected");
    let (name, warps) = waits.max_by(|a, b| a.1.total_cmp(b.1))?;
    (*warps > 0.5).then_some((name.as_str(), *warps))
}

/// What holds back most of the time of all launches.
pub(super) fn overall(launches: &[LaunchProfile]) -> Finding {
    let mut sums: Vec<(Bottleneck, f64)> = Vec::new();
    for launch in launches {
        match sums.iter_mut().find(|(b, _)| *b == launch.finding.bottleneck) {
            Some((_, sum)) => *sum += launch.share,
            None => sums.push((launch.finding.bottleneck, launch.share)),
        }
    }
    let most = sums.into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
    let Some((bottleneck, share)) = most else {
        return Finding {
            bottleneck: Bottleneck::Launch,
            evidence: "nothing is launched".to_owned(),
        };
    };
    let bound = launches.iter().filter(|l| l.finding.bottleneck == bottleneck);
    let longest = bound.max_by(|a, b| a.seconds.total_cmp(&b.seconds));
    let evidence = longest.map_or_else(String::new, |launch| match launches.len() {
        1 => launch.finding.evidence.clone(),
        _ => format!(
            "it holds back {} of the time, most of it `{}`: {}",
            percent(share),
            launch.kernel,
            launch.finding.evidence
        ),
    });
    Finding { bottleneck, evidence }
}

fn percent(part: f64) -> String {
    format!("{:.0} %", part * 100.0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn target() -> Target {
        let mut target = Target::new("cuda", "sm_90a");
        target.cores = 132;
        target.launch_seconds = 3e-6;
        target
    }

    fn found(seconds: f64, work: Work, resources: &Resources, counters: Option<&Counters>) -> Finding {
        let facts = Facts {
            seconds,
            work: &work,
            resources,
            occupancy: None,
            counters,
        };
        diagnose(&facts, &target())
    }

    #[test]
    fn work_near_a_peak_is_the_bottleneck() {
        let work = |memory_seconds, tensor_seconds, issue_seconds| Work {
            bytes: 4e9,
            memory_seconds,
            tensor_seconds,
            issue_seconds,
            ..Work::default()
        };
        let cases = [
            (1e-3, work(0.9e-3, 0.7e-3, 0.1e-3), Bottleneck::Memory),
            (1e-3, work(0.3e-3, 0.7e-3, 0.1e-3), Bottleneck::Tensor),
            (1e-3, work(0.3e-3, 0.1e-3, 0.8e-3), Bottleneck::Issue),
            (1e-3, work(0.3e-3, 0.2e-3, 0.5e-3), Bottleneck::Latency),
            (5e-6, work(4.9e-6, 0.0, 0.0), Bottleneck::Launch),
            // 3 of 9 µs are for the launch.
            (9e-6, work(4e-6, 0.0, 0.0), Bottleneck::Memory),
        ];
        for (seconds, work, bottleneck) in cases {
            let finding = found(seconds, work, &Resources::default(), None);
            assert_eq!(finding.bottleneck, bottleneck, "{finding:?}");
        }
        let finding = found(1e-3, work(0.9e-3, 0.0, 0.0), &Resources::default(), None);
        assert_eq!(
            finding.evidence,
            "it uses 90 % of memory bandwidth for 4.0 GB of data (at least)"
        );
    }

    #[test]
    fn counters_outweigh_the_model() {
        let work = Work {
            memory_seconds: 0.9e-3,
            ..Work::default()
        };
        let counters = Counters {
            memory: Some(0.2),
            tensor: Some(0.3),
            issue: Some(0.25),
            stalls: [("long_scoreboard".to_owned(), 7.25), ("selected".to_owned(), 9.0)].into(),
            ..Counters::default()
        };
        let resources = Resources {
            programs: 64,
            spilled_bytes: Some(96),
            ..Resources::default()
        };
        let finding = found(1e-3, work, &resources, Some(&counters));
        assert_eq!(finding.bottleneck, Bottleneck::Latency);
        assert_eq!(
            finding.evidence,
            "nothing is near its peak (memory 20 %, tensor 30 %, issue 25 %, counted); 64 blocks leave some of 132 cores \
             idle; each thread spills 96 bytes; threads wait most in `long_scoreboard`, for data from global memory or caches \
             (7.2 for each issued)"
        );
        // A profiler that counted none of the resources says nothing about them.
        let empty = Counters::default();
        assert_eq!(
            found(1e-3, work, &resources, Some(&empty)).bottleneck,
            Bottleneck::Memory
        );
    }

    #[test]
    fn a_busy_cache_is_named() {
        let counters = Counters {
            memory: Some(0.3),
            cache: Some(0.85),
            ..Counters::default()
        };
        let finding = found(1e-3, Work::default(), &Resources::default(), Some(&counters));
        assert_eq!(finding.bottleneck, Bottleneck::Memory);
        assert!(
            finding.evidence.contains("85 % of the last cache's"),
            "{finding:?}"
        );
    }

    proptest! {
        /// Whoever is told a bottleneck finds it to be the largest part, and latency only where all parts are small.
        #[test]
        fn the_largest_part_is_named(memory in 0.0..1.0f64, tensor in 0.0..1.0f64, issue in 0.0..1.0f64) {
            let counters = Counters {
                memory: Some(memory), tensor: Some(tensor), issue: Some(issue), ..Counters::default()
            };
            let finding = found(1e-3, Work::default(), &Resources::default(), Some(&counters));
            let most = memory.max(tensor).max(issue);
            let part = match finding.bottleneck {
                Bottleneck::Memory => memory,
                Bottleneck::Tensor => tensor,
                Bottleneck::Issue => issue,
                Bottleneck::Latency => { prop_assert!(most < BUSY); return Ok(()); }
                Bottleneck::Launch => return Err(TestCaseError::fail("a millisecond is no launch")),
            };
            prop_assert_eq!(part, most);
            prop_assert!(most >= BUSY);
        }
    }
}
