//! An artifact on its device: tensors in place, executions, what is left afterwards.

use std::fs::File;
use std::thread;
use std::time::{Duration, Instant};

use akg_core::backend::{Cache, Poison};
use akg_core::error::{Error, ErrorKind, Result};
use akg_core::expr::Bindings;
use akg_core::source::{Artifact, LaunchPlan, TensorRole};
use akg_core::tensor::byte_len;
use akg_core::verdict::{Failure, FailureKind};
use akg_worker::{plan, shm};
use memmap2::MmapOptions;

use crate::driver::{self, Device, Event, Memory, Stream};
use crate::helpers::Helpers;
use crate::kept::{self, Kept, cannot_map, check_length};
use crate::lanes::Lanes;
use crate::launch::{Work, block_scratch};
use crate::layout::{MOST_ALIGN, Room};
use crate::program::Program;

mod apart;
mod observe;
mod slots;

pub(crate) use slots::Slots;
use slots::{Bound, Filled, Placed, Wanted, outputs, watched};

/// How often an execution is timed until device and host agree, and the steps in which the time between attempts grows:
/// some seconds in all, longer than others use the device at a stretch.
const ATTEMPTS: u32 = 20;
const PAUSE: Duration = Duration::from_millis(20);

/// Part of the device's time, and time beside it, by which the host's may be longer: launching the first kernel, and
/// hearing of the end of the last.
const AGREEMENT: (f64, Duration) = (0.05, Duration::from_millis(1));

/// The part of the device's memory that inputs may stay in between binds: one over this.
const KEPT: u64 = 8;

/// A device in the worker.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) device: Device,
    stream: Stream,
    helpers: Helpers,
    lanes: Lanes,
    /// Two marks for timing.
    marks: [Event; 2],
}

impl Context {
    /// Makes a context on a device, for the life of the process.
    pub(crate) fn open(device: Device) -> driver::Result<Self> {
        device.enter()?;
        Ok(Self {
            device,
            stream: Stream::new()?,
            helpers: Helpers::load(device)?,
            lanes: Lanes::new(device),
            marks: [Event::new()?, Event::new()?],
        })
    }
}

/// A loaded artifact.
#[derive(Debug)]
pub(crate) struct Engine {
    context: Context,
    plan: LaunchPlan,
    program: Program,
    /// Bytes of scratch at most.
    memory: u64,
    kept: Kept,
    /// All tensors, with what is around them.
    arena: Option<Memory>,
    /// Tensors in allocations of their own.
    apart: Vec<Memory>,
    /// The launches of the first slot, and those of the others.
    work: Work,
    others: Vec<Work>,
    bound: Option<Bound>,
}

impl Engine {
    /// Loads an artifact, which may use so much memory beyond inputs and outputs.
    pub(crate) fn load(context: Context, artifact: Artifact, memory: u64) -> Result<Result<Self, Failure>> {
        let program = match Program::load(&artifact, context.device)? {
            Ok(program) => program,
            Err(failure) => return Ok(Err(failure)),
        };
        let kept = Kept::new(context.device.memory()? / KEPT);
        Ok(Ok(Self {
            context,
            plan: artifact.plan,
            program,
            memory,
            kept,
            arena: None,
            apart: Vec::new(),
            work: Work::default(),
            others: Vec::new(),
            bound: None,
        }))
    }

    /// Copies the inputs of a slot from their files, also to outputs that update them, poisons everything else of it, and
    /// prepares its launches.
    pub(crate) fn bind(
        &mut self,
        dims: &Bindings,
        placement: u32,
        poison: Poison,
        slots: &Slots,
        inputs: &[File],
    ) -> Result<Result<(), Failure>> {
        let mut bound = match self.bound.take().filter(|_| slots.slot > 0) {
            Some(bound) => bound,
            None => match self.lay_out(dims, placement, slots)? {
                Ok(bound) => bound,
                Err(failure) => return Ok(Err(failure)),
            },
        };
        let out_of_order = || Error::new(ErrorKind::Protocol, "slots are bound out of order");
        let tensors = bound.places.get(slots.slot).ok_or_else(out_of_order)?;
        if bound.slots.len() != slots.slot {
            return Err(out_of_order());
        }
        let stream = self.context.stream;
        let mut files = inputs.iter();
        for (index, tensor) in tensors.iter().enumerate() {
            if slots.has_before(index) {
                continue;
            }
            for (address, bytes) in tensor.guards() {
                stream.fill(address, tensor.beside, bytes)?;
            }
            match tensor.role {
                TensorRole::Input => self.copy_input(tensor, files.next(), slots.count == 1)?,
                TensorRole::Output | TensorRole::Scratch if poison == Poison::Kept => {}
                TensorRole::Output | TensorRole::Scratch => {
                    stream.fill(tensor.slot.start, poison.byte(), tensor.bytes())?;
                }
            }
        }
        for tensor in tensors {
            if let Some(input) = tensor.begins(tensors) {
                stream.copy(tensor.slot.start, input.slot.start, tensor.bytes())?;
            }
        }
        let mut ranges = watched(tensors);
        let count = ranges.len();
        ranges.extend(outputs(tensors));
        let mut digests = self.context.helpers.digests(stream, &ranges)?;
        let outputs = digests.split_off(count);
        let before = match slots.slot {
            0 => std::mem::take(&mut self.work),
            slot => self
                .others
                .get_mut(slot - 1)
                .map(std::mem::take)
                .unwrap_or_default(),
        };
        let work = match self.prepare(dims, tensors, before)? {
            Ok(work) => work,
            Err(failure) => return Ok(Err(failure)),
        };
        match slots.slot.checked_sub(1) {
            None => self.work = work,
            Some(other) => match self.others.get_mut(other) {
                Some(place) => *place = work,
                None => self.others.push(work),
            },
        }
        bound.slots.push(Filled {
            poison,
            digests,
            outputs,
        });
        self.bound = Some(bound);
        Ok(Ok(()))
    }

