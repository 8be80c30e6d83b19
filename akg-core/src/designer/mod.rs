//! The rule-based designer: from a graph to a sketch, with no model.
//!
//! Recurrent networks whose steps are written out become operators again (`roll`). ATen operators are decomposed into a few
//! primitives (`decompose`), the primitives are cut into kernels that compute as much as one can (`cut`, `group`),
//! tensors get the extents that make every reshape a relabelling (`plan`), and each kernel is written as sketch text
//! by the emitter of its kind (`emit`). The cost model is asked where fewer fusions are faster (`choose`). The text is parsed
//! like anybody's, so that a rule's sketch meets the same checks as a model's.

use std::collections::BTreeMap;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::agent::{Agent, Role};
use crate::analyst::Recommendation;
use crate::digest::Digest;
use crate::error::{Error, Result};
use crate::expr::Bindings;
use crate::graph::{Fired, Graph};
use crate::pass::Pass;
use crate::search::fingerprint::of_sketch;
use crate::sketch::{Knob, Sketch, is_keyword};
use crate::source::{KnobValue, Knobs};
use crate::target::Target;
use crate::task::Task;
use crate::trace::Trace;
use crate::verdict::{Failure, FailureKind};
use device::Device;
use draft::{Draft, drafts};
use emit::Names;
use plan::TensorKey;
use prim::Prim;

mod another;
mod attention;
mod axes;
mod choose;
mod coalesce;
mod copies;
mod cut;
mod decompose;
mod device;
mod draft;
mod emit;
mod given;
mod group;
#[cfg(feature = "models")]
mod model;
mod plan;
mod prim;
mod roll;
mod rules_first;
#[cfg(test)]
mod tests;
mod text;
mod window;

pub use given::SketchDesigner;
#[cfg(feature = "models")]
pub use model::ModelDesigner;
pub use rules_first::RulesFirst;

/// Decides how a task is cut into kernels and each kernel into tiles.
#[derive(Debug)]
pub struct Designer;

/// What a designer is shown.
#[derive(Debug, Clone)]
pub struct DesignContext {
    /// What to compute.
    pub task: Task,
    /// What to compute it on.
    pub target: Target,
    /// Earlier designs of the same task that failed, in their order.
    pub failed: Vec<FailedDesign>,
    /// What another design is to be faster than; `None` where nothing has passed yet.
    pub improve: Option<Improve>,
    /// Where exchanges with models are written.
    pub trace: Trace,
}

impl DesignContext {
    /// What a designer is shown first.
    pub fn new(task: Task, target: Target) -> Self {
        Self {
            task,
            target,
            failed: Vec::new(),
            improve: None,
            trace: Trace::default(),
        }
    }

    /// Whether a design with this sketch failed.
    pub fn has_failed(&self, sketch: &Sketch) -> bool {
        let text = sketch.to_string();
        self.failed.iter().any(|failed| failed.sketch.to_string() == text)
    }
}

/// What another design is to be faster than.
#[derive(Debug, Clone, Default)]
pub struct Improve {
    /// What it should go on from: one design that is to become faster, several that have something good each, or none.
    pub parents: Vec<Known>,
    /// Designs to take ideas from.
    pub inspirations: Vec<Known>,
    /// Designs that began with the same and failed, oldest first.
    pub failed: Vec<FailedDesign>,
    /// The [fingerprints](crate::search::fingerprint::of_sketch) of all designs that were tried: nothing comes of another one that
    /// has one of them.
    pub tried: Vec<Digest>,
    /// What is advised to change.
    pub recommendation: Option<Recommendation>,
    /// What was tried before and what came of it, oldest first.
    pub passes: Vec<Pass>,
}

impl Improve {
    /// Whether a design with this sketch was tried.
    pub fn has_tried(&self, sketch: &Sketch) -> bool {
        self.tried.contains(&of_sketch(sketch))
    }
}

/// A design that passed.
#[derive(Debug, Clone)]
pub struct Known {
    /// The tile program.
    pub sketch: Sketch,
    /// The values of its knobs that are the fastest so far.
    pub knobs: Knobs,
    /// Seconds of a call, if it was timed.
    pub seconds: Option<f64>,
}

/// A design and what was wrong with it.
#[derive(Debug, Clone)]
pub struct FailedDesign {
    /// The tile program.
    pub sketch: Sketch,
    /// The values of its knobs, and the DSL's own.
    pub knobs: Knobs,
    /// Why what was made of it failed.
    pub failure: Failure,
}

/// A sketch and how to read it.
#[derive(Debug, Clone)]
pub struct Design {
    /// The tile program. Its inputs are the graph's inputs followed by the graph's constants; its outputs are the
    /// graph's outputs. Extents may be regrouped, element counts and order are the graph's.
    pub sketch: Sketch,
    /// Knob values to try first.
    pub knobs: Knobs,
    /// What was fused into each kernel, in launch order.
    pub kernels: Vec<KernelSummary>,
    /// The graph's value that a buffer of the sketch holds, element for element; by the buffer's name. Buffers that hold
    /// something else are not listed.
    pub intermediates: BTreeMap<String, String>,
    /// The rules that made its graph of the task's; none for the task's own.
    pub rules: Vec<Fired>,
}

impl Design {
    /// Legal knob values in the order in which to try them: the designer's choice, the same with the least hints and then
    /// with the least of all values, which ask for the least of a device, and others. Extents and parameters have the values
    /// in `bindings`.
    pub fn points(&self, bindings: &Bindings) -> impl Iterator<Item = Knobs> {
        let mut seen = first_points(&self.sketch, &self.knobs);
        seen.retain(|point| self.sketch.elaborate(point, bindings).is_ok());
        let legal = self.sketch.legal_points(bindings);
        let first = seen.clone();
        first
            .into_iter()
            .chain(legal.filter(move |point| !seen.contains(point)))
    }
}

