//! Calls with tensors that own their memory.

use akg_core::error::{Error, ErrorKind, Result};
use akg_core::tensor::{Storage, byte_len};
use akg_core::{AnyView, AnyViewMut, DType, Tensor};
use memmap2::{Mmap, MmapMut};

use super::LoadedBundle;

/// Memory of an output, aligned to a page.
struct Pages(Mmap);

impl Storage for Pages {
    fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl LoadedBundle {
    /// Computes the outputs from the inputs, in new memory: simple, but slower than [`call`](Self::call) for small
    /// tensors.
    ///
    /// # Errors
    /// As for [`call`](Self::call), and if there is no memory for the outputs.
    pub fn run(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let views: Vec<AnyView<'_>> = inputs.iter().map(AnyView::from).collect();
        self.signature.check_counts(views.len(), self.outputs().len())?;
        let shapes = self.output_shapes(&views)?;
        let mut memory = Vec::with_capacity(shapes.len());
        for (dtype, shape) in &shapes {
            let bytes = byte_len(*dtype, shape)?;
            // A map of nothing is none.
            memory.push(MmapMut::map_anon(bytes.max(1)).map_err(|e| {
                let message = format!("there is no room for an output of {bytes} bytes");
                Error::new(ErrorKind::OutOfResources, message).caused_by(e)
            })?);
        }
        let views_of = memory.iter_mut().zip(&shapes);
        let mut outputs: Vec<_> = views_of
            // SAFETY: the memory has the bytes of the shape and is nobody else's.
            .map(|(memory, (dtype, shape))| unsafe {
                AnyViewMut::from_raw(*dtype, memory.as_mut_ptr(), shape, None)
            })
            .collect();
        self.call(&views, &mut outputs)?;
        let tensors = memory.into_iter().zip(shapes).map(|(memory, (dtype, shape))| {
            let memory = memory
                .make_read_only()
                .map_err(|e| Error::io("cannot protect an output", e))?;
            Tensor::new(dtype, shape, std::sync::Arc::new(Pages(memory)))
        });
        tensors.collect()
    }

    fn output_shapes(&self, inputs: &[AnyView<'_>]) -> Result<Vec<(DType, Vec<usize>)>> {
        let frame = self.frame_of(inputs)?;
        let shapes = self.signature.output_shapes(frame.shapes());
        self.put_back(frame);
        Ok(shapes)
    }
}
