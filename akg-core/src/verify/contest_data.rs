//! The data that candidates are timed on.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use rand::{RngExt as _, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use super::inputs::{Distribution, InputMaker, captured_positions};
use crate::backend::{Backend, TensorBuffer, host_buffer};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::expr::Bindings;
use crate::graph::InputKind;
use crate::task::Task;
use crate::tensor::{Tensor, byte_len};
use crate::timing::SlotData;

/// Slots at most: more say no more of a kernel's speed.
const MOST_SLOTS: u64 = 1000;

/// Bytes of the inputs and outputs of all slots of a side, on this machine's processors and on a device, whose batches are
/// shorter for the same bytes.
const HOST_BYTES: u64 = 64 << 20;
const DEVICE_BYTES: u64 = 256 << 20;

/// Tensors from this size on are made once. What each slot has is a rotation of that by a random number of elements, which
/// takes a copy and not a random number for each element.
const LARGE: usize = 8 << 20;

/// Tensors from this size on are allocated by the backend, because copying them costs more than a file for each.
const OWN_FILE: usize = 1 << 20;

/// Sets of inputs that the task's own code makes for one contest, unless they are large.
const DRAWS: usize = 4;

/// The data of the contests of a task, all of which follows from a secret.
///
/// Activations differ in every slot. Weights and states are those of the round, as in use, where they stay for many calls.
/// Rounds follow the contract or are signed, at random. What only the task's own code can make comes from few draws, since it
/// takes long: which of them a slot has is random.
pub struct ContestData {
    task: Task,
    backend: Arc<dyn Backend>,
    secret: u64,
    capacity: u32,
    /// For each position that the task's code makes, its draws.
    captured: BTreeMap<usize, Vec<Tensor>>,
    maker: InputMaker,
    made: Mutex<Made>,
}

/// Large tensors by what they are like and their positions.
type Large = HashMap<(Distribution, usize), Tensor>;

/// What was made so far.
#[derive(Default)]
struct Made {
    /// Large tensors, for the whole contest.
    large: Large,
    round: Option<u32>,
    /// What all slots of that round share.
    shared: BTreeMap<usize, Tensor>,
    /// Its first slots.
    slots: BTreeMap<u32, Vec<Tensor>>,
}

impl ContestData {
    /// Data of a task at its hints, for candidates on a backend. No candidate may know the secret.
    ///
    /// # Errors
    /// If the task's own code fails to make its tensors, or hints do not give every extent.
    pub fn new(task: &Task, backend: Arc<dyn Backend>, secret: u64) -> Result<Self> {
        let mut data = Self {
            task: task.clone(),
            secret,
            capacity: 1,
            captured: BTreeMap::new(),
            maker: InputMaker::new(&task.graph),
            made: Mutex::default(),
            backend,
        };
        data.capture()?;
        data.capacity = data.fitting()?;
        Ok(data)
    }

    /// Lets the task's code make what nobody else can.
    fn capture(&mut self) -> Result<()> {
        let Some(capture) = self.task.capture.clone() else {
            return Ok(());
        };
        let positions = captured_positions(&self.task, Distribution::Contract);
        if positions.is_empty() {
            return Ok(());
        }
        for draw in 0..DRAWS {
            // Parameters are for a round, and one draw is as good as several.
            let wanted = positions
                .iter()
                .copied()
                .filter(|at| draw == 0 || self.varies(*at));
            let wanted: Vec<usize> = wanted.collect();
            let bytes: usize = self.drawn(&wanted);
            if draw > 0 && (wanted.is_empty() || bytes >= LARGE) {
                break;
            }
            let tensors = capture.capture(&wanted, self.seed(&[draw as u64]))?;
            for (at, tensor) in wanted.into_iter().zip(tensors) {
                self.captured.entry(at).or_default().push(tensor);
            }
        }
        Ok(())
    }

    /// Bytes of the first draw of these positions; none before it was made.
    fn drawn(&self, positions: &[usize]) -> usize {
        let draws = positions.iter().filter_map(|at| self.captured.get(at)?.first());
        draws.map(|tensor| tensor.bytes().len()).sum()
    }

