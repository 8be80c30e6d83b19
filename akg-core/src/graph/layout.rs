//! Inputs whose elements do not lie dense and row-major in the caller's memory.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Arg, Graph, InputKind, MAX_RANK, TensorType, ValueId};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::expr::Expr;

/// The extents and strides of the tensor that a caller gives for an input.
///
/// The input's value is the storage of that tensor: one dimension, from the tensor's first element to its last. An
/// `as_strided` makes the tensor of it. See [`Graph::strided_input`].
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Layout {
    /// The extents, outermost first.
    pub shape: Vec<usize>,
    /// The elements from one coordinate to the next, for each dimension; 0 where all coordinates share elements.
    pub strides: Vec<usize>,
}

impl Layout {
    /// The elements from the first to the last.
    ///
    /// # Errors
    /// If there is not one stride for each extent, a tensor is empty or the storage is larger than any memory.
    pub fn span(&self) -> Result<usize> {
        if self.shape.len() != self.strides.len() || self.shape.len() > MAX_RANK {
            return Err(Error::invalid(format!(
                "a layout has one stride for each of at most {MAX_RANK} extents, and this one is {self}"
            )));
        }
        let mut last = Some(0_usize);
        for (extent, stride) in self.shape.iter().zip(&self.strides) {
            let Some(steps) = extent.checked_sub(1) else {
                return Err(Error::invalid(format!("the layout {self} has no elements")));
            };
            last = last
                .zip(steps.checked_mul(*stride))
                .and_then(|(last, reach)| last.checked_add(reach));
        }
        last.and_then(|last| last.checked_add(1))
            .filter(|span| isize::try_from(*span).is_ok())
            .ok_or_else(|| Error::invalid(format!("no memory holds the layout {self}")))
    }

    /// The storage as rows that end where the dimension next to the innermost goes on: their number and length. The last may be
    /// shorter.
    pub(crate) fn storage_rows(&self) -> [usize; 2] {
        let span = self.span().unwrap_or(1);
        let steps = self.shape.iter().zip(&self.strides);
        let steps = steps.filter(|(extent, stride)| **extent > 1 && **stride > 0);
        let mut strides: Vec<usize> = steps.map(|(_, stride)| *stride).collect();
        strides.sort_unstable();
        let row = strides.get(1).copied().unwrap_or(span).max(1);
        [span.div_ceil(row), row]
    }

    /// Returns true if a tensor of this shape and these strides has the layout. Strides of extents of 1 say nothing.
    pub fn holds(&self, shape: &[usize], strides: &[isize]) -> bool {
        let mut pairs = self.shape.iter().zip(self.strides.iter().zip(strides));
        self.shape == shape
            && self.strides.len() == strides.len()
            && pairs.all(|(extent, (want, have))| *extent == 1 || isize::try_from(*want) == Ok(*have))
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} with strides {:?}", self.shape, self.strides)
    }
}

impl Graph {
    /// An input that the caller gives with strides, such as a transposed, expanded or sliced tensor. Returns the tensor; the
    /// input itself is its storage.
    ///
    /// ```
    /// use akg_core::graph::Layout;
    /// use akg_core::{DType, Graph};
    ///
    /// # fn main() -> akg_core::Result<()> {
    /// let mut g = Graph::new("transposed");
    /// let layout = Layout { shape: vec![64, 48], strides: vec![1, 64] };
    /// let x = g.strided_input("x", DType::F32, layout)?;
    /// let y = g.relu(x)?;
    /// g.output(y);
    /// assert_eq!(g.ty(y).to_string(), "f32[64, 48]");
    /// assert_eq!(g.ty(g.inputs()[0].value).to_string(), "f32[3072]");
    /// # g.validate()
    /// # }
    /// ```
    ///
    /// # Errors
    /// For a layout without elements, or with another number of strides than of extents.
    pub fn strided_input(&mut self, name: &str, dtype: DType, layout: Layout) -> Result<ValueId> {
        let sizes = |list: &[usize]| list.iter().map(|n| Expr::from(*n)).collect::<Vec<_>>();
        let (shape, strides) = (sizes(&layout.shape), sizes(&layout.strides));
        let storage = TensorType::new(dtype, [layout.span()?]);
        let value = self.add_input(name, storage, InputKind::Activation, Some(layout));
        let tensor = self.call(
            "aten.as_strided.default",
            [
                ("self", value.into()),
                ("size", Arg::Ints(shape)),
                ("stride", Arg::Ints(strides)),
            ],
        )?;
        tensor
            .first()
            .copied()
            .ok_or_else(|| Error::unexpected("as_strided has no result"))
    }

    /// Refuses layouts that are not those of their inputs.
    pub(super) fn check_layouts(&self) -> Result<()> {
        for input in &self.inputs {
            let Some(layout) = &input.layout else { continue };
            let (name, ty) = (self.value_name(input.value), self.ty(input.value));
            let span = layout.span().map_err(|e| e.with("input", name))?;
            if input.kind == InputKind::State {
                return Err(Error::invalid(format!(
                    "the state `{name}` has a layout, and states are dense"
                )));
            }
            if ty.shape != [Expr::from(span)] {
                return Err(Error::invalid(format!(
                    "the input `{name}` is {ty}, and the storage of its layout {layout} has {span} elements"
                )));
            }
        }
        Ok(())
    }
}
