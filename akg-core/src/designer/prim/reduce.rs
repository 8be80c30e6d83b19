//! Reductions, scans and moments.

use super::{Prim, PrimId, Prims, Scan};
use crate::dtype::DType;
use crate::error::Result;
use crate::expr::Expr;
use crate::sketch::ir::{BinaryOp, ReduceOp};

impl Prims {
    /// Reduces over `axes` (none given means all) and drops or keeps them with extent 1.
    pub(in crate::designer) fn reduce(
        &mut self,
        op: ReduceOp,
        a: PrimId,
        axes: &[usize],
        keep: bool,
    ) -> PrimId {
        let a = self.as_elements(a);
        let shape = self.shape(a).to_vec();
        let kept: Vec<Expr> = shape
            .iter()
            .enumerate()
            .filter(|(i, _)| !axes.contains(i))
            .map(|(_, d)| d.clone())
            .collect();
        let dtype = self.dtype(a);
        // Size-1 dimensions have nothing to combine.
        let real: Vec<usize> = axes
            .iter()
            .copied()
            .filter(|i| shape.get(*i).is_some_and(|d| !d.is(1)))
            .collect();
        let reduced = if real.is_empty() {
            self.push(Prim::Reshape(a), dtype, kept)
        } else {
            self.push(Prim::Reduce(op, a, axes.to_vec()), dtype, kept)
        };
        if keep {
            self.restore(reduced, &shape, axes)
        } else {
            reduced
        }
    }

    /// A prefix combination; along a dimension that is reversed, one from the end.
    pub(in crate::designer) fn scan(&mut self, scan: Scan, a: PrimId) -> PrimId {
        if let Prim::Window(w, _) = &self.node(a).prim
            && w.dim == scan.dim
            && matches!(w.steps[..], [step] if step < 0)
        {
            let original = self.flip(a, scan.dim);
            let reversed = Scan {
                reverse: !scan.reverse,
                ..scan
            };
            let result = self.scan(reversed, original);
            return self.flip(result, scan.dim);
        }
        let a = self.as_elements(a);
        // One element has nothing before it.
        if self.extent(a, scan.dim).is(1) && !scan.exclusive {
            return a;
        }
        let shape = self.shape(a).to_vec();
        self.push(Prim::Scan(scan, a), self.dtype(a), shape)
    }

    /// The number of elements along `axes` for arithmetic in `dtype`: a literal if it is known.
    pub(in crate::designer) fn count(&mut self, a: PrimId, axes: &[usize], dtype: DType) -> PrimId {
        let extents = axes.iter().map(|axis| self.extent(a, *axis));
        let count = extents.fold(Expr::constant(1), |n, d| &n * &d);
        let count = self.integer(&count);
        // Types shorter than f32, which are computed in f32, do not hold it.
        self.cast(count, if dtype == DType::F64 { dtype } else { DType::F32 })
    }

    /// Arithmetic mean over `axes`, kept with extent 1.
    pub(in crate::designer) fn mean(&mut self, a: PrimId, axes: &[usize]) -> Result<PrimId> {
        let sum = self.reduce(ReduceOp::Sum, a, axes, true);
        let count = self.count(a, axes, self.dtype(sum));
        self.div(sum, count)
    }

    /// `variance`, the mean squared deviation over `axes` of `a`, divided by `correction` fewer than all elements.
    pub(in crate::designer) fn corrected(
        &mut self,
        variance: PrimId,
        a: PrimId,
        axes: &[usize],
        correction: f64,
    ) -> Result<PrimId> {
        let count = self.count(a, axes, self.dtype(variance));
        if let Some(count) = self.constant(count) {
            return self.mul_number(variance, count / (count - correction).max(0.0));
        }
        let (zero, correction) = (self.number(0.0), self.number(correction));
        let left = self.sub(count, correction)?;
        let left = self.binary(BinaryOp::Max, left, zero)?;
        let sum = self.mul(variance, count)?;
        self.div(sum, left)
    }

    /// Arithmetic mean and mean squared deviation from it over `axes`, kept with extent 1.
    ///
    /// In double precision the mean of the squares loses nothing that matters to a norm against the square of the mean, and
    /// both take one pass over the data. What is double itself is centred first.
    pub(in crate::designer) fn moments(&mut self, a: PrimId, axes: &[usize]) -> Result<(PrimId, PrimId)> {
        let dtype = self.dtype(a);
        if dtype == DType::F64 {
            return self.centred_moments(a, axes);
        }
        let wide = self.cast(a, DType::F64);
        let squares = self.mul(wide, wide)?;
        let (mean, of_squares) = (self.mean(wide, axes)?, self.mean(squares, axes)?);
        let squared = self.mul(mean, mean)?;
        let difference = self.sub(of_squares, squared)?;
        let zero = self.number(0.0);
        let variance = self.binary(BinaryOp::Max, difference, zero)?;
        // Narrow floats are computed with in f32.
        Ok((self.cast(mean, DType::F32), self.cast(variance, DType::F32)))
    }

    /// Arithmetic mean and mean squared deviation from it over `axes`, kept with extent 1, in double precision and in two
    /// passes: however far the mean is from zero, digits do not cancel.
    pub(in crate::designer) fn centred_moments(
        &mut self,
        a: PrimId,
        axes: &[usize],
    ) -> Result<(PrimId, PrimId)> {
        let wide = self.cast(a, DType::F64);
        let mean = self.mean(wide, axes)?;
        let centred = self.sub(wide, mean)?;
        let squares = self.mul(centred, centred)?;
        Ok((mean, self.mean(squares, axes)?))
    }
}
