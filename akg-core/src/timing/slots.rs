//! The data that sides are timed on.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::backend::{Execution, RunOutput};
use crate::error::Result;
use crate::expr::Bindings;
use crate::tensor::Tensor;
use crate::verdict::Failure;

/// A slot of a round: the place of one timed call, which is used once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SlotId {
    /// The number of the round.
    pub round: u32,
    /// The number of the slot in its round.
    pub index: u32,
}

/// Makes the data of a contest. Every slot has data of its own, which nobody who does not know the contest's secret can tell.
pub trait SlotData: Send + Sync + fmt::Debug {
    /// Values of the symbolic dims.
    fn dims(&self) -> &Bindings;

    /// The number of slots whose data may be in memory at a time, which is the same for all sides; at least 1.
    fn capacity(&self) -> u32;

    /// The inputs of each of these slots of a round, in the order of the graph's inputs and constants. All sides get the same.
    /// An input that does not change from slot to slot is the same tensor in all of them.
    fn inputs(&self, round: u32, slots: Range<u32>) -> Result<Vec<Vec<Tensor>>>;
}

/// Judges the outputs of the call in a slot.
pub type Check = Arc<dyn Fn(SlotId, &RunOutput) -> Result<Option<Failure>> + Send + Sync>;

/// What an execution returned, to be judged at any time: then or when the contest is over.
pub struct Returned {
    bytes: usize,
    judge: Box<dyn FnOnce() -> Result<Option<Failure>> + Send>,
}

impl Returned {
    /// Outputs of the calls in these slots. The first that is wrong is the failure.
    pub fn new(check: Check, outputs: Vec<(SlotId, RunOutput)>) -> Self {
        let bytes =
            |(_, output): &(SlotId, RunOutput)| output.outputs.iter().map(|o| o.bytes().len()).sum::<usize>();
        Self {
            bytes: outputs.iter().map(bytes).sum(),
            judge: Box::new(move || {
                for (slot, output) in &outputs {
                    if let Some(failure) = check(*slot, output)? {
                        return Ok(Some(failure));
                    }
                }
                Ok(None)
            }),
        }
    }

    /// Memory that it takes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether it is right.
    pub fn judge(self) -> Result<Option<Failure>> {
        (self.judge)()
    }

    /// The same without the outputs: judged already.
    pub(super) fn judged(self) -> Result<Self> {
        let failure = self.judge()?;
        Ok(Self {
            bytes: 0,
            judge: Box::new(move || Ok(failure)),
        })
    }
}

impl fmt::Debug for Returned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Returned")
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

/// Cuts executions that follow one another into stretches of at most so many calls, unless one execution alone has more. The
/// slots of a stretch are bound together.
pub fn stretches(executions: &[Execution], most: u32) -> Vec<&[Execution]> {
    let mut groups = Vec::new();
    let (mut first, mut calls) = (0, 0u32);
    for (at, execution) in executions.iter().enumerate() {
        let all = calls.saturating_add(execution.calls);
        if all > most && at > first {
            groups.extend(executions.get(first..at));
            (first, calls) = (at, execution.calls);
        } else {
            calls = all;
        }
    }
    groups.extend(executions.get(first..).filter(|rest| !rest.is_empty()));
    groups
}
