//! Shared objects in this process, and the execution of their plans.

use std::ffi::c_void;
use std::path::Path;

use akg_core::error::{Error, Result};
use akg_core::expr::Bindings;
use akg_core::source::LaunchPlan;
use libloading::Library;
use libloading::os::unix;

use crate::plan;
use crate::team::{Arguments, CooperativeKernel, Kernel, Team};

/// A loaded shared object and the kernels of its plan.
#[derive(Debug)]
pub struct Object {
    /// The kernel of each launch.
    kernels: Vec<Entry>,
    /// Keeps the kernels loaded.
    library: Library,
}

/// A kernel by how it is called.
#[derive(Debug, Clone, Copy)]
enum Entry {
    Ordinary(Kernel),
    Cooperative(CooperativeKernel),
}

/// One launch of a plan under given dims.
#[derive(Debug)]
pub struct Step {
    /// The number of programs.
    pub programs: i64,
    /// What each of them is given.
    pub arguments: Arguments,
}

/// Who executes the programs of ordinary kernels.
#[derive(Debug, Clone, Copy)]
pub enum Threads<'a> {
    /// The calling thread.
    Caller,
    /// A team.
    Team(&'a Team),
    /// A team, in ranges of two programs at least. More threads than programs would get one each, and hide a kernel that
    /// does not do its whole range.
    Pairs(&'a Team),
}

impl Object {
    /// Loads a shared object and finds the kernels of its plan. An error is what the dynamic linker says.
    ///
    /// # Safety
    /// This runs the initialisers of the shared object.
    pub unsafe fn open(path: &Path, plan: &LaunchPlan) -> Result<Self, String> {
        // Every undefined symbol shows now and not in the middle of a run.
        // SAFETY: by this function's contract.
        let library: Library = match unsafe { unix::Library::open(Some(path), unix::RTLD_NOW) } {
            Ok(library) => library.into(),
            Err(e) => return Err(format!("the shared object cannot be loaded: {}", reason(&e))),
        };
        let kernels = plan.launches.iter().map(|launch| {
            // SAFETY: only the address is taken.
            let symbol = unsafe { library.get::<*const c_void>(launch.kernel.as_str()) };
            let address = match symbol {
                Ok(symbol) if !symbol.is_null() => *symbol,
                Ok(_) => return Err(format!("the kernel `{}` has no address", launch.kernel)),
                Err(e) => {
                    let kernel = &launch.kernel;
                    return Err(format!(
                        "the shared object has no kernel `{kernel}`: {}",
                        reason(&e)
                    ));
                }
            };
            // SAFETY: the plan says which kind of kernel the symbol is, and the address is none of null.
            Ok(unsafe {
                if launch.cooperative {
                    Entry::Cooperative(std::mem::transmute::<*const c_void, CooperativeKernel>(address))
                } else {
                    Entry::Ordinary(std::mem::transmute::<*const c_void, Kernel>(address))
                }
            })
        });
        Ok(Self {
            kernels: kernels.collect::<Result<_, _>>()?,
            library,
        })
    }

    /// Whether this process has loaded the shared object at `path`.
    pub fn is_loaded(path: &Path) -> bool {
        // SAFETY: what is not there is not loaded, and what is there has run its initialisers.
        unsafe { unix::Library::open(Some(path), unix::RTLD_NOW | libc::RTLD_NOLOAD) }.is_ok()
    }

    /// The library.
    pub(crate) fn library(&self) -> &Library {
        &self.library
    }

    /// Executes the launches of the plan in order.
    ///
    /// # Errors
    /// If a cooperative launch has more programs than there are threads for it.
    ///
    /// # Safety
    /// The kernels must be what the plan says, and the steps those of the plan, with tensors that live and are accessed
    /// by nobody else.
    #[inline]
    pub unsafe fn execute(&self, steps: &[Step], threads: Threads<'_>) -> Result<()> {
        for (kernel, Step { programs, arguments }) in self.kernels.iter().zip(steps) {
            if *programs == 0 {
                continue;
            }
            // SAFETY: by this function's contract.
            unsafe {
                match (*kernel, threads) {
                    (Entry::Ordinary(kernel), Threads::Caller) => {
                        kernel(arguments.tensors.as_ptr(), arguments.dims.as_ptr(), 0, *programs);
                    }
                    (Entry::Ordinary(kernel), Threads::Team(team)) => {
                        team.launch(kernel, arguments, *programs, 1)
                    }
                    (Entry::Ordinary(kernel), Threads::Pairs(team)) => {
                        team.launch(kernel, arguments, *programs, 2)
                    }
                    (Entry::Cooperative(kernel), Threads::Team(team) | Threads::Pairs(team)) => {
                        team.launch_cooperative(kernel, arguments, *programs)?;
                    }
                    (Entry::Cooperative(_), Threads::Caller) => {
                        return Err(Error::unexpected(
                            "one thread cannot execute programs that wait for each other",
                        ));
                    }
                }
            }
        }
        Ok(())
    }
}

/// The steps of a plan under given dims, with tensors at `addresses`, one for each of the plan's.
///
/// # Errors
/// If a dim has no value, a grid has too many programs, or a kernel takes a tensor that the plan lacks.
pub fn steps(plan: &LaunchPlan, bindings: &Bindings, addresses: &[*mut c_void]) -> Result<Vec<Step>> {
    let dims = plan::dims(plan, bindings)?;
    let steps = plan.launches.iter().map(|launch| {
        let tensors = launch.tensors.iter().map(|index| {
            addresses.get(*index).copied().ok_or_else(|| {
                Error::invalid(format!(
                    "kernel `{}` takes tensor {index}, which the plan lacks",
                    launch.kernel
                ))
            })
        });
        Ok(Step {
            programs: LaunchPlan::programs(launch, bindings)?,
            arguments: Arguments {
                tensors: tensors.collect::<Result<_>>()?,
                dims: dims.clone(),
            },
        })
    });
    steps.collect()
}

/// What the dynamic linker says.
fn reason(error: &libloading::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}
