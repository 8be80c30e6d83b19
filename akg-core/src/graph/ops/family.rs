//! The families of operators.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{
    Row, attention, conv, create, dropout, index, join, loss, matmul, norm, pointwise, pool, rearrange,
    reduce, rnn, scan, view,
};
use crate::named::named;

named! {
    /// A kind of operator. Families that decide how a kernel is built come before those that follow what is there.
    #[derive(PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Family {
        /// Scaled dot products of queries with keys, which weigh values.
        Attention = "attention",
        /// Recurrent networks.
        Rnn = "rnn",
        /// Convolutions, transposed ones included.
        Conv = "conv",
        /// Matrix products in every form.
        Matmul = "matmul",
        /// Prefix combinations along a dimension.
        Scan = "scan",
        /// Maxima and means under windows.
        Pool = "pool",
        /// Normalisations.
        Norm = "norm",
        /// Losses.
        Loss = "loss",
        /// Reductions, searches for extrema, and softmax.
        Reduce = "reduce",
        /// Reads and writes at positions that a tensor holds.
        Index = "index",
        /// Several tensors to one, or one to several.
        Join = "join",
        /// Elements at other positions, paddings and triangles.
        Rearrange = "rearrange",
        /// Changes of shape that keep the elements, and copies.
        View = "view",
        /// Dropout.
        Dropout = "dropout",
        /// Tensors that are made from numbers or from chance.
        Create = "create",
        /// Functions of each element by itself.
        Pointwise = "pointwise",
    }
}

impl Family {
    /// The rows of the family's table.
    pub(super) const fn rows(self) -> &'static [Row] {
        match self {
            Family::Attention => attention::ROWS,
            Family::Rnn => rnn::ROWS,
            Family::Conv => conv::ROWS,
            Family::Matmul => matmul::ROWS,
            Family::Scan => scan::ROWS,
            Family::Pool => pool::ROWS,
            Family::Norm => norm::ROWS,
            Family::Loss => loss::ROWS,
            Family::Reduce => reduce::ROWS,
            Family::Index => index::ROWS,
            Family::Join => join::ROWS,
            Family::Rearrange => rearrange::ROWS,
            Family::View => view::ROWS,
            Family::Dropout => dropout::ROWS,
            Family::Create => create::ROWS,
            Family::Pointwise => pointwise::ROWS,
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
