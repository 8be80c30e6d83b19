//! Matrix products: fused f64 by the `gemm` crate, and f32 with every product rounded and every sum pairwise.

use std::fmt;
use std::ops::Range;

use pulp::Arch;
use rayon::prelude::*;

use super::strided::Matrix;

/// Makes matrix products faster than the host's cores: a device in the hands of the judge.
///
/// Each product is `out = a b`, with `out` dense, row-major and of `a.rows * b.cols` elements. `false` leaves it to the
/// host, for whatever reason: no device, no memory, a product that is too small to be worth the way.
pub trait Products: Send + Sync + fmt::Debug {
    /// Sums of f64 products in any order, each multiply-add rounded once or twice.
    fn fused(&self, a: &Matrix<'_, f64>, b: &Matrix<'_, f64>, out: &mut [f64]) -> bool;

    /// Sums of f32 products, every product rounded, added up by the tree of [`Precision::F32Pairwise`]: the host's
    /// result to the bit (NaN of any payload). The terms are padded with products of zeros to a multiple of 16, each 16
    /// are a balanced tree, and these subtrees merge like the digits of a binary counter; the subtrees that are left are
    /// added to 0, the smallest first.
    ///
    /// [`Precision::F32Pairwise`]: super::Precision::F32Pairwise
    fn pairwise(&self, a: &Matrix<'_, f32>, b: &Matrix<'_, f32>, out: &mut [f32]) -> bool;
}

/// Multiply-adds below which a product stays on one thread.
const PARALLEL_FROM: usize = 1 << 20;

/// Rows up to which a product reads its right operand in blocks of columns, each prepared while a core's cache holds it: to
/// prepare all of it first takes longer than so few rows do.
const FEW_ROWS: usize = 32;

/// Bytes of such a block of f64.
const BLOCK_BYTES: usize = 2 << 20;

/// `out = a b` in f64 with fused multiply-add.
pub(super) fn fused(a: &Matrix<'_, f64>, b: &Matrix<'_, f64>, out: &mut [f64]) {
    let (m, k, n) = (a.rows, a.cols, b.cols);
    assert!(
        b.rows == k && out.len() == m * n,
        "operand shapes of a product disagree"
    );
    if m * n == 0 {
        return;
    }
    if k == 0 {
        out.fill(0.0);
        return;
    }
    let is_small = m * n * k < PARALLEL_FROM;
    if !is_small && m <= FEW_ROWS && b.data.is_converted() {
        let width = (BLOCK_BYTES / size_of::<f64>() / k).max(1);
        by_columns(out, n, width, |columns, out| {
            let block = Block::read(b, &columns);
            gemm(a, &block.matrix(), out, gemm::Parallelism::None);
        });
        return;
    }
    let parallelism = if is_small {
        gemm::Parallelism::None
    } else {
        gemm::Parallelism::Rayon(0)
    };
    gemm(a, b, out, parallelism);
}

/// Calls `product` on blocks of `width` columns of `out`, which has rows of `n`, each in dense memory of its own.
fn by_columns<E: Copy + Default + Send>(
    out: &mut [E],
    n: usize,
    width: usize,
    product: impl Fn(Range<usize>, &mut [E]) + Sync,
) {
    let rows = out.len() / n;
    let columns = |block: usize| block * width..n.min((block + 1) * width);
    let blocks: Vec<Vec<E>> = (0..n.div_ceil(width))
        .into_par_iter()
        .map(|block| {
            let mut own = vec![E::default(); rows * columns(block).len()];
            product(columns(block), &mut own);
            own
        })
        .collect();
    for (block, own) in blocks.iter().enumerate() {
        let columns = columns(block);
        for (row, own) in out.chunks_exact_mut(n).zip(own.chunks_exact(columns.len())) {
            row[columns.clone()].copy_from_slice(own);
        }
    }
}

/// Some columns of a matrix, in the order in which they lie in its memory.
struct Block {
    values: Vec<f64>,
    rows: usize,
    columns: usize,
    /// Columns lie one after the other.
    by_column: bool,
}

