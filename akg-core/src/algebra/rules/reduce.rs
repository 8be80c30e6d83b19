//! Sums, means and extrema: what moves out of them, and what merges.

use egg::Id;

use super::read::{PERMUTATIONS, SCALES, SHIFTS, SUMS, count, is_product, order, reduction, scaled, shifted};
use super::{Found, Kind, Rule};
use crate::algebra::facts::{EXPANSIONS, VIEWS};
use crate::algebra::site::{Site, arg};
use crate::expr::Expr;
use crate::graph::Arg;
use crate::task::Accuracy;

pub(super) const RULES: &[Rule] = &[
    Rule {
        name: "scale-out-of-sum",
        kind: Kind::Reassociating(Accuracy::Fp32),
        statement: "the sum or mean of c * x is c * that of x",
        roots: SUMS,
        inner: SCALES,
        apply: |site, at| {
            reduction(site, at.node)?;
            let (x, by) = scaled(site, at.inner).filter(|(x, _)| site.is_wide(*x))?;
            let reduced = site.again(at.node, [("self", arg(x))])?;
            site.scale(reduced, by)
        },
    },
    Rule {
        name: "shift-out-of-sum",
        kind: Kind::Reassociating(Accuracy::Fp32),
        statement: "the sum or mean of x + c is that of x, + n * c or c, if x is a product",
        roots: SUMS,
        inner: SHIFTS,
        apply: |site, at| {
            let read = reduction(site, at.node)?;
            let (x, by) = shifted(site, at.inner).filter(|(x, _)| site.is_wide(*x))?;
            if !is_product(site, x) {
                return None;
            }
            let times = if read.is_mean {
                1.0
            } else {
                count(&site.shape(x)?, &read.axes)?
            };
            let reduced = site.again(at.node, [("self", arg(x))])?;
            site.shift(reduced, by * times)
        },
    },
    Rule {
        name: "factor-out-of-sum",
        kind: Kind::Reassociating(Accuracy::Fp32),
        statement: "the sum or mean of x * s, x / s is that of x, * s or / s, if s is the same for all that is added",
        roots: SUMS,
        inner: &["mul.Tensor", "div.Tensor"],
        apply: |site, at| {
            let read = reduction(site, at.node)?;
            let sides = [("self", "other"), ("other", "self")];
            let sides = sides
                .iter()
                .filter(|(x, _)| *x == "self" || at.inner.name() == "mul.Tensor");
            for (x, s) in sides {
                let (x, s) = (at.inner.operand(x)?, at.inner.operand(s)?);
                let whole = site.facts(x).ty() == at.inner.ty() && site.is_wide(x);
                if whole
                    && let Some(s) = constant_along(site, s, x, &read.axes, &read.rest(&at.inner.ty()?.shape))
                {
                    let reduced = site.again(at.node, [("self", arg(x))])?;
                    return site.call(at.inner.name(), [("self", arg(reduced)), ("other", arg(s))]);
                }
            }
            None
        },
    },
    Rule {
        name: "term-out-of-sum",
        kind: Kind::Reassociating(Accuracy::Fp32),
        statement: "the sum or mean of x + s, x - s is that of x, + or - n * s or s, if x is a product and s the same for \
                    all that is added",
        roots: SUMS,
        inner: &["add.Tensor", "sub.Tensor"],
        apply: |site, at| {
            let read = reduction(site, at.node)?;
            let shape = at.inner.ty()?.shape.clone();
            for (own, other) in [("self", "other"), ("other", "self")] {
                let (x, s) = (at.inner.operand(own)?, at.inner.operand(other)?);
                let whole = site.facts(x).ty() == at.inner.ty() && site.is_wide(x) && is_product(site, x);
                if !whole || site.facts(s).ty()?.dtype != site.facts(x).ty()?.dtype {
                    continue;
                }
                let Some(mut s) = constant_along(site, s, x, &read.axes, &read.rest(&shape)) else {
                    continue;
                };
                if !read.is_mean {
                    s = site.scale(s, count(&shape, &read.axes)?)?;
                }
                let reduced = site.again(at.node, [("self", arg(x))])?;
                return site.again(at.inner, [(own, arg(reduced)), (other, arg(s))]);
            }
            None
        },
    },
    Rule {
        name: "sum-of-sum",
        kind: Kind::Reassociating(Accuracy::Fp32),
        statement: "the sum of sums, the mean of means, is one sum, one mean over the axes of both",
        roots: SUMS,
        inner: SUMS,
        apply: |site, at| {
            let is_mean = |name: &str| name.starts_with("mean");
            if is_mean(at.node.name()) != is_mean(at.inner.name()) {
                return None;
            }
            let op = if is_mean(at.node.name()) {
                "mean.dim"
            } else {
                "sum.dim_IntList"
            };
            merged(site, at, op)
        },
    },
    Rule {
        name: "extremum-of-extremum",
        kind: Kind::Exact,
        statement: "the largest of the largest, the smallest of the smallest, is one over the axes of both",
        roots: EXTREMA,
        inner: EXTREMA,
        apply: |site, at| {
            let same = at.node.name() == at.inner.name();
            same.then(|| merged(site, at, at.node.name()))?
        },
    },
    Rule {
        name: "sum-before-permutation",
        kind: Kind::Reassociating(Accuracy::Fp32),
        statement: "the sum or mean of a permuted x is the permuted sum or mean of x",
        roots: SUMS,
        inner: PERMUTATIONS,
        apply: before_permutation,
    },
    Rule {
        name: "extremum-before-permutation",
        kind: Kind::Exact,
        statement: "the extremum of a permuted x is the permuted extremum of x",
        roots: EXTREMA,
        inner: PERMUTATIONS,
        apply: before_permutation,
    },
    Rule {
        name: "whole-sum-of-view",
        kind: Kind::Reassociating(Accuracy::Fp32),
        statement: "the sum or mean of all elements is that of any view of them",
        roots: SUMS,
        inner: VIEWS,
        apply: |site, at| {
            let read = reduction(site, at.node).filter(|r| site.is_wide(r.x))?;
            let x = at.inner.operand("self")?;
            if read.axes.len() != at.inner.ty()?.rank() {
                return None;
            }
            let whole = if read.is_mean {
                "mean.default"
            } else {
                "sum.default"
            };
            let reduced = site.call(whole, [("self", arg(x))])?;
            site.reshape(reduced, &at.node.ty()?.shape)
        },
    },
    Rule {
        name: "sum-before-expansion",
        kind: Kind::Reassociating(Accuracy::Fp32),
        statement: "the sum or mean of an x repeated along n is n times the sum, once the mean, of x",
        roots: SUMS,
        inner: EXPANSIONS,
        apply: |site, at| {
            let read = reduction(site, at.node).filter(|r| site.is_wide(r.x))?;
            let x = at.inner.operand("self")?;
            let (narrow, wide) = (site.shape(x)?, &at.inner.ty()?.shape);
            if narrow.len() != wide.len() {
                return None;
            }
            let reduced = site.again(at.node, [("self", arg(x))])?;
            if read.is_mean {
                return Some(reduced);
            }
            let repeated = |a: &usize| narrow.get(*a) != wide.get(*a);
            let axes: Vec<usize> = read.axes.iter().copied().filter(repeated).collect();
            site.scale(reduced, count(wide, &axes)?)
        },
    },
    Rule {
        name: "extremum-before-expansion",
        kind: Kind::Exact,
        statement: "the extremum of an x repeated along the axes is that of x",
        roots: EXTREMA,
        inner: EXPANSIONS,
        apply: |site, at| {
            let read = reduction(site, at.node)?;
            let x = at.inner.operand("self")?;
            let (narrow, wide) = (site.shape(x)?, &at.inner.ty()?.shape);
            let kept_alike = (0..wide.len()).all(|a| read.axes.contains(&a) || narrow.get(a) == wide.get(a));
            (narrow.len() == wide.len() && kept_alike).then(|| site.again(at.node, [("self", arg(x))]))?
        },
    },
    Rule {
        name: "scale-out-of-extremum",
        kind: Kind::Exact,
        statement: "the extremum of c * x is c * that of x if c > 0",
        roots: MONOTONE_READERS,
        inner: SCALES,
        apply: |site, at| {
            let (x, _) = scaled(site, at.inner).filter(|(_, by)| *by > 0.0)?;
            after_extremum(site, at, x)
        },
    },
    Rule {
        name: "shift-out-of-extremum",
        kind: Kind::Exact,
        statement: "the extremum of x + c is that of x, + c",
        roots: MONOTONE_READERS,
        inner: SHIFTS,
        apply: |site, at| {
            let (x, _) = shifted(site, at.inner)?;
            after_extremum(site, at, x)
        },
    },
    Rule {
        name: "extremum-before-function",
        kind: Kind::Exact,
        statement: "the extremum of f(x) is f of that of x if f never falls: relu, sigmoid, tanh, exp, clamps",
        roots: MONOTONE_READERS,
        inner: MONOTONE,
        apply: |site, at| {
            let x = at.inner.operand("self").filter(|x| site.is_float(*x))?;
            let falls = at.inner.number("negative_slope").is_some_and(|slope| slope < 0.0);
            // A window that lies in the padding has no element that f could take.
            let apart = at
                .node
                .ints("dilation")
                .is_some_and(|list| list.iter().any(|d| *d != 1));
            if falls || apart || at.node.flag("ceil_mode") {
                return None;
            }
            let reduced = site.again(at.node, [("self", arg(x))])?;
            site.again(at.inner, [("self", arg(reduced))])
        },
    },
    Rule {
        name: "pooling-as-mean",
        kind: Kind::Exact,
        statement: "average pooling to one element, or over one window, is a mean",
        roots: POOLS,
        inner: &[],
        apply: |site, at| {
            let x = at.node.operand("self").filter(|x| site.is_float(*x))?;
            let adaptive = at.node.name().contains("adaptive");
            let spatial: usize = at.node.name().split_once("pool")?.1.get(..1)?.parse().ok()?;
            let (shape, result) = (site.shape(x)?, &at.node.ty()?.shape);
            let first = shape.len().checked_sub(spatial)?;
            let whole = matches!(at.node.arg("divisor_override"), None | Some(Arg::None));
            if !result.iter().skip(first).all(|d| d.is(1)) || !whole {
                return None;
            }
            if !adaptive {
                let kernel = at.node.per_axis("kernel_size", spatial)?;
                let covers = shape.iter().skip(first).zip(&kernel).all(|(d, k)| d.is(*k));
                if !covers || at.node.ints("padding")?.iter().any(|p| *p != 0) {
                    return None;
                }
            }
            let dims: Vec<i64> = (first..shape.len()).map(|d| d as i64).collect();
            let args = [
                ("self", arg(x)),
                ("dim", dims.as_slice().into()),
                ("keepdim", true.into()),
            ];
            site.call("mean.dim", args)
        },
    },
];

