//! What became of one problem. The JSON form is documented in `docs/bench.md`.

use std::collections::BTreeMap;

use akg::backend::Cache;
use akg::designer::KernelSummary;
use akg::graph::Fired;
use akg::isolation::Isolation;
use akg::python::Shrink;
use akg::session::Outcome;
use akg::source::{Knobs, sketch_knobs};
use akg::timing::{Claim, Comparison, Contest, Interval, SideTimes, Timing};
use akg::tuner::Origin;
use akg::verdict::ErrorMeasure;
use akg::{Accuracy, Sketch, Task, sketch};
use serde::{Deserialize, Serialize};

use super::family::Family;
use super::problems::Problem;
use crate::cli::baseline::{Baseline, against_best_at, precisions};
use crate::cli::report::Report;

/// What became of one problem.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Record {
    /// Level and number: `1-19`.
    pub(super) problem: String,
    pub(super) name: String,
    /// Unknown of a problem that could not be loaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) family: Option<Family>,
    /// As in a report.
    pub(super) status: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) message: Option<String>,
    pub(super) accuracy: Accuracy,
    pub(super) inputs: Vec<String>,
    pub(super) outputs: Vec<String>,
    /// How the leading dimension was made smaller to fit the memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) shrink: Option<Shrink>,
    /// The candidate, then eager and compiled PyTorch at each precision.
    pub(super) sides: Vec<SideRecord>,
    /// The candidate against the fastest of the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) warm: Option<Against>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cold: Option<Against>,
    /// The candidate against the faster of eager and compiled PyTorch at each precision, if there are several.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) against: BTreeMap<Accuracy, AgainstAt>,
    /// What kept the contest from any claim.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) disturbances: Vec<String>,
    pub(super) kernels: Vec<KernelSummary>,
    /// The rules of algebra that rewrote the graph before it was designed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) rules: Vec<Fired>,
    pub(super) knobs: Knobs,
    #[serde(flatten)]
    pub(super) work: Work,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) bound_seconds: Option<f64>,
    /// Candidates tried.
    pub(super) candidates: usize,
    /// How the knobs were chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tuning: Option<Tuned>,
    pub(super) seconds: f64,
    /// Whether the verdict was in the store.
    pub(super) recalled: bool,
    /// When the contest was held, in seconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) timed_at: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) first_pass_seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) isolation: Option<Isolation>,
    pub(super) date: String,
}

/// How knobs were chosen.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Tuned {
    /// Where the best ones come from.
    pub(super) origin: Origin,
    /// Time with them over the time with those that tuning began with.
    pub(super) relative: f64,
    pub(super) seconds: f64,
    /// Why it ended.
    pub(super) stopped: String,
}

/// What is known of a problem besides its report.
#[derive(Debug, Default)]
pub(super) struct Findings {
    pub(super) family: Option<Family>,
    pub(super) work: Work,
}

/// One side's error and times.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct SideRecord {
    pub(super) name: String,
    /// Of PyTorch: the class at whose precision it ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) precision: Option<Accuracy>,
    /// Against f64, on the same inputs for all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<ErrorMeasure>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) threads: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) warm: Option<Times>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cold: Option<Times>,
    /// Why its outputs were not judged although it took part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) unchecked: Option<String>,
    /// Why it took no part, or fell out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) trouble: Option<String>,
}

/// Times of one call, in seconds.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Times {
    pub(super) median: f64,
    /// The median absolute deviation.
    pub(super) spread: f64,
    /// Of the median, with the contest's confidence.
    pub(super) interval: Interval,
    pub(super) samples: usize,
}

/// The candidate against its fastest rival.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Against {
    pub(super) rival: String,
    /// The rival's time over the candidate's.
    pub(super) ratio: f64,
    pub(super) interval: Interval,
    /// None if the contest was disturbed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) claim: Option<Claim>,
    /// Differences of the ratio from 1 up to this are noise.
    pub(super) noise: f64,
}

