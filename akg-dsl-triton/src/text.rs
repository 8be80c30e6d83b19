//! Hand-written sources: a Triton module that begins with its launch plan.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use akg_core::error::{Error, Result};
use akg_core::source::{Launch, LaunchPlan, TensorRole};

use crate::lower::launch_dictionary;
use crate::options::Options;

/// Begins the comment that holds the launch plan as JSON.
pub(crate) const MARKER: &str = "# akg-launch:";

/// The launch plan in the comment at the head of `text`.
pub(crate) fn launch_plan(text: &str) -> Result<LaunchPlan> {
    let how = "`akg export --task TASK --dsl triton --form stub` prints the header that belongs there";
    let mut lines = text.lines().skip_while(|l| l.trim().is_empty());
    let first = lines
        .next()
        .and_then(|l| l.trim().strip_prefix(MARKER))
        .ok_or_else(|| {
            Error::invalid(format!(
                "a Triton source begins with its launch plan, `{MARKER} {{...}}`; {how}"
            ))
        })?;
    let mut json = first.to_owned();
    for line in lines.map_while(|l| l.trim().strip_prefix('#')) {
        json.push('\n');
        json.push_str(line);
    }
    let mut values = serde_json::Deserializer::from_str(&json).into_iter::<LaunchPlan>();
    let plan = match values.next() {
        Some(Ok(plan)) => plan,
        Some(Err(e)) => {
            return Err(Error::invalid(format!(
                "the launch plan at the head of the Triton source is wrong: {e}; {how}"
            )));
        }
        None => {
            return Err(Error::invalid(format!(
                "nothing follows `{MARKER}` at the head of the Triton source; {how}"
            )));
        }
    };
    check_plan(&plan)?;
    Ok(plan)
}

/// Whether every launch names tensors that exist and a Python identifier.
fn check_plan(plan: &LaunchPlan) -> Result<()> {
    if plan.launches.is_empty() {
        return Err(Error::invalid("the launch plan has no launches"));
    }
    for launch in &plan.launches {
        let name = &launch.kernel;
        let starts_well = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        if !starts_well || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            return Err(Error::invalid(format!(
                "the launch plan names a kernel `{name}`, which is not a Python identifier"
            )));
        }
        if let Some(wrong) = launch.tensors.iter().find(|i| **i >= plan.tensors.len()) {
            return Err(Error::invalid(format!(
                "kernel `{name}` takes tensor number {wrong}, but the launch plan has {} tensors, numbered from 0",
                plan.tensors.len()
            )));
        }
    }
    Ok(())
}

/// The launch plan as the comment at the head of a source.
pub(crate) fn header(plan: &LaunchPlan) -> Result<String> {
    check_plan(plan)?;
    let json = serde_json::to_string_pretty(plan)
        .map_err(|e| Error::unexpected("cannot write the launch plan as JSON").caused_by(e))?;
    Ok(format!("{MARKER} {}\n", json.replace('\n', "\n# ")))
}

/// A source to fill in: the launch plan and a kernel for each launch, with its parameters and what they are.
pub fn stub(plan: &LaunchPlan) -> Result<String> {
    let mut out = header(plan)?;
    let mut kernels: Vec<&Launch> = Vec::new();
    for launch in &plan.launches {
        if kernels.iter().all(|known| known.kernel != launch.kernel) {
            kernels.push(launch);
        }
    }
    let options = kernels.iter().map(|launch| {
        let options = Options {
            num_warps: 4,
            num_stages: 3,
            descriptors: BTreeMap::new(),
        };
        (launch.kernel.clone(), options)
    });
    out += "import triton\nimport triton.language as tl\n\n";
    out += &launch_dictionary(&options.collect::<Vec<_>>())?;
    for launch in kernels {
        out += "\n\n";
        for line in launch.doc.lines() {
            let _ = writeln!(out, "# {line}");
        }
        let tensors = launch
            .tensors
            .iter()
            .filter_map(|number| plan.tensors.get(*number));
        let mut parameters: Vec<String> = tensors.clone().map(|t| format!("{}_ptr", t.name)).collect();
        parameters.extend(plan.dims.iter().map(|d| format!("{d}: tl.int64")));
        let _ = writeln!(
            out,
            "@triton.jit\ndef {}({}):",
            launch.kernel,
            parameters.join(", ")
        );
        let grid: Vec<String> = launch.grid.iter().map(|e| format!("({e})")).collect();
        let programs = if grid.is_empty() {
            "1".to_owned()
        } else {
            grid.join(" * ")
        };
        for tensor in tensors {
            let shape: Vec<String> = tensor.shape.iter().map(ToString::to_string).collect();
            let role = match tensor.role {
                TensorRole::Input => "input",
                TensorRole::Output => "output, write every element",
                TensorRole::Scratch => "scratch, undefined at the start",
            };
            let (name, dtype) = (&tensor.name, tensor.dtype);
            let _ = writeln!(
                out,
                "    # {name}_ptr: {role}: {dtype}[{}], row-major",
                shape.join(", ")
            );
        }
        let _ = writeln!(
            out,
            "    program = tl.program_id(0)  # of {programs}\n    # Compute the part of `program` here."
        );
    }
    Ok(out)
}
