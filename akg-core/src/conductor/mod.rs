//! The conductor: what happens next.

mod fault;
#[cfg(feature = "models")]
mod model;

use async_trait::async_trait;

use crate::agent::{Agent, Role};
use crate::digest::Digest;
use crate::error::Result;
use crate::source::Knobs;
use crate::trace::Trace;
use crate::verdict::Failure;

pub use fault::Fault;
#[cfg(feature = "models")]
pub use model::ModelConductor;

/// Decides what happens next.
#[derive(Debug)]
pub struct Conductor;

/// What a conductor is shown.
#[derive(Debug, Clone)]
pub struct ConductContext {
    /// Legal knob values in the designer's order of preference; the first is its choice. None where no source is written
    /// from a sketch.
    pub points: Vec<Knobs>,
    /// What became of the candidates of this design, oldest first.
    pub tried: Vec<Tried>,
    /// Earlier designs that failed.
    pub designs: usize,
    /// Whether the designer may have another design: it had one whenever it was asked.
    pub redesigns: bool,
    /// Whether the fixer may know a repair: it knew one whenever it was asked.
    pub fixes: bool,
    /// Whether the budget is spent.
    pub exhausted: bool,
    /// Where exchanges with models are written.
    pub trace: Trace,
}

/// A candidate that was tried.
#[derive(Debug, Clone, PartialEq)]
pub struct Tried {
    /// The knob values that it was written for.
    pub knobs: Knobs,
    /// The hash of its text and launch plan.
    pub source: Digest,
    /// Whether the DSL lowered it from the sketch, which makes no slips of its own.
    pub lowered: bool,
    /// Repairs that lie between what the coder wrote and this.
    pub repairs: usize,
    /// Why it failed, if it did.
    pub failure: Option<Failure>,
}

impl ConductContext {
    /// The last candidate, if it failed, and how.
    pub fn last_failed(&self) -> Option<(&Tried, &Failure)> {
        let last = self.tried.last()?;
        Some((last, last.failure.as_ref()?))
    }

    /// Whether the last candidate is one that was there before, or fails as two before it did: repairs go round in circles.
    pub fn circles(&self) -> bool {
        let Some((last, failure)) = self.last_failed() else {
            return false;
        };
        let chain = self.tried.iter().rev().skip(1).take(last.repairs);
        let same = chain.filter(|t| t.failure.as_ref() == Some(failure)).count();
        let before = self.tried.split_last().map_or(&[][..], |(_, before)| before);
        same >= 2 || before.iter().any(|t| t.source == last.source)
    }
}

/// What to do next.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Next {
    /// Write, build and judge a source with these knob values.
    Code(Knobs),
    /// Ask for a repair of the last candidate, which the fixer may not know.
    Fix,
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

/// The conductor that follows rules: each failure is [classified](Fault) first.
///
/// The designer's choice of knob values comes first, then others until one passes. A fault in what somebody wrote is repaired,
/// as long as repairs do not go round in circles. Where values are wrong, which knobs do not change, and where what somebody
/// wrote cannot be repaired, another design comes before other knob values. A fault of the machine ends it all. What the DSL
/// lowered, and what takes too long, is repaired only when nothing else is left; what does not do the work never is.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RuleConductor {
    /// Candidates to try at most of each design, without their repairs.
    pub attempts: usize,
    /// Repairs of a candidate at most, one after the other.
    pub repairs: usize,
    /// Designs at most.
    pub designs: usize,
}

impl Default for RuleConductor {
    fn default() -> Self {
        Self {
            attempts: 4,
            repairs: 4,
            designs: 6,
        }
    }
}

impl RuleConductor {
    fn decide(&self, context: &ConductContext) -> Next {
        let stop = |reason: &str| Next::Stop(reason.to_owned());
        if context.tried.iter().any(|tried| tried.failure.is_none()) {
            return stop("a candidate passed");
        }
        if context.exhausted && !context.tried.is_empty() {
            return stop("the budget is spent");
        }
        let last = context.last_failed();
        let fault = last.map(|(_, failure)| Fault::of(failure));
        if fault == Some(Fault::Environment) {
            return stop("the machine is at fault, not the candidate");
        }
        let written = last.is_some_and(|(tried, _)| !tried.lowered);
        let repairs = last.map_or(0, |(tried, _)| tried.repairs);
        let repairable = context.fixes && repairs < self.repairs && !context.circles();
        let slip = matches!(fault, Some(Fault::Local | Fault::Values));
        if written && slip && repairable {
            return Next::Fix;
        }
        let redesigns = context.redesigns && context.designs + 1 < self.designs;
        if redesigns && (written || fault == Some(Fault::Values)) {
            return Next::Design;
        }
        let attempts = context.tried.iter().filter(|tried| tried.repairs == 0).count();
        let tried = |point: &&Knobs| context.tried.iter().any(|tried| tried.knobs == **point);
        let point = context.points.iter().find(|p| !tried(p));
        match point {
            Some(point) if attempts < self.attempts => Next::Code(point.clone()),
            _ if repairable && (slip || fault == Some(Fault::Structure)) => Next::Fix,
            Some(_) => stop("too many candidates failed"),
            None => stop("every choice of knob values failed"),
        }
    }
}

