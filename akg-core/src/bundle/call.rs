//! What a call of a bundle must be, whatever runs its kernels.

use std::ops::Range;

use super::module::{DimSource, dim_sources};
use super::{Bundle, Manifest, Port};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::expr::Bindings;
use crate::graph::Layout;
use crate::source::{LaunchPlan, TensorRole};
use crate::tensor::Tensor;
use crate::view::{AnyView, AnyViewMut, dense_strides};

/// A tensor that a caller gives to a bundle.
pub trait Operand {
    /// The element type.
    fn dtype(&self) -> DType;

    /// The extents, outermost first.
    fn shape(&self) -> &[usize];

    /// The strides in elements; `None` if the elements are dense and row-major.
    fn strides(&self) -> Option<&[isize]>;

    /// Whether the elements are dense and row-major.
    fn is_contiguous(&self) -> bool;

    /// The addresses from the first element in memory to the last.
    fn addresses(&self) -> Range<usize>;
}

macro_rules! operands {
    ($($view:ident),*) => {$(
        impl Operand for $view<'_> {
            fn dtype(&self) -> DType {
                $view::dtype(self)
            }

            fn shape(&self) -> &[usize] {
                $view::shape(self)
            }

            fn strides(&self) -> Option<&[isize]> {
                $view::strides(self)
            }

            fn is_contiguous(&self) -> bool {
                $view::is_contiguous(self)
            }

            fn addresses(&self) -> Range<usize> {
                $view::addresses(self)
            }
        }
    )*};
}
operands!(AnyView, AnyViewMut);

/// What calls of a bundle take and write, and where that is in its plan.
#[derive(Debug, Clone)]
pub struct Signature {
    manifest: Manifest,
    dims: Vec<DimSource>,
    inputs: Vec<usize>,
    outputs: Vec<usize>,
    constants: Vec<(usize, Tensor)>,
}

impl Signature {
    /// That of a bundle.
    ///
    /// # Errors
    /// [`Unsupported`](crate::ErrorKind::Unsupported) for a dim that is no input's extent.
    pub fn new(bundle: &Bundle) -> Result<Self> {
        let manifest = bundle.manifest().clone();
        let indices = |role| manifest.plan.with_role(role).map(|(i, _)| i).collect::<Vec<_>>();
        let mut inputs = indices(TensorRole::Input);
        let constants = inputs.split_off(manifest.inputs.len().min(inputs.len()));
        let tensors = bundle.graph().constants().iter().map(|c| c.tensor.clone());
        Ok(Self {
            dims: dim_sources(&manifest)?,
            outputs: indices(TensorRole::Output),
            inputs,
            constants: constants.into_iter().zip(tensors).collect(),
            manifest,
        })
    }

    /// The bundle's manifest.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The bundle's plan.
    pub fn plan(&self) -> &LaunchPlan {
        &self.manifest.plan
    }

    /// Where the values of the plan's dims come from, in its order.
    pub fn dims(&self) -> &[DimSource] {
        &self.dims
    }

    /// The plan's tensors that a call takes, in order.
    pub fn inputs(&self) -> &[usize] {
        &self.inputs
    }

    /// The plan's tensors that a call writes, in order.
    pub fn outputs(&self) -> &[usize] {
        &self.outputs
    }

    /// The plan's inputs that the caller does not give.
    pub fn constants(&self) -> &[(usize, Tensor)] {
        &self.constants
    }

    /// The input, by position, that an output of the plan updates in place.
    fn updated(&self, output: usize) -> Option<usize> {
        let input = self.plan().tensors.get(output)?.updates?;
        self.inputs.iter().position(|at| *at == input)
    }

