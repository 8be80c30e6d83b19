//! The verifier of single kernels.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;

use super::hidden;
use super::inputs::{Distribution, make_inputs};
use super::life::{Data, Life};
use super::sample::Extent;
use super::work::{Deadline, Operations};
use crate::backend::{Backend, Limits, Poison};
use crate::digest::{Digest, Fields, Fingerprint};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::graph::{Family, Graph, Node, ValueId};
use crate::source::{Held, LaunchPlan, TensorRole};
use crate::target::Target;
use crate::task::{Capture, Generator, Task};
use crate::tensor::Tensor;
use crate::verdict::{Failure, FailureKind, Verdict};
use crate::verifier::{Candidate, Verifier};

/// Judges the kernels of a plan by themselves, against the part of the graph that they compute.
///
/// The outputs of a whole network can hide a wrong kernel: a factor that a norm takes out again, a term that the next
/// layer's weights make small. So a plan is cut wherever every scratch tensor that crosses the cut
/// [holds](crate::source::PlanTensor::holds) a value of the graph, and each part gets inputs of its own, signed and of
/// variance 1, and weights that keep the variance.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PartVerifier {
    /// What all inputs follow from; drawn anew for each candidate if `None`.
    pub secret: Option<u64>,
    /// Work of the reference for each check.
    pub sample_work: Operations,
    /// Limits on each run of the candidate.
    pub limits: Limits,
}

impl Default for PartVerifier {
    fn default() -> Self {
        Self {
            secret: None,
            sample_work: Operations::of_milliseconds(200),
            limits: Limits::default(),
        }
    }
}

/// What each part is fed: data of both signs, and data that keeps roots and logarithms defined.
const DATA: [Distribution; 2] = [Distribution::Signed, Distribution::Offset];

impl Fingerprint for PartVerifier {
    fn feed(&self, to: &mut Fields) {
        let Self {
            secret,
            sample_work,
            limits,
        } = self;
        to.record(
            "parts",
            1,
            &[
                ("secret", secret),
                ("sample_work", sample_work),
                ("limits", limits),
            ],
        );
    }
}

#[async_trait]
impl Verifier for PartVerifier {
    fn name(&self) -> &str {
        "parts"
    }

    fn identity(&self) -> Digest {
        Digest::of_fields(self)
    }

    async fn verify(
        &self,
        candidate: &Candidate,
        task: &Task,
        target: &Target,
        backend: &dyn Backend,
    ) -> Result<Verdict> {
        let mut verdict = Verdict::new(task.contract.accuracy);
        let task = &designed(&candidate.artifact.plan, task)?;
        let parts = match parts(&candidate.artifact.plan, task) {
            Ok(parts) => parts,
            Err(failure) => {
                verdict.failure = Some(failure);
                return Ok(verdict);
            }
        };
        let secret = self.secret.unwrap_or_else(rand::random);
        let limits = self.limits.for_task(task, target)?;
        let deadline = Deadline::new(&limits);
        let mut judged = HashSet::new();
        for (number, part) in parts.iter().enumerate() {
            // Deep networks have the same layer many times.
            if !judged.insert(part.likeness()) {
                continue;
            }
            let mut artifact = candidate.artifact.clone();
            artifact.plan = part.plan.clone();
            let mut life = match Life::begin(artifact, &limits, deadline, backend, &mut verdict).await? {
                Ok(life) => life,
                Err(failure) => {
                    verdict.failure = Some(failure);
                    return Ok(verdict);
                }
            };
            for (i, distribution) in DATA.into_iter().enumerate() {
                let seed = hidden::seed(secret, (number * DATA.len() + i) as u64);
                let dims = &task.contract.hints;
                let inputs = make_inputs(&part.task, backend, distribution, seed, dims)?;
                let data = Data {
                    task: &part.task,
                    inputs: &inputs,
                    dims,
                    distribution,
                    seed,
                    about: &part.about,
                    poison: if i % 2 == 0 { Poison::Ones } else { Poison::Finite },
                    placement: 0,
                };
                let extent = Extent {
                    work: Some(self.sample_work),
                    yardstick: self.sample_work,
                    first: None,
                };
                if let Err(failure) = life.check(&data, &extent, &mut verdict).await? {
                    verdict.failure = Some(failure);
                    return Ok(verdict);
                }
            }
        }
        Ok(verdict)
    }
}

/// Some launches of a plan, and what they compute.
#[derive(Debug)]
struct Part {
    plan: LaunchPlan,
    task: Task,
    /// `kernels k0, k1 alone`.
    about: String,
}

