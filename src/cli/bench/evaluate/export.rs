//! The file with `ModelNew` for one problem.

use std::fs;
use std::path::{Path, PathBuf};

use akg::bundle::Manifest;
use akg::expr::Bindings;
use akg::file::read_text;
use akg::graph::ValueId;
use akg::session::{Attempt, present};
use akg::source::{Knobs, LaunchPlan, Source, SourceForm, TensorRole};
use akg::triton::ModelNew;
use akg::{Error, Graph, Result, Target, designer};
use serde::{Deserialize, Serialize};

use super::EvaluateArgs;
use crate::cli::bench::folder::{read, to_json, write_whole};
use crate::cli::bench::problems::Problem;
use crate::cli::bench::record::Record;
use crate::cli::bundle::module_inputs;
use crate::cli::progress::Progress;
use crate::cli::task::{Loaded, load, python};
use crate::cli::{ContractArgs, TaskArgs};

/// Which kernels a file has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Kernels {
    /// Those that the judge accepted.
    Verified,
    /// What the rules design at the problem's full size, which was not judged.
    Designed,
}

impl Kernels {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Kernels::Verified => "verified",
            Kernels::Designed => "designed",
        }
    }
}

/// A file that was written.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Export {
    pub(super) kernels: Kernels,
    /// Bytes of the device that an evaluation takes, about.
    pub(super) need: u64,
}

/// What a bench run has for a problem.
struct Found {
    attempt: Attempt,
    /// Whether that is for the problem's full size.
    full: bool,
}

const RECORD: &str = "export.json";

/// Where the file of a problem is, below the directory of the problem.
pub(super) fn file(directory: &Path) -> PathBuf {
    directory.join("modelnew.py")
}

/// The file that an earlier run wrote.
pub(super) fn kept(directory: &Path) -> Result<Option<Export>> {
    let path = directory.join(RECORD);
    if path.exists() {
        read(&path).map(Some)
    } else {
        Ok(None)
    }
}

/// Writes the file of a problem; none if the bench run has no verified kernel.
pub(super) fn export(
    args: &EvaluateArgs,
    problem: &Problem,
    target: &Target,
    directory: &Path,
    progress: &Progress,
) -> Result<Option<Export>> {
    let found = match &args.results {
        Some(results) => match found(&results.join(problem.id()))? {
            Some(found) => Some(found),
            None => return Ok(None),
        },
        None => None,
    };
    let config = args.python.config();
    let accuracy = found
        .as_ref()
        .map_or(args.accuracy, |f| f.attempt.verdict.accuracy);
    let task = TaskArgs {
        task: problem.path.display().to_string(),
        contract: ContractArgs {
            accuracy,
            ..ContractArgs::default()
        },
    };
    let loaded = load(&task, None, || python(&config, progress), progress)?;
    let (kernels, source, evidence) = match found {
        Some(Found { attempt, full: true }) => {
            let error = attempt.verdict.error();
            let error = error.map_or_else(String::new, |e| format!(", error against f64: rms {:.1e}", e.rms));
            let evidence = format!("Verified on {}{error}.", target.name);
            (Kernels::Verified, attempt.source, evidence)
        }
        found => {
            let knobs = found.map(|f| f.attempt.source.knobs);
            let source = design(&loaded, target, knobs.as_ref())?;
            (Kernels::Designed, source, "Not verified at this size.".to_owned())
        }
    };
    let plan = plan(&source)?;
    let mut manifest = Manifest::of(&loaded.task, target, &source, plan.clone())?;
    let module = loaded.module.as_ref().map(|module| {
        manifest.module = module_inputs(module);
        manifest.call = Some(module.call.clone());
        read_text(&module.path)
    });
    let module = module.transpose()?;
    let text = ModelNew {
        manifest: &manifest,
        graph: &loaded.task.graph,
        kernels: &source.text,
        module: module.as_deref(),
        evidence: &evidence,
    };
    let text = text.text()?;
    let export = Export {
        kernels,
        need: need(&loaded.task.graph, plan)?,
    };
    fs::create_dir_all(directory)
        .map_err(|e| Error::io(format!("cannot create {}", directory.display()), e))?;
    write_whole(&file(directory), &text)?;
    write_whole(&directory.join(RECORD), &to_json(&export)?)?;
    Ok(Some(export))
}

