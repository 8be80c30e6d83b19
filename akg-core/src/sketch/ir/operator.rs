//! The operators of tiles, and their names in sketch text.

use crate::named::named;

named! {
    /// Element-wise operators with one operand.
    pub enum UnaryOp {
        /// `-x`.
        Neg = "-",
        /// Boolean or bitwise complement.
        Not = "!",
        /// Absolute value.
        Abs = "abs",
        /// Base e exponential.
        Exp = "exp",
        /// Base 2 exponential.
        Exp2 = "exp2",
        /// `exp(x) - 1`, accurate near 0.
        Expm1 = "expm1",
        /// Natural logarithm.
        Log = "log",
        /// Base 2 logarithm.
        Log2 = "log2",
        /// `log(1 + x)`, accurate near 0.
        Log1p = "log1p",
        /// Square root.
        Sqrt = "sqrt",
        /// `1 / sqrt(x)`.
        Rsqrt = "rsqrt",
        /// Sine.
        Sin = "sin",
        /// Cosine.
        Cos = "cos",
        /// Hyperbolic tangent.
        Tanh = "tanh",
        /// Error function.
        Erf = "erf",
        /// `1 / (1 + exp(-x))`.
        Sigmoid = "sigmoid",
        /// Toward minus infinity.
        Floor = "floor",
        /// Toward plus infinity.
        Ceil = "ceil",
        /// To nearest, ties to even.
        Round = "round",
        /// Toward zero.
        Trunc = "trunc",
        /// True if the element is NaN.
        IsNan = "isnan",
        /// The largest power of two not above the magnitude; 1 for zero, Inf and NaN.
        Pow2Floor = "pow2_floor",
    }
}

impl UnaryOp {
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

named! {
    /// Element-wise operators with two operands of the same type.
    pub enum BinaryOp {
        /// Addition.
        Add = "+",
        /// Subtraction.
        Sub = "-",
        /// Multiplication.
        Mul = "*",
        /// Division of floats.
        Div = "/",
        /// Division of integers, rounded down.
        FloorDiv = "//",
        /// `a - b * floor(a / b)`.
        Mod = "%",
        /// The smaller; NaN if either is NaN.
        Min = "min",
        /// The larger; NaN if either is NaN.
        Max = "max",
        /// `a` to the power `b`.
        Pow = "pow",
        /// `a * 2^b` for a floating `a` and an integer `b`.
        Ldexp = "ldexp",
        /// Bitwise or boolean and.
        And = "&",
        /// Bitwise or boolean or.
        Or = "|",
        /// Bitwise or boolean exclusive or.
        Xor = "^",
        /// Shift to the left.
        Shl = "<<",
        /// Arithmetic shift to the right.
        Shr = ">>",
        /// A random number from 0 to 2^32 - 1: the first word of Philox4x32-10 for the key `a` and the counter `b`, all `i64`.
        Philox = "philox",
    }
}

named! {
    /// Comparisons.
    pub enum CompareOp {
        /// `<`
        Lt = "<",
        /// `<=`
        Le = "<=",
        /// `>`
        Gt = ">",
        /// `>=`
        Ge = ">=",
        /// `==`
        Eq = "==",
        /// `!=`
        Ne = "!=",
    }
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
}

named! {
    /// Associative combinations of reductions and scans.
    pub enum ReduceOp {
        /// Sum.
        Sum = "sum",
        /// Product.
        Prod = "prod",
        /// Maximum, NaN if any is NaN.
        Max = "max",
        /// Minimum, NaN if any is NaN.
        Min = "min",
    }
}

named! {
    /// The precision in which a dot reads its operands and keeps its sums.
    pub enum DotMethod {
        /// Operands as they are; products and partial sums in the operands' precision (f32 at least), fused multiply-add
        /// allowed; rounded into the accumulator's type.
        Ieee = "ieee",
        /// f32 operands rounded to 10 mantissa bits, f32 sums.
        Tf32 = "tf32",
        /// f16 operands, f32 sums.
        F16 = "f16",
        /// bf16 operands, f32 sums.
        Bf16 = "bf16",
    }
}
