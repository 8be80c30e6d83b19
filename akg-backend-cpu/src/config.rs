//! Configuration of the backend.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::CpuBackend;

/// How the backend is set up.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct CpuConfig {
    /// The worker program. Without it the worker is searched for: see [`akg_worker::find`].
    pub worker: Option<PathBuf>,
}

/// Builds a [`CpuBackend`].
#[derive(Debug, Clone, Default)]
pub struct CpuBuilder {
    config: CpuConfig,
}

impl CpuBuilder {
    /// Replaces the whole configuration.
    pub fn config(mut self, config: CpuConfig) -> Self {
        self.config = config;
        self
    }

    /// Sets the worker program.
    pub fn worker(mut self, path: impl Into<PathBuf>) -> Self {
        self.config.worker = Some(path.into());
        self
    }

    /// The backend. Starts nothing yet.
    pub fn build(self) -> CpuBackend {
        CpuBackend::new(self.config)
    }
}