const EXTREMA: &[&str] = &["amax.default", "amin.default"];

/// Operators whose elements are each the largest, or each the smallest, of some of the operand's.
const MONOTONE_READERS: &[&str] = &[
    "amax.default",
    "amin.default",
    "max_pool1d.default",
    "max_pool2d.default",
    "max_pool3d.default",
];

/// Functions of single elements that never fall.
const MONOTONE: &[&str] = &[
    "clamp.default",
    "clamp_max.default",
    "clamp_min.default",
    "exp.default",
    "hardsigmoid.default",
    "hardtanh.default",
    "leaky_relu.default",
    "log_sigmoid.default",
    "relu.default",
    "relu6.default",
    "sigmoid.default",
    "softplus.default",
    "tanh.default",
];

const POOLS: &[&str] = &[
    "adaptive_avg_pool1d.default",
    "adaptive_avg_pool2d.default",
    "adaptive_avg_pool3d.default",
    "_adaptive_avg_pool2d.default",
    "_adaptive_avg_pool3d.default",
    "avg_pool1d.default",
    "avg_pool2d.default",
    "avg_pool3d.default",
];

/// `s`, which broadcasts over `x`, after a reduction over axes along which it is the same, in the shape `rest`.
fn constant_along(site: &mut Site<'_>, s: Id, x: Id, axes: &[usize], rest: &[Expr]) -> Option<Id> {
    let (shape, own) = (site.shape(x)?, site.shape(s)?);
    let missing = shape.len().checked_sub(own.len())?;
    let mut full = vec![Expr::constant(1); missing];
    full.extend(own);
    if axes.iter().any(|a| full.get(*a).is_none_or(|d| !d.is(1))) {
        return None;
    }
    let kept = full.iter().enumerate();
    let kept: Vec<Expr> = kept
        .filter(|(at, _)| rest.len() == full.len() || !axes.contains(at))
        .map(|(_, d)| d.clone())
        .collect();
    site.reshape(s, &kept)
}

