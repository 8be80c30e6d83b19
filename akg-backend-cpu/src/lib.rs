#![doc = include_str!("../README.md")]

mod backend;
mod bundle;
mod config;

use akg_core::Registry;

pub use backend::CpuBackend;
pub use bundle::{LoadOptions, LoadedBundle, modelnew};
pub use config::{CpuBuilder, CpuConfig};

/// Adds [`CpuBackend`] with the default configuration.
pub fn register(registry: &mut Registry) {
    registry.add_backend(CpuBackend::builder().build());
}
