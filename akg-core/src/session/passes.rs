//! Passes that make a verified kernel faster.
//!
//! After KForge's optimisation passes (arXiv 2606.02963, section 3), on a population: a [strategy](crate::search) says what a pass
//! goes on from. Where that is one kernel, the analyst reads its profile and recommends one change, and the designer or the fixer
//! proposes it; where it is two, or none, the designer proposes what it makes of them. What is not known is judged, repaired and
//! tuned like the first one, and then challenges the fastest in a duel. What is not faster beyond the noise stays in the
//! population with its time, and later passes are told of it.
//!
//! Agents may be asked for the next passes while one is judged: each pass begins when a fixed number of passes before it have not
//! ended yet. So what it sees does not depend on how long anything takes.
//!
//! Strategies draw from a seed and see nothing but what became of passes, which the store knows: a run that was killed takes
//! the same decisions again.

use std::ops::ControlFlow;
use std::sync::Arc;

use super::Event;
use super::asked::{Answer, Parent, Proposal, Queue, Start};
use super::best::Best;
use super::line::Line;
use super::plan::bound;
use super::run::{Run, is_silence};
use super::tune::Leader;
use crate::agent::Role as _;
use crate::analyst::{AnalyseContext, Analyst};
use crate::digest::Digest;
use crate::error::{Error, ErrorKind, Result};
use crate::pass::{Ending, Pass};
use crate::profile::{Profile, Subject};
use crate::search::fingerprint::{of_sketch, of_source};
use crate::search::{self, Measured, Move};
use crate::source::{Artifact, Source};
use crate::store::{ProfileRecord, StoreExt as _, now};
use crate::trace::Taken;
use crate::verdict::FailureKind;

/// The role of strategies in a trace.
const STRATEGY: &str = "strategy";

/// What is said of a proposal that is the same as another.
pub(super) const KNOWN: &str = "what was proposed is known";

