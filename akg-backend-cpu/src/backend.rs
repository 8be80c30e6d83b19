//! The backend: each request on a thread that may wait, each artifact in a worker process of its own.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use akg_core::backend::{BackendCapability, Cache, Call, Limits, Loaded, RunOutput, TensorBuffer};
use akg_core::error::Result;
use akg_core::isolation::Isolation;
use akg_core::source::Artifact;
use akg_core::target::Target;
use akg_core::verdict::Failure;
use akg_core::{Backend, DType, Error};
use akg_worker::client::{self, Executor};
use akg_worker::shm;
use async_trait::async_trait;
use blocking::unblock;

use crate::{CpuBuilder, CpuConfig};

/// This machine's processor. Cloning shares it.
#[derive(Debug, Clone)]
pub struct CpuBackend {
    config: Arc<CpuConfig>,
    capability: BackendCapability,
    /// Held for writing by executions, which are timed and want the machine for themselves, and for reading by what goes
    /// on before and after them.
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

    async fn load(&self, artifact: Artifact, limits: Limits) -> Result<Result<Box<dyn Loaded>, Failure>> {
        let backend = self.clone();
        let executor = unblock(move || {
            let _shared = backend.machine.read().unwrap_or_else(PoisonError::into_inner);
            Executor::load(backend.config.worker.as_deref(), artifact, limits)
        });
        Ok(executor.await?.map(|executor| {
            Box::new(CpuLoaded {
                isolation: executor.isolation().clone(),
                executor: Some(executor),
                machine: self.machine.clone(),
            }) as Box<dyn Loaded>
        }))
    }
}

/// An artifact in its worker.
#[derive(Debug)]
struct CpuLoaded {
    /// Away while a thread works with it; lost if nobody waited for that thread.
    executor: Option<Executor>,
    isolation: Isolation,
    machine: Arc<RwLock<()>>,
}

impl CpuLoaded {
    /// Works with the executor on a thread that may wait.
    async fn with<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut Executor, &RwLock<()>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let mut executor = self.executor.take().ok_or_else(|| {
            Error::invalid("an earlier request was given up before its end; load the artifact again")
        })?;
        let machine = self.machine.clone();
        let (executor, outcome) = unblock(move || {
            let outcome = work(&mut executor, &machine);
            (executor, outcome)
        })
        .await;
        self.executor = Some(executor);
        outcome
    }
}

#[async_trait]
impl Loaded for CpuLoaded {
    fn isolation(&self) -> &Isolation {
        &self.isolation
    }

    async fn bind(&mut self, call: Call) -> Result<Result<(), Failure>> {
        self.with(|executor, machine| {
            let _shared = machine.read().unwrap_or_else(PoisonError::into_inner);
            executor.bind(call)
        })
        .await
    }

    async fn execute(&mut self, calls: u32, cache: Cache) -> Result<Result<Duration, Failure>> {
        self.with(move |executor, machine| {
            let _alone = machine.write().unwrap_or_else(PoisonError::into_inner);
            executor.execute(calls, cache)
        })
        .await
    }

    async fn take(&mut self) -> Result<Result<RunOutput, Failure>> {
        self.with(|executor, machine| {
            let _shared = machine.read().unwrap_or_else(PoisonError::into_inner);
            executor.take()
        })
        .await
    }
}