/// The best candidate of a bench run.
fn found(directory: &Path) -> Result<Option<Found>> {
    let record: Record = read(&directory.join("record.json"))?;
    if !record.passed() {
        return Ok(None);
    }
    let best = directory.join("kernel.triton");
    let best = read_text(&best)?;
    for number in 0.. {
        let path = directory.join(format!("candidate-{number}.json"));
        if !path.exists() {
            break;
        }
        let attempt: Attempt = read(&path)?;
        if attempt.verdict.passed() && attempt.source.text == best {
            return Ok(Some(Found {
                attempt,
                full: record.shrink.is_none(),
            }));
        }
    }
    Err(Error::invalid(format!(
        "{} has no candidate that passed",
        directory.display()
    )))
}

/// What the rules write for a task, with these knobs if they fit it.
fn design(loaded: &Loaded, target: &Target, knobs: Option<&Knobs>) -> Result<Source> {
    let dsl = akg::registry().dsl("triton")?;
    let design = designer::design(&loaded.task, target)?;
    let tuned = knobs.and_then(|knobs| dsl.lower(&design.sketch, knobs, target).ok());
    let mut source = match tuned {
        Some(source) => source,
        None => dsl.lower(&design.sketch, &design.knobs, target)?,
    };
    if let SourceForm::Lowered { plan } = &mut source.form {
        present(plan, &loaded.task, &design).map_err(|failure| Error::unexpected(failure.evidence))?;
    }
    Ok(source)
}

fn plan(source: &Source) -> Result<&LaunchPlan> {
    match &source.form {
        SourceForm::Lowered { plan } => Ok(plan),
        _ => Err(Error::unsupported("the kernel is a PyTorch module already")),
    }
}

/// Bytes of the device that an evaluation takes, about: there are inputs, a result of each side, four times as much while
/// they are compared, and what the reference or the kernels make on the way.
fn need(graph: &Graph, plan: &LaunchPlan) -> Result<u64> {
    let none = Bindings::new();
    let bytes = |value| {
        let ty = graph.ty(value);
        let shape = ty.concrete_shape(&none)?;
        akg::tensor::byte_len(ty.dtype, &shape).map(|n| n as u64)
    };
    let inputs = graph
        .inputs()
        .iter()
        .map(|input| bytes(input.value))
        .sum::<Result<u64>>()?;
    let outputs = graph
        .outputs()
        .iter()
        .map(|output| bytes(output.value))
        .sum::<Result<u64>>()?;
    let is_output = |value: &ValueId| graph.outputs().iter().any(|output| output.value == *value);
    let between = graph
        .nodes()
        .iter()
        .flat_map(|node| &node.outputs)
        .filter(|value| !is_output(value));
    let between = between.map(|value| bytes(*value)).collect::<Result<Vec<_>>>()?;
    let scratch = plan.with_role(TensorRole::Scratch).map(|(_, tensor)| {
        let extents = tensor
            .shape
            .iter()
            .map(|e| e.eval(&none).map(|n| n.max(0) as usize));
        let shape = extents.collect::<Result<Vec<_>>>()?;
        akg::tensor::byte_len(tensor.dtype, &shape).map(|n| n as u64)
    });
    let scratch = scratch.sum::<Result<u64>>()?;
    let largest = between.into_iter().max().unwrap_or_default();
    Ok(inputs + 6 * outputs + scratch.max(2 * largest) + CONTEXT)
}

/// Bytes that a process takes for itself.
const CONTEXT: u64 = 1 << 30;
