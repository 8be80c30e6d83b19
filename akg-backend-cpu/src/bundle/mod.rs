//! Bundles in the caller's process: loaded once, called often.

use std::collections::BTreeSet;
use std::env::consts::ARCH;
use std::ffi::c_void;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::thread;

use akg_core::bundle::call::{Signature, dim_of};
use akg_core::bundle::module::DimSource;
use akg_core::bundle::{Bundle, Manifest, Port};
use akg_core::error::{Error, Result, ResultExt as _};
use akg_core::source::LaunchPlan;
use akg_core::{AnyView, AnyViewMut};
use akg_worker::client::FORMAT;
use akg_worker::object::Threads;
use akg_worker::plan;
use akg_worker::team::Team;

use crate::CpuBackend;

mod frame;
mod image;
mod modelnew;
mod owned;

use frame::Frame;
use image::Image;
pub use modelnew::modelnew;

/// How a bundle is loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoadOptions {
    /// Threads that execute kernels. With 1 the calling thread does it by itself, without any synchronisation; otherwise
    /// a team of so many waits for calls. One for each processor unless set.
    pub threads: usize,
}

impl Default for LoadOptions {
    fn default() -> Self {
        Self {
            threads: thread::available_parallelism().map_or(1, usize::from),
        }
    }
}

impl LoadOptions {
    /// With so many threads.
    pub fn threads(threads: usize) -> Self {
        Self { threads }
    }
}

/// A bundle in this process, ready to be called.
///
/// Calls take their tensors from the caller and check them: element types, extents, strides, alignment, and that nothing
/// overlaps what is written. Scratch memory is allocated by the first call and kept; a call with the same dims as the
/// one before allocates nothing. Any number of threads may call at the same time: each call that finds others at work
/// gets scratch memory of its own, and those of a team share its threads.
pub struct LoadedBundle {
    signature: Signature,
    /// What calls that ended have left for those to come.
    idle: Mutex<Vec<Frame>>,
    team: Option<Team>,
    /// For plans with cooperative launches, which one call at a time may have.
    meeting: Option<Mutex<Team>>,
    /// Last, so that threads are gone before their code is.
    image: Image,
}

impl fmt::Debug for LoadedBundle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadedBundle")
            .field("name", &self.manifest().name)
            .field("inputs", &self.inputs())
            .field("outputs", &self.outputs())
            .finish_non_exhaustive()
    }
}

impl LoadedBundle {
    /// Loads the bundle's shared object from memory.
    ///
    /// # Errors
    /// [`Unsupported`](akg_core::ErrorKind::Unsupported) if this machine cannot run it; the message names what is missing.
    ///
    /// # Safety
    /// The bundle's code runs in this process with all its rights: load only what comes from where the program's own code
    /// may come from. The content hash finds damage, not malice.
    pub unsafe fn load(bundle: &Bundle, options: &LoadOptions) -> Result<Self> {
        let manifest = bundle.manifest();
        // SAFETY: by this function's contract.
        unsafe { Self::of(bundle, options) }.context("bundle", || &manifest.name)
    }

    unsafe fn of(bundle: &Bundle, options: &LoadOptions) -> Result<Self> {
        let manifest = bundle.manifest();
        let features: BTreeSet<String> = akg_worker::features().into_iter().map(str::to_owned).collect();
        manifest.requires.check(CpuBackend::NAME, ARCH, &features)?;
        if manifest.format != FORMAT {
            return Err(Error::unsupported(format!(
                "the bundle's artifact has format `{}`; this backend loads `{FORMAT}`",
                manifest.format
            )));
        }
        if options.threads == 0 {
            return Err(Error::invalid("a bundle needs one thread at least"));
        }
        plan::check_tensors(&manifest.plan)?;
        let cooperative = manifest.plan.launches.iter().any(|l| l.cooperative);
        Ok(Self {
            signature: Signature::new(bundle)?,
            idle: Mutex::default(),
            team: match options.threads {
                1 => None,
                threads => Some(Team::with_threads(threads, 0)?),
            },
            meeting: if cooperative {
                Some(Mutex::new(Team::with_threads(options.threads, 0)?))
            } else {
                None
            },
            // SAFETY: by this function's contract.
            image: unsafe { Image::load(bundle.artifact_bytes(), &manifest.plan)? },
        })
    }

    /// What a call takes, in order.
    pub fn inputs(&self) -> &[Port] {
        &self.manifest().inputs
    }

