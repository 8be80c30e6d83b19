//! Telling a candidate that ran out of memory from one that crashed.
//!
//! A candidate that ignores a failed allocation dies of the null pointer; one that does not, of an uncaught exception.
//! Both look like crashes. So C++'s `new` gets a handler that ends the process with [`OUT_OF_MEMORY`], and a fatal
//! signal does the same if the process is close to its memory limits at that moment. Accesses near tensors are
//! [told](crate::fault) first of all.

use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::{AtomicU64, Ordering};

use libloading::Library;
use rustix::process::{Resource, getrlimit};

use crate::{fault, space};

/// The exit status of a worker whose candidate ran out of memory.
pub(crate) const OUT_OF_MEMORY: i32 = 117;

/// The exit status of a worker whose candidate made a system call that ends it.
pub(crate) const REFUSED_CALL: i32 = 119;

/// The default action of a signal as the system takes it: no handler, no flags, no restorer, no signals. The one action
/// that a signal can be given when a candidate is loaded.
static DEFAULT_ACTION: [u64; 4] = [0; 4];

/// Where the one action lies that a signal can be given when a candidate is loaded.
pub(crate) fn default_action() -> usize {
    (&raw const DEFAULT_ACTION).addr()
}

const FATAL: [c_int; 5] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGABRT,
    libc::SIGILL,
    libc::SIGFPE,
];

/// Pages of address space and of private memory above which a crash is blamed on the limits.
static CRITICAL_TOTAL: AtomicU64 = AtomicU64::new(u64::MAX);
static CRITICAL_DATA: AtomicU64 = AtomicU64::new(u64::MAX);

/// Watches for fatal signals.
pub(crate) fn install() {
    let page = rustix::param::page_size() as u64;
    // What is reserved for tensors is no candidate's.
    let watched = [
        (Resource::As, &CRITICAL_TOTAL, space::RESERVED),
        (Resource::Data, &CRITICAL_DATA, 0),
    ];
    for (resource, critical, reserved) in watched {
        if let Some(limit) = getrlimit(resource).current {
            critical.store(
                (limit - limit.saturating_sub(reserved) / 8) / page,
                Ordering::Relaxed,
            );
        }
    }
    // SAFETY: as below.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction =
            on_refused_call as extern "C" fn(c_int, *const libc::siginfo_t, *const c_void) as usize;
        action.sa_flags = libc::SA_ONSTACK | libc::SA_SIGINFO;
        libc::sigaction(libc::SIGSYS, &raw const action, std::ptr::null_mut());
    }
    for signal in FATAL {
        // SAFETY: the structure is plain data, and the handler only makes calls that are safe in signal handlers. It stays
        // installed while it runs: several threads run out of memory at the same moment, and the default action for the
        // second would hide what the first is about to tell.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction =
                on_fatal_signal as extern "C" fn(c_int, *const libc::siginfo_t, *const c_void) as usize;
            action.sa_flags = libc::SA_ONSTACK | libc::SA_NODEFER | libc::SA_SIGINFO;
            libc::sigaction(signal, &raw const action, std::ptr::null_mut());
        }
    }
}

/// Watches for failures of C++'s `new` in a library that was just loaded.
pub(crate) fn watch_new(library: &Library) {
    type NewHandler = extern "C" fn();
    // SAFETY: this is the mangled name of `std::set_new_handler(void (*)())`.
    unsafe {
        if let Ok(set) =
            library.get::<extern "C" fn(NewHandler) -> *mut c_void>(c"_ZSt15set_new_handlerPFvvE")
        {
            set(give_up);
        }
    }
}

extern "C" fn give_up() {
    // SAFETY: always safe to call.
    unsafe { libc::_exit(OUT_OF_MEMORY) }
}

extern "C" fn on_fatal_signal(signal: c_int, info: *const libc::siginfo_t, context: *const c_void) {
    if signal == libc::SIGSEGV {
        // SAFETY: the system gives handlers of this kind the details of the signal.
        fault::report(unsafe { (*info).si_addr() } as usize, context);
    }
    if is_near_limit() {
        give_up();
    }
    // SAFETY: always safe to call. A faulting instruction would raise the signal again by itself, a sent signal not.
    unsafe {
        libc::syscall(
            libc::SYS_rt_sigaction,
            signal,
            &raw const DEFAULT_ACTION,
            std::ptr::null_mut::<c_void>(),
            size_of::<u64>(),
        );
        libc::raise(signal);
    }
}

/// The details of a `SIGSYS`.
#[repr(C)]
struct RefusedCall {
    signal: c_int,
    error: c_int,
    code: c_int,
    instruction: *const c_void,
    call: c_int,
}

extern "C" fn on_refused_call(_: c_int, info: *const libc::siginfo_t, _: *const c_void) {
    // SAFETY: the system gives handlers of this kind the details of the signal.
    let info = unsafe { &*info.cast::<RefusedCall>() };
    fault::report_call(info.call.into());
    // SAFETY: always safe to call.
    unsafe { libc::_exit(REFUSED_CALL) }
}

/// Reads the first and sixth field of `/proc/self/statm`: pages in all, and pages of data and stack. Makes system calls
/// only.
fn is_near_limit() -> bool {
    let mut text = [0u8; 128];
    // SAFETY: the path ends with a zero byte and the buffer has the given size.
    let length = unsafe {
        let file = libc::open(c"/proc/self/statm".as_ptr().cast::<c_char>(), libc::O_RDONLY);
        let length = libc::read(file, text.as_mut_ptr().cast(), text.len());
        libc::close(file);
        length
    };
    let text = text
        .get(..usize::try_from(length).unwrap_or(0))
        .unwrap_or_default();
    let mut fields = text.split(|b| *b == b' ').map(|digits| {
        digits.iter().fold(0u64, |n, b| {
            n.wrapping_mul(10).wrapping_add(u64::from(b.wrapping_sub(b'0')))
        })
    });
    fields.next() >= Some(CRITICAL_TOTAL.load(Ordering::Relaxed))
        || fields.nth(4) >= Some(CRITICAL_DATA.load(Ordering::Relaxed))
}
