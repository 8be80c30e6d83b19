//! Is a mutant that passed the judge a fault at all? It and its original run on inputs made to tell them apart, in
//! memory with room behind every tensor, and their outputs are compared element by element: no tolerance, no class, no
//! reference.

use akg::backend::{Backend, Call, Limits, Loaded, LoadedExt as _, Poison};
use akg::source::{Artifact, PlanTensor, TensorRole};
use akg::task::Generator;
use akg::{Accuracy, DType, Error, Expr, Result, Task, Tensor};
use futures::executor::block_on;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

/// How a mutant compares with the original.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Likeness {
    /// Equal on all inputs, to the last bit.
    Same,
    /// Equal where arithmetic is exact; elsewhere rounded differently.
    Near,
    /// Different, first on these inputs.
    Different(&'static str),
    /// Different only where inputs are infinite or NaN.
    Special,
}

/// An element of an input.
struct Place<'a> {
    at: usize,
    shape: &'a [usize],
    /// The number of the input.
    input: usize,
    seed: u64,
}

type Draw = fn(&mut ChaCha8Rng, &Place<'_>) -> f64;

/// Ways of making inputs. Sums and products of the first ones are exact; the last one is not finite.
const FAMILIES: [(&str, Draw); 21] = [
    ("small integers", |rng, _| small(rng)),
    ("ones and zeros", |rng, _| f64::from(rng.random_range(-1..=1))),
    ("one value", |_, _| 3.0),
    ("ascending", |_, place| (place.at % 509) as f64),
    ("descending", |_, place| -((place.at % 509) as f64)),
    ("positive at the edges", |rng, place| place.edge(rng, LARGE)),
    ("negative at the edges", |rng, place| place.edge(rng, -LARGE)),
    ("one positive in a row", |rng, place| place.row(rng, LARGE)),
    ("one negative in a row", |rng, place| place.row(rng, -LARGE)),
    ("one positive", |rng, place| place.single(rng, LARGE)),
    ("one negative", |rng, place| place.single(rng, -LARGE)),
    ("halves and their neighbours", |rng, _| {
        small(rng) / 2.0 * (1.0 + f64::from(rng.random_range(-1..=1)) / 8192.0)
    }),
    ("normal", |rng, _| normal(rng)),
    ("above", |rng, _| normal(rng) + 100.0),
    ("below", |rng, _| normal(rng) - 100.0),
    ("opposed", |rng, place| {
        let sign = if place.input.is_multiple_of(2) { 1.0 } else { -1.0 };
        (normal(rng) + 100.0) * sign
    }),
    ("tiny", |rng, _| normal(rng) / 1024.0),
    ("large", |rng, _| normal(rng) * 1024.0),
    ("wide", |rng, _| {
        normal(rng) * f64::from(rng.random_range(-24..=24)).exp2()
    }),
    ("one huge", |rng, place| place.row(rng, 1048576.0)),
    ("special", |rng, _| match rng.random_range(0..8) {
        0 => f64::NAN,
        1 | 2 => f64::INFINITY,
        3 | 4 => f64::NEG_INFINITY,
        5 => -0.0,
        _ => normal(rng),
    }),
];

/// Families in which arithmetic is exact.
const EXACT: usize = 11;

/// What stands out among small integers: its exponential leaves the range of f32.
const LARGE: f64 = 200.0;

/// Seeds of each family.
const SEEDS: u64 = 3;

/// Elements behind every tensor.
const ROOM: usize = 4096;

/// Differences up to so many unit roundoffs of the largest element are a matter of rounding.
const ROUNDING: f64 = 32.0;

fn normal(rng: &mut ChaCha8Rng) -> f64 {
    let sum: f64 = (0..12).map(|_| rng.random::<f64>()).sum();
    f64::from((sum - 6.0) as f32)
}

fn small(rng: &mut ChaCha8Rng) -> f64 {
    f64::from(rng.random_range(-4..=4))
}

impl Place<'_> {
    /// Every other of the first and last elements along an axis is large.
    fn edge(&self, rng: &mut ChaCha8Rng, large: f64) -> f64 {
        let mut rest = self.at;
        let mut at_edge = false;
        for extent in self.shape.iter().rev() {
            let coordinate = rest % extent;
            at_edge |= coordinate == 0 || coordinate + 1 == *extent;
            rest /= extent;
        }
        small(rng) + if at_edge && rng.random() { large } else { 0.0 }
    }

    /// One element of each row along the last axis is large.
    fn row(&self, rng: &mut ChaCha8Rng, large: f64) -> f64 {
        let length = self.shape.last().copied().unwrap_or(1);
        self.one_of(rng, length, large)
    }

    /// One element of the tensor is large.
    fn single(&self, rng: &mut ChaCha8Rng, large: f64) -> f64 {
        self.one_of(rng, self.shape.iter().product(), large)
    }

    /// One of `length` elements is large: the first, the last, or another one, by the seed.
    fn one_of(&self, rng: &mut ChaCha8Rng, length: usize, large: f64) -> f64 {
        let group = (self.at / length) as u64;
        let chosen = match self.seed % 3 {
            0 => 0,
            1 => length - 1,
            _ => ChaCha8Rng::seed_from_u64(group).random_range(0..length),
        };
        small(rng) + if self.at % length == chosen { large } else { 0.0 }
    }
}

