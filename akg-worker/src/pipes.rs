//! The caller's ends of a worker's three pipes, none of which ever blocks the caller.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout};
use std::time::{Duration, Instant};

use akg_core::error::Result;
use rustix::event::{PollFd, PollFlags, Timespec};
use serde::de::DeserializeOwned;

use crate::frame::Decoder;

/// Bytes of standard error that are kept.
const KEPT: usize = 64 << 10;

/// Bytes read from one pipe before the caller looks at the clock again.
const BURST: usize = 1 << 20;

/// How long to wait before the caller looks whether the worker is alive: another process may hold the pipes open.
const SLICE: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(crate) struct Pipes {
    stdin: ChildStdin,
    stdout: ChildStdout,
    /// `None` once closed.
    stderr: Option<ChildStderr>,
    decoder: Decoder,
    tail: VecDeque<u8>,
}

impl Pipes {
    pub(crate) fn new(child: &mut Child) -> io::Result<Self> {
        let missing = || io::Error::other("a pipe is missing");
        let pipes = Self {
            stdin: child.stdin.take().ok_or_else(missing)?,
            stdout: child.stdout.take().ok_or_else(missing)?,
            stderr: Some(child.stderr.take().ok_or_else(missing)?),
            decoder: Decoder::default(),
            tail: VecDeque::new(),
        };
        let stderr = pipes.stderr.iter().map(AsFd::as_fd);
        for pipe in [pipes.stdin.as_fd(), pipes.stdout.as_fd()]
            .into_iter()
            .chain(stderr)
        {
            rustix::io::ioctl_fionbio(pipe, true)?;
        }
        Ok(pipes)
    }

    /// Waits until something moves, `deadline` or a moment has passed, then sends and receives what it can. `false` if
    /// the worker has closed its output.
    pub(crate) fn exchange(&mut self, unsent: &mut &[u8], deadline: Instant) -> io::Result<bool> {
        self.wait(
            !unsent.is_empty(),
            deadline.saturating_duration_since(Instant::now()),
        )?;
        while !unsent.is_empty() {
            match self.stdin.write(unsent) {
                Ok(n) => *unsent = unsent.get(n..).unwrap_or_default(),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                // It reads no more; what it still says tells why.
                Err(e) if e.kind() == io::ErrorKind::BrokenPipe => *unsent = &[],
                Err(e) => return Err(e),
            }
        }
        self.receive()
    }

    /// Takes what has arrived without waiting.
    pub(crate) fn drain(&mut self) {
        // Only used when the worker has ended: what cannot be read is lost with it.
        let _ = self.receive();
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
            let tail = &mut self.tail;
            let open = read_burst(stderr, |bytes| {
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
