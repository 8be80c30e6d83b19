//! Products, convolutions, pooling, norms, attention.

use crate::error::Result;
use crate::expr::Expr;
use crate::graph::{Arg, Graph, ValueId};

/// How the window of a convolution moves; fields have one entry for each spatial dimension, or one for all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conv {
    /// The distance between windows.
    pub stride: Vec<i64>,
    /// The zeros on both sides.
    pub padding: Vec<i64>,
    /// The distance between the elements of a window.
    pub dilation: Vec<i64>,
    /// The number of groups of channels that do not mix.
    pub groups: i64,
}

impl Default for Conv {
    /// Every window of a dense kernel within the tensor.
    fn default() -> Self {
        Self {
            stride: vec![1],
            padding: vec![0],
            dilation: vec![1],
            groups: 1,
        }
    }
}

impl Graph {
    /// `x @ transpose(w) + b` for a weight `[out, in]`.
    pub fn linear(&mut self, x: ValueId, w: ValueId, b: Option<ValueId>) -> Result<ValueId> {
        self.call1(
            "linear.default",
            [("input", x.into()), ("weight", w.into()), ("bias", b.into())],
        )
    }

    /// The product of vectors, matrices or batches of matrices, whose batch dimensions broadcast.
    pub fn matmul(&mut self, a: ValueId, b: ValueId) -> Result<ValueId> {
        self.call1("matmul.default", [("self", a.into()), ("other", b.into())])
    }

    /// The product of two matrices.
    pub fn mm(&mut self, a: ValueId, b: ValueId) -> Result<ValueId> {
        self.call1("mm.default", [("self", a.into()), ("mat2", b.into())])
    }

    /// The products of two batches of matrices.
    pub fn bmm(&mut self, a: ValueId, b: ValueId) -> Result<ValueId> {
        self.call1("bmm.default", [("self", a.into()), ("mat2", b.into())])
    }

    /// `c + a @ b`.
    pub fn addmm(&mut self, c: ValueId, a: ValueId, b: ValueId) -> Result<ValueId> {
        self.call1(
            "addmm.default",
            [("self", c.into()), ("mat1", a.into()), ("mat2", b.into())],
        )
    }

    /// Einstein summation, such as `"bik,bkj->bij"`.
    pub fn einsum(&mut self, equation: &str, operands: &[ValueId]) -> Result<ValueId> {
        self.call1(
            "einsum.default",
            [("equation", equation.into()), ("tensors", operands.into())],
        )
    }

    /// A convolution of `[N, C, spatial...]` by a weight `[out, C / groups, kernel...]` in 1 to 3 dimensions.
    pub fn conv(&mut self, x: ValueId, w: ValueId, b: Option<ValueId>, window: &Conv) -> Result<ValueId> {
        self.convolution(x, w, b, window, None)
    }

    /// A transposed convolution of `[N, C, spatial...]` by a weight `[C, out / groups, kernel...]`, with
    /// `output_padding` extra elements at the end of each dimension.
    pub fn conv_transpose(
        &mut self,
        x: ValueId,
        w: ValueId,
        b: Option<ValueId>,
        window: &Conv,
        output_padding: &[i64],
    ) -> Result<ValueId> {
        self.convolution(x, w, b, window, Some(output_padding))
    }

    fn convolution(
        &mut self,
        x: ValueId,
        w: ValueId,
        b: Option<ValueId>,
        window: &Conv,
        output_padding: Option<&[i64]>,
    ) -> Result<ValueId> {
        self.call1(
            "convolution.default",
            [
                ("input", x.into()),
                ("weight", w.into()),
                ("bias", b.into()),
                ("stride", window.stride.as_slice().into()),
                ("padding", window.padding.as_slice().into()),
                ("dilation", window.dilation.as_slice().into()),
                ("transposed", output_padding.is_some().into()),
                ("output_padding", output_padding.unwrap_or(&[0]).into()),
                ("groups", window.groups.into()),
            ],
        )
    }

    /// The largest element of each window of an image `[N, C, H, W]`.
    pub fn max_pool2d(
        &mut self,
        x: ValueId,
        kernel: [i64; 2],
        stride: [i64; 2],
        padding: [i64; 2],
    ) -> Result<ValueId> {
        self.pool2d("max_pool2d.default", x, kernel, stride, padding)
    }

    /// The mean of each window of an image `[N, C, H, W]`, padding included.
    pub fn avg_pool2d(
        &mut self,
        x: ValueId,
        kernel: [i64; 2],
        stride: [i64; 2],
        padding: [i64; 2],
    ) -> Result<ValueId> {
        self.pool2d("avg_pool2d.default", x, kernel, stride, padding)
    }

