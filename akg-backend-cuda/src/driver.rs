//! The parts of the driver API that akg needs, with every answer checked.
//!
//! The driver is loaded when it is first called, so everything builds and starts without it; [`start`] comes first.

use std::ffi::{CStr, c_void};
use std::fmt;
use std::ptr;
use std::time::Duration;

use akg_core::error::{Error, ErrorKind};
use cudarc::driver::sys::{self, CUresult};

pub(crate) use cudarc::driver::sys::CUdevice_attribute as Attribute;

/// The oldest version of the driver API with everything that is called here; times of events came last.
const OLDEST: i32 = 12_080;

/// A call that the driver refused, or a kernel's failure that it told of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DriverError {
    call: &'static str,
    code: CUresult,
    name: String,
    text: String,
}

pub(crate) type Result<T, E = DriverError> = std::result::Result<T, E>;

impl DriverError {
    fn new(call: &'static str, code: CUresult) -> Self {
        let said = |ask: unsafe fn(CUresult, *mut *const std::ffi::c_char) -> CUresult| {
            let mut text = ptr::null();
            // SAFETY: the driver gives a text that lives as long as itself, or none.
            unsafe {
                match ask(code, &raw mut text) {
                    CUresult::CUDA_SUCCESS if !text.is_null() => {
                        CStr::from_ptr(text).to_string_lossy().into_owned()
                    }
                    _ => format!("error {}", code as u32),
                }
            }
        };
        Self {
            call,
            code,
            name: said(sys::cuGetErrorName),
            text: said(sys::cuGetErrorString),
        }
    }

    pub(crate) fn is_out_of_memory(&self) -> bool {
        self.code == CUresult::CUDA_ERROR_OUT_OF_MEMORY
    }
}

impl fmt::Display for DriverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}) from {}", self.text, self.name, self.call)
    }
}

impl std::error::Error for DriverError {}

impl From<DriverError> for Error {
    fn from(error: DriverError) -> Self {
        let kind = if error.is_out_of_memory() {
            ErrorKind::OutOfResources
        } else {
            ErrorKind::Unexpected
        };
        Error::new(kind, format!("the CUDA driver refused: {error}"))
    }
}

/// Calls the driver.
macro_rules! call {
    ($function:ident($($argument:expr),* $(,)?)) => {
        // SAFETY: see the function that this is in.
        match unsafe { sys::$function($($argument),*) } {
            CUresult::CUDA_SUCCESS => Ok(()),
            code => Err(DriverError::new(stringify!($function), code)),
        }
    };
}

mod code;
mod context;
mod graph;
mod map;
mod memory;

pub(crate) use code::{Kernel, Module};
pub(crate) use context::{Context, Entered};
pub(crate) use graph::{Graph, Launch, Template};
pub(crate) use map::{move_tensor_map, tensor_map};
pub(crate) use memory::{Memory, Pinned, download, upload};

/// Loads the driver and initialises it; gives the number of devices.
///
/// # Errors
/// Why there is no device that can be used, for people.
pub(crate) fn start() -> Result<u32, String> {
    // SAFETY: loading the driver runs its initialisers, as every user of CUDA does.
    if !unsafe { sys::is_culib_present() } {
        return Err("the library libcuda.so.1 of NVIDIA's driver is not found".to_owned());
    }
    let said = |error: DriverError| match error.code {
        CUresult::CUDA_ERROR_NO_DEVICE => "NVIDIA's driver finds no device".to_owned(),
        _ => format!("NVIDIA's driver cannot be used: {error}"),
    };
    call!(cuInit(0)).map_err(said)?;
    let mut version = 0;
    call!(cuDriverGetVersion(&raw mut version)).map_err(said)?;
    if version < OLDEST {
        return Err(format!(
            "NVIDIA's driver is for CUDA {}.{}; {}.{} is needed at least",
            version / 1000,
            version % 1000 / 10,
            OLDEST / 1000,
            OLDEST % 1000 / 10
        ));
    }
    let mut count = 0;
    call!(cuDeviceGetCount(&raw mut count)).map_err(said)?;
    Ok(u32::try_from(count).unwrap_or(0))
}

