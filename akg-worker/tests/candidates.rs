//! Candidates, well-behaved and hostile, compiled by the system's C++ compiler and run in real workers.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use akg_core::backend::{Poison, RunRequest};
use akg_core::dtype::DType;
use akg_core::source::{LaunchPlan, TensorRole};
use akg_core::verdict::{Failure, FailureKind};
use akg_core::{ErrorKind, Expr, Tensor};
use akg_worker::shm;
use common::{COPY, WORKER, compile, launch, ramp, request, run, simple_plan, tensor, try_run};

fn hostile_request(bytes: Vec<u8>) -> RunRequest {
    let mut request = request(bytes, simple_plan(16, 4), vec![ramp(16)]);
    request.limits.memory = 256 << 20;
    request.limits.time = Duration::from_secs(20);
    request
}

/// How a candidate with this kernel body fails.
fn failure(body: &str) -> Option<Failure> {
    let bytes = compile(&format!("KERNEL(kernel) {{ {body} }}"))?;
    Some(run(&hostile_request(bytes)).unwrap_err())
}

/// Asserts how a candidate fails, and that its evidence says so.
fn assert_fails(body: &str, kind: FailureKind, evidence: &str) {
    if let Some(failure) = failure(body) {
        assert_eq!(failure.kind, kind, "{}", failure.evidence);
        assert!(failure.evidence.contains(evidence), "{}", failure.evidence);
    }
}

#[test]
fn programs_cover_the_grid_exactly_once() {
    let Some(bytes) = compile(
        r"
KERNEL(kernel) {
    auto x = (const float *)tensors[0]; auto y = (const float *)tensors[1]; auto z = (float *)tensors[2];
    for (int64_t p = first; p < last; p++) for (int64_t i = 0; i < 8; i++) z[p * 8 + i] = x[p * 8 + i] + y[p * 8 + i];
}
KERNEL(count) {
    auto n = (int32_t *)tensors[0];
    for (int64_t p = first; p < last; p++) __atomic_fetch_add(&n[p], 1, __ATOMIC_RELAXED);
}
KERNEL(zero) {
    auto n = (int32_t *)tensors[0];
    for (int64_t p = first; p < last; p++) n[p] = 0;
}",
    ) else {
        return;
    };
    for programs in [1i64, 2, 3, 7, 64, 1001] {
        let n = programs * 8;
        let shape = [Expr::constant(n)];
        let plan = LaunchPlan {
            dims: Vec::new(),
            tensors: vec![
                tensor("x", DType::F32, &shape, TensorRole::Input),
                tensor("y", DType::F32, &shape, TensorRole::Input),
                tensor("z", DType::F32, &shape, TensorRole::Output),
                tensor("n", DType::I32, &[Expr::constant(programs)], TensorRole::Output),
            ],
            launches: vec![
                launch("kernel", Expr::constant(programs), &[0, 1, 2]),
                launch("zero", Expr::constant(programs), &[3]),
                launch("count", Expr::constant(programs), &[3]),
            ],
        };
        let x = ramp(n as usize);
        let output = run(&request(bytes.clone(), plan, vec![x.clone(), x.clone()])).unwrap();
        assert!(output.inputs_unchanged);
        let sums: Vec<f32> = x.as_slice::<f32>().unwrap().iter().map(|v| v + v).collect();
        assert_eq!(output.outputs[0].as_slice::<f32>().unwrap(), sums);
        assert_eq!(
            output.outputs[1].as_slice::<i32>().unwrap(),
            vec![1; programs as usize]
        );
    }
}

