//! Checks a typed program: what it reads and writes, in which order, and whether it fits the device.
//!
//! Errors are wrong programs. Warnings are what cannot be decided for unknown extents, or what a device may refuse.

mod bounds;
mod coverage;
mod fit;
mod lanes;
mod order;
mod prove;
mod tiling;
mod trace;
mod walk;

use super::ir::Program;
use crate::diagnostic::Diagnostics;
use crate::target::Target;

/// Every objection to `program`:
/// - a load without `else` that may leave its tensor;
/// - an element of an output or buffer that is written twice or never, or read before it is written; an output that
///   updates an input begins as its contents, and the input is not read;
/// - programs of one kernel that read what others write, misplaced barriers;
/// - lanes outside a tensor that change a reduction, scan or dot;
/// - `dot` methods that do not fit their operands, loops that do not advance, 32-bit indices that overflow;
/// - tiles that do not fit `target`, if one is given.
pub fn validate(program: &Program, target: Option<&Target>) -> Diagnostics {
    let mut out = Diagnostics::new();
    bounds::check(program, &mut out);
    coverage::check(program, &mut out);
    order::check(program, &mut out);
    lanes::check(program, &mut out);
    fit::check(program, target, &mut out);
    // The kernels of a template share their text.
    let mut once = Diagnostics::new();
    for diagnostic in out {
        if !once.iter().any(|d| *d == diagnostic) {
            once.push(diagnostic);
        }
    }
    once.sort();
    once
}
