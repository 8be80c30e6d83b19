//! Tensors in device memory.

use std::ops::Range;

use akg_core::bundle::call::Operand;
use akg_core::{AnyView, DType};

/// A tensor of the caller in device memory: dense and row-major, unless it has strides.
#[derive(Debug, Clone, Copy)]
pub struct DeviceTensor<'a> {
    dtype: DType,
    address: u64,
    shape: &'a [usize],
    strides: Option<&'a [isize]>,
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
            strides: None,
        }
    }

    /// The tensor with strides, in elements: one for each extent, none negative.
    ///
    /// # Safety
    /// [`from_raw`](Self::from_raw) holds for all elements from the first to the last.
    #[must_use]
    pub unsafe fn with_strides(self, strides: &'a [isize]) -> Self {
        Self {
            strides: Some(strides),
            ..self
        }
    }

    /// The device address of the first element.
    pub fn address(&self) -> u64 {
        self.address
    }

    fn view(&self) -> AnyView<'a> {
        let pointer = self.address as usize as *const u8;
        // SAFETY: the view says where the elements are, and nobody reads them by it.
        unsafe { AnyView::from_raw(self.dtype, pointer, self.shape, self.strides) }
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
        self.strides
    }

    fn is_contiguous(&self) -> bool {
        self.view().is_contiguous()
    }

    fn addresses(&self) -> Range<usize> {
        self.view().addresses()
    }
}
