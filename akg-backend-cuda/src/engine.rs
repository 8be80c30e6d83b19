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

use crate::driver::{self, Device, Event, Memory, Stream, download};
use crate::helpers::{Helpers, Range};
use crate::kept::{Kept, cannot_map, check_length};
use crate::lanes::Lanes;
use crate::launch::{Work, block_scratch};
use crate::layout::{GUARD, MOST_ALIGN, Room, Slot, lay_out};
use crate::program::Program;

mod apart;
mod observe;

/// What guards around inputs hold: NaN in every floating type, so that reading it shows.
const BESIDE_INPUTS: u8 = 0xff;

/// What guards around outputs and scratch hold, so that writing it shows: neither poison nor a common value, and another
/// one around each of the next tensors, so that copying from guard to guard shows too.
const BESIDE_OTHERS: [u8; 8] = [0x5a, 0xa5, 0x36, 0xc9, 0x69, 0x96, 0x1e, 0xe1];

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
    work: Work,
    bound: Option<Bound>,
}

/// Tensors in place.
#[derive(Debug)]
struct Bound {
    tensors: Vec<Placed>,
    /// Digests of what must not change, in the order of [`watched`].
    digests: Vec<u64>,
}

/// A tensor that needs a place.
#[derive(Debug)]
struct Wanted {
    name: String,
    role: TensorRole,
    room: Room,
}

/// A tensor in place.
#[derive(Debug)]
struct Placed {
    name: String,
    role: TensorRole,
    /// The byte that its guards hold.
    beside: u8,
    /// Addresses.
    slot: Slot,
}

impl Placed {
    fn bytes(&self) -> u64 {
        self.slot.after - self.slot.start
    }

    /// The guards before and after.
    fn guards(&self) -> [Range; 2] {
        let Slot {
            before,
            start,
            after,
            end,
        } = self.slot;
        [(before, start - before), (after, end - after)]
    }

    /// What the candidate did to a guard.
    fn overrun(&self, guard: usize) -> driver::Result<Failure> {
        let (address, length) = self.guards().get(guard).copied().unwrap_or_default();
        let mut bytes = vec![0; length as usize];
        download(&mut bytes, address)?;
        let first = bytes.iter().position(|b| *b != self.beside).unwrap_or(0) as u64;
        let name = &self.name;
        let evidence = match guard {
            0 => format!(
                "a kernel wrote {} bytes before the beginning of `{name}`",
                GUARD - first
            ),
            _ => format!(
                "a kernel wrote at byte {} of `{name}`, which has {} bytes",
                self.bytes() + first,
                self.bytes()
            ),
        };
        Ok(Failure::new(FailureKind::OutOfBounds, evidence))
    }
}

