//! What takes part in a contest.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::backend::{Backend, Cache, Call, Execution, Limits, Loaded, RunOutput};
use crate::error::{Error, Result};
use crate::source::Artifact;
use crate::verdict::Failure;

/// What takes part in a contest. A side that fails is the inner `Err(Failure)`.
#[async_trait]
pub trait Side: Send {
    /// The name in reports.
    fn name(&self) -> &str;

    /// Prepares new data at new addresses, untimed. Sides of one contest that choose by the same seed choose the same
    /// data for the same `round`.
    async fn refresh(&mut self, round: u32) -> Result<Result<(), Failure>>;

    /// Executes `calls` times on what was prepared.
    ///
    /// Gives the wall time by the judge's clock. It includes a constant for asking and answering, which `calls` of 0
    /// measures. With [`Cache::Cold`] the caches are emptied first, outside that time.
    async fn execute(&mut self, calls: u32, cache: Cache) -> Result<Result<Duration, Failure>> {
        let times = self.execute_all(&[Execution { calls, cache }]).await?;
        Ok(times.map(|times| times.into_iter().sum()))
    }

    /// [Executes](Self::execute) one thing after the other and gives the time of each, with nothing of others in between.
    async fn execute_all(&mut self, executions: &[Execution]) -> Result<Result<Vec<Duration>, Failure>>;

