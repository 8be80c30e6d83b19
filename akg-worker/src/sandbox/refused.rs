//! System calls that end a candidate, and what it would have left behind with them.
//!
//! A filter turns such a call into the signal `SIGSYS`, whose handler [names it](name). Other calls that kernels must not
//! make fail, so that libraries can do without them.

use std::ops::Range;

use akg_core::error::Result;
use akg_core::verdict::FailureKind;
use libc::c_long;
use seccompiler::SeccompCmpArgLen::{Dword, Qword};
use seccompiler::SeccompCmpOp::{self as Compare, Eq, Ge, Gt, Lt, MaskedEq, Ne};
use seccompiler::{SeccompCmpArgLen as Length, SeccompRule};

use super::calls::{Rules, condition, rule};

/// Calls that start something.
const STARTING: &[(c_long, &str)] = &[
    (libc::SYS_clone, "clone"),
    (libc::SYS_clone3, "clone3"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_fork, "fork"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_vfork, "vfork"),
    (libc::SYS_execve, "execve"),
    (libc::SYS_execveat, "execveat"),
];

/// Calls that change the process for what runs in it later, whatever their arguments.
const LASTING: &[(c_long, &str)] = &[
    (libc::SYS_chdir, "chdir"),
    (libc::SYS_fchdir, "fchdir"),
    (libc::SYS_umask, "umask"),
    (libc::SYS_setpriority, "setpriority"),
    (libc::SYS_ioprio_set, "ioprio_set"),
    (libc::SYS_sched_setaffinity, "sched_setaffinity"),
    (libc::SYS_sched_setattr, "sched_setattr"),
    (libc::SYS_sched_setparam, "sched_setparam"),
    (libc::SYS_sched_setscheduler, "sched_setscheduler"),
    (libc::SYS_setrlimit, "setrlimit"),
    (libc::SYS_setitimer, "setitimer"),
    (libc::SYS_timer_create, "timer_create"),
    (libc::SYS_timerfd_create, "timerfd_create"),
    (libc::SYS_setsid, "setsid"),
    (libc::SYS_setpgid, "setpgid"),
    (libc::SYS_dup, "dup"),
    (libc::SYS_dup3, "dup3"),
    (libc::SYS_pipe2, "pipe2"),
    (libc::SYS_eventfd2, "eventfd2"),
    (libc::SYS_epoll_create1, "epoll_create1"),
    (libc::SYS_signalfd4, "signalfd4"),
    (libc::SYS_inotify_init1, "inotify_init1"),
    (libc::SYS_socket, "socket"),
    (libc::SYS_socketpair, "socketpair"),
    (libc::SYS_memfd_create, "memfd_create"),
    (libc::SYS_close_range, "close_range"),
    (libc::SYS_shmat, "shmat"),
    (libc::SYS_remap_file_pages, "remap_file_pages"),
    (libc::SYS_pkey_alloc, "pkey_alloc"),
    (libc::SYS_pkey_mprotect, "pkey_mprotect"),
    (libc::SYS_mlock, "mlock"),
    (libc::SYS_mlock2, "mlock2"),
    (libc::SYS_mlockall, "mlockall"),
    (libc::SYS_set_tid_address, "set_tid_address"),
    (libc::SYS_rt_sigqueueinfo, "rt_sigqueueinfo"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_alarm, "alarm"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_dup2, "dup2"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_pipe, "pipe"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_eventfd, "eventfd"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_epoll_create, "epoll_create"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_signalfd, "signalfd"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_modify_ldt, "modify_ldt"),
];

/// Calls that are refused for some of their arguments.
const SOMETIMES: &[(c_long, &str)] = &[
    (libc::SYS_rt_sigaction, "rt_sigaction"),
    (libc::SYS_sigaltstack, "sigaltstack"),
    (libc::SYS_prctl, "prctl"),
    (libc::SYS_prlimit64, "prlimit64"),
    (libc::SYS_close, "close"),
    (libc::SYS_seccomp, "seccomp"),
    (libc::SYS_mmap, "mmap"),
    (libc::SYS_mremap, "mremap"),
    (libc::SYS_mprotect, "mprotect"),
    (libc::SYS_munmap, "munmap"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_arch_prctl, "arch_prctl"),
];

