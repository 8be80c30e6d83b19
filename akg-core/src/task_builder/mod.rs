//! The task builder: from somebody's code or words to a task that stands by itself.

#[cfg(feature = "models")]
mod model;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use crate::agent::{Agent, Role};
use crate::error::{Error, Result};
use crate::trace::Trace;

#[cfg(feature = "models")]
pub use model::ModelTaskBuilder;

/// Makes a module in KernelBench's form (`Model`, `get_inputs`, `get_init_inputs`) of code or of a description.
#[derive(Debug)]
pub struct TaskBuilder;

/// What a task builder is shown.
#[derive(Debug, Clone)]
pub struct BuildContext {
    /// PyTorch code, or words.
    pub request: String,
    /// Who runs what is proposed.
    pub trial: Arc<dyn ModuleTrial>,
    /// Where exchanges with models are written.
    pub trace: Trace,
}

/// Runs modules to see whether they are tasks.
pub trait ModuleTrial: Send + Sync + fmt::Debug {
    /// Imports a module and runs its code. The inner error says what is wrong with it, for whoever wrote it.
    ///
    /// # Errors
    /// If it cannot be run here at all.
    fn run(&self, module: &str) -> Result<Result<(), String>>;
}

impl Role for TaskBuilder {
    type Context = BuildContext;
    /// The module's text, which ran.
    type Proposal = String;
    const NAME: &'static str = "task-builder";
}

/// The task builder that takes what is a task already.
#[derive(Debug, Clone, Copy, Default)]
pub struct RuleTaskBuilder;

#[async_trait]
impl Agent<TaskBuilder> for RuleTaskBuilder {
    fn name(&self) -> &str {
        "rules"
    }

    async fn step(&self, context: &BuildContext) -> Result<String> {
        let wrong = |why| {
            Error::unsupported(format!(
                "the request is no module that runs by itself, and rules make none of it; ask a model: {why}"
            ))
        };
        context.trial.run(&context.request)?.map_err(wrong)?;
        Ok(context.request.clone())
    }
}
