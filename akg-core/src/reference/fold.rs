//! The balanced binary tree that every sum of the interpreter goes through.
//!
//! Pairwise summation (Higham, Accuracy and Stability of Numerical Algorithms, §4.2): the error grows with the
//! logarithm of the number of terms.

use rayon::prelude::*;

use super::parallel::{BLOCK, tasks};
use super::real::Real;
use super::strided::{Item, Reader, Strided};

/// Results that are reduced side by side.
const WIDTH: usize = 64;
/// Elements that are gathered at a time.
const TILE: usize = 1 << 14;

/// Reduces `rows` rows of `width` elements to the first one, neighbours first: as in most kernels, partial sums are those of stretches.
/// Sums of elements far apart would cancel early in a sorted row, and show none of the error that such a kernel has there.
pub(super) fn tree<E: Item>(buffer: &mut [E], rows: usize, width: usize, merge: impl Fn(E, E) -> E) {
    let mut rows = rows;
    while rows > 1 {
        let pairs = rows / 2;
        for pair in 0..pairs {
            let from = 2 * pair * width;
            for i in 0..width {
                buffer[pair * width + i] = merge(buffer[from + i], buffer[from + width + i]);
            }
        }
        if rows % 2 == 1 {
            buffer.copy_within((rows - 1) * width..rows * width, pairs * width);
        }
        rows -= pairs;
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
    let terms = |tile: &Tile<'_, E>| {
        let mut terms = Vec::with_capacity(tile.elements.len());
        for (row, elements) in tile.elements.chunks_exact(tile.width).enumerate() {
            let indexed = elements.iter().enumerate();
            terms.extend(indexed.map(|(i, e)| term(*e, tile.result + i, tile.row + row)));
        }
        terms
    };
    let merge = |buffer: &mut [A], rows: usize, width: usize| tree(buffer, rows, width, &merge);
    fold_tiles(x, axes, empty, &terms, &merge)
}

/// Some of the elements to reduce for some neighbouring results: a row for each index among the reduced.
struct Tile<'a, E> {
    elements: &'a [E],
    width: usize,
    /// The first result.
    result: usize,
    /// The first index among the reduced.
    row: usize,
}

