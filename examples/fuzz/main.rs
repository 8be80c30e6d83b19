//! Fuzzes everything that takes text or bytes from outside.
//!
//! ```text
//! cargo run --release --example fuzz -- --seconds 600 --out found [--target expression]
//! ```
//!
//! `found/TARGET.next` is the first case that was not tried yet: started again, the program goes on there. A case that
//! panics, aborts, takes more than 5 s of processor time or more than 3 GiB is written to `found/TARGET-NUMBER`, what
//! happened beside it to `found/TARGET-NUMBER.why`.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "shared with the test, which fails by a panic"
)]

#[path = "../../tests/fuzz/child.rs"]
mod child;
#[path = "../../tests/fuzz/random.rs"]
mod random;
#[path = "../../tests/fuzz/targets.rs"]
mod targets;
#[path = "../../tests/fuzz/texts.rs"]
mod texts;
#[path = "../../tests/fuzz/valid.rs"]
mod valid;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use akg::{Error, Result};
use targets::{FuzzTarget, TARGETS};

/// Cases that one child takes.
const BATCH: u64 = 500;

/// What is asked for.
struct Wish {
    seconds: u64,
    out: PathBuf,
    target: Option<String>,
}

impl Wish {
    fn read() -> Result<Self> {
        let usage = || {
            let names = child::names().join(", ");
            Error::invalid(format!(
                "usage: fuzz --seconds COUNT --out DIRECTORY [--target NAME], where NAME is one of {names}"
            ))
        };
        let mut wish = Self {
            seconds: 60,
            out: PathBuf::new(),
            target: None,
        };
        let mut arguments = std::env::args().skip(1);
        while let Some(name) = arguments.next() {
            let value = arguments.next().ok_or_else(usage)?;
            match name.as_str() {
                "--seconds" => wish.seconds = value.parse().map_err(|_| usage())?,
                "--out" => wish.out = value.into(),
                "--target" => wish.target = Some(value),
                _ => return Err(usage()),
            }
        }
        let known = wish
            .target
            .as_deref()
            .is_none_or(|name| targets::find(name).is_some());
        if wish.out.as_os_str().is_empty() || !known {
            return Err(usage());
        }
        Ok(wish)
    }
}

fn main() -> ExitCode {
    child::serve();
    match Wish::read().and_then(|wish| fuzz(&wish)) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::from(1),
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

/// Tries batches of all targets in turns until the time is over; the number of cases that failed.
fn fuzz(wish: &Wish) -> Result<usize> {
    let end = Instant::now() + Duration::from_secs(wish.seconds);
    fs::create_dir_all(&wish.out).map_err(|e| Error::io("cannot make the directory for what is found", e))?;
    let wanted = |target: &&FuzzTarget| wish.target.as_deref().is_none_or(|name| name == target.name);
    let mut failed = 0;
    while Instant::now() < end {
        for target in TARGETS.iter().filter(wanted) {
            failed += batch(target, &wish.out)?;
        }
    }
    for target in TARGETS.iter().filter(wanted) {
        println!("{}: {} cases", target.name, next(target, &wish.out));
    }
    println!("{failed} failed");
    Ok(failed)
}

fn batch(target: &FuzzTarget, out: &Path) -> Result<usize> {
    let failed = |e| Error::io("cannot write what was found", e);
    let first = next(target, out);
    let found = child::run(target, first..first + BATCH);
    for found in &found {
        let path = out.join(format!("{}-{}", target.name, found.case));
        fs::write(&path, child::case(target, found.case)).map_err(failed)?;
        fs::write(path.with_extension("why"), &found.what).map_err(failed)?;
        println!("{}: {}", path.display(), found.what);
    }
    let state = out.join(format!("{}.next", target.name));
    fs::write(state, (first + BATCH).to_string()).map_err(failed)?;
    Ok(found.len())
}

/// The first case that was not tried yet.
fn next(target: &FuzzTarget, out: &Path) -> u64 {
    let text = fs::read_to_string(out.join(format!("{}.next", target.name)));
    text.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}
