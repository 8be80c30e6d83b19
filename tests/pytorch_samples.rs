//! Samples of PyTorch's own test database, each imported, designed, and verified in C++: 150 of them, chosen by a fixed seed.
//! `examples/pytorch_samples` writes them, and docs/operators.md describes the whole. The test is its own worker, hence a `main` of
//! its own.
#![expect(clippy::unwrap_used, reason = "this is a test")]

mod common;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

use akg::python::{Config, Environment, ImportOptions, Python, PythonOptions, SharedPython, lock};
use akg::{Session, blocking};
use common::has_compiler;
use libtest_mimic::{Arguments, Failed, Trial};

const COUNT: &str = "150";

/// Entries among these that are not supported, each with its operator, which the error names.
const REFUSED: [(&str, &str); 1] = [(
    "special.laguerre_polynomial_l-",
    "aten.special_laguerre_polynomial_l",
)];

fn main() {
    akg::worker::init();
    let arguments = Arguments::from_args();
    let environment = match Environment::find(&Config::default()) {
        Ok(environment) if has_compiler() => environment,
        _ => {
            eprintln!(
                "SKIPPED: there is no Python with PyTorch, or no C++ compiler; `akg doctor --fix` installs the first"
            );
            let absent = Trial::test("samples", || Ok(())).with_ignored_flag(true);
            libtest_mimic::run(&arguments, vec![absent]).exit();
        }
    };
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pytorch_samples");
    let written = write(&environment, &directory);
    let python = Arc::new(Mutex::new(Python::new(environment, PythonOptions::default())));
    let mut trials: Vec<Trial> = fs::read_dir(&directory)
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "py"))
        .map(|path| {
            let python = Arc::clone(&python);
            let name = path
                .file_stem()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            Trial::test(name.clone(), move || verify(&name, &path, &python))
        })
        .collect();
    trials.push(Trial::test("the samples are written", move || written));
    libtest_mimic::run(&arguments, trials).exit();
}

/// Writes the samples as modules into a directory.
fn write(environment: &Environment, directory: &Path) -> Result<(), Failed> {
    let _ = fs::remove_dir_all(directory);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/pytorch_samples/make_modules.py");
    let mut command = Command::new(environment.python());
    let output = command
        .arg(script)
        .arg(directory)
        .args(["--count", COUNT])
        .output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    Ok(())
}

fn verify(name: &str, path: &Path, python: &SharedPython) -> Result<(), Failed> {
    let module = lock(python).import(path, &ImportOptions::default(), &mut |_| {});
    if let Some((_, operator)) = REFUSED.iter().find(|(entry, _)| name.starts_with(entry)) {
        let message = module.err().ok_or("it is supported now")?.to_string();
        return message.contains(operator).then_some(()).ok_or(message.into());
    }
    let module = module?;
    let registry = akg::registry();
    let session = Session::new(registry.dsl("cpp")?, registry.backend("cpu")?).with_timing(None);
    let outcome = blocking::run(&session, &module.task(name, python))?;
    if outcome.best().is_some() {
        return Ok(());
    }
    let failures = outcome
        .attempts
        .iter()
        .filter_map(|attempt| attempt.verdict.failure.as_ref());
    let failures: Vec<String> = failures
        .map(|failure| format!("{}: {}", failure.kind.name(), failure.evidence))
        .collect();
    Err(format!("{}; {}", outcome.stopped, failures.join("; ")).into())
}