impl Block {
    fn read(b: &Matrix<'_, f64>, columns: &Range<usize>) -> Self {
        let mut values = vec![0.0; b.rows * columns.len()];
        let by_column = b.row_stride == 1;
        if by_column {
            let slots = values.chunks_exact_mut(b.rows).zip(columns.clone());
            slots.for_each(|(to, column)| b.read_column(column, to));
        } else {
            let slots = values.chunks_exact_mut(columns.len()).enumerate();
            slots.for_each(|(row, to)| b.read_row(row, columns.start, to));
        }
        Self {
            values,
            rows: b.rows,
            columns: columns.len(),
            by_column,
        }
    }

    fn matrix(&self) -> Matrix<'_, f64> {
        if self.by_column {
            Matrix::dense(&self.values, self.columns, self.rows).transposed()
        } else {
            Matrix::dense(&self.values, self.rows, self.columns)
        }
    }
}

/// `out = a b` of non-empty matrices by the `gemm` crate.
fn gemm(a: &Matrix<'_, f64>, b: &Matrix<'_, f64>, out: &mut [f64], parallelism: gemm::Parallelism) {
    let (m, k, n) = (a.rows, a.cols, b.cols);
    assert_eq!(out.len(), m * n, "a product has another size");
    let (a_start, b_start) = (base(a), base(b));
    // SAFETY: `base` checked that both corners, and so every element, of `a` and `b` lie inside their slices; `out`
    // holds m x n elements in rows of n, is borrowed exclusively, and is written before it is read.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            out.as_mut_ptr(),
            1,
            n as isize,
            false,
            a.data.get().as_ptr().add(a_start),
            a.col_stride,
            a.row_stride,
            b.data.get().as_ptr().add(b_start),
            b.col_stride,
            b.row_stride,
            0.0,
            1.0,
            false,
            false,
            false,
            parallelism,
        );
    }
}

/// The position of the first element of a non-empty matrix, all of whose elements are checked to lie in its slice.
fn base(x: &Matrix<'_, f64>) -> usize {
    let start = x.offset as isize;
    let reach = [(x.rows, x.row_stride), (x.cols, x.col_stride)].map(|(n, s)| (n as isize - 1) * s);
    let lowest = start + reach.iter().map(|r| (*r).min(0)).sum::<isize>();
    let highest = start + reach.iter().map(|r| (*r).max(0)).sum::<isize>();
    assert!(
        lowest >= 0 && (highest as usize) < x.data.len(),
        "a matrix leaves its storage"
    );
    x.offset
}

/// Columns that one pass of the pairwise product handles: vectors that stay in registers.
const LANES: usize = 32;
/// Terms that are summed as a tree without leaving registers.
const LEAF: usize = 16;
/// Rows that one task handles.
const ROWS: usize = 32;

type Lanes = [f32; LANES];

/// `out = a b` in f32: each product is rounded, and the `k` products of an element are summed as a balanced binary
/// tree (Higham, Accuracy and Stability of Numerical Algorithms, §4.2), so the error grows with log2 k.
pub(super) fn pairwise(a: &Matrix<'_, f32>, b: &Matrix<'_, f32>, out: &mut [f32]) {
    let (m, k, n) = (a.rows, a.cols, b.cols);
    assert!(
        b.rows == k && out.len() == m * n,
        "operand shapes of a product disagree"
    );
    if m * n == 0 {
        return;
    }
    let depth = k.next_multiple_of(LEAF);
    let is_small = m * n * k < PARALLEL_FROM;
    if !is_small && m <= FEW_ROWS {
        let rows = pack_rows(a, 0, m, depth);
        let arch = Arch::new();
        by_columns(out, n, LANES, |columns, out| {
            let panel = pack(b, columns.start, depth);
            let width = columns.len();
            arch.dispatch(|| multiply(&rows, &panel, depth, out, width, 0..width));
        });
        return;
    }
    let panels: Vec<Vec<Lanes>> = if is_small {
        (0..n.div_ceil(LANES))
            .map(|p| pack(b, p * LANES, depth))
            .collect()
    } else {
        (0..n.div_ceil(LANES))
            .into_par_iter()
            .map(|p| pack(b, p * LANES, depth))
            .collect()
    };
    let task = |(block, out): (usize, &mut [f32])| {
        let first = block * ROWS;
        let rows = pack_rows(a, first, out.len() / n, depth);
        let arch = Arch::new();
        for (p, panel) in panels.iter().enumerate() {
            let columns = p * LANES..n.min((p + 1) * LANES);
            arch.dispatch(|| multiply(&rows, panel, depth, out, n, columns.clone()));
        }
    };
    if is_small {
        out.chunks_mut(ROWS * n).enumerate().for_each(task);
    } else {
        out.par_chunks_mut(ROWS * n).enumerate().for_each(task);
    }
}

