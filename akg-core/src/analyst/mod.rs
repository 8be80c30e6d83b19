//! The analyst: from a profile to the one change that is most worth trying.

#[cfg(feature = "models")]
mod model;
mod rules;

use serde::{Deserialize, Serialize};

use crate::agent::Role;
use crate::pass::Pass;
use crate::profile::Profile;
use crate::sketch::Sketch;
use crate::source::Source;
use crate::task::Task;
use crate::trace::Trace;

#[cfg(feature = "models")]
pub use model::ModelAnalyst;
pub use rules::RuleAnalyst;

/// Reads a profile and recommends one change. After KForge's performance analysis agent (arXiv 2606.02963, section 3).
#[derive(Debug)]
pub struct Analyst;

/// What an analyst is shown.
#[derive(Debug, Clone)]
pub struct AnalyseContext {
    /// What is computed.
    pub task: Task,
    /// What computes it, and passed.
    pub source: Source,
    /// The sketch that it was made from.
    pub sketch: Sketch,
    /// Where its time goes, with what the compiler reports of each launch.
    pub profile: Profile,
    /// What the toolchain said when it built the source; empty if nothing.
    pub report: String,
    /// Seconds below which the device cannot compute the task, if that is known.
    pub bound_seconds: Option<f64>,
    /// The profile as PNG pictures, for who sees them.
    pub pictures: Vec<Vec<u8>>,
    /// What was tried before and what came of it, oldest first.
    pub passes: Vec<Pass>,
    /// Where exchanges with models are written.
    pub trace: Trace,
}

/// One change that should make a kernel faster, and by how much: a claim that the next pass shows to be true or false.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recommendation {
    /// What to change, as an instruction.
    pub what: String,
    /// Why that helps: the evidence of the profile.
    pub why: String,
    /// The expected speed over that of now: 1.5 is half as fast again.
    pub gain: f64,
    /// Where the change is to be made.
    pub place: Place,
}

/// Where a change is to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// In the sketch: how the work is cut into kernels and tiles, what is fused, which products are taken.
    Sketch,
    /// In the source: how the DSL's text does what the sketch says.
    Source,
}

impl Role for Analyst {
    type Context = AnalyseContext;
    /// `None` if nothing is worth trying.
    type Proposal = Option<Recommendation>;
    const NAME: &'static str = "analyst";
}
