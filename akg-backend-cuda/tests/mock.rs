//! The backend on a driver that works on ordinary memory, so that everything but the device is tested everywhere. The test
//! is its own worker, hence a `main` of its own.
#![expect(clippy::unwrap_used, clippy::panic, reason = "this is a test")]

#[path = "mock/build.rs"]
mod build;
mod common;
#[path = "mock/observe.rs"]
mod observe;
#[path = "mock/sanitize.rs"]
mod sanitize;
#[path = "mock/watch.rs"]
mod watch;

use std::path::Path;
use std::process::{Command, exit};
use std::time::Duration;

use akg_backend_cuda::{CUBIN, CudaBackend, SERVICE};
use akg_core::backend::{BackendExt as _, Cache, Call, Limits, LoadedExt as _, Poison, RunRequest};
use akg_core::conformance::{self, Probe};
use akg_core::image::{Descriptor, Images, Parameter, Scratch};
use akg_core::reference::{Buffer, Elements, Matrix, Options, evaluate};
use akg_core::source::{Artifact, LaunchPlan, TensorRole};
use akg_core::verdict::{Failure, FailureKind};
use akg_core::{Backend, DType, ErrorKind, Expr, Graph, Result, Tensor};
use common::{artifact, plan_of, with_images};
use futures::executor::block_on;
use libtest_mimic::{Arguments, Trial};

/// What the mock driver takes for machine code.
const CODE: &[u8] = b"\x7fELF mock";

fn main() {
    akg_worker::init_with(&[SERVICE]);
    let missing = match std::env::var_os(MOCK) {
        Some(directory) if directory.is_empty() => true,
        Some(_) => false,
        None => exit(with_mock()),
    };
    let tests: [(&str, fn()); 19] = [
        ("the_backend_keeps_the_rules", the_backend_keeps_the_rules),
        (
            "devices_are_described_by_numbers",
            devices_are_described_by_numbers,
        ),
        ("writes_beside_tensors_are_found", writes_beside_tensors_are_found),
        ("graphs_follow_their_tensors", graphs_follow_their_tensors),
        (
            "the_copy_engine_is_told_innermost_first",
            the_copy_engine_is_told_innermost_first,
        ),
        ("limits_hold", limits_hold),
        ("a_worker_that_ends_is_a_crash", a_worker_that_ends_is_a_crash),
        (
            "launches_are_timed_and_counted",
            observe::launches_are_timed_and_counted,
        ),
        (
            "a_profile_does_without_the_tool",
            observe::a_profile_does_without_the_tool,
        ),
        (
            "unknown_metrics_are_left_out",
            observe::unknown_metrics_are_left_out,
        ),
        (
            "products_read_operands_of_any_order",
            products_read_operands_of_any_order,
        ),
        (
            "products_read_tensors_as_they_are_stored",
            products_read_tensors_as_they_are_stored,
        ),
        ("small_products_stay_on_the_host", small_products_stay_on_the_host),
        ("what_is_clean_passes", sanitize::what_is_clean_passes),
        ("findings_are_failures", sanitize::findings_are_failures),
        (
            "a_tool_that_does_not_work_is_an_error",
            sanitize::a_tool_that_does_not_work_is_an_error,
        ),
        (
            "the_verifier_watches_all_sizes",
            sanitize::the_verifier_watches_all_sizes,
        ),
        ("the_device_is_read", watch::the_device_is_read),
        (
            "a_device_that_is_not_there_is_not_read",
            watch::a_device_that_is_not_there_is_not_read,
        ),
    ];
    let trials = tests.map(|(name, test)| {
        let run = move || {
            test();
            Ok(())
        };
        Trial::test(name, run).with_ignored_flag(missing)
    });
    libtest_mimic::run(&Arguments::from_args(), trials.into()).exit();
}

/// Where the mock driver is; empty if it cannot be built.
const MOCK: &str = "AKG_MOCK_DRIVER";

/// Runs this program again with a loader that finds the mock before any driver; gives its exit code.
fn with_mock() -> i32 {
    let directory = tempfile::tempdir().unwrap();
    let built = build::build(directory.path());
    if let Err(why) = &built {
        eprintln!("SKIPPED: {why}");
    }
    let mock = if built.is_ok() {
        directory.path()
    } else {
        Path::new("")
    };
    let mut again = Command::new(std::env::current_exe().unwrap());
    again.args(std::env::args_os().skip(1)).env(MOCK, mock);
    let status = again.env("LD_LIBRARY_PATH", directory.path()).status().unwrap();
    status.code().unwrap_or(1)
}

