//! Random graphs through C++ and a worker. The test is its own worker, hence a `main` of its own.
#![expect(clippy::unwrap_used, clippy::panic, reason = "this is a test")]

use akg::conformance::random::{Case, Finding, kept, run, shrink};
use akg::cpp::{CppConfig, CppDsl};
use akg::cpu::CpuBackend;
use akg::{Backend as _, Target};
use futures::executor::block_on;
use libtest_mimic::{Arguments, Trial};

/// The first seed: a number, or `fresh` for another at every run; and how many are tried.
const FIRST: &str = "AKG_RANDOM_SEED";
const COUNT: u64 = 12;

fn main() {
    akg::worker::init();
    let first = match std::env::var(FIRST).ok().as_deref() {
        Some("fresh") => u64::from(rand::random::<u32>()),
        first => first.map_or(0, |first| first.parse().unwrap()),
    };
    let trials = vec![
        Trial::test("kept_seeds_are_right_in_cpp", || {
            try_all(kept().map(|kept| kept.seed));
            Ok(())
        }),
        Trial::test("seeds_are_right_in_cpp", move || {
            println!("to try the same graphs again: {FIRST}={first}");
            try_all(first..first + COUNT);
            Ok(())
        }),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

fn try_all(seeds: impl Iterator<Item = u64>) {
    let mut config = CppConfig::default();
    config.flags = vec!["-O1".to_owned()];
    let (dsl, cpu) = (CppDsl::new(config), CpuBackend::builder().build());
    let host: Target = block_on(cpu.devices()).unwrap().remove(0);
    let go = |case: &Case| block_on(run(case, &dsl, &cpu, &host));
    for seed in seeds {
        let case = Case::new(seed).unwrap();
        if let Finding::Wrong(_) = go(&case).unwrap() {
            let small = shrink(&case, &|case| matches!(go(case), Ok(Finding::Wrong(_))));
            panic!("{small}\n{:?}\n\nwhich is a part of\n{case}", go(&small).unwrap());
        }
    }
}
