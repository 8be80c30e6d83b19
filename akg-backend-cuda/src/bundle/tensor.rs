//! Tensors in device memory.

use std::ops::Range;

use akg_core::DType;
use akg_core::bundle::call::Operand;

/// A tensor of the caller in device memory: dense and row-major.
#[derive(Debug, Clone, Copy)]
pub struct DeviceTensor<'a> {
    dtype: DType,
    address: u64,
    shape: &'a [usize],
}

impl<'a> DeviceTensor<'a> {
    /// The tensor at a device address.
    ///
    /// # Safety
    /// `address` must lead to the elements that `dtype` and `shape` say, in memory that the kernels of the bundle can
    /// reach, until the work of every call that takes this is done. Nobody else writes them in the meantime, and reads
    /// them if a call writes them; work on the same stream is before or after that.
    pub unsafe fn from_raw(dtype: DType, address: u64, shape: &'a [usize]) -> Self {
        Self {
            dtype,
            address,
            shape,
        }
    }

    /// The device address of the first element.
    pub fn address(&self) -> u64 {
        self.address
    }
}

impl Operand for DeviceTensor<'_> {
    fn dtype(&self) -> DType {
        self.dtype
    }

    fn shape(&self) -> &[usize] {
        self.shape
    }

    fn strides(&self) -> Option<&[isize]> {
        None
    }

    fn is_contiguous(&self) -> bool {
        true
    }

    fn addresses(&self) -> Range<usize> {
        let elements: usize = self.shape.iter().product();
        let start = self.address as usize;
        start..start.wrapping_add(elements.wrapping_mul(self.dtype.size()))
    }
}
