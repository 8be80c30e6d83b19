//! From the launches of a plan to calls of the driver: grids, arguments, and a graph of several launches.

use akg_core::error::{Error, Result};
use akg_core::expr::Bindings;
use akg_core::image::{KernelImage, Parameter, Scratch};
use akg_core::source::{Launch, LaunchPlan};
use akg_core::verdict::{Failure, FailureKind};
use akg_worker::plan;

use crate::driver::{self, Graph, Shape, Stream};
use crate::program::Program;
use crate::step::{Place, Step, template};

/// Blocks of a grid along its first axis at most.
const MOST_BLOCKS: u64 = (1 << 31) - 1;

/// The memory that blocks of a plan's kernels need for themselves: for each launch, what its parameters ask for in order.
pub(crate) fn block_scratch(plan: &LaunchPlan, program: &Program, dims: &Bindings) -> Result<Vec<Scratch>> {
    let mut all = Vec::new();
    for launch in &plan.launches {
        let (_, image) = program.kernel(&launch.kernel)?;
        let blocks = blocks(launch, image, dims)?;
        let of_image = image.parameters.iter().filter_map(|parameter| match parameter {
            Parameter::Scratch(scratch) if scratch.bytes > 0 => Some(scratch),
            _ => None,
        });
        for scratch in of_image {
            let each = scratch.bytes.checked_next_multiple_of(scratch.align.max(1));
            let bytes = each.and_then(|each| each.checked_mul(blocks)).ok_or_else(|| {
                Error::invalid(format!("kernel `{}` needs too much scratch", launch.kernel))
            })?;
            all.push(Scratch {
                bytes,
                align: scratch.align,
            });
        }
    }
    Ok(all)
}

/// Blocks of a launch.
fn blocks(launch: &Launch, image: &KernelImage, dims: &Bindings) -> Result<u64> {
    let programs = u64::try_from(LaunchPlan::programs(launch, dims)?).unwrap_or(0);
    programs
        .checked_mul(u64::from(image.cluster.max(1)))
        .ok_or_else(|| {
            Error::invalid(format!(
                "the grid of kernel `{}` has too many programs",
                launch.kernel
            ))
        })
}

/// The launches of a plan on tensors at `tensors`, in the order of the plan; `scratch` are the addresses of what
/// [`block_scratch`] asked for.
///
/// A launch that the device cannot do is the failure.
pub(crate) fn steps(
    plan: &LaunchPlan,
    program: &Program,
    dims: &Bindings,
    tensors: &[u64],
    scratch: &[u64],
) -> Result<Result<Vec<Step>, Failure>> {
    let place = Place {
        plan,
        dims,
        values: &plan::dims(plan, dims)?,
        shapes: &plan::shapes(plan, dims)?,
        tensors,
    };
    let mut scratch = scratch.iter().copied();
    let mut steps = Vec::with_capacity(plan.launches.len());
    for (number, launch) in plan.launches.iter().enumerate() {
        let (kernel, image) = program.kernel(&launch.kernel)?;
        let blocks = blocks(launch, image, dims)?;
        if blocks > MOST_BLOCKS {
            let evidence = format!(
                "kernel `{}` has {blocks} blocks; {MOST_BLOCKS} are possible",
                launch.kernel
            );
            return Ok(Err(Failure::new(FailureKind::LoadFailed, evidence)));
        }
        let mut arguments = Vec::with_capacity(image.parameters.len());
        for parameter in &image.parameters {
            match place.argument(launch, parameter, &mut scratch) {
                Ok(Ok(argument)) => arguments.push(argument),
                Ok(Err(evidence)) => {
                    let evidence = format!("kernel `{}` cannot be launched: {evidence}", launch.kernel);
                    return Ok(Err(Failure::new(FailureKind::LoadFailed, evidence)));
                }
                Err(error) => return Err(error.with("kernel", &launch.kernel)),
            }
        }
        let shape = Shape {
            blocks: blocks as u32,
            threads: image.threads,
            cluster: image.cluster,
            shared_bytes: image.shared_bytes,
            cooperative: launch.cooperative,
        };
        // A grid without programs is nothing to launch.
        if blocks > 0 {
            steps.push(Step::new(number, kernel, shape, arguments));
        }
    }
    Ok(Ok(steps))
}

/// The work of a plan on tensors that are in place.
#[derive(Debug, Default)]
pub(crate) struct Work {
    steps: Vec<Step>,
    /// All steps, if they are several: the device goes from one to the next without the host.
    graph: Option<Graph>,
}

impl Work {
    /// Prepares launches on tensors at `tensors`, in the order of the plan; `scratch` are the addresses of what
    /// [`block_scratch`] asked for. `before` is the work that this replaces.
    ///
    /// A launch that the device cannot do is the failure.
    pub(crate) fn new(
        plan: &LaunchPlan,
        program: &Program,
        dims: &Bindings,
        tensors: &[u64],
        scratch: &[u64],
        before: Work,
    ) -> Result<Result<Self, Failure>> {
        let steps = match steps(plan, program, dims, tensors, scratch)? {
            Ok(steps) => steps,
            Err(failure) => return Ok(Err(failure)),
        };
        let mut work = Self { steps, graph: None };
        Ok(match work.join(plan, before.graph) {
            Ok(()) => Ok(work),
            Err(error) => Err(Failure::new(
                FailureKind::LoadFailed,
                format!("the plan's launches are refused: {error}"),
            )),
        })
    }

    /// Makes a graph of several steps, of the graph before if its launches are the same.
    fn join(&mut self, plan: &LaunchPlan, before: Option<Graph>) -> driver::Result<()> {
        if self.steps.len() > 1 {
            self.graph = Some(Graph::new(template(plan, &mut self.steps)?, before)?);
        }
        Ok(())
    }

    /// Puts the work on the stream once.
    pub(crate) fn enqueue(&mut self, stream: Stream) -> driver::Result<()> {
        match &self.graph {
            Some(graph) => graph.run(stream),
            None => self.steps.iter_mut().try_for_each(|step| step.enqueue(stream)),
        }
    }

    /// Puts the launches on the stream one by one, and does something after each.
    pub(crate) fn enqueue_each(
        &mut self,
        stream: Stream,
        mut after: impl FnMut() -> driver::Result<()>,
    ) -> driver::Result<()> {
        self.steps
            .iter_mut()
            .try_for_each(|step| step.enqueue(stream).and_then(|()| after()))
    }

    /// The launches in order.
    pub(crate) fn steps(&self) -> &[Step] {
        &self.steps
    }
}
