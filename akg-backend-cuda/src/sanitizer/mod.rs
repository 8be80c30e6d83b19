//! Faults in how kernels use memory, from NVIDIA's Compute Sanitizer.
//!
//! The tool watches a process of this backend's worker program that executes an artifact once, with every tensor in an allocation
//! of its own. Like the [counters](crate::counters), it needs rights that confined programs have not.

mod parse;

use std::time::Duration;

use akg_core::backend::{Call, Sanitizer};
use akg_core::error::{Error, ErrorKind, Result};
use akg_core::isolation::IsolationLevel;
use akg_core::source::Artifact;
use akg_core::verdict::Failure;

use crate::CudaConfig;
use crate::protocol::SERVICE;
use crate::replay::{Job, Placing, Run, Tool};
use parse::Log;

/// The tool.
const TOOL: Tool = Tool {
    title: "Compute Sanitizer",
    program: "compute-sanitizer",
    places: &[
        "/usr/local/cuda/bin/compute-sanitizer",
        "/usr/local/cuda/compute-sanitizer/compute-sanitizer",
    ],
    comes_with: "it comes with the CUDA toolkit, in the packages cuda-sanitizer-*",
    // Each access of each thread is looked at.
    patience: Duration::from_secs(600),
};

/// What the tool says where it cannot attach to the device.
const REFUSED: &str = "Device not supported";

/// Options for every run: of what the driver was asked only kernels matter, and where the host launched them is known.
const OPTIONS: [&str; 10] = [
    "--report-api-errors",
    "no",
    "--show-backtrace",
    "no",
    "--print-limit",
    "20",
    "--launch-timeout",
    "60",
    // Allocations do not touch.
    "--padding",
    "65536",
];

/// What the tool calls it.
const fn name(sanitizer: Sanitizer) -> &'static str {
    match sanitizer {
        Sanitizer::Memory => "memcheck",
        Sanitizer::Races => "racecheck",
        Sanitizer::Initialization => "initcheck",
    }
}

/// Executes an artifact with bound tensors under the tool.
///
/// # Errors
/// If the tool is absent, cannot work here or did not come to its end.
pub(crate) fn run(
    config: &CudaConfig,
    artifact: &Artifact,
    call: &Call,
    required: IsolationLevel,
    sanitizer: Sanitizer,
) -> Result<Result<(), Failure>> {
    TOOL.allow(required)?;
    let path = TOOL.find(config.sanitizer.as_deref())?;
    let worker = akg_worker::find(config.worker.as_deref())?.arg(SERVICE);
    let job = Job::new(config.device, artifact, call, Placing::Apart)?;
    let name = name(sanitizer);
    let options: Vec<&str> = ["--tool", name].into_iter().chain(OPTIONS).collect();
    judge(&TOOL.run(&path, &options, &worker, &job)?, sanitizer)
        .map_err(|error| error.with("tool", format!("{} --tool {name}", path.display())))
}

/// What a run says of the candidate.
fn judge(run: &Run, sanitizer: Sanitizer) -> Result<Result<(), Failure>> {
    let log = Log::parse(&run.log, sanitizer);
    if let Some(failure) = log.failure(name(sanitizer)) {
        return Ok(Err(failure));
    }
    // A tool that checked nothing may call that no error.
    if log.is_clean() && run.launches.is_some() {
        return Ok(Ok(()));
    }
    let said = format!("{}{}", log.remark(), run.complaint());
    if said.contains(REFUSED) {
        return Err(Error::unsupported(
            "Compute Sanitizer cannot watch this device: `Device not supported`. Sandboxes that stand between programs and the \
             driver, such as gVisor, keep it from that: run on the machine itself or in a virtual machine, or without \
             --sanitize",
        ));
    }
    Err(Error::new(
        ErrorKind::Unexpected,
        format!("Compute Sanitizer found nothing, but did not come to a good end: {said}"),
    ))
}
