//! What calls with the same dims work with: extents, addresses, launches.

use akg_core::error::{Error, ErrorKind, Result};
use akg_core::expr::Bindings;
use akg_core::source::{LaunchPlan, TensorRole};
use akg_core::tensor::byte_len;
use akg_worker::plan;

use super::code::Code;
use crate::driver::{self, Graph, Stream};
use crate::launch::{block_scratch, steps};
use crate::step::{Step, template};

/// Where scratch memory begins, which is at least as strict as the driver's own allocations are.
pub(super) const SCRATCH_ALIGN: u64 = 256;

/// Stands for the address of a tensor that is not known yet, aligned as strictly as any is.
const UNKNOWN: u64 = plan::MAX_ALIGN as u64;

/// What calls with some dims need.
pub(super) struct Need {
    bindings: Bindings,
    shapes: Vec<Vec<usize>>,
    /// Where scratch tensors lie in the scratch memory, with their numbers in the plan.
    tensors: Vec<(usize, Room)>,
    /// Where the scratch of blocks lies.
    blocks: Vec<Room>,
    /// Bytes of scratch memory, wherever it begins.
    pub(super) bytes: u64,
}

/// A place in scratch memory: at most so many bytes from its beginning, at the next multiple of the alignment.
struct Room {
    offset: u64,
    align: u64,
}

impl Room {
    /// Takes room after `end`.
    fn take(end: &mut u64, bytes: u64, align: u64) -> Result<Self> {
        let align = align.max(SCRATCH_ALIGN);
        let room = Self { offset: *end, align };
        // As if the memory were aligned as little as it may be.
        let next = end
            .checked_add(align - SCRATCH_ALIGN)
            .and_then(|start| start.checked_add(bytes))
            .and_then(|end| end.checked_next_multiple_of(SCRATCH_ALIGN));
        *end = next.ok_or_else(|| {
            let message = format!("there is no room for {bytes} bytes of scratch memory");
            Error::new(ErrorKind::OutOfResources, message)
        })?;
        Ok(room)
    }

    /// Its address in scratch memory that begins at `base`.
    fn address(&self, base: u64) -> u64 {
        (base + self.offset).next_multiple_of(self.align)
    }
}

impl Need {
    pub(super) fn new(code: &Code, dims: &[i64]) -> Result<Self> {
        let plan = code.signature().plan();
        let bindings = code.signature().bindings(dims);
        let shapes = plan::shapes(plan, &bindings)?;
        let (mut tensors, mut bytes) = (Vec::new(), 0);
        for ((index, tensor), shape) in plan.tensors.iter().enumerate().zip(&shapes) {
            let size = byte_len(tensor.dtype, shape).map_err(|e| e.with("tensor", &tensor.name))?;
            if tensor.role == TensorRole::Scratch {
                tensors.push((index, Room::take(&mut bytes, size as u64, tensor.align as u64)?));
            }
        }
        let of_blocks = block_scratch(plan, code.program(), &bindings)?;
        let blocks = of_blocks
            .into_iter()
            .map(|scratch| Room::take(&mut bytes, scratch.bytes, scratch.align))
            .collect::<Result<_>>()?;
        Ok(Self {
            bindings,
            shapes,
            tensors,
            blocks,
            bytes,
        })
    }
}

/// Serves calls with the same dims on one stream, one after the other.
#[derive(Debug)]
pub(super) struct Frame {
    dims: Vec<i64>,
    /// The extents of the plan's tensors.
    shapes: Vec<Vec<usize>>,
    /// The addresses of the plan's tensors.
    addresses: Vec<u64>,
    steps: Vec<Step>,
    /// All steps, if they are to be launched together.
    graph: Option<Graph>,
    /// Outputs that update an input, with it and its bytes.
    updates: Vec<(usize, usize, u64)>,
    /// The call that used it last.
    pub(super) used: u64,
}

impl Frame {
    /// Plans calls on a stream whose scratch memory begins at `scratch`.
    pub(super) fn new(code: &Code, dims: Vec<i64>, need: Need, scratch: u64, stream: Stream) -> Result<Self> {
        let plan = code.signature().plan();
        let mut addresses = vec![UNKNOWN; plan.tensors.len()];
        let of_scratch = need
            .tensors
            .iter()
            .map(|(index, room)| (*index, room.address(scratch)));
        for (index, address) in code.constants().chain(of_scratch) {
            if let Some(place) = addresses.get_mut(index) {
                *place = address;
            }
        }
        let blocks: Vec<u64> = need.blocks.iter().map(|room| room.address(scratch)).collect();
        let mut steps = steps(plan, code.program(), &need.bindings, &addresses, &blocks)?
            .map_err(|failure| Error::invalid(failure.evidence))?;
        let graph = match steps.len() {
            1.. if code.graphs() => Some(graph(plan, &mut steps, stream)?),
            _ => None,
        };
        let updates = plan.updates().map(|(output, input)| {
            let tensor = plan.tensors.get(output).zip(need.shapes.get(output));
            let bytes = tensor.map_or(Ok(0), |(tensor, shape)| byte_len(tensor.dtype, shape))?;
            Ok((output, input, bytes as u64))
        });
        Ok(Self {
            dims,
            updates: updates.collect::<Result<_>>()?,
            shapes: need.shapes,
            addresses,
            steps,
            graph,
            used: 0,
        })
    }

    pub(super) fn dims(&self) -> &[i64] {
        &self.dims
    }

    /// The extents of the plan's tensors.
    pub(super) fn shapes(&self) -> &[Vec<usize>] {
        &self.shapes
    }

    /// Sets the addresses of tensors of the plan.
    pub(super) fn put(&mut self, indices: &[usize], addresses: impl Iterator<Item = u64>) {
        for (index, address) in indices.iter().zip(addresses) {
            if let Some(place) = self.addresses.get_mut(*index) {
                *place = address;
            }
        }
    }

    /// Puts the launches on a stream, with the addresses as they are now. Before them, outputs that update an input get its
    /// contents, unless both are the same memory.
    pub(super) fn enqueue(&mut self, stream: Stream) -> driver::Result<()> {
        for (to, from, bytes) in &self.updates {
            if let Some((to, from)) = self.addresses.get(*to).zip(self.addresses.get(*from))
                && to != from
            {
                stream.copy(*to, *from, *bytes)?;
            }
        }
        for (at, step) in self.steps.iter_mut().enumerate() {
            step.follow(&self.addresses)?;
            match &self.graph {
                Some(graph) => step.renew(graph, at)?,
                None => step.enqueue(stream)?,
            }
        }
        match &self.graph {
            Some(graph) => graph.run(stream),
            None => Ok(()),
        }
    }
}

/// All steps, ready on the device.
fn graph(plan: &LaunchPlan, steps: &mut [Step], stream: Stream) -> driver::Result<Graph> {
    let graph = Graph::new(template(plan, steps)?, None)?;
    graph.upload(stream)?;
    Ok(graph)
}
