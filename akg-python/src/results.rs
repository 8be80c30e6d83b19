//! The results of a module, read from the memory of its process while that stands still.

use std::collections::{BTreeMap, BTreeSet};

use akg_core::error::Result;
use akg_core::expr::Bindings;
use akg_core::source::{LaunchPlan, TensorRole};
use akg_core::tensor::byte_len;
use akg_core::verdict::{Failure, FailureKind};
use akg_core::{DType, Tensor};
use akg_worker::process::Halt;
use akg_worker::{plan, shm};

use crate::calls::Results;
use crate::commitment::{Digest, digest};
use crate::transfer::Written;

/// An output of the plan.
#[derive(Debug)]
pub(crate) struct Expected {
    name: String,
    dtype: DType,
    shape: Vec<usize>,
    pub(crate) bytes: usize,
}

impl Expected {
    /// The outputs of a plan under these dims.
    pub(crate) fn of(plan: &LaunchPlan, dims: &Bindings) -> Result<Vec<Self>> {
        let tensors = plan.tensors.iter().zip(plan::shapes(plan, dims)?);
        let outputs = tensors.filter(|(tensor, _)| tensor.role == TensorRole::Output);
        let expected = outputs.map(|(tensor, shape)| {
            Ok(Self {
                name: tensor.name.clone(),
                dtype: tensor.dtype,
                bytes: byte_len(tensor.dtype, &shape)?,
                shape,
            })
        });
        expected.collect()
    }

    /// Compares what a module says of the types of its results with what they must be.
    pub(crate) fn check(expected: &[Self], results: &Results) -> Result<(), Failure> {
        let wrong = |evidence| Err(Failure::new(FailureKind::WrongType, evidence));
        if let Some(evidence) = &results.wrong {
            return wrong(evidence.clone());
        }
        for types in &results.types {
            if types.len() != expected.len() {
                return wrong(format!(
                    "the module returned {} tensors instead of {}",
                    types.len(),
                    expected.len()
                ));
            }
            for (Written { dtype, shape }, output) in types.iter().zip(expected) {
                if *dtype != output.dtype || *shape != output.shape {
                    return wrong(format!(
                        "the module returned {dtype}{shape:?} for `{}`, which is {}{:?}",
                        output.name, output.dtype, output.shape
                    ));
                }
            }
        }
        Ok(())
    }
}

/// The bytes of results by their slot.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    /// Room for each output of a slot, which is used again.
    rooms: BTreeMap<usize, Vec<Vec<u8>>>,
    /// The slots whose rooms hold results.
    held: BTreeSet<usize>,
}

impl Kept {
    /// Forgets all results.
    pub(crate) fn clear(&mut self) {
        self.held.clear();
    }

    /// Reads results from the places that their process named, which must stand still. What it named may be anything.
    pub(crate) fn read(
        &mut self,
        halt: &Halt,
        expected: &[Expected],
        places: &[(usize, Vec<u64>)],
    ) -> Result<(), Failure> {
        let wrong = |evidence| Err(Failure::new(FailureKind::WrongType, evidence));
        for (slot, addresses) in places {
            if addresses.len() != expected.len() {
                let (named, count) = (addresses.len(), expected.len());
                return wrong(format!("the worker names {named} results of {count}"));
            }
            self.held.remove(slot);
            let rooms = self.rooms.entry(*slot).or_default();
            rooms.resize(expected.len(), Vec::new());
            for ((room, output), address) in rooms.iter_mut().zip(expected).zip(addresses) {
                room.resize(output.bytes, 0);
                if let Err(error) = halt.read(*address, room) {
                    return wrong(format!(
                        "there are no {} bytes of `{}` at the address {address:#x} that the module's process named: {error}",
                        output.bytes, output.name
                    ));
                }
            }
            self.held.insert(*slot);
        }
        Ok(())
    }

    /// The outputs in a slot; none if it holds no results.
    pub(crate) fn tensors(&self, slot: usize, expected: &[Expected]) -> Result<Option<Vec<Tensor>>> {
        let Some(rooms) = self.rooms.get(&slot).filter(|_| self.held.contains(&slot)) else {
            return Ok(None);
        };
        let copies = rooms.iter().zip(expected);
        let copies = copies.map(|(bytes, output)| shm::copy_own(output.dtype, &output.shape, bytes));
        copies.collect::<Result<_>>().map(Some)
    }

    /// Digests of the outputs in a slot; none if it holds no results.
    pub(crate) fn digests(&self, slot: usize) -> Option<Vec<Digest>> {
        let rooms = self.rooms.get(&slot).filter(|_| self.held.contains(&slot))?;
        Some(rooms.iter().map(|bytes| digest(bytes)).collect())
    }
}
