//! The directory where akg keeps what it can make again.

use std::env;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use akg_core::error::{Error, ErrorKind, Result};

/// `$AKG_CACHE`, else `akg` in the user's cache directory.
pub(crate) fn default_directory() -> Result<PathBuf> {
    let set = |name| env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    set("AKG_CACHE")
        .or_else(|| set("XDG_CACHE_HOME").map(|d| d.join("akg")))
        .or_else(|| set("HOME").map(|d| d.join(".cache/akg")))
        .ok_or_else(|| {
            Error::new(
                ErrorKind::NotFound,
                "there is no cache directory: set AKG_CACHE, XDG_CACHE_HOME or HOME",
            )
        })
}

/// Writes a file so that no reader ever sees half of it.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let cannot = |e| Error::io(format!("cannot write {}", path.display()), e);
    let directory = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(directory).map_err(cannot)?;
    let mut file = tempfile::NamedTempFile::new_in(directory).map_err(cannot)?;
    file.write_all(bytes).map_err(cannot)?;
    file.persist(path).map_err(|e| cannot(e.error))?;
    Ok(())
}