impl Part {
    /// What distinguishes it from parts that run the same code on tensors of the same types, to compute the same.
    fn likeness(&self) -> String {
        let tensors = self.plan.tensors.iter();
        let tensors: Vec<_> = tensors.map(|t| (t.dtype, &t.shape, t.role, t.align)).collect();
        let launches = self.plan.launches.iter();
        let launches: Vec<_> = launches
            .map(|l| (&l.kernel, &l.grid, &l.tensors, l.cooperative))
            .collect();
        let generators = &self.task.contract.generators;
        format!(
            "{} {tensors:?} {launches:?} {generators:?}",
            self.task.graph.structure()
        )
    }
}

/// The task with the graph whose values the plan's scratch tensors hold. What the plan was made of is not taken from it:
/// algebra is done again.
fn designed(plan: &LaunchPlan, task: &Task) -> Result<Task> {
    let mut held = plan.tensors.iter().filter_map(|t| t.holds.as_ref());
    let mut task = task.clone();
    if held.any(|h| matches!(h, Held::Rewritten { .. })) {
        task.graph = rewritten(&task)?;
    }
    Ok(task)
}

#[cfg(feature = "algebra")]
fn rewritten(task: &Task) -> Result<Graph> {
    Ok(crate::algebra::rewrite(&task.graph, &task.contract)?.graph)
}

#[cfg(not(feature = "algebra"))]
fn rewritten(task: &Task) -> Result<Graph> {
    Err(Error::unsupported(format!(
        "kernels for `{}` are of a graph that algebra made, which this akg cannot judge by themselves; build it with the \
         feature `algebra`",
        task.name
    )))
}

/// The parts of a plan; none if it cannot be cut.
fn parts(plan: &LaunchPlan, task: &Task) -> Result<Vec<Part>, Failure> {
    let values = values(plan, task)?;
    let segments = segments(plan, &values, &indices(&task.graph));
    if segments.len() < 2 {
        return Ok(Vec::new());
    }
    let cut = |segment| part(plan, task, &values, segment).transpose();
    segments.into_iter().filter_map(cut).collect()
}

/// The graph's value in each tensor of the plan, where that is known.
fn values(plan: &LaunchPlan, task: &Task) -> Result<BTreeMap<usize, ValueId>, Failure> {
    let graph = &task.graph;
    let outputs = graph.outputs().iter().map(|o| o.value);
    let mut values: BTreeMap<usize, ValueId> = BTreeMap::new();
    values.extend(
        plan.with_role(TensorRole::Input)
            .map(|(i, _)| i)
            .zip(graph.given()),
    );
    values.extend(plan.with_role(TensorRole::Output).map(|(i, _)| i).zip(outputs));
    for (i, tensor) in plan.with_role(TensorRole::Scratch) {
        let Some(name) = tensor.holds.as_ref().map(Held::name) else {
            continue;
        };
        let value = graph.find(name).filter(|value| {
            let ty = graph.ty(*value);
            let count = |shape: &[crate::Expr]| {
                shape
                    .iter()
                    .try_fold(1i64, |n, d| n.checked_mul(d.eval(&task.contract.hints).ok()?))
            };
            ty.dtype == tensor.dtype && count(&ty.shape) == count(&tensor.shape)
        });
        let Some(value) = value else {
            let evidence = format!(
                "the plan says that scratch tensor `{}` holds `{name}`, but the graph has no such value of {} with as many \
                 elements",
                tensor.name, tensor.dtype
            );
            return Err(Failure::new(FailureKind::WrongType, evidence));
        };
        values.insert(i, value);
    }
    Ok(values)
}

/// The integers and booleans that an index is made of. Made-up ones may be no indices of anything.
fn indices(graph: &Graph) -> HashSet<ValueId> {
    let is_discrete = |value: &ValueId| !graph.ty(*value).dtype.is_float();
    let mut indices = HashSet::new();
    for node in graph.nodes().iter().rev() {
        let is_index =
            node.op.family() == Family::Index || node.outputs.iter().any(|value| indices.contains(value));
        if is_index {
            indices.extend(node.inputs().filter(is_discrete));
        }
    }
    indices
}

