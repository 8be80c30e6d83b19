//! Calls with tensors in the memory of the host.

use akg_core::Tensor;
use akg_core::bundle::call::dim_of;
use akg_core::error::Result;
use akg_core::tensor::byte_len;
use akg_core::{AnyView, DType};

use super::{DeviceTensor, LoadedBundle, Stream};
use crate::driver::{Memory, download, upload};

impl LoadedBundle {
    /// Copies the inputs to the device, computes the outputs on the default stream and copies them back: simple, but much
    /// slower than [`call`](Self::call).
    ///
    /// # Errors
    /// As for [`call`](Self::call), and if there is no memory for the tensors.
    pub fn run(&mut self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let code = self.code.clone();
        let signature = code.signature();
        signature.check_counts(inputs.len(), self.outputs().len())?;
        let _entered = code.enter()?;
        let views: Vec<AnyView<'_>> = inputs.iter().map(AnyView::from).collect();
        let shapes = self.output_shapes(&views)?;
        let memory_of = |tensor: &Tensor| {
            let memory = Memory::new(tensor.bytes().len() as u64)?;
            upload(memory.address(), tensor.bytes())?;
            Ok(memory)
        };
        let given = inputs.iter().map(memory_of).collect::<Result<Vec<_>>>()?;
        let memory_for =
            |(dtype, shape): &(DType, Vec<usize>)| Ok(Memory::new(byte_len(*dtype, shape)? as u64)?);
        let made = shapes.iter().map(memory_for).collect::<Result<Vec<_>>>()?;
        // SAFETY: the memory has the bytes of the shapes, is nobody else's, and lives until the outputs are copied.
        let tensor =
            |dtype, memory: &Memory, shape| unsafe { DeviceTensor::from_raw(dtype, memory.address(), shape) };
        let takes: Vec<_> = inputs
            .iter()
            .zip(&given)
            .map(|(input, memory)| tensor(input.dtype(), memory, input.shape()))
            .collect();
        let writes: Vec<_> = shapes
            .iter()
            .zip(&made)
            .map(|((dtype, shape), memory)| tensor(*dtype, memory, shape.as_slice()))
            .collect();
        self.call(Stream::DEFAULT, &takes, &writes)?;
        let copies = shapes.iter().zip(&made).map(|((dtype, shape), memory)| {
            let mut bytes = vec![0; byte_len(*dtype, shape)?];
            download(&mut bytes, memory.address())?;
            Tensor::from_bytes(*dtype, shape.clone(), &bytes)
        });
        copies.collect()
    }

    fn output_shapes(&mut self, inputs: &[AnyView<'_>]) -> Result<Vec<(DType, Vec<usize>)>> {
        let lane = super::Lane::of(&mut self.lanes, Stream::DEFAULT.0);
        let frame = lane.frame(&self.code, |dim| dim_of(dim, inputs))?;
        Ok(self.code.signature().output_shapes(frame.shapes()))
    }
}
