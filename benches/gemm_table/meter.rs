//! Times of built configurations.

use std::time::{Duration, Instant};

use akg::backend::{Backend, Cache, Call, Limits, Loaded, Poison};
use akg::cuda::CudaBackend;
use akg::error::ErrorKind;
use akg::image::Images;
use akg::source::{Artifact, Knobs, LaunchPlan, TensorRole};
use akg::verdict::{Failure, FailureKind};
use akg::{DType, Error, Expr, Result, Tensor};
use futures::executor::block_on;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use super::product::{Built, Product};
use super::{Line, Point, Table};

/// Configurations in one artifact. Loading an artifact starts a process, which takes longer than timing.
const CHUNK: usize = 84;
/// The dim that says which of them runs.
const WHICH: &str = "which";
/// How often all configurations of an artifact are timed, and how many batches are timed each time.
const ROUNDS: usize = 2;
const BATCHES: usize = 3;
/// How long a batch takes at least, unless one call does.
const BATCH: Duration = Duration::from_millis(3);
/// Attempts to time where others use the machine.
const ATTEMPTS: usize = 5;
/// Of the elements of a result, those at multiples of this are compared.
const STRIDE: usize = 61;
/// Deviation of a right result from another, over the root mean square.
const TOLERANCE: f64 = 1e-4;
/// Elements of inputs after which they repeat.
const PERIOD: usize = (1 << 20) - 3;

/// Times configurations of a product.
pub(super) struct Meter<'a> {
    backend: &'a CudaBackend,
    product: &'a Product<'a>,
    table: &'a mut Table,
    /// Made for the first configuration.
    inputs: Vec<Tensor>,
    /// The result of the first configuration.
    right: Option<Tensor>,
}

/// What keeps a set of configurations from being timed: the failure of one of them, if it is known of which.
struct Broken(Option<usize>, Failure);

impl<'a> Meter<'a> {
    pub(super) fn new(
        backend: &'a CudaBackend,
        product: &'a Product<'a>,
        table: &'a mut Table,
    ) -> Result<Self> {
        Ok(Self {
            backend,
            product,
            table,
            inputs: Vec::new(),
            right: None,
        })
    }

    pub(super) fn measure(&mut self, built: Vec<Built>, until: Instant) -> Result<()> {
        let mut good = Vec::new();
        for (knobs, artifact) in built {
            match artifact {
                Ok(artifact) => good.push((knobs, artifact)),
                Err(failure) => self.failed(&knobs, failure)?,
            }
        }
        for chunk in good.chunks(CHUNK) {
            if Instant::now() >= until {
                break;
            }
            self.measure_chunk(chunk.to_vec())?;
        }
        Ok(())
    }

    fn measure_chunk(&mut self, mut chunk: Vec<(Knobs, Artifact)>) -> Result<()> {
        while !chunk.is_empty() {
            let broken = match self.time(&chunk)? {
                Ok(points) => {
                    let mut lines = points.into_iter().map(Line::Point);
                    return lines.try_for_each(|line| self.table.write(&line));
                }
                Err(broken) => broken,
            };
            match broken {
                Broken(Some(at), failure) => {
                    let (knobs, _) = chunk.remove(at);
                    self.failed(&knobs, failure)?;
                }
                Broken(None, failure) if chunk.len() == 1 => {
                    return self.failed(&chunk[0].0, failure);
                }
                Broken(None, _) => {
                    let rest = chunk.split_off(chunk.len() / 2);
                    self.measure_chunk(rest)?;
                }
            }
        }
        Ok(())
    }

