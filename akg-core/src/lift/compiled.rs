//! Originals that a toolchain compiles.

use std::sync::Arc;

use async_trait::async_trait;

use super::Original;
use crate::backend::{Backend, BackendExt as _, Limits, Poison, RunRequest};
use crate::dsl::Dsl;
use crate::error::{Error, Result};
use crate::expr::Bindings;
use crate::source::{Artifact, Source};
use crate::target::Target;
use crate::tensor::Tensor;
use crate::verdict::Failure;

/// An original that was compiled, and is executed in a worker of a backend.
#[derive(Debug)]
pub struct CompiledOriginal {
    artifact: Artifact,
    backend: Arc<dyn Backend>,
    limits: Limits,
}

impl CompiledOriginal {
    /// Builds a source that makes an interface's [calls](super::Interface::plan).
    ///
    /// # Errors
    /// If the toolchain is missing, or rejects the text.
    pub fn build(
        source: &Source,
        dsl: &dyn Dsl,
        backend: Arc<dyn Backend>,
        target: &Target,
        limits: Limits,
    ) -> Result<Self> {
        let artifact = dsl.build(source, target)?.map_err(|failure| {
            Error::invalid(format!(
                "the original does not compile; its text and the calls of its interface must fit\n{}",
                failure.evidence
            ))
        })?;
        Ok(Self {
            artifact,
            backend,
            // It is asked what it computes and not how fast.
            limits: Limits {
                may_keep_state: true,
                ..limits
            },
        })
    }
}

#[async_trait]
impl Original for CompiledOriginal {
    async fn run(&self, inputs: &[Tensor], dims: &Bindings) -> Result<Result<Vec<Tensor>, Failure>> {
        let ran = self.backend.run(RunRequest {
            artifact: self.artifact.clone(),
            inputs: inputs.to_vec(),
            dims: dims.clone(),
            poison: Poison::Ones,
            limits: self.limits.clone(),
        });
        Ok(ran.await?.map(|output| output.outputs))
    }
}
