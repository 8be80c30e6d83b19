//! Runs and times candidates, on one thread each.

use std::collections::HashMap;
use std::ffi::c_void;
use std::time::{Duration, Instant};

use akg::digest::Digest;
use akg::expr::Bindings;
use akg::reference::{Options, evaluate};
use akg::source::{PlanTensor, TensorRole};
use akg::task::Accuracy;
use akg::tensor::byte_len;
use akg::timing::Timing;
use akg::verdict::FailureKind;
use akg::{DType, Error, Result, Target, Task, Tensor};
use libloading::Library;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use super::build::{Lowered, SYMBOL, Shelf};
use super::table::Came;

/// How often each candidate is visited, and how many samples are taken each time.
const ROUNDS: usize = 3;
const SAMPLES: usize = 3;
/// How long a sample takes at least, unless one call does.
const SAMPLE: Duration = Duration::from_micros(30);
/// Candidates that take longer are not visited again.
const SLOW: Duration = Duration::from_millis(10);
/// Confidence of intervals.
const CONFIDENCE: f64 = 0.95;
/// A line of the cache.
const LINE: usize = 64;

/// A kernel of a built object: programs `first` to `last` of a grid.
type Kernel = unsafe extern "C" fn(tensors: *const *mut c_void, dims: *const i64, first: i64, last: i64);

/// What a task's candidates are run on and compared with.
pub(super) struct Reference {
    inputs: Vec<Tensor>,
    outputs: Vec<Vec<f64>>,
    /// The error that is allowed: rms(err) / rms(ref - mean).
    tolerance: f64,
}

impl Reference {
    pub(super) fn new(task: &Task) -> Result<Self> {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let mut inputs = Vec::new();
        for given in task.graph.inputs() {
            let ty = task.graph.ty(given.value);
            let shape = ty.concrete_shape(&Bindings::new())?;
            let count = shape.iter().product();
            let values: Vec<f32> = (0..count).map(|_| random.random_range(-1.0f32..1.0)).collect();
            inputs.push(Tensor::from_slice(shape, &values)?);
        }
        let outputs = evaluate(&task.graph, &inputs, &Options::default())?;
        Ok(Self {
            inputs,
            outputs: outputs.iter().map(|outcome| outcome.to_f64()).collect(),
            tolerance: match task.contract.accuracy {
                Accuracy::Fp32 => 5e-6,
                Accuracy::Tf32 => 1e-3,
                Accuracy::Half => 8e-3,
            },
        })
    }

    fn is_right(&self, outputs: &[Vec<f64>]) -> bool {
        let is_close = |(output, right): (&Vec<f64>, &Vec<f64>)| {
            let mean = right.iter().sum::<f64>() / right.len() as f64;
            let size: f64 = right.iter().map(|r| (r - mean).powi(2)).sum();
            let error: f64 = output.iter().zip(right).map(|(o, r)| (o - r).powi(2)).sum();
            output.len() == right.len() && error.sqrt() <= self.tolerance * size.sqrt()
        };
        outputs.len() == self.outputs.len() && outputs.iter().zip(&self.outputs).all(is_close)
    }
}

/// The built kernels of a task, in this process. They are lowered from valid sketches.
#[derive(Debug)]
pub(super) struct Kernels {
    loaded: HashMap<Digest, (Kernel, Library)>,
}

impl Kernels {
    pub(super) fn load(shelf: &Shelf<'_>, kernels: impl Iterator<Item = Digest>) -> Result<Self> {
        let mut loaded = HashMap::new();
        for kernel in kernels {
            let path = shelf.object(kernel);
            let cannot = |e| Error::unexpected(format!("cannot load {}", path.display())).caused_by(e);
            // SAFETY: objects that the C++ DSL builds have no initialisers.
            let library = unsafe { Library::new(&path) }.map_err(cannot)?;
            // SAFETY: every function of this name is a kernel.
            let function = unsafe { library.get::<Kernel>(SYMBOL) }.map_err(cannot)?;
            let function = *function;
            loaded.insert(kernel, (function, library));
        }
        Ok(Self { loaded })
    }

    pub(super) fn has(&self, kernel: Digest) -> bool {
        self.loaded.contains_key(&kernel)
    }
}

/// Memory of one thread for the tensors of candidates, the same for each.
#[derive(Debug, Default)]
struct Memory(Vec<[u64; LINE / 8]>);

/// A candidate with tensors in place.
struct Bound<'a> {
    launches: Vec<(Kernel, Vec<*mut c_void>, i64)>,
    outputs: Vec<(DType, &'a [u8])>,
}

impl Bound<'_> {
    fn call(&self) {
        for (kernel, tensors, programs) in &self.launches {
            // SAFETY: the tensors are as large as the plan says, and a valid kernel stays inside of them.
            unsafe { kernel(tensors.as_ptr(), std::ptr::null(), 0, *programs) };
        }
    }

    fn calls(&self, count: u32) -> Duration {
        let began = Instant::now();
        for _ in 0..count {
            self.call();
        }
        began.elapsed() / count
    }
}

