//! Operators that make tensors from numbers.

use super::array::Array;
use super::invocation::{Invocation, Kernel, Results};
use super::real::Real;
use super::strided::Strided;
use crate::error::Error;

pub(super) fn kernel<T: Real>(name: &str) -> Option<Kernel<T>> {
    let kernel: Kernel<T> = match name {
        "full.default" | "full_like.default" => |c| fill(c, "fill_value"),
        "scalar_tensor.default" => |c| fill(c, "s"),
        "zeros.default" | "zeros_like.default" => |c| Ok(vec![Array::full(c.dtype(0)?, &c.shape(0)?, 0.0)]),
        "ones.default" | "ones_like.default" => |c| Ok(vec![Array::full(c.dtype(0)?, &c.shape(0)?, 1.0)]),
        "arange.default" | "arange.start" | "arange.start_step" => arange,
        "rand.default" | "randn.default" | "rand_like.default" | "randn_like.default" => |_| {
            Err(Error::unsupported(
                "random tensors have no reference; make them an input of the graph",
            ))
        },
        "_assert_tensor_metadata.default" => |_| Ok(Vec::new()),
        _ => return None,
    };
    Some(kernel)
}

fn fill<T: Real>(c: &mut Invocation<'_, T>, value: &str) -> Results<T> {
    let value = c.operand(value)?.cast(c.dtype(0)?);
    Ok(vec![value.expand(&c.shape(0)?)?])
}

fn arange<T: Real>(c: &mut Invocation<'_, T>) -> Results<T> {
    let (dtype, shape) = (c.dtype(0)?, c.shape(0)?);
    let number = |name: &str, missing: i64, c: &mut Invocation<'_, T>| {
        let given = if c.has(name) { c.opt_operand(name)? } else { None };
        Ok::<_, Error>(given.unwrap_or_else(|| Array::int(crate::DType::I64, Strided::full([], missing))))
    };
    let (start, step) = (number("start", 0, c)?, number("step", 1, c)?);
    if dtype.is_float() {
        let (start, step) = (
            start.into_float().first().widen(),
            step.into_float().first().widen(),
        );
        let value = |i: usize| T::of(start + i as f64 * step).round_to(dtype);
        return Ok(vec![Array::float(dtype, Strided::generate(shape, value))]);
    }
    let (start, step) = (start.into_int().first(), step.into_int().first());
    let value = |i: usize| start.wrapping_add(step.wrapping_mul(i as i64));
    Ok(vec![
        Array::int(crate::DType::I64, Strided::generate(shape, value)).cast(dtype),
    ])
}
