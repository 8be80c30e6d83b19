//! Which system calls are left, by seccomp filters.

use std::collections::BTreeMap;
use std::env::consts::ARCH;

use akg_core::error::{Error, Result};
use libc::{EPERM, c_long};
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen as Length, SeccompCmpOp as Compare,
    SeccompCondition, SeccompFilter, SeccompRule,
};

/// What no confined program needs: other processes, mounts, kernel facilities with a history of holes, sockets, and
/// memory and queues that outlive a process or escape its limits.
const DENIED: &[c_long] = &[
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_process_mrelease,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_pidfd_send_signal,
    libc::SYS_kcmp,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_mount_setattr,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_userfaultfd,
    libc::SYS_kexec_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_quotactl,
    libc::SYS_acct,
    libc::SYS_syslog,
    libc::SYS_vhangup,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_personality,
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    libc::SYS_inotify_add_watch,
    libc::SYS_fanotify_init,
    libc::SYS_fanotify_mark,
    libc::SYS_socket,
    libc::SYS_memfd_create,
    libc::SYS_memfd_secret,
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_msgget,
    libc::SYS_semget,
    libc::SYS_mq_open,
];

/// What kernels, the dynamic linker and the worker's own protocol need once everything is set up.
const ALLOWED: &[c_long] = &[
    // Descriptors that are open, and files that the file rules let it read.
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_pread64,
    libc::SYS_lseek,
    libc::SYS_close,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_getdents64,
    libc::SYS_ppoll,
    libc::SYS_sendmsg,
    libc::SYS_recvmsg,
    // Memory.
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    libc::SYS_brk,
    // Threads that exist.
    libc::SYS_futex,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_getcpu,
    libc::SYS_membarrier,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    libc::SYS_exit,
    libc::SYS_exit_group,
    // Facts.
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_gettimeofday,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_getrandom,
    libc::SYS_getrusage,
    libc::SYS_sysinfo,
    libc::SYS_uname,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_stat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_time,
];

/// Flags of `open` that change something.
const WRITING: i32 = libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC | libc::O_APPEND;

/// Flags of `clone` that make namespaces, in which a program has capabilities.
const NAMESPACES: [i32; 7] = [
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWCGROUP,
];

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Takes [`DENIED`] from the calling thread and all that it starts, for good.
pub(super) fn restrict() -> Result<()> {
    // Its flags lie in memory, where no filter can see them. C libraries fall back to `clone`, whose flags are an argument.
    let clone3 = Rules::from([(libc::SYS_clone3, Vec::new())]);
    install(clone3, SeccompAction::Allow, libc::ENOSYS, false)?;
    let mut denied: Rules = DENIED.iter().map(|call| (*call, Vec::new())).collect();
    let namespaces = NAMESPACES.into_iter().map(|flag| {
        let flag = flag as u64;
        condition(0, Length::Qword, Compare::MaskedEq(flag), flag).and_then(|c| rule(vec![c]))
    });
    denied.insert(libc::SYS_clone, namespaces.collect::<Result<_>>()?);
    install(denied, SeccompAction::Allow, EPERM, false)
}

/// Leaves the calling process, all its threads included, only what a kernel needs to compute, for good. From then on it
/// opens nothing for writing, starts no process or thread, and signals none but itself; a denied call fails with
/// `EPERM`. What must be open, mapped or started otherwise must be so before.
///
/// # Errors
/// [`Unsupported`](akg_core::ErrorKind::Unsupported) where the system has no filters.
pub(crate) fn lockdown() -> Result<()> {
    let mut allowed: Rules = ALLOWED.iter().map(|call| (*call, Vec::new())).collect();
    let reading = |argument| condition(argument, Length::Dword, Compare::MaskedEq(WRITING as u64), 0);
    allowed.insert(libc::SYS_openat, vec![rule(vec![reading(2)?])?]);
    #[cfg(target_arch = "x86_64")]
    allowed.insert(libc::SYS_open, vec![rule(vec![reading(1)?])?]);
    let own = u64::from(std::process::id());
    let own = condition(0, Length::Dword, Compare::Eq, own)?;
    allowed.insert(libc::SYS_tgkill, vec![rule(vec![own])?]);
    // Limits may be read.
    let none = condition(2, Length::Qword, Compare::Eq, 0)?;
    allowed.insert(libc::SYS_prlimit64, vec![rule(vec![none])?]);
    let commands = [libc::F_GETFD, libc::F_SETFD, libc::F_GETFL, libc::F_DUPFD_CLOEXEC];
    let commands = commands
        .into_iter()
        .map(|command| condition(1, Length::Dword, Compare::Eq, command as u64).and_then(|c| rule(vec![c])));
    allowed.insert(libc::SYS_fcntl, commands.collect::<Result<_>>()?);
    install(allowed, SeccompAction::Errno(EPERM as u32), 0, true)
}

/// Installs a filter: calls without a matching rule get `otherwise`, the others the error `errno`, or pass if it is 0.
fn install(rules: Rules, otherwise: SeccompAction, errno: i32, all_threads: bool) -> Result<()> {
    let matching = match errno {
        0 => SeccompAction::Allow,
        errno => SeccompAction::Errno(errno as u32),
    };
    let architecture = ARCH.try_into().map_err(unusable)?;
    let filter = SeccompFilter::new(rules, otherwise, matching, architecture).map_err(unusable)?;
    let program = without_x32(BpfProgram::try_from(filter).map_err(unusable)?);
    let applied = if all_threads {
        seccompiler::apply_filter_all_threads(&program)
    } else {
        seccompiler::apply_filter(&program)
    };
    applied.map_err(|e| Error::unsupported("the system has no seccomp filters").caused_by(e))
}

