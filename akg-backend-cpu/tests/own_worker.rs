//! The backend in a program that is its own worker, as embedders use it: hence a `main` of its own.
#![expect(clippy::unwrap_used, reason = "this is a test")]

use std::process::Command;
use std::time::Duration;

use akg_backend_cpu::CpuBackend;
use akg_core::backend::{BackendExt as _, Cache, Call, Limits, Poison, RunRequest};
use akg_core::dtype::DType;
use akg_core::source::{Artifact, Launch, LaunchPlan, PlanTensor, TensorRole};
use akg_core::verdict::FailureKind;
use akg_core::{Backend, ErrorKind, Expr, Tensor};
use futures::executor::block_on;
use futures::future::{join, join_all};
use libtest_mimic::{Arguments, Trial};

fn main() {
    akg_worker::init();
    // A measurement while other tests run is not worth keeping.
    let cache = tempfile::tempdir().unwrap();
    // SAFETY: no other thread runs yet.
    unsafe { std::env::set_var("XDG_CACHE_HOME", cache.path()) };
    let trial = |name: &str, test: fn()| {
        Trial::test(name, move || {
            test();
            Ok(())
        })
    };
    let trials = vec![
        trial(
            "runs_and_timings_work_side_by_side",
            runs_and_timings_work_side_by_side,
        ),
        trial(
            "the_backend_survives_its_candidates",
            the_backend_survives_its_candidates,
        ),
        trial(
            "the_processor_is_the_only_device",
            the_processor_is_the_only_device,
        ),
        trial(
            "a_missing_worker_is_a_missing_tool",
            a_missing_worker_is_a_missing_tool,
        ),
    ];
    let conclusion = libtest_mimic::run(&Arguments::from_args(), trials);
    drop(cache);
    conclusion.exit();
}

/// A request that runs C++ as kernel `main` on `x`, for one output like it; `None`, said aloud, without a compiler.
fn request(body: &str, x: &Tensor) -> Option<RunRequest> {
    let directory = tempfile::tempdir().unwrap();
    let (text, object) = (
        directory.path().join("kernel.cpp"),
        directory.path().join("kernel.so"),
    );
    let source = format!(
        "#include <cstdint>\n#include <cstdlib>\nextern \"C\" void kernel(void *const *tensors, const int64_t *dims, \
         int64_t first, int64_t last) {{ {body} }}"
    );
    std::fs::write(&text, source).unwrap();
    let output = Command::new("c++")
        .args(["-O1", "-shared", "-fPIC", "-o"])
        .arg(&object)
        .arg(&text)
        .output();
    let Ok(output) = output else {
        eprintln!("SKIPPED: no C++ compiler");
        return None;
    };
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let tensor = |name: &str, role| PlanTensor {
        name: name.into(),
        dtype: DType::F32,
        shape: x.shape().iter().map(|n| Expr::constant(*n as i64)).collect(),
        role,
        align: 64,
        holds: None,
        updates: None,
    };
    Some(RunRequest {
        artifact: Artifact {
            format: "elf-so".into(),
            bytes: std::fs::read(&object).unwrap(),
            plan: LaunchPlan {
                dims: Vec::new(),
                tensors: vec![tensor("x", TensorRole::Input), tensor("y", TensorRole::Output)],
                launches: vec![Launch {
                    kernel: "kernel".into(),
                    grid: vec![Expr::constant(x.len() as i64)],
                    tensors: vec![0, 1],
                    cooperative: false,
                    doc: String::new(),
                }],
            },
            metadata: Default::default(),
        },
        inputs: vec![x.clone()],
        dims: Default::default(),
        poison: Poison::Ones,
        limits: Limits::default(),
    })
}

const TWICE: &str =
    "for (int64_t i = first; i < last; i++) ((float *)tensors[1])[i] = 2 * ((float *)tensors[0])[i];";

fn runs_and_timings_work_side_by_side() {
    let x = Tensor::from_slice([3], &[1.0f32, -2.5, 4.0]).unwrap();
    let Some(request) = request(TWICE, &x) else { return };
    let backend = CpuBackend::builder().build();
    let timing = async {
        let mut loaded = backend
            .load(request.artifact.clone(), Limits::default())
            .await
            .unwrap()
            .unwrap();
        let call = Call {
            inputs: request.inputs.clone(),
            dims: request.dims.clone(),
            poison: Poison::Ones,
            placement: 3,
        };
        loaded.bind(call).await.unwrap().unwrap();
        for cache in [Cache::Warm, Cache::Cold] {
            let taken = loaded.execute(2, cache).await.unwrap().unwrap();
            assert!(taken > Duration::ZERO);
        }
        loaded.take().await.unwrap().unwrap()
    };
    let runs = join_all((0..4).map(|_| backend.run(request.clone())));
    let (runs, timed) = block_on(join(runs, timing));
    assert_eq!(timed.outputs[0].as_slice::<f32>().unwrap(), [2.0, -5.0, 8.0]);
    for run in runs {
        let output = run.unwrap().unwrap();
        assert!(output.inputs_unchanged);
        assert_eq!(output.outputs[0].as_slice::<f32>().unwrap(), [2.0, -5.0, 8.0]);
    }
}

fn the_backend_survives_its_candidates() {
    let x = Tensor::from_slice([1], &[1.0f32]).unwrap();
    let backend = CpuBackend::builder().build();
    let cases = [
        (
            "for (;;) __asm__ volatile(\"\" ::: \"memory\");",
            FailureKind::TimedOut,
        ),
        ("*(volatile int *)16 = 1;", FailureKind::Crashed),
        ("exit(0);", FailureKind::Crashed),
        (
            "for (;;) { volatile char *p = (char *)malloc(1 << 20); p[0] = 1; }",
            FailureKind::OutOfMemory,
        ),
    ];
    for (body, kind) in cases {
        let Some(mut request) = request(body, &x) else {
            return;
        };
        request.limits.time = Duration::from_secs(if kind == FailureKind::TimedOut { 1 } else { 60 });
        request.limits.memory = 256 << 20;
        let failure = block_on(backend.run(request)).unwrap().unwrap_err();
        assert_eq!(failure.kind, kind, "{}", failure.evidence);
    }
    let Some(request) = request(TWICE, &x) else { return };
    assert!(block_on(backend.run(request)).unwrap().is_ok());
}

fn the_processor_is_the_only_device() {
    let devices = block_on(CpuBackend::builder().build().devices()).unwrap();
    assert_eq!(devices.len(), 1);
    assert_eq!(devices[0].backend, CpuBackend::NAME);
    assert!(devices[0].bandwidth > 0.0);
}

fn a_missing_worker_is_a_missing_tool() {
    let backend = CpuBackend::builder().worker("/no/such/worker").build();
    let error = block_on(backend.devices()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ToolMissing);
    assert!(error.to_string().contains("/no/such/worker"));
}
