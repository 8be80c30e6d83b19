//! A shared object that was never a file.

use std::fs::File;
use std::io::Write as _;
use std::mem::ManuallyDrop;
use std::os::fd::AsRawFd as _;
use std::path::PathBuf;

use akg_core::error::{Error, Result};
use akg_core::source::LaunchPlan;
use akg_worker::object::Object;
use rustix::fs::{MemfdFlags, memfd_create};

/// A shared object in this process. Dropping it unloads the code.
#[derive(Debug)]
pub(super) struct Image {
    object: ManuallyDrop<Object>,
    file: ManuallyDrop<File>,
    path: PathBuf,
}

impl Image {
    /// Loads the shared object of these bytes and finds the kernels of the plan.
    ///
    /// # Safety
    /// This runs the initialisers of the shared object.
    pub(super) unsafe fn load(bytes: &[u8], plan: &LaunchPlan) -> Result<Self> {
        let failed = |e| Error::io("cannot put the bundle's shared object in memory", e);
        let descriptor = memfd_create("akg-bundle", MemfdFlags::CLOEXEC).map_err(|e| failed(e.into()))?;
        let mut file = File::from(descriptor);
        file.write_all(bytes).map_err(failed)?;
        let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        // SAFETY: by this function's contract.
        let object = unsafe { Object::open(&path, plan) }
            .map_err(|reason| Error::invalid(format!("the bundle does not load: {reason}")))?;
        Ok(Self {
            object: ManuallyDrop::new(object),
            file: ManuallyDrop::new(file),
            path,
        })
    }

    pub(super) fn object(&self) -> &Object {
        &self.object
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        // SAFETY: neither is used again.
        unsafe { ManuallyDrop::drop(&mut self.object) };
        // The linker knows what is loaded by its path. If the code had to stay, so must the descriptor, or the next image
        // with the same number would be taken for this one.
        if !Object::is_loaded(&self.path) {
            // SAFETY: as above.
            unsafe { ManuallyDrop::drop(&mut self.file) };
        }
    }
}
