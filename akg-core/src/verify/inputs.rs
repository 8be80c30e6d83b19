//! Inputs for a check: seeded, in several distributions.

use std::collections::BTreeMap;
use std::fmt;

use half::{bf16, f16};
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::backend::{Backend, TensorBuffer, host_buffer};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::expr::Bindings;
use crate::graph::{Input, InputKind};
use crate::task::{Generator, Task};
use crate::tensor::{Tensor, byte_len};

/// How the floating inputs of a check are distributed. Integer and boolean inputs always follow the contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Distribution {
    /// As the contract says.
    Contract,
    /// Symmetric about 0 with variance 1, approximately normal.
    Signed,
    /// Signed, scaled by 2^6.
    Large,
    /// Signed, scaled by 2^-6.
    Tiny,
    /// Signed about a mean of 4.
    Offset,
    /// Signs and magnitudes that spread over 2^±10, so that sums cancel.
    IllConditioned,
    /// Signed, scaled by 2^20 in one input and by 2^-20 in the next, weights too: beyond the range of half precision.
    Apart,
    /// Small integers and their close neighbours: elements are equal, or differ by little.
    Ties,
    /// Signed about -100 in one input and 100 in the next: whole inputs of one sign.
    OneSided,
    /// Small integers, and a few elements far above and below: by the seed, either one of each in the whole input, or two
    /// in each row along the last axis (its first, its last or any), of which the input's first and last are farthest.
    Extremes,
    /// Signed, with NaN, infinities, zeros of both signs and subnormal numbers strewn in.
    Special,
}

impl Distribution {
    /// The name in verdicts.
    pub const fn name(self) -> &'static str {
        match self {
            Distribution::Contract => "contract",
            Distribution::Signed => "signed",
            Distribution::Large => "large",
            Distribution::Tiny => "tiny",
            Distribution::Offset => "offset",
            Distribution::IllConditioned => "ill-conditioned",
            Distribution::Apart => "apart",
            Distribution::Ties => "ties",
            Distribution::OneSided => "one-sided",
            Distribution::Extremes => "extremes",
            Distribution::Special => "special",
        }
    }
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The inputs of `task`'s graph, in memory of `backend`, followed by the graph's constants.
///
/// Where the task can capture tensors, [`Distribution::Contract`] has the module's own weights and captured inputs; other
/// distributions keep captured integers and booleans, whose range is known to nobody else. Other weights are scaled by 1/sqrt of their fan-in (the product of all extents but the first) so that signals keep their
/// variance through deep graphs.
pub fn make_inputs(
    task: &Task,
    backend: &dyn Backend,
    distribution: Distribution,
    seed: u64,
    dims: &Bindings,
) -> Result<Vec<Tensor>> {
    let allocate = |dtype, shape: &[usize]| backend.allocate(dtype, shape);
    inputs_in(&allocate, task, distribution, seed, dims)
}

/// The same at the contract's hints, in memory of this process.
pub(crate) fn host_inputs(task: &Task, distribution: Distribution, seed: u64) -> Result<Vec<Tensor>> {
    inputs_in(&host_buffer, task, distribution, seed, &task.contract.hints)
}

/// Who gives memory for a tensor.
pub(super) type Allocate<'a> = &'a dyn Fn(DType, &[usize]) -> Result<Box<dyn TensorBuffer>>;

fn inputs_in(
    allocate: Allocate<'_>,
    task: &Task,
    distribution: Distribution,
    seed: u64,
    dims: &Bindings,
) -> Result<Vec<Tensor>> {
    let graph = &task.graph;
    let mut captured = capture(task, &captured_positions(task, distribution), seed, dims)?;
    let mut tensors = Vec::with_capacity(graph.inputs().len() + graph.constants().len());
    for i in 0..graph.inputs().len() {
        tensors.push(match captured.remove(&i) {
            Some(tensor) => tensor,
            None => generate(allocate, task, distribution, seed, dims, i)?,
        });
    }
    tensors.extend(graph.constants().iter().map(|c| c.tensor.clone()));
    Ok(tensors)
}

pub(super) fn generate(
    allocate: Allocate<'_>,
    task: &Task,
    distribution: Distribution,
    seed: u64,
    dims: &Bindings,
    position: usize,
) -> Result<Tensor> {
    let stream = Stream::new(task, distribution, seed, dims, position)?;
    let mut buffer = allocate(stream.dtype, &stream.shape)?;
    let chunks = buffer.bytes_mut().par_chunks_mut(CHUNK * stream.dtype.size());
    chunks
        .enumerate()
        .try_for_each(|(number, chunk)| stream.fill(chunk, number))?;
    buffer.freeze()
}

/// What [`make_inputs`] makes at one position, to be had in chunks.
pub(super) enum Fresh {
    Captured(Tensor),
    Made(Stream),
}