    /// The number of slots that fit the memory.
    fn fitting(&self) -> Result<u32> {
        let graph = &self.task.graph;
        let inputs = graph
            .inputs()
            .iter()
            .enumerate()
            .filter(|(at, _)| self.varies(*at));
        let values = inputs
            .map(|(_, input)| input.value)
            .chain(graph.outputs().iter().map(|o| o.value));
        let mut bytes = 0u64;
        for value in values {
            let ty = graph.ty(value);
            bytes = bytes.saturating_add(byte_len(ty.dtype, &ty.concrete_shape(self.dims())?)? as u64);
        }
        let room = if self.backend.capability().own_processors {
            DEVICE_BYTES
        } else {
            HOST_BYTES
        };
        Ok((room / bytes.max(1)).clamp(1, MOST_SLOTS) as u32)
    }

    /// Whether an input differs from slot to slot.
    fn varies(&self, position: usize) -> bool {
        let input = self.task.graph.inputs().get(position);
        input.is_some_and(|input| input.kind == InputKind::Activation)
    }

    /// A seed that follows from the secret.
    fn seed(&self, numbers: &[u64]) -> u64 {
        let mut hasher = blake3::Hasher::new();
        for number in std::iter::once(&self.secret).chain(numbers) {
            hasher.update(&number.to_le_bytes());
        }
        let digest = hasher.finalize();
        digest
            .as_bytes()
            .first_chunk()
            .map_or(0, |bytes| u64::from_le_bytes(*bytes))
    }

    /// What the inputs of a round are like. Round 0 is the contract's, for whoever wants such data.
    pub(crate) fn distribution(&self, round: u32) -> Distribution {
        if round == 0 || self.seed(&[u64::from(round)]).is_multiple_of(2) {
            Distribution::Contract
        } else {
            Distribution::Signed
        }
    }

    /// Whether the task's code makes an input in a round of this distribution.
    fn draws(&self, distribution: Distribution, position: usize) -> Option<&[Tensor]> {
        let input = self.task.graph.inputs().get(position)?;
        let is_float = self.task.graph.ty(input.value).dtype.is_float();
        let draws = self.captured.get(&position)?;
        (distribution == Distribution::Contract || !is_float).then_some(draws.as_slice())
    }

    fn generate(&self, distribution: Distribution, seed: u64, position: usize) -> Result<Tensor> {
        let allocate = |dtype, shape: &[usize]| self.allocate(dtype, shape);
        self.maker
            .make(&allocate, &self.task, distribution, seed, position)
    }

    fn allocate(&self, dtype: DType, shape: &[usize]) -> Result<Box<dyn TensorBuffer>> {
        if byte_len(dtype, shape)? < OWN_FILE {
            host_buffer(dtype, shape)
        } else {
            self.backend.allocate(dtype, shape)
        }
    }

    /// The tensor of a position for this seed: made anew, or a rotation of what is kept for the contest.
    fn tensor(
        &self,
        large: &Large,
        distribution: Distribution,
        seed: u64,
        position: usize,
    ) -> Result<Tensor> {
        if let Some(draws) = self.draws(distribution, position) {
            let draw = draws.get(seed as usize % draws.len().max(1));
            return draw
                .cloned()
                .ok_or_else(|| Error::unexpected("an input was not captured"));
        }
        match large.get(&(distribution, position)) {
            Some(kept) => self.rotated(kept, seed),
            None => self.generate(distribution, seed, position),
        }
    }

    /// The elements from a random one on, and then those before it.
    fn rotated(&self, tensor: &Tensor, seed: u64) -> Result<Tensor> {
        let size = tensor.dtype().size();
        let bytes = tensor.bytes();
        let at = ChaCha8Rng::seed_from_u64(seed).random_range(0..(bytes.len() / size).max(1)) * size;
        let mut buffer = self.allocate(tensor.dtype(), tensor.shape())?;
        let (begin, end) = buffer.bytes_mut().split_at_mut(bytes.len() - at);
        let (head, tail) = bytes.split_at(at);
        begin.copy_from_slice(tail);
        end.copy_from_slice(head);
        buffer.freeze()
    }

