//! The worker's end of the socket on which calls arrive, some of them with descriptors.

use std::collections::VecDeque;
use std::io::{self, IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

/// Descriptors at most that the system sends together.
pub(crate) const MOST_DESCRIPTORS: usize = 253;

/// Reads calls and keeps the descriptors that came with them.
#[derive(Debug)]
pub(crate) struct Channel {
    socket: OwnedFd,
    descriptors: VecDeque<OwnedFd>,
}

impl Channel {
    pub(crate) fn new(socket: OwnedFd) -> Self {
        Self {
            socket,
            descriptors: VecDeque::new(),
        }
    }

    /// The descriptors that have arrived, oldest first.
    pub(crate) fn take_descriptors(&mut self) -> Vec<OwnedFd> {
        self.descriptors.drain(..).collect()
    }
}

impl Read for Channel {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut slices = [IoSliceMut::new(buffer)];
        let received = recvmsg(&self.socket, &mut slices, &mut control, RecvFlags::CMSG_CLOEXEC)?;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                self.descriptors.extend(descriptors);
            }
        }
        Ok(received.bytes)
    }
}