#[async_trait]
impl Agent<Conductor> for RuleConductor {
    fn name(&self) -> &str {
        "rules"
    }

    async fn step(&self, context: &ConductContext) -> Result<Next> {
        Ok(self.decide(context))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::KnobValue;
    use crate::verdict::FailureKind;

    fn tried(text: &str, repairs: usize, lowered: bool, kind: FailureKind) -> Tried {
        Tried {
            knobs: Knobs::new(),
            source: Digest::of(text.as_bytes()),
            lowered,
            repairs,
            failure: Some(Failure::new(kind, text)),
        }
    }

    fn context(tried: Vec<Tried>) -> ConductContext {
        let point = |n| Knobs::from([("R".to_owned(), KnobValue::Int(n))]);
        ConductContext {
            points: vec![Knobs::new(), point(1), point(2)],
            tried,
            designs: 0,
            redesigns: true,
            fixes: true,
            exhausted: false,
            trace: Trace::default(),
        }
    }

    fn next(context: &ConductContext) -> Next {
        RuleConductor::default().decide(context)
    }

    #[test]
    fn faults_are_told_apart() {
        for (kind, evidence, fault) in [
            (FailureKind::CompileFailed, "error: expected ';'", Fault::Local),
            (
                FailureKind::CompileFailed,
                "fatal error: x.o: No space left on device",
                Fault::Environment,
            ),
            (FailureKind::Crashed, "signal 11", Fault::Local),
            (FailureKind::WrongValues, "at [0]", Fault::Values),
            (FailureKind::TimedOut, "60 s", Fault::Structure),
            (FailureKind::Stale, "", Fault::Deceit),
        ] {
            assert_eq!(Fault::of(&Failure::new(kind, evidence)), fault, "{kind:?}");
        }
    }

    #[test]
    fn what_somebody_wrote_is_repaired_until_repairs_end() {
        let slip = |text, repairs| tried(text, repairs, false, FailureKind::CompileFailed);
        let mut seen = context(vec![slip("a", 0)]);
        assert_eq!(next(&seen), Next::Fix);
        seen.tried.push(slip("b", 1));
        assert_eq!(next(&seen), Next::Fix);
        // The text was there before.
        seen.tried.push(slip("a", 2));
        assert_eq!(next(&seen), Next::Design);
        seen.redesigns = false;
        assert!(matches!(next(&seen), Next::Code(_)));
        // The fixer knows nothing.
        let mut helpless = context(vec![slip("a", 0)]);
        (helpless.fixes, helpless.redesigns) = (false, false);
        assert!(matches!(next(&helpless), Next::Code(_)));
        // Too many repairs, though all differ.
        let many = (0..5).map(|n| slip(["a", "b", "c", "d", "e"][n], n));
        assert_eq!(next(&context(many.collect())), Next::Design);
    }

    #[test]
    fn the_same_failure_three_times_is_a_circle() {
        let same = |text: &str, repairs| Tried {
            failure: Some(Failure::new(FailureKind::WrongValues, "at [0]")),
            ..tried(text, repairs, false, FailureKind::WrongValues)
        };
        let mut seen = context(vec![same("a", 0), same("b", 1)]);
        assert_eq!(next(&seen), Next::Fix);
        seen.tried.push(same("c", 2));
        assert_eq!(next(&seen), Next::Design);
    }

    #[test]
    fn deceit_is_not_repaired_and_the_machine_is_not_blamed_on_anybody() {
        let seen = context(vec![tried("a", 0, false, FailureKind::NoWork)]);
        assert_eq!(next(&seen), Next::Design);
        let full = Tried {
            failure: Some(Failure::new(FailureKind::LoadFailed, "No space left on device")),
            ..tried("a", 0, true, FailureKind::LoadFailed)
        };
        assert!(matches!(next(&context(vec![full])), Next::Stop(_)));
    }

    #[test]
    fn what_is_lowered_is_repaired_last() {
        let mut seen = context(vec![tried("a", 0, true, FailureKind::CompileFailed)]);
        assert!(matches!(next(&seen), Next::Code(_)));
        seen.points.clear();
        assert_eq!(next(&seen), Next::Fix);
        seen.fixes = false;
        assert!(matches!(next(&seen), Next::Stop(_)));
        let wrong = context(vec![tried("a", 0, true, FailureKind::WrongValues)]);
        assert_eq!(next(&wrong), Next::Design);
    }
}