/// The device of this number, after [`start`].
///
/// # Errors
/// Why there is none, for people.
pub(crate) fn device(number: u32) -> Result<Device, String> {
    let count = start()?;
    if number >= count {
        return Err(format!(
            "there is no device {number}; NVIDIA's driver shows {count}"
        ));
    }
    Device::get(number).map_err(|error| error.to_string())
}

/// Does something that a profiler around this process shall look at.
pub(crate) fn profiled(work: impl FnOnce() -> Result<()>) -> Result<()> {
    call!(cuProfilerStart())?;
    let done = work();
    let stopped = call!(cuProfilerStop());
    done.and(stopped)
}

/// A device.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Device(sys::CUdevice);

impl Device {
    /// The device of this number, below what [`start`] gave.
    pub(crate) fn get(ordinal: u32) -> Result<Self> {
        let mut device = 0;
        call!(cuDeviceGet(&raw mut device, ordinal as i32))?;
        Ok(Self(device))
    }

    pub(crate) fn attribute(self, attribute: Attribute) -> Result<u64> {
        let mut value = 0;
        call!(cuDeviceGetAttribute(&raw mut value, attribute, self.0))?;
        Ok(u64::try_from(value).unwrap_or(0))
    }

    pub(crate) fn name(self) -> Result<String> {
        let mut bytes = [0u8; 256];
        call!(cuDeviceGetName(bytes.as_mut_ptr().cast(), 255, self.0))?;
        let name = CStr::from_bytes_until_nul(&bytes).unwrap_or_default();
        Ok(name.to_string_lossy().into_owned())
    }

    /// Where it is on the bus, as in `0000:0a:00.0`.
    pub(crate) fn bus(self) -> Result<String> {
        let mut bytes = [0u8; 32];
        call!(cuDeviceGetPCIBusId(bytes.as_mut_ptr().cast(), 31, self.0))?;
        let bus = CStr::from_bytes_until_nul(&bytes).unwrap_or_default();
        Ok(bus.to_string_lossy().into_owned())
    }

    /// Bytes of its memory.
    pub(crate) fn memory(self) -> Result<u64> {
        let mut bytes = 0;
        call!(cuDeviceTotalMem_v2(&raw mut bytes, self.0))?;
        Ok(bytes as u64)
    }

    /// Makes its primary context that of the calling thread, until the process ends.
    pub(crate) fn enter(self) -> Result<()> {
        let mut context = ptr::null_mut();
        call!(cuDevicePrimaryCtxRetain(&raw mut context, self.0))?;
        call!(cuCtxSetCurrent(context))
    }
}

/// The order of work on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stream(sys::CUstream);

impl Stream {
    /// The stream that everything is on which names none.
    pub(crate) const DEFAULT: Self = Self(ptr::null_mut());

    /// The stream of a handle.
    pub(crate) fn of(handle: sys::CUstream) -> Self {
        Self(handle)
    }

    /// A stream that lives until the process ends. Copies outside of it wait for it, and it for them.
    pub(crate) fn new() -> Result<Self> {
        let mut stream = ptr::null_mut();
        call!(cuStreamCreate(&raw mut stream, 0))?;
        Ok(Self(stream))
    }

    pub(crate) fn wait(self) -> Result<()> {
        call!(cuStreamSynchronize(self.0))
    }

    /// Sets bytes that must be the device's.
    pub(crate) fn fill(self, address: u64, byte: u8, bytes: u64) -> Result<()> {
        match bytes {
            0 => Ok(()),
            bytes => call!(cuMemsetD8Async(address, byte, bytes as usize, self.0)),
        }
    }

    /// Copies to the device, and waits for it. The address must have room for the bytes.
    pub(crate) fn upload(self, to: u64, bytes: &[u8]) -> Result<()> {
        call!(cuMemcpyHtoDAsync_v2(
            to,
            bytes.as_ptr().cast(),
            bytes.len(),
            self.0
        ))?;
        self.wait()
    }

