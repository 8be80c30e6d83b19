//! What a call of a loaded bundle costs beyond its kernel: checks, arguments, scratch memory, threads.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    reason = "criterion generates public items; a benchmark may panic"
)]

use std::ffi::c_void;
use std::hint::black_box;
use std::time::{Duration, Instant};

use akg::bundle::Evidence;
use akg::cpp::CppDsl;
use akg::cpu::{LoadOptions, LoadedBundle};
use akg::verdict::Verdict;
use akg::{
    Accuracy, AnyView, AnyViewMut, Bundle, Candidate, DType, Dsl as _, Expr, Graph, Target, Task, TensorView,
    TensorViewMut,
};
use criterion::Criterion;

const ROWS: usize = 16;

type Kernel = unsafe extern "C" fn(*const *const c_void, *const i64, i64, i64);

/// A kernel of some nanoseconds: `y = x + w` for f32[ROWS, 4], with or without a dim for the rows.
fn bundle(rows: &Expr) -> Bundle {
    let dims = rows
        .as_symbol()
        .map_or(String::new(), |name| format!("\"{name}\""));
    let extent = rows
        .as_const()
        .map_or_else(|| format!("\"{rows}\""), |n| n.to_string());
    let text = format!(
        r#"// akg-launch: {{"dims": [{dims}], "tensors": [
// {{"name": "x", "dtype": "f32", "shape": [{extent}, 4], "role": "input", "align": 4}},
// {{"name": "w", "dtype": "f32", "shape": [4], "role": "input", "align": 4}},
// {{"name": "t", "dtype": "f32", "shape": [{extent}, 4], "role": "scratch", "align": 64}},
// {{"name": "y", "dtype": "f32", "shape": [{extent}, 4], "role": "output", "align": 4}}],
// "launches": [{{"kernel": "add", "grid": [{extent}], "tensors": [0, 1, 3]}}]}}
#include <cstdint>
extern "C" void add(void *const *tensors, const int64_t *, int64_t first, int64_t last) {{
  const float *__restrict x = static_cast<const float *>(tensors[0]);
  const float *__restrict w = static_cast<const float *>(tensors[1]);
  float *__restrict y = static_cast<float *>(tensors[2]);
  for (int64_t i = 4 * first; i < 4 * last; ++i) y[i] = x[i] + w[i % 4];
}}
"#
    );
    let mut graph = Graph::new("add");
    let x = graph.input("x", DType::F32, [rows.clone(), 4.into()]);
    let w = graph.weight("w", DType::F32, [4]);
    let y = graph.add(x, w).unwrap();
    graph.output(y);
    let (dsl, target) = (CppDsl::default(), Target::new("cpu", std::env::consts::ARCH));
    let source = dsl.parse(&text).unwrap();
    let artifact = dsl.build(&source, &target).unwrap().unwrap();
    let evidence = Evidence {
        verdict: Verdict::new(Accuracy::Fp32),
        timing: None,
        bound_seconds: None,
        kernels: Vec::new(),
    };
    let candidate = Candidate { source, artifact };
    Bundle::new(&Task::new("add", graph), &target, candidate, "", evidence).unwrap()
}

/// The kernel itself.
struct Raw {
    kernel: Kernel,
    _library: libloading::Library,
    _file: tempfile::NamedTempFile,
}

fn raw(bundle: &Bundle) -> Raw {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bundle.artifact_bytes()).unwrap();
    let library = unsafe { libloading::Library::new(file.path()) }.unwrap();
    let kernel = *unsafe { library.get::<Kernel>("add") }.unwrap();
    Raw {
        kernel,
        _library: library,
        _file: file,
    }
}

/// Calls that are timed together.
const CHUNK: u32 = 100;

fn chunk(call: &impl Fn()) -> f64 {
    let start = Instant::now();
    for _ in 0..CHUNK {
        call();
    }
    start.elapsed().as_secs_f64() / f64::from(CHUNK)
}

/// What so many calls take longer than the kernel alone: the median over chunks of both in turns, which others on the
/// machine do not reach.
fn beyond(calls: u64, call: impl Fn(), kernel: impl Fn()) -> Duration {
    let chunks = calls.div_ceil(u64::from(CHUNK)).max(9);
    let mut differences: Vec<f64> = (0..chunks).map(|_| chunk(&call) - chunk(&kernel)).collect();
    differences.sort_by(f64::total_cmp);
    let median = differences[differences.len() / 2].max(1e-10);
    Duration::from_secs_f64(median * calls as f64)
}

fn main() {
    akg::worker::init();
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(3))
        .configure_from_args();
    let fixed = bundle(&(ROWS as i64).into());
    let symbolic = bundle(&Expr::symbol("N"));
    let raw = raw(&fixed);
    let (x, w, mut y) = (vec![1f32; 4 * ROWS], [2f32; 4], vec![0f32; 4 * ROWS]);
    let shape = [ROWS, 4];
    let pointers = [x.as_ptr().cast::<c_void>(), w.as_ptr().cast()];
    let output = y.as_mut_ptr().cast::<c_void>();
    let kernel = || {
        let tensors = [pointers[0], pointers[1], output.cast_const()];
        unsafe { (raw.kernel)(black_box(tensors.as_ptr()), [0].as_ptr(), 0, ROWS as i64) };
    };
    criterion.bench_function("call/the kernel alone", |b| b.iter(kernel));
    let one = LoadOptions::threads(1);
    for (name, bundle, dims) in [
        ("fixed extents", &fixed, &[][..]),
        ("a dim", &symbolic, &[ROWS as i64]),
    ] {
        let loaded = unsafe { LoadedBundle::load(bundle, &one) }.unwrap();
        let checked = || {
            let y = unsafe { std::slice::from_raw_parts_mut(output.cast::<f32>(), 4 * ROWS) };
            let inputs: [AnyView<'_>; 2] = [
                TensorView::new(black_box(&x), &shape).unwrap().into(),
                TensorView::new(&w, &[4]).unwrap().into(),
            ];
            let mut outputs: [AnyViewMut<'_>; 1] = [TensorViewMut::new(y, &shape).unwrap().into()];
            loaded.call(&inputs, &mut outputs).unwrap();
        };
        let unchecked = || unsafe { loaded.call_raw(black_box(&pointers), &[output], dims) }.unwrap();
        criterion.bench_function(&format!("call/beyond the kernel, {name}"), |b| {
            b.iter_custom(|calls| beyond(calls, checked, kernel));
        });
        criterion.bench_function(&format!("call/beyond the kernel, {name}, raw"), |b| {
            b.iter_custom(|calls| beyond(calls, unchecked, kernel));
        });
    }
    let loaded = unsafe { LoadedBundle::load(&fixed, &LoadOptions::default()) }.unwrap();
    criterion.bench_function("call/with a team", |b| {
        b.iter(|| unsafe { loaded.call_raw(black_box(&pointers), &[output], &[]) }.unwrap());
    });
    assert!(y.iter().all(|v| *v == 3.0));
    criterion.final_summary();
}
