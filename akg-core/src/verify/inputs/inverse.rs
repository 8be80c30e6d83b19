//! From a threshold on a result to the operands that reach it.

use crate::dtype::DType;
use crate::graph::ops::Call;
use crate::graph::{Arg, Family, Node, ValueId};

/// What is known of the neighbourhood of a threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Precision {
    /// Only values some way off are surely on one side: what is computed on the way rounds.
    Near,
    /// The value itself reaches the threshold exactly; its neighbours may be rounded to it.
    AtOnly,
    /// The next numbers are exactly beside the threshold.
    Exact,
}

/// A value of an operand at which a result changes its course.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Target {
    pub(super) at: f64,
    pub(super) precision: Precision,
    /// The largest number on the way to the comparison, in units of this operand.
    pub(super) unit: f64,
}

impl Target {
    pub(super) fn new(at: f64, precision: Precision) -> Self {
        Self {
            at,
            precision,
            unit: at.abs(),
        }
    }

    /// The target of an operand that is known only approximately.
    fn near(at: f64) -> Self {
        Self::new(at, Precision::Near)
    }

    /// The values to try for an element of this type: at the target and next to it as far as that is exact, beside it, far
    /// beyond it.
    pub(super) fn values(self, dtype: DType) -> Vec<f64> {
        if !dtype.is_float() {
            let far = self.at.abs().max(1.0) * 100.0;
            let steps = [0.0, -1.0, 1.0, -far, far];
            return steps.map(|step| (self.at + step).round()).to_vec();
        }
        let at = round(dtype, self.at);
        let mut values = Vec::new();
        // A threshold that the type does not have is rounded to it where it is compared.
        if self.precision >= Precision::AtOnly {
            values.push(at);
        }
        if self.precision == Precision::Exact {
            values.extend([next(dtype, at, false), next(dtype, at, true)]);
        }
        let unit = dtype.unit_roundoff().unwrap_or(0.0);
        let beside = if at == 0.0 { 1e-3 } else { at.abs() * 1e-3 };
        let beside = beside.max(32.0 * unit * self.unit);
        let far = at.abs().max(1.0);
        let steps = [-beside, beside, -4.0 * far, 4.0 * far, -64.0 * far, 64.0 * far];
        values.extend(steps.map(|step| round(dtype, at + step)));
        values.retain(|v| v.is_finite());
        values
    }
}

/// The nearest number of a floating type.
pub(super) fn round(dtype: DType, value: f64) -> f64 {
    match dtype {
        DType::F16 => half::f16::from_f64(value).to_f64(),
        DType::BF16 => half::bf16::from_f64(value).to_f64(),
        DType::F32 => f64::from(value as f32),
        _ => value,
    }
}

/// The next number of a floating type. Beside zero it is a small normal one: contracts leave subnormal numbers out.
fn next(dtype: DType, value: f64, up: bool) -> f64 {
    let sign = if up { 1.0 } else { -1.0 };
    if value == 0.0 {
        let smallest = match dtype {
            DType::F16 => -14,
            DType::F64 => -300,
            _ => -110,
        };
        return sign * 2f64.powi(smallest);
    }
    match dtype {
        DType::F64 if up => value.next_up(),
        DType::F64 => value.next_down(),
        DType::F32 if up => f64::from((value as f32).next_up()),
        DType::F32 => f64::from((value as f32).next_down()),
        _ => {
            // Half of a spacing and a bit more is rounded to the neighbour, on the finer side of a power of two as well.
            let unit = dtype.unit_roundoff().unwrap_or(f64::EPSILON);
            let spacing = value.abs().log2().floor().exp2() * 2.0 * unit;
            let fine = round(dtype, value + sign * 0.5 * spacing);
            if fine == value {
                round(dtype, value + sign * spacing)
            } else {
                fine
            }
        }
    }
}