/// Columns `first..first + LANES` of `b`, with zeros where there is none.
fn pack(b: &Matrix<'_, f32>, first: usize, depth: usize) -> Vec<Lanes> {
    let mut panel = vec![[0.0; LANES]; depth];
    let width = LANES.min(b.cols - first);
    if b.row_stride == 1 {
        let mut column = vec![0.0; b.rows];
        for lane in 0..width {
            b.read_column(first + lane, &mut column);
            for (lanes, value) in panel.iter_mut().zip(&column) {
                lanes[lane] = *value;
            }
        }
        return panel;
    }
    for (row, lanes) in panel.iter_mut().enumerate().take(b.rows) {
        b.read_row(row, first, &mut lanes[..width]);
    }
    panel
}

/// `count` rows of `a` from `first` on, each padded with zeros to `depth`.
fn pack_rows(a: &Matrix<'_, f32>, first: usize, count: usize, depth: usize) -> Vec<f32> {
    let mut rows = vec![0.0; count * depth];
    for (row, slots) in rows.chunks_exact_mut(depth.max(1)).enumerate() {
        a.read_row(first + row, 0, &mut slots[..a.cols]);
    }
    rows
}

#[inline(always)]
fn multiply(rows: &[f32], panel: &[Lanes], depth: usize, out: &mut [f32], n: usize, columns: Range<usize>) {
    let mut waiting = [[0.0; LANES]; usize::BITS as usize];
    for (row, out) in out.chunks_exact_mut(n).enumerate() {
        let terms = &rows[row * depth..(row + 1) * depth];
        let sum = dot(terms, panel, &mut waiting);
        let out = &mut out[columns.clone()];
        out.copy_from_slice(&sum[..out.len()]);
    }
}

/// One row times a panel. Finished subtrees wait on a stack like the digits of a binary counter: subtree `t` merges
/// with as many waiting ones as `t` has trailing one bits.
#[inline(always)]
fn dot(terms: &[f32], panel: &[Lanes], waiting: &mut [Lanes; usize::BITS as usize]) -> Lanes {
    let mut count = 0usize;
    for (a, b) in terms.chunks_exact(LEAF).zip(panel.chunks_exact(LEAF)) {
        let mut sum = leaf(a, b);
        let merges = count.trailing_ones() as usize;
        for lower in &waiting[..merges] {
            sum = add(lower, &sum);
        }
        waiting[merges] = sum;
        count += 1;
    }
    let mut sum = [0.0; LANES];
    for (level, subtree) in waiting.iter().enumerate() {
        if count >> level & 1 == 1 {
            sum = add(subtree, &sum);
        }
    }
    sum
}

/// The tree over `LEAF` products, unrolled.
#[inline(always)]
fn leaf(a: &[f32], b: &[Lanes]) -> Lanes {
    let pair = |i: usize| add(&scale(a[i], &b[i]), &scale(a[i + 1], &b[i + 1]));
    let four = |i: usize| add(&pair(i), &pair(i + 2));
    let eight = |i: usize| add(&four(i), &four(i + 4));
    add(&eight(0), &eight(8))
}

#[inline(always)]
fn add(x: &Lanes, y: &Lanes) -> Lanes {
    std::array::from_fn(|i| x[i] + y[i])
}

