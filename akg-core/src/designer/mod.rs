//! The rule-based designer: from a graph to a sketch, with no model.
//!
//! Recurrent networks whose steps are written out become operators again (`roll`). ATen operators are decomposed into a few
//! primitives (`decompose`), the primitives are cut into kernels (`group`),
//! tensors get the extents that make every reshape a relabelling (`plan`), and each kernel is written as sketch text
//! by the emitter of its kind (`emit`). The text is parsed like anybody's, so that a rule's sketch meets the same
//! checks as a model's.

use std::collections::BTreeMap;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::agent::{Agent, Role};
use crate::error::{Error, Result};
use crate::expr::Bindings;
use crate::graph::{Fired, Graph};
use crate::sketch::{Knob, Sketch, is_keyword};
use crate::source::{KnobValue, Knobs};
use crate::target::Target;
use crate::task::{Accuracy, Task};
use cut::{Apart, Fusion, Unarranged};
use device::Device;
use emit::{Names, Written};
use plan::{Plan, TensorKey};
use prim::{Prim, PrimId, Prims};

mod attention;
mod axes;
mod coalesce;
mod copies;
mod cut;
mod decompose;
mod device;
mod emit;
mod group;
mod plan;
mod prim;
mod roll;
#[cfg(test)]
mod tests;
mod window;

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
        let knobs = self.sketch.knobs();
        let least = |which: fn(&Knob) -> bool| {
            let mut point = self.knobs.clone();
            for knob in knobs.iter().filter(|knob| which(knob)) {
                let sizes = knob.values.iter().filter_map(|value| match value {
                    KnobValue::Int(size) => Some(*size),
                    KnobValue::DType(_) => None,
                });
                point.extend(sizes.min().map(|size| (knob.name.clone(), KnobValue::Int(size))));
            }
            point
        };
        let first = [self.knobs.clone(), least(|knob| knob.hint), least(|_| true)];
        let mut seen: Vec<Knobs> = Vec::new();
        for point in first {
            if !seen.contains(&point) && self.sketch.elaborate(&point, bindings).is_ok() {
                seen.push(point);
            }
        }
        let legal = self.sketch.legal_points(bindings);
        let first = seen.clone();
        first
            .into_iter()
            .chain(legal.filter(move |point| !seen.contains(point)))
    }
}

/// What one kernel of a design does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelSummary {
    /// The kernel's name in the sketch.
    pub name: String,
    /// The rule that wrote it: `product` for matrix products with what is fused to them, `attention` for two of them
    /// with a softmax between, `rows` for all else; empty for
    /// a kernel that no rule wrote.
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

/// The designer that follows rules.
#[derive(Debug, Clone, Copy, Default)]
pub struct RuleDesigner;

#[async_trait]
impl Agent<Designer> for RuleDesigner {
    fn name(&self) -> &str {
        "rules"
    }

    async fn step(&self, context: &DesignContext) -> Result<Design> {
        design(&context.task, &context.target)
    }
}