/// The operands with the values for which a result is `target`; `None` if it hangs on several elements.
pub(super) fn operands_of(
    node: &Node,
    call: &Call<'_>,
    number: &dyn Fn(&str) -> Option<f64>,
    target: Target,
) -> Option<Vec<(ValueId, Target)>> {
    let operand = |name: &str| call.value(name).ok();
    let main = || operand("self").or_else(|| operand("input"));
    let all = |values: Vec<ValueId>| Some(values.into_iter().map(|v| (v, target)).collect());
    let t = target.at;
    let near = |found: &[f64]| {
        let main = main()?;
        Some(found.iter().map(|at| (main, Target::near(*at))).collect())
    };
    let dtype = |value: ValueId| call.ty(value).ok().map(|ty| ty.dtype);
    match node.op.base_name() {
        "add" | "sub" | "rsub" => {
            let alpha = number("alpha").unwrap_or(1.0);
            let (left, right) = (number("self"), number("other"));
            // The result is `a x + c`.
            let (value, a, c) = match (node.op.base_name(), left, right) {
                ("add", _, Some(c)) => (operand("self")?, 1.0, alpha * c),
                ("add", Some(c), _) => (operand("other")?, alpha, c),
                ("sub", _, Some(c)) => (operand("self")?, 1.0, -alpha * c),
                ("sub", Some(c), _) => (operand("other")?, -alpha, c),
                ("rsub", _, Some(c)) => (operand("self")?, -alpha, c),
                ("rsub", Some(c), _) => (operand("other")?, 1.0, -alpha * c),
                _ => return None,
            };
            Some(vec![(value, affine(target, dtype(value)?, a, c))])
        }
        "mul" | "multiply" => {
            let (value, a) = match (number("self"), number("other")) {
                (_, Some(a)) => (operand("self")?, a),
                (Some(a), _) => (operand("other")?, a),
                _ => return None,
            };
            (a != 0.0).then(|| vec![(value, affine(target, dtype(value).unwrap_or(DType::F32), a, 0.0))])
        }
        "div" if matches!(call.opt_arg("rounding_mode"), None | Some(Arg::None)) => {
            let (value, d) = (operand("self")?, number("other")?);
            let mut found = affine(target, dtype(value)?, 1.0 / d, 0.0);
            // Kernels divide, or multiply by a reciprocal that rounds.
            if d.abs().log2().fract() != 0.0 {
                found.precision = Precision::Near;
            }
            Some(vec![(value, found)])
        }
        "neg" => Some(vec![(main()?, Target { at: -t, ..target })]),
        "abs" => {
            let value = main()?;
            Some([t, -t].map(|at| (value, Target { at, ..target })).to_vec())
        }
        "square" => near(&[t.sqrt(), -t.sqrt()]),
        "pow" if number("exponent") == Some(2.0) => near(&[t.sqrt(), -t.sqrt()]),
        "sqrt" => near(&[t * t]),
        "exp" => near(&[t.ln()]),
        "log" => near(&[t.exp()]),
        "reciprocal" => near(&[1.0 / t]),
        "sigmoid" => near(&[(t / (1.0 - t)).ln()]),
        "tanh" => near(&[t.atanh()]),
        "silu" | "gelu" | "mish" => near(&[t]),
        "relu" | "relu6" | "hardtanh" | "leaky_relu" | "clamp" | "clamp_min" | "clamp_max" | "to"
        | "_to_copy" | "dropout" | "tril" | "triu" | "masked_fill" | "constant_pad_nd" | "pad" | "amax"
        | "amin" | "clone" => all(vec![main()?]),
        "where" | "maximum" | "minimum" => all(["self", "other"].into_iter().filter_map(operand).collect()),
        "max" | "min" => all(["self", "other"].into_iter().filter_map(operand).collect()),
        "gather" | "index_select" | "index" | "scatter" => all(vec![main()?]),
        "index_copy" => all(["self", "source"].into_iter().filter_map(operand).collect()),
        "embedding" => all(vec![operand("weight")?]),
        name if name.contains("max_pool") => all(vec![main()?]),
        _ if matches!(node.op.family(), Family::View | Family::Rearrange | Family::Join) => {
            all(node.inputs().collect())
        }
        // Comparisons, predicates and what makes indices have no thresholds to pass on.
        _ => None,
    }
}

/// The target of `x` where `a x + c` has one.
fn affine(target: Target, dtype: DType, a: f64, c: f64) -> Target {
    let at = (target.at - c) / a;
    let has = |v: f64| !dtype.is_float() || round(dtype, v) == v;
    let is_power = a.abs().log2().fract() == 0.0;
    let is_exact = has(at) && has(a) && has(c) && has(at * a) && at * a + c == target.at;
    let precision = match target.precision {
        precision if is_exact && is_power && c == 0.0 => precision,
        Precision::Exact | Precision::AtOnly if is_exact => Precision::AtOnly,
        _ => Precision::Near,
    };
    let unit = target.unit.max(c.abs()) / a.abs();
    Target {
        at,
        precision,
        unit: unit.max(at.abs()),
    }
}
