//! Hand-written sources: a C++ text that begins with its launch plan.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use akg_core::dtype::DType;
use akg_core::error::Result;
use akg_core::lower::loops::Names;
use akg_core::source::{LaunchHeader, LaunchPlan, TensorRole, comment_lines};

use crate::names::RESERVED;
use crate::printer::element_type;

/// How a source holds its launch plan.
pub(crate) const HEADER: LaunchHeader = LaunchHeader {
    language: "C++",
    comment: "//",
    identifiers: "C",
    printed_by: "akg export --task TASK --form stub",
};

/// A source to fill in: the launch plan and an entry function for each launch, with typed pointers and what they are.
pub fn stub(plan: &LaunchPlan) -> Result<String> {
    let mut out = HEADER.write(plan)?;
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
    let mut known = BTreeSet::new();
    let mut names = Names::new(RESERVED);
    let plan = &plan.rename_dims(|dim| names.fresh(dim));
    let tensors: Vec<_> = plan
        .tensors
        .iter()
        .map(|tensor| names.fresh(&tensor.name))
        .collect();
    for launch in plan.launches.iter().filter(|launch| known.insert(&launch.kernel)) {
        out.push('\n');
        for line in comment_lines(&launch.doc) {
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
            let (Some(tensor), Some(name)) = (plan.tensors.get(*number), tensors.get(*number)) else {
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
