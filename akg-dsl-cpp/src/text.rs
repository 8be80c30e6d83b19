//! Hand-written sources: a C++ text that begins with its launch plan.

use std::fmt::Write as _;

use akg_core::dtype::DType;
use akg_core::error::{Error, Result};
use akg_core::source::{LaunchPlan, TensorRole};

use crate::printer::element_type;

/// Begins the comment that holds the launch plan as JSON.
pub(crate) const MARKER: &str = "// akg-launch:";

/// The launch plan in the comment at the head of `text`.
pub(crate) fn launch_plan(text: &str) -> Result<LaunchPlan> {
    let how = "`akg export --task TASK --form stub` prints the header that belongs there";
    let mut lines = text.lines().skip_while(|l| l.trim().is_empty());
    let first = lines
        .next()
        .and_then(|l| l.trim().strip_prefix(MARKER))
        .ok_or_else(|| {
            Error::invalid(format!(
                "a C++ source begins with its launch plan, `{MARKER} {{...}}`; {how}"
            ))
        })?;
    let mut json = first.to_owned();
    for line in lines.map_while(|l| l.trim().strip_prefix("//")) {
        json.push('\n');
        json.push_str(line);
    }
    let mut values = serde_json::Deserializer::from_str(&json).into_iter::<LaunchPlan>();
    let plan = match values.next() {
        Some(Ok(plan)) => plan,
        Some(Err(e)) => {
            return Err(Error::invalid(format!(
                "the launch plan at the head of the C++ source is wrong: {e}; {how}"
            )));
        }
        None => {
            return Err(Error::invalid(format!(
                "nothing follows `{MARKER}` at the head of the C++ source; {how}"
            )));
        }
    };
    check_plan(&plan)?;
    Ok(plan)
}

/// Whether every launch names tensors that exist and a C identifier.
fn check_plan(plan: &LaunchPlan) -> Result<()> {
    if plan.launches.is_empty() {
        return Err(Error::invalid("the launch plan has no launches"));
    }
    for launch in &plan.launches {
        let name = &launch.kernel;
        let starts_well = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        if !starts_well || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            return Err(Error::invalid(format!(
                "the launch plan names a kernel `{name}`, which is not a C identifier"
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

/// A source to fill in: the launch plan and an entry function for each launch, with typed pointers and what they are.
pub fn stub(plan: &LaunchPlan) -> Result<String> {
    check_plan(plan)?;
    let json = serde_json::to_string_pretty(plan)
        .map_err(|e| Error::unexpected("cannot write the launch plan as JSON").caused_by(e))?;
    let mut out = format!("{MARKER} {}\n", json.replace('\n', "\n// "));
    out.push_str("#include <cmath>\n#include <cstdint>\n");
    if plan.tensors.iter().any(|t| t.dtype == DType::F16) {
        out.push_str("\ntypedef _Float16 akg_f16;\n");
    }
    if plan.tensors.iter().any(|t| t.dtype == DType::BF16) {
        out.push_str("\n// The upper half of a float.\ntypedef uint16_t akg_bf16;\n");
    }
    if plan.launches.iter().any(|l| l.cooperative) {
        out.push_str(
            "\n// barrier(context) returns when all programs have called it.\nstruct akg_team { void (*barrier)(void *context); void *context; };\n",
        );
    }
    for launch in &plan.launches {
        out.push('\n');
        for line in launch.doc.lines() {
            let _ = writeln!(out, "// {line}");
        }
        let programs: Vec<String> = launch.grid.iter().map(|e| format!("({e})")).collect();
        let count = if programs.is_empty() {
            "1".to_owned()
        } else {
            programs.join(" * ")
        };
        if launch.cooperative {
            let _ = writeln!(
                out,
                "// Called on one thread for each program, all at the same time. There are {count}.\nextern \"C\" void {}(void *const *tensors, const int64_t *dims, int64_t program, const akg_team *team) {{",
                launch.kernel
            );
        } else {
            let _ = writeln!(
                out,
                "// Executes programs first..last (last excluded) of {count}. Other threads may execute others at the same time.\nextern \"C\" void {}(void *const *tensors, const int64_t *dims, int64_t first, int64_t last) {{",
                launch.kernel
            );
        }
        for (i, number) in launch.tensors.iter().enumerate() {
            let Some(tensor) = plan.tensors.get(*number) else {
                continue;
            };
            let shape: Vec<String> = tensor.shape.iter().map(ToString::to_string).collect();
            let (constant, role) = match tensor.role {
                TensorRole::Input => ("const ", "input"),
                TensorRole::Output => ("", "output, write every element"),
                TensorRole::Scratch => ("", "scratch, undefined at the start"),
            };
            let ty = element_type(tensor.dtype);
            let _ = writeln!(
                out,
                "  {constant}{ty} *{name} = static_cast<{constant}{ty} *>(tensors[{i}]);  // {role}: {dtype}[{shape}], row-major",
                name = tensor.name,
                dtype = tensor.dtype,
                shape = shape.join(", ")
            );
        }
        for (i, dim) in plan.dims.iter().enumerate() {
            let _ = writeln!(out, "  const int64_t {dim} = dims[{i}];");
        }
        if launch.cooperative {
            out.push_str("  // Compute the part of `program` here.\n}\n");
        } else {
            out.push_str(
                "  for (int64_t program = first; program < last; ++program) {\n    // Compute the part of `program` here.\n  }\n}\n",
            );
        }
    }
    Ok(out)
}
