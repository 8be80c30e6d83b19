//! Reading the memory of a candidate's process while it stands still.

use std::fs;
use std::io;

use crate::halt::Halt;

impl Halt {
    /// Copies memory of the process that loads the candidate from `address` on. Only for a process that is stopped: nothing
    /// changes what is read. The address may be any number, as it comes from the process itself.
    ///
    /// # Errors
    /// If a byte of it is not mapped, cannot be read, or if the process is gone or out of reach.
    pub fn read(&self, address: u64, into: &mut [u8]) -> io::Result<()> {
        let invalid = || io::Error::from(io::ErrorKind::InvalidInput);
        let mut done = 0;
        while let Some(rest) = into.get_mut(done..).filter(|rest| !rest.is_empty()) {
            let from = address.checked_add(done as u64).ok_or_else(invalid)?;
            let remote = libc::iovec {
                iov_base: usize::try_from(from).map_err(|_| invalid())? as *mut libc::c_void,
                iov_len: rest.len(),
            };
            let local = libc::iovec {
                iov_base: rest.as_mut_ptr().cast(),
                iov_len: rest.len(),
            };
            let pid = self.executor().as_raw_nonzero().get();
            // SAFETY: `local` is exactly `rest`, which is borrowed for writing; the system checks the remote addresses, which
            // are of another process.
            let read = unsafe { libc::process_vm_readv(pid, &raw const local, 1, &raw const remote, 1, 0) };
            match usize::try_from(read) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => done += read,
                Err(_) => {
                    let error = io::Error::last_os_error();
                    if error.kind() != io::ErrorKind::Interrupted {
                        return Err(error);
                    }
                }
            }
        }
        Ok(())
    }

    /// Whether the system lets the caller read the memory of the process, by reading a byte of its program.
    ///
    /// # Errors
    /// If it does not.
    pub fn check_reading(&self) -> io::Result<()> {
        let maps = fs::read_to_string(format!("/proc/{}/maps", self.executor().as_raw_nonzero()))?;
        let readable = maps.lines().find_map(|line| {
            let (range, rest) = line.split_once(' ')?;
            let start = range.split('-').next()?;
            rest.starts_with('r')
                .then(|| u64::from_str_radix(start, 16).ok())
                .flatten()
        });
        let address = readable.ok_or(io::ErrorKind::UnexpectedEof)?;
        self.read(address, &mut [0])
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use rustix::process::Pid;

    use super::*;

    #[test]
    fn only_mapped_memory_is_read() {
        let mut child = Command::new("sleep")
            .arg("100")
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let halt = Halt::new(Pid::from_child(&child));
        let path = format!("/proc/{}/maps", child.id());
        // The name on the stack comes with `exec`, which has happened when `spawn` returns.
        let stack = fs::read_to_string(&path).unwrap();
        let stack = stack.lines().find(|line| line.ends_with("[stack]")).unwrap();
        let (start, end) = stack.split_once(' ').unwrap().0.split_once('-').unwrap();
        let [start, end] = [start, end].map(|n| u64::from_str_radix(n, 16).unwrap());
        halt.stop().unwrap();
        halt.check_reading().unwrap();
        let mut bytes = vec![0; (end - start) as usize];
        halt.read(start, &mut bytes).unwrap();
        assert!(bytes.windows(4).any(|b| b == b"100\0"));
        for (address, length) in [
            (0, 1),
            (start, bytes.len() + 1),
            (u64::MAX, 1),
            (u64::MAX - 4, 64),
            (1 << 62, 8),
        ] {
            assert!(halt.read(address, &mut vec![0; length]).is_err(), "{address:x}");
        }
        halt.read(0, &mut []).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(halt.read(start, &mut [0]).is_err());
    }
}
