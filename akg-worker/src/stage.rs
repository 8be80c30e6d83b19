//! The memory that a candidate works on, seen from the caller: filled and read only while the candidate is stopped.

use akg_core::backend::Poison;
use akg_core::error::Result;
use akg_core::expr::Bindings;
use akg_core::source::{LaunchPlan, TensorRole};
use akg_core::tensor::Tensor;
use akg_core::verdict::{Failure, FailureKind};

use crate::layout::{Layout, Slot};
use crate::plan;
use crate::shm::{self, SharedBuffer};

/// What the slack around inputs holds: NaN in every floating type, so that reading it shows.
const BESIDE_INPUTS: u8 = 0xff;

/// What the slack around outputs and scratch holds, so that writing it shows: neither poison nor a common value, and
/// another one around each of the next tensors, so that copying from slack to slack shows too.
const BESIDE_OTHERS: [u8; 8] = [0x5a, 0xa5, 0x36, 0xc9, 0x69, 0x96, 0x1e, 0xe1];

/// See [`BESIDE_OTHERS`].
fn beside_other(index: usize) -> u8 {
    BESIDE_OTHERS
        .get(index % BESIDE_OTHERS.len())
        .copied()
        .unwrap_or(0x5a)
}

/// The two files that caller and worker share, for given dims.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) dims: Bindings,
    layout: Layout,
    pub(crate) inputs: SharedBuffer,
    pub(crate) others: SharedBuffer,
}

impl Stage {
    pub(crate) fn new(plan: &LaunchPlan, dims: &Bindings) -> Result<Self> {
        let layout = Layout::new(plan, dims)?;
        let inputs = SharedBuffer::allocate(layout.input_file)?;
        // Where the system cannot forbid it, a change is found when the outputs are taken.
        inputs.forbid_others_to_write();
        Ok(Self {
            dims: dims.clone(),
            inputs,
            others: SharedBuffer::allocate(layout.other_file)?,
            layout,
        })
    }

    /// Bytes of a tensor of the plan.
    pub(crate) fn bytes(&self, tensor: usize) -> Option<usize> {
        self.layout.slots.get(tensor).map(|slot| slot.bytes)
    }

    /// Writes the inputs, poisons everything else, and restores the slack.
    pub(crate) fn set(&mut self, inputs: &[Tensor], placement: u32, poison: Poison) {
        let mut given = inputs.iter();
        for (index, slot) in self.layout.slots.iter().enumerate() {
            let (file, beside) = match slot.role {
                TensorRole::Input => (&mut self.inputs, BESIDE_INPUTS),
                TensorRole::Output | TensorRole::Scratch => (&mut self.others, beside_other(index)),
            };
            let Some(pages) = file.bytes_mut().get_mut(slot.pages()) else {
                continue;
            };
            let (before, rest) = pages.split_at_mut(slot.start(placement));
            let (tensor, after) = rest.split_at_mut(slot.bytes);
            before.fill(beside);
            after.fill(beside);
            match slot.role {
                TensorRole::Input => tensor.copy_from_slice(given.next().map_or(&[], Tensor::bytes)),
                TensorRole::Output | TensorRole::Scratch => tensor.fill(poison.byte()),
            }
        }
    }

    /// Whether the inputs still hold what was written.
    pub(crate) fn inputs_unchanged(&self, inputs: &[Tensor], placement: u32) -> bool {
        let slots = self.layout.slots.iter().filter(|s| s.role == TensorRole::Input);
        slots.zip(inputs).all(|(slot, input)| {
            let (before, tensor, after) = self.parts(slot, placement);
            let beside = |slack: &[u8]| slack.iter().all(|b| *b == BESIDE_INPUTS);
            beside(before) && tensor == input.bytes() && beside(after)
        })
    }

    /// The failure of a candidate that wrote beside an output or scratch.
    pub(crate) fn overrun(&self, plan: &LaunchPlan, placement: u32) -> Option<Failure> {
        let slots = self.layout.slots.iter().zip(&plan.tensors).enumerate();
        slots
            .filter(|(_, (slot, _))| slot.role != TensorRole::Input)
            .find_map(|(index, (slot, tensor))| {
                let (before, _, after) = self.parts(slot, placement);
                let beside = beside_other(index);
                let written = |slack: &[u8]| slack.iter().position(|b| *b != beside);
                let (name, bytes) = (&tensor.name, slot.bytes);
                let evidence = match (written(before), written(after)) {
                    (Some(first), _) => {
                        let distance = before.len() - first;
                        format!("a kernel wrote {distance} bytes before the beginning of `{name}`")
                    }
                    (None, Some(first)) => {
                        let at = bytes + first;
                        format!("a kernel wrote at byte {at} of `{name}`, which has {bytes} bytes")
                    }
                    (None, None) => return None,
                };
                Some(Failure::new(FailureKind::OutOfBounds, evidence))
            })
    }

    /// Copies of the outputs, in memory that the worker does not know.
    pub(crate) fn outputs(&self, plan: &LaunchPlan, placement: u32) -> Result<Vec<Tensor>> {
        let shapes = plan::shapes(plan, &self.dims)?;
        let tensors = self.layout.slots.iter().zip(&plan.tensors).zip(shapes);
        tensors
            .filter(|((slot, _), _)| slot.role == TensorRole::Output)
            .map(|((slot, tensor), shape)| shm::copy_own(tensor.dtype, &shape, self.parts(slot, placement).1))
            .collect()
    }

    /// A tensor's pages: the slack before it, itself, the slack after it.
    fn parts(&self, slot: &Slot, placement: u32) -> (&[u8], &[u8], &[u8]) {
        let file = match slot.role {
            TensorRole::Input => &self.inputs,
            TensorRole::Output | TensorRole::Scratch => &self.others,
        };
        let pages = file.bytes().get(slot.pages()).unwrap_or_default();
        let (before, rest) = pages.split_at_checked(slot.start(placement)).unwrap_or_default();
        let (tensor, after) = rest.split_at_checked(slot.bytes).unwrap_or_default();
        (before, tensor, after)
    }
}