#[inline(always)]
fn scale(a: f32, x: &Lanes) -> Lanes {
    std::array::from_fn(|i| a * x[i])
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::super::elements::{Elements, Stored};
    use super::*;
    use crate::tensor::Tensor;

    #[test]
    fn pairwise_products_keep_their_error_bound() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        for (m, k, n) in [
            (1, 1, 1),
            (3, 0, 2),
            (33, 17, 65),
            (5, 300, 31),
            (2, 5000, 3),
            (70, 129, 200),
        ] {
            let a: Vec<f32> = (0..m * k).map(|_| rng.random_range(-1.0..1.0)).collect();
            let b: Vec<f32> = (0..k * n).map(|_| rng.random_range(-1.0..1.0)).collect();
            let wide = |x: &[f32]| x.iter().map(|v| f64::from(*v)).collect::<Vec<_>>();
            let size = |x: &[f32]| x.iter().map(|v| f64::from(v.abs())).collect::<Vec<_>>();
            let mut out = vec![f32::NAN; m * n];
            let (mut exact, mut bound) = (vec![f64::NAN; m * n], vec![f64::NAN; m * n]);
            pairwise(&Matrix::dense(&a, m, k), &Matrix::dense(&b, k, n), &mut out);
            fused(
                &Matrix::dense(&wide(&a), m, k),
                &Matrix::dense(&wide(&b), k, n),
                &mut exact,
            );
            fused(
                &Matrix::dense(&size(&a), m, k),
                &Matrix::dense(&size(&b), k, n),
                &mut bound,
            );
            // One rounding of the product and one at each level of the tree.
            let roundings = f64::from(k.next_power_of_two().max(2).ilog2() + 1);
            for ((have, want), size) in out.iter().zip(exact).zip(bound) {
                assert!(
                    (f64::from(*have) - want).abs() <= roundings * 6e-8 * size,
                    "{m} x {k} x {n}"
                );
            }
        }
    }

    #[test]
    fn products_read_strided_operands() {
        let data: Vec<f64> = (0..12).map(f64::from).collect();
        let narrow: Vec<f32> = data.iter().map(|v| *v as f32).collect();
        // [[11, 7, 3], [10, 6, 2]]: backwards through the columns of a 3 x 4 matrix.
        let backwards = |rows, cols| (11, rows, cols, -1isize, -4isize);
        let (offset, rows, cols, row_stride, col_stride) = backwards(2, 3);
        let a = Matrix {
            data: Elements::Own(&data),
            offset,
            rows,
            cols,
            row_stride,
            col_stride,
        };
        let b = Matrix {
            data: Elements::Own(&narrow),
            offset,
            rows,
            cols,
            row_stride,
            col_stride,
        };
        let mut wide = [0.0; 4];
        fused(&a, &Matrix::dense(&data[..6], 3, 2), &mut wide);
        assert_eq!(wide, [26.0, 47.0, 20.0, 38.0]);
        let mut single = [0.0; 4];
        pairwise(&b, &Matrix::dense(&narrow[..6], 3, 2), &mut single);
        assert_eq!(single, [26.0, 47.0, 20.0, 38.0]);
    }
    #[test]
    fn few_rows_have_the_products_of_many() {
        let mut rng = ChaCha8Rng::seed_from_u64(2);
        let (m, k, n) = (FEW_ROWS + 3, 1000, 333);
        let mut random =
            |count: usize| -> Vec<f32> { (0..count).map(|_| rng.random_range(-1.0..1.0)).collect() };
        let (a, b) = (random(m * k), Tensor::from_slice([k, n], &random(k * n)).unwrap());
        let wide: Vec<f64> = a.iter().map(|v| f64::from(*v)).collect();
        let (single, double) = (Stored::single(b.clone()), Stored::wide(b, None));
        // As it lies there, and as the transpose of what lies there.
        for (row_stride, col_stride) in [(n as isize, 1), (1, k as isize)] {
            let single = strided(Elements::Stored(&single), (k, n), row_stride, col_stride);
            let double = strided(Elements::Stored(&double), (k, n), row_stride, col_stride);
            let (mut all, mut some) = (vec![0.0; m * n], vec![0.0; FEW_ROWS * n]);
            pairwise(&Matrix::dense(&a, m, k), &single, &mut all);
            pairwise(
                &Matrix::dense(&a[..FEW_ROWS * k], FEW_ROWS, k),
                &single,
                &mut some,
            );
            assert_eq!(all[..FEW_ROWS * n], some);
            let (mut all, mut some) = (vec![0.0; m * n], vec![0.0; FEW_ROWS * n]);
            fused(&Matrix::dense(&wide, m, k), &double, &mut all);
            fused(
                &Matrix::dense(&wide[..FEW_ROWS * k], FEW_ROWS, k),
                &double,
                &mut some,
            );
            assert!(all.iter().zip(&some).all(|(x, y)| (x - y).abs() < 1e-12));
        }
    }

    fn strided<E>(
        data: Elements<'_, E>,
        (rows, cols): (usize, usize),
        row_stride: isize,
        col_stride: isize,
    ) -> Matrix<'_, E> {
        Matrix {
            data,
            offset: 0,
            rows,
            cols,
            row_stride,
            col_stride,
        }
    }
}
