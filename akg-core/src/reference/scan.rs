//! Cumulative sums and products.

use super::array::{Array, Data, map_in_place, wrap};
use super::invocation::{Invocation, Kernel, Results};
use super::real::Real;
use super::softmax::along;
use super::strided::Item;

pub(super) fn kernel<T: Real>(name: &str) -> Option<Kernel<T>> {
    let kernel: Kernel<T> = match name {
        "cumsum.default" => |c| scan(c, |a, b| a + b, i64::wrapping_add),
        "cumprod.default" => |c| scan(c, |a, b| a * b, i64::wrapping_mul),
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
