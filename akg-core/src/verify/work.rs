//! Budgets of work. What is checked follows from them and from a task's operation count, on every machine and at any load.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::backend::Limits;
use crate::digest::{Fields, Fingerprint};
use crate::error::Result;
use crate::expr::Bindings;
use crate::reference::{EvaluationCost, Precision, RowPlan};
use crate::task::Task;
use crate::verdict::{Failure, FailureKind};

/// An amount of work, in operations of the reference: multiply-adds of a matrix product in f64, and what takes as long as
/// one of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Operations(pub u64);

impl Operations {
    /// All that there is.
    pub const MAX: Self = Self(u64::MAX);

    /// Operations that two cores of 2025 do in about a millisecond.
    const PER_MILLISECOND: u64 = 20_000_000;

    /// What two cores of 2025 do in about so many milliseconds. No clock is asked.
    pub const fn of_milliseconds(milliseconds: u64) -> Self {
        Self(milliseconds.saturating_mul(Self::PER_MILLISECOND))
    }

    /// A fourth of it.
    pub(super) const fn quarter(self) -> Self {
        Self(self.0 / 4)
    }
}

impl Fingerprint for Operations {
    fn feed(&self, to: &mut Fields) {
        self.0.feed(to);
    }
}

/// Part of an evaluation's operations that a kernel needs for the same: it computes in the task's own types.
const KERNEL: u64 = 3;

/// Operations of making an element of an input, and of handing over an element to a candidate or taking it back.
const MADE: u64 = 100;
const MOVED: u64 = 30;

/// Operations of asking a loaded candidate for one execution, and of loading it.
const ASKING: u64 = Operations::of_milliseconds(1).0;
const LOADING: u64 = Operations::of_milliseconds(25).0;

/// The operation counts of one task at some sizes.
#[derive(Debug, Clone, Copy)]
pub(super) struct TaskWork {
    pub(super) evaluation: EvaluationCost,
    /// Elements of all inputs, and of all outputs.
    inputs: u64,
    outputs: u64,
}

impl TaskWork {
    pub(super) fn new(task: &Task, dims: &Bindings) -> Result<Self> {
        let graph = &task.graph;
        let plan = RowPlan::new(graph, dims)?;
        let elements = |values: &mut dyn Iterator<Item = crate::graph::ValueId>| -> Result<u64> {
            let mut all = 0u64;
            for value in values {
                let shape = graph.ty(value).concrete_shape(dims)?;
                let count = shape
                    .iter()
                    .fold(1u64, |n, extent| n.saturating_mul(*extent as u64));
                all = all.saturating_add(count);
            }
            Ok(all)
        };
        Ok(Self {
            evaluation: EvaluationCost::new(graph, plan.as_ref(), dims, Precision::F64)?,
            inputs: elements(&mut graph.inputs().iter().map(|i| i.value))?,
            outputs: elements(&mut graph.outputs().iter().map(|o| o.value))?,
        })
    }

    /// Making a data set.
    pub(super) fn data(&self) -> Operations {
        Operations(self.inputs.saturating_mul(MADE))
    }

    /// One execution: inputs are handed over, memory is poisoned, outputs are taken and hashed.
    pub(super) fn execution(&self) -> Operations {
        let moved = self.inputs.saturating_add(self.outputs).saturating_mul(MOVED);
        let computed = self.evaluation.whole() / KERNEL;
        Operations(moved.saturating_add(computed).saturating_add(ASKING))
    }

    /// Loading a candidate and executing it once.
    pub(super) fn loading(&self) -> Operations {
        Operations(self.execution().0.saturating_add(LOADING))
    }
}

/// When a verifier gives up. It ends no check early and leaves none out: where it has passed, the verdict is
/// [`JudgeTimeout`](FailureKind::JudgeTimeout).
#[derive(Debug, Clone, Copy)]
pub(super) struct Deadline {
    began: Instant,
    most: Duration,
}

impl Deadline {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            began: Instant::now(),
            most: limits.judging,
        }
    }

    /// The failure, once it has passed.
    pub(super) fn failure(&self) -> Option<Failure> {
        let took = self.began.elapsed();
        (took > self.most).then(|| {
            let evidence = format!(
                "the judge is not done after {} s, its own limit of {} s: nothing was found out about the candidate; use a \
                 faster machine, a smaller problem or a higher limit",
                took.as_secs(),
                self.most.as_secs()
            );
            Failure::new(FailureKind::JudgeTimeout, evidence)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_passed_deadline_is_a_failure_of_the_judge() {
        let mut limits = Limits::default();
        assert!(Deadline::new(&limits).failure().is_none());
        limits.judging = Duration::ZERO;
        let deadline = Deadline::new(&limits);
        while deadline.began.elapsed().is_zero() {
            std::hint::spin_loop();
        }
        assert_eq!(deadline.failure().unwrap().kind, FailureKind::JudgeTimeout);
    }
}
