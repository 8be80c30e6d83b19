//! Loading shared objects and executing their plans.

use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use akg_core::error::{Error, ErrorKind, Result};
use akg_core::expr::Bindings;
use akg_core::source::{Artifact, LaunchPlan};
use akg_core::verdict::{Failure, FailureKind};
use rustix::fs::StatVfsMountFlags;

use crate::client::FORMAT;
use crate::environment::Environment;
use crate::layout::{Layout, Slots};
use crate::object::{self, Object, Step, Threads};
use crate::registers::{self, Deviation};
use crate::sandbox::{self, Protected};
use crate::space::Space;
use crate::team::{self, Team};
use crate::{crash, fault, snapshot};

/// The file in the working directory, which is the worker's private one.
const FILE: &str = "./artifact.so";

/// Everything that an artifact needs, before its first instruction has run.
pub(crate) struct Prepared {
    plan: LaunchPlan,
    /// Ends with the process: the end of a thread undoes what the runtime has set up, which a candidate may not.
    team: ManuallyDrop<Team>,
    space: Space,
    /// Why this process could not give up its rights, if so.
    pub(crate) unlocked: Option<String>,
    /// The guards below the stacks of this process's threads.
    pub(crate) guards: Vec<Range<u64>>,
    protected: Protected,
    environment: Environment,
}

/// A loaded artifact.
pub(crate) struct Engine {
    plan: LaunchPlan,
    object: Object,
    team: ManuallyDrop<Team>,
    space: Space,
    /// For each slot, the launches with the addresses of their tensors; none until something is placed.
    slots: Vec<Vec<Step>>,
    /// Whether nothing was executed on them yet.
    is_new: bool,
    environment: Environment,
}

impl Prepared {
    /// Writes the artifact to its file, starts all threads that its kernels will ever run on (one for each processor and
    /// `cooperative` others), reserves the addresses of its tensors, and gives up every right beyond those.
    pub(crate) fn new(artifact: Artifact, cooperative: usize) -> Result<Result<Self, Failure>> {
        if artifact.format != FORMAT {
            return Err(Error::unsupported(format!(
                "this worker loads artifacts of format `{FORMAT}`, not `{}`",
                artifact.format
            )));
        }
        let cannot_write = |e| Error::io("cannot write the artifact to the worker's directory", e);
        std::fs::write(FILE, &artifact.bytes).map_err(cannot_write)?;
        let place = rustix::fs::statvfs(FILE).map_err(|e| cannot_write(e.into()))?;
        if place.f_flag.contains(StatVfsMountFlags::NOEXEC) {
            let message = "the directory for temporary files forbids executable files; set TMPDIR to another";
            return Err(Error::unsupported(message));
        }
        let team = match Team::new(cooperative) {
            Ok(team) => ManuallyDrop::new(team),
            Err(error) => return Ok(Err(Failure::new(FailureKind::OutOfMemory, error.to_string()))),
        };
        let space = Space::reserve()?;
        fault::reserved(space.range());
        let mut stacks = team.stacks();
        stacks.extend(team::own_stacks());
        let guards =
            snapshot::guards_below(&stacks).map_err(|e| Error::io("cannot read the worker's own maps", e))?;
        let protected = Protected {
            descriptors: fault::descriptors(),
            default_action: crash::default_action(),
            tensors: space.range(),
        };
        registers::reset();
        let unlocked = sandbox::lockdown(&protected).err().map(|error| error.to_string());
        Ok(Ok(Self {
            plan: artifact.plan,
            team,
            space,
            unlocked,
            guards,
            protected,
            environment: Environment::now(),
        }))
    }

    /// The addresses that are reserved for tensors.
    pub(crate) fn tensors(&self) -> Range<u64> {
        let Range { start, end } = self.protected.tensors;
        start as u64..end as u64
    }

