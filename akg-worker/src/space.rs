//! The part of the worker's address space where tensors are mapped.
//!
//! One large range is reserved at first, without memory behind it, so that mapping tensors changes no limit. Each
//! combination of dims, placement and slots gets addresses in it once and keeps them; only one is mapped at a time, so that
//! whoever remembers addresses of another reads nothing that is right. Around every tensor's pages stays unmapped memory.

use std::ffi::c_void;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr;

use akg_core::error::{Error, ErrorKind, Result};
use akg_core::expr::Bindings;
use akg_core::source::TensorRole;
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous};

use crate::layout::{Layout, Pages, Slots};

/// Bytes of address space that are reserved.
pub(crate) const RESERVED: u64 = 1 << 40;

/// Unmapped bytes on each side of a tensor's pages.
pub(crate) const GUARD: usize = 1 << 20;

/// The same where there are several slots, which need fewer page tables so.
const GUARD_OF_SLOTS: usize = 1 << 16;

/// The number of mappings at most: half of what Linux allows a process, whose guards are mappings, too.
pub(crate) const MOST_ZONES: usize = 1 << 13;

/// The reserved range.
#[derive(Debug)]
pub(crate) struct Space {
    base: usize,
    /// Bytes that are given to placements.
    used: usize,
    placements: Vec<Placement>,
    /// Which of them is mapped.
    active: Option<usize>,
}

#[derive(Debug)]
struct Placement {
    dims: Bindings,
    number: u32,
    slots: Slots,
    /// Slot after slot, in the order of the plan.
    zones: Vec<Zone>,
}

/// The pages of one tensor in one slot.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Zone {
    /// The address of its pages, and their bytes.
    pub(crate) address: usize,
    pub(crate) length: usize,
    /// The address of the tensor.
    pub(crate) tensor: usize,
}

impl Space {
    pub(crate) fn reserve() -> Result<Self> {
        // SAFETY: new memory at an address of the system's choice.
        let base = unsafe {
            mmap_anonymous(
                ptr::null_mut(),
                RESERVED as usize,
                ProtFlags::empty(),
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        };
        let base = base.map_err(|e| Error::io("cannot reserve address space for tensors", e.into()))?;
        Ok(Self {
            base: base as usize,
            used: GUARD,
            placements: Vec::new(),
            active: None,
        })
    }

    /// The reserved addresses.
    pub(crate) fn range(&self) -> std::ops::Range<usize> {
        self.base..self.base + RESERVED as usize
    }

    /// Maps the tensors of a layout from the files of inputs and of the others, and nothing else. Gives the zones slot after
    /// slot, in the order of the plan.
    pub(crate) fn place(
        &mut self,
        layout: &Layout,
        (dims, number, slots): (&Bindings, u32, &Slots),
        files: [&OwnedFd; 2],
    ) -> Result<&[Zone]> {
        if let Some(active) = self.active.take().and_then(|i| self.placements.get(i)) {
            unmap(&active.zones)?;
        }
        let known = self
            .placements
            .iter()
            .position(|p| p.number == number && p.dims == *dims && p.slots == *slots);
        let index = match known {
            Some(index) => index,
            None => {
                let zones = self.zones(layout, number)?;
                self.placements.push(Placement {
                    dims: dims.clone(),
                    number,
                    slots: slots.clone(),
                    zones,
                });
                self.placements.len() - 1
            }
        };
        self.active = Some(index);
        let zones = self.placements.get(index).map_or(&[][..], |p| &p.zones);
        let all = (0..layout.slots).flat_map(|slot| layout.slot(slot).map(move |pages| (slot, pages)));
        for (zone, (slot, pages)) in zones.iter().zip(all) {
            if slot == 0 || !pages.is_shared() {
                map(zone, &pages, files)?;
            }
        }
        Ok(zones)
    }

    /// New addresses for a layout.
    fn zones(&mut self, layout: &Layout, number: u32) -> Result<Vec<Zone>> {
        let guard = if layout.slots > 1 { GUARD_OF_SLOTS } else { GUARD };
        let mut zones: Vec<Zone> = Vec::new();
        for slot in 0..layout.slots {
            for (index, pages) in layout.slot(slot).enumerate() {
                // The first slot comes first.
                if slot > 0 && pages.is_shared() {
                    zones.extend(zones.get(index).copied());
                    continue;
                }
                let address = self.base + self.used;
                // What was placed before has its own guard on this side.
                let used = self.used.checked_add(pages.length + guard);
                self.used = used
                    .filter(|used| *used <= (RESERVED as usize) - GUARD)
                    .ok_or_else(|| {
                        Error::new(
                            ErrorKind::OutOfResources,
                            "the address space for tensors is used up; load the artifact again",
                        )
                    })?;
                zones.push(Zone {
                    address,
                    length: pages.length,
                    tensor: address + pages.start(number),
                });
            }
        }
        // Other placements are as far away as they can be.
        self.used += GUARD - guard;
        Ok(zones)
    }
}

/// Unmaps everything between the first and the last zone of a placement.
fn unmap(zones: &[Zone]) -> Result<()> {
    let Some(start) = zones.iter().map(|zone| zone.address).min() else {
        return Ok(());
    };
    let end = zones
        .iter()
        .map(|zone| zone.address + zone.length)
        .max()
        .unwrap_or(start);
    // SAFETY: the range is in the reserved one, where only tensors are.
    let unmapped = unsafe {
        mmap_anonymous(
            start as *mut c_void,
            end - start,
            ProtFlags::empty(),
            MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED,
        )
    };
    unmapped.map_err(|e| Error::io("cannot unmap the tensors", e.into()))?;
    Ok(())
}

fn map(zone: &Zone, pages: &Pages, [inputs, others]: [&OwnedFd; 2]) -> Result<()> {
    let (file, protection) = match pages.role {
        TensorRole::Input => (inputs, ProtFlags::READ),
        TensorRole::Output | TensorRole::Scratch => (others, ProtFlags::READ | ProtFlags::WRITE),
    };
    // SAFETY: the zone is in the reserved range, where only tensors are; the file has the pages and keeps its size.
    let mapped = unsafe {
        mmap(
            zone.address as *mut c_void,
            zone.length,
            protection,
            // Page tables are filled now and not while the clock runs.
            MapFlags::SHARED | MapFlags::FIXED | MapFlags::POPULATE,
            file.as_fd(),
            pages.offset as u64,
        )
    };
    mapped.map_err(|e| Error::io("cannot map a tensor", e.into()))?;
    Ok(())
}
