//! One life of a candidate: loaded once, fed one data set after the other.

use std::fmt::Write as _;

use crate::backend::{Backend, Cache, Call, Limits, Loaded, LoadedExt as _, Poison, RunOutput};
use crate::error::Result;
use crate::expr::Bindings;
use crate::source::Artifact;
use crate::tensor::Tensor;
use crate::verdict::{Failure, FailureKind, Verdict};

/// Stands for the bytes of outputs.
pub(super) type Digest = blake3::Hash;

/// A loaded candidate and what it has returned so far.
pub(super) struct Life {
    loaded: Box<dyn Loaded>,
    /// Every output so far, and the data that it was for.
    seen: Vec<(Digest, String)>,
}

/// What a run returned.
pub(super) struct Ran {
    pub(super) outputs: Vec<Tensor>,
    pub(super) digest: Digest,
}

impl Life {
    pub(super) async fn begin(
        artifact: Artifact,
        limits: &Limits,
        backend: &dyn Backend,
        verdict: &mut Verdict,
    ) -> Result<Result<Self, Failure>> {
        let loaded = match backend.load(artifact, limits.clone()).await? {
            Ok(loaded) => loaded,
            Err(failure) => return Ok(Err(failure)),
        };
        verdict.isolation = Some(loaded.isolation().clone());
        let seen = Vec::new();
        Ok(Ok(Self { loaded, seen }))
    }

    /// Runs once on `inputs`; a failure names them as `data`.
    pub(super) async fn run(
        &mut self,
        inputs: &[Tensor],
        dims: &Bindings,
        poison: Poison,
        placement: u32,
        data: &str,
    ) -> Result<Result<Ran, Failure>> {
        let call = Call {
            inputs: inputs.to_vec(),
            dims: dims.clone(),
            poison,
            placement,
        };
        Ok(self
            .loaded
            .run(call)
            .await?
            .and_then(ran)
            .map_err(|f| named(f, data)))
    }

    /// Executes several times in the same memory, whose outputs and scratch hold what the execution before left.
    pub(super) async fn run_on(
        &mut self,
        inputs: &[Tensor],
        dims: &Bindings,
        poison: Poison,
        calls: u32,
        data: &str,
    ) -> Result<Result<Ran, Failure>> {
        let call = Call {
            inputs: inputs.to_vec(),
            dims: dims.clone(),
            poison,
            placement: 0,
        };
        let mut outcome = self.loaded.bind(call).await?;
        for calls in [1, calls] {
            if outcome.is_ok() {
                outcome = self.loaded.execute(calls, Cache::Warm).await?.map(|_| ());
            }
        }
        match outcome {
            Ok(()) => Ok(self
                .loaded
                .take()
                .await?
                .and_then(ran)
                .map_err(|f| named(f, data))),
            Err(failure) => Ok(Err(named(failure, data))),
        }
    }

    /// Remembers what was returned for the data called `data`.
    pub(super) fn remember(&mut self, ran: &Ran, data: &str) {
        self.seen.push((ran.digest, data.to_owned()));
    }

    /// A failure of what was returned for `data`, told as staleness if it was returned for other data before.
    pub(super) fn explain(&self, failure: Failure, ran: &Ran, data: &str) -> Failure {
        let mut failure = named(failure, data);
        let before = self.seen.iter().find(|(digest, _)| *digest == ran.digest);
        match before {
            Some((_, other)) if failure.kind == FailureKind::WrongValues => {
                // Writing to a string cannot fail.
                let _ = write!(
                    failure.evidence,
                    "; every byte of the outputs is as it was for {other}"
                );
                Failure::new(FailureKind::Stale, failure.evidence)
            }
            _ => failure,
        }
    }
}

/// The failure, with the data that it happened on.
fn named(mut failure: Failure, data: &str) -> Failure {
    // Writing to a string cannot fail.
    let _ = write!(failure.evidence, " (inputs: {data})");
    failure
}

fn ran(run: RunOutput) -> Result<Ran, Failure> {
    if !run.inputs_unchanged {
        let evidence = "an input was changed by the candidate";
        return Err(Failure::new(FailureKind::InputChanged, evidence));
    }
    let mut hasher = blake3::Hasher::new();
    for output in &run.outputs {
        hasher.update(output.bytes());
    }
    Ok(Ran {
        outputs: run.outputs,
        digest: hasher.finalize(),
    })
}
