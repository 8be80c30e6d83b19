//! Which Python files a worker may read.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use akg_core::error::{Error, Result};
use akg_worker::process::Program;

/// Bytes of the paths of files beside a module: a worker is told of them in one argument, which may have 128 KiB.
const MOST: usize = 96 << 10;

/// The Python files and packages of a directory, as they were when somebody looked.
#[derive(Debug)]
pub(crate) struct Modules {
    directory: PathBuf,
    /// With the numbers of their inodes: a process may read what was there when it started, and a file that was written
    /// anew under the same name is another one.
    files: BTreeSet<(PathBuf, u64)>,
}

impl Modules {
    /// What is in a directory now; nothing in one that cannot be listed, which is reported when a module is read.
    pub(crate) fn of(directory: &Path) -> Self {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        let files = entries.filter_map(|entry| {
            let path = entry.path();
            let is_module = path.extension().is_some_and(|e| e == "py") || path.join("__init__.py").exists();
            is_module.then_some((path.clone(), fs::metadata(path).ok()?.ino()))
        });
        Self {
            directory: directory.to_owned(),
            files: files.collect(),
        }
    }

    /// Whether a process that may read these may read all of the others, too.
    pub(crate) fn include(&self, others: &Self) -> bool {
        self.directory == others.directory && self.files.is_superset(&others.files)
    }

    /// Lets a program read them, and list what else is there, as Python does to find them.
    ///
    /// # Errors
    /// If there are more than a program can be told of.
    pub(crate) fn show_to(&self, program: Program) -> Result<Program> {
        let bytes: usize = self
            .files
            .iter()
            .map(|(path, _)| path.as_os_str().len() + 3)
            .sum();
        if bytes > MOST {
            return Err(Error::invalid(format!(
                "there are {} Python files beside the module, too many for it to see; move it to a directory of its own",
                self.files.len()
            ))
            .with("directory", self.directory.display()));
        }
        let files = self.files.iter().map(|(path, _)| path);
        Ok(files.fold(program.listable(&self.directory), Program::readable))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_new_or_written_anew_is_not_included() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        fs::write(path("a.py"), "1").unwrap();
        let first = Modules::of(directory.path());
        fs::write(path("a.py"), "2").unwrap();
        fs::write(path("notes.txt"), "").unwrap();
        assert!(first.include(&Modules::of(directory.path())));

        fs::write(path("b.py"), "").unwrap();
        let second = Modules::of(directory.path());
        assert!(!first.include(&second) && second.include(&first));

        fs::write(path("new"), "3").unwrap();
        fs::rename(path("new"), path("a.py")).unwrap();
        assert!(!second.include(&Modules::of(directory.path())));
    }
}
