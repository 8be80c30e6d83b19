//! Hand-written sources: a Triton module that begins with its launch plan.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use akg_core::error::Result;
use akg_core::source::{Launch, LaunchHeader, LaunchPlan, TensorRole, comment_lines};

use crate::lower::launch_dictionary;
use crate::names::Names;
use crate::options::Options;

/// How a source holds its launch plan.
pub(crate) const HEADER: LaunchHeader = LaunchHeader {
    language: "Triton",
    comment: "#",
    identifiers: "Python",
    printed_by: "akg export --task TASK --dsl triton --form stub",
};

/// A source to fill in: the launch plan and a kernel for each launch, with its parameters and what they are.
pub fn stub(plan: &LaunchPlan) -> Result<String> {
    let mut out = HEADER.write(plan)?;
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
            maxnreg: None,
            descriptors: BTreeMap::new(),
        };
        (launch.kernel.clone(), options)
    });
    out += "import triton\nimport triton.language as tl\n\n";
    out += &launch_dictionary(&options.collect::<Vec<_>>())?;
    for launch in kernels {
        out += "\n\n";
        for line in comment_lines(&launch.doc) {
            let _ = writeln!(out, "# {line}");
        }
        let tensors = launch
            .tensors
            .iter()
            .filter_map(|number| plan.tensors.get(*number));
        let mut names = Names::new();
        let pointers: Vec<String> = tensors
            .clone()
            .map(|t| names.fresh(&format!("{}_ptr", t.name)))
            .collect();
        let mut parameters = pointers.clone();
        let plan = plan.rename_dims(|dim| names.fresh(dim).into());
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
        for (tensor, name) in tensors.zip(&pointers) {
            let shape: Vec<String> = tensor.shape.iter().map(ToString::to_string).collect();
            let role = match tensor.role {
                TensorRole::Input => "input",
                TensorRole::Output => "output, write every element",
                TensorRole::Scratch => "scratch, undefined at the start",
            };
            let dtype = tensor.dtype;
            let _ = writeln!(
                out,
                "    # {name}: {role}: {dtype}[{}], row-major",
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
