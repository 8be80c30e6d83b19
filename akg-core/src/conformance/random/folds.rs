//! Calls that go along dimensions: reductions, softmax, scans.

use crate::dtype::DType;
use crate::error::Result;
use crate::graph::ValueId;

use super::grow::{Grower, closed};

/// Something to reduce, of any type now and then, with at least one dimension mostly.
fn operand(g: &mut Grower) -> Result<ValueId> {
    if g.chance(0.15) {
        return g.value(|_, _| true);
    }
    let least = i64::from(g.chance(0.9));
    g.float(least, 5)
}

pub(super) fn reduction(g: &mut Grower) -> Result<()> {
    let x = operand(g)?;
    let is_all = g.rank(x) == 0 || g.chance(0.15);
    let dims = if is_all { Vec::new() } else { g.dims(x)? };
    let keep = g.chance(0.5);
    match g.below(10) {
        0..3 => g.graph.sum(x, &dims, keep).map(drop),
        3..5 => g.graph.mean(x, &dims, keep).map(drop),
        5 => g.graph.amax(x, &dims, keep).map(drop),
        6 => g.graph.amin(x, &dims, keep).map(drop),
        7 => g.graph.logsumexp(x, &dims, keep).map(drop),
        8 => {
            let x = if g.dtype(x) == DType::Bool {
                x
            } else {
                g.graph.gt(x, 0.5)?
            };
            if g.chance(0.5) {
                g.graph.any(x, &dims, keep).map(drop)
            } else {
                g.graph.all(x, &dims, keep).map(drop)
            }
        }
        _ => {
            let Some(dim) = dims.first().copied() else {
                return closed();
            };
            match g.below(3) {
                0 => g.graph.max_dim(x, dim, keep).map(drop),
                1 => g.graph.min_dim(x, dim, keep).map(drop),
                _ => {
                    let args = [("self", x.into()), ("dim", dim.into()), ("keepdim", keep.into())];
                    g.call("prod.dim_int", args).map(drop)
                }
            }
        }
    }
}

pub(super) fn index_of_extremum(g: &mut Grower) -> Result<()> {
    let x = g.float(1, 5)?;
    let (dim, keep) = (g.dim(x)?, g.chance(0.3));
    let op = if g.chance(0.5) {
        "argmax.default"
    } else {
        "argmin.default"
    };
    let mut args = vec![("self", x.into()), ("keepdim", keep.into())];
    if g.chance(0.85) {
        args.push(("dim", dim.into()));
    }
    g.graph.call(op, args).map(drop)
}

/// Variances and norms.
pub(super) fn spread(g: &mut Grower) -> Result<()> {
    let x = g.float(1, 5)?;
    let (dims, keep, correction) = (g.dims(x)?, g.chance(0.5), g.below(2));
    let list = || dims.as_slice().into();
    match g.below(5) {
        0 => g.graph.var(x, &dims, correction, keep).map(drop),
        1 => g.graph.std(x, &dims, correction, keep).map(drop),
        2 => {
            let op = if g.chance(0.5) {
                "var_mean.correction"
            } else {
                "std_mean.correction"
            };
            let args = [
                ("self", x.into()),
                ("dim", list()),
                ("correction", correction.into()),
                ("keepdim", keep.into()),
            ];
            g.call(op, args).map(drop)
        }
        3 => {
            let order = g.pick(&[1.0, 2.0, 2.0, 3.0, f64::INFINITY, f64::NEG_INFINITY, 0.0])?;
            let args = [
                ("self", x.into()),
                ("ord", order.into()),
                ("dim", list()),
                ("keepdim", keep.into()),
            ];
            g.call("linalg_vector_norm.default", args).map(drop)
        }
        _ => {
            let args = [
                ("self", x.into()),
                ("p", 2.0.into()),
                ("dim", list()),
                ("keepdim", keep.into()),
            ];
            g.call("norm.ScalarOpt_dim", args).map(drop)
        }
    }
}

pub(super) fn softmax(g: &mut Grower) -> Result<()> {
    let x = g.float(1, 5)?;
    let dim = g.dim(x)?;
    if g.chance(0.65) {
        g.graph.softmax(x, dim).map(drop)
    } else {
        g.graph.log_softmax(x, dim).map(drop)
    }
}

pub(super) fn scan(g: &mut Grower) -> Result<()> {
    let x = operand(g)?;
    let dim = g.dim(x)?;
    if g.chance(0.75) {
        return g.graph.cumsum(x, dim).map(drop);
    }
    // About one, so that products neither vanish nor grow.
    let x = g.graph.tanh(x)?;
    let x = g.graph.mul(x, 0.02)?;
    let x = g.graph.add(x, 1.0)?;
    g.graph.cumprod(x, dim).map(drop)
}
