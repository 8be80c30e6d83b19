//! What holds for an artifact that is loaded once and executed many times, whatever it does.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

mod common;

use std::path::Path;
use std::time::{Duration, Instant};

use akg_core::backend::{Cache, Call, Limits, Poison, RunOutput};
use akg_core::dtype::DType;
use akg_core::isolation::IsolationLevel;
use akg_core::source::{LaunchPlan, TensorRole};
use akg_core::turns::Turns;
use akg_core::verdict::{Failure, FailureKind};
use akg_core::{ErrorKind, Expr, Tensor};
use akg_worker::client::Executor;
use akg_worker::seat::Execute as _;
use common::{COPY, WORKER, compile, launch, ramp, request, simple_plan, tensor};

/// Loads C++ with this plan; `None`, said aloud, without a compiler.
fn load(source: &str, plan: LaunchPlan) -> Option<Executor> {
    let artifact = request(compile(source)?, plan, Vec::new()).artifact;
    Some(
        Executor::load(Some(Path::new(WORKER)), artifact, Limits::default())
            .unwrap()
            .unwrap(),
    )
}

/// Loads a kernel body over `x` and `y`, 16 elements of f32 each.
fn load_body(body: &str) -> Option<Executor> {
    load(&format!("KERNEL(kernel) {{ {body} }}"), simple_plan(16, 1))
}

fn call(input: Tensor, placement: u32) -> Call {
    Call {
        inputs: vec![input],
        dims: Default::default(),
        poison: Poison::Ones,
        placement,
    }
}

fn run(executor: &mut Executor, call: Call) -> Result<RunOutput, Failure> {
    executor.bind(vec![call], &Turns::default()).unwrap()?;
    executor.execute(1, Cache::Warm).unwrap()?;
    take(executor)
}

/// The outputs in the first slot.
fn take(executor: &mut Executor) -> Result<RunOutput, Failure> {
    let taken = executor.take(&[0], &Turns::default()).unwrap();
    taken.map(|mut outputs| outputs.remove(0))
}

#[test]
fn outputs_are_those_of_the_last_call() {
    let Some(mut executor) = load(COPY, simple_plan(16, 4)) else {
        return;
    };
    for (value, placement) in [(1.0f32, 0), (2.0, 0), (3.0, 5), (4.0, 0), (5.0, 1)] {
        let x = Tensor::from_slice([16], &[value; 16]).unwrap();
        let output = run(&mut executor, call(x.clone(), placement)).unwrap();
        assert!(output.inputs_unchanged);
        assert_eq!(output.outputs[0].bytes(), x.bytes());
    }
    let nothing_bound = executor.execute(1, Cache::Warm).unwrap_err();
    assert_eq!(nothing_bound.kind(), ErrorKind::InvalidInput);
    assert_eq!(
        executor.take(&[0], &Turns::default()).unwrap_err().kind(),
        ErrorKind::InvalidInput
    );
}

#[test]
fn executions_take_as_long_as_their_kernels() {
    let Some(mut executor) = load_body("usleep(30000);") else {
        return;
    };
    executor
        .bind(vec![call(ramp(16), 0)], &Turns::default())
        .unwrap()
        .unwrap();
    for (calls, cache) in [(1, Cache::Warm), (3, Cache::Warm), (2, Cache::Cold)] {
        let start = Instant::now();
        let taken = executor.execute(calls, cache).unwrap().unwrap();
        assert!(taken >= Duration::from_millis(30) * calls && taken <= start.elapsed());
    }
    executor.execute(0, Cache::Warm).unwrap().unwrap();
}

