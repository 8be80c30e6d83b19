//! The kernel of the rules, which candidates are timed beside.

use std::sync::Arc;

use async_trait::async_trait;

use crate::backend::{Backend, Call, Limits, Poison};
use crate::digest::Digest;
use crate::error::Result;
use crate::session::Rivals;
use crate::source::Artifact;
use crate::target::Target;
use crate::task::Task;
use crate::tensor::Tensor;
use crate::timing::{Check, LoadedSide, Side};

/// Takes part in the contests of a learner's candidates.
#[derive(Debug)]
pub(super) struct RulesKernel {
    artifact: Artifact,
    backend: Arc<dyn Backend>,
}

impl RulesKernel {
    pub(super) fn new(artifact: Artifact, backend: Arc<dyn Backend>) -> Self {
        Self { artifact, backend }
    }
}

#[async_trait]
impl Rivals for RulesKernel {
    async fn enter(
        &self,
        task: &Task,
        target: &Target,
        sets: &[Vec<Tensor>],
        check: Check,
        seed: u64,
    ) -> Result<Vec<Box<dyn Side>>> {
        let calls = sets.iter().zip(0..).map(|(inputs, placement)| Call {
            inputs: inputs.clone(),
            dims: task.contract.hints.clone(),
            poison: Poison::Ones,
            placement,
        });
        let side = LoadedSide::new(
            "the rules",
            Arc::clone(&self.backend),
            self.artifact.clone(),
            Limits::default().for_task(task, target)?,
            calls.collect(),
            check,
            seed,
        );
        Ok(vec![Box::new(side)])
    }

    fn identity(&self) -> String {
        format!("the kernel of the rules, {}", Digest::of(&self.artifact.bytes))
    }
}
