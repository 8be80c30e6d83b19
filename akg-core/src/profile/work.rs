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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expr::Expr;
    use crate::source::{PlanTensor, TensorRole};

    fn h200() -> Target {
        let mut target = Target::new("cuda", "sm_90a");
        target.bandwidth = 4.8e12;
        target.peak = [(DType::F16, 1e15), (DType::F32, 6e13), (DType::F64, 6e13)].into();
        target
    }

    #[test]
    fn products_are_counted_where_they_run() {
        let cost = KernelCost {
            name: "k".into(),
            programs: 1,
            requested_bytes: 1e9,
            distinct_bytes: 1e9,
            written_bytes: 0.0,
            memory_bytes: 4.8e9,
            dot_flops: [("tf32 f32".to_owned(), 5e12), ("ieee f32".to_owned(), 6e10)].into(),
            element_ops: 3e10,
            tile_bytes: 0,
            utilisation: 1.0,
            memory_seconds: 1e-3,
            cache_seconds: 0.0,
            compute_seconds: 0.0,
            dot_seconds: 0.0,
            seconds: 0.02,
        };
        let work = Work::of_cost(&cost, &h200());
        assert_eq!((work.tensor_flops, work.other_ops), (5e12, 9e10));
        let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
        // TF32 at half the rate of f16; an operation on elements is half a multiply-add.
        assert!(near(work.tensor_seconds, 1e-2), "{work:?}");
        assert!(near(work.issue_seconds, 2e-3), "{work:?}");
        assert!(near(work.memory_seconds, 1e-3), "{work:?}");

        // A device without units for matrices does everything in the same place.
        let mut plain = h200();
        plain.peak.remove(&DType::F16);
        let work = Work::of_cost(&cost, &plain);
        assert_eq!((work.tensor_flops, work.other_ops), (0.0, 5.09e12));
    }

    #[test]
    fn without_a_sketch_each_tensor_is_touched_once() {
        let tensor = |dtype, shape: Vec<Expr>| PlanTensor {
            name: String::new(),
            dtype,
            shape,
            role: TensorRole::Input,
            align: 16,
            holds: None,
            updates: None,
        };
        let rows = Expr::symbol("N");
        let plan = LaunchPlan {
            dims: vec!["N".into()],
            tensors: vec![
                tensor(DType::F32, vec![rows, 4.into()]),
                tensor(DType::F16, vec![10.into()]),
                tensor(DType::F64, vec![999.into()]),
            ],
            launches: Vec::new(),
        };
        let launch = Launch {
            kernel: "k".into(),
            grid: Vec::new(),
            tensors: vec![1, 0, 1],
            cooperative: false,
            doc: String::new(),
        };
        let work = Work::of_tensors(&launch, &plan, &[("N".into(), 3)].into(), &h200());
        assert_eq!((work.bytes, work.ops()), (3.0 * 4.0 * 4.0 + 10.0 * 2.0, 0.0));
    }
}
