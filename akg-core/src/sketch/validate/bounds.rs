//! Loads without `else` stay inside their tensors.

use super::prove::nonnegative;
use super::walk::{Site, walk};
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::expr::Expr;
use crate::sketch::ir::*;

pub(super) fn check(program: &Program, out: &mut Diagnostics) {
    for kernel in &program.kernels {
        walk(kernel, &mut |site, statement| {
            let Stmt::Define { op, span, .. } = statement else {
                return;
            };
            let Op::Load {
                tensor,
                region,
                fill: None,
            } = op
            else {
                return;
            };
            let shape = program.shape(kernel, *tensor);
            if let Some(tensor) = program.tensors.get(tensor.0)
                && let Some(note) = objection(shape, region, site)
            {
                let message = format!(
                    "this load may leave `{}`; write `else` and what stands outside",
                    tensor.name
                );
                out.push(Diagnostic::error(message, span.clone()).note(note));
            }
        });
    }
}

fn objection(shape: &[Expr], region: &[Axis], site: &Site) -> Option<String> {
    for (i, (axis, extent)) in region.iter().zip(shape).enumerate() {
        let (first, last) = match axis {
            Axis::At(at) => (at.clone(), at.clone()),
            Axis::Range { start, .. } => ends(axis, start),
            Axis::AtTile(_) | Axis::Gather(_) => {
                return Some(format!(
                    "the coordinates of dimension {i} are computed by the kernel"
                ));
            }
        };
        if !nonnegative(&first, site) {
            return Some(format!(
                "in dimension {i} it starts at {first}, which may be negative"
            ));
        }
        let room = extent - &last - 1;
        if !nonnegative(&room, site) {
            return Some(format!(
                "in dimension {i} it reaches {last}, the extent is {extent}"
            ));
        }
    }
    None
}

/// The smallest and the largest coordinate of a range.
pub(super) fn ends(axis: &Axis, start: &Expr) -> (Expr, Expr) {
    let reach = match axis {
        Axis::Range { len, step, .. } => (*len as i64 - 1) * step,
        _ => 0,
    };
    let far = start.clone() + reach;
    if reach < 0 {
        (far, start.clone())
    } else {
        (start.clone(), far)
    }
}
