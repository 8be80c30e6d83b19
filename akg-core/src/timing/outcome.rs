//! What a contest found.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::device::{ClockLimit, Readings};
use super::statistics::{Interval, Timing};
use crate::backend::Cache;
use crate::verdict::Failure;

/// What a contest found.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Contest {
    /// The candidate first, then its rivals.
    pub sides: Vec<SideTimes>,
    /// The candidate against each rival that did not fail, warm and cold.
    pub comparisons: Vec<Comparison>,
    /// The noise of the run, warm and cold.
    pub noise: Vec<Noise>,
    /// The confidence of all intervals.
    pub confidence: f64,
    /// Rounds that count.
    pub rounds: u32,
    /// Rounds that were left out because the machine was slowed down in them.
    pub discarded: u32,
    /// Times that the run was repeated because it was disturbed.
    pub repeats: u32,
    /// The part of the processor time that a hypervisor gave to others; `None` if unknown.
    pub stolen: Option<f64>,
    /// What the device said of itself; `None` if it says nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<Readings>,
    /// What disturbed the run; if anything did, it claims nothing.
    pub disturbances: Vec<Disturbance>,
}

impl Contest {
    /// The candidate's times.
    pub fn candidate(&self) -> Option<&SideTimes> {
        self.sides.first()
    }

    /// Whether nothing disturbed the run.
    pub fn is_stable(&self) -> bool {
        self.disturbances.is_empty()
    }

    /// The comparison with the fastest rival.
    pub fn against_best(&self, cache: Cache) -> Option<&Comparison> {
        self.against_best_of(cache, |_| true)
    }

    /// The comparison with the fastest of some rivals, chosen by their names.
    pub fn against_best_of(&self, cache: Cache, chosen: impl Fn(&str) -> bool) -> Option<&Comparison> {
        let comparisons = self.comparisons.iter();
        comparisons
            .filter(|c| c.cache == cache && chosen(&c.rival))
            .min_by(|a, b| a.ratio.total_cmp(&b.ratio))
    }

    /// The smallest difference from 1 that is more than noise.
    pub fn noise(&self, cache: Cache) -> Option<f64> {
        self.noise.iter().find(|n| n.cache == cache).map(|n| n.level)
    }
}

/// What was measured of one side.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct SideTimes {
    /// Its name.
    pub name: String,
    /// Why it fell out; its times are those until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// Times of one call whose data is where the call before left it.
    pub warm: Timing,
    /// Times of one call with empty caches.
    pub cold: Timing,
    /// Lengths of the warm batches.
    pub batches: Vec<u32>,
    /// What asking and answering takes, in seconds: the median of the batches without calls.
    pub constant_seconds: f64,
    /// Rounds whose timed outputs were verified.
    pub verified: u32,
    /// The warm times by the side's own clock, divided by the judge's; `None` if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_clock: Option<f64>,
    /// Page faults of one warm call; `None` if nobody counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page_faults: Option<f64>,
}

/// The candidate and a rival.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The rival's name.
    pub rival: String,
    /// What was compared.
    pub cache: Cache,
    /// The rival's time over the candidate's, the median over rounds: 2 means that the candidate is twice as fast.
    pub ratio: f64,
    /// The interval of the ratio.
    pub interval: Interval,
    /// What may be said.
    pub claim: Claim,
}

/// What may be said about the candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Claim {
    /// It is faster.
    Faster,
    /// It is slower.
    Slower,
    /// There is no difference beyond the noise.
    Noise,
}

impl Claim {
    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Claim::Faster => "faster",
            Claim::Slower => "slower",
            Claim::Noise => "noise",
        }
    }
}

/// What the same program shows against itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Noise {
    /// What was compared.
    pub cache: Cache,
    /// Differences of a ratio from 1 up to this are noise.
    pub level: f64,
    /// The ratio of the candidate's two sets of times; `None` if it took part once.
    pub ratio: Option<f64>,
    /// Its interval.
    pub interval: Option<Interval>,
}

/// What disturbed a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
#[non_exhaustive]
pub enum Disturbance {
    /// The judge's own loop changed its time over the run, as when a processor is throttled.
    Throttled {
        /// The relative change.
        change: f64,
    },
    /// A side changed its time over the run against the candidate's.
    Drift {
        /// The side.
        side: String,
        /// The relative change.
        change: f64,
    },
    /// Others used the machine in too many rounds.
    Interrupted {
        /// How many.
        rounds: u32,
        /// Of how many.
        of: u32,
    },
    /// The device slowed itself down.
    Slowdown {
        /// What for.
        limit: ClockLimit,
        /// In how many readings.
        readings: u32,
        /// Of how many.
        of: u32,
    },
    /// A side's time per call depends on how many calls are made.
    Uneven {
        /// The side.
        side: String,
        /// Time per call in the longer batches over that in the shorter.
        ratio: f64,
    },
    /// Asking a side for its calls and hearing that they are done takes longer than they do, as far as it has slots for more.
    Unresolved {
        /// The side.
        side: String,
        /// The time of a batch over that of one without calls.
        ratio: f64,
    },
    /// Too few rounds fitted the budget for any interval of the stated confidence.
    FewRounds {
        /// How many fitted.
        rounds: u32,
        /// How many it takes.
        needed: u32,
    },
    /// Operators of a framework take most of the candidate's time, so that its speed is theirs.
    Borrowed {
        /// The part of its time that they take.
        share: f64,
    },
}

/// Kernels take at least so much of a candidate's time, or no speed is claimed.
const OWN_SHARE: f64 = 0.125;

impl Disturbance {
    /// The disturbance of a contest whose candidate spends a `share` of its time in operators of a framework, if that is most of it.
    pub(crate) fn borrowed(share: f64) -> Option<Self> {
        (share > 1.0 - OWN_SHARE).then_some(Disturbance::Borrowed { share })
    }
}

impl fmt::Display for Disturbance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Disturbance::Throttled { change } => {
                write!(
                    f,
                    "the processor's speed changed: a fixed loop took {:+.1} % time",
                    100.0 * change
                )
            }
            Disturbance::Drift { side, change } => {
                write!(
                    f,
                    "the times of {side} drifted by {:+.1} % against the candidate's",
                    100.0 * change
                )
            }
            Disturbance::Interrupted { rounds, of } => {
                write!(f, "others used the processor in {rounds} of {of} rounds")
            }
            Disturbance::Slowdown { limit, readings, of } => {
                let limit = limit.name();
                write!(
                    f,
                    "the device slowed itself down ({limit}) in {readings} of {of} readings"
                )
            }
            Disturbance::Uneven { side, ratio } => {
                write!(
                    f,
                    "a call of {side} takes {ratio:.2} times as long in batches twice as long"
                )
            }
            Disturbance::Unresolved { side, ratio } => {
                write!(
                    f,
                    "the calls of {side} take only {ratio:.2} times as long as asking for them: larger inputs would show more"
                )
            }
            Disturbance::FewRounds { rounds, needed } => {
                write!(f, "only {rounds} rounds fitted the budget; {needed} are needed")
            }
            Disturbance::Borrowed { share } => {
                let percent = 100.0 * share;
                write!(
                    f,
                    "PyTorch's operators take {percent:.0} % of the candidate's time, so that its speed is theirs"
                )
            }
        }
    }
}
