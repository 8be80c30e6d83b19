//! What a kernel's run says about itself: times, resources, counters, and what holds it back.
//!
//! A [`Profile`] has one entry for each launch of a plan. Times are the device's where it is at hand
//! ([`Profile::measure`]) and the cost model's where it is not ([`Profile::estimate`]). Resources are what the compiler
//! reports, counters what a profiler of the device adds where there is one, work what the sketch's cost model counts.
//! From these [a rule](diagnose()) names the [`Bottleneck`] of each launch, with its evidence in one sentence.

mod diagnose;
mod measure;
mod print;
mod resources;
mod work;

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::target::Target;

pub use diagnose::{Facts, diagnose};
pub use measure::Subject;
pub use print::{scaled, time};
pub use resources::{Occupancy, Resources};
pub use work::Work;

/// What is known of a kernel's run on a device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Profile {
    /// The task's name.
    pub name: String,
    /// The device.
    pub target: Target,
    /// Whether times were measured; else they are the cost model's.
    pub measured: bool,
    /// Seconds of one call of the whole plan, with warm caches: the least of some batches.
    pub seconds: f64,
    /// The launches in order.
    pub launches: Vec<LaunchProfile>,
    /// What holds back most of the time.
    pub finding: Finding,
    /// What could not be found out and why, for people.
    pub notes: Vec<String>,
}

/// What is known of one launch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LaunchProfile {
    /// The kernel's name.
    pub kernel: String,
    /// What it computes, for people; empty if the source does not say.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub doc: String,
    /// Seconds, with what the launches before left in the caches.
    pub seconds: f64,
    /// The part of the time of all launches.
    pub share: f64,
    /// What it has to do.
    pub work: Work,
    /// What it occupies.
    pub resources: Resources,
    /// How much of a core's threads can be in flight; `None` where the device or the resources do not say.
    pub occupancy: Option<Occupancy>,
    /// What a profiler of the device counted.
    pub counters: Option<Counters>,
    /// What holds it back.
    pub finding: Finding,
}

impl LaunchProfile {
    /// Bytes to and from memory: as counted if they were, else as the cost model has them.
    pub fn memory_bytes(&self) -> f64 {
        let counted = self.counters.as_ref();
        let counted = counted.and_then(|c| Some(c.read_bytes? + c.written_bytes?));
        counted.unwrap_or(self.work.bytes)
    }

    /// Operations for each byte to and from memory; `None` if nothing is moved or computed.
    pub fn intensity(&self) -> Option<f64> {
        let (ops, bytes) = (self.work.ops(), self.memory_bytes());
        (ops > 0.0 && bytes > 0.0).then(|| ops / bytes)
    }
}

/// What a backend observed of the launches of a plan.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Observation {
    /// The launches in the order of the plan.
    pub launches: Vec<Observed>,
    /// What could not be observed and why, for people.
    pub notes: Vec<String>,
}

/// What a backend observed of one launch.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Observed {
    /// Seconds by the device's clock; 0 for a grid without programs, which is not launched.
    pub seconds: f64,
    /// What it occupies.
    pub resources: Resources,
    /// What a profiler counted, if there is one that may.
    pub counters: Option<Counters>,
}

/// Counters of one launch. Parts are of what the device can sustain, from 0 to 1. What a device does not count is `None`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Counters {
    /// Seconds under the profiler, which may be longer than without.
    pub seconds: Option<f64>,
    /// Bytes read from memory.
    pub read_bytes: Option<f64>,
    /// Bytes written to memory.
    pub written_bytes: Option<f64>,
    /// Bytes to and from the last cache.
    pub cache_bytes: Option<f64>,
    /// The part of memory bandwidth that was used.
    pub memory: Option<f64>,
    /// The part of the last cache's bandwidth that was used.
    pub cache: Option<f64>,
    /// The part of the cycles in which the units for matrix products worked.
    pub tensor: Option<f64>,
    /// The part of the cycles in which instructions were issued.
    pub issue: Option<f64>,
    /// The part of the threads a core can hold that were in flight.
    pub occupancy: Option<f64>,
    /// Why threads waited, by the device's names of the reasons: groups of threads waiting, for each instruction issued.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub stalls: BTreeMap<String, f64>,
}

/// What holds a launch back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Bottleneck {
    /// Bytes: bandwidth of memory or of the last cache.
    Memory,
    /// Products: the rate of the units for matrices.
    Tensor,
    /// Instructions: the rate at which all others are issued.
    Issue,
    /// Waiting: no rate is near its peak, because too little is in flight.
    Latency,
    /// Launching: there is less work than it costs to start it.
    Launch,
}

impl Bottleneck {
    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Bottleneck::Memory => "memory",
            Bottleneck::Tensor => "tensor",
            Bottleneck::Issue => "issue",
            Bottleneck::Latency => "latency",
            Bottleneck::Launch => "launch",
        }
    }
}

impl fmt::Display for Bottleneck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A bottleneck and why it is one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// What holds it back.
    pub bottleneck: Bottleneck,
    /// Why, in one sentence for people and models.
    pub evidence: String,
}
