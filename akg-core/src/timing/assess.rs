//! What the rounds of a contest say.

use super::contest::Round;
use super::device::Readings;
use super::outcome::{Claim, Comparison, Disturbance, Noise};
use super::policy::ContestPolicy;
use super::statistics::{Interval, bootstrap_median, fewest_samples, median, trend};
use super::turn::Sample;
use crate::backend::Cache;

/// A round in which the judge's loop took this much longer than usual is left out.
const SLOWED: f64 = 1.1;

/// A round of which this part of the wall time was stolen is left out.
const STOLEN: f64 = 0.02;

/// A round in which others used this part of all processors' time is left out. What the system does by itself is less;
/// one busy program is more on up to twenty processors, where a kernel's threads would wait for the one that shares.
const OTHERS: f64 = 0.05;

/// A side may drift against the candidate by this much over a run. What all sides share, pairs cancel.
const DRIFT: f64 = 0.03;

/// The judge's loop may change its time by this much over a run: beyond, the times are those of no one machine, and a
/// kernel that waits for memory gains on one that computes.
const THROTTLED: f64 = 0.1;

/// Trends that chance makes more often than this are none.
const DRIFT_CHANCE: f64 = 1e-3;

/// Times per call of short and long batches may differ by this much.
const UNEVEN: f64 = 0.1;

/// A batch takes this many times what asking for it takes.
const RESOLVED: f64 = 1.0;

/// What the rounds of a contest say.
pub(super) struct Assessment {
    /// The rounds that count.
    rounds: Vec<Round>,
    /// What the device said of itself in all of them.
    pub(super) device: Option<Readings>,
    pub(super) comparisons: Vec<Comparison>,
    pub(super) noise: Vec<Noise>,
    pub(super) disturbances: Vec<Disturbance>,
}

/// Judges rounds of sides with these `names`, of which the first `own` (one or two) are the candidate.
pub(super) fn assess(
    rounds: &[Round],
    device: Option<Readings>,
    names: &[String],
    own: usize,
    policy: &ContestPolicy,
) -> Assessment {
    let references: Vec<f64> = rounds.iter().map(|r| r.reference).collect();
    let usual = median(&references).unwrap_or_default();
    let calm = |r: &&Round| {
        r.reference <= SLOWED * usual
            && r.stolen.is_none_or(|s| s <= STOLEN)
            && r.others.is_none_or(|o| o <= OTHERS)
    };
    let kept: Vec<Round> = rounds.iter().filter(calm).cloned().collect();
    let interrupted = 3 * kept.len() < 2 * rounds.len();
    let mut assessment = Assessment {
        // What is left of a run that claims nothing need not be chosen.
        rounds: if interrupted {
            rounds.to_vec()
        } else {
            kept.clone()
        },
        device,
        comparisons: Vec::new(),
        noise: Vec::new(),
        disturbances: Vec::new(),
    };
    if interrupted {
        assessment.disturbances.push(Disturbance::Interrupted {
            rounds: (rounds.len() - kept.len()) as u32,
            of: rounds.len() as u32,
        });
    }
    let more = assessment.disturbances(&references, names, policy);
    assessment.disturbances.extend(more);
    let stable = assessment.disturbances.is_empty();
    let caches = [Cache::Warm, Cache::Cold];
    for cache in caches.into_iter().take(if policy.cold { 2 } else { 1 }) {
        let same = (own > 1)
            .then(|| assessment.ratio(1, cache, policy.confidence))
            .flatten();
        let level = same
            .map_or(0.0, |(_, interval)| interval.reach(1.0))
            .max(policy.resolution);
        assessment.noise.push(Noise {
            cache,
            level,
            ratio: same.map(|s| s.0),
            interval: same.map(|s| s.1),
        });
        for (at, rival) in names.iter().enumerate().skip(own) {
            let Some((ratio, interval)) = assessment.ratio(at, cache, policy.confidence) else {
                continue;
            };
            // The noise is itself known from one pair of processes: chance must be far from explaining the difference.
            let nearest = if ratio > 1.0 {
                interval.low - 1.0
            } else {
                1.0 - interval.high
            };
            let claim = if !stable || nearest <= level / 2.0 || (ratio - 1.0).abs() <= level {
                Claim::Noise
            } else if ratio > 1.0 {
                Claim::Faster
            } else {
                Claim::Slower
            };
            assessment.comparisons.push(Comparison {
                rival: rival.clone(),
                cache,
                ratio,
                interval,
                claim,
            });
        }
    }
    assessment
}

impl Assessment {
    /// How many rounds count.
    pub(super) fn kept(&self) -> usize {
        self.rounds.len()
    }