#[test]
fn kernels_of_a_plan_share_scratch_and_dims() {
    let Some(bytes) = compile(
        r"
KERNEL(square) {
    auto x = (const double *)tensors[0]; auto s = (double *)tensors[1]; int64_t m = dims[1];
    for (int64_t p = first; p < last; p++) for (int64_t j = 0; j < m; j++) s[p * m + j] = x[p * m + j] * x[p * m + j];
}
KERNEL(sum_rows) {
    auto s = (const double *)tensors[0]; auto y = (double *)tensors[1]; int64_t m = dims[1];
    for (int64_t p = first; p < last; p++) { y[p] = 0; for (int64_t j = 0; j < m; j++) y[p] += s[p * m + j]; }
}",
    ) else {
        return;
    };
    let (n, m) = (Expr::symbol("N"), Expr::symbol("M"));
    let matrix = [n.clone(), m.clone()];
    let plan = LaunchPlan {
        dims: vec!["N".into(), "M".into()],
        tensors: vec![
            tensor("x", DType::F64, &matrix, TensorRole::Input),
            tensor("s", DType::F64, &matrix, TensorRole::Scratch),
            tensor("y", DType::F64, std::slice::from_ref(&n), TensorRole::Output),
        ],
        launches: vec![
            launch("square", n.clone(), &[0, 1]),
            launch("sum_rows", n, &[1, 2]),
        ],
    };
    for (n, m) in [(5usize, 3usize), (1, 700), (4, 0), (0, 4)] {
        let values: Vec<f64> = (0..n * m).map(|i| i as f64).collect();
        let x = Tensor::from_slice([n, m], &values).unwrap();
        let mut request = request(bytes.clone(), plan.clone(), vec![x]);
        request.dims = [("N".into(), n as i64), ("M".into(), m as i64)].into();
        let y = run(&request).unwrap().outputs.remove(0);
        let expected: Vec<f64> = (0..n)
            .map(|i| values[i * m..(i + 1) * m].iter().map(|v| v * v).sum())
            .collect();
        assert_eq!(
            (y.shape(), y.as_slice::<f64>().unwrap()),
            (&[n][..], &expected[..])
        );
    }
    let mut request = request(bytes, plan, vec![Tensor::zeros(DType::F64, [2, 3]).unwrap()]);
    request.dims = [("N".into(), 2)].into();
    let error = try_run(Path::new(WORKER), &request).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains('M'), "{error}");
}

#[test]
fn cooperative_programs_meet_at_the_barrier() {
    // Each program repeatedly adds its left neighbour's value: wrong as soon as one runs ahead.
    let Some(bytes) = compile(
        r#"
extern "C" void kernel(void *const *tensors, const int64_t *dims, int64_t program, const akg_team *team) {
    auto y = (volatile int64_t *)tensors[1]; int64_t n = dims[0];
    y[program] = program;
    team->barrier(team->context);
    for (int round = 0; round < 50; round++) {
        int64_t left = y[(program + n - 1) % n];
        team->barrier(team->context);
        y[program] += left;
        team->barrier(team->context);
    }
}"#,
    ) else {
        return;
    };
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
    for n in [1usize, 3, 20] {
        let mut request = request(
            bytes.clone(),
            plan.clone(),
            vec![Tensor::zeros(DType::I64, [n]).unwrap()],
        );
        request.dims = [("N".into(), n as i64)].into();
        let mut expected: Vec<i64> = (0..n as i64).collect();
        for _ in 0..50 {
            let before = expected.clone();
            for i in 0..n {
                expected[i] = before[i].wrapping_add(before[(i + n - 1) % n]);
            }
        }
        let y = run(&request).unwrap().outputs.remove(0);
        assert_eq!(y.as_slice::<i64>().unwrap(), expected);
    }
    let mut request = request(bytes, plan, vec![Tensor::zeros(DType::I64, [100_000]).unwrap()]);
    request.dims = [("N".into(), 100_000)].into();
    assert_eq!(run(&request).unwrap_err().kind, FailureKind::LoadFailed);
}

#[test]
fn what_is_not_written_keeps_the_poison() {
    let Some(bytes) =
        compile("KERNEL(kernel) { for (int64_t p = first; p < last; p++) ((float *)tensors[1])[p] = 1; }")
    else {
        return;
    };
    for poison in [Poison::Ones, Poison::Finite] {
        let mut request = hostile_request(bytes.clone());
        request.poison = poison;
        let output = run(&request).unwrap().outputs.remove(0);
        assert_eq!(output.as_slice::<f32>().unwrap()[..4], [1.0; 4]);
        assert_eq!(output.bytes()[16..], [poison.byte(); 48]);
    }
}

