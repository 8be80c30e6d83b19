//! The trait of judges.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use crate::backend::Backend;
use crate::digest::Digest;
use crate::error::Result;
use crate::source::{Artifact, Source};
use crate::target::Target;
use crate::task::Task;
use crate::verdict::Verdict;

/// A source and what its toolchain made of it.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// The text.
    pub source: Source,
    /// What will be judged.
    pub artifact: Artifact,
}

/// Decides whether a candidate computes a task. Verifiers compose: the first failure is the verdict.
#[async_trait]
pub trait Verifier: Send + Sync + fmt::Debug {
    /// The name in logs and results.
    fn name(&self) -> &str;

    /// What verdicts depend on beside the candidate, the task and the [version](crate::verdict::JUDGE_VERSION) of akg's judge:
    /// the verdict of a verifier of the same identity is not asked for again. The fingerprint of the verifier's name and
    /// every setting of it.
    fn identity(&self) -> Digest;

    /// Begins what takes long of what candidates of this task will be judged with, while the first of them is built; the task
    /// with that, to judge them by. Without it they are judged the same, only later.
    fn prepare(&self, task: &Task) -> Result<Task> {
        Ok(task.clone())
    }

    /// Judges. A candidate that fails is a [`Verdict`]; an error is the judge's own trouble.
    async fn verify(
        &self,
        candidate: &Candidate,
        task: &Task,
        target: &Target,
        backend: &dyn Backend,
    ) -> Result<Verdict>;
}

macro_rules! forward {
    ($($pointer:ident),*) => {$(
        #[async_trait]
        impl<V: Verifier + ?Sized> Verifier for $pointer<V> {
            fn name(&self) -> &str {
                (**self).name()
            }

            fn identity(&self) -> Digest {
                (**self).identity()
            }

            fn prepare(&self, task: &Task) -> Result<Task> {
                (**self).prepare(task)
            }

            async fn verify(
                &self,
                candidate: &Candidate,
                task: &Task,
                target: &Target,
                backend: &dyn Backend,
            ) -> Result<Verdict> {
                (**self).verify(candidate, task, target, backend).await
            }
        }
    )*};
}
forward!(Arc, Box);
