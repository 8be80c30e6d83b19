//! Numbers that are known when the graph is made.

use super::read::{SHIFTS, beside_number, shifted};
use super::{Kind, Rule};
use crate::algebra::facts::FOLDED;
use crate::algebra::site::arg;
use crate::dtype::DType;
use crate::graph::Arg;

pub(super) const RULES: &[Rule] = &[
    Rule {
        name: "constant-folding",
        kind: Kind::Exact,
        statement: "a call of which every operand is one number throughout is computed now",
        roots: FOLDED,
        inner: &[],
        apply: |site, at| {
            let ty = at.node.ty()?.clone();
            let number = site.facts(site.classes.lookup(at.node.clone())?).uniform?;
            // What the element type would round stays a call, whose number other rules use as it is.
            let exact = ty.dtype == DType::F64 || f64::from(number as f32) == number;
            let size = Arg::Ints(ty.shape);
            let args = [
                ("size", size),
                ("fill_value", number.into()),
                ("dtype", ty.dtype.into()),
            ];
            (exact && matches!(ty.dtype, DType::F32 | DType::F64)).then(|| site.call("full.default", args))?
        },
    },
    Rule {
        name: "number-for-tensor",
        kind: Kind::Exact,
        statement: "x op t, with a tensor t that is one number c throughout, is x op c",
        roots: &["add.Tensor", "sub.Tensor", "mul.Tensor", "div.Tensor"],
        inner: &[],
        apply: |site, at| {
            let (x, other) = (at.node.operand("self")?, at.node.operand("other")?);
            let op = match at.node.name() {
                "add.Tensor" => "add.Scalar",
                "sub.Tensor" => "sub.Scalar",
                "mul.Tensor" => "mul.Scalar",
                _ => "div.Scalar",
            };
            let commutes = op == "mul.Scalar" || op == "add.Scalar" && at.node.number("alpha") == Some(1.0);
            let (x, number) = match (site.facts(x).uniform, site.facts(other).uniform) {
                (_, Some(number)) => (x, number),
                (Some(number), None) if commutes => (other, number),
                _ => return None,
            };
            if !site.is_float(x) || site.facts(x).ty() != at.node.ty() {
                return None;
            }
            let mut args = vec![("self", arg(x)), ("other", Arg::Float(number))];
            if let Some(alpha) = at.node.arg("alpha") {
                args.push(("alpha", alpha.clone()));
            }
            site.call(op, args)
        },
    },
    Rule {
        name: "number-for-bound",
        kind: Kind::Exact,
        statement: "max(x, t), min(x, t), with a tensor t that is one number c throughout, is a clamp by c",
        roots: &["maximum.default", "minimum.default", "max.other", "min.other"],
        inner: &[],
        apply: |site, at| {
            let (x, number) = beside_number(site, at.node)?;
            let side = if at.node.name().starts_with("max") {
                "min"
            } else {
                "max"
            };
            let fits = site.is_float(x) && site.facts(x).ty() == at.node.ty();
            fits.then(|| site.call("clamp.default", [("self", arg(x)), (side, number.into())]))?
        },
    },
    Rule {
        name: "division-by-power-of-two",
        kind: Kind::Exact,
        statement: "x / c = x * (1 / c) if c is a power of two",
        roots: &["div.Scalar"],
        inner: &[],
        apply: |site, at| {
            let x = at.node.operand("self").filter(|x| site.is_wide(*x))?;
            let by = at.node.number("other")?;
            let is_power = by.is_normal() && by.abs().log2().fract() == 0.0 && by.abs().log2().abs() < 100.0;
            is_power.then(|| site.scale(x, 1.0 / by))?
        },
    },
    Rule {
        name: "shift-of-number",
        kind: Kind::Exact,
        statement: "x - c = x + -c",
        roots: SHIFTS,
        inner: &[],
        apply: |site, at| {
            let (x, by) = shifted(site, at.node)?;
            (at.node.name() == "sub.Scalar").then(|| site.shift(x, by))?
        },
    },
];
