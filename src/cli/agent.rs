//! Who decides: the rules, or language models.

use akg::Result;
use akg::Session;
use akg::designer::ModelDesigner;
use akg::llm::Models;
use clap::{Args, ValueEnum};

/// Who decides.
#[derive(Debug, Clone, Copy, Args)]
pub(super) struct AgentArgs {
    /// Who designs the kernels: the rules, or the language model that `AKG_LLM_MODEL` and others name; see docs/llm.md.
    #[arg(long, value_enum, default_value_t)]
    agent: Agent,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum Agent {
    #[default]
    Rules,
    Llm,
}

impl AgentArgs {
    /// The models of the run, if it has any.
    ///
    /// # Errors
    /// If the environment does not say which.
    pub(super) fn models(self) -> Result<Option<Models>> {
        match self.agent {
            Agent::Rules => Ok(None),
            Agent::Llm => Models::from_env().map(Some),
        }
    }
}

/// The session with agents that ask `models`.
pub(super) fn asking(session: Session, models: Option<&Models>) -> Result<Session> {
    let Some(models) = models else {
        return Ok(session);
    };
    let designer = ModelDesigner::new(models.role("designer")?)?;
    Ok(session.with_designer(designer))
}
