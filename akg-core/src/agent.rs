//! Agents: whoever proposes the next thing.
//!
//! A [`Role`] fixes what an agent is shown and what it proposes. Each role has a rule-based agent that needs neither
//! network nor model; a model-backed agent implements the same trait.

use std::fmt;

use async_trait::async_trait;

use crate::error::Result;

/// A kind of decision: the types of its context and of its proposal.
pub trait Role: Send + Sync + 'static {
    /// What the agent is shown.
    type Context: Send + Sync;
    /// What it proposes.
    type Proposal: Send;
    /// The role's name in logs and registries.
    const NAME: &'static str;
}

/// One async step from context to proposal.
#[async_trait]
pub trait Agent<R: Role>: Send + Sync + fmt::Debug {
    /// The agent's name in logs and results.
    fn name(&self) -> &str;

    /// Proposes. An error is the agent's own trouble; a proposal that turns out bad is judged later.
    async fn step(&self, context: &R::Context) -> Result<R::Proposal>;
}

macro_rules! forward {
    ($($pointer:ident),*) => {$(
        #[async_trait]
        impl<R: Role, A: Agent<R> + ?Sized> Agent<R> for $pointer<A> {
            fn name(&self) -> &str {
                (**self).name()
            }

            async fn step(&self, context: &R::Context) -> Result<R::Proposal> {
                (**self).step(context).await
            }
        }
    )*};
}
use std::sync::Arc;
forward!(Arc, Box);
