//! The kernel of the rules, which candidates are timed beside.

use std::sync::Arc;

use async_trait::async_trait;

use crate::backend::{Backend, Limits};
use crate::digest::Digest;
use crate::error::Result;
use crate::session::Rivals;
use crate::source::Artifact;
use crate::target::Target;
use crate::task::Task;
use crate::timing::{Check, LoadedSide, Side, SlotData};

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
        data: Arc<dyn SlotData>,
        check: Check,
    ) -> Result<Vec<Box<dyn Side>>> {
        let side = LoadedSide::new(
            "the rules",
            Arc::clone(&self.backend),
            self.artifact.clone(),
            Limits::default().for_task(task, target)?,
            data,
            check,
        );
        Ok(vec![Box::new(side)])
    }

    fn identity(&self) -> String {
        format!("the kernel of the rules, {}", Digest::of(&self.artifact.bytes))
    }
}
