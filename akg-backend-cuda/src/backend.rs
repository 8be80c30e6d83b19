//! The backend: each request on a thread that may wait, each artifact in a worker process of its own.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use akg_core::backend::{BackendCapability, Cache, Call, Limits, Loaded, RunOutput, TensorBuffer};
use akg_core::error::Result;
use akg_core::isolation::Isolation;
use akg_core::source::Artifact;
use akg_core::target::Target;
use akg_core::timing::{Clock, Witness};
use akg_core::verdict::Failure;
use akg_core::{Backend, DType, Error};
use akg_worker::shm;
use async_trait::async_trait;
use blocking::unblock;

use crate::client::{self, CUBIN, CUDA_CPP, Executor};
use crate::{CudaBuilder, CudaConfig};

/// NVIDIA GPUs. Cloning shares them.
#[derive(Debug, Clone)]
pub struct CudaBackend {
    config: Arc<CudaConfig>,
    capability: BackendCapability,
    /// Held for writing by executions, which are timed and want the device for themselves, and for reading by what goes
    /// on before and after them.
    device: Arc<RwLock<()>>,
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
        Self {
            config: Arc::new(config),
            capability,
            device: Arc::default(),
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
        Box::new(Clock)
    }

    fn allocate(&self, dtype: DType, shape: &[usize]) -> Result<Box<dyn TensorBuffer>> {
        Ok(Box::new(shm::allocate(dtype, shape)?))
    }

    async fn load(&self, artifact: Artifact, limits: Limits) -> Result<Result<Box<dyn Loaded>, Failure>> {
        let backend = self.clone();
        let executor = unblock(move || {
            let _shared = backend.device.read().unwrap_or_else(PoisonError::into_inner);
            let config = &backend.config;
            Executor::load(config.worker.as_deref(), config.device, artifact, limits)
        });
        Ok(executor.await?.map(|executor| {
            Box::new(CudaLoaded {
                isolation: executor.isolation().clone(),
                executor: Some(executor),
                device: self.device.clone(),
            }) as Box<dyn Loaded>
        }))
    }
}

/// An artifact in its worker.
#[derive(Debug)]
struct CudaLoaded {
    /// Away while a thread works with it; lost if nobody waited for that thread.
    executor: Option<Executor>,
    isolation: Isolation,
    device: Arc<RwLock<()>>,
}

impl CudaLoaded {
    /// Works with the executor on a thread that may wait.
    async fn with<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut Executor, &RwLock<()>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let mut executor = self.executor.take().ok_or_else(|| {
            Error::invalid("an earlier request was given up before its end; load the artifact again")
        })?;
        let device = self.device.clone();
        let (executor, outcome) = unblock(move || {
            let outcome = work(&mut executor, &device);
            (executor, outcome)
        })
        .await;
        self.executor = Some(executor);
        outcome
    }
}

#[async_trait]
impl Loaded for CudaLoaded {
    fn isolation(&self) -> &Isolation {
        &self.isolation
    }

    async fn bind(&mut self, call: Call) -> Result<Result<(), Failure>> {
        self.with(|executor, device| {
            let _shared = device.read().unwrap_or_else(PoisonError::into_inner);
            executor.bind(call)
        })
        .await
    }

    async fn execute(&mut self, calls: u32, cache: Cache) -> Result<Result<Duration, Failure>> {
        self.with(move |executor, device| {
            let _alone = device.write().unwrap_or_else(PoisonError::into_inner);
            executor.execute(calls, cache)
        })
        .await
    }

    async fn take(&mut self) -> Result<Result<RunOutput, Failure>> {
        self.with(|executor, device| {
            let _shared = device.read().unwrap_or_else(PoisonError::into_inner);
            executor.take()
        })
        .await
    }
}
