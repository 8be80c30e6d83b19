//! What is observed of single launches, with scripts in the place of Nsight Compute.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use akg_backend_cuda::CudaBackend;
use akg_core::Backend;
use akg_core::backend::{Cache, Limits};
use akg_core::conformance::Probe;
use akg_core::isolation::IsolationLevel;
use akg_core::profile::Observation;
use futures::executor::block_on;

/// What the tool prints for two kernels.
const PRINTED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/ncu/two_kernels.csv");

/// A tool in a directory: checks its options, goes to where the program begins, and does `then`; `$log` is its output.
fn tool(directory: &Path, then: &str) -> PathBuf {
    let path = directory.join("ncu");
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in *'--csv --page raw --print-units base'*'--profile-from-start off'*) ;; *) exit 7 ;; esac\n\
         while [ \"$1\" != --metrics ]; do shift; done\nmetrics=$2 log=$4; shift 4\n{then}\n"
    );
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn observe(tool: &Path, required: IsolationLevel) -> Observation {
    let backend = CudaBackend::builder().profiler(tool).build();
    assert!(backend.capability().observes);
    let mut limits = Limits::default();
    limits.isolation = required;
    block_on(async {
        let artifact = super::probe(Probe::TwoKernels).unwrap().unwrap();
        let mut loaded = backend.load(artifact, limits).await.unwrap().unwrap();
        loaded.bind(super::call(1000, 1)).await.unwrap().unwrap();
        let observation = loaded.observe(3).await.unwrap().unwrap();
        // The worker goes on as before.
        loaded.execute(1, Cache::Warm).await.unwrap().unwrap();
        let output = loaded.take().await.unwrap().unwrap();
        assert_eq!(output.outputs[0].as_slice::<f32>().unwrap()[0], 2.0 * 1000.0);
        observation
    })
}

/// Runs the program as the tool would, with the tool's recorded output; the mock driver says what was to be counted.
pub(super) fn launches_are_timed_and_counted() {
    let directory = tempfile::tempdir().unwrap();
    let seen = directory.path().join("seen");
    let then = format!(
        "MOCK_PROFILE={} \"$@\" || exit 1\ncp {PRINTED} \"$log\"",
        seen.display()
    );
    let observation = observe(&tool(directory.path(), &then), IsolationLevel::None);
    assert_eq!(observation.notes, Vec::<String>::new());
    let [first, second] = observation.launches.as_slice() else {
        panic!("{observation:?}");
    };
    for launch in [first, second] {
        assert!(launch.seconds > 0.0);
        let resources = &launch.resources;
        assert_eq!((resources.programs, resources.threads), (1000, Some(32)));
        // The numbers of the mock.
        assert_eq!(
            (resources.registers, resources.spilled_bytes),
            (Some(40), Some(16))
        );
        assert_eq!(resources.shared_bytes, Some(256));
    }
    let read = |launch: &akg_core::profile::Observed| launch.counters.as_ref().unwrap().read_bytes;
    assert_eq!(
        (read(first), read(second)),
        (Some(134_226_432.0), Some(67_210_240.0))
    );
    // Nothing but the two kernels, once.
    assert_eq!(std::fs::read_to_string(seen).unwrap(), "twice\nreverse\n");
}

/// Each thing that can be wrong with the tool is a note, and times and resources are there all the same.
pub(super) fn a_profile_does_without_the_tool() {
    let directory = tempfile::tempdir().unwrap();
    let cases = [
        (
            "echo '==ERROR== ERR_NVGPUCTRPERM - The user does not have permission' > \"$log\"; exit 1",
            IsolationLevel::None,
            "may not read the device's performance counters",
        ),
        (
            "echo '==ERROR== Failed to find metric' > \"$log\"; exit 1",
            IsolationLevel::None,
            "Failed to find metric",
        ),
        ("exit 3", IsolationLevel::None, "it printed nothing"),
        (
            "\"$@\" || exit 1; grep -v '^\"1\"' {PRINTED} > \"$log\"",
            IsolationLevel::None,
            "saw 1 launches, but there were 2",
        ),
        ("exit 3", IsolationLevel::Basic, "isolation `basic`"),
    ];
    for (then, required, note) in cases {
        let tool = tool(directory.path(), &then.replace("{PRINTED}", PRINTED));
        let observation = observe(&tool, required);
        assert!(
            observation
                .launches
                .iter()
                .all(|l| l.seconds > 0.0 && l.counters.is_none())
        );
        let [said] = observation.notes.as_slice() else {
            panic!("{observation:?}");
        };
        assert!(said.contains(note), "{said}");
    }
    let absent = observe(&directory.path().join("absent"), IsolationLevel::None);
    assert!(absent.notes[0].contains("is no file"), "{absent:?}");
}

/// A tool that does not know a metric is asked for fewer.
pub(super) fn unknown_metrics_are_left_out() {
    let directory = tempfile::tempdir().unwrap();
    let then = format!(
        "case $metrics in *tensor*) echo '==ERROR== Failed to find metric' > \"$log\"; exit 1;; esac\n\"$@\" || exit 1\ncp {PRINTED} \"$log\""
    );
    let observation = observe(&tool(directory.path(), &then), IsolationLevel::None);
    assert!(
        observation.launches.iter().all(|l| l.counters.is_some()),
        "{observation:?}"
    );
}
