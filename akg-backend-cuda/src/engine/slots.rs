//! Slots: where the tensors of each call are, and what was there before it.

use akg_core::backend::Poison;
use akg_core::error::{Error, Result};
use akg_core::expr::Bindings;
use akg_core::source::TensorRole;
use akg_core::verdict::{Failure, FailureKind};

use super::Engine;
use crate::driver::{self, download};
use crate::helpers::Range;
use crate::layout::{GUARD, GUARD_OF_SLOTS, Room, Slot, lay_out};

/// The content of guards around inputs: NaN in every floating type, so that reading it shows.
const BESIDE_INPUTS: u8 = 0xff;

/// The content of guards around outputs and scratch, so that writing it shows: neither poison nor a common value, and another
/// one around each of the next tensors, so that copying from guard to guard shows too.
const BESIDE_OTHERS: [u8; 8] = [0x5a, 0xa5, 0x36, 0xc9, 0x69, 0x96, 0x1e, 0xe1];

/// A slot among those of a bind.
#[derive(Debug)]
pub(crate) struct Slots {
    /// The number of this one.
    pub(crate) slot: usize,
    /// The number of all.
    pub(crate) count: usize,
    /// For each tensor of the plan, whether all slots share it.
    pub(crate) shared: Vec<bool>,
}

impl Slots {
    /// A single slot.
    pub(crate) fn single() -> Self {
        Self {
            slot: 0,
            count: 1,
            shared: Vec::new(),
        }
    }

    /// True if another slot brings this tensor.
    pub(super) fn has_before(&self, tensor: usize) -> bool {
        self.slot > 0 && self.shared.get(tensor) == Some(&true)
    }
}

/// Tensors in place.
#[derive(Debug)]
pub(super) struct Bound {
    /// For each slot, where its tensors are.
    pub(super) places: Vec<Vec<Placed>>,
    /// The slots that have been filled.
    pub(super) slots: Vec<Filled>,
}

/// A slot with its tensors in place.
#[derive(Debug)]
pub(super) struct Filled {
    pub(super) poison: Poison,
    /// Digests of what must not change, in the order of [`watched`].
    pub(super) digests: Vec<u64>,
    /// Digests of the outputs before the first call.
    pub(super) outputs: Vec<u64>,
}

/// A tensor that needs a place.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    pub(super) name: String,
    pub(super) role: TensorRole,
    /// The input that an output updates in place, by its number in the plan.
    pub(super) updates: Option<usize>,
    pub(super) room: Room,
}

impl Wanted {
    /// The tensor of this number in the plan at a place after the address `base`.
    pub(super) fn at(self, base: u64, number: usize, place: Slot) -> Placed {
        Placed {
            beside: match self.role {
                TensorRole::Input => BESIDE_INPUTS,
                TensorRole::Output | TensorRole::Scratch => beside_other(number),
            },
            name: self.name,
            role: self.role,
            updates: self.updates,
            slot: Slot {
                before: base + place.before,
                start: base + place.start,
                after: base + place.after,
                end: base + place.end,
            },
        }
    }
}

/// A tensor in place.
#[derive(Debug, Clone)]
pub(super) struct Placed {
    pub(super) name: String,
    pub(super) role: TensorRole,
    /// See [`Wanted::updates`].
    pub(super) updates: Option<usize>,
    /// The byte that its guards hold.
    pub(super) beside: u8,
    /// Addresses.
    pub(super) slot: Slot,
}

impl Placed {
    /// The input as whose contents it begins.
    pub(super) fn begins<'t>(&self, tensors: &'t [Placed]) -> Option<&'t Placed> {
        tensors
            .get(self.updates?)
            .filter(|input| input.bytes() == self.bytes())
    }

    pub(super) fn bytes(&self) -> u64 {
        self.slot.after - self.slot.start
    }

    /// The guards before and after.
    pub(super) fn guards(&self) -> [Range; 2] {
        let Slot {
            before,
            start,
            after,
            end,
        } = self.slot;
        [(before, start - before), (after, end - after)]
    }

    /// The failure of a candidate that wrote to a guard.
    pub(super) fn overrun(&self, guard: usize) -> driver::Result<Failure> {
        let (address, length) = self.guards().get(guard).copied().unwrap_or_default();
        let mut bytes = vec![0; length as usize];
        download(&mut bytes, address)?;
        let first = bytes.iter().position(|b| *b != self.beside).unwrap_or(0) as u64;
        let name = &self.name;
        let evidence = match guard {
            0 => format!(
                "a kernel wrote {} bytes before the beginning of `{name}`",
                length - first
            ),
            _ => format!(
                "a kernel wrote at byte {} of `{name}`, which has {} bytes",
                self.bytes() + first,
                self.bytes()
            ),
        };
        Ok(Failure::new(FailureKind::OutOfBounds, evidence))
    }
}

