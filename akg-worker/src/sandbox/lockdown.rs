//! Giving up every right that kernels do not need.

use std::io;

use akg_core::error::Result;
use libc::{EPERM, c_long};
use seccompiler::{BpfProgram, SeccompAction, SeccompCmpArgLen as Length, SeccompCmpOp as Compare};

use super::calls::{Rules, condition, no_filters, program, rule};
use super::refused::{self, Protected};

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
    // Threads that exist, some of which may still be starting.
    libc::SYS_rseq,
    libc::SYS_set_robust_list,
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

/// Leaves the calling process, all its threads included, only what a kernel needs to compute, for good. From then on it
/// opens nothing for writing, starts no process or thread, and signals none but itself; a denied call fails with
/// `EPERM`, or [ends the process](super::refused). What must be open, mapped or started otherwise must be so before.
///
/// # Errors
/// [`Unsupported`](akg_core::ErrorKind::Unsupported) where the system has no filters.
pub(crate) fn lockdown(protected: &Protected) -> Result<()> {
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
    // For the filter that follows when the candidate is loaded.
    let filter = condition(
        0,
        Length::Dword,
        Compare::Eq,
        u64::from(libc::SECCOMP_SET_MODE_FILTER),
    )?;
    allowed.insert(libc::SYS_seccomp, vec![rule(vec![filter])?]);
    let allowed = program(allowed, SeccompAction::Errno(EPERM as u32), SeccompAction::Allow)?;
    let refused = refusing(refused::always(protected)?)?;
    rustix::thread::set_no_new_privs(true).map_err(|e| no_filters().caused_by(e))?;
    install(&allowed)?;
    install(&refused)
}

/// Refuses what only the dynamic linker needs, after it has done its work.
pub(crate) fn seal(protected: &Protected) -> Result<()> {
    install(&refusing(refused::loaded(protected)?)?)
}

/// The filter that sends `SIGSYS` for calls with a matching rule.
fn refusing(rules: Rules) -> Result<BpfProgram> {
    program(rules, SeccompAction::Allow, SeccompAction::Trap)
}

/// Installs a filter for all threads of the calling process.
fn install(program: &BpfProgram) -> Result<()> {
    let filter = libc::sock_fprog {
        len: u16::try_from(program.len()).unwrap_or(u16::MAX),
        filter: program.as_ptr().cast_mut().cast(),
    };
    // SAFETY: the filter has the given number of instructions, whose layout is the system's.
    let result = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            libc::SECCOMP_FILTER_FLAG_TSYNC,
            &raw const filter,
        )
    };
    match result {
        0 => Ok(()),
        -1 => Err(no_filters().caused_by(io::Error::last_os_error())),
        thread => Err(no_filters().with("thread", thread)),
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::{Command, Output};
    use std::sync::mpsc;

    /// Runs an ignored test: a lockdown cannot be undone, so that it happens in a process of its own.
    fn run(test: &str) -> Output {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--ignored", "--nocapture"])
            .output()
            .unwrap()
    }

    #[test]
    fn after_a_lockdown_little_is_left() {
        let output = run("sandbox::lockdown::tests::locked_down");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(
            text.contains("1 passed"),
            "{text}{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }

    #[test]
    fn a_thread_ends_a_process_that_is_locked_down() {
        let output = run("sandbox::lockdown::tests::starts_a_thread");
        let text = String::from_utf8_lossy(&output.stderr);
        // C libraries block all signals while they start a thread, so that no handler runs.
        assert!(
            output.status.signal() == Some(libc::SIGSYS) || text.contains("SKIPPED"),
            "{text}"
        );
    }

    #[test]
    #[ignore = "run by another test"]
    fn starts_a_thread() {
        match super::lockdown(&protected()) {
            Ok(()) => drop(std::thread::Builder::new().spawn(|| ())),
            Err(error) => eprintln!("SKIPPED: {error}"),
        }
    }

    fn protected() -> super::Protected {
        super::Protected {
            descriptors: 0,
            default_action: 0,
            tensors: 0..0,
        }
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
        fail_quietly();
        let Err(error) = super::lockdown(&protected()) else {
            go.send(()).unwrap();
            before.join().unwrap();
            attempts(&file);
            return;
        };
        eprintln!("SKIPPED: {error}");
        // The thread ends without a message.
        drop(go);
    }

    /// Lets calls that would end a candidate fail with `EPERM`, so that one process can try all of them.
    fn fail_quietly() {
        extern "C" fn refuse(_: libc::c_int, _: *const libc::siginfo_t, context: *mut libc::c_void) {
            // SAFETY: signal handlers of this kind are given the context that they return to.
            unsafe {
                let context = &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext;
                #[cfg(target_arch = "x86_64")]
                {
                    context.gregs[libc::REG_RAX as usize] = -i64::from(libc::EPERM);
                }
                #[cfg(target_arch = "aarch64")]
                {
                    context.regs[0] = -i64::from(libc::EPERM) as u64;
                }
            }
        }
        // SAFETY: the structure is plain data.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction =
                refuse as extern "C" fn(libc::c_int, *const libc::siginfo_t, *mut libc::c_void) as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER;
            libc::sigaction(libc::SIGSYS, &raw const action, std::ptr::null_mut());
        }
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
        assert_eq!(std::fs::read_to_string(file).unwrap(), "text");
        let memory = vec![1u8; 64 << 20];
        assert_eq!(
            memory.iter().map(|b| usize::from(*b)).sum::<usize>(),
            memory.len()
        );
        assert!(std::time::Instant::now().elapsed().as_secs() < 60);
    }
}
