#![doc = include_str!("../README.md")]

mod backend;
mod config;

pub use backend::CpuBackend;
pub use config::{CpuBuilder, CpuConfig};
