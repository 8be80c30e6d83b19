//! The two precisions of the interpreter.

use std::fmt::Debug;
use std::ops::{AddAssign, DivAssign, MulAssign, SubAssign};

use half::{bf16, f16};
use num_traits::Float;

use super::Buffer;
use super::elements::Stored;
use super::product::{self, Products};
use super::shift::Shift;
use super::strided::Matrix;
use crate::dtype::DType;
use crate::tensor::Tensor;

/// A floating type that graphs are evaluated in.
pub(super) trait Real:
    Float + Default + Debug + AddAssign + SubAssign + MulAssign + DivAssign + Send + Sync + 'static
{
    /// Rounds a constant to this type.
    fn of(value: f64) -> Self;
    /// Widens.
    fn widen(self) -> f64;
    /// Rounds an integer to this type.
    fn of_int(value: i64) -> Self;
    /// The exponential; in single precision the power of two that GPUs compute, whose exponent is a rounded product.
    fn exponential(self) -> Self;
    /// The error function.
    fn erf(self) -> Self;
    /// `1 - erf`, accurate for large arguments.
    fn erfc(self) -> Self;
    /// `1 + erf`: exact in double precision, and in single precision the rounded sum that PyTorch computes, which cancels for large
    /// negative arguments.
    fn one_plus_erf(self) -> Self;
    /// The nearest integer, halves to even.
    fn round_even(self) -> Self;
    /// `out = a b`, all its sums made the way of this precision; `out` is dense and row-major. `by` is asked first.
    fn product(by: Option<&dyn Products>, a: &Matrix<'_, Self>, b: &Matrix<'_, Self>, out: &mut [Self]);
    /// The elements of a tensor of `f32`, moved by `shift` and not read yet; `None` where that takes another precision.
    fn stored(tensor: Tensor, shift: Option<Shift>) -> Option<Stored<Self>>;
    /// Elements as the interpreter's result.
    fn buffer(values: Vec<Self>) -> Buffer;

    /// Rounds to a floating element type, to nearest and ties to even; to the half types by way of `f32`, as PyTorch
    /// does. (`half`'s own conversions from `f64` take some values next to a tie for the tie.)
    fn round_to(self, dtype: DType) -> Self {
        match dtype {
            DType::F16 => Self::of(f64::from(f16::from_f32(self.widen() as f32))),
            DType::BF16 => Self::of(f64::from(bf16::from_f32(self.widen() as f32))),
            DType::F32 => Self::of(f64::from(self.widen() as f32)),
            _ => self,
        }
    }

    /// The larger; NaN if either is.
    #[inline(always)]
    fn maximum(self, other: Self) -> Self {
        if self.is_nan() || self > other || self == other {
            self
        } else {
            other
        }
    }

    /// The smaller; NaN if either is.
    #[inline(always)]
    fn minimum(self, other: Self) -> Self {
        if self.is_nan() || self < other || self == other {
            self
        } else {
            other
        }
    }
}

impl Real for f64 {
    fn of(value: f64) -> Self {
        value
    }
    fn widen(self) -> f64 {
        self
    }
    fn of_int(value: i64) -> Self {
        value as f64
    }
    fn exponential(self) -> Self {
        self.exp()
    }
    fn erf(self) -> Self {
        libm::erf(self)
    }
    fn erfc(self) -> Self {
        libm::erfc(self)
    }
    fn one_plus_erf(self) -> Self {
        libm::erfc(-self)
    }
    fn round_even(self) -> Self {
        self.round_ties_even()
    }
    fn product(by: Option<&dyn Products>, a: &Matrix<'_, f64>, b: &Matrix<'_, f64>, out: &mut [f64]) {
        if !by.is_some_and(|by| by.fused(a, b, out)) {
            product::fused(a, b, out);
        }
    }
    fn stored(tensor: Tensor, shift: Option<Shift>) -> Option<Stored<Self>> {
        Some(Stored::wide(tensor, shift))
    }
    fn buffer(values: Vec<Self>) -> Buffer {
        Buffer::F64(values)
    }
}

impl Real for f32 {
    fn of(value: f64) -> Self {
        value as f32
    }
    fn widen(self) -> f64 {
        f64::from(self)
    }
    fn of_int(value: i64) -> Self {
        value as f32
    }
    fn exponential(self) -> Self {
        (self * std::f32::consts::LOG2_E).exp2()
    }
    fn erf(self) -> Self {
        libm::erff(self)
    }
    fn erfc(self) -> Self {
        libm::erfcf(self)
    }
    fn one_plus_erf(self) -> Self {
        1.0 + libm::erff(self)
    }
    fn round_even(self) -> Self {
        self.round_ties_even()
    }
    fn product(by: Option<&dyn Products>, a: &Matrix<'_, f32>, b: &Matrix<'_, f32>, out: &mut [f32]) {
        if !by.is_some_and(|by| by.pairwise(a, b, out)) {
            product::pairwise(a, b, out);
        }
    }
    fn stored(tensor: Tensor, shift: Option<Shift>) -> Option<Stored<Self>> {
        shift.is_none().then(|| Stored::single(tensor))
    }
    fn buffer(values: Vec<Self>) -> Buffer {
        Buffer::F32(values)
    }
}
