//! The backend on a real device, with kernels in CUDA C++. Without one everything is skipped, said aloud and counted. The
//! test is its own worker, hence a `main` of its own.
#![expect(clippy::unwrap_used, clippy::panic, reason = "this is a test")]

#[path = "device/bundle.rs"]
mod bundle;
#[path = "common/bundles.rs"]
mod bundles;
mod common;
#[path = "device/sanitize.rs"]
mod sanitize;

use std::sync::Arc;
use std::time::{Duration, Instant};

use akg_backend_cuda::{CUDA_CPP, CudaBackend, SERVICE, absence};
use akg_core::backend::{BackendExt as _, Cache, Call, Limits, LoadedExt as _, Poison, RunRequest};
use akg_core::conformance::{self, Probe};
use akg_core::image::{Descriptor, Images, Parameter, Scratch};
use akg_core::reference::{Buffer, Matrix, Options, Precision, Products, evaluate};
use akg_core::source::{Artifact, LaunchPlan, TensorRole};
use akg_core::verdict::{Failure, FailureKind};
use akg_core::{Backend, DType, Expr, Graph, Result, Tensor};
use common::{artifact, plan_of, with_images};
use futures::executor::block_on;
use libtest_mimic::{Arguments, Trial};

fn main() {
    akg_worker::init_with(&[SERVICE]);
    let missing = absence(None).unwrap_or_else(|error| Some(error.to_string()));
    if let Some(why) = &missing {
        eprintln!("SKIPPED: {why}");
    }
    let tests: [(&str, fn()); 23] = [
        ("the_backend_keeps_the_rules", the_backend_keeps_the_rules),
        ("devices_are_described", devices_are_described),
        ("writes_beside_tensors_are_found", writes_beside_tensors_are_found),
        ("graphs_follow_their_tensors", graphs_follow_their_tensors),
        (
            "text_that_does_not_compile_is_a_failure",
            text_that_does_not_compile_is_a_failure,
        ),
        (
            "shared_memory_is_what_the_image_asks_for",
            shared_memory_is_what_the_image_asks_for,
        ),
        (
            "clusters_and_barriers_of_the_grid_work",
            clusters_and_barriers_of_the_grid_work,
        ),
        ("the_copy_engine_moves_boxes", the_copy_engine_moves_boxes),
        ("times_grow_with_the_work", times_grow_with_the_work),
        ("launches_are_observed", launches_are_observed),
        ("the_device_says_how_it_is", the_device_says_how_it_is),
        (
            "the_sanitizer_passes_right_programs",
            sanitize::right_programs_are_clean,
        ),
        (
            "the_sanitizer_finds_accesses_beyond",
            sanitize::accesses_beyond_are_found,
        ),
        (
            "the_sanitizer_finds_races",
            sanitize::races_in_shared_memory_are_found,
        ),
        (
            "the_sanitizer_finds_reads_of_what_nobody_wrote",
            sanitize::reads_of_what_nobody_wrote_are_found,
        ),
        (
            "bundles_compute_on_the_tensors_of_each_call",
            bundle::compute_on_the_tensors_of_each_call,
        ),
        (
            "bundles_are_called_on_streams_and_threads",
            bundle::are_called_on_streams_and_threads,
        ),
        ("bundles_hold_constants", bundle::hold_constants),
        ("bundles_move_tensor_maps", bundle::move_tensor_maps),
        (
            "bundles_have_clusters_and_barriers",
            bundle::have_clusters_and_barriers,
        ),
        ("bundles_are_captured", bundle::are_captured),
        (
            "wide_products_are_those_of_the_host",
            wide_products_are_those_of_the_host,
        ),
        (
            "pairwise_products_are_those_of_the_host_to_the_bit",
            pairwise_products_are_those_of_the_host_to_the_bit,
        ),
    ];
    let trials = tests.map(|(name, test)| {
        let run = move || {
            test();
            Ok(())
        };
        Trial::test(name, run).with_ignored_flag(missing.is_some())
    });
    libtest_mimic::run(&Arguments::from_args(), trials.into()).exit();
}

fn backend() -> CudaBackend {
    CudaBackend::builder().build()
}

