//! Views, permutations and selections, and what can be done before or after them.

use egg::Language as _;

use super::read::{CONVOLUTIONS, PERMUTATIONS, axis, order};
use super::{Kind, Rule};
use crate::algebra::facts::{EXPANSIONS, VIEWS};
use crate::algebra::site::arg;
use crate::expr::Expr;
use crate::graph::Arg;

pub(super) const RULES: &[Rule] = &[
    Rule {
        name: "view-of-own-shape",
        kind: Kind::Exact,
        statement: "x viewed or expanded to the shape of x is x",
        roots: VIEWS_AND_EXPANSIONS,
        inner: &[],
        apply: |site, at| {
            let x = at.node.operand("self")?;
            (site.facts(x).ty() == at.node.ty()).then_some(x)
        },
    },
    Rule {
        name: "view-of-view",
        kind: Kind::Exact,
        statement: "a view of a view of x is a view of x",
        roots: VIEWS,
        inner: VIEWS,
        apply: |site, at| site.reshape(at.inner.operand("self")?, &at.node.ty()?.shape),
    },
    Rule {
        name: "permutation-of-permutation",
        kind: Kind::Exact,
        statement: "axes permuted twice are axes permuted once",
        roots: PERMUTATIONS,
        inner: PERMUTATIONS,
        apply: |site, at| {
            let (first, second) = (order(site, at.inner)?, order(site, at.node)?);
            let both: Option<Vec<usize>> = second.iter().map(|d| first.get(*d).copied()).collect();
            let (both, x) = (both?, at.inner.operand("self")?);
            if both.is_sorted() {
                return Some(x);
            }
            site.permute(x, &both)
        },
    },
    Rule {
        name: "permutation-as-view",
        kind: Kind::Exact,
        statement: "a permutation that keeps the order of the axes longer than 1 is a view",
        roots: PERMUTATIONS,
        inner: &[],
        apply: |site, at| {
            let x = at.node.operand("self")?;
            let (order, shape) = (order(site, at.node)?, site.shape(x)?);
            let long = order.iter().filter(|d| shape.get(**d).is_some_and(|e| !e.is(1)));
            long.is_sorted().then(|| site.reshape(x, &at.node.ty()?.shape))?
        },
    },
    Rule {
        name: "whole-slice",
        kind: Kind::Exact,
        statement: "all of an axis, or what no padding surrounds, is the tensor",
        roots: &["slice.Tensor", "narrow.default", "constant_pad_nd.default"],
        inner: &[],
        apply: |site, at| {
            let x = at.node.operand("self")?;
            let whole = match at.node.name() {
                "slice.Tensor" => at.node.int("step") == Some(1),
                "narrow.default" => true,
                _ => at.node.ints("pad")?.iter().all(|n| *n == 0),
            };
            (whole && site.facts(x).ty() == at.node.ty()).then_some(x)
        },
    },
    Rule {
        name: "slice-of-slice",
        kind: Kind::Exact,
        statement: "x[a..b][c..d] = x[a + c..a + d] along one axis",
        roots: &["slice.Tensor"],
        inner: &["slice.Tensor"],
        apply: |site, at| {
            let x = at.inner.operand("self")?;
            let rank = site.rank(x)?;
            let along = axis(at.node.int("dim")?, rank)?;
            if axis(at.inner.int("dim")?, rank)? != along || at.inner.int("step")? != 1 {
                return None;
            }
            let (first, _) = bounds(at.inner, &site.shape(x)?, along)?;
            let (start, end) = bounds(at.node, &at.inner.ty()?.shape, along)?;
            let args = [
                ("self", arg(x)),
                ("start", (first + start).into()),
                ("end", (first + end).into()),
            ];
            site.again(at.node, args)
        },
    },
    Rule {
        name: "slice-of-join",
        kind: Kind::Exact,
        statement: "a slice of joined tensors that lies in one of them is a slice of that one",
        roots: &["slice.Tensor"],
        inner: &["cat.default"],
        apply: |site, at| {
            let shape = &at.inner.ty()?.shape;
            let along = axis(at.node.int("dim")?, shape.len())?;
            if axis(at.inner.int("dim")?, shape.len())? != along {
                return None;
            }
            let (start, end) = bounds(at.node, shape, along)?;
            let mut begin = 0;
            for part in at.inner.children() {
                let extent = site.shape(*part)?.get(along)?.as_const()?;
                if begin <= start && end <= begin + extent && start < end {
                    let args = [
                        ("self", arg(*part)),
                        ("start", (start - begin).into()),
                        ("end", (end - begin).into()),
                    ];
                    return site.again(at.node, args);
                }
                begin += extent;
            }
            None
        },
    },
    Rule {
        name: "function-before-expansion",
        kind: Kind::Exact,
        statement: "f(expand(x)) = expand(f(x)) for functions of single elements",
        roots: FUNCTIONS,
        inner: EXPANSIONS,
        apply: |site, at| {
            let x = site.again(at.node, [("self", arg(at.inner.operand("self")?))])?;
            let size = Arg::Ints(at.node.ty()?.shape.clone());
            site.call("expand.default", [("self", arg(x)), ("size", size)])
        },
    },
    Rule {
        name: "padding-into-convolution",
        kind: Kind::Finite,
        statement: "a convolution of x with zeros on both sides is a convolution of x with more padding",
        roots: CONVOLUTIONS,
        inner: &["constant_pad_nd.default"],
        apply: |site, at| {
            let spatial = site.rank(at.node.operand("weight")?)?.checked_sub(2)?;
            let list = at.inner.ints("pad")?;
            if at.at != 0
                || at.node.is_transposed()
                || list.len() > 2 * spatial
                || at.inner.number("value") != Some(0.0)
            {
                return None;
            }
            let mut padding = at.node.per_axis("padding", spatial)?;
            // Pairs begin with the last axis.
            for (pair, slot) in list.chunks(2).zip(padding.iter_mut().rev()) {
                let [before, after] = pair else { return None };
                if before != after || *before < 0 {
                    return None;
                }
                *slot += before;
            }
            let args = [
                ("input", arg(at.inner.operand("self")?)),
                ("padding", padding.as_slice().into()),
            ];
            site.again(at.node, args)
        },
    },
];