    /// Makes the large tensors of a distribution, and what all slots of a round share.
    fn prepare(&self, made: &mut Made, round: u32) -> Result<()> {
        if made.round == Some(round) {
            return Ok(());
        }
        made.round = None;
        made.slots.clear();
        made.shared.clear();
        let distribution = self.distribution(round);
        for position in 0..self.task.graph.inputs().len() {
            let key = (distribution, position);
            if self.draws(distribution, position).is_none()
                && !made.large.contains_key(&key)
                && self.is_large(position)?
            {
                let tensor = self.generate(distribution, self.seed(&[1 << 32, position as u64]), position)?;
                made.large.insert(key, tensor);
            }
            if !self.varies(position) {
                let seed = self.seed(&[u64::from(round), position as u64]);
                let tensor = self.tensor(&made.large, distribution, seed, position)?;
                made.shared.insert(position, tensor);
            }
        }
        made.round = Some(round);
        Ok(())
    }

    fn is_large(&self, position: usize) -> Result<bool> {
        let Some(input) = self.task.graph.inputs().get(position) else {
            return Ok(false);
        };
        let ty = self.task.graph.ty(input.value);
        Ok(byte_len(ty.dtype, &ty.concrete_shape(self.dims())?)? >= LARGE)
    }

    /// The inputs of one slot.
    fn slot(&self, made: &Made, round: u32, index: u32) -> Result<Vec<Tensor>> {
        let distribution = self.distribution(round);
        let graph = &self.task.graph;
        let inputs = (0..graph.inputs().len()).map(|position| match made.shared.get(&position) {
            Some(shared) => Ok(shared.clone()),
            None => {
                let seed = self.seed(&[u64::from(round), position as u64, u64::from(index)]);
                self.tensor(&made.large, distribution, seed, position)
            }
        });
        let constants = graph.constants().iter().map(|c| Ok(c.tensor.clone()));
        inputs.chain(constants).collect()
    }
}

impl std::fmt::Debug for ContestData {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ContestData")
            .field("task", &self.task.name)
            .field("capacity", &self.capacity)
            .finish_non_exhaustive()
    }
}

impl SlotData for ContestData {
    fn dims(&self) -> &Bindings {
        &self.task.contract.hints
    }

    fn capacity(&self) -> u32 {
        self.capacity
    }

    fn inputs(&self, round: u32, slots: Range<u32>) -> Result<Vec<Vec<Tensor>>> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        self.prepare(&mut made, round)?;
        let missing: Vec<u32> = slots
            .clone()
            .filter(|index| !made.slots.contains_key(index))
            .collect();
        let new = missing
            .par_iter()
            .map(|index| Ok((*index, self.slot(&made, round, *index)?)));
        let mut new: BTreeMap<u32, Vec<Tensor>> = new.collect::<Result<_>>()?;
        let of = |index: u32| {
            let inputs = made.slots.get(&index).or_else(|| new.get(&index));
            inputs
                .cloned()
                .ok_or_else(|| Error::unexpected("a slot was not made"))
        };
        let all = slots.map(of).collect::<Result<_>>()?;
        // The next side wants the same; later slots are made again, so that memory does not grow.
        new.retain(|index, _| *index < self.capacity);
        made.slots.append(&mut new);
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use async_trait::async_trait;

    use super::*;
    use crate::backend::{BackendCapability, Limits, Loaded};
    use crate::graph::Graph;
    use crate::source::Artifact;
    use crate::target::Target;
    use crate::task::{Capture, Generator};
    use crate::verdict::Failure;
    use crate::verify::make_inputs;

    /// Memory of this process, and nothing to execute.
    #[derive(Debug, Default)]
    struct Memory(BackendCapability);

    #[async_trait]
    impl Backend for Memory {
        fn name(&self) -> &str {
            "memory"
        }

        fn capability(&self) -> &BackendCapability {
            &self.0
        }

        async fn devices(&self) -> Result<Vec<Target>> {
            Ok(Vec::new())
        }

        async fn load(
            &self,
            _: Artifact,
            _: Limits,
        ) -> Result<std::result::Result<Box<dyn Loaded>, Failure>> {
            Err(Error::unsupported("nothing is executed"))
        }
    }

