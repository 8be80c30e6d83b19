//! Counters of a device, from Nsight Compute.
//!
//! The tool runs a process of this backend's worker program that executes an artifact once, and reads the counters of each
//! kernel; to count more than the device can at a time it executes each kernel again and again with the same memory. It needs
//! rights that confined programs have not, so that process is not confined. Where the tool is absent, has no right to read
//! counters or fails, the caller is told why and goes on without.

mod parse;

use std::time::Duration;

use akg_core::backend::Call;
use akg_core::error::{Error, Result};
use akg_core::isolation::IsolationLevel;
use akg_core::profile::Observation;
use akg_core::source::Artifact;

use crate::CudaConfig;
use crate::protocol::SERVICE;
use crate::replay::{Job, Placing, Tool};
use parse::Table;

/// The tool.
const TOOL: Tool = Tool {
    title: "Nsight Compute",
    program: "ncu",
    places: &[
        "/usr/local/cuda/bin/ncu",
        "/opt/nvidia/nsight-compute/*/ncu",
        "/usr/local/NVIDIA-Nsight-Compute/ncu",
    ],
    comes_with: "it comes with the CUDA toolkit",
    // It starts in seconds, and executes each kernel some ten times.
    patience: Duration::from_secs(180),
};

/// Options for every run: clocks and caches as in ordinary runs.
const OPTIONS: [&str; 11] = [
    "--csv",
    "--page",
    "raw",
    "--print-units",
    "base",
    "--clock-control",
    "none",
    "--cache-control",
    "none",
    "--profile-from-start",
    "off",
];

/// What the tool says where users may not read counters.
const FORBIDDEN: &str = "ERR_NVGPUCTRPERM";

/// What every device that the tool knows counts.
const BASIC: [&str; 8] = [
    "gpu__time_duration.sum",
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
    "lts__t_bytes.sum",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "lts__throughput.avg.pct_of_peak_sustained_elapsed",
    "smsp__issue_active.avg.pct_of_peak_sustained_active",
    "sm__warps_active.avg.pct_of_peak_sustained_active",
];

/// The work of the units for matrices.
const TENSOR: [&str; 1] = ["sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active"];

/// Reasons to wait that all devices know.
const STALLS: [&str; 15] = [
    "barrier",
    "branch_resolving",
    "dispatch_stall",
    "drain",
    "imc_miss",
    "lg_throttle",
    "long_scoreboard",
    "math_pipe_throttle",
    "membar",
    "mio_throttle",
    "no_instruction",
    "not_selected",
    "short_scoreboard",
    "sleeping",
    "wait",
];

/// Reasons to wait of one generation.
const SPECIAL_STALLS: [&str; 1] = ["gmma"];

/// What to ask for, the most first: a tool that does not know one name may refuse all.
fn choices() -> [Vec<String>; 3] {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let stalls = |stalls: &[&str]| stalls.iter().map(|stall| parse::stall_metric(stall)).collect();
    let most = [names(&BASIC), names(&TENSOR), stalls(&STALLS)].concat();
    [
        [most.clone(), stalls(&SPECIAL_STALLS)].concat(),
        most,
        names(&BASIC),
    ]
}

/// Adds what the tool counts for each launch of an artifact with bound tensors to what was observed, or a note why there is
/// nothing.
pub(crate) fn add(
    observation: &mut Observation,
    config: &CudaConfig,
    artifact: &Artifact,
    call: &Call,
    required: IsolationLevel,
) {
    if let Err(why) = count(observation, config, artifact, call, required) {
        let note = format!("no counters: {}", why.message());
        observation.notes.push(note);
    }
}

fn count(
    observation: &mut Observation,
    config: &CudaConfig,
    artifact: &Artifact,
    call: &Call,
    required: IsolationLevel,
) -> Result<()> {
    TOOL.allow(required)?;
    let tool = TOOL.find(config.profiler.as_deref())?;
    let worker = akg_worker::find(config.worker.as_deref())?.arg(SERVICE);
    let job = Job::new(config.device, artifact, call, Placing::AsBound)?;
    let mut refused = String::new();
    for metrics in choices() {
        let metrics = metrics.join(",");
        let options: Vec<&str> = OPTIONS.into_iter().chain(["--metrics", &metrics]).collect();
        let run = TOOL.run(&tool, &options, &worker, &job)?;
        match Table::parse(&run.log) {
            Ok(table) => {
                let launches = run.launches.ok_or_else(|| {
                    Error::unexpected("the process that Nsight Compute ran did not say what it executed")
                })?;
                return assign(observation, &table, &launches);
            }
            Err(why) => refused = format!("{why}{}", run.complaint()),
        }
        if refused.contains(FORBIDDEN) {
            return Err(Error::unsupported(format!(
                "this user may not read the device's performance counters ({FORBIDDEN}): run as root, or let the \
                 administrator load the driver with NVreg_RestrictProfilingToAdminUsers=0"
            )));
        }
    }
    Err(Error::unexpected(format!(
        "Nsight Compute ({}) counted nothing: {refused}",
        tool.display()
    )))
}

/// Gives each launch the counters of its row.
fn assign(observation: &mut Observation, table: &Table, launches: &[usize]) -> Result<()> {
    let counters = table.counters();
    if counters.len() != launches.len() {
        return Err(Error::unexpected(format!(
            "Nsight Compute saw {} launches, but there were {}",
            counters.len(),
            launches.len()
        )));
    }
    for (counters, launch) in counters.into_iter().zip(launches) {
        if let Some(observed) = observation.launches.get_mut(*launch) {
            observed.counters = Some(counters);
        }
    }
    Ok(())
}