impl Fresh {
    pub(super) fn new(
        task: &Task,
        distribution: Distribution,
        seed: u64,
        dims: &Bindings,
        position: usize,
    ) -> Result<Self> {
        if captured_positions(task, distribution).contains(&position)
            && let Some(tensor) = capture(task, &[position], seed, dims)?.remove(&position)
        {
            return Ok(Self::Captured(tensor));
        }
        Ok(Self::Made(Stream::new(task, distribution, seed, dims, position)?))
    }

    /// Writes the chunk of this number: [`CHUNK`] elements, or what is left of the last.
    pub(super) fn fill(&self, chunk: &mut [u8], number: usize) -> Result<()> {
        match self {
            Self::Made(stream) => stream.fill(chunk, number),
            Self::Captured(tensor) => {
                let start = number * CHUNK * tensor.dtype().size();
                let own = tensor.bytes().get(start..start + chunk.len());
                chunk
                    .copy_from_slice(own.ok_or_else(|| Error::unexpected("a captured tensor is too small"))?);
                Ok(())
            }
        }
    }
}

/// The positions of inputs that only the task's own code can make for these checks.
pub(super) fn captured_positions(task: &Task, distribution: Distribution) -> Vec<usize> {
    let contract = distribution == Distribution::Contract;
    let wanted = |(i, input): (usize, &Input)| {
        let by_code = task.contract.generators.get(i) == Some(&Generator::Captured);
        let exact = !task.graph.ty(input.value).dtype.is_float();
        let parameter = input.kind != InputKind::Activation;
        (contract && (by_code || parameter) || by_code && exact).then_some(i)
    };
    task.graph
        .inputs()
        .iter()
        .enumerate()
        .filter_map(wanted)
        .collect()
}

/// The captured tensors by position; none if the task cannot capture. At sizes that are not theirs, their elements come
/// again and again.
fn capture(task: &Task, positions: &[usize], seed: u64, dims: &Bindings) -> Result<BTreeMap<usize, Tensor>> {
    let Some(capture) = task.capture.as_ref().filter(|_| !positions.is_empty()) else {
        return Ok(BTreeMap::new());
    };
    let tensors = positions.iter().copied().zip(capture.capture(positions, seed)?);
    if *dims == task.contract.hints {
        return Ok(tensors.collect());
    }
    let fitted = tensors.map(|(at, tensor)| {
        let input = task.graph.inputs().get(at);
        let input = input.ok_or_else(|| Error::unexpected(format!("the graph has no input {at}")))?;
        let shape = task.graph.ty(input.value).concrete_shape(dims)?;
        Ok((at, resized(tensor, shape)?))
    });
    fitted.collect()
}

/// The elements in another shape, from the first on for as long as it takes.
fn resized(tensor: Tensor, shape: Vec<usize>) -> Result<Tensor> {
    let length = byte_len(tensor.dtype(), &shape)?;
    let bytes: Vec<u8> = tensor.bytes().iter().copied().cycle().take(length).collect();
    Tensor::from_bytes(tensor.dtype(), shape, &bytes)
}

/// A seed of its own for each input.
fn mix(seed: u64, index: u64) -> u64 {
    seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .wrapping_add(index.wrapping_mul(0xd1b5_4a32_d192_ed03))
}

/// Values that arithmetic treats unlike others.
const SPECIAL: [f32; 8] = [
    f32::NAN,
    f32::INFINITY,
    f32::NEG_INFINITY,
    0.0,
    -0.0,
    f32::MIN_POSITIVE / 4.0,
    1.0,
    -1.0,
];

/// Where the elements of one input come from.
pub(super) struct Stream {
    distribution: Distribution,
    generator: Generator,
    gain: f32,
    seed: u64,
    kind: InputKind,
    /// The input's number.
    position: usize,
    dtype: DType,
    shape: Vec<usize>,
    /// Elements of a row along the last axis.
    row: usize,
    /// Elements in all.
    elements: usize,
}

/// What most distributions make of a number that is symmetric about 0 with variance 1.
#[derive(Clone, Copy)]
struct Affine {
    /// A power of two.
    scale: f32,
    shift: f32,
    gain: f32,
}

impl Affine {
    fn of(self, signed: f32) -> f32 {
        (signed * self.scale + self.shift) * self.gain
    }
}

/// A number that is symmetric about 0 with variance 1: the sum of four uniform 16-bit numbers has variance 4/12 and is close
/// enough to normal.
fn signed(bits: u64) -> f32 {
    let sum: u32 = (0..4).map(|i| (bits >> (16 * i)) as u32 & 0xffff).sum();
    (sum as f32 / 65536.0 - 2.0) * 3.0f32.sqrt()
}

/// Elements that one generator makes; chunks are independent so that threads can share the work.
pub(super) const CHUNK: usize = 1 << 20;

