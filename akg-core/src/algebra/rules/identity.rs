//! Calls that do nothing, or nothing more than their operands did.

use super::read::{SCALES, SHIFTS, scaled, shifted};
use super::{Found, Kind, Rule};
use crate::algebra::facts::COPIES;
use crate::algebra::site::arg;
use crate::dtype::DType;
use crate::graph::Arg;
use egg::Language as _;

pub(super) const RULES: &[Rule] = &[
    Rule {
        name: "dropout-in-evaluation",
        kind: Kind::Exact,
        statement: "dropout(x) = x if not training",
        roots: &["dropout.default"],
        inner: &[],
        apply: |_, at| {
            let idle = at.node.number("p") == Some(0.0) || !at.node.flag("train");
            at.node.operand("input").filter(|_| idle)
        },
    },
    Rule {
        name: "copy",
        kind: Kind::Exact,
        statement: "clone(x), contiguous(x), detach(x) = x",
        roots: COPIES,
        inner: &[],
        apply: |_, at| at.node.operand("self"),
    },
    Rule {
        name: "conversion-to-own-type",
        kind: Kind::Exact,
        statement: "to(x, d) = x if x is of type d",
        roots: CONVERSIONS,
        inner: &[],
        apply: |_, at| at.node.operand("self"),
    },
    Rule {
        name: "conversion-by-wider-type",
        kind: Kind::Exact,
        statement: "to(to(x, wide), d) = to(x, d) if wide holds all of x",
        roots: CONVERSIONS,
        inner: CONVERSIONS,
        apply: |site, at| {
            let x = at.inner.operand("self")?;
            let (from, by) = (site.ty(x)?.dtype, at.inner.ty()?.dtype);
            let to = at.node.ty()?.dtype;
            let exact = from.is_float() && from.promote(by) == by || from == DType::Bool && by.is_float();
            let args = [("self", arg(x)), ("dtype", to.into())];
            exact.then(|| site.call("to.dtype", args))?
        },
    },
    Rule {
        name: "unit-scale",
        kind: Kind::Exact,
        statement: "x * 1, x / 1 = x",
        roots: SCALES,
        inner: &[],
        apply: |site, at| {
            let (x, by) = scaled(site, at.node)?;
            (by == 1.0).then_some(x)
        },
    },
    Rule {
        name: "zero-shift",
        kind: Kind::Exact,
        statement: "x + 0, x - 0 = x",
        roots: SHIFTS,
        inner: &[],
        apply: |site, at| {
            let (x, by) = shifted(site, at.node)?;
            (by == 0.0).then_some(x)
        },
    },
    Rule {
        name: "involution",
        kind: Kind::Exact,
        statement: "f(f(x)) = x for negation, logical and bitwise not, flip",
        roots: INVOLUTIONS,
        inner: INVOLUTIONS,
        apply: |_, at| same_call(at).then(|| at.inner.operand("self"))?,
    },
    Rule {
        name: "idempotent",
        kind: Kind::Exact,
        statement: "f(f(x)) = f(x) for relu, abs, sign, rounding, triangles",
        roots: IDEMPOTENT,
        inner: IDEMPOTENT,
        apply: |_, at| same_call(at).then(|| at.node.children().first().copied())?,
    },
    Rule {
        name: "clamp-of-clamp",
        kind: Kind::Exact,
        statement: "clamp(clamp(x, a, b), c, d) = clamp(x, clamp(a, c, d), clamp(b, c, d)) for clamps of any name",
        roots: CLAMPS,
        inner: CLAMPS,
        apply: |site, at| {
            let ((a, b), (c, d)) = (limits(at.inner)?, limits(at.node)?);
            if a > b || c > d || at.inner.ty() != at.node.ty() || !site.is_float(at.inner.operand("self")?) {
                return None;
            }
            let limit = |v: f64| v.max(c).min(d);
            let given = |v: f64| if v.is_finite() { Arg::Float(v) } else { Arg::None };
            let args = [
                ("self", arg(at.inner.operand("self")?)),
                ("min", given(limit(a))),
                ("max", given(limit(b))),
            ];
            site.call("clamp.default", args)
        },
    },
    Rule {
        name: "same-operands",
        kind: Kind::Exact,
        statement: "max(x, x), min(x, x), x and x, x or x, where(c, x, x) = x",
        roots: &[
            "maximum.default",
            "minimum.default",
            "max.other",
            "min.other",
            "logical_and.default",
            "logical_or.default",
            "where.self",
        ],
        inner: &[],
        apply: |site, at| {
            let (a, b) = (at.node.operand("self")?, at.node.operand("other")?);
            site.same(a, b).then_some(a)
        },
    },
    Rule {
        name: "even-function",
        kind: Kind::Exact,
        statement: "f(-x), f(|x|) = f(x) for abs, square, cos, cosh, even powers",
        roots: &[
            "abs.default",
            "square.default",
            "cos.default",
            "cosh.default",
            "pow.Tensor_Scalar",
        ],
        inner: &["neg.default", "abs.default"],
        apply: |site, at| {
            let power = at.node.name() != "pow.Tensor_Scalar" || at.node.number("exponent")? % 2.0 == 0.0;
            let x = at.inner.operand("self")?;
            (power && site.is_float(x)).then(|| site.again(at.node, [("self", arg(x))]))?
        },
    },
    Rule {
        name: "small-power",
        kind: Kind::Exact,
        statement: "x ^ 1 = x, x ^ 2 = square(x), x ^ -1 = 1 / x",
        roots: &["pow.Tensor_Scalar"],
        inner: &[],
        apply: |site, at| {
            let x = at.node.operand("self").filter(|x| site.is_float(*x))?;
            let exponent = at.node.number("exponent")?;
            if exponent == 1.0 {
                return Some(x);
            }
            let op = match exponent {
                2.0 => "square.default",
                -1.0 => "reciprocal.default",
                _ => return None,
            };
            site.call(op, [("self", arg(x))])
        },
    },
    Rule {
        name: "negated-term",
        kind: Kind::Exact,
        statement: "x + -y = x - y, x - -y = x + y",
        roots: &["add.Tensor", "sub.Tensor"],
        inner: &["neg.default"],
        apply: |site, at| {
            let y = at.inner.operand("self")?;
            let is_sum = at.node.name() == "add.Tensor";
            if at.node.number("alpha")? != 1.0 || !site.is_float(y) || at.at == 0 && !is_sum {
                return None;
            }
            let op = if is_sum { "sub.Tensor" } else { "add.Tensor" };
            site.call(op, [("self", arg(at.other()?)), ("other", arg(y))])
        },
    },
];

