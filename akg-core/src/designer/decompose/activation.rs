//! Activations of neural networks.

use super::pointwise::{operand, scaled};
use super::{Rule, Step};
use crate::designer::prim::{MapOp, Prim, PrimId, Prims};
use crate::designer::window::Window;
use crate::error::Result;
use crate::expr::Expr;
use crate::sketch::ir::{BinaryOp, CompareOp, UnaryOp};

/// The rules of the operators.
pub(super) const RULES: &[(&str, Rule)] = &[
    ("relu", |s| {
        let x = s.tensor("self")?;
        let zero = s.prims.number(0.0);
        s.prims.binary(BinaryOp::Max, x, zero)
    }),
    ("leaky_relu", |s| {
        let x = s.tensor("self")?;
        let slope = s.call.number("negative_slope")?;
        let scaled = s.prims.mul_number(x, slope)?;
        positive_or(s.prims, x, x, scaled)
    }),
    ("elu", |s| {
        let x = s.tensor("self")?;
        let (alpha, scale) = (s.call.number("alpha")?, s.call.number("scale")?);
        let input_scale = s.call.number("input_scale")?;
        elu(s.prims, x, alpha, scale, input_scale)
    }),
    ("selu", |s| {
        let x = s.tensor("self")?;
        elu(s.prims, x, 1.673_263_242_354_377_3, 1.050_700_987_355_480_5, 1.0)
    }),
    ("celu", |s| {
        let (x, alpha) = (s.tensor("self")?, s.call.number("alpha")?);
        elu(s.prims, x, alpha, 1.0, 1.0 / alpha)
    }),
    ("relu6", |s| {
        let x = s.tensor("self")?;
        let (zero, six) = (s.prims.number(0.0), s.prims.number(6.0));
        let low = s.prims.binary(BinaryOp::Max, x, zero)?;
        s.prims.binary(BinaryOp::Min, low, six)
    }),
    ("hardtanh", |s| {
        let x = s.tensor("self")?;
        let (lo, hi) = (s.number("min_val")?, s.number("max_val")?);
        let low = s.prims.binary(BinaryOp::Max, x, lo)?;
        s.prims.binary(BinaryOp::Min, low, hi)
    }),
    ("silu", |s| {
        let x = s.tensor("self")?;
        let gate = s.prims.unary(UnaryOp::Sigmoid, x)?;
        s.prims.mul(x, gate)
    }),
    ("gelu", gelu),
    ("tanh", |s| {
        let x = operand(s, "self")?;
        match softplus_of(s.prims, x) {
            Some(inner) => tanh_softplus(s.prims, inner),
            None => s.prims.unary(UnaryOp::Tanh, x),
        }
    }),
    ("softplus", |s| {
        let x = s.tensor("self")?;
        let (beta, threshold) = (s.call.number("beta")?, s.call.number("threshold")?);
        let scaled = s.prims.mul_number(x, beta)?;
        let soft = super::loss::softplus(s.prims, scaled)?;
        let beta = s.prims.number(beta);
        let soft = s.prims.div(soft, beta)?;
        let threshold = s.prims.number(threshold);
        let linear = s.prims.compare(CompareOp::Gt, scaled, threshold)?;
        s.prims.select(linear, x, soft)
    }),
    ("log_sigmoid", |s| {
        let x = s.tensor("self")?;
        super::loss::log_sigmoid(s.prims, x)
    }),
    ("hardsigmoid", |s| {
        let x = s.tensor("self")?;
        hard_gate(s.prims, x)
    }),
    ("hardswish", |s| {
        let x = s.tensor("self")?;
        let gate = hard_gate(s.prims, x)?;
        s.prims.mul(x, gate)
    }),
    ("mish", |s| {
        let x = s.tensor("self")?;
        let gate = tanh_softplus(s.prims, x)?;
        s.prims.mul(x, gate)
    }),
    ("prelu", |s| {
        let (x, weight) = (s.tensor("self")?, s.tensor("weight")?);
        let channels = s.prims.shape(weight).to_vec();
        let shape = s.prims.shape(x).iter().enumerate().skip(1);
        let shape = shape.map(|(i, _)| match channels.first() {
            Some(count) if i == 1 => count.clone(),
            _ => Expr::constant(1),
        });
        let shape = if s.prims.rank(x) < 2 {
            channels.clone()
        } else {
            shape.collect()
        };
        let slope = s.prims.reshape(weight, shape);
        let negative = s.prims.mul(slope, x)?;
        positive_or(s.prims, x, x, negative)
    }),
    ("glu", |s| {
        let x = s.tensor("self")?;
        let dim = s.dim("dim", s.prims.rank(x))?;
        let count = s.result(0)?.shape.get(dim).cloned().unwrap_or(Expr::constant(1));
        let part =
            |s: &mut Step<'_>, start: Expr| s.prims.window(x, Window::new(dim, start, 1), count.clone());
        let (value, gate) = (part(s, Expr::constant(0)), part(s, count.clone()));
        let gate = s.prims.unary(UnaryOp::Sigmoid, gate)?;
        s.prims.mul(value, gate)
    }),
];

