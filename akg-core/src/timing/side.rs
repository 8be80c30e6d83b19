//! What takes part in a contest.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use rand::seq::index;

use super::slots::{Check, Returned, SlotData, SlotId, stretches};
use crate::backend::{Backend, Cache, Call, Execution, Limits, Loaded, Poison};
use crate::error::{Error, Result};
use crate::source::Artifact;
use crate::verdict::Failure;

/// What takes part in a contest. A side that fails is the inner `Err(Failure)`.
#[async_trait]
pub trait Side: Send {
    /// The name in reports.
    fn name(&self) -> &str;

    /// Begins a round, untimed: from here on every call has data of this round, which is the same for all sides.
    async fn refresh(&mut self, round: u32) -> Result<Result<(), Failure>>;

    /// The number of calls that one execution may have: no call uses data or memory of another.
    fn slots(&self) -> u32 {
        u32::MAX
    }

    /// Executes `calls` times, each on a slot that no call has used.
    ///
    /// Gives the wall time by the judge's clock. It includes a constant for asking and answering, which `calls` of 0
    /// measures. With [`Cache::Cold`] the caches are emptied first, outside that time.
    async fn execute(&mut self, calls: u32, cache: Cache) -> Result<Result<Duration, Failure>> {
        let times = self.execute_all(&[Execution { calls, cache }]).await?;
        Ok(times.map(|times| times.into_iter().sum()))
    }

    /// [Executes](Self::execute) one thing after the other and gives the time of each, with nothing of others in between as long
    /// as there are slots for all of them.
    async fn execute_all(&mut self, executions: &[Execution]) -> Result<Result<Vec<Duration>, Failure>>;

    /// Takes what the last executions left in slots chosen at random, to be judged; `None` if nobody does.
    /// [`refresh`](Self::refresh) comes before the next execution.
    async fn take(&mut self) -> Result<Result<Option<Returned>, Failure>>;

    /// Calls the process of the last round once more, on new data, and takes what it returns; `None` if nobody judges it.
    async fn once_more(&mut self) -> Result<Result<Option<Returned>, Failure>> {
        Ok(Ok(None))
    }

    /// What the side says about the longest of its last executions.
    fn testimony(&self) -> Testimony {
        Testimony::default()
    }
}

/// What a side says about an execution: reported beside what the judge measured, never instead.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Testimony {
    /// The time of all calls by the side's own clock.
    pub time: Option<Duration>,
    /// Pages that the system had to supply meanwhile.
    pub page_faults: Option<u64>,
}

/// Slots that are taken to be judged: some at random, and some of those that may have been left out.
const MOST_TAKEN: usize = 4;

/// An artifact as a side.
///
/// Where its memory lies makes a process faster or slower than another of the same program, by some percent and for all
/// of its life. So each round has a process of its own, unless making one takes too long: what chance gives to one round
/// it takes from another, and the interval of the ratio knows about it.
pub struct LoadedSide {
    name: String,
    backend: Arc<dyn Backend>,
    artifact: Artifact,
    limits: Limits,
    data: Arc<dyn SlotData>,
    /// `None` if its outputs are no longer judged.
    check: Option<Check>,
    loaded: Option<Box<dyn Loaded>>,
    /// Whether the last process took too long to make.
    keeps: bool,
    /// The first slot of this round that was never bound.
    next: SlotId,
    /// What is bound, and how many of these slots were used.
    bound: Vec<SlotId>,
    used: usize,
}

/// A process that takes longer than this to make stays for the next rounds.
const MOST_TO_MAKE: Duration = Duration::from_millis(150);

impl LoadedSide {
    /// A side that is timed on this data, and whose outputs `check` judges.
    pub fn new(
        name: impl Into<String>,
        backend: Arc<dyn Backend>,
        artifact: Artifact,
        limits: Limits,
        data: Arc<dyn SlotData>,
        check: Check,
    ) -> Self {
        Self {
            name: name.into(),
            backend,
            artifact,
            limits,
            data,
            check: Some(check),
            loaded: None,
            keeps: false,
            next: SlotId { round: 0, index: 0 },
            bound: Vec::new(),
            used: 0,
        }
    }