    /// Activations of so many rows of 64, times weights.
    fn task(rows: i64) -> Task {
        let mut graph = Graph::new("linear");
        let x = graph.input("x", DType::F32, [rows, 64]);
        let w = graph.weight("w", DType::F32, [64, 64]);
        let y = graph
            .call("aten.mm.default", [("self", x.into()), ("mat2", w.into())])
            .unwrap()[0];
        graph.output(y);
        Task::new("linear", graph)
    }

    fn data(task: &Task, secret: u64) -> ContestData {
        ContestData::new(task, Arc::new(Memory::default()), secret).unwrap()
    }

    fn bytes(slots: &[Vec<Tensor>], position: usize) -> BTreeSet<Vec<u8>> {
        slots.iter().map(|slot| slot[position].bytes().to_vec()).collect()
    }

    #[test]
    fn every_slot_has_activations_of_its_own_and_every_round_weights() {
        // The second has large activations, of which slots have rotations.
        for rows in [64, (LARGE / 256) as i64] {
            let task = task(rows);
            let (data, other) = (data(&task, 1), data(&task, 2));
            let capacity = if rows == 64 { MOST_SLOTS as u32 } else { 4 };
            assert_eq!(data.capacity(), capacity);
            let (mut x, mut w) = (BTreeSet::new(), BTreeSet::new());
            for round in [3, 4] {
                // More than fit the memory.
                let count = capacity.min(4) + 2;
                let slots = data.inputs(round, 0..count).unwrap();
                let places: BTreeSet<_> = slots.iter().map(|slot| slot[1].bytes().as_ptr()).collect();
                assert_eq!(places.len(), 1);
                x.extend(bytes(&slots, 0));
                w.extend(bytes(&slots, 1));
                // Whoever asks again, for a part and in another order, gets the same.
                let again = data.inputs(round, 1..3).unwrap();
                assert_eq!(bytes(&again, 0), bytes(&slots[1..3], 0));
                x.extend(bytes(&other.inputs(round, 0..count).unwrap(), 0));
                assert_eq!(x.len() as u32, 2 * count * (round - 2));
            }
            assert_eq!(w.len(), 2);
            let again = self::data(&task, 1).inputs(3, 0..1).unwrap();
            assert!(x.contains(again[0][0].bytes()));
            // No data of a verification with a public seed.
            for seed in 0..4 {
                let public = make_inputs(
                    &task,
                    &Memory::default(),
                    Distribution::Contract,
                    seed,
                    data.dims(),
                )
                .unwrap();
                assert!(!x.contains(public[0].bytes()) && !w.contains(public[1].bytes()));
            }
        }
    }

    /// Positions that a script made, as often as it was asked.
    #[derive(Debug, Default)]
    struct Script(Mutex<Vec<(Vec<usize>, u64)>>);

    impl Capture for Script {
        fn capture(&self, positions: &[usize], seed: u64) -> Result<Vec<Tensor>> {
            self.0.lock().unwrap().push((positions.to_vec(), seed));
            let make = |at: &usize| match at {
                0 => Tensor::from_slice([64, 64], &[seed as f32; 4096]),
                _ => Tensor::from_slice([64, 64], &[0.5f32; 4096]),
            };
            positions.iter().map(make).collect()
        }
    }

    #[test]
    fn what_only_a_script_makes_is_made_a_few_times() {
        let script = Arc::new(Script::default());
        let mut task = task(64);
        task.contract.generators = vec![Generator::Captured, Generator::Normal];
        task.capture = Some(script.clone());
        let data = data(&task, 1);
        let slots = data.inputs(0, 0..64).unwrap();
        let asked = script.0.lock().unwrap().clone();
        let positions: Vec<&[usize]> = asked.iter().map(|(positions, _)| positions.as_slice()).collect();
        assert_eq!(positions, [&[0usize, 1] as &[usize], &[0], &[0], &[0]]);
        assert_eq!(bytes(&slots, 0).len(), DRAWS);
        assert_eq!(slots[5][1].to_f64().unwrap(), vec![0.5; 4096]);
        // Other rounds have weights and data of nobody's.
        let rounds = (1..20).map(|round| data.inputs(round, 0..1).unwrap().remove(0));
        let weights: BTreeSet<_> = rounds.map(|slot| slot[1].bytes().to_vec()).collect();
        assert!(weights.len() > 2);
    }
}
