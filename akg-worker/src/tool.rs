//! Programs that run to their end, such as compilers.

use std::io::{self, PipeReader, Read as _};
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use akg_core::error::{Error, ErrorKind, Result};
use akg_core::isolation::Isolation;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

use crate::confined::Confined;
use crate::process::Program;
use crate::{crash, sandbox};

/// How a program ended that ran to its end. Keeps its private directory until it is dropped.
#[derive(Debug)]
pub struct Finished {
    confined: Confined,
    status: ExitStatus,
    output: Vec<u8>,
}

impl Finished {
    /// Its exit status.
    pub fn status(&self) -> ExitStatus {
        self.status
    }

    /// Whether it was ended because its processes together used more than its limits; its output says what.
    pub fn exceeded_limits(&self) -> bool {
        matches!(
            self.status.code(),
            Some(crash::OUT_OF_MEMORY | sandbox::OVER_LIMIT)
        )
    }

    /// The beginning of what it wrote to its standard output and standard error.
    pub fn output(&self) -> String {
        String::from_utf8_lossy(&self.output).into_owned()
    }

    /// The isolation that it ran in.
    pub fn isolation(&self) -> &Isolation {
        self.confined.isolation()
    }

    /// A file of at most `limit` bytes that it left in its private directory.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], [`ErrorKind::Protocol`] if it is something else than a file, or larger.
    pub fn file(&self, name: &str, limit: u64) -> Result<Vec<u8>> {
        self.confined.scratch().read(name, limit)
    }
}

impl Program {
    /// Runs the program to its end, without input, and keeps the first `kept` bytes of its output.
    ///
    /// # Errors
    /// [`ErrorKind::ToolMissing`] if there is no such program, [`ErrorKind::Timeout`] if it takes longer than `limit`,
    /// after which it and all that it started have ended, [`ErrorKind::Unsupported`] if it needs more isolation than
    /// the system offers.
    pub fn run(&self, limit: Duration, kept: usize) -> Result<Finished> {
        let deadline = Instant::now() + limit;
        let cannot = |e| Error::io(format!("cannot run {}", self.path().display()), e);
        let (mut reader, writer) = io::pipe().map_err(cannot)?;
        let errors = writer.try_clone().map_err(cannot)?;
        let mut confined = self.start([Stdio::null(), writer.into(), errors.into()])?;
        let mut output = Vec::new();
        let ended = collect(&mut reader, &mut output, kept, deadline).map_err(cannot)?
            && confined.wait(deadline.saturating_duration_since(Instant::now()));
        let status = confined.end();
        match status.filter(|_| ended) {
            Some(status) => Ok(Finished {
                confined,
                status,
                output,
            }),
            None => Err(Error::new(
                ErrorKind::Timeout,
                format!(
                    "{} took longer than {:.0} s and was stopped",
                    self.path().display(),
                    limit.as_secs_f64()
                ),
            )),
        }
    }
}

/// Reads to the end of the pipe and keeps the first bytes; `false` at the deadline.
fn collect(from: &mut PipeReader, into: &mut Vec<u8>, kept: usize, deadline: Instant) -> io::Result<bool> {
    let mut chunk = [0; 16 << 10];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).ok();
        match rustix::event::poll(&mut [PollFd::new(&*from, PollFlags::IN)], timeout.as_ref()) {
            Ok(0) => return Ok(false),
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(e) => return Err(e.into()),
        }
        let read = from.read(&mut chunk)?;
        if read == 0 {
            return Ok(true);
        }
        let wanted = kept.saturating_sub(into.len()).min(read);
        into.extend(chunk.iter().take(wanted));
    }
}
