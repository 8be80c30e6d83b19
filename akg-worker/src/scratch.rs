//! Private directories of workers.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Once;
use std::time::Duration;

use akg_core::error::{Error, Result};
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
            directory,
            _lock: lock,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
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
