//! Where the tensors of a plan lie in one allocation.
//!
//! Each tensor has a guard on either side whose bytes the judge knows: a write up to a megabyte outside is found. The
//! guards of inputs hold NaN, so that reading outside shows too. Another placement shifts everything.

use akg_core::error::{Error, ErrorKind, Result};

/// Bytes of a guard.
pub(crate) const GUARD: u64 = 1 << 20;

/// The same where there are several slots, in which the timed calls of a kernel that is known to stay inside are made.
pub(crate) const GUARD_OF_SLOTS: u64 = 1 << 14;

/// The least alignment of every tensor, which the driver's own allocations have too.
pub(crate) const LEAST_ALIGN: u64 = 256;

/// The strictest alignment.
pub(crate) const MOST_ALIGN: u64 = 4096;

/// By how many units a placement is shifted against the one before: odd, so that it takes long until one comes again.
const STRIDE: u64 = 17;

/// What needs room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Room {
    pub(crate) bytes: u64,
    pub(crate) align: u64,
}

/// A tensor's place: offsets from the beginning of the allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot {
    /// The guard before it.
    pub(crate) before: u64,
    /// Itself, which is where that guard ends.
    pub(crate) start: u64,
    /// The guard after it, which is where it ends.
    pub(crate) after: u64,
    /// The end of that guard.
    pub(crate) end: u64,
}

/// Places for everything that needs room, with guards of so many bytes, and the bytes of the allocation, which do not depend on the placement.
pub(crate) fn lay_out(rooms: &[Room], placement: u32, guard: u64) -> Result<(Vec<Slot>, u64)> {
    let align = |room: &Room| room.align.clamp(LEAST_ALIGN, MOST_ALIGN).next_power_of_two();
    let unit = rooms.iter().map(align).max().unwrap_or(LEAST_ALIGN);
    let mut cursor = STRIDE * u64::from(placement) % (GUARD / unit) * unit;
    let too_large = || Error::new(ErrorKind::OutOfResources, "the tensors of the plan are too large");
    let mut total = GUARD;
    let mut slots = Vec::with_capacity(rooms.len());
    for room in rooms {
        let before = cursor;
        let start = before + guard;
        let after = start.checked_add(room.bytes).ok_or_else(too_large)?;
        // The next one begins aligned.
        let end = after
            .checked_add(guard)
            .and_then(|end| end.checked_next_multiple_of(unit))
            .ok_or_else(too_large)?;
        total += end - before;
        cursor = end;
        slots.push(Slot {
            before,
            start,
            after,
            end,
        });
    }
    Ok((slots, total))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn tensors_lie_apart_and_aligned_with_guards_between(
            rooms in prop::collection::vec((0u64..1 << 22, 0u32..13), 0..8),
            placement in 0u32..5000,
        ) {
            let rooms: Vec<Room> = rooms.iter().map(|(bytes, align)| Room { bytes: *bytes, align: 1 << align }).collect();
            let (slots, total) = lay_out(&rooms, placement, GUARD).unwrap();
            let mut end = 0;
            for (slot, room) in slots.iter().zip(&rooms) {
                prop_assert!(slot.before >= end);
                prop_assert_eq!(slot.start, slot.before + GUARD);
                prop_assert_eq!(slot.start % room.align.max(LEAST_ALIGN), 0);
                prop_assert_eq!(slot.after - slot.start, room.bytes);
                prop_assert!(slot.end - slot.after >= GUARD);
                end = slot.end;
            }
            prop_assert!(end <= total);
            prop_assert_eq!(total, lay_out(&rooms, 0, GUARD).unwrap().1);
        }

        #[test]
        fn placements_have_addresses_of_their_own(a in 0u32..250, b in 0u32..250, align in 0u32..13) {
            let rooms = [Room { bytes: 10, align: 1 << align }];
            let start = |placement| lay_out(&rooms, placement, GUARD).unwrap().0[0].start;
            prop_assert_eq!(start(a) == start(b), a == b);
        }
    }
}
