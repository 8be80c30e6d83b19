//! Verifiers together.

use std::sync::Arc;

use async_trait::async_trait;

use super::misfit::misfit;
use super::{AdversarialVerifier, NumericVerifier, PartVerifier, captured};
use crate::backend::{Backend, Limits};
use crate::digest::{Digest, Fields, Fingerprint};
use crate::error::Result;
use crate::source::SourceForm;
use crate::target::Target;
use crate::task::Task;
use crate::verdict::Verdict;
use crate::verifier::{Candidate, Verifier};

/// Asks verifiers one after the other; the first failure is the verdict. A launch plan that is not one of the task fails before.
#[derive(Debug, Clone, Default)]
pub struct Judge {
    verifiers: Vec<Arc<dyn Verifier>>,
}

impl Judge {
    /// A judge that believes everything, to be given verifiers.
    pub fn new() -> Self {
        Self::default()
    }

    /// The judge of every session: values, then adversity, then single kernels. `seed` gives the inputs of the first
    /// check, `secret` those of all others; without one they are new for each candidate.
    pub fn standard(seed: u64, secret: Option<u64>, limits: &Limits) -> Self {
        let limits = limits.clone();
        Self::new()
            .with(NumericVerifier {
                seed,
                secret,
                limits: limits.clone(),
                ..NumericVerifier::default()
            })
            .with(AdversarialVerifier {
                secret,
                limits: limits.clone(),
                ..AdversarialVerifier::default()
            })
            .with(PartVerifier {
                secret,
                limits,
                ..PartVerifier::default()
            })
    }

    /// Also asks `verifier`, after those before.
    #[must_use]
    pub fn with(mut self, verifier: impl Verifier + 'static) -> Self {
        self.verifiers.push(Arc::new(verifier));
        self
    }
}

impl Fingerprint for Judge {
    fn feed(&self, to: &mut Fields) {
        let verifiers: Vec<Digest> = self.verifiers.iter().map(Verifier::identity).collect();
        to.record("judge", 1, &[("verifiers", &verifiers)]);
    }
}

#[async_trait]
impl Verifier for Judge {
    fn name(&self) -> &str {
        "judge"
    }

    fn identity(&self) -> Digest {
        Digest::of_fields(self)
    }

    fn prepare(&self, task: &Task) -> Result<Task> {
        let mut verifiers = self.verifiers.iter();
        verifiers.try_fold(task.clone(), |task, verifier| verifier.prepare(&task))
    }

    async fn verify(
        &self,
        candidate: &Candidate,
        task: &Task,
        target: &Target,
        backend: &dyn Backend,
    ) -> Result<Verdict> {
        let is_lowered = matches!(candidate.source.form, SourceForm::Lowered { .. });
        if let Some(failure) = misfit(&candidate.artifact.plan, task).filter(|_| is_lowered) {
            return Ok(Verdict::failed(task.contract.accuracy, failure));
        }
        let mut verdict = Verdict::new(task.contract.accuracy);
        let task = captured::once(task)?;
        for verifier in &self.verifiers {
            verdict = verdict.and(verifier.verify(candidate, &task, target, backend).await?);
            if !verdict.passed() {
                break;
            }
        }
        Ok(verdict)
    }
}