    /// Loads configurations and times them in turns.
    fn time(&mut self, chunk: &[(Knobs, Artifact)]) -> Result<Result<Vec<Point>, Broken>> {
        let artifact = together(chunk.iter().map(|(_, artifact)| artifact))?;
        if self.inputs.is_empty() {
            self.inputs = self.make_inputs(&artifact.plan)?;
        }
        let mut loaded = match block_on(self.backend.load(artifact, Limits::default()))? {
            Ok(loaded) => loaded,
            Err(failure) => return Ok(Err(Broken(None, failure))),
        };
        let mut points = Vec::new();
        let mut samples = vec![Vec::new(); chunk.len()];
        for round in 0..ROUNDS {
            for (at, (knobs, artifact)) in chunk.iter().enumerate() {
                match self.visit(&mut *loaded, at) {
                    Ok(Ok(seconds)) => samples[at].extend(seconds),
                    Ok(Err(failure)) => return Ok(Err(Broken(Some(at), failure))),
                    Err(error) => return Err(error.with("configuration", format!("{knobs:?}"))),
                }
                if round > 0 {
                    continue;
                }
                let compared = self.right.is_none() || self.product.is_compared(knobs);
                if compared {
                    match self.compare(&mut *loaded)? {
                        Ok(()) => {}
                        Err(failure) => return Ok(Err(Broken(Some(at), failure))),
                    }
                }
                points.push(self.point(knobs, artifact, compared)?);
            }
        }
        for (point, samples) in points.iter_mut().zip(&mut samples) {
            samples.sort_by(f64::total_cmp);
            point.seconds = samples.get(samples.len() / 2).copied();
        }
        Ok(Ok(points))
    }

    /// Binds configuration `at` and times batches of it.
    fn visit(&self, loaded: &mut dyn Loaded, at: usize) -> Result<Result<Vec<f64>, Failure>> {
        let call = Call {
            inputs: self.inputs.clone(),
            dims: [(WHICH.into(), at as i64)].into(),
            poison: Poison::Ones,
            placement: 0,
        };
        if let Err(failure) = block_on(loaded.bind(call))? {
            return Ok(Err(failure));
        }
        let mut calls = 1;
        let mut seconds = Vec::new();
        // The first execution warms up, the second says how many make a batch.
        for turn in 0..2 + BATCHES {
            let time = match patiently(|| block_on(loaded.execute(calls, Cache::Warm)))? {
                Ok(time) => time / calls,
                Err(failure) => return Ok(Err(failure)),
            };
            match turn {
                0 => {}
                1 => calls = BATCH.div_duration_f64(time.max(Duration::from_nanos(100))).ceil() as u32,
                _ => seconds.push(time.as_secs_f64()),
            }
        }
        Ok(Ok(seconds))
    }

    /// Compares the result of what was executed last with that of the first configuration.
    fn compare(&mut self, loaded: &mut dyn Loaded) -> Result<Result<(), Failure>> {
        let output = match block_on(loaded.take())? {
            Ok(output) => output.outputs.into_iter().next(),
            Err(failure) => return Ok(Err(failure)),
        };
        let output = output.ok_or_else(|| Error::unexpected("the product has no output"))?;
        let Some(right) = &self.right else {
            self.right = Some(output);
            return Ok(Ok(()));
        };
        let (mut error, mut size) = (0.0, 0.0);
        let pairs = output
            .as_slice::<f32>()?
            .iter()
            .zip(right.as_slice::<f32>()?)
            .step_by(STRIDE);
        for (got, right) in pairs {
            error += f64::from(got - right).powi(2);
            size += f64::from(*right).powi(2);
        }
        let deviation = (error / size).sqrt();
        if deviation <= TOLERANCE {
            return Ok(Ok(()));
        }
        let evidence = format!("deviates by {deviation:.1e} from the designer's choice");
        Ok(Err(Failure::new(FailureKind::WrongValues, evidence)))
    }

