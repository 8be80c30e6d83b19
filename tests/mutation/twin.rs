//! Is a mutant that passed the judge a fault at all? It and its original run on inputs made to tell them apart, and
//! their outputs are compared element by element: no tolerance, no class, no reference.

use akg::backend::{Backend, Limits, Poison, RunRequest};
use akg::graph::InputKind;
use akg::source::Artifact;
use akg::task::Generator;
use akg::{DType, Error, Result, Task, Tensor};
use futures::executor::block_on;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

/// How a mutant's outputs compare with the original's.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Likeness {
    /// Equal on all inputs, to the last bit.
    Same,
    /// Equal where arithmetic is exact; elsewhere at most this far apart, in units of the largest output.
    Near(f64),
    /// Different on these inputs.
    Different(&'static str),
}

/// Ways of making inputs. In the first ones sums and products are exact.
const FAMILIES: [(&str, Draw); 12] = [
    ("small integers", |rng, _| f64::from(rng.random_range(-4..=4))),
    ("ones and zeros", |rng, _| f64::from(rng.random_range(-1..=1))),
    ("one value", |_, _| 3.0),
    ("ascending integers", |_, at| at as f64 % 509.0),
    ("descending integers", |_, at| -(at as f64 % 509.0)),
    ("normal", |rng, _| normal(rng)),
    ("normal again", |rng, _| normal(rng)),
    ("offset", |rng, _| normal(rng) + 100.0),
    ("tiny", |rng, _| normal(rng) / 1024.0),
    ("large", |rng, _| normal(rng) * 1024.0),
    ("wide", |rng, _| normal(rng) * f64::from(rng.random_range(-24..=24)).exp2()),
    ("special", |rng, _| match rng.random_range(0..200) {
        0 => f64::NAN,
        1 => f64::INFINITY,
        2 => f64::NEG_INFINITY,
        3 => -0.0,
        _ => normal(rng),
    }),
];

/// The value of the element at a position.
type Draw = fn(&mut ChaCha8Rng, usize) -> f64;

/// Families in which arithmetic is exact.
const EXACT: usize = 5;

/// Executions of each family: what depends on timing must not.
const REPEATS: usize = 2;

fn normal(rng: &mut ChaCha8Rng) -> f64 {
    let sum: f64 = (0..12).map(|_| rng.random::<f64>()).sum();
    f64::from((sum - 6.0) as f32)
}

/// Compares a mutant with its original.
pub(crate) fn compare(
    backend: &dyn Backend,
    task: &Task,
    original: &Artifact,
    mutant: &Artifact,
    limits: &Limits,
) -> Result<Likeness> {
    let mut farthest: f64 = 0.0;
    for (family, (name, draw)) in FAMILIES.iter().enumerate() {
        let inputs = inputs(task, family, *draw)?;
        for repeat in 0..REPEATS {
            let poison = if (family + repeat) % 2 == 0 { Poison::Ones } else { Poison::Finite };
            let run = |artifact: &Artifact| {
                block_on(backend.run(RunRequest {
                    artifact: artifact.clone(),
                    inputs: inputs.clone(),
                    dims: task.contract.hints.clone(),
                    poison,
                    limits: limits.clone(),
                }))
            };
            let original = run(original)?.map_err(|f| {
                Error::unexpected(format!("the original fails on inputs `{name}`: {}", f.evidence))
            })?;
            let Ok(mutant) = run(mutant)? else {
                return Ok(Likeness::Different(name));
            };
            for (a, b) in original.outputs.iter().zip(&mutant.outputs) {
                let distance = distance(a, b)?;
                if distance > 0.0 && family < EXACT || distance.is_infinite() {
                    return Ok(Likeness::Different(name));
                }
                if distance > rounding(a.dtype()) {
                    return Ok(Likeness::Different(name));
                }
                farthest = farthest.max(distance);
            }
        }
    }
    Ok(if farthest == 0.0 {
        Likeness::Same
    } else {
        Likeness::Near(farthest)
    })
}

/// Two units in the last place of the largest output.
fn rounding(dtype: DType) -> f64 {
    dtype.unit_roundoff().map_or(0.0, |unit| 4.0 * unit)
}

/// The largest difference relative to the largest finite element; infinite if elements that are not finite differ.
fn distance(a: &Tensor, b: &Tensor) -> Result<f64> {
    let (a, b) = (a.to_f64()?, b.to_f64()?);
    let finite = a.iter().filter(|v| v.is_finite());
    let largest = finite.fold(f64::MIN_POSITIVE, |m, v| m.max(v.abs()));
    let pairs = a.iter().zip(&b);
    Ok(pairs.fold(0.0, |far: f64, (a, b)| {
        if a == b || a.is_nan() && b.is_nan() {
            far
        } else if a.is_finite() && b.is_finite() {
            far.max((a - b).abs() / largest)
        } else {
            f64::INFINITY
        }
    }))
}

fn inputs(task: &Task, family: usize, draw: Draw) -> Result<Vec<Tensor>> {
    let graph = &task.graph;
    let mut out = Vec::new();
    for (i, input) in graph.inputs().iter().enumerate() {
        let ty = graph.ty(input.value);
        let shape = ty.concrete_shape(&task.contract.hints)?;
        let mut rng = ChaCha8Rng::seed_from_u64((family * 64 + i) as u64);
        let count: usize = shape.iter().product();
        let generator = task.contract.generators.get(i);
        let values: Vec<f64> = (0..count)
            .map(|at| match (generator, ty.dtype.is_float()) {
                (Some(Generator::Integers { lo, hi }), _) => rng.random_range(*lo..*hi) as f64,
                (_, true) if input.kind == InputKind::Weight && family >= EXACT => normal(&mut rng),
                (_, true) => draw(&mut rng, at),
                (_, false) => f64::from(rng.random_range(-8..8)),
            })
            .collect();
        out.push(tensor(ty.dtype, shape, &values)?);
    }
    out.extend(graph.constants().iter().map(|c| c.tensor.clone()));
    Ok(out)
}

fn tensor(dtype: DType, shape: Vec<usize>, values: &[f64]) -> Result<Tensor> {
    let bytes: Vec<u8> = match dtype {
        DType::F32 => values.iter().flat_map(|v| (*v as f32).to_le_bytes()).collect(),
        DType::F16 => values.iter().flat_map(|v| half::f16::from_f64(*v).to_le_bytes()).collect(),
        DType::I32 => values.iter().flat_map(|v| (*v as i32).to_le_bytes()).collect(),
        DType::I64 => values.iter().flat_map(|v| (*v as i64).to_le_bytes()).collect(),
        other => return Err(Error::unsupported(format!("no subject takes {other}"))),
    };
    Tensor::from_bytes(dtype, shape, &bytes)
}
