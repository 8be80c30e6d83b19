//! Which files are left, by Landlock.

use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, CompatLevel, Compatible as _, LandlockStatus, Ruleset,
    RulesetAttr as _, RulesetCreatedAttr as _, RulesetError, Scope, path_beneath_rules,
};

use super::Spec;

/// What programs of every kind read and execute: the system's programs and libraries, and how to find them.
const SYSTEM: [&str; 12] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/nix/store",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/alternatives",
    "/etc/localtime",
];

/// Facts about the machine.
const FACTS: [&str; 2] = ["/sys/devices/system", "/sys/fs/cgroup"];

/// Devices without a state.
const DEVICES: [&str; 5] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
];

/// What of `/proc` is left where it shows every process of the machine.
const OWN_PROC: [&str; 5] = [
    "/proc/self",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/sys/vm",
];

/// The first version that confines every way to change a file.
const COMPLETE: ABI = ABI::V3;

/// The newest version that is asked for; older systems get what they know.
const NEWEST: ABI = ABI::V6;

/// Takes all files from the calling thread and all that it starts, for good, except those that `spec` leaves it.
/// `private_proc` says that `/proc` shows only its own processes.
///
/// # Errors
/// Why files are not confined completely.
pub(super) fn restrict(spec: &Spec, program: &Path, private_proc: bool) -> Result<(), String> {
    let status = apply(spec, program, private_proc).map_err(|e| e.to_string())?;
    match status {
        LandlockStatus::Available { effective_abi, .. } if effective_abi >= COMPLETE => Ok(()),
        LandlockStatus::Available { effective_abi, .. } => Err(format!(
            "Landlock's version {} is older than {}",
            effective_abi as i32, COMPLETE as i32
        )),
        LandlockStatus::NotEnabled => Err("Landlock is not enabled in this kernel".to_owned()),
        LandlockStatus::NotImplemented => Err("the kernel has no Landlock".to_owned()),
    }
}

fn apply(spec: &Spec, program: &Path, private_proc: bool) -> Result<LandlockStatus, RulesetError> {
    let all = AccessFs::from_all(NEWEST);
    let read = AccessFs::from_read(NEWEST);
    let look = AccessFs::ReadFile | AccessFs::ReadDir;
    let proc: &[&str] = if private_proc { &["/proc"] } else { &OWN_PROC };
    let executable: Vec<PathBuf> = program.canonicalize().into_iter().collect();
    let status = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(all)?
        .handle_access(AccessNet::from_all(NEWEST))?
        .scope(Scope::from_all(NEWEST))?
        .create()?
        .add_rules(path_beneath_rules(SYSTEM, read))?
        .add_rules(path_beneath_rules(FACTS, look))?
        .add_rules(path_beneath_rules(proc, look))?
        .add_rules(path_beneath_rules(
            DEVICES,
            look | AccessFs::WriteFile | AccessFs::IoctlDev,
        ))?
        .add_rules(path_beneath_rules(&executable, read))?
        .add_rules(path_beneath_rules(&spec.listable, AccessFs::ReadDir))?
        .add_rules(path_beneath_rules(&spec.readable, read))?
        .add_rules(path_beneath_rules(&spec.writable, all))?
        .add_rules(path_beneath_rules([&spec.scratch], all))?
        .restrict_self()?;
    Ok(status.landlock)
}
