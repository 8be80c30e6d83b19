//! Private directories of workers.

use std::fs::{self, File};
use std::io::Read as _;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::Duration;

use akg_core::error::{Error, ErrorKind, Result};
use rustix::fs::FlockOperation;
use tempfile::TempDir;

const PREFIX: &str = "akg-worker-";

/// Directories younger than this may not be locked by their owner yet.
const SETTLING: Duration = Duration::from_secs(60);

/// An empty directory that is removed when the value is dropped, or by a later process if this one is killed.
#[derive(Debug)]
pub(crate) struct Scratch {
    directory: TempDir,
    /// Holds a lock for as long as the owner lives; says so across process-id namespaces.
    _lock: File,
    /// What the program has in its place, if that is seen only from inside its confinement.
    inside: Option<OwnedFd>,
    view: PathBuf,
}

impl Scratch {
    pub(crate) fn new() -> Result<Self> {
        static SWEEP: Once = Once::new();
        let parent = std::env::temp_dir();
        SWEEP.call_once(|| remove_stale(&parent, SETTLING));
        let cannot = |e| {
            Error::io(
                format!("cannot create a scratch directory in {}", parent.display()),
                e,
            )
        };
        let directory = tempfile::Builder::new()
            .prefix(PREFIX)
            .tempdir_in(&parent)
            .map_err(cannot)?;
        let lock = File::open(directory.path()).map_err(cannot)?;
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockShared).map_err(|e| cannot(e.into()))?;
        Ok(Self {
            view: directory.path().to_owned(),
            directory,
            _lock: lock,
            inside: None,
        })
    }

    /// The path by which a confined program knows it.
    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// The path by which this process, and others of the same user, see what the program has there.
    pub(crate) fn view(&self) -> &Path {
        &self.view
    }

    /// Says that the program's directory is behind `inside`, which also keeps it.
    pub(crate) fn found_at(&mut self, inside: Option<OwnedFd>) {
        if let Some(inside) = inside {
            self.view = PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), inside.as_raw_fd()));
            self.inside = Some(inside);
        }
    }

    /// A file of at most `limit` bytes that a program left there. The program may be hostile, so that links are not
    /// followed.
    pub(crate) fn read(&self, name: &str, limit: u64) -> Result<Vec<u8>> {
        let cannot = |e| Error::io(format!("cannot read `{name}` of a confined program"), e);
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
        let file = File::options()
            .read(true)
            .custom_flags(flags)
            .open(self.view.join(name));
        let file = file.map_err(cannot)?;
        let metadata = file.metadata().map_err(cannot)?;
        if !metadata.is_file() || metadata.len() > limit {
            let message = format!(
                "a confined program left `{name}` as something else than a file of at most {limit} bytes"
            );
            return Err(Error::new(ErrorKind::Protocol, message));
        }
        let mut bytes = Vec::new();
        file.take(limit).read_to_end(&mut bytes).map_err(cannot)?;
        Ok(bytes)
    }
}

/// Removes the directories of owners that are gone. What cannot be removed now is left to the next process.
fn remove_stale(parent: &Path, settling: Duration) {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    for entry in entries.filter(|e| e.file_name().to_string_lossy().starts_with(PREFIX)) {
        let age = entry.metadata().and_then(|m| m.modified()).map(|m| m.elapsed());
        let settled = matches!(age, Ok(Ok(age)) if age >= settling);
        let Ok(directory) = File::open(entry.path()) else {
            continue;
        };
        if settled && rustix::fs::flock(&directory, FlockOperation::NonBlockingLockExclusive).is_ok() {
            // Another process may be removing it at the same time.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_directories_without_an_owner_are_stale() {
        let parent = tempfile::tempdir().unwrap();
        let stale = parent.path().join(format!("{PREFIX}stale"));
        let owned = parent.path().join(format!("{PREFIX}owned"));
        let other = parent.path().join("other");
        for path in [&stale, &owned, &other] {
            fs::create_dir(path).unwrap();
        }
        let lock = File::open(&owned).unwrap();
        rustix::fs::flock(&lock, FlockOperation::LockShared).unwrap();
        remove_stale(parent.path(), Duration::from_secs(3600));
        assert!(stale.exists());
        remove_stale(parent.path(), Duration::ZERO);
        assert!(!stale.exists());
        assert!(owned.exists() && other.exists());
    }
}
