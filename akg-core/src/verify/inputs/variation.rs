//! Other values for integers and booleans that a module's script makes.

use super::harvest::harvest;
use super::integers::{Domain, IntegerUse};
use super::normal::mix;
use crate::dtype::DType;
use crate::error::Result;
use crate::expr::Bindings;
use crate::graph::InputKind;
use crate::task::{Generator, Task};
use crate::tensor::Tensor;

/// The tensor with other legal values, which follow from the seed; `None` if nobody but the script knows of any.
///
/// An index may be any that the script chose from, or any that the graph allows if the script always chooses the same.
/// Other integers stay between the smallest and the largest; where all are the same positive number, a length or a count,
/// smaller ones are as legal. Sorted integers stay sorted, and keep their ends. Divisors stay other than zero. Booleans change
/// places within their rows.
pub(super) fn varied(
    tensor: &Tensor,
    uses: &IntegerUse,
    dims: &Bindings,
    seed: u64,
) -> Result<Option<Tensor>> {
    if tensor.dtype() == DType::Bool {
        return booleans(tensor, seed).map(Some);
    }
    let Some(domain) = domain(tensor, uses, dims)? else {
        return Ok(None);
    };
    let values = integers(tensor)?;
    let pairs = values.windows(2);
    let is_sorted = uses.extents.is_empty()
        && values.len() > 2
        && values.first() != values.last()
        && pairs.clone().all(|p| matches!(p, [a, b] if a <= b));
    let is_divisor = uses.divides && !values.contains(&0);
    let legal = |word: u64, at: usize| match domain.value(word) {
        0 if is_divisor => values.get(at).copied().unwrap_or(1),
        value => value,
    };
    let mode = mix(seed, u64::MAX) % 4;
    let mut other: Vec<i64> = (0..values.len())
        .map(|at| {
            let word = mix(seed, at as u64);
            match mode {
                // The ends.
                0 => domain.nearest(if word & 1 == 0 { i64::MIN } else { i64::MAX }),
                // Another order of the same.
                1 => values.get(values.len() - 1 - at).copied().unwrap_or(0),
                _ => legal(word, at),
            }
        })
        .collect();
    if is_sorted {
        other.sort_unstable();
        for end in [0, values.len() - 1] {
            if let (Some(to), Some(from)) = (other.get_mut(end), values.get(end)) {
                *to = *from;
            }
        }
    } else if other == values {
        // A reversal of equal elements.
        other = (0..values.len())
            .map(|at| legal(mix(seed, at as u64), at))
            .collect();
    }
    from_integers(tensor, &other).map(Some)
}

/// The values that stand for others; `None` if there are none.
fn domain(tensor: &Tensor, uses: &IntegerUse, dims: &Bindings) -> Result<Option<Domain>> {
    let values = integers(tensor)?;
    let (Some(lo), Some(hi)) = (values.iter().min().copied(), values.iter().max().copied()) else {
        return Ok(None);
    };
    if !uses.is_free() {
        return Ok(None);
    }
    Ok(match (lo < hi, uses.limit(dims)) {
        (true, _) => Some(Domain::Range { lo, hi }),
        (false, Some(limit)) => (limit > 1).then_some(Domain::Range { lo: 0, hi: limit - 1 }),
        // A single number may be a property of the module, and none of the data.
        (false, None) => (lo > 1).then_some(Domain::Range { lo: 1, hi }),
    })
}

/// Booleans in another order: along the last axis from another place on, so that each row keeps how many are true. Where all
/// are alike, some in eight are not, but for the first of each row.
fn booleans(tensor: &Tensor, seed: u64) -> Result<Tensor> {
    let bytes = tensor.bytes();
    let row = tensor.shape().last().copied().unwrap_or(1).max(1);
    let is_alike = bytes.windows(2).all(|pair| matches!(pair, [a, b] if a == b));
    let shift = 1 + mix(seed, 0) as usize % row.saturating_sub(1).max(1);
    let other: Vec<u8> = (0..bytes.len())
        .map(|at| {
            let (start, place) = (at - at % row, at % row);
            let from = if is_alike {
                at
            } else {
                start + (place + shift) % row
            };
            let value = bytes.get(from).copied().unwrap_or(0);
            let flips = is_alike && place > 0 && mix(seed, at as u64).is_multiple_of(8);
            if flips { 1 - value.min(1) } else { value }
        })
        .collect();
    Tensor::from_bytes(DType::Bool, tensor.shape(), &other)
}

fn integers(tensor: &Tensor) -> Result<Vec<i64>> {
    Ok(match tensor.dtype() {
        DType::U8 => widened::<u8>(tensor)?,
        DType::I8 => widened::<i8>(tensor)?,
        DType::I16 => widened::<i16>(tensor)?,
        DType::I32 => widened::<i32>(tensor)?,
        _ => widened::<i64>(tensor)?,
    })
}

fn widened<T: crate::tensor::Element + Copy + Into<i64>>(tensor: &Tensor) -> Result<Vec<i64>> {
    Ok(tensor.as_slice::<T>()?.iter().map(|v| (*v).into()).collect())
}

fn from_integers(like: &Tensor, values: &[i64]) -> Result<Tensor> {
    let size = like.dtype().size();
    let bytes: Vec<u8> = values
        .iter()
        .flat_map(|v| {
            v.to_ne_bytes()
                .into_iter()
                .skip(skipped(size))
                .take(size)
                .collect::<Vec<_>>()
        })
        .collect();
    Tensor::from_bytes(like.dtype(), like.shape(), &bytes)
}

/// Bytes of an i64 before those that a shorter integer of the same value has.
const fn skipped(size: usize) -> usize {
    if cfg!(target_endian = "big") { 8 - size } else { 0 }
}

/// Captured integers that keep the values that a script gave them, and why: what a kernel does for others is not known.
/// `inputs` are the contract's.
pub(in crate::verify) fn unvaried(task: &Task, inputs: &[Tensor]) -> Result<Vec<String>> {
    let graph = &task.graph;
    let mut gaps = Vec::new();
    if task.capture.is_none() {
        return Ok(gaps);
    }
    let facts = harvest(graph);
    for (position, (input, tensor)) in graph.inputs().iter().zip(inputs).enumerate() {
        let by_script = input.kind == InputKind::Activation
            && task.contract.generators.get(position) == Some(&Generator::Captured);
        if !by_script || tensor.dtype().is_float() || tensor.dtype() == DType::Bool || tensor.is_empty() {
            continue;
        }
        let uses = facts
            .get(position)
            .map(|fact| fact.integers.clone())
            .unwrap_or_default();
        if domain(tensor, &uses, &task.contract.hints)?.is_some() {
            continue;
        }
        let why = if uses.writes {
            "they say where something is written"
        } else if uses.makes_indices {
            "indices are computed from them"
        } else {
            "all of them are alike"
        };
        gaps.push(format!(
            "the integers of `{}` had no other values than the module's script gives them: {why}",
            graph.value_name(input.value)
        ));
    }
    Ok(gaps)
}
