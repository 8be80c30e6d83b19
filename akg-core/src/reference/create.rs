//! Operators that make tensors from numbers.

use std::f64::consts::TAU;

use super::array::Array;
use super::invocation::{Invocation, Kernel, Results};
use super::real::Real;
use super::strided::Strided;
use crate::error::Error;
use crate::philox;

pub(super) fn kernel<T: Real>(name: &str) -> Option<Kernel<T>> {
    let kernel: Kernel<T> = match name {
        "full.default" | "full_like.default" => |c| fill(c, "fill_value"),
        "scalar_tensor.default" => |c| fill(c, "s"),
        "zeros.default" | "zeros_like.default" => |c| Ok(vec![Array::full(c.dtype(0)?, &c.shape(0)?, 0.0)]),
        "ones.default" | "ones_like.default" => |c| Ok(vec![Array::full(c.dtype(0)?, &c.shape(0)?, 1.0)]),
        "arange.default" | "arange.start" | "arange.start_step" => arange,
        "rand.default" | "randn.default" | "rand_like.default" | "randn_like.default" => |_| {
            Err(Error::unsupported(
                "random tensors have no reference; use akg.seeded_rand or akg.seeded_randn, or make them an input of the graph",
            ))
        },
        "seeded_rand.default" => |c| random(c, 1, |draw, number| T::of(draw(number))),
        "seeded_randn.default" => |c| random(c, 2, normal),
        "_assert_tensor_metadata.default" => |_| Ok(Vec::new()),
        _ => return None,
    };
    Some(kernel)
}

fn fill<T: Real>(c: &mut Invocation<'_, T>, value: &str) -> Results<T> {
    let value = c.operand(value)?.cast(c.dtype(0)?);
    Ok(vec![value.expand(&c.shape(0)?)?])
}

/// Random numbers that follow from a seed, each from so many fractions of its sequence.
fn random<T: Real>(
    c: &mut Invocation<'_, T>,
    fractions: i64,
    make: impl Fn(&dyn Fn(i64) -> f64, i64) -> T + Sync,
) -> Results<T> {
    let (dtype, shape, offset) = (c.dtype(0)?, c.shape(0)?, c.int("offset")?);
    let seed = c.array("seed")?.into_int().first();
    let numbers = c.numbers()?;
    let values = Strided::generate(shape, |i| {
        let first = offset.wrapping_add(numbers(i).wrapping_mul(fractions));
        make(&|number| philox::fraction(seed, number), first).round_to(dtype)
    });
    Ok(vec![Array::float(dtype, values)])
}

/// A normal number of the fractions at `number` and after it: G. E. P. Box and M. E. Muller, *A Note on the Generation of
/// Random Normal Deviates* (1958).
fn normal<T: Real>(draw: &dyn Fn(i64) -> f64, number: i64) -> T {
    let radius = (T::of(-2.0) * T::of(1.0 - draw(number)).ln()).sqrt();
    radius * (T::of(TAU) * T::of(draw(number.wrapping_add(1)))).cos()
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
