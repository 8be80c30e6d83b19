//! The threads that execute kernels.

use std::cell::Cell;
use std::ffi::c_void;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::thread;

use akg_core::error::{Error, ErrorKind, Result};
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::registers::{self, Deviation};

/// Stack of each thread in bytes: what a main thread has, so that kernels may keep tiles there.
pub(crate) const STACK: usize = 8 << 20;

/// Threads at most of a cooperative launch.
pub const MOST_THREADS: u64 = 1 << 12;

/// A thread takes its part of what is left divided by this: more balance better, fewer cost less.
const RANGES_PER_THREAD: i64 = 4;

/// Turns at a barrier before a thread lets others run.
const SPINS: u32 = 1 << 10;

/// Added to the number of a thread for cooperative launches, which are counted by themselves.
const COOPERATIVE: usize = 1 << 16;

thread_local! {
    /// The number of a team's thread.
    static THREAD: Cell<Option<usize>> = const { Cell::new(None) };
}

/// The calling thread, for people.
pub(crate) fn current() -> ThreadName {
    ThreadName(THREAD.get())
}

/// Names a thread of the worker.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ThreadName(Option<usize>);

impl std::fmt::Display for ThreadName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            None => f.write_str("the main thread"),
            Some(n) if n >= COOPERATIVE => write!(f, "cooperative thread {}", n - COOPERATIVE),
            Some(n) => write!(f, "kernel thread {n}"),
        }
    }
}

/// An ordinary kernel: executes programs `first..last`.
pub type Kernel = unsafe extern "C" fn(tensors: *const *mut c_void, dims: *const i64, first: i64, last: i64);

/// A cooperative kernel: executes one program, whose threads meet at the barrier.
pub type CooperativeKernel =
    unsafe extern "C" fn(tensors: *const *mut c_void, dims: *const i64, program: i64, team: *const CTeam);

/// `struct akg_team` of the calling convention.
#[repr(C)]
#[derive(Debug)]
pub struct CTeam {
    barrier: extern "C" fn(context: *mut c_void),
    context: *mut c_void,
}

/// The arguments that all programs of a launch share.
#[derive(Debug)]
pub struct Arguments {
    /// The kernel's tensors.
    pub tensors: Vec<*mut c_void>,
    /// The plan's dims.
    pub dims: Vec<i64>,
}

// SAFETY: the pointers are only handed on to kernels, which are written to run on several threads.
unsafe impl Send for Arguments {}
// SAFETY: as above.
unsafe impl Sync for Arguments {}

/// Threads that live as long as the team.
#[derive(Debug)]
pub struct Team {
    ordinary: ThreadPool,
    /// One thread for each program of the largest cooperative launch.
    cooperative: Option<ThreadPool>,
    /// The state of arithmetic that a kernel did not restore.
    deviation: Deviation,
}

impl Team {
    /// Starts all threads: one for each processor, and `cooperative` ones for cooperative launches.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfResources`] if there cannot be that many.
    pub fn new(cooperative: usize) -> Result<Self> {
        Self::with_threads(
            thread::available_parallelism().map_or(1, usize::from),
            cooperative,
        )
    }

    /// Starts so many threads for ordinary launches, and `cooperative` ones for cooperative launches.
    ///
    /// # Errors
    /// As for [`new`](Self::new).
    pub fn with_threads(threads: usize, cooperative: usize) -> Result<Self> {
        Ok(Self {
            ordinary: pool(threads, 0)?,
            cooperative: (cooperative > 0)
                .then(|| pool(cooperative, COOPERATIVE))
                .transpose()?,
            deviation: Deviation::default(),
        })
    }

    /// The number of threads for ordinary launches.
    pub fn threads(&self) -> usize {
        self.ordinary.current_num_threads()
    }

    /// The number of threads for cooperative launches.
    pub fn cooperative_threads(&self) -> usize {
        self.cooperative
            .as_ref()
            .map_or(0, ThreadPool::current_num_threads)
    }

    /// Runs `work` once on each thread, with the thread's number.
    pub(crate) fn everywhere<T: Send>(&self, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
        self.ordinary.broadcast(|thread| work(thread.index()))
    }

    /// An address on each thread's stack, and that of the stack on which it would handle a signal.
    pub(crate) fn stacks(&self) -> Vec<usize> {
        let pools = std::iter::once(&self.ordinary).chain(&self.cooperative);
        pools
            .flat_map(|pool| pool.broadcast(|_| own_stacks()))
            .flatten()
            .collect()
    }

    /// Describes the state of arithmetic that kernels left since the last call, and the thread; the state itself has been
    /// set back.
    pub(crate) fn left_behind(&self) -> Option<String> {
        let (state, thread) = self.deviation.take()?;
        Some(format!("{state} in {}", ThreadName(Some(thread))))
    }

