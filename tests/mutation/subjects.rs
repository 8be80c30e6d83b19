//! The correct kernels that faults are put into.
//!
//! Three kinds: akg's example sketches, what the rules design for a spread of graphs, and C++ that people wrote. Shapes
//! are small and odd: several tiles along each axis, the last one never full.

use akg::cpp::CppDsl;
use akg::designer::design;
use akg::expr::Bindings;
use akg::source::{Knobs, LaunchPlan, Source, SourceForm, TensorRole};
use akg::{Dsl as _, Error, Graph, Result, Sketch, Target, Task, sketch};

use crate::{designed, examples, handwritten};

/// A kernel, what it computes and where faults can be put.
#[derive(Debug)]
pub(crate) struct Subject {
    pub(crate) name: String,
    pub(crate) task: Task,
    /// The sketch that the source was lowered from, with the knobs it was lowered with.
    pub(crate) sketch: Option<(Sketch, Knobs)>,
    pub(crate) source: Source,
}

/// Every subject, in a fixed order.
pub(crate) fn subjects(dsl: &CppDsl, target: &Target) -> Result<Vec<Subject>> {
    let mut all = Vec::new();
    for example in examples::EXAMPLES {
        all.push(example_subject(example, dsl, target).map_err(|e| e.with("subject", example.name))?);
    }
    for (name, build) in designed::GRAPHS {
        let subject = designed_subject(name, *build, dsl, target);
        all.push(subject.map_err(|e| e.with("subject", *name))?);
    }
    for (name, build, text) in handwritten::KERNELS {
        let mut graph = Graph::new(*name);
        build(&mut graph).map_err(|e| e.with("subject", *name))?;
        let source = dsl.parse(text).map_err(|e| e.with("subject", *name))?;
        all.push(Subject {
            name: format!("{name} (C++)"),
            task: Task::new(*name, graph),
            sketch: None,
            source,
        });
    }
    Ok(all)
}

fn example_subject(example: &examples::Example, dsl: &CppDsl, target: &Target) -> Result<Subject> {
    let (_, text) = sketch::examples()
        .iter()
        .find(|(name, _)| *name == example.name)
        .ok_or_else(|| Error::invalid("there is no such example sketch"))?;
    let mut graph = Graph::new(example.name);
    (example.build)(&mut graph)?;
    let mut task = Task::new(example.name, graph);
    task.contract.accuracy = example.accuracy;
    task.contract.generators = example.generators.to_vec();
    let dims: Bindings = example.dims.iter().map(|(n, v)| ((*n).into(), *v)).collect();
    let sketch = Sketch::parse(text)?.bind(&dims);
    let wanted: Knobs = example.knobs.iter().map(|(n, v)| ((*n).to_owned(), *v)).collect();
    let knobs = sketch
        .legal_points(&Bindings::new())
        .find(|point| wanted.iter().all(|(name, value)| point.get(name) == Some(value)))
        .ok_or_else(|| Error::invalid("the example sketch has no such knob values"))?;
    lowered(
        format!("{} (example)", example.name),
        task,
        sketch,
        knobs,
        dsl,
        target,
    )
}

fn designed_subject(name: &str, build: designed::Build, dsl: &CppDsl, target: &Target) -> Result<Subject> {
    let mut graph = Graph::new(name);
    build(&mut graph)?;
    let task = Task::new(name, graph);
    let design = design(&task, target)?;
    let knobs = most_programs(&design.sketch)?;
    lowered(name.to_owned(), task, design.sketch, knobs, dsl, target)
}

/// The knob values that cut the work into the most programs: a tile that holds everything has no edges to get wrong.
fn most_programs(sketch: &Sketch) -> Result<Knobs> {
    let none = Bindings::new();
    let mut best = (0, sketch.default_knobs());
    for knobs in sketch.legal_points(&none).take(256) {
        let mut programs = 0;
        for kernel in sketch.elaborate(&knobs, &none)?.kernels {
            let extents = kernel.grid.iter().map(|axis| axis.extent.eval(&none));
            programs += extents.product::<Result<i64>>()?;
        }
        if programs > best.0 {
            best = (programs, knobs);
        }
    }
    Ok(best.1)
}

fn lowered(
    name: String,
    task: Task,
    sketch: Sketch,
    knobs: Knobs,
    dsl: &CppDsl,
    target: &Target,
) -> Result<Subject> {
    let source = lower(&task, &sketch, &knobs, dsl, target)?;
    Ok(Subject {
        name,
        task,
        sketch: Some((sketch, knobs)),
        source,
    })
}

/// Lowers a sketch of `task`, whose tensors get the shapes of the task's graph: designs regroup extents.
pub(crate) fn lower(
    task: &Task,
    sketch: &Sketch,
    knobs: &Knobs,
    dsl: &CppDsl,
    target: &Target,
) -> Result<Source> {
    let mut source = dsl.lower(sketch, knobs, target)?;
    if let SourceForm::Lowered { plan } = &mut source.form {
        present(plan, task);
    }
    Ok(source)
}

fn present(plan: &mut LaunchPlan, task: &Task) {
    let graph = &task.graph;
    let mut inputs = graph.given();
    let mut outputs = graph.outputs().iter().map(|o| o.value);
    for tensor in &mut plan.tensors {
        let value = match tensor.role {
            TensorRole::Input => inputs.next(),
            TensorRole::Output => outputs.next(),
            TensorRole::Scratch => None,
        };
        if let Some(value) = value {
            tensor.shape.clone_from(&graph.ty(value).shape);
        }
    }
}
