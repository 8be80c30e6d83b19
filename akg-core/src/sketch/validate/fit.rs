//! Whether numbers fit: tiles the device, dot methods their operands, indices 32 bits.

use std::collections::BTreeMap;

use super::walk::{Site, walk};
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::dtype::{DType, DTypeClass};
use crate::expr::Expr;
use crate::lower::analysis::liveness;
use crate::sketch::ir::*;
use crate::target::Target;

pub(super) fn check(program: &Program, target: Option<&Target>, out: &mut Diagnostics) {
    for kernel in &program.kernels {
        if let Some(target) = target {
            let bytes = liveness(kernel).peak_bytes as u64;
            if bytes > target.tile_bytes {
                let name = &kernel.name;
                let message = format!(
                    "the tiles of kernel `{name}` need {bytes} bytes at once, {} has {} for a program",
                    target.name, target.tile_bytes
                );
                out.push(Diagnostic::warning(message, 0..0).note("choose smaller tile knobs"));
            }
        }
        let mut ranges = BTreeMap::new();
        walk(kernel, &mut |site, statement| match statement {
            Stmt::For(l) if l.axes.iter().any(|a| a.step <= 0) => {
                out.push(Diagnostic::error(
                    "a loop's step must be positive",
                    l.span.clone(),
                ));
            }
            Stmt::Define { value, op, span } => {
                if let Op::Dot { a, method, .. } = op
                    && let Some(message) =
                        method_objection(*method, kernel.ty(*a).dtype, kernel.ty(*value).dtype)
                {
                    out.push(Diagnostic::error(message, span.clone()));
                }
                let ty = kernel.ty(*value);
                let iota =
                    matches!(op, Op::Iota).then(|| (0, ty.extents.iter().product::<usize>() as i128 - 1));
                if let Some(range) = iota.or_else(|| range(kernel, op, &ranges, site)) {
                    let dtype = ty.dtype;
                    if dtype == DType::I32
                        && (range.0 < i128::from(i32::MIN) || range.1 > i128::from(i32::MAX))
                    {
                        let message =
                            format!("this index may reach {}, beyond 32 bits; make it i64", range.1);
                        let note = "cast before adding: `i64(iota(N)) + i64(offset)`";
                        out.push(Diagnostic::error(message, span.clone()).note(note));
                    } else {
                        ranges.insert(*value, range);
                    }
                }
            }
            _ => {}
        });
    }
}

fn method_objection(method: DotMethod, operand: DType, result: DType) -> Option<String> {
    let needed = match method {
        DotMethod::Ieee => None,
        DotMethod::Tf32 => Some(DType::F32),
        DotMethod::F16 => Some(DType::F16),
        DotMethod::Bf16 => Some(DType::BF16),
    };
    let name = method.name();
    match needed {
        Some(needed) if operand != needed => Some(format!(
            "`dot … {name}` multiplies {needed} operands, but these are {operand}; cast them: `{needed}(…)`"
        )),
        Some(_) if !matches!(result, DType::F32 | DType::F64) => Some(format!(
            "`dot … {name}` sums in f32, but the accumulator is {result}; make it f32 and cast the result"
        )),
        None if operand == DType::Bool => Some("`dot` of booleans; cast the operands to i32".to_owned()),
        None if operand.class() != result.class() => Some(format!(
            "`dot` of {operand} operands cannot add to an accumulator of {result}"
        )),
        _ => None,
    }
}

/// The values that an integer tile takes, as far as they follow from indices; `None` if unknown.
fn range(
    kernel: &Kernel,
    op: &Op,
    ranges: &BTreeMap<Val, (i128, i128)>,
    site: &Site,
) -> Option<(i128, i128)> {
    let of = |v: &Val| ranges.get(v).copied();
    match op {
        Op::Index(expr) => index_range(expr, site),
        Op::Full(Scalar::Int(value)) => Some((i128::from(*value), i128::from(*value))),
        Op::Reshape(a) | Op::Transpose(a, _) => of(a),
        Op::Cast(a) if kernel.ty(*a).dtype.class() == DTypeClass::Int => of(a),
        Op::Binary(BinaryOp::Add, a, b) => {
            let (a, b) = (of(a)?, of(b)?);
            Some((a.0 + b.0, a.1 + b.1))
        }
        Op::Binary(BinaryOp::Mul, a, b) => {
            let (a, b) = (of(a)?, of(b)?);
            let corners = [(a.0, b.0), (a.0, b.1), (a.1, b.0), (a.1, b.1)];
            let products: Option<Vec<_>> = corners.iter().map(|(x, y)| x.checked_mul(*y)).collect();
            let products = products?;
            Some((*products.iter().min()?, *products.iter().max()?))
        }
        _ => None,
    }
}

fn index_range(expr: &Expr, site: &Site) -> Option<(i128, i128)> {
    let (lo, hi) = expr.bounds(&|name| {
        let index = site.indices.iter().find(|i| *i.symbol == *name)?;
        Some((index.lo.as_const()?, index.last().as_const()?))
    })?;
    Some((i128::from(lo), i128::from(hi)))
}
