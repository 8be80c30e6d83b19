//! Inputs that stay on the device, so that binding them again copies nothing from the host.

use std::fs::File;

use akg_core::error::{Error, ErrorKind, Result};
use akg_worker::shm;
use memmap2::MmapOptions;

use crate::driver::{Memory, Stream};
use crate::helpers::Helpers;
use crate::lanes::Lanes;

/// Copies of inputs, the oldest first.
#[derive(Debug)]
pub(crate) struct Kept {
    inputs: Vec<Input>,
    /// Bytes that they may take.
    room: u64,
}

/// A copy of an input, which candidates are not told of.
#[derive(Debug)]
struct Input {
    /// Open, so that no other file gets its number.
    _file: File,
    content: [u64; 3],
    memory: Memory,
    digest: Vec<u64>,
}

impl Kept {
    /// Nothing so far, and no more than so many bytes ever.
    pub(crate) fn new(room: u64) -> Self {
        Self {
            inputs: Vec::new(),
            room,
        }
    }

    /// Puts the content of a tensor's file at an address of the device.
    pub(crate) fn place(
        &mut self,
        to: u64,
        file: &File,
        bytes: u64,
        stream: Stream,
        helpers: &Helpers,
        lanes: &mut Lanes,
    ) -> Result<()> {
        check_length(file, bytes)?;
        if bytes == 0 {
            return Ok(());
        }
        let content = shm::content(file)?;
        let same = |input: &Input| input.content == content && input.memory.bytes() == bytes;
        if let Some(at) = self.inputs.iter().position(same) {
            let input = self.inputs.remove(at);
            let from = input.memory.address();
            // A kernel that writes where it must not can reach it.
            if helpers.digests(stream, &[(from, bytes)])? == input.digest {
                stream.copy(to, from, bytes)?;
                self.inputs.push(input);
                return Ok(());
            }
        }
        upload(to, file, bytes, lanes)?;
        self.keep(to, file, content, bytes, stream, helpers)
    }

    fn keep(
        &mut self,
        from: u64,
        file: &File,
        content: [u64; 3],
        bytes: u64,
        stream: Stream,
        helpers: &Helpers,
    ) -> Result<()> {
        if bytes > self.room {
            return Ok(());
        }
        let taken = |inputs: &[Input]| inputs.iter().map(|i| i.memory.bytes()).sum::<u64>();
        while taken(&self.inputs) + bytes > self.room {
            self.inputs.remove(0);
        }
        // Without room for it, it comes from the host again.
        let Ok(memory) = Memory::new(bytes) else {
            return Ok(());
        };
        stream.copy(memory.address(), from, bytes)?;
        let digest = helpers.digests(stream, &[(memory.address(), bytes)])?;
        self.inputs.push(Input {
            _file: file.try_clone().map_err(cannot_map)?,
            content,
            memory,
            digest,
        });
        Ok(())
    }
}

/// Puts the content of a tensor's file at an address of the device.
pub(crate) fn upload(to: u64, file: &File, bytes: u64, lanes: &mut Lanes) -> Result<()> {
    check_length(file, bytes)?;
    if bytes == 0 {
        return Ok(());
    }
    // SAFETY: the caller froze the file, which is long enough.
    let map = unsafe { MmapOptions::new().len(bytes as usize).map(file) }.map_err(cannot_map)?;
    Ok(lanes.upload(to, &map)?)
}

/// A file that is too short would kill this process when it is accessed.
pub(crate) fn check_length(file: &File, bytes: u64) -> Result<()> {
    let have = file.metadata().map_err(cannot_map)?.len();
    if have < bytes {
        let message = format!("shared memory has {have} bytes, not {bytes}");
        return Err(Error::new(ErrorKind::Protocol, message));
    }
    Ok(())
}

pub(crate) fn cannot_map(error: std::io::Error) -> Error {
    Error::io("cannot map shared memory", error)
}