/// Stretches of launches between which every tensor is a known value.
fn segments(
    plan: &LaunchPlan,
    values: &BTreeMap<usize, ValueId>,
    indices: &HashSet<ValueId>,
) -> Vec<Range<usize>> {
    let count = plan.launches.len();
    let mut bound: BTreeMap<usize, (usize, usize)> = BTreeMap::new();
    for (at, launch) in plan.launches.iter().enumerate() {
        for tensor in &launch.tensors {
            bound.entry(*tensor).or_insert((at, at)).1 = at;
        }
    }
    let crosses = |cut: usize, tensor: usize| {
        let role = plan.tensors.get(tensor).map(|t| t.role);
        let lives = bound
            .get(&tensor)
            .is_some_and(|(first, last)| *first < cut && cut <= *last);
        // Several kernels may write one output: which of them is not known.
        let is_known = |value: &ValueId| !indices.contains(value);
        let whole = role == Some(TensorRole::Scratch) && values.get(&tensor).is_some_and(is_known);
        // Made-up integers may be no indices of anything.
        let whole = whole
            && plan
                .tensors
                .get(tensor)
                .is_some_and(|t| t.dtype.is_float() || t.dtype == DType::Bool);
        lives && role != Some(TensorRole::Input) && !whole
    };
    let cuts = (1..count).filter(|cut| !(0..plan.tensors.len()).any(|t| crosses(*cut, t)));
    let mut starts: Vec<usize> = std::iter::once(0).chain(cuts).collect();
    starts.push(count);
    starts
        .windows(2)
        .filter_map(|pair| match pair {
            [from, to] => Some(*from..*to),
            _ => None,
        })
        .collect()
}

/// The number of leading operands whose elements an operator reads; of further ones it takes shape and type. All for most.
fn operands_read(node: &Node) -> usize {
    match node.op.name() {
        "full_like.default" | "ones_like.default" | "zeros_like.default" => 0,
        "expand_as.default" | "type_as.default" => 1,
        _ => usize::MAX,
    }
}

/// Tells whether `computed` follows from the elements of further inputs of the graph, beside `given`.
fn needs_other_values(graph: &Graph, given: &[ValueId], computed: &[ValueId]) -> bool {
    let mut needed: BTreeSet<ValueId> = computed.iter().copied().collect();
    for node in graph.nodes().iter().rev() {
        let is_given = node.outputs.iter().any(|v| given.contains(v));
        let is_needed = node.outputs.iter().any(|v| needed.contains(v));
        if is_needed && !is_given {
            needed.extend(node.inputs().take(operands_read(node)));
        }
    }
    let inputs = graph.inputs().iter().map(|input| input.value);
    inputs
        .filter(|value| !given.contains(value))
        .any(|value| needed.contains(&value))
}