/// A kernel that was judged right, to compare others with.
pub(crate) struct Original<'a> {
    task: &'a Task,
    backend: &'a dyn Backend,
    limits: Limits,
    /// The inputs of each comparison and the outputs that they give.
    known: Vec<(usize, Vec<Tensor>, Vec<Vec<f64>>)>,
}

/// A loaded artifact with room behind its tensors, and the tensors as they were.
struct Roomy {
    loaded: Box<dyn Loaded>,
    tensors: Vec<PlanTensor>,
}

impl<'a> Original<'a> {
    pub(crate) fn new(
        task: &'a Task,
        backend: &'a dyn Backend,
        artifact: &Artifact,
        limits: Limits,
    ) -> Result<Self> {
        let mut original = Self {
            task,
            backend,
            limits,
            known: Vec::new(),
        };
        let mut loaded = original.load(artifact)?;
        for (family, (name, _)) in FAMILIES.iter().enumerate() {
            for seed in 0..SEEDS {
                let inputs = original.inputs(family, seed)?;
                let outputs = match &mut loaded {
                    Some(roomy) => original.run(roomy, &inputs, seed)?,
                    None => None,
                };
                let outputs = outputs.ok_or_else(|| {
                    Error::invalid(format!(
                        "the original leaves its tensors or fails on inputs `{name}`"
                    ))
                })?;
                original.known.push((family, inputs, outputs));
            }
        }
        Ok(original)
    }

    /// Compares a mutant with the original.
    pub(crate) fn compare(&self, mutant: &Artifact) -> Result<Likeness> {
        let mut near = false;
        let mut loaded = self.load(mutant)?;
        for (n, (family, inputs, expected)) in self.known.iter().enumerate() {
            let different = if *family + 1 == FAMILIES.len() {
                Likeness::Special
            } else {
                Likeness::Different(FAMILIES[*family].0)
            };
            let got = match &mut loaded {
                Some(roomy) => self.run(roomy, inputs, n as u64 % SEEDS)?,
                None => None,
            };
            let Some(got) = got else {
                return Ok(different);
            };
            let outputs = self.task.graph.outputs().iter();
            for ((a, b), output) in expected.iter().zip(&got).zip(outputs) {
                let distance = distance(a, b);
                let unit = self
                    .task
                    .graph
                    .ty(output.value)
                    .dtype
                    .unit_roundoff()
                    .unwrap_or(0.0);
                let exact = *family < EXACT && self.task.contract.accuracy == Accuracy::Fp32;
                if distance > if exact { 0.0 } else { ROUNDING * unit } {
                    return Ok(different);
                }
                near |= distance > 0.0;
            }
        }
        Ok(if near { Likeness::Near } else { Likeness::Same })
    }

    /// Loads an artifact with room behind every tensor and scratch memory that can be looked at; `None` if it fails.
    fn load(&self, artifact: &Artifact) -> Result<Option<Roomy>> {
        let mut artifact = artifact.clone();
        let tensors = artifact.plan.tensors.clone();
        for tensor in &mut artifact.plan.tensors {
            tensor.shape = vec![Expr::constant((elements(tensor)? + ROOM) as i64)];
            if tensor.role == TensorRole::Scratch {
                tensor.role = TensorRole::Output;
            }
        }
        let loaded = block_on(self.backend.load(artifact, self.limits.clone()))?;
        Ok(loaded.ok().map(|loaded| Roomy { loaded, tensors }))
    }

