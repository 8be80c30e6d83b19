//! The road of a case: design, validation, interpretation; or lowering, building, running.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use crate::backend::{Backend, BackendExt as _, Limits, Poison, RunRequest};
use crate::designer::{Design, design};
use crate::diagnostic::Severity;
use crate::dsl::Dsl;
use crate::error::{Error, ErrorKind, Result};
use crate::expr::Bindings;
use crate::session::present;
use crate::sketch::{interpret, validate};
use crate::source::{Knobs, SourceForm, TensorRole};
use crate::target::Target;
use crate::tensor::Tensor;

use super::Case;

/// How a case went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// Everything that was computed is right.
    Verified,
    /// Somebody says that he cannot do this, and why.
    Unsupported(String),
    /// Something is wrong, with evidence.
    Wrong(String),
}

/// Knob points beside the default, and those that they are chosen among.
const POINTS: usize = 2;
const KNOWN_POINTS: usize = 200;

/// Designs the case for `target`, and validates, interprets and judges the design at some of its knob points.
///
/// # Errors
/// If the reference cannot evaluate the graph.
pub fn check(case: &Case, target: &Target) -> Result<Finding> {
    caught(|| {
        let design = match designed(case, target) {
            Ok(design) => design,
            Err(finding) => return Ok(finding),
        };
        for knobs in points(case, &design) {
            if let Err(wrong) = interpreted(case, &design, &knobs, target)? {
                return Ok(Finding::Wrong(format!(
                    "{wrong}\nat {knobs:?} on {}\n{}",
                    target.name, design.sketch
                )));
            }
        }
        Ok(Finding::Verified)
    })
}

/// Designs the case for `target`, lowers and builds it by `dsl`, runs it on `backend`, and judges what it returns.
///
/// # Errors
/// If the reference cannot evaluate the graph, or what builds or runs the case has trouble of its own.
pub async fn run(case: &Case, dsl: &dyn Dsl, backend: &dyn Backend, target: &Target) -> Result<Finding> {
    let design = match designed(case, target) {
        Ok(design) => design,
        Err(finding) => return Ok(finding),
    };
    let knobs = points(case, &design).pop().unwrap_or_default();
    let wrong = |what: String, text: &str| {
        Finding::Wrong(format!(
            "{what}\nat {knobs:?} on {}\n{}\n{text}",
            target.name, design.sketch
        ))
    };
    let mut source = match dsl.lower(&design.sketch, &knobs, target) {
        Ok(source) => source,
        Err(error) if error.kind() == ErrorKind::Unsupported => {
            return Ok(Finding::Unsupported(error.to_string()));
        }
        Err(error) => return Ok(wrong(format!("the lowering: {error:?}"), "")),
    };
    if let SourceForm::Lowered { plan } = &mut source.form
        && let Err(failure) = present(plan, &case.task, &design)
    {
        return Ok(wrong(failure.evidence, &source.text));
    }
    let artifact = match dsl.build(&source, target)? {
        Ok(artifact) => artifact,
        Err(failure) => return Ok(wrong(format!("the compiler: {}", failure.evidence), &source.text)),
    };
    let request = RunRequest {
        artifact,
        inputs: case.given(),
        dims: Bindings::new(),
        poison: Poison::Ones,
        limits: Limits::default(),
    };
    let failure = match backend.run(request).await? {
        Ok(output) if !output.inputs_unchanged => {
            return Ok(wrong("an input has changed".into(), &source.text));
        }
        Ok(output) => case.judge(&output.outputs)?,
        Err(failure) => Some(failure),
    };
    Ok(failure.map_or(Finding::Verified, |f| wrong(f.evidence, &source.text)))
}

/// A panic is something wrong, too.
fn caught(check: impl FnOnce() -> Result<Finding>) -> Result<Finding> {
    catch_unwind(AssertUnwindSafe(check)).unwrap_or_else(|panic| Ok(Finding::Wrong(message(&*panic))))
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    format!("panicked: {}", text.unwrap_or("without a message"))
}

fn designed(case: &Case, target: &Target) -> Result<Design, Finding> {
    design(&case.task, target).map_err(|error| match error.kind() {
        ErrorKind::Unsupported => Finding::Unsupported(error.to_string()),
        _ => Finding::Wrong(format!("the designer on {}: {error:?}", target.name)),
    })
}

/// The default knobs and some others that are legal.
fn points(case: &Case, design: &Design) -> Vec<Knobs> {
    let mut legal: Vec<Knobs> = design
        .sketch
        .legal_points(&Bindings::new())
        .take(KNOWN_POINTS)
        .collect();
    let mut rng = ChaCha8Rng::seed_from_u64(case.seed);
    let mut points = vec![design.knobs.clone()];
    legal.retain(|p| *p != design.knobs);
    while points.len() <= POINTS && !legal.is_empty() {
        points.push(legal.swap_remove(rng.random_range(0..legal.len())));
    }
    points
}

/// Interprets a design; the inner error says what is wrong with it.
fn interpreted(case: &Case, design: &Design, knobs: &Knobs, target: &Target) -> Result<Result<(), String>> {
    let (none, text) = (Bindings::new(), design.sketch.to_string());
    let program = match design.sketch.elaborate(knobs, &none) {
        Ok(program) => program,
        Err(found) => return Ok(Err(format!("the elaboration: {}", found.render(&text)))),
    };
    let found = validate(&program, Some(target));
    if found.iter().any(|d| d.severity == Severity::Error) {
        return Ok(Err(format!("the validator: {}", found.render(&text))));
    }
    let declared = program
        .with_role(TensorRole::Input)
        .map(|(_, t)| t.shape.as_slice());
    let inputs: Result<Vec<Tensor>> = case
        .given()
        .iter()
        .zip(declared)
        .map(|(tensor, shape)| tensor.reshape(concrete(shape)?))
        .collect();
    let outputs = match inputs.and_then(|inputs| interpret(&program, &inputs, &none)) {
        Ok(outputs) => outputs,
        Err(error) => return Ok(Err(format!("the interpreter: {error:?}"))),
    };
    let graph = &case.task.graph;
    let wanted = graph.outputs().iter().map(|o| graph.ty(o.value).shape.as_slice());
    let outputs: Result<Vec<Tensor>> = outputs
        .iter()
        .zip(wanted)
        .map(|(tensor, shape)| tensor.reshape(concrete(shape)?))
        .collect();
    let outputs = match outputs {
        Ok(outputs) => outputs,
        Err(error) => return Ok(Err(format!("an output: {error:?}"))),
    };
    Ok(case
        .judge(&outputs)?
        .map_or(Ok(()), |failure| Err(failure.evidence)))
}

fn concrete(shape: &[crate::expr::Expr]) -> Result<Vec<usize>> {
    let extent = |d: &crate::expr::Expr| {
        let known = d.as_const().and_then(|d| usize::try_from(d).ok());
        known.ok_or_else(|| Error::unexpected(format!("the extent `{d}` has no value")))
    };
    shape.iter().map(extent).collect()
}