/// Designs a sketch for `task` on `target`. Operators without a rule are an
/// [`Unsupported`](crate::ErrorKind::Unsupported) error that names them all.
pub fn design(task: &Task, target: &Target) -> Result<Design> {
    let graph = &task.graph;
    let device = Device::new(target, task.contract.accuracy);
    let (text, decomposed, kernels, names) = draft(graph, device)?;
    let sketch = Sketch::parse(&text)
        .map_err(|d| Error::unexpected(format!("the designer wrote a bad sketch\n{}", d.render(&text))))?;
    Ok(Design {
        knobs: sketch.default_knobs(),
        kernels,
        intermediates: intermediates(graph, &decomposed, &names),
        rules: Vec::new(),
        sketch,
    })
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

/// The sketch's text with what it was written from and the names in it.
fn draft(
    graph: &Graph,
    device: Device<'_>,
) -> Result<(String, decompose::Decomposed, Vec<KernelSummary>, Names)> {
    // Steps that cannot become a loop stay as they are.
    let rolled = roll::rolled(graph).ok().flatten();
    let rolled = rolled.and_then(|rolled| draft_of(graph, &rolled, device).ok());
    rolled.map_or_else(|| draft_of(graph, graph, device), Ok)
}

/// The same from `source`, which computes what the graph does.
fn draft_of(
    graph: &Graph,
    source: &Graph,
    device: Device<'_>,
) -> Result<(String, decompose::Decomposed, Vec<KernelSummary>, Names)> {
    let mut decomposed = decompose::decompose(source)?;
    copies::copy_outputs(&mut decomposed);
    copies::copy_operands(&mut decomposed).map_err(|Unarranged(id)| arrangement(&decomposed, id))?;
    let mut apart = Apart::new(device);
    copies::copy_heads(&mut decomposed, &apart);
    let attempt = |fusion: Fusion<'_>| {
        let groups = cut::cut(&decomposed, fusion).map_err(|Unarranged(id)| arrangement(&decomposed, id))?;
        let plan = plan::plan(&decomposed, &groups)?;
        let mut names = Names::default();
        let (text, kernels) = write(graph, device, &decomposed.prims, &plan, &mut names)?;
        Ok((text, kernels, names))
    };
    // Fusion can ask for arrangements that no rule covers; separate kernels ask for less.
    let mut outcome = attempt(Fusion::Beside(&apart));
    while let Err(refused) = &outcome {
        let is_new = match refused {
            Refused {
                scores: Some(scores), ..
            } => apart.scores.insert(*scores),
            Refused {
                product: Some(product),
                ..
            } => apart.products.insert(*product),
            _ => false,
        };
        if !is_new {
            // What else is in the way may be so because of an attention.
            let others = cut::attentions(&decomposed, &apart).into_values();
            let others: Vec<PrimId> = others.map(|attention| attention.scores).collect();
            if others.is_empty() {
                break;
            }
            apart.scores.extend(others);
        }
        outcome = attempt(Fusion::Beside(&apart));
    }
    let (text, kernels, names) = outcome.or_else(|refused| {
        apart.products.clear();
        let fewer = [Fusion::Beside(&apart), Fusion::Off];
        let mut others = fewer.into_iter().filter_map(|fusion| attempt(fusion).ok());
        others.next().ok_or(refused.error)
    })?;
    Ok((text, decomposed, kernels, names))
}

/// Why kernels could not be written.
struct Refused {
    error: Error,
    /// The product whose kernel it was.
    product: Option<PrimId>,
    /// The scores of the attention whose kernel it was.
    scores: Option<PrimId>,
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Self {
            error,
            product: None,
            scores: None,
        }
    }
}

fn arrangement(decomposed: &decompose::Decomposed, id: PrimId) -> Error {
    let origin = decomposed.prims.node(id).origin;
    Error::unsupported(format!(
        "no design rule yet for how `{origin}` arranges its operands"
    ))
}

fn operators(prims: &Prims, kernel: &plan::KernelPlan) -> Vec<String> {
    let mut names: Vec<String> = kernel
        .nodes
        .iter()
        .map(|id| prims.node(*id).origin.to_owned())
        .collect();
    names.dedup();
    names
}

