//! The part of the worker's address space where tensors are mapped.
//!
//! One large range is reserved at first, without memory behind it, so that mapping tensors changes no limit. Each
//! combination of dims and placement gets addresses in it once and keeps them; only one is mapped at a time, so that
//! whoever remembers addresses of another reads nothing that is right. Around every tensor's pages stays unmapped memory.

use std::ffi::c_void;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr;

use akg_core::error::{Error, ErrorKind, Result};
use akg_core::expr::Bindings;
use akg_core::source::TensorRole;
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous};

use crate::layout::{Layout, Slot};

/// Bytes of address space that are reserved.
pub(crate) const RESERVED: u64 = 1 << 40;

/// Unmapped bytes on each side of a tensor's pages.
pub(crate) const GUARD: usize = 1 << 20;

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
    zones: Vec<Zone>,
}

/// The pages of one tensor.
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

    /// Maps the tensors of a layout from the files of inputs and of the others, and nothing else.
    pub(crate) fn place(
        &mut self,
        layout: &Layout,
        dims: &Bindings,
        number: u32,
        files: [&OwnedFd; 2],
    ) -> Result<&[Zone]> {
        if let Some(active) = self.active.take().and_then(|i| self.placements.get(i)) {
            active.zones.iter().try_for_each(unmap)?;
        }
        let known = self
            .placements
            .iter()
            .position(|p| p.number == number && p.dims == *dims);
        let index = match known {
            Some(index) => index,
            None => {
                let zones = self.zones(layout, number)?;
                self.placements.push(Placement {
                    dims: dims.clone(),
                    number,
                    zones,
                });
                self.placements.len() - 1
            }
        };
        self.active = Some(index);
        let zones = self.placements.get(index).map_or(&[][..], |p| &p.zones);
        for (zone, slot) in zones.iter().zip(&layout.slots) {
            map(zone, slot, files)?;
        }
        Ok(zones)
    }

    /// New addresses for a layout.
    fn zones(&mut self, layout: &Layout, number: u32) -> Result<Vec<Zone>> {
        let zones = layout.slots.iter().map(|slot| {
            let address = self.base + self.used;
            let used = self.used.checked_add(slot.length + GUARD);
            self.used = used.filter(|used| *used <= RESERVED as usize).ok_or_else(|| {
                Error::new(
                    ErrorKind::OutOfResources,
                    "the address space for tensors is used up; load the artifact again",
                )
            })?;
            Ok(Zone {
                address,
                length: slot.length,
                tensor: address + slot.start(number),
            })
        });
        zones.collect()
    }
}

fn unmap(zone: &Zone) -> Result<()> {
    // SAFETY: the zone is in the reserved range, where only tensors are.
    let unmapped = unsafe {
        mmap_anonymous(
            zone.address as *mut c_void,
            zone.length,
            ProtFlags::empty(),
            MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED,
        )
    };
    unmapped.map_err(|e| Error::io("cannot unmap a tensor", e.into()))?;
    Ok(())
}

fn map(zone: &Zone, slot: &Slot, [inputs, others]: [&OwnedFd; 2]) -> Result<()> {
    let (file, protection) = match slot.role {
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
            slot.offset as u64,
        )
    };
    mapped.map_err(|e| Error::io("cannot map a tensor", e.into()))?;
    Ok(())
}
