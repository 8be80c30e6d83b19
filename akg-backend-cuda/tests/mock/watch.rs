//! What is read of the device while candidates are timed.

use std::ffi::c_ulonglong;

use akg_backend_cuda::CudaBackend;
use akg_core::Backend;
use akg_core::timing::{ClockLimit, Reading};

/// The library as this process has loaded it.
fn library() -> libloading::Library {
    // SAFETY: the mock has no initialisers.
    unsafe { libloading::Library::new("libnvidia-ml.so.1") }.unwrap()
}

pub(super) fn the_device_is_read() {
    let mut witness = CudaBackend::builder().build().witness();
    let library = library();
    // Bits of nvml.h: power cap and idle; all that is thermal; the power brake, with what it comes with.
    let cases: [(c_ulonglong, &[ClockLimit]); 4] = [
        (0, &[]),
        (0x4 | 0x1, &[ClockLimit::Idle, ClockLimit::PowerCap]),
        (
            0x20 | 0x40,
            &[ClockLimit::SoftwareThermal, ClockLimit::HardwareThermal],
        ),
        (
            0x80 | 0x8,
            &[ClockLimit::PowerBrake, ClockLimit::HardwareSlowdown],
        ),
    ];
    for (bits, limits) in cases {
        // SAFETY: a variable of this type; nobody else uses it.
        unsafe { **library.get::<*mut c_ulonglong>(b"mock_reasons").unwrap() = bits };
        let expected = Reading {
            clock: Some(1980.0),
            memory_clock: Some(3201.0),
            temperature: Some(41.0),
            power: None,
            limits: limits.to_vec(),
        };
        assert_eq!(witness.device().unwrap().unwrap(), expected);
    }
}

pub(super) fn a_device_that_is_not_there_is_not_read() {
    let mut witness = CudaBackend::builder().device(1).build().witness();
    let error = witness.device().unwrap().unwrap_err();
    assert!(error.message().contains("there is no device 1"), "{error}");
}