/// A probe; its kernels are those of the mock driver.
fn probe(probe: Probe) -> Result<Option<Artifact>> {
    let name = match probe {
        Probe::Double | Probe::WriteHalf | Probe::TwoKernels => "twice",
        Probe::OverwriteInput => "overwrite",
        Probe::ReadScratch => "third",
        Probe::Crash | Probe::TakeMemory => "crash",
        Probe::Hang => "hang",
        _ => return Ok(None),
    };
    let made = artifact(CUBIN, probe.plan(), CODE, 32);
    let mut images = Images::decode(&made)?;
    for image in &mut images.kernels {
        image.symbol = if image.kernel == "second" { "reverse" } else { name }.into();
    }
    Ok(Some(with_images(CUBIN, made.plan, &images)))
}

fn the_backend_keeps_the_rules() {
    let report = block_on(conformance::backend(&CudaBackend::builder().build(), &probe));
    report.assert_held();
    assert_eq!(report.skipped(), 0, "{report}");
}

fn devices_are_described_by_numbers() {
    let devices = block_on(CudaBackend::builder().build().devices()).unwrap();
    let [device] = devices.as_slice() else {
        panic!("{devices:?}");
    };
    // The numbers of the mock are those of an H200, whose datasheet has these rates.
    assert_eq!((device.arch.as_str(), device.cores), ("sm_90a", 132));
    assert_eq!(device.tile_bytes, 227 << 10);
    let residency = device.residency.unwrap();
    assert_eq!((device.threads, residency.registers), (2048, 65536));
    assert_eq!(residency.tile_bytes - residency.reserved_bytes, device.tile_bytes);
    let near = |value: f64, datasheet: f64| (value / datasheet - 1.0).abs() < 0.1;
    assert!(near(device.bandwidth, 4.8e12), "{}", device.bandwidth);
    assert!(near(device.peak[&DType::F32], 67e12), "{:?}", device.peak);
    assert!(near(device.peak[&DType::BF16], 989e12), "{:?}", device.peak);
    assert!(near(device.peak[&DType::F64], 67e12), "{:?}", device.peak);
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

fn failure(artifact: Artifact, limits: Limits) -> Failure {
    let Call {
        inputs, dims, poison, ..
    } = call(6, 0);
    let request = RunRequest {
        artifact,
        inputs,
        dims,
        poison,
        limits,
    };
    block_on(CudaBackend::builder().build().run(request))
        .unwrap()
        .unwrap_err()
}

fn writes_beside_tensors_are_found() {
    let cases = [
        ("after", "a kernel wrote at byte 24 of `y`, which has 24 bytes"),
        ("before", "a kernel wrote 12 bytes before the beginning of `y`"),
        (
            "after_input",
            "a kernel wrote at byte 52 of `x`, which has 24 bytes",
        ),
    ];
    for (kernel, evidence) in cases {
        let failure = failure(artifact(CUBIN, plan_of(kernel), CODE, 1), Limits::default());
        assert_eq!(
            (failure.kind, failure.evidence.as_str()),
            (FailureKind::OutOfBounds, evidence)
        );
    }
}

fn graphs_follow_their_tensors() {
    let artifact = probe(Probe::TwoKernels).unwrap().unwrap();
    let backend = CudaBackend::builder().build();
    block_on(async {
        let mut loaded = backend.load(artifact, Limits::default()).await.unwrap().unwrap();
        for (len, placement) in [(8, 0), (8, 1), (6_000_001, 1), (8, 0), (0, 2), (1, 3), (8, 1)] {
            let call = call(len, placement);
            let given = call.inputs[0].as_slice::<f32>().unwrap().to_vec();
            let output = loaded.run(call).await.unwrap().unwrap();
            let expected: Vec<f32> = given.iter().rev().map(|v| 2.0 * v).collect();
            assert!(output.inputs_unchanged);
            assert_eq!(output.outputs[0].as_slice::<f32>().unwrap(), expected);
        }
        loaded.bind(call(4, 0)).await.unwrap().unwrap();
        for cache in [Cache::Warm, Cache::Cold] {
            assert!(loaded.execute(3, cache).await.unwrap().unwrap() > Duration::ZERO);
        }
    });
}

fn the_copy_engine_is_told_innermost_first() {
    let mut plan = plan_of("show_map");
    for (tensor, (dtype, shape)) in plan
        .tensors
        .iter_mut()
        .zip([(DType::F16, [2, 3, 64].as_slice()), (DType::F32, &[16])])
    {
        tensor.dtype = dtype;
        tensor.shape = shape.iter().map(|n| Expr::constant(*n)).collect();
    }
    plan.launches[0].grid = vec![1.into()];
    plan.dims.clear();
    let descriptor = |block: &[u32]| {
        let descriptor = Descriptor {
            tensor: 0,
            dtype: DType::F16,
            shape: vec![2, 3, 64],
            block: block.to_vec(),
            swizzle: 3,
            padded: false,
        };
        let made = artifact(CUBIN, plan.clone(), CODE, 128);
        let mut images = Images::decode(&made).unwrap();
        images.kernels[0].parameters = vec![Parameter::Descriptor(descriptor), Parameter::Tensor(1)];
        RunRequest {
            artifact: with_images(CUBIN, made.plan, &images),
            inputs: vec![Tensor::zeros(DType::F16, [2, 3, 64]).unwrap()],
            dims: [].into(),
            poison: Poison::Ones,
            limits: Limits::default(),
        }
    };
    let run = |request| block_on(CudaBackend::builder().build().run(request)).unwrap();
    let output = run(descriptor(&[1, 2, 32])).unwrap();
    // Type, rank, swizzle; extents; strides in bytes but the first; box.
    let expected = [6.0, 3.0, 3.0, 64.0, 3.0, 2.0, 128.0, 384.0, 32.0, 2.0, 1.0f32];
    assert_eq!(output.outputs[0].as_slice::<f32>().unwrap()[..11], expected);
    for block in [[1, 2].as_slice(), &[1, 2, 512]] {
        let failure = run(descriptor(block)).unwrap_err();
        assert_eq!(failure.kind, FailureKind::LoadFailed);
        assert!(failure.evidence.contains("tensor `x`"), "{}", failure.evidence);
    }
}

fn limits_hold() {
    let made = artifact(CUBIN, plan_of("twice"), CODE, 1);
    let mut images = Images::decode(&made).unwrap();
    // Memory of 6 blocks.
    images.kernels[0].parameters.push(Parameter::Scratch(Scratch {
        bytes: 1000,
        align: 128,
    }));
    let with_scratch = with_images(CUBIN, made.plan.clone(), &images);
    let mut limits = Limits::default();
    limits.memory = 6143;
    let refused = failure(with_scratch.clone(), limits.clone());
    assert_eq!(refused.kind, FailureKind::OutOfMemory, "{}", refused.evidence);
    limits.memory = 6144;
    let mut loaded = block_on(CudaBackend::builder().build().load(with_scratch, limits))
        .unwrap()
        .unwrap();
    block_on(loaded.run(call(6, 0))).unwrap().unwrap();

    images.kernels[0].shared_bytes = 300 << 10;
    let refused = failure(with_images(CUBIN, made.plan, &images), Limits::default());
    assert_eq!(refused.kind, FailureKind::LoadFailed);
    assert!(
        refused.evidence.contains("307200 bytes of shared memory"),
        "{}",
        refused.evidence
    );

    // More than the device has.
    let mut plan: LaunchPlan = plan_of("twice");
    let output = plan
        .tensors
        .iter_mut()
        .find(|t| t.role == TensorRole::Output)
        .unwrap();
    output.shape = vec![Expr::constant(1 << 29)];
    let request = RunRequest {
        artifact: artifact(CUBIN, plan, CODE, 1),
        inputs: call(6, 0).inputs,
        dims: call(6, 0).dims,
        poison: Poison::Ones,
        limits: Limits::default(),
    };
    let error = block_on(CudaBackend::builder().build().run(request)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfResources, "{error:?}");
}

fn a_worker_that_ends_is_a_crash() {
    let failure = failure(artifact(CUBIN, plan_of("die"), CODE, 1), Limits::default());
    assert_eq!(failure.kind, FailureKind::Crashed, "{}", failure.evidence);
}

/// A matrix of small integers in columns, read backwards.
fn backwards(data: &[f64], rows: usize, cols: usize) -> Matrix<'_, f64> {
    Matrix {
        data: Elements::Own(data),
        offset: data.len() - 1,
        rows,
        cols,
        row_stride: -1,
        col_stride: -(rows as isize),
    }
}