/// What must not change: the guards of every tensor, then every input.
fn watched(tensors: &[Placed]) -> Vec<Range> {
    let guards = tensors.iter().flat_map(Placed::guards);
    let inputs = tensors.iter().filter(|t| t.role == TensorRole::Input);
    guards.chain(inputs.map(|t| (t.slot.start, t.bytes()))).collect()
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
            bound: None,
        }))
    }

    /// Copies the inputs from their files, poisons everything else, and prepares the launches.
    pub(crate) fn bind(
        &mut self,
        dims: &Bindings,
        placement: u32,
        poison: Poison,
        inputs: &[File],
    ) -> Result<Result<(), Failure>> {
        self.bound = None;
        let stream = self.context.stream;
        let wanted = self.wanted(dims)?;
        let scratch = wanted.iter().filter(|w| w.role == TensorRole::Scratch);
        let needed: u64 = scratch.map(|w| w.room.bytes).sum();
        if needed > self.memory {
            let evidence = format!(
                "the candidate needs {needed} bytes of scratch; it may use {}",
                self.memory
            );
            return Ok(Err(Failure::new(FailureKind::OutOfMemory, evidence)));
        }
        let rooms: Vec<Room> = wanted.iter().map(|w| w.room).collect();
        let (slots, total) = lay_out(&rooms, placement)?;
        let base = self.reserve(total)?;
        let place = |(index, (wanted, slot)): (usize, (Wanted, Slot))| Placed {
            name: wanted.name,
            role: wanted.role,
            beside: match wanted.role {
                TensorRole::Input => BESIDE_INPUTS,
                TensorRole::Output | TensorRole::Scratch => beside_other(index),
            },
            slot: Slot {
                before: base + slot.before,
                start: base + slot.start,
                after: base + slot.after,
                end: base + slot.end,
            },
        };
        let tensors: Vec<Placed> = wanted.into_iter().zip(slots).enumerate().map(place).collect();
        let mut files = inputs.iter();
        for tensor in &tensors {
            for (address, bytes) in tensor.guards() {
                stream.fill(address, tensor.beside, bytes)?;
            }
            match tensor.role {
                TensorRole::Input => self.copy_input(tensor, files.next())?,
                TensorRole::Output | TensorRole::Scratch => {
                    stream.fill(tensor.slot.start, poison.byte(), tensor.bytes())?;
                }
            }
        }
        let digests = self.context.helpers.digests(stream, &watched(&tensors))?;
        self.prepare(dims, tensors, digests)
    }

    /// Copies an input to its place from its file.
    fn copy_input(&mut self, input: &Placed, file: Option<&File>) -> Result<()> {
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
        self.kept
            .place(input.slot.start, file, input.bytes(), *stream, helpers, lanes)
    }

    /// Prepares the launches on tensors in place.
    fn prepare(
        &mut self,
        dims: &Bindings,
        tensors: Vec<Placed>,
        digests: Vec<u64>,
    ) -> Result<Result<(), Failure>> {
        let addresses: Vec<u64> = tensors.iter().map(|t| t.slot.start).collect();
        let (of_plan, of_blocks) = addresses
            .split_at_checked(self.plan.tensors.len())
            .unwrap_or_default();
        let before = std::mem::take(&mut self.work);
        let work = Work::new(&self.plan, &self.program, dims, of_plan, of_blocks, before)?;
        match work {
            Ok(work) => self.work = work,
            Err(failure) => return Ok(Err(failure)),
        }
        self.bound = Some(Bound { tensors, digests });
        Ok(Ok(()))
    }

    /// The tensors of the plan, and after them what the blocks of its kernels need for themselves.
    fn wanted(&self, dims: &Bindings) -> Result<Vec<Wanted>> {
        let mut all = Vec::new();
        for (tensor, shape) in self.plan.tensors.iter().zip(plan::shapes(&self.plan, dims)?) {
            all.push(Wanted {
                name: tensor.name.clone(),
                role: tensor.role,
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
            room: Room {
                bytes: scratch.bytes,
                align: scratch.align,
            },
        }));
        Ok(all)
    }

    /// Executes the work so many times; gives the time by the device's clock.
    pub(crate) fn execute(&mut self, calls: u32, cache: Cache) -> Result<Result<Duration, Failure>> {
        self.bound()?;
        if cache == Cache::Cold {
            self.context.helpers.prepare_flush()?;
        }
        let timed = match cache {
            Cache::Warm => return self.execute_warm(calls),
            Cache::Cold => self.execute_cold(calls),
        };
        Ok(timed.map_err(|error| self.crashed(&error)))
    }

    /// All calls one after the other, between two marks. The host's clock around them must agree.
    fn execute_warm(&mut self, calls: u32) -> Result<Result<Duration, Failure>> {
        let mut claims = (Duration::ZERO, Duration::ZERO);
        for attempt in 0..ATTEMPTS {
            thread::sleep(PAUSE * attempt);
            let began = Instant::now();
            let timed = self.timed(|work, stream| (0..calls).try_for_each(|_| work.enqueue(stream)));
            let device = match timed {
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
                "device and host do not agree on how long {calls} calls take, {device:?} and {host:?}: the machine is too \
                 busy to time anything; try again when it is idle"
            ),
        ))
    }

    /// Each call for itself, after the caches were emptied.
    fn execute_cold(&mut self, calls: u32) -> driver::Result<Duration> {
        let stream = self.context.stream;
        let mut sum = Duration::ZERO;
        for call in 0..calls {
            self.context.helpers.flush(stream, call)?;
            sum += self.timed(Work::enqueue)?;
        }
        Ok(sum)
    }

    /// The time between marks before and after what is enqueued.
    fn timed(
        &mut self,
        enqueue: impl FnOnce(&mut Work, Stream) -> driver::Result<()>,
    ) -> driver::Result<Duration> {
        let stream = self.context.stream;
        let [start, end] = self.context.marks;
        start.record(stream)?;
        enqueue(&mut self.work, stream)?;
        end.record(stream)?;
        stream.wait()?;
        end.since(start)
    }

    /// Looks at what must not change, and copies the outputs to their files; whether the inputs are as before.
    pub(crate) fn take(&mut self, outputs: &[File]) -> Result<Result<bool, Failure>> {
        let bound = self
            .bound
            .take()
            .ok_or_else(|| Error::new(ErrorKind::Protocol, "nothing is bound"))?;
        let watched = watched(&bound.tensors);
        let digests = self.context.helpers.digests(self.context.stream, &watched)?;
        let mut changed = digests.iter().zip(&bound.digests).map(|(now, then)| now != then);
        for tensor in &bound.tensors {
            for guard in 0..2 {
                if changed.next() == Some(true) {
                    return Ok(Err(tensor.overrun(guard)?));
                }
            }
        }
        let inputs_unchanged = !changed.any(|changed| changed);
        let tensors = bound.tensors.iter().filter(|t| t.role == TensorRole::Output);
        for (tensor, file) in tensors.zip(outputs) {
            download_file(file, tensor.slot.start, tensor.bytes(), &mut self.context.lanes)?;
        }
        Ok(Ok(inputs_unchanged))
    }

    fn bound(&self) -> Result<&Bound> {
        self.bound
            .as_ref()
            .ok_or_else(|| Error::new(ErrorKind::Protocol, "nothing is bound"))
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

/// See [`BESIDE_OTHERS`].
fn beside_other(index: usize) -> u8 {
    BESIDE_OTHERS
        .get(index % BESIDE_OTHERS.len())
        .copied()
        .unwrap_or(0x5a)
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
