//! What the tests that need PyTorch share.

#![allow(dead_code, reason = "each test program uses a part")]

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use akg_core::error::Result;
use akg_python::{Config, Environment, ImportOptions, ImportedModule, Python, PythonOptions};

/// Found once; installed first if `AKG_PYTHON_INSTALL` is set, as it is in CI.
static ENVIRONMENT: LazyLock<Result<Environment, String>> = LazyLock::new(|| {
    let config = Config::default();
    let found = Environment::find(&config);
    let found = match found {
        Err(_) if std::env::var_os("AKG_PYTHON_INSTALL").is_some() => {
            Environment::install(&config, &mut |step| say(step))
        }
        found => found,
    };
    found.map_err(|e| e.to_string())
});

/// Writes past the test harness, which hides what passing tests print.
fn say(text: &str) {
    // Nobody to tell if standard error is closed.
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// The environment, or a visible note that a test was skipped.
pub(crate) fn environment() -> Option<Environment> {
    static SKIPPED: AtomicUsize = AtomicUsize::new(0);
    match &*ENVIRONMENT {
        Ok(environment) => Some(environment.clone()),
        Err(why) => {
            let count = SKIPPED.fetch_add(1, Ordering::Relaxed) + 1;
            if count == 1 {
                say(&format!(
                    "{why}\nSet AKG_PYTHON_INSTALL=1 to let the tests install it."
                ));
            }
            let test = std::thread::current().name().unwrap_or("a test").to_owned();
            say(&format!("skipped: {test} ({count} so far)"));
            None
        }
    }
}

/// A worker, unless the test must be skipped.
pub(crate) fn python() -> Option<Python> {
    let mut options = PythonOptions::default();
    options.import_timeout = Duration::from_secs(240);
    Some(Python::new(environment()?, options))
}

/// A module of the tests.
pub(crate) fn module(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/modules")
        .join(name)
}

/// Imports a module of the tests, never from the cache.
pub(crate) fn import(python: &mut Python, name: &str) -> Result<ImportedModule> {
    let mut options = ImportOptions::default();
    options.refresh = true;
    python.import(&module(name), &options, &mut |_| {})
}
