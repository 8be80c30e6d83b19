//! Choice between operands, clamping, conversion, and other element-wise operators of their own shape.

use super::super::array::{Array, Data, wrap, zip, zip_in_place, zip3};
use super::super::invocation::{Invocation, Kernel, Results};
use super::super::real::Real;
use super::super::strided::{Item, Strided};
use super::binary::{combine, operand};
use super::sigmoid;
use crate::error::{Error, Result};

pub(super) fn kernel<T: Real>(name: &str) -> Option<Kernel<T>> {
    let kernel: Kernel<T> = match name {
        "where.self" | "where.ScalarOther" | "where.ScalarSelf" | "where.Scalar" => choose,
        "clamp.default" | "clamp.Tensor" => |c| clamp(c, Some("min"), Some("max")),
        "hardtanh.default" => |c| clamp(c, Some("min_val"), Some("max_val")),
        "clamp_min.default" | "clamp_min.Tensor" => |c| clamp(c, Some("min"), None),
        "clamp_max.default" | "clamp_max.Tensor" => |c| clamp(c, None, Some("max")),
        "masked_fill.Scalar" | "masked_fill.Tensor" => |c| {
            let shape = c.shape(0)?;
            let (x, mask, value) = (c.array("self")?, c.array("mask")?, c.operand("value")?);
            let dtype = x.dtype;
            Ok(vec![pick(mask.into_bool(), value.promote(dtype), x, &shape)?])
        },
        "addcmul.default" => |c| {
            fused(
                c,
                |x, a, b, v| x + v * a * b,
                |x, a, b, v| x.wrapping_add(v.wrapping_mul(a).wrapping_mul(b)),
            )
        },
        "addcdiv.default" => |c| fused(c, |x, a, b, v| x + v * a / b, |x, _, _, _| x),
        "lerp.Scalar" | "lerp.Tensor" => |c| {
            let shape = c.shape(0)?;
            let mut get = |name| operand(c, name)?.into_float().expand(&shape);
            let (start, end, weight) = (get("self")?, get("end")?, get("weight")?);
            let out = zip3(start, &end, &weight, |start, end, weight| {
                if weight.abs() < T::of(0.5) {
                    start + weight * (end - start)
                } else {
                    end - (end - start) * (T::one() - weight)
                }
            });
            Ok(vec![Array::float(c.dtype(0)?, out)])
        },
        "to.dtype" | "to.dtype_layout" | "_to_copy.default" | "type_as.default" => |c| {
            let dtype = c.dtype(0)?;
            let x = c.array("self")?;
            Ok(vec![c.convert(x, dtype)])
        },
        "copy.default" => |c| {
            let (dtype, shape) = (c.dtype(0)?, c.shape(0)?);
            let x = c.array("src")?;
            Ok(vec![c.convert(x, dtype).expand(&shape)?])
        },
        "prelu.default" => |c| {
            let (x, weight) = (c.float("self")?, c.float("weight")?);
            let mut shape = vec![1; x.rank()];
            if let Some(channels) = shape.get_mut(1) {
                *channels = weight.len();
            }
            let weight = weight.reshape(shape)?.expand(x.shape())?;
            let out = zip_in_place(x, &weight, |x, w| if x > T::zero() { x } else { w * x });
            Ok(vec![Array::float(c.dtype(0)?, out)])
        },
        "glu.default" => |c| {
            let x = c.float("self")?;
            let axis = c.axis("dim", x.rank())?;
            let half = x.shape()[axis] / 2;
            let gate = x.clone().slice(axis, half, half, 1);
            let out = zip(&x.slice(axis, 0, half, 1), &gate, |x, gate| x * sigmoid(gate));
            Ok(vec![Array::float(c.dtype(0)?, out)])
        },
        _ => return None,
    };
    Some(kernel)
}

fn choose<T: Real>(c: &mut Invocation<'_, T>) -> Results<T> {
    let (dtype, shape) = (c.dtype(0)?, c.shape(0)?);
    let condition = c.array("condition")?.into_bool();
    let (yes, no) = (
        c.operand("self")?.promote(dtype),
        c.operand("other")?.promote(dtype),
    );
    Ok(vec![pick(condition, yes, no, &shape)?])
}

/// `yes` where the condition holds, else `no`; both have one carrier.
pub(in crate::reference) fn pick<T: Real>(
    condition: Strided<bool>,
    yes: Array<T>,
    no: Array<T>,
    shape: &[usize],
) -> Result<Array<T>> {
    fn go<E: Item>(c: Strided<bool>, yes: Strided<E>, no: Strided<E>, shape: &[usize]) -> Result<Strided<E>> {
        let (c, yes) = (c.expand(shape)?, yes.expand(shape)?);
        Ok(zip3(
            no.expand(shape)?,
            &c,
            &yes,
            |no, c, yes| if c { yes } else { no },
        ))
    }
    let dtype = no.dtype;
    let data = match (yes.data, no.data) {
        (Data::Float(a), Data::Float(b)) => Data::Float(go(condition, a, b, shape)?),
        (Data::Int(a), Data::Int(b)) => Data::Int(go(condition, a, b, shape)?),
        (Data::Bool(a), Data::Bool(b)) => Data::Bool(go(condition, a, b, shape)?),
        _ => return Err(Error::unexpected("the alternatives have different element types")),
    };
    Ok(Array { dtype, data })
}

fn clamp<T: Real>(c: &mut Invocation<'_, T>, low: Option<&str>, high: Option<&str>) -> Results<T> {
    let (dtype, shape) = (c.dtype(0)?, c.shape(0)?);
    let low = low.map(|name| c.opt_operand(name)).transpose()?.flatten();
    let high = high.map(|name| c.opt_operand(name)).transpose()?.flatten();
    let x = c.array("self")?;
    if dtype.is_float() {
        let mut out = x.into_float();
        if let Some(low) = low {
            out = combine(out, low.into_float(), &shape, T::maximum)?;
        }
        if let Some(high) = high {
            out = combine(out, high.into_float(), &shape, T::minimum)?;
        }
        return Ok(vec![Array::float(dtype, out)]);
    }
    let mut out = x.promote(dtype).into_int();
    if let Some(low) = low {
        out = combine(out, low.promote(dtype).into_int(), &shape, i64::max)?;
    }
    if let Some(high) = high {
        out = combine(out, high.promote(dtype).into_int(), &shape, i64::min)?;
    }
    Ok(vec![Array::int(dtype, out).carried()])
}

/// `self` with a scaled product or quotient of two tensors added.
fn fused<T: Real>(
    c: &mut Invocation<'_, T>,
    f: impl Fn(T, T, T, T) -> T + Sync,
    i: impl Fn(i64, i64, i64, i64) -> i64 + Sync,
) -> Results<T> {
    let (dtype, shape) = (c.dtype(0)?, c.shape(0)?);
    let value = c.operand("value")?;
    let mut get = |name| operand(c, name)?.expand(&shape);
    let (x, a, b) = (get("self")?, get("tensor1")?, get("tensor2")?);
    Ok(vec![if dtype.is_float() {
        let v = value.into_float().first();
        Array::float(
            dtype,
            zip3(x.into_float(), &a.into_float(), &b.into_float(), |x, a, b| {
                f(x, a, b, v)
            }),
        )
    } else {
        let v = value.into_int().first();
        let out = zip3(x.into_int(), &a.into_int(), &b.into_int(), |x, a, b| {
            wrap(dtype, i(x, a, b, v))
        });
        Array::int(dtype, out)
    }])
}
