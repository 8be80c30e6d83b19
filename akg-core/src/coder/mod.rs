//! The coder: from a sketch to a source.

#[cfg(feature = "models")]
mod model;

use std::sync::Arc;

use async_trait::async_trait;

use crate::agent::{Agent, Role};
use crate::dsl::Dsl;
use crate::error::Result;
use crate::sketch::Sketch;
use crate::source::{Knobs, Source};
use crate::target::Target;
use crate::task::Task;
use crate::trace::Trace;

#[cfg(feature = "models")]
pub use model::ModelCoder;
#[cfg(feature = "models")]
pub(crate) use model::{errors, read};

/// Writes a source from a sketch.
#[derive(Debug)]
pub struct Coder;

/// What a coder is shown.
#[derive(Debug, Clone)]
pub struct CodeContext {
    /// What the sketch is to compute.
    pub task: Task,
    /// The tile program.
    pub sketch: Sketch,
    /// Values for its knobs.
    pub knobs: Knobs,
    /// The language to write.
    pub dsl: Arc<dyn Dsl>,
    /// What to write it for.
    pub target: Target,
    /// Where exchanges with models are written.
    pub trace: Trace,
}

impl Role for Coder {
    type Context = CodeContext;
    type Proposal = Source;
    const NAME: &'static str = "coder";
}

/// The coder that lowers sketches by the DSL's own rules.
#[derive(Debug, Clone, Copy, Default)]
pub struct RuleCoder;

#[async_trait]
impl Agent<Coder> for RuleCoder {
    fn name(&self) -> &str {
        "rules"
    }

    async fn step(&self, context: &CodeContext) -> Result<Source> {
        context
            .dsl
            .lower(&context.sketch, &context.knobs, &context.target)
    }
}
