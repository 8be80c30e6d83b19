//! Views, splitting and joining, indexing, and tensors from nothing.

use crate::dtype::DType;
use crate::error::Result;
use crate::expr::Expr;
use crate::graph::{Arg, Graph, ValueId};

fn sizes<D: Into<Expr>>(shape: impl IntoIterator<Item = D>) -> Arg {
    Arg::Ints(shape.into_iter().map(Into::into).collect())
}

impl Graph {
    /// The same elements under another shape; one extent may be -1 and follows from the others.
    pub fn reshape<D: Into<Expr>>(
        &mut self,
        x: ValueId,
        shape: impl IntoIterator<Item = D>,
    ) -> Result<ValueId> {
        self.call1("reshape.default", [("self", x.into()), ("shape", sizes(shape))])
    }

    /// Dimensions `start..=end` merged into one.
    pub fn flatten(&mut self, x: ValueId, start: i64, end: i64) -> Result<ValueId> {
        self.call1(
            "flatten.using_ints",
            [
                ("self", x.into()),
                ("start_dim", start.into()),
                ("end_dim", end.into()),
            ],
        )
    }

    /// The dimensions in another order.
    pub fn permute(&mut self, x: ValueId, dims: &[i64]) -> Result<ValueId> {
        self.call1("permute.default", [("self", x.into()), ("dims", dims.into())])
    }

    /// Dimensions `a` and `b` exchanged.
    pub fn transpose(&mut self, x: ValueId, a: i64, b: i64) -> Result<ValueId> {
        self.call1(
            "transpose.int",
            [("self", x.into()), ("dim0", a.into()), ("dim1", b.into())],
        )
    }

    /// A new dimension of extent 1 before `dim`.
    pub fn unsqueeze(&mut self, x: ValueId, dim: i64) -> Result<ValueId> {
        self.call1("unsqueeze.default", [("self", x.into()), ("dim", dim.into())])
    }

    /// Without dimension `dim`, if its extent is 1.
    pub fn squeeze(&mut self, x: ValueId, dim: i64) -> Result<ValueId> {
        self.call1("squeeze.dim", [("self", x.into()), ("dim", dim.into())])
    }

    /// Extents of 1 repeated up to `shape`, without copying; -1 keeps an extent.
    pub fn expand<D: Into<Expr>>(
        &mut self,
        x: ValueId,
        shape: impl IntoIterator<Item = D>,
    ) -> Result<ValueId> {
        self.call1("expand.default", [("self", x.into()), ("size", sizes(shape))])
    }

    /// Every `step`-th index of `start..end` in dimension `dim`. Negative bounds count from the end.
    pub fn slice(
        &mut self,
        x: ValueId,
        dim: i64,
        start: impl Into<Expr>,
        end: impl Into<Expr>,
        step: i64,
    ) -> Result<ValueId> {
        let (start, end) = (Arg::Int(start.into()), Arg::Int(end.into()));
        self.call1(
            "slice.Tensor",
            [
                ("self", x.into()),
                ("dim", dim.into()),
                ("start", start),
                ("end", end),
                ("step", step.into()),
            ],
        )
    }

    /// Index `index` of dimension `dim`, which goes away.
    pub fn select(&mut self, x: ValueId, dim: i64, index: impl Into<Expr>) -> Result<ValueId> {
        self.call1(
            "select.int",
            [
                ("self", x.into()),
                ("dim", dim.into()),
                ("index", Arg::Int(index.into())),
            ],
        )
    }

    /// Pieces of `size` along `dim`; the last may be smaller.
    pub fn split(&mut self, x: ValueId, size: impl Into<Expr>, dim: i64) -> Result<Vec<ValueId>> {
        self.call(
            "split.Tensor",
            [
                ("self", x.into()),
                ("split_size", Arg::Int(size.into())),
                ("dim", dim.into()),
            ],
        )
    }

    /// `parts` one after the other along `dim`.
    pub fn cat(&mut self, parts: &[ValueId], dim: i64) -> Result<ValueId> {
        self.call1("cat.default", [("tensors", parts.into()), ("dim", dim.into())])
    }

    /// `parts` along a new dimension `dim`.
    pub fn stack(&mut self, parts: &[ValueId], dim: i64) -> Result<ValueId> {
        self.call1("stack.default", [("tensors", parts.into()), ("dim", dim.into())])
    }

