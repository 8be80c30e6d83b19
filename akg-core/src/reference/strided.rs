//! Shared elements seen through a shape and strides.
//!
//! Every view operator of ATen, broadcasting included, is a change of shape, strides and offset here and copies
//! nothing. Kernels read through a [`Reader`], which delivers any stretch of the row-major order into a buffer.

use std::sync::Arc;

use super::elements::{Elements, Memory, Stored};
use super::memory::zeros;
use super::parallel::blocks;
use super::run::Stretch;
use crate::error::{Error, Result};
use crate::view::dense_strides;

/// What can be an element.
pub(super) trait Item: Copy + Default + Send + Sync + 'static {}
impl<E: Copy + Default + Send + Sync + 'static> Item for E {}

/// A strided view of shared elements.
#[derive(Debug, Clone)]
pub(super) struct Strided<E> {
    data: Arc<Memory<E>>,
    offset: usize,
    shape: Vec<usize>,
    strides: Vec<isize>,
}

impl<E: Item> Strided<E> {
    /// Dense elements in row-major order; `data` holds as many as `shape` says.
    pub(super) fn new(shape: impl Into<Vec<usize>>, data: Vec<E>) -> Self {
        let shape = shape.into();
        debug_assert_eq!(shape.iter().product::<usize>(), data.len());
        Self {
            data: Arc::new(Memory::Own(data)),
            offset: 0,
            strides: dense_strides(&shape),
            shape,
        }
    }

    /// A tensor as it is.
    pub(super) fn stored(shape: impl Into<Vec<usize>>, stored: Stored<E>) -> Self {
        let shape = shape.into();
        Self {
            data: Arc::new(Memory::Stored(stored)),
            offset: 0,
            strides: dense_strides(&shape),
            shape,
        }
    }

    /// One value everywhere, stored once.
    pub(super) fn full(shape: impl Into<Vec<usize>>, value: E) -> Self {
        let shape = shape.into();
        Self {
            data: Arc::new(Memory::Own(vec![value])),
            offset: 0,
            strides: vec![0; shape.len()],
            shape,
        }
    }

    /// The value of `f` at each row-major position.
    pub(super) fn generate(shape: impl Into<Vec<usize>>, f: impl Fn(usize) -> E + Sync) -> Self {
        let shape = shape.into();
        let mut data = zeros(shape.iter().product());
        blocks(&mut data, &|start, out| {
            for (i, slot) in out.iter_mut().enumerate() {
                *slot = f(start + i);
            }
        });
        Self::new(shape, data)
    }

    pub(super) fn shape(&self) -> &[usize] {
        &self.shape
    }

    pub(super) fn rank(&self) -> usize {
        self.shape.len()
    }

    pub(super) fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// The elements as one slice, if they lie in row-major order.
    pub(super) fn as_slice(&self) -> Option<&[E]> {
        if !self.is_dense() {
            return None;
        }
        let all = self.data.elements().get();
        all.get(self.offset..self.offset + self.len())
    }

    fn is_dense(&self) -> bool {
        let mut expected = 1;
        for (&extent, &stride) in self.shape.iter().zip(&self.strides).rev() {
            if extent == 0 {
                return true;
            }
            if extent != 1 && stride != expected {
                return false;
            }
            expected *= extent as isize;
        }
        true
    }

    /// The elements in row-major order; takes the storage over when nobody else holds it.
    pub(super) fn into_vec(mut self) -> Vec<E> {
        let whole = self.is_dense() && self.offset == 0 && self.data.elements().len() == self.len();
        if let (true, Some(Memory::Own(own))) = (whole, Arc::get_mut(&mut self.data)) {
            return std::mem::take(own);
        }
        self.gather()
    }

    /// The same elements in row-major order.
    pub(super) fn into_dense(self) -> Self {
        if self.as_slice().is_some() {
            return self;
        }
        Self::new(self.shape.clone(), self.gather())
    }

    fn gather(&self) -> Vec<E> {
        let mut data = zeros(self.len());
        let reader = self.reader();
        blocks(&mut data, &|start, out| reader.read(start, out));
        data
    }

    /// The first element; the default of an empty tensor.
    pub(super) fn first(&self) -> E {
        let mut out = [E::default()];
        if self.len() > 0 {
            self.reader().read(0, &mut out);
        }
        out[0]
    }

