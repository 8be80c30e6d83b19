//! Workers that are killed, stopped, hang, fault and send garbage, beside others that do their work.
//!
//! `AKG_CHAOS` is the number of workers that something happens to, 60 if it is not set; `AKG_CHAOS_SEED` decides what.
//! One test, because it counts what belongs to this process.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use akg_core::Tensor;
use akg_core::backend::{Cache, Call, Limits, Poison, RunOutput};
use akg_core::source::{Artifact, LaunchPlan};
use akg_core::turns::Turns;
use akg_core::verdict::{Failure, FailureKind};
use akg_worker::client::Executor;
use akg_worker::seat::Execute as _;
use common::{WORKER, compile, request, simple_plan};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use rustix::process::{Pid, Signal, kill_process};

/// Elements of input and output.
const LENGTH: usize = 5000;

/// A time that nothing here takes unless it hangs.
const LONG: Duration = Duration::from_secs(20);

/// The time after which what hangs is ended.
const SHORT: Duration = Duration::from_secs(1);

/// Calls of each worker.
const ROUNDS: u32 = 4;

/// Threads whose workers something happens to, and threads whose workers nothing happens to.
const VICTIMS: usize = 3;
const OTHERS: usize = 2;

/// What kernels do to themselves. The last two only disturb; their outputs may be right.
const MISDEEDS: [(&str, &str); 10] = [
    ("hang", "for (;;) __asm__ volatile(\"\" ::: \"memory\");"),
    ("null", "*(volatile int *)8 = 1;"),
    ("beyond", "y[2000000] = 1;"),
    ("input", "((volatile float *)x)[0] = 1;"),
    ("aborts", "abort();"),
    ("leave", "exit(0);"),
    ("closes", "for (int fd = 0; fd < 100; fd++) close(fd);"),
    (
        "memory",
        "for (;;) { volatile char *p = (char *)malloc(1 << 20); for (int i = 0; i < 1 << 20; i += 4096) p[i] = 1; }",
    ),
    (
        "garbage",
        "for (int fd = 3; fd < 100; fd++) { unsigned g[64]; for (auto &v : g) v = rand(); write(fd, g, rand() % 256); }",
    ),
    (
        "flood",
        "for (int i = 0; i < 3000; i++) puts(\"flood\"); fflush(stdout);",
    ),
];

/// Every misdeed as a kernel, which copies after it, and a kernel `copy` that does only that.
fn artifact() -> Option<Vec<u8>> {
    let kernel = |name: &str, body: &str| {
        format!(
            "KERNEL({name}) {{ auto x = (const float *)tensors[0]; auto y = (float *)tensors[1]; {body} for (int64_t p = \
             first; p < last; p++) for (int64_t i = 0; i < 50; i++) y[p * 50 + i] = x[p * 50 + i]; }}\n"
        )
    };
    let mut source = kernel("copy", "");
    for (name, body) in MISDEEDS {
        source += &kernel(name, body);
    }
    compile(&source)
}

fn plan(kernel: &str) -> LaunchPlan {
    let mut plan = simple_plan(LENGTH as i64, LENGTH as i64 / 50);
    kernel.clone_into(&mut plan.launches[0].kernel);
    plan
}

/// Loads, and says which process was started.
fn load(artifact: Artifact, time: Duration) -> (Executor, Pid) {
    static LOADING: Mutex<()> = Mutex::new(());
    let mut limits = Limits::default();
    limits.memory = 128 << 20;
    // Misdeeds are made at random, which the object itself would be refused for.
    limits.may_keep_state = true;
    limits.time = time;
    let _alone = LOADING.lock().unwrap_or_else(PoisonError::into_inner);
    let known = children("self");
    let executor = Executor::load(Some(Path::new(WORKER)), artifact, limits)
        .unwrap()
        .unwrap();
    // The system may leave some out while others end.
    let new = || children("self").into_iter().find(|pid| !known.contains(pid));
    (executor, std::iter::repeat_with(new).flatten().next().unwrap())
}

