//! Configuration of the backend.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::CudaBackend;

/// How the backend is set up.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct CudaConfig {
    /// The worker program, which must have [`SERVICE`](crate::SERVICE). Without it the worker is searched for: see
    /// [`akg_worker::find`].
    pub worker: Option<PathBuf>,
    /// The number of the device, in the driver's order, that artifacts run on.
    pub device: u32,
    /// Nsight Compute's program, by path or name. Without it, `ncu` is searched for on `PATH` and where it is installed
    /// usually; without any, profiles have no counters.
    pub profiler: Option<PathBuf>,
    /// Compute Sanitizer's program, by path or name. Without it, `compute-sanitizer` is searched for in the same way; it is
    /// needed only by who asks for [`sanitize`](akg_core::backend::Loaded::sanitize).
    pub sanitizer: Option<PathBuf>,
}

/// Builds a [`CudaBackend`].
#[derive(Debug, Clone, Default)]
pub struct CudaBuilder {
    config: CudaConfig,
}

impl CudaBuilder {
    /// Replaces the whole configuration.
    pub fn config(mut self, config: CudaConfig) -> Self {
        self.config = config;
        self
    }

    /// Sets the worker program.
    pub fn worker(mut self, path: impl Into<PathBuf>) -> Self {
        self.config.worker = Some(path.into());
        self
    }

    /// Sets the number of the device.
    pub fn device(mut self, number: u32) -> Self {
        self.config.device = number;
        self
    }

    /// Sets Nsight Compute's program.
    pub fn profiler(mut self, path: impl Into<PathBuf>) -> Self {
        self.config.profiler = Some(path.into());
        self
    }

    /// Sets Compute Sanitizer's program.
    pub fn sanitizer(mut self, path: impl Into<PathBuf>) -> Self {
        self.config.sanitizer = Some(path.into());
        self
    }

    /// The backend. Starts nothing yet.
    pub fn build(self) -> CudaBackend {
        CudaBackend::new(self.config)
    }
}