/// A text with kernel `name(a, b, n)`, in which `p` is the program.
fn kernel(name: &str, body: &str) -> String {
    format!(
        "extern \"C\" __global__ void {name}(float *a, float *b, long long n) {{\n  long long p = blockIdx.x;\n  if \
         (threadIdx.x == 0) {{ {body} }}\n}}\n"
    )
}

/// A probe in CUDA C++.
fn probe(probe: Probe) -> Result<Option<Artifact>> {
    let body = match probe {
        Probe::Double | Probe::WriteHalf | Probe::TwoKernels => "b[p] = 2 * a[p];",
        Probe::OverwriteInput => "b[p] = 2 * a[p]; a[p] = 0;",
        Probe::ReadScratch => "",
        Probe::Crash => "*(volatile int *)16 = 1;",
        Probe::Hang => "for (volatile int i = 0;; i = i + 1) {}",
        Probe::TakeMemory => "for (;;) { volatile char *m = (char *)malloc(1 << 20); m[0] = 1; }",
        _ => return Ok(None),
    };
    let first = match probe {
        Probe::ReadScratch => {
            "extern \"C\" __global__ void probe(float *x, float *y, float *t, long long n) {\n  if \
                               (threadIdx.x == 0) y[blockIdx.x] = t[blockIdx.x];\n}\n"
                .to_owned()
        }
        _ => kernel("probe", body),
    };
    let text = first + &kernel("second", "b[p] = a[n - 1 - p];");
    Ok(Some(artifact(CUDA_CPP, probe.plan(), text.as_bytes(), 32)))
}

fn the_backend_keeps_the_rules() {
    let report = block_on(conformance::backend(&backend(), &probe));
    report.assert_held();
    assert_eq!(report.skipped(), 0, "{report}");
    println!("{report}");
}

fn devices_are_described() {
    for device in block_on(backend().devices()).unwrap() {
        println!("{device:#?}");
        assert!(device.arch.starts_with("sm_") && device.cores > 0 && device.bandwidth > 0.0);
        assert!(device.tile_bytes >= 48 << 10 && device.caches[1] > device.caches[0]);
    }
}

fn call(len: usize, placement: u32) -> Call {
    let values: Vec<f32> = (0..len).map(|i| i as f32 + placement as f32).collect();
    Call {
        inputs: vec![Tensor::from_slice([len], &values).unwrap()],
        dims: [("N".into(), len as i64)].into(),
        poison: Poison::Ones,
        placement,
    }
}

fn request(artifact: Artifact, len: usize) -> RunRequest {
    let Call {
        inputs, dims, poison, ..
    } = call(len, 0);
    RunRequest {
        artifact,
        inputs,
        dims,
        poison,
        limits: Limits::default(),
    }
}

fn failure(artifact: Artifact) -> Failure {
    block_on(backend().run(request(artifact, 6)))
        .unwrap()
        .unwrap_err()
}

/// What `artifact` makes of the numbers from 0.
fn result(artifact: Artifact, len: usize) -> Vec<f32> {
    let output = block_on(backend().run(request(artifact, len))).unwrap().unwrap();
    output.outputs[0].as_slice::<f32>().unwrap().to_vec()
}

fn writes_beside_tensors_are_found() {
    let cases = [
        (
            "b[n] = 0;",
            "a kernel wrote at byte 24 of `y`, which has 24 bytes",
        ),
        (
            "b[-3] = 0;",
            "a kernel wrote 12 bytes before the beginning of `y`",
        ),
        (
            "a[n + 7] = 0;",
            "a kernel wrote at byte 52 of `x`, which has 24 bytes",
        ),
    ];
    for (body, evidence) in cases {
        let failure = failure(artifact(CUDA_CPP, plan_of("k"), kernel("k", body).as_bytes(), 1));
        assert_eq!(
            (failure.kind, failure.evidence.as_str()),
            (FailureKind::OutOfBounds, evidence)
        );
    }
}

