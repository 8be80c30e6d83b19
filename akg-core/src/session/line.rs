//! One design and what became of it.

use super::road::Road;
use super::tune::Leader;
use crate::conductor::Tried;
use crate::designer::{Design, FailedDesign, Improve};
use crate::error::Result;
use crate::source::{Knobs, sketch_knobs};
use crate::tuner::Memory;
use crate::verdict::Failure;

/// Legal configurations that the conductor can choose from, beside the designer's and the recorded one.
const MOST_POINTS: usize = 64;

/// One design and what became of it.
#[derive(Debug, Clone)]
pub(super) struct Line {
    pub(super) design: Design,
    /// The number of its step.
    pub(super) step: usize,
    /// What tuning knows of it.
    pub(super) memory: Memory,
    /// What the conductor can choose from.
    pub(super) points: Vec<Knobs>,
    /// The candidates, each with its step and its place among the attempts, if it was judged by itself.
    pub(super) tried: Vec<Candidate>,
    /// Whether the designer may have another design.
    pub(super) redesigns: bool,
    /// Whether the fixer may know a repair.
    pub(super) fixes: bool,
    /// Earlier designs that failed.
    pub(super) failed: Vec<FailedDesign>,
    /// What it is to be faster than.
    pub(super) improve: Option<Improve>,
    /// The member of the search that it is; `None` before anything passed.
    pub(super) member: Option<usize>,
    /// What passed.
    pub(super) passed: Vec<Leader>,
}

/// A candidate that was tried.
#[derive(Debug, Clone)]
pub(super) struct Candidate {
    pub(super) tried: Tried,
    /// The number of its step.
    pub(super) step: usize,
    /// Its place among the attempts, if it was judged.
    pub(super) attempt: Option<usize>,
}

impl Line {
    /// A design of which nothing was tried yet.
    pub(super) fn new(road: &Road<'_>, design: Design, step: usize) -> Result<Self> {
        let (session, hints) = (road.session, &road.task.contract.hints);
        let memory = Memory::recall(
            &*session.store,
            road.task,
            &design.sketch,
            road.target,
            (session.dsl.name(), &road.toolchain),
        )?;
        let recorded = memory.chosen().map(|r| r.knobs.clone());
        let known = recorded.filter(|k| design.sketch.elaborate(&sketch_knobs(k), hints).is_ok());
        let mut points = Vec::new();
        for point in known.into_iter().chain(design.points(hints).take(MOST_POINTS)) {
            if !points.contains(&point) {
                points.push(point);
            }
        }
        Ok(Self {
            design,
            step,
            memory,
            points,
            tried: Vec::new(),
            redesigns: true,
            fixes: true,
            failed: Vec::new(),
            improve: None,
            member: None,
            passed: Vec::new(),
        })
    }

    /// The last failure of its candidates, with the knob values.
    pub(super) fn last_failure(&self) -> Option<(&Knobs, &Failure)> {
        let mut latest = self.tried.iter().rev();
        latest.find_map(|c| Some((&c.tried.knobs, c.tried.failure.as_ref()?)))
    }

    /// The design with what it came to; `None` where it is not its own, because only a source of it was changed.
    pub(super) fn failed_by(&self, failure: &Failure) -> Option<FailedDesign> {
        let last = self.last_failure().map(|(knobs, _)| knobs);
        let is_own = !self.points.is_empty();
        is_own.then(|| FailedDesign {
            sketch: self.design.sketch.clone(),
            knobs: last.unwrap_or(&self.design.knobs).clone(),
            failure: failure.clone(),
        })
    }

    /// The same design, of which a source is to be changed: nothing is written from its sketch.
    pub(super) fn of_source(&self) -> Self {
        Self {
            points: Vec::new(),
            tried: Vec::new(),
            redesigns: false,
            fixes: true,
            failed: Vec::new(),
            improve: None,
            member: None,
            passed: Vec::new(),
            ..self.clone()
        }
    }
}