#[test]
fn a_placement_is_a_set_of_addresses() {
    let n = Expr::symbol("N");
    let mut plan = LaunchPlan {
        dims: vec!["N".into()],
        tensors: vec![
            tensor("x", DType::I64, std::slice::from_ref(&n), TensorRole::Input),
            tensor("y", DType::I64, &[Expr::constant(3)], TensorRole::Output),
            tensor("s", DType::U8, &[&n * &Expr::constant(3)], TensorRole::Scratch),
        ],
        launches: vec![launch("kernel", Expr::constant(1), &[0, 1, 2])],
    };
    plan.tensors[2].align = 512;
    let body =
        "KERNEL(kernel) { for (int i = 0; i < 3; i++) ((int64_t *)tensors[1])[i] = (int64_t)tensors[i]; }";
    let Some(mut executor) = load(body, plan) else {
        return;
    };
    let mut addresses = |n: i64, placement| {
        let call = Call {
            inputs: vec![Tensor::zeros(DType::I64, [n as usize]).unwrap()],
            dims: [("N".into(), n)].into(),
            poison: Poison::Finite,
            placement,
        };
        let y = run(&mut executor, call).unwrap().outputs.remove(0);
        y.as_slice::<i64>().unwrap().to_owned()
    };
    let first = addresses(100, 0);
    let second = addresses(100, 1);
    let third = addresses(100, 2);
    let other_dims = addresses(10_000, 0);
    assert_eq!(addresses(100, 0), first);
    assert_eq!(addresses(100, 1), second);
    assert_eq!(addresses(10_000, 0), other_dims);
    let mut all: Vec<i64> = [first.clone(), second.clone(), third, other_dims].concat();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 12);
    assert!(first.iter().all(|a| a % 4096 == 0));
    // 800, 24 and 300 bytes end as close to the end of a page as their alignment allows.
    let starts: Vec<i64> = second.iter().map(|a| a % 4096).collect();
    assert_eq!(starts, [3264, 4032, 3584]);
}

#[test]
fn accesses_outside_of_tensors_are_told_by_name() {
    // Some are seen when they happen, others by what they leave in the slack.
    let cases = [
        ("y[16] = 1;", 0, "wrote at byte 64 of `y`"),
        ("y[16] = 1;", 1, "wrote at byte 64 of `y`"),
        ("y[-1] = 1;", 0, "wrote 4 bytes before the beginning of `y`"),
        ("y[-1] = 1;", 1, "wrote 4 bytes before the beginning of `y`"),
        ("y[30000] = 1;", 0, "wrote at byte 120000 of `y`"),
        ("y[0] = x[16];", 1, "read at byte 64 of `x`"),
        ("y[0] = x[-1];", 0, "read 4 bytes before the beginning of `x`"),
        (
            "y[0] = x[-30000];",
            1,
            "read 120000 bytes before the beginning of `x`",
        ),
        ("s[8] = 1;", 0, "wrote at byte 8 of `s`, which has 8 bytes"),
        ("s[8] = 1;", 1, "wrote at byte 8 of `s`"),
        ("s[8192] = 1;", 1, "wrote at byte 8192 of `s`"),
    ];
    let mut plan = simple_plan(16, 1);
    plan.tensors
        .push(tensor("s", DType::U8, &[Expr::constant(8)], TensorRole::Scratch));
    plan.launches[0].tensors.push(2);
    for (body, placement, evidence) in cases {
        let source = format!(
            "KERNEL(kernel) {{ auto x = (volatile float *)tensors[0]; auto y = (volatile float *)tensors[1]; auto s = \
             (volatile char *)tensors[2]; {body} }}"
        );
        let Some(mut executor) = load(&source, plan.clone()) else {
            return;
        };
        let failure = run(&mut executor, call(ramp(16), placement)).unwrap_err();
        assert_eq!(
            failure.kind,
            FailureKind::OutOfBounds,
            "{body}: {}",
            failure.evidence
        );
        let told = if cfg!(target_arch = "x86_64") {
            failure.evidence.contains(evidence)
        } else {
            failure.evidence.contains(evidence.split_once(' ').unwrap().1)
        };
        assert!(told, "{body} at {placement}: {}", failure.evidence);
    }
}

#[test]
fn reading_beside_an_input_gives_nan() {
    let Some(mut executor) = load_body("((float *)tensors[1])[0] = ((float *)tensors[0])[16];") else {
        return;
    };
    let y = run(&mut executor, call(ramp(16), 0)).unwrap().outputs.remove(0);
    assert!(y.as_slice::<f32>().unwrap()[0].is_nan());
}

/// Two words that outlive a call without being data of the shared object: the random bytes that the system gives a process.
const WORDS: &str = "
#include <sys/auxv.h>
static uint64_t *words() { return (uint64_t *)getauxval(AT_RANDOM); }
__attribute__((constructor)) static void forget() { words()[0] = words()[1] = 0; }";