impl Run<'_> {
    /// Lets agents make what passed faster, as long as the budget, the number of passes and the strategy allow. Gives all that
    /// passed, the fastest last.
    pub(super) async fn improve(&mut self, mut first: Best) -> Result<Vec<Best>> {
        let (road, session) = (self.road, self.road.session);
        if session.passes == 0 {
            return Ok(vec![first]);
        }
        if !session.backend.capability().times {
            "the backend does not time, so that nothing can be shown to be faster"
                .clone_into(&mut self.outcome.stopped);
            return Ok(vec![first]);
        }
        if !self.stand(&mut first).await? {
            return Ok(vec![first]);
        }
        let strategy = match &session.strategy {
            Some(strategy) => Arc::clone(strategy),
            None => Arc::new(search::strategy(
                search::DEFAULT,
                search::SEED,
                session.passes + 1,
            )?),
        };
        self.found(first).await?;
        let mut stopped = "all passes are made".to_owned();
        let mut asked = Queue::default();
        while self.outcome.passes.len() < session.passes {
            if self.exhausted() {
                "the budget is spent".clone_into(&mut stopped);
                break;
            }
            if self.fastest().await?.is_none() {
                "nothing is left that passed".clone_into(&mut stopped);
                break;
            }
            let left = session.passes - self.outcome.passes.len();
            let mut refused = None;
            while refused.is_none() && asked.len() < left.min(session.lookahead + 1) {
                match strategy.next(&self.pool.population) {
                    ControlFlow::Continue(next) => {
                        asked.push(road, self.start(&next, strategy.name()).await?);
                    }
                    ControlFlow::Break(stop) => refused = Some(stop.to_string()),
                }
            }
            let Some(answer) = asked.pop().await else {
                stopped = refused.unwrap_or(stopped);
                break;
            };
            match asked.beside(road, Box::pin(self.pass(answer))).await? {
                ControlFlow::Continue(pass) => {
                    session.observer.event(Event::Pass(&pass));
                    self.outcome.passes.push(pass);
                }
                ControlFlow::Break(reason) => {
                    stopped = reason;
                    break;
                }
            }
        }
        self.outcome.stopped = stopped;
        Ok(std::mem::take(&mut self.pool).into_bests())
    }

    /// Begins the population with what passed.
    async fn found(&mut self, mut first: Best) -> Result<()> {
        first.choose(self.road)?;
        let Some(leader) = first.leader().cloned() else {
            return Err(Error::unexpected("what passed first is not there"));
        };
        // What other members take follows from duels; the time of the first is that of its profile.
        let profile = self.profile(&first, &leader, &self.rebuilt(&leader)?).await?;
        let population = &mut self.pool.population;
        let inspirations = Vec::new();
        let number = population.begin(&Move::Fresh { inspirations })?;
        let line = &first.line;
        let sketches = line.failed.iter().map(|failed| &failed.sketch);
        let sketches = sketches.chain([&line.design.sketch]).map(of_sketch);
        for print in sketches {
            population.identify(number, print)?;
        }
        let print = self.print_of(&leader.written.source)?;
        self.pool.population.identify(number, print)?;
        let known = Some(profile.seconds).filter(|seconds| seconds.is_finite() && *seconds > 0.0);
        let measured = Measured {
            seconds: known.unwrap_or(1.0),
            spread: 0.0,
        };
        let hints = &self.road.task.contract.hints;
        self.pool.admit(number, first, measured, hints)
    }

    /// The fingerprint of a source.
    pub(super) fn print_of(&self, source: &Source) -> Result<Digest> {
        of_source(source, self.road.session.dsl.capability().syntax)
    }

    /// The fastest member with its time; those that failed meanwhile are it no more.
    pub(super) async fn fastest(&mut self) -> Result<Option<(usize, Measured)>> {
        while let Some((number, measured)) = self.pool.fastest() {
            let Some(mut best) = self.pool.take(number) else {
                break;
            };
            let stands = self.stand(&mut best).await?;
            if stands {
                best.choose(self.road)?;
            }
            let failure = best.line.last_failure();
            let kind = failure.map_or(FailureKind::Rejected, |(_, failure)| failure.kind);
            self.pool.put(number, best);
            if stands {
                return Ok(Some((number, measured)));
            }
            self.pool.fail(number, kind)?;
        }
        Ok(None)
    }

    /// Begins a member as a strategy wants it, and takes down that choice as a step.
    async fn start(&mut self, next: &Move, strategy: &str) -> Result<Start> {
        let passes = &self.outcome.passes;
        let improve = self.pool.improve(next, passes)?;
        let parents = next.parents().iter();
        let parents = parents.map(|parent| Ok(self.leader(*parent)?.step));
        let mut steps = parents.collect::<Result<Vec<usize>>>()?;
        let why = self.pool.population.account(next);
        steps.push(self.road.trace.step(&Taken {
            parents: &steps,
            role: STRATEGY,
            agent: strategy,
            why: &why,
            proposal: &next.to_string(),
        })?);
        let number = self.pool.population.begin(next)?;
        let parent = match next {
            Move::Improve { parent, .. } => Some(self.parent(*parent).await?),
            Move::Fresh { .. } | Move::Cross { .. } => None,
        };
        Ok(Start {
            number,
            steps,
            why: next.to_string(),
            parent,
            improve,
        })
    }

    /// A member that is to become faster, with what the analyst is shown of it.
    async fn parent(&self, number: usize) -> Result<Parent> {
        let (road, session) = (self.road, self.road.session);
        let (best, leader) = (self.pool.best(number)?, self.leader(number)?);
        let artifact = self.rebuilt(leader)?;
        let profile = self.profile(best, leader, &artifact).await?;
        let pictures = session.pictures.as_ref().map(|draw| draw(&profile)).transpose()?;
        let shown = AnalyseContext {
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
        Ok(Parent {
            number,
            leader: leader.clone(),
            line: best.line.clone(),
            shown,
        })
    }

    /// Judges what agents answered; or says why nothing more comes of asking them.
    async fn pass(&mut self, mut answer: Answer) -> Result<ControlFlow<String, Pass>> {
        let advice = answer.advice.take();
        if let (Some((advice, trace)), Some(parent)) = (&advice, &answer.start.parent) {
            let step = trace.step(&Taken {
                parents: &answer.start.steps,
                role: Analyst::NAME,
                agent: self.road.session.analyst.name(),
                why: &advice.why,
                proposal: &advice.what,
            })?;
            answer.start.steps = vec![parent.leader.step, step];
        }
        let advice = advice.map(|(advice, _)| advice);
        let (number, role, trace) = (answer.start.number, answer.role, answer.trace.clone());
        let is_analyst = role == Analyst::NAME;
        let proposed = match std::mem::replace(&mut answer.proposed, Ok(None)) {
            Ok(Some(proposal)) => Box::pin(self.bring(proposal, answer)).await,
            Ok(None) if is_analyst => {
                let reason = "the analyst sees nothing that is worth trying".to_owned();
                // Of another than the fastest, that says nothing about the others.
                let seen = answer.start.parent.map(|parent| parent.number);
                if self
                    .pool
                    .fastest()
                    .is_none_or(|(fastest, _)| Some(fastest) == seen)
                {
                    return Ok(ControlFlow::Break(reason));
                }
                Ok(Some(reason))
            }
            Ok(None) => Ok(Some("the fixer knows no change".to_owned())),
            Err(error) => Err(error),
        };
        let ending = match proposed {
            Ok(None) => self.compare(number).await?,
            Ok(Some(why)) => Ending::Nothing(why),
            Err(error) if error.kind() == ErrorKind::Unsupported && !is_analyst => {
                Ending::Nothing(error.to_string())
            }
            Err(error) if is_silence(&error) => return Ok(ControlFlow::Break(error.to_string())),
            Err(error) => return Err(error),
        };
        self.road.trace.join(&trace);
        self.pool.conclude(number, &ending, &self.line)?;
        Ok(ControlFlow::Continue(Pass::new(advice, role, ending)))
    }

    /// What is the fastest of a member.
    pub(super) fn leader(&self, number: usize) -> Result<&Leader> {
        let leader = self.pool.best(number)?.leader();
        leader.ok_or_else(|| Error::unexpected("a member of the search that failed was chosen"))
    }

    /// What was built of a candidate before.
    pub(super) fn rebuilt(&self, leader: &Leader) -> Result<Artifact> {
        self.road.build(&leader.written)?.map_err(|failure| {
            let evidence = &failure.evidence;
            Error::unexpected(format!("what was built before cannot be built again: {evidence}"))
        })
    }

    /// Where the time of a candidate goes: as it was found before, if it was, so that who is shown it is asked nothing new.
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

    /// Brings what is proposed to a candidate that was judged; gives the reason if nothing comes of it.
    async fn bring(&mut self, proposal: Proposal, answer: Answer) -> Result<Option<String>> {
        let Answer { start, trace, .. } = answer;
        let taken = (&trace, start.steps.as_slice(), start.why.as_str());
        match (proposal, start.parent) {
            (Proposal::Design(design), _) => {
                let print = of_sketch(&design.sketch);
                if self.pool.population.identify(start.number, print)?.is_some() {
                    return Ok(Some(KNOWN.to_owned()));
                }
                self.line = Line {
                    improve: Some(start.improve),
                    member: Some(start.number),
                    ..self.follow(*design, taken)?
                };
            }
            (Proposal::Source(source), Some(parent)) => {
                let change = self.road.admit(*source)?;
                let print = self.print_of(&change.0.source)?;
                if self.pool.population.identify(start.number, print)?.is_some() {
                    return Ok(Some(KNOWN.to_owned()));
                }
                self.line = Line {
                    member: Some(start.number),
                    ..parent.line.of_source()
                };
                self.judge_change(change, (parent.leader.knobs, 0), taken).await?;
            }
            (Proposal::Source(_), None) => return Err(Error::unexpected("a source is changed by advice")),
        }
        self.search().await?;
        Ok(None)
    }
}