fn elements<T: bytemuck::Pod>(chunk: &mut [u8]) -> Result<&mut [T]> {
    bytemuck::try_cast_slice_mut(chunk)
        .map_err(|e| Error::unexpected(format!("input memory is misaligned: {e}")))
}

fn each<T: bytemuck::Pod>(chunk: &mut [u8], mut next: impl FnMut(usize) -> T) -> Result<()> {
    let elements = elements(chunk)?.iter_mut().enumerate();
    elements.for_each(|(n, v)| *v = next(n));
    Ok(())
}

impl Stream {
    fn new(
        task: &Task,
        distribution: Distribution,
        seed: u64,
        dims: &Bindings,
        position: usize,
    ) -> Result<Self> {
        let graph = &task.graph;
        let input = graph
            .inputs()
            .get(position)
            .ok_or_else(|| Error::unexpected(format!("the graph has no input {position}")))?;
        let ty = graph.ty(input.value);
        let shape = ty.concrete_shape(dims)?;
        let fan_in: usize = shape.iter().skip(1).product();
        let gain = match input.kind {
            InputKind::Weight if shape.len() > 1 => 1.0 / (fan_in.max(1) as f32).sqrt(),
            _ => 1.0,
        };
        let generator = task.contract.generators.get(position).copied();
        Ok(Self {
            distribution,
            generator: generator.unwrap_or_default(),
            gain,
            seed: mix(seed, position as u64),
            kind: input.kind,
            position,
            dtype: ty.dtype,
            row: shape.last().copied().unwrap_or(1).max(1),
            elements: shape.iter().product(),
            shape,
        })
    }

    /// Writes the chunk of this number.
    fn fill(&self, chunk: &mut [u8], number: usize) -> Result<()> {
        let first = number * CHUNK;
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        rng.set_stream(number as u64);
        let rng = &mut rng;
        if self.dtype == DType::F32
            && let Some(affine) = self.affine()
        {
            return Self::fill_affine(affine, chunk, rng);
        }
        match self.dtype {
            DType::F32 => each(chunk, |n| self.float(rng, first + n)),
            DType::F64 => each(chunk, |n| f64::from(self.float(rng, first + n))),
            DType::F16 => each(chunk, |n| f16::from_f32(self.float(rng, first + n))),
            DType::BF16 => each(chunk, |n| bf16::from_f32(self.float(rng, first + n))),
            DType::Bool => each(chunk, |_| u8::from(rng.next_u32() & 1 == 1)),
            DType::U8 => each(chunk, |_| self.integer(rng, 0) as u8),
            DType::I8 => each(chunk, |_| self.integer(rng, -8) as i8),
            DType::I16 => each(chunk, |_| self.integer(rng, -8) as i16),
            DType::I32 => each(chunk, |_| self.integer(rng, -8) as i32),
            DType::I64 => each(chunk, |_| self.integer(rng, -8)),
        }
    }

    /// What [`float`](Self::float) is of each element, with the generator's words taken many at a time.
    fn fill_affine(affine: Affine, chunk: &mut [u8], rng: &mut ChaCha8Rng) -> Result<()> {
        let mut words = [0u64; 512];
        for elements in elements::<f32>(chunk)?.chunks_mut(words.len()) {
            rng.fill_bytes(bytemuck::cast_slice_mut(&mut words));
            for (element, word) in elements.iter_mut().zip(&words) {
                *element = affine.of(signed(u64::from_le(*word)));
            }
        }
        Ok(())
    }

    /// How elements follow from one word each, if they do. Only data takes the check's scale, and weights what stands out of
    /// it.
    fn affine(&self) -> Option<Affine> {
        let (scale, shift) = match (self.kind, self.distribution) {
            (InputKind::State, _) => return None,
            (_, Distribution::Contract) if self.generator == Generator::Uniform01 => return None,
            (_, Distribution::Extremes) => return None,
            (_, Distribution::Apart) => (self.apart(), 0.0),
            (InputKind::Weight, _) | (_, Distribution::Contract | Distribution::Signed) => (1.0, 0.0),
            (_, Distribution::Large) => (64.0, 0.0),
            (_, Distribution::Tiny) => (1.0 / 64.0, 0.0),
            (_, Distribution::Offset) => (1.0, 4.0),
            (_, Distribution::OneSided) if self.position.is_multiple_of(2) => (1.0, -100.0),
            (_, Distribution::OneSided) => (1.0, 100.0),
            (_, Distribution::IllConditioned | Distribution::Ties | Distribution::Special) => return None,
        };
        Some(Affine {
            scale,
            shift,
            gain: self.gain,
        })
    }