impl Memory {
    /// Lays out a candidate's tensors: inputs as given, everything else as no number.
    fn bind(&mut self, lowered: &Lowered, kernels: &Kernels, inputs: &[Tensor]) -> Result<Bound<'_>> {
        let size = |tensor: &PlanTensor| -> Result<usize> {
            let shape = tensor
                .shape
                .iter()
                .map(|extent| Ok(extent.eval(&Bindings::new())? as usize));
            byte_len(tensor.dtype, &shape.collect::<Result<Vec<_>>>()?)
        };
        let sizes = lowered.tensors.iter().map(size).collect::<Result<Vec<_>>>()?;
        // Of lines, with some between tensors.
        let lengths: Vec<usize> = sizes.iter().map(|bytes| bytes.div_ceil(LINE) + 3).collect();
        let all: usize = lengths.iter().sum();
        if self.0.len() < all {
            self.0.resize(all, [0; LINE / 8]);
        }
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut self.0);
        bytes[..all * LINE].fill(0xff);
        let starts: Vec<usize> = lengths
            .iter()
            .scan(0, |at, length| {
                let start = *at * LINE;
                *at += length;
                Some(start)
            })
            .collect();
        let mut given = inputs.iter();
        for (tensor, start) in lowered.tensors.iter().zip(&starts) {
            if tensor.role == TensorRole::Input
                && let Some(input) = given.next()
            {
                bytes[*start..*start + input.bytes().len()].copy_from_slice(input.bytes());
            }
        }
        let base = bytes.as_mut_ptr();
        let mut launches = Vec::new();
        for launch in &lowered.launches {
            // SAFETY: starts are inside of the memory.
            let place = |tensor: &usize| unsafe { base.add(starts[*tensor]) }.cast::<c_void>();
            let kernel = kernels.loaded.get(&launch.kernel);
            let (function, _) = kernel.ok_or_else(|| Error::unexpected("a kernel is not loaded"))?;
            launches.push((
                *function,
                launch.tensors.iter().map(place).collect(),
                launch.programs,
            ));
        }
        let tensors = lowered.tensors.iter().zip(starts.iter().zip(&sizes));
        let outputs = tensors.filter(|(tensor, _)| tensor.role == TensorRole::Output);
        let outputs = outputs.map(|(tensor, (start, size))| {
            // SAFETY: inside of the memory, and read between calls only.
            let slice = unsafe { std::slice::from_raw_parts(base.add(*start), *size) };
            (tensor.dtype, slice)
        });
        Ok(Bound {
            launches,
            outputs: outputs.collect(),
        })
    }
}

/// Runs, compares and times candidates, in several rounds, so that what disturbs the machine for a while does not disturb all
/// samples of one.
pub(super) fn measure(
    candidates: &[&Lowered],
    kernels: &Kernels,
    reference: &Reference,
) -> Result<Vec<Came>> {
    let mut memory = Memory::default();
    let mut samples: Vec<Timing> = vec![Timing::default(); candidates.len()];
    let mut wrong = vec![false; candidates.len()];
    for round in 0..ROUNDS {
        for (at, candidate) in candidates.iter().enumerate() {
            let slow = samples[at]
                .median()
                .is_some_and(|seconds| seconds > SLOW.as_secs_f64());
            if wrong[at] || slow {
                continue;
            }
            let bound = memory.bind(candidate, kernels, &reference.inputs)?;
            let first = bound.calls(1);
            if round == 0 {
                let outputs = bound.outputs.iter().map(|(dtype, bytes)| {
                    let count = bytes.len() / dtype.size();
                    Tensor::from_bytes(*dtype, vec![count], bytes)?.to_f64()
                });
                if !reference.is_right(&outputs.collect::<Result<Vec<_>>>()?) {
                    wrong[at] = true;
                    continue;
                }
            }
            let calls = SAMPLE.as_secs_f64() / first.as_secs_f64().max(1e-7);
            let calls = calls.ceil().max(1.0) as u32;
            for _ in 0..SAMPLES {
                samples[at].seconds.push(bound.calls(calls).as_secs_f64());
            }
        }
    }
    let came = samples.iter().zip(wrong).map(|(samples, wrong)| {
        let median = samples.median().filter(|_| !wrong);
        let Some(median) = median else {
            return Came::Failed(FailureKind::WrongValues);
        };
        let reach = samples
            .interval(CONFIDENCE)
            .map_or(0.0, |interval| interval.reach(median));
        let rounded = |seconds: f64| (seconds * 1e9).round() / 1e3;
        Came::Passed(rounded(median), rounded(reach))
    });
    Ok(came.collect())
}

/// What the timer itself is, for the table.
pub(super) fn describe(target: &Target, toolchain: &str) -> String {
    format!("{toolchain}; one thread of {}", target.name)
}
