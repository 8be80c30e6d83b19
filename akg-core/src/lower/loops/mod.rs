//! The mapping for loop machines: tiles become loops over scalars.
//!
//! A tile value is not an array but a rule that computes one element, evaluated in the loops of whatever consumes it: a
//! store, a reduction, a scan, an operand of a dot. Arrays remain for dot operands and accumulators, for carried values,
//! and for results that are dear and used more than once. Bounds are checked once for a whole tile where that is
//! possible: stores clip their loops, and other loops exist in a version for the interior and one for the border.

mod added;
mod ahead;
mod boxes;
mod checks;
mod choice;
mod collect;
mod control;
mod cost;
mod dot;
mod effect;
mod element;
mod ends;
mod fold;
mod inside;
pub mod ir;
mod mapper;
mod names;
mod nest;
mod node;
mod pack;
mod parts;
mod rows;
mod storage;
mod stream;
mod sums;
mod uses;

use crate::error::Result;
use crate::sketch::ir as sketch;
use crate::target::Target;

pub use ir::LoopKernel;
pub use names::{Names, is_macro_like};

/// What the mapping must know of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Machine {
    /// Bytes of a vector register, at least 16.
    pub vector_bytes: usize,
    /// The number of vector registers.
    pub vector_registers: usize,
    /// Bytes from which on a tensor is written past the caches: the last one's size.
    pub stream_bytes: u64,
}

impl Machine {
    /// The machine of a CPU target.
    pub fn new(target: &Target) -> Self {
        let many = target.features.contains("avx512f") || target.arch.starts_with("aarch64");
        Self {
            vector_bytes: target.vector_bytes.clamp(16, 64).next_power_of_two() as usize,
            vector_registers: if many { 32 } else { 16 },
            stream_bytes: target.caches.last().copied().unwrap_or(u64::MAX),
        }
    }
}

/// Maps every kernel of `program`, which must be valid, in launch order.
///
/// Names in `reserved` (keywords, names of a prelude) are not used for anything.
pub fn map(program: &sketch::Program, machine: Machine, reserved: &[&str]) -> Result<Vec<LoopKernel>> {
    let mut names = Names::new(reserved);
    program
        .kernels
        .iter()
        .map(|kernel| {
            let mut mapped = mapper::Mapper::new(program, kernel, machine, reserved)?.run()?;
            mapped.name = names.fresh(&mapped.name).to_string();
            Ok(mapped)
        })
        .collect()
}