#[test]
fn inputs_cannot_be_written() {
    let Some(bytes) = compile("KERNEL(kernel) { ((float *)tensors[0])[3] = 42; }") else {
        return;
    };
    let request = hostile_request(bytes);
    let failure = run(&request).unwrap_err();
    assert_eq!(failure.kind, FailureKind::InputChanged, "{}", failure.evidence);
    assert!(
        failure.evidence.contains("byte 12 of `x`"),
        "{}",
        failure.evidence
    );
    assert_eq!(request.inputs[0].as_slice::<f32>().unwrap()[3], 3.0);
}

#[test]
fn tensors_in_shared_memory_are_inputs_too() {
    let Some(bytes) = compile(COPY) else { return };
    let mut x = shm::allocate(DType::F32, [16]).unwrap();
    x.bytes_mut().copy_from_slice(ramp(16).bytes());
    let request = request(bytes, simple_plan(16, 4), vec![x.freeze().unwrap()]);
    let first = run(&request).unwrap().outputs.remove(0);
    assert_eq!(first.bytes(), ramp(16).bytes());
    let again = RunRequest {
        inputs: vec![first],
        ..request
    };
    assert_eq!(run(&again).unwrap().outputs[0].bytes(), ramp(16).bytes());
}

#[test]
fn crashes_are_told_by_their_signal() {
    assert_fails("*(volatile int *)8 = 1;", FailureKind::Crashed, "SIGSEGV");
    assert_fails("abort();", FailureKind::Crashed, "SIGABRT");
    assert_fails("__builtin_trap();", FailureKind::Crashed, "SIGILL");
    assert_fails("throw 5;", FailureKind::Crashed, "SIGABRT");
    assert_fails("raise(SIGKILL);", FailureKind::Crashed, "SIGKILL");
}

#[test]
fn endless_recursion_is_a_crash() {
    let recursion = "struct R { static int64_t go(volatile int64_t *p) { volatile int64_t a[64]; a[p[0] & 63] = (int64_t)p; \
                     return go(a) + a[1]; } }; int64_t x = 1; ((float *)tensors[1])[0] = R::go(&x);";
    assert_fails(recursion, FailureKind::Crashed, "SIGSEGV");
}

#[test]
fn ending_the_process_is_a_crash_whatever_the_status() {
    assert_fails("exit(0);", FailureKind::Crashed, "exit status 0");
    assert_fails("_exit(0);", FailureKind::Crashed, "exit status 0");
    assert_fails("exit(7);", FailureKind::Crashed, "exit status 7");
}

#[test]
fn an_endless_loop_times_out() {
    let Some(bytes) = compile("KERNEL(kernel) { for (;;) __asm__ volatile(\"\" ::: \"memory\"); }") else {
        return;
    };
    let mut request = hostile_request(bytes);
    request.limits.time = Duration::from_secs(1);
    assert_eq!(run(&request).unwrap_err().kind, FailureKind::TimedOut);
}

#[test]
fn eating_memory_is_told_from_crashing() {
    let malloc = "for (;;) { volatile char *p = (char *)malloc(1 << 20); for (int i = 0; i < 1 << 20; i += 4096) p[i] = 1; }";
    assert_fails(malloc, FailureKind::OutOfMemory, "memory");
    let untouched = "for (;;) { volatile char *p = (char *)malloc(8 << 20); p[0] = 1; }";
    assert_fails(untouched, FailureKind::OutOfMemory, "memory");
    let new = "for (;;) { volatile char *p = new char[1 << 20]; p[0] = 1; }";
    assert_fails(new, FailureKind::OutOfMemory, "memory");
    let vector = "std::vector<double> v(size_t(1) << 34); ((float *)tensors[1])[0] = v[first];";
    assert_fails(vector, FailureKind::OutOfMemory, "memory");
}

