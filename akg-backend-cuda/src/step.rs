//! One launch under given dims: a kernel, its shape, and arguments that follow their tensors.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_void;

use akg_core::dtype::DType;
use akg_core::error::{Error, Result};
use akg_core::expr::Bindings;
use akg_core::image::{Descriptor, Parameter};
use akg_core::source::{Launch, LaunchPlan, TensorRole};
use cudarc::driver::sys::{CUtensorMap, CUtensorMapDataType as Element, CUtensorMapSwizzle as Swizzle};

use crate::driver::{self, Graph, Kernel, Shape, Stream, Template};

/// A kernel's launch under given dims.
#[derive(Debug)]
pub(crate) struct Step {
    /// Its number in the plan.
    pub(crate) number: usize,
    pub(crate) kernel: Kernel,
    pub(crate) shape: Shape,
    arguments: Vec<Argument>,
    /// Where the arguments are, as the driver asks for it.
    pointers: Vec<*mut c_void>,
    /// Whether an argument followed its tensor and no graph knows.
    moved: bool,
}

/// The value of a parameter.
#[derive(Debug)]
pub(crate) enum Argument {
    /// An address that is nobody's tensor, or an integer of which the kernel reads as many of the lowest bytes as it has.
    Word(u64),
    /// The address of a tensor of the plan.
    Tensor { tensor: usize, address: u64 },
    /// The copy engine's description of a tensor of the plan.
    Map {
        tensor: usize,
        address: u64,
        map: Box<CUtensorMap>,
    },
}

impl Step {
    pub(crate) fn new(number: usize, kernel: Kernel, shape: Shape, arguments: Vec<Argument>) -> Self {
        Self {
            number,
            kernel,
            shape,
            pointers: Vec::with_capacity(arguments.len()),
            arguments,
            moved: false,
        }
    }

    /// Takes tensors at other addresses, in the order of the plan.
    pub(crate) fn follow(&mut self, tensors: &[u64]) -> driver::Result<()> {
        for argument in &mut self.arguments {
            let (tensor, address, map) = match argument {
                Argument::Word(_) => continue,
                Argument::Tensor { tensor, address } => (*tensor, address, None),
                Argument::Map { tensor, address, map } => (*tensor, address, Some(map)),
            };
            let Some(now) = tensors.get(tensor).filter(|now| **now != *address) else {
                continue;
            };
            self.moved = true;
            if let Some(map) = map {
                driver::move_tensor_map(map, *now)?;
            }
            *address = *now;
        }
        Ok(())
    }

    /// Changes the arguments of its launch in a graph, if any followed a tensor since the last time.
    pub(crate) fn renew(&mut self, graph: &Graph, at: usize) -> driver::Result<()> {
        if self.moved {
            graph.set(at, self.launch())?;
            self.moved = false;
        }
        Ok(())
    }

    /// Puts the launch on a stream.
    pub(crate) fn enqueue(&mut self, stream: Stream) -> driver::Result<()> {
        let launch = self.launch();
        stream.launch(launch.kernel, launch.shape, launch.arguments)
    }

    /// The launch as the driver takes it.
    pub(crate) fn launch(&mut self) -> driver::Launch<'_> {
        self.pointers.clear();
        self.pointers
            .extend(self.arguments.iter_mut().map(|argument| match argument {
                Argument::Word(word) | Argument::Tensor { address: word, .. } => (&raw mut *word).cast(),
                Argument::Map { map, .. } => (&raw mut **map).cast::<c_void>(),
            }));
        driver::Launch {
            kernel: &self.kernel,
            shape: &self.shape,
            arguments: &mut self.pointers,
        }
    }
}

/// The graph of `steps`, all launches of `plan` that have programs. Each needs the last ones before it that share a tensor
/// which some launch writes.
pub(crate) fn template(plan: &LaunchPlan, steps: &mut [Step]) -> driver::Result<Template> {
    let needs = needs(plan, steps.iter().map(|step| step.number));
    let mut template = Template::new()?;
    for (step, needs) in steps.iter_mut().zip(needs) {
        template.push(step.launch(), &needs)?;
    }
    Ok(template)
}

