//! Loading shared objects and executing their plans: the `elf-so` format.
//!
//! A kernel is one C symbol. An ordinary one executes a range of programs, in the row-major numbering of the grid:
//!
//! ```c
//! void NAME(void *const *tensors, const int64_t *dims, int64_t first, int64_t last);
//! ```
//!
//! A cooperative one executes one program; all programs run at the same time and meet at the barrier:
//!
//! ```c
//! struct akg_team { void (*barrier)(void *context); void *context; };
//! void NAME(void *const *tensors, const int64_t *dims, int64_t program, const struct akg_team *team);
//! ```

use std::ffi::c_void;
use std::time::Instant;

use akg_core::backend::{Timing, TimingPolicy};
use akg_core::error::{Error, ErrorKind, Result};
use akg_core::expr::Bindings;
use akg_core::source::{Artifact, LaunchPlan, TensorRole};
use akg_core::tensor::byte_len;
use akg_core::verdict::{Failure, FailureKind};
use libloading::Library;
use libloading::os::unix;
use memmap2::{Mmap, MmapMut, MmapOptions};

use crate::caches::Flush;
use crate::protocol::{Execution, SharedView};
use crate::shm::{self, SharedBuffer};
use crate::team::{Arguments, CooperativeKernel, Kernel, Team};
use crate::{crash, plan};

/// The one artifact format.
pub(crate) const FORMAT: &str = "elf-so";

/// The file in the working directory, which is the worker's private one.
const FILE: &str = "./artifact.so";

/// A loaded artifact.
pub(crate) struct Engine {
    plan: LaunchPlan,
    /// The address of each launch's kernel.
    kernels: Vec<*const c_void>,
    team: Team,
    /// Keeps the kernels loaded.
    _library: Library,
}

