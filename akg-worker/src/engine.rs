//! Loading shared objects and executing their plans.

use std::ffi::c_void;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use akg_core::error::{Error, ErrorKind, Result};
use akg_core::expr::Bindings;
use akg_core::source::{Artifact, LaunchPlan};
use akg_core::verdict::{Failure, FailureKind};
use libloading::Library;
use libloading::os::unix;
use rustix::fs::StatVfsMountFlags;

use crate::client::FORMAT;
use crate::layout::Layout;
use crate::space::{Space, Zone};
use crate::team::{Arguments, CooperativeKernel, Kernel, Team};
use crate::{crash, fault, plan, sandbox};

/// The file in the working directory, which is the worker's private one.
const FILE: &str = "./artifact.so";

/// Everything that an artifact needs, before its first instruction has run.
pub(crate) struct Prepared {
    plan: LaunchPlan,
    team: Team,
    space: Space,
    /// Why this process could not give up its rights, if so.
    pub(crate) unlocked: Option<String>,
}

/// A loaded artifact.
pub(crate) struct Engine {
    plan: LaunchPlan,
    /// The address of each launch's kernel.
    kernels: Vec<*const c_void>,
    team: Team,
    space: Space,
    /// For each launch, the number of programs and their arguments; `None` until something is placed.
    launches: Option<Vec<(i64, Arguments)>>,
    /// Keeps the kernels loaded.
    _library: Library,
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
            Ok(team) => team,
            Err(error) => return Ok(Err(Failure::new(FailureKind::OutOfMemory, error.to_string()))),
        };
        let space = Space::reserve()?;
        fault::reserved(space.range());
        let unlocked = sandbox::lockdown().err().map(|error| error.to_string());
        Ok(Ok(Self {
            plan: artifact.plan,
            team,
            space,
            unlocked,
        }))
    }

    /// Loads the artifact and finds its kernels.
    pub(crate) fn load(self) -> Result<Engine, Failure> {
        let failed = |evidence| Err(Failure::new(FailureKind::LoadFailed, evidence));
        // Every undefined symbol shows now and not in the middle of a run.
        // SAFETY: this runs the candidate's initialisers: what this process is for.
        let library: Library = match unsafe { unix::Library::open(Some(FILE), unix::RTLD_NOW) } {
            Ok(library) => library.into(),
            Err(e) => return failed(format!("the shared object cannot be loaded: {}", reason(&e))),
        };
        crash::watch_new(&library);
        let mut kernels = Vec::new();
        for launch in &self.plan.launches {
            // SAFETY: only the address is taken.
            match unsafe { library.get::<*const c_void>(launch.kernel.as_str()) } {
                Ok(symbol) => kernels.push(*symbol),
                Err(e) => {
                    let kernel = &launch.kernel;
                    return failed(format!(
                        "the shared object has no kernel `{kernel}`: {}",
                        reason(&e)
                    ));
                }
            }
        }
        Ok(Engine {
            plan: self.plan,
            kernels,
            team: self.team,
            space: self.space,
            launches: None,
            _library: library,
        })
    }
}

impl Engine {
    /// Maps the plan's tensors from the files of inputs and of the others.
    pub(crate) fn place(&mut self, dims: &Bindings, placement: u32, files: &[OwnedFd]) -> Result<()> {
        self.launches = None;
        fault::watch(&[]);
        let layout = Layout::new(&self.plan, dims)?;
        let [inputs, others] = files else {
            let message = format!("tensors come in 2 files, not {}", files.len());
            return Err(Error::new(ErrorKind::Protocol, message));
        };
        check_length(inputs, layout.input_file)?;
        check_length(others, layout.other_file)?;
        let zones = self.space.place(&layout, dims, placement, [inputs, others])?;
        fault::watch(zones);
        self.launches = Some(launches(&self.plan, dims, zones)?);
        Ok(())
    }

    /// Executes the plan so many times on what is placed; gives the time by this process's clock.
    pub(crate) fn execute(&mut self, calls: u32) -> Result<Duration> {
        let launches = self.launches.as_ref().ok_or_else(|| {
            let message = "the worker was asked to execute before anything was placed";
            Error::new(ErrorKind::Protocol, message)
        })?;
        let start = Instant::now();
        for _ in 0..calls {
            for ((launch, kernel), (programs, arguments)) in
                self.plan.launches.iter().zip(&self.kernels).zip(launches)
            {
                if *programs == 0 {
                    continue;
                }
                // SAFETY: the plan says which kind of kernel the symbol is; a wrong plan harms only this process.
                unsafe {
                    if launch.cooperative {
                        let kernel = std::mem::transmute::<*const c_void, CooperativeKernel>(*kernel);
                        self.team.launch_cooperative(kernel, arguments, *programs)?;
                    } else {
                        let kernel = std::mem::transmute::<*const c_void, Kernel>(*kernel);
                        self.team.launch(kernel, arguments, *programs);
                    }
                }
            }
        }
        Ok(start.elapsed())
    }
}

/// What the dynamic linker says.
fn reason(error: &libloading::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
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

/// The number of programs and the arguments of each launch.
fn launches(plan: &LaunchPlan, bindings: &Bindings, zones: &[Zone]) -> Result<Vec<(i64, Arguments)>> {
    let dims = plan::dims(plan, bindings)?;
    let arguments = plan.launches.iter().map(|launch| {
        let tensors = launch.tensors.iter().map(|index| {
            let zone = zones.get(*index).ok_or_else(|| {
                Error::invalid(format!(
                    "kernel `{}` takes tensor {index}, which the plan lacks",
                    launch.kernel
                ))
            })?;
            Ok(zone.tensor as *mut c_void)
        });
        let arguments = Arguments {
            tensors: tensors.collect::<Result<_>>()?,
            dims: dims.clone(),
        };
        Ok((LaunchPlan::programs(launch, bindings)?, arguments))
    });
    arguments.collect()
}