    /// Checks how many tensors there are.
    pub fn check_counts(&self, inputs: usize, outputs: usize) -> Result<()> {
        if (inputs, outputs) == (self.inputs.len(), self.outputs.len()) {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "the bundle takes {} inputs and writes {} outputs; given were {inputs} and {outputs}",
            self.inputs.len(),
            self.outputs.len()
        ))
        .with("bundle", &self.manifest.name))
    }

    /// Checks how many values of dims there are.
    pub fn check_dim_count(&self, dims: usize) -> Result<()> {
        if dims == self.dims.len() {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "{dims} values for the bundle's {} dims",
            self.dims.len()
        )))
    }

    /// The values of the dims in order, which `value` has.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for a dim without a value, or with one that the contract excludes.
    pub fn dim_values(&self, value: impl Fn(&DimSource) -> Option<i64>) -> Result<Vec<i64>> {
        let values = self.dims.iter().map(|dim| {
            let value = value(dim).ok_or_else(|| {
                Error::invalid(format!(
                    "the dim `{}` is extent {} of input `{}`, which has no such extent",
                    dim.name,
                    dim.axis,
                    self.manifest.inputs.get(dim.input).map_or("", |port| &port.name)
                ))
            })?;
            if !(dim.lo..=dim.hi).contains(&value) {
                return Err(Error::invalid(format!(
                    "the dim `{}` is {value}, and the contract holds from {} to {}",
                    dim.name, dim.lo, dim.hi
                )));
            }
            Ok(value)
        });
        values.collect()
    }

    /// Whether these are the values of the dims in order, which `value` has.
    pub fn fits(&self, values: &[i64], value: impl Fn(&DimSource) -> Option<i64>) -> bool {
        let known = self.dims.iter().zip(values);
        known.into_iter().all(|(dim, known)| value(dim) == Some(*known))
    }

    /// The element type and extents of each output; `shapes` are the extents of the plan's tensors.
    pub fn output_shapes(&self, shapes: &[Vec<usize>]) -> Vec<(DType, Vec<usize>)> {
        let ports = self.manifest.outputs.iter().zip(&self.outputs);
        let shape = |index: usize| shapes.get(index).cloned().unwrap_or_default();
        ports.map(|(port, index)| (port.dtype, shape(*index))).collect()
    }

    /// The dims' values by name.
    pub fn bindings(&self, values: &[i64]) -> Bindings {
        let names = self.dims.iter().map(|dim| dim.name.clone());
        names.zip(values.iter().copied()).collect()
    }

    /// Checks all tensors of a call; `shapes` are the extents of the plan's tensors under its dims.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for another element type, extents, strides or alignment than
    /// those of the port, and for an output that overlaps another tensor, unless it is the input that it updates in place.
    pub fn check_tensors<I: Operand, O: Operand>(
        &self,
        shapes: &[Vec<usize>],
        inputs: &[I],
        outputs: &[O],
    ) -> Result<()> {
        let shape = |index: usize| shapes.get(index).map_or(&[][..], Vec::as_slice);
        let takes = self.manifest.inputs.iter().zip(&self.inputs);
        for ((port, index), given) in takes.zip(inputs) {
            check("input", port, shape(*index), given)?;
        }
        let writes = self.manifest.outputs.iter().zip(&self.outputs);
        for (position, ((port, index), given)) in writes.zip(outputs).enumerate() {
            check("output", port, shape(*index), given)?;
            let written = given.addresses();
            let overlaps = |other: &Range<usize>| other.start < written.end && written.start < other.end;
            let updated = self.updated(*index);
            let input = inputs.iter().enumerate().position(|(at, v)| {
                let addresses = v.addresses();
                overlaps(&addresses) && !(updated == Some(at) && addresses == written)
            });
            let output = outputs
                .iter()
                .take(position)
                .position(|v| overlaps(&v.addresses()));
            let other = match (input, output) {
                (None, None) => continue,
                (Some(i), _) => self.manifest.inputs.get(i),
                (None, Some(o)) => self.manifest.outputs.get(o),
            };
            return Err(Error::invalid(format!(
                "the output `{}` overlaps `{}`: kernels write while they read, so give it memory of its own",
                port.name,
                other.map_or("another tensor", |port| &port.name)
            )));
        }
        Ok(())
    }
}

/// The value of a dim in the extents of a call's inputs.
pub fn dim_of<I: Operand>(dim: &DimSource, inputs: &[I]) -> Option<i64> {
    let extent = inputs.get(dim.input)?.shape().get(dim.axis)?;
    i64::try_from(*extent).ok()
}

/// Checks one tensor against its port, whose extents are `shape` under the call's dims. The port of a layout takes a tensor in
/// that layout, or its storage.
fn check(what: &str, port: &Port, shape: &[usize], given: &impl Operand) -> Result<()> {
    let addresses = given.addresses();
    let aligned = addresses.start.is_multiple_of(port.align) || addresses.is_empty();
    let is_dense = given.shape() == shape && given.is_contiguous();
    let strides = || {
        given
            .strides()
            .map_or_else(|| dense_strides(given.shape()), <[isize]>::to_vec)
    };
    let holds = |layout: &Layout| layout.holds(given.shape(), &strides());
    let fits = is_dense || port.layout.as_ref().is_some_and(holds);
    if given.dtype() == port.dtype && fits && aligned {
        return Ok(());
    }
    let Port {
        name, dtype, align, ..
    } = port;
    let found = || format!("{}{:?}", given.dtype(), given.shape());
    let trouble = match &port.layout {
        Some(layout) if given.dtype() != *dtype || !fits => format!(
            "is {dtype}{layout}, but given was {} with strides {:?}: copy it into that layout, or make a bundle for its own",
            found(),
            strides()
        ),
        None if given.dtype() != *dtype || given.shape() != shape => {
            format!("is {dtype}{shape:?}, but given was {}", found())
        }
        None if !fits => format!(
            "{dtype}{shape:?} must be dense and row-major, but its strides are {:?}: copy it",
            strides()
        ),
        _ => {
            let address = addresses.start;
            format!("must begin at a multiple of {align} bytes, but begins at {address:#x}")
        }
    };
    Err(Error::invalid(format!("the {what} `{name}` {trouble}")))
}