/// The processes that a process started.
fn children(process: &str) -> Vec<Pid> {
    let tasks = fs::read_dir(format!("/proc/{process}/task"))
        .into_iter()
        .flatten();
    tasks
        .flatten()
        .filter_map(|task| fs::read_to_string(task.path().join("children")).ok())
        .flat_map(|ids| {
            let ids = ids.split_whitespace().map(|id| id.parse().unwrap());
            ids.filter_map(Pid::from_raw).collect::<Vec<_>>()
        })
        .collect()
}

/// One call; the output is right, or there is a failure.
fn round(executor: &mut Executor, rng: &mut ChaCha8Rng) -> Result<(), Failure> {
    let values: Vec<f32> = (0..LENGTH).map(|_| rng.random()).collect();
    let call = Call {
        inputs: vec![Tensor::from_slice([LENGTH], &values).unwrap()],
        dims: Default::default(),
        poison: Poison::Ones,
        placement: rng.random_range(0..3),
    };
    executor.bind(vec![call], &Turns::default()).unwrap()?;
    executor.execute(rng.random_range(1..4), Cache::Warm).unwrap()?;
    let RunOutput {
        outputs,
        inputs_unchanged,
    } = executor.take(&[0], &Turns::default()).unwrap()?.remove(0);
    assert!(inputs_unchanged);
    assert_eq!(outputs[0].as_slice::<f32>().unwrap(), values);
    Ok(())
}

/// Something happens to a worker; what comes of it.
fn disturb(bytes: &[u8], rng: &mut ChaCha8Rng) -> (&'static str, Result<(), Failure>) {
    let artifact = |kernel: &str| request(bytes.to_vec(), plan(kernel), Vec::new()).artifact;
    if rng.random_bool(0.5) {
        let (name, _) = MISDEEDS[rng.random_range(0..MISDEEDS.len())];
        let time = if name == "hang" {
            Duration::from_millis(300)
        } else {
            LONG
        };
        let (mut executor, _) = load(artifact(name), time);
        let outcome = (0..ROUNDS).try_for_each(|_| round(&mut executor, rng));
        return (name, outcome);
    }
    let (name, signal) = [
        ("supervisor killed", Signal::KILL),
        ("supervisor told to end", Signal::TERM),
        ("worker killed", Signal::KILL),
        ("worker stopped", Signal::STOP),
    ][rng.random_range(0..4)];
    let time = if signal == Signal::STOP { SHORT } else { LONG };
    let (mut executor, supervisor) = load(artifact("copy"), time);
    let target = if name.starts_with("supervisor") {
        supervisor
    } else {
        *children(&supervisor.as_raw_nonzero().to_string()).last().unwrap()
    };
    let delay = Duration::from_micros(rng.random_range(0..4000));
    let outcome = thread::scope(|scope| {
        scope.spawn(move || {
            thread::sleep(delay);
            // It is not reaped before the executor is dropped, so that the id is nobody else's.
            let _ = kill_process(target, signal);
        });
        (0..ROUNDS).try_for_each(|_| round(&mut executor, rng))
    });
    (name, outcome)
}

/// Whether this outcome of a misdeed is among those that can be.
fn is_plausible(what: &str, outcome: &Result<(), Failure>) -> bool {
    let kind = outcome.as_ref().err().map(|f| f.kind);
    match what {
        "hang" => kind == Some(FailureKind::TimedOut),
        "beyond" => kind == Some(FailureKind::OutOfBounds),
        "input" => kind == Some(FailureKind::InputChanged),
        "memory" => kind == Some(FailureKind::OutOfMemory),
        "null" | "aborts" | "leave" => kind == Some(FailureKind::Crashed),
        // Refused by name where the system has filters.
        "closes" => matches!(kind, Some(FailureKind::Crashed | FailureKind::LeftBehind)),
        "flood" => kind.is_none(),
        // The signal may come late.
        _ => matches!(
            kind,
            None | Some(FailureKind::Crashed | FailureKind::TimedOut | FailureKind::ClockMismatch)
        ),
    }
}