fn graphs_follow_their_tensors() {
    let artifact = probe(Probe::TwoKernels).unwrap().unwrap();
    block_on(async {
        let mut loaded = backend()
            .load(artifact, Limits::default())
            .await
            .unwrap()
            .unwrap();
        for (len, placement) in [(8, 0), (8, 1), (6_000_001, 1), (8, 0), (0, 2), (1, 3), (8, 1)] {
            let call = call(len, placement);
            let given = call.inputs[0].as_slice::<f32>().unwrap().to_vec();
            let output = loaded.run(call).await.unwrap().unwrap();
            let expected: Vec<f32> = given.iter().rev().map(|v| 2.0 * v).collect();
            assert!(output.inputs_unchanged);
            assert_eq!(output.outputs[0].as_slice::<f32>().unwrap(), expected);
        }
    });
}

fn text_that_does_not_compile_is_a_failure() {
    let failure = failure(artifact(
        CUDA_CPP,
        plan_of("k"),
        b"extern \"C\" __global__ void k() { no; }",
        1,
    ));
    assert_eq!(failure.kind, FailureKind::CompileFailed);
    assert!(failure.evidence.contains("kernel.cu(1)"), "{}", failure.evidence);
}

fn shared_memory_is_what_the_image_asks_for() {
    let text = "extern \"C\" __global__ void k(float *a, float *b, long long n) {
        extern __shared__ float tile[];
        int last = 50000 - 32 + threadIdx.x;
        tile[last] = a[blockIdx.x] + threadIdx.x;
        __syncthreads();
        if (threadIdx.x == 0) b[blockIdx.x] = tile[50000 - 1];
    }";
    let made = artifact(CUDA_CPP, plan_of("k"), text.as_bytes(), 32);
    let mut images = Images::decode(&made).unwrap();
    images.kernels[0].shared_bytes = 200_000;
    let expected: Vec<f32> = (0..1000).map(|i| i as f32 + 31.0).collect();
    assert_eq!(
        result(with_images(CUDA_CPP, made.plan.clone(), &images), 1000),
        expected
    );
    images.kernels[0].shared_bytes = 300 << 10;
    let failure = failure(with_images(CUDA_CPP, made.plan, &images));
    assert_eq!(failure.kind, FailureKind::LoadFailed);
    assert!(
        failure.evidence.contains("307200 bytes of shared memory"),
        "{}",
        failure.evidence
    );
}

/// A barrier of all programs of one thread each, in 64 bytes of scratch for each, whatever they held.
const MEETING: &str = "__device__ void meet(unsigned *scratch, long long n) {
        const unsigned here = 0x600d600d;
        volatile unsigned *own = scratch + 16 * blockIdx.x, *all = scratch;
        // Who is at the second gate has left the first, and the next call closes the second one before it opens the first.
        own[1] = 0;
        __threadfence();
        for (int gate = 0; gate < 2; ++gate) {
            own[gate] = here;
            __threadfence();
            for (long long i = 0; i < n; ++i)
                while (all[16 * i + gate] != here) {}
            __threadfence();
        }
        own[0] = 0;
    }";

fn clusters_and_barriers_of_the_grid_work() {
    // Each program is two blocks: the second writes what the first has put into the cluster's scratch.
    let text = "extern \"C\" __global__ void k(float *a, float *b, long long n, float *scratch) {
        unsigned rank;
        asm(\"mov.u32 %0, %cluster_ctarank;\" : \"=r\"(rank));
        float *pair = scratch + 32 * (blockIdx.x / 2);
        if (rank == 0 && threadIdx.x == 0) pair[0] = 3 * a[blockIdx.x / 2];
        __threadfence();
        asm volatile(\"barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\" ::: \"memory\");
        if (rank == 1 && threadIdx.x == 0) b[blockIdx.x / 2] = *(volatile float *)pair;
    }";
    let made = artifact(CUDA_CPP, plan_of("k"), text.as_bytes(), 32);
    let mut images = Images::decode(&made).unwrap();
    images.kernels[0].cluster = 2;
    images.kernels[0]
        .parameters
        .push(Parameter::Scratch(Scratch { bytes: 64, align: 64 }));
    let tripled: Vec<f32> = (0..500).map(|i| 3.0 * i as f32).collect();
    assert_eq!(result(with_images(CUDA_CPP, made.plan, &images), 500), tripled);

    // All programs meet before any goes on.
    let text = format!(
        "{MEETING}
        extern \"C\" __global__ void k(float *a, float *b, long long n, unsigned *scratch) {{
            meet(scratch, n);
            b[blockIdx.x] = a[n - 1 - blockIdx.x];
        }}"
    );
    let mut plan = plan_of("k");
    plan.launches[0].cooperative = true;
    let made = artifact(CUDA_CPP, plan, text.as_bytes(), 1);
    let mut images = Images::decode(&made).unwrap();
    images.kernels[0]
        .parameters
        .push(Parameter::Scratch(Scratch { bytes: 64, align: 64 }));
    let meeting = with_images(CUDA_CPP, made.plan, &images);
    let reversed: Vec<f32> = (0..100).rev().map(|i| i as f32).collect();
    assert_eq!(result(meeting.clone(), 100), reversed);
    // A million blocks are not on the device at the same time.
    let refused = block_on(backend().run(request(meeting, 1 << 20)));
    let refused = refused.unwrap().unwrap_err();
    assert_ne!(refused.kind, FailureKind::TimedOut, "{}", refused.evidence);
}

