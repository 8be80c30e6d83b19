//! What a launch has to do.

use serde::{Deserialize, Serialize};

use crate::dtype::DType;
use crate::expr::Bindings;
use crate::sketch::{KernelCost, Rates};
use crate::source::{Launch, LaunchPlan};
use crate::target::Target;
use crate::tensor::byte_len;

/// A dot whose rate is this many times that of f32 runs on units for matrices.
const MATRIX_UNIT: f64 = 1.5;

/// What a launch has to do, and how long each part takes at the device's peaks.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Work {
    /// Bytes to and from memory.
    pub bytes: f64,
    /// Floating operations of products on units for matrices.
    pub tensor_flops: f64,
    /// All other operations: products elsewhere, and operations on elements.
    pub other_ops: f64,
    /// Seconds for the bytes; 0 if the target does not say how fast its memory is.
    pub memory_seconds: f64,
    /// Seconds for the products on units for matrices.
    pub tensor_seconds: f64,
    /// Seconds for the other operations.
    pub issue_seconds: f64,
    /// Seconds of the launch by the cost model, with what it does not hide.
    pub estimate_seconds: f64,
}

impl Work {
    /// What the cost model counted.
    pub fn of_cost(cost: &KernelCost, target: &Target) -> Self {
        let rates = Rates { target };
        let mut work = Self {
            bytes: cost.memory_bytes,
            other_ops: cost.element_ops,
            issue_seconds: cost.element_ops / rates.element(DType::F32),
            memory_seconds: seconds(cost.memory_bytes, target.bandwidth),
            estimate_seconds: cost.seconds,
            ..Self::default()
        };
        for (name, flops) in &cost.dot_flops {
            let (method, dtype) = name.split_once(' ').unwrap_or((name, ""));
            let dtype = dtype.parse().unwrap_or(DType::F32);
            let rate = rates.dot(method, dtype);
            if rate > MATRIX_UNIT * rates.peak(DType::F32) {
                work.tensor_flops += flops;
                work.tensor_seconds += flops / rate;
            } else {
                work.other_ops += flops;
                work.issue_seconds += flops / rate;
            }
        }
        work
    }

    /// What a launch touches at least: each of its tensors once. For sources without a sketch, whose operations nobody
    /// counted.
    pub fn of_tensors(launch: &Launch, plan: &LaunchPlan, dims: &Bindings, target: &Target) -> Self {
        let mut tensors = launch.tensors.clone();
        tensors.sort_unstable();
        tensors.dedup();
        let size = |index: usize| {
            let tensor = plan.tensors.get(index)?;
            let extents = tensor
                .shape
                .iter()
                .map(|e| usize::try_from(e.eval(dims).ok()?).ok());
            byte_len(tensor.dtype, &extents.collect::<Option<Vec<_>>>()?).ok()
        };
        let bytes = tensors.into_iter().filter_map(size).sum::<usize>() as f64;
        let memory_seconds = seconds(bytes, target.bandwidth);
        Self {
            bytes,
            memory_seconds,
            estimate_seconds: memory_seconds + target.launch_seconds,
            ..Self::default()
        }
    }

    /// All operations.
    pub fn ops(&self) -> f64 {
        self.tensor_flops + self.other_ops
    }
}

fn seconds(amount: f64, rate: f64) -> f64 {
    if rate > 0.0 { amount / rate } else { 0.0 }
}