/// The inner call, of which `x` is an operand, after the extremum of `x`.
fn after_extremum(site: &mut Site<'_>, at: &Found<'_>, x: Id) -> Option<Id> {
    let reduced = site.again(at.node, [("self", arg(x))])?;
    let own = at.inner.operand("self")?;
    let name = if site.same(own, x) { "self" } else { "other" };
    site.again(at.inner, [(name, arg(reduced))])
}

/// Two reductions of one kind as one.
fn merged(site: &mut Site<'_>, at: &Found<'_>, op: &str) -> Option<Id> {
    let (outer, inner) = (reduction(site, at.node)?, reduction(site, at.inner)?);
    if op != "amax.default" && op != "amin.default" && !site.is_wide(inner.x) {
        return None;
    }
    let rank = site.rank(inner.x)?;
    let left: Vec<usize> = (0..rank)
        .filter(|a| inner.keep || !inner.axes.contains(a))
        .collect();
    let outer: Option<Vec<usize>> = outer.axes.iter().map(|a| left.get(*a).copied()).collect();
    let mut axes = inner.axes;
    axes.extend(outer?);
    axes.sort_unstable();
    axes.dedup();
    let dims: Vec<i64> = axes.iter().map(|a| *a as i64).collect();
    let args = [
        ("self", arg(inner.x)),
        ("dim", dims.as_slice().into()),
        ("keepdim", true.into()),
    ];
    let reduced = site.call(op, args)?;
    site.reshape(reduced, &at.node.ty()?.shape)
}

/// A reduction of what is permuted, before the permutation.
fn before_permutation(site: &mut Site<'_>, at: &Found<'_>) -> Option<Id> {
    let read = reduction(site, at.node)?;
    let order = order(site, at.inner)?;
    let is_sum = SUMS.contains(&at.node.name());
    if is_sum && !site.is_wide(read.x) {
        return None;
    }
    let dims: Option<Vec<i64>> = read
        .axes
        .iter()
        .map(|a| order.get(*a).map(|d| *d as i64))
        .collect();
    let op = match at.node.name() {
        "sum.default" => "sum.dim_IntList",
        "mean.default" => "mean.dim",
        other => other,
    };
    let args = [
        ("self", arg(at.inner.operand("self")?)),
        ("dim", dims?.as_slice().into()),
        ("keepdim", true.into()),
    ];
    let reduced = site.call(op, args)?;
    let permuted = site.permute(reduced, &order)?;
    site.reshape(permuted, &at.node.ty()?.shape)
}
