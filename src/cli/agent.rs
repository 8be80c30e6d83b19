//! Who decides: the rules, or language models.

use std::time::Duration;

use akg::analyst::{Analyst, ModelAnalyst};
use akg::coder::{Coder, ModelCoder};
use akg::conductor::{Conductor, ModelConductor};
use akg::designer::{Designer, ModelDesigner, RulesFirst};
use akg::fixer::{Fixer, ModelFixer};
use akg::llm::Models;
use akg::{Dsl, Result, Role, Session, draw, search};
use clap::builder::PossibleValuesParser;
use clap::{Args, ValueEnum};

use super::parse_duration;

/// Wall time of a run if nobody says: models think longer than rules.
const BUDGET: Duration = Duration::from_secs(60);
const MODELS_BUDGET: Duration = Duration::from_secs(30 * 60);

/// Passes of models if nobody says, and for how many more they are asked while one is judged.
const PASSES: usize = 5;
const LOOKAHEAD: usize = 1;

/// Who decides, and for how long.
#[derive(Debug, Clone, Args)]
pub(super) struct AgentArgs {
    /// Who makes the kernels: the rules; the language models that `AKG_LLM_MODEL` and others name; or the rules first, and models
    /// that look for something faster; see docs/agents.md.
    #[arg(long, value_enum, default_value_t)]
    agent: Agent,
    /// How often agents may try to make a verified kernel faster [default: 5, or 0 with the rules alone].
    #[arg(long, value_name = "N")]
    passes: Option<usize>,
    /// For how many passes more agents are asked while one is judged, so that neither waits for the other [default: 1, or 0 with the
    /// rules alone; at least one for each further device].
    #[arg(long, value_name = "N")]
    lookahead: Option<usize>,
    /// How what each pass goes on from is chosen among the kernels that passed; see docs/search.md.
    #[arg(long, value_name = "STRATEGY", default_value = search::DEFAULT, value_parser = PossibleValuesParser::new(search::STRATEGIES))]
    search: String,
    /// Wall time after which no new candidate is started [default: 60s, or 30m with models].
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    budget: Option<Duration>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum Agent {
    #[default]
    Rules,
    Llm,
    Hybrid,
}

impl AgentArgs {
    /// Whether language models take part.
    pub(super) fn asks_models(&self) -> bool {
        self.agent != Agent::Rules
    }

    /// The models of the run, if it has any.
    ///
    /// # Errors
    /// If the environment does not say which.
    pub(super) fn models(&self) -> Result<Option<Models>> {
        match self.agent {
            Agent::Rules => Ok(None),
            Agent::Llm | Agent::Hybrid => Models::from_env().map(Some),
        }
    }

    /// The session with this budget and this search, and with agents that ask `models`; so far ahead that so many `others` of its
    /// devices have something to do. What `dsl` lowers needs no model to be written.
    pub(super) fn staff(
        &self,
        session: Session,
        models: Option<&Models>,
        dsl: &dyn Dsl,
        others: usize,
    ) -> Result<Session> {
        let (budget, passes, lookahead) =
            models.map_or((BUDGET, 0, 0), |_| (MODELS_BUDGET, PASSES, LOOKAHEAD));
        let lookahead = lookahead.max(others);
        let passes = self.passes.unwrap_or(passes);
        let session = session
            .with_budget(self.budget.unwrap_or(budget))
            .with_passes(passes)
            .with_lookahead(self.lookahead.unwrap_or(lookahead))
            .with_strategy(search::strategy(&self.search, search::SEED, passes + 1)?);
        let Some(models) = models else {
            return Ok(session);
        };
        let designer = ModelDesigner::new(models.role(Designer::NAME)?)?;
        let session = match self.agent {
            Agent::Hybrid => session.with_designer(RulesFirst::new(designer)),
            _ => session.with_designer(designer),
        };
        let session = if dsl.capability().lowers {
            session
        } else {
            session.with_coder(ModelCoder::new(models.role(Coder::NAME)?)?)
        };
        Ok(session
            .with_fixer(ModelFixer::new(models.role(Fixer::NAME)?)?)
            .with_analyst(ModelAnalyst::new(models.role(Analyst::NAME)?)?)
            .with_conductor(ModelConductor::new(models.role(Conductor::NAME)?)?)
            .with_pictures(|profile| Ok(vec![draw::roofline(profile)?, draw::timeline(profile)?])))
    }
}