/// Two kernels: the first moves one box [16, 32] of an input of these extents at a row and column to a tensor by the copy
/// engine, the second doubles that.
fn box_twice(mut plan: LaunchPlan, extents: [i64; 2], [row, column]: [u32; 2]) -> Artifact {
    let text = format!("struct alignas(64) Map {{ char opaque[128]; }};
    extern \"C\" __global__ void move(const __grid_constant__ Map map, float *t) {{
        __shared__ alignas(128) float tile[16 * 32];
        __shared__ alignas(8) unsigned long long barrier;
        unsigned at = (unsigned)__cvta_generic_to_shared(&barrier), to = (unsigned)__cvta_generic_to_shared(tile);
        if (threadIdx.x == 0) {{
            asm volatile(\"mbarrier.init.shared::cta.b64 [%0], 1; fence.mbarrier_init.release.cluster;\" :: \"r\"(at));
            asm volatile(\"mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 2048;\" :: \"r\"(at));
            asm volatile(\"cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {{%2, %3}}], \
                [%4];\" :: \"r\"(to), \"l\"(&map), \"r\"({column}), \"r\"({row}), \"r\"(at) : \"memory\");
        }}
        __syncthreads();
        unsigned done = 0;
        while (!done)
            asm volatile(\"{{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }}\"
                : \"=r\"(done) : \"r\"(at) : \"memory\");
        for (int i = threadIdx.x; i < 16 * 32; i += blockDim.x) t[i] = tile[i];
    }}
    extern \"C\" __global__ void twice(float *t, float *y) {{
        for (int i = threadIdx.x; i < 16 * 32; i += blockDim.x) y[i] = 2 * t[i];
    }}");
    plan.dims.clear();
    for tensor in &mut plan.tensors {
        let shape = match tensor.role {
            TensorRole::Input => extents,
            _ => [16, 32],
        };
        tensor.shape = shape.map(Expr::constant).to_vec();
    }
    for (launch, name) in plan.launches.iter_mut().zip(["move", "twice"]) {
        launch.kernel = name.into();
        launch.grid = vec![1.into()];
    }
    let made = artifact(CUDA_CPP, plan, text.as_bytes(), 128);
    let mut images = Images::decode(&made).unwrap();
    let descriptor = Descriptor {
        tensor: 0,
        dtype: DType::F32,
        shape: extents.iter().map(|extent| *extent as u64).collect(),
        block: vec![16, 32],
        swizzle: 0,
        padded: false,
    };
    for image in images.kernels.iter_mut().filter(|image| image.kernel == "move") {
        image.parameters = vec![Parameter::Descriptor(descriptor.clone()), Parameter::Tensor(1)];
    }
    with_images(CUDA_CPP, made.plan, &images)
}

fn the_copy_engine_moves_boxes() {
    let artifact = box_twice(Probe::TwoKernels.plan(), [40, 64], [8, 32]);
    let values: Vec<f32> = (0..40 * 64).map(|i| i as f32).collect();
    let mut loaded = block_on(backend().load(artifact, Limits::default()))
        .unwrap()
        .unwrap();
    for placement in 0..3 {
        let call = Call {
            inputs: vec![Tensor::from_slice([40, 64], &values).unwrap()],
            dims: [].into(),
            poison: Poison::Finite,
            placement,
        };
        let output = block_on(loaded.run(call)).unwrap().unwrap();
        let expected: Vec<f32> = (0..16 * 32)
            .map(|i| 2.0 * ((8 + i / 32) * 64 + 32 + i % 32) as f32)
            .collect();
        assert_eq!(output.outputs[0].as_slice::<f32>().unwrap(), expected);
    }
}

/// Times are printed for people; what is demanded holds on any machine.
fn times_grow_with_the_work() {
    let text = "extern \"C\" __global__ void k(const float4 *a, float4 *b, long long n) {
        long long stride = (long long)gridDim.x * blockDim.x;
        for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n / 4; i += stride) b[i] = a[i];
    }";
    let mut plan = plan_of("k");
    plan.launches[0].grid = vec![1056.into()];
    let made = artifact(CUDA_CPP, plan, text.as_bytes(), 512);
    block_on(async {
        let began = Instant::now();
        let mut loaded = backend().load(made, Limits::default()).await.unwrap().unwrap();
        println!("loaded in {:?}", began.elapsed());
        for len in [1 << 10, 1 << 28] {
            let call = call(len, 0);
            let began = Instant::now();
            loaded.bind(call).await.unwrap().unwrap();
            let bound = began.elapsed();
            let mut times = Vec::new();
            for (calls, cache) in [
                (0, Cache::Warm),
                (10, Cache::Warm),
                (100, Cache::Warm),
                (1000, Cache::Warm),
                (1, Cache::Cold),
                (10, Cache::Cold),
            ] {
                let time = loaded.execute(calls, cache).await.unwrap().unwrap();
                println!("copy of {len} floats, {calls} calls, {cache:?}: {time:?}");
                times.push(time);
            }
            let each = times[3].as_secs_f64() / 1000.0;
            println!(
                "  {:.2} µs a call, {:.1} GB/s; bound in {bound:?}",
                each * 1e6,
                8e-9 * len as f64 / each
            );
            assert!(
                times[3] > times[1] && times[0] < Duration::from_millis(1),
                "{times:?}"
            );
            let output = loaded.take().await.unwrap().unwrap();
            assert_eq!(
                output.outputs[0].as_slice::<f32>().unwrap()[len - 1],
                (len - 1) as f32
            );
        }
    });
}

