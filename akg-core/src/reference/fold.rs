//! The balanced binary tree that every sum of the interpreter goes through.
//!
//! Pairwise summation (Higham, Accuracy and Stability of Numerical Algorithms, §4.2): the error grows with the
//! logarithm of the number of terms.

use rayon::prelude::*;

use super::real::Real;
use super::strided::{Item, Reader, Strided};

/// Results that are reduced side by side.
const WIDTH: usize = 64;
/// Elements that are gathered at a time.
const TILE: usize = 1 << 14;

/// Reduces `rows` rows of `width` elements to the first one.
pub(super) fn tree<E: Item>(buffer: &mut [E], rows: usize, width: usize, merge: impl Fn(E, E) -> E) {
    let mut rows = rows;
    while rows > 1 {
        let half = rows.div_ceil(2);
        let (low, high) = buffer.split_at_mut(half * width);
        for (x, y) in low.iter_mut().zip(&high[..(rows - half) * width]) {
            *x = merge(*x, *y);
        }
        rows = half;
    }
}

/// The sum of `values`, which it overwrites.
pub(super) fn sum<T: Real>(values: &mut [T]) -> T {
    tree(values, values.len(), 1, |x, y| x + y);
    values.first().copied().unwrap_or(T::zero())
}

/// Reduces the axes `axes` of `x`: merges `term(element, result index, index among the reduced)` of each element;
/// `empty` where there is none. The results are in row-major order of the other axes.
pub(super) fn fold<E: Item, A: Item>(
    x: &Strided<E>,
    axes: &[usize],
    term: impl Fn(E, usize, usize) -> A + Sync,
    merge: impl Fn(A, A) -> A + Sync,
    empty: A,
) -> Vec<A> {
    let mut kept: Vec<usize> = (0..x.rank()).filter(|a| !axes.contains(a)).collect();
    let extent = |axes: &[usize]| axes.iter().map(|&a| x.shape()[a]).product::<usize>();
    let (count, results) = (extent(axes), extent(&kept));
    if count * results == 0 {
        return vec![empty; results];
    }
    // Where neighbouring results have neighbouring terms, they are reduced side by side.
    let beside = kept.pop_if(|last| axes.iter().any(|reduced| *last > *reduced));
    let pitch = beside.map_or(1, |last| x.shape()[last]);
    let order: Vec<usize> = kept.iter().chain(axes).copied().chain(beside).collect();
    let view = x.clone().permute(&order);
    let parts: Vec<Strided<E>> = match beside {
        None => vec![view],
        Some(_) => {
            let firsts = (0..pitch).step_by(WIDTH);
            firsts.map(|first| view.clone().slice(order.len() - 1, first, WIDTH.min(pitch - first), 1)).collect()
        }
    };
    let readers: Vec<Reader<'_, E>> = parts.iter().map(Strided::reader).collect();

    let mut out = vec![empty; results];
    let rows_of = |width: usize| (TILE / width).min(count);
    // Merges rows `start..` of a tile of the reduced elements into one row at the front of `terms`.
    let merge_rows = |reader: &Reader<'_, E>, outer: usize, result: usize, width: usize, start: usize| {
        let rows = rows_of(width).min(count - start);
        let mut elements = vec![E::default(); rows * width];
        reader.read((outer * count + start) * width, &mut elements);
        let mut terms = Vec::with_capacity(rows * width);
        for (row, elements) in elements.chunks_exact(width).enumerate() {
            let indexed = elements.iter().enumerate();
            terms.extend(indexed.map(|(i, e)| term(*e, result + i, start + row)));
        }
        tree(&mut terms, rows, width, &merge);
        terms.truncate(width);
        terms
    };
    let groups = out.par_chunks_mut(pitch).with_min_len(TILE.div_ceil(count * pitch));
    groups.enumerate().for_each(|(outer, out)| {
        for ((part, reader), out) in readers.iter().enumerate().zip(out.chunks_mut(WIDTH)) {
            let (result, width) = (outer * pitch + part * WIDTH, out.len());
            let tiles = count.div_ceil(rows_of(width));
            if tiles == 1 {
                out.copy_from_slice(&merge_rows(reader, outer, result, width, 0));
                continue;
            }
            let starts = (0..tiles).into_par_iter().map(|tile| tile * rows_of(width));
            let mut partial: Vec<A> =
                starts.flat_map_iter(|start| merge_rows(reader, outer, result, width, start)).collect();
            tree(&mut partial, tiles, width, &merge);
            out.copy_from_slice(&partial[..width]);
        }
    });
    out
}

/// The sum over `axes` of `term(element, result index)`.
pub(super) fn sum_over<T: Real>(x: &Strided<T>, axes: &[usize], term: impl Fn(T, usize) -> T + Sync) -> Vec<T> {
    fold(x, axes, |e, result, _| term(e, result), |a, b| a + b, T::zero())
}

/// Mean and mean squared deviation of each row of a dense matrix with rows of `len` elements.
pub(super) fn row_moments<T: Real>(values: &[T], len: usize) -> Vec<(T, T)> {
    let moments = |row: &[T]| {
        let mut scratch = row.to_vec();
        moments(&mut scratch)
    };
    values.par_chunks(len.max(1)).map(moments).collect()
}

fn moments<T: Real>(row: &mut Vec<T>) -> (T, T) {
    let count = T::of_int(row.len() as i64);
    let original = row.clone();
    let mean = sum(row) / count;
    for (slot, value) in row.iter_mut().zip(original) {
        let deviation = value - mean;
        *slot = deviation * deviation;
    }
    (mean, sum(row) / count)
}
