//! The control state of arithmetic in the threads of another process, read while that stands still.

use std::collections::BTreeMap;
use std::io;
use std::ptr;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Pid;

use super::arch;

/// The set of registers of floating-point arithmetic.
const NT_PRFPREG: usize = 2;

/// How long a thread that stands still may take to show its registers, and how long to wait before looking again.
const PATIENCE: Duration = Duration::from_secs(1);
const SLICE: Duration = Duration::from_micros(20);

/// The states of threads that are not as the platform's ABI promises.
pub(crate) fn deviations(threads: impl Iterator<Item = Pid>) -> io::Result<BTreeMap<u32, u64>> {
    let mut found = BTreeMap::new();
    for thread in threads {
        let state = state_of(thread)?;
        if state != arch::DEFAULT {
            found.insert(thread.as_raw_nonzero().get().unsigned_abs(), state);
        }
    }
    Ok(found)
}

/// The state of a thread that is stopped, and stays so.
fn state_of(thread: Pid) -> io::Result<u64> {
    let traced = Traced::new(thread)?;
    let mut registers = [0u8; arch::FLOATING_REGISTERS];
    let mut into = libc::iovec {
        iov_base: registers.as_mut_ptr().cast(),
        iov_len: registers.len(),
    };
    // SAFETY: the system writes no more than the bytes of `registers`.
    check(unsafe { libc::ptrace(libc::PTRACE_GETREGSET, traced.0, NT_PRFPREG, &raw mut into) })?;
    arch::state_in(&registers).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// A thread whose registers this thread may read.
struct Traced(libc::pid_t);

impl Traced {
    fn new(thread: Pid) -> io::Result<Self> {
        let id = thread.as_raw_nonzero().get();
        let none = ptr::null_mut::<libc::c_void>();
        // SAFETY: it changes nothing in this process.
        check(unsafe { libc::ptrace(libc::PTRACE_SEIZE, id, none, none) })?;
        let traced = Self(id);
        let until = Instant::now() + PATIENCE;
        loop {
            let mut status = 0;
            // SAFETY: the status is written to where the reference points.
            let waited = unsafe { libc::waitpid(id, &raw mut status, libc::__WALL | libc::WNOHANG) };
            if waited == id && libc::WIFSTOPPED(status) {
                return Ok(traced);
            }
            if waited < 0 {
                return Err(io::Error::last_os_error());
            }
            if waited == id || Instant::now() > until {
                return Err(io::ErrorKind::TimedOut.into());
            }
            thread::sleep(SLICE);
        }
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        let none = ptr::null_mut::<libc::c_void>();
        // It fails only if the thread is gone. One that was stopped is stopped again.
        // SAFETY: it changes nothing in this process.
        let _ = unsafe { libc::ptrace(libc::PTRACE_DETACH, self.0, none, none) };
    }
}

fn check(result: libc::c_long) -> io::Result<()> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
