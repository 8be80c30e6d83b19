//! The operators of tiles, and their names in sketch text.

/// Element-wise operators with one operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum UnaryOp {
    /// `-x`.
    Neg,
    /// Boolean or bitwise complement.
    Not,
    /// Absolute value.
    Abs,
    /// Base e exponential.
    Exp,
    /// Base 2 exponential.
    Exp2,
    /// `exp(x) - 1`, accurate near 0.
    Expm1,
    /// Natural logarithm.
    Log,
    /// Base 2 logarithm.
    Log2,
    /// `log(1 + x)`, accurate near 0.
    Log1p,
    /// Square root.
    Sqrt,
    /// `1 / sqrt(x)`.
    Rsqrt,
    /// Sine.
    Sin,
    /// Cosine.
    Cos,
    /// Hyperbolic tangent.
    Tanh,
    /// Error function.
    Erf,
    /// `1 / (1 + exp(-x))`.
    Sigmoid,
    /// Toward minus infinity.
    Floor,
    /// Toward plus infinity.
    Ceil,
    /// To nearest, ties to even.
    Round,
    /// Toward zero.
    Trunc,
    /// Whether the element is NaN.
    IsNan,
    /// The largest power of two not above the magnitude; 1 for zero, Inf and NaN.
    Pow2Floor,
}

impl UnaryOp {
    /// Every operator with the name of its function in sketch text; `-` and `!` are written as signs.
    pub const ALL: [(UnaryOp, &'static str); 22] = [
        (UnaryOp::Neg, "-"),
        (UnaryOp::Not, "!"),
        (UnaryOp::Abs, "abs"),
        (UnaryOp::Exp, "exp"),
        (UnaryOp::Exp2, "exp2"),
        (UnaryOp::Expm1, "expm1"),
        (UnaryOp::Log, "log"),
        (UnaryOp::Log2, "log2"),
        (UnaryOp::Log1p, "log1p"),
        (UnaryOp::Sqrt, "sqrt"),
        (UnaryOp::Rsqrt, "rsqrt"),
        (UnaryOp::Sin, "sin"),
        (UnaryOp::Cos, "cos"),
        (UnaryOp::Tanh, "tanh"),
        (UnaryOp::Erf, "erf"),
        (UnaryOp::Sigmoid, "sigmoid"),
        (UnaryOp::Floor, "floor"),
        (UnaryOp::Ceil, "ceil"),
        (UnaryOp::Round, "round"),
        (UnaryOp::Trunc, "trunc"),
        (UnaryOp::IsNan, "isnan"),
        (UnaryOp::Pow2Floor, "pow2_floor"),
    ];

    /// Whether machines compute it by many instructions, as they do logarithms.
    pub(crate) fn is_transcendental(self) -> bool {
        matches!(
            self,
            UnaryOp::Exp
                | UnaryOp::Exp2
                | UnaryOp::Expm1
                | UnaryOp::Log
                | UnaryOp::Log2
                | UnaryOp::Log1p
                | UnaryOp::Sin
                | UnaryOp::Cos
                | UnaryOp::Tanh
                | UnaryOp::Erf
                | UnaryOp::Sigmoid
        )
    }
}

/// Element-wise operators with two operands of the same type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BinaryOp {
    /// Addition.
    Add,
    /// Subtraction.
    Sub,
    /// Multiplication.
    Mul,
    /// Division of floats.
    Div,
    /// Division of integers, rounded down.
    FloorDiv,
    /// `a - b * floor(a / b)`.
    Mod,
    /// The smaller; NaN if either is NaN.
    Min,
    /// The larger; NaN if either is NaN.
    Max,
    /// `a` to the power `b`.
    Pow,
    /// `a * 2^b` for a floating `a` and an integer `b`.
    Ldexp,
    /// Bitwise or boolean and.
    And,
    /// Bitwise or boolean or.
    Or,
    /// Bitwise or boolean exclusive or.
    Xor,
    /// Shift to the left.
    Shl,
    /// Arithmetic shift to the right.
    Shr,
    /// A random number from 0 to 2^32 - 1: the first word of Philox4x32-10 for the key `a` and the counter `b`, all `i64`.
    Philox,
}

impl BinaryOp {
    /// Every operator with its sign or the name of its function in sketch text.
    pub const ALL: [(BinaryOp, &'static str); 16] = [
        (BinaryOp::Add, "+"),
        (BinaryOp::Sub, "-"),
        (BinaryOp::Mul, "*"),
        (BinaryOp::Div, "/"),
        (BinaryOp::FloorDiv, "//"),
        (BinaryOp::Mod, "%"),
        (BinaryOp::Min, "min"),
        (BinaryOp::Max, "max"),
        (BinaryOp::Pow, "pow"),
        (BinaryOp::Ldexp, "ldexp"),
        (BinaryOp::And, "&"),
        (BinaryOp::Or, "|"),
        (BinaryOp::Xor, "^"),
        (BinaryOp::Shl, "<<"),
        (BinaryOp::Shr, ">>"),
        (BinaryOp::Philox, "philox"),
    ];
}

/// Comparisons.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CompareOp {
    /// `<`
    Lt,
    /// `<=`
    Le,
    /// `>`
    Gt,
    /// `>=`
    Ge,
    /// `==`
    Eq,
    /// `!=`
    Ne,
}

impl CompareOp {
    /// Whether `a op b`; with NaN only `!=` holds.
    pub fn holds<T: PartialOrd>(self, a: &T, b: &T) -> bool {
        match self {
            CompareOp::Lt => a < b,
            CompareOp::Le => a <= b,
            CompareOp::Gt => a > b,
            CompareOp::Ge => a >= b,
            CompareOp::Eq => a == b,
            CompareOp::Ne => a != b,
        }
    }

    /// Every comparison with its sign.
    pub const ALL: [(CompareOp, &'static str); 6] = [
        (CompareOp::Lt, "<"),
        (CompareOp::Le, "<="),
        (CompareOp::Gt, ">"),
        (CompareOp::Ge, ">="),
        (CompareOp::Eq, "=="),
        (CompareOp::Ne, "!="),
    ];
}

/// Associative combinations of reductions and scans.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ReduceOp {
    /// Sum.
    Sum,
    /// Product.
    Prod,
    /// Maximum, NaN if any is NaN.
    Max,
    /// Minimum, NaN if any is NaN.
    Min,
}

impl ReduceOp {
    /// Every combination with its suffix in `reduce_sum` and `scan_sum`.
    pub const ALL: [(ReduceOp, &'static str); 4] = [
        (ReduceOp::Sum, "sum"),
        (ReduceOp::Prod, "prod"),
        (ReduceOp::Max, "max"),
        (ReduceOp::Min, "min"),
    ];
}

/// How a dot reads its operands and keeps its sums.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DotMethod {
    /// Operands as they are; products and partial sums in the operands' precision (f32 at least), fused multiply-add
    /// allowed; rounded into the accumulator's type.
    Ieee,
    /// f32 operands rounded to 10 mantissa bits, f32 sums.
    Tf32,
    /// f16 operands, f32 sums.
    F16,
    /// bf16 operands, f32 sums.
    Bf16,
}

impl DotMethod {
    /// Every method with its name in sketch text.
    pub const ALL: [(DotMethod, &'static str); 4] = [
        (DotMethod::Ieee, "ieee"),
        (DotMethod::Tf32, "tf32"),
        (DotMethod::F16, "f16"),
        (DotMethod::Bf16, "bf16"),
    ];
}
