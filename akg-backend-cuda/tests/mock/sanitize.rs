//! What sanitizers find, with scripts in the place of Compute Sanitizer.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use akg_backend_cuda::CudaBackend;
use akg_core::backend::{Limits, Sanitizer};
use akg_core::conformance::Probe;
use akg_core::isolation::IsolationLevel;
use akg_core::source::{Source, SourceForm};
use akg_core::verdict::{Failure, FailureKind};
use akg_core::verify::SanitizerVerifier;
use akg_core::{Backend, Candidate, ErrorKind, Graph, Result, Task, Verifier as _};
use futures::executor::block_on;

/// What the tool printed.
const PRINTED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sanitizer");

/// What it prints when it finds nothing.
const CLEAN: &str = "echo '========= ERROR SUMMARY: 0 errors' > \"$log\"";

/// A tool in a directory: goes to where the program begins, and does `then`; `$tool` is what it looks for, `$log` its output.
fn tool(directory: &Path, then: &str) -> PathBuf {
    let path = directory.join("compute-sanitizer");
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = --tool ] || exit 7\ntool=$2\nwhile [ \"$1\" != --log-file ]; do shift; done\nlog=$2; shift \
         2\n{then}\n"
    );
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn sanitize(tool: &Path, sanitizer: Sanitizer, required: IsolationLevel) -> Result<Result<(), Failure>> {
    let backend = CudaBackend::builder().sanitizer(tool).build();
    assert_eq!(backend.capability().sanitizers, Sanitizer::ALL);
    let mut limits = Limits::default();
    limits.isolation = required;
    block_on(async {
        let artifact = super::probe(Probe::TwoKernels).unwrap().unwrap();
        let mut loaded = backend.load(artifact, limits).await.unwrap().unwrap();
        loaded.bind(super::call(1000, 1)).await.unwrap().unwrap();
        let found = loaded.sanitize(sanitizer).await;
        // The worker goes on as before.
        let output = loaded.take().await.unwrap().unwrap();
        assert_eq!(output.outputs.len(), 1);
        found
    })
}

/// The program runs as the tool would run it, with each tensor in an allocation of its own.
pub(super) fn what_is_clean_passes() {
    let directory = tempfile::tempdir().unwrap();
    let seen = directory.path().join("seen");
    let allocations = directory.path().join("allocations");
    let then = format!(
        "MOCK_PROFILE={} MOCK_ALLOCATIONS={} \"$@\" || exit 1\n{CLEAN}",
        seen.display(),
        allocations.display()
    );
    let tool = tool(directory.path(), &then);
    sanitize(&tool, Sanitizer::Memory, IsolationLevel::None)
        .unwrap()
        .unwrap();
    assert_eq!(fs::read_to_string(seen).unwrap(), "twice\nreverse\n");
    let allocations = fs::read_to_string(allocations).unwrap();
    // The input, the output, the scratch between both kernels, and the input that is kept.
    assert_eq!(
        allocations.lines().filter(|bytes| *bytes == "4000").count(),
        4,
        "{allocations}"
    );
}

pub(super) fn findings_are_failures() {
    let directory = tempfile::tempdir().unwrap();
    let then = format!("\"$@\" || exit 1\ncp {PRINTED}/$tool.txt \"$log\"");
    let tool = tool(directory.path(), &then);
    let cases = [
        (
            Sanitizer::Memory,
            FailureKind::OutOfBounds,
            "(memcheck): Invalid __global__ write",
        ),
        (
            Sanitizer::Races,
            FailureKind::Race,
            "(racecheck): Error: Race reported",
        ),
        (
            Sanitizer::Initialization,
            FailureKind::Uninitialized,
            "(initcheck): Uninitialized __global__ memory read",
        ),
    ];
    for (sanitizer, kind, evidence) in cases {
        let failure = sanitize(&tool, sanitizer, IsolationLevel::None)
            .unwrap()
            .unwrap_err();
        assert_eq!(failure.kind, kind);
        assert!(failure.evidence.contains(evidence), "{}", failure.evidence);
    }
}

/// What is wrong with the tool says nothing of the candidate.
pub(super) fn a_tool_that_does_not_work_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let cases = [
        (
            format!("cp {PRINTED}/not_supported.txt \"$log\"; exit 1"),
            IsolationLevel::None,
            ErrorKind::Unsupported,
            "gVisor",
        ),
        // Found nothing because it looked at nothing.
        (
            CLEAN.to_owned(),
            IsolationLevel::None,
            ErrorKind::Unexpected,
            "did not come to a good end",
        ),
        (
            "\"$@\"; echo 'no such option' >&2; exit 1".to_owned(),
            IsolationLevel::None,
            ErrorKind::Unexpected,
            "no such option",
        ),
        (
            CLEAN.to_owned(),
            IsolationLevel::Basic,
            ErrorKind::Unsupported,
            "isolation `basic`",
        ),
    ];
    for (then, required, kind, says) in cases {
        let tool = tool(directory.path(), &then);
        let error = sanitize(&tool, Sanitizer::Memory, required).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.message().contains(says), "{error}");
    }
    let absent = directory.path().join("absent");
    let error = sanitize(&absent, Sanitizer::Memory, IsolationLevel::None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ToolMissing, "{error}");
}

/// The verifier watches the hints and other sizes, and says what it watched for.
pub(super) fn the_verifier_watches_all_sizes() {
    let graph = Graph::from_json(
        r#"{"akg_graph": 1, "name": "double",
            "inputs": [{"name": "x", "dtype": "f32", "shape": ["N"]}],
            "nodes": [{"op": "aten.mul.Scalar", "args": {"self": "x", "other": 2}, "outputs": ["y"]}],
            "outputs": [{"value": "y"}]}"#,
    )
    .unwrap();
    let mut task = Task::new("double", graph);
    task.contract.hints = [("N".into(), 1000)].into();
    let artifact = super::probe(Probe::Double).unwrap().unwrap();
    let candidate = Candidate {
        source: Source {
            dsl: "mock".into(),
            text: String::new(),
            form: SourceForm::Lowered {
                plan: artifact.plan.clone(),
            },
            knobs: [].into(),
        },
        artifact,
    };
    let directory = tempfile::tempdir().unwrap();
    let verify = |then: &str| {
        let backend = CudaBackend::builder()
            .sanitizer(tool(directory.path(), then))
            .build();
        let target = block_on(backend.devices()).unwrap().remove(0);
        let mut verifier = SanitizerVerifier::default();
        verifier.sanitizers = vec![Sanitizer::Memory, Sanitizer::Initialization];
        block_on(verifier.verify(&candidate, &task, &target, &backend)).unwrap()
    };
    let verdict = verify(&format!("\"$@\" || exit 1\n{CLEAN}"));
    assert!(verdict.passed(), "{verdict:?}");
    assert!(
        verdict.checks.len() > 4 && verdict.checks.len() % 2 == 0,
        "{verdict:?}"
    );
    assert_eq!(verdict.checks[0].about, "watched for memory");
    assert_eq!(verdict.checks[1].about, "watched for initialization");
    // What is watched is not confined.
    assert_eq!(verdict.isolation.unwrap().level, IsolationLevel::None);

    let found = format!(
        "\"$@\" || exit 1\ncase $tool in initcheck) cp {PRINTED}/$tool.txt \"$log\";; *) {CLEAN};; esac"
    );
    let verdict = verify(&found);
    assert_eq!(verdict.failure.unwrap().kind, FailureKind::Uninitialized);
    assert_eq!(verdict.checks.len(), 2);
}