fn products_read_operands_of_any_order() {
    let products = CudaBackend::builder().build().products().unwrap();
    let (m, k, n) = (700, 801, 500);
    let integers = |count: usize| (0..count).map(|i| (i * 7 % 23) as f64 - 11.0).collect::<Vec<_>>();
    let (left, right) = (integers(m * k), integers(k * n));
    let (a, b) = (Matrix::dense(&left, m, k), backwards(&right, k, n));
    let expected = |at: usize| -> f64 {
        let row = &left[at / n * k..][..k];
        let column = right.iter().rev().skip(at % n * k);
        row.iter().zip(column).map(|(a, b)| a * b).sum()
    };
    let mut out = vec![f64::NAN; m * n];
    assert!(products.fused(&a, &b, &mut out));
    for at in (0..m * n).step_by(997) {
        assert_eq!(out[at], expected(at));
    }
    let narrow = |x: &[f64]| x.iter().map(|v| *v as f32).collect::<Vec<_>>();
    let (left, right) = (narrow(&left), narrow(&right));
    let b = Matrix {
        data: Elements::Own(&right),
        offset: b.offset,
        rows: k,
        cols: n,
        row_stride: b.row_stride,
        col_stride: b.col_stride,
    };
    let mut out = vec![f32::NAN; m * n];
    assert!(products.pairwise(&Matrix::dense(&left, m, k), &b, &mut out));
    for at in (0..m * n).step_by(997) {
        assert_eq!(f64::from(out[at]), expected(at));
    }
}

