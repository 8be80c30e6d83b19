//! Bundles in the caller's process and context: loaded once, called often.

use std::ffi::c_void;
use std::fmt;
use std::sync::Arc;

use akg_core::bundle::call::dim_of;
use akg_core::bundle::{Bundle, Manifest, Port};
use akg_core::error::{Result, ResultExt as _};

mod code;
mod frame;
mod lane;
mod owned;
mod tensor;

use crate::driver;
use code::Code;
use frame::Need;
use lane::Lane;
pub use tensor::DeviceTensor;

/// How a bundle is loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoadOptions {
    /// The number of the device, in the driver's order, whose primary context is used: the one that CUDA's runtime,
    /// PyTorch and most programs use. Unless set it is the context that is current in the calling thread, which must live
    /// longer than the loaded bundle; where there is none, device 0.
    pub device: Option<u32>,
    /// Whether the kernels become one CUDA graph, so that one call of the driver launches them all. Otherwise they are
    /// launched one by one, which a stream that is being captured needs. On unless set.
    pub graphs: bool,
}

impl Default for LoadOptions {
    fn default() -> Self {
        Self {
            device: None,
            graphs: true,
        }
    }
}

impl LoadOptions {
    /// On the device of this number.
    pub fn device(number: u32) -> Self {
        Self {
            device: Some(number),
            ..Self::default()
        }
    }

    /// With the kernels launched one by one.
    pub fn without_graphs(self) -> Self {
        Self {
            graphs: false,
            ..self
        }
    }
}

/// A stream of the caller: the order of work on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stream(driver::Stream);

impl Stream {
    /// The legacy default stream, which waits for other streams and they for it.
    pub const DEFAULT: Self = Self(driver::Stream::DEFAULT);

    /// A stream of the driver or of CUDA's runtime, by its handle (`CUstream`, `cudaStream_t`).
    ///
    /// # Safety
    /// The stream must be of the context that the bundle is loaded in, and live until the last call on it or, if later,
    /// [`release`](LoadedBundle::release) is over.
    pub unsafe fn from_raw(handle: *mut c_void) -> Self {
        Self(driver::Stream::of(handle.cast()))
    }
}

/// A bundle in this process, ready to be called.
///
/// A call puts the kernels on a stream and returns before they ran. It takes tensors in device memory and checks them:
/// element types, extents, alignment, and that nothing overlaps what is written.
///
/// The first call with some dims on a stream allocates what such calls need (the memory of scratch tensors, a CUDA graph);
/// later ones allocate nothing, take no lock, and tell the driver only which arguments have changed. Calls on one stream
/// share scratch memory, calls on several streams have their own.
///
/// Calls take `&mut self`: each thread that calls has a clone, which shares code and constants and nothing else. Dropping
/// waits for the work of the device.
pub struct LoadedBundle {
    lanes: Vec<Lane>,
    code: Arc<Code>,
}

// SAFETY: the driver's handles may be used from any thread whose current context is theirs, which every call sees to. The
// pointers in frames lead to what the frames own.
unsafe impl Send for LoadedBundle {}

impl Clone for LoadedBundle {
    fn clone(&self) -> Self {
        Self {
            lanes: Vec::new(),
            code: self.code.clone(),
        }
    }
}

impl fmt::Debug for LoadedBundle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadedBundle")
            .field("name", &self.manifest().name)
            .field("inputs", &self.inputs())
            .field("outputs", &self.outputs())
            .finish_non_exhaustive()
    }
}

impl LoadedBundle {
    /// Loads the bundle's kernels, compiles them first if they are text, and uploads its constants.
    ///
    /// # Errors
    /// [`NotFound`](akg_core::ErrorKind::NotFound) without a driver or the device;
    /// [`Unsupported`](akg_core::ErrorKind::Unsupported) if the device cannot run the bundle, naming what is missing.
    ///
    /// # Safety
    /// The bundle's kernels run in this process's context and reach all memory in it: load only what comes from where the
    /// program's own code may come from. The content hash finds damage, not malice.
    pub unsafe fn load(bundle: &Bundle, options: &LoadOptions) -> Result<Self> {
        let code = Code::load(bundle, options).context("bundle", || &bundle.manifest().name)?;
        Ok(Self {
            lanes: Vec::new(),
            code: Arc::new(code),
        })
    }

    /// What a call takes, in order.
    pub fn inputs(&self) -> &[Port] {
        &self.manifest().inputs
    }

    /// What a call writes, in order.
    pub fn outputs(&self) -> &[Port] {
        &self.manifest().outputs
    }

    /// The manifest.
    pub fn manifest(&self) -> &Manifest {
        self.code.signature().manifest()
    }