    /// `value` around `x`: `pad` holds pairs (before, after), the first for the last dimension.
    pub fn pad(&mut self, x: ValueId, pad: &[i64], value: f64) -> Result<ValueId> {
        self.call1(
            "constant_pad_nd.default",
            [("self", x.into()), ("pad", pad.into()), ("value", value.into())],
        )
    }

    /// `x` with zeros above diagonal `diagonal` of the last two dimensions.
    pub fn tril(&mut self, x: ValueId, diagonal: i64) -> Result<ValueId> {
        self.call1(
            "tril.default",
            [("self", x.into()), ("diagonal", diagonal.into())],
        )
    }

    /// `x` with zeros below diagonal `diagonal` of the last two dimensions.
    pub fn triu(&mut self, x: ValueId, diagonal: i64) -> Result<ValueId> {
        self.call1(
            "triu.default",
            [("self", x.into()), ("diagonal", diagonal.into())],
        )
    }

    /// The slices of dimension `dim` that the vector `index` names.
    pub fn index_select(&mut self, x: ValueId, dim: i64, index: ValueId) -> Result<ValueId> {
        self.call1(
            "index_select.default",
            [("self", x.into()), ("dim", dim.into()), ("index", index.into())],
        )
    }

    /// `x` with the slices of `source` at the places along dimension `dim` that the vector `index` names.
    ///
    /// Where the index has a number more than once, the last slice stays. Negative numbers count from the end, which
    /// PyTorch's operator of this name refuses.
    pub fn index_copy(&mut self, x: ValueId, dim: i64, index: ValueId, source: ValueId) -> Result<ValueId> {
        self.call1(
            "index_copy.default",
            [
                ("self", x.into()),
                ("dim", dim.into()),
                ("index", index.into()),
                ("source", source.into()),
            ],
        )
    }

    /// Along `dim`, the elements at the positions in `index`, which has the shape of the result.
    pub fn gather(&mut self, x: ValueId, dim: i64, index: ValueId) -> Result<ValueId> {
        self.call1(
            "gather.default",
            [("self", x.into()), ("dim", dim.into()), ("index", index.into())],
        )
    }

    /// The rows of `weight` that `indices` name.
    pub fn embedding(&mut self, weight: ValueId, indices: ValueId) -> Result<ValueId> {
        self.call1(
            "embedding.default",
            [("weight", weight.into()), ("indices", indices.into())],
        )
    }

    /// A tensor whose elements are all `value`.
    pub fn full<D: Into<Expr>>(
        &mut self,
        shape: impl IntoIterator<Item = D>,
        value: f64,
        dtype: DType,
    ) -> Result<ValueId> {
        self.call1(
            "full.default",
            [
                ("size", sizes(shape)),
                ("fill_value", value.into()),
                ("dtype", dtype.into()),
            ],
        )
    }

    /// Random numbers of [0, 1) in `f32`.
    ///
    /// The element with row-major number `i` is the first 24 of the 32 random bits that Philox4x32-10 gives for the key `seed`
    /// (an `i64` of rank 0) and the counter `offset + i`, as a fraction.
    pub fn seeded_rand<D: Into<Expr>>(
        &mut self,
        shape: impl IntoIterator<Item = D>,
        seed: ValueId,
        offset: i64,
    ) -> Result<ValueId> {
        self.seeded("seeded_rand.default", sizes(shape), seed, offset)
    }

    /// Random numbers of the standard normal distribution in `f32`.
    ///
    /// The element with row-major number `i` is `sqrt(-2 ln(1 - a)) cos(2 π b)`, where `a` and `b` are the numbers `2 i` and
    /// `2 i + 1` of [`seeded_rand`](Graph::seeded_rand) with the same seed and offset (G. E. P. Box and M. E. Muller, *A Note
    /// on the Generation of Random Normal Deviates*, 1958).
    pub fn seeded_randn<D: Into<Expr>>(
        &mut self,
        shape: impl IntoIterator<Item = D>,
        seed: ValueId,
        offset: i64,
    ) -> Result<ValueId> {
        self.seeded("seeded_randn.default", sizes(shape), seed, offset)
    }

    fn seeded(&mut self, op: &str, size: Arg, seed: ValueId, offset: i64) -> Result<ValueId> {
        let args = [("size", size), ("seed", seed.into()), ("offset", offset.into())];
        self.call1(op, args)
    }

    /// The integers `0..end` as `dtype`.
    pub fn arange(&mut self, end: impl Into<Expr>, dtype: DType) -> Result<ValueId> {
        self.call1(
            "arange.default",
            [("end", Arg::Int(end.into())), ("dtype", dtype.into())],
        )
    }
}