    /// The element `at`.
    fn float(&self, rng: &mut ChaCha8Rng, at: usize) -> f32 {
        if let Some(affine) = self.affine() {
            return affine.of(signed(rng.next_u64()));
        }
        if self.distribution == Distribution::Contract && self.generator == Generator::Uniform01 {
            return (rng.next_u32() >> 8) as f32 / (1u32 << 24) as f32;
        }
        let signed = signed(rng.next_u64());
        // Statistics such as a running variance stay positive.
        if self.kind == InputKind::State {
            return signed.abs() + 0.5;
        }
        let data = match self.distribution {
            Distribution::IllConditioned => signed * 2.0f32.powi(rng.random_range(-10..=10)),
            Distribution::Ties => {
                let neighbour = rng.random_range(-1..=1) as f32 / 8192.0;
                (signed * 2.0).round() * (1.0 + neighbour)
            }
            Distribution::Extremes => (signed * 2.0).round() + self.extreme(at),
            Distribution::Special if rng.random_range(0..8) == 0 => SPECIAL
                .get(rng.random_range(0..SPECIAL.len()))
                .copied()
                .unwrap_or(f32::NAN),
            _ => signed,
        };
        data * self.gain
    }

    fn apart(&self) -> f32 {
        let exponent = if self.position.is_multiple_of(2) { 20 } else { -20 };
        2.0f32.powi(exponent)
    }

    /// What makes elements stand out; its exponential leaves the range of f32.
    fn extreme(&self, at: usize) -> f32 {
        if self.seed & 2 == 0 {
            let place = |salt| mix(self.seed, salt) as usize % self.elements.max(1);
            return match at {
                at if at == place(1) => 400.0,
                at if at == place(2) => -400.0,
                _ => 0.0,
            };
        }
        if at == 0 || at + 1 == self.elements {
            let first_is_high = self.seed & 1 == 0;
            return if (at == 0) == first_is_high { 400.0 } else { -400.0 };
        }
        let random = mix(self.seed, (at / self.row) as u64) >> 20;
        let inner = (random / 6) as usize % self.row;
        let [high, low] = match random % 6 {
            0 => [0, self.row - 1],
            1 => [self.row - 1, 0],
            2 => [0, inner],
            3 => [inner, 0],
            4 => [self.row - 1, inner],
            _ => [inner, self.row - 1],
        };
        match at % self.row {
            place if place == high => 200.0,
            place if place == low => -200.0,
            _ => 0.0,
        }
    }

    fn integer(&self, rng: &mut ChaCha8Rng, lowest: i64) -> i64 {
        match self.generator {
            Generator::Integers { lo, hi } if hi > lo => rng.random_range(lo..hi),
            _ => rng.random_range(lowest..8),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Graph;

    #[test]
    fn elements_are_the_same_one_by_one() {
        let mut graph = Graph::new("g");
        graph.input("x", DType::F32, [3, 333]);
        graph.input("y", DType::F32, [3, 333]);
        graph.weight("w", DType::F32, [3, 333]);
        graph.state("s", DType::F32, [3, 333]);
        let task = Task::new("t", graph);
        let distributions = [
            Distribution::Contract,
            Distribution::Signed,
            Distribution::Large,
            Distribution::Tiny,
            Distribution::Offset,
            Distribution::IllConditioned,
            Distribution::Apart,
            Distribution::Ties,
            Distribution::OneSided,
            Distribution::Extremes,
            Distribution::Special,
        ];
        for (distribution, position) in distributions
            .into_iter()
            .flat_map(|d| (0..4).map(move |p| (d, p)))
        {
            let stream = Stream::new(&task, distribution, 5, &Bindings::new(), position).unwrap();
            let mut together = vec![0.0f32; 999];
            stream.fill(bytemuck::cast_slice_mut(&mut together), 2).unwrap();
            let mut rng = ChaCha8Rng::seed_from_u64(stream.seed);
            rng.set_stream(2);
            for (at, element) in together.iter().enumerate() {
                let alone = stream.float(&mut rng, 2 * CHUNK + at);
                assert_eq!(
                    element.to_bits(),
                    alone.to_bits(),
                    "{distribution}, input {position}, {at}"
                );
            }
        }
    }

    #[test]
    fn captured_elements_come_again_at_other_sizes() {
        let tensor = Tensor::from_slice([3], &[1i64, 2, 3]).unwrap();
        let longer = resized(tensor.clone(), vec![2, 4]).unwrap();
        assert_eq!(longer.as_slice::<i64>().unwrap(), [1, 2, 3, 1, 2, 3, 1, 2]);
        let shorter = resized(tensor, vec![2]).unwrap();
        assert_eq!(shorter.as_slice::<i64>().unwrap(), [1, 2]);
        let nothing = Tensor::from_slice::<i64>([0], &[]).unwrap();
        assert!(resized(nothing, vec![2]).is_err());
    }
}