/// The part that a segment is; `None` if it reads a constant that its values do not need, if its values need the shape of an
/// input that it does not read, or if the whole has shown as much: it has inputs of the graph's only, and outputs that nothing
/// else touches.
fn part(
    plan: &LaunchPlan,
    task: &Task,
    values: &BTreeMap<usize, ValueId>,
    segment: Range<usize>,
) -> Result<Option<Part>, Failure> {
    let bound = |launches: &[crate::source::Launch]| -> BTreeSet<usize> {
        launches.iter().flat_map(|l| l.tensors.iter().copied()).collect()
    };
    let slice = |range: Range<usize>| plan.launches.get(range).unwrap_or_default();
    let launches = slice(segment.clone());
    let (mut here, before, after) = (
        bound(launches),
        bound(slice(0..segment.start)),
        bound(slice(segment.end..plan.launches.len())),
    );
    // No kernel takes an input that is updated in place, and the part needs its contents.
    let begun = plan.updates().filter(|(output, _)| here.contains(output));
    let begun: Vec<usize> = begun.map(|(_, input)| input).collect();
    here.extend(begun);
    let role = |tensor: usize| match plan.tensors.get(tensor).map(|t| t.role) {
        Some(TensorRole::Input) => TensorRole::Input,
        Some(TensorRole::Output) => TensorRole::Output,
        _ if before.contains(&tensor) => TensorRole::Input,
        _ if after.contains(&tensor) => TensorRole::Output,
        _ => TensorRole::Scratch,
    };
    let graph = &task.graph;
    let constants: BTreeSet<ValueId> = graph.constants().iter().map(|c| c.value).collect();
    let of_role = |wanted: TensorRole| -> Vec<(usize, ValueId)> {
        let mut found: Vec<_> = here
            .iter()
            .filter(|t| role(**t) == wanted)
            .filter_map(|t| Some((*t, *values.get(t)?)))
            .collect();
        // Constants follow the inputs.
        found.sort_by_key(|(_, value)| constants.contains(value));
        found
    };
    let (inputs, outputs) = (of_role(TensorRole::Input), of_role(TensorRole::Output));
    let is_apart = |tensor: &usize| match plan.tensors.get(*tensor).map(|t| t.role) {
        Some(TensorRole::Input) => true,
        Some(TensorRole::Output) => !before.contains(tensor) && !after.contains(tensor),
        _ => false,
    };
    if inputs.iter().chain(&outputs).all(|(tensor, _)| is_apart(tensor)) {
        return Ok(None);
    }
    let names: Vec<_> = launches.iter().map(|l| l.kernel.as_str()).collect();
    let about = format!("kernels {} alone", names.join(", "));
    let given: Vec<ValueId> = inputs
        .iter()
        .map(|(_, v)| *v)
        .filter(|v| !constants.contains(v))
        .collect();
    let computed: Vec<ValueId> = outputs.iter().map(|(_, v)| *v).collect();
    let subgraph = match graph.subgraph(&given, &computed) {
        Ok(subgraph) => subgraph,
        // Kernels do not read inputs of which an operator needs the shape alone.
        Err(_) if !needs_other_values(graph, &given, &computed) => return Ok(None),
        Err(e) => {
            let evidence = format!("{about} cannot compute what they are said to: {e}");
            return Err(Failure::new(FailureKind::WrongValues, evidence));
        }
    };
    if subgraph.constants().len() + given.len() != inputs.len() {
        return Ok(None);
    }
    // An input of a part may have extents that say nothing of the symbols in them, such as half a size.
    let subgraph = subgraph.bind(&task.contract.hints).map_err(|e| {
        let evidence = format!("{about} have no sizes for the task's: {e}");
        Failure::new(FailureKind::WrongType, evidence)
    })?;
    let scratch = here.iter().filter(|t| role(**t) == TensorRole::Scratch).copied();
    let order: Vec<usize> = inputs
        .iter()
        .chain(&outputs)
        .map(|(t, _)| *t)
        .chain(scratch)
        .collect();
    let tensors = order.iter().filter_map(|t| {
        let mut tensor = plan.tensors.get(*t)?.clone();
        tensor.role = role(*t);
        tensor.updates = tensor
            .updates
            .and_then(|input| order.iter().position(|t| *t == input));
        if let Some(value) = values.get(t) {
            // Scratch may be declared with regrouped extents.
            tensor.shape.clone_from(&graph.ty(*value).shape);
        }
        Some(tensor)
    });
    let mut part = LaunchPlan {
        dims: plan.dims.clone(),
        tensors: tensors.collect(),
        launches: launches.to_vec(),
    };
    for launch in &mut part.launches {
        for tensor in &mut launch.tensors {
            *tensor = order.iter().position(|t| t == tensor).unwrap_or(*tensor);
        }
    }
    let positions: Vec<Option<usize>> = given
        .iter()
        .map(|value| graph.inputs().iter().position(|i| i.value == *value))
        .collect();
    let mut contract = task.contract.clone();
    contract.generators = positions
        .iter()
        .map(|position| {
            let own = position.and_then(|p| task.contract.generators.get(p));
            own.copied().unwrap_or(Generator::Normal)
        })
        .collect();
    let capture = task
        .capture
        .clone()
        .map(|whole| -> Arc<dyn Capture> { Arc::new(PartCapture { whole, positions }) });
    Ok(Some(Part {
        plan: part,
        task: Task {
            name: format!("{}: {about}", task.name),
            graph: subgraph,
            contract,
            capture,
        },
        about,
    }))
}

/// Captures the inputs that a part shares with the whole graph.
#[derive(Debug)]
struct PartCapture {
    whole: Arc<dyn Capture>,
    /// The position in the whole graph of each input of the part.
    positions: Vec<Option<usize>>,
}

impl Capture for PartCapture {
    fn capture(&self, positions: &[usize], seed: u64) -> Result<Vec<Tensor>> {
        let whole = positions
            .iter()
            .map(|p| self.positions.get(*p).copied().flatten());
        let whole: Option<Vec<usize>> = whole.collect();
        let whole =
            whole.ok_or_else(|| Error::unexpected("only inputs of the whole graph can be captured"))?;
        self.whole.capture(&whole, seed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;

    #[test]
    fn values_need_elements_of_inputs_and_not_their_shapes() {
        let mut g = Graph::new("g");
        let (x, shape) = (g.input("x", DType::F32, [3]), g.input("shape", DType::F32, [3]));
        let zeros = g.call("zeros_like.default", [("self", shape.into())]).unwrap()[0];
        let filled = g.add(x, zeros).unwrap();
        let args = [("self", x.into()), ("other", shape.into())];
        let expanded = g.call("expand_as.default", args).unwrap()[0];
        let sum = g.add(x, shape).unwrap();
        assert!(!needs_other_values(&g, &[x], &[filled, expanded]));
        assert!(needs_other_values(&g, &[x], &[sum]));
        assert!(needs_other_values(&g, &[x], &[filled, sum]));
        assert!(!needs_other_values(&g, &[x, sum], &[sum]));
    }
}
