//! Profiles of artifacts: measured on a backend, or estimated without.

use std::collections::BTreeSet;
use std::time::Duration;

use super::diagnose::{Facts, diagnose, overall};
use super::{LaunchProfile, Observation, Observed, Profile, Resources, Work};
use crate::backend::{Backend, Cache, Call, Limits, Loaded, Poison};
use crate::error::Result;
use crate::image::Images;
use crate::sketch::{Sketch, cost};
use crate::source::{Artifact, Knobs, LaunchPlan, sketch_knobs};
use crate::target::Target;
use crate::task::Task;
use crate::verdict::Failure;
use crate::verify::{Distribution, make_inputs};

/// Batches that are timed.
const BATCHES: usize = 5;

/// A batch takes at least so long.
const BATCH: Duration = Duration::from_millis(20);

/// Calls of a batch at most.
const MOST_CALLS: u32 = 1 << 14;

/// Calls in which single launches are observed.
const OBSERVED_CALLS: u32 = 20;

/// What a profile is of.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// What is computed. Dims have the contract's hints.
    pub task: &'a Task,
    /// What is executed: it should have passed.
    pub artifact: &'a Artifact,
    /// The sketch that it was lowered from and its knobs, which say what there is to do; `None` if it was not.
    pub sketch: Option<(&'a Sketch, &'a Knobs)>,
    /// The device.
    pub target: &'a Target,
}

impl Profile {
    /// Executes an artifact on a backend's device, on inputs that `seed` gives. An artifact that fails is the inner error.
    ///
    /// Launches are timed by the backend if it [observes](crate::backend::BackendCapability::observes) them. Otherwise the
    /// time of one is what the plan takes up to it, less what it takes up to the one before.
    ///
    /// # Errors
    /// For the backend's own trouble.
    pub async fn measure(
        subject: &Subject<'_>,
        backend: &dyn Backend,
        limits: &Limits,
        seed: u64,
    ) -> Result<Result<Profile, Failure>> {
        let (task, artifact) = (subject.task, subject.artifact);
        let dims = &task.contract.hints;
        let call = Call {
            inputs: make_inputs(task, backend, Distribution::Contract, seed, dims)?,
            dims: dims.clone(),
            poison: Poison::Ones,
            placement: 0,
        };
        let limits = &limits.for_task(task, subject.target)?;
        let mut loaded = match prepare(backend, artifact.clone(), limits, &call).await? {
            Ok(loaded) => loaded,
            Err(failure) => return Ok(Err(failure)),
        };
        let seconds = match time(&mut *loaded).await? {
            Ok(seconds) => seconds,
            Err(failure) => return Ok(Err(failure)),
        };
        let observed = if backend.capability().observes {
            loaded.observe(OBSERVED_CALLS).await?
        } else {
            drop(loaded);
            apart(subject, backend, limits, &call, seconds).await?
        };
        let observation = match observed {
            Ok(observation) => observation,
            Err(failure) => return Ok(Err(failure)),
        };
        Ok(Ok(subject.profile(Some(seconds), observation)))
    }

    /// What can be said without a device: the cost model's times, and what the compiler reports.
    pub fn estimate(subject: &Subject<'_>) -> Profile {
        let mut observation = Observation::default();
        observation
            .notes
            .push("nothing was executed: times are the cost model's".to_owned());
        subject.profile(None, observation)
    }
}

/// Loads an artifact, binds its tensors and executes it once.
async fn prepare(
    backend: &dyn Backend,
    artifact: Artifact,
    limits: &Limits,
    call: &Call,
) -> Result<Result<Box<dyn Loaded>, Failure>> {
    let mut loaded = match backend.load(artifact, limits.clone()).await? {
        Ok(loaded) => loaded,
        Err(failure) => return Ok(Err(failure)),
    };
    if let Err(failure) = loaded.bind(call.clone()).await? {
        return Ok(Err(failure));
    }
    Ok(loaded.execute(1, Cache::Warm).await?.map(|_| loaded))
}

/// Seconds of one call, of a batch that is long enough. What disturbs a batch makes it longer, so the least of several
/// counts, less the least time of a batch without calls.
async fn time(loaded: &mut dyn Loaded) -> Result<Result<f64, Failure>> {
    let mut calls = 1;
    loop {
        let (mut constant, mut batch) = (Duration::MAX, Duration::MAX);
        for _ in 0..BATCHES {
            for (least, calls) in [(&mut constant, 0), (&mut batch, calls)] {
                match loaded.execute(calls, Cache::Warm).await? {
                    Ok(time) => *least = time.min(*least),
                    Err(failure) => return Ok(Err(failure)),
                }
            }
        }
        if batch >= BATCH || calls == MOST_CALLS {
            let net = batch.saturating_sub(constant).as_secs_f64();
            return Ok(Ok(net / f64::from(calls)));
        }
        calls = (calls * 4).min(MOST_CALLS);
    }
}