    /// Copies an input to its place from its file; keeps a copy for later binds if that is asked for.
    fn copy_input(&mut self, input: &Placed, file: Option<&File>, keep: bool) -> Result<()> {
        let file = file.ok_or_else(|| {
            let message = format!("input `{}` has no file", input.name);
            Error::new(ErrorKind::Protocol, message)
        })?;
        let Context {
            stream,
            helpers,
            lanes,
            ..
        } = &mut self.context;
        let (start, bytes) = (input.slot.start, input.bytes());
        if keep {
            self.kept.place(start, file, bytes, *stream, helpers, lanes)
        } else {
            kept::upload(start, file, bytes, lanes)
        }
    }

    /// Prepares the launches on tensors in place; `before` is the work that they replace.
    fn prepare(&self, dims: &Bindings, tensors: &[Placed], before: Work) -> Result<Result<Work, Failure>> {
        let addresses: Vec<u64> = tensors.iter().map(|t| t.slot.start).collect();
        let (of_plan, of_blocks) = addresses
            .split_at_checked(self.plan.tensors.len())
            .unwrap_or_default();
        Work::new(&self.plan, &self.program, dims, of_plan, of_blocks, before)
    }

    /// The tensors of the plan, and after them what the blocks of its kernels need for themselves.
    fn wanted(&self, dims: &Bindings) -> Result<Vec<Wanted>> {
        let mut all = Vec::new();
        for (tensor, shape) in self.plan.tensors.iter().zip(plan::shapes(&self.plan, dims)?) {
            all.push(Wanted {
                name: tensor.name.clone(),
                role: tensor.role,
                updates: tensor.updates,
                room: Room {
                    bytes: byte_len(tensor.dtype, &shape)? as u64,
                    align: tensor.align as u64,
                },
            });
        }
        let scratch = block_scratch(&self.plan, &self.program, dims)?;
        all.extend(scratch.into_iter().map(|scratch| Wanted {
            name: "the scratch of blocks".to_owned(),
            role: TensorRole::Scratch,
            updates: None,
            room: Room {
                bytes: scratch.bytes,
                align: scratch.align,
            },
        }));
        Ok(all)
    }

    /// Executes the work of the slots, one after the other and round from `first` on; gives the time by the device's clock.
    pub(crate) fn execute(
        &mut self,
        first: usize,
        calls: u32,
        cache: Cache,
    ) -> Result<Result<Duration, Failure>> {
        let count = self.bound()?.slots.len();
        let slots: Vec<usize> = (first..).take(calls as usize).map(|call| call % count).collect();
        if cache == Cache::Cold {
            self.context.helpers.prepare_flush()?;
        }
        let timed = match cache {
            Cache::Warm => return self.execute_warm(&slots),
            Cache::Cold => self.execute_cold(&slots),
        };
        Ok(timed.map_err(|error| self.crashed(&error)))
    }

    /// All calls one after the other, between two marks. The host's clock around them must agree; where it does not, they are
    /// made again as if they had not been.
    fn execute_warm(&mut self, slots: &[usize]) -> Result<Result<Duration, Failure>> {
        let mut claims = (Duration::ZERO, Duration::ZERO);
        for attempt in 0..ATTEMPTS {
            thread::sleep(PAUSE * attempt);
            if attempt > 0 {
                self.poison(slots)?;
            }
            let began = Instant::now();
            let device = match self.timed(slots) {
                Ok(device) => device,
                Err(error) => return Ok(Err(self.crashed(&error))),
            };
            let host = began.elapsed();
            let (part, beside) = AGREEMENT;
            if host <= device.mul_f64(1.0 + part) + beside && device <= host.mul_f64(1.0 + part) {
                return Ok(Ok(device));
            }
            claims = (device, host);
        }
        let (device, host) = claims;
        Err(Error::new(
            ErrorKind::OutOfResources,
            format!(
                "device and host do not agree on how long {} calls take, {device:?} and {host:?}: the machine is too busy to \
                 time anything; try again when it is idle",
                slots.len()
            ),
        ))
    }

