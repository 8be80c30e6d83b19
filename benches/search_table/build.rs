//! Kernels, each built once however many candidates have it.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use akg::cpp::{CppDsl, lower_program};
use akg::digest::Digest;
use akg::expr::Bindings;
use akg::search::Features;
use akg::sketch::ir::Program;
use akg::source::{Knobs, Launch, LaunchPlan, PlanTensor, Source, SourceForm};
use akg::{Dsl as _, Error, Result, Target};

use super::parallel;

/// The name of the function of every kernel.
pub(super) const SYMBOL: &str = "akg_kernel";

/// A candidate's kernels, before they are built.
#[derive(Debug, Clone)]
pub(super) struct Lowered {
    pub(super) features: Features,
    pub(super) tensors: Vec<PlanTensor>,
    pub(super) launches: Vec<Launched>,
}

/// One of them.
#[derive(Debug, Clone)]
pub(super) struct Launched {
    /// The kernel's text.
    pub(super) kernel: Digest,
    /// The tensors it takes, by place.
    pub(super) tensors: Vec<usize>,
    pub(super) programs: i64,
}

/// Sources of kernels by the hash of their text.
pub(super) type Sources = HashMap<Digest, Source>;

/// Translates a candidate, kernel by kernel.
pub(super) fn lower(program: &Program, target: &Target) -> Result<(Lowered, Vec<(Digest, Source)>)> {
    let mut lowered = Lowered {
        features: Features::of(program),
        tensors: program.tensors.clone(),
        launches: Vec::new(),
    };
    let mut sources = Vec::new();
    for kernel in &program.kernels {
        let alone = Program {
            name: "kernel".to_owned(),
            kernels: vec![kernel.clone()],
            ..program.clone()
        };
        let source = lower_program(&alone, target, &Knobs::new())?;
        let (launch, plan) = match &source.form {
            SourceForm::Lowered { plan } => (plan.launches.first(), plan),
            _ => (None, &LaunchPlan::default()),
        };
        let launch = launch.ok_or_else(|| Error::unexpected("a lowered kernel has no launch"))?;
        let text = source
            .text
            .replace(&format!("{}(", launch.kernel), &format!("{SYMBOL}("));
        let hash = Digest::of(text.as_bytes());
        lowered.launches.push(Launched {
            kernel: hash,
            tensors: launch.tensors.clone(),
            programs: LaunchPlan::programs(launch, &Bindings::new())?,
        });
        let launch = Launch {
            kernel: SYMBOL.to_owned(),
            ..launch.clone()
        };
        let plan = LaunchPlan {
            launches: vec![launch],
            ..plan.clone()
        };
        let form = SourceForm::Lowered { plan };
        sources.push((hash, Source { text, form, ..source }));
    }
    Ok((lowered, sources))
}

/// A folder of built kernels.
#[derive(Debug)]
pub(super) struct Shelf<'a> {
    pub(super) folder: &'a Path,
    pub(super) dsl: &'a CppDsl,
    pub(super) target: &'a Target,
}

impl Shelf<'_> {
    /// Where a built kernel lies.
    pub(super) fn object(&self, kernel: Digest) -> PathBuf {
        self.folder.join(format!("{kernel}.so"))
    }

    /// Whether the compiler refused a kernel.
    pub(super) fn is_refused(&self, kernel: Digest) -> bool {
        self.refusal(kernel).exists()
    }

    fn refusal(&self, kernel: Digest) -> PathBuf {
        self.folder.join(format!("{kernel}.refused"))
    }

    /// Builds what is not there yet, until it is time to end.
    pub(super) fn build(&self, sources: &Sources, jobs: usize, until: Instant) -> Result<()> {
        let cannot = |e| Error::io(format!("cannot write to {}", self.folder.display()), e);
        fs::create_dir_all(self.folder).map_err(cannot)?;
        let missing: Vec<(&Digest, &Source)> = sources
            .iter()
            .filter(|(kernel, _)| !self.object(**kernel).exists() && !self.is_refused(**kernel))
            .collect();
        let results = parallel(jobs, &missing, |(kernel, source)| {
            if Instant::now() >= until {
                return Ok(());
            }
            // What was interrupted is not half there.
            let (path, bytes) = match self.dsl.build(source, self.target)? {
                Ok(artifact) => (self.object(**kernel), artifact.bytes),
                Err(failure) => (self.refusal(**kernel), failure.evidence.into_bytes()),
            };
            let part = path.with_extension("part");
            fs::write(&part, bytes)
                .and_then(|()| fs::rename(&part, &path))
                .map_err(cannot)
        });
        results.into_iter().collect()
    }
}