/// Times the launches of a plan by what each adds to those before it, `whole` being the seconds of all.
async fn apart(
    subject: &Subject<'_>,
    backend: &dyn Backend,
    limits: &Limits,
    call: &Call,
    whole: f64,
) -> Result<Result<Observation, Failure>> {
    let count = subject.artifact.plan.launches.len();
    let mut observation = Observation::default();
    let mut before = 0.0;
    for end in 1..=count {
        let upto = if end == count {
            whole
        } else {
            let mut artifact = subject.artifact.clone();
            artifact.plan.launches.truncate(end);
            let mut loaded = match prepare(backend, artifact, limits, call).await? {
                Ok(loaded) => loaded,
                Err(failure) => return Ok(Err(failure)),
            };
            match time(&mut *loaded).await? {
                Ok(seconds) => seconds,
                Err(failure) => return Ok(Err(failure)),
            }
        };
        observation.launches.push(Observed {
            seconds: f64::max(upto - before, 0.0),
            ..Observed::default()
        });
        before = f64::max(upto, before);
    }
    if count > 1 {
        observation
            .notes
            .push("the time of a launch is what it adds to those before it".to_owned());
    }
    Ok(Ok(observation))
}

impl Subject<'_> {
    /// Puts together what is known. `seconds` are those of a measured call.
    fn profile(&self, seconds: Option<f64>, observation: Observation) -> Profile {
        let plan = &self.artifact.plan;
        let mut notes = observation.notes;
        let works = self.works(&mut notes);
        let reports = Images::decode(self.artifact).unwrap_or_default();
        let mut observed = observation.launches.into_iter();
        let mut launches: Vec<LaunchProfile> = Vec::with_capacity(plan.launches.len());
        for (launch, work) in plan.launches.iter().zip(works) {
            let programs = LaunchPlan::programs(launch, &self.task.contract.hints).unwrap_or(0);
            let programs = u64::try_from(programs).unwrap_or(0);
            let compiled = reports
                .get(&launch.kernel)
                .map(|image| Resources::of_image(image, programs))
                .unwrap_or_default();
            let Observed {
                seconds: time,
                resources,
                counters,
            } = observed.next().unwrap_or_else(|| Observed {
                seconds: work.estimate_seconds,
                ..Observed::default()
            });
            let resources = Resources {
                programs,
                ..resources.or(&compiled)
            };
            let occupancy = resources.occupancy(self.target);
            let facts = Facts {
                seconds: time,
                work: &work,
                resources: &resources,
                occupancy: occupancy.as_ref(),
                counters: counters.as_ref(),
            };
            launches.push(LaunchProfile {
                kernel: launch.kernel.clone(),
                doc: launch.doc.clone(),
                seconds: time,
                share: 0.0,
                finding: diagnose(&facts, self.target),
                work,
                resources,
                occupancy,
                counters,
            });
        }
        let sum: f64 = launches.iter().map(|l| l.seconds).sum();
        for launch in &mut launches {
            launch.share = if sum > 0.0 { launch.seconds / sum } else { 0.0 };
        }
        Profile {
            name: self.task.name.clone(),
            target: self.target.clone(),
            measured: seconds.is_some(),
            seconds: seconds.unwrap_or(sum),
            finding: overall(&launches),
            launches,
            notes,
        }
    }

    /// What each launch has to do.
    fn works(&self, notes: &mut Vec<String>) -> Vec<Work> {
        let (plan, dims) = (&self.artifact.plan, &self.task.contract.hints);
        let costs = self.sketch.and_then(|(sketch, knobs)| {
            let program = sketch.elaborate(&sketch_knobs(knobs), dims).ok()?;
            cost(&program, dims, self.target).ok()
        });
        let costs = costs.map_or_else(Vec::new, |cost| cost.kernels);
        // DSLs put the task's name before a kernel's, and kernels that are the same may have the name of the first.
        let mut seen = BTreeSet::new();
        let mut pairs = plan.launches.iter().zip(&costs);
        let are_those = pairs.all(|(l, cost)| !seen.insert(&l.kernel) || l.kernel.ends_with(&cost.name));
        if costs.len() == plan.launches.len() && are_those {
            return costs
                .iter()
                .map(|cost| Work::of_cost(cost, self.target))
                .collect();
        }
        notes.push(
            "no sketch says what the launches have to do: bytes are those of their tensors, operations are not counted"
                .to_owned(),
        );
        let launches = plan.launches.iter();
        launches
            .map(|launch| Work::of_tensors(launch, plan, dims, self.target))
            .collect()
    }
}