#[test]
fn remembered_addresses_are_of_no_use() {
    let source = format!(
        "{WORDS} KERNEL(kernel) {{
            uint64_t *kept = words();
            if (!kept[0]) {{ kept[0] = (uint64_t)tensors[0]; kept[1] = (uint64_t)tensors[1]; }}
            for (int i = 0; i < 16; i++) ((float *)kept[1])[i] = ((float *)kept[0])[i];
        }}"
    );
    let Some(mut executor) = load(&source, simple_plan(16, 1)) else {
        return;
    };
    for value in [1.0f32, 2.0] {
        let x = Tensor::from_slice([16], &[value; 16]).unwrap();
        let y = run(&mut executor, call(x.clone(), 0)).unwrap().outputs.remove(0);
        assert_eq!(y.bytes(), x.bytes());
    }
    let failure = run(&mut executor, call(ramp(16), 2)).unwrap_err();
    assert_eq!(failure.kind, FailureKind::OutOfBounds);
    assert!(failure.evidence.contains("earlier call"), "{}", failure.evidence);
}

/// Sends answers to requests wherever they may be read. Request 5 is the first execution.
const FORGE: &str = r#"
#include <cstring>
#include <initializer_list>
static void forge(std::initializer_list<int> ids, const char *nanoseconds) {
    char text[400];
    size_t length = 0;
    for (int id : ids) {
        uint32_t n = snprintf(text + length + 4, 190, "{\"id\":%d,\"ok\":{\"executed\":{\"nanoseconds\":%s}}}", id, nanoseconds);
        memcpy(text + length, &n, 4);
        length += n + 4;
    }
    // At once: the candidate may be stopped as soon as the first answer is read.
    for (int fd = 3; fd < 64; fd++) write(fd, text, length);
}
"#;

#[test]
fn what_is_written_after_done_does_not_count() {
    let source = format!(
        "{FORGE} KERNEL(kernel) {{ forge({{5}}, \"1\"); usleep(1000000); memcpy(tensors[1], tensors[0], 64); }}"
    );
    let Some(mut executor) = load(&source, simple_plan(16, 1)) else {
        return;
    };
    executor
        .bind(vec![call(ramp(16), 0)], &Turns::default())
        .unwrap()
        .unwrap();
    executor.execute(1, Cache::Warm).unwrap().unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    let output = take(&mut executor).unwrap();
    assert_eq!(output.outputs[0].bytes(), [Poison::Ones.byte(); 64]);
    // The true answer comes when it is not asked for.
    let failure = run(&mut executor, call(ramp(16), 0)).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Crashed);
    assert!(failure.evidence.contains("request 5"), "{}", failure.evidence);
}

#[test]
fn answers_in_advance_are_a_failure() {
    let source = format!("{FORGE} KERNEL(kernel) {{ forge({{5, 6}}, \"1\"); }}");
    let Some(mut executor) = load(&source, simple_plan(16, 1)) else {
        return;
    };
    executor
        .bind(vec![call(ramp(16), 0)], &Turns::default())
        .unwrap()
        .unwrap();
    executor.execute(1, Cache::Warm).unwrap().unwrap();
    let failure = executor.execute(1, Cache::Warm).unwrap().unwrap_err();
    assert_eq!(failure.kind, FailureKind::Crashed);
    assert!(
        failure.evidence.contains("without being asked"),
        "{}",
        failure.evidence
    );
}

#[test]
fn a_clock_that_contradicts_the_callers_is_a_failure() {
    let source = format!("{FORGE} KERNEL(kernel) {{ forge({{5}}, \"123456789012\"); }}");
    let Some(mut executor) = load(&source, simple_plan(16, 1)) else {
        return;
    };
    let failure = run(&mut executor, call(ramp(16), 0)).unwrap_err();
    assert_eq!(failure.kind, FailureKind::ClockMismatch);
    assert!(failure.evidence.contains("123.45"), "{}", failure.evidence);
}