    /// A reader of this view.
    pub(super) fn reader(&self) -> Reader<'_, E> {
        let mut dims: Vec<(usize, isize)> = Vec::with_capacity(self.rank());
        for (&extent, &stride) in self.shape.iter().zip(&self.strides) {
            match dims.last_mut() {
                _ if extent == 1 => {}
                Some(outer) if outer.1 == stride * extent as isize => *outer = (outer.0 * extent, stride),
                _ => dims.push((extent, stride)),
            }
        }
        if dims.is_empty() {
            dims.push((1, 1));
        }
        Reader {
            data: self.data.elements(),
            offset: self.offset as isize,
            dims,
        }
    }

    /// Base slice and the strides of a matrix that is this view at `prefix` (its leading indices).
    pub(super) fn matrix(&self, prefix: &[usize]) -> Matrix<'_, E> {
        let rank = self.rank();
        let start = prefix
            .iter()
            .zip(&self.strides)
            .map(|(&i, &s)| i as isize * s)
            .sum::<isize>();
        Matrix {
            data: self.data.elements(),
            offset: (self.offset as isize + start) as usize,
            rows: self.shape[rank - 2],
            cols: self.shape[rank - 1],
            row_stride: self.strides[rank - 2],
            col_stride: self.strides[rank - 1],
        }
    }

    pub(super) fn permute(mut self, axes: &[usize]) -> Self {
        self.shape = axes.iter().map(|&a| self.shape[a]).collect();
        self.strides = axes.iter().map(|&a| self.strides[a]).collect();
        self
    }

    pub(super) fn swap(mut self, a: usize, b: usize) -> Self {
        self.shape.swap(a, b);
        self.strides.swap(a, b);
        self
    }

    /// Moves `axis` behind all others.
    pub(super) fn move_last(mut self, axis: usize) -> Self {
        let (extent, stride) = (self.shape.remove(axis), self.strides.remove(axis));
        self.shape.push(extent);
        self.strides.push(stride);
        self
    }

    /// Moves the last axis to position `axis`: the inverse of [`Strided::move_last`].
    pub(super) fn restore_last(mut self, axis: usize) -> Self {
        if let (Some(extent), Some(stride)) = (self.shape.pop(), self.strides.pop()) {
            self.shape.insert(axis, extent);
            self.strides.insert(axis, stride);
        }
        self
    }

    pub(super) fn unsqueeze(mut self, axis: usize) -> Self {
        self.shape.insert(axis, 1);
        self.strides.insert(axis, 0);
        self
    }

    /// Drops axis `axis`, fixed at index `at`.
    pub(super) fn select(mut self, axis: usize, at: usize) -> Self {
        let stride = self.strides.remove(axis);
        self.shape.remove(axis);
        self.offset = (self.offset as isize + stride * at as isize) as usize;
        self
    }

    /// `count` indices of `axis` from `start` on, `step` apart.
    pub(super) fn slice(mut self, axis: usize, start: usize, count: usize, step: usize) -> Self {
        if count > 0 {
            self.offset = (self.offset as isize + self.strides[axis] * start as isize) as usize;
        }
        self.strides[axis] *= step as isize;
        self.shape[axis] = count;
        self
    }

    pub(super) fn flip(mut self, axis: usize) -> Self {
        if let Some(last) = self.shape[axis].checked_sub(1) {
            self.offset = (self.offset as isize + self.strides[axis] * last as isize) as usize;
            self.strides[axis] = -self.strides[axis];
        }
        self
    }

    /// Windows of `size` along `axis`, `step` apart: `axis` counts windows and a new last axis runs inside one.
    pub(super) fn windows(mut self, axis: usize, size: usize, step: usize) -> Self {
        let stride = self.strides[axis];
        self.shape[axis] = (self.shape[axis] + step).saturating_sub(size) / step;
        self.strides[axis] = stride * step as isize;
        self.shape.push(size);
        self.strides.push(stride);
        self
    }

    /// The diagonal of axes `a` and `b` (which vanish) as a new last axis, `offset` to the right of the main one.
    pub(super) fn diagonal(mut self, a: usize, b: usize, offset: i64) -> Self {
        let (down, right) = ((-offset).max(0) as usize, offset.max(0) as usize);
        let rows = self.shape[a].saturating_sub(down);
        let cols = self.shape[b].saturating_sub(right);
        let (sa, sb) = (self.strides[a], self.strides[b]);
        if rows.min(cols) > 0 {
            self.offset = (self.offset as isize + sa * down as isize + sb * right as isize) as usize;
        }
        for axis in [a.max(b), a.min(b)] {
            self.shape.remove(axis);
            self.strides.remove(axis);
        }
        self.shape.push(rows.min(cols));
        self.strides.push(sa + sb);
        self
    }

    /// Broadcasts to `shape` by ATen's rules: axes align at the right, extents of one repeat.
    pub(super) fn expand(mut self, shape: &[usize]) -> Result<Self> {
        let lead = shape.len().checked_sub(self.rank());
        let fits = lead.is_some_and(|lead| {
            let pairs = self.shape.iter().zip(shape.get(lead..).unwrap_or_default());
            pairs.into_iter().all(|(have, want)| have == want || *have == 1)
        });
        let Some(lead) = lead.filter(|_| fits) else {
            return Err(Error::invalid(format!(
                "{:?} does not broadcast to {shape:?}",
                self.shape
            )));
        };
        let strides = (0..shape.len()).map(|axis| match axis.checked_sub(lead) {
            Some(own) if self.shape[own] != 1 => self.strides[own],
            _ => 0,
        });
        self.strides = strides.collect();
        self.shape = shape.to_vec();
        Ok(self)
    }

    /// The elements under another shape of as many elements, in row-major order.
    pub(super) fn reshape(self, shape: impl Into<Vec<usize>>) -> Result<Self> {
        let shape = shape.into();
        if shape.iter().product::<usize>() != self.len() {
            return Err(Error::invalid(format!(
                "{:?} cannot be viewed as {shape:?}",
                self.shape
            )));
        }
        let parts = self
            .shape
            .iter()
            .zip(&self.strides)
            .filter(|(extent, _)| **extent != 1);
        let (extents, strides): (Vec<usize>, Vec<isize>) = parts.unzip();
        if shape.iter().filter(|extent| **extent != 1).eq(&extents) {
            let mut left = strides.into_iter();
            let strides = shape
                .iter()
                .map(|extent| if *extent == 1 { 0 } else { left.next().unwrap_or(0) });
            return Ok(Self {
                strides: strides.collect(),
                shape,
                ..self
            });
        }
        let mut dense = self.into_dense();
        dense.strides = dense_strides(&shape);
        dense.shape = shape;
        Ok(dense)
    }

    /// An arbitrary window on the storage of a dense tensor (`as_strided`).
    pub(super) fn restride(self, shape: &[usize], strides: &[usize], offset: usize) -> Result<Self> {
        let mut dense = self.into_dense();
        let reach = shape
            .iter()
            .zip(strides)
            .map(|(d, s)| d.saturating_sub(1) * s)
            .sum::<usize>();
        if !shape.contains(&0) && offset.saturating_add(reach) >= dense.len() {
            return Err(Error::invalid("as_strided reaches beyond its tensor"));
        }
        dense.offset += offset;
        dense.shape = shape.to_vec();
        dense.strides = strides.iter().map(|&s| s as isize).collect();
        Ok(dense)
    }
}