    fn pool2d(
        &mut self,
        op: &str,
        x: ValueId,
        kernel: [i64; 2],
        stride: [i64; 2],
        padding: [i64; 2],
    ) -> Result<ValueId> {
        let (kernel, stride, padding) = (kernel.into(), stride.into(), padding.into());
        self.call1(
            op,
            [
                ("self", x.into()),
                ("kernel_size", kernel),
                ("stride", stride),
                ("padding", padding),
            ],
        )
    }

    /// `x` normalized over its last dimensions, of extents `normalized`, then scaled and shifted.
    pub fn layer_norm<D: Into<Expr>>(
        &mut self,
        x: ValueId,
        normalized: impl IntoIterator<Item = D>,
        weight: Option<ValueId>,
        bias: Option<ValueId>,
        eps: f64,
    ) -> Result<ValueId> {
        let normalized = Arg::Ints(normalized.into_iter().map(Into::into).collect());
        self.call1(
            "layer_norm.default",
            [
                ("input", x.into()),
                ("normalized_shape", normalized),
                ("weight", weight.into()),
                ("bias", bias.into()),
                ("eps", eps.into()),
            ],
        )
    }

    /// `x` divided by its root mean square over its last dimensions, of extents `normalized`, then scaled.
    pub fn rms_norm<D: Into<Expr>>(
        &mut self,
        x: ValueId,
        normalized: impl IntoIterator<Item = D>,
        weight: Option<ValueId>,
        eps: f64,
    ) -> Result<ValueId> {
        let normalized = Arg::Ints(normalized.into_iter().map(Into::into).collect());
        self.call1(
            "rms_norm.default",
            [
                ("input", x.into()),
                ("normalized_shape", normalized),
                ("weight", weight.into()),
                ("eps", eps.into()),
            ],
        )
    }

    /// `[N, C, ...]` normalized over each of `groups` groups of channels, then scaled and shifted by channel.
    pub fn group_norm(
        &mut self,
        x: ValueId,
        groups: i64,
        weight: Option<ValueId>,
        bias: Option<ValueId>,
        eps: f64,
    ) -> Result<ValueId> {
        self.call1(
            "group_norm.default",
            [
                ("input", x.into()),
                ("num_groups", groups.into()),
                ("weight", weight.into()),
                ("bias", bias.into()),
                ("eps", eps.into()),
            ],
        )
    }

    /// `softmax(q @ transpose(k) / sqrt(width)) @ v`, with later keys hidden if `causal`.
    pub fn attention(&mut self, q: ValueId, k: ValueId, v: ValueId, causal: bool) -> Result<ValueId> {
        self.call1(
            "scaled_dot_product_attention.default",
            [
                ("query", q.into()),
                ("key", k.into()),
                ("value", v.into()),
                ("is_causal", causal.into()),
            ],
        )
    }

    /// `x` if not training; in training PyTorch zeroes a random share `p` of it, which has no reference:
    /// [`seeded_dropout`](Graph::seeded_dropout) has one.
    pub fn dropout(&mut self, x: ValueId, p: f64, train: bool) -> Result<ValueId> {
        self.call1(
            "dropout.default",
            [("input", x.into()), ("p", p.into()), ("train", train.into())],
        )
    }

    /// `x / (1 - p)`, with a random share `p` of it replaced by zeros.
    ///
    /// The element with row-major number `i` goes if the 32 random bits that Philox4x32-10 gives for the key `seed` (an
    /// `i64` of rank 0) and the counter `offset + i` are, as a fraction of 2^32, less than `p`. Dropouts in one graph that
    /// share a seed have different offsets: each begins where the one before ends.
    pub fn seeded_dropout(&mut self, x: ValueId, seed: ValueId, p: f64, offset: i64) -> Result<ValueId> {
        self.call1(
            "seeded_dropout.default",
            [
                ("input", x.into()),
                ("seed", seed.into()),
                ("p", p.into()),
                ("offset", offset.into()),
            ],
        )
    }

    /// The mean squared difference.
    pub fn mse_loss(&mut self, x: ValueId, target: ValueId) -> Result<ValueId> {
        self.call1(
            "mse_loss.default",
            [("self", x.into()), ("target", target.into())],
        )
    }

    /// The mean cross entropy of scores `[N, C, ...]` and class indices `[N, ...]`.
    pub fn cross_entropy_loss(&mut self, x: ValueId, target: ValueId) -> Result<ValueId> {
        self.call1(
            "cross_entropy_loss.default",
            [("self", x.into()), ("target", target.into())],
        )
    }
}
