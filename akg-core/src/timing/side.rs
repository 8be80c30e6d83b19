//! What takes part in a contest.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use rand::seq::index;

use super::slots::{Check, Returned, SlotData, SlotId};
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
        for together in groups(executions, self.slots()) {
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
        let suspects = self.loaded()?.untouched(used).await?;
        let random = index::sample(&mut rand::rng(), used, MOST_TAKEN.min(used));
        let slots: BTreeSet<usize> = random
            .into_iter()
            .chain(suspects.into_iter().take(MOST_TAKEN))
            .collect();
        let slots: Vec<usize> = slots.into_iter().filter(|slot| *slot < used).collect();
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

/// Executions that follow one another, in stretches of at most so many calls unless one execution alone has more.
fn groups(executions: &[Execution], most: u32) -> Vec<&[Execution]> {
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

#[cfg(test)]
mod tests {
    use std::ops::Range;
    use std::sync::Mutex;

    use futures::executor::block_on;

    use super::*;
    use crate::Tensor;
    use crate::backend::{BackendCapability, RunOutput};
    use crate::expr::Bindings;
    use crate::isolation::Isolation;
    use crate::source::LaunchPlan;
    use crate::target::Target;
    use crate::verdict::FailureKind;

    /// What a slot holds.
    fn value(slot: SlotId) -> f32 {
        (slot.round * 1000 + slot.index) as f32
    }

    /// Names each slot.
    #[derive(Debug)]
    struct Names {
        dims: Bindings,
        capacity: u32,
    }

    impl SlotData for Names {
        fn dims(&self) -> &Bindings {
            &self.dims
        }

        fn capacity(&self) -> u32 {
            self.capacity
        }

        fn inputs(&self, round: u32, slots: Range<u32>) -> Result<Vec<Vec<Tensor>>> {
            let inputs =
                slots.map(|index| Ok(vec![Tensor::from_slice([1], &[value(SlotId { round, index })])?]));
            inputs.collect()
        }
    }

    /// What happened to all echoes of a hall.
    #[derive(Debug, Default)]
    struct Record {
        loads: usize,
        binds: Vec<Vec<f32>>,
        executed: Vec<f32>,
    }

    /// Gives back its input until it has been called too often, and remembers what it was given.
    #[derive(Debug)]
    struct Echo {
        isolation: Isolation,
        slots: usize,
        bound: Vec<Call>,
        next: usize,
        written: Vec<usize>,
        idle_from: usize,
        record: Arc<Mutex<Record>>,
    }

    #[async_trait]
    impl Loaded for Echo {
        fn isolation(&self) -> &Isolation {
            &self.isolation
        }

        async fn bind(&mut self, call: Call) -> Result<Result<(), Failure>> {
            self.bind_slots(vec![call]).await
        }

        fn slots(&self, _: &Bindings) -> Result<usize> {
            Ok(self.slots)
        }

        async fn bind_slots(&mut self, calls: Vec<Call>) -> Result<Result<(), Failure>> {
            assert!(calls.len() <= self.slots);
            let values = calls
                .iter()
                .map(|call| call.inputs[0].as_slice::<f32>().unwrap()[0]);
            self.record.lock().unwrap().binds.push(values.collect());
            (self.bound, self.next) = (calls, 0);
            self.written.clear();
            Ok(Ok(()))
        }

        async fn execute(&mut self, calls: u32, _cache: Cache) -> Result<Result<Duration, Failure>> {
            for _ in 0..calls {
                let mut record = self.record.lock().unwrap();
                let slot = self.next % self.bound.len();
                record
                    .executed
                    .push(self.bound[slot].inputs[0].as_slice::<f32>()?[0]);
                if record.executed.len() <= self.idle_from {
                    self.written.push(slot);
                }
                self.next += 1;
            }
            Ok(Ok(Duration::from_micros(u64::from(calls))))
        }

        async fn take(&mut self) -> Result<Result<RunOutput, Failure>> {
            let taken = self.take_slots(&[0]).await?;
            Ok(taken.map(|mut outputs| outputs.remove(0)))
        }

        async fn take_slots(&mut self, slots: &[usize]) -> Result<Result<Vec<RunOutput>, Failure>> {
            let output = |slot: &usize| RunOutput {
                outputs: match self.written.contains(slot) {
                    true => self.bound[*slot].inputs.clone(),
                    false => vec![Tensor::from_slice([1], &[-1.0f32]).unwrap()],
                },
                inputs_unchanged: true,
            };
            let outputs = slots.iter().map(output).collect();
            self.bound.clear();
            Ok(Ok(outputs))
        }

        async fn untouched(&mut self, used: usize) -> Result<Vec<usize>> {
            Ok((0..used).filter(|slot| !self.written.contains(slot)).collect())
        }
    }

    /// Loads echoes.
    #[derive(Debug, Clone, Default)]
    struct Hall {
        capability: BackendCapability,
        slots: usize,
        idle_from: usize,
        record: Arc<Mutex<Record>>,
    }

    #[async_trait]
    impl Backend for Hall {
        fn name(&self) -> &str {
            "hall"
        }

        fn capability(&self) -> &BackendCapability {
            &self.capability
        }

        async fn devices(&self) -> Result<Vec<Target>> {
            Ok(Vec::new())
        }

        async fn load(&self, _: Artifact, _: Limits) -> Result<Result<Box<dyn Loaded>, Failure>> {
            self.record.lock().unwrap().loads += 1;
            Ok(Ok(Box::new(Echo {
                isolation: Isolation::default(),
                slots: self.slots,
                bound: Vec::new(),
                next: 0,
                written: Vec::new(),
                idle_from: self.idle_from,
                record: self.record.clone(),
            })))
        }
    }

    fn side(hall: &Hall, capacity: u32) -> LoadedSide {
        let artifact = Artifact {
            format: "echo".into(),
            bytes: Vec::new(),
            plan: LaunchPlan::default(),
            metadata: [].into(),
        };
        let check: Check = Arc::new(|slot, output| {
            let right = output.outputs[0].as_slice::<f32>()? == [value(slot)];
            Ok((!right).then(|| Failure::new(FailureKind::WrongValues, format!("{slot:?}"))))
        });
        let dims = Bindings::new();
        let data = Arc::new(Names { dims, capacity });
        LoadedSide::new(
            "echo",
            Arc::new(hall.clone()),
            artifact,
            Limits::default(),
            data,
            check,
        )
    }

    fn hall(slots: usize, idle_from: usize) -> Hall {
        Hall {
            slots,
            idle_from,
            ..Hall::default()
        }
    }

    fn warm(calls: u32) -> Execution {
        Execution {
            calls,
            cache: Cache::Warm,
        }
    }

    #[test]
    fn no_call_uses_a_slot_of_another_however_few_there_are() {
        for (slots, capacity) in [(100, 100), (8, 100), (100, 8), (7, 9), (6, 6)] {
            let hall = hall(slots, usize::MAX);
            let mut side = side(&hall, capacity);
            block_on(async {
                for round in [3, 4] {
                    side.refresh(round).await.unwrap().unwrap();
                    assert_eq!(side.slots() as usize, slots.min(capacity as usize));
                    let executions = [warm(2), warm(6), warm(0), warm(1)];
                    let times = side.execute_all(&executions).await.unwrap().unwrap();
                    assert_eq!(times, [2, 6, 0, 1].map(Duration::from_micros));
                    let returned = side.take().await.unwrap().unwrap().unwrap();
                    assert_eq!(returned.judge().unwrap(), None);
                }
            });
            let record = hall.record.lock().unwrap();
            let wanted = [3, 4].map(|round| (0..9).map(move |index| value(SlotId { round, index })));
            assert_eq!(record.executed, wanted.into_iter().flatten().collect::<Vec<_>>());
            let bound: Vec<f32> = record.binds.iter().flatten().copied().collect();
            assert_eq!(record.executed, bound);
            // Each round has a process of its own.
            assert_eq!(record.loads, 2);
        }
    }

    #[test]
    fn a_side_that_is_idle_at_last_is_found_by_a_slot_that_nobody_wrote() {
        for idle_from in [0, 90, 98] {
            let hall = hall(100, idle_from);
            let mut side = side(&hall, 100);
            let failure = block_on(async {
                side.refresh(0).await.unwrap().unwrap();
                side.execute(99, Cache::Warm).await.unwrap().unwrap();
                side.take().await.unwrap().unwrap().unwrap().judge().unwrap()
            });
            assert!(failure.is_some(), "idle from {idle_from}");
        }
    }

    #[test]
    fn the_process_of_the_last_round_is_judged_once_more() {
        let hall = hall(10, 5);
        let mut side = side(&hall, 10);
        let once_more = |side: &mut LoadedSide| {
            let returned = block_on(side.once_more()).unwrap().unwrap();
            returned.unwrap().judge().unwrap()
        };
        block_on(async {
            side.refresh(7).await.unwrap().unwrap();
            side.execute(4, Cache::Warm).await.unwrap().unwrap();
        });
        assert_eq!(once_more(&mut side), None);
        assert!(once_more(&mut side).is_some());
        let record = hall.record.lock().unwrap();
        assert_eq!((record.loads, record.executed.len()), (1, 6));
        assert!(record.executed.is_sorted_by(|a, b| a < b));
    }
}
