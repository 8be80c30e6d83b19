//! Backends that also execute Python modules.

use std::sync::{Arc, Mutex, PoisonError};

use akg_core::backend::{BackendCapability, Limits, Loaded, TensorBuffer};
use akg_core::error::Result;
use akg_core::reference::Products;
use akg_core::source::{Artifact, ModuleInterface};
use akg_core::target::Target;
use akg_core::timing::Witness;
use akg_core::turns::Turns;
use akg_core::verdict::Failure;
use akg_core::{Backend, DType};
use akg_worker::seat;
use async_trait::async_trait;
use blocking::unblock;

use crate::baseline::HOST;
use crate::candidate::ModuleExecutor;
use crate::environment::{Config, Environment};

/// A backend with everything that another one has, which also executes Python modules with host code of their own
/// ([`SourceForm::Module`](akg_core::source::SourceForm::Module)) on its device: in worker processes that run PyTorch, each
/// module in one of its own.
///
/// The module is called under `torch.no_grad()` on tensors of the device, and on nothing that a call before has changed. On
/// the processor, kernels in Triton are executed by Triton's interpreter.
#[derive(Debug, Clone)]
pub struct ModuleBackend {
    inner: Arc<dyn Backend>,
    config: Config,
    capability: BackendCapability,
    /// Where modules run, once one does.
    environment: Arc<Mutex<Option<Environment>>>,
}

impl ModuleBackend {
    /// Lets a backend execute modules, in the Python environment that the configuration finds. Looks for it when there is
    /// one to load.
    ///
    /// PyTorch must know the device by the backend's name, as it does `cpu` and `cuda`.
    pub fn new(inner: Arc<dyn Backend>, config: &Config) -> Self {
        let mut capability = inner.capability().clone();
        capability.formats.push(ModuleInterface::FORMAT.to_owned());
        Self {
            inner,
            config: config.clone(),
            capability,
            environment: Arc::default(),
        }
    }

    fn environment(&self) -> Result<Environment> {
        let mut known = self.environment.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(environment) = &*known {
            return Ok(environment.clone());
        }
        let found = Environment::find(&self.config)?;
        Ok(known.insert(found).clone())
    }

    /// PyTorch's name for the device.
    fn device(&self) -> String {
        match self.inner.name() {
            HOST => HOST.to_owned(),
            name => format!("{name}:{}", self.inner.position()),
        }
    }
}

#[async_trait]
impl Backend for ModuleBackend {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn capability(&self) -> &BackendCapability {
        &self.capability
    }

    async fn devices(&self) -> Result<Vec<Target>> {
        self.inner.devices().await
    }

    fn position(&self) -> usize {
        self.inner.position()
    }

    fn at(&self, position: usize) -> Option<Arc<dyn Backend>> {
        let inner = self.inner.at(position)?;
        Some(Arc::new(Self {
            inner,
            ..self.clone()
        }))
    }

    fn turns(&self) -> Turns {
        self.inner.turns()
    }

    fn witness(&self) -> Box<dyn Witness> {
        self.inner.witness()
    }

    fn products(&self) -> Option<Arc<dyn Products>> {
        self.inner.products()
    }

    fn allocate(&self, dtype: DType, shape: &[usize]) -> Result<Box<dyn TensorBuffer>> {
        self.inner.allocate(dtype, shape)
    }

    async fn load(&self, artifact: Artifact, limits: Limits) -> Result<Result<Box<dyn Loaded>, Failure>> {
        if artifact.format != ModuleInterface::FORMAT {
            return self.inner.load(artifact, limits).await;
        }
        let this = self.clone();
        let environment = unblock(move || this.environment()).await?;
        let device = self.device();
        let make = move || ModuleExecutor::load(environment, &device, &artifact, limits);
        seat::load(&self.inner.turns(), make).await
    }
}
