//! Contexts: a device's memory and code as one process sees them.

use std::ptr;

use cudarc::driver::sys::{self, CUresult};

use super::{Device, DriverError, Result};

/// A context, which a thread makes current before it calls the driver.
#[derive(Debug)]
pub(crate) struct Context {
    handle: sys::CUcontext,
    device: Device,
    /// Whether it is the device's primary one, held by this.
    held: bool,
}

impl Context {
    /// The primary context of a device, which everything that uses CUDA's runtime shares.
    pub(crate) fn primary(device: Device) -> Result<Self> {
        let mut handle = ptr::null_mut();
        call!(cuDevicePrimaryCtxRetain(&raw mut handle, device.0))?;
        Ok(Self {
            handle,
            device,
            held: true,
        })
    }

    /// The one that is current in the calling thread, which must live longer than this.
    pub(crate) fn current() -> Result<Option<Self>> {
        let (mut handle, mut device) = (ptr::null_mut(), 0);
        call!(cuCtxGetCurrent(&raw mut handle))?;
        if handle.is_null() {
            return Ok(None);
        }
        call!(cuCtxGetDevice(&raw mut device))?;
        Ok(Some(Self {
            handle,
            device: Device(device),
            held: false,
        }))
    }

    pub(crate) fn device(&self) -> Device {
        self.device
    }

    /// Makes it current in the calling thread as long as the answer lives.
    pub(crate) fn enter(&self) -> Result<Entered> {
        let mut current = ptr::null_mut();
        call!(cuCtxGetCurrent(&raw mut current))?;
        let pushed = current != self.handle;
        if pushed {
            call!(cuCtxPushCurrent_v2(self.handle))?;
        }
        Ok(Entered { pushed })
    }

    /// Waits for all work in it.
    pub(crate) fn wait(&self) -> Result<()> {
        let _entered = self.enter()?;
        call!(cuCtxSynchronize())
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if self.held {
            let _ = call!(cuDevicePrimaryCtxRelease_v2(self.device.0));
        }
    }
}

/// A context is current in the calling thread.
#[derive(Debug)]
#[must_use]
pub(crate) struct Entered {
    /// Whether another one was before.
    pushed: bool,
}

impl Drop for Entered {
    fn drop(&mut self) {
        if self.pushed {
            let mut popped = ptr::null_mut();
            let _ = call!(cuCtxPopCurrent_v2(&raw mut popped));
        }
    }
}
