//! The conductor: what happens next.

use async_trait::async_trait;

use crate::agent::{Agent, Role};
use crate::error::Result;
use crate::source::Knobs;
use crate::verdict::{Failure, FailureKind};

/// Decides what happens next.
#[derive(Debug)]
pub struct Conductor;

/// What a conductor is shown.
#[derive(Debug, Clone)]
pub struct ConductContext {
    /// Legal knob values in the designer's order of preference; the first is its choice.
    pub points: Vec<Knobs>,
    /// What became of those tried so far: their knob values, and why they failed if they did.
    pub tried: Vec<(Knobs, Option<Failure>)>,
    /// Whether the designer may have another design: it had one whenever it was asked.
    pub redesigns: bool,
    /// Whether the budget is spent.
    pub exhausted: bool,
}

/// What to do next.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Next {
    /// Write, build and judge a source with these knob values.
    Code(Knobs),
    /// Ask for another design, which the designer may not have. What was tried is forgotten if it has.
    Design,
    /// Stop; the reason is for people.
    Stop(String),
}

impl Role for Conductor {
    type Context = ConductContext;
    type Proposal = Next;
    const NAME: &'static str = "conductor";
}

/// The conductor that follows rules: the designer's choice first, then other knob values until one passes. Where values are
/// wrong, which knobs do not change, another design comes before other knob values.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RuleConductor {
    /// Candidates to try at most of each design.
    pub attempts: usize,
}

impl Default for RuleConductor {
    fn default() -> Self {
        Self { attempts: 4 }
    }
}

#[async_trait]
impl Agent<Conductor> for RuleConductor {
    fn name(&self) -> &str {
        "rules"
    }

    async fn step(&self, context: &ConductContext) -> Result<Next> {
        let stop = |reason: &str| Ok(Next::Stop(reason.to_owned()));
        if context.tried.iter().any(|(_, failure)| failure.is_none()) {
            return stop("a candidate passed");
        }
        if context.exhausted && !context.tried.is_empty() {
            return stop("the budget is spent");
        }
        let last = context.tried.last().and_then(|(_, failure)| failure.as_ref());
        if context.redesigns && last.is_some_and(|failure| failure.kind == FailureKind::WrongValues) {
            return Ok(Next::Design);
        }
        if context.tried.len() >= self.attempts {
            return stop("too many candidates failed");
        }
        let tried = |point: &&Knobs| context.tried.iter().any(|(knobs, _)| knobs == *point);
        match context.points.iter().find(|p| !tried(p)) {
            Some(point) => Ok(Next::Code(point.clone())),
            None => stop("every choice of knob values failed"),
        }
    }
}
