//! What all calls of a bundle share: the context, the kernels, the constants.

use std::collections::BTreeSet;

use akg_core::bundle::Bundle;
use akg_core::bundle::call::Signature;
use akg_core::error::{Error, ErrorKind, Result};
use akg_worker::plan;

use super::LoadOptions;
use crate::driver::{self, Context, Entered, Memory, upload};
use crate::program::Program;
use crate::{CudaBackend, describe};

/// The kernels and constants of a bundle on a device.
#[derive(Debug)]
pub(super) struct Code {
    signature: Signature,
    program: Program,
    /// The plan's tensors that the bundle holds itself.
    constants: Vec<(usize, Memory)>,
    graphs: bool,
    /// Last, so that what is in it goes before.
    context: Context,
}

// SAFETY: the driver's handles may be used from any thread whose current context is theirs, and nothing here changes.
unsafe impl Send for Code {}
// SAFETY: as above.
unsafe impl Sync for Code {}

impl Code {
    pub(super) fn load(bundle: &Bundle, options: &LoadOptions) -> Result<Self> {
        let signature = Signature::new(bundle)?;
        plan::check_tensors(signature.plan())?;
        let context = context(options.device)?;
        let arch = describe::arch(context.device())?;
        let requires = &signature.manifest().requires;
        requires.check(CudaBackend::NAME, &arch, &BTreeSet::new())?;
        let _entered = context.enter()?;
        let artifact = bundle.candidate().artifact;
        let program = Program::load(&artifact, context.device())?
            .map_err(|failure| Error::invalid(format!("the bundle does not load: {}", failure.evidence)))?;
        let mut code = Self {
            signature,
            program,
            constants: Vec::new(),
            graphs: options.graphs,
            context,
        };
        for (index, tensor) in code.signature.constants() {
            let memory = Memory::new(tensor.bytes().len() as u64)?;
            upload(memory.address(), tensor.bytes())?;
            code.constants.push((*index, memory));
        }
        // Copies that have returned may still be on their way.
        code.context.wait()?;
        Ok(code)
    }

    pub(super) fn signature(&self) -> &Signature {
        &self.signature
    }

    pub(super) fn program(&self) -> &Program {
        &self.program
    }

    /// Whether kernels are launched as a graph.
    pub(super) fn graphs(&self) -> bool {
        self.graphs
    }

    /// The addresses of the constants, with their numbers in the plan.
    pub(super) fn constants(&self) -> impl Iterator<Item = (usize, u64)> {
        self.constants
            .iter()
            .map(|(index, memory)| (*index, memory.address()))
    }

    /// Makes the context that of the calling thread.
    pub(super) fn enter(&self) -> driver::Result<Entered> {
        self.context.enter()
    }

    /// Waits for all work in the context.
    pub(super) fn wait(&self) -> driver::Result<()> {
        self.context.wait()
    }
}

impl Drop for Code {
    fn drop(&mut self) {
        // Without the context there is nothing left to free.
        if let Ok(_entered) = self.context.enter() {
            let _ = self.context.wait();
            self.program = Program::default();
            self.constants.clear();
        }
    }
}

/// The context of a device, or the one that is there.
fn context(device: Option<u32>) -> Result<Context> {
    let absent = |why| Error::new(ErrorKind::NotFound, why);
    driver::start().map_err(absent)?;
    let current = match device {
        Some(_) => None,
        None => Context::current()?,
    };
    if let Some(current) = current {
        return Ok(current);
    }
    let device = driver::device(device.unwrap_or(0)).map_err(absent)?;
    Ok(Context::primary(device)?)
}
