//! The memory that a candidate works on, seen from the caller: filled and read only while the candidate is stopped.

use akg_core::backend::{Call, Poison};
use akg_core::error::Result;
use akg_core::expr::Bindings;
use akg_core::source::{LaunchPlan, TensorRole};
use akg_core::tensor::Tensor;
use akg_core::verdict::{Failure, FailureKind};

use crate::layout::{Layout, Pages, Slots};
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

/// Bytes of a stretch that shows whether a call has written there: no line of a cache is shared with other data.
const STRETCH: usize = 64;

/// The two files that caller and worker share, for given dims and slots.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) dims: Bindings,
    pub(crate) slots: Slots,
    layout: Layout,
    /// For each tensor of the plan, the input of a call as which it begins, by position.
    begins: Vec<Option<usize>>,
    pub(crate) inputs: SharedBuffer,
    pub(crate) others: SharedBuffer,
}

impl Stage {
    pub(crate) fn new(plan: &LaunchPlan, dims: &Bindings, slots: Slots) -> Result<Self> {
        let layout = Layout::new(plan, dims, &slots)?;
        let inputs = SharedBuffer::allocate(layout.input_file)?;
        // Where the system cannot forbid it, a change is found when the outputs are taken.
        inputs.forbid_others_to_write();
        Ok(Self {
            dims: dims.clone(),
            slots,
            begins: plan::begins(plan),
            inputs,
            others: SharedBuffer::allocate(layout.other_file)?,
            layout,
        })
    }

    /// Bytes of a tensor of the plan.
    pub(crate) fn bytes(&self, tensor: usize) -> Option<usize> {
        self.layout.bytes(tensor)
    }

    /// Writes the inputs of each slot, and outputs that update one; poisons everything else, and restores the slack.
    pub(crate) fn set(&mut self, calls: &[Call]) {
        for (slot, call) in calls.iter().enumerate() {
            let mut given = call.inputs.iter();
            for (index, pages) in self.layout.slot(slot).enumerate() {
                let is_input = pages.role == TensorRole::Input;
                let content = match self.begins.get(index) {
                    Some(Some(input)) => call.inputs.get(*input),
                    _ if is_input => given.next(),
                    _ => None,
                };
                if slot > 0 && pages.is_shared() {
                    continue;
                }
                let (file, beside) = if is_input {
                    (&mut self.inputs, BESIDE_INPUTS)
                } else {
                    (&mut self.others, beside_other(index))
                };
                let Some(own) = file.bytes_mut().get_mut(pages.range()) else {
                    continue;
                };
                let (before, rest) = own.split_at_mut(pages.start(call.placement));
                let (tensor, after) = rest.split_at_mut(pages.bytes);
                before.fill(beside);
                after.fill(beside);
                match content {
                    Some(input) => tensor.copy_from_slice(input.bytes()),
                    None if call.poison == Poison::Kept => {}
                    None => tensor.fill(call.poison.byte()),
                }
            }
        }
    }

    /// Whether the inputs of a slot still hold what was written.
    pub(crate) fn inputs_unchanged(&self, slot: usize, call: &Call) -> bool {
        let inputs = self.layout.slot(slot).filter(|p| p.role == TensorRole::Input);
        inputs.zip(&call.inputs).all(|(pages, input)| {
            let (before, tensor, after) = self.parts(pages, call.placement);
            let beside = |slack: &[u8]| slack.iter().all(|b| *b == BESIDE_INPUTS);
            beside(before) && tensor == input.bytes() && beside(after)
        })
    }

    /// The failure of a candidate that wrote beside an output or scratch of a slot.
    pub(crate) fn overrun(&self, plan: &LaunchPlan, slot: usize, placement: u32) -> Option<Failure> {
        let tensors = self.layout.slot(slot).zip(&plan.tensors).enumerate();
        tensors
            .filter(|(_, (pages, _))| pages.role != TensorRole::Input)
            .find_map(|(index, (pages, tensor))| {
                let (before, _, after) = self.parts(pages, placement);
                let beside = beside_other(index);
                let written = |slack: &[u8]| slack.iter().position(|b| *b != beside);
                let (name, bytes) = (&tensor.name, pages.bytes);
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

    /// Copies of the outputs of a slot, in memory that the worker does not know.
    pub(crate) fn outputs(&self, plan: &LaunchPlan, slot: usize, placement: u32) -> Result<Vec<Tensor>> {
        let shapes = plan::shapes(plan, &self.dims)?;
        let tensors = self.layout.slot(slot).zip(&plan.tensors).zip(shapes);
        tensors
            .filter(|((pages, _), _)| pages.role == TensorRole::Output)
            .map(|((pages, tensor), shape)| {
                shm::copy_own(tensor.dtype, &shape, self.parts(pages, placement).1)
            })
            .collect()
    }

    /// Whether a stretch of an output in a slot holds nothing but poison.
    pub(crate) fn is_untouched(&self, slot: usize, call: &Call) -> bool {
        let poison = [call.poison.byte(); STRETCH];
        let tensors = self.layout.slot(slot).zip(&self.begins);
        let mut outputs =
            tensors.filter(|(pages, begins)| pages.role == TensorRole::Output && begins.is_none());
        outputs.any(|(pages, _)| {
            let tensor = self.parts(pages, call.placement).1;
            tensor.chunks(STRETCH).any(|stretch| poison.starts_with(stretch))
        })
    }

    /// A tensor's pages: the slack before it, itself, the slack after it.
    fn parts(&self, pages: Pages, placement: u32) -> (&[u8], &[u8], &[u8]) {
        let file = match pages.role {
            TensorRole::Input => &self.inputs,
            TensorRole::Output | TensorRole::Scratch => &self.others,
        };
        let own = file.bytes().get(pages.range()).unwrap_or_default();
        let (before, rest) = own.split_at_checked(pages.start(placement)).unwrap_or_default();
        let (tensor, after) = rest.split_at_checked(pages.bytes).unwrap_or_default();
        (before, tensor, after)
    }
}
