//! What one call works with: extents under its dims, scratch memory, arguments of the kernels.

use std::ffi::c_void;
use std::sync::PoisonError;

use akg_core::error::{Error, ErrorKind, Result};
use akg_core::expr::Bindings;
use akg_core::source::{LaunchPlan, TensorRole};
use akg_core::tensor::byte_len;
use akg_worker::object::{self, Step};
use akg_worker::plan;
use akg_worker::team::{MOST_THREADS, Team};
use memmap2::MmapMut;

use super::LoadedBundle;

/// The least distance of scratch tensors: a cache line, so that threads do not share one.
const LEAST_ALIGN: usize = 64;

/// Serves one call at a time, and others with the same dims after it.
pub(super) struct Frame {
    dims: Vec<i64>,
    /// The extents of the plan's tensors.
    shapes: Vec<Vec<usize>>,
    /// The addresses of the plan's tensors.
    addresses: Vec<*mut c_void>,
    steps: Vec<Step>,
    /// Memory of the scratch tensors.
    scratch: Option<MmapMut>,
}

// SAFETY: the addresses of the caller's tensors are used within its call only, the others belong to the frame or to the
// bundle's constants, which nobody writes.
unsafe impl Send for Frame {}

impl Frame {
    /// Plans a call with these values of the dims. The memory of `other` is used again if there is enough of it.
    pub(super) fn new(bundle: &LoadedBundle, dims: Vec<i64>, other: Option<Frame>) -> Result<Self> {
        let bindings = bundle.signature.bindings(&dims);
        let plan = bundle.plan();
        let shapes = plan::shapes(plan, &bindings)?;
        meet(bundle, &bindings)?;
        let (offsets, bytes) = layout(plan, &shapes)?;
        let known = other
            .and_then(|frame| frame.scratch)
            .filter(|memory| memory.len() >= bytes);
        let mut scratch = match known {
            Some(memory) => Some(memory),
            None if bytes == 0 => None,
            None => Some(MmapMut::map_anon(bytes).map_err(|e| {
                let message = format!("there is no room for {bytes} bytes of scratch memory");
                Error::new(ErrorKind::OutOfResources, message).caused_by(e)
            })?),
        };
        let mut addresses = vec![std::ptr::null_mut(); plan.tensors.len()];
        for (index, tensor) in bundle.signature.constants() {
            if let Some(address) = addresses.get_mut(*index) {
                *address = tensor.bytes().as_ptr().cast_mut().cast::<c_void>();
            }
        }
        for (index, offset) in offsets {
            let place = scratch.as_mut().and_then(|memory| memory.get_mut(offset..));
            if let Some((address, place)) = addresses.get_mut(index).zip(place) {
                *address = place.as_mut_ptr().cast();
            }
        }
        Ok(Self {
            steps: object::steps(plan, &bindings, &addresses)?,
            dims,
            shapes,
            addresses,
            scratch,
        })
    }

    pub(super) fn dims(&self) -> &[i64] {
        &self.dims
    }

    /// The extents of the plan's tensors.
    pub(super) fn shapes(&self) -> &[Vec<usize>] {
        &self.shapes
    }

    /// Sets the address of a tensor of the plan.
    pub(super) fn put(&mut self, index: usize, address: *mut c_void) {
        if let Some(place) = self.addresses.get_mut(index) {
            *place = address;
        }
    }

    /// Gives each output that updates an input its contents, unless both are the same memory.
    ///
    /// # Safety
    /// The addresses must be those of tensors of the plan, which nobody else writes.
    pub(super) unsafe fn begin(&self, plan: &LaunchPlan) {
        for (output, input) in plan.updates() {
            let bytes = plan.tensors.get(output).zip(self.shapes.get(output));
            let bytes = bytes.and_then(|(tensor, shape)| byte_len(tensor.dtype, shape).ok());
            let places = self.addresses.get(output).zip(self.addresses.get(input));
            if let (Some(bytes), Some((to, from))) = (bytes, places)
                && to != from
            {
                // SAFETY: by this function's contract; tensors that are not the same do not overlap.
                unsafe { std::ptr::copy_nonoverlapping(from.cast::<u8>(), to.cast::<u8>(), bytes) };
            }
        }
    }

    /// The steps with the addresses as they are now.
    pub(super) fn bind(&mut self, plan: &LaunchPlan) -> &[Step] {
        for (step, launch) in self.steps.iter_mut().zip(&plan.launches) {
            for (argument, index) in step.arguments.tensors.iter_mut().zip(&launch.tensors) {
                if let Some(address) = self.addresses.get(*index) {
                    *argument = *address;
                }
            }
        }
        &self.steps
    }
}

/// Sees to it that cooperative launches find as many threads as they have programs.
fn meet(bundle: &LoadedBundle, bindings: &Bindings) -> Result<()> {
    let Some(meeting) = &bundle.meeting else {
        return Ok(());
    };
    let programs = plan::cooperative_threads(bundle.plan(), bindings)?;
    if programs > MOST_THREADS {
        return Err(Error::unsupported(format!(
            "a cooperative kernel of {programs} programs needs as many threads; {MOST_THREADS} are possible"
        )));
    }
    let mut team = meeting.lock().unwrap_or_else(PoisonError::into_inner);
    if team.cooperative_threads() < programs as usize {
        *team = Team::with_threads(team.threads(), programs as usize)?;
    }
    Ok(())
}

/// Where each scratch tensor lies in the scratch memory, and the bytes of all.
fn layout(plan: &LaunchPlan, shapes: &[Vec<usize>]) -> Result<(Vec<(usize, usize)>, usize)> {
    let mut end = 0usize;
    let mut offsets = Vec::new();
    for ((index, tensor), shape) in plan.tensors.iter().enumerate().zip(shapes) {
        let bytes = byte_len(tensor.dtype, shape).map_err(|e| e.with("tensor", &tensor.name))?;
        if tensor.role != TensorRole::Scratch {
            continue;
        }
        let place = end.checked_next_multiple_of(tensor.align.max(LEAST_ALIGN));
        let next = place.and_then(|place| place.checked_add(bytes.max(1)));
        let Some((place, next)) = place.zip(next) else {
            let message = format!("there is no room for the {bytes} bytes of `{}`", tensor.name);
            return Err(Error::new(ErrorKind::OutOfResources, message));
        };
        offsets.push((index, place));
        end = next;
    }
    Ok((offsets, end))
}
