//! Small kernels that a backend is tried with.

use serde::{Deserialize, Serialize};

use crate::dtype::DType;
use crate::expr::Expr;
use crate::source::{Launch, LaunchPlan, PlanTensor, TensorRole};

/// What a kernel does that a backend is tried with. All have a dim `N`, an input `x: f32[N]` and an output `y: f32[N]`;
/// [`plan`](Self::plan) says which kernels there are, on which tensors, with how many programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Probe {
    /// Kernel `probe(x, y)`, N programs: program p writes `y[p] = 2 * x[p]`.
    Double,
    /// Kernel `probe(x, y)`, ⌈N/2⌉ programs: program p writes `y[p] = 2 * x[p]`; the rest is never written.
    WriteHalf,
    /// Kernel `probe(x, y)`, N programs: program p writes `y[p] = 2 * x[p]` and `x[p] = 0`.
    OverwriteInput,
    /// Kernel `probe(x, y, t)`, N programs: program p writes `y[p] = t[p]`, where `t: f32[N]` is scratch that nobody
    /// wrote.
    ReadScratch,
    /// Kernels `probe(x, t)` and `second(t, y)`, N programs each, in this order: program p of the first writes
    /// `t[p] = 2 * x[p]` to the scratch `t: f32[N]`, program p of the second `y[p] = t[N - 1 - p]`.
    TwoKernels,
    /// Kernel `probe(x, y)`, N programs: reads an address that does not exist.
    Crash,
    /// Kernel `probe(x, y)`, N programs: never ends.
    Hang,
    /// Kernel `probe(x, y)`, N programs: takes memory, and writes to it, until there is no more.
    TakeMemory,
}

impl Probe {
    /// Every probe.
    pub const ALL: [Probe; 8] = [
        Probe::Double,
        Probe::WriteHalf,
        Probe::OverwriteInput,
        Probe::ReadScratch,
        Probe::TwoKernels,
        Probe::Crash,
        Probe::Hang,
        Probe::TakeMemory,
    ];

    /// The plan of an artifact that does this.
    pub fn plan(self) -> LaunchPlan {
        let n = Expr::symbol("N");
        let tensor = |name: &str, role| PlanTensor {
            name: name.to_owned(),
            dtype: DType::F32,
            shape: vec![n.clone()],
            role,
            align: 64,
            holds: None,
            updates: None,
        };
        let mut tensors = vec![tensor("x", TensorRole::Input), tensor("y", TensorRole::Output)];
        if matches!(self, Probe::ReadScratch | Probe::TwoKernels) {
            tensors.push(tensor("t", TensorRole::Scratch));
        }
        let launch = |kernel: &str, programs: &Expr, tensors: &[usize]| Launch {
            kernel: kernel.to_owned(),
            grid: vec![programs.clone()],
            tensors: tensors.to_vec(),
            cooperative: false,
            doc: String::new(),
        };
        let launches = match self {
            Probe::WriteHalf => vec![launch("probe", &n.ceil_div(&2.into()), &[0, 1])],
            Probe::ReadScratch => vec![launch("probe", &n, &[0, 1, 2])],
            Probe::TwoKernels => vec![launch("probe", &n, &[0, 2]), launch("second", &n, &[2, 1])],
            _ => vec![launch("probe", &n, &[0, 1])],
        };
        LaunchPlan {
            dims: vec!["N".into()],
            tensors,
            launches,
        }
    }
}
