//! Fuzzing: a fixed sample of made cases for each target, and every case that once failed.
//!
//! `cargo run --release --example fuzz` goes on from there; see docs/fuzzing.md.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by a panic"
)]

mod child;
mod random;
mod targets;
mod texts;
mod valid;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};
use targets::TARGETS;

/// Made cases of each target. Counted, not timed: a slow machine tries the same.
const SAMPLE: u64 = 250;

fn main() -> ExitCode {
    child::serve();
    let arguments = Arguments::from_args();
    let mut trials = Vec::new();
    for target in &TARGETS {
        trials.push(Trial::test(
            format!("sample::{}", target.name),
            move || match child::run(target, 0..SAMPLE).as_slice() {
                [] => Ok(()),
                found => Err(Failed::from(format!("{found:#?}"))),
            },
        ));
        for file in corpus(target.name) {
            let name = file.file_name().unwrap().to_string_lossy().into_owned();
            trials.push(Trial::test(
                format!("corpus::{}::{name}", target.name),
                move || match child::run_file(target, &file) {
                    None => Ok(()),
                    Some(found) => Err(Failed::from(format!("{found:?}"))),
                },
            ));
        }
    }
    assert!(!child::names().is_empty());
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// The kept files of a target.
fn corpus(name: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fuzz/corpus")
        .join(name);
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    files.sort();
    files
}
