//! Where the tensors of a plan lie in the two files that caller and worker share, and where in their pages they begin.
//!
//! Both sides compute this from the plan alone. Inputs have a file of their own, which the worker cannot write; outputs
//! and scratch share the other. Each tensor has whole pages for itself. What it leaves of them is *slack*, which the
//! caller fills with known bytes. In even placements a tensor begins where its pages begin, in odd ones it ends where
//! they end (as far as its alignment allows), so that an access just outside meets the unmapped memory around the pages
//! in one or the other.

use std::ops::Range;

use akg_core::error::{Error, ErrorKind, Result};
use akg_core::expr::Bindings;
use akg_core::source::{LaunchPlan, TensorRole};
use akg_core::tensor::byte_len;

use crate::plan;

/// The least alignment of every tensor: a cache line, the widest vector.
const LEAST_ALIGN: usize = 64;

/// The places of a plan's tensors under given dims.
#[derive(Debug)]
pub(crate) struct Layout {
    /// In the order of the plan.
    pub(crate) slots: Vec<Slot>,
    /// Bytes of the file of inputs.
    pub(crate) input_file: usize,
    /// Bytes of the file of outputs and scratch.
    pub(crate) other_file: usize,
}

/// The pages of one tensor.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) role: TensorRole,
    /// Where its pages begin in the file of its role.
    pub(crate) offset: usize,
    /// Bytes of its pages.
    pub(crate) length: usize,
    /// Bytes of the tensor.
    pub(crate) bytes: usize,
    align: usize,
}

impl Layout {
    pub(crate) fn new(plan: &LaunchPlan, dims: &Bindings) -> Result<Self> {
        let page = rustix::param::page_size();
        let (mut input_file, mut other_file) = (0usize, 0usize);
        let shapes = plan::shapes(plan, dims)?;
        let slots = plan.tensors.iter().zip(shapes).map(|(tensor, shape)| {
            let bytes = byte_len(tensor.dtype, &shape)?;
            let file = match tensor.role {
                TensorRole::Input => &mut input_file,
                TensorRole::Output | TensorRole::Scratch => &mut other_file,
            };
            let offset = *file;
            // Tensors without elements need an address too.
            let length = bytes.max(1).checked_next_multiple_of(page);
            let (length, end) = length
                .and_then(|length| Some((length, offset.checked_add(length)?)))
                .ok_or_else(|| {
                    let message = format!("there is no room for the {bytes} bytes of `{}`", tensor.name);
                    Error::new(ErrorKind::OutOfResources, message)
                })?;
            *file = end;
            Ok(Slot {
                role: tensor.role,
                offset,
                length,
                bytes,
                align: tensor.align.max(LEAST_ALIGN),
            })
        });
        Ok(Self {
            slots: slots.collect::<Result<_>>()?,
            input_file,
            other_file,
        })
    }
}

impl Slot {
    /// Where the tensor begins in its pages.
    pub(crate) fn start(&self, placement: u32) -> usize {
        if placement.is_multiple_of(2) {
            0
        } else {
            (self.length - self.bytes) / self.align * self.align
        }
    }

    /// Where its pages are in the file.
    pub(crate) fn pages(&self) -> Range<usize> {
        self.offset..self.offset + self.length
    }
}

#[cfg(test)]
mod tests {
    use akg_core::dtype::DType;
    use akg_core::source::PlanTensor;
    use proptest::prelude::*;

    use super::*;

    fn plan(tensors: &[(usize, usize, TensorRole)]) -> LaunchPlan {
        let tensors = tensors.iter().map(|(bytes, align, role)| PlanTensor {
            name: "t".into(),
            dtype: DType::U8,
            shape: vec![(*bytes as i64).into()],
            role: *role,
            align: *align,
            holds: None,
        });
        LaunchPlan {
            tensors: tensors.collect(),
            ..LaunchPlan::default()
        }
    }

    proptest! {
        #[test]
        fn tensors_lie_inside_their_own_pages(
            tensors in prop::collection::vec(
                (0usize..20_000, (0u32..13).prop_map(|n| 1 << n), prop_oneof![
                    Just(TensorRole::Input), Just(TensorRole::Output), Just(TensorRole::Scratch)
                ]),
                0..8,
            ),
            placement in 0u32..4,
        ) {
            let layout = Layout::new(&plan(&tensors), &Bindings::new()).unwrap();
            let (mut inputs, mut others) = (0, 0);
            for (slot, (bytes, align, role)) in layout.slots.iter().zip(&tensors) {
                let end = if *role == TensorRole::Input { &mut inputs } else { &mut others };
                prop_assert_eq!(slot.offset, *end);
                *end = slot.pages().end;
                let start = slot.start(placement);
                prop_assert_eq!(start % align, 0);
                prop_assert!(start + bytes <= slot.length);
                let closest = if placement.is_multiple_of(2) { start } else { slot.length - start - bytes };
                prop_assert!(closest < (*align).max(LEAST_ALIGN));
            }
            prop_assert_eq!((layout.input_file, layout.other_file), (inputs, others));
        }
    }
}