#[test]
fn scratch_counts_as_the_candidates_memory() {
    let Some(bytes) = compile(COPY) else { return };
    let mut request = hostile_request(bytes);
    let shape = [Expr::constant(1 << 40)];
    request
        .artifact
        .plan
        .tensors
        .push(tensor("huge", DType::F32, &shape, TensorRole::Scratch));
    let failure = run(&request).unwrap_err();
    assert_eq!(failure.kind, FailureKind::OutOfMemory);
    assert!(failure.evidence.contains("huge"), "{}", failure.evidence);
}

#[test]
fn prints_do_not_disturb_the_protocol() {
    let Some(bytes) = compile(&COPY.replace(
        "auto x",
        "for (int i = 0; i < 20000; i++) { puts(\"garbage\"); } fflush(stdout); auto x",
    )) else {
        return;
    };
    assert_eq!(
        run(&hostile_request(bytes)).unwrap().outputs[0].bytes(),
        ramp(16).bytes()
    );
}

#[test]
fn closed_and_abused_descriptors_are_crashes() {
    // Where the system has filters, the call ends it; elsewhere the worker cannot answer.
    for body in [
        "for (int fd = 0; fd < 1000; fd++) close(fd);",
        "for (int fd = 0; fd < 1000; fd++) close(fd); for (;;) sleep(1);",
    ] {
        if let Some(failure) = failure(body) {
            let closes = failure.kind == FailureKind::LeftBehind && failure.evidence.contains("`close`");
            assert!(
                closes || failure.kind == FailureKind::Crashed,
                "{}",
                failure.evidence
            );
        }
    }
    let garbage =
        "for (int fd = 3; fd < 1000; fd++) { write(fd, \"garbage garbage\", 15); } for (;;) sleep(1);";
    assert_fails(garbage, FailureKind::Crashed, "");
}

#[test]
fn processes_of_its_own_are_a_failure() {
    // In strict isolation there is no second process.
    let body = "if (first == 0) { auto child = fork(); if (child < 0) abort(); if (child == 0) { setsid(); alarm(20); for \
                (;;) pause(); } }";
    assert_fails(body, FailureKind::Crashed, "");
}

#[test]
fn what_cannot_be_loaded_says_why() {
    let failure = run(&hostile_request(b"this is no shared object".to_vec())).unwrap_err();
    assert_eq!(failure.kind, FailureKind::LoadFailed);

    let Some(bytes) = compile(&COPY.replace("kernel", "other")) else {
        return;
    };
    let failure = run(&hostile_request(bytes)).unwrap_err();
    assert_eq!(failure.kind, FailureKind::LoadFailed);
    assert!(failure.evidence.contains("`kernel`"), "{}", failure.evidence);

    let undefined =
        compile("extern int missing_function(int); KERNEL(kernel) { missing_function(1); }").unwrap();
    let failure = run(&hostile_request(undefined)).unwrap_err();
    assert_eq!(failure.kind, FailureKind::LoadFailed);
    assert!(
        failure.evidence.contains("missing_function"),
        "{}",
        failure.evidence
    );

    let initialiser = "__attribute__((constructor)) static void start() { abort(); }";
    let initialiser = compile(&format!("{initialiser} {COPY}")).unwrap();
    assert_eq!(
        run(&hostile_request(initialiser)).unwrap_err().kind,
        FailureKind::Crashed
    );
}

#[test]
fn requests_that_cannot_be_right_are_errors() {
    let error = |request: &RunRequest| try_run(Path::new(WORKER), request).unwrap_err();
    let Some(bytes) = compile(COPY) else { return };
    let wrong_count = request(bytes.clone(), simple_plan(16, 4), Vec::new());
    assert_eq!(error(&wrong_count).kind(), ErrorKind::InvalidInput);
    let wrong_shape = request(bytes.clone(), simple_plan(16, 4), vec![ramp(15)]);
    assert_eq!(error(&wrong_shape).kind(), ErrorKind::InvalidInput);
    let mut wrong_format = hostile_request(Vec::new());
    wrong_format.artifact.format = "cubin".into();
    assert_eq!(error(&wrong_format).kind(), ErrorKind::Unsupported);
    let endless = request(bytes, simple_plan(1 << 58, 4), vec![ramp(16)]);
    assert!(matches!(
        error(&endless).kind(),
        ErrorKind::InvalidInput | ErrorKind::OutOfResources
    ));
}