/// Counters need the right to read them; without it the note is printed.
fn launches_are_observed() {
    const LEN: usize = 1 << 20;
    let artifact = probe(Probe::TwoKernels).unwrap().unwrap();
    let observation = block_on(async {
        let mut loaded = backend()
            .load(artifact, Limits::default())
            .await
            .unwrap()
            .unwrap();
        loaded.bind(call(LEN, 0)).await.unwrap().unwrap();
        loaded.observe(5).await.unwrap().unwrap()
    });
    println!("{observation:#?}");
    assert_eq!(observation.launches.len(), 2);
    for launch in &observation.launches {
        // A block of 32 threads for each element takes longer than an empty launch.
        assert!(launch.seconds > 1e-6 && launch.seconds < 1.0);
        let resources = &launch.resources;
        assert_eq!((resources.programs, resources.threads), (LEN as u64, Some(32)));
        assert!(resources.registers.unwrap() > 0);
        let Some(counters) = &launch.counters else {
            assert!(!observation.notes.is_empty());
            continue;
        };
        // Both tensors fit the last cache, so memory may see none of it; the cache sees a sector for each element at least.
        assert!(counters.cache_bytes.unwrap() >= 4.0 * LEN as f64);
        assert!(counters.seconds.unwrap() > 1e-6);
        assert!(counters.stalls.values().sum::<f64>() > 0.0);
    }
}

