//! The verifier that lets tools of the device watch how kernels use memory.

use async_trait::async_trait;

use super::hidden;
use super::inputs::{Distribution, make_inputs};
use crate::backend::{Backend, Call, Limits, Poison, Sanitizer};
use crate::digest::{Digest, Fields, Fingerprint};
use crate::error::{Error, Result};
use crate::isolation::{Isolation, IsolationLevel};
use crate::target::Target;
use crate::task::Task;
use crate::verdict::{Check, Verdict};
use crate::verifier::{Candidate, Verifier};

/// Judges how kernels use memory, whatever the outputs are: each execution is watched by the backend's
/// [sanitizers](crate::backend::Loaded::sanitize), with the contract's inputs and, for symbolic dims, at other sizes. That takes
/// seconds to minutes an execution, so it is for who asks for it, after the other verifiers.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SanitizerVerifier {
    /// What is looked for.
    pub sanitizers: Vec<Sanitizer>,
    /// The seed of the inputs.
    pub seed: u64,
    /// What the sizes follow from; drawn anew for each candidate if `None`.
    pub secret: Option<u64>,
    /// Limits on each run of the candidate that is not watched.
    pub limits: Limits,
}

impl Default for SanitizerVerifier {
    fn default() -> Self {
        Self {
            sanitizers: vec![Sanitizer::Memory],
            seed: 0,
            secret: None,
            limits: Limits::default(),
        }
    }
}

impl SanitizerVerifier {
    /// # Errors
    /// [`Unsupported`](crate::ErrorKind::Unsupported) if a backend has not all of these sanitizers.
    pub fn demand(&self, backend: &dyn Backend) -> Result<()> {
        let offered = &backend.capability().sanitizers;
        let missing = self.sanitizers.iter().find(|s| !offered.contains(s));
        missing.map_or(Ok(()), |missing| {
            Err(Error::unsupported(format!(
                "the backend `{}` has no sanitizer for `{missing}`",
                backend.name()
            )))
        })
    }
}

impl Fingerprint for SanitizerVerifier {
    fn feed(&self, to: &mut Fields) {
        let Self {
            sanitizers,
            seed,
            secret,
            limits,
        } = self;
        to.record(
            "sanitizer",
            1,
            &[
                ("sanitizers", sanitizers),
                ("seed", seed),
                ("secret", secret),
                ("limits", limits),
            ],
        );
    }
}

#[async_trait]
impl Verifier for SanitizerVerifier {
    fn name(&self) -> &str {
        "sanitizer"
    }

    fn identity(&self) -> Digest {
        Digest::of_fields(self)
    }

    async fn verify(
        &self,
        candidate: &Candidate,
        task: &Task,
        target: &Target,
        backend: &dyn Backend,
    ) -> Result<Verdict> {
        self.demand(backend)?;
        let mut verdict = Verdict::new(task.contract.accuracy);
        let limits = self.limits.for_task(task, target)?;
        let loaded = backend.load(candidate.artifact.clone(), limits).await?;
        let mut loaded = match loaded {
            Ok(loaded) => loaded,
            Err(failure) => return Ok(Verdict::failed(verdict.accuracy, failure)),
        };
        verdict.isolation = Some(Isolation {
            level: IsolationLevel::None,
            missing: vec!["sanitizers watch processes that are not confined".to_owned()],
        });
        let sizes = hidden::sizes(task, self.secret.unwrap_or_else(rand::random));
        for dims in std::iter::once(task.contract.hints.clone()).chain(sizes) {
            let call = Call {
                inputs: make_inputs(task, backend, Distribution::Contract, self.seed, &dims)?,
                dims: dims.clone(),
                poison: Poison::Ones,
                placement: 0,
            };
            if let Err(failure) = loaded.bind(call).await? {
                verdict.failure = Some(failure);
                return Ok(verdict);
            }
            for sanitizer in &self.sanitizers {
                verdict.checks.push(Check {
                    distribution: Distribution::Contract.to_string(),
                    seed: self.seed,
                    about: format!("watched for {sanitizer}"),
                    dims: dims.clone(),
                    outputs: Vec::new(),
                });
                if let Err(failure) = loaded.sanitize(*sanitizer).await? {
                    verdict.failure = Some(failure);
                    return Ok(verdict);
                }
            }
        }
        Ok(verdict)
    }
}
