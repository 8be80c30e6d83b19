//! What a run costs beside models, compilers, judges and devices: the recorded run of the tests is replayed, in which all of these
//! answer at once, and then a hundred of it at the same time.
//!
//! `cargo bench -p akg-core --bench steps`
#![allow(clippy::unwrap_used, missing_docs, reason = "a benchmark")]

#[path = "../tests/replay/run.rs"]
mod run;
#[path = "../tests/simulated/mod.rs"]
mod simulated;
#[path = "../tests/replay/tape.rs"]
mod tape;

use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use akg_core::store::{Replay, StepRecord, Store, StoreExt as _};
use run::{PASSES, here, run};
use simulated::Shared;
use tape::Tape;

/// Runs one after the other.
const RUNS: u32 = 20;

/// Runs at the same time.
const TASKS: usize = 100;

/// Replays the run; gives the time that it took, and the store.
fn replay(recorded: &Arc<dyn Store>) -> (Duration, Replay) {
    let world = Shared::default();
    world.with(|w| w.closed = true);
    let store = Arc::new(Replay::new(Arc::clone(recorded)));
    let began = Instant::now();
    run(&world, store.clone(), PASSES).unwrap();
    let taken = began.elapsed();
    (taken, Arc::into_inner(store).unwrap())
}

/// The most memory that this process has had, in MiB; `None` where the system does not say.
fn most_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? / 1024)
}

fn main() {
    let recorded: Arc<dyn Store> = Arc::new(Tape::read(&here().join("run.jsonl")));
    let (_, store) = replay(&recorded);
    let steps = store.all::<StepRecord>(None).unwrap().len();
    let mut times: Vec<Duration> = (0..RUNS).map(|_| replay(&recorded).0).collect();
    times.sort();
    let millis = |time: Duration| time.as_secs_f64() * 1e3 / steps as f64;
    println!(
        "a run of {steps} steps, {RUNS} times: {:.2} ms a step (fastest {:.2}, slowest {:.2})",
        millis(times[times.len() / 2]),
        millis(times[0]),
        millis(times[times.len() - 1]),
    );
    let together = Barrier::new(TASKS);
    let began = Instant::now();
    // Each keeps its store until all are done.
    let stores: Vec<Replay> = thread::scope(|scope| {
        let task = || {
            together.wait();
            replay(&recorded).1
        };
        let tasks: Vec<_> = (0..TASKS).map(|_| scope.spawn(task)).collect();
        tasks.into_iter().map(|task| task.join().unwrap()).collect()
    });
    let seconds = began.elapsed().as_secs_f64();
    let memory = most_memory().map_or("unknown".to_owned(), |memory| format!("{memory} MiB"));
    println!(
        "{} of them at the same time: {seconds:.1} s, {:.2} ms a step; most memory: {memory}",
        stores.len(),
        seconds * 1e3 / (steps * TASKS) as f64,
    );
}
