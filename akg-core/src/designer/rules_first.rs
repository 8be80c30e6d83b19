//! The rules' design first, then somebody else's.

use async_trait::async_trait;

use super::{Design, DesignContext, Designer, RuleDesigner, another};
use crate::agent::Agent;
use crate::error::{ErrorKind, Result};

/// The rules' designs as long as they have one that did not fail, and another agent's where they have none, and where
/// something faster is looked for. Two designs are crossed by the rules as long as that makes one that is new.
#[derive(Debug, Clone)]
pub struct RulesFirst<A> {
    then: A,
    name: String,
}

impl<A: Agent<Designer>> RulesFirst<A> {
    /// The rules first, then this agent.
    pub fn new(then: A) -> Self {
        let name = format!("rules, then {}", then.name());
        Self { then, name }
    }
}

#[async_trait]
impl<A: Agent<Designer>> Agent<Designer> for RulesFirst<A> {
    fn name(&self) -> &str {
        &self.name
    }

    async fn step(&self, context: &DesignContext) -> Result<Design> {
        if let Some(improve) = &context.improve {
            let crossed = (improve.parents.len() > 1).then(|| another::crossed(context, improve));
            if let Some(design) = crossed.flatten() {
                return Ok(design);
            }
        } else {
            match RuleDesigner.step(context).await {
                Ok(design) if !context.has_failed(&design.sketch) => return Ok(design),
                Err(error) if error.kind() != ErrorKind::Unsupported => return Err(error),
                _ => {}
            }
        }
        self.then.step(context).await
    }
}
