//! From a graph to the text of its sketch: cut, planned and written, with as much fusion as the emitters can write and the
//! cost model finds worth it.

use super::cut::{self, Apart, Fusion, Unarranged};
use super::decompose::{self, Decomposed};
use super::device::Device;
use super::emit::{self, Names, Written};
use super::plan::{self, KernelPlan, Plan, TensorKey};
use super::prim::{PrimId, Prims};
use super::{KernelSummary, choose, copies, identifier, roll};
use crate::error::{Error, Result};
use crate::expr::Bindings;
use crate::graph::{Graph, TensorType, ValueId};
use crate::task::Accuracy;

/// A sketch as text.
pub(super) struct Draft {
    pub(super) text: String,
    /// What each kernel computes, in launch order.
    pub(super) kernels: Vec<KernelSummary>,
    pub(super) names: Names,
    /// The kernels that it was cut into, and how many of the text each has become.
    pub(super) parts: Vec<(KernelPlan, usize)>,
}

/// Why kernels could not be written.
pub(super) struct Refused {
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

/// The drafts of a graph with the seconds that are estimated, that which is to be taken first.
pub(super) type Drafts = Vec<(Draft, f64)>;

/// The drafts of a graph with the primitives that they were written from. `hints` are the extents for which they are to be fast.
pub(super) fn drafts(graph: &Graph, hints: &Bindings, device: Device<'_>) -> Result<(Drafts, Decomposed)> {
    // Steps that cannot become a loop stay as they are.
    let rolled = roll::rolled(graph).ok().flatten();
    let rolled = rolled.and_then(|rolled| drafts_of(graph, &rolled, hints, device).ok());
    rolled.map_or_else(|| drafts_of(graph, graph, hints, device), Ok)
}

/// The same from `source`, which computes what the graph does.
fn drafts_of(
    graph: &Graph,
    source: &Graph,
    hints: &Bindings,
    device: Device<'_>,
) -> Result<(Drafts, Decomposed)> {
    let mut decomposed = decompose::decompose(source)?;
    copies::copy_outputs(&mut decomposed);
    copies::copy_operands(&mut decomposed).map_err(|Unarranged(id)| arrangement(&decomposed, id))?;
    let mut apart = Apart::new(device);
    copies::copy_heads(&mut decomposed, &apart);
    let attempt = |fusion: Fusion<'_>| {
        let groups = cut::cut(&decomposed, fusion).map_err(|Unarranged(id)| arrangement(&decomposed, id))?;
        let plan = plan::plan(&decomposed, &groups)?;
        write(graph, device, &decomposed.prims, plan)
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
    let drafts = match outcome {
        Ok(draft) => choose::choose(draft, apart, hints, |apart| attempt(Fusion::Beside(apart)).ok()),
        Err(refused) => {
            apart.products.clear();
            let fewer = [Fusion::Beside(&apart), Fusion::Off];
            let mut others = fewer.into_iter().filter_map(|fusion| attempt(fusion).ok());
            vec![(others.next().ok_or(refused.error)?, f64::INFINITY)]
        }
    };
    Ok((drafts, decomposed))
}

fn arrangement(decomposed: &Decomposed, id: PrimId) -> Error {
    let origin = decomposed.prims.node(id).origin;
    Error::unsupported(format!(
        "no design rule yet for how `{origin}` arranges its operands"
    ))
}

fn operators(prims: &Prims, kernel: &KernelPlan) -> Vec<String> {
    let mut names: Vec<String> = kernel
        .nodes
        .iter()
        .map(|id| prims.node(*id).origin.to_owned())
        .collect();
    names.dedup();
    names
}

/// Writes all kernels of a plan.
fn write(
    graph: &Graph,
    device: Device<'_>,
    prims: &Prims,
    plan: Plan,
) -> std::result::Result<Draft, Refused> {
    let mut names = Names::default();
    let mut taken: Vec<String> = Vec::new();
    let mut name = |key: TensorKey, wish: &str, names: &mut Names| {
        let name = identifier(wish, &mut taken);
        names.tensors.insert(key, name.clone());
        name
    };
    let declared = |key: &TensorKey, fallback: &TensorType| {
        let (dtype, extents) = plan.tensors.get(key).cloned().unwrap_or_else(|| {
            (
                fallback.dtype,
                fallback.shape.iter().filter(|d| !d.is(1)).cloned().collect(),
            )
        });
        let extents: Vec<_> = extents.iter().map(ToString::to_string).collect();
        format!("{dtype}[{}]", extents.join(", "))
    };
    // An input that is updated in place has the extents of the output that stands there.
    let written = plan.kernels.iter().filter_map(|kernel| kernel.scatter);
    let written: Vec<(ValueId, usize)> = written.filter_map(|id| prims.updated(graph, id)).collect();
    let mut inputs = Vec::new();
    for value in graph.given() {
        let key = TensorKey::Input(value);
        let place = written.iter().find(|(state, _)| *state == value);
        let shown = place.map_or(key.clone(), |(_, output)| TensorKey::Output(*output));
        let ty = declared(&shown, graph.ty(value));
        inputs.push(format!(
            "{}: {ty}",
            name(key, graph.value_name(value), &mut names)
        ));
    }
    let mut outputs = Vec::new();
    for (i, output) in graph.outputs().iter().enumerate() {
        let key = TensorKey::Output(i);
        let ty = declared(&key, graph.ty(output.value));
        let place = written.iter().find(|(_, output)| *output == i);
        let input = place.and_then(|(state, _)| names.tensors.get(&TensorKey::Input(*state)));
        let updates = input.map_or_else(String::new, |input| format!(" updates {input}"));
        let name = name(key, graph.value_name(output.value), &mut names);
        outputs.push(format!("{name}: {ty}{updates}"));
    }
    let mut buffers = Vec::new();
    for (key, (dtype, extents)) in &plan.tensors {
        if let TensorKey::Buffer(id) = key {
            let extents: Vec<_> = extents.iter().map(ToString::to_string).collect();
            let name = name(
                key.clone(),
                &format!("{}_out", prims.node(*id).origin),
                &mut names,
            );
            buffers.push(format!("buffer {name}: {dtype}[{}]", extents.join(", ")));
        }
    }
    let mut kernels = Vec::new();
    let mut summaries = Vec::new();
    let mut counts = Vec::new();
    for (i, kernel) in plan.kernels.iter().enumerate() {
        let written = write_kernel(device, &plan, prims, kernel, &mut names, i);
        let (rule, written) = written.map_err(|error| Refused {
            error: error.with("operators", operators(prims, kernel).join(", ")),
            product: kernel.contract,
            scores: kernel.scores,
        })?;
        counts.push(written.len());
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
    Ok(Draft {
        text,
        kernels: summaries,
        names,
        parts: plan.kernels.into_iter().zip(counts).collect(),
    })
}

/// The kernels that `kernel`, number `i`, becomes, and the rule that writes them.
fn write_kernel(
    device: Device<'_>,
    plan: &Plan,
    prims: &Prims,
    kernel: &KernelPlan,
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
    if let Some(scatter) = kernel.scatter {
        let written = emit::scatter::emit(plan, prims, kernel, names, i, scatter)?;
        return Ok(("scatter", vec![written]));
    }
    if let Some(gather) = kernel.gather {
        let written = emit::gather::emit(device, plan, prims, kernel, names, i, gather)?;
        return Ok(("gather", vec![written]));
    }
    Ok(match emit::vector::emit(device, plan, prims, kernel, names, i)? {
        Some(written) => ("matrix-vector product", vec![written]),
        None => ("rows", emit::rows::emit(device, plan, prims, kernel, names, i)?),
    })
}
