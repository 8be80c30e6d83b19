//! Matrices that are known to be zero on one side of their diagonal, or on both.
//!
//! What is skipped are products with zeros, which are zeros as long as the other factors are finite.

use egg::Id;

use super::read::{PRODUCTS, factors};
use super::{Kind, Rule};
use crate::algebra::site::{Site, arg};
use crate::graph::Arg;

pub(super) const RULES: &[Rule] = &[
    Rule {
        name: "triangle-of-triangular",
        kind: Kind::Finite,
        statement: "tril(x) = x if x is lower triangular, triu(x) = x if x is upper triangular",
        roots: TRIANGLES,
        inner: &[],
        apply: |site, at| {
            let x = at.node.operand("self")?;
            let (diagonal, known) = (at.node.int("diagonal")?, site.facts(x).structure);
            let idle = if at.node.name() == "tril.default" {
                known.lower && diagonal >= 0
            } else {
                known.upper && diagonal <= 0
            };
            idle.then_some(x)
        },
    },
    Rule {
        name: "triangle-of-other-triangular",
        kind: Kind::Finite,
        statement: "tril(x, d) = 0 for d < 0 if x is upper triangular, and the other way round",
        roots: TRIANGLES,
        inner: &[],
        apply: |site, at| {
            let x = at.node.operand("self")?;
            let (diagonal, known) = (at.node.int("diagonal")?, site.facts(x).structure);
            let empty = if at.node.name() == "tril.default" {
                known.upper && diagonal < 0
            } else {
                known.lower && diagonal > 0
            };
            let ty = at.node.ty()?.clone();
            let args = [
                ("size", Arg::Ints(ty.shape)),
                ("fill_value", 0.0.into()),
                ("dtype", ty.dtype.into()),
            ];
            (empty && ty.dtype.is_float()).then(|| site.call("full.default", args))?
        },
    },
    Rule {
        name: "product-with-diagonal-left",
        kind: Kind::Finite,
        statement: "d @ x scales the rows of x if d is diagonal",
        roots: PRODUCTS,
        inner: &[],
        apply: |site, at| {
            let (a, b, _) = factors(at.node)?;
            let scales = diagonal(site, a, 1)?;
            site.mul(scales, b)
        },
    },
    Rule {
        name: "product-with-diagonal-right",
        kind: Kind::Finite,
        statement: "x @ d scales the columns of x if d is diagonal",
        roots: PRODUCTS,
        inner: &[],
        apply: |site, at| {
            let (a, b, _) = factors(at.node)?;
            let scales = diagonal(site, b, 2)?;
            site.mul(a, scales)
        },
    },
];

const TRIANGLES: &[&str] = &["tril.default", "triu.default"];

/// The diagonal of a square diagonal matrix, as the sum over the axis that is so far from the last.
fn diagonal(site: &mut Site<'_>, x: Id, from_last: usize) -> Option<Id> {
    let facts = site.facts(x);
    let ty = facts.ty()?.clone();
    let [.., rows, columns] = ty.shape.as_slice() else {
        return None;
    };
    if !(facts.structure.lower && facts.structure.upper && rows == columns && ty.dtype.is_float()) {
        return None;
    }
    let args = [
        ("self", arg(x)),
        ("dim", [-(from_last as i64)].into()),
        ("keepdim", true.into()),
    ];
    site.call("sum.dim_IntList", args)
}
