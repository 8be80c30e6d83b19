//! The simulated machine and sides whose times are known.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use akg_core::backend::{Cache, Execution, RunOutput};
use akg_core::timing::{Check, Returned, Side, SlotId, Testimony, Usage, Witness};
use akg_core::verdict::{Failure, FailureKind};
use async_trait::async_trait;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// The simulated machine: its clock and what slows it down.
pub(crate) struct World {
    pub(crate) now: f64,
    pub(crate) rng: ChaCha8Rng,
    /// Everything takes longer by this factor at this time.
    pub(crate) slowness: fn(f64) -> f64,
    /// Processor time that others used.
    pub(crate) others: f64,
}

pub(crate) type Shared = Arc<Mutex<World>>;

pub(crate) fn world(seed: u64) -> Shared {
    Arc::new(Mutex::new(World {
        now: 0.0,
        rng: ChaCha8Rng::seed_from_u64(seed),
        slowness: |_| 1.0,
        others: 0.0,
    }))
}

impl World {
    /// Passes `seconds`, longer by relative noise of this size and rarely by far more, and gives what they took.
    pub(crate) fn pass(&mut self, seconds: f64, noise: f64) -> f64 {
        // Twelve uniform numbers sum to nearly a normal one.
        let normal: f64 = (0..12).map(|_| self.rng.random::<f64>()).sum::<f64>() - 6.0;
        let outlier = if self.rng.random::<f64>() < 0.03 {
            4.0 * self.rng.random::<f64>()
        } else {
            0.0
        };
        let disturbed = if noise > 0.0 {
            (noise * normal).exp() + outlier
        } else {
            1.0
        };
        let taken = seconds * disturbed * (self.slowness)(self.now);
        self.now += taken;
        taken
    }
}

/// Those of the simulated machine.
const PROCESSORS: usize = 4;

pub(crate) struct Observer(pub(crate) Shared);

impl Witness for Observer {
    fn now(&self) -> Duration {
        Duration::from_secs_f64(self.0.lock().unwrap().now)
    }

    fn reference(&mut self) -> Duration {
        Duration::from_secs_f64(self.0.lock().unwrap().pass(1e-4, 0.0))
    }

    fn stolen(&mut self) -> Option<Duration> {
        Some(Duration::ZERO)
    }

    fn others(&mut self) -> Option<Usage> {
        Some(Usage {
            seconds: self.0.lock().unwrap().others,
            processors: PROCESSORS,
        })
    }
}

/// A side whose calls take a known time.
pub(crate) struct Simulated {
    pub(crate) name: &'static str,
    pub(crate) world: Shared,
    pub(crate) call: f64,
    pub(crate) noise: f64,
    /// Seconds for a batch of so many calls of `call` seconds.
    pub(crate) batch: fn(f64, u32) -> f64,
    /// The rate at which the time of a call grows, in each simulated second.
    pub(crate) growth: f64,
    /// How many processors others use meanwhile.
    pub(crate) crowd: f64,
    /// The execution from which on outputs are wrong.
    pub(crate) wrong_from: u32,
    pub(crate) executions: u32,
    /// Calls that an execution may have.
    pub(crate) slots: u32,
}

pub(crate) const CONSTANT: f64 = 30e-6;

pub(crate) fn side(name: &'static str, world: &Shared, call: f64) -> Simulated {
    Simulated {
        name,
        world: world.clone(),
        call,
        noise: 0.02,
        batch: |call, calls| call * f64::from(calls),
        growth: 0.0,
        crowd: 0.0,
        wrong_from: u32::MAX,
        executions: 0,
        slots: u32::MAX,
    }
}

impl Simulated {
    fn time(&mut self, Execution { calls, cache }: Execution) -> Duration {
        self.executions += 1;
        assert!(calls <= self.slots, "{calls} calls on {} slots", self.slots);
        let mut world = self.world.lock().unwrap();
        let call = self.call * (self.growth * world.now).exp();
        let cold = if cache == Cache::Cold { 3.0 } else { 1.0 };
        let constant = world.pass(CONSTANT, 0.1);
        let batch = world.pass(cold * (self.batch)(call, calls), self.noise);
        world.others += self.crowd * (constant + batch);
        Duration::from_secs_f64(constant + batch)
    }
}

#[async_trait]
impl Side for Simulated {
    fn name(&self) -> &str {
        self.name
    }

    async fn refresh(&mut self, _round: u32) -> akg_core::Result<Result<(), Failure>> {
        self.world.lock().unwrap().pass(1e-3, 0.1);
        Ok(Ok(()))
    }

    fn slots(&self) -> u32 {
        self.slots
    }

    async fn execute_all(
        &mut self,
        executions: &[Execution],
    ) -> akg_core::Result<Result<Vec<Duration>, Failure>> {
        Ok(Ok(executions.iter().map(|e| self.time(*e)).collect()))
    }

    async fn take(&mut self) -> akg_core::Result<Result<Option<Returned>, Failure>> {
        let wrong = self.executions >= self.wrong_from;
        let check: Check = Arc::new(move |_, _| {
            Ok(wrong.then(|| Failure::new(FailureKind::WrongValues, "wrong in a timed round")))
        });
        let output = RunOutput {
            outputs: Vec::new(),
            inputs_unchanged: true,
        };
        Ok(Ok(Some(Returned::new(
            check,
            vec![(SlotId { round: 0, index: 0 }, output)],
        ))))
    }

    fn testimony(&self) -> Testimony {
        Testimony {
            time: None,
            page_faults: Some(3),
        }
    }
}
