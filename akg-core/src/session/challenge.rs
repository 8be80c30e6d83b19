//! Challenges of the fastest: a member of the search becomes it only by a duel.

use super::best::Best;
use super::line::Line;
use super::passes::KNOWN;
use super::run::Run;
use super::tune::{CHALLENGER, FASTEST, Leader};
use crate::backend::Cache;
use crate::error::{Error, Result};
use crate::pass::Ending;
use crate::search::Measured;
use crate::store::Measurement;
use crate::timing::{Claim, Comparison, Interval};

/// What a duel says of a challenger: how a pass ends, and what it takes if it is to be a member.
type Bout = (Ending, Option<Measured>);

impl Run<'_> {
    /// Lets what passed of the design that is worked on challenge the fastest, and makes it the member of this number.
    pub(super) async fn compare(&mut self, number: usize) -> Result<Ending> {
        let failed = |line: &Line| match line.last_failure() {
            Some((_, failure)) => Ending::Failed(failure.clone()),
            None => Ending::Nothing("no candidate was tried".to_owned()),
        };
        let Some(mut challenger) = self.tune().await? else {
            return Ok(failed(&self.line));
        };
        if !self.stand(&mut challenger).await? {
            return Ok(failed(&challenger.line));
        }
        let Some(leader) = challenger.leader().cloned() else {
            return Ok(failed(&challenger.line));
        };
        challenger.choose(self.road)?;
        let print = self.print_of(&leader.written.source)?;
        if self.pool.population.identify(number, print)?.is_some() {
            return Ok(Ending::Nothing(KNOWN.to_owned()));
        }
        let (ending, measured) = self.challenge(&leader).await?;
        if let Some(measured) = measured {
            self.enter(number, challenger, measured)?;
        }
        Ok(ending)
    }

    /// Takes a challenger that passed into the population.
    fn enter(&mut self, number: usize, challenger: Best, measured: Measured) -> Result<()> {
        let hints = &self.road.task.contract.hints;
        let step = challenger.leader().map(|leader| leader.step);
        self.pool.admit(number, challenger, measured, hints)?;
        let speedup = self.pool.speedup(measured);
        let Some(step) = step else { return Ok(()) };
        self.road
            .trace
            .amend(step, |record| record.speedup = Some(speedup))
    }

    /// Lets a candidate challenge the fastest, and if that fails meanwhile what is the fastest then.
    async fn challenge(&mut self, challenger: &Leader) -> Result<Bout> {
        let mut before = None;
        while let Some((number, time)) = self.fastest().await? {
            before = Some(time);
            let fastest = self.leader(number)?.clone();
            let duel = self.duel(challenger, &fastest).await?;
            let [own, theirs] = duel.contest.sides.as_slice() else {
                return Err(Error::unexpected("a duel has two sides"));
            };
            if let Some(failure) = &own.failure {
                self.road.fail(challenger.written.key, failure)?;
                return Ok((Ending::Failed(failure.clone()), None));
            }
            if let Some(failure) = &theirs.failure {
                self.road.fail(fastest.written.key, failure)?;
                let known = fastest.attempt.and_then(|at| self.outcome.attempts.get_mut(at));
                let Some(attempt) = known else {
                    return Err(Error::unexpected("the fastest was never judged"));
                };
                attempt.verdict.failure = Some(failure.clone());
                continue;
            }
            let Some(comparison) = duel.contest.against_best(Cache::Warm) else {
                return Ok((Ending::Nothing("the duel was disturbed".to_owned()), None));
            };
            self.road.trace.amend(challenger.step, |record| {
                record.seconds = own.warm.median();
            })?;
            let ending = match comparison.claim {
                Claim::Faster => Ending::Faster(comparison.ratio),
                _ if comparison.ratio > 1.0 && !duel.contest.is_stable() => {
                    Ending::Disturbed(comparison.ratio)
                }
                Claim::Slower | Claim::Noise => Ending::NotFaster(comparison.ratio),
            };
            return Ok((ending, Some(measured(time, comparison))));
        }
        let ending = Ending::Nothing("the fastest failed when it was timed".to_owned());
        Ok((ending, before))
    }

    /// Lets two candidates take turns, unless they have before.
    async fn duel(&mut self, challenger: &Leader, fastest: &Leader) -> Result<Measurement> {
        let session = self.road.session;
        let policy = session.tuning.clone().unwrap_or_default().duel;
        let (own, theirs) = (challenger.written.key, fastest.written.key);
        if let Some(known) = self.road.duelled(own, theirs, &policy)? {
            return Ok(known);
        }
        let [challenger, fastest] = [self.rebuilt(challenger)?, self.rebuilt(fastest)?];
        let arena = self.arena()?;
        let mut side = arena.side(CHALLENGER, &challenger);
        let mut other = arena.side(FASTEST, &fastest).unjudged(FASTEST);
        arena.duel((own, &mut side), (theirs, &mut other), &policy).await
    }
}

/// What a challenger takes where the fastest takes `fastest`. The duel has the last word about who is faster: it knows more of the
/// noise than the interval says.
fn measured(fastest: Measured, duel: &Comparison) -> Measured {
    let seconds = fastest.seconds / duel.ratio;
    let interval = Interval {
        low: fastest.seconds / duel.interval.high,
        high: fastest.seconds / duel.interval.low,
    };
    let (reach, lead) = (interval.reach(seconds), fastest.seconds - seconds);
    let spread = match duel.claim {
        Claim::Faster => reach.min(lead / 2.0),
        Claim::Slower | Claim::Noise => reach.max(lead),
    };
    Measured { seconds, spread }
}
