//! Dropout.

use super::array::{Array, map_in_place, zip_in_place};
use super::invocation::{Invocation, Kernel, Results};
use super::real::Real;
use super::strided::Strided;
use crate::error::{Error, Result};
use crate::philox;

pub(super) fn kernel<T: Real>(name: &str) -> Option<Kernel<T>> {
    let kernel: Kernel<T> = match name {
        "dropout.default" => |c| Ok(vec![drop(c, true)?.0]),
        "native_dropout.default" => |c| {
            let (out, mask) = drop(c, false)?;
            Ok(vec![out, mask])
        },
        "seeded_dropout.default" => seeded,
        _ => return None,
    };
    Some(kernel)
}

/// Dropout where chance has no part in it: nothing or everything is dropped. The mask says what is kept.
fn drop<T: Real>(c: &mut Invocation<'_, T>, required: bool) -> Result<(Array<T>, Array<T>)> {
    let p = c.number("p")?;
    let train = if required || c.has("train") {
        c.flag("train")?
    } else {
        true
    };
    let x = c.array("input")?;
    let shape = x.shape().to_vec();
    if !train || p == T::zero() {
        return Ok((x, Array::bool(Strided::full(shape, true))));
    }
    if p == T::one() {
        let dtype = x.dtype;
        let zeros = map_in_place(x.into_float(), |x| x * T::zero());
        return Ok((
            Array::float(dtype, zeros),
            Array::bool(Strided::full(shape, false)),
        ));
    }
    Err(Error::unsupported(
        "dropout that draws numbers of its own has no reference; use akg.seeded_dropout, set p = 0, or export in evaluation \
         mode",
    ))
}

/// Dropout whose chance follows from a seed.
fn seeded<T: Real>(c: &mut Invocation<'_, T>) -> Results<T> {
    let (p, offset) = (c.call.number("p")?, c.int("offset")?);
    let seed = c.array("seed")?.into_int().first();
    let (dtype, shape) = (c.dtype(0)?, c.shape(0)?);
    let numbers = c.numbers()?;
    let least = philox::least_kept(p);
    let kept = Strided::generate(shape, |i| {
        f64::from(philox::word(seed, offset.wrapping_add(numbers(i)))) >= least
    });
    let scale = T::of((1.0 - p).recip());
    let x = c.float("input")?;
    let out = zip_in_place(x, &kept, |x, kept| if kept { x * scale } else { T::zero() });
    Ok(vec![Array::float(dtype, out)])
}