/// A strided matrix inside other elements: element `(row, col)` is at `offset + row * row_stride + col * col_stride`.
#[derive(Debug, Clone, Copy)]
pub struct Matrix<'a, E> {
    /// What it lies in.
    pub data: Elements<'a, E>,
    /// Where its first element is.
    pub offset: usize,
    /// The number of rows.
    pub rows: usize,
    /// The number of columns.
    pub cols: usize,
    /// Elements from a row to the next.
    pub row_stride: isize,
    /// Elements from a column to the next.
    pub col_stride: isize,
}

impl<'a, E: Copy> Matrix<'a, E> {
    /// A dense row-major matrix.
    pub fn dense(data: &'a [E], rows: usize, cols: usize) -> Self {
        Self {
            data: Elements::Own(data),
            offset: 0,
            rows,
            cols,
            row_stride: cols as isize,
            col_stride: 1,
        }
    }

    /// Returns the transpose, of the same elements.
    pub(super) fn transposed(self) -> Self {
        Self {
            rows: self.cols,
            cols: self.rows,
            row_stride: self.col_stride,
            col_stride: self.row_stride,
            ..self
        }
    }

    /// Returns the place of the element at `(row, col)`.
    fn place(&self, row: usize, col: usize) -> isize {
        self.offset as isize + row as isize * self.row_stride + col as isize * self.col_stride
    }

    /// The element at `(row, col)`.
    #[inline(always)]
    pub(super) fn at(&self, row: usize, col: usize) -> E {
        self.data.get()[self.place(row, col) as usize]
    }