const CONVERSIONS: &[&str] = &[
    "to.dtype",
    "to.dtype_layout",
    "_to_copy.default",
    "type_as.default",
];

const INVOLUTIONS: &[&str] = &[
    "neg.default",
    "logical_not.default",
    "bitwise_not.default",
    "flip.default",
];

const IDEMPOTENT: &[&str] = &[
    "relu.default",
    "abs.default",
    "sign.default",
    "floor.default",
    "ceil.default",
    "round.default",
    "trunc.default",
    "tril.default",
    "triu.default",
];

/// Clamps whose limits are numbers.
pub(super) const CLAMPS: &[&str] = &[
    "clamp.default",
    "clamp_min.default",
    "clamp_max.default",
    "hardtanh.default",
    "relu.default",
    "relu6.default",
];

/// The limits of a clamp.
pub(super) fn limits(term: &crate::algebra::term::Term) -> Option<(f64, f64)> {
    let number = |name: &str, missing: f64| match term.arg(name) {
        None | Some(Arg::None) => Some(missing),
        Some(_) => term.number(name).filter(|v| !v.is_nan()),
    };
    match term.name() {
        "relu.default" => Some((0.0, f64::INFINITY)),
        "relu6.default" => Some((0.0, 6.0)),
        "hardtanh.default" => Some((number("min_val", -1.0)?, number("max_val", 1.0)?)),
        _ => Some((number("min", f64::NEG_INFINITY)?, number("max", f64::INFINITY)?)),
    }
}

/// Whether the inner term is the same call as the outer, apart from what it is made of.
fn same_call(at: &Found<'_>) -> bool {
    at.node.matches(at.inner)
}
