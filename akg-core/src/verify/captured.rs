//! What only a task's own code can make, where that takes long.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use rand::SeedableRng;
use rand::seq::SliceRandom as _;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use super::inputs::{Distribution, captured_positions};
use crate::error::{Error, Result};
use crate::graph::{Input, InputKind};
use crate::reference::RowPlan;
use crate::task::{Capture, Task};
use crate::tensor::{Tensor, byte_len};

/// Bytes from which on tensors are captured as rarely as can be: scripts make some hundred megabytes a second.
const LARGE: usize = 64 << 20;

/// The task, whose large integers and booleans are captured once: after that their rows come in another order for every
/// seed, which nobody but the script can tell from others of its own. Tensors whose rows are not apart are captured for
/// every seed.
pub(super) fn once(task: &Task) -> Result<Task> {
    let mut task = task.clone();
    if let Some(whole) = task.capture.take() {
        task.capture = Some(Arc::new(Once {
            whole,
            rows: RowPlan::new(&task.graph, &task.contract.hints)?,
            kept: Mutex::default(),
        }));
    }
    Ok(task)
}

#[derive(Debug)]
struct Once {
    whole: Arc<dyn Capture>,
    rows: Option<RowPlan>,
    kept: Mutex<BTreeMap<usize, Tensor>>,
}

impl Once {
    /// The tensor with its rows in another order, if it has rows.
    fn reordered(&self, position: usize, tensor: &Tensor, seed: u64) -> Result<Option<Tensor>> {
        let Some(plan) = &self.rows else {
            return Ok(None);
        };
        let Some(axis) = plan.input_axis(position) else {
            return Ok(None);
        };
        reordered(tensor, axis, plan.rows(), seed)
    }
}

impl Capture for Once {
    fn capture(&self, positions: &[usize], seed: u64) -> Result<Vec<Tensor>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let known = positions.iter().map(|p| match kept.get(p) {
            Some(tensor) => self.reordered(*p, tensor, seed),
            None => Ok(None),
        });
        if let Some(tensors) = known.collect::<Result<Option<Vec<_>>>>()? {
            return Ok(tensors);
        }
        let tensors = self.whole.capture(positions, seed)?;
        // With weights comes what is asked for once anyway.
        if tensors.iter().all(|t| !t.dtype().is_float()) {
            let large = positions
                .iter()
                .zip(&tensors)
                .filter(|(_, t)| t.bytes().len() >= LARGE);
            kept.extend(large.map(|(p, t)| (*p, t.clone())));
        }
        Ok(tensors)
    }
}

/// The tensor with `rows` parts of an axis in another order; `None` for a single one.
fn reordered(tensor: &Tensor, axis: usize, rows: usize, seed: u64) -> Result<Option<Tensor>> {
    let bytes = tensor.bytes();
    let outer: usize = tensor.shape().iter().take(axis).product();
    let part = bytes.len() / (outer * rows).max(1);
    if rows < 2 || part == 0 {
        return Ok(None);
    }
    let mut order: Vec<usize> = (0..rows).collect();
    order.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
    let mut words = vec![0u128; bytes.len().div_ceil(size_of::<u128>())];
    let made: &mut [u8] = bytemuck::cast_slice_mut(&mut words);
    let to = made.par_chunks_exact_mut(part).take(outer * rows);
    to.enumerate().for_each(|(number, to)| {
        let from = number / rows * rows + order.get(number % rows).copied().unwrap_or(0);
        if let Some(from) = bytes.get(from * part..(from + 1) * part) {
            to.copy_from_slice(from);
        }
    });
    Ok(Some(Tensor::new(
        tensor.dtype(),
        tensor.shape(),
        Arc::new(words),
    )?))
}

/// The tensors of the contract's inputs that a task's own code makes.
type Captured = BTreeMap<usize, Tensor>;

/// They are being made, on a thread of their own.
pub(super) struct Capturing(JoinHandle<Result<Captured>>);

impl Capturing {
    /// Begins, if there are weights or other floats among them, and so much is made that waiting for it would take long.
    pub(super) fn begin(task: &Task, seed: u64) -> Result<Option<Self>> {
        let positions = captured_positions(task, Distribution::Contract);
        let Some(capture) = task.capture.clone() else {
            return Ok(None);
        };
        let inputs = task.graph.inputs();
        let captured = || positions.iter().filter_map(|p| inputs.get(*p));
        let is_float = captured().any(|input| task.graph.ty(input.value).dtype.is_float());
        // A script makes all of its inputs for one of them.
        let script = captured().any(|input| input.kind == InputKind::Activation);
        let made = |input: &Input| match input.kind {
            InputKind::Activation => script,
            InputKind::Weight | InputKind::State => captured().any(|other| other.value == input.value),
        };
        let mut bytes = 0;
        for input in inputs.iter().filter(|input| made(input)) {
            let ty = task.graph.ty(input.value);
            bytes += byte_len(ty.dtype, &ty.concrete_shape(&task.contract.hints)?)?;
        }
        if bytes < LARGE || !is_float {
            return Ok(None);
        }
        let make = move || {
            let tensors = capture.capture(&positions, seed)?;
            Ok(positions.into_iter().zip(tensors).collect())
        };
        Ok(Some(Self(thread::spawn(make))))
    }

    /// Waits for them.
    pub(super) fn wait(self) -> Result<Captured> {
        let made = self.0.join();
        made.unwrap_or_else(|_| Err(Error::unexpected("the thread that captures tensors panicked")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_in_another_order_and_stay_whole() {
        let values: Vec<i32> = (0..2 * 6 * 5).collect();
        let tensor = Tensor::from_slice([2, 6, 5], &values).unwrap();
        let other = reordered(&tensor, 1, 3, 7).unwrap().unwrap();
        assert_eq!(other.shape(), tensor.shape());
        let parts = |t: &Tensor| -> Vec<Vec<i32>> {
            let values = t.as_slice::<i32>().unwrap();
            values.chunks(10).map(<[i32]>::to_vec).collect()
        };
        let (mut now, then) = (parts(&other), parts(&tensor));
        // The same order before and behind the axis.
        let order = |half: &[Vec<i32>], first: i32| -> Vec<i32> {
            half.iter().map(|p| (p[0] - first) / 10).collect()
        };
        assert_eq!(order(&now[..3], 0), order(&now[3..], 30));
        now.sort();
        assert_eq!(now, then);
        let orders: Vec<_> = (0..20)
            .map(|seed| parts(&reordered(&tensor, 1, 3, seed).unwrap().unwrap()))
            .collect();
        assert!(orders.iter().any(|o| *o != then));
        assert!(reordered(&tensor, 0, 1, 7).unwrap().is_none());
    }
}