#[test]
fn a_candidate_has_no_threads_of_its_own() {
    let source = r#"
#include <pthread.h>
static void *work(void *) { for (;;) __asm__ volatile(""); }
__attribute__((constructor)) static void start() { pthread_t thread; pthread_create(&thread, nullptr, work, nullptr); }
KERNEL(kernel) { ((uint64_t *)tensors[1])[0] = 1; }"#;
    let Some(bytes) = compile(source) else {
        return;
    };
    let mut plan = simple_plan(2, 1);
    plan.tensors[1] = tensor("y", DType::I64, &[Expr::constant(1)], TensorRole::Output);
    let artifact = request(bytes, plan, Vec::new()).artifact;
    // Where the system has filters, it is refused; elsewhere it is found.
    let loaded = Executor::load(Some(Path::new(WORKER)), artifact, Limits::default()).unwrap();
    let failure = loaded.unwrap_err();
    let found = match failure.kind {
        FailureKind::Crashed => "kernels start no threads",
        _ => "a thread was started",
    };
    assert!(failure.evidence.contains(found), "{}", failure.evidence);
}

#[test]
fn the_failure_that_ended_a_candidate_stays() {
    let Some(mut executor) = load_body("*(volatile int *)8 = 1;") else {
        return;
    };
    let first = run(&mut executor, call(ramp(16), 0)).unwrap_err();
    assert_eq!(first.kind, FailureKind::Crashed);
    let again = executor
        .bind(vec![call(ramp(16), 0)], &Turns::default())
        .unwrap()
        .unwrap_err();
    assert_eq!(again.evidence, first.evidence);
}

#[test]
fn more_cooperative_programs_get_more_threads() {
    let source = r#"
extern "C" void kernel(void *const *tensors, const int64_t *dims, int64_t program, const akg_team *team) {
    auto y = (volatile int64_t *)tensors[1]; int64_t n = dims[0];
    y[program] = program;
    team->barrier(team->context);
    int64_t left = y[(program + n - 1) % n];
    team->barrier(team->context);
    y[program] += left;
}"#;
    let n = Expr::symbol("N");
    let mut plan = LaunchPlan {
        dims: vec!["N".into()],
        tensors: vec![
            tensor("x", DType::I64, std::slice::from_ref(&n), TensorRole::Input),
            tensor("y", DType::I64, std::slice::from_ref(&n), TensorRole::Output),
        ],
        launches: vec![launch("kernel", n, &[0, 1])],
    };
    plan.launches[0].cooperative = true;
    let Some(mut executor) = load(source, plan) else {
        return;
    };
    for n in [2i64, 7, 3, 7] {
        let call = Call {
            inputs: vec![Tensor::zeros(DType::I64, [n as usize]).unwrap()],
            dims: [("N".into(), n)].into(),
            poison: Poison::Ones,
            placement: 0,
        };
        let y = run(&mut executor, call).unwrap().outputs.remove(0);
        let expected: Vec<i64> = (0..n).map(|p| p + (p + n - 1) % n).collect();
        assert_eq!(y.as_slice::<i64>().unwrap(), expected);
    }
}

#[test]
fn isolation_below_the_required_level_is_refused() {
    let Some(bytes) = compile(COPY) else { return };
    let artifact = request(bytes, simple_plan(16, 4), Vec::new()).artifact;
    let load = |level| {
        let mut limits = Limits::default();
        limits.isolation = level;
        Executor::load(Some(Path::new(WORKER)), artifact.clone(), limits)
    };
    let reached = load(IsolationLevel::None).unwrap().unwrap().isolation().level;
    for level in IsolationLevel::ALL {
        match load(level) {
            Ok(executor) => assert!(executor.is_ok() && level <= reached),
            Err(error) => {
                assert!(level > reached);
                assert_eq!(error.kind(), ErrorKind::Unsupported);
            }
        }
    }
}