/// Denies the second set of numbers that x86-64 has for most calls (the x32 ABI), which rules do not name.
#[cfg(target_arch = "x86_64")]
fn without_x32(mut program: BpfProgram) -> BpfProgram {
    const X32: u32 = 0x4000_0000;
    let instruction = |code: u32, jf, k| seccompiler::sock_filter {
        code: code as u16,
        jt: 0,
        jf,
        k,
    };
    let prelude = [
        // The number of the call is the first field of what a filter sees.
        instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
        instruction(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, 1, X32),
        instruction(
            libc::BPF_RET | libc::BPF_K,
            0,
            libc::SECCOMP_RET_ERRNO | EPERM as u32,
        ),
    ];
    program.splice(0..0, prelude);
    program
}

#[cfg(not(target_arch = "x86_64"))]
fn without_x32(program: BpfProgram) -> BpfProgram {
    program
}

fn condition(argument: u8, length: Length, compare: Compare, value: u64) -> Result<SeccompCondition> {
    SeccompCondition::new(argument, length, compare, value).map_err(unusable)
}

fn rule(conditions: Vec<SeccompCondition>) -> Result<SeccompRule> {
    SeccompRule::new(conditions).map_err(unusable)
}

fn unusable(error: BackendError) -> Error {
    Error::unsupported("cannot make a seccomp filter for this machine").caused_by(error)
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::process::Command;
    use std::sync::mpsc;

    /// A lockdown cannot be undone, so that it happens in a process of its own.
    #[test]
    fn after_a_lockdown_little_is_left() {
        let output = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "sandbox::calls::tests::locked_down",
                "--ignored",
                "--nocapture",
            ])
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(
            text.contains("1 passed"),
            "{text}{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }

    #[test]
    #[ignore = "run by the other test"]
    fn locked_down() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        std::fs::write(&file, "text").unwrap();
        let (go, gone) = mpsc::channel();
        let before = {
            let file = file.clone();
            std::thread::spawn(move || {
                gone.recv().unwrap();
                attempts(&file);
            })
        };
        let Err(error) = super::lockdown() else {
            go.send(()).unwrap();
            before.join().unwrap();
            attempts(&file);
            return;
        };
        eprintln!("SKIPPED: {error}");
        // The thread ends without a message.
        drop(go);
    }

    /// What a hostile kernel may try, and what an honest one does.
    fn attempts(file: &std::path::Path) {
        let denied = |what: &str, result: i64| {
            let error = io::Error::last_os_error();
            assert!(
                result == -1 && error.raw_os_error() == Some(libc::EPERM),
                "{what}: {result} {error}"
            );
        };
        let path = std::ffi::CString::new(file.to_str().unwrap()).unwrap();
        let path = path.as_ptr();
        // SAFETY: valid arguments; every call is denied or harmless.
        unsafe {
            denied("fork", libc::fork().into());
            denied(
                "exec",
                libc::execv(path, [path, std::ptr::null()].as_ptr()).into(),
            );
            denied("open for writing", libc::open(path, libc::O_WRONLY).into());
            denied(
                "open and cut",
                libc::open(path, libc::O_RDONLY | libc::O_TRUNC).into(),
            );
            denied(
                "create",
                libc::open(
                    c"/tmp/akg-lockdown".as_ptr(),
                    libc::O_CREAT | libc::O_RDONLY,
                    0o600,
                )
                .into(),
            );
            denied("remove", libc::unlink(path).into());
            denied("rename", libc::rename(path, path).into());
            denied("chmod", libc::chmod(path, 0o777).into());
            denied("truncate", libc::truncate(path, 0).into());
            denied("socket", libc::socket(libc::AF_UNIX, libc::SOCK_STREAM, 0).into());
            denied("kill", libc::kill(1, 0).into());
            denied(
                "signal a thread of another process",
                libc::syscall(libc::SYS_tgkill, 1, 1, 0),
            );
            denied("ptrace", libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0));
            denied("prctl", libc::prctl(libc::PR_SET_DUMPABLE, 0).into());
            denied(
                "a limit",
                libc::setrlimit(
                    libc::RLIMIT_CORE,
                    &libc::rlimit {
                        rlim_cur: 0,
                        rlim_max: 0,
                    },
                )
                .into(),
            );
            denied(
                "memory that is a file",
                libc::memfd_create(c"x".as_ptr(), 0).into(),
            );
            denied("a pipe", libc::pipe([0; 2].as_mut_ptr()).into());
            denied("sealing", libc::fcntl(0, libc::F_ADD_SEALS, 0).into());
        }
        assert!(std::thread::Builder::new().spawn(|| ()).is_err());
        assert_eq!(std::fs::read_to_string(file).unwrap(), "text");
        let memory = vec![1u8; 64 << 20];
        assert_eq!(
            memory.iter().map(|b| usize::from(*b)).sum::<usize>(),
            memory.len()
        );
        assert!(std::time::Instant::now().elapsed().as_secs() < 60);
    }
}
