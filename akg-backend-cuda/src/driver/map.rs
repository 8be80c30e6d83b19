//! Descriptions of tensors for the copy engine.

use std::ffi::c_void;

use cudarc::driver::sys::{self, CUresult};

use super::{DriverError, Result};

/// The copy engine's description of a dense row-major tensor that is moved in boxes; `extents` and `block` have the
/// outermost first.
pub(crate) fn tensor_map(
    address: u64,
    element: sys::CUtensorMapDataType,
    element_bytes: u64,
    extents: &[u64],
    block: &[u32],
    swizzle: sys::CUtensorMapSwizzle,
) -> Result<sys::CUtensorMap> {
    let inward: Vec<u64> = extents.iter().rev().copied().collect();
    let block: Vec<u32> = block.iter().rev().copied().collect();
    let strides: Vec<u64> = inward
        .iter()
        .scan(element_bytes, |stride, extent| {
            *stride *= extent;
            Some(*stride)
        })
        .collect();
    let steps = vec![1u32; block.len()];
    let mut map = sys::CUtensorMap { opaque: [0; 16] };
    // The strides of all but the innermost are read.
    call!(cuTensorMapEncodeTiled(
        &raw mut map,
        element,
        inward.len() as u32,
        address as *mut c_void,
        inward.as_ptr(),
        strides.as_ptr(),
        block.as_ptr(),
        steps.as_ptr(),
        sys::CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
        swizzle,
        sys::CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
        sys::CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
    ))?;
    Ok(map)
}

/// Makes a description that of another tensor of the same extents.
pub(crate) fn move_tensor_map(map: &mut sys::CUtensorMap, address: u64) -> Result<()> {
    call!(cuTensorMapReplaceAddress(&raw mut *map, address as *mut c_void))
}
