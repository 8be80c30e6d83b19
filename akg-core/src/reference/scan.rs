//! Cumulative sums and products, and linear recurrences.

use super::array::{Array, Data, map_in_place, wrap};
use super::invocation::{Invocation, Kernel, Results};
use super::real::Real;
use super::softmax::along;
use super::strided::{Item, Strided};

pub(super) fn kernel<T: Real>(name: &str) -> Option<Kernel<T>> {
    let kernel: Kernel<T> = match name {
        "cumsum.default" => |c| scan(c, |a, b| a + b, i64::wrapping_add),
        "cumprod.default" => |c| scan(c, |a, b| a * b, i64::wrapping_mul),
        "linear_recurrence.default" => linear_recurrence,
        _ => return None,
    };
    Some(kernel)
}

fn scan<T: Real>(c: &mut Invocation<'_, T>, f: fn(T, T) -> T, i: fn(i64, i64) -> i64) -> Results<T> {
    let dtype = c.dtype(0)?;
    let x = c.array("self")?.cast(dtype);
    let axis = c.axis("dim", x.rank())?;
    Ok(vec![match x.data {
        Data::Float(x) => Array::float(dtype, along(x, axis, |row| prefixes(row, f))),
        _ => {
            let x = along(x.into_int(), axis, |row| prefixes(row, i));
            Array::int(dtype, map_in_place(x, |v| wrap(dtype, v)))
        }
    }])
}

/// Replaces each element by the merger of all up to it, through the pairwise mergers of neighbours, so that every
/// prefix is a tree of logarithmic depth (Ladner and Fischer, Parallel Prefix Computation, 1980).
fn prefixes<E: Item>(row: &mut [E], merge: fn(E, E) -> E) {
    if row.len() < 2 {
        return;
    }
    let mut pairs: Vec<E> = row.chunks_exact(2).map(|pair| merge(pair[0], pair[1])).collect();
    prefixes(&mut pairs, merge);
    for i in 1..row.len() {
        row[i] = match i % 2 {
            1 => pairs[i / 2],
            _ => merge(pairs[i / 2 - 1], row[i]),
        };
    }
}

fn linear_recurrence<T: Real>(c: &mut Invocation<'_, T>) -> Results<T> {
    let shape = c.shape(0)?;
    let (decay, input) = (c.float("decay")?.into_vec(), c.float("input")?.into_vec());
    let mut hidden = c.float("hx")?.into_vec();
    let mut out = Vec::with_capacity(decay.len());
    let size = hidden.len().max(1);
    for (decay, input) in decay.chunks(size).zip(input.chunks(size)) {
        for (hidden, (decay, input)) in hidden.iter_mut().zip(decay.iter().zip(input)) {
            *hidden = *decay * *hidden + *input;
        }
        out.extend_from_slice(&hidden);
    }
    Ok(vec![Array::float(c.dtype(0)?, Strided::new(shape, out))])
}