/// For each of these launches of a plan, those by their places in the list that must be complete before it.
fn needs(plan: &LaunchPlan, launches: impl Iterator<Item = usize>) -> Vec<Vec<usize>> {
    let is_written = |tensor: &usize| {
        plan.tensors
            .get(*tensor)
            .is_none_or(|t| t.role != TensorRole::Input)
    };
    let mut last: BTreeMap<usize, usize> = BTreeMap::new();
    let needs_of = |(at, launch): (usize, usize)| {
        let tensors = plan
            .launches
            .get(launch)
            .map_or(&[][..], |launch| &launch.tensors);
        let written = tensors.iter().copied().filter(is_written);
        let needs: BTreeSet<usize> = written.filter_map(|tensor| last.insert(tensor, at)).collect();
        needs.into_iter().filter(|before| *before != at).collect()
    };
    launches.enumerate().map(needs_of).collect()
}

/// Where a plan's tensors are and what its dims are.
pub(crate) struct Place<'a> {
    pub(crate) plan: &'a LaunchPlan,
    pub(crate) dims: &'a Bindings,
    pub(crate) values: &'a [i64],
    pub(crate) shapes: &'a [Vec<usize>],
    pub(crate) tensors: &'a [u64],
}

impl Place<'_> {
    /// The value of a parameter, or why it has none.
    pub(crate) fn argument(
        &self,
        launch: &Launch,
        parameter: &Parameter,
        scratch: &mut impl Iterator<Item = u64>,
    ) -> Result<Result<Argument, String>> {
        let missing = || Error::invalid("a parameter is of a tensor or dim that does not exist");
        let tensor = |at: usize| launch.tensors.get(at).copied().ok_or_else(missing);
        Ok(Ok(match parameter {
            Parameter::Tensor(at) => {
                let tensor = tensor(*at)?;
                let address = self.tensors.get(tensor).copied().ok_or_else(missing)?;
                Argument::Tensor { tensor, address }
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
        let declared = self.shapes.get(tensor).ok_or_else(missing)?;
        let shape = &descriptor.shape;
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
        let elements = |product: Option<u64>, extent: u64| product?.checked_mul(extent);
        let has = declared
            .iter()
            .map(|extent| *extent as u64)
            .fold(Some(1), elements);
        if shape.iter().copied().fold(Some(1), elements) != has {
            return refused(format!(
                "it is described with the extents {shape:?}, but has {declared:?}"
            ));
        }
        let Some(swizzle) = swizzle(descriptor.swizzle) else {
            return refused(format!("there is no swizzle {}", descriptor.swizzle));
        };
        let Some(element) = element(descriptor.dtype) else {
            return refused(format!("it has no elements of type {}", descriptor.dtype));
        };
        let map = driver::tensor_map(
            address,
            element,
            descriptor.dtype.size() as u64,
            shape,
            &descriptor.block,
            swizzle,
        );
        match map {
            Ok(map) => Ok(Ok(Argument::Map {
                tensor,
                address,
                map: Box::new(map),
            })),
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

#[cfg(test)]
mod tests {
    use akg_core::source::PlanTensor;

    use super::*;

    /// A plan with tensors of these roles, whose launches take those of these numbers.
    fn plan(roles: &[TensorRole], launches: &[&[usize]]) -> LaunchPlan {
        let tensor = |role: &TensorRole| PlanTensor {
            name: "t".to_owned(),
            dtype: DType::F32,
            shape: Vec::new(),
            role: *role,
            align: 4,
            holds: None,
            updates: None,
        };
        let launch = |tensors: &&[usize]| Launch {
            kernel: "k".to_owned(),
            grid: Vec::new(),
            tensors: tensors.to_vec(),
            cooperative: false,
            doc: String::new(),
        };
        LaunchPlan {
            dims: Vec::new(),
            tensors: roles.iter().map(tensor).collect(),
            launches: launches.iter().map(launch).collect(),
        }
    }

    #[test]
    fn launches_need_those_that_share_what_is_written() {
        use TensorRole::{Input, Output, Scratch};
        // Both operands are prepared, multiplied, and the sums added up; something else comes between.
        let plan = plan(
            &[Input, Input, Scratch, Scratch, Scratch, Output, Output],
            &[&[0, 2], &[1, 3], &[0, 6], &[2, 3, 4], &[4, 5]],
        );
        let all = needs(&plan, 0..5);
        assert_eq!(all, [vec![], vec![], vec![], vec![0, 1], vec![3]]);
        // Launches without programs are left out, and others go by their places.
        assert_eq!(needs(&plan, [1, 3, 4].into_iter()), [vec![], vec![0], vec![1]]);
    }

    #[test]
    fn what_several_launches_write_is_written_in_their_order() {
        let plan = plan(&[TensorRole::Output], &[&[0], &[0, 0], &[0]]);
        assert_eq!(needs(&plan, 0..3), [vec![], vec![0], vec![1]]);
    }
}
