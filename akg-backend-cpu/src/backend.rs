//! The backend: each request on a thread that may wait, each artifact in a worker process of its own.

use std::sync::Arc;

use akg_core::backend::{BackendCapability, Limits, Loaded, TensorBuffer};
use akg_core::error::Result;
use akg_core::source::Artifact;
use akg_core::target::Target;
use akg_core::turns::Turns;
use akg_core::verdict::Failure;
use akg_core::{Backend, DType};
use akg_worker::client::{self, Executor};
use akg_worker::{seat, shm};
use async_trait::async_trait;
use blocking::unblock;

use crate::{CpuBuilder, CpuConfig};

/// This machine's processor. Cloning shares it.
#[derive(Debug, Clone)]
pub struct CpuBackend {
    config: Arc<CpuConfig>,
    capability: BackendCapability,
    turns: Turns,
}

impl CpuBackend {
    /// The backend's name.
    pub const NAME: &'static str = "cpu";

    /// A builder with the default configuration.
    pub fn builder() -> CpuBuilder {
        CpuBuilder::default()
    }

    pub(crate) fn new(config: CpuConfig) -> Self {
        let mut capability = BackendCapability::default();
        capability.formats = vec![client::FORMAT.to_owned()];
        capability.times = true;
        Self {
            config: Arc::new(config),
            capability,
            turns: Turns::default(),
        }
    }
}

#[async_trait]
impl Backend for CpuBackend {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn capability(&self) -> &BackendCapability {
        &self.capability
    }

    fn turns(&self) -> Turns {
        self.turns.clone()
    }

    async fn devices(&self) -> Result<Vec<Target>> {
        let backend = self.clone();
        unblock(move || {
            // The first description measures.
            let describe = || client::describe(backend.config.worker.as_deref());
            Ok(vec![backend.turns.alone(describe)?])
        })
        .await
    }

    fn allocate(&self, dtype: DType, shape: &[usize]) -> Result<Box<dyn TensorBuffer>> {
        shm::allocate_own(dtype, shape)
    }

    async fn load(&self, artifact: Artifact, limits: Limits) -> Result<Result<Box<dyn Loaded>, Failure>> {
        let config = self.config.clone();
        let make = move || Executor::load(config.worker.as_deref(), artifact, limits);
        seat::load(&self.turns, make).await
    }
}
