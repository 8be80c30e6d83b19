//! Which fusions are worth it, by the cost model.
//!
//! The cut fuses whatever one kernel can compute. What a kernel needs fewer elements of than it has steps, a statistic of a
//! row or a mask that all heads share, can be cheaper in a kernel of its own: then the rest may be split over more programs,
//! or join what comes next. Each is tried, the slowest kernels first, and stays apart where the estimate falls by more than a
//! margin.

use std::collections::BTreeSet;

use super::cut::Apart;
use super::draft::Draft;
use super::first_points;
use super::plan::KernelPlan;
use super::prim::PrimId;
use crate::expr::Bindings;
use crate::sketch::{Sketch, cost};
use crate::source::sketch_knobs;
use crate::target::Target;

/// The part of the time that another cut must save: the model is not exact, and more kernels need more of everything that it
/// does not know.
const MARGIN: f64 = 0.05;

/// Kernels that take less than this part of the time are left as they are.
const LEAST_SHARE: f64 = 0.05;

/// Drafts that are tried for one graph, and primitives in all of these together.
const MOST_DRAFTS: usize = 48;
const MOST_PRIMITIVES: usize = 16_000;

/// A draft and what `attempt` writes with fewer fusions, with the seconds that are estimated: first the one to take, which is the
/// fastest but for the margin, then the others by their times.
pub(super) fn choose(
    first: Draft,
    mut apart: Apart<'_>,
    hints: &Bindings,
    attempt: impl Fn(&Apart<'_>) -> Option<Draft>,
) -> Vec<(Draft, f64)> {
    let target = apart.device.target();
    let Some(times) = estimate(&first, hints, target) else {
        return vec![(first, f64::INFINITY)];
    };
    let mut seconds: f64 = times.iter().sum();
    let kernels = first.parts.iter().map(|(kernel, _)| kernel);
    let mut slowest: Vec<(&KernelPlan, f64)> = kernels.zip(times).collect();
    slowest.retain(|(_, time)| *time >= LEAST_SHARE * seconds);
    slowest.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    let candidates = candidates(&slowest, &first);
    let primitives: usize = first.parts.iter().map(|(kernel, _)| kernel.nodes.len()).sum();
    let most = MOST_DRAFTS.min(MOST_PRIMITIVES / primitives.max(1));

    let (mut chosen, mut others) = ((first, seconds), Vec::new());
    for nodes in candidates.into_iter().take(most) {
        let mut other = apart.clone();
        other.begin.extend(nodes);
        let Some(draft) = attempt(&other) else { continue };
        let Some(times) = estimate(&draft, hints, target) else {
            continue;
        };
        let time: f64 = times.iter().sum();
        if time < seconds * (1.0 - MARGIN) {
            others.push(std::mem::replace(&mut chosen, (draft, time)));
            (apart, seconds) = (other, time);
        } else {
            others.push((draft, time));
        }
    }
    others.sort_by(|(_, a), (_, b)| a.total_cmp(b));
    std::iter::once(chosen).chain(others).collect()
}

/// What may begin a kernel, together with its like in kernels that do the same.
fn candidates(slowest: &[(&KernelPlan, f64)], draft: &Draft) -> Vec<BTreeSet<PrimId>> {
    let mut found: Vec<BTreeSet<PrimId>> = Vec::new();
    for (kernel, _) in slowest {
        let alike = draft.parts.iter().map(|(other, _)| other);
        let alike: Vec<&KernelPlan> = alike.filter(|other| is_like(other, kernel)).collect();
        for (place, id) in kernel.nodes.iter().enumerate() {
            let axes = kernel.axes.get(id).map_or(0, Vec::len);
            let is_smaller = axes < kernel.extents.len() && kernel.nodes.len() > 1;
            let nodes = alike.iter().filter_map(|k| k.nodes.get(place).copied());
            let nodes: BTreeSet<PrimId> = nodes.collect();
            if is_smaller && !found.contains(&nodes) {
                found.push(nodes);
            }
        }
    }
    found
}

/// Whether two kernels do the same with different tensors.
fn is_like(a: &KernelPlan, b: &KernelPlan) -> bool {
    a.extents == b.extents && a.nodes.len() == b.nodes.len() && a.axes.values().eq(b.axes.values())
}

/// The estimated time of each part of a draft, with the first of its choices that fit the device; `None` if none does.
fn estimate(draft: &Draft, hints: &Bindings, target: &Target) -> Option<Vec<f64>> {
    let sketch = Sketch::parse(&draft.text).ok()?;
    let points = first_points(&sketch, &sketch.default_knobs());
    let mut costs = points.iter().filter_map(|knobs| {
        let program = sketch.elaborate(&sketch_knobs(knobs), hints).ok()?;
        cost(&program, hints, target).ok()
    });
    let cost = costs.find(|cost| cost.seconds.is_finite())?;
    let mut times = cost.kernels.iter().map(|k| k.seconds);
    let parts = draft.parts.iter();
    Some(
        parts
            .map(|(_, count)| times.by_ref().take(*count).sum())
            .collect(),
    )
}