/// The candidate against its fastest rival at one precision.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct AgainstAt {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) warm: Option<Against>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cold: Option<Against>,
}

/// What there is to do.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(super) struct Work {
    /// Bytes of all inputs and outputs.
    pub(super) bytes: u64,
    /// Operations of the kernels by the cost model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) flops: Option<f64>,
    /// Whether the bytes are so many times the last-level cache that times are those of memory.
    pub(super) speed_counts: bool,
    /// Whether the bound is the time of the bytes and not of products.
    #[serde(default)]
    pub(super) memory_bound: bool,
}

/// Speed counts if the traffic is at least so many times the last-level cache.
const TIMES_CACHE: u64 = 8;

impl Work {
    /// The work of a task as it was solved.
    pub(super) fn of(task: &Task, outcome: &Outcome) -> Self {
        let (hints, target) = (&task.contract.hints, &outcome.target);
        // What was solved has extents.
        let bytes = task.traffic().unwrap_or_default();
        let knobs = outcome.best().map(|best| &best.source.knobs);
        let flops = Sketch::parse(&outcome.sketch).ok().and_then(|sketch| {
            let knobs = knobs.cloned().unwrap_or_else(|| sketch.default_knobs());
            let program = sketch.elaborate(&sketch_knobs(&knobs), hints).ok()?;
            let cost = sketch::cost(&program, hints, target).ok()?;
            Some(cost.kernels.iter().map(sketch::KernelCost::flops).sum())
        });
        Self {
            bytes,
            flops,
            speed_counts: target
                .caches
                .last()
                .is_some_and(|cache| bytes >= TIMES_CACHE * cache),
            memory_bound: outcome
                .bound_seconds
                .is_some_and(|bound| bytes as f64 >= bound * target.bandwidth * (1.0 - f64::EPSILON.sqrt())),
        }
    }
}

impl Record {
    /// The record of what `report` says about a problem that took so many seconds.
    pub(super) fn new(problem: &Problem, report: &Report, findings: Findings, seconds: f64) -> Self {
        let (task, speed) = (&report.task, report.speed.as_ref());
        Self {
            problem: problem.id(),
            name: problem.name(),
            family: findings.family,
            status: report.status.clone(),
            message: report.message.clone(),
            accuracy: task.accuracy,
            inputs: task.inputs.clone(),
            outputs: task.outputs.clone(),
            shrink: task.shrink.clone(),
            sides: sides(report),
            warm: speed.and_then(|s| against(s, s.against_best(Cache::Warm)?)),
            cold: speed.and_then(|s| against(s, s.against_best(Cache::Cold)?)),
            against: speed.map_or_else(BTreeMap::new, |s| against_each(s, &report.baselines)),
            disturbances: speed.map_or_else(Vec::new, |s| {
                s.disturbances.iter().map(ToString::to_string).collect()
            }),
            kernels: report.kernels.clone(),
            rules: report.rules.clone(),
            knobs: report.knobs.clone(),
            work: findings.work,
            bound_seconds: report.bound_seconds,
            candidates: report.candidates,
            tuning: report.tuning.as_ref().map(|tuning| Tuned {
                origin: tuning.origin,
                relative: tuning.relative,
                seconds: tuning.seconds,
                stopped: tuning.stopped.clone(),
            }),
            seconds,
            timed_at: report.timed_at,
            recalled: report.recalled,
            first_pass_seconds: report.first_pass_seconds,
            isolation: report.isolation.clone(),
            date: jiff::Timestamp::now().to_string(),
        }
    }

    /// Whether algebra rewrote the graph, so that the times are not those of kernels alone.
    pub(super) fn is_rewritten(&self) -> bool {
        !self.rules.is_empty()
    }

    /// Whether a kernel was verified.
    pub(super) fn passed(&self) -> bool {
        self.status == "pass"
    }

    /// Whether another try could say no more.
    pub(super) fn is_clear(&self) -> bool {
        self.passed() && self.disturbances.is_empty()
    }

