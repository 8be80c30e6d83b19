//! Softmax and its logarithm.

use super::array::Array;
use super::fold::sum;
use super::invocation::{Invocation, Kernel, Results};
use super::parallel::lines;
use super::real::Real;
use super::strided::{Item, Strided};

pub(super) fn kernel<T: Real>(name: &str) -> Option<Kernel<T>> {
    let kernel: Kernel<T> = match name {
        "softmax.int" | "_softmax.default" => |c| by_rows(c, softmax_row),
        "log_softmax.int" | "_log_softmax.default" => |c| by_rows(c, log_softmax_row),
        _ => return None,
    };
    Some(kernel)
}

fn by_rows<T: Real>(c: &mut Invocation<'_, T>, row: fn(&mut [T])) -> Results<T> {
    let dtype = c.dtype(0)?;
    let x = c.array("self")?.cast(dtype).expect_float()?;
    let axis = c.axis("dim", x.rank())?;
    Ok(vec![Array::float(dtype, along(x, axis, row))])
}

/// `f` of each line of `x` along `axis`, in place.
pub(super) fn along<E: Item>(x: Strided<E>, axis: usize, f: impl Fn(&mut [E]) + Sync) -> Strided<E> {
    if x.rank() == 0 {
        let mut value = [x.first()];
        f(&mut value);
        return Strided::full([], value[0]);
    }
    let x = x.move_last(axis);
    let shape = x.shape().to_vec();
    let len = shape.last().copied().unwrap_or(1);
    let mut values = x.into_vec();
    lines(&mut values, len, &|_, line| f(line));
    Strided::new(shape, values).restore_last(axis)
}

/// Turns scores into probabilities.
pub(super) fn softmax_row<T: Real>(row: &mut [T]) {
    let largest = row.iter().copied().fold(T::neg_infinity(), T::maximum);
    for x in &mut *row {
        *x = (*x - largest).exponential();
    }
    let total = sum(&mut row.to_vec());
    for x in &mut *row {
        *x /= total;
    }
}

pub(super) fn log_softmax_row<T: Real>(row: &mut [T]) {
    let largest = row.iter().copied().fold(T::neg_infinity(), T::maximum);
    let mut powers: Vec<T> = row.iter().map(|x| (*x - largest).exponential()).collect();
    let log = sum(&mut powers).ln();
    for x in &mut *row {
        *x = *x - largest - log;
    }
}
