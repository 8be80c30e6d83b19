//! From the launches of a plan to calls of the driver: grids, arguments, and a graph of several launches.

use std::ffi::c_void;

use akg_core::dtype::DType;
use akg_core::error::{Error, Result};
use akg_core::expr::Bindings;
use akg_core::image::{Descriptor, KernelImage, Parameter, Scratch};
use akg_core::source::{Launch, LaunchPlan};
use akg_core::verdict::{Failure, FailureKind};
use akg_worker::plan;
use cudarc::driver::sys::{CUtensorMap, CUtensorMapDataType as Element, CUtensorMapSwizzle as Swizzle};

use crate::driver::{self, Executable, Kernel, Shape, Stream};
use crate::program::Program;

/// Blocks of a grid along its first axis at most.
const MOST_BLOCKS: u64 = (1 << 31) - 1;

/// A kernel's launch under given dims.
#[derive(Debug)]
struct Step {
    /// Its number in the plan.
    number: usize,
    kernel: Kernel,
    shape: Shape,
    arguments: Vec<Argument>,
}

/// The value of a parameter.
#[derive(Debug)]
enum Argument {
    /// An address, or an integer of which the kernel reads as many of the lowest bytes as it has.
    Word(u64),
    Map(Box<CUtensorMap>),
}

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

/// The work of a plan on tensors that are in place.
#[derive(Debug, Default)]
pub(crate) struct Work {
    steps: Vec<Step>,
    /// All steps, if they are several: the device goes from one to the next without the host.
    graph: Option<Executable>,
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
        stream: Stream,
        before: Work,
    ) -> Result<Result<Self, Failure>> {
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
                steps.push(Step {
                    number,
                    kernel,
                    shape,
                    arguments,
                });
            }
        }
        let mut work = Self { steps, graph: None };
        Ok(match work.record(stream, before.graph) {
            Ok(()) => Ok(work),
            Err(error) => Err(Failure::new(
                FailureKind::LoadFailed,
                format!("the plan's launches are refused: {error}"),
            )),
        })
    }

    /// Makes a graph of several steps, of the graph before if its launches are the same.
    fn record(&mut self, stream: Stream, before: Option<Executable>) -> driver::Result<()> {
        if self.steps.len() < 2 {
            return Ok(());
        }
        let steps = &mut self.steps;
        let recorded = stream.capture(|| steps.iter_mut().try_for_each(|step| step.enqueue(stream)))?;
        self.graph = Some(match before {
            Some(before) if before.update(&recorded) => before,
            _ => Executable::new(&recorded)?,
        });
        Ok(())
    }

    /// Puts the work on the stream once.
    pub(crate) fn enqueue(&mut self, stream: Stream) -> driver::Result<()> {
        match &self.graph {
            Some(graph) => stream.replay(graph),
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

    /// What is launched: numbers in the plan, kernels, shapes.
    pub(crate) fn launches(&self) -> impl Iterator<Item = (usize, Kernel, Shape)> {
        self.steps
            .iter()
            .map(|step| (step.number, step.kernel, step.shape))
    }
}

impl Step {
    fn enqueue(&mut self, stream: Stream) -> driver::Result<()> {
        let mut pointers: Vec<*mut c_void> = self
            .arguments
            .iter_mut()
            .map(|argument| match argument {
                Argument::Word(word) => (&raw mut *word).cast(),
                Argument::Map(map) => (&raw mut **map).cast(),
            })
            .collect();
        stream.launch(&self.kernel, &self.shape, &mut pointers)
    }
}

/// Where a plan's tensors are and what its dims are.
struct Place<'a> {
    plan: &'a LaunchPlan,
    dims: &'a Bindings,
    values: &'a [i64],
    shapes: &'a [Vec<usize>],
    tensors: &'a [u64],
}

