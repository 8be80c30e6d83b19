//! Passes that make a verified kernel faster.
//!
//! After KForge's optimisation passes (arXiv 2606.02963, section 3): the analyst reads the profile of the fastest kernel and
//! recommends one change, the designer or the fixer proposes it, the proposal is judged, repaired and tuned like the first
//! one, and then it challenges the fastest in a duel. What is not faster beyond the noise is rolled back, and later passes
//! are told of it.

use std::ops::ControlFlow;

use super::Event;
use super::best::Best;
use super::plan::bound;
use super::run::{Run, is_silence};
use super::tune::{CHALLENGER, FASTEST, Leader};
use crate::agent::Role as _;
use crate::analyst::{AnalyseContext, Analyst, Place, Recommendation};
use crate::backend::Cache;
use crate::designer::{DesignContext, Designer, Improve, Known};
use crate::error::{Error, ErrorKind, Result};
use crate::fixer::{Fixer, Wish};
use crate::pass::{Ending, Pass};
use crate::profile::{Profile, Subject};
use crate::source::Artifact;
use crate::store::{Measurement, ProfileRecord, StoreExt as _, now};
use crate::timing::Claim;
use crate::trace::Taken;

/// What a pass ended with, and what is faster now; or why there are no more passes.
type Passed = ControlFlow<String, (Pass, Option<Best>)>;