impl Engine {
    /// Loads an artifact and finds its kernels.
    pub(crate) fn load(artifact: Artifact) -> Result<Result<Self, Failure>> {
        if artifact.format != FORMAT {
            return Err(Error::unsupported(format!(
                "this worker loads artifacts of format `{FORMAT}`, not `{}`",
                artifact.format
            )));
        }
        std::fs::write(FILE, &artifact.bytes)
            .map_err(|e| Error::io("cannot write the artifact to the worker's directory", e))?;
        let failed = |evidence| Ok(Err(Failure::new(FailureKind::LoadFailed, evidence)));
        // Every undefined symbol shows now and not in the middle of a run.
        // SAFETY: this runs the candidate's initialisers: what this process is for.
        let library: Library = match unsafe { unix::Library::open(Some(FILE), unix::RTLD_NOW) } {
            Ok(library) => library.into(),
            Err(e) => return failed(format!("the shared object cannot be loaded: {}", reason(&e))),
        };
        crash::watch_new(&library);
        let mut kernels = Vec::new();
        for launch in &artifact.plan.launches {
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
        Ok(Ok(Self {
            plan: artifact.plan,
            kernels,
            team: Team::new()?,
            _library: library,
        }))
    }

    /// Executes the plan once and tells whether the inputs are unchanged.
    pub(crate) fn run(&mut self, execution: &Execution) -> Result<Result<bool, Failure>> {
        let bound = match Bound::new(&self.plan, execution)? {
            Ok(bound) => bound,
            Err(failure) => return Ok(Err(failure)),
        };
        Ok(self.execute(&bound)?.map(|()| bound.inputs_unchanged()))
    }

    /// Executes the plan repeatedly and takes the time of each execution.
    pub(crate) fn time(
        &mut self,
        execution: &Execution,
        policy: &TimingPolicy,
    ) -> Result<Result<Timing, Failure>> {
        let bound = match Bound::new(&self.plan, execution)? {
            Ok(bound) => bound,
            Err(failure) => return Ok(Err(failure)),
        };
        for _ in 0..policy.warmup {
            if let Err(failure) = self.execute(&bound)? {
                return Ok(Err(failure));
            }
        }
        let flush = policy.cold.then(|| Flush::new(self.team.threads()));
        let started = Instant::now();
        let mut seconds = Vec::new();
        while seconds.len() < policy.samples as usize
            && (seconds.is_empty() || started.elapsed() < policy.budget)
        {
            if let Some(flush) = &flush {
                flush.run(&self.team);
            }
            let start = Instant::now();
            let outcome = self.execute(&bound)?;
            seconds.push(start.elapsed().as_secs_f64());
            if let Err(failure) = outcome {
                return Ok(Err(failure));
            }
        }
        Ok(Ok(Timing { seconds }))
    }

    fn execute(&mut self, bound: &Bound) -> Result<Result<(), Failure>> {
        for ((launch, kernel), (programs, arguments)) in
            self.plan.launches.iter().zip(&self.kernels).zip(&bound.launches)
        {
            if *programs == 0 {
                continue;
            }
            // SAFETY: the plan says which kind of kernel the symbol is; a wrong plan harms only this process.
            unsafe {
                if launch.cooperative {
                    let kernel = std::mem::transmute::<*const c_void, CooperativeKernel>(*kernel);
                    if let Err(error) = self.team.launch_cooperative(kernel, arguments, *programs) {
                        let evidence = format!("kernel `{}`: {error}", launch.kernel);
                        return Ok(Err(Failure::new(FailureKind::OutOfMemory, evidence)));
                    }
                } else {
                    let kernel = std::mem::transmute::<*const c_void, Kernel>(*kernel);
                    self.team.launch(kernel, arguments, *programs);
                }
            }
        }
        Ok(Ok(()))
    }
}

/// What the dynamic linker says.
fn reason(error: &libloading::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}

/// A plan's tensors in memory.
struct Bound {
    /// Each input as it is, and the copy that kernels get.
    inputs: Vec<(Mmap, MmapMut)>,
    /// Keeps outputs and scratch mapped.
    _outputs: Vec<SharedBuffer>,
    _scratch: Vec<MmapMut>,
    /// For each launch, the number of programs and their arguments.
    launches: Vec<(i64, Arguments)>,
}

impl Bound {
    fn new(plan: &LaunchPlan, execution: &Execution) -> Result<Result<Self, Failure>> {
        let (mut given, mut wanted) = (execution.inputs.iter(), execution.outputs.iter());
        let (mut inputs, mut outputs, mut scratch) = (Vec::new(), Vec::new(), Vec::new());
        let mut addresses = Vec::new();
        for (tensor, shape) in plan.tensors.iter().zip(plan::shapes(plan, &execution.dims)?) {
            let bytes = byte_len(tensor.dtype, &shape)?;
            let view = |views: &mut std::slice::Iter<'_, SharedView>| {
                views
                    .next()
                    .filter(|v| v.dtype == tensor.dtype && v.shape == shape)
                    .cloned()
                    .ok_or_else(|| {
                        let message = format!(
                            "tensor `{}` was not given as {}{shape:?}",
                            tensor.name, tensor.dtype
                        );
                        Error::new(ErrorKind::Protocol, message)
                    })
            };
            addresses.push(match tensor.role {
                TensorRole::Input => {
                    let (original, mut copy) = shm::open_input(&view(&mut given)?.path, bytes)?;
                    let address = copy.as_mut_ptr();
                    inputs.push((original, copy));
                    address
                }
                TensorRole::Output => {
                    let mut buffer = SharedBuffer::open(&view(&mut wanted)?.path, bytes)?;
                    buffer.bytes_mut().fill(execution.poison.byte());
                    let address = buffer.bytes_mut().as_mut_ptr();
                    outputs.push(buffer);
                    address
                }
                TensorRole::Scratch => {
                    let Ok(mut memory) = MmapOptions::new().len(bytes).map_anon() else {
                        let evidence =
                            format!("there is no room for {bytes} bytes of scratch `{}`", tensor.name);
                        return Ok(Err(Failure::new(FailureKind::OutOfMemory, evidence)));
                    };
                    memory.fill(execution.poison.byte());
                    let address = memory.as_mut_ptr();
                    scratch.push(memory);
                    address
                }
            });
        }
        Ok(Ok(Self {
            inputs,
            _outputs: outputs,
            _scratch: scratch,
            launches: arguments(plan, &execution.dims, &addresses)?,
        }))
    }

    fn inputs_unchanged(&self) -> bool {
        self.inputs
            .iter()
            .all(|(original, copy)| original[..] == copy[..])
    }
}

fn arguments(plan: &LaunchPlan, bindings: &Bindings, addresses: &[*mut u8]) -> Result<Vec<(i64, Arguments)>> {
    let dims = plan::dims(plan, bindings)?;
    let launch_arguments = plan.launches.iter().map(|launch| {
        let tensors = launch.tensors.iter().map(|index| {
            addresses
                .get(*index)
                .map(|address| address.cast())
                .ok_or_else(|| {
                    Error::invalid(format!(
                        "kernel `{}` takes tensor {index}, which the plan lacks",
                        launch.kernel
                    ))
                })
        });
        let arguments = Arguments {
            tensors: tensors.collect::<Result<_>>()?,
            dims: dims.clone(),
        };
        Ok((LaunchPlan::programs(launch, bindings)?, arguments))
    });
    launch_arguments.collect()
}
