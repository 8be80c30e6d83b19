//! Tensors on their way to the worker and back, in shared memory.

use std::collections::HashMap;
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
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

/// The files that go with a call, whose tensors name them by position.
#[derive(Debug, Default)]
pub(crate) struct Files {
    /// Each with whether the worker writes to it.
    paths: Vec<(PathBuf, bool)>,
}

impl Files {
    fn add(&mut self, path: &Path, writable: bool) -> usize {
        let known = self.paths.iter().position(|(p, w)| p == path && *w == writable);
        known.unwrap_or_else(|| {
            self.paths.push((path.to_owned(), writable));
            self.paths.len() - 1
        })
    }

    /// Opens them; those that the worker only reads, so that it cannot do more.
    pub(crate) fn open(&self) -> Result<Vec<File>> {
        let open = |(path, writable): &(PathBuf, bool)| {
            let file = File::options().read(true).write(*writable).open(path);
            file.map_err(|e| Error::io(format!("cannot open the tensor in {}", path.display()), e))
        };
        self.paths.iter().map(open).collect()
    }
}

/// A tensor that the worker reads.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Descriptor {
    file: usize,
    offset: usize,
    dtype: DType,
    shape: Vec<usize>,
}

impl Descriptor {
    fn range(&self, bytes: usize) -> Range<usize> {
        self.offset..self.offset.saturating_add(bytes)
    }
}

/// Memory that the worker writes a tensor to.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Slot {
    file: usize,
    offset: usize,
    bytes: usize,
}

/// What the worker wrote to a slot.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Written {
    pub(crate) dtype: DType,
    pub(crate) shape: Vec<usize>,
}

/// Keeps the files of descriptors open.
pub(crate) struct Inputs {
    pub(crate) descriptors: Vec<Descriptor>,
    _packed: SharedFile,
}