    /// Executes programs `0..programs` of a kernel, ranges of at least so many of them at a time if there are as many left.
    ///
    /// # Safety
    /// The kernel must be what the artifact's plan says, and the arguments what it takes.
    pub unsafe fn launch(&self, kernel: Kernel, arguments: &Arguments, programs: i64, least: i64) {
        let threads = self.threads() as i64;
        let end = |first: i64| {
            let part = (programs - first) / (threads * RANGES_PER_THREAD);
            first + part.max(least).min(programs - first)
        };
        let next = AtomicI64::new(0);
        let take = || {
            next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |first| {
                (first < programs).then(|| end(first))
            })
        };
        let work = || {
            while let Ok(first) = take() {
                let last = end(first);
                // SAFETY: by this function's contract.
                unsafe { kernel(arguments.tensors.as_ptr(), arguments.dims.as_ptr(), first, last) };
                self.check_registers();
            }
        };
        self.ordinary.scope(|scope| {
            for _ in 1..programs.min(self.threads() as i64) {
                scope.spawn(|_| work());
            }
            work();
        });
    }

    /// Executes programs `0..programs` of a kernel at the same time. Two such launches of one team must not overlap.
    ///
    /// # Errors
    /// [`ErrorKind::Protocol`] if there are fewer [threads](Self::cooperative_threads) for it.
    ///
    /// # Safety
    /// As for [`Team::launch`].
    pub unsafe fn launch_cooperative(
        &self,
        kernel: CooperativeKernel,
        arguments: &Arguments,
        programs: i64,
    ) -> Result<()> {
        let count = usize::try_from(programs).unwrap_or(usize::MAX);
        let pool = self.cooperative.as_ref();
        let Some(pool) = pool.filter(|pool| pool.current_num_threads() >= count) else {
            let message = format!("{programs} cooperative programs have too few threads");
            return Err(Error::new(ErrorKind::Protocol, message));
        };
        let barrier = Barrier::new(count);
        pool.broadcast(|thread| {
            if thread.index() >= count {
                return;
            }
            let team = CTeam {
                barrier: Barrier::enter,
                context: (&raw const barrier).cast_mut().cast(),
            };
            let program = thread.index() as i64;
            // SAFETY: by this function's contract; the barrier outlives the broadcast.
            unsafe {
                kernel(
                    arguments.tensors.as_ptr(),
                    arguments.dims.as_ptr(),
                    program,
                    &raw const team,
                )
            };
            self.check_registers();
        });
        Ok(())
    }

    /// Compares the calling thread's state of arithmetic after a kernel.
    #[inline]
    fn check_registers(&self) {
        self.deviation.check(THREAD.get().unwrap_or_default());
    }
}

/// See [`Team::stacks`].
pub(crate) fn own_stacks() -> Vec<usize> {
    let local = 0u8;
    let mut stacks = vec![&raw const local as usize];
    // SAFETY: asks only; the structure is plain data.
    let handler = unsafe {
        let mut stack: libc::stack_t = std::mem::zeroed();
        libc::sigaltstack(std::ptr::null(), &raw mut stack);
        stack.ss_sp as usize
    };
    stacks.extend((handler != 0).then_some(handler));
    stacks
}

fn pool(threads: usize, first: usize) -> Result<ThreadPool> {
    let pool = ThreadPoolBuilder::new()
        .num_threads(threads)
        .stack_size(STACK)
        .thread_name(move |n| match first {
            0 => format!("akg-kernel-{n}"),
            _ => format!("akg-coop-{n}"),
        })
        .start_handler(move |n| {
            THREAD.set(Some(first + n));
            registers::reset();
        })
        .build()
        .map_err(|e| {
            Error::new(
                ErrorKind::OutOfResources,
                format!("cannot start {threads} threads"),
            )
            .caused_by(e)
        })?;
    // What a thread sets up for itself is done when it has worked.
    pool.broadcast(|_| ());
    Ok(pool)
}

/// A barrier that `count` threads pass together, again and again.
struct Barrier {
    count: usize,
    waiting: AtomicUsize,
    passed: AtomicUsize,
}

impl Barrier {
    fn new(count: usize) -> Self {
        Self {
            count,
            waiting: AtomicUsize::new(0),
            passed: AtomicUsize::new(0),
        }
    }

    fn wait(&self) {
        let turn = self.passed.load(Ordering::Acquire);
        if self.waiting.fetch_add(1, Ordering::AcqRel) + 1 == self.count {
            self.waiting.store(0, Ordering::Relaxed);
            self.passed.fetch_add(1, Ordering::Release);
            return;
        }
        let mut spins = 0;
        while self.passed.load(Ordering::Acquire) == turn {
            if spins < SPINS {
                spins += 1;
                std::hint::spin_loop();
            } else {
                thread::yield_now();
            }
        }
    }

    extern "C" fn enter(context: *mut c_void) {
        // SAFETY: kernels pass on the context of their team, which is a barrier.
        unsafe { &*context.cast::<Barrier>() }.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_passes_a_barrier_early() {
        let (threads, rounds) = (5, 200);
        let (barrier, arrived) = (Barrier::new(threads), AtomicUsize::new(0));
        thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    for round in 1..=rounds {
                        arrived.fetch_add(1, Ordering::Relaxed);
                        barrier.wait();
                        assert_eq!(arrived.load(Ordering::Relaxed), threads * round);
                        barrier.wait();
                    }
                });
            }
        });
    }
}
