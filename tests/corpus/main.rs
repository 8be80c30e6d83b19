//! The corpus: hostile candidates that the judge must reject for the stated reason, and honest ones that it must accept.
//!
//! `cargo test --test corpus` judges a fixed sample. `AKG_CORPUS=all` judges everything, `AKG_CORPUS=2/8` one of eight
//! shards, and `AKG_CORPUS_RESULTS=FILE` keeps one line for each verdict: a run that was interrupted goes on from there.
//! `tests/corpus/README.md` describes the files. The test is its own worker, hence a `main` of its own.
#![expect(clippy::unwrap_used, clippy::panic, reason = "this is a test")]

mod assemble;
mod bundle;
mod elsewhere;
mod entry;
mod kept;
mod plan;
mod reply;
mod sections;
#[path = "../common/shard.rs"]
mod shard;
mod trial;

use std::sync::Arc;

use kept::Kept;
use libtest_mimic::{Arguments, Failed, Trial};
use shard::Shard;

/// One entry in this many is in the sample.
const SAMPLE: u64 = 16;

/// The entries that a run judges.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Scope {
    Sample,
    Shard(Shard),
}

impl Scope {
    /// Reads `AKG_CORPUS`.
    fn from_environment() -> Self {
        let shard = Shard::from_environment("AKG_CORPUS").unwrap();
        shard.map_or(Self::Sample, Self::Shard)
    }

    /// Whether the entry belongs to this run. Follows from its name alone, so that a new entry moves no other.
    fn has(self, name: &str) -> bool {
        let hash = akg::digest::Digest::of(name.as_bytes()).to_string();
        let hash = u64::from_str_radix(&hash[..8], 16).unwrap();
        match self {
            Scope::Sample => hash.is_multiple_of(SAMPLE),
            Scope::Shard(shard) => shard.has(hash),
        }
    }
}

fn main() {
    akg::worker::init();
    let scope = Scope::from_environment();
    let entries = entry::all();
    let (honest, hostile): (Vec<_>, Vec<_>) = entries.iter().partition(|e| e.reasons.is_empty());
    eprintln!(
        "corpus: {} honest and {} hostile candidates",
        honest.len(),
        hostile.len()
    );
    let kept = Arc::new(Kept::from_environment());
    let absence = trial::absence();
    let trials = entries
        .into_iter()
        .filter(|entry| scope.has(&entry.name))
        .map(|entry| {
            let is_absent = absence.concerns(&entry);
            let kept = kept.clone();
            let name = format!("{}/{}", entry.kind(), entry.name);
            Trial::test(name, move || kept.judged(&entry, trial::judge)).with_ignored_flag(is_absent)
        });
    let mut trials: Vec<Trial> = trials.collect();
    trials.push(Trial::test("the rules of other systems", rules_elsewhere).with_ignored_flag(true));
    absence.report();
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

/// Prints how many candidates the rules of other systems get wrong.
fn rules_elsewhere() -> Result<(), Failed> {
    println!("{}", elsewhere::table(&entry::all())?);
    Ok(())
}