const VIEWS_AND_EXPANSIONS: &[&str] = &[
    "view.default",
    "_unsafe_view.default",
    "reshape.default",
    "flatten.using_ints",
    "unflatten.int",
    "squeeze.default",
    "squeeze.dim",
    "squeeze.dims",
    "expand.default",
    "broadcast_to.default",
    "expand_as.default",
];

/// Functions of single elements, and of nothing else.
const FUNCTIONS: &[&str] = &[
    "abs.default",
    "exp.default",
    "log.default",
    "sqrt.default",
    "rsqrt.default",
    "reciprocal.default",
    "neg.default",
    "square.default",
    "relu.default",
    "sigmoid.default",
    "tanh.default",
    "gelu.default",
    "silu.default",
    "softplus.default",
    "mul.Scalar",
    "add.Scalar",
    "div.Scalar",
    "sub.Scalar",
    "to.dtype",
];

/// Where a slice begins and ends, as constants within the axis.
fn bounds(slice: &crate::algebra::term::Term, shape: &[Expr], along: usize) -> Option<(i64, i64)> {
    let extent = shape.get(along)?.as_const()?;
    let place = |name: &str, missing: i64| {
        let at = match slice.arg(name)? {
            Arg::None => missing,
            Arg::Int(e) => e.as_const()?,
            _ => return None,
        };
        let at = if at < 0 { at.saturating_add(extent) } else { at };
        Some(at.clamp(0, extent))
    };
    Some((place("start", 0)?, place("end", extent)?))
}
