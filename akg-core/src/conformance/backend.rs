//! What every backend must do.

use std::time::Duration;

use futures::future::join_all;

use crate::backend::{
    Backend, BackendExt as _, Cache, Call, Limits, Loaded, LoadedExt as _, Poison, RunOutput, RunRequest,
};
use crate::dtype::DType;
use crate::error::{ErrorKind, Result};
use crate::isolation::IsolationLevel;
use crate::profile::Observed;
use crate::source::Artifact;
use crate::tensor::Tensor;
use crate::verdict::{Failure, FailureKind};

use super::probe::Probe;
use super::report::{Report, Tried, broken, demand, skipped};

/// Judges a backend by [probes](Probe): results, poison, refusals, and what becomes of candidates that misbehave.
///
/// `make` gives the artifact of a probe in a format that the backend loads, with [`Probe::plan`] as its plan; `None` if
/// the format cannot say it, which skips the rule. The longest rules are those of candidates that hang or eat memory: a
/// few seconds.
pub async fn backend(
    backend: &dyn Backend,
    make: &(dyn Fn(Probe) -> Result<Option<Artifact>> + Sync),
) -> Report {
    let judge = Judge { backend, make };
    let mut report = Report::new(format!("backend `{}`", backend.name()));
    report.add("its capability is complete", judge.capability());
    let has_devices = judge.devices().await;
    let stop = has_devices.is_err();
    report.add("its devices carry its name", has_devices);
    if stop {
        return report;
    }
    report.add(
        "memory for inputs is zero, of the right size, and becomes a tensor",
        judge.allocate().await,
    );
    report.add(
        "outputs have the plan's types, shapes and values, for any dims",
        judge.runs().await,
    );
    report.add("tensors without elements are fine", judge.empty().await);
    report.add(
        "elements that are not written keep the poison",
        judge.poisons_outputs().await,
    );
    report.add(
        "scratch memory holds the poison at first",
        judge.poisons_scratch().await,
    );
    report.add("kernels run in the order of the plan", judge.order().await);
    report.add(
        "a changed input is reported, and the caller's tensor is as before",
        judge.overwritten().await,
    );
    report.add(
        "inputs that do not fit the plan are refused",
        judge.wrong_inputs().await,
    );
    report.add("a dim without a value is refused", judge.missing_dim().await);
    report.add("a foreign format is refused", judge.foreign_format().await);
    report.add(
        "an artifact that cannot be loaded is a failure",
        judge.damaged().await,
    );
    report.add(
        "a launch without a kernel is a failure",
        judge.missing_kernel().await,
    );
    report.add(
        "requests at the same time do not disturb each other",
        judge.concurrent().await,
    );
    report.add(
        "what is loaded executes any calls, in any order, at any placement",
        judge.calls().await,
    );
    report.add("outputs that were taken stay as they are", judge.stays().await);
    report.add(
        "executing and taking need tensors that are bound",
        judge.unbound().await,
    );
    report.add("calls go round the slots that are bound", judge.slots().await);
    report.add("executions are timed", judge.times().await);
    report.add("launches are observed as it says", judge.observes().await);
    report.add(
        "isolation is reported, and what is below the required level refused",
        judge.isolation().await,
    );
    report.add(
        "a crash is a failure",
        judge.misbehaves(Probe::Crash, &[FailureKind::Crashed]).await,
    );
    report.add(
        "an endless loop is a failure",
        judge.misbehaves(Probe::Hang, &[FailureKind::TimedOut]).await,
    );
    let exhausted = [FailureKind::OutOfMemory, FailureKind::Crashed];
    report.add(
        "taking all memory is a failure",
        judge.misbehaves(Probe::TakeMemory, &exhausted).await,
    );
    report
}

pub(super) struct Judge<'a> {
    backend: &'a dyn Backend,
    make: &'a (dyn Fn(Probe) -> Result<Option<Artifact>> + Sync),
}

/// Compares the only output, and demands that the inputs are unchanged.
pub(super) fn holds(output: &RunOutput, expected: &[f32]) -> Tried {
    demand(output.inputs_unchanged, || {
        "an input is said to have changed".to_owned()
    })?;
    let [y] = output.outputs.as_slice() else {
        return broken(format!("{} outputs instead of 1", output.outputs.len()));
    };
    demand(y.dtype() == DType::F32 && y.shape() == [expected.len()], || {
        format!("the output is {y:?} instead of f32[{}]", expected.len())
    })?;
    let got = y.as_slice::<f32>()?;
    let same = got
        .iter()
        .map(|v| v.to_bits())
        .eq(expected.iter().map(|v| v.to_bits()));
    demand(same, || {
        format!("the output holds {got:?} instead of {expected:?}")
    })
}