/// Where there is no management library the reason is printed.
fn the_device_says_how_it_is() {
    match backend().witness().device().unwrap() {
        Ok(reading) => {
            println!("{reading:?}");
            assert!(
                reading
                    .clock
                    .is_none_or(|clock| clock > 100.0 && clock < 10_000.0)
            );
            assert!(
                reading
                    .temperature
                    .is_none_or(|celsius| celsius > 0.0 && celsius < 150.0)
            );
            assert!(reading.power.is_none_or(|watts| watts > 1.0 && watts < 5000.0));
        }
        Err(error) => eprintln!("SKIPPED: {error}"),
    }
}

/// The product of `a` and the transpose of `b`, made by the device or by the host.
fn product(a: &Tensor, b: &Tensor, precision: Precision, by_device: bool) -> Buffer {
    let graph = Graph::from_json(
        r#"{"akg_graph": 1, "name": "product",
            "inputs": [{"name": "a", "dtype": "f32", "shape": ["M", "K"]}, {"name": "b", "dtype": "f32", "shape": ["N", "K"]}],
            "nodes": [{"op": "aten.linear.default", "args": {"input": "a", "weight": "b"}, "outputs": ["y"]}],
            "outputs": [{"value": "y"}]}"#,
    )
    .unwrap();
    let options = Options {
        precision,
        products: by_device.then(|| counted(backend().products().unwrap())),
        ..Options::default()
    };
    let began = Instant::now();
    let outcome = evaluate(&graph, &[a.clone(), b.clone()], &options).unwrap();
    println!(
        "{precision:?}, by the device: {by_device}, in {:?}",
        began.elapsed()
    );
    outcome.into_iter().next().unwrap().data
}

/// Products that must be made.
fn counted(products: Arc<dyn Products>) -> Arc<dyn Products> {
    Arc::new(Demanded(products))
}

#[derive(Debug)]
struct Demanded(Arc<dyn Products>);

impl Products for Demanded {
    fn fused(&self, a: &Matrix<'_, f64>, b: &Matrix<'_, f64>, out: &mut [f64]) -> bool {
        assert!(self.0.fused(a, b, out), "the device made no product");
        true
    }

    fn pairwise(&self, a: &Matrix<'_, f32>, b: &Matrix<'_, f32>, out: &mut [f32]) -> bool {
        assert!(self.0.pairwise(a, b, out), "the device made no product");
        true
    }
}

/// Numbers of both signs in `[rows, cols]`, magnitudes spread.
fn numbers(rows: usize, cols: usize) -> Tensor {
    let number = |i: usize| {
        let bits = (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
        ((bits >> 40) as f32 / (1 << 23) as f32 - 1.0) * 2f32.powi((bits % 9) as i32)
    };
    let values: Vec<f32> = (0..rows * cols).map(number).collect();
    Tensor::from_slice([rows, cols], &values).unwrap()
}

fn magnitudes(x: &Tensor) -> Tensor {
    let values: Vec<f32> = x.as_slice::<f32>().unwrap().iter().map(|v| v.abs()).collect();
    Tensor::from_slice(x.shape(), &values).unwrap()
}

/// Operands whose products are worth the way to the device, converted by the host and as they are stored.
fn operands() -> [(Tensor, Tensor); 2] {
    [
        (numbers(650, 1001), numbers(515, 1001)),
        (numbers(9, 1001), numbers(4201, 1001)),
    ]
}

fn wide_products_are_those_of_the_host() {
    for (a, b) in operands() {
        let host = product(&a, &b, Precision::F64, false);
        let device = product(&a, &b, Precision::F64, true);
        let sizes = product(&magnitudes(&a), &magnitudes(&b), Precision::F64, false);
        let (Buffer::F64(host), Buffer::F64(device), Buffer::F64(sizes)) = (host, device, sizes) else {
            panic!("another precision");
        };
        for ((host, device), size) in host.iter().zip(&device).zip(&sizes) {
            // The root of the number of terms, a thousand, times the rounding of one.
            assert!((host - device).abs() <= 4e-15 * size, "{host} and {device}");
        }
    }
}

fn pairwise_products_are_those_of_the_host_to_the_bit() {
    for (a, b) in operands() {
        let host = product(&a, &b, Precision::F32Pairwise, false);
        let device = product(&a, &b, Precision::F32Pairwise, true);
        assert_eq!(host, device);
    }
}
