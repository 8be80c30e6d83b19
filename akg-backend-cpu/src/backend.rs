//! The backend: each request on a thread that may wait, in a worker process of its own.

use std::sync::{Arc, PoisonError, RwLock};

use akg_core::backend::{BackendCapability, RunOutput, RunRequest, TensorBuffer, Timing, TimingPolicy};
use akg_core::error::Result;
use akg_core::target::Target;
use akg_core::verdict::Failure;
use akg_core::{Backend, DType};
use akg_worker::{client, shm};
use async_trait::async_trait;
use blocking::unblock;

use crate::{CpuBuilder, CpuConfig};

/// This machine's processor. Cloning shares it.
#[derive(Debug, Clone)]
pub struct CpuBackend {
    config: Arc<CpuConfig>,
    capability: BackendCapability,
    /// Held for reading by runs and for writing by timings, which want the machine for themselves.
    machine: Arc<RwLock<()>>,
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
        capability.isolated = true;
        Self {
            config: Arc::new(config),
            capability,
            machine: Arc::default(),
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

    async fn devices(&self) -> Result<Vec<Target>> {
        let backend = self.clone();
        unblock(move || {
            // The first description measures.
            let _alone = backend.machine.write().unwrap_or_else(PoisonError::into_inner);
            Ok(vec![client::describe(backend.config.worker.as_deref())?])
        })
        .await
    }

    fn allocate(&self, dtype: DType, shape: &[usize]) -> Result<Box<dyn TensorBuffer>> {
        Ok(Box::new(shm::allocate(dtype, shape)?))
    }

    async fn run(&self, request: RunRequest) -> Result<Result<RunOutput, Failure>> {
        let backend = self.clone();
        unblock(move || {
            let _shared = backend.machine.read().unwrap_or_else(PoisonError::into_inner);
            client::run(backend.config.worker.as_deref(), &request)
        })
        .await
    }

    async fn time(&self, request: RunRequest, policy: TimingPolicy) -> Result<Result<Timing, Failure>> {
        let backend = self.clone();
        unblock(move || {
            let _alone = backend.machine.write().unwrap_or_else(PoisonError::into_inner);
            client::time(backend.config.worker.as_deref(), &request, &policy)
        })
        .await
    }
}
