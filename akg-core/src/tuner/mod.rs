//! Choosing values for a sketch's knobs.
//!
//! What is recorded comes first: a configuration that earlier tuning of the same kernel ended with, on the same device,
//! for the same shape and by the same toolchain, is taken over, and tuning goes on from there only if it has a larger
//! budget than the earlier one had. Configurations are ranked by the
//! [cost model](crate::sketch::cost()) and measured in that order, after what the nearest recorded shape ended with.
//! Knobs of different kernels are tuned one kernel after the other, because their product is too large.
//!
//! Measuring is a duel: a short [contest](crate::timing) of the challenger with the fastest so far, in turns. What the
//! challenger returns in the first round is checked. A challenger that is faster beyond the noise takes the place; the one that ends there is judged
//! in full like any candidate, and if it fails the one before it is. Sources and artifacts that were seen are not
//! measured again. Builds run in parallel before the duels that need them, never beside one, which they would disturb.

mod exchange;
mod memory;
mod space;

use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use exchange::{export, import};
pub(crate) use memory::{Ending, Memory};
pub use memory::{kernel_of, shape_of};
pub use space::{Space, WARPS};

use crate::source::Knobs;
use crate::timing::ContestPolicy;
use crate::verdict::Failure;

/// How much tuning there is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TuningPolicy {
    /// Wall time after which no challenger is built or measured any more. The verdict about the last one comes after.
    pub budget: Duration,
    /// Challengers at most.
    pub most_challengers: usize,
    /// Of each group of knobs that belong together, the configurations that the cost model likes best.
    pub most_ranked: usize,
    /// A group is left after so many challengers that were not faster.
    pub patience: usize,
    /// Tuning ends when the bound of the task is at least this part of the time. Bounds follow from what devices could do
    /// in theory: copies reach 0.9 of an H200's bandwidth.
    pub enough: f64,
    /// How duels are run.
    pub duel: ContestPolicy,
}

impl Default for TuningPolicy {
    fn default() -> Self {
        let duel = ContestPolicy {
            least_rounds: 8,
            most_rounds: 16,
            budget: Duration::from_secs(2),
            patience: Duration::ZERO,
            warmup: 1,
            cold: false,
            confidence: 0.95,
            precision: 0.02,
            thorough: false,
            concede: Some(1.05),
            ..ContestPolicy::default()
        };
        Self {
            budget: Duration::from_secs(5),
            most_challengers: 64,
            most_ranked: 16,
            patience: 8,
            enough: 0.85,
            duel,
        }
    }
}

/// Where a configuration comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Origin {
    /// The designer's choice, or what the conductor tried after it.
    #[default]
    Designer,
    /// The record of earlier tuning for the same kernel, shape, device and toolchain.
    Record,
    /// The record for another shape or toolchain.
    NearRecord,
    /// The ranking by the cost model.
    Ranking,
}

impl Origin {
    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Origin::Designer => "designer",
            Origin::Record => "record",
            Origin::NearRecord => "near-record",
            Origin::Ranking => "ranking",
        }
    }
}

/// A configuration that challenged the fastest so far.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// The configuration.
    pub knobs: Knobs,
    /// Where it comes from.
    pub origin: Origin,
    /// Why it failed; `None` if it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// Its time over that of the configuration that tuning began with, through the chain of duels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relative: Option<f64>,
    /// Whether it was faster than the fastest so far.
    pub faster: bool,
    /// Whether an earlier run measured it.
    pub recalled: bool,
}

/// What tuning did.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Tuning {
    /// Where the configuration of the best candidate comes from.
    pub origin: Origin,
    /// Configurations that challenged, in order.
    pub trials: Vec<Trial>,
    /// Time over that of the configuration that tuning began with; 1 if nothing was faster.
    pub relative: f64,
    /// Seconds spent, verdicts about challengers included.
    pub seconds: f64,
    /// Why it ended.
    pub stopped: String,
    /// Whether the budget ended it: with more, it would have gone on.
    pub cut_short: bool,
}
