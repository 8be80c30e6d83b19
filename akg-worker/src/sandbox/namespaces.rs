//! Process ids, mounts, network and user ids of its own.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, MountPropagationFlags};
use rustix::thread::{CapabilitiesSecureBits, UnshareFlags};

use super::Spec;

/// The least that a system takes as its number of processes.
const LEAST_PROCESSES: u64 = 301;

/// Files and directories at most in a scratch directory.
pub(super) const MOST_FILES: u64 = 1 << 15;

/// Gives the calling process user ids of its own, which are the ones it has, and its children process ids of their own.
pub(super) fn enter() -> io::Result<()> {
    let (user, group) = (rustix::process::getuid(), rustix::process::getgid());
    match unshare(UnshareFlags::NEWUSER) {
        Ok(()) => {
            // Where it is not allowed or not there, the map of groups needs no such promise.
            let _ = fs::write("/proc/self/setgroups", "deny");
            fs::write(
                "/proc/self/gid_map",
                format!("{group} {group} 1", group = group.as_raw()),
            )?;
            fs::write(
                "/proc/self/uid_map",
                format!("{user} {user} 1", user = user.as_raw()),
            )?;
        }
        // The superuser can do without.
        Err(_) if user.is_root() => {}
        Err(e) => return Err(e.into()),
    }
    Ok(unshare(UnshareFlags::NEWPID)?)
}

/// Gives the calling process a file system view of its own, in which only what `spec` names can be changed: modes,
/// times and attributes of files, too, which Landlock leaves alone.
pub(super) fn private_files(spec: &Spec) -> io::Result<()> {
    unshare(UnshareFlags::NEWNS)?;
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    rustix::mount::mount_change("/", private)?;
    let writable = || spec.writable.iter().filter(|path| path.exists());
    for path in writable() {
        rustix::mount::mount_bind_recursive(path, path)?;
    }
    set_read_only(Path::new("/"), true)?;
    writable().try_for_each(|path| set_read_only(path, false))
}

/// Makes all mounts from `path` on read-only, or writable again. Since Linux 5.12.
fn set_read_only(path: &Path, read_only: bool) -> io::Result<()> {
    // SAFETY: the structure is plain data, for which zero means no change.
    let mut attributes: libc::mount_attr = unsafe { std::mem::zeroed() };
    if read_only {
        attributes.attr_set = libc::MOUNT_ATTR_RDONLY;
    } else {
        attributes.attr_clr = libc::MOUNT_ATTR_RDONLY;
    }
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: the pointers are valid, and the size is the structure's.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            libc::AT_FDCWD,
            path.as_ptr(),
            libc::AT_RECURSIVE,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    };
    if done == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Makes the scratch directory a file system in memory of limited size, with what the directory held before, in the
/// calling process's view.
pub(super) fn private_scratch(spec: &Spec) -> io::Result<()> {
    let before = fs::read_dir(&spec.scratch)?.collect::<Result<Vec<_>, _>>()?;
    let mut files = Vec::new();
    for entry in before {
        files.push((entry.file_name(), fs::read(entry.path())?));
    }
    let options = format!("size={},nr_inodes={MOST_FILES},mode=700", spec.quota);
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    let options = CString::new(options)?;
    rustix::mount::mount("akg", &spec.scratch, "tmpfs", flags, options.as_c_str())?;
    for (name, bytes) in files {
        fs::write(spec.scratch.join(name), bytes)?;
    }
    std::env::set_current_dir(&spec.scratch)
}

/// Shows only the processes in the calling process's namespace in `/proc`, without changing the view of its parent.
pub(super) fn private_proc() -> io::Result<()> {
    unshare(UnshareFlags::NEWNS)?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    Ok(rustix::mount::mount("proc", "/proc", "proc", flags, None)?)
}

/// Gives the calling process a network without a way out, and System V queues and memory of its own.
pub(super) fn private_network() -> io::Result<()> {
    Ok(unshare(UnshareFlags::NEWNET | UnshareFlags::NEWIPC)?)
}

/// Bounds the number of processes and threads in the namespace. Before Linux 6.14, a namespace has no such bound.
pub(super) fn limit_processes(limit: u64) -> io::Result<()> {
    fs::write("/proc/sys/kernel/pid_max", limit.max(LEAST_PROCESSES).to_string())
}

/// Keeps programs that are started from now on from getting capabilities because of their user.
pub(super) fn drop_capabilities() -> io::Result<()> {
    let bits = CapabilitiesSecureBits::NO_ROOT | CapabilitiesSecureBits::NO_ROOT_LOCKED;
    Ok(rustix::thread::set_capabilities_secure_bits(bits)?)
}

/// A handle on a directory that stays valid outside its file system view.
pub(super) fn open_directory(path: &Path) -> io::Result<rustix::fd::OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

fn unshare(flags: UnshareFlags) -> Result<(), Errno> {
    // SAFETY: descriptors stay shared, which is the one thing that could surprise other code.
    unsafe { rustix::thread::unshare_unsafe(flags) }
}