#[test]
fn concurrent_requests_do_not_mix() {
    let Some(bytes) = compile(COPY) else { return };
    std::thread::scope(|scope| {
        for i in 0..8 {
            let bytes = bytes.clone();
            scope.spawn(move || {
                let x = Tensor::from_slice([16], &[i as f32; 16]).unwrap();
                let output = run(&request(bytes, simple_plan(16, 4), vec![x.clone()])).unwrap();
                assert_eq!(output.outputs[0].bytes(), x.bytes());
            });
        }
    });
}

/// An executable shell script.
fn script(directory: &Path, text: &str) -> PathBuf {
    use std::os::unix::fs::PermissionsExt as _;
    let path = directory.join("worker");
    std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[test]
fn workers_that_are_missing_or_strange_are_errors() {
    let request = hostile_request(Vec::new());
    let directory = tempfile::tempdir().unwrap();
    let error = try_run(Path::new("/no/such/worker"), &request).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ToolMissing);

    let strange = script(directory.path(), "echo I am no worker >&2");
    let error = try_run(&strange, &request).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Protocol, "{error}");
    assert!(error.to_string().contains("no worker of akg"), "{error}");

    // A supervisor like any other, above something else.
    let supervises = format!("case \"$1\" in *confine) exec '{WORKER}' \"$@\";; esac;");
    let strange = script(
        directory.path(),
        &format!("{supervises} echo I am no worker either >&2"),
    );
    let error = try_run(&strange, &request).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WorkerLost);
    assert!(error.to_string().contains("I am no worker either"), "{error}");

    let old = r#"{"id":1,"ok":{"hello":{"protocol":0}}}"#;
    let speaks = format!("printf '\\{:03o}\\0\\0\\0%s' '{old}'; cat >/dev/null", old.len());
    let old = script(directory.path(), &format!("{supervises} {speaks}"));
    let error = try_run(&old, &request).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Protocol);
    assert!(error.to_string().contains("version 0"), "{error}");
}

#[test]
fn a_worker_refuses_another_version_of_the_envelope() {
    use akg_worker::frame;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;
    use std::process::Stdio;
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    let mut child = Command::new(WORKER)
        .arg("akg-worker-serve")
        .stdin(OwnedFd::from(theirs))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut ask = |message: serde_json::Value| -> serde_json::Value {
        frame::write(&mut ours, &message).unwrap();
        frame::read(child.stdout.as_mut().unwrap()).unwrap().unwrap()
    };
    let refused = ask(serde_json::json!({"version": 99, "id": 7, "call": {"unheard": "of"}}));
    assert_eq!(
        (&refused["id"], &refused["error"]["kind"]),
        (&7.into(), &"protocol".into())
    );
    let unknown = ask(serde_json::json!({"version": 1, "id": 8, "call": {"unheard": "of"}}));
    assert_eq!(unknown["error"]["kind"], "protocol");
    let version = akg_worker::protocol::VERSION;
    let hello = ask(serde_json::json!({"version": 1, "id": 9, "call": {"hello": {"protocol": version}}}));
    assert_eq!(hello["ok"]["hello"]["protocol"], version);
    drop(ours);
    assert!(child.wait().unwrap().success());
}

