//! What scalar operators cost, in simple operations.

use crate::sketch::ir::{BinaryOp, UnaryOp};

pub(super) fn unary(op: UnaryOp) -> u32 {
    use UnaryOp as U;
    match op {
        U::Neg | U::Not | U::Abs | U::IsNan | U::Floor | U::Ceil | U::Round | U::Trunc => 1,
        U::Sqrt | U::Rsqrt | U::Pow2Floor => 4,
        _ => 12,
    }
}

pub(super) fn binary(op: BinaryOp) -> u32 {
    use BinaryOp as B;
    match op {
        B::Div | B::FloorDiv | B::Mod | B::Ldexp => 4,
        B::Pow => 24,
        B::Philox => 60,
        _ => 1,
    }
}
