//! Graphs in half types through C++ and a worker. The test is its own worker, hence a `main` of its own.
#![expect(clippy::unwrap_used, clippy::panic, reason = "this is a test")]

use akg::conformance::half::{HalfCase, cases};
use akg::conformance::random::{Finding, run};
use akg::cpp::{CppConfig, CppDsl};
use akg::cpu::CpuBackend;
use akg::{Backend as _, Target};
use futures::executor::block_on;
use libtest_mimic::{Arguments, Trial};

fn main() {
    akg::worker::init();
    let trials = cases().unwrap().into_iter().map(|case| {
        let name = case.case.task.name.clone();
        Trial::test(name, move || {
            is_right(&case);
            Ok(())
        })
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit();
}

fn is_right(case: &HalfCase) {
    let mut config = CppConfig::default();
    config.flags = vec!["-O1".to_owned()];
    let (dsl, cpu) = (CppDsl::new(config), CpuBackend::builder().build());
    let host: Target = block_on(cpu.devices()).unwrap().remove(0);
    match block_on(run(&case.case, &dsl, &cpu, &host)).unwrap() {
        Finding::Verified => {}
        finding => panic!("{finding:?}"),
    }
}
