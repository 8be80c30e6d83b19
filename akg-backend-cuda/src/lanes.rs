//! Copies between the host and the device by several threads at once.
//!
//! The driver copies ordinary memory through a buffer of its own, one piece after the other, at about a gigabyte a second.
//! A lane is a thread with pinned memory and a stream: while the copy engines move what some lanes hold, others fill or
//! empty theirs, and the pages of files are looked up by all of them.

use std::sync::Mutex;
use std::thread;

use crate::driver::{self, Device, Pinned, Stream};

/// Bytes that a lane moves at a time.
const PIECE: usize = 4 << 20;

/// More lanes than this have nothing to do.
const MOST: usize = 8;

/// The lanes of a device. They are made when there is much to copy for the first time, and stay.
#[derive(Debug)]
pub(crate) struct Lanes {
    device: Device,
    /// None at first; empty where the driver refuses pinned memory.
    lanes: Option<Vec<Lane>>,
}

#[derive(Debug)]
struct Lane {
    device: Device,
    memory: Pinned,
    stream: Stream,
}

impl Lane {
    fn new(device: Device) -> driver::Result<Self> {
        Ok(Self {
            device,
            memory: Pinned::new(PIECE)?,
            stream: Stream::new()?,
        })
    }

    fn upload(&mut self, to: u64, piece: &[u8]) -> driver::Result<()> {
        let own = &mut self.memory.bytes_mut()[..piece.len()];
        own.copy_from_slice(piece);
        self.stream.upload(to, own)
    }

    fn download(&mut self, piece: &mut [u8], from: u64) -> driver::Result<()> {
        let own = &mut self.memory.bytes_mut()[..piece.len()];
        self.stream.download(own, from)?;
        piece.copy_from_slice(own);
        Ok(())
    }
}

// SAFETY: the driver allows every thread with the device's context to use its streams and memory.
unsafe impl Send for Lane {}

impl Lanes {
    pub(crate) fn new(device: Device) -> Self {
        Self { device, lanes: None }
    }

    /// Copies to the device, and waits for it. The address must have room for the bytes, and nothing that was asked of the
    /// device before may use them.
    pub(crate) fn upload(&mut self, to: u64, bytes: &[u8]) -> driver::Result<()> {
        let pieces: Vec<_> = bytes.chunks(PIECE).zip((to..).step_by(PIECE)).collect();
        match self.for_pieces(pieces.len()) {
            [] => driver::upload(to, bytes),
            lanes => share(lanes, pieces, |lane, (piece, to)| lane.upload(to, piece)),
        }
    }

    /// Copies from the device. The address must have as many bytes, and everything that makes them must be done.
    pub(crate) fn download(&mut self, bytes: &mut [u8], from: u64) -> driver::Result<()> {
        let count = bytes.len().div_ceil(PIECE);
        match self.for_pieces(count) {
            [] => driver::download(bytes, from),
            lanes => {
                let pieces = bytes.chunks_mut(PIECE).zip((from..).step_by(PIECE)).collect();
                share(lanes, pieces, |lane, (piece, from)| lane.download(piece, from))
            }
        }
    }

    /// The lanes for so many pieces; none if there are too few to share, or no pinned memory.
    fn for_pieces(&mut self, count: usize) -> &mut [Lane] {
        if count < 2 {
            return &mut [];
        }
        let device = self.device;
        let lanes = self.lanes.get_or_insert_with(|| {
            let threads = thread::available_parallelism().map_or(1, usize::from);
            let make = |_| Lane::new(device);
            (0..threads.clamp(2, MOST))
                .map(make)
                .collect::<driver::Result<_>>()
                .unwrap_or_default()
        });
        let count = count.min(lanes.len());
        &mut lanes[..count]
    }
}

/// Has each piece moved by one lane or another.
fn share<P: Send>(
    lanes: &mut [Lane],
    pieces: Vec<P>,
    copy: impl Fn(&mut Lane, P) -> driver::Result<()> + Sync,
) -> driver::Result<()> {
    let rest = Mutex::new(pieces.into_iter());
    let next = || rest.lock().ok()?.next();
    let run = |lane: &mut Lane| -> driver::Result<()> {
        lane.device.enter()?;
        while let Some(piece) = next() {
            copy(lane, piece)?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        let start = |lane| scope.spawn(|| run(lane));
        let threads: Vec<_> = lanes.iter_mut().map(start).collect();
        let end = |thread: thread::ScopedJoinHandle<'_, driver::Result<()>>| {
            thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        threads.into_iter().try_for_each(end)
    })
}
