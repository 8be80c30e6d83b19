//! Designs from sketches that somebody wrote.

use std::collections::BTreeMap;

use super::{Design, DesignContext, KernelSummary};
use crate::diagnostic::{Diagnostics, Severity};
use crate::error::Result;
use crate::expr::Bindings;
use crate::session::{mismatch, roles};
use crate::sketch::ir::Program;
use crate::sketch::{Sketch, concrete, cost, interpret, validate};
use crate::source::{Knobs, PlanTensor, TensorRole};
use crate::tensor::{Tensor, byte_len};
use crate::verify::{Distribution, Operations, host_inputs, judge_sample};

/// Element operations and elements read up to which a sketch is interpreted: some seconds.
const MOST_WORK: f64 = 1e8;

/// The same for the bytes of all tensors, and of the tiles of a program.
const MOST_BYTES: u64 = 1 << 30;

/// Work of each reference of what was interpreted.
const SAMPLE_WORK: Operations = Operations::of_milliseconds(1000);

/// The data that sketches are interpreted on: of both signs, and far from zero.
const DATA: [Distribution; 2] = [Distribution::Signed, Distribution::Offset];

/// What the data and the rows that are looked at follow from: the same each time, so that a recorded conversation about them can be
/// replayed.
const SEED: u64 = 0;

/// Knob values that are checked.
const POINTS: usize = 4;

impl Design {
    /// The design that a sketch is for a context's task. It is parsed and elaborated, its tensors are held against the graph's,
    /// the validator sees it at a few knob values, and the interpreter computes it at the first of them if that takes no more
    /// than seconds; what it gives is judged like a candidate's outputs.
    ///
    /// The inner error says what is wrong, with the place in the text, or the element and its values, for whoever wrote it.
    ///
    /// # Errors
    /// If the graph cannot be evaluated.
    pub fn from_text(text: &str, context: &DesignContext) -> Result<std::result::Result<Self, String>> {
        let shown = |what: &str, found: &Diagnostics| {
            Ok(Err(format!("{what}:\n\n{}", found.render(text).trim_end())))
        };
        let sketch = match Sketch::parse(text) {
            Ok(sketch) => sketch,
            Err(found) => return shown("This is no sketch", &found),
        };
        let hints = &context.task.contract.hints;
        let mut points = vec![sketch.default_knobs()];
        points.extend(sketch.legal_points(hints).take(POINTS));
        points.dedup();
        let (mut checked, mut refused) = (None, None);
        for knobs in points {
            let program = match sketch.elaborate(&knobs, &Bindings::new()) {
                Ok(program) => program,
                // The first values may break what is required of them.
                Err(found) => {
                    refused.get_or_insert(found);
                    continue;
                }
            };
            let found = validate(&program, Some(&context.target)).into_iter();
            let found: Diagnostics = found
                .filter(|finding| finding.severity == Severity::Error)
                .collect();
            if !found.is_empty() {
                return shown(&format!("The sketch is wrong{}", at(&knobs)), &found);
            }
            if let Some(wrong) = signature(&program, context) {
                return Ok(Err(format!("The sketch is not one of the graph: {wrong}.")));
            }
            checked.get_or_insert((knobs, program));
        }
        let Some((knobs, program)) = checked else {
            let found = refused.unwrap_or_default();
            return shown("The sketch does not hold together", &found);
        };
        if let Some(wrong) = computes(&sketch, &knobs, context)? {
            return Ok(Err(wrong));
        }
        let kernels = program.kernels.iter().map(|kernel| KernelSummary {
            name: kernel.name.clone(),
            rule: String::new(),
            operators: Vec::new(),
        });
        Ok(Ok(Self {
            kernels: kernels.collect(),
            knobs,
            intermediates: BTreeMap::new(),
            rules: Vec::new(),
            sketch,
        }))
    }
}

/// Knob values as part of a sentence.
fn at(knobs: &Knobs) -> String {
    if knobs.is_empty() {
        return String::new();
    }
    let values: Vec<String> = knobs
        .iter()
        .map(|(name, value)| format!("{name} = {value}"))
        .collect();
    format!(" with {}", values.join(", "))
}

/// Why a program's inputs and outputs are not the task's, if they are not.
pub(super) fn signature(program: &Program, context: &DesignContext) -> Option<String> {
    let graph = &context.task.graph;
    roles(graph).iter().find_map(|(role, values)| {
        mismatch(
            program.with_role(*role).map(|(_, tensor)| tensor),
            *role,
            values,
            graph,
        )
    })
}

/// Why what a sketch computes is not what the task asks for; `None` as well if finding out takes too long.
fn computes(sketch: &Sketch, knobs: &Knobs, context: &DesignContext) -> Result<Option<String>> {
    let task = &context.task;
    let hints = &task.contract.hints;
    let Ok(program) = sketch.elaborate(knobs, hints) else {
        return Ok(None);
    };
    let Ok(cost) = cost(&program, hints, &context.target) else {
        return Ok(None);
    };
    let work = cost.kernels.iter().map(|kernel| {
        kernel.element_ops + kernel.dot_flops.values().sum::<f64>() + kernel.requested_bytes / 4.0
    });
    let held = cost.kernels.iter().map(|kernel| kernel.tile_bytes).max();
    let is_large = held > Some(MOST_BYTES) || bytes(&program, hints).is_none_or(|bytes| bytes > MOST_BYTES);
    if is_large || work.sum::<f64>() > MOST_WORK {
        return Ok(None);
    }
    for distribution in DATA {
        let inputs = host_inputs(task, distribution, SEED)?;
        let shapes = |role| program.with_role(role).map(|(_, tensor)| tensor.shape.clone());
        let given: Result<Vec<Tensor>> = inputs
            .iter()
            .zip(shapes(TensorRole::Input))
            .map(|(tensor, shape)| tensor.reshape(concrete(&shape, hints)?))
            .collect();
        let outputs = match interpret(&program, &given?, hints) {
            Ok(outputs) => outputs,
            Err(error) => {
                return Ok(Some(format!(
                    "The sketch cannot be computed{}: {error}.",
                    at(knobs)
                )));
            }
        };
        let graph = &task.graph;
        let wanted = graph.outputs().iter().map(|output| graph.ty(output.value));
        let outputs: Result<Vec<Tensor>> = outputs
            .iter()
            .zip(wanted)
            .map(|(tensor, ty)| tensor.reshape(ty.concrete_shape(hints)?))
            .collect();
        if let Some(failure) =
            judge_sample(task, (distribution, &inputs), &outputs?, None, SEED, SAMPLE_WORK)?
        {
            return Ok(Some(format!(
                "The sketch, interpreted on {distribution} inputs{}, gives other results than the graph: {}.",
                at(knobs),
                failure.evidence
            )));
        }
    }
    Ok(None)
}

/// What the tensors of a program take together, if that can be counted.
fn bytes(program: &Program, hints: &Bindings) -> Option<u64> {
    let of = |tensor: &PlanTensor| byte_len(tensor.dtype, &concrete(&tensor.shape, hints).ok()?).ok();
    let mut all = program.tensors.iter().map(of);
    all.try_fold(0u64, |sum, bytes| sum.checked_add(bytes? as u64))
}