    /// What a call writes, in order.
    pub fn outputs(&self) -> &[Port] {
        &self.manifest().outputs
    }

    /// The manifest.
    pub fn manifest(&self) -> &Manifest {
        self.signature.manifest()
    }

    fn plan(&self) -> &LaunchPlan {
        self.signature.plan()
    }

    /// Computes the outputs from the inputs, in the order of [`inputs`](Self::inputs) and [`outputs`](Self::outputs).
    ///
    /// # Errors
    /// [`InvalidInput`](akg_core::ErrorKind::InvalidInput) for tensors that are not those of the contract; nothing has
    /// been computed then.
    pub fn call(&self, inputs: &[AnyView<'_>], outputs: &mut [AnyViewMut<'_>]) -> Result<()> {
        self.signature.check_counts(inputs.len(), outputs.len())?;
        let mut frame = self.frame_of(inputs)?;
        let checked = self.signature.check_tensors(frame.shapes(), inputs, outputs);
        if checked.is_ok() {
            for (index, view) in self.signature.inputs().iter().zip(inputs) {
                frame.put(*index, view.pointer().cast_mut().cast());
            }
            for (index, view) in self.signature.outputs().iter().zip(outputs) {
                frame.put(*index, view.pointer().cast());
            }
        }
        // SAFETY: the tensors were checked, and live as long as the call.
        let outcome = checked.and_then(|()| unsafe { self.execute(&mut frame) });
        self.put_back(frame);
        outcome
    }

    /// The same for callers that have checked everything themselves, such as compiled code: pointers to dense row-major
    /// tensors, and the values of the plan's dims in order.
    ///
    /// # Errors
    /// If the counts are wrong, or a dim has a value that the contract excludes.
    ///
    /// # Safety
    /// Every pointer must lead to memory of the type, the extents and the alignment of its [`Port`], which nobody else
    /// writes during the call; outputs overlap nothing, but one that [updates](akg_core::source::PlanTensor::updates) an
    /// input in place may be the same memory, which saves its copy.
    pub unsafe fn call_raw(
        &self,
        inputs: &[*const c_void],
        outputs: &[*mut c_void],
        dims: &[i64],
    ) -> Result<()> {
        self.signature.check_counts(inputs.len(), outputs.len())?;
        self.signature.check_dim_count(dims.len())?;
        let mut frame = self.frame(|dim| dims.get(dim.position).copied())?;
        for (index, pointer) in self.signature.inputs().iter().zip(inputs) {
            frame.put(*index, pointer.cast_mut());
        }
        for (index, pointer) in self.signature.outputs().iter().zip(outputs) {
            frame.put(*index, *pointer);
        }
        // SAFETY: by this function's contract.
        let outcome = unsafe { self.execute(&mut frame) };
        self.put_back(frame);
        outcome
    }

    /// A frame for the dims of these inputs.
    fn frame_of(&self, inputs: &[AnyView<'_>]) -> Result<Frame> {
        self.frame(|dim| dim_of(dim, inputs))
    }

    /// A frame for these values of the dims: the one of an earlier call if there is one.
    fn frame(&self, value: impl Fn(&DimSource) -> Option<i64>) -> Result<Frame> {
        let other = {
            let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            let fits = |frame: &Frame| self.signature.fits(frame.dims(), &value);
            match idle.iter().rposition(fits) {
                Some(index) => return Ok(idle.swap_remove(index)),
                None => idle.pop(),
            }
        };
        Frame::new(self, self.signature.dim_values(value)?, other)
    }

    fn put_back(&self, frame: Frame) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.push(frame);
    }

    /// Executes the plan.
    ///
    /// # Safety
    /// The frame's tensors must be those of the plan, alive and accessed by nobody else.
    unsafe fn execute(&self, frame: &mut Frame) -> Result<()> {
        // SAFETY: by this function's contract.
        unsafe { frame.begin(self.plan()) };
        let steps = frame.bind(self.plan());
        // SAFETY: by this function's contract; what the artifact is was the caller's promise when it was loaded.
        unsafe {
            match (&self.meeting, &self.team) {
                (Some(meeting), _) => {
                    let team = meeting.lock().unwrap_or_else(PoisonError::into_inner);
                    self.image.object().execute(steps, Threads::Team(&team))
                }
                (None, Some(team)) => self.image.object().execute(steps, Threads::Team(team)),
                (None, None) => self.image.object().execute(steps, Threads::Caller),
            }
        }
    }
}
