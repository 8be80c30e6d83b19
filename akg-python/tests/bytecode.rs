//! An installation without compiled modules.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use akg_python::{Config, Environment, ImportOptions, Python, PythonOptions};
use common::environment;

#[test]
fn modules_are_compiled_once_where_the_installation_has_them_as_text() {
    let Some(environment) = environment() else { return };
    let directory = tempfile::tempdir().unwrap();
    let python = directory.path().join("python");
    // Looks for compiled modules where there are none, unless it is told where they are.
    let script = format!(
        "#!/bin/sh\nexport PYTHONPYCACHEPREFIX=${{PYTHONPYCACHEPREFIX:-/nowhere}}\nexec {} \"$@\"\n",
        environment.python().display()
    );
    fs::write(&python, script).unwrap();
    fs::set_permissions(&python, fs::Permissions::from_mode(0o755)).unwrap();
    let mut config = Config::default();
    config.python = Some(python);
    config.cache = Some(directory.path().join("cache"));
    let mut python = Python::new(Environment::find(&config).unwrap(), PythonOptions::default());
    let module = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/modules/compiled.py");
    python
        .import(&module, &ImportOptions::default(), &mut |_| {})
        .unwrap();
}
