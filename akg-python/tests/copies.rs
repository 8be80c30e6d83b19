//! Modules do nothing to each other, whatever they do to their process and to the one that it was copied from.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

mod common;

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use akg_core::error::ErrorKind;
use akg_core::isolation::IsolationLevel;
use akg_python::{Config, Environment, Python, PythonOptions, Seeds};
use common::{environment, import, module, python};

/// What an import gives that nothing has influenced.
fn expected() -> Option<(String, Vec<Vec<u8>>)> {
    Some(observed(&mut python()?))
}

/// A module with parameters as a graph, and its tensors.
fn observed(python: &mut Python) -> (String, Vec<Vec<u8>>) {
    let module = import(python, "parameters.py").unwrap();
    let tensors = python.materialize(&module, Seeds::default()).unwrap();
    let bytes = tensors.iter().map(|t| t.bytes().to_vec()).collect();
    (module.graph.to_json().unwrap(), bytes)
}

#[test]
fn what_a_module_does_to_its_process_ends_with_it() {
    let (Some(expected), Some(mut python)) = (expected(), python()) else {
        return;
    };
    for _ in 0..2 {
        import(&mut python, "poison.py").unwrap_err();
        assert_eq!(observed(&mut python), expected);
    }
}

#[test]
fn a_module_that_harms_what_it_was_copied_from_harms_nobody_else() {
    let (Some(expected), Some(mut python)) = (expected(), python()) else {
        return;
    };
    let error = import(&mut python, "kills_parent.py").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WorkerLost, "{error}");
    assert!(error.to_string().contains("SIGKILL"), "{error}");
    assert_eq!(observed(&mut python), expected);

    let error = import(&mut python, "stops_parent.py").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WorkerLost, "{error}");
    assert_eq!(observed(&mut python), expected);

    // Lacks what a module needs, but has done its deed by then.
    let error = import(&mut python, "limits_parent.py").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    assert_eq!(observed(&mut python), expected);
}

#[test]
fn what_a_module_is_copied_from_is_closed_to_it() {
    let Some(environment) = environment() else { return };
    let mut options = PythonOptions::default();
    options.isolation = IsolationLevel::Strict;
    let mut python = Python::new(environment, options);
    for name in ["poison.py", "looks_at_parent.py"] {
        match (name, import(&mut python, name)) {
            (_, Err(e)) if e.kind() == ErrorKind::Unsupported => return eprintln!("SKIPPED: {e}"),
            ("poison.py", outcome) => assert!(outcome.is_err()),
            (_, outcome) => drop(outcome.unwrap()),
        }
    }
}

#[test]
fn a_cancelled_import_leaves_no_process() {
    let Some(environment) = environment() else { return };
    // In a cache of its own, its processes are known by their arguments.
    let cache = tempfile::tempdir().unwrap();
    let mut config = Config::default();
    config.python = Some(environment.python().to_owned());
    config.cache = Some(cache.path().to_owned());
    let mut options = PythonOptions::default();
    options.import_timeout = Duration::from_secs(3);
    let mut python = Python::new(Environment::find(&config).unwrap(), options);
    python.start(&module("plain.py")).unwrap();
    python.wait().unwrap();
    let idle = processes(cache.path());
    assert!(idle > 0);
    let error = import(&mut python, "endless_with_help.py").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    assert_eq!(processes(cache.path()), idle);
    assert_eq!(processes(Path::new("sleep\x004321")), 0);
    drop(python);
    let deadline = Instant::now() + Duration::from_secs(10);
    while processes(cache.path()) > 0 && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(processes(cache.path()), 0);
}

/// How many processes have this in their arguments.
fn processes(words: &Path) -> usize {
    let words = words.as_os_str().as_encoded_bytes();
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let has_them = |line: &Vec<u8>| line.windows(words.len()).any(|window| window == words);
    entries
        .filter_map(|entry| fs::read(entry.path().join("cmdline")).ok())
        .filter(has_them)
        .count()
}