    /// Each call for itself, after the caches were emptied.
    fn execute_cold(&mut self, slots: &[usize]) -> driver::Result<Duration> {
        let stream = self.context.stream;
        let mut sum = Duration::ZERO;
        for (call, slot) in slots.iter().enumerate() {
            self.context.helpers.flush(stream, call as u32)?;
            sum += self.timed(&[*slot])?;
        }
        Ok(sum)
    }

    /// The time between marks before and after the work of these slots.
    fn timed(&mut self, slots: &[usize]) -> driver::Result<Duration> {
        let stream = self.context.stream;
        let [start, end] = self.context.marks;
        start.record(stream)?;
        for slot in slots {
            let work = match slot.checked_sub(1) {
                None => Some(&mut self.work),
                Some(other) => self.others.get_mut(other),
            };
            work.map_or(Ok(()), |work| work.enqueue(stream))?;
        }
        end.record(stream)?;
        stream.wait()?;
        end.since(start)
    }

    /// Looks at what must not change in a slot, and copies its outputs to their files; whether the inputs are as before.
    pub(crate) fn take(&mut self, slot: usize, outputs: &[File]) -> Result<Result<bool, Failure>> {
        let bound = self.bound()?;
        let not_bound = || Error::new(ErrorKind::Protocol, "the slot is not bound");
        let tensors = bound.places.get(slot).ok_or_else(not_bound)?.clone();
        let filled = bound.slots.get(slot).ok_or_else(not_bound)?;
        let watched = watched(&tensors);
        let digests = self.context.helpers.digests(self.context.stream, &watched)?;
        let mut changed = digests.iter().zip(&filled.digests).map(|(now, then)| now != then);
        for tensor in &tensors {
            for guard in 0..2 {
                if changed.next() == Some(true) {
                    return Ok(Err(tensor.overrun(guard)?));
                }
            }
        }
        let inputs_unchanged = !changed.any(|changed| changed);
        let tensors = tensors.iter().filter(|t| t.role == TensorRole::Output);
        for (tensor, file) in tensors.zip(outputs) {
            download_file(file, tensor.slot.start, tensor.bytes(), &mut self.context.lanes)?;
        }
        Ok(Ok(inputs_unchanged))
    }

    fn bound(&self) -> Result<&Bound> {
        let bound = self.bound.as_ref().filter(|bound| !bound.slots.is_empty());
        bound.ok_or_else(|| Error::new(ErrorKind::Protocol, "nothing is bound"))
    }

    /// What an error during an execution says about the candidate: nothing else was asked of the device.
    fn crashed(&self, error: &driver::DriverError) -> Failure {
        let kernels: Vec<&str> = self.plan.launches.iter().map(|l| l.kernel.as_str()).collect();
        let evidence = format!("{error}, while {} ran", kernels.join(", "));
        Failure::new(FailureKind::Crashed, evidence)
    }

    /// The address of so many bytes, aligned.
    fn reserve(&mut self, bytes: u64) -> Result<u64> {
        let bytes = bytes + MOST_ALIGN;
        if let Some(arena) = self.arena.take_if(|arena| arena.bytes() < bytes) {
            drop(arena);
        }
        let arena = match &self.arena {
            Some(arena) => arena,
            None => {
                let arena = Memory::new(bytes).map_err(|error| {
                    let out = error.is_out_of_memory();
                    let error = Error::from(error);
                    if out {
                        error.with("tensors of the plan", format!("{bytes} bytes with their guards"))
                    } else {
                        error
                    }
                })?;
                self.arena.insert(arena)
            }
        };
        Ok(arena.address().next_multiple_of(MOST_ALIGN))
    }
}

/// Copies to a file from the device.
fn download_file(file: &File, from: u64, bytes: u64, lanes: &mut Lanes) -> Result<()> {
    check_length(file, bytes)?;
    if bytes == 0 {
        return Ok(());
    }
    // SAFETY: the caller sealed the file at its length and does not look at it yet.
    let mut map = unsafe { MmapOptions::new().len(bytes as usize).map_mut(file) }.map_err(cannot_map)?;
    shm::reserve(file, &mut map)?;
    Ok(lanes.download(&mut map, from)?)
}
