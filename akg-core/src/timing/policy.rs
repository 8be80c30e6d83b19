//! How a contest is run, and between whom.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::floor::Floor;
use super::side::Side;

/// How a contest is run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ContestPolicy {
    /// Rounds at least. They may take three times the budget.
    pub least_rounds: u32,
    /// Rounds at most.
    pub most_rounds: u32,
    /// Wall time after which no further round begins, beside the least.
    pub budget: Duration,
    /// Wall time in which the [fewest rounds](super::fewest_samples) that say anything are held, whatever the budget: where one
    /// call is long. If they do not fit, the contest ends without a claim.
    #[serde(default)]
    pub patience: Duration,
    /// Untimed calls before each timed batch. One if a single call is long.
    pub warmup: u32,
    /// Whether calls with empty caches are timed too.
    pub cold: bool,
    /// The confidence of intervals.
    pub confidence: f64,
    /// Differences up to this are noise, however precisely they were measured.
    pub resolution: f64,
    /// Rounds are added until every warm ratio is known this well, or the budget is spent.
    pub precision: f64,
    /// Whether outputs are verified in the last round, too, and in some that nobody knows before; else in the first alone.
    #[serde(default = "thorough")]
    pub thorough: bool,
    /// Ends the contest when the candidate took longer than a rival by this factor in three rounds in a row. `None`
    /// never does.
    #[serde(default)]
    pub concede: Option<f64>,
}

impl Default for ContestPolicy {
    fn default() -> Self {
        Self {
            least_rounds: 12,
            most_rounds: 60,
            budget: Duration::from_secs(10),
            patience: Duration::from_secs(180),
            warmup: 2,
            cold: true,
            confidence: 0.99,
            resolution: 0.01,
            precision: 0.01,
            thorough: thorough(),
            concede: None,
        }
    }
}

const fn thorough() -> bool {
    true
}

/// Who takes part.
pub struct Entrants<'a> {
    /// The side whose speed is in question.
    pub candidate: &'a mut dyn Side,
    /// The same program loaded a second time, which shows the noise of the run.
    pub twin: Option<&'a mut dyn Side>,
    /// What the candidate is compared with. One that fails falls out.
    pub rivals: Vec<&'a mut dyn Side>,
    /// The time below which the candidate is disbelieved, if there are enough rounds to say what its time is.
    pub floor: Option<Floor>,
}

impl std::fmt::Debug for Entrants<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let rivals: Vec<_> = self.rivals.iter().map(|r| r.name()).collect();
        f.debug_struct("Entrants")
            .field("candidate", &self.candidate.name())
            .field("twin", &self.twin.is_some())
            .field("rivals", &rivals)
            .finish_non_exhaustive()
    }
}
