//! A judge of the judge: faults are put into correct kernels, and the verifier must fail them.
//!
//! `cargo test --test mutation` tries a few faults of every kernel. With `-- --ignored --nocapture` it tries more than a
//! thousand and prints what became of them; `docs/mutation.md` says how to read that. The test is its own worker, hence
//! a `main` of its own.

mod campaign;
mod designed;
mod examples;
mod handwritten;
mod operators;
mod report;
mod subjects;
mod tokens;
mod twin;

use std::path::Path;

use akg::{Error, Result};
use campaign::{Bench, Findings};
use libtest_mimic::{Arguments, Trial};
use report::Tally;

/// Faults of each kernel in the sample and in the whole campaign.
const SAMPLE: usize = 2;
const WHOLE: usize = 20;

fn main() {
    akg::worker::init();
    let trial = |name, quota| Trial::test(name, move || Ok(campaign(quota).map_err(|e| e.to_string())?));
    let trials = vec![
        trial("sample", SAMPLE),
        trial("whole", WHOLE).with_ignored_flag(true),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

fn campaign(quota: usize) -> Result<()> {
    let seed = std::env::var("AKG_SEED")
        .ok()
        .and_then(|s| s.parse().ok())
        .unwrap_or(0);
    let bench = Bench::new(seed)?;
    let subjects = bench.subjects()?;
    let quota = std::env::var("AKG_MUTANTS")
        .ok()
        .and_then(|s| s.parse().ok())
        .unwrap_or(quota);
    let Findings {
        mutants,
        originals_failed,
    } = bench.run(&subjects, quota, seed)?;
    println!("{}\n{}", bench.device(), report::report(&subjects, &mutants));
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
    report::keep_passed(&subjects, &mutants, directory)
        .map_err(|e| Error::io(format!("cannot write to {}", directory.display()), e))?;
    assert!(
        originals_failed.is_empty(),
        "correct kernels failed: {originals_failed:#?}"
    );
    let tally = Tally::of(&mutants);
    assert!(tally.detection() >= 0.99, "{} faults escaped", tally.escaped);
    Ok(())
}
