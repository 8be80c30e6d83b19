//! The ways in which PyTorch runs a task, and the precisions.

use akg_core::Accuracy;

/// How PyTorch runs a task, at the precision of an accuracy class:
///
/// - [`Fp32`](Accuracy::Fp32): float32 products in full, `torch.set_float32_matmul_precision("highest")`.
/// - [`Tf32`](Accuracy::Tf32): the same with `"high"`.
/// - [`Half`](Accuracy::Half): `"high"`, in `torch.autocast` to float16, which every call enters. Parameters and inputs are
///   as the task has them, and each call converts what it needs. What it returns gets the task's types when outputs are
///   asked for, never during an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Variant {
    /// Operator by operator.
    Eager(Accuracy),
    /// Through `torch.compile` with its defaults.
    Compiled(Accuracy),
}

impl Variant {
    /// What a candidate of a class is compared with: both variants in fp32, which all classes share, and, in another class,
    /// both at its own precision.
    pub fn rivals(class: Accuracy) -> Vec<Variant> {
        let own = (class != Accuracy::Fp32).then_some(class);
        let precisions = [Accuracy::Fp32].into_iter().chain(own);
        precisions
            .flat_map(|precision| [Variant::Eager(precision), Variant::Compiled(precision)])
            .collect()
    }

    /// The name in reports, which tells every variant from all others.
    pub const fn name(self) -> &'static str {
        match self {
            Variant::Eager(Accuracy::Fp32) => "PyTorch eager",
            Variant::Eager(Accuracy::Tf32) => "PyTorch eager (tf32)",
            Variant::Eager(Accuracy::Half) => "PyTorch eager (half)",
            Variant::Compiled(Accuracy::Fp32) => "torch.compile",
            Variant::Compiled(Accuracy::Tf32) => "torch.compile (tf32)",
            Variant::Compiled(Accuracy::Half) => "torch.compile (half)",
        }
    }

    /// The class at whose precision it runs.
    pub const fn precision(self) -> Accuracy {
        match self {
            Variant::Eager(precision) | Variant::Compiled(precision) => precision,
        }
    }
}
