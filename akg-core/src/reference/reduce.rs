//! Reductions.

use super::array::{Array, Data, map, wrap};
use super::fold::{fold, sum_over};
use super::invocation::{Invocation, Kernel, Results, axis};
use super::real::Real;
use super::strided::{Item, Strided};
use crate::dtype::DType;
use crate::error::{Error, Result};

pub(super) fn kernel<T: Real>(name: &str) -> Option<Kernel<T>> {
    let kernel: Kernel<T> = match name {
        "sum.default" | "sum.dim_IntList" => |c| accumulate(c, 0, |a, b| a + b, i64::wrapping_add),
        "prod.default" | "prod.dim_int" => |c| accumulate(c, 1, |a, b| a * b, i64::wrapping_mul),
        "mean.default" | "mean.dim" => |c| {
            let x = c.array("self")?.cast(c.dtype(0)?).expect_float()?;
            let axes = axes(c, x.rank())?;
            let mean = mean(&x, &axes);
            floats(c, 0, mean).map(|a| vec![a])
        },
        "amax.default" | "max.default" => |c| extreme(c, T::maximum, i64::max),
        "amin.default" | "min.default" => |c| extreme(c, T::minimum, i64::min),
        "max.dim" => |c| extreme_at(c, |a, b| a > b, |a, b| a > b),
        "min.dim" => |c| extreme_at(c, |a, b| a < b, |a, b| a < b),
        "argmax.default" => |c| Ok(extreme_at(c, |a, b| a > b, |a, b| a > b)?.split_off(1)),
        "argmin.default" => |c| Ok(extreme_at(c, |a, b| a < b, |a, b| a < b)?.split_off(1)),
        "any.default" | "any.dim" | "any.dims" => |c| truth(c, false, |a, b| a || b),
        "all.default" | "all.dim" | "all.dims" => |c| truth(c, true, |a, b| a && b),
        "var.default" | "var.dim" | "var.correction" => |c| Ok(vec![spread(c, false)?.0]),
        "std.default" | "std.dim" | "std.correction" => |c| Ok(vec![spread(c, true)?.0]),
        "var_mean.default" | "var_mean.dim" | "var_mean.correction" => {
            |c| spread(c, false).map(|(v, m)| vec![v, m])
        }
        "std_mean.default" | "std_mean.dim" | "std_mean.correction" => {
            |c| spread(c, true).map(|(v, m)| vec![v, m])
        }
        "logsumexp.default" => logsumexp,
        "linalg_vector_norm.default" => |c| norm(c, "ord"),
        "norm.ScalarOpt_dim" | "norm.Scalar" => |c| norm(c, "p"),
        _ => return None,
    };
    Some(kernel)
}

/// The axes that `dim` names: an integer or a list, all axes if it is missing or empty.
fn axes<T: Real>(c: &Invocation<'_, T>, rank: usize) -> Result<Vec<usize>> {
    let mut axes = match (c.has("dim"), c.int("dim")) {
        (false, _) => Vec::new(),
        (true, Ok(dim)) => vec![axis(dim, rank)?],
        (true, Err(_)) => c.axes("dim", rank)?,
    };
    if axes.is_empty() {
        axes = (0..rank).collect();
    }
    // A 0-dimensional tensor accepts axis 0 but has none.
    axes.retain(|axis| *axis < rank);
    axes.sort_unstable();
    Ok(axes)
}

fn floats<T: Real>(c: &Invocation<'_, T>, result: usize, values: Vec<T>) -> Result<Array<T>> {
    Ok(Array::float(
        c.dtype(result)?,
        Strided::new(c.shape(result)?, values),
    ))
}

fn ints<T: Real>(c: &Invocation<'_, T>, result: usize, values: Vec<i64>) -> Result<Array<T>> {
    let dtype = c.dtype(result)?;
    let x = Strided::new(c.shape(result)?, values);
    Ok(match dtype {
        DType::Bool => Array::bool(map(&x, |v| v != 0)),
        _ => Array::int(dtype, x),
    })
}