/// Offers tensors to the worker: those in files as they are, the others as copies in one file.
pub(crate) fn inputs(files: &mut Files, tensors: &[&Tensor]) -> Result<Inputs> {
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
    let packed_file = files.add(packed.path(), false);
    let mut descriptors = Vec::with_capacity(tensors.len());
    for (tensor, offset) in tensors.iter().zip(offsets) {
        let file = match tensor.path() {
            Some(path) => files.add(path, false),
            None => {
                let room = packed.bytes_mut().get_mut(offset..offset + tensor.bytes().len());
                room.ok_or_else(|| Error::unexpected("a packed tensor has no room"))?
                    .copy_from_slice(tensor.bytes());
                packed_file
            }
        };
        descriptors.push(Descriptor {
            file,
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

/// The tensors of several slots, each tensor once, and for each slot their numbers.
fn unique<'a>(slots: &[&'a [Tensor]]) -> (Vec<&'a Tensor>, Vec<Vec<usize>>) {
    let mut tensors: Vec<&Tensor> = Vec::new();
    let mut known = HashMap::new();
    let mut number = |tensor: &'a Tensor| {
        // Tensors without elements may begin where others do.
        let place = (
            tensor.bytes().as_ptr_range().start,
            tensor.shape(),
            tensor.dtype(),
        );
        *known.entry(place).or_insert_with(|| {
            tensors.push(tensor);
            tensors.len() - 1
        })
    };
    let numbers = slots.iter().map(|slot| slot.iter().map(&mut number).collect());
    let numbers = numbers.collect();
    (tensors, numbers)
}

/// For each slot, what the numbers of its tensors stand for.
fn resolve<T: Clone>(made: &[T], numbers: &[Vec<usize>]) -> Vec<Vec<T>> {
    let of = |slot: &Vec<usize>| {
        slot.iter()
            .filter_map(|number| made.get(*number).cloned())
            .collect()
    };
    numbers.iter().map(of).collect()
}

/// The inputs of several slots, offered to the worker.
pub(crate) struct SlotInputs {
    pub(crate) slots: Vec<Vec<Descriptor>>,
    pub(crate) files: Files,
    /// Keeps the files open.
    _inputs: Inputs,
}

impl SlotInputs {
    /// Offers each tensor once, however many slots share it.
    pub(crate) fn new(slots: &[&[Tensor]]) -> Result<Self> {
        let (tensors, numbers) = unique(slots);
        let mut files = Files::default();
        let inputs = inputs(&mut files, &tensors)?;
        Ok(Self {
            slots: resolve(&inputs.descriptors, &numbers),
            files,
            _inputs: inputs,
        })
    }
}

/// Memory for the inputs of many calls: written here, and mapped by the worker once.
#[derive(Debug)]
pub(crate) struct Stage {
    /// For each slot, where its inputs are.
    pub(crate) slots: Vec<Vec<Descriptor>>,
    pub(crate) files: Files,
    /// The places of different tensors, and for each slot their numbers.
    places: Vec<Descriptor>,
    numbers: Vec<Vec<usize>>,
    /// For each place, whether it holds what was bound last.
    written: Vec<bool>,
    buffer: SharedBuffer,
}

impl Stage {
    /// Room for slots with tensors like these, which the worker maps where it lies or reads only.
    pub(crate) fn new(slots: &[&[Tensor]], is_shared: bool) -> Result<Self> {
        let (tensors, numbers) = unique(slots);
        let mut end = 0;
        let place = |t: &&Tensor| Descriptor {
            file: 0,
            offset: reserve(&mut end, t.bytes().len()),
            dtype: t.dtype(),
            shape: t.shape().to_vec(),
        };
        let places: Vec<Descriptor> = tensors.iter().map(place).collect();
        let buffer = SharedBuffer::allocate(end)?;
        let mut files = Files::default();
        files.add(buffer.path(), is_shared);
        Ok(Self {
            slots: resolve(&places, &numbers),
            files,
            written: vec![false; places.len()],
            places,
            numbers,
            buffer,
        })
    }

    /// Whether it has room for these slots, which have tensors of the same types.
    pub(crate) fn is_for(&self, slots: &[&[Tensor]]) -> bool {
        unique(slots).1 == self.numbers
    }

    /// Forgets what was written: other tensors are bound.
    pub(crate) fn begin(&mut self) {
        self.written.fill(false);
    }

    /// Writes the tensors of a slot, each once.
    pub(crate) fn write(&mut self, slot: usize, tensors: &[Tensor]) {
        let numbers = self.numbers.get(slot).into_iter().flatten();
        for (number, tensor) in numbers.zip(tensors) {
            let (Some(place), Some(written)) = (self.places.get(*number), self.written.get_mut(*number))
            else {
                continue;
            };
            let bytes = tensor.bytes();
            if let Some(room) = self.buffer.bytes_mut().get_mut(place.range(bytes.len()))
                && !*written
            {
                room.copy_from_slice(bytes);
                *written = true;
            }
        }
    }

    /// Whether a slot still holds these tensors, which were written there.
    pub(crate) fn holds(&self, slot: usize, tensors: &[Tensor]) -> bool {
        let places = self.slots.get(slot).into_iter().flatten();
        places.zip(tensors).all(|(place, tensor)| {
            let bytes = tensor.bytes();
            self.buffer.bytes().get(place.range(bytes.len())) == Some(bytes)
        })
    }
}

/// Memory for results.
pub(crate) struct Outputs {
    pub(crate) slots: Vec<Slot>,
    /// The file of each slot; the first is shared by all small ones.
    files: Vec<SharedBuffer>,
    file_of: Vec<usize>,
}

/// Memory for results of at most these sizes in bytes.
pub(crate) fn outputs(sent: &mut Files, sizes: &[usize]) -> Result<Outputs> {
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
        let written = files
            .get(file)
            .ok_or_else(|| Error::unexpected("an output has no file"))?;
        slots.push(Slot {
            file: sent.add(written.path(), true),
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
