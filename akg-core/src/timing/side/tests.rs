//! Sides that are artifacts.

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
        let inputs = slots.map(|index| Ok(vec![Tensor::from_slice([1], &[value(SlotId { round, index })])?]));
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
            outputs: if self.written.contains(slot) {
                self.bound[*slot].inputs.clone()
            } else {
                vec![Tensor::from_slice([1], &[-1.0f32]).unwrap()]
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