    /// The same side, with its processes, under another name for later contests in which its outputs are not judged: they
    /// were before, or will be.
    #[must_use]
    pub fn unjudged(self, name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            check: None,
            ..self
        }
    }

    fn loaded(&mut self) -> Result<&mut dyn Loaded> {
        match &mut self.loaded {
            Some(loaded) => Ok(&mut **loaded),
            None => Err(not_refreshed()),
        }
    }

    /// Binds this many slots of the round that no call has used.
    async fn bind(&mut self, count: u32) -> Result<Result<(), Failure>> {
        let SlotId { round, index } = self.next;
        let end = index.saturating_add(count);
        let made = self.data.inputs(round, index..end)?;
        let dims = self.data.dims().clone();
        let calls = made.into_iter().zip(index..).map(|(inputs, index)| Call {
            inputs,
            dims: dims.clone(),
            // Whoever looks for one of them meets the other in the next slot.
            poison: match (round ^ index) % 2 {
                0 => Poison::Ones,
                _ => Poison::Finite,
            },
            placement: round % 2,
        });
        let calls: Vec<Call> = calls.collect();
        self.next.index = end;
        self.bound = (index..end).map(|index| SlotId { round, index }).collect();
        self.used = 0;
        self.loaded()?.bind_slots(calls).await
    }

    /// Takes these of the bound slots.
    async fn returned(&mut self, slots: &[usize]) -> Result<Result<Option<Returned>, Failure>> {
        let Some(check) = self.check.clone() else {
            return Ok(Ok(None));
        };
        let taken = self.loaded()?.take_slots(slots).await?;
        let ids: Vec<SlotId> = slots
            .iter()
            .filter_map(|slot| self.bound.get(*slot).copied())
            .collect();
        self.bound.clear();
        self.used = 0;
        Ok(taken.map(|outputs| Some(Returned::new(check, ids.into_iter().zip(outputs).collect()))))
    }
}

fn not_refreshed() -> Error {
    Error::invalid("a side is refreshed before it is executed")
}

impl fmt::Debug for LoadedSide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadedSide")
            .field("name", &self.name)
            .field("loaded", &self.loaded)
            .field("data", &self.data)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Side for LoadedSide {
    fn name(&self) -> &str {
        &self.name
    }

    async fn refresh(&mut self, round: u32) -> Result<Result<(), Failure>> {
        self.next = SlotId { round, index: 0 };
        self.bound.clear();
        self.used = 0;
        let began = Instant::now();
        if !self.keeps {
            // The process before ends first: it holds memory.
            self.loaded = None;
        }
        if self.loaded.is_none() {
            match self
                .backend
                .load(self.artifact.clone(), self.limits.clone())
                .await?
            {
                Ok(loaded) => self.loaded = Some(loaded),
                Err(failure) => return Ok(Err(failure)),
            }
        }
        self.keeps |= began.elapsed() > MOST_TO_MAKE;
        Ok(Ok(()))
    }

    fn slots(&self) -> u32 {
        let own = self.loaded.as_ref().map(|loaded| loaded.slots(self.data.dims()));
        // An artifact without a slot fails when it is bound.
        let own = own.and_then(Result::ok).unwrap_or(1).clamp(1, u32::MAX as usize);
        self.data.capacity().min(own as u32).max(1)
    }

    async fn execute_all(&mut self, executions: &[Execution]) -> Result<Result<Vec<Duration>, Failure>> {
        let mut times = Vec::with_capacity(executions.len());
        for together in stretches(executions, self.slots()) {
            let calls: u32 = together.iter().map(|e| e.calls).sum();
            if (calls > 0 || self.bound.is_empty())
                && let Err(failure) = self.bind(calls.max(1)).await?
            {
                return Ok(Err(failure));
            }
            match self.loaded()?.execute_all(together).await? {
                Ok(some) => times.extend(some),
                Err(failure) => return Ok(Err(failure)),
            }
            self.used += calls as usize;
        }
        Ok(Ok(times))
    }

    async fn take(&mut self) -> Result<Result<Option<Returned>, Failure>> {
        if self.check.is_none() {
            return Ok(Ok(None));
        }
        let used = self.used.min(self.bound.len());
        let loaded = self.loaded()?;
        let suspects = loaded.untouched(used).await?;
        let random = index::sample(&mut rand::rng(), used, MOST_TAKEN.min(used));
        let suspects = suspects.into_iter().filter(|slot| *slot < used).take(MOST_TAKEN);
        let slots: BTreeSet<usize> = random.into_iter().chain(suspects).collect();
        let slots: Vec<usize> = slots.into_iter().collect();
        self.returned(&slots).await
    }

    async fn once_more(&mut self) -> Result<Result<Option<Returned>, Failure>> {
        if self.check.is_none() || self.loaded.is_none() {
            return Ok(Ok(None));
        }
        if let Err(failure) = self.bind(1).await? {
            return Ok(Err(failure));
        }
        if let Err(failure) = self.loaded()?.execute(1, Cache::Warm).await? {
            return Ok(Err(failure));
        }
        self.returned(&[0]).await
    }
}

#[cfg(test)]
mod tests;
