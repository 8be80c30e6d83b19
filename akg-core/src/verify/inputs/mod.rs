//! Inputs for a check: seeded, in several distributions.

use std::collections::BTreeMap;

use rayon::prelude::*;

use crate::backend::{Backend, TensorBuffer, host_buffer};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::expr::Bindings;
use crate::graph::{Graph, Input, InputKind};
use crate::task::{Generator, Task};
use crate::tensor::{Tensor, byte_len};

mod distribution;
mod harvest;
mod integers;
mod inverse;
mod normal;
mod rows;
mod stream;
mod variation;

#[cfg(test)]
mod tests;

use harvest::{InputFacts, harvest};
use integers::IntegerUse;
use normal::mix;
use variation::varied;

pub use distribution::Distribution;
pub(super) use stream::{CHUNK, Stream};
pub(super) use variation::unvaried;

/// The inputs of `task`'s graph, in memory of `backend`, followed by the graph's constants.
///
/// If the task can capture tensors, [`Distribution::Contract`] has the module's own weights and captured inputs.
/// [`Distribution::Signed`] keeps captured integers and booleans as the module's script makes them; the others have other
/// legal values and orders of them. Other weights are scaled by 1/sqrt of their fan-in (the product of all extents but the
/// first) so that signals keep their variance through deep graphs.
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
type Allocate<'a> = &'a dyn Fn(DType, &[usize]) -> Result<Box<dyn TensorBuffer>>;

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
    for (i, facts) in harvest(graph).iter().enumerate() {
        tensors.push(match captured.remove(&i) {
            Some(tensor) => adapted(tensor, task, facts, distribution, seed, dims, i)?,
            None => generate(allocate, &Stream::new(task, facts, distribution, seed, dims, i)?)?,
        });
    }
    tensors.extend(graph.constants().iter().map(|c| c.tensor.clone()));
    Ok(tensors)
}

/// Makes inputs of one graph one at a time.
pub(super) struct InputMaker {
    facts: Vec<InputFacts>,
}

impl InputMaker {
    pub(super) fn new(graph: &Graph) -> Self {
        Self {
            facts: harvest(graph),
        }
    }

    /// The input at `position` as [`make_inputs`] makes it, unless it is captured.
    pub(super) fn make(
        &self,
        allocate: Allocate<'_>,
        task: &Task,
        distribution: Distribution,
        seed: u64,
        position: usize,
    ) -> Result<Tensor> {
        let facts = self.facts.get(position);
        let facts = facts.ok_or_else(|| Error::unexpected(format!("the graph has no input {position}")))?;
        let dims = &task.contract.hints;
        generate(
            allocate,
            &Stream::new(task, facts, distribution, seed, dims, position)?,
        )
    }
}

fn generate(allocate: Allocate<'_>, stream: &Stream) -> Result<Tensor> {
    let mut buffer = allocate(stream.dtype, &stream.shape)?;
    let chunks = buffer.bytes_mut().par_chunks_mut(CHUNK * stream.dtype.size());
    chunks
        .enumerate()
        .try_for_each(|(number, chunk)| stream.fill(chunk, number))?;
    buffer.freeze()
}

/// A captured tensor, with other values if the distribution asks for them and they are known to be legal.
fn adapted(
    tensor: Tensor,
    task: &Task,
    facts: &InputFacts,
    distribution: Distribution,
    seed: u64,
    dims: &Bindings,
    position: usize,
) -> Result<Tensor> {
    let activation = |input: &Input| input.kind == InputKind::Activation;
    let varies = !matches!(distribution, Distribution::Contract | Distribution::Signed)
        && !tensor.dtype().is_float()
        && task.graph.inputs().get(position).is_some_and(activation);
    if !varies {
        return Ok(tensor);
    }
    let seed = mix(mix(seed, distribution.salt()), position as u64);
    let other = varied(&tensor, &facts.integers, dims, seed)?;
    Ok(other.unwrap_or(tensor))
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
        // The same values as [`make_inputs`] only where it leaves what is captured as it is.
        if captured_positions(task, distribution).contains(&position)
            && let Some(tensor) = capture(task, &[position], seed, dims)?.remove(&position)
        {
            return Ok(Self::Captured(tensor));
        }
        let facts = harvest(&task.graph);
        let facts = facts.get(position).cloned().unwrap_or_default();
        Ok(Self::Made(Stream::new(
            task,
            &facts,
            distribution,
            seed,
            dims,
            position,
        )?))
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
        // An index that a module keeps is legal as it is, and others may not be.
        let kept = || parameter && exact && !IntegerUse::of(&task.graph, input.value).is_free();
        (contract && (by_code || parameter) || by_code && exact || kept()).then_some(i)
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