/// Calls on several slots, the second input the same tensor in all.
#[test]
fn calls_go_round_slots_that_lie_apart() {
    let source = "KERNEL(kernel) {
        auto x = (const float *)tensors[0]; auto w = (const float *)tensors[1]; auto y = (float *)tensors[2];
        for (int i = 0; i < 16; i++) y[i] = x[i] + w[i];
        ((int64_t *)tensors[3])[0] = (int64_t)tensors[0]; ((int64_t *)tensors[3])[1] = (int64_t)tensors[1];
        ((int64_t *)tensors[3])[2] = (int64_t)tensors[2];
    }";
    let shape = [Expr::constant(16)];
    let plan = LaunchPlan {
        dims: Vec::new(),
        tensors: vec![
            tensor("x", DType::F32, &shape, TensorRole::Input),
            tensor("w", DType::F32, &shape, TensorRole::Input),
            tensor("y", DType::F32, &shape, TensorRole::Output),
            tensor("places", DType::I64, &[Expr::constant(3)], TensorRole::Output),
        ],
        launches: vec![launch("kernel", Expr::constant(1), &[0, 1, 2, 3])],
    };
    let Some(mut executor) = load(source, plan) else {
        return;
    };
    let w = Tensor::from_slice([16], &[100.0f32; 16]).unwrap();
    let slots = |count: usize, placement: u32, first: f32| -> Vec<Call> {
        let call = |slot: usize| Call {
            inputs: vec![
                Tensor::from_slice([16], &[first + slot as f32; 16]).unwrap(),
                w.clone(),
            ],
            dims: Default::default(),
            poison: if slot.is_multiple_of(2) {
                Poison::Ones
            } else {
                Poison::Finite
            },
            placement,
        };
        (0..count).map(call).collect()
    };
    assert!(executor.slots(&Default::default()).unwrap() >= 100);
    for (placement, first) in [(0, 1.0), (1, 50.0), (0, 7.0)] {
        executor
            .bind(slots(5, placement, first), &Turns::default())
            .unwrap()
            .unwrap();
        for calls in [2, 0, 1] {
            executor.execute(calls, Cache::Warm).unwrap().unwrap();
        }
        assert_eq!(executor.untouched(5).unwrap(), [3, 4]);
        assert_eq!(executor.untouched(3).unwrap(), [] as [usize; 0]);
        let taken = executor.take(&[4, 1, 2, 0], &Turns::default()).unwrap().unwrap();
        assert_eq!(taken[0].outputs[0].bytes(), [Poison::Ones.byte(); 64]);
        let mut places = Vec::new();
        for (output, slot) in taken[1..].iter().zip([1.0, 2.0, 0.0]) {
            assert!(output.inputs_unchanged);
            assert_eq!(
                output.outputs[0].as_slice::<f32>().unwrap(),
                [first + slot + 100.0; 16]
            );
            places.push(output.outputs[1].as_slice::<i64>().unwrap().to_vec());
        }
        let apart = |at: usize| {
            places
                .iter()
                .map(|p| p[at])
                .collect::<std::collections::BTreeSet<_>>()
                .len()
        };
        assert_eq!([apart(0), apart(1), apart(2)], [3, 1, 3]);
        assert!(places.iter().all(|p| (p[0] % 4096 == 0) == (placement == 0)));
        assert_eq!(
            executor.take(&[0], &Turns::default()).unwrap_err().kind(),
            ErrorKind::InvalidInput
        );
    }
    // More calls than slots go round.
    executor
        .bind(slots(2, 0, 0.0), &Turns::default())
        .unwrap()
        .unwrap();
    executor.execute(7, Cache::Warm).unwrap().unwrap();
    assert_eq!(executor.untouched(2).unwrap(), [] as [usize; 0]);
}

#[test]
fn a_fault_in_any_slot_is_told_by_its_tensor() {
    let source = "KERNEL(kernel) {
        auto x = (const float *)tensors[0]; auto y = (float *)tensors[1];
        for (int i = 0; i < 1024; i++) y[i] = x[0] == 3 ? x[i + 1024] : x[i];
    }";
    let Some(mut executor) = load(source, simple_plan(1024, 1)) else {
        return;
    };
    let calls = (0..5).map(|slot| call(Tensor::from_slice([1024], &[slot as f32; 1024]).unwrap(), 0));
    executor
        .bind(calls.collect(), &Turns::default())
        .unwrap()
        .unwrap();
    executor.execute(3, Cache::Warm).unwrap().unwrap();
    let failure = executor.execute(1, Cache::Warm).unwrap().unwrap_err();
    assert_eq!(failure.kind, FailureKind::OutOfBounds);
    assert!(
        failure
            .evidence
            .contains("byte 4096 of `x`, which has 4096 bytes"),
        "{}",
        failure.evidence
    );
}
