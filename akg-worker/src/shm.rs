//! Memory that a worker maps too: anonymous files, passed by path.
//!
//! Files come from `memfd_create`, so they need no space in `/dev/shm` (64 MiB in many containers), leave nothing
//! behind when a process is killed, and carry *seals*: nobody, the worker included, can shrink a file (which would kill
//! its other users with `SIGBUS`), and once frozen nobody can change its bytes. Other processes of the same user open
//! them under `/proc/PID/fd/N`.

use std::fmt;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use akg_core::backend::TensorBuffer;
use akg_core::dtype::DType;
use akg_core::error::{Error, ErrorKind, Result};
use akg_core::tensor::{Storage, Tensor, byte_len};
use memmap2::{Advice, Mmap, MmapMut, MmapOptions};
use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::memory;

mod own;

pub use own::{allocate_own, copy_own};

/// How long a buffer may stay mapped elsewhere when it is frozen. A child that is just being started has all maps of its
/// parent for a moment.
const SETTLING: Duration = Duration::from_millis(500);

/// Shared memory that can be written here and in every process that knows its path.
pub struct SharedBuffer {
    file: File,
    map: MmapMut,
    path: PathBuf,
}

impl SharedBuffer {
    /// Zeroed memory of `bytes` bytes, reserved at once: what succeeds here does not run out later.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfResources`] if there is no room, [`ErrorKind::Unsupported`] if the system has no anonymous
    /// files or no `/proc`.
    pub fn allocate(bytes: usize) -> Result<Self> {
        // The system would rather kill processes than refuse to reserve more than there is.
        let free = memory::available();
        if bytes as u64 > free {
            return Err(Error::new(
                ErrorKind::OutOfResources,
                format!("cannot reserve {bytes} bytes of shared memory: {free} are available"),
            ));
        }
        let file = anonymous_file()
            .map_err(|e| Error::new(ErrorKind::Unsupported, "cannot create shared memory").caused_by(e))?;
        // Zero-size tensors still need an address.
        rustix::fs::ftruncate(&file, bytes.max(1) as u64).map_err(|e| cannot_reserve(bytes, e))?;
        rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW)
            .map_err(|e| Error::io("cannot seal shared memory", e.into()))?;
        let path = PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()));
        // SAFETY: the seals keep the file at its size for as long as the map lives.
        let map =
            unsafe { MmapOptions::new().len(bytes).map_mut(&file) }.map_err(|e| cannot_map(&path, e))?;
        // Children of this process do not need it, and would count as processes that can write.
        map.advise(Advice::DontFork).map_err(|e| cannot_map(&path, e))?;
        let mut buffer = Self { file, map, path };
        reserve(&buffer.file, &mut buffer.map)?;
        Ok(buffer)
    }

    /// Maps what another process allocated, if it has exactly this many bytes.
    pub fn open(path: &Path, bytes: usize) -> Result<Self> {
        let file = File::options()
            .read(true)
            .write(true)
            .open(path)
            .map_err(|e| cannot_map(path, e))?;
        check_length(&file, path, bytes)?;
        // SAFETY: the length was checked, and akg seals what it allocates against shrinking.
        let map = unsafe { MmapOptions::new().len(bytes).map_mut(&file) }.map_err(|e| cannot_map(path, e))?;
        Ok(Self {
            file,
            map,
            path: path.to_owned(),
        })
    }

    /// Forbids every writer except this value; `false` where the system cannot.
    pub(crate) fn forbid_others_to_write(&self) -> bool {
        rustix::fs::fcntl_add_seals(&self.file, SealFlags::FUTURE_WRITE | SealFlags::SEAL).is_ok()
    }

    /// The file.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Where other processes find it while this value, or what it is frozen into, lives.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.map
    }

    /// The bytes, to be written.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.map
    }

    /// Makes the bytes unchangeable for every process.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] if another process has it mapped for writing.
    pub fn freeze(self) -> Result<SharedFile> {
        let Self { file, map, path } = self;
        let bytes = map.len();
        drop(map);
        let seal = || rustix::fs::fcntl_add_seals(&file, SealFlags::WRITE | SealFlags::SEAL);
        let until = Instant::now() + SETTLING;
        let mut sealed = seal();
        while sealed == Err(Errno::BUSY) && Instant::now() < until {
            thread::sleep(SETTLING / 100);
            sealed = seal();
        }
        sealed.map_err(|e| {
            let message = "cannot freeze shared memory; a process may still map it for writing";
            Error::io(message, e.into())
        })?;
        // SAFETY: the seals keep the file's size and bytes for as long as the map lives.
        let map = unsafe { MmapOptions::new().len(bytes).map_copy_read_only(&file) }
            .map_err(|e| cannot_map(&path, e))?;
        Ok(SharedFile {
            _file: file,
            map,
            path,
        })
    }
}

