//! A full disk, made of a small file system in a mount namespace of its own.

use std::path::Path;
use std::process::Command;

use akg_core::ErrorKind;
use akg_core::backend::Limits;
use akg_core::source::{Artifact, LaunchPlan};
use akg_core::verdict::FailureKind;
use akg_worker::client::Executor;

#[test]
fn a_full_disk_is_an_error_that_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let mount = "mount -t tmpfs -o size=64k none \"$0\" || exit 99; export TMPDIR=\"$0\"; exec \"$@\"";
    let output = Command::new("unshare")
        .args(["--map-root-user", "--mount", "sh", "-c", mount])
        .arg(directory.path())
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "inside_the_namespace", "--ignored"])
        .output();
    match output {
        Ok(output) if !String::from_utf8_lossy(&output.stdout).contains("running 1 test") => {
            let why = String::from_utf8_lossy(&output.stderr);
            eprintln!("SKIPPED: cannot mount a small file system: {why}");
        }
        Ok(output) => assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stdout)
        ),
        Err(e) => eprintln!("SKIPPED: cannot run unshare: {e}"),
    }
}

#[test]
#[ignore = "run by the other test where the disk is small"]
fn inside_the_namespace() {
    let artifact = Artifact {
        format: "elf-so".into(),
        bytes: vec![0; 1 << 20],
        plan: LaunchPlan::default(),
        metadata: Default::default(),
    };
    let worker = Path::new(env!("CARGO_BIN_EXE_akg-worker"));
    match Executor::load(Some(worker), artifact, Limits::default()) {
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::OutOfResources, "{error}");
            assert!(error.to_string().contains("artifact"), "{error}");
        }
        // In strict isolation, the worker's directory is in memory.
        Ok(loaded) => assert_eq!(loaded.unwrap_err().kind, FailureKind::LoadFailed),
    }
}
