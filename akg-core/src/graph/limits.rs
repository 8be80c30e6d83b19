//! Limits on the size of graphs, which bound what reading, printing and designing them takes.

use super::{Graph, TensorType};
use crate::error::{Error, Result};

/// The most dimensions of a tensor, as in PyTorch.
pub const MAX_RANK: usize = 64;

/// The most operator calls of a graph that is read.
pub const MAX_NODES: usize = 1 << 16;

/// The most inputs and constants of a graph that is read.
pub const MAX_INPUTS: usize = 1 << 14;

/// The most outputs of a graph that is read.
pub const MAX_OUTPUTS: usize = 1 << 12;

/// The most entries of a list among the arguments of one call.
pub const MAX_LIST: usize = 1 << 12;

/// The most terms and factors in the extents of all values of a graph that is read.
pub const MAX_EXTENT_PARTS: usize = 1 << 20;

/// The longest name of a value in bytes.
pub const MAX_NAME: usize = 1 << 10;

/// An error that says how many there are of `what` and how many there may be, if they are too many.
pub(super) fn limit(what: &str, count: usize, most: usize) -> Result<()> {
    if count <= most {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "the graph has {count} {what}, and at most {most} are allowed"
    )))
}

impl TensorType {
    /// An error if there are more than [`MAX_RANK`] dimensions, or an extent goes beyond the limits of expressions.
    pub(super) fn check_size(&self) -> Result<()> {
        limit("dimensions of one value", self.rank(), MAX_RANK)?;
        self.shape.iter().try_for_each(crate::Expr::check)
    }

    /// Terms and factors in the extents.
    pub(super) fn parts(&self) -> usize {
        self.shape.iter().map(crate::Expr::parts).sum()
    }
}

impl Graph {
    /// An error if a name is longer than [`MAX_NAME`].
    pub(super) fn check_names<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<()> {
        let mut names = names.into_iter();
        match names.find(|name| name.len() > MAX_NAME) {
            None => Ok(()),
            Some(name) => Err(Error::invalid(format!(
                "a name has {} bytes, and at most {MAX_NAME} are allowed",
                name.len()
            ))),
        }
    }
}
