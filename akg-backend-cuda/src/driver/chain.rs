//! Launches one after the other that one call of the driver does, with arguments that change from call to call.

use std::ffi::c_void;
use std::ptr;

use cudarc::driver::sys::{self, CUresult};

use super::{DriverError, Executable, Graph, Kernel, Result, Shape, Stream};

/// A graph of launches, each after the one before.
#[derive(Debug)]
pub(crate) struct Chain {
    executable: Executable,
    nodes: Vec<sys::CUgraphNode>,
    /// What the nodes are of.
    _graph: Graph,
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

impl Chain {
    /// An empty one to [`push`](ChainBuilder::push) launches to.
    pub(crate) fn builder() -> Result<ChainBuilder> {
        let mut graph = ptr::null_mut();
        call!(cuGraphCreate(&raw mut graph, 0))?;
        Ok(ChainBuilder {
            graph: Graph(graph),
            nodes: Vec::new(),
        })
    }

    /// Changes the arguments of a launch in every run to come. Runs that were put on a stream keep theirs.
    pub(crate) fn set(&self, at: usize, mut launch: Launch<'_>) -> Result<()> {
        let Some(node) = self.nodes.get(at) else {
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
        stream.place(&self.executable)
    }

    /// Puts all launches on a stream.
    pub(crate) fn run(&self, stream: Stream) -> Result<()> {
        stream.replay(&self.executable)
    }
}

/// A [`Chain`] in the making.
#[derive(Debug)]
pub(crate) struct ChainBuilder {
    graph: Graph,
    nodes: Vec<sys::CUgraphNode>,
}

impl ChainBuilder {
    /// Adds a launch after those before.
    pub(crate) fn push(&mut self, mut launch: Launch<'_>) -> Result<()> {
        let parameters = launch.node();
        let last = self.nodes.last();
        let mut node = ptr::null_mut();
        call!(cuGraphAddKernelNode_v2(
            &raw mut node,
            self.graph.0,
            last.map_or(ptr::null(), ptr::from_ref),
            usize::from(last.is_some()),
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

    /// The chain of what was added.
    pub(crate) fn finish(self) -> Result<Chain> {
        Ok(Chain {
            executable: Executable::new(&self.graph)?,
            nodes: self.nodes,
            _graph: self.graph,
        })
    }
}