    /// The warm comparison with PyTorch at a precision, if there are several.
    pub(super) fn warm_at(&self, precision: Accuracy) -> Option<&Against> {
        self.against.get(&precision)?.warm.as_ref()
    }

    /// A side by its name.
    pub(super) fn side(&self, name: &str) -> Option<&SideRecord> {
        self.sides.iter().find(|s| s.name == name)
    }
}

fn sides(report: &Report) -> Vec<SideRecord> {
    let speed = report.speed.as_ref();
    let times = |timing: &Timing| {
        Some(Times {
            median: timing.median()?,
            spread: timing.spread()?,
            interval: timing.interval(speed?.confidence)?,
            samples: timing.seconds.len(),
        })
    };
    let side = |name: &str, precision, error, threads| {
        let timed: Option<&SideTimes> = speed.and_then(|s| s.sides.iter().find(|s| s.name == name));
        SideRecord {
            name: name.to_owned(),
            precision,
            error,
            threads,
            warm: timed.and_then(|t| times(&t.warm)),
            cold: timed.and_then(|t| times(&t.cold)),
            unchecked: None,
            trouble: timed.and_then(|t| Some(t.failure.as_ref()?.evidence.clone())),
        }
    };
    let mut sides = Vec::new();
    if report.error.is_some() || speed.is_some() {
        sides.push(side("candidate", None, report.error, None));
    }
    let baseline = |b: &Baseline| {
        let side = side(&b.name, Some(b.precision), b.error, Some(b.threads));
        SideRecord {
            unchecked: b.unchecked.clone(),
            trouble: b.trouble.clone().or(side.trouble),
            ..side
        }
    };
    sides.extend(report.baselines.iter().map(baseline));
    sides
}

fn against_each(contest: &Contest, baselines: &[Baseline]) -> BTreeMap<Accuracy, AgainstAt> {
    let at = |precision| {
        let best = |cache| against(contest, against_best_at(contest, cache, baselines, precision)?);
        let at = AgainstAt {
            warm: best(Cache::Warm),
            cold: best(Cache::Cold),
        };
        (precision, at)
    };
    precisions(baselines).into_iter().map(at).collect()
}

fn against(contest: &Contest, best: &Comparison) -> Option<Against> {
    Some(Against {
        rival: best.rival.clone(),
        ratio: best.ratio,
        interval: best.interval,
        claim: contest.is_stable().then_some(best.claim),
        noise: contest.noise(best.cache).unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use akg::python::Variant;

    use super::*;

    #[test]
    fn the_faster_rival_is_looked_for_at_each_precision() {
        let baselines = |class| -> Vec<Baseline> {
            let all = Variant::rivals(class).into_iter();
            all.map(|variant| Baseline {
                name: variant.name().to_owned(),
                precision: variant.precision(),
                threads: 1,
                error: None,
                unchecked: None,
                trouble: None,
            })
            .collect()
        };
        let ratios = [4.0, 3.0, 1.5, 2.0];
        let comparisons = baselines(Accuracy::Tf32)
            .into_iter()
            .zip(ratios)
            .map(|(baseline, ratio)| Comparison {
                rival: baseline.name,
                cache: Cache::Warm,
                ratio,
                interval: Interval {
                    low: ratio,
                    high: ratio,
                },
                claim: Claim::Faster,
            });
        let contest = Contest {
            comparisons: comparisons.collect(),
            ..Contest::default()
        };
        let found = against_each(&contest, &baselines(Accuracy::Tf32));
        let warm = |precision| {
            let warm = found[&precision].warm.as_ref().unwrap();
            (warm.rival.as_str(), warm.ratio)
        };
        assert_eq!(found.len(), 2);
        assert_eq!(warm(Accuracy::Fp32), ("torch.compile", 3.0));
        assert_eq!(warm(Accuracy::Tf32), ("PyTorch eager (tf32)", 1.5));
        assert!(found.values().all(|at| at.cold.is_none()));
        assert!(against_each(&contest, &baselines(Accuracy::Fp32)).is_empty());
    }
}