    /// Takes what the last execution left in the outputs, to be judged; `None` if nobody does. [`refresh`](Self::refresh)
    /// comes before the next execution.
    async fn take(&mut self) -> Result<Result<Option<Returned>, Failure>>;

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

/// Judges the outputs of one of a side's calls, given by its position.
pub type Check = Arc<dyn Fn(usize, &RunOutput) -> Result<Option<Failure>> + Send + Sync>;

/// What an execution returned, to be judged at any time: then or when the contest is over.
pub struct Returned {
    bytes: usize,
    judge: Box<dyn FnOnce() -> Result<Option<Failure>> + Send>,
}

impl Returned {
    /// Outputs of the call at this position.
    pub fn new(check: Check, call: usize, output: RunOutput) -> Self {
        Self {
            bytes: output.outputs.iter().map(|o| o.bytes().len()).sum(),
            judge: Box::new(move || check(call, &output)),
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
    calls: Vec<Call>,
    /// `None` if its outputs are no longer judged.
    check: Option<Check>,
    seed: u64,
    loaded: Option<Box<dyn Loaded>>,
    /// Whether the last process took too long to make.
    keeps: bool,
    /// The position of the call that is bound.
    bound: usize,
}

/// A process that takes longer than this to make stays for the next rounds.
const MOST_TO_MAKE: Duration = Duration::from_millis(150);

impl LoadedSide {
    /// A side that takes one of `calls` for each round, at random by `seed`. They should differ in data and placement.
    pub fn new(
        name: impl Into<String>,
        backend: Arc<dyn Backend>,
        artifact: Artifact,
        limits: Limits,
        calls: Vec<Call>,
        check: Check,
        seed: u64,
    ) -> Self {
        Self {
            name: name.into(),
            backend,
            artifact,
            limits,
            calls,
            check: Some(check),
            seed,
            loaded: None,
            keeps: false,
            bound: 0,
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
            None => Err(Error::invalid("a side is refreshed before it is executed")),
        }
    }
}

impl fmt::Debug for LoadedSide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadedSide")
            .field("name", &self.name)
            .field("loaded", &self.loaded)
            .field("calls", &self.calls.len())
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Side for LoadedSide {
    fn name(&self) -> &str {
        &self.name
    }

    async fn refresh(&mut self, round: u32) -> Result<Result<(), Failure>> {
        self.bound = choice(self.seed, round, self.calls.len());
        let call = self
            .calls
            .get(self.bound)
            .ok_or_else(|| Error::invalid("a side needs at least one call to execute"))?;
        let (call, began) = (call.clone(), Instant::now());
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
        let bound = self.loaded()?.bind(call).await?;
        self.keeps |= began.elapsed() > MOST_TO_MAKE;
        Ok(bound)
    }

    async fn execute_all(&mut self, executions: &[Execution]) -> Result<Result<Vec<Duration>, Failure>> {
        self.loaded()?.execute_all(executions).await
    }

    async fn take(&mut self) -> Result<Result<Option<Returned>, Failure>> {
        let Some(check) = self.check.clone() else {
            return Ok(Ok(None));
        };
        let taken = self.loaded()?.take().await?;
        Ok(taken.map(|output| Some(Returned::new(check, self.bound, output))))
    }
}

/// Which of `count` data sets is used in `round`.
pub fn choice(seed: u64, round: u32, count: usize) -> usize {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(u64::from(round));
    rng.random_range(0..count.max(1))
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use futures::executor::block_on;

    use super::*;
    use crate::Tensor;
    use crate::backend::{BackendCapability, Poison};
    use crate::isolation::Isolation;
    use crate::source::LaunchPlan;
    use crate::target::Target;
    use crate::verdict::FailureKind;

    /// Gives back its input, and remembers where it lay.
    #[derive(Debug, Default)]
    struct Echo {
        isolation: Isolation,
        bound: Option<Call>,
        placements: Arc<Mutex<Vec<u32>>>,
    }

    #[async_trait]
    impl Loaded for Echo {
        fn isolation(&self) -> &Isolation {
            &self.isolation
        }

        async fn bind(&mut self, call: Call) -> Result<Result<(), Failure>> {
            self.placements.lock().unwrap().push(call.placement);
            self.bound = Some(call);
            Ok(Ok(()))
        }

        async fn execute(&mut self, calls: u32, _cache: Cache) -> Result<Result<Duration, Failure>> {
            Ok(Ok(Duration::from_micros(u64::from(calls))))
        }

        async fn take(&mut self) -> Result<Result<RunOutput, Failure>> {
            let Some(call) = self.bound.take() else {
                return Ok(Err(Failure::new(FailureKind::Crashed, "nothing is bound")));
            };
            Ok(Ok(RunOutput {
                outputs: call.inputs,
                inputs_unchanged: true,
            }))
        }
    }

    /// Loads echoes, and counts them.
    #[derive(Debug, Clone, Default)]
    struct Hall {
        capability: BackendCapability,
        placements: Arc<Mutex<Vec<u32>>>,
        loads: Arc<Mutex<usize>>,
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
            *self.loads.lock().unwrap() += 1;
            Ok(Ok(Box::new(Echo {
                placements: self.placements.clone(),
                ..Echo::default()
            })))
        }
    }

    fn side(seed: u64) -> (LoadedSide, Hall) {
        let hall = Hall::default();
        let artifact = Artifact {
            format: "echo".into(),
            bytes: Vec::new(),
            plan: LaunchPlan::default(),
            metadata: [].into(),
        };
        let call = |placement| Call {
            inputs: vec![Tensor::from_slice([1], &[placement as f32]).unwrap()],
            dims: [].into(),
            poison: Poison::Ones,
            placement,
        };
        let check: Check = Arc::new(|at, output| {
            let right = output.outputs[0].as_slice::<f32>()? == [at as f32];
            Ok((!right || at == 2).then(|| Failure::new(FailureKind::WrongValues, format!("call {at}"))))
        });
        let calls = (0..3).map(call).collect();
        let (backend, limits) = (Arc::new(hall.clone()), Limits::default());
        let side = LoadedSide::new("echo", backend, artifact, limits, calls, check, seed);
        (side, hall)
    }

    #[test]
    fn sides_of_one_seed_choose_alike_and_their_outputs_are_checked_as_what_they_are() {
        let ((mut a, of_a), (mut b, of_b), (mut c, of_c)) = (side(1), side(1), side(2));
        block_on(async {
            for round in 0..40 {
                for side in [&mut a, &mut b, &mut c] {
                    side.refresh(round).await.unwrap().unwrap();
                    side.execute(2, Cache::Warm).await.unwrap().unwrap();
                    let returned = side.take().await.unwrap().unwrap().unwrap();
                    let failure = returned.judge().unwrap();
                    assert_eq!(failure.is_some(), side.bound == 2, "{failure:?}");
                    // What was taken is no longer there.
                    assert!(side.take().await.unwrap().is_err());
                }
            }
        });
        let placements = |hall: &Hall| hall.placements.lock().unwrap().clone();
        assert_eq!(placements(&of_a), placements(&of_b));
        assert_ne!(placements(&of_a), placements(&of_c));
        assert!((0..3).all(|p| placements(&of_a).contains(&p)));
        // Each round has a process of its own.
        assert_eq!(*of_a.loads.lock().unwrap(), 40);
    }
}
