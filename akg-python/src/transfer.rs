//! Tensors on their way to the worker and back, in shared memory.

use std::path::PathBuf;
use std::sync::Arc;

use akg_core::dtype::DType;
use akg_core::error::{Error, ErrorKind, Result};
use akg_core::tensor::{Storage, Tensor, byte_len};
use akg_worker::shm::{SharedBuffer, SharedFile};
use serde::{Deserialize, Serialize};

/// Tensors up to this size share one file, because every file costs a descriptor.
const SMALL: usize = 1 << 20;

/// Where a small tensor may start in the shared file.
const ALIGNMENT: usize = 64;

/// A tensor that the worker reads.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Descriptor {
    path: PathBuf,
    offset: usize,
    dtype: DType,
    shape: Vec<usize>,
}

/// Memory that the worker writes a tensor to.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Slot {
    path: PathBuf,
    offset: usize,
    bytes: usize,
}

/// What the worker wrote to a slot.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Written {
    dtype: DType,
    shape: Vec<usize>,
}

/// Keeps the files of descriptors open.
pub(crate) struct Inputs {
    pub(crate) descriptors: Vec<Descriptor>,
    _packed: SharedFile,
}

/// Offers tensors to the worker: those in files as they are, the others as copies in one file.
pub(crate) fn inputs(tensors: &[&Tensor]) -> Result<Inputs> {
    let mut end = 0;
    let offsets: Vec<_> = tensors
        .iter()
        .map(|t| {
            if t.path().is_some() {
                0
            } else {
                reserve(&mut end, t.bytes().len())
            }
        })
        .collect();
    let mut packed = SharedBuffer::allocate(end)?;
    let packed_path = packed.path().to_owned();
    let mut descriptors = Vec::with_capacity(tensors.len());
    for (tensor, offset) in tensors.iter().zip(offsets) {
        let path = match tensor.path() {
            Some(path) => path.to_owned(),
            None => {
                let room = packed.bytes_mut().get_mut(offset..offset + tensor.bytes().len());
                room.ok_or_else(|| Error::unexpected("a packed tensor has no room"))?
                    .copy_from_slice(tensor.bytes());
                packed_path.clone()
            }
        };
        descriptors.push(Descriptor {
            path,
            offset,
            dtype: tensor.dtype(),
            shape: tensor.shape().to_vec(),
        });
    }
    Ok(Inputs {
        descriptors,
        _packed: packed.freeze()?,
    })
}

/// Memory for results.
pub(crate) struct Outputs {
    pub(crate) slots: Vec<Slot>,
    /// The file of each slot; the first is shared by all small ones.
    files: Vec<SharedBuffer>,
    file_of: Vec<usize>,
}

/// Memory for results of at most these sizes in bytes.
pub(crate) fn outputs(sizes: &[usize]) -> Result<Outputs> {
    let mut end = 0;
    let small: Vec<_> = sizes
        .iter()
        .map(|&s| (s <= SMALL).then(|| reserve(&mut end, s)))
        .collect();
    let mut files = vec![SharedBuffer::allocate(end)?];
    let mut slots = Vec::with_capacity(sizes.len());
    let mut file_of = Vec::with_capacity(sizes.len());
    for (&bytes, offset) in sizes.iter().zip(small) {
        let file = match offset {
            Some(_) => 0,
            None => {
                files.push(SharedBuffer::allocate(bytes)?);
                files.len() - 1
            }
        };
        let path = files.get(file).map(|f| f.path().to_owned()).unwrap_or_default();
        slots.push(Slot {
            path,
            offset: offset.unwrap_or(0),
            bytes,
        });
        file_of.push(file);
    }
    Ok(Outputs {
        slots,
        files,
        file_of,
    })
}

impl Outputs {
    /// The tensors, once the worker has written them; slots without an entry in `written` are left out.
    pub(crate) fn collect(self, written: &[Option<Written>]) -> Result<Vec<Option<Tensor>>> {
        let files = self.files.into_iter().map(|f| Ok(Arc::new(f.freeze()?)));
        let files: Vec<Arc<SharedFile>> = files.collect::<Result<_>>()?;
        let mut tensors = Vec::with_capacity(written.len());
        for ((slot, file), written) in self.slots.iter().zip(&self.file_of).zip(written) {
            let (Some(written), Some(file)) = (written, files.get(*file)) else {
                tensors.push(None);
                continue;
            };
            if byte_len(written.dtype, &written.shape)? > slot.bytes {
                let message = "the Python worker reported a tensor larger than the memory for it";
                return Err(Error::new(ErrorKind::Protocol, message));
            }
            let storage: Arc<dyn Storage> = match slot.offset {
                0 => file.clone(),
                offset => Arc::new(Part {
                    file: file.clone(),
                    offset,
                }),
            };
            tensors.push(Some(Tensor::new(written.dtype, written.shape.clone(), storage)?));
        }
        Ok(tensors)
    }
}

/// Bytes of a shared file from an offset on.
struct Part {
    file: Arc<SharedFile>,
    offset: usize,
}

impl Storage for Part {
    fn bytes(&self) -> &[u8] {
        self.file.bytes().get(self.offset..).unwrap_or_default()
    }
}

fn reserve(end: &mut usize, bytes: usize) -> usize {
    let offset = end.next_multiple_of(ALIGNMENT);
    *end = offset + bytes;
    offset
}
