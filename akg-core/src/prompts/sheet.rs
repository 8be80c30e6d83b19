//! What every role is told of a task and a device.

use serde::Serialize;

use crate::graph::{Graph, ValueId};
use crate::target::Target;
use crate::task::{Accuracy, Task};

/// A task as a model is told of it.
#[derive(Debug, Serialize)]
pub(crate) struct TaskSheet {
    graph: String,
    inputs: Vec<String>,
    outputs: Vec<String>,
    accuracy: &'static str,
    allowed: &'static str,
}

impl TaskSheet {
    pub(crate) fn of(task: &Task) -> Self {
        let (graph, accuracy) = (&task.graph, task.contract.accuracy);
        Self {
            graph: graph.to_string(),
            inputs: typed(graph, graph.given()),
            outputs: typed(graph, graph.outputs().iter().map(|o| o.value)),
            accuracy: accuracy.name(),
            allowed: allowed(accuracy),
        }
    }
}

/// What a class allows, as a model is told.
fn allowed(accuracy: Accuracy) -> &'static str {
    match accuracy {
        Accuracy::Fp32 => {
            "at most twice the rms error, and four times the largest, of fp32 arithmetic with pairwise sums; products of halves that \
             operands were split into are welcome where they reach that"
        }
        Accuracy::Tf32 => "an error of 5e-4 rms on a product, as rounding operands to TF32 gives",
        Accuracy::Half => "an error of 4e-3 rms on a product, as operands in bf16 give",
    }
}

/// Values with their types.
fn typed(graph: &Graph, values: impl Iterator<Item = ValueId>) -> Vec<String> {
    values
        .map(|value| format!("`{}: {}`", graph.value_name(value), graph.ty(value)))
        .collect()
}

/// A device as a model is told of it.
#[derive(Debug, Serialize)]
pub(crate) struct DeviceSheet {
    name: String,
    cores: u32,
    threads: u32,
    tile_kilobytes: u64,
    gigabytes_per_second: Option<u64>,
    peaks: Vec<String>,
    launch_microseconds: String,
}

impl DeviceSheet {
    pub(crate) fn of(target: &Target) -> Self {
        let measured = |rate: f64| (rate > 0.0).then_some((rate / 1e9).round() as u64);
        let peaks = target.peak.iter();
        Self {
            name: target.name.clone(),
            cores: target.cores,
            threads: target.threads,
            tile_kilobytes: target.tile_bytes >> 10,
            gigabytes_per_second: measured(target.bandwidth),
            peaks: peaks
                .filter_map(|(dtype, rate)| {
                    Some(format!("{} Gflop/s with operands in {dtype}", measured(*rate)?))
                })
                .collect(),
            launch_microseconds: format!("{:.1}", target.launch_seconds * 1e6),
        }
    }
}