/// Shared memory whose bytes nobody can change any more; storage for tensors.
pub struct SharedFile {
    /// Keeps the path alive.
    _file: File,
    map: Mmap,
    path: PathBuf,
}

impl Storage for SharedFile {
    fn bytes(&self) -> &[u8] {
        &self.map
    }

    fn path(&self) -> Option<&Path> {
        Some(&self.path)
    }
}

impl fmt::Debug for SharedBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "SharedBuffer({} bytes at {})",
            self.map.len(),
            self.path.display()
        )
    }
}

impl fmt::Debug for SharedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "SharedFile({} bytes at {})",
            self.map.len(),
            self.path.display()
        )
    }
}

/// A tensor under construction in shared memory: workers get it later without a copy.
#[derive(Debug)]
pub struct SharedTensor {
    dtype: DType,
    shape: Vec<usize>,
    buffer: SharedBuffer,
}

/// A zeroed tensor in shared memory, which this process is about to write.
pub fn allocate(dtype: DType, shape: impl Into<Vec<usize>>) -> Result<SharedTensor> {
    let shape = shape.into();
    let buffer = SharedBuffer::allocate(byte_len(dtype, &shape)?)?;
    Ok(SharedTensor { dtype, shape, buffer })
}

/// Bytes that a thread reserves at a time.
const STRETCH: usize = 16 << 20;

/// Reserves the memory of a file that is mapped here as a whole, to be written through this map: by all cores at once
/// where that is faster, which finds the pages for the map, too.
///
/// # Errors
/// [`ErrorKind::OutOfResources`] if there is no room.
pub fn reserve(file: &File, map: &mut MmapMut) -> Result<()> {
    let bytes = map.len();
    let threads = thread::available_parallelism()
        .map_or(1, usize::from)
        .min(bytes / STRETCH);
    let (next, map) = (AtomicUsize::new(0), &*map);
    let populate = || -> bool {
        loop {
            let start = next.fetch_add(STRETCH, Ordering::Relaxed);
            if start >= bytes {
                return true;
            }
            if map
                .advise_range(Advice::PopulateWrite, start, STRETCH.min(bytes - start))
                .is_err()
            {
                return false;
            }
        }
    };
    let populated = threads > 1
        && thread::scope(|scope| {
            let threads: Vec<_> = (0..threads).map(|_| scope.spawn(populate)).collect();
            threads.into_iter().all(|thread| thread.join().unwrap_or(false))
        });
    // Old systems cannot populate; where memory is short, this says so.
    if populated {
        Ok(())
    } else {
        reserve_by_system(file, bytes)
    }
}

fn reserve_by_system(file: &File, bytes: usize) -> Result<()> {
    // Zero-size tensors still need an address.
    let reserved = rustix::fs::fallocate(file, FallocateFlags::empty(), 0, bytes.max(1) as u64);
    reserved.map_err(|e| cannot_reserve(bytes, e))
}

fn cannot_reserve(bytes: usize, cause: Errno) -> Error {
    let kind = match cause {
        Errno::NOSPC | Errno::NOMEM | Errno::FBIG | Errno::DQUOT => ErrorKind::OutOfResources,
        _ => ErrorKind::Io,
    };
    Error::new(kind, format!("cannot reserve {bytes} bytes of shared memory")).caused_by(cause)
}

impl SharedTensor {
    /// The native-endian bytes of the elements, row-major.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.buffer.bytes_mut()
    }

    /// Whether it is a tensor of this type and shape.
    pub fn is(&self, dtype: DType, shape: &[usize]) -> bool {
        self.dtype == dtype && self.shape == shape
    }

    /// Where other processes find the bytes.
    pub fn path(&self) -> &Path {
        self.buffer.path()
    }

    /// A [copy](copy_own) of what others may go on writing.
    pub fn copy_own(&self) -> Result<Tensor> {
        copy_own(self.dtype, &self.shape, self.buffer.bytes())
    }

    /// Makes it an ordinary tensor, unchangeable for every process.
    pub fn freeze(self) -> Result<Tensor> {
        Tensor::new(self.dtype, self.shape, Arc::new(self.buffer.freeze()?))
    }
}