    /// Puts the computation of the outputs from the inputs on a stream, in the order of [`inputs`](Self::inputs) and
    /// [`outputs`](Self::outputs).
    ///
    /// # Errors
    /// [`InvalidInput`](akg_core::ErrorKind::InvalidInput) for tensors that are not those of the contract; nothing is put
    /// on the stream then. [`OutOfResources`](akg_core::ErrorKind::OutOfResources) without room for scratch memory. What
    /// the driver refuses, which may be because of what ran before.
    pub fn call(
        &mut self,
        stream: Stream,
        inputs: &[DeviceTensor<'_>],
        outputs: &[DeviceTensor<'_>],
    ) -> Result<()> {
        let signature = self.code.signature();
        signature.check_counts(inputs.len(), outputs.len())?;
        let _entered = self.code.enter()?;
        let lane = Lane::of(&mut self.lanes, stream.0);
        let frame = lane.frame(&self.code, |dim| dim_of(dim, inputs))?;
        signature.check_tensors(frame.shapes(), inputs, outputs)?;
        frame.put(signature.inputs(), inputs.iter().map(DeviceTensor::address));
        frame.put(signature.outputs(), outputs.iter().map(DeviceTensor::address));
        Ok(frame.enqueue(stream.0)?)
    }

    /// The same for callers that have checked everything themselves, such as compiled code: device addresses of dense
    /// row-major tensors, and the values of the plan's dims in order.
    ///
    /// # Errors
    /// If the counts are wrong, or a dim has a value that the contract excludes; and as for [`call`](Self::call).
    ///
    /// # Safety
    /// Every address must lead to device memory of the type, the extents and the alignment of its [`Port`], until the
    /// kernels ran, which nobody else writes in the meantime; outputs overlap nothing, but one that
    /// [updates](akg_core::source::PlanTensor::updates) an input in place may be the same memory, which saves its copy.
    pub unsafe fn call_raw(
        &mut self,
        stream: Stream,
        inputs: &[u64],
        outputs: &[u64],
        dims: &[i64],
    ) -> Result<()> {
        let signature = self.code.signature();
        signature.check_counts(inputs.len(), outputs.len())?;
        signature.check_dim_count(dims.len())?;
        let _entered = self.code.enter()?;
        let lane = Lane::of(&mut self.lanes, stream.0);
        let frame = lane.frame(&self.code, |dim| dims.get(dim.position).copied())?;
        frame.put(signature.inputs(), inputs.iter().copied());
        frame.put(signature.outputs(), outputs.iter().copied());
        Ok(frame.enqueue(stream.0)?)
    }

    /// Bytes of scratch memory that a call with these dims needs, beside the bundle's code and constants.
    ///
    /// # Errors
    /// As for [`call_raw`](Self::call_raw).
    pub fn scratch_bytes(&self, dims: &[i64]) -> Result<u64> {
        self.code.signature().check_dim_count(dims.len())?;
        let dims = self
            .code
            .signature()
            .dim_values(|dim| dims.get(dim.position).copied())?;
        Ok(Need::new(&self.code, &dims)?.bytes)
    }

    /// Allocates what calls with these dims on a stream need, so that the first of them is as fast as the next.
    ///
    /// # Errors
    /// As for [`call_raw`](Self::call_raw).
    pub fn prepare(&mut self, stream: Stream, dims: &[i64]) -> Result<()> {
        self.code.signature().check_dim_count(dims.len())?;
        let _entered = self.code.enter()?;
        let lane = Lane::of(&mut self.lanes, stream.0);
        lane.frame(&self.code, |dim| dims.get(dim.position).copied())?;
        Ok(())
    }

    /// Uses `bytes` of the caller's memory at `address` for scratch tensors of calls on a stream from now on. A call that
    /// needs more than that is [`OutOfResources`](akg_core::ErrorKind::OutOfResources);
    /// [`scratch_bytes`](Self::scratch_bytes) says what it needs. Waits for the stream.
    ///
    /// # Errors
    /// If the memory does not begin at a multiple of 256, and what the driver refuses.
    ///
    /// # Safety
    /// The memory must live until [`release`](Self::release), and nobody else may write it while calls are on the stream.
    pub unsafe fn lend_scratch(&mut self, stream: Stream, address: u64, bytes: u64) -> Result<()> {
        let _entered = self.code.enter()?;
        Lane::of(&mut self.lanes, stream.0).lend(address, bytes)
    }

    /// Waits for a stream and frees what is kept for calls on it, as before the stream is destroyed.
    ///
    /// # Errors
    /// What the driver refuses.
    pub fn release(&mut self, stream: Stream) -> Result<()> {
        let _entered = self.code.enter()?;
        if let Some(at) = self.lanes.iter().position(|lane| lane.is_of(stream.0)) {
            stream.0.wait()?;
            self.lanes.swap_remove(at);
        }
        Ok(())
    }
}

impl Drop for LoadedBundle {
    fn drop(&mut self) {
        // Without the context there is nothing left to free.
        if let Ok(_entered) = self.code.enter() {
            let _ = self.code.wait();
            self.lanes.clear();
        }
    }
}
