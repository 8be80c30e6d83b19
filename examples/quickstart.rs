//! From a graph to a called kernel.

use akg::backend::{Limits, Poison, RunRequest};
use akg::{DType, Error, Graph, Session, Task, Tensor, blocking};

fn main() -> akg::Result<()> {
    akg::worker::init(); // candidates run in a process of their own: this program, started again

    let mut graph = Graph::new("quickstart");
    let x = graph.input("x", DType::F32, [4, 1000]);
    let y = graph.relu(x)?;
    let y = graph.softmax(y, -1)?;
    graph.output(y);

    let registry = akg::registry();
    let (dsl, backend) = (registry.dsl("cpp")?, registry.backend("cpu")?);
    let session = Session::new(dsl.clone(), backend.clone());
    let outcome = blocking::run(&session, &Task::new("quickstart", graph))?;
    let Some(kernel) = outcome.best() else {
        return Err(Error::unexpected(format!(
            "no kernel passed: {:?}",
            outcome.failure()
        )));
    };
    println!(
        "{} checks, error against f64 {:.1e}",
        kernel.verdict.checks.len(),
        kernel.verdict.worst_error().rms
    );

    let values: Vec<f32> = (0..4000).map(|i| (i % 7) as f32).collect();
    let artifact = dsl
        .build(&kernel.source, &outcome.target)?
        .map_err(|failure| Error::unexpected(failure.evidence))?;
    let request = RunRequest {
        artifact,
        inputs: vec![Tensor::from_slice([4, 1000], &values)?],
        dims: [].into(),
        poison: Poison::Ones,
        limits: Limits::default(),
    };
    let output =
        blocking::run_once(&*backend, request)?.map_err(|failure| Error::unexpected(failure.evidence))?;
    println!("y[0, 6] = {}", output.outputs[0].as_slice::<f32>()?[6]);
    Ok(())
}
