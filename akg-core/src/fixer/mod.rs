//! The fixer: from a source that failed, or that could be faster, to another.

#[cfg(feature = "models")]
mod model;
mod rules;

use std::sync::Arc;

use crate::agent::Role;
use crate::analyst::Recommendation;
use crate::dsl::Dsl;
use crate::error::Result;
use crate::source::Source;
use crate::target::Target;
use crate::task::Task;
use crate::trace::Trace;
use crate::verdict::Failure;

#[cfg(feature = "models")]
pub use model::ModelFixer;
pub use rules::RuleFixer;

/// Changes a source.
#[derive(Debug)]
pub struct Fixer;

/// What a fixer is shown.
#[derive(Debug, Clone)]
pub struct FixContext {
    /// What the source is to compute.
    pub task: Task,
    /// The language.
    pub dsl: Arc<dyn Dsl>,
    /// What it is for.
    pub target: Target,
    /// The source.
    pub source: Source,
    /// What is to change.
    pub wish: Wish,
    /// How sources failed that this one was made from, oldest first.
    pub earlier: Vec<Failure>,
    /// Where exchanges with models are written.
    pub trace: Trace,
}

/// What is to change about a source.
#[derive(Debug, Clone)]
pub enum Wish {
    /// It failed, and should pass.
    Repair(Failure),
    /// It passed, and should be faster.
    Faster(Recommendation),
}

impl Role for Fixer {
    type Context = FixContext;
    /// `None` if the fixer knows nothing to change.
    type Proposal = Option<Source>;
    const NAME: &'static str = "fixer";
}

/// A source's text with its launch plan at the head, as [`Dsl::parse`] reads it.
///
/// # Errors
/// If the DSL has no such form.
pub(crate) fn whole_text(dsl: &dyn Dsl, source: &Source) -> Result<String> {
    if dsl.parse(&source.text).is_ok() {
        return Ok(source.text.clone());
    }
    dsl.export(source, "source")
}