    /// What a side did in the rounds that count.
    pub(super) fn samples(&self, side: usize) -> Vec<Sample> {
        let of = |r: &Round| r.samples.get(side).copied().flatten();
        self.rounds.iter().filter_map(of).collect()
    }

    /// Whether another run may fare better.
    pub(super) fn worth_repeating(&self) -> bool {
        let hopeless =
            |d: &Disturbance| matches!(d, Disturbance::FewRounds { .. } | Disturbance::Unresolved { .. });
        !self.disturbances.is_empty() && !self.disturbances.iter().any(hopeless)
    }

    /// Whether every warm ratio, that of the candidate to itself included, is known to within this part of it.
    pub(super) fn precise(&self, precision: f64) -> bool {
        let known = |ratio: f64, interval: Interval| interval.reach(ratio) <= precision * ratio;
        let comparisons = self.comparisons.iter().filter(|c| c.cache == Cache::Warm);
        let noise = self.noise.iter().filter(|n| n.cache == Cache::Warm);
        comparisons.into_iter().all(|c| known(c.ratio, c.interval))
            && noise
                .into_iter()
                .all(|n| n.ratio.zip(n.interval).is_none_or(|(r, i)| known(r, i)))
    }

    /// A side's time over the candidate's: the median over rounds, on a logarithmic scale so that neither is preferred.
    fn ratio(&self, side: usize, cache: Cache, confidence: f64) -> Option<(f64, Interval)> {
        let time = |s: &Sample| match cache {
            Cache::Warm => Some(s.warm),
            Cache::Cold => s.cold,
        };
        let logs: Vec<f64> = self.ratios(side, time).into_iter().map(f64::ln).collect();
        let interval = bootstrap_median(&logs, confidence)?;
        Some((median(&logs)?.exp(), interval.map(f64::exp)))
    }

    /// A side's time over the candidate's, round by round.
    fn ratios(&self, side: usize, time: impl Fn(&Sample) -> Option<f64>) -> Vec<f64> {
        let of = |r: &Round, at: usize| r.samples.get(at)?.as_ref().and_then(&time);
        let rounds = self.rounds.iter();
        rounds.filter_map(|r| Some(of(r, side)? / of(r, 0)?)).collect()
    }

    fn disturbances(&self, references: &[f64], names: &[String], policy: &ContestPolicy) -> Vec<Disturbance> {
        let mut found = Vec::new();
        let drift = |series: &[f64], most: f64| {
            let trend = trend(series)?;
            (trend.change.abs() > most && trend.chance < DRIFT_CHANCE).then_some(trend.change)
        };
        if let Some(change) = drift(references, THROTTLED) {
            found.push(Disturbance::Throttled { change });
        }
        found.extend(self.device.iter().flat_map(Readings::disturbances));
        let kept = self.kept() as u32;
        let needed = fewest_samples(policy.confidence) as u32;
        if kept < needed {
            found.push(Disturbance::FewRounds { rounds: kept, needed });
        }
        for (at, name) in names.iter().enumerate() {
            let samples = self.samples(at);
            if let Some(change) = drift(&self.ratios(at, |s| Some(s.warm)), DRIFT) {
                found.push(Disturbance::Drift {
                    side: name.clone(),
                    change,
                });
            }
            let over_constant = |s: &Sample| s.warm * f64::from(s.calls) / s.constant;
            let over: Vec<f64> = samples.iter().map(over_constant).collect();
            if let Some(ratio) = median(&over).filter(|ratio| *ratio < RESOLVED) {
                found.push(Disturbance::Unresolved {
                    side: name.clone(),
                    ratio,
                });
            }
            if let Some(ratio) = unevenness(&samples) {
                found.push(Disturbance::Uneven {
                    side: name.clone(),
                    ratio,
                });
            }
        }
        found
    }
}

/// Time per call in long batches over that in short ones, if it differs beyond chance.
fn unevenness(samples: &[Sample]) -> Option<f64> {
    let shortest = samples.iter().map(|s| s.calls).min()?;
    let (short, long): (Vec<&Sample>, Vec<_>) = samples.iter().partition(|s| s.calls == shortest);
    let of = |group: &[&Sample]| {
        let times = super::Timing {
            seconds: group.iter().map(|s| s.warm).collect(),
        };
        let count = (group.len() >= 4).then_some(group.len() as f64)?;
        // The standard error of a median of normal values, from their median absolute deviation.
        Some((times.median()?, 1.25 * 1.4826 * times.spread()? / count.sqrt()))
    };
    let ((short, short_error), (long, long_error)) = (of(&short)?, of(&long)?);
    let ratio = long / short;
    let chance = 4.0 * short_error.hypot(long_error) / short;
    ((ratio - 1.0).abs() > UNEVEN.max(chance)).then_some(ratio)
}