/// `condition_of > 0 ? a : b`.
fn positive_or(p: &mut Prims, condition_of: PrimId, a: PrimId, b: PrimId) -> Result<PrimId> {
    let zero = p.number(0.0);
    let positive = p.compare(CompareOp::Gt, condition_of, zero)?;
    p.select(positive, a, b)
}

fn elu(p: &mut Prims, x: PrimId, alpha: f64, scale: f64, input_scale: f64) -> Result<PrimId> {
    let inner = scaled(p, x, input_scale)?;
    let e = p.unary(UnaryOp::Expm1, inner)?;
    let negative = scaled(p, e, alpha * scale)?;
    let positive = scaled(p, x, scale)?;
    positive_or(p, x, positive, negative)
}

/// The least argument for which softplus is taken for the identity, and its hyperbolic tangent is 1 in every type.
const LINEAR: f64 = 20.0;

/// `tanh(log1p(e^x))`, which is `n / (n + 2)` with `n = e^x (e^x + 2)`: one exponential, and no difference in which
/// digits cancel.
fn tanh_softplus(p: &mut Prims, x: PrimId) -> Result<PrimId> {
    let limit = p.number(LINEAR);
    let low = p.binary(BinaryOp::Min, x, limit)?;
    let e = p.unary(UnaryOp::Exp, low)?;
    let shifted = p.add_number(e, 2.0)?;
    let n = p.mul(e, shifted)?;
    let whole = p.add_number(n, 2.0)?;
    p.div(n, whole)
}

/// The argument of the softplus `soft`, if it has the form that this module gives to one of slope 1.
fn softplus_of(p: &Prims, soft: PrimId) -> Option<PrimId> {
    let map = |id: PrimId, op: MapOp| match &p.node(id).prim {
        Prim::Map(own, args) if *own == op => Some(args.as_slice()),
        _ => None,
    };
    let &[linear, x, sum] = map(soft, MapOp::Select)? else {
        return None;
    };
    let &[scaled, threshold] = map(linear, MapOp::Compare(CompareOp::Gt))? else {
        return None;
    };
    let &[positive, log] = map(sum, MapOp::Binary(BinaryOp::Add))? else {
        return None;
    };
    let &[above, floor] = map(positive, MapOp::Binary(BinaryOp::Max))? else {
        return None;
    };
    let chain = [UnaryOp::Log1p, UnaryOp::Exp, UnaryOp::Neg, UnaryOp::Abs];
    let from = chain
        .iter()
        .try_fold(log, |id, op| match map(id, MapOp::Unary(*op))? {
            [inner] => Some(*inner),
            _ => None,
        })?;
    let same = [scaled, above, from] == [x; 3] && p.constant(floor) == Some(0.0);
    let saturates = p.constant(threshold).is_some_and(|t| t >= LINEAR);
    (same && saturates).then_some(x)
}

/// `clamp(x + 3, 0, 6) / 6`.
fn hard_gate(p: &mut Prims, x: PrimId) -> Result<PrimId> {
    let shifted = p.add_number(x, 3.0)?;
    let (zero, six) = (p.number(0.0), p.number(6.0));
    let low = p.binary(BinaryOp::Max, shifted, zero)?;
    let high = p.binary(BinaryOp::Min, low, six)?;
    p.mul_number(high, 1.0 / 6.0)
}

fn gelu(s: &mut Step<'_>) -> Result<PrimId> {
    let x = s.tensor("self")?;
    let tanh = s.call.str("approximate")? == "tanh";
    let p = &mut *s.prims;
    let inner = if tanh {
        let squared = p.mul(x, x)?;
        let cubed = p.mul(squared, x)?;
        let cubed = p.mul_number(cubed, 0.044_715)?;
        let sum = p.add(x, cubed)?;
        let scaled = p.mul_number(sum, (2.0 / std::f64::consts::PI).sqrt())?;
        p.unary(UnaryOp::Tanh, scaled)?
    } else {
        let scaled = p.mul_number(x, std::f64::consts::FRAC_1_SQRT_2)?;
        p.unary(UnaryOp::Erf, scaled)?
    };
    let gate = p.add_number(inner, 1.0)?;
    let half = p.mul_number(x, 0.5)?;
    p.mul(half, gate)
}
