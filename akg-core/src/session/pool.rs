//! The members of a session's search: what passed, and what failed.

use std::collections::BTreeMap;

use super::best::Best;
use super::line::Line;
use crate::designer::{FailedDesign, Improve, Known};
use crate::error::{Error, Result};
use crate::expr::Bindings;
use crate::pass::{Ending, Pass};
use crate::search::{Features, Measured, Move, Outcome, Population};
use crate::source::sketch_knobs;
use crate::verdict::FailureKind;

/// Designs that failed which are shown to who goes on from the same, the latest.
const MOST_FAILED: usize = 2;

/// The number of the member that passed before any pass.
const FIRST: usize = 0;

/// The members of a session's search.
#[derive(Default)]
pub(super) struct Pool {
    pub(super) population: Population,
    /// What passed, by number. One that failed afterwards stays, with what it fell back on.
    bests: BTreeMap<usize, Best>,
    /// The designs that failed, by number.
    failed: BTreeMap<usize, FailedDesign>,
}

impl Pool {
    /// A member that passed.
    ///
    /// # Errors
    /// If it did not.
    pub(super) fn best(&self, number: usize) -> Result<&Best> {
        self.bests
            .get(&number)
            .ok_or_else(|| Error::unexpected("a member of the search that did not pass was chosen"))
    }

    /// A member that passed, to be changed and [put back](Self::put).
    pub(super) fn take(&mut self, number: usize) -> Option<Best> {
        self.bests.remove(&number)
    }

    /// Puts a member back.
    pub(super) fn put(&mut self, number: usize, best: Best) {
        self.bests.insert(number, best);
    }

    /// The number and the time of the fastest.
    pub(super) fn fastest(&self) -> Option<(usize, Measured)> {
        let best = self.population.best()?;
        Some((best.number, best.measured()?))
    }

    /// The speed of a time over that of the first member.
    pub(super) fn speedup(&self, measured: Measured) -> f64 {
        let first = self.population.members().iter().find_map(|m| m.measured());
        first.map_or(1.0, |first| first.seconds / measured.seconds)
    }

    /// Takes a member in that passed.
    pub(super) fn admit(
        &mut self,
        number: usize,
        best: Best,
        measured: Measured,
        hints: &Bindings,
    ) -> Result<()> {
        let knobs = best.leader().map(|leader| sketch_knobs(&leader.knobs));
        let program = knobs.and_then(|knobs| best.line.design.sketch.elaborate(&knobs, hints).ok());
        let features = program.as_ref().map(Features::of);
        self.population
            .settle(number, features, Outcome::Passed(measured))?;
        self.put(number, best);
        Ok(())
    }

    /// Takes down that a member came to nothing, unless it is settled. `line` is what it was, if it was anything.
    pub(super) fn conclude(&mut self, number: usize, ending: &Ending, line: &Line) -> Result<()> {
        let pending = self.population.get(number).is_some_and(|m| m.outcome.is_none());
        if !pending {
            return Ok(());
        }
        let Ending::Failed(failure) = ending else {
            return self.population.settle(number, None, Outcome::Nothing);
        };
        if let Some(failed) = line.failed_by(failure) {
            self.failed.insert(number, failed);
        }
        self.population
            .settle(number, None, Outcome::Failed(failure.kind))
    }

    /// Takes down that a member that passed failed after all.
    pub(super) fn fail(&mut self, number: usize, kind: FailureKind) -> Result<()> {
        self.population.fail(number, kind)
    }

    /// What a designer is to make of a move.
    pub(super) fn improve(&self, next: &Move, passes: &[Pass]) -> Result<Improve> {
        let known = |numbers: &[usize]| -> Result<Vec<Known>> {
            numbers.iter().map(|number| self.known(*number)).collect()
        };
        let members = || self.population.members().iter();
        let siblings = members().filter(|member| member.parents == next.parents());
        let failed = siblings.filter_map(|member| self.failed.get(&member.number));
        let mut failed: Vec<FailedDesign> = failed.rev().take(MOST_FAILED).cloned().collect();
        failed.reverse();
        Ok(Improve {
            parents: known(next.parents())?,
            inspirations: known(next.inspirations())?,
            failed,
            tried: members().flat_map(|member| member.identities.clone()).collect(),
            recommendation: None,
            passes: passes.to_vec(),
        })
    }

    fn known(&self, number: usize) -> Result<Known> {
        let best = self.best(number)?;
        let measured = self.population.get(number).and_then(|member| member.measured());
        Ok(Known {
            sketch: best.line.design.sketch.clone(),
            knobs: best
                .leader()
                .map(|leader| leader.knobs.clone())
                .unwrap_or_default(),
            seconds: measured.map(|measured| measured.seconds),
        })
    }

    /// All that passed once, the fastest last.
    pub(super) fn into_bests(mut self) -> Vec<Best> {
        let fastest = self.fastest().map(|(number, _)| number);
        let seconds = |number: usize| {
            let measured = self.population.get(number).and_then(|member| member.measured());
            measured.map_or(f64::INFINITY, |measured| measured.seconds)
        };
        let mut numbers: Vec<usize> = self.bests.keys().copied().collect();
        // What failed is no more, but for the first, with which the search for one that passes began.
        numbers.retain(|number| *number == FIRST || seconds(*number).is_finite());
        numbers.sort_by(|a, b| seconds(*b).total_cmp(&seconds(*a)));
        // One that is not faster beyond the noise does not come before the fastest.
        numbers.sort_by_key(|number| Some(*number) == fastest);
        let mut bests: Vec<Best> = numbers.iter().filter_map(|number| self.take(*number)).collect();
        // They are members no more.
        bests.iter_mut().for_each(|best| best.line.member = None);
        bests
    }
}
