//! Element-wise operators.

use crate::dtype::DType;
use crate::error::Result;
use crate::graph::{Arg, Graph, ValueId};

macro_rules! unary {
    ($($(#[$doc:meta])* $name:ident => $op:literal;)*) => {
        impl Graph {$(
            $(#[$doc])*
            pub fn $name(&mut self, x: ValueId) -> Result<ValueId> {
                self.call1($op, [("self", x.into())])
            }
        )*}
    };
}
unary! {
    /// `|x|`.
    abs => "abs.default";
    /// `-x`.
    neg => "neg.default";
    /// `1 / x`.
    reciprocal => "reciprocal.default";
    /// The sign: -1, 0 or 1.
    sign => "sign.default";
    /// `e` to the power of `x`.
    exp => "exp.default";
    /// The natural logarithm.
    log => "log.default";
    /// `log(1 + x)`.
    log1p => "log1p.default";
    /// The square root.
    sqrt => "sqrt.default";
    /// `1 / sqrt(x)`.
    rsqrt => "rsqrt.default";
    /// The sine of radians.
    sin => "sin.default";
    /// The cosine of radians.
    cos => "cos.default";
    /// The hyperbolic tangent.
    tanh => "tanh.default";
    /// The error function.
    erf => "erf.default";
    /// The next integer below.
    floor => "floor.default";
    /// The next integer above.
    ceil => "ceil.default";
    /// The nearest integer, halves to even.
    round => "round.default";
    /// The integer part.
    trunc => "trunc.default";
    /// `max(x, 0)`.
    relu => "relu.default";
    /// `x * Φ(x)` by the error function.
    gelu => "gelu.default";
    /// `x * sigmoid(x)`.
    silu => "silu.default";
    /// `x * tanh(softplus(x))`.
    mish => "mish.default";
    /// `1 / (1 + exp(-x))`.
    sigmoid => "sigmoid.default";
    /// `log(1 + exp(x))`.
    softplus => "softplus.default";
    /// `x * relu6(x + 3) / 6`.
    hardswish => "hardswish.default";
    /// `relu6(x + 3) / 6`.
    hardsigmoid => "hardsigmoid.default";
    /// The scaled exponential linear unit.
    selu => "selu.default";
    /// Whether an element is NaN.
    isnan => "isnan.default";
    /// Whether an element is zero (or false).
    logical_not => "logical_not.default";
}

macro_rules! binary {
    ($($(#[$doc:meta])* $name:ident => $tensor:literal, $scalar:literal;)*) => {
        impl Graph {$(
            $(#[$doc])*
            pub fn $name(&mut self, a: ValueId, b: impl Into<Arg>) -> Result<ValueId> {
                let b = b.into();
                let op = if matches!(b, Arg::Value(_)) { $tensor } else { $scalar };
                self.call1(op, [("self", a.into()), ("other", b)])
            }
        )*}
    };
}
binary! {
    /// `a + b`; `b` is a value or a number.
    add => "add.Tensor", "add.Scalar";
    /// `a - b`; `b` is a value or a number.
    sub => "sub.Tensor", "sub.Scalar";
    /// `a * b`; `b` is a value or a number.
    mul => "mul.Tensor", "mul.Scalar";
    /// `a / b`, always floating; `b` is a value or a number.
    div => "div.Tensor", "div.Scalar";
    /// `a - b * floor(a / b)`; `b` is a value or a number.
    remainder => "remainder.Tensor", "remainder.Scalar";
    /// `a - b * trunc(a / b)`; `b` is a value or a number.
    fmod => "fmod.Tensor", "fmod.Scalar";
    /// Whether `a = b`; `b` is a value or a number.
    eq => "eq.Tensor", "eq.Scalar";
    /// Whether `a ≠ b`; `b` is a value or a number.
    ne => "ne.Tensor", "ne.Scalar";
    /// Whether `a < b`; `b` is a value or a number.
    lt => "lt.Tensor", "lt.Scalar";
    /// Whether `a ≤ b`; `b` is a value or a number.
    le => "le.Tensor", "le.Scalar";
    /// Whether `a > b`; `b` is a value or a number.
    gt => "gt.Tensor", "gt.Scalar";
    /// Whether `a ≥ b`; `b` is a value or a number.
    ge => "ge.Tensor", "ge.Scalar";
}

impl Graph {
    /// The larger of `a` and `b`.
    pub fn maximum(&mut self, a: ValueId, b: ValueId) -> Result<ValueId> {
        self.call1("maximum.default", [("self", a.into()), ("other", b.into())])
    }

    /// The smaller of `a` and `b`.
    pub fn minimum(&mut self, a: ValueId, b: ValueId) -> Result<ValueId> {
        self.call1("minimum.default", [("self", a.into()), ("other", b.into())])
    }

    /// Whether both `a` and `b` are true (not zero).
    pub fn logical_and(&mut self, a: ValueId, b: ValueId) -> Result<ValueId> {
        self.call1("logical_and.default", [("self", a.into()), ("other", b.into())])
    }

    /// Whether `a` or `b` is true (not zero).
    pub fn logical_or(&mut self, a: ValueId, b: ValueId) -> Result<ValueId> {
        self.call1("logical_or.default", [("self", a.into()), ("other", b.into())])
    }

    /// `x` to the power of `exponent`, a value or a number.
    pub fn pow(&mut self, x: ValueId, exponent: impl Into<Arg>) -> Result<ValueId> {
        let exponent = exponent.into();
        let op = if matches!(exponent, Arg::Value(_)) {
            "pow.Tensor_Tensor"
        } else {
            "pow.Tensor_Scalar"
        };
        self.call1(op, [("self", x.into()), ("exponent", exponent)])
    }

    /// `a` where `condition` holds, `b` elsewhere.
    pub fn where_(&mut self, condition: ValueId, a: ValueId, b: ValueId) -> Result<ValueId> {
        self.call1(
            "where.self",
            [
                ("condition", condition.into()),
                ("self", a.into()),
                ("other", b.into()),
            ],
        )
    }

    /// `value` where `mask` holds, `x` elsewhere.
    pub fn masked_fill(&mut self, x: ValueId, mask: ValueId, value: f64) -> Result<ValueId> {
        self.call1(
            "masked_fill.Scalar",
            [("self", x.into()), ("mask", mask.into()), ("value", value.into())],
        )
    }

    /// `x` limited to `min..=max`; either may be missing.
    pub fn clamp(&mut self, x: ValueId, min: Option<f64>, max: Option<f64>) -> Result<ValueId> {
        self.call1(
            "clamp.default",
            [("self", x.into()), ("min", min.into()), ("max", max.into())],
        )
    }

    /// `x` limited to `min..=max`.
    pub fn hardtanh(&mut self, x: ValueId, min: f64, max: f64) -> Result<ValueId> {
        self.call1(
            "hardtanh.default",
            [
                ("self", x.into()),
                ("min_val", min.into()),
                ("max_val", max.into()),
            ],
        )
    }

    /// `x`, scaled by `negative_slope` where it is negative.
    pub fn leaky_relu(&mut self, x: ValueId, negative_slope: f64) -> Result<ValueId> {
        self.call1(
            "leaky_relu.default",
            [("self", x.into()), ("negative_slope", negative_slope.into())],
        )
    }

    /// `x` where it is positive, `alpha * (exp(x) - 1)` elsewhere.
    pub fn elu(&mut self, x: ValueId, alpha: f64) -> Result<ValueId> {
        self.call1("elu.default", [("self", x.into()), ("alpha", alpha.into())])
    }

    /// GELU by its tanh approximation.
    pub fn gelu_tanh(&mut self, x: ValueId) -> Result<ValueId> {
        self.call1(
            "gelu.default",
            [("self", x.into()), ("approximate", "tanh".into())],
        )
    }

    /// `x` converted to `dtype`.
    pub fn to_dtype(&mut self, x: ValueId, dtype: DType) -> Result<ValueId> {
        self.call1("to.dtype", [("self", x.into()), ("dtype", dtype.into())])
    }
}
