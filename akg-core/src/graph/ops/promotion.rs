//! ATen's type promotion (`torch.result_type`).

use super::Call;
use crate::dtype::{DType, DTypeClass};
use crate::error::{Error, Result};
use crate::graph::{Arg, TensorType};

/// The type that PyTorch gives to floating results whose inputs say nothing about it.
pub(super) const DEFAULT_FLOAT: DType = DType::F32;

/// The type of a number that is not a tensor; `None` for arguments that are not numbers.
pub(super) fn scalar_dtype(arg: &Arg) -> Option<DType> {
    match arg {
        Arg::Bool(_) => Some(DType::Bool),
        Arg::Int(_) => Some(DType::I64),
        Arg::Float(_) => Some(DEFAULT_FLOAT),
        _ => None,
    }
}

/// The type in which the arguments `names` meet. Tensors with dimensions come first, then 0-dimensional tensors, then
/// plain numbers: a later group only counts if its class (bool, integer, float) is higher. Missing arguments are
/// skipped.
pub(super) fn result_type(call: &Call<'_>, names: &[&str]) -> Result<DType> {
    let mut types = Vec::new();
    let mut numbers = None;
    for name in names {
        match call.arg(name)? {
            Arg::Value(v) => types.push(call.ty(*v)?),
            arg => numbers = widest(numbers, scalar_dtype(arg)),
        }
    }
    combine(common_type(&types), numbers)
        .ok_or_else(|| Error::invalid(format!("none of {} is given", names.join(", "))))
}

/// [`result_type`] of tensors; `None` if there are none.
pub(super) fn common_type(types: &[&TensorType]) -> Option<DType> {
    let group = |scalar: bool| {
        let group = types.iter().filter(|t| (t.rank() == 0) == scalar);
        group.fold(None, |dtype, ty| widest(dtype, Some(ty.dtype)))
    };
    combine(group(false), group(true))
}

fn widest(a: Option<DType>, b: Option<DType>) -> Option<DType> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.promote(b)),
        _ => a.or(b),
    }
}

fn combine(first: Option<DType>, later: Option<DType>) -> Option<DType> {
    match (first, later) {
        (Some(a), Some(b)) if b.class() > a.class() => Some(a.promote(b)),
        (a, b) => a.or(b),
    }
}

/// Floating types stay, others become [`DEFAULT_FLOAT`].
pub(super) fn to_float(dtype: DType) -> DType {
    if dtype.is_float() { dtype } else { DEFAULT_FLOAT }
}

/// The type that sums and products of `dtype` have: integers and booleans accumulate in `i64`.
pub(super) fn accumulated(dtype: DType) -> DType {
    if dtype.is_float() { dtype } else { DType::I64 }
}

/// An error unless `dtype` is floating.
pub(super) fn require_float(what: &str, dtype: DType) -> Result<DType> {
    if dtype.is_float() {
        return Ok(dtype);
    }
    Err(Error::invalid(format!(
        "{what} must be floating, not {dtype}; convert it first"
    )))
}

/// An error if `dtype` is bool.
pub(super) fn reject_bool(what: &str, dtype: DType) -> Result<DType> {
    if dtype.class() != DTypeClass::Bool {
        return Ok(dtype);
    }
    Err(Error::invalid(format!(
        "{what} must be a number, not bool; convert it first"
    )))
}

/// An error unless both types are the same.
pub(super) fn require_same(what_a: &str, a: DType, what_b: &str, b: DType) -> Result<()> {
    if a == b {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "{what_a} is {a} but {what_b} is {b}; convert one of them"
    )))
}

/// An error unless `dtype` can index: `i64` or `i32`.
pub(super) fn require_index(what: &str, dtype: DType) -> Result<()> {
    if matches!(dtype, DType::I64 | DType::I32) {
        return Ok(());
    }
    Err(Error::invalid(format!("{what} must be i64 or i32, not {dtype}")))
}

/// An error unless `dtype` is an integer.
pub(super) fn require_integer(what: &str, dtype: DType) -> Result<()> {
    if dtype.class() == DTypeClass::Int {
        return Ok(());
    }
    Err(Error::invalid(format!("{what} must be an integer, not {dtype}")))
}
