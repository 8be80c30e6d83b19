//! Loaded code and its kernels.

use std::ffi::CString;
use std::ptr;

use cudarc::driver::sys::{self, CUresult};

use super::{DriverError, Result};

/// Loaded code, unloaded when dropped: no kernel of it may run or be launched then.
#[derive(Debug)]
pub(crate) struct Module(sys::CUmodule);

impl Module {
    /// Loads machine code, or PTX that ends with a zero byte.
    pub(crate) fn load(code: &[u8]) -> Result<Self> {
        let mut module = ptr::null_mut();
        call!(cuModuleLoadData(&raw mut module, code.as_ptr().cast()))?;
        Ok(Self(module))
    }

    pub(crate) fn kernel(&self, symbol: &str) -> Result<Kernel> {
        let not_found = || DriverError::new("cuModuleGetFunction", CUresult::CUDA_ERROR_NOT_FOUND);
        let symbol = CString::new(symbol).map_err(|_| not_found())?;
        let mut kernel = ptr::null_mut();
        call!(cuModuleGetFunction(&raw mut kernel, self.0, symbol.as_ptr()))?;
        Ok(Kernel(kernel))
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        // Refused only where the context has ended, and with it the code.
        let _ = call!(cuModuleUnload(self.0));
    }
}

/// A kernel of loaded code.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kernel(pub(super) sys::CUfunction);

impl Kernel {
    /// Brings its code to the device now. Otherwise the driver does that at the first launch, and waits for all others.
    pub(crate) fn load(self) -> Result<()> {
        call!(cuFuncLoad(self.0))
    }

    /// Allows launches that ask for so much shared memory.
    pub(crate) fn allow_shared(self, bytes: u32) -> Result<()> {
        let most = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        call!(cuFuncSetAttribute(self.0, most, bytes as i32))
    }

    /// Registers of a thread.
    pub(crate) fn registers(self) -> Result<u32> {
        self.attribute(sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_NUM_REGS)
    }

    /// Bytes of memory outside the chip that a thread has.
    pub(crate) fn local_bytes(self) -> Result<u32> {
        self.attribute(sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)
    }

    /// Bytes of shared memory of a block beside what a launch asks for.
    pub(crate) fn static_shared_bytes(self) -> Result<u32> {
        self.attribute(sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)
    }

    fn attribute(self, attribute: sys::CUfunction_attribute) -> Result<u32> {
        let mut value = 0;
        call!(cuFuncGetAttribute(&raw mut value, attribute, self.0))?;
        Ok(u32::try_from(value).unwrap_or(0))
    }

    /// Allows clusters that not every device of its kind can have.
    pub(crate) fn allow_large_clusters(self) -> Result<()> {
        let allowed = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED;
        call!(cuFuncSetAttribute(self.0, allowed, 1))
    }
}