/// The name of a refused call, and the failure that it is.
pub(crate) fn name(call: c_long) -> (&'static str, FailureKind) {
    let find =
        |calls: &[(c_long, &'static str)]| calls.iter().find(|(n, _)| *n == call).map(|(_, name)| *name);
    if let Some(name) = find(STARTING) {
        return (name, FailureKind::Crashed);
    }
    let name = find(LASTING).or_else(|| find(SOMETIMES));
    (name.unwrap_or("a system call"), FailureKind::LeftBehind)
}

/// What a worker has that its candidate must leave alone.
#[derive(Debug, Clone)]
pub(crate) struct Protected {
    /// The number of descriptors that are the worker's, from 0 on.
    pub(crate) descriptors: u32,
    /// The address of the one action that a signal may be given: the default.
    pub(crate) default_action: usize,
    /// The addresses that are reserved for tensors.
    pub(crate) tensors: Range<usize>,
}

/// One condition: the number of an argument, its length, the comparison and the value.
type Condition = (u8, Length, Compare, u64);

fn rules_of(rules: &[&[Condition]]) -> Result<Vec<SeccompRule>> {
    let made = rules.iter().map(|conditions| {
        let conditions = conditions.iter().map(|(argument, length, compare, value)| {
            condition(*argument, length.clone(), compare.clone(), *value)
        });
        rule(conditions.collect::<Result<_>>()?)
    });
    made.collect()
}

/// What is refused from the moment on at which a candidate's first instruction runs.
pub(super) fn always(protected: &Protected) -> Result<Rules> {
    let calls = STARTING.iter().chain(LASTING);
    let mut rules: Rules = calls.map(|(call, _)| (*call, Vec::new())).collect();
    let action = protected.default_action as u64;
    rules.insert(
        libc::SYS_rt_sigaction,
        rules_of(&[&[(1, Qword, Ne, 0), (1, Qword, Ne, action)]])?,
    );
    rules.insert(libc::SYS_sigaltstack, rules_of(&[&[(0, Qword, Ne, 0)]])?);
    // A name for memory is no change, and C libraries give them.
    let naming = libc::PR_SET_VMA as u64;
    rules.insert(libc::SYS_prctl, rules_of(&[&[(0, Dword, Ne, naming)]])?);
    rules.insert(libc::SYS_prlimit64, rules_of(&[&[(2, Qword, Ne, 0)]])?);
    let own = u64::from(protected.descriptors);
    rules.insert(libc::SYS_close, rules_of(&[&[(0, Dword, Lt, own)]])?);
    #[cfg(target_arch = "x86_64")]
    {
        // The segments by which a thread finds its own memory.
        const SET_GS: u64 = 0x1001;
        const SET_FS: u64 = 0x1002;
        let setting: [&[Condition]; 2] = [&[(0, Dword, Eq, SET_GS)], &[(0, Dword, Eq, SET_FS)]];
        rules.insert(libc::SYS_arch_prctl, rules_of(&setting)?);
    }
    Ok(rules)
}

/// What is refused once the dynamic linker has done its work: memory for code or at given addresses, files in memory, and
/// changes of the memory of tensors. The worker itself maps tensors, without rights or from files.
pub(super) fn loaded(protected: &Protected) -> Result<Rules> {
    const SHARED: u64 = libc::MAP_SHARED as u64;
    const ANONYMOUS: u64 = libc::MAP_ANONYMOUS as u64;
    const FIXED: u64 = libc::MAP_FIXED as u64;
    const NOREPLACE: u64 = libc::MAP_FIXED_NOREPLACE as u64;
    const DOWN: u64 = libc::MAP_GROWSDOWN as u64;
    const EXEC: u64 = libc::PROT_EXEC as u64;
    const READ_AND_WRITE: u64 = (libc::PROT_READ | libc::PROT_WRITE) as u64;
    let (start, end) = (protected.tensors.start as u64, protected.tensors.end as u64);
    let flags = |mask, value| (3, Dword, MaskedEq(mask), value);
    let accessible = (2, Dword, Ne, 0);
    let code = (2, Dword, MaskedEq(EXEC), EXEC);
    let in_tensors = [(0, Qword, Ge, start), (0, Qword, Lt, end)];
    let mut rules = Rules::new();
    rules.insert(
        libc::SYS_mmap,
        rules_of(&[
            &[code],
            &[flags(NOREPLACE, NOREPLACE)],
            &[flags(DOWN, DOWN)],
            // At a given address: only the worker's tensors, whose memory has a file.
            &[flags(FIXED, FIXED), accessible.clone(), (0, Qword, Lt, start)],
            &[flags(FIXED, FIXED), accessible.clone(), (0, Qword, Ge, end)],
            &[flags(FIXED | ANONYMOUS, FIXED | ANONYMOUS), accessible.clone()],
            // A file, or memory that is shared.
            &[flags(FIXED | ANONYMOUS, 0)],
            &[flags(ANONYMOUS | SHARED, ANONYMOUS | SHARED)],
            // An address that the system may ignore; the C library reserves its heaps in this way, without rights.
            &[flags(FIXED, 0), accessible, (0, Qword, Ne, 0)],
        ])?,
    );
    let moving = |flag: i32| [(3, Dword, MaskedEq(flag as u64), flag as u64)];
    rules.insert(
        libc::SYS_mremap,
        rules_of(&[
            &moving(libc::MREMAP_FIXED),
            &moving(libc::MREMAP_DONTUNMAP),
            // A second map of the same memory.
            &[(1, Qword, Eq, 0)],
            &in_tensors,
        ])?,
    );
    // Rights beyond reading and writing include those for stacks that grow.
    rules.insert(
        libc::SYS_mprotect,
        rules_of(&[&[(2, Dword, Gt, READ_AND_WRITE)], &in_tensors])?,
    );
    rules.insert(libc::SYS_munmap, rules_of(&[&in_tensors])?);
    rules.insert(libc::SYS_seccomp, Vec::new());
    Ok(rules)
}
