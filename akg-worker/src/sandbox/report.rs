//! What a supervisor tells its caller about the program, on a socket that closes when the program starts.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::time::Instant;

use akg_core::error::ErrorKind;
use akg_core::isolation::Isolation;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use serde::{Deserialize, Serialize};

/// Bytes of a message at most.
const LONGEST: usize = 8 << 10;

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Report {
    /// Everything is arranged, the program is about to start; with a handle on the scratch directory if only that leads
    /// to it.
    Ready(Isolation),
    /// The program does not start.
    Failed { kind: ErrorKind, message: String },
}

/// The two ends: the caller's and the supervisor's.
pub(crate) fn channel() -> io::Result<(OwnedFd, OwnedFd)> {
    let kind = SocketType::SEQPACKET;
    let flags = SocketFlags::CLOEXEC;
    Ok(rustix::net::socketpair(AddressFamily::UNIX, kind, flags, None)?)
}

pub(super) fn send(to: BorrowedFd<'_>, report: &Report, handle: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let text = serde_json::to_vec(report)?;
    let handles: Vec<_> = handle.into_iter().collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !handles.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(&handles));
    }
    rustix::net::sendmsg(to, &[IoSlice::new(&text)], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// The next report and what came with it; `None` when there will be no more.
///
/// # Errors
/// [`io::ErrorKind::TimedOut`] after `deadline`.
pub(crate) fn receive(from: &OwnedFd, deadline: Instant) -> io::Result<Option<(Report, Option<OwnedFd>)>> {
    let left = deadline.saturating_duration_since(Instant::now());
    let timeout = Timespec::try_from(left).ok();
    match rustix::event::poll(&mut [PollFd::new(from, PollFlags::IN)], timeout.as_ref()) {
        Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
        Ok(_) => {}
        Err(Errno::INTR) => return receive(from, deadline),
        Err(e) => return Err(e.into()),
    }
    let mut text = vec![0; LONGEST];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let buffers = &mut [IoSliceMut::new(&mut text)];
    let received = rustix::net::recvmsg(from.as_fd(), buffers, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    let handle = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut handles) => handles.next(),
        _ => None,
    });
    if received.bytes == 0 {
        return Ok(None);
    }
    let report = serde_json::from_slice(text.get(..received.bytes).unwrap_or_default())?;
    Ok(Some((report, handle)))
}