    /// The outputs; `None` if the run fails, changes its inputs or writes behind a tensor.
    fn run(&self, roomy: &mut Roomy, inputs: &[Tensor], seed: u64) -> Result<Option<Vec<Vec<f64>>>> {
        let poison = if seed.is_multiple_of(2) {
            Poison::Ones
        } else {
            Poison::Finite
        };
        let run = block_on(roomy.loaded.run(Call {
            inputs: inputs.to_vec(),
            dims: self.task.contract.hints.clone(),
            poison,
            placement: 0,
        }))?;
        let Some(run) = run.ok().filter(|run| run.inputs_unchanged) else {
            return Ok(None);
        };
        let mut outputs = Vec::new();
        let written = roomy.tensors.iter().filter(|t| t.role != TensorRole::Input);
        for (tensor, output) in written.zip(&run.outputs) {
            let count = elements(tensor)?;
            let (inside, room) = output.bytes().split_at(count * tensor.dtype.size());
            if room.iter().any(|b| *b != poison.byte()) {
                return Ok(None);
            }
            if tensor.role == TensorRole::Output {
                outputs.push(Tensor::from_bytes(tensor.dtype, [count], inside)?.to_f64()?);
            }
        }
        Ok(Some(outputs))
    }

    fn inputs(&self, family: usize, seed: u64) -> Result<Vec<Tensor>> {
        let graph = &self.task.graph;
        let mut out = Vec::new();
        for (i, input) in graph.inputs().iter().enumerate() {
            let ty = graph.ty(input.value);
            let shape = ty.concrete_shape(&self.task.contract.hints)?;
            let mut rng = ChaCha8Rng::seed_from_u64((seed * 64 + family as u64) * 64 + i as u64);
            let count: usize = shape.iter().product();
            let generator = self.task.contract.generators.get(i);
            let value = |at| match (generator, ty.dtype.is_float()) {
                _ if at >= count => f64::NAN,
                (Some(Generator::Integers { lo, hi }), _) => rng.random_range(*lo..*hi) as f64,
                (_, true) => {
                    let (shape, input) = (shape.as_slice(), i);
                    let place = Place {
                        at,
                        shape,
                        input,
                        seed,
                    };
                    FAMILIES[family].1(&mut rng, &place)
                }
                (_, false) => f64::from(rng.random_range(-8..8)),
            };
            let values: Vec<f64> = (0..count + ROOM).map(value).collect();
            out.push(tensor(ty.dtype, &values)?);
        }
        Ok(out)
    }
}

/// The number of elements of a tensor whose extents are known.
fn elements(tensor: &PlanTensor) -> Result<usize> {
    let extents = tensor.shape.iter().map(|e| e.as_const());
    let count = extents.product::<Option<i64>>();
    count
        .map(|n| n as usize)
        .ok_or_else(|| Error::invalid(format!("`{}` has an unknown extent", tensor.name)))
}

/// The largest difference relative to the largest finite element; infinite if elements that are not finite differ.
fn distance(a: &[f64], b: &[f64]) -> f64 {
    let finite = a.iter().filter(|v| v.is_finite());
    let largest = finite.fold(f64::MIN_POSITIVE, |m, v| m.max(v.abs()));
    let pairs = a.iter().zip(b);
    pairs.fold(0.0, |far: f64, (a, b)| {
        if a == b || a.is_nan() && b.is_nan() {
            far
        } else if a.is_finite() && b.is_finite() {
            far.max((a - b).abs() / largest)
        } else {
            f64::INFINITY
        }
    })
}

/// A tensor of one axis.
fn tensor(dtype: DType, values: &[f64]) -> Result<Tensor> {
    let bytes: Vec<u8> = match dtype {
        DType::F32 => values.iter().flat_map(|v| (*v as f32).to_le_bytes()).collect(),
        DType::F16 => values
            .iter()
            .flat_map(|v| half::f16::from_f64(*v).to_le_bytes())
            .collect(),
        DType::I32 => values.iter().flat_map(|v| (*v as i32).to_le_bytes()).collect(),
        DType::I64 => values.iter().flat_map(|v| (*v as i64).to_le_bytes()).collect(),
        other => return Err(Error::unsupported(format!("no subject takes {other}"))),
    };
    Tensor::from_bytes(dtype, [values.len()], &bytes)
}
