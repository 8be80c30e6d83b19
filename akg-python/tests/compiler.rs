//! Where the compiler of `torch.compile` may lie.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use akg_core::Accuracy;
use akg_python::{BaselineOptions, BaselineTask, BaselineWorker, Baselines, ImportOptions, Seeds, Variant};
use common::{environment, python};

/// Set for the process whose compiler lies in an unusual place.
const INSIDE: &str = "AKG_TEST_COMPILER_PLACE";

/// A compiler in a directory of its own, which needs what lies in the directories next to that.
fn install(place: &Path) -> PathBuf {
    let (bin, lib) = (place.join("opt/bin"), place.join("opt/lib"));
    fs::create_dir_all(&bin).unwrap();
    fs::create_dir_all(&lib).unwrap();
    fs::write(lib.join("driver"), "exec /usr/bin/g++ \"$@\"\n").unwrap();
    let compiler = bin.join("some-c++");
    let text = format!("#!/bin/sh\n. {}\n", lib.join("driver").display());
    fs::write(&compiler, text).unwrap();
    fs::set_permissions(&compiler, fs::Permissions::from_mode(0o755)).unwrap();
    compiler
}

#[test]
fn a_compiler_outside_the_usual_directories_is_within_reach() {
    let Some(environment) = environment() else { return };
    if std::env::var_os(INSIDE).is_none() {
        if !Path::new("/usr/bin/g++").is_file() {
            eprintln!("skipped: no /usr/bin/g++");
            return;
        }
        let place = tempfile::tempdir().unwrap();
        // Another process, because variables are read by all threads of this one; another cache, because nothing must
        // have been compiled before.
        let inside = Command::new(std::env::current_exe().unwrap())
            .args(["--nocapture", "a_compiler_outside"])
            .env(INSIDE, "1")
            .env("CXX", install(place.path()))
            .env("AKG_CACHE", place.path().join("cache"))
            .env("AKG_PYTHON", environment.python())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&inside.stderr);
        assert!(inside.status.success(), "{text}");
        return;
    }
    let mut python = python().unwrap();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/modules/parameters.py");
    let module = python
        .import(&path, &ImportOptions::default(), &mut |_| {})
        .unwrap();
    let seeds = Seeds {
        weights: 1,
        inputs: 1,
    };
    let sets = vec![python.materialize(&module, seeds).unwrap()];
    let task = BaselineTask::Module(&module);
    let worker = BaselineWorker::new(environment, task, "cpu", None).unwrap();
    let mut baselines = Baselines::new(worker, task, sets, BaselineOptions::default()).unwrap();
    let compiled = baselines.prepare(Variant::Compiled(Accuracy::Fp32)).unwrap();
    let eager = baselines.prepare(Variant::Eager(Accuracy::Fp32)).unwrap();
    for (ours, theirs) in compiled.iter().zip(&eager) {
        let (ours, theirs) = (ours.to_f64().unwrap(), theirs.to_f64().unwrap());
        assert!(
            ours.iter()
                .zip(&theirs)
                .all(|(x, y)| (x - y).abs() < 1e-5 * y.abs().max(1.0))
        );
    }
}
