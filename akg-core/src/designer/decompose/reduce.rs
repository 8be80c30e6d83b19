//! Reductions, softmax and logsumexp.

use super::{Step, normalise};
use crate::designer::prim::{Prim, PrimId};
use crate::dtype::DType;
use crate::error::Result;
use crate::sketch::ir::{BinaryOp, CompareOp, ReduceOp, UnaryOp};

pub(super) fn decompose(s: &mut Step<'_>, name: &str) -> Result<Option<Vec<PrimId>>> {
    let overload = s.call.op().overload();
    let results = match (name, overload) {
        ("sum" | "mean" | "amax" | "amin" | "prod", _) => vec![simple(s, name)?],
        ("max" | "min", "default") => vec![simple(s, name)?],
        ("max" | "min", "dim") => {
            let op = if name == "max" {
                ReduceOp::Max
            } else {
                ReduceOp::Min
            };
            let x = ordered(s)?;
            let axis = s.dim("dim", s.prims.rank(x))?;
            let keep = s.call.bool("keepdim")?;
            let values = s.prims.reduce(op, x, &[axis], keep);
            vec![values, arg_reduce(s, op, x, axis, keep)]
        }
        ("argmax" | "argmin", _) => {
            let op = if name == "argmax" {
                ReduceOp::Max
            } else {
                ReduceOp::Min
            };
            let mut x = s.tensor("self")?;
            let keep = s.call.bool("keepdim")?;
            let axis = match s.call.opt_int("dim")? {
                Some(dim) => normalise(dim, s.prims.rank(x))?,
                None => {
                    x = s.prims.row(x);
                    0
                }
            };
            let index = arg_reduce(s, op, x, axis, keep);
            let shape = s.result(0)?.shape.clone();
            vec![s.prims.reshape(index, shape)]
        }
        ("logsumexp", _) => {
            let (x, axes, dtype) = (s.tensor("self")?, axes(s, "dim")?, s.dtype()?);
            let x = s.prims.cast(x, dtype);
            let (sum, max) = shifted_sum(s, x, &axes)?;
            let log = s.prims.unary(UnaryOp::Log, sum)?;
            let result = s.prims.add(log, max)?;
            let shape = s.result(0)?.shape.clone();
            vec![s.prims.reshape(result, shape)]
        }
        ("softmax" | "_softmax" | "log_softmax" | "_log_softmax", _) => {
            let (x, dtype) = (s.tensor("self")?, s.dtype()?);
            let x = s.prims.cast(x, dtype);
            let axis = s.dim("dim", s.prims.rank(x))?;
            vec![if name.contains("log") {
                log_softmax(s, x, axis)?
            } else {
                let (_, e, sum) = exponentials(s, x, axis)?;
                s.prims.div(e, sum)?
            }]
        }
        ("linalg_vector_norm", _) => {
            let order = s.call.number("ord")?;
            vec![vector_norm(s, order)?]
        }
        ("norm", _) => {
            let order = s.call.opt_number("p")?.unwrap_or(2.0);
            vec![vector_norm(s, order)?]
        }
        ("any" | "all", _) => vec![truth(s, name == "any")?],
        ("var" | "std", _) => {
            let (variance, _) = variance(s)?;
            vec![if name == "std" {
                s.prims.unary(UnaryOp::Sqrt, variance)?
            } else {
                variance
            }]
        }
        ("var_mean", _) => {
            let (variance, mean) = variance(s)?;
            vec![variance, mean]
        }
        ("std_mean", _) => {
            let (variance, mean) = variance(s)?;
            vec![s.prims.unary(UnaryOp::Sqrt, variance)?, mean]
        }
        _ => return Ok(None),
    };
    Ok(Some(results))
}

/// `x` less its maximum along `axis`, the exponential of that, and its sum.
pub(super) fn exponentials(s: &mut Step<'_>, x: PrimId, axis: usize) -> Result<(PrimId, PrimId, PrimId)> {
    let max = s.prims.reduce(ReduceOp::Max, x, &[axis], true);
    let shifted = s.prims.sub(x, max)?;
    let e = s.prims.unary(UnaryOp::Exp, shifted)?;
    let sum = s.prims.reduce(ReduceOp::Sum, e, &[axis], true);
    Ok((shifted, e, sum))
}

pub(super) fn log_softmax(s: &mut Step<'_>, x: PrimId, axis: usize) -> Result<PrimId> {
    let (shifted, _, sum) = exponentials(s, x, axis)?;
    let log = s.prims.unary(UnaryOp::Log, sum)?;
    s.prims.sub(shifted, log)
}

/// The dimensions that a reduction names; all if it names none.
fn axes(s: &Step<'_>, name: &str) -> Result<Vec<usize>> {
    let rank = s.prims.rank(s.tensor("self")?);
    let named = match s.call.opt_arg(name) {
        Some(_) => s
            .call
            .opt_int(name)
            .map_or_else(|_| s.call.ints(name), |dim| Ok(dim.into_iter().collect()))?,
        None => Vec::new(),
    };
    let mut axes: Vec<usize> = named
        .into_iter()
        .map(|d| normalise(d, rank))
        .collect::<Result<_>>()?;
    if axes.is_empty() {
        axes = (0..rank).collect();
    }
    axes.sort_unstable();
    Ok(axes)
}

