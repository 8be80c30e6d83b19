//! Launches that one call of the driver does, each as soon as those are complete that it needs, with arguments that change
//! from call to call.

use std::ffi::c_void;
use std::ptr;

use cudarc::driver::sys::{self, CUresult};

use super::{DriverError, Kernel, Result, Shape, Stream};

/// A graph of launches, ready to be done again and again.
#[derive(Debug)]
pub(crate) struct Graph {
    executable: Executable,
    /// What it was made from, which knows the nodes.
    template: Template,
}

/// One launch: a kernel, its shape, and an address for each of its parameters.
pub(crate) struct Launch<'a> {
    pub(crate) kernel: &'a Kernel,
    pub(crate) shape: &'a Shape,
    pub(crate) arguments: &'a mut [*mut c_void],
}

impl Launch<'_> {
    /// As the driver takes it for graphs. It copies the arguments before it returns.
    fn node(&mut self) -> sys::CUDA_KERNEL_NODE_PARAMS {
        sys::CUDA_KERNEL_NODE_PARAMS {
            func: self.kernel.0,
            gridDimX: self.shape.blocks,
            gridDimY: 1,
            gridDimZ: 1,
            blockDimX: self.shape.threads,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: self.shape.shared_bytes,
            kernelParams: self.arguments.as_mut_ptr(),
            extra: ptr::null_mut(),
            kern: ptr::null_mut(),
            ctx: ptr::null_mut(),
        }
    }
}

impl Graph {
    /// The graph of a template; `before` takes over its arguments and shapes if it is of the same launches.
    pub(crate) fn new(template: Template, before: Option<Self>) -> Result<Self> {
        if let Some(before) = before
            && before.executable.update(&template)
        {
            return Ok(before);
        }
        Ok(Self {
            executable: Executable::new(&template)?,
            template,
        })
    }

    /// Changes the arguments of a launch in every run to come. Runs that were put on a stream keep theirs.
    pub(crate) fn set(&self, at: usize, mut launch: Launch<'_>) -> Result<()> {
        let Some(node) = self.template.nodes.get(at) else {
            return Ok(());
        };
        let parameters = launch.node();
        call!(cuGraphExecKernelNodeSetParams_v2(
            self.executable.0,
            *node,
            &raw const parameters
        ))
    }

    /// Brings the launches to the device, so that the first run takes no longer than others.
    pub(crate) fn upload(&self, stream: Stream) -> Result<()> {
        call!(cuGraphUpload(self.executable.0, stream.0))
    }

    /// Puts all launches on a stream.
    pub(crate) fn run(&self, stream: Stream) -> Result<()> {
        call!(cuGraphLaunch(self.executable.0, stream.0))
    }
}

/// What a [`Graph`] is made from.
#[derive(Debug)]
pub(crate) struct Template {
    graph: sys::CUgraph,
    nodes: Vec<sys::CUgraphNode>,
}

impl Template {
    /// One without launches.
    pub(crate) fn new() -> Result<Self> {
        let mut graph = ptr::null_mut();
        call!(cuGraphCreate(&raw mut graph, 0))?;
        Ok(Self {
            graph,
            nodes: Vec::new(),
        })
    }

    /// Adds a launch that needs those of these numbers to be complete.
    pub(crate) fn push(&mut self, mut launch: Launch<'_>, needs: &[usize]) -> Result<()> {
        let parameters = launch.node();
        let needs: Vec<_> = needs
            .iter()
            .filter_map(|at| self.nodes.get(*at).copied())
            .collect();
        let mut node = ptr::null_mut();
        call!(cuGraphAddKernelNode_v2(
            &raw mut node,
            self.graph,
            needs.as_ptr(),
            needs.len(),
            &raw const parameters
        ))?;
        for attribute in launch.shape.attributes().as_slice() {
            call!(cuGraphKernelNodeSetAttribute(
                node,
                attribute.id,
                &raw const attribute.value
            ))?;
        }
        self.nodes.push(node);
        Ok(())
    }
}

impl Drop for Template {
    fn drop(&mut self) {
        let _ = call!(cuGraphDestroy(self.graph));
    }
}

/// What the driver does of a template.
#[derive(Debug)]
struct Executable(sys::CUgraphExec);

impl Executable {
    fn new(template: &Template) -> Result<Self> {
        let mut executable = ptr::null_mut();
        call!(cuGraphInstantiateWithFlags(
            &raw mut executable,
            template.graph,
            0
        ))?;
        Ok(Self(executable))
    }

    /// Takes over the arguments and shapes of another template of the same launches; whether that was possible.
    fn update(&self, template: &Template) -> bool {
        // SAFETY: plain data that the driver fills in.
        let mut result: sys::CUgraphExecUpdateResultInfo = unsafe { std::mem::zeroed() };
        call!(cuGraphExecUpdate_v2(self.0, template.graph, &raw mut result)).is_ok()
    }
}

impl Drop for Executable {
    fn drop(&mut self) {
        let _ = call!(cuGraphExecDestroy(self.0));
    }
}
