//! Other designs of the rules, for who looks for something faster: crossings of what is known, and what the cost model does not
//! prefer. The model is not exact, so that one of them may be the fastest.

use std::collections::BTreeMap;

use super::device::Device;
use super::{Design, DesignContext, Improve, KernelSummary, designs};
use crate::error::{Error, Result};
use crate::search::{Crossed, crossings};
use crate::sketch::Sketch;
use crate::source::{Knobs, sketch_knobs};

/// Times that products may lose less than those that should do.
const MOST_CARE: usize = 2;

/// Designs with each of these, and of all of them those that others are crossed with.
const MOST_DESIGNS: usize = 8;
const MOST_CROSSED: usize = 4;

/// The first that was not tried of the [crossings](crossed) of what is to go on from or may give ideas, those with the rules' own
/// designs, and these designs themselves.
///
/// # Errors
/// [`Unsupported`](crate::ErrorKind::Unsupported) if all of them were tried, or the rules have no design of the task.
pub(super) fn design(context: &DesignContext, improve: &Improve) -> Result<Design> {
    if let Some(crossed) = crossed(context, improve) {
        return Ok(crossed);
    }
    let own = own(context)?;
    let others = own.iter().take(MOST_CROSSED);
    let others = others.map(|design| (&design.sketch, &design.knobs));
    let first = known(improve).next();
    if let Some(crossed) = first.and_then(|first| crossed_with(first, others, context, improve)) {
        return Ok(crossed);
    }
    let mut new = own.into_iter().filter(|d| is_new(&d.sketch, context, improve));
    new.next()
        .ok_or_else(|| Error::unsupported("the rules have no other design"))
}

/// The first crossing that was not tried of the first parent with the others, and then with what may give ideas; without parents,
/// of that.
pub(super) fn crossed(context: &DesignContext, improve: &Improve) -> Option<Design> {
    let mut known = known(improve);
    let first = known.next()?;
    crossed_with(first, known, context, improve)
}

/// What a designer is shown, the parents first, each with the values of its knobs.
fn known(improve: &Improve) -> impl Iterator<Item = (&Sketch, &Knobs)> {
    let known = improve.parents.iter().chain(&improve.inspirations);
    known.map(|known| (&known.sketch, &known.knobs))
}

/// The first crossing that was not tried of a sketch with one of others.
fn crossed_with<'a>(
    (first, knobs): (&Sketch, &Knobs),
    mut others: impl Iterator<Item = (&'a Sketch, &'a Knobs)>,
    context: &DesignContext,
    improve: &Improve,
) -> Option<Design> {
    let (hints, target) = (&context.task.contract.hints, &context.target);
    let own = sketch_knobs(knobs);
    others.find_map(|(other, knobs)| {
        let knobs = sketch_knobs(knobs);
        let mut crossed = crossings((first, &own), (other, &knobs), hints, target);
        let new = crossed.find(|crossed| is_new(&crossed.sketch, context, improve));
        new.map(Design::from)
    })
}

/// Whether a sketch may bring something that is not known.
fn is_new(sketch: &Sketch, context: &DesignContext, improve: &Improve) -> bool {
    !improve.has_tried(sketch) && !context.has_failed(sketch)
}

/// All designs of the rules: their choice, then the others by the time that the cost model expects.
fn own(context: &DesignContext) -> Result<Vec<Design>> {
    let (task, target) = (&context.task, &context.target);
    let mut all = designs(task, target, 0, MOST_DESIGNS)?;
    let is_fast = |care: &usize| !Device::new(target, task.contract.accuracy, *care).has_short_runs();
    for care in (1..=MOST_CARE).filter(is_fast) {
        // Not every graph can be written with all factors.
        all.extend(designs(task, target, care, MOST_DESIGNS).unwrap_or_default());
    }
    if let Some((_, others)) = all.split_first_mut() {
        others.sort_by(|(_, a), (_, b)| a.total_cmp(b));
    }
    Ok(all.into_iter().map(|(design, _)| design).collect())
}

impl From<Crossed> for Design {
    fn from(Crossed { sketch, knobs }: Crossed) -> Self {
        let kernels = sketch.tree().kernels.iter().map(|kernel| KernelSummary {
            name: kernel.node.name.node.clone(),
            rule: String::new(),
            operators: Vec::new(),
        });
        Self {
            kernels: kernels.collect(),
            // Buffers of one name may hold different things in the parents.
            intermediates: BTreeMap::new(),
            rules: Vec::new(),
            sketch,
            knobs,
        }
    }
}
