//! Tensors in allocations of their own.

use std::fs::File;

use akg_core::backend::Poison;
use akg_core::error::Result;
use akg_core::expr::Bindings;
use akg_core::source::TensorRole;
use akg_core::verdict::Failure;

use super::{Bound, Engine, Filled, Placed, Wanted};
use crate::driver::Memory;
use crate::layout::{LEAST_ALIGN, Slot};

impl Engine {
    /// Copies the inputs from their files and prepares the launches, as [`bind`](Self::bind) does, but for tools that know
    /// allocations: each tensor is one, exactly as large, and nothing is written that the kernels should write. What they did
    /// cannot be taken.
    pub(crate) fn bind_apart(&mut self, dims: &Bindings, inputs: &[File]) -> Result<Result<(), Failure>> {
        self.bound = None;
        self.apart.clear();
        let mut tensors = Vec::new();
        for Wanted {
            name,
            role,
            updates,
            room,
        } in self.wanted(dims)?
        {
            // What is aligned more strictly than the driver aligns has some room around it.
            let memory = Memory::new(room.bytes + room.align.saturating_sub(LEAST_ALIGN))?;
            let start = memory.address().next_multiple_of(room.align.max(1));
            self.apart.push(memory);
            tensors.push(Placed {
                name,
                role,
                updates,
                beside: 0,
                slot: Slot {
                    before: start,
                    start,
                    after: start + room.bytes,
                    end: start + room.bytes,
                },
            });
        }
        let mut files = inputs.iter();
        for tensor in tensors.iter().filter(|t| t.role == TensorRole::Input) {
            self.copy_input(tensor, files.next(), true)?;
        }
        for tensor in &tensors {
            if let Some(input) = tensor.begins(&tensors) {
                let stream = self.context.stream;
                stream.copy(tensor.slot.start, input.slot.start, tensor.bytes())?;
            }
        }
        let before = std::mem::take(&mut self.work);
        let work = match self.prepare(dims, &tensors, before)? {
            Ok(work) => work,
            Err(failure) => return Ok(Err(failure)),
        };
        self.work = work;
        self.bound = Some(Bound {
            places: vec![tensors],
            slots: vec![Filled {
                poison: Poison::Ones,
                digests: Vec::new(),
                outputs: Vec::new(),
            }],
        });
        Ok(Ok(()))
    }
}
