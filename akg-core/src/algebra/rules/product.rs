//! Matrix products: what of a sum over them is a sum over an operand.
//!
//! The sums of all these are over the same products, in another order, so the bound on their error is the same up to a
//! small factor; most add fewer numbers.

use super::read::{PERMUTATIONS, PRODUCTS, SCALES, SUMS, factors, layer, order, reduction, scaled};
use super::{Kind, Rule};
use crate::algebra::site::arg;
use crate::expr::Expr;
use crate::task::Accuracy;
use egg::Language as _;

pub(super) const RULES: &[Rule] = &[
    Rule {
        name: "sum-of-product-columns",
        kind: Kind::Reassociating(Accuracy::Fp32),
        statement: "the sum or mean over the columns of a @ b is a @ the sum or mean over the columns of b",
        roots: SUMS,
        inner: PRODUCTS,
        apply: |site, at| {
            let read = reduction(site, at.node).filter(|r| site.is_wide(r.x))?;
            let (a, b, right) = factors(at.inner)?;
            let (rank, columns) = (at.inner.ty()?.rank(), site.rank(b)?);
            if site.rank(a)? < 2 || columns < 2 || !read.axes.contains(&(rank - 1)) || ends_in_one(at.inner) {
                return None;
            }
            let summed = read.along(site, b, columns - 1)?;
            let product = site.again(at.inner, [(right, arg(summed))])?;
            site.again(at.node, [("self", arg(product))])
        },
    },
    Rule {
        name: "sum-of-product-rows",
        kind: Kind::Reassociating(Accuracy::Fp32),
        statement: "the sum or mean over the rows of a @ b is the sum or mean over the rows of a, @ b",
        roots: SUMS,
        inner: PRODUCTS,
        apply: |site, at| {
            let read = reduction(site, at.node).filter(|r| site.is_wide(r.x))?;
            let (a, b, _) = factors(at.inner)?;
            let (shape, rows) = (&at.inner.ty()?.shape, site.rank(a)?);
            let along = shape.len().checked_sub(2)?;
            let single = shape.get(along)?.is(1);
            if rows < 2 || site.rank(b)? < 2 || !read.axes.contains(&along) || single {
                return None;
            }
            let summed = read.along(site, a, rows - 2)?;
            let product = site.again(at.inner, [("self", arg(summed))])?;
            site.again(at.node, [("self", arg(product))])
        },
    },
    Rule {
        name: "sum-of-linear-features",
        kind: Kind::Reassociating(Accuracy::Fp32),
        statement: "the sum or mean over the features of linear(x, w, b) is linear(x, that of w, that of b)",
        roots: SUMS,
        inner: &["linear.default"],
        apply: |site, at| {
            let read = reduction(site, at.node).filter(|r| site.is_wide(r.x))?;
            let layer = layer(site, at.inner)?;
            let last = at.inner.ty()?.rank() - 1;
            if !read.axes.contains(&last) || ends_in_one(at.inner) {
                return None;
            }
            let mut args = vec![("weight", arg(read.along(site, layer.weight, 0)?))];
            if let Some(bias) = layer.bias {
                args.push(("bias", arg(read.along(site, bias, 0)?)));
            }
            let product = site.again(at.inner, args)?;
            site.again(at.node, [("self", arg(product))])
        },
    },
    Rule {
        name: "sum-of-linear-rows",
        kind: Kind::Reassociating(Accuracy::Fp32),
        statement: "the sum or mean over the rows of linear(x, w, b) is linear(that of x, w, n * b or b)",
        roots: SUMS,
        inner: &["linear.default"],
        apply: |site, at| {
            let read = reduction(site, at.node).filter(|r| site.is_wide(r.x))?;
            let layer = layer(site, at.inner)?;
            let shape = &at.inner.ty()?.shape;
            let long = |a: &&usize| **a + 1 < shape.len() && shape.get(**a).is_some_and(|d| !d.is(1));
            let along = *read.axes.iter().find(long)?;
            let x = read.along(site, at.inner.operand("input")?, along)?;
            let mut args = vec![("input", arg(x))];
            if let (Some(bias), false) = (layer.bias, read.is_mean) {
                let rows = shape.get(along)?.as_const()? as f64;
                args.push(("bias", arg(site.scale(bias, rows)?)));
            }
            let product = site.again(at.inner, args)?;
            site.again(at.node, [("self", arg(product))])
        },
    },
    Rule {
        name: "scale-out-of-product",
        kind: Kind::Reassociating(Accuracy::Fp32),
        statement: "(c * a) @ b, a @ (c * b) = c * (a @ b)",
        roots: &["matmul.default", "mm.default", "bmm.default", "linear.default"],
        inner: SCALES,
        apply: |site, at| {
            let (x, by) = scaled(site, at.inner).filter(|(x, _)| site.is_wide(*x))?;
            if at.node.children().len() != 2 {
                return None;
            }
            let name = match (at.node.name(), at.at) {
                ("linear.default", 0) => "input",
                ("linear.default", _) => "weight",
                (_, 0) => "self",
                _ => factors(at.node)?.2,
            };
            let product = site.again(at.node, [(name, arg(x))])?;
            site.scale(product, by)
        },
    },
    Rule {
        name: "product-as-linear",
        kind: Kind::Exact,
        statement: "x @ transposed(w) = linear(x, w)",
        roots: &["matmul.default", "mm.default"],
        inner: PERMUTATIONS,
        apply: |site, at| {
            let (x, _, _) = factors(at.node)?;
            if at.at != 1 || order(site, at.inner)? != [1, 0] {
                return None;
            }
            let args = [("input", arg(x)), ("weight", arg(at.inner.operand("self")?))];
            site.call("linear.default", args)
        },
    },
    Rule {
        name: "product-of-three",
        kind: Kind::Reassociating(Accuracy::Tf32),
        statement: "(a @ b) @ c = a @ (b @ c)",
        roots: &["matmul.default", "mm.default"],
        inner: &["matmul.default", "mm.default"],
        apply: |site, at| {
            let ((a, b, right), (c, d, inner_right)) = (factors(at.node)?, factors(at.inner)?);
            let matrices = [a, b, c, d].iter().all(|x| site.rank(*x) == Some(2));
            if !matrices || !site.is_wide(a) {
                return None;
            }
            if at.at == 0 {
                let later = site.again(at.inner, [("self", arg(d)), (inner_right, arg(b))])?;
                return site.again(at.node, [("self", arg(c)), (right, arg(later))]);
            }
            let sooner = site.again(at.inner, [("self", arg(a)), (inner_right, arg(c))])?;
            site.again(at.node, [("self", arg(sooner)), (right, arg(d))])
        },
    },
    Rule {
        name: "linear-of-linear",
        kind: Kind::Reassociating(Accuracy::Tf32),
        statement: "linear(linear(x, v, a), w, b) = linear(x, w @ v, w @ a + b)",
        roots: &["linear.default"],
        inner: &["linear.default"],
        apply: |site, at| {
            let (first, second) = (layer(site, at.inner)?, layer(site, at.node)?);
            if at.at != 0 {
                return None;
            }
            let weight = [("self", arg(second.weight)), ("other", arg(first.weight))];
            let weight = site.call("matmul.default", weight)?;
            let mut bias = second.bias;
            if let Some(a) = first.bias {
                let args = [("input", arg(a)), ("weight", arg(second.weight))];
                let moved = site.call("linear.default", args)?;
                bias = match bias {
                    Some(b) => Some(site.plus(moved, b)?),
                    None => Some(moved),
                };
            }
            let bias = bias.map_or(crate::graph::Arg::None, arg);
            let input = arg(at.inner.operand("input")?);
            site.again(
                at.node,
                [("input", input), ("weight", arg(weight)), ("bias", bias)],
            )
        },
    },
];

/// Whether a result has one column, so that there is nothing to sum over.
fn ends_in_one(term: &crate::algebra::term::Term) -> bool {
    let last = term.ty().and_then(|ty| ty.shape.last());
    last.is_none_or(|d: &Expr| d.is(1))
}
