//! Memory, and copies between the host's and the device's.

use std::ptr;

use cudarc::driver::sys::{self, CUresult};

use super::{DriverError, Result};

/// Memory of the device, freed when dropped.
#[derive(Debug)]
pub(crate) struct Memory {
    address: u64,
    bytes: u64,
}

impl Memory {
    pub(crate) fn new(bytes: u64) -> Result<Self> {
        let mut address = 0;
        call!(cuMemAlloc_v2(&raw mut address, bytes.max(1) as usize))?;
        Ok(Self { address, bytes })
    }

    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // Refused only where a kernel's failure has ended the context, and with it the memory.
        let _ = call!(cuMemFree_v2(self.address));
    }
}

/// Memory of the host that stays where it is, so that copies to and from it need no help; freed when dropped.
#[derive(Debug)]
pub(crate) struct Pinned {
    start: *mut u8,
    bytes: usize,
}

impl Pinned {
    pub(crate) fn new(bytes: usize) -> Result<Self> {
        let mut start = ptr::null_mut();
        call!(cuMemHostAlloc(&raw mut start, bytes, 0))?;
        let pinned = Self {
            start: start.cast(),
            bytes,
        };
        // SAFETY: the driver gave so many bytes.
        unsafe { pinned.start.write_bytes(0, bytes) };
        Ok(pinned)
    }

    /// Its bytes. No copy may be under way.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the memory is this value's alone, and was written.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.bytes) }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let _ = call!(cuMemFreeHost(self.start.cast()));
    }
}

/// Copies to the device, and waits for it. The address must have room for the bytes.
pub(crate) fn upload(to: u64, bytes: &[u8]) -> Result<()> {
    match bytes.len() {
        0 => Ok(()),
        length => call!(cuMemcpyHtoD_v2(to, bytes.as_ptr().cast(), length)),
    }
}

/// Copies from the device, when everything before is done. The address must have as many bytes.
pub(crate) fn download(bytes: &mut [u8], from: u64) -> Result<()> {
    match bytes.len() {
        0 => Ok(()),
        length => call!(cuMemcpyDtoH_v2(bytes.as_mut_ptr().cast(), from, length)),
    }
}
