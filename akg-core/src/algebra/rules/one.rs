//! Operators along axes of extent 1.

use egg::{Id, Language as _};

use super::read::{axis, reduction};
use super::{Found, Kind, Rule};
use crate::algebra::site::{Site, arg};
use crate::graph::Arg;

pub(super) const RULES: &[Rule] = &[
    Rule {
        name: "sum-of-one",
        kind: Kind::Exact,
        statement: "the sum, mean or product of one element is the element",
        roots: &[
            "sum.dim_IntList",
            "sum.default",
            "mean.dim",
            "mean.default",
            "prod.dim_int",
        ],
        inner: &[],
        apply: reduction_of_one,
    },
    Rule {
        name: "extremum-of-one",
        kind: Kind::Exact,
        statement: "the largest or smallest of one element is the element",
        roots: &["amax.default", "amin.default", "max.default", "min.default"],
        inner: &[],
        apply: reduction_of_one,
    },
    Rule {
        name: "extremum-with-index-of-one",
        kind: Kind::Exact,
        statement: "the largest or smallest of one element, beside its index, is the element",
        roots: &["part 0"],
        inner: &["max.dim", "min.dim"],
        apply: |site, at| {
            let read = reduction(site, at.inner)?;
            let all_one = is_one(site, read.x, &read.axes)?;
            all_one.then(|| site.reshape(read.x, &at.node.ty()?.shape))?
        },
    },
    Rule {
        name: "logsumexp-of-one",
        kind: Kind::Exact,
        statement: "log(sum(exp(x))) of one element is the element",
        roots: &["logsumexp.default"],
        inner: &[],
        apply: reduction_of_one,
    },
    Rule {
        name: "norm-of-one",
        kind: Kind::Exact,
        statement: "the 1-, 2- or infinity-norm of a vector of one element is its magnitude",
        roots: &["linalg_vector_norm.default"],
        inner: &[],
        apply: |site, at| {
            let read = reduction(site, at.node)?;
            let exact = at
                .node
                .number("ord")
                .is_some_and(|p| [1.0, 2.0, f64::INFINITY].contains(&p));
            if !exact || !is_one(site, read.x, &read.axes)? {
                return None;
            }
            let size = site.call("abs.default", [("self", arg(read.x))])?;
            site.reshape(size, &at.node.ty()?.shape)
        },
    },
    Rule {
        name: "scan-of-one",
        kind: Kind::Exact,
        statement: "running sums and products, flips and rolls along an axis of extent 1 change nothing",
        roots: &[
            "cumsum.default",
            "cumprod.default",
            "flip.default",
            "roll.default",
        ],
        inner: &[],
        apply: |site, at| {
            let x = at.node.operand("self")?;
            let named = if at.node.arg("dims").is_some() {
                "dims"
            } else {
                "dim"
            };
            let dims = at.node.ints(named)?;
            let rank = site.rank(x)?;
            let axes: Vec<usize> = dims.into_iter().map(|d| axis(d, rank)).collect::<Option<_>>()?;
            (!axes.is_empty() && is_one(site, x, &axes)?).then_some(x)
        },
    },
    Rule {
        name: "window-of-one",
        kind: Kind::Exact,
        statement: "pooling over windows of one element, at every element, changes nothing",
        roots: &[
            "max_pool1d.default",
            "max_pool2d.default",
            "max_pool3d.default",
            "avg_pool1d.default",
            "avg_pool2d.default",
            "avg_pool3d.default",
        ],
        inner: &[],
        apply: |_, at| {
            let all = |name: &str, value: i64| {
                let list = at.node.ints(name);
                list.is_some_and(|l| l.iter().all(|v| *v == value))
            };
            let whole = matches!(at.node.arg("divisor_override"), None | Some(Arg::None));
            let idle = all("kernel_size", 1) && all("stride", 1) && all("padding", 0) && whole;
            at.node.operand("self").filter(|_| idle)
        },
    },
    Rule {
        name: "pooling-to-own-size",
        kind: Kind::Exact,
        statement: "adaptive average pooling to the extents that there are changes nothing",
        roots: ADAPTIVE,
        inner: &[],
        apply: |site, at| {
            let x = at.node.operand("self")?;
            (site.facts(x).ty() == at.node.ty()).then_some(x)
        },
    },
    Rule {
        name: "join-of-one",
        kind: Kind::Exact,
        statement: "one tensor joined with none is the tensor",
        roots: &["cat.default", "stack.default"],
        inner: &[],
        apply: |site, at| {
            let [only] = at.node.children() else { return None };
            site.reshape(*only, &at.node.ty()?.shape)
        },
    },
    Rule {
        name: "repeat-once",
        kind: Kind::Exact,
        statement: "repeat(x, 1, ...) is a view of x",
        roots: &["repeat.default"],
        inner: &[],
        apply: |site, at| {
            let once = at.node.ints("repeats")?.iter().all(|n| *n == 1);
            once.then(|| site.reshape(at.node.operand("self")?, &at.node.ty()?.shape))?
        },
    },
];

/// Adaptive average pooling.
pub(super) const ADAPTIVE: &[&str] = &[
    "adaptive_avg_pool1d.default",
    "adaptive_avg_pool2d.default",
    "adaptive_avg_pool3d.default",
    "_adaptive_avg_pool2d.default",
    "_adaptive_avg_pool3d.default",
];

fn reduction_of_one(site: &mut Site<'_>, at: &Found<'_>) -> Option<Id> {
    let read = reduction(site, at.node)?;
    let all_one = is_one(site, read.x, &read.axes)?;
    all_one.then(|| site.reshape(read.x, &at.node.ty()?.shape))?
}

fn is_one(site: &Site<'_>, x: Id, axes: &[usize]) -> Option<bool> {
    let shape = site.shape(x)?;
    Some(axes.iter().all(|a| shape.get(*a).is_none_or(|d| d.is(1))))
}