/// The text of the whole sketch, and what its kernels compute.
fn write(
    graph: &Graph,
    device: Device<'_>,
    prims: &Prims,
    plan: &Plan,
    names: &mut Names,
) -> Result<(String, Vec<KernelSummary>), Refused> {
    let mut taken: Vec<String> = Vec::new();
    let mut name = |key: TensorKey, wish: &str, names: &mut Names| {
        let name = identifier(wish, &mut taken);
        names.tensors.insert(key, name.clone());
        name
    };
    let declared = |key: &TensorKey, fallback: &crate::graph::TensorType| {
        let (dtype, extents) = plan.tensors.get(key).cloned().unwrap_or_else(|| {
            (
                fallback.dtype,
                fallback.shape.iter().filter(|d| !d.is(1)).cloned().collect(),
            )
        });
        let extents: Vec<_> = extents.iter().map(ToString::to_string).collect();
        format!("{dtype}[{}]", extents.join(", "))
    };
    let mut inputs = Vec::new();
    for value in graph.given() {
        let key = TensorKey::Input(value);
        let ty = declared(&key, graph.ty(value));
        inputs.push(format!("{}: {ty}", name(key, graph.value_name(value), names)));
    }
    let mut outputs = Vec::new();
    for (i, output) in graph.outputs().iter().enumerate() {
        let key = TensorKey::Output(i);
        let ty = declared(&key, graph.ty(output.value));
        outputs.push(format!(
            "{}: {ty}",
            name(key, graph.value_name(output.value), names)
        ));
    }
    let mut buffers = Vec::new();
    for (key, (dtype, extents)) in &plan.tensors {
        if let TensorKey::Buffer(id) = key {
            let extents: Vec<_> = extents.iter().map(ToString::to_string).collect();
            let name = name(key.clone(), &format!("{}_out", prims.node(*id).origin), names);
            buffers.push(format!("buffer {name}: {dtype}[{}]", extents.join(", ")));
        }
    }
    let mut kernels = Vec::new();
    let mut summaries = Vec::new();
    for (i, kernel) in plan.kernels.iter().enumerate() {
        let written = write_kernel(device, plan, prims, kernel, names, i);
        let (rule, written) = written.map_err(|error| Refused {
            error: error.with("operators", operators(prims, kernel).join(", ")),
            product: kernel.contract,
            scores: kernel.scores,
        })?;
        for Written { name, text } in written {
            kernels.push(text);
            summaries.push(KernelSummary {
                name,
                rule: rule.to_owned(),
                operators: operators(prims, kernel),
            });
        }
    }
    let sketch_name = identifier(graph.name(), &mut Vec::new());
    let outputs = if outputs.len() == 1 {
        outputs.concat()
    } else {
        format!("({})", outputs.join(", "))
    };
    let mut text = format!("sketch {sketch_name}({}) -> {outputs}\n", inputs.join(", "));
    if device.accuracy() != Accuracy::Fp32 {
        text.push_str(&format!("accuracy {}\n", device.accuracy()));
    }
    for line in names.knobs.iter().chain(&buffers).chain(&names.buffers) {
        text.push_str(line);
        text.push('\n');
    }
    for kernel in kernels {
        text.push('\n');
        text.push_str(&kernel);
    }
    Ok((text, summaries))
}

/// The kernels that `kernel`, number `i`, becomes, and the rule that writes them.
fn write_kernel(
    device: Device<'_>,
    plan: &Plan,
    prims: &Prims,
    kernel: &plan::KernelPlan,
    names: &mut Names,
    i: usize,
) -> Result<(&'static str, Vec<Written>)> {
    if let (Some(scores), Some(product)) = (kernel.scores, kernel.contract) {
        let written = emit::attention::emit(device, plan, prims, kernel, names, i, [scores, product])?;
        return Ok(("attention", written));
    }
    if let Some(contract) = kernel.contract {
        let written = emit::matmul::emit(device, plan, prims, kernel, names, i, contract)?;
        return Ok(("product", written));
    }
    if let Some(recurrence) = kernel.recurrence {
        let written = emit::recur::emit(device, plan, prims, kernel, names, i, recurrence)?;
        return Ok(("recurrence", vec![written]));
    }
    Ok(match emit::vector::emit(device, plan, prims, kernel, names, i)? {
        Some(written) => ("matrix-vector product", vec![written]),
        None => ("rows", emit::rows::emit(device, plan, prims, kernel, names, i)?),
    })
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
