//! PyTorch modules as `ModelNew`: what they take, return and change is what the originals do.

use std::path::Path;
use std::process::Command;

use akg::python::Environment;

use crate::exports::{python, run};

/// Designs, verifies and exports a module; runs a script beside the comparison with the original.
fn export_and_compare(environment: &Environment, name: &str, script: &str) {
    if Command::new("c++").arg("--version").output().is_err() {
        eprintln!("SKIPPED: no C++ compiler");
        return;
    }
    let modules = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bundle/modules");
    let module = modules.join(name);
    let place = tempfile::tempdir().unwrap();
    let (bundle, exported) = (place.path().join("kernel.akg"), place.path().join("exported.py"));
    let akg = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_akg"));
        command.env("AKG_STORE", place.path().join("store.sqlite"));
        run(command.args(arguments));
    };
    let (module, bundle) = (module.display().to_string(), bundle.display().to_string());
    let exported = exported.display().to_string();
    let python = environment.python().display().to_string();
    akg(&[
        "run",
        &module,
        "--dsl",
        "cpp",
        "--backend",
        "cpu",
        "--no-baseline",
        "--tune",
        "0s",
        "--python",
        &python,
        "--bundle",
        &bundle,
    ]);
    akg(&["export", &bundle, "--form", "modelnew", "--out", &exported]);
    let compare = std::fs::read_to_string(modules.join("compare.py")).unwrap();
    run(Command::new(environment.python())
        .args(["-c", &format!("{compare}\n{script}"), &module, &exported])
        .current_dir(place.path()));
}

#[test]
fn results_keep_their_structure_and_other_numbers_are_refused() {
    let Some(environment) = python() else { return };
    export_and_compare(
        &environment,
        "named.py",
        "
x, _, _, parts = old.get_inputs()
same(model(x, None, 0.5, parts), exported(x, scale=0.5, parts=parts))
refuses('`scale` is 2.0', x, None, 2.0, parts)
refuses('`scale` is 1.5', x, None, parts=parts)
refuses('`mask` is a tensor', x, torch.ones(4), 0.5, parts)
refuses(\"`parts['power']` is 3\", x, None, 0.5, {**parts, 'power': 3})
refuses(\"`parts['power']` is 2.0\", x, None, 0.5, {**parts, 'power': 2.0})
refuses('keys', x, None, 0.5, {'shift': parts['shift']})
refuses('1 items', x, None, 0.5, {**parts, 'shift': []})
refuses('must be a torch.float32 tensor', 1.0, None, 0.5, parts)
",
    );
}

#[test]
fn arguments_and_buffers_are_changed_in_place() {
    let Some(environment) = python() else { return };
    export_and_compare(
        &environment,
        "mutated.py",
        "
wide = [torch.zeros(8, 6).t(), torch.zeros(6, 16)[:, ::2]]
others = [torch.zeros(8, 6).t(), torch.zeros(6, 16)[:, ::2]]
x = torch.randn(8, 6).t()
with torch.no_grad():
    same(model(x, wide, 0.25), exported(x, others, 0.25))
same(wide, others)
",
    );
}
