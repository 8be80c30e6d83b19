//! What the tests of the `akg` program share.

#![allow(dead_code, reason = "each test uses a part")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A directory that is gone with this value.
pub(crate) struct Place(tempfile::TempDir);

impl Place {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// One with these files.
    pub(crate) fn with(files: &[(&str, &str)]) -> Self {
        let place = Self::new();
        for (name, text) in files {
            place.file(name, text);
        }
        place
    }

    /// Something in it, which need not exist.
    pub(crate) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a file.
    pub(crate) fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    /// The program, with a store of this place's own.
    pub(crate) fn akg(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_akg"));
        command.env_remove("AKG_WORKER");
        command.env("AKG_STORE", self.path("store.sqlite"));
        command
    }
}

/// Asserts the exit status and that all words were printed; gives what was.
#[track_caller]
pub(crate) fn expect(output: &Output, status: i32, words: &[&str]) -> String {
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(output.status.code(), Some(status), "{text}");
    for word in words {
        assert!(text.contains(word), "`{word}` is not in:\n{text}");
    }
    text
}

/// The name of this system's C++ compiler, or a note that the test is skipped.
pub(crate) fn compiler() -> Option<&'static str> {
    let found = ["c++", "g++", "clang++"]
        .into_iter()
        .find(|c| Command::new(c).arg("--version").output().is_ok());
    if found.is_none() {
        eprintln!("skipped: no C++ compiler");
    }
    found
}

pub(crate) fn has_compiler() -> bool {
    compiler().is_some()
}
