//! What agents are asked for passes, and what is found out about their answers, while others are judged.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use futures::future::{BoxFuture, FutureExt as _, MaybeDone, maybe_done};

use super::Event;
use super::line::Line;
use super::rehearsal::rehearse;
use super::road::Road;
use super::tune::Leader;
use crate::agent::Role as _;
use crate::analyst::{AnalyseContext, Analyst, Place, Recommendation};
use crate::designer::{Design, DesignContext, Designer, Improve};
use crate::error::Result;
use crate::fixer::{Fixer, Wish};
use crate::source::Source;
use crate::trace::Trace;

/// What a pass begins with, as it was then: what is judged while agents think does not change it.
pub(super) struct Start {
    /// The number of the member that it is to become.
    pub(super) number: usize,
    /// The steps of what it goes on from, and of the choice of that.
    pub(super) steps: Vec<usize>,
    /// The choice in words.
    pub(super) why: String,
    /// The only member that it goes on from, if it is one.
    pub(super) parent: Option<Parent>,
    /// What a designer is shown beside the task.
    pub(super) improve: Improve,
}

/// What is to become faster.
pub(super) struct Parent {
    pub(super) number: usize,
    pub(super) leader: Leader,
    pub(super) line: Line,
    /// What an analyst is shown.
    pub(super) shown: AnalyseContext,
}

/// What agents answered.
pub(super) struct Answer {
    pub(super) start: Start,
    /// What is advised to change in the parent, and where that was asked.
    pub(super) advice: Option<(Recommendation, Trace)>,
    /// The role of who was asked last.
    pub(super) role: &'static str,
    /// Where it was asked.
    pub(super) trace: Trace,
    /// What it proposes, if it knows anything.
    pub(super) proposed: Result<Option<Proposal>>,
}

/// What is proposed in a pass.
#[derive(Clone)]
pub(super) enum Proposal {
    Design(Box<Design>),
    Source(Box<Source>),
}

/// Passes whose agents are asked, the oldest first.
#[derive(Default)]
pub(super) struct Queue<'a> {
    passes: VecDeque<Pin<Box<MaybeDone<BoxFuture<'a, Answer>>>>>,
}

impl<'a> Queue<'a> {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.passes.len()
    }

    /// Asks for one more.
    pub(super) fn push(&mut self, road: &'a Road<'a>, start: Start) {
        self.passes
            .push_back(Box::pin(maybe_done(ask(road, start).boxed())));
    }

    /// The answer to the oldest; `None` if there is none.
    pub(super) async fn pop(&mut self) -> Option<Answer> {
        poll_fn(|context| {
            self.poll(context);
            let Some(first) = self.passes.front_mut() else {
                return Poll::Ready(None);
            };
            match first.as_mut().take_output() {
                None => Poll::Pending,
                Some(answer) => {
                    self.passes.pop_front();
                    Poll::Ready(Some(answer))
                }
            }
        })
        .await
    }

    /// Does something while agents are asked. They are not while something is timed on the processors that they would use.
    pub(super) async fn beside<T>(&mut self, road: &Road<'_>, work: impl Future<Output = T>) -> T {
        let is_shared = !road.session.backend.capability().own_processors;
        let mut work = pin!(work);
        poll_fn(|context| {
            if !(is_shared && road.is_timing.load(Ordering::Relaxed)) {
                self.poll(context);
            }
            work.as_mut().poll(context)
        })
        .await
    }

    fn poll(&mut self, context: &mut Context<'_>) {
        for pass in &mut self.passes {
            // Who wants its answer sees whether it is there.
            let _ = pass.as_mut().poll(context);
        }
    }
}

/// Where the agents of a pass are asked.
fn apart(road: &Road<'_>, number: usize) -> Trace {
    let are_several = road.session.lookahead > 0;
    road.trace.apart(are_several.then_some(number))
}

async fn ask(road: &Road<'_>, start: Start) -> Answer {
    let mut answer = Answer {
        advice: None,
        role: Analyst::NAME,
        trace: apart(road, start.number),
        start,
        proposed: Ok(None),
    };
    answer.proposed = answer.propose(road).await;
    if let Ok(Some(proposal)) = &answer.proposed {
        rehearse(road, answer.start.number, proposal).await;
    }
    answer
}

impl Answer {
    /// Lets the analyst look at the only parent, and the designer or the fixer propose something.
    async fn propose(&mut self, road: &Road<'_>) -> Result<Option<Proposal>> {
        let session = road.session;
        if let Some(parent) = &mut self.start.parent {
            parent.shown.trace = self.trace.clone();
            let Some(advised) = session.analyst.step(&parent.shown).await? else {
                return Ok(None);
            };
            session.observer.event(Event::Recommended(&advised));
            self.start.why.clone_from(&advised.what);
            self.start.improve.recommendation = Some(advised.clone());
            let asked = std::mem::replace(&mut self.trace, apart(road, self.start.number));
            self.advice = Some((advised.clone(), asked));
            if advised.place == Place::Source {
                self.role = Fixer::NAME;
                let source = parent.leader.written.source.clone();
                let asked = road.ask_fixer(self.trace.clone(), source, Wish::Faster(advised), Vec::new());
                return Ok(asked.await?.map(|source| Proposal::Source(Box::new(source))));
            }
        }
        self.role = Designer::NAME;
        let context = DesignContext {
            improve: Some(self.start.improve.clone()),
            trace: self.trace.clone(),
            ..road.design_context()
        };
        let design = session.designer.step(&context).await?;
        Ok(Some(Proposal::Design(Box::new(design))))
    }
}
