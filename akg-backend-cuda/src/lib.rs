#![doc = include_str!("../README.md")]

mod backend;
mod bundle;
mod client;
mod compile;
mod config;
mod counters;
mod describe;
mod driver;
mod engine;
mod helpers;
mod kept;
mod lanes;
mod launch;
mod layout;
mod products;
mod program;
mod protocol;
mod replay;
mod sanitizer;
mod serve;
mod spare;
mod step;
mod watch;

use akg_core::Registry;

pub use backend::CudaBackend;
pub use bundle::{DeviceTensor, LoadOptions, LoadedBundle, Stream};
pub use client::{CUBIN, CUDA_CPP, absence};
pub use config::{CudaBuilder, CudaConfig};
pub use serve::SERVICE;

/// Adds [`CudaBackend`] with the default configuration.
pub fn register(registry: &mut Registry) {
    registry.add_backend(CudaBackend::builder().build());
}
