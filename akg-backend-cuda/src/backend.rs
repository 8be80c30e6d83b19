//! The backend: each request on a thread that may wait, each artifact in a worker process of its own.

use std::sync::Arc;

use akg_core::backend::{BackendCapability, Limits, Loaded, Sanitizer, TensorBuffer};
use akg_core::error::Result;
use akg_core::reference::Products;
use akg_core::source::Artifact;
use akg_core::target::Target;
use akg_core::timing::Witness;
use akg_core::verdict::Failure;
use akg_core::{Backend, DType};
use akg_worker::seat::Turns;
use akg_worker::shm;
use async_trait::async_trait;
use blocking::unblock;

use crate::client::{self, CUBIN, CUDA_CPP, Executor};
use crate::products::DeviceProducts;
use crate::spare::Spares;
use crate::watch::{Management, Watch};
use crate::{CudaBuilder, CudaConfig};

/// NVIDIA GPUs. Cloning shares them.
#[derive(Debug, Clone)]
pub struct CudaBackend {
    config: Arc<CudaConfig>,
    capability: BackendCapability,
    turns: Turns,
    spares: Arc<Spares>,
    products: Arc<DeviceProducts>,
    management: Arc<Management>,
}

impl CudaBackend {
    /// The backend's name.
    pub const NAME: &'static str = "cuda";

    /// A builder with the default configuration.
    pub fn builder() -> CudaBuilder {
        CudaBuilder::default()
    }

    pub(crate) fn new(config: CudaConfig) -> Self {
        let mut capability = BackendCapability::default();
        capability.formats = [CUBIN, CUDA_CPP].map(str::to_owned).to_vec();
        capability.times = true;
        capability.observes = true;
        capability.sanitizers = Sanitizer::ALL.to_vec();
        let (config, turns) = (Arc::new(config), Turns::default());
        Self {
            spares: Arc::new(Spares::new(config.clone(), turns.clone())),
            products: Arc::new(DeviceProducts::new(config.device, turns.clone())),
            management: Arc::new(Management::new(config.device)),
            config,
            capability,
            turns,
        }
    }
}

#[async_trait]
impl Backend for CudaBackend {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn capability(&self) -> &BackendCapability {
        &self.capability
    }

    async fn devices(&self) -> Result<Vec<Target>> {
        let config = self.config.clone();
        unblock(move || Ok(client::describe(config.worker.as_deref())?.unwrap_or_default())).await
    }

    fn witness(&self) -> Box<dyn Witness> {
        Box::new(Watch::new(self.management.clone()))
    }

    fn products(&self) -> Option<Arc<dyn Products>> {
        Some(self.products.clone())
    }

    fn allocate(&self, dtype: DType, shape: &[usize]) -> Result<Box<dyn TensorBuffer>> {
        Ok(Box::new(shm::allocate(dtype, shape)?))
    }

    async fn load(&self, artifact: Artifact, limits: Limits) -> Result<Result<Box<dyn Loaded>, Failure>> {
        client::check(&artifact, &limits)?;
        let (config, spares) = (self.config.clone(), self.spares.clone());
        let process = unblock(move || spares.take()).await?;
        self.turns
            .load(move || Executor::load(config, process, artifact, limits))
            .await
    }
}
