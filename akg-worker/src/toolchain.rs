//! Compilers and their like, wherever they are installed.

use std::env;
use std::path::{Path, PathBuf};

use crate::process::Program;

/// What an installation outside the system's directories has, beside the directory of its programs.
const PARTS: [&str; 6] = ["bin", "include", "lib", "lib64", "libexec", "share"];

/// The program called `name` in the first directory of `PATH` that has one. A name with directories is a path.
pub fn on_path(name: &Path) -> Option<PathBuf> {
    if name.components().count() > 1 {
        return name.is_file().then(|| name.to_owned());
    }
    let path = env::var_os("PATH")?;
    env::split_paths(&path)
        .map(|directory| directory.join(name))
        .find(|p| p.is_file())
}

impl Program {
    /// Lets the program run the one at `tool`, with what is installed beside it: a link is followed, and where a program
    /// lies in a directory `bin`, the `lib`, `include` and so on next to that belong to it.
    pub fn installation(self, tool: &Path) -> Self {
        let places = [Some(tool.to_owned()), tool.canonicalize().ok()];
        places.into_iter().flatten().fold(self, |program, place| {
            let directory = place.parent().filter(|directory| directory.ends_with("bin"));
            let prefix = directory.and_then(Path::parent).map(Path::to_owned);
            let parts = prefix
                .iter()
                .flat_map(|prefix| PARTS.iter().map(|part| prefix.join(part)));
            parts.fold(program, Program::readable).readable(place)
        })
    }
}
