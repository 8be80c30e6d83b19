//! Other designs of the rules, for who looks for something faster: crossings of what is known, and what the cost model does not
//! prefer. The model is not exact, so that one of them may be the fastest.

use std::collections::BTreeMap;

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

/// The first that was not tried of the [crossings](crossed) of what is to go on from, those with the rules' own designs, and these
/// designs themselves.
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
    if let Some(crossed) = crossed_with(others, context, improve) {
        return Ok(crossed);
    }
    let mut new = own.into_iter().filter(|d| is_new(&d.sketch, context, improve));
    new.next()
        .ok_or_else(|| Error::unsupported("the rules have no other design"))
}

/// The first crossing that was not tried of the first parent with the others, and then with what may give ideas.
pub(super) fn crossed(context: &DesignContext, improve: &Improve) -> Option<Design> {
    let others = improve.parents.iter().skip(1).chain(&improve.inspirations);
    let others = others.map(|known| (&known.sketch, &known.knobs));
    crossed_with(others, context, improve)
}

/// The first crossing that was not tried of the first parent with one of `others`.
fn crossed_with<'a>(
    mut others: impl Iterator<Item = (&'a Sketch, &'a Knobs)>,
    context: &DesignContext,
    improve: &Improve,
) -> Option<Design> {
    let parent = improve.parents.first()?;
    let own = sketch_knobs(&parent.knobs);
    others.find_map(|(other, knobs)| {
        let (hints, target) = (&context.task.contract.hints, &context.target);
        let knobs = sketch_knobs(knobs);
        let mut crossed = crossings((&parent.sketch, &own), (other, &knobs), hints, target);
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
    for care in 1..=MOST_CARE {
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