fn simple(s: &mut Step<'_>, name: &str) -> Result<PrimId> {
    let (x, result) = (ordered(s)?, s.result(0)?.clone());
    let x = match result.dtype {
        DType::Bool => x,
        dtype => s.prims.cast(x, dtype),
    };
    let op = match name {
        "sum" | "mean" => ReduceOp::Sum,
        "prod" => ReduceOp::Prod,
        "max" | "amax" => ReduceOp::Max,
        _ => ReduceOp::Min,
    };
    let axes = axes(s, "dim")?;
    let reduced = if name == "mean" {
        s.prims.mean(x, &axes)?
    } else {
        s.prims.reduce(op, x, &axes, false)
    };
    Ok(s.prims.reshape(reduced, result.shape))
}

/// The operand, whose booleans become numbers that can be compared.
fn ordered(s: &mut Step<'_>) -> Result<PrimId> {
    let x = s.tensor("self")?;
    Ok(match s.prims.dtype(x) {
        DType::Bool => s.prims.cast(x, DType::I32),
        _ => x,
    })
}

fn arg_reduce(s: &mut Step<'_>, op: ReduceOp, x: PrimId, axis: usize, keep: bool) -> PrimId {
    let shape = s.prims.shape(x).to_vec();
    let kept = shape
        .iter()
        .enumerate()
        .filter(|(i, _)| *i != axis)
        .map(|(_, d)| d.clone())
        .collect();
    let index = if shape.get(axis).is_none_or(|extent| extent.is(1)) {
        s.prims.full(0.0, DType::I64, kept)
    } else {
        let x = s.prims.as_elements(x);
        s.prims.push(Prim::ArgReduce(op, x, axis), DType::I64, kept)
    };
    if keep {
        s.prims.restore(index, &shape, &[axis])
    } else {
        index
    }
}

/// `sum(exp(x - max))` and `max` over `axes`, kept; a maximum that is infinite is taken as 0 so that the difference
/// stays defined.
fn shifted_sum(s: &mut Step<'_>, x: PrimId, axes: &[usize]) -> Result<(PrimId, PrimId)> {
    let max = s.prims.reduce(ReduceOp::Max, x, axes, true);
    let magnitude = s.prims.unary(UnaryOp::Abs, max)?;
    let infinity = s.prims.number(f64::INFINITY);
    let infinite = s.prims.compare(CompareOp::Eq, magnitude, infinity)?;
    let zero = s.prims.number(0.0);
    let base = s.prims.select(infinite, zero, max)?;
    let shifted = s.prims.sub(x, base)?;
    let e = s.prims.unary(UnaryOp::Exp, shifted)?;
    Ok((s.prims.reduce(ReduceOp::Sum, e, axes, true), base))
}

/// Whether any element, or each, differs from zero.
fn truth(s: &mut Step<'_>, any: bool) -> Result<PrimId> {
    let (x, axes, result) = (s.tensor("self")?, axes(s, "dim")?, s.result(0)?.clone());
    let truths = s.prims.cast(x, DType::Bool);
    let truths = s.prims.cast(truths, DType::I32);
    let op = if any { ReduceOp::Max } else { ReduceOp::Min };
    let reduced = s.prims.reduce(op, truths, &axes, false);
    let reduced = s.prims.cast(reduced, result.dtype);
    Ok(s.prims.reshape(reduced, result.shape))
}

/// Variance, corrected for the degrees of freedom, and mean; in the shape of the result and in double precision, which also
/// holds the variances that a narrower type cannot although it holds their roots.
fn variance(s: &mut Step<'_>) -> Result<(PrimId, PrimId)> {
    let (x, axes, result) = (s.tensor("self")?, axes(s, "dim")?, s.result(0)?.clone());
    let correction = match s.call.opt_arg("correction") {
        Some(_) => s.call.opt_number("correction")?.unwrap_or(1.0),
        None => f64::from(s.call.bool("unbiased")?),
    };
    let (mean, mut variance) = s.prims.centred_moments(x, &axes)?;
    if correction != 0.0 {
        variance = s.prims.corrected(variance, x, &axes, correction)?;
    }
    let variance = s.prims.reshape(variance, result.shape.clone());
    Ok((variance, s.prims.reshape(mean, result.shape)))
}

fn vector_norm(s: &mut Step<'_>, order: f64) -> Result<PrimId> {
    let (x, result) = (s.tensor("self")?, s.result(0)?.clone());
    let x = s.prims.cast(x, result.dtype);
    let axes = axes(s, "dim")?;
    let magnitude = s.prims.unary(UnaryOp::Abs, x)?;
    let norm = if order == 2.0 {
        let squares = s.prims.mul(x, x)?;
        let sum = s.prims.reduce(ReduceOp::Sum, squares, &axes, false);
        s.prims.unary(UnaryOp::Sqrt, sum)?
    } else if order == 1.0 {
        s.prims.reduce(ReduceOp::Sum, magnitude, &axes, false)
    } else if order == f64::INFINITY {
        s.prims.reduce(ReduceOp::Max, magnitude, &axes, false)
    } else if order == f64::NEG_INFINITY {
        s.prims.reduce(ReduceOp::Min, magnitude, &axes, false)
    } else if order == 0.0 {
        let zero = s.prims.number(0.0);
        let counts = s.prims.compare(CompareOp::Ne, x, zero)?;
        let counts = s.prims.cast(counts, result.dtype);
        s.prims.reduce(ReduceOp::Sum, counts, &axes, false)
    } else {
        let (order, root) = (s.prims.number(order), s.prims.number(1.0 / order));
        let powers = s.prims.binary(BinaryOp::Pow, magnitude, order)?;
        let sum = s.prims.reduce(ReduceOp::Sum, powers, &axes, false);
        s.prims.binary(BinaryOp::Pow, sum, root)?
    };
    Ok(s.prims.reshape(norm, result.shape))
}
