//! Memory that only this process writes, used again for tensors of the same size.
//!
//! The system clears every page that it supplies and, in a virtual machine, may have to ask for it in turn. A judge that makes
//! gigabytes of inputs for each of its checks would spend more time on that than on anything else.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use akg_core::backend::TensorBuffer;
use akg_core::dtype::DType;
use akg_core::error::{Error, ErrorKind, Result};
use akg_core::tensor::{Storage, Tensor, byte_len};
use rayon::prelude::*;
use rustix::fs::{Timespec, Timestamps, futimens};

use super::{STRETCH, SharedBuffer, allocate};
use crate::memory;

/// Less is not worth keeping.
const LEAST_BYTES: usize = 1 << 20;

/// The part of the machine's memory that may wait to be used again: one over this.
const PART: u64 = 16;

/// What waits to be used again, the oldest first.
static IDLE: Mutex<Vec<SharedBuffer>> = Mutex::new(Vec::new());

/// Memory for a tensor that this process is about to write; others can only read it, under the path of the tensor. What it
/// holds before is anything.
///
/// # Errors
/// [`ErrorKind::OutOfResources`] if there is no room, [`ErrorKind::Unsupported`] if the system has no anonymous files.
pub fn allocate_own(dtype: DType, shape: &[usize]) -> Result<Box<dyn TensorBuffer>> {
    let bytes = byte_len(dtype, shape)?;
    if bytes < LEAST_BYTES {
        return Ok(Box::new(allocate(dtype, shape)?));
    }
    let buffer = match again(bytes) {
        Some(buffer) => buffer,
        None => {
            let new = allocate(dtype, shape).or_else(|error| {
                let had_some = !std::mem::take(&mut *idle()).is_empty();
                let again = had_some && error.kind() == ErrorKind::OutOfResources;
                if again { allocate(dtype, shape) } else { Err(error) }
            })?;
            // Systems before Linux 5.1 cannot.
            if !new.buffer.forbid_others_to_write() {
                return Ok(Box::new(new));
            }
            new.buffer
        }
    };
    Ok(Box::new(OwnTensor {
        dtype,
        shape: shape.to_vec(),
        buffer,
    }))
}

/// A tensor of these bytes, in memory that others cannot write even if they can write `bytes`.
///
/// # Errors
/// Those of [`allocate_own`].
pub fn copy_own(dtype: DType, shape: &[usize], bytes: &[u8]) -> Result<Tensor> {
    let mut copy = allocate_own(dtype, shape)?;
    let pieces = copy.bytes_mut().par_chunks_mut(STRETCH);
    pieces
        .zip(bytes.par_chunks(STRETCH))
        .for_each(|(to, from)| to.copy_from_slice(from));
    copy.freeze()
}

fn idle() -> MutexGuard<'static, Vec<SharedBuffer>> {
    // A panic elsewhere leaves nothing half done here.
    IDLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The newest of this size that waits.
fn again(bytes: usize) -> Option<SharedBuffer> {
    let mut idle = idle();
    let at = idle.iter().rposition(|buffer| buffer.bytes().len() == bytes)?;
    Some(idle.remove(at))
}

/// A tensor under construction.
#[derive(Debug)]
struct OwnTensor {
    dtype: DType,
    shape: Vec<usize>,
    buffer: SharedBuffer,
}

impl TensorBuffer for OwnTensor {
    fn bytes_mut(&mut self) -> &mut [u8] {
        self.buffer.bytes_mut()
    }

    fn freeze(self: Box<Self>) -> Result<Tensor> {
        let Self { dtype, shape, buffer } = *self;
        stamp(&buffer)?;
        Tensor::new(dtype, shape, Arc::new(OwnFile(Some(buffer))))
    }
}

/// Gives a file another time of its last change, which tells its content from what was in it before: see [`content`](super::content).
fn stamp(buffer: &SharedBuffer) -> Result<()> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let time = Timespec {
        tv_sec: (number / 1_000_000_000) as i64,
        tv_nsec: (number % 1_000_000_000) as _,
    };
    let times = Timestamps {
        last_access: time,
        last_modification: time,
    };
    futimens(buffer.descriptor(), &times).map_err(|e| Error::io("cannot stamp shared memory", e.into()))
}