fn accumulate<T: Real>(
    c: &mut Invocation<'_, T>,
    start: i64,
    f: impl Fn(T, T) -> T + Sync,
    i: impl Fn(i64, i64) -> i64 + Sync,
) -> Results<T> {
    let dtype = c.dtype(0)?;
    let x = c.array("self")?.cast(dtype);
    let axes = axes(c, x.rank())?;
    Ok(vec![match x.data {
        Data::Float(x) => floats(c, 0, fold(&x, &axes, |e, _, _| e, f, T::of_int(start)))?,
        _ => ints(
            c,
            0,
            fold(
                &x.into_int(),
                &axes,
                |e, _, _| e,
                |a, b| wrap(dtype, i(a, b)),
                start,
            ),
        )?,
    }])
}

fn mean<T: Real>(x: &Strided<T>, axes: &[usize]) -> Vec<T> {
    let count = T::of_int(axes.iter().map(|&a| x.shape()[a] as i64).product());
    let mut sums = sum_over(x, axes, |e, _| e);
    for s in &mut sums {
        *s /= count;
    }
    sums
}

/// Refuses reductions that have nothing to choose from.
fn not_empty<T: Real>(x: &Array<T>, axes: &[usize]) -> Result<()> {
    if axes.iter().any(|&a| x.shape()[a] == 0)
        && !x
            .shape()
            .iter()
            .enumerate()
            .any(|(a, d)| *d == 0 && !axes.contains(&a))
    {
        return Err(Error::invalid("an extremum of no elements does not exist"));
    }
    Ok(())
}

fn extreme<T: Real>(
    c: &mut Invocation<'_, T>,
    f: impl Fn(T, T) -> T + Sync,
    i: impl Fn(i64, i64) -> i64 + Sync,
) -> Results<T> {
    let x = c.array("self")?;
    let axes = axes(c, x.rank())?;
    not_empty(&x, &axes)?;
    Ok(vec![match x.data {
        Data::Float(x) => floats(c, 0, fold(&x, &axes, |e, _, _| e, f, T::zero()))?,
        _ => ints(c, 0, fold(&x.into_int(), &axes, |e, _, _| e, i, 0))?,
    }])
}

/// Extreme elements and their positions. The first of equal elements wins, and NaN wins over all.
fn extreme_at<T: Real>(
    c: &mut Invocation<'_, T>,
    f: impl Fn(T, T) -> bool + Sync,
    i: impl Fn(i64, i64) -> bool + Sync,
) -> Results<T> {
    let x = c.array("self")?;
    let (dtype, axes) = (x.dtype, axes(c, x.rank())?);
    not_empty(&x, &axes)?;
    let shape = c.shape(0)?;
    let (values, positions) = match x.data {
        Data::Float(x) => {
            let before = |a: T, b: T| (a.is_nan() && !b.is_nan()) || f(a, b);
            let same = |a: T, b: T| a == b || (a.is_nan() && b.is_nan());
            let (values, positions) = select(&x, &axes, before, same);
            (
                Array::float(dtype, Strided::new(shape.clone(), values)),
                positions,
            )
        }
        _ => {
            let (values, positions) = select(&x.into_int(), &axes, i, |a, b| a == b);
            let values = Strided::new(shape.clone(), values);
            let array = if dtype == DType::Bool {
                Array::bool(map(&values, |v| v != 0))
            } else {
                Array::int(dtype, values)
            };
            (array, positions)
        }
    };
    Ok(vec![
        values,
        Array::int(DType::I64, Strided::new(shape, positions)),
    ])
}

fn select<E: Item>(
    x: &Strided<E>,
    axes: &[usize],
    before: impl Fn(E, E) -> bool + Sync,
    same: impl Fn(E, E) -> bool + Sync,
) -> (Vec<E>, Vec<i64>) {
    let better = |a: (E, i64), b: (E, i64)| {
        if before(a.0, b.0) || (same(a.0, b.0) && a.1 < b.1) {
            a
        } else {
            b
        }
    };
    fold(x, axes, |e, _, at| (e, at as i64), better, (E::default(), 0))
        .into_iter()
        .unzip()
}

