//! Reductions, softmax and scans. Where `dims` is empty every dimension is reduced.

use crate::error::{Error, Result};
use crate::graph::{Arg, Graph, ValueId};

macro_rules! reductions {
    ($($(#[$doc:meta])* $name:ident => $op:literal;)*) => {
        impl Graph {$(
            $(#[$doc])*
            pub fn $name(&mut self, x: ValueId, dims: &[i64], keepdim: bool) -> Result<ValueId> {
                self.call1($op, [("self", x.into()), ("dim", dims.into()), ("keepdim", keepdim.into())])
            }
        )*}
    };
}
reductions! {
    /// The sum over `dims`; integers and booleans add up as `i64`.
    sum => "sum.dim_IntList";
    /// The mean over `dims`.
    mean => "mean.dim";
    /// The largest element over `dims`.
    amax => "amax.default";
    /// The smallest element over `dims`.
    amin => "amin.default";
    /// `log(sum(exp(x)))` over `dims`.
    logsumexp => "logsumexp.default";
}

macro_rules! along_one {
    ($($(#[$doc:meta])* $name:ident => $op:literal;)*) => {
        impl Graph {$(
            $(#[$doc])*
            pub fn $name(&mut self, x: ValueId, dim: i64) -> Result<ValueId> {
                self.call1($op, [("self", x.into()), ("dim", dim.into())])
            }
        )*}
    };
}
along_one! {
    /// `exp(x) / sum(exp(x))` along `dim`.
    softmax => "softmax.int";
    /// The logarithm of the softmax along `dim`.
    log_softmax => "log_softmax.int";
    /// The running sum along `dim`.
    cumsum => "cumsum.default";
    /// The running product along `dim`.
    cumprod => "cumprod.default";
    /// The index of the largest element along `dim`.
    argmax => "argmax.default";
    /// The index of the smallest element along `dim`.
    argmin => "argmin.default";
}

impl Graph {
    /// Whether any element over `dims` is true (not zero).
    pub fn any(&mut self, x: ValueId, dims: &[i64], keepdim: bool) -> Result<ValueId> {
        self.truth("any.dims", x, dims, keepdim)
    }

    /// Whether all elements over `dims` are true (not zero).
    pub fn all(&mut self, x: ValueId, dims: &[i64], keepdim: bool) -> Result<ValueId> {
        self.truth("all.dims", x, dims, keepdim)
    }

    fn truth(&mut self, op: &str, x: ValueId, dims: &[i64], keepdim: bool) -> Result<ValueId> {
        // These operators reduce nothing when the list is empty.
        let dims = if dims.is_empty() { Arg::None } else { dims.into() };
        self.call1(
            op,
            [("self", x.into()), ("dim", dims), ("keepdim", keepdim.into())],
        )
    }

    /// The variance over `dims` with the divisor reduced by `correction` (1: unbiased, 0: of the population).
    pub fn var(&mut self, x: ValueId, dims: &[i64], correction: i64, keepdim: bool) -> Result<ValueId> {
        self.spread_measure("var.correction", x, dims, correction, keepdim)
    }

    /// The standard deviation over `dims`, with the divisor reduced by `correction`.
    pub fn std(&mut self, x: ValueId, dims: &[i64], correction: i64, keepdim: bool) -> Result<ValueId> {
        self.spread_measure("std.correction", x, dims, correction, keepdim)
    }

    fn spread_measure(
        &mut self,
        op: &str,
        x: ValueId,
        dims: &[i64],
        correction: i64,
        keepdim: bool,
    ) -> Result<ValueId> {
        let (correction, keepdim) = (correction.into(), keepdim.into());
        self.call1(
            op,
            [
                ("self", x.into()),
                ("dim", dims.into()),
                ("correction", correction),
                ("keepdim", keepdim),
            ],
        )
    }

    /// The largest elements along `dim` and their indices.
    pub fn max_dim(&mut self, x: ValueId, dim: i64, keepdim: bool) -> Result<(ValueId, ValueId)> {
        self.extremum_and_index("max.dim", x, dim, keepdim)
    }

    /// The smallest elements along `dim` and their indices.
    pub fn min_dim(&mut self, x: ValueId, dim: i64, keepdim: bool) -> Result<(ValueId, ValueId)> {
        self.extremum_and_index("min.dim", x, dim, keepdim)
    }

    fn extremum_and_index(
        &mut self,
        op: &str,
        x: ValueId,
        dim: i64,
        keepdim: bool,
    ) -> Result<(ValueId, ValueId)> {
        let results = self.call(
            op,
            [
                ("self", x.into()),
                ("dim", dim.into()),
                ("keepdim", keepdim.into()),
            ],
        )?;
        match results.as_slice() {
            [value, index] => Ok((*value, *index)),
            _ => Err(Error::unexpected(format!("`{op}` does not have two results"))),
        }
    }
}
