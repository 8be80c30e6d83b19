//! The trait of kernel languages.

use std::fmt;

use serde::{Deserialize, Serialize};

pub use crate::diagnostic::{Diagnostic, Severity};
use crate::error::Result;
use crate::search::Syntax;
use crate::sketch::{Knob, Sketch};
#[cfg(doc)]
use crate::source::is_dsl_knob;
use crate::source::{Artifact, Knobs, Source};
use crate::target::Target;
use crate::verdict::Failure;

/// What a DSL can do, as data.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DslCapability {
    /// Backends whose targets it can write for.
    pub backends: Vec<String>,
    /// Formats that [`Dsl::build`] produces.
    pub formats: Vec<String>,
    /// Forms that [`Dsl::export`] accepts.
    pub exports: Vec<String>,
    /// Whether [`Dsl::lower`] works; without it, sources come from an agent.
    pub lowers: bool,
    /// What texts look like, as far as it tells which of two are the [same](crate::search::fingerprint::of_source); `None` if
    /// that is not known.
    pub syntax: Option<Syntax>,
}

/// The stages a model can ask guidance for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Stage {
    /// Writing a source from a sketch.
    Write,
    /// Repairing a source that failed.
    Fix,
    /// Making a correct source faster.
    Optimise,
}

/// A kernel language: lowers sketches, builds sources by its own toolchain, checks what others wrote.
///
/// Synchronous, because it transforms text and runs compilers; callers that need concurrency use threads.
pub trait Dsl: Send + Sync + fmt::Debug {
    /// The name in registries and on the command line.
    fn name(&self) -> &str;

    /// What it can do.
    fn capability(&self) -> &DslCapability;

    /// The DSL's own knobs for `sketch`, beside those that the sketch declares: choices that its language leaves open, such
    /// as the threads of a program. They change no result, and their names are `KERNEL.NAME`, see [`is_dsl_knob`].
    fn knobs(&self, sketch: &Sketch, target: &Target) -> Result<Vec<Knob>> {
        let _ = (sketch, target);
        Ok(Vec::new())
    }

    /// Writes the source of `sketch` with the given values of its knobs and of the [DSL's own](Self::knobs) for `target`.
    /// Knobs without a value take the first of their legal values.
    fn lower(&self, sketch: &Sketch, knobs: &Knobs, target: &Target) -> Result<Source>;

    /// Runs the toolchain. `Ok(Err(failure))` says that the toolchain rejected the source; `Err` that it is missing or
    /// could not be run.
    fn build(&self, source: &Source, target: &Target) -> Result<Result<Artifact, Failure>>;

    /// What [`build`](Dsl::build) depends on beside the source and the target: the compiler with its version, flags, the
    /// version of the DSL's own library. What was built by a toolchain of the same name is not built again.
    fn toolchain(&self, target: &Target) -> Result<String>;

    /// Checks syntax and rules without building.
    fn check(&self, source: &Source) -> Vec<Diagnostic>;

    /// What a model must know to write this DSL for `target`.
    fn guide(&self, stage: Stage, target: &Target) -> String;

    /// Reads a hand-written source whose launch data is in its text, in the form that
    /// [`export`](Dsl::export)`("stub")` prints.
    fn parse(&self, text: &str) -> Result<Source>;

    /// Renders a source in another form, one of [`DslCapability::exports`].
    fn export(&self, source: &Source, form: &str) -> Result<String>;
}
