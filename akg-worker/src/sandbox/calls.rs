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

pub(super) type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Takes [`DENIED`] from the calling thread and all that it starts, for good.
pub(super) fn restrict() -> Result<()> {
    // Its flags lie in memory, where no filter can see them. C libraries fall back to `clone`, whose flags are an argument.
    let clone3 = Rules::from([(libc::SYS_clone3, Vec::new())]);
    install(clone3, SeccompAction::Allow, libc::ENOSYS)?;
    let mut denied: Rules = DENIED.iter().map(|call| (*call, Vec::new())).collect();
    let namespaces = NAMESPACES.into_iter().map(|flag| {
        let flag = flag as u64;
        condition(0, Length::Qword, Compare::MaskedEq(flag), flag).and_then(|c| rule(vec![c]))
    });
    denied.insert(libc::SYS_clone, namespaces.collect::<Result<_>>()?);
    install(denied, SeccompAction::Allow, EPERM)
}

/// Installs a filter for the calling thread and all that it starts: calls without a matching rule get `otherwise`, the
/// others the error `errno`.
fn install(rules: Rules, otherwise: SeccompAction, errno: i32) -> Result<()> {
    let program = program(rules, otherwise, SeccompAction::Errno(errno as u32))?;
    seccompiler::apply_filter(&program).map_err(|e| no_filters().caused_by(e))
}

/// The filter that gives calls with a matching rule `matching`, the others `otherwise`.
pub(super) fn program(rules: Rules, otherwise: SeccompAction, matching: SeccompAction) -> Result<BpfProgram> {
    let architecture = ARCH.try_into().map_err(unusable)?;
    let filter = SeccompFilter::new(rules, otherwise, matching, architecture).map_err(unusable)?;
    Ok(without_x32(BpfProgram::try_from(filter).map_err(unusable)?))
}

pub(super) fn no_filters() -> Error {
    Error::unsupported("the system has no seccomp filters")
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

/// A condition for one argument of a call.
pub(super) fn condition(
    argument: u8,
    length: Length,
    compare: Compare,
    value: u64,
) -> Result<SeccompCondition> {
    SeccompCondition::new(argument, length, compare, value).map_err(unusable)
}

/// A rule that matches if all conditions hold.
pub(super) fn rule(conditions: Vec<SeccompCondition>) -> Result<SeccompRule> {
    SeccompRule::new(conditions).map_err(unusable)
}

fn unusable(error: BackendError) -> Error {
    Error::unsupported("cannot make a seccomp filter for this machine").caused_by(error)
}