/// Bytes of memory that this process has.
fn resident() -> u64 {
    let statm = fs::read_to_string("/proc/self/statm").unwrap();
    statm.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Processes that run the worker's program.
fn workers() -> usize {
    let program = fs::canonicalize(WORKER).unwrap();
    let processes = fs::read_dir("/proc").unwrap().flatten();
    processes
        .filter(|p| fs::read_link(p.path().join("exe")).is_ok_and(|exe| exe == program))
        .count()
}

#[test]
fn nothing_is_lost_and_nothing_is_left() {
    let setting = |name| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let events: usize = setting("AKG_CHAOS").unwrap_or(60);
    let seed: usize = setting("AKG_CHAOS_SEED").unwrap_or(1);
    let temporary = tempfile::tempdir().unwrap();
    // SAFETY: no other thread of this program runs yet that reads the environment.
    unsafe { std::env::set_var("TMPDIR", temporary.path()) };
    let Some(bytes) = artifact() else { return };

    // Whatever is only made once is made by now.
    let mut rng = ChaCha8Rng::seed_from_u64(seed as u64);
    for _ in 0..10 {
        let (what, outcome) = disturb(&bytes, &mut rng);
        assert!(is_plausible(what, &outcome), "{what}: {outcome:?}");
    }
    let (before, open) = (resident(), descriptors());

    let start = Instant::now();
    let (next, done) = (AtomicUsize::new(0), AtomicBool::new(false));
    let counts = Mutex::new(BTreeMap::<(&str, &str), usize>::new());
    let good = AtomicUsize::new(0);
    thread::scope(|scope| {
        let victims: Vec<_> = (0..VICTIMS)
            .map(|_| {
                scope.spawn(|| {
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number >= events {
                            break;
                        }
                        let mut rng = ChaCha8Rng::seed_from_u64((seed << 32 | number) as u64);
                        let (what, outcome) = disturb(&bytes, &mut rng);
                        assert!(
                            is_plausible(what, &outcome),
                            "event {number}, {what}: {outcome:?}"
                        );
                        let outcome = outcome.map_or_else(|f| f.kind.name(), |()| "pass");
                        let mut counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
                        *counts.entry((what, outcome)).or_default() += 1;
                    }
                })
            })
            .collect();
        for other in 0..OTHERS {
            let (bytes, done, good) = (&bytes, &done, &good);
            scope.spawn(move || {
                let mut rng = ChaCha8Rng::seed_from_u64((seed << 32 | 1 << 31 | other) as u64);
                while !done.load(Ordering::Relaxed) {
                    let artifact = request(bytes.clone(), plan("copy"), Vec::new()).artifact;
                    let mut executor = load(artifact, LONG).0;
                    for _ in 0..20 {
                        round(&mut executor, &mut rng).unwrap();
                        good.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        let failed: Vec<_> = victims.into_iter().filter_map(|v| v.join().err()).collect();
        done.store(true, Ordering::Relaxed);
        assert!(failed.is_empty());
    });

    let (grown, left) = (resident().saturating_sub(before), descriptors());
    println!(
        "{events} events in {:.1} s; {} undisturbed calls, all right; memory grew by {} KiB; descriptors: {open} before, \
         {left} after",
        start.elapsed().as_secs_f64(),
        good.into_inner(),
        grown >> 10
    );
    for ((what, outcome), count) in counts.into_inner().unwrap_or_else(PoisonError::into_inner) {
        println!("{count:5} {what}: {outcome}");
    }
    assert_eq!(left, open);
    assert!(grown < 32 << 20, "memory grew by {grown} bytes");
    let scratch: Vec<_> = fs::read_dir(temporary.path()).unwrap().flatten().collect();
    assert!(scratch.is_empty(), "{scratch:?}");
    let until = Instant::now() + Duration::from_secs(10);
    while workers() > 0 && Instant::now() < until {
        thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(workers(), 0);
}