    /// Loads the artifact and finds its kernels.
    pub(crate) fn load(self) -> Result<Engine, Failure> {
        // SAFETY: this runs the candidate's initialisers: what this process is for.
        let object = unsafe { Object::open(Path::new(FILE), &self.plan) }
            .map_err(|evidence| Failure::new(FailureKind::LoadFailed, evidence))?;
        crash::watch_new(object.library());
        let deviation = Deviation::default();
        deviation.check(0);
        if let Some((state, _)) = deviation.take() {
            let evidence = format!("loading the shared object left {state} in the main thread");
            return Err(Failure::new(FailureKind::LeftBehind, evidence));
        }
        if self.unlocked.is_none()
            && let Err(error) = sandbox::seal(&self.protected)
        {
            // The candidate's initialisers are in the way.
            return Err(Failure::new(FailureKind::LeftBehind, error.to_string()));
        }
        let engine = Engine {
            plan: self.plan,
            object,
            team: self.team,
            space: self.space,
            slots: Vec::new(),
            is_new: false,
            environment: self.environment,
        };
        match engine.left_behind() {
            Some(evidence) => Err(Failure::new(FailureKind::LeftBehind, evidence)),
            None => Ok(engine),
        }
    }
}

impl Engine {
    /// Maps the plan's tensors from the files of inputs and of the others, and prepares the arguments of all slots.
    pub(crate) fn place(
        &mut self,
        dims: &Bindings,
        placement: u32,
        slots: Slots,
        files: &[OwnedFd],
    ) -> Result<()> {
        self.slots.clear();
        fault::watch(&[]);
        let layout = Layout::new(&self.plan, dims, &slots)?;
        let [inputs, others] = files else {
            let message = format!("tensors come in 2 files, not {}", files.len());
            return Err(Error::new(ErrorKind::Protocol, message));
        };
        check_length(inputs, layout.input_file)?;
        check_length(others, layout.other_file)?;
        let zones = self
            .space
            .place(&layout, (dims, placement, &slots), [inputs, others])?;
        fault::watch(zones);
        let addresses: Vec<_> = zones.iter().map(|zone| zone.tensor as *mut c_void).collect();
        let tensors = self.plan.tensors.len();
        let steps = (0..layout.slots).map(|slot| {
            let own = addresses.get(slot * tensors..(slot + 1) * tensors);
            object::steps(&self.plan, dims, own.unwrap_or_default())
        });
        self.slots = steps.collect::<Result<_>>()?;
        self.is_new = true;
        Ok(())
    }

    /// Executes the plan on the slots, one after the other and round from `first` on; gives the time by this process's clock.
    /// The first time is in ranges of two programs at least.
    pub(crate) fn execute(&mut self, first: usize, calls: u32) -> Result<Duration> {
        if first >= self.slots.len() {
            let message = "the worker was asked to execute on a slot that is not placed";
            return Err(Error::new(ErrorKind::Protocol, message));
        }
        let round = self.slots.iter().cycle().skip(first);
        let start = Instant::now();
        for (steps, _) in round.zip(0..calls) {
            let threads = if std::mem::take(&mut self.is_new) {
                Threads::Pairs(&self.team)
            } else {
                Threads::Team(&self.team)
            };
            // SAFETY: a wrong plan harms only this process.
            unsafe { self.object.execute(steps, threads)? };
        }
        Ok(start.elapsed())
    }
}

impl Engine {
    /// What kernels did not restore, of what only this process sees.
    pub(crate) fn left_behind(&self) -> Option<String> {
        let state = self.team.left_behind();
        state
            .map(|state| format!("a kernel left {state}"))
            .or_else(|| self.environment.difference())
    }
}

/// A file that is too short would kill this process when it is accessed.
fn check_length(file: &OwnedFd, bytes: usize) -> Result<()> {
    let stat = rustix::fs::fstat(file).map_err(|e| Error::io("cannot look at shared memory", e.into()))?;
    if stat.st_size < bytes as i64 {
        let message = format!("shared memory has {} bytes, not {bytes}", stat.st_size);
        return Err(Error::new(ErrorKind::Protocol, message));
    }
    Ok(())
}
