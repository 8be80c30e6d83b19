//! Calls that the ranges of their operands make idle.

use super::identity::{CLAMPS, limits};
use super::read::beside_number;
use super::{Kind, Rule};

pub(super) const RULES: &[Rule] = &[
    Rule {
        name: "rectifier-of-non-negative",
        kind: Kind::Ranges,
        statement: "relu(x), leaky_relu(x), elu(x) = x if x >= 0",
        roots: &[
            "relu.default",
            "leaky_relu.default",
            "elu.default",
            "celu.default",
        ],
        inner: &[],
        apply: |site, at| {
            let x = at.node.operand("self")?;
            let plain = ["scale", "input_scale"]
                .iter()
                .all(|n| at.node.number(n).is_none_or(|v| v == 1.0));
            (plain && site.facts(x).range.lo >= 0.0).then_some(x)
        },
    },
    Rule {
        name: "magnitude-of-non-negative",
        kind: Kind::Ranges,
        statement: "|x| = x if x >= 0, |x| = -x if x <= 0",
        roots: &["abs.default"],
        inner: &[],
        apply: |site, at| {
            let x = at.node.operand("self").filter(|x| site.is_float(*x))?;
            let range = site.facts(x).range;
            if range.lo >= 0.0 {
                return Some(x);
            }
            let args = [("self", crate::algebra::site::arg(x))];
            (range.hi <= 0.0).then(|| site.call("neg.default", args))?
        },
    },
    Rule {
        name: "clamp-within-limits",
        kind: Kind::Ranges,
        statement: "clamp(x, a, b) = x if a <= x <= b, for clamps of any name",
        roots: CLAMPS,
        inner: &[],
        apply: |site, at| {
            let x = at.node.operand("self")?;
            let (range, (lo, hi)) = (site.facts(x).range, limits(at.node)?);
            (site.is_float(x) && range.lo >= lo && range.hi <= hi).then_some(x)
        },
    },
    Rule {
        name: "decided-extremum",
        kind: Kind::Ranges,
        statement: "max(x, c) = x if x >= c, min(x, c) = x if x <= c, for a number c",
        roots: &["maximum.default", "minimum.default", "max.other", "min.other"],
        inner: &[],
        apply: |site, at| {
            let (x, number) = beside_number(site, at.node)?;
            let range = site.facts(x).range;
            let idle = if at.node.name().starts_with("max") {
                range.lo >= number
            } else {
                range.hi <= number
            };
            (idle && site.facts(x).ty() == at.node.ty()).then_some(x)
        },
    },
];