    /// What a product reads: matrices of numbers of either sign, and scales and centres of rows, which are not near zero.
    fn make_inputs(&self, plan: &LaunchPlan) -> Result<Vec<Tensor>> {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let mut inputs = Vec::new();
        for (_, tensor) in plan.with_role(TensorRole::Input) {
            let shape = tensor.shape.iter().map(|e| e.eval(&[].into()));
            let shape: Vec<usize> = shape.map(|e| Ok(e? as usize)).collect::<Result<_>>()?;
            let mut buffer = self.backend.allocate(tensor.dtype, &shape)?;
            let mut period = Vec::new();
            for _ in 0..PERIOD.min(shape.iter().product()) {
                let value = match shape.len() {
                    1 => random.random_range(1.0f32..2.0),
                    _ => random.random_range(-1.0f32..1.0),
                };
                match tensor.dtype {
                    DType::F16 => period.extend(half::f16::from_f32(value).to_le_bytes()),
                    DType::F32 => period.extend(value.to_le_bytes()),
                    DType::F64 => period.extend(f64::from(value).to_le_bytes()),
                    other => return Err(Error::unexpected(format!("the product reads {other}"))),
                }
            }
            for part in buffer.bytes_mut().chunks_mut(period.len().max(1)) {
                part.copy_from_slice(&period[..part.len()]);
            }
            inputs.push(buffer.freeze()?);
        }
        Ok(inputs)
    }

    fn point(&self, knobs: &Knobs, artifact: &Artifact, compared: bool) -> Result<Point> {
        let images = Images::decode(artifact)?;
        // The launch of the kernel that multiplies is the first.
        let image = images.kernels.first();
        Ok(Point {
            shape: self.product.shape.name.to_owned(),
            knobs: knobs.clone(),
            seconds: None,
            failure: None,
            registers: image.and_then(|i| i.report.registers),
            spilled: image.and_then(|i| i.report.spilled_bytes),
            shared: image.map(|i| i.shared_bytes),
            compared,
        })
    }

    fn failed(&mut self, knobs: &Knobs, failure: Failure) -> Result<()> {
        eprintln!("{}: {knobs:?}: {failure:?}", self.product.shape.name);
        self.table.write(&Line::Point(Point {
            shape: self.product.shape.name.to_owned(),
            knobs: knobs.clone(),
            seconds: None,
            failure: Some(failure),
            registers: None,
            spilled: None,
            shared: None,
            compared: false,
        }))
    }
}

/// Tries again where something else keeps the machine too busy to time anything.
fn patiently<T>(mut time: impl FnMut() -> Result<T>) -> Result<T> {
    let mut attempts = 1;
    loop {
        match time() {
            Err(error) if error.kind() == ErrorKind::OutOfResources && attempts < ATTEMPTS => attempts += 1,
            result => return result,
        }
    }
}

/// One artifact of several that take the same tensors: all their launches, of which those run whose number [`WHICH`] is.
fn together<'a>(artifacts: impl Iterator<Item = &'a Artifact>) -> Result<Artifact> {
    let mut whole: Option<Artifact> = None;
    let mut images = Images::default();
    for (number, artifact) in artifacts.enumerate() {
        let mut plan = artifact.plan.clone();
        let name = |kernel: &str| format!("{kernel}_{number}");
        for mut image in Images::decode(artifact)?.kernels {
            image.kernel = name(&image.kernel);
            images.kernels.push(image);
        }
        let away = Expr::symbol(WHICH) - Expr::from(number);
        let is_this = (Expr::from(1i64) - away.maximum(&-&away)).maximum(&Expr::from(0i64));
        for launch in &mut plan.launches {
            launch.kernel = name(&launch.kernel);
            launch.grid.insert(0, is_this.clone());
        }
        match &mut whole {
            None => {
                plan.dims = vec![WHICH.into()];
                whole = Some(Artifact {
                    plan,
                    ..artifact.clone()
                });
            }
            Some(whole) if whole.plan.tensors == plan.tensors => whole.plan.launches.extend(plan.launches),
            Some(_) => return Err(Error::unexpected("configurations differ in their tensors")),
        }
    }
    let mut whole = whole.ok_or_else(|| Error::unexpected("there is no artifact"))?;
    whole.bytes = images.encode()?;
    Ok(whole)
}