fn fold_tiles<E: Item, A: Item>(
    x: &Strided<E>,
    axes: &[usize],
    empty: A,
    terms: &(dyn Fn(&Tile<'_, E>) -> Vec<A> + Sync),
    merge: &(dyn Fn(&mut [A], usize, usize) + Sync),
) -> Vec<A> {
    let mut kept: Vec<usize> = (0..x.rank()).filter(|a| !axes.contains(a)).collect();
    let extent = |axes: &[usize]| axes.iter().map(|&a| x.shape()[a]).product::<usize>();
    let (count, results) = (extent(axes), extent(&kept));
    if count * results == 0 {
        return vec![empty; results];
    }
    // Where neighbouring results have neighbouring terms, they are reduced side by side.
    let beside = kept.pop_if(|last| axes.iter().all(|reduced| *last > *reduced));
    let pitch = beside.map_or(1, |last| x.shape()[last]);
    let order: Vec<usize> = kept.iter().chain(axes).copied().chain(beside).collect();
    let view = x.clone().permute(&order);
    let parts: Vec<Strided<E>> = match beside {
        None => vec![view],
        Some(_) => {
            let firsts = (0..pitch).step_by(WIDTH);
            firsts
                .map(|first| {
                    view.clone()
                        .slice(order.len() - 1, first, WIDTH.min(pitch - first), 1)
                })
                .collect()
        }
    };
    let readers: Vec<Reader<'_, E>> = parts.iter().map(Strided::reader).collect();

    let rows_of = |width: usize| (TILE / width).min(count);
    // Reduces one tile to a row of results.
    let reduce = |part: usize, outer: usize, width: usize, row: usize| {
        let rows = rows_of(width).min(count - row);
        let elements = readers[part].block((outer * count + row) * width, rows * width);
        let tile = Tile {
            elements: &elements,
            width,
            result: outer * pitch + part * WIDTH,
            row,
        };
        let mut terms = terms(&tile);
        merge(&mut terms, rows, width);
        terms.truncate(width);
        terms
    };
    let mut out = vec![empty; results];
    let group = TILE.div_ceil(count * pitch);
    out.par_chunks_mut(pitch)
        .with_min_len(group)
        .enumerate()
        .for_each(|(outer, out)| {
            for (part, out) in out.chunks_mut(WIDTH).enumerate() {
                let width = out.len();
                let tiles = count.div_ceil(rows_of(width));
                if tiles == 1 {
                    out.copy_from_slice(&reduce(part, outer, width, 0));
                    continue;
                }
                let rows = (0..tiles).into_par_iter().map(|tile| tile * rows_of(width));
                let mut partial: Vec<A> = rows
                    .flat_map_iter(|row| reduce(part, outer, width, row))
                    .collect();
                merge(&mut partial, tiles, width);
                out.copy_from_slice(&partial[..width]);
            }
        });
    out
}

/// The sum over `axes` of `term(element, result index)`.
pub(super) fn sum_over<T: Real>(
    x: &Strided<T>,
    axes: &[usize],
    term: impl Fn(T, usize) -> T + Sync,
) -> Vec<T> {
    fold(x, axes, |e, result, _| term(e, result), |a, b| a + b, T::zero())
}

/// The sum of `term` over the pairs of two tensors of one shape.
pub(super) fn sum_of_pairs<T: Real>(x: &Strided<T>, y: &Strided<T>, term: impl Fn(T, T) -> T + Sync) -> T {
    debug_assert_eq!(x.shape(), y.shape());
    let (xs, ys) = (x.reader(), y.reader());
    let tile = |number: usize| {
        let start = number * TILE;
        let count = TILE.min(x.len() - start);
        let (xs, ys) = (xs.block(start, count), ys.block(start, count));
        let mut terms: Vec<T> = xs.into_iter().zip(ys).map(|(x, y)| term(x, y)).collect();
        sum(&mut terms)
    };
    let tiles = (0..x.len().div_ceil(TILE)).into_par_iter();
    sum(&mut tiles.map(tile).collect::<Vec<T>>())
}

/// Mean and mean squared deviation of each row of a dense matrix with rows of `len` elements.
pub(super) fn row_moments<T: Real>(values: &[T], len: usize) -> Vec<(T, T)> {
    let mut out = vec![(T::zero(), T::zero()); values.len() / len.max(1)];
    tasks(&mut out, BLOCK.div_ceil(len.max(1)), &|at, out| {
        let first = at * BLOCK.div_ceil(len.max(1)) * len;
        for (row, out) in values[first..].chunks_exact(len).zip(out) {
            *out = moments(row);
        }
    });
    out
}

fn moments<T: Real>(row: &[T]) -> (T, T) {
    let count = T::of_int(row.len() as i64);
    let mean = sum(&mut row.to_vec()) / count;
    let mut squares: Vec<T> = row.iter().map(|v| (*v - mean) * (*v - mean)).collect();
    (mean, sum(&mut squares) / count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_many_terms_stay_exact() {
        // Added one by one, f32 would stop growing at 2^24.
        let x = Strided::full([1 << 25, 2], 1.0f32);
        assert_eq!(sum_over(&x, &[0], |e, _| e), [33554432.0, 33554432.0]);
        let x = Strided::full([2, 1 << 25], 1.0f32);
        assert_eq!(sum_over(&x, &[1], |e, _| e), [33554432.0, 33554432.0]);
    }

    #[test]
    fn every_element_is_visited_once_with_its_place() {
        for (shape, axes) in [
            ([3, 5, 70], vec![1]),
            ([70, 5, 3], vec![0]),
            ([2, 300, 2], vec![0, 1]),
            ([4, 3, 2], vec![0, 2]),
        ] {
            let x = Strided::generate(shape, |i| i as i64);
            let kept: Vec<usize> = (0..3).filter(|a| !axes.contains(a)).collect();
            let inner: usize = axes.iter().map(|&a| shape[a]).product();
            let order: Vec<usize> = kept.iter().chain(&axes).copied().collect();
            let moved = x.clone().permute(&order).into_vec();
            let right = |e: i64, result: usize, at: usize| i64::from(moved[result * inner + at] == e);
            let counts = fold(&x, &axes, right, |a, b| a + b, 0);
            assert_eq!(counts, vec![inner as i64; moved.len() / inner]);
        }
    }
}
