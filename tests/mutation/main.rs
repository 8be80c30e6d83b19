//! A judge of the judge: faults are put into correct kernels, and the verifier must fail them.
//!
//! `cargo test --test mutation` tries a few faults of every kernel. With `-- --ignored --nocapture` it tries more than a
//! thousand and prints what became of them; `docs/mutation.md` says how to read that. The test is its own worker, hence
//! a `main` of its own.

mod campaign;
mod designed;
mod examples;
mod handwritten;
mod kept;
mod operators;
mod report;
#[path = "../common/shard.rs"]
mod shard;
mod subjects;
mod tokens;
mod twin;

use std::path::Path;
use std::str::FromStr;

use akg::{Error, Result};
use campaign::{Bench, Campaign, Findings};
use kept::Kept;
use libtest_mimic::{Arguments, Trial};
use report::Tally;
use shard::Shard;

/// How much a campaign tries.
#[derive(Debug, Clone, Copy)]
struct Scope {
    /// One kernel in so many.
    one_in: usize,
    /// Mutants of each.
    mutants: usize,
    /// The least share of faults to be detected; one escape weighs more among few.
    detection: f64,
    /// Whether races count, which show or do not: with them, two runs need not come to the same.
    races: bool,
}

const SAMPLE: Scope = Scope {
    one_in: 3,
    mutants: 6,
    detection: 0.97,
    races: false,
};
const WHOLE: Scope = Scope {
    one_in: 1,
    mutants: 20,
    detection: 0.99,
    races: true,
};

fn main() {
    akg::worker::init();
    let trial = |name, scope| Trial::test(name, move || Ok(campaign(scope).map_err(|e| e.to_string())?));
    let trials = vec![
        trial("sample", SAMPLE),
        trial("whole", WHOLE).with_ignored_flag(true),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

/// A number from the environment.
fn setting<T: FromStr>(name: &str) -> Option<T> {
    std::env::var(name).ok()?.parse().ok()
}

fn campaign(scope: Scope) -> Result<()> {
    let seed = setting("AKG_SEED").unwrap_or(0);
    let order = Campaign {
        quota: setting("AKG_MUTANTS").unwrap_or(scope.mutants),
        seed,
        shard: Shard::from_environment("AKG_MUTATION")?.unwrap_or(Shard::ALL),
    };
    let bench = Bench::new(seed)?;
    let all = bench.subjects()?.into_iter();
    let subjects: Vec<_> = all
        .skip(seed as usize % scope.one_in)
        .step_by(scope.one_in)
        .collect();
    let Findings {
        mutants,
        originals_failed,
    } = bench.run(&subjects, order, &Kept::from_environment()?)?;
    println!("{}\n{}", bench.device(), report::report(&subjects, &mutants));
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
    report::keep_passed(&subjects, &mutants, directory)
        .map_err(|e| Error::io(format!("cannot write to {}", directory.display()), e))?;
    assert!(
        originals_failed.is_empty(),
        "correct kernels failed: {originals_failed:#?}"
    );
    let tally = Tally::of(mutants.iter().filter(|mutant| scope.races || !mutant.is_race()));
    assert!(
        tally.detection() >= scope.detection,
        "{} faults escaped",
        tally.escaped
    );
    Ok(())
}
