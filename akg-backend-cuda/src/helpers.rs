//! The judge's own kernels: emptying the caches, and digests of memory.

use std::ffi::c_void;
use std::hash::{BuildHasher as _, RandomState};

use crate::driver::{Attribute, Device, Kernel, Memory, Module, Result, Shape, Stream, download};

/// Compiled by the driver for the device at hand; see `helpers.cu`.
const CODE: &str = concat!(include_str!("helpers.ptx"), "\0");

const THREADS: u32 = 256;

/// The caches are filled with this many times their size.
const FLUSH_FACTOR: u64 = 2;

/// A range of device memory: its address and bytes.
pub(crate) type Range = (u64, u64);

/// The kernels.
#[derive(Debug)]
pub(crate) struct Helpers {
    flush: Kernel,
    digest: Kernel,
    _module: Module,
    /// So that kernels cannot make other bytes of the same digest.
    seed: u64,
    /// Blocks that fill the device.
    most_blocks: u32,
    flushed_bytes: u64,
    /// What is written to empty the caches; none until that is first asked for.
    flushed: Option<Memory>,
}

impl Helpers {
    pub(crate) fn load(device: Device) -> Result<Self> {
        let module = Module::load(CODE.as_bytes())?;
        let cores = device.attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
        let cache = device.attribute(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?;
        Ok(Self {
            flush: module.kernel("akg_flush_l2")?,
            digest: module.kernel("akg_digest")?,
            _module: module,
            seed: RandomState::new().hash_one(std::process::id()),
            most_blocks: cores as u32 * 8,
            flushed_bytes: FLUSH_FACTOR * cache.next_multiple_of(16),
            flushed: None,
        })
    }

    /// Gets the memory that [`flush`](Self::flush) writes.
    pub(crate) fn prepare_flush(&mut self) -> Result<()> {
        if self.flushed.is_none() {
            self.flushed = Some(Memory::new(self.flushed_bytes)?);
        }
        Ok(())
    }

    /// Pushes everything out of the caches, if that was prepared.
    pub(crate) fn flush(&self, stream: Stream, value: u32) -> Result<()> {
        let Some(memory) = &self.flushed else {
            return Ok(());
        };
        let words = memory.bytes() / 16;
        self.launch(
            stream,
            self.flush,
            words,
            &mut [
                &mut memory.address().clone(),
                &mut words.clone(),
                &mut u64::from(value),
            ],
        )
    }

    /// A digest of each range. Waits for everything before on the stream.
    pub(crate) fn digests(&self, stream: Stream, ranges: &[Range]) -> Result<Vec<u64>> {
        let sums = Memory::new(8 * ranges.len() as u64)?;
        stream.fill(sums.address(), 0, sums.bytes())?;
        for (at, (address, bytes)) in ranges.iter().enumerate() {
            let sum = sums.address() + 8 * at as u64;
            let mut arguments = [*address, *bytes, self.seed, sum];
            let [address, bytes, seed, sum] = &mut arguments;
            let threads = *bytes;
            self.launch(stream, self.digest, threads, &mut [address, bytes, seed, sum])?;
        }
        let mut bytes = vec![0; 8 * ranges.len()];
        download(&mut bytes, sums.address())?;
        let (sums, _) = bytes.as_chunks::<8>();
        Ok(sums.iter().copied().map(u64::from_ne_bytes).collect())
    }

    /// Launches with a thread for each of `items`, or as many as fill the device. All arguments have 8 bytes, of which
    /// kernels may read fewer.
    fn launch(&self, stream: Stream, kernel: Kernel, items: u64, arguments: &mut [&mut u64]) -> Result<()> {
        let blocks = items
            .div_ceil(u64::from(THREADS))
            .clamp(1, u64::from(self.most_blocks));
        let shape = Shape {
            blocks: blocks as u32,
            threads: THREADS,
            cluster: 1,
            shared_bytes: 0,
            cooperative: false,
        };
        let mut pointers: Vec<*mut c_void> = arguments
            .iter_mut()
            .map(|argument| (&raw mut **argument).cast())
            .collect();
        stream.launch(&kernel, &shape, &mut pointers)
    }
}