    /// Reads the elements of a row from column `first` on.
    pub(super) fn read_row(&self, row: usize, first: usize, to: &mut [E]) {
        self.data.run(self.place(row, first), self.col_stride, to);
    }

    /// Reads the elements of a column from its first on.
    pub(super) fn read_column(&self, col: usize, to: &mut [E]) {
        self.data.run(self.place(0, col), self.row_stride, to);
    }
}

/// Reads stretches of the row-major order of a [`Strided`].
#[derive(Debug)]
pub(super) struct Reader<'a, E> {
    data: Elements<'a, E>,
    offset: isize,
    /// Extents and strides with axes merged where they can be.
    dims: Vec<(usize, isize)>,
}

impl<'a, E: Item> Reader<'a, E> {
    /// A reader of a dense tensor, or of the indices `start..end` of one of its axes.
    pub(super) fn over(data: &'a [E], shape: &[usize], stretch: Option<Stretch>) -> Self {
        let (offset, dims) = match stretch {
            None => (0, vec![(data.len(), 1)]),
            Some(part) => {
                let inner: usize = shape[part.axis + 1..].iter().product();
                let outer: usize = shape[..part.axis].iter().product();
                let pitch = shape[part.axis] * inner;
                (
                    part.start * inner,
                    vec![(outer, pitch as isize), ((part.end - part.start) * inner, 1)],
                )
            }
        };
        Self {
            data: Elements::Own(data),
            offset: offset as isize,
            dims,
        }
    }

    /// `count` elements from row-major position `start` on.
    pub(super) fn block(&self, start: usize, count: usize) -> Vec<E> {
        let mut out = vec![E::default(); count];
        self.read(start, &mut out);
        out
    }

    /// Fills `out` with the elements from row-major position `start` on.
    pub(super) fn read(&self, start: usize, out: &mut [E]) {
        let Some((&(inner, stride), outer)) = self.dims.split_last() else {
            return;
        };
        let mut index = vec![0; outer.len()];
        let mut column = start % inner.max(1);
        let mut rest = start / inner.max(1);
        let mut base = self.offset;
        for (slot, &(extent, stride)) in index.iter_mut().zip(outer).rev() {
            *slot = rest % extent.max(1);
            rest /= extent.max(1);
            base += *slot as isize * stride;
        }
        let mut out = out;
        while !out.is_empty() {
            let (run, tail) = out.split_at_mut((inner - column).min(out.len()));
            self.data.run(base + column as isize * stride, stride, run);
            out = tail;
            column = 0;
            for (slot, &(extent, stride)) in index.iter_mut().zip(outer).rev() {
                *slot += 1;
                base += stride;
                if *slot < extent {
                    break;
                }
                *slot = 0;
                base -= extent as isize * stride;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(shape: &[usize]) -> Strided<i64> {
        Strided::generate(shape, |i| i as i64)
    }

    #[test]
    fn views_compose() {
        let x = counted(&[2, 3, 4]);
        assert_eq!(
            x.clone().permute(&[2, 0, 1]).select(1, 1).into_vec(),
            [12, 16, 20, 13, 17, 21, 14, 18, 22, 15, 19, 23]
        );
        assert_eq!(
            x.clone().slice(2, 1, 2, 2).flip(0).select(1, 0).into_vec(),
            [13, 15, 1, 3]
        );
        assert_eq!(
            x.clone().select(0, 0).windows(1, 2, 2).select(0, 1).into_vec(),
            [4, 5, 6, 7]
        );
        assert_eq!(x.clone().select(0, 0).diagonal(0, 1, 1).into_vec(), [1, 6, 11]);
        assert_eq!(
            x.select(2, 3).unsqueeze(1).expand(&[2, 2, 3]).unwrap().into_vec(),
            [3, 7, 11, 3, 7, 11, 15, 19, 23, 15, 19, 23]
        );
        assert!(counted(&[2, 3]).expand(&[3, 3]).is_err());
        assert!(counted(&[2, 3]).reshape([5]).is_err());
    }

    #[test]
    fn readers_start_anywhere() {
        let x = counted(&[3, 4, 5]).permute(&[1, 2, 0]);
        let all = x.clone().into_vec();
        for start in 0..all.len() {
            let mut out = vec![0; (all.len() - start).min(17)];
            x.reader().read(start, &mut out);
            assert_eq!(out, all[start..start + out.len()]);
        }
    }
}