/// The designer's choice, the same with the least hints, and with the least of all values.
fn first_points(sketch: &Sketch, chosen: &Knobs) -> Vec<Knobs> {
    let least = |which: fn(&Knob) -> bool| {
        let mut point = chosen.clone();
        for knob in sketch.knobs().iter().filter(|knob| which(knob)) {
            let sizes = knob.values.iter().filter_map(|value| match value {
                KnobValue::Int(size) => Some(*size),
                KnobValue::DType(_) => None,
            });
            point.extend(sizes.min().map(|size| (knob.name.clone(), KnobValue::Int(size))));
        }
        point
    };
    let mut points = vec![chosen.clone(), least(|knob| knob.hint), least(|_| true)];
    points.dedup();
    points
}

/// What one kernel of a design does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelSummary {
    /// The kernel's name in the sketch.
    pub name: String,
    /// The rule that wrote it: `product` for matrix products with what is fused to them, `attention` for two of them
    /// with a softmax between, `rows` for all else; empty for a kernel that no rule wrote.
    #[serde(default)]
    pub rule: String,
    /// The ATen operators that it computes, in order.
    pub operators: Vec<String>,
}

impl Role for Designer {
    type Context = DesignContext;
    type Proposal = Design;
    const NAME: &'static str = "designer";
}

/// The designer that follows rules. Where values were wrong before, products are taken of factors that lose less, then of f32,
/// and in the end with short runs of multiply-adds.
///
/// Where something faster is looked for, it [crosses](crate::search::crossings) what it is to go on from with what else is known, and
/// has the designs that the cost model does not prefer: other fusions, and other factors of products.
#[derive(Debug, Clone, Copy, Default)]
pub struct RuleDesigner;

#[async_trait]
impl Agent<Designer> for RuleDesigner {
    fn name(&self) -> &str {
        "rules"
    }

    async fn step(&self, context: &DesignContext) -> Result<Design> {
        if let Some(improve) = &context.improve {
            return another::design(context, improve);
        }
        let too_rough = |failed: &&FailedDesign| failed.failure.kind == FailureKind::WrongValues;
        let care = context.failed.iter().filter(too_rough).count();
        design_with_care(&context.task, &context.target, care)
    }
}

/// Designs a sketch for `task` on `target`. Operators without a rule are an
/// [`Unsupported`](crate::ErrorKind::Unsupported) error that names them all.
pub fn design(task: &Task, target: &Target) -> Result<Design> {
    design_with_care(task, target, 0)
}

/// The same with products that lose less: their factors are as many steps as `care` from the fastest.
fn design_with_care(task: &Task, target: &Target, care: usize) -> Result<Design> {
    let designs = designs(task, target, care, 1)?.into_iter();
    let mut designs = designs.map(|(design, _)| design);
    designs
        .next()
        .ok_or_else(|| Error::unexpected("the designer wrote no sketch"))
}

/// Up to so many designs of which the first is [that with care](design_with_care), with the seconds that the cost model expects.
fn designs(task: &Task, target: &Target, care: usize, most: usize) -> Result<Vec<(Design, f64)>> {
    let graph = &task.graph;
    let device = Device::new(target, task.contract.accuracy, care);
    let (drafts, decomposed) = drafts(graph, &task.contract.hints, device)?;
    let design = |(draft, seconds): (Draft, f64)| {
        let sketch = Sketch::parse(&draft.text).map_err(|d| {
            let found = d.render(&draft.text);
            Error::unexpected(format!("the designer wrote a bad sketch\n{found}"))
        })?;
        let design = Design {
            knobs: sketch.default_knobs(),
            kernels: draft.kernels,
            intermediates: intermediates(graph, &decomposed, &draft.names),
            rules: Vec::new(),
            sketch,
        };
        Ok((design, seconds))
    };
    drafts.into_iter().take(most).map(design).collect()
}

/// Which values of the graph the buffers hold.
fn intermediates(
    graph: &Graph,
    decomposed: &decompose::Decomposed,
    names: &Names,
) -> BTreeMap<String, String> {
    let prims = &decomposed.prims;
    let mut found = BTreeMap::new();
    let computed = graph.nodes().iter().flat_map(|n| &n.outputs);
    for value in computed {
        let Some(mut id) = decomposed.values.get(value).copied() else {
            continue;
        };
        // The same elements in the same order.
        while let Prim::Reshape(a) = prims.node(id).prim {
            id = a;
        }
        if prims.dtype(id) == graph.ty(*value).dtype
            && let Some(buffer) = names.tensors.get(&TensorKey::Buffer(id))
        {
            found
                .entry(buffer.clone())
                .or_insert_with(|| graph.value_name(*value).to_owned());
        }
    }
    found
}

/// A name that no keyword, index or earlier name collides with: letters, digits and underscores.
fn identifier(wish: &str, taken: &mut Vec<String>) -> String {
    let mut name: String = wish
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() {
                c.to_ascii_lowercase()
            } else {
                '_'
            }
        })
        .collect();
    if !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
        name = format!("g_{name}");
    }
    // The emitters' own names are a few letters followed by digits, or capitals.
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    if stem < name.len() && stem <= 4 || is_keyword(&name) {
        name.push('_');
    }
    let base = name.clone();
    let mut n = 2;
    while taken.contains(&name) {
        name = format!("{base}_{n}");
        n += 1;
    }
    taken.push(name.clone());
    name
}