impl Place<'_> {
    /// The value of a parameter, or why it has none.
    fn argument(
        &self,
        launch: &Launch,
        parameter: &Parameter,
        scratch: &mut impl Iterator<Item = u64>,
    ) -> Result<Result<Argument, String>> {
        let missing = || Error::invalid("a parameter is of a tensor or dim that does not exist");
        let tensor = |at: usize| launch.tensors.get(at).copied().ok_or_else(missing);
        Ok(Ok(match parameter {
            Parameter::Tensor(at) => {
                Argument::Word(self.tensors.get(tensor(*at)?).copied().ok_or_else(missing)?)
            }
            Parameter::Descriptor(descriptor) => {
                return self.map(tensor(descriptor.tensor)?, descriptor);
            }
            Parameter::Dim { dim, bytes } => {
                return Ok(integer(
                    self.values.get(*dim).copied().ok_or_else(missing)?,
                    *bytes,
                ));
            }
            Parameter::Constant { value, bytes } => return Ok(integer(*value, *bytes)),
            Parameter::Scratch(wanted) if wanted.bytes == 0 => Argument::Word(0),
            Parameter::Scratch(_) => Argument::Word(scratch.next().ok_or_else(missing)?),
        }))
    }

    /// The copy engine's description of a tensor.
    fn map(&self, tensor: usize, descriptor: &Descriptor) -> Result<Result<Argument, String>> {
        let missing = || Error::invalid("a descriptor is of a tensor that does not exist");
        let shape = self.shapes.get(tensor).ok_or_else(missing)?;
        let address = self.tensors.get(tensor).copied().ok_or_else(missing)?;
        let name = self.plan.tensors.get(tensor).map_or("", |t| t.name.as_str());
        let refused = |why: String| Ok(Err(format!("the copy engine cannot move tensor `{name}`: {why}")));
        if descriptor.padded {
            return refused("elements of 4 bits are not supported".to_owned());
        }
        if descriptor.block.len() != shape.len() {
            return refused(format!(
                "its boxes have {} dimensions, itself {}",
                descriptor.block.len(),
                shape.len()
            ));
        }
        let Some(swizzle) = swizzle(descriptor.swizzle) else {
            return refused(format!("there is no swizzle {}", descriptor.swizzle));
        };
        let Some(element) = element(descriptor.dtype) else {
            return refused(format!("it has no elements of type {}", descriptor.dtype));
        };
        let extents: Vec<u64> = shape.iter().map(|extent| *extent as u64).collect();
        let map = driver::tensor_map(
            address,
            element,
            descriptor.dtype.size() as u64,
            &extents,
            &descriptor.block,
            swizzle,
        );
        match map {
            Ok(map) => Ok(Ok(Argument::Map(Box::new(map)))),
            Err(error) => refused(format!(
                "{error}, for shape {shape:?} in boxes of {:?} with dims {:?}",
                descriptor.block, self.dims
            )),
        }
    }
}

/// The value of a parameter that is a signed integer of so many bytes.
fn integer(value: i64, bytes: u32) -> Result<Argument, String> {
    let fits = match bytes {
        1..8 => matches!(value >> (8 * bytes - 1), 0 | -1),
        _ => bytes == 8,
    };
    if fits {
        Ok(Argument::Word(value as u64))
    } else {
        Err(format!("{value} does not fit an integer of {bytes} bytes"))
    }
}

fn element(dtype: DType) -> Option<Element> {
    Some(match dtype {
        DType::Bool | DType::U8 | DType::I8 => Element::CU_TENSOR_MAP_DATA_TYPE_UINT8,
        DType::I16 => Element::CU_TENSOR_MAP_DATA_TYPE_UINT16,
        DType::I32 => Element::CU_TENSOR_MAP_DATA_TYPE_INT32,
        DType::I64 => Element::CU_TENSOR_MAP_DATA_TYPE_INT64,
        DType::F16 => Element::CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
        DType::BF16 => Element::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
        DType::F32 => Element::CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
        DType::F64 => Element::CU_TENSOR_MAP_DATA_TYPE_FLOAT64,
        _ => return None,
    })
}

fn swizzle(number: u32) -> Option<Swizzle> {
    [
        Swizzle::CU_TENSOR_MAP_SWIZZLE_NONE,
        Swizzle::CU_TENSOR_MAP_SWIZZLE_32B,
        Swizzle::CU_TENSOR_MAP_SWIZZLE_64B,
        Swizzle::CU_TENSOR_MAP_SWIZZLE_128B,
    ]
    .into_iter()
    .find(|swizzle| *swizzle as u32 == number)
}