    /// Copies from the device, and waits for it. The address must have as many bytes.
    pub(crate) fn download(self, bytes: &mut [u8], from: u64) -> Result<()> {
        call!(cuMemcpyDtoHAsync_v2(
            bytes.as_mut_ptr().cast(),
            from,
            bytes.len(),
            self.0
        ))?;
        self.wait()
    }

    /// Copies within the device.
    pub(crate) fn copy(self, to: u64, from: u64, bytes: u64) -> Result<()> {
        match bytes {
            0 => Ok(()),
            bytes => call!(cuMemcpyDtoDAsync_v2(to, from, bytes as usize, self.0)),
        }
    }

    /// Launches a kernel, with an address for each of its parameters.
    pub(crate) fn launch(self, kernel: &Kernel, shape: &Shape, arguments: &mut [*mut c_void]) -> Result<()> {
        let mut attributes = shape.attributes();
        let config = sys::CUlaunchConfig {
            gridDimX: shape.blocks,
            gridDimY: 1,
            gridDimZ: 1,
            blockDimX: shape.threads,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: shape.shared_bytes,
            hStream: self.0,
            attrs: attributes.all.as_mut_ptr(),
            numAttrs: attributes.count as u32,
        };
        // The driver copies attributes and arguments before it returns.
        call!(cuLaunchKernelEx(
            &raw const config,
            kernel.0,
            arguments.as_mut_ptr(),
            ptr::null_mut()
        ))
    }
}

/// How a kernel is launched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) blocks: u32,
    pub(crate) threads: u32,
    pub(crate) cluster: u32,
    pub(crate) shared_bytes: u32,
    pub(crate) cooperative: bool,
}

impl Shape {
    /// What a launch asks for beyond its grid.
    fn attributes(&self) -> Attributes {
        let mut attributes = Attributes {
            all: [sys::CUlaunchAttribute {
                id: sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_IGNORE,
                pad: [0; 4],
                value: sys::CUlaunchAttributeValue { cooperative: 0 },
            }; 2],
            count: 0,
        };
        if self.cluster > 1 {
            let clusters = sys::CUlaunchAttributeValue_union__bindgen_ty_1 {
                x: self.cluster,
                y: 1,
                z: 1,
            };
            attributes.push(
                sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
                sys::CUlaunchAttributeValue { clusterDim: clusters },
            );
        }
        if self.cooperative {
            attributes.push(
                sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_COOPERATIVE,
                sys::CUlaunchAttributeValue { cooperative: 1 },
            );
        }
        attributes
    }
}

/// Attributes of a launch, of which there are two at most.
struct Attributes {
    all: [sys::CUlaunchAttribute; 2],
    count: usize,
}

impl Attributes {
    fn push(&mut self, id: sys::CUlaunchAttributeID, value: sys::CUlaunchAttributeValue) {
        if let Some(place) = self.all.get_mut(self.count) {
            (place.id, place.value) = (id, value);
            self.count += 1;
        }
    }

    fn as_slice(&self) -> &[sys::CUlaunchAttribute] {
        self.all.get(..self.count).unwrap_or_default()
    }
}

/// A mark in a stream that knows when it was passed. Lives until the process ends.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Event(sys::CUevent);

impl Event {
    pub(crate) fn new() -> Result<Self> {
        let mut event = ptr::null_mut();
        call!(cuEventCreate(&raw mut event, 0))?;
        Ok(Self(event))
    }

    pub(crate) fn record(self, stream: Stream) -> Result<()> {
        call!(cuEventRecord(self.0, stream.0))
    }

    /// The time from `start` to this, both of which must have been passed.
    pub(crate) fn since(self, start: Event) -> Result<Duration> {
        let mut milliseconds = 0.0;
        call!(cuEventElapsedTime_v2(&raw mut milliseconds, start.0, self.0))?;
        Ok(Duration::try_from_secs_f64(f64::from(milliseconds) * 1e-3).unwrap_or_default())
    }
}
