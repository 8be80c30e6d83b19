//! The backend: each request on a thread that may wait, each artifact in a worker process of its own.

use std::sync::{Arc, OnceLock};

use akg_core::backend::{BackendCapability, Limits, Loaded, Sanitizer, TensorBuffer};
use akg_core::error::Result;
use akg_core::reference::Products;
use akg_core::source::Artifact;
use akg_core::target::Target;
use akg_core::timing::Witness;
use akg_core::turns::Turns;
use akg_core::verdict::Failure;
use akg_core::{Backend, DType};
use akg_worker::{seat, shm};
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
    /// What is known of the devices once somebody asked.
    devices: Arc<OnceLock<Vec<Target>>>,
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
        capability.own_processors = true;
        let (config, turns) = (Arc::new(config), Turns::default());
        Self {
            spares: Arc::new(Spares::new(config.clone(), turns.clone())),
            products: Arc::new(DeviceProducts::new(config.device, turns.clone())),
            management: Arc::new(Management::new(config.device)),
            config,
            devices: Arc::default(),
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
        if let Some(devices) = self.devices.get() {
            return Ok(devices.clone());
        }
        let config = self.config.clone();
        let devices = unblock(move || client::describe(config.worker.as_deref())).await?;
        Ok(match devices {
            Ok(devices) => self.devices.get_or_init(|| devices).clone(),
            Err(_) => Vec::new(),
        })
    }

    fn position(&self) -> usize {
        self.config.device as usize
    }

    fn at(&self, position: usize) -> Option<Arc<dyn Backend>> {
        let config = CudaConfig {
            device: u32::try_from(position).ok()?,
            ..CudaConfig::clone(&self.config)
        };
        Some(Arc::new(Self::new(config)))
    }

    fn turns(&self) -> Turns {
        self.turns.clone()
    }

    fn witness(&self) -> Box<dyn Witness> {
        Box::new(Watch::new(self.management.clone()))
    }

    fn products(&self) -> Option<Arc<dyn Products>> {
        Some(self.products.clone())
    }

    fn allocate(&self, dtype: DType, shape: &[usize]) -> Result<Box<dyn TensorBuffer>> {
        shm::allocate_own(dtype, shape)
    }

    async fn load(&self, artifact: Artifact, limits: Limits) -> Result<Result<Box<dyn Loaded>, Failure>> {
        client::check(&artifact, &limits)?;
        let (config, spares) = (self.config.clone(), self.spares.clone());
        let process = unblock(move || spares.take()).await?;
        let make = move || Executor::load(config, process, artifact, limits);
        seat::load(&self.turns, make).await
    }
}
