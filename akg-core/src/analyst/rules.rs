//! The analyst that follows rules.

use async_trait::async_trait;

use super::{AnalyseContext, Analyst, Place, Recommendation};
use crate::agent::Agent;
use crate::error::Result;
use crate::profile::{Bottleneck, LaunchProfile, scaled};

/// A kernel that takes no more than its bound over this is as fast as it will be.
const ENOUGH: f64 = 0.85;

/// The analyst that recommends what helps against the [bottleneck](crate::profile::diagnose()) of the longest launch, and what helps
/// against that of a shorter one where this was recommended more often.
#[derive(Debug, Clone, Copy, Default)]
pub struct RuleAnalyst;

#[async_trait]
impl Agent<Analyst> for RuleAnalyst {
    fn name(&self) -> &str {
        "rules"
    }

    async fn step(&self, context: &AnalyseContext) -> Result<Option<Recommendation>> {
        let profile = &context.profile;
        let room = context.bound_seconds.map(|bound| profile.seconds / bound);
        if room.is_some_and(|room| room * ENOUGH <= 1.0) {
            return Ok(None);
        }
        let given = |what: &str| {
            let given = context
                .passes
                .iter()
                .filter_map(|pass| pass.recommendation.as_ref());
            given.filter(|advice| advice.what == what).count()
        };
        let mut launches: Vec<&LaunchProfile> = profile.launches.iter().collect();
        launches.sort_by(|a, b| b.share.total_cmp(&a.share));
        let count = launches.len();
        let advice = launches.into_iter().filter_map(|launch| {
            let (what, most) = against(launch, count)?;
            Some((launch, what, most))
        });
        let Some((launch, what, most)) = advice.min_by_key(|(_, what, _)| given(what)) else {
            return Ok(None);
        };
        // Nothing makes up for more than the time of the launch, and nobody passes the bound.
        let gain = (1.0 / (1.0 - launch.share * (1.0 - 1.0 / most))).min(room.unwrap_or(f64::INFINITY));
        Ok(Some(Recommendation {
            what,
            why: format!(
                "`{}` takes {:.0} % of the time and is held back by {}: {}.",
                launch.kernel,
                launch.share * 100.0,
                launch.finding.bottleneck,
                launch.finding.evidence
            ),
            gain: (gain * 100.0).round() / 100.0,
            place: Place::Sketch,
        }))
    }
}

/// What helps a launch of so many, and how much faster that may make it.
fn against(launch: &LaunchProfile, launches: usize) -> Option<(String, f64)> {
    let kernel = &launch.kernel;
    let part = |seconds: f64| (launch.seconds / seconds.max(f64::MIN_POSITIVE)).clamp(1.0, 4.0);
    let advice = match launch.finding.bottleneck {
        Bottleneck::Launch if launches > 1 => (
            format!("Fuse `{kernel}` with a kernel before or after it, so that there is one launch less."),
            4.0,
        ),
        Bottleneck::Launch => return None,
        Bottleneck::Memory if launches > 1 => (
            format!(
                "Move fewer bytes than the {} of `{kernel}`: fuse it with its neighbour, so that what lies between them stays on the chip.",
                scaled(launch.memory_bytes(), "B")
            ),
            2.0,
        ),
        Bottleneck::Memory => (
            format!(
                "Move fewer bytes than the {} of `{kernel}`: read every element once, and keep in tiles what is needed again.",
                scaled(launch.memory_bytes(), "B")
            ),
            2.0,
        ),
        Bottleneck::Tensor => (
            format!(
                "Take fewer or cheaper products in `{kernel}`: a method with narrower operands that the accuracy class allows."
            ),
            2.0,
        ),
        Bottleneck::Issue => (
            format!(
                "Execute fewer instructions for each element of `{kernel}`: hoist what does not change, and take wider tiles."
            ),
            1.5,
        ),
        Bottleneck::Latency => (
            format!(
                "Give `{kernel}` more independent work at a time: more programs, or split its longest loop among several."
            ),
            part(launch.work.memory_seconds.max(launch.work.tensor_seconds)),
        ),
    };
    Some(advice)
}