impl TensorBuffer for SharedTensor {
    fn bytes_mut(&mut self) -> &mut [u8] {
        self.buffer.bytes_mut()
    }

    fn freeze(self: Box<Self>) -> Result<Tensor> {
        SharedTensor::freeze(*self)
    }
}

/// `tensor` itself if it is in shared memory already, else a copy that is.
pub fn share(tensor: &Tensor) -> Result<Tensor> {
    if tensor.path().is_some() {
        return Ok(tensor.clone());
    }
    copy_own(tensor.dtype(), tensor.shape(), tensor.bytes())
}

/// What tells the content of a tensor's file from that of all others and from what was in the same file before.
///
/// # Errors
/// If the system does not say.
pub fn content(file: &File) -> Result<[u64; 3]> {
    let about = file
        .metadata()
        .map_err(|e| Error::io("cannot ask for shared memory", e))?;
    Ok([about.ino(), about.mtime() as u64, about.mtime_nsec() as u64])
}

fn anonymous_file() -> Result<File, Errno> {
    let create = || rustix::fs::memfd_create(c"akg", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING);
    let file = create().or_else(|e| {
        // Each tensor is an open file, and a network can have more of them than the usual soft limit.
        let limit = getrlimit(Resource::Nofile);
        if e != Errno::MFILE || limit.current == limit.maximum {
            return Err(e);
        }
        let raised = Rlimit {
            current: limit.maximum,
            maximum: limit.maximum,
        };
        setrlimit(Resource::Nofile, raised)?;
        create()
    });
    Ok(file?.into())
}

fn check_length(file: &File, path: &Path, bytes: usize) -> Result<()> {
    let have = file.metadata().map_err(|e| cannot_map(path, e))?.len();
    if have < bytes as u64 {
        return Err(Error::new(
            ErrorKind::Protocol,
            format!("shared memory {} has {have} bytes, not {bytes}", path.display()),
        ));
    }
    Ok(())
}

fn cannot_map(path: &Path, cause: std::io::Error) -> Error {
    Error::io(format!("cannot map shared memory {}", path.display()), cause)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_opener_sees_what_was_written() {
        let mut buffer = SharedBuffer::allocate(5000).unwrap();
        let mut other = SharedBuffer::open(buffer.path(), 5000).unwrap();
        other.bytes_mut()[4999] = 7;
        assert_eq!(buffer.bytes_mut()[4999], 7);
        assert!(SharedBuffer::open(buffer.path(), 5001).is_err());
    }

    #[test]
    fn what_is_frozen_had_no_writer_and_gets_none() {
        let buffer = SharedBuffer::allocate(64).unwrap();
        let writer = SharedBuffer::open(buffer.path(), 64).unwrap();
        assert_eq!(buffer.freeze().unwrap_err().kind(), ErrorKind::Io);
        drop(writer);
        let frozen = SharedBuffer::allocate(64).unwrap().freeze().unwrap();
        let path = frozen.path().unwrap();
        assert!(SharedBuffer::open(path, 64).is_err());
        assert!(std::fs::write(path, [1]).is_err());
        assert_eq!(frozen.bytes(), [0; 64]);
    }

    #[test]
    fn nobody_can_shrink_a_buffer() {
        let buffer = SharedBuffer::allocate(1 << 16).unwrap();
        let file = File::options().write(true).open(buffer.path()).unwrap();
        assert!(file.set_len(0).is_err());
        assert_eq!(buffer.bytes().len(), 1 << 16);
    }

    #[test]
    fn sharing_twice_copies_once() {
        let tensor = Tensor::from_slice([2], &[1.5f32, -2.0]).unwrap();
        let shared = share(&tensor).unwrap();
        assert_eq!(shared.as_slice::<f32>().unwrap(), [1.5, -2.0]);
        assert_eq!(share(&shared).unwrap().path(), shared.path());
        assert_eq!(
            share(&Tensor::zeros(DType::F32, [0, 3]).unwrap()).unwrap().len(),
            0
        );
    }

    #[test]
    fn too_much_memory_is_an_error() {
        let error = SharedBuffer::allocate(1 << 60).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutOfResources, "{error}");
    }
}
