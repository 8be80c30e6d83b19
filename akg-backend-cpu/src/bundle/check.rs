//! Whether a call's tensors are those of the contract.

use std::ops::Range;

use akg_core::bundle::Port;
use akg_core::error::{Error, Result};
use akg_core::{AnyView, AnyViewMut, DType};

use super::LoadedBundle;
use super::frame::Frame;

/// What is checked of a tensor.
struct Given<'a> {
    dtype: DType,
    shape: &'a [usize],
    strides: Option<&'a [isize]>,
    contiguous: bool,
    addresses: Range<usize>,
}

impl<'a> Given<'a> {
    fn input(view: &AnyView<'a>) -> Self {
        Self {
            dtype: view.dtype(),
            shape: view.shape(),
            strides: view.strides(),
            contiguous: view.is_contiguous(),
            addresses: view.addresses(),
        }
    }

    fn output(view: &AnyViewMut<'a>) -> Self {
        Self {
            dtype: view.dtype(),
            shape: view.shape(),
            strides: view.strides(),
            contiguous: view.is_contiguous(),
            addresses: view.addresses(),
        }
    }
}

impl LoadedBundle {
    pub(super) fn check_counts(&self, inputs: usize, outputs: usize) -> Result<()> {
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

    /// Checks all tensors of a call against the frame of its dims.
    pub(super) fn check_tensors(
        &self,
        frame: &Frame,
        inputs: &[AnyView<'_>],
        outputs: &[AnyViewMut<'_>],
    ) -> Result<()> {
        let takes = self.manifest.inputs.iter().zip(&self.inputs);
        for ((port, index), view) in takes.zip(inputs) {
            check("input", port, frame.shape(*index), &Given::input(view))?;
        }
        let writes = self.manifest.outputs.iter().zip(&self.outputs);
        for (position, ((port, index), view)) in writes.zip(outputs).enumerate() {
            check("output", port, frame.shape(*index), &Given::output(view))?;
            let written = view.addresses();
            let overlaps = |other: &Range<usize>| other.start < written.end && written.start < other.end;
            let input = inputs.iter().position(|v| overlaps(&v.addresses()));
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

/// Checks one tensor against its port, whose extents are `shape` under the call's dims.
fn check(what: &str, port: &Port, shape: &[usize], given: &Given<'_>) -> Result<()> {
    let aligned = given.addresses.start.is_multiple_of(port.align) || given.addresses.is_empty();
    if given.dtype == port.dtype && given.shape == shape && given.contiguous && aligned {
        return Ok(());
    }
    let Port {
        name, dtype, align, ..
    } = port;
    let trouble = if given.dtype != *dtype || given.shape != shape {
        format!(
            "is {dtype}{shape:?}, but given was {}{:?}",
            given.dtype, given.shape
        )
    } else if !given.contiguous {
        let strides = given.strides.unwrap_or_default();
        format!("{dtype}{shape:?} must be dense and row-major, but its strides are {strides:?}: copy it")
    } else {
        let address = given.addresses.start;
        format!("must begin at a multiple of {align} bytes, but begins at {address:#x}")
    };
    Err(Error::invalid(format!("the {what} `{name}` {trouble}")))
}
