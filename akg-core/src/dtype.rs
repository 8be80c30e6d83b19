//! Element types.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// The type of one tensor element.
///
/// Packed 4-bit and 8-bit floating storage types will join; match with a wildcard arm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum DType {
    /// One byte, 0 or 1.
    Bool,
    /// Unsigned 8-bit integer.
    U8,
    /// Signed 8-bit integer.
    I8,
    /// Signed 16-bit integer.
    I16,
    /// Signed 32-bit integer.
    I32,
    /// Signed 64-bit integer.
    I64,
    /// IEEE binary16.
    F16,
    /// bfloat16: 8 exponent bits, 7 stored mantissa bits.
    BF16,
    /// IEEE binary32.
    F32,
    /// IEEE binary64.
    F64,
}

/// The broad class of an element type; it decides ATen's type promotion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DTypeClass {
    /// `bool`.
    Bool,
    /// Every integer type.
    Int,
    /// Every floating type.
    Float,
}

impl DType {
    /// Every element type, narrow to wide within a class.
    pub const ALL: [DType; 10] = [
        DType::Bool,
        DType::U8,
        DType::I8,
        DType::I16,
        DType::I32,
        DType::I64,
        DType::F16,
        DType::BF16,
        DType::F32,
        DType::F64,
    ];

    /// Size of one element in bytes.
    pub const fn size(self) -> usize {
        match self {
            DType::Bool | DType::U8 | DType::I8 => 1,
            DType::I16 | DType::F16 | DType::BF16 => 2,
            DType::I32 | DType::F32 => 4,
            DType::I64 | DType::F64 => 8,
        }
    }

    /// The class that decides promotion.
    pub const fn class(self) -> DTypeClass {
        match self {
            DType::Bool => DTypeClass::Bool,
            DType::U8 | DType::I8 | DType::I16 | DType::I32 | DType::I64 => DTypeClass::Int,
            DType::F16 | DType::BF16 | DType::F32 | DType::F64 => DTypeClass::Float,
        }
    }

    /// Whether this is a floating type.
    pub const fn is_float(self) -> bool {
        matches!(self.class(), DTypeClass::Float)
    }

    /// Whether this is a floating type of 16 bits.
    pub const fn is_half(self) -> bool {
        matches!(self, DType::F16 | DType::BF16)
    }

    /// The name used in every text form: `f32`, `i64`, `bool`, …
    pub const fn name(self) -> &'static str {
        match self {
            DType::Bool => "bool",
            DType::U8 => "u8",
            DType::I8 => "i8",
            DType::I16 => "i16",
            DType::I32 => "i32",
            DType::I64 => "i64",
            DType::F16 => "f16",
            DType::BF16 => "bf16",
            DType::F32 => "f32",
            DType::F64 => "f64",
        }
    }

    /// Unit roundoff of a floating type, half the spacing at 1; `None` for exact types.
    pub const fn unit_roundoff(self) -> Option<f64> {
        match self {
            DType::F16 => Some(4.8828125e-4),
            DType::BF16 => Some(3.90625e-3),
            DType::F32 => Some(5.960464477539063e-8),
            DType::F64 => Some(1.1102230246251565e-16),
            _ => None,
        }
    }

    /// The type that ATen computes in when both operands are tensors of at least one dimension
    /// (`torch.promote_types`).
    pub fn promote(self, other: DType) -> DType {
        if self == other {
            return self;
        }
        match self.class().cmp(&other.class()) {
            std::cmp::Ordering::Less => other,
            std::cmp::Ordering::Greater => self,
            std::cmp::Ordering::Equal => match (self, other) {
                (DType::F16, DType::BF16) | (DType::BF16, DType::F16) => DType::F32,
                (DType::U8, DType::I8) | (DType::I8, DType::U8) => DType::I16,
                _ => self.max(other),
            },
        }
    }

    /// The low bits of an integer as this integer type sees them; other types keep the value.
    pub const fn wrap(self, value: i64) -> i64 {
        match self {
            DType::U8 => value as u8 as i64,
            DType::I8 => value as i8 as i64,
            DType::I16 => value as i16 as i64,
            DType::I32 => value as i32 as i64,
            _ => value,
        }
    }

    /// The element of this integer type that a floating number converts to, as PyTorch converts on x86: the number is
    /// truncated to a machine integer of 64 bits for `i64` and `u8`, else of 32, whose low bits are kept. NaN and what does
    /// not fit the machine integer become its least value.
    pub fn truncate(self, value: f64) -> i64 {
        let value = value.trunc();
        let limit = match self {
            DType::I64 | DType::U8 => 2f64.powi(63),
            _ => 2f64.powi(31),
        };
        let fits = (-limit..limit).contains(&value);
        self.wrap(if fits { value as i64 } else { (-limit) as i64 })
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for DType {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|d| d.name() == text).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|d| d.name()).collect();
            Error::invalid(format!(
                "unknown element type `{text}`; known are {}",
                names.join(", ")
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for dtype in DType::ALL {
            assert_eq!(dtype.name().parse::<DType>().unwrap(), dtype);
        }
        assert!("fp32".parse::<DType>().is_err());
    }

    #[test]
    fn promotion_is_commutative() {
        for a in DType::ALL {
            for b in DType::ALL {
                assert_eq!(a.promote(b), b.promote(a));
            }
        }
        assert_eq!(DType::I64.promote(DType::F16), DType::F16);
    }
}
