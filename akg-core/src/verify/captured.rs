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

/// The task, whose tensors for the contract's inputs of this seed are being made from now on, on a thread of their own; `None`
/// unless there are weights or other floats among them, and so much is made that waiting for it would take long.
pub(super) fn ahead(task: &Task, seed: u64) -> Result<Option<Task>> {
    let positions = captured_positions(task, Distribution::Contract);
    let Some(whole) = task.capture.clone() else {
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
    let (maker, asked) = (whole.clone(), positions.clone());
    let thread = thread::spawn(move || maker.capture(&asked, seed));
    let mut task = task.clone();
    task.capture = Some(Arc::new(Ahead {
        whole,
        positions,
        seed,
        thread: Mutex::new(Some(thread)),
    }));
    Ok(Some(task))
}

/// What is asked for first with a seed is there already, or soon.
#[derive(Debug)]
struct Ahead {
    whole: Arc<dyn Capture>,
    positions: Vec<usize>,
    seed: u64,
    thread: Mutex<Option<JoinHandle<Result<Vec<Tensor>>>>>,
}

impl Capture for Ahead {
    fn capture(&self, positions: &[usize], seed: u64) -> Result<Vec<Tensor>> {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        let is_begun = seed == self.seed && positions == self.positions;
        let begun = thread.take_if(|_| is_begun);
        drop(thread);
        match begun {
            Some(begun) => {
                let made = begun.join();
                made.unwrap_or_else(|_| Err(Error::unexpected("the thread that captures tensors panicked")))
            }
            None => self.whole.capture(positions, seed),
        }
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::dtype::DType;
    use crate::graph::Graph;

    /// Makes a scalar for each position: so many calls, and the seed.
    #[derive(Debug, Default)]
    struct Counting(AtomicU64);

    impl Capture for Counting {
        fn capture(&self, positions: &[usize], seed: u64) -> Result<Vec<Tensor>> {
            let calls = self.0.fetch_add(1, Ordering::Relaxed) + 1;
            let tensor = |_| Tensor::from_slice([2], &[calls as f32, seed as f32]);
            positions.iter().map(tensor).collect()
        }
    }

    #[test]
    fn what_is_made_ahead_is_handed_out_once_and_for_its_seed_only() {
        let mut graph = Graph::new("g");
        let x = graph.input("x", DType::F32, [4, 8192]);
        let w = graph.weight("w", DType::F32, [8192, 8192]);
        let y = graph.linear(x, w, None).unwrap();
        graph.output(y);
        let mut task = Task::new("t", graph);
        task.capture = Some(Arc::new(Counting::default()));
        let prepared = ahead(&task, 7).unwrap().unwrap().capture.unwrap();
        let asked = |seed| prepared.capture(&[1], seed).unwrap()[0].to_f64().unwrap();
        assert_eq!(asked(8)[1], 8.0);
        assert_eq!(asked(7)[1], 7.0);
        // The first two calls were that of the other seed and what was made ahead, in whichever order.
        assert_eq!(asked(7), [3.0, 7.0]);
        assert_eq!(asked(8), [4.0, 8.0]);
    }

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