/// Storage of a tensor whose memory is used again when nobody has the tensor any more. Until then nobody writes it: other
/// processes cannot, and this one has no other way to it.
#[derive(Debug)]
struct OwnFile(Option<SharedBuffer>);

impl Storage for OwnFile {
    fn bytes(&self) -> &[u8] {
        self.0.as_ref().map_or(&[], SharedBuffer::bytes)
    }

    fn path(&self) -> Option<&Path> {
        self.0.as_ref().map(SharedBuffer::path)
    }
}

impl Drop for OwnFile {
    fn drop(&mut self) {
        let Some(buffer) = self.0.take() else { return };
        let room = memory::total() / PART;
        let mut idle = idle();
        idle.push(buffer);
        let mut kept: u64 = idle.iter().map(|b| b.bytes().len() as u64).sum();
        let too_many = idle.iter().take_while(|buffer| {
            let is_over = kept > room;
            kept -= if is_over { buffer.bytes().len() as u64 } else { 0 };
            is_over
        });
        let too_many = too_many.count();
        // Dropped when the lock is gone: giving pages back takes a while.
        let dropped: Vec<SharedBuffer> = idle.drain(..too_many).collect();
        std::mem::drop(idle);
        std::mem::drop(dropped);
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::super::content;
    use super::*;

    fn tensor(bytes: usize, value: u8) -> Tensor {
        let mut buffer = allocate_own(DType::U8, &[bytes]).unwrap();
        buffer.bytes_mut().fill(value);
        buffer.freeze().unwrap()
    }

    #[test]
    fn memory_is_used_again_when_nobody_has_it_and_others_can_tell() {
        // A size that no other test has.
        let bytes = LEAST_BYTES + 4321;
        let first = tensor(bytes, 1);
        let path = first.path().unwrap().to_owned();
        let opened = File::open(&path).unwrap();
        let before = content(&opened).unwrap();
        let held = first.clone();
        drop(first);
        let second = tensor(bytes, 2);
        assert_ne!(second.path().unwrap(), path, "somebody still has it");
        assert!(held.bytes().iter().all(|b| *b == 1));
        drop(held);
        let third = tensor(bytes, 3);
        assert_eq!(third.path().unwrap(), path);
        assert!(third.bytes().iter().all(|b| *b == 3));
        assert_eq!(std::fs::read(&path).unwrap(), third.bytes());
        assert_ne!(content(&opened).unwrap(), before);
    }

    #[test]
    fn others_can_only_read() {
        let tensor = tensor(LEAST_BYTES + 99, 7);
        let path = tensor.path().unwrap();
        assert!(SharedBuffer::open(path, tensor.bytes().len()).is_err());
        assert!(std::fs::write(path, [1]).is_err());
        let mut file = File::options().write(true).open(path).unwrap();
        assert!(std::io::Write::write(&mut file, &[1]).is_err());
        assert!(file.set_len(0).is_err());
        assert!(tensor.bytes().iter().all(|b| *b == 7));
    }

    #[test]
    fn a_copy_stays_when_others_write() {
        let bytes = 2 * STRETCH + 5;
        let shared = allocate(DType::U8, [bytes]).unwrap();
        let mut other = SharedBuffer::open(shared.path(), bytes).unwrap();
        other.bytes_mut()[bytes - 1] = 1;
        let copy = shared.copy_own().unwrap();
        other.bytes_mut().fill(2);
        assert_eq!((copy.dtype(), copy.shape()), (DType::U8, &[bytes][..]));
        assert_eq!((copy.bytes()[0], copy.bytes()[bytes - 1]), (0, 1));
    }

    #[test]
    fn little_is_kept() {
        let room = memory::total() / PART;
        let bytes = LEAST_BYTES + 777;
        drop((0..8).map(|n| tensor(bytes, n)).collect::<Vec<_>>());
        let kept: u64 = idle().iter().map(|b| b.bytes().len() as u64).sum();
        assert!(kept <= room);
    }
}