#[test]
fn what_keeps_state_is_not_loaded() {
    let body = "((float *)tensors[1])[0] = ((const float *)tensors[0])[0];";
    let cases = [
        ("static int calls;", "((int *)tensors[1])[1] = calls++;", "calls"),
        ("int64_t seen = 5;", "seen++;", "`seen` (8 bytes of `.data`)"),
        (
            "",
            "static thread_local int own; ((int *)tensors[1])[1] = own++;",
            "own",
        ),
        (
            "",
            "static float table[2] = {((const float *)tensors[0])[0], 1}; ((float *)tensors[1])[1] = table[0];",
            "table",
        ),
        (
            "struct S { S() : n(3) {} int n; }; static S s;",
            "((int *)tensors[1])[1] = s.n++;",
            "`",
        ),
        (
            "extern volatile char room[]; asm(\".section .data\\n.hidden room\\nroom: .skip 256\\n.previous\");",
            "room[9] = 1;",
            "bytes of `.data`",
        ),
        (
            "__attribute__((section(\".mine\"))) static int64_t hidden = 1;",
            "((int64_t *)tensors[1])[1] = hidden++;",
            "`.mine`",
        ),
        (
            "#include <cstdlib>\n",
            "((int *)tensors[1])[1] = rand();",
            "`rand`",
        ),
        (
            "#include <cstring>\n",
            "((char **)tensors[1])[1] = strtok((char *)tensors[1], \",\");",
            "`strtok`",
        ),
        (
            "#include <unistd.h>\n",
            "((int *)tensors[1])[1] = optind++;",
            "`optind`",
        ),
        (
            "#include <iostream>\n",
            "((int *)tensors[1])[1] = std::cout.width(std::cout.width() + 1);",
            "`_ZSt4cout`",
        ),
        (
            "#include <ctime>\n",
            "time_t at = 0; ((int *)tensors[1])[1] = gmtime(&at)->tm_sec++;",
            "`gmtime`",
        ),
        ("#include <cstdlib>\n", "atexit(abort);", "`atexit`"),
        (
            "#include <exception>\n#include <cstdlib>\n",
            "std::set_terminate(abort);",
            "set_terminate",
        ),
        ("#include <malloc.h>\n", "mallopt(M_PERTURB, 85);", "`mallopt`"),
        (
            "#include <dlfcn.h>\n",
            "((int *)tensors[1])[1] = ((int (*)())dlsym(RTLD_DEFAULT, \"rand\"))();",
            "`dlsym`",
        ),
    ];
    for (before, first, named) in cases {
        let Some(bytes) = compile(&format!("{before}\nKERNEL(kernel) {{ {first} {body} }}")) else {
            return;
        };
        let failure = run(&hostile_request(bytes)).unwrap_err();
        assert_eq!(
            failure.kind,
            FailureKind::KeepsState,
            "{before}{first}: {}",
            failure.evidence
        );
        assert!(
            failure.evidence.contains(named),
            "{before}{first}: {}",
            failure.evidence
        );
    }
}

#[test]
fn tables_that_are_only_read_are_no_state() {
    let source = r#"
#include <cmath>
#include <cstdio>
#include <iostream>
#include <vector>
#include <algorithm>
static const float table[4] = {1, 2, 3, 4};
static const char *const names[] = {"one", "two"};
struct Shape { virtual float of(float v) const = 0; virtual ~Shape() {} };
struct Twice : Shape { float of(float v) const override { return 2 * v; } };
static constexpr double half = 0.5;
KERNEL(kernel) {
    auto x = (const float *)tensors[0]; auto y = (float *)tensors[1];
    std::vector<float> sorted(x, x + 16);
    std::sort(sorted.begin(), sorted.end());
    const Twice twice; const Shape &shape = twice;
    try { if (sorted.size() > 99) throw 1; } catch (int) { std::fputs(names[1], stderr); }
    for (int i = 0; i < 16; i++) y[i] = shape.of(sorted[i]) * half * table[i % 4] / table[i % 4] + std::sin(0.0f);
}"#;
    let Some(bytes) = compile(source) else {
        return;
    };
    let output = run(&hostile_request(bytes)).unwrap();
    assert_eq!(output.outputs[0].bytes(), ramp(16).bytes());
}