/// A second product finds the tensor on the device, and another tensor in its place does not.
fn products_read_tensors_as_they_are_stored() {
    let options = Options {
        products: CudaBackend::builder().build().products(),
        ..Options::default()
    };
    let (m, k, n) = (2, 2048, 2051);
    let graph = Graph::from_json(
        r#"{"akg_graph": 1, "name": "product",
            "inputs": [{"name": "x", "dtype": "f32", "shape": ["M", "K"]}, {"name": "weight", "dtype": "f32", "shape": ["N", "K"]}],
            "nodes": [{"op": "aten.linear.default", "args": {"input": "x", "weight": "weight"}, "outputs": ["y"]}],
            "outputs": [{"value": "y"}]}"#,
    )
    .unwrap();
    let tensor = |rows: usize, factor: usize| {
        let values: Vec<f32> = (0..rows * k).map(|i| (i * factor % 23) as f32 - 11.0).collect();
        (Tensor::from_slice([rows, k], &values).unwrap(), values)
    };
    let (x, left) = tensor(m, 7);
    for factor in [5, 9] {
        let (weight, right) = tensor(n, factor);
        for _ in 0..2 {
            let outcome = evaluate(&graph, &[x.clone(), weight.clone()], &options).unwrap();
            let Buffer::F64(out) = &outcome[0].data else {
                panic!("another precision");
            };
            for at in (0..out.len()).step_by(101) {
                let (row, column) = (&left[at / n * k..][..k], &right[at % n * k..][..k]);
                let expected: f32 = row.iter().zip(column).map(|(a, b)| a * b).sum();
                assert_eq!(out[at], f64::from(expected));
            }
        }
    }
}

fn small_products_stay_on_the_host() {
    let products = CudaBackend::builder().build().products().unwrap();
    let ones = vec![1.0; 1 << 20];
    // Too little to do, and too little for what is copied.
    for (m, k, n) in [(100, 100, 100), (1 << 10, 1 << 10, 1), (1 << 10, 1, 1 << 10)] {
        let (a, b) = (Matrix::dense(&ones, m, k), Matrix::dense(&ones, k, n));
        assert!(!products.fused(&a, &b, &mut vec![0.0; m * n]));
    }
}