/// What must not fail.
pub(super) fn unfailing<T>(outcome: Result<T, Failure>) -> Tried<T> {
    outcome.or_else(|failure| broken(describe(&failure)))
}

/// A call on `values`.
pub(super) fn call(values: &[f32], placement: u32) -> Result<Call> {
    Ok(Call {
        inputs: vec![Tensor::from_slice([values.len()], values)?],
        dims: [("N".into(), values.len() as i64)].into(),
        poison: if placement.is_multiple_of(2) {
            Poison::Ones
        } else {
            Poison::Finite
        },
        placement,
    })
}

/// `len` values that are all different.
pub(super) fn values(len: usize) -> Vec<f32> {
    (0..len).map(|i| i as f32 - 1.5).collect()
}

fn doubled(len: usize) -> Vec<f32> {
    values(len).iter().map(|v| 2.0 * v).collect()
}

impl Judge<'_> {
    /// A run of `probe` on `len` elements.
    fn request(&self, probe: Probe, len: usize) -> Tried<RunRequest> {
        let Some(artifact) = (self.make)(probe)? else {
            return skipped(format!("there is no artifact for {probe:?}"));
        };
        Ok(RunRequest {
            artifact,
            inputs: vec![Tensor::from_slice([len], &values(len))?],
            dims: [("N".into(), len as i64)].into(),
            poison: Poison::Ones,
            limits: Limits::default(),
        })
    }

    async fn run(&self, request: RunRequest) -> Tried<RunOutput> {
        unfailing(self.backend.run(request).await?)
    }

    /// Loads `probe`.
    pub(super) async fn load(&self, probe: Probe) -> Tried<Box<dyn Loaded>> {
        let request = self.request(probe, 0)?;
        unfailing(self.backend.load(request.artifact, request.limits).await?)
    }

    /// Runs and compares the only output.
    async fn gives(&self, request: RunRequest, expected: &[f32]) -> Tried {
        holds(&self.run(request).await?, expected)
    }

    /// The failure of a run.
    async fn fails(&self, request: RunRequest) -> Tried<Failure> {
        match self.backend.run(request).await? {
            Err(failure) if failure.evidence.trim().is_empty() => {
                broken(format!("the failure `{}` has no evidence", failure.kind.name()))
            }
            Err(failure) => Ok(failure),
            Ok(output) => broken(format!("it runs and gives {:?}", output.outputs)),
        }
    }

    /// A run that must be refused as the caller's mistake.
    async fn refuses(&self, request: RunRequest, what: &str) -> Tried {
        match self.backend.run(request).await {
            Err(error) if error.kind() == ErrorKind::InvalidInput => Ok(()),
            Err(error) => broken(format!("{what}: the error is no invalid input: {error:?}")),
            Ok(Ok(_)) => broken(format!("{what}: it runs all the same")),
            Ok(Err(failure)) => broken(format!(
                "{what}: the candidate is blamed for the caller's mistake: {}",
                describe(&failure)
            )),
        }
    }

    fn capability(&self) -> Tried {
        demand(!self.backend.name().is_empty(), || {
            "the backend's name is empty".to_owned()
        })?;
        demand(!self.backend.capability().formats.is_empty(), || {
            "it loads no format".to_owned()
        })
    }

    async fn devices(&self) -> Tried {
        let devices = self.backend.devices().await?;
        if devices.is_empty() {
            return skipped("this machine has none, so that nothing can run");
        }
        for device in devices {
            demand(device.backend == self.backend.name(), || {
                format!(
                    "device `{}` says that its backend is `{}`",
                    device.name, device.backend
                )
            })?;
            demand(!device.arch.is_empty() && device.cores > 0, || {
                format!("device `{}` lacks an architecture or cores", device.name)
            })?;
        }
        Ok(())
    }

    async fn allocate(&self) -> Tried {
        let input = values(3);
        let mut buffer = self.backend.allocate(DType::F32, &[3])?;
        let bytes = buffer.bytes_mut();
        demand(bytes.len() == 12, || {
            format!("memory for f32[3] has {} bytes", bytes.len())
        })?;
        bytes.copy_from_slice(bytemuck::cast_slice(&input));
        let tensor = buffer.freeze()?;
        demand(
            tensor.as_slice::<f32>()? == input && tensor.shape() == [3],
            || format!("the tensor made from it is {tensor:?}"),
        )?;
        let mut request = self.request(Probe::Double, 3)?;
        request.inputs = vec![tensor];
        self.gives(request, &doubled(3)).await
    }

    async fn runs(&self) -> Tried {
        for len in [1, 5, 1000] {
            self.gives(self.request(Probe::Double, len)?, &doubled(len))
                .await?;
        }
        Ok(())
    }

    async fn empty(&self) -> Tried {
        self.gives(self.request(Probe::Double, 0)?, &[]).await
    }

    async fn poisons_outputs(&self) -> Tried {
        for poison in [Poison::Ones, Poison::Finite] {
            let mut request = self.request(Probe::WriteHalf, 6)?;
            request.poison = poison;
            let mut expected = doubled(6);
            expected.truncate(3);
            expected.extend([f32::from_ne_bytes([poison.byte(); 4]); 3]);
            self.gives(request, &expected).await?;
        }
        Ok(())
    }

    async fn poisons_scratch(&self) -> Tried {
        for poison in [Poison::Ones, Poison::Finite] {
            let mut request = self.request(Probe::ReadScratch, 4)?;
            request.poison = poison;
            self.gives(request, &[f32::from_ne_bytes([poison.byte(); 4]); 4])
                .await?;
        }
        Ok(())
    }

    async fn order(&self) -> Tried {
        let mut expected = doubled(100);
        expected.reverse();
        self.gives(self.request(Probe::TwoKernels, 100)?, &expected).await
    }

    async fn overwritten(&self) -> Tried {
        let request = self.request(Probe::OverwriteInput, 4)?;
        let given = request.inputs.clone();
        if let Ok(output) = self.backend.run(request).await? {
            demand(!output.inputs_unchanged, || {
                "the change is not reported".to_owned()
            })?;
        }
        let same = given
            .iter()
            .all(|t| t.as_slice::<f32>().is_ok_and(|v| v == values(4)));
        demand(same, || "the caller's tensor changed".to_owned())
    }

    async fn wrong_inputs(&self) -> Tried {
        let wrong = [
            ("no input", vec![]),
            ("an input too many", vec![Tensor::zeros(DType::F32, [4])?; 2]),
            ("another element type", vec![Tensor::zeros(DType::I32, [4])?]),
            ("another extent", vec![Tensor::zeros(DType::F32, [5])?]),
            ("another rank", vec![Tensor::zeros(DType::F32, [2, 2])?]),
        ];
        for (what, inputs) in wrong {
            let mut request = self.request(Probe::Double, 4)?;
            request.inputs = inputs;
            self.refuses(request, what).await?;
        }
        Ok(())
    }

    async fn missing_dim(&self) -> Tried {
        let mut request = self.request(Probe::Double, 4)?;
        request.dims.clear();
        self.refuses(request, "no value for N").await
    }

    async fn foreign_format(&self) -> Tried {
        let mut request = self.request(Probe::Double, 4)?;
        request.artifact.format = "no-such-format".into();
        match self.backend.run(request).await {
            Ok(Ok(_)) => broken("it runs all the same"),
            _ => Ok(()),
        }
    }

    async fn damaged(&self) -> Tried {
        let mut request = self.request(Probe::Double, 4)?;
        request.artifact.bytes = b"this is no artifact".to_vec();
        self.fails(request).await?;
        self.still_runs().await
    }

    async fn missing_kernel(&self) -> Tried {
        let mut request = self.request(Probe::Double, 4)?;
        for launch in &mut request.artifact.plan.launches {
            launch.kernel = "no_such_kernel".into();
        }
        let failure = self.fails(request).await?;
        demand(failure.evidence.contains("no_such_kernel"), || {
            format!("the evidence does not name the kernel: {}", failure.evidence)
        })
    }

    async fn concurrent(&self) -> Tried {
        let lengths = 1..9;
        let runs = lengths
            .map(|len| async move { self.gives(self.request(Probe::Double, len)?, &doubled(len)).await });
        join_all(runs).await.into_iter().collect()
    }

    async fn calls(&self) -> Tried {
        let mut loaded = self.load(Probe::Double).await?;
        for (round, (len, placement)) in [(5, 0), (5, 1), (5, 0), (1000, 7), (0, 1), (5, 1), (5, 1)]
            .into_iter()
            .enumerate()
        {
            let x: Vec<f32> = values(len).iter().map(|v| v + 100.0 * round as f32).collect();
            let expected: Vec<f32> = x.iter().map(|v| 2.0 * v).collect();
            let output = unfailing(loaded.run(call(&x, placement)?).await?)?;
            holds(&output, &expected)?;
        }
        // Nothing of the call before is left where this one does not write.
        let mut loaded = self.load(Probe::WriteHalf).await?;
        for placement in [0, 1, 0] {
            let call = call(&values(6), placement)?;
            let mut expected = doubled(6);
            expected.truncate(3);
            expected.extend([f32::from_ne_bytes([call.poison.byte(); 4]); 3]);
            holds(&unfailing(loaded.run(call).await?)?, &expected)?;
        }
        Ok(())
    }

    async fn stays(&self) -> Tried {
        let mut loaded = self.load(Probe::Double).await?;
        let first = unfailing(loaded.run(call(&values(4), 0)?).await?)?;
        unfailing(loaded.run(call(&[9.0; 4], 0)?).await?)?;
        holds(&first, &doubled(4))?;
        drop(loaded);
        holds(&first, &doubled(4))
    }

    async fn unbound(&self) -> Tried {
        let mut loaded = self.load(Probe::Double).await?;
        let refused = |error: crate::Error| {
            demand(error.kind() == ErrorKind::InvalidInput, || {
                format!("the error is no invalid input: {error:?}")
            })
        };
        for taken in [false, true] {
            if taken {
                unfailing(loaded.run(call(&values(4), 0)?).await?)?;
            }
            match loaded.execute(1, Cache::Warm).await {
                Err(error) => refused(error)?,
                Ok(outcome) => return broken(format!("it executes without tensors: {outcome:?}")),
            }
            match loaded.take().await {
                Err(error) => refused(error)?,
                Ok(outcome) => return broken(format!("it gives outputs without tensors: {outcome:?}")),
            }
        }
        Ok(())
    }

    async fn times(&self) -> Tried {
        if !self.backend.capability().times {
            return skipped("its capability says that it does not time");
        }
        let mut loaded = self.load(Probe::Double).await?;
        unfailing(loaded.bind(call(&values(1000), 0)?).await?)?;
        for cache in [Cache::Warm, Cache::Cold] {
            for calls in [0, 1, 3] {
                unfailing(loaded.execute(calls, cache).await?)?;
            }
        }
        let longer = unfailing(loaded.execute(1000, Cache::Warm).await?)?;
        demand(longer > Duration::ZERO, || {
            "a thousand calls take no time".to_owned()
        })?;
        holds(&unfailing(loaded.take().await?)?, &doubled(1000))
    }

    async fn observes(&self) -> Tried {
        let mut loaded = self.load(Probe::TwoKernels).await?;
        unfailing(loaded.bind(call(&values(1000), 0)?).await?)?;
        let observation = match loaded.observe(2).await {
            Err(error) if !self.backend.capability().observes => {
                return demand(error.kind() == ErrorKind::Unsupported, || {
                    format!("its capability says that it does not observe, but the error is {error:?}")
                });
            }
            outcome => unfailing(outcome?)?,
        };
        demand(observation.launches.len() == 2, || {
            format!("of two launches it observes {}", observation.launches.len())
        })?;
        let known = |l: &Observed| l.seconds > 0.0 && l.resources.programs == 1000;
        demand(observation.launches.iter().all(known), || {
            format!("of two launches of 1000 programs it observes {observation:?}")
        })?;
        unfailing(loaded.execute(1, Cache::Warm).await?)?;
        let mut expected = doubled(1000);
        expected.reverse();
        holds(&unfailing(loaded.take().await?)?, &expected)
    }

    async fn isolation(&self) -> Tried {
        let reached = self.load(Probe::Double).await?.isolation().level;
        for required in IsolationLevel::ALL {
            let mut request = self.request(Probe::Double, 4)?;
            request.limits.isolation = required;
            match self.backend.load(request.artifact, request.limits).await {
                Ok(Ok(_)) if required <= reached => {}
                Err(error) if required > reached && error.kind() == ErrorKind::Unsupported => {}
                other => {
                    return broken(format!(
                        "it reaches `{reached}`; where `{required}` is required, loading gives {other:?}"
                    ));
                }
            }
        }
        Ok(())
    }

    async fn misbehaves(&self, probe: Probe, kinds: &[FailureKind]) -> Tried {
        let mut request = self.request(probe, 4)?;
        request.limits.memory = 256 << 20;
        if probe == Probe::Hang {
            request.limits.time = Duration::from_secs(2);
        }
        let failure = self.fails(request).await?;
        demand(kinds.contains(&failure.kind), || {
            let wanted: Vec<_> = kinds.iter().map(|k| k.name()).collect();
            format!(
                "the failure is not {}: {}",
                wanted.join(" or "),
                describe(&failure)
            )
        })?;
        self.still_runs().await
    }

    /// Nothing is lost: the next candidate runs.
    async fn still_runs(&self) -> Tried {
        self.gives(self.request(Probe::Double, 4)?, &doubled(4)).await
    }
}

fn describe(failure: &Failure) -> String {
    format!("{}: {}", failure.kind.name(), failure.evidence)
}