/// What must not change: the guards of every tensor, then every input.
pub(super) fn watched(tensors: &[Placed]) -> Vec<Range> {
    let guards = tensors.iter().flat_map(Placed::guards);
    let inputs = tensors.iter().filter(|t| t.role == TensorRole::Input);
    guards.chain(inputs.map(|t| (t.slot.start, t.bytes()))).collect()
}

/// The outputs that begin as poison.
pub(super) fn outputs(tensors: &[Placed]) -> Vec<Range> {
    let outputs = tensors
        .iter()
        .filter(|t| t.role == TensorRole::Output && t.updates.is_none());
    outputs.map(|t| (t.slot.start, t.bytes())).collect()
}

impl Engine {
    /// Finds a place for the tensors of every slot.
    pub(super) fn lay_out(
        &mut self,
        dims: &Bindings,
        placement: u32,
        slots: &Slots,
    ) -> Result<Result<Bound, Failure>> {
        self.others.truncate(slots.count.saturating_sub(1));
        let wanted = self.wanted(dims)?;
        let scratch = wanted.iter().filter(|w| w.role == TensorRole::Scratch);
        let needed: u64 = scratch.map(|w| w.room.bytes).sum();
        if needed > self.memory {
            let evidence = format!(
                "the candidate needs {needed} bytes of scratch; it may use {}",
                self.memory
            );
            return Ok(Err(Failure::new(FailureKind::OutOfMemory, evidence)));
        }
        let is_shared = |index: usize| slots.shared.get(index) == Some(&true);
        let mut rooms: Vec<Room> = wanted.iter().map(|w| w.room).collect();
        for _ in 1..slots.count {
            let own = wanted.iter().enumerate().filter(|(index, _)| !is_shared(*index));
            rooms.extend(own.map(|(_, w)| w.room));
        }
        let guard = if slots.count > 1 { GUARD_OF_SLOTS } else { GUARD };
        let (places, total) = lay_out(&rooms, placement, guard)?;
        let base = self.reserve(total)?;
        let mut places = places.into_iter();
        let mut all: Vec<Vec<Placed>> = Vec::with_capacity(slots.count);
        for _ in 0..slots.count {
            let mut tensors = Vec::with_capacity(wanted.len());
            for (index, wanted) in wanted.iter().enumerate() {
                let shared = all
                    .first()
                    .filter(|_| is_shared(index))
                    .and_then(|first| first.get(index));
                let placed = match shared {
                    Some(shared) => shared.clone(),
                    None => {
                        let missing = || Error::unexpected("a tensor has no place");
                        wanted.clone().at(base, index, places.next().ok_or_else(missing)?)
                    }
                };
                tensors.push(placed);
            }
            all.push(tensors);
        }
        Ok(Ok(Bound {
            places: all,
            slots: Vec::new(),
        }))
    }

    /// Gives outputs and scratch of these slots again what they begin as.
    pub(super) fn poison(&self, slots: &[usize]) -> Result<()> {
        let (bound, stream) = (self.bound()?, self.context.stream);
        for slot in slots {
            let (Some(tensors), Some(filled)) = (bound.places.get(*slot), bound.slots.get(*slot)) else {
                continue;
            };
            for tensor in tensors.iter().filter(|t| t.role != TensorRole::Input) {
                match tensor.begins(tensors) {
                    Some(input) => stream.copy(tensor.slot.start, input.slot.start, tensor.bytes())?,
                    None => stream.fill(tensor.slot.start, filled.poison.byte(), tensor.bytes())?,
                }
            }
        }
        Ok(stream.wait()?)
    }

    /// Those of the first slots that have an output with the same bytes as before the first call.
    pub(crate) fn untouched(&self, used: usize) -> Result<Vec<usize>> {
        let bound = self.bound()?;
        let mut untouched = Vec::new();
        for (slot, (tensors, filled)) in bound.places.iter().zip(&bound.slots).enumerate().take(used) {
            let now = self
                .context
                .helpers
                .digests(self.context.stream, &outputs(tensors))?;
            // A tensor without elements never changes.
            let ranges = outputs(tensors);
            let mut same = now.iter().zip(&filled.outputs).zip(&ranges);
            if same.any(|((now, before), (_, bytes))| *bytes > 0 && now == before) {
                untouched.push(slot);
            }
        }
        Ok(untouched)
    }
}

/// See [`BESIDE_OTHERS`].
fn beside_other(index: usize) -> u8 {
    BESIDE_OTHERS
        .get(index % BESIDE_OTHERS.len())
        .copied()
        .unwrap_or(0x5a)
}
