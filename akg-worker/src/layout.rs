//! Where the tensors of a plan lie in the two files that caller and worker share, and where in their pages they begin.
//!
//! Both sides compute this from the plan alone. Inputs have a file of their own, which the worker cannot write; outputs
//! and scratch share the other. Each tensor of each slot has whole pages for itself; inputs that all slots share have them
//! once. What a tensor leaves of its pages is *slack*, which the caller fills with known bytes. In even placements a tensor
//! begins where its pages begin, in odd ones it ends where they end (as far as its alignment allows), so that an access just
//! outside meets the unmapped memory around the pages in one or the other.

use std::ops::Range;

use akg_core::error::{Error, ErrorKind, Result};
use akg_core::expr::Bindings;
use akg_core::source::{LaunchPlan, TensorRole};
use akg_core::tensor::byte_len;

use crate::plan;

/// The least alignment of every tensor: a cache line, the widest vector.
const LEAST_ALIGN: usize = 64;

/// The slots of a placement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Slots {
    /// The number of slots.
    pub(crate) slots: usize,
    /// For each tensor of the plan, whether all slots share it.
    pub(crate) shared: Vec<bool>,
}

/// The places of a plan's tensors under given dims.
#[derive(Debug)]
pub(crate) struct Layout {
    /// The number of slots.
    pub(crate) slots: usize,
    /// Bytes of the file of inputs.
    pub(crate) input_file: usize,
    /// Bytes of the file of outputs and scratch.
    pub(crate) other_file: usize,
    /// The tensors of the first slot, in the order of the plan.
    tensors: Vec<Pages>,
}

/// The pages of one tensor in one slot.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pages {
    pub(crate) role: TensorRole,
    /// Where its pages begin in the file of its role.
    pub(crate) offset: usize,
    /// Bytes of its pages.
    pub(crate) length: usize,
    /// Bytes of the tensor.
    pub(crate) bytes: usize,
    /// Bytes of a file from this tensor to that of the next slot; `None` if all slots share it.
    stride: Option<usize>,
    align: usize,
}

impl Layout {
    pub(crate) fn new(plan: &LaunchPlan, dims: &Bindings, slots: &Slots) -> Result<Self> {
        let page = rustix::param::page_size();
        let shapes = plan::shapes(plan, dims)?;
        let is_shared = |index: usize| slots.shared.get(index) == Some(&true);
        let mut tensors = Vec::with_capacity(plan.tensors.len());
        for (index, (tensor, shape)) in plan.tensors.iter().zip(shapes).enumerate() {
            let bytes = byte_len(tensor.dtype, &shape)?;
            let too_large = || {
                let message = format!("there is no room for the {bytes} bytes of `{}`", tensor.name);
                Error::new(ErrorKind::OutOfResources, message)
            };
            tensors.push(Pages {
                role: tensor.role,
                offset: 0,
                // Tensors without elements need an address too.
                length: bytes
                    .max(1)
                    .checked_next_multiple_of(page)
                    .ok_or_else(too_large)?,
                bytes,
                stride: (!is_shared(index)).then_some(0),
                align: tensor.align.max(LEAST_ALIGN),
            });
        }
        let input_file = place(&mut tensors, slots.slots, |role| role == TensorRole::Input)?;
        let other_file = place(&mut tensors, slots.slots, |role| role != TensorRole::Input)?;
        Ok(Self {
            slots: slots.slots,
            input_file,
            other_file,
            tensors,
        })
    }

    /// The tensors of a slot, in the order of the plan.
    pub(crate) fn slot(&self, slot: usize) -> impl Iterator<Item = Pages> {
        self.tensors.iter().map(move |pages| pages.in_slot(slot))
    }

    /// Bytes of a tensor of the plan.
    pub(crate) fn bytes(&self, tensor: usize) -> Option<usize> {
        self.tensors.get(tensor).map(|pages| pages.bytes)
    }
}

/// Gives the tensors of one file their offsets: first those that are shared, then slot after slot. Returns the bytes of the
/// file.
fn place(tensors: &mut [Pages], slots: usize, is_in_file: fn(TensorRole) -> bool) -> Result<usize> {
    let too_large = || Error::new(ErrorKind::OutOfResources, "the tensors of the plan are too large");
    let mut end = 0usize;
    let mut own = 0usize;
    for is_shared in [true, false] {
        let begin = end;
        for pages in tensors.iter_mut().filter(|p| is_in_file(p.role)) {
            if pages.stride.is_none() == is_shared {
                pages.offset = end;
                end = end.checked_add(pages.length).ok_or_else(too_large)?;
            }
        }
        own = end - begin;
    }
    for pages in tensors.iter_mut().filter(|p| is_in_file(p.role)) {
        pages.stride = pages.stride.map(|_| own);
    }
    let others = own.checked_mul(slots.saturating_sub(1)).ok_or_else(too_large)?;
    end.checked_add(others).ok_or_else(too_large)
}

impl Pages {
    /// The pages of the same tensor in another slot.
    fn in_slot(self, slot: usize) -> Self {
        Self {
            offset: self.offset + slot * self.stride.unwrap_or(0),
            ..self
        }
    }

    /// Whether all slots share it.
    pub(crate) fn is_shared(&self) -> bool {
        self.stride.is_none()
    }

    /// Where the tensor begins in its pages.
    pub(crate) fn start(&self, placement: u32) -> usize {
        if placement.is_multiple_of(2) {
            0
        } else {
            (self.length - self.bytes) / self.align * self.align
        }
    }

    /// Where its pages are in the file.
    pub(crate) fn range(&self) -> Range<usize> {
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
            updates: None,
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
                ], any::<bool>()),
                0..8,
            ),
            slots in 1usize..5,
            placement in 0u32..4,
        ) {
            let shared: Vec<bool> = tensors.iter().map(|(_, _, role, shared)| *shared && *role == TensorRole::Input).collect();
            let declared: Vec<_> = tensors.iter().map(|(bytes, align, role, _)| (*bytes, *align, *role)).collect();
            let number = Slots { slots, shared: shared.clone() };
            let layout = Layout::new(&plan(&declared), &Bindings::new(), &number).unwrap();
            let mut taken: [Vec<Range<usize>>; 2] = [Vec::new(), Vec::new()];
            for slot in 0..slots {
                for (index, (pages, (bytes, align, role))) in layout.slot(slot).zip(&declared).enumerate() {
                    prop_assert_eq!(pages.bytes, *bytes);
                    let start = pages.start(placement);
                    prop_assert_eq!(start % align, 0);
                    prop_assert!(start + bytes <= pages.length);
                    let closest = if placement.is_multiple_of(2) { start } else { pages.length - start - bytes };
                    prop_assert!(closest < (*align).max(LEAST_ALIGN));
                    prop_assert_eq!(pages.is_shared(), shared[index]);
                    if slot == 0 || !pages.is_shared() {
                        taken[usize::from(*role == TensorRole::Input)].push(pages.range());
                    }
                }
            }
            // The pages of all slots fill both files, without a gap and without sharing any.
            for (mut ranges, file) in taken.into_iter().zip([layout.other_file, layout.input_file]) {
                ranges.sort_by_key(|range| range.start);
                let mut end = 0;
                for range in ranges {
                    prop_assert_eq!(range.start, end);
                    end = range.end;
                }
                prop_assert_eq!(end, file);
            }
        }
    }
}
