//! What Compute Sanitizer finds on a device. Without the tool, or where it cannot work, each test says so and skips.

use akg_backend_cuda::CUDA_CPP;
use akg_core::Backend as _;
use akg_core::ErrorKind;
use akg_core::backend::{Limits, Sanitizer};
use akg_core::conformance::Probe;
use akg_core::image::{Images, Parameter, Scratch};
use akg_core::source::Artifact;
use akg_core::verdict::{Failure, FailureKind};
use futures::executor::block_on;

use super::common::{artifact, plan_of, with_images};
use super::{backend, call, kernel, probe};

/// What the tool finds in a program of six elements; `None` where there is no tool that works.
fn sanitize(artifact: Artifact, sanitizer: Sanitizer) -> Option<Result<(), Failure>> {
    let found = block_on(async {
        let mut loaded = backend()
            .load(artifact, Limits::default())
            .await
            .unwrap()
            .unwrap();
        loaded.bind(call(6, 0)).await.unwrap().unwrap();
        loaded.sanitize(sanitizer).await
    });
    match found {
        Ok(found) => Some(found),
        Err(error) if matches!(error.kind(), ErrorKind::ToolMissing | ErrorKind::Unsupported) => {
            eprintln!("SKIPPED: {error}");
            None
        }
        Err(error) => panic!("{error:?}"),
    }
}

/// A program of one kernel with this body, in one thread of a block.
fn program(body: &str) -> Artifact {
    artifact(CUDA_CPP, plan_of("k"), kernel("k", body).as_bytes(), 32)
}

fn assert_found(found: Option<Result<(), Failure>>, kind: FailureKind, parts: &[&str]) {
    let Some(found) = found else { return };
    let failure = found.unwrap_err();
    println!("{}", failure.evidence);
    assert_eq!(failure.kind, kind, "{}", failure.evidence);
    for part in parts {
        assert!(failure.evidence.contains(part), "{part}: {}", failure.evidence);
    }
}

pub(super) fn right_programs_are_clean() {
    for sanitizer in Sanitizer::ALL {
        if let Some(found) = sanitize(probe(Probe::TwoKernels).unwrap().unwrap(), sanitizer) {
            found.unwrap();
        }
    }
}

/// One element beside a tensor, by which no output changes, and far beyond all.
pub(super) fn accesses_beyond_are_found() {
    let reads = "volatile float *all = a; (void)all[n]; b[p] = 2 * a[p];";
    assert_found(
        sanitize(program(reads), Sanitizer::Memory),
        FailureKind::OutOfBounds,
        &["read of size 4", "k"],
    );
    let writes = "b[p] = 2 * a[p]; b[(1ll << 28) + p] = 1;";
    assert_found(
        sanitize(program(writes), Sanitizer::Memory),
        FailureKind::OutOfBounds,
        &["write of size 4", "k"],
    );
}

pub(super) fn races_in_shared_memory_are_found() {
    let text = "extern \"C\" __global__ void k(float *a, float *b, long long n) {
        __shared__ float tile[64];
        tile[threadIdx.x] = a[blockIdx.x] + threadIdx.x;
        // A barrier is missing.
        float other = tile[63 - threadIdx.x];
        if (threadIdx.x == 0) b[blockIdx.x] = other;
    }";
    let racing = artifact(CUDA_CPP, plan_of("k"), text.as_bytes(), 64);
    assert_found(sanitize(racing, Sanitizer::Races), FailureKind::Race, &["k"]);
}

pub(super) fn reads_of_what_nobody_wrote_are_found() {
    let text = "extern \"C\" __global__ void k(float *a, float *b, long long n, float *scratch) {
        if (threadIdx.x == 0) b[blockIdx.x] = a[blockIdx.x] + 0 * scratch[8 * blockIdx.x];
    }";
    let made = artifact(CUDA_CPP, plan_of("k"), text.as_bytes(), 32);
    let mut images = Images::decode(&made).unwrap();
    images.kernels[0]
        .parameters
        .push(Parameter::Scratch(Scratch { bytes: 32, align: 32 }));
    assert_found(
        sanitize(
            with_images(CUDA_CPP, made.plan, &images),
            Sanitizer::Initialization,
        ),
        FailureKind::Uninitialized,
        &["read of size 4"],
    );
}