impl Run<'_> {
    /// Lets agents make what passed faster, as long as the budget and the number of passes allow. Gives all that were the
    /// fastest, the fastest last.
    pub(super) async fn improve(&mut self, first: Best) -> Result<Vec<Best>> {
        let session = self.road.session;
        let mut bests = vec![first];
        if session.passes == 0 {
            return Ok(bests);
        }
        if !session.backend.capability().times {
            "the backend does not time, so that nothing can be shown to be faster"
                .clone_into(&mut self.outcome.stopped);
            return Ok(bests);
        }
        let mut stopped = "all passes are made".to_owned();
        while self.outcome.passes.len() < session.passes {
            if self.exhausted() {
                "the budget is spent".clone_into(&mut stopped);
                break;
            }
            let Some(mut best) = bests.pop() else { break };
            if !self.stand(&mut best).await? {
                // What it was faster than is the fastest again; if it was the first, the search goes on.
                if bests.is_empty() {
                    return Ok(vec![best]);
                }
                continue;
            }
            best.choose(self.road)?;
            let passed = self.pass(&best).await;
            bests.push(best);
            match passed? {
                ControlFlow::Continue((pass, faster)) => {
                    session.observer.event(Event::Pass(&pass));
                    self.outcome.passes.push(pass);
                    bests.extend(faster);
                }
                ControlFlow::Break(reason) => {
                    stopped = reason;
                    break;
                }
            }
        }
        self.outcome.stopped = stopped;
        Ok(bests)
    }

    /// One pass on the fastest.
    async fn pass(&mut self, best: &Best) -> Result<Passed> {
        let Some(leader) = best.leader().cloned() else {
            return Ok(ControlFlow::Break("nothing is left that passed".to_owned()));
        };
        let artifact = match self.road.build(&leader.written)? {
            Ok(artifact) => artifact,
            Err(failure) => return Ok(ControlFlow::Break(failure.evidence)),
        };
        let profile = self.profile(best, &leader, &artifact).await?;
        let (advice, step) = match self.analyse(best, &leader, &artifact, profile.clone()).await? {
            ControlFlow::Continue(advice) => advice,
            ControlFlow::Break(reason) => return Ok(ControlFlow::Break(reason)),
        };
        let role = match advice.place {
            Place::Sketch => Designer::NAME,
            Place::Source => Fixer::NAME,
        };
        let parents = [leader.step, step];
        let proposed = match advice.place {
            Place::Sketch => self.redesigned(best, &advice, profile.seconds, &parents).await,
            Place::Source => self.rewritten(best, &leader, &advice, &parents).await,
        };
        let ended = |ending| Pass::new(Some(advice.clone()), role, ending);
        match proposed {
            Ok(None) => {}
            Ok(Some(why)) => {
                let pass = ended(Ending::Nothing(why));
                return Ok(ControlFlow::Continue((pass, None)));
            }
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                let pass = ended(Ending::Nothing(error.to_string()));
                return Ok(ControlFlow::Continue((pass, None)));
            }
            Err(error) if is_silence(&error) => return Ok(ControlFlow::Break(error.to_string())),
            Err(error) => return Err(error),
        }
        let (ending, faster) = self.compare(best, &leader).await?;
        Ok(ControlFlow::Continue((ended(ending), faster)))
    }

    /// Where the time of the fastest goes: as it was found before, if it was, so that who is shown it is asked nothing new.
    async fn profile(&self, best: &Best, leader: &Leader, artifact: &Artifact) -> Result<Profile> {
        let (road, session) = (self.road, self.road.session);
        if let Some(known) = session.store.load::<ProfileRecord>(leader.written.key)? {
            return Ok(known.profile);
        }
        let sketch = (&best.line.design.sketch, &leader.knobs);
        let subject = Subject {
            task: road.task,
            artifact,
            sketch: leader.written.lowered.then_some(sketch),
            target: road.target,
        };
        let measured = Profile::measure(&subject, &*session.backend, &session.limits, 0).await?;
        let profile = measured.unwrap_or_else(|_| Profile::estimate(&subject));
        session.store.save(&ProfileRecord {
            candidate: leader.written.key,
            profile: profile.clone(),
            at: now(),
        })?;
        Ok(profile)
    }

    /// What the analyst recommends, with the number of its step; or why there is nothing to go on with.
    async fn analyse(
        &mut self,
        best: &Best,
        leader: &Leader,
        artifact: &Artifact,
        profile: Profile,
    ) -> Result<ControlFlow<String, (Recommendation, usize)>> {
        let (road, session) = (self.road, self.road.session);
        let pictures = session.pictures.as_ref().map(|draw| draw(&profile)).transpose()?;
        let context = AnalyseContext {
            task: road.task.clone(),
            source: leader.written.source.clone(),
            sketch: best.line.design.sketch.clone(),
            report: artifact.metadata.get("warnings").cloned().unwrap_or_default(),
            bound_seconds: bound(road.task, &best.line.design, road.target),
            pictures: pictures.unwrap_or_default(),
            passes: self.outcome.passes.clone(),
            trace: road.trace.clone(),
            profile,
        };
        let advice = match session.analyst.step(&context).await {
            Ok(Some(advice)) => advice,
            Ok(None) => {
                let reason = "the analyst sees nothing that is worth trying";
                return Ok(ControlFlow::Break(reason.to_owned()));
            }
            Err(error) if is_silence(&error) => return Ok(ControlFlow::Break(error.to_string())),
            Err(error) => return Err(error),
        };
        session.observer.event(Event::Recommended(&advice));
        let step = road.trace.step(&Taken {
            parents: &[leader.step],
            role: Analyst::NAME,
            agent: session.analyst.name(),
            why: &advice.why,
            proposal: &advice.what,
        })?;
        Ok(ControlFlow::Continue((advice, step)))
    }

    /// Lets the designer propose another design and brings that to a candidate; gives the reason if nothing comes of it.
    async fn redesigned(
        &mut self,
        best: &Best,
        advice: &Recommendation,
        seconds: f64,
        parents: &[usize],
    ) -> Result<Option<String>> {
        let road = self.road;
        // By default the next one begins with the fastest. A strategy may choose other parents, and inspirations.
        let improve = Improve {
            parents: vec![Known {
                sketch: best.line.design.sketch.clone(),
                seconds: Some(seconds),
            }],
            inspirations: Vec::new(),
            recommendation: Some(advice.clone()),
            passes: self.outcome.passes.clone(),
        };
        let context = DesignContext {
            improve: Some(improve),
            ..road.design_context()
        };
        let design = road.session.designer.step(&context).await?;
        if self.known.contains(&design.sketch.to_string()) {
            return Ok(Some("what was proposed is known".to_owned()));
        }
        let mut line = self.follow(design, parents, &advice.what)?;
        line.improve = context.improve;
        self.line = line;
        self.search().await?;
        Ok(None)
    }

    /// Lets the fixer change the source and brings that to a candidate; gives the reason if nothing comes of it.
    async fn rewritten(
        &mut self,
        best: &Best,
        leader: &Leader,
        advice: &Recommendation,
        parents: &[usize],
    ) -> Result<Option<String>> {
        let source = leader.written.source.clone();
        let wish = Wish::Faster(advice.clone());
        let Some(changed) = self.ask_fixer(source, wish, Vec::new()).await? else {
            return Ok(Some("the fixer knows no change".to_owned()));
        };
        self.line = best.line.of_source();
        self.judge_change(changed, leader.knobs.clone(), 0, parents, &advice.what)
            .await?;
        self.search().await?;
        Ok(None)
    }

    /// Lets what passed of the design that is worked on challenge the fastest.
    async fn compare(&mut self, best: &Best, fastest: &Leader) -> Result<(Ending, Option<Best>)> {
        let last = self.line.tried.last();
        let failure = last.and_then(|c| c.tried.failure.clone());
        let nothing = |why: &str| (Ending::Nothing(why.to_owned()), None);
        let Some(mut challenger) = self.tune().await? else {
            return Ok(match failure {
                Some(failure) => (Ending::Failed(failure), None),
                None => nothing("no candidate was tried"),
            });
        };
        if !self.stand(&mut challenger).await? {
            return Ok(nothing("what was fast failed when it was judged"));
        }
        let Some(leader) = challenger.leader().cloned() else {
            return Ok(nothing("nothing is left that passed"));
        };
        challenger.choose(self.road)?;
        if leader.written.key == fastest.written.key {
            return Ok(nothing("what was proposed is the same"));
        }
        let duel = self.duel(&leader, fastest).await?;
        let [own, theirs] = duel.contest.sides.as_slice() else {
            return Err(Error::unexpected("a duel has two sides"));
        };
        if let Some(failure) = &own.failure {
            self.road.fail(leader.written.key, failure)?;
            return Ok((Ending::Failed(failure.clone()), None));
        }
        if let Some(failure) = &theirs.failure {
            self.road.fail(fastest.written.key, failure)?;
            let known = fastest.attempt.and_then(|at| self.outcome.attempts.get_mut(at));
            if let Some(attempt) = known {
                attempt.verdict.failure = Some(failure.clone());
            }
            return Ok((
                Ending::Nothing("the fastest failed when it was timed".to_owned()),
                Some(challenger),
            ));
        }
        let Some(comparison) = duel.contest.against_best(Cache::Warm) else {
            return Ok(nothing("the duel was disturbed"));
        };
        let ratio = comparison.ratio;
        let speedup = best.speedup * ratio;
        self.road.trace.amend(leader.step, |record| {
            record.seconds = own.warm.median();
            record.speedup = Some(speedup);
        })?;
        if comparison.claim != Claim::Faster {
            return Ok((Ending::NotFaster(ratio), None));
        }
        challenger.speedup = speedup;
        Ok((Ending::Faster(ratio), Some(challenger)))
    }

    /// Lets two candidates take turns, unless they have before.
    async fn duel(&mut self, challenger: &Leader, fastest: &Leader) -> Result<Measurement> {
        let session = self.road.session;
        let policy = session.tuning.clone().unwrap_or_default().duel;
        let (own, theirs) = (challenger.written.key, fastest.written.key);
        if let Some(known) = self.road.duelled(own, theirs, &policy)? {
            return Ok(known);
        }
        let built = [
            self.road.build(&challenger.written)?,
            self.road.build(&fastest.written)?,
        ];
        let [Ok(challenger), Ok(fastest)] = built else {
            return Err(Error::unexpected("what was built before cannot be built again"));
        };
        let arena = self.arena()?;
        let mut side = arena.side(CHALLENGER, &challenger);
        let mut other = arena.side(FASTEST, &fastest).unjudged(FASTEST);
        arena.duel((own, &mut side), (theirs, &mut other), &policy).await
    }
}
