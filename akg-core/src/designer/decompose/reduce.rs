//! Reductions, softmax and logsumexp.

use super::{Step, normalise};
use crate::designer::prim::{Prim, PrimId};
use crate::dtype::DType;
use crate::error::Result;
use crate::expr::Expr;
use crate::sketch::ir::{CompareOp, ReduceOp, UnaryOp};

pub(super) fn decompose(s: &mut Step<'_>, name: &str) -> Result<Option<Vec<PrimId>>> {
    let overload = s
        .call
        .op()
        .name()
        .split('.')
        .nth(1)
        .unwrap_or_default()
        .to_owned();
    let results = match (name, overload.as_str()) {
        ("sum" | "mean" | "amax" | "amin" | "prod", _) => vec![simple(s, name)?],
        ("max" | "min", "default") => vec![simple(s, name)?],
        ("max" | "min", "dim") => {
            let op = if name == "max" {
                ReduceOp::Max
            } else {
                ReduceOp::Min
            };
            let x = s.tensor("self")?;
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
                    let count = s.prims.shape(x).iter().fold(Expr::constant(1), |n, d| &n * d);
                    x = s.prims.reshape(x, vec![count]);
                    0
                }
            };
            let index = arg_reduce(s, op, x, axis, keep);
            let shape = s.result(0)?.shape.clone();
            vec![s.prims.reshape(index, shape)]
        }
        ("logsumexp", _) => {
            let (x, axes) = (s.tensor("self")?, axes(s, "dim")?);
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
        ("linalg_vector_norm", _) => vec![vector_norm(s)?],
        _ => return Ok(None),
    };
    Ok(Some(results))
}

/// `x` less its maximum along `axis`, the exponential of that, and its sum.
fn exponentials(s: &mut Step<'_>, x: PrimId, axis: usize) -> Result<(PrimId, PrimId, PrimId)> {
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
    let mut axes: Vec<usize> = s
        .call
        .ints(name)?
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
    let (x, result) = (s.tensor("self")?, s.result(0)?.clone());
    let x = s.prims.cast(x, result.dtype);
    let op = match name {
        "sum" | "mean" => ReduceOp::Sum,
        "prod" => ReduceOp::Prod,
        "max" | "amax" => ReduceOp::Max,
        _ => ReduceOp::Min,
    };
    let rank = s.prims.rank(x);
    let axes = if s.call.arg("dim").is_err() {
        (0..rank).collect()
    } else if let Ok(Some(dim)) = s.call.opt_int("dim") {
        vec![normalise(dim, rank)?]
    } else {
        axes(s, "dim")?
    };
    let reduced = if name == "mean" {
        s.prims.mean(x, &axes)?
    } else {
        s.prims.reduce(op, x, &axes, false)
    };
    Ok(s.prims.reshape(reduced, result.shape))
}

fn arg_reduce(s: &mut Step<'_>, op: ReduceOp, x: PrimId, axis: usize, keep: bool) -> PrimId {
    let shape = s.prims.shape(x).to_vec();
    let kept = shape
        .iter()
        .enumerate()
        .filter(|(i, _)| *i != axis)
        .map(|(_, d)| d.clone())
        .collect();
    let x = s.prims.without_padding(x);
    let index = s.prims.push(Prim::ArgReduce(op, x, axis), DType::I64, kept);
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

fn vector_norm(s: &mut Step<'_>) -> Result<PrimId> {
    let (x, result) = (s.tensor("self")?, s.result(0)?.clone());
    let x = s.prims.cast(x, result.dtype);
    let axes = axes(s, "dim")?;
    let order = s.call.number("ord")?;
    let magnitude = s.prims.unary(UnaryOp::Abs, x)?;
    let norm = if order == 2.0 {
        let squares = s.prims.mul(x, x)?;
        let sum = s.prims.reduce(ReduceOp::Sum, squares, &axes, false);
        s.prims.unary(UnaryOp::Sqrt, sum)?
    } else if order == 1.0 {
        s.prims.reduce(ReduceOp::Sum, magnitude, &axes, false)
    } else if order == f64::INFINITY {
        s.prims.reduce(ReduceOp::Max, magnitude, &axes, false)
    } else {
        return Err(crate::Error::unsupported(format!(
            "no design rule yet for the vector norm of order {order}"
        )));
    };
    Ok(s.prims.reshape(norm, result.shape))
}
