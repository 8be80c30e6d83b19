//! The caller's ends of what connects it to a worker, none of which ever blocks the caller: a socket to the worker's
//! standard input, which can carry descriptors, and pipes from its standard output and error.

use std::collections::VecDeque;
use std::io::{self, IoSlice, PipeReader, Read};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use akg_core::error::{Error, ErrorKind, Result};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use serde::de::DeserializeOwned;

use crate::channel::MOST_DESCRIPTORS;
use crate::frame::Decoder;

/// Bytes of standard error that are kept.
const KEPT: usize = 64 << 10;

/// Bytes of standard error that a worker may write during one request.
const MAX_OUTPUT: usize = 16 << 20;

/// Bytes read from one pipe before the caller looks at the clock again.
const BURST: usize = 1 << 20;

/// How long to wait before the caller looks whether the worker is alive: another process may hold the pipes open.
const SLICE: Duration = Duration::from_millis(50);

/// What of a message is still to be sent.
#[derive(Debug)]
pub(crate) struct Unsent<'a> {
    pub(crate) bytes: &'a [u8],
    /// Go with the first bytes, [`MOST_DESCRIPTORS`] with each.
    pub(crate) descriptors: &'a [BorrowedFd<'a>],
}

#[derive(Debug)]
pub(crate) struct Pipes {
    stdin: UnixStream,
    stdout: PipeReader,
    /// `None` once closed.
    stderr: Option<PipeReader>,
    decoder: Decoder,
    tail: VecDeque<u8>,
    /// Bytes of standard error since a request began.
    written: usize,
}

impl Pipes {
    /// New ones, with what becomes the worker's standard input, output and error.
    pub(crate) fn new() -> io::Result<(Self, [OwnedFd; 3])> {
        let (stdin, input) = UnixStream::pair()?;
        // Whatever the worker sends here is refused instead of piling up.
        stdin.shutdown(Shutdown::Read)?;
        let (stdout, output) = io::pipe()?;
        let (stderr, errors) = io::pipe()?;
        for end in [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()] {
            rustix::io::ioctl_fionbio(end, true)?;
        }
        let pipes = Self {
            stdin,
            stdout,
            stderr: Some(stderr),
            decoder: Decoder::default(),
            tail: VecDeque::new(),
            written: 0,
        };
        Ok((pipes, [input.into(), output.into(), errors.into()]))
    }

    /// Waits until something moves, `deadline` or a moment has passed, then sends and receives what it can. `false` if
    /// the worker has closed its output.
    pub(crate) fn exchange(&mut self, unsent: &mut Unsent<'_>, deadline: Instant) -> io::Result<bool> {
        self.wait(
            !unsent.bytes.is_empty(),
            deadline.saturating_duration_since(Instant::now()),
        )?;
        while !unsent.bytes.is_empty() {
            match self.send(unsent) {
                Ok((bytes, descriptors)) => {
                    unsent.bytes = unsent.bytes.get(bytes..).unwrap_or_default();
                    unsent.descriptors = unsent.descriptors.get(descriptors..).unwrap_or_default();
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                // It reads no more; what it still says tells why.
                Err(Errno::PIPE | Errno::CONNRESET) => unsent.bytes = &[],
                Err(e) => return Err(e.into()),
            }
        }
        self.receive()
    }

    /// Counts the worker's output from here on.
    pub(crate) fn begin_request(&mut self) {
        self.written = 0;
    }

    /// # Errors
    /// If the worker has written more than it may during one request.
    pub(crate) fn check_output(&self) -> Result<()> {
        if self.written <= MAX_OUTPUT {
            return Ok(());
        }
        let message = format!("it wrote more than {MAX_OUTPUT} bytes to its standard output or error");
        Err(Error::new(ErrorKind::OutOfResources, message))
    }

    /// Takes what has arrived without waiting.
    pub(crate) fn drain(&mut self) {
        // Only used when the worker has ended: what cannot be read is lost with it.
        let _ = self.receive();
    }

    /// Whether something has arrived that is not read yet.
    pub(crate) fn has_heard(&mut self) -> io::Result<bool> {
        self.receive()?;
        Ok(!self.decoder.is_empty())
    }

    /// The next message that has arrived completely.
    pub(crate) fn next_message<T: DeserializeOwned>(&mut self) -> Result<Option<T>> {
        self.decoder.next()
    }

    /// The end of what the worker wrote to its standard error.
    pub(crate) fn stderr(&self) -> String {
        let (a, b) = self.tail.as_slices();
        String::from_utf8_lossy(&[a, b].concat()).into_owned()
    }

    /// Sends some bytes and descriptors; how many.
    fn send(&self, unsent: &Unsent<'_>) -> Result<(usize, usize), Errno> {
        let count = unsent.descriptors.len().min(MOST_DESCRIPTORS);
        let (now, later) = unsent.descriptors.split_at(count);
        let length = if later.is_empty() { unsent.bytes.len() } else { 1 };
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !now.is_empty() && !control.push(SendAncillaryMessage::ScmRights(now)) {
            return Err(Errno::INVAL);
        }
        let bytes = unsent.bytes.get(..length).unwrap_or_default();
        let sent = sendmsg(
            &self.stdin,
            &[IoSlice::new(bytes)],
            &mut control,
            SendFlags::NOSIGNAL,
        )?;
        Ok((sent, count))
    }

    fn wait(&self, sending: bool, limit: Duration) -> io::Result<()> {
        let mut fds = vec![PollFd::new(&self.stdout, PollFlags::IN)];
        fds.extend(self.stderr.as_ref().map(|e| PollFd::new(e, PollFlags::IN)));
        if sending {
            fds.push(PollFd::new(&self.stdin, PollFlags::OUT));
        }
        let timeout = Timespec::try_from(limit.min(SLICE)).ok();
        match rustix::event::poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    fn receive(&mut self) -> io::Result<bool> {
        let decoder = &mut self.decoder;
        let open = read_burst(&mut self.stdout, |bytes| decoder.push(bytes))?;
        if let Some(stderr) = &mut self.stderr {
            let (tail, written) = (&mut self.tail, &mut self.written);
            let open = read_burst(stderr, |bytes| {
                *written = written.saturating_add(bytes.len());
                tail.extend(bytes);
                tail.drain(..tail.len().saturating_sub(KEPT));
            })?;
            if !open {
                self.stderr = None;
            }
        }
        Ok(open)
    }
}

/// Reads what is there, within reason; `false` at the end of the pipe.
fn read_burst(from: &mut impl Read, mut sink: impl FnMut(&[u8])) -> io::Result<bool> {
    let mut chunk = [0; 16 << 10];
    let mut total = 0;
    while total < BURST {
        match from.read(&mut chunk) {
            Ok(0) => return Ok(false),
            Ok(n) => {
                sink(chunk.get(..n).unwrap_or_default());
                total += n;
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
            Err(e) => return Err(e),
        }
    }
    Ok(true)
}
