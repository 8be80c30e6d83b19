//! What candidates leave behind in their process, each rejected by name, and honest candidates that leave nothing.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

mod common;
#[path = "leftovers/honest.rs"]
mod honest;
#[path = "leftovers/planted.rs"]
mod planted;

use std::fmt::Write as _;
use std::path::Path;

use akg_core::backend::{Cache, Call, Limits, Poison};
use akg_core::isolation::IsolationLevel;
use akg_core::source::LaunchPlan;
use akg_core::turns::Turns;
use akg_core::verdict::{Failure, FailureKind};
use akg_worker::client::Executor;
use akg_worker::seat::Execute as _;
use common::{WORKER, compile, ramp, request, simple_plan};
use planted::Planted;

/// What the bodies of kernels use.
const PROLOGUE: &str = r#"
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cfenv>
#include <cinttypes>
#include <cmath>
#include <cstring>
#include <fcntl.h>
#include <linux/sched.h>
#include <pthread.h>
#include <sched.h>
#include <sstream>
#include <stdexcept>
#include <string>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif
extern char **environ;
// The first address of the map that holds an address.
static char *map_of(const void *address) {
    FILE *maps = fopen("/proc/self/maps", "re");
    unsigned long start, end, found = 0;
    char line[4096];
    while (maps && fgets(line, sizeof line, maps))
        if (sscanf(line, "%lx-%lx", &start, &end) == 2 && start <= (unsigned long)address && (unsigned long)address < end) found = start;
    if (maps) fclose(maps);
    return (char *)found;
}
static void on_signal(int) {}
static void *idle(void *) { for (;;) pause(); }
"#;

/// Kernels that copy four elements in each program, and then do what the case in their one dim says.
fn source(bodies: &[&str]) -> String {
    let mut cases = String::new();
    for (number, body) in bodies.iter().enumerate() {
        writeln!(cases, "case {number}: {{ {body} }} break;").unwrap();
    }
    format!(
        "{PROLOGUE} KERNEL(kernel) {{ auto x = (const float *)tensors[0]; auto y = (float *)tensors[1]; \
         for (int64_t p = first; p < last; p++) for (int64_t i = 0; i < 4; i++) y[p * 4 + i] = x[p * 4 + i]; \
         switch (dims[0]) {{\n{cases}}} }}"
    )
}

fn plan() -> LaunchPlan {
    LaunchPlan {
        dims: vec!["CASE".into()],
        ..simple_plan(16, 4)
    }
}

fn load(object: &[u8]) -> Result<Executor, Failure> {
    let artifact = request(object.to_vec(), plan(), Vec::new()).artifact;
    let mut limits = Limits::default();
    // Some leave behind what the object itself would be refused for.
    limits.may_keep_state = true;
    Executor::load(Some(Path::new(WORKER)), artifact, limits).unwrap()
}

/// Binds, executes twice and takes; whether the copy is right.
fn run(executor: &mut Executor, case: usize, placement: u32) -> Result<(), Failure> {
    let call = Call {
        inputs: vec![ramp(16)],
        dims: [("CASE".into(), case as i64)].into(),
        poison: Poison::Ones,
        placement,
    };
    executor.bind(vec![call], &Turns::default()).unwrap()?;
    executor.execute(1, Cache::Warm).unwrap()?;
    executor.execute(1, Cache::Warm).unwrap()?;
    let output = executor.take(&[0], &Turns::default()).unwrap()?.remove(0);
    assert_eq!(output.outputs.first().unwrap().bytes(), ramp(16).bytes());
    Ok(())
}

/// The compiled cases; `None`, said aloud, without a compiler, or if the system lacks what stops some of them.
fn cases(bodies: &[&str]) -> Option<Vec<u8>> {
    let object = compile(&source(bodies))?;
    let executor = load(&object).unwrap();
    let isolation = executor.isolation();
    if isolation.level < IsolationLevel::Strict {
        eprintln!("SKIPPED: this system reaches {isolation}");
        return None;
    }
    Some(object)
}

fn assert_rejected(planted: &Planted, failure: &Failure) -> Result<(), String> {
    let Planted {
        name, kind, evidence, ..
    } = planted;
    let named = failure.kind == *kind && failure.evidence.contains(evidence);
    named
        .then_some(())
        .ok_or_else(|| format!("{name}: {} {}", failure.kind.name(), failure.evidence))
}

#[test]
fn every_leftover_is_rejected_by_name() {
    let bodies: Vec<_> = planted::KERNELS.iter().map(|planted| planted.body).collect();
    let Some(object) = cases(&bodies) else { return };
    let outcomes = planted::KERNELS.iter().enumerate().map(|(case, planted)| {
        match run(&mut load(&object).unwrap(), case, 0) {
            Ok(()) => Err(format!("{}: accepted", planted.name)),
            Err(failure) => assert_rejected(planted, &failure),
        }
    });
    let wrong: Vec<_> = outcomes.filter_map(Result::err).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(planted::KERNELS.len() >= 20);
}

#[test]
fn loading_leaves_nothing_either() {
    if cases(&[""]).is_none() {
        return;
    }
    let outcomes = planted::INITIALISERS.iter().map(|planted| {
        let object = compile(&format!(
            "{}\n__attribute__((constructor)) static void begin() {{ {} }}",
            source(&[""]),
            planted.body
        ));
        match load(&object.unwrap()) {
            Ok(_) => Err(format!("{}: accepted", planted.name)),
            Err(failure) => assert_rejected(planted, &failure),
        }
    });
    let wrong: Vec<_> = outcomes.filter_map(Result::err).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn honest_candidates_leave_nothing() {
    let bodies: Vec<_> = honest::KERNELS.iter().map(|(_, body)| *body).collect();
    let Some(object) = cases(&bodies) else { return };
    let outcomes = honest::KERNELS.iter().enumerate().map(|(case, (name, _))| {
        let mut executor = load(&object).unwrap();
        for placement in [0, 0, 1] {
            run(&mut executor, case, placement)
                .map_err(|failure| format!("{name}: {} {}", failure.kind.name(), failure.evidence))?;
        }
        Ok(())
    });
    let wrong: Vec<String> = outcomes.filter_map(Result::err).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// What a kernel leaves in a thread does not reach the next kernel there: each launch begins in the ABI's state.
#[test]
fn a_state_that_was_left_is_set_back() {
    let Some(object) = cases(&[
        "fesetround(FE_UPWARD); asm volatile(\"\" ::: \"memory\");",
        "volatile float one = 1, tiny = 1e-20f; if (one + tiny != 1) y[first * 4] = 77;",
    ]) else {
        return;
    };
    let mut executor = load(&object).unwrap();
    let failure = run(&mut executor, 0, 0).unwrap_err();
    assert_eq!(failure.kind, FailureKind::LeftBehind);
    // Whoever left something is not asked again.
    assert_eq!(run(&mut executor, 1, 0).unwrap_err().evidence, failure.evidence);
    run(&mut load(&object).unwrap(), 1, 0).unwrap();
}

#[test]
fn output_is_limited() {
    let Some(object) = cases(&[
        "for (int i = 0; i < 1000; i++) puts(\"a line of text\"); fflush(stdout);",
        "static const std::string text(1 << 16, 'x'); for (;;) if (write(1, text.data(), text.size()) < 0) break;",
    ]) else {
        return;
    };
    run(&mut load(&object).unwrap(), 0, 0).unwrap();
    let failure = run(&mut load(&object).unwrap(), 1, 0).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Crashed);
    let text = &failure.evidence;
    assert!(
        text.contains("standard output") && text.len() < 1 << 18,
        "{text:.200}"
    );
}
