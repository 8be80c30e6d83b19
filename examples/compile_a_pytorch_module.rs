//! A PyTorch module in, a verified kernel out.

use std::path::Path;

use akg::python::{Config, Environment, ImportOptions, Python, PythonOptions};
use akg::session::Attempt;
use akg::{Error, ErrorKind, Session, Task, blocking};

fn main() -> akg::Result<()> {
    akg::worker::init();
    let environment = match Environment::find(&Config::default()) {
        Err(error) if error.kind() == ErrorKind::ToolMissing && std::env::var_os("AKG_PYTHON").is_none() => {
            eprintln!("skipped: {error}");
            return Ok(());
        }
        found => found?,
    };
    println!("{}", environment.describe());
    let mut python = Python::new(environment, PythonOptions::default());
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/modules/mlp.py");
    let module = python.import(&path, &ImportOptions::default(), &mut |step| println!("{step}"))?;
    println!("{}", module.graph);

    let registry = akg::registry();
    let session = Session::new(registry.dsl("cpp")?, registry.backend("cpu")?);
    let outcome = blocking::run(&session, &Task::new("mlp", module.graph))?;
    for kernel in &outcome.kernels {
        println!("kernel {}: {}", kernel.name, kernel.operators.join(", "));
    }
    for Attempt { verdict, timing, .. } in &outcome.attempts {
        let time = timing
            .as_ref()
            .and_then(|contest| contest.candidate()?.warm.median())
            .map_or("not timed".to_owned(), |s| format!("{:.3} ms", 1e3 * s));
        match &verdict.failure {
            None => println!(
                "passed in class {}, error {:.2e} rms, {time}",
                verdict.accuracy,
                verdict.worst_error().rms
            ),
            Some(failure) => println!("failed: {}: {}", failure.kind.name(), failure.evidence),
        }
    }
    match outcome.best() {
        Some(_) => Ok(()),
        None => Err(Error::unexpected(format!(
            "no kernel passed: {}",
            outcome.stopped
        ))),
    }
}