fn truth<T: Real>(
    c: &mut Invocation<'_, T>,
    empty: bool,
    merge: impl Fn(bool, bool) -> bool + Sync,
) -> Results<T> {
    let x = c.array("self")?.into_bool();
    // Unlike everywhere else, an empty list of axes is none of them.
    let none = c.has("dim") && c.int("dim").is_err() && c.axes("dim", x.rank())?.is_empty();
    let axes = if none { Vec::new() } else { axes(c, x.rank())? };
    let found = fold(&x, &axes, |e, _, _| e, merge, empty);
    let found = Array::bool(Strided::new(c.shape(0)?, found));
    // PyTorch answers u8 with u8.
    Ok(vec![found.cast(c.dtype(0)?)])
}

/// Variance, or its root, and mean. The divisor is the count less `correction` (one unless `unbiased` is false).
fn spread<T: Real>(c: &mut Invocation<'_, T>, root: bool) -> Result<(Array<T>, Array<T>)> {
    let x = c.array("self")?.expect_float()?;
    let axes = axes(c, x.rank())?;
    let correction = if c.has("correction") {
        c.number("correction")?
    } else if c.has("unbiased") && !c.flag("unbiased")? {
        T::zero()
    } else {
        T::one()
    };
    let mean = mean(&x, &axes);
    let count = T::of_int(axes.iter().map(|&a| x.shape()[a] as i64).product());
    let divisor = (count - correction).maximum(T::zero());
    let scales = if root {
        scales(&x, &axes, &mean)
    } else {
        vec![T::one(); mean.len()]
    };
    let squares = sum_over(&x, &axes, |e, result| {
        let deviation = (e - mean[result]) / scales[result];
        deviation * deviation
    });
    let finish = |(square, scale): (T, &T)| {
        let variance = square / divisor;
        if root { variance.sqrt() * *scale } else { variance }
    };
    let spread = squares.into_iter().zip(&scales).map(finish).collect();
    Ok((floats(c, 0, spread)?, floats(c, 0, mean)?))
}

/// For each result a power of two by which deviations can be divided so that their squares neither overflow nor vanish; the
/// division is exact.
fn scales<T: Real>(x: &Strided<T>, axes: &[usize], mean: &[T]) -> Vec<T> {
    let size = |e: T, result: usize, _| (e - mean[result]).abs();
    let largest = fold(x, axes, size, T::maximum, T::zero());
    let scale = |size: T| match size.log2().floor() {
        power if power.is_finite() => T::of(power.widen().clamp(-100.0, 100.0).exp2()),
        _ => T::one(),
    };
    largest.into_iter().map(scale).collect()
}

fn logsumexp<T: Real>(c: &mut Invocation<'_, T>) -> Results<T> {
    let x = c.float("self")?;
    let axes = axes(c, x.rank())?;
    let largest = fold(&x, &axes, |e, _, _| e, T::maximum, T::neg_infinity());
    let shift: Vec<T> = largest
        .iter()
        .map(|m| if m.is_infinite() { T::zero() } else { *m })
        .collect();
    let sums = sum_over(&x, &axes, |e, result| (e - shift[result]).exponential());
    let out = sums.into_iter().zip(&shift).map(|(s, m)| s.ln() + *m).collect();
    Ok(vec![floats(c, 0, out)?])
}

fn norm<T: Real>(c: &mut Invocation<'_, T>, order: &str) -> Results<T> {
    let p = c.opt_number(order)?.unwrap_or(T::of(2.0));
    let x = c.array("self")?.cast(c.dtype(0)?).expect_float()?;
    let axes = axes(c, x.rank())?;
    let one = T::one();
    let out: Vec<T> = if p == T::infinity() {
        fold(&x, &axes, |e, _, _| e.abs(), T::maximum, T::zero())
    } else if p == T::neg_infinity() {
        fold(&x, &axes, |e, _, _| e.abs(), T::minimum, T::infinity())
    } else if p == T::zero() {
        sum_over(&x, &axes, |e, _| if e == T::zero() { T::zero() } else { one })
    } else if p == one {
        sum_over(&x, &axes, |e, _| e.abs())
    } else if p == T::of(2.0) {
        sum_over(&x, &axes, |e, _| e * e)
            .into_iter()
            .map(T::sqrt)
            .collect()
    } else {
        sum_over(&x, &axes, |e, _| e.abs().powf(p))
            .into_iter()
            .map(|s| s.powf(p.recip()))
            .collect()
    };
    Ok(vec![floats(c, 0, out)?])
}
