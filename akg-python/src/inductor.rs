//! Where PyTorch's compiler keeps what it compiled.
//!
//! Each task has a directory of its own, for a module can write there what it likes. Before it compiles anything for a
//! processor, the compiler finds out which vector instructions work, by building and loading a library for each set of
//! them: 15 seconds and more. That is done once for an environment, without any module, and new directories begin with it.

use std::fs;
use std::path::{Path, PathBuf};

use akg_core::error::{Error, Result};

use crate::environment::Environment;
use crate::python::PythonOptions;
use crate::worker::Worker;

/// The variable that names the directory.
pub(crate) const DIRECTORY: &str = "TORCHINDUCTOR_CACHE_DIR";

/// The directory of the task that `key` identifies, which the next worker of the same task finds again.
pub(crate) fn directory(environment: &Environment, key: &str, on_host: bool) -> Result<PathBuf> {
    appear(environment.cache.join("inductor").join(key), |new| {
        if on_host {
            copy(&vector_instructions(environment)?, new)
        } else {
            Ok(())
        }
    })
}

/// A directory with what the compiler finds out about vector instructions.
fn vector_instructions(environment: &Environment) -> Result<PathBuf> {
    let name = format!("vector-{}", environment.id);
    appear(environment.cache.join("inductor").join(name), |new| {
        let imports = &["torch", "akg_worker.vector"];
        let mut worker = Worker::new(environment.clone(), PythonOptions::default(), imports)
            .writable(new.to_owned())
            .variable(DIRECTORY, new);
        worker.launch()?;
        worker.wait()
    })
}

/// The directory, which appears with all that `fill` puts into it unless it is there, or another process is faster.
fn appear(directory: PathBuf, fill: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    if directory.exists() {
        return Ok(directory);
    }
    let cannot = |e| Error::io(format!("cannot create {}", directory.display()), e);
    let parent = directory.parent().unwrap_or(&directory);
    fs::create_dir_all(parent).map_err(cannot)?;
    let new = tempfile::tempdir_in(parent).map_err(cannot)?;
    fill(new.path())?;
    match fs::rename(new.path(), &directory) {
        Err(e) if !directory.exists() => Err(cannot(e)),
        _ => Ok(directory),
    }
}

/// Copies the files and directories in `from`.
fn copy(from: &Path, to: &Path) -> Result<()> {
    let cannot = |e| Error::io(format!("cannot copy {} to {}", from.display(), to.display()), e);
    for entry in fs::read_dir(from).map_err(cannot)? {
        let entry = entry.map_err(cannot)?;
        let target = to.join(entry.file_name());
        if entry.file_type().map_err(cannot)?.is_dir() {
            fs::create_dir(&target).map_err(cannot)?;
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), &target).map_err(cannot)?;
        }
    }
    Ok(())
}
