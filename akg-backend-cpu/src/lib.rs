#![doc = include_str!("../README.md")]

mod backend;
mod config;

pub use backend::CpuBackend;
pub use config::{CpuBuilder, CpuConfig};

/// Adds the backend in its default configuration.
pub fn register(registry: &mut akg_core::Registry) {
    registry.add_backend(CpuBackend::builder().build());
}
